//! Aggregations: which windows they run over, and what is kept for each group.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::Case;
use datafusion_expr::logical_plan::Aggregate;
use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{Cast, Expr, ExprSchemable, LogicalPlan, cast, lit};
use pelton_data::column::sql_name;

use crate::bind::names::Names;
use crate::bind::window_columns::{WINDOW_COLUMNS, result_time_field};
use crate::coerce::held_types::{held_or_same, held_type, part_of};
use crate::coerce::simplify::simplify;
use crate::coerce::zeros::with_one_zero;
use crate::errors::{Place, PlanError, external};
use crate::lower::Lowering;
use crate::lower::accumulate::Collector;
use crate::lower::grouping_sets::Sets;
use crate::lower::scope::{INPUT, WINDOW, cast_to, column, without_dictionary_cast};
use crate::lower::unbound::{Branch, Relation, UnboundTarget};
use crate::lower::window_bounds::materialize;
use crate::pipeline::{Operator, StreamRef, Window, WindowAggregate, WindowColumn};

/// What a grouping expression is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Group {
    /// `window_start`, `window_end` or `window_time`, by its position in [`WINDOW_COLUMNS`].
    Bound(usize),
    /// The same value for all rows.
    Constant(Expr),
    /// Anything else.
    Key(Expr),
}

impl Lowering<'_> {
    /// An aggregation; `plan` is the plan that consists of it.
    pub(crate) fn aggregate(&mut self, plan: &LogicalPlan, aggregate: &Aggregate) -> Result<Relation> {
        if let Some((_, relation)) = self.unbound.aggregates.iter().find(|(known, _)| known == plan) {
            return Ok(relation.clone());
        }
        let input = self.relation(&aggregate.input)?;
        let sets = Sets::of(aggregate)?;
        let mut branches = Vec::new();
        for (number, set) in sets.iter().enumerate() {
            branches.extend(self.group_by_set(&input, aggregate, &sets, (number, set))?.branches);
        }
        let relation = Relation { branches };
        self.unbound.aggregates.push((plan.clone(), relation.clone()));
        Ok(relation)
    }

    /// Groups rows by a set of the grouping expressions, given its number and which of all these it has.
    fn group_by_set(
        &mut self,
        input: &Relation,
        aggregate: &Aggregate,
        sets: &Sets,
        (number, set): (usize, &[usize]),
    ) -> Result<Relation> {
        let schema = aggregate.input.schema();
        // The plan has a column once for what is grouped by twice.
        let grouping = grouping_set_to_exprlist(&aggregate.group_expr)?;
        // Several sets have no result where there are no rows, the one that has no member among them.
        let is_all_rows = set.is_empty() && sets.are_several();
        let members = |branch: &Branch| {
            let group = |member: &usize| simplify(branch.substitute(grouping[*member], schema)?, &branch.scope);
            set.iter().map(group).chain(is_all_rows.then(|| Ok(lit(true)))).collect::<Result<Vec<_>>>()
        };
        let input = self.by_window_or_apart(input.clone(), members)?;
        let groups = input.branches.iter().map(members).collect::<Result<Vec<_>>>()?;
        let fields = aggregate.schema.fields();
        let mut set_fields: Vec<FieldRef> = set.iter().map(|member| fields[*member].clone()).collect();
        set_fields.extend(is_all_rows.then(|| Arc::new(Field::new("all", DataType::Boolean, false))));
        let keys = set_fields.len();
        let mut aggregates = Vec::new();
        let mut functions = Vec::new();
        for (expression, field) in aggregate.aggr_expr.iter().zip(&fields[sets.first_aggregate()..]) {
            functions.push(sets.function(number, expression, aggregate, self.locations)?);
            if functions.last().is_some_and(Option::is_none) {
                let substituted = input.branches.iter().map(|branch| branch.substitute(expression, schema));
                aggregates.push(substituted.collect::<Result<Vec<_>>>()?);
                set_fields.push(field.clone());
            }
        }
        let mut relation = self.group(input, groups, aggregates, set_fields)?;
        for branch in &mut relation.branches {
            let mut computed = branch.columns.split_off(keys).into_iter();
            let next =
                |constant: &Option<Expr>| constant.clone().or_else(|| computed.next()).expect("a column for each");
            let aggregates = functions.iter().map(next).collect();
            branch.columns = sets.columns(set, &branch.columns, aggregates, &aggregate.schema)?;
        }
        Ok(relation)
    }

    /// `SELECT DISTINCT`: groups by all columns.
    pub(crate) fn distinct(&mut self, input: &LogicalPlan) -> Result<Relation> {
        let relation = self.relation(input)?;
        let relation = self.by_window_or_apart(relation, |branch| Ok(branch.columns.clone()))?;
        let groups = relation.branches.iter().map(|branch| branch.columns.clone()).collect();
        self.group(relation, groups, Vec::new(), input.schema().fields().iter().cloned().collect())
    }

    /// Rows that are grouped: those of windows that have a row several times are read one by one where `groups` has none of the windows' bounds.
    fn by_window_or_apart(&self, input: Relation, groups: impl Fn(&Branch) -> Result<Vec<Expr>>) -> Result<Relation> {
        for branch in &input.branches {
            if groups(branch)?.iter().any(|group| self.bound(branch, group).is_some()) {
                return Ok(input);
            }
        }
        input.each_in_its_windows()
    }

    /// Groups rows. `groups` holds the grouping expressions of each branch; `aggregates` for each aggregate one expression
    /// a branch; `fields` are the result's.
    fn group(
        &mut self,
        input: Relation,
        groups: Vec<Vec<Expr>>,
        aggregates: Vec<Vec<Expr>>,
        fields: Vec<FieldRef>,
    ) -> Result<Relation> {
        let (bounds, mut groups) = self.window_of(&input, groups)?;
        let window = self.window_of_rows(&input, bounds)?;
        self.keep_a_key(&input, window, &mut groups)?;
        let keys: Vec<usize> = (0..groups[0].len()).filter(|g| matches!(groups[0][*g], Group::Key(_))).collect();
        let of_branches = |key: usize| groups.iter().map(move |group| group[key].key());
        let are_starts = |key: &usize| self.say_starts(&input.branches, of_branches(keys[*key]));
        let starts: Vec<usize> = (0..keys.len()).filter(are_starts).collect();
        let may_be_empty = window == Window::Global && keys.is_empty();
        let mut collector = Collector::new(input.branches, &window, may_be_empty);
        let mut names = Names::default();
        let mut columns = Vec::new();
        let mut window_fields = Vec::new();
        let mut results = Vec::new();
        for (index, field) in fields[..groups[0].len()].iter().enumerate() {
            let (window_column, nullable) = match &groups[0][index] {
                Group::Constant(value) => {
                    results.push(value.clone());
                    continue;
                }
                Group::Bound(bound) => (WindowColumn::BOUNDS[*bound].clone(), false),
                Group::Key(_) => {
                    let key = keys.iter().position(|key| *key == index).expect("a key");
                    (WindowColumn::Key(key), collector.is_nullable(groups.iter().map(|group| group[index].key())))
                }
            };
            let name = names.unique(field.name());
            let data_type = held_or_same(field.data_type());
            results.push(result(&name, &data_type, field));
            columns.push(window_column);
            window_fields.push(Field::new(name, data_type, nullable));
        }
        for (expressions, field) in aggregates.into_iter().zip(&fields[groups[0].len()..]) {
            let (window_column, data_type, nullable) = self.window_value(&mut collector, expressions, field)?;
            let name = names.unique(field.name());
            results.push(result(&name, &data_type, field));
            columns.push(window_column);
            window_fields.push(Field::new(name, data_type, nullable));
        }
        let time_column = columns.iter().position(|column| *column == WindowColumn::Time);
        let key_fields = key_fields(&collector.branches, &groups, keys.iter().map(|&key| fields[key].name().as_str()))?;
        let session_slots = self.session_slots(window, &mut collector)?;
        let operator = self.unbound.operators.len();
        self.unbound.starts.extend(starts.into_iter().map(|key| (operator, WindowColumn::Key(key))));
        let mut branch = self.unbound.add_operator(Operator::Window(WindowAggregate {
            window,
            bounds,
            keys: key_fields,
            accumulators: collector.accumulators.clone(),
            session_slots,
            ranking: None,
            collected: Vec::new(),
            columns,
            schema: Arc::new(Schema::new(window_fields)),
            time_column,
            slices: None,
        }))?;
        self.feed_groups(operator, collector, &groups)?;
        branch.columns = results;
        Ok(Relation { branches: vec![branch] })
    }

    /// Ends the branches in a window that groups rows.
    pub(crate) fn feed_groups(&mut self, operator: usize, collector: Collector, groups: &[Vec<Group>]) -> Result<()> {
        for (number, branch) in collector.branches.into_iter().enumerate() {
            let keys = groups[number].iter().filter_map(Group::as_key).map(|key| {
                without_dictionary_cast(key.clone(), &branch.scope).and_then(|key| with_one_zero(key, &branch.scope))
            });
            let keys = keys.collect::<Result<Vec<Expr>>>()?;
            let arguments = collector.arguments.iter().map(|arguments| arguments[number].clone()).collect();
            let time = branch.cut.as_ref().and_then(|cut| cut.time.clone());
            self.unbound.end(branch, UnboundTarget::Groups { operator, keys, arguments, time });
        }
        Ok(())
    }

    /// The windows that groups are formed in, and what each grouping expression of each branch is.
    pub(crate) fn window_of(&mut self, input: &Relation, groups: Vec<Vec<Expr>>) -> Result<(Window, Vec<Vec<Group>>)> {
        let mut windows = Vec::new();
        let mut classified = Vec::new();
        for (branch, expressions) in input.branches.iter().zip(groups) {
            let bounds: Vec<_> = expressions.iter().map(|expression| self.bound(branch, expression)).collect();
            let is_windowed = bounds.iter().flatten().next().is_some();
            self.check_bounds(branch, &bounds)?;
            windows.push(bounds.iter().flatten().map(|(window, _)| *window).find(|_| is_windowed));
            let pairs = expressions.into_iter().zip(bounds);
            let groups = pairs.map(|(expression, bound)| match bound {
                Some((window, 0)) if is_windowed && branch.say_starts(window) => self.key(expression, branch),
                Some((_, bound)) if is_windowed => Ok(Group::Bound(bound)),
                _ => match simplify(materialize(expression, branch)?, &branch.scope)? {
                    constant @ Expr::Literal(..) => Ok(Group::Constant(constant)),
                    key => self.key(key, branch),
                },
            });
            let groups = groups.collect::<Result<Vec<_>>>()?;
            match is_windowed {
                true => self.check_partition_keys(branch, &groups)?,
                false => branch.check_each_row_once()?,
            }
            classified.push(groups);
        }
        let window = self.one_window(input, &windows)?;
        self.align(input, &mut classified)?;
        if window != Window::Global {
            for branch in input.branches.iter().filter(|branch| branch.cut.is_none()) {
                self.ensure_time_column(branch.input);
            }
        }
        Ok((window, classified))
    }

    /// Refuses to group by one bound of windows that other windows of the rows have as well.
    fn check_bounds(&self, branch: &Branch, bounds: &[Option<(Window, usize)>]) -> Result<()> {
        let has = |wanted: usize| bounds.iter().flatten().any(|(_, bound)| *bound == wanted);
        let Some((window, _)) = bounds.iter().flatten().next() else { return Ok(()) };
        let lacking = match shared_bound(*window, branch.cut.is_some()) {
            Some(SharedBound::Either) if !has(0) => 0,
            Some(_) if !has(1) && !has(2) => 1,
            _ => return Ok(()),
        };
        let lacking = WINDOW_COLUMNS[lacking];
        let construct = self.locations.grouping_construct;
        let message = format!("{construct} of a window lacks {lacking}");
        let hint = match construct {
            "SELECT DISTINCT" => "select both window_start and window_end",
            _ => "group by both window_start and window_end",
        };
        Err(external(PlanError::invalid(self.locations.grouping, message).with_hint(hint)))
    }

    /// A grouping expression as tables hold it.
    fn key(&self, expression: Expr, branch: &Branch) -> Result<Group> {
        let data_type = expression.get_type(branch.scope.as_ref())?;
        let held = held_type(&data_type).ok_or_else(|| self.refused_key(&data_type))?;
        Ok(Group::Key(cast_to(expression, &held, &branch.scope)?))
    }

    /// Makes one of several constants, the first that can be one, a key where there is nothing else: without rows there is no group, and groups that nothing is asked of
    /// are counted by the length of a column.
    fn keep_a_key(&self, input: &Relation, window: Window, groups: &mut [Vec<Group>]) -> Result<()> {
        for (group, branch) in groups.iter_mut().zip(&input.branches).filter(|_| window == Window::Global) {
            let constant = |group: &Group| match group {
                Group::Constant(value) => Some(value.clone()),
                Group::Bound(_) | Group::Key(_) => None,
            };
            let Some(constants) = group.iter().map(constant).collect::<Option<Vec<Expr>>>() else { continue };
            let held = |value: &Expr| value.get_type(branch.scope.as_ref()).is_ok_and(|of| held_type(&of).is_some());
            let kept = constants.iter().position(held).unwrap_or(0);
            if let Some(value) = constants.into_iter().nth(kept) {
                group[kept] = self.key(value, branch)?;
            }
        }
        Ok(())
    }

    /// The windows that rows fall into which are grouped by the bounds of `bounds`: these, or those of their results.
    pub(crate) fn window_of_rows(&self, input: &Relation, bounds: Window) -> Result<Window> {
        let results = input.branches.iter().filter(|branch| branch.cut.is_none()).count();
        let refused = |construct: &str, hint: &str| {
            Err(external(PlanError::unsupported(self.locations.grouping, construct, hint)))
        };
        if bounds.counts_rows() && results == 0 && input.branches.len() > 1 {
            return refused("grouping a UNION ALL of windows that count rows", "group each part by itself");
        }
        // When all keys have had their window of one number is never known.
        if results > 0 && matches!(bounds, Window::RowsByKey { .. }) {
            let construct =
                "grouping the results of windows that count the rows of each key by their windows once more";
            return refused(construct, "count these results by themselves");
        }
        if results == input.branches.len() {
            return Ok(bounds.of_results());
        }
        if results > 0 && bounds.of_results() != bounds {
            let message = "a part of a UNION ALL has results of the windows that another is cut into";
            let hint = "aggregate all parts first, or none";
            return Err(external(PlanError::invalid(self.locations.grouping, message).with_hint(hint)));
        }
        Ok(bounds)
    }

    pub(crate) fn refused_key(&self, data_type: &DataType) -> datafusion_common::DataFusionError {
        let construct = format!("grouping by a value of type {}", sql_name(data_type));
        let hint = match part_of(data_type) {
            Some(part) => format!("group by parts of it, as in {part}"),
            None => "cast it to STRING or a number".to_string(),
        };
        external(PlanError::unsupported(self.locations.grouping, construct, hint))
    }

    /// The window, and which of its bounds, that a grouping expression is.
    pub(crate) fn bound(&self, branch: &Branch, expression: &Expr) -> Option<(Window, usize)> {
        let Expr::Column(name) = expression else { return None };
        if let Some(cut) = &branch.cut {
            let is_bound = name.relation.as_ref().is_some_and(|relation| relation.table() == WINDOW);
            let bound = WINDOW_COLUMNS.iter().position(|column| *column == name.name).filter(|_| is_bound)?;
            return Some((cut.window, bound));
        }
        self.unbound.window_bound(branch.input, expression)
    }

    /// Whether an expression over the rows of all branches says where their windows begin, where their ends do not.
    pub(crate) fn say_starts<'e>(&self, branches: &[Branch], expressions: impl Iterator<Item = &'e Expr>) -> bool {
        branches.iter().zip(expressions).all(|(branch, expression)| {
            self.bound(branch, expression).is_some_and(|(window, bound)| bound == 0 && branch.say_starts(window))
        })
    }

    /// A bound of the windows that a branch's rows fall into, as a value.
    fn bound_value(&self, branch: &Branch, bound: usize) -> Result<Expr> {
        let is_bound = |column: &WindowColumn| *column == WindowColumn::BOUNDS[bound];
        if branch.cut.is_none()
            && let Some(name) = self.unbound.join_bound_column(branch.input, bound)
        {
            return Ok(column(INPUT, &name));
        }
        match self.unbound.window_behind(branch.input) {
            Some((_, window)) if branch.cut.is_none() => {
                let index =
                    window.columns.iter().position(is_bound).expect("results that are grouped by a bound have it");
                Ok(column(INPUT, window.schema.field(index).name()))
            }
            _ => materialize(column(WINDOW, WINDOW_COLUMNS[bound]), branch),
        }
    }

    fn one_window(&self, input: &Relation, windows: &[Option<Window>]) -> Result<Window> {
        let first = windows[0];
        if windows.iter().any(|window| *window != first) {
            return Err(external(different_windows(self.locations.grouping, self.locations.grouping_construct)));
        }
        match first {
            Some(window) => Ok(window),
            None => self.window_of_all(input),
        }
    }

    /// The window over all rows, which must have an end.
    pub(crate) fn window_of_all(&self, input: &Relation) -> Result<Window> {
        if self.unbound.is_bounded(input) {
            return Ok(Window::Global);
        }
        if let Some(place) = input.branches.iter().find_map(|branch| branch.apart) {
            let construct = "grouping rows that are in several windows behind a condition on the bounds of these";
            let hint = "write the condition behind HAVING, or around the query";
            return Err(external(PlanError::unsupported(Some(place), construct, hint)));
        }
        let construct = format!("{} without a window over an unbounded table", self.locations.grouping_construct);
        let hint = match is_set_operation(self.locations.grouping_construct) {
            true => WINDOWS_IN_BOTH_PARTS,
            false => self.locations.windowed_grouping(),
        };
        Err(external(PlanError::unsupported(self.locations.grouping, construct, hint)))
    }

    /// Makes a grouping expression a key in all branches where it is one, or another constant, in any.
    fn align(&self, input: &Relation, groups: &mut [Vec<Group>]) -> Result<()> {
        for index in 0..groups[0].len() {
            let first = groups[0][index].clone();
            if groups
                .iter()
                .all(|group| group[index] == first || matches!((&group[index], &first), (Group::Key(_), Group::Key(_))))
            {
                continue;
            }
            for (group, branch) in groups.iter_mut().zip(&input.branches) {
                group[index] = match &group[index] {
                    Group::Constant(value) => self.key(value.clone(), branch)?,
                    Group::Bound(bound) => Group::Key(self.bound_value(branch, *bound)?),
                    key => key.clone(),
                };
            }
        }
        Ok(())
    }

    /// A window over a window's rows needs their event time.
    pub(crate) fn ensure_time_column(&mut self, stream: StreamRef) {
        if self.unbound.ensure_time_of_join(stream) {
            return;
        }
        let Some((number, _)) = self.unbound.window_behind(stream) else { return };
        let window = self.unbound.window_mut(number);
        if window.time_column.is_some() {
            return;
        }
        let time = result_time_field(&window.bounds);
        let mut fields = window.schema.fields().to_vec();
        let mut names = Names::default();
        for field in &fields {
            names.unique(field.name());
        }
        fields.push(Arc::new(time.as_ref().clone().with_name(names.unique(time.name()))));
        window.time_column = Some(window.columns.len());
        window.columns.push(WindowColumn::Time);
        window.schema = Arc::new(Schema::new(fields));
    }
}

/// A bound that several windows of the same rows may have.
enum SharedBound {
    /// The start: windows that begin together end one after the other.
    Start,
    /// Each of the two.
    Either,
}

/// The bound that several windows may have in common; `None` where each of the two tells which window it is. Rows that are cut into sessions are of one key in
/// each group, and their results of many.
fn shared_bound(window: Window, is_cut: bool) -> Option<SharedBound> {
    match window {
        Window::Cumulative { .. } => Some(SharedBound::Start),
        Window::Zoned(zoned) => shared_bound(zoned.by_clock(), is_cut),
        Window::Session { .. } if !is_cut => Some(SharedBound::Either),
        _ => None,
    }
}

/// How the parts of UNION, INTERSECT and EXCEPT have windows.
const WINDOWS_IN_BOTH_PARTS: &str = "select window_start and window_end in both parts, \
                                     from TABLE(TUMBLE(TABLE t, DESCRIPTOR(time_column), INTERVAL '10' SECOND))";

fn is_set_operation(construct: &str) -> bool {
    matches!(construct, "UNION" | "INTERSECT" | "EXCEPT")
}

/// The error for parts of a UNION ALL, or of another `construct`, that have windows which are not the same.
pub(crate) fn different_windows(place: Option<Place>, construct: &str) -> PlanError {
    if is_set_operation(construct) {
        let message = format!("the parts of {construct} are cut into different windows");
        return PlanError::invalid(place, message).with_hint("give both parts the same windows");
    }
    let message = "the parts of a UNION ALL are cut into different windows";
    PlanError::invalid(place, message).with_hint("give all parts the same windows, or cut windows after the UNION ALL")
}

/// The fields of keys of these names.
pub(crate) fn key_fields<'n>(
    branches: &[Branch],
    groups: &[Vec<Group>],
    names: impl Iterator<Item = &'n str>,
) -> Result<Vec<FieldRef>> {
    let field = |(number, name): (usize, &str)| {
        let of_branches = branches.iter().zip(groups).map(|(branch, groups)| {
            let key = groups.iter().filter_map(Group::as_key).nth(number).expect("all branches have the same keys");
            key.to_field(branch.scope.as_ref()).map(|(_, field)| field)
        });
        let of_branches = of_branches.collect::<Result<Vec<FieldRef>>>()?;
        let nullable = of_branches.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(name, held_or_same(of_branches[0].data_type()), nullable)))
    };
    names.enumerate().map(field).collect()
}

/// The column `name` of a stream's rows as a value of the type that the plan gives it.
pub(crate) fn result(name: &str, data_type: &DataType, planned: &Field) -> Expr {
    as_planned(column(INPUT, name), data_type, planned)
}

/// `value`, which has a type that blocks hold, as one of the type that the plan gives it.
pub(crate) fn as_planned(value: Expr, data_type: &DataType, planned: &Field) -> Expr {
    match planned.data_type() {
        same if same == data_type => value,
        DataType::Null => Expr::Literal(ScalarValue::Null, None),
        integer if integer.is_integer() && *data_type == DataType::Float64 => variance_as(value, integer),
        other => Expr::Cast(Cast::new(Box::new(value), other.clone())),
    }
}

/// A variance, or its root, as an integer, as Flink has it: without its fraction, INT and BIGINT no greater than they can be, and of shorter types the lowest bits.
fn variance_as(variance: Expr, data_type: &DataType) -> Expr {
    let (greatest, limit) = match data_type {
        DataType::Int64 => (ScalarValue::Int64(Some(i64::MAX)), -(i64::MIN as f64)),
        _ => (ScalarValue::Int32(Some(i32::MAX)), -f64::from(i32::MIN)),
    };
    let whole = cast(variance.clone(), greatest.data_type());
    let is_greater = variance.gt_eq(lit(limit));
    let greatest = Expr::Literal(greatest, None);
    let whole = Expr::Case(Case::new(None, vec![(is_greater.into(), greatest.into())], Some(whole.into())));
    let bits = match data_type {
        DataType::Int8 => 8,
        DataType::Int16 => 16,
        _ => return whole,
    };
    let half = || lit(1_i64 << (bits - 1));
    cast((cast(whole, DataType::Int64) + half()) % lit(1_i64 << bits) - half(), data_type.clone())
}

impl Group {
    /// The expression, where it is a key.
    pub fn as_key(&self) -> Option<&Expr> {
        match self {
            Group::Key(key) => Some(key),
            Group::Bound(_) | Group::Constant(_) => None,
        }
    }

    fn key(&self) -> &Expr {
        match self {
            Group::Key(key) => key,
            other => unreachable!("{other:?} is a key in another branch"),
        }
    }
}
