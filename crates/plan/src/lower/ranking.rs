//! Top-N and deduplication of windows: `ROW_NUMBER() OVER (PARTITION BY window_start, window_end, … ORDER BY …) AS rn`, and
//! `WHERE rn <= n` above it, or RANK or DENSE_RANK in its place. The windows keep their first rows; the condition says how many. `RESULT_KIND() OVER` the same says whether rows
//! are those that a window came to, or correct them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::WindowFunction;
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator as Comparison, SortExpr, lit};
use pelton_data::aggregate::POSITION_INPUTS_MAX;
use pelton_data::arrangement::OrderKey;
use pelton_data::ranking::{Numbering, Ranking};

use crate::bind::aggregate_functions::RESULT_KIND;
use crate::bind::window_columns::WINDOW_COLUMNS;
use crate::coerce::simplify::simplify;
use crate::coerce::zeros::with_one_zero;
use crate::errors::{PlanError, external};
use crate::lower::Lowering;
use crate::lower::aggregate::result;
use crate::lower::over::{Added, Collector};
use crate::lower::scope::{ARRIVAL, INPUT, column, is_of};
use crate::lower::unbound::{Branch, Relation};
use crate::pipeline::{Operator, StreamRef, WindowAggregate, WindowColumn};

/// What the number of rows to keep is written as.
const FORM: &str = "write SELECT … FROM (SELECT …, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY x DESC) AS rn FROM …) WHERE rn <= 10";

/// No condition has said yet how many rows are kept.
pub(crate) const UNBOUNDED: u64 = u64::MAX;

pub(crate) const ROW_NUMBER: &str = "row_number";

/// Functions that number rows.
const NUMBERS: [(&str, Numbering); 3] =
    [(ROW_NUMBER, Numbering::Rows), ("rank", Numbering::Rank), ("dense_rank", Numbering::DenseRank)];

/// How a function numbers rows, if it does.
fn numbering_of(function: &WindowFunction) -> Option<Numbering> {
    let name = function.fun.name();
    NUMBERS.iter().find(|(known, _)| *known == name).map(|(_, numbering)| *numbering)
}

/// In which order rows stand that the order of a ranking does not tell apart.
struct Arrival {
    /// Whether it is known how they came.
    is_known: bool,
    /// The order ends with the processing time, by which each row has a place of its own: whether it descends.
    by_processing_time: Option<bool>,
}

impl Lowering<'_> {
    /// Whether functions over rows number the rows of windows.
    pub(crate) fn numbers_windows(
        &self,
        functions: &[&WindowFunction],
        input: &Relation,
        schema: &DFSchema,
    ) -> Result<bool> {
        let is_number = |function: &&WindowFunction| numbering_of(function).is_some();
        let are_known = functions.iter().all(|function| is_number(function) || function.fun.name() == RESULT_KIND);
        let Some(function) = functions.iter().copied().find(is_number).filter(|_| are_known) else { return Ok(false) };
        let place = self.locations.over(function.fun.name());
        for branch in &input.branches {
            let partition = function.params.partition_by.iter().map(|key| branch.substitute(key, schema));
            let partition = partition.collect::<Result<Vec<_>>>()?;
            let has = |wanted: usize| partition.iter().any(|key| self.is_bound(branch, key, wanted));
            if has(0) && has(1) {
                continue;
            }
            if has(0) || has(1) {
                let lacking = WINDOW_COLUMNS[usize::from(has(0))];
                let message = format!("PARTITION BY of a window lacks {lacking}");
                let hint = "partition by both window_start and window_end";
                return Err(external(PlanError::invalid(place, message).with_hint(hint)));
            }
            return Ok(false);
        }
        if functions.iter().filter_map(|other| numbering_of(other)).any(|other| Some(other) != numbering_of(function)) {
            let construct = "numbering the rows of windows by several functions";
            let hint = "choose one of ROW_NUMBER, RANK and DENSE_RANK";
            return Err(external(PlanError::unsupported(place, construct, hint)));
        }
        Ok(true)
    }

    fn is_bound(&self, branch: &Branch, expression: &Expr, wanted: usize) -> bool {
        self.bound(branch, expression).is_some_and(|(_, bound)| bound == wanted)
    }

    /// The rows of windows, numbered; `plan` is the input's, `functions` are the ROW_NUMBER and what else is asked of the rows, and `fields` theirs.
    pub(crate) fn number_rows(
        &mut self,
        functions: &[&WindowFunction],
        fields: &[FieldRef],
        input: Relation,
        plan: &LogicalPlan,
    ) -> Result<Relation> {
        let schema = plan.schema();
        let is_number = |function: &&&WindowFunction| numbering_of(function).is_some();
        let function = *functions.iter().find(is_number).expect("rows are numbered");
        let partition = &function.params.partition_by;
        let groups = input.branches.iter().map(|branch| {
            let keys = partition.iter().map(|key| simplify(branch.substitute(key, schema)?, &branch.scope));
            keys.collect::<Result<Vec<_>>>()
        });
        let groups = groups.collect::<Result<Vec<_>>>()?;
        let place = self.locations.over(function.fun.name());
        // All rows are one window, and numbered as one, where they are in no order.
        let is_ordered = !function.params.order_by.is_empty();
        let is_windowed = is_ordered || self.numbers_windows(functions, &input, schema)?;
        let by_key = if is_windowed { self.groups_by_key(&input, &groups, place)? } else { None };
        let is_by_key = by_key.is_some();
        let (bounds, groups) = match is_windowed {
            true => self.window_of(&input, by_key.unwrap_or(groups))?,
            false => (self.window_of_all(&input)?, Vec::new()),
        };
        self.check_results(&input, bounds, place)?;
        let window = if is_windowed { self.window_of_rows(&input, bounds)? } else { bounds };
        let mut collector = Collector::new(input);
        let mut numbered = self.numbered_columns(&mut collector, schema, is_windowed)?;
        functions
            .iter()
            .zip(fields)
            .for_each(|(function, field)| numbered.add_function(function, field, &mut collector));
        let is_descending = self.is_by_time_descending(&collector, function, schema)?;
        let ranking = self.ranking(&mut collector, function, schema, is_windowed)?;
        let time_column = numbered.columns.iter().position(|column| *column == WindowColumn::Time);
        let operator = self.unbound.operators.len();
        self.unbound.descending.extend(is_descending.then_some(operator));
        self.unbound.numbered_whole.extend((!is_ordered).then_some(operator));
        let are_starts = |key: &&usize| self.say_starts(&collector.branches, collector.columns[**key].iter());
        let starts: Vec<usize> = ranking.keys.iter().filter(are_starts).copied().collect();
        self.unbound.starts.extend(starts.into_iter().map(|key| (operator, WindowColumn::Row(key))));
        let mut window = WindowAggregate {
            window,
            bounds,
            keys: Vec::new(),
            accumulators: Vec::new(),
            session_slots: None,
            ranking: None,
            collected: Vec::new(),
            columns: numbered.columns,
            schema: Arc::new(Schema::new(numbered.fields)),
            time_column,
            slices: None,
        };
        match is_by_key {
            true => self.collect_rows((operator, place), &mut window, &ranking, collector, &groups)?,
            false => self.feed_ranking(operator, collector),
        }
        window.ranking = Some(ranking);
        let mut branch = self.unbound.add_operator(Operator::Window(window))?;
        branch.columns = numbered.results;
        Ok(Relation { branches: vec![branch] })
    }

    /// The columns of the rows, which are added to those that are kept; the bounds of windows are those of the numbered rows' where these are those
    /// `of_windows`.
    pub(crate) fn numbered_columns(
        &self,
        collector: &mut Collector,
        schema: &DFSchema,
        of_windows: bool,
    ) -> Result<Numbered> {
        let mut numbered = Numbered::default();
        for (index, field) in schema.fields().iter().enumerate() {
            let values: Vec<Expr> = collector.branches.iter().map(|branch| branch.columns[index].clone()).collect();
            let (column, data_type) = match self.common_bound(collector, &values).filter(|_| of_windows) {
                Some(bound) => (WindowColumn::BOUNDS[bound].clone(), field.data_type().clone()),
                None => match collector.hand_on(values, field.name())? {
                    Added::Constant(value) => {
                        numbered.results.push(value);
                        continue;
                    }
                    Added::Column(column) => (WindowColumn::Row(column), collector.fields[column].data_type().clone()),
                },
            };
            let nullable = match column {
                WindowColumn::Row(column) => collector.fields[column].is_nullable(),
                _ => false,
            };
            let name = match column {
                WindowColumn::Row(column) => collector.fields[column].name().clone(),
                _ => collector.names.unique(field.name()),
            };
            numbered.add(column, Field::new(name, data_type, nullable), field);
        }
        Ok(numbered)
    }

    /// The bound of its window that a column is in all branches, where the window's end tells it.
    fn common_bound(&self, collector: &Collector, values: &[Expr]) -> Option<usize> {
        if self.say_starts(&collector.branches, values.iter()) {
            return None;
        }
        let mut bounds = collector.branches.iter().zip(values).map(|(branch, value)| self.bound(branch, value));
        let (_, first) = bounds.next()??;
        bounds.all(|bound| bound.is_some_and(|(_, bound)| bound == first)).then_some(first)
    }

    /// Adds keys and order to the columns that are kept.
    fn ranking(
        &self,
        collector: &mut Collector,
        function: &WindowFunction,
        schema: &DFSchema,
        of_windows: bool,
    ) -> Result<Ranking> {
        let mut keys = Vec::new();
        for key in &function.params.partition_by {
            let values = collector.of_branches(key, schema)?;
            if !of_windows || self.common_bound(collector, &values).is_none() {
                keys.extend(
                    collector.add_key(key, schema, self.locations.first_over())?.filter(|key| !keys.contains(key)),
                );
            }
        }
        let mut order: Vec<OrderKey> = Vec::new();
        let mut arrival = Arrival { is_known: self.is_arrival_known(&collector.branches), by_processing_time: None };
        for SortExpr { expr, asc, nulls_first } in &function.params.order_by {
            let values = collector.of_branches(expr, schema)?;
            if self.are_processing_times(&collector.branches, &values) {
                arrival.by_processing_time = Some(!asc);
                break;
            }
            // The rows of one window have the same bounds.
            if self.common_bound(collector, &values).is_some() {
                continue;
            }
            let pairs = collector.branches.iter().zip(values);
            let values = pairs.map(|(branch, value)| with_one_zero(value, &branch.scope)).collect::<Result<_>>()?;
            let Added::Column(column) = collector.add(values, "order")? else { continue };
            if !keys.contains(&column) && !order.iter().any(|known| known.column == column) {
                order.push(OrderKey { column, descending: !asc, nulls_first: *nulls_first });
            }
        }
        if (0..collector.fields.len()).all(|column| keys.contains(&column)) {
            collector.add_column(vec![lit(true); collector.branches.len()], "row")?;
        }
        let numbering = match (numbering_of(function).expect("the function numbers rows"), arrival.by_processing_time) {
            // No two rows came at the same time.
            (_, Some(_)) => Numbering::Rows,
            (numbering, None) => numbering,
        };
        let column = arrival.is_known.then(|| add_arrival(collector)).transpose()?;
        if let Some(column) = column {
            let descending = arrival.by_processing_time == Some(true);
            order.push(OrderKey { column, descending, nulls_first: true });
        }
        let schema = Arc::new(Schema::new(collector.fields.clone()));
        let knows_arrival = column.is_some();
        Ok(Ranking { schema, keys, order, arrival: column, knows_arrival, numbering, first: 1, last: UNBOUNDED })
    }

    /// Whether it is known how the rows of all branches came, whatever workers do: those of a table, or behind functions OVER them. In which order the
    /// results of a window leave that are equal in time is nobody's business.
    pub(crate) fn is_arrival_known(&self, branches: &[Branch]) -> bool {
        branches.len() <= POSITION_INPUTS_MAX && branches.iter().all(|branch| self.is_stream_in_order(branch.input))
    }

    fn is_stream_in_order(&self, stream: StreamRef) -> bool {
        match stream {
            StreamRef::Source(_) => true,
            StreamRef::Pipeline(_) => false,
            StreamRef::Operator(operator) => match &self.unbound.operators[operator] {
                Operator::Over(_) => {
                    self.unbound.feeding(operator).all(|(_, pipeline)| self.is_stream_in_order(pipeline.input))
                }
                Operator::Window(_) | Operator::Slices(_) | Operator::Join(_) | Operator::Unmatched(_) => false,
            },
        }
    }

    /// Whether these are the processing times of all branches' rows.
    fn are_processing_times(&self, branches: &[Branch], values: &[Expr]) -> bool {
        branches.iter().zip(values).all(|(branch, value)| match (branch.input, value) {
            (StreamRef::Source(source), Expr::Column(column)) => {
                is_of(column, INPUT) && self.unbound.sources[source].is_processing_time(&column.name)
            }
            _ => false,
        })
    }

    /// Whether rows are numbered in the descending order of their event time, or of their windows'.
    fn is_by_time_descending(
        &self,
        collector: &Collector,
        function: &WindowFunction,
        schema: &DFSchema,
    ) -> Result<bool> {
        let [SortExpr { expr, asc: false, .. }] = function.params.order_by.as_slice() else { return Ok(false) };
        let values = collector.of_branches(expr, schema)?;
        let is_time = |(branch, value): (&Branch, &Expr)| match (branch.input, value) {
            _ if self.is_bound(branch, value, WINDOW_TIME) => true,
            (StreamRef::Source(source), Expr::Column(column)) if is_of(column, INPUT) => {
                self.unbound.sources[source].is_event_time(&column.name)
            }
            _ => branch.cut.as_ref().is_some_and(|cut| cut.time.as_ref() == Some(value)),
        };
        Ok(collector.branches.iter().zip(&values).all(is_time))
    }

    /// Ends the branches in a window that keeps its first rows.
    pub(crate) fn feed_ranking(&mut self, operator: usize, collector: Collector) {
        self.feed_rows(operator, collector, |cut, _| cut.and_then(|cut| cut.time));
    }

    /// Lets a window keep no more rows than a condition on their numbers wants. Returns whether `conjunct` was one: then no row that it is not
    /// true for leaves.
    pub(crate) fn bound_ranks(&mut self, branch: &Branch, conjunct: &Expr) -> bool {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = conjunct else { return false };
        let Some((window, _)) = self.unbound.window_behind(branch.input) else { return false };
        let Some((_, WindowColumn::Rank)) = self.unbound.window_column(branch.input, left) else { return false };
        let Expr::Literal(ScalarValue::Int64(Some(number)), _) = right.as_ref() else { return false };
        let ranking = self.unbound.window_mut(window).ranking.as_mut().expect("a rank is one of kept rows");
        let rank = |number: i64| u64::try_from(number).unwrap_or(0);
        let (first, last) = match op {
            Comparison::LtEq => (1, rank(*number)),
            Comparison::Lt => (1, rank(number.saturating_sub(1))),
            Comparison::Eq => (rank(*number), rank(*number)),
            Comparison::GtEq => (rank(*number), UNBOUNDED),
            Comparison::Gt => (rank(number.saturating_add(1)), UNBOUNDED),
            _ => return false,
        };
        ranking.first = ranking.first.max(first);
        ranking.last = ranking.last.min(last);
        true
    }

    /// Refuses windows that would keep all of their rows. Of rows of one time those that keep the last one alone keep the one that came last, as Flink does.
    pub(crate) fn check_rankings(&mut self) -> Result<()> {
        let operators = self.unbound.operators.iter().enumerate();
        let bounded = operators.filter(|(number, _)| !self.unbound.numbered_whole.contains(number));
        let mut rankings = bounded.filter_map(|(_, operator)| operator.as_window()?.ranking.as_ref());
        if let Some(unbounded) = rankings.find(|ranking| ranking.last == UNBOUNDED) {
            let known = NUMBERS.iter().find(|(_, numbering)| *numbering == unbounded.numbering);
            let name = known.expect("all are known").0;
            let construct = format!("{} of a window's rows without a bound", name.to_uppercase());
            return Err(external(PlanError::unsupported(self.locations.over(name), construct, FORM)));
        }
        for window in self.unbound.descending.clone() {
            let ranking = self.unbound.window_mut(window).ranking.as_mut().expect("rows are numbered");
            if let (Some(arrival), Numbering::Rows, (1, 1)) =
                (ranking.arrival, ranking.numbering, (ranking.first, ranking.last))
            {
                let key = ranking.order.iter_mut().find(|key| key.column == arrival);
                key.expect("the arrival is the last of the order").descending = true;
            }
        }
        Ok(())
    }
}

/// Adds the column that says how rows came.
pub(crate) fn add_arrival(collector: &mut Collector) -> Result<usize> {
    let field = Arc::new(Field::new(ARRIVAL, DataType::Int64, false));
    for branch in &mut collector.branches {
        branch.extend_scope(INPUT, [field.clone()])?;
    }
    collector.add_column(vec![column(INPUT, ARRIVAL); collector.branches.len()], ARRIVAL)
}

/// `window_time` among the bounds of a window.
const WINDOW_TIME: usize = 2;

/// The columns of numbered rows.
#[derive(Default)]
pub(crate) struct Numbered {
    pub columns: Vec<WindowColumn>,
    pub fields: Vec<Field>,
    /// The relation's columns, in terms of the fields.
    pub results: Vec<Expr>,
}

impl Numbered {
    /// Adds what is asked of the rows beside their columns.
    fn add_function(&mut self, function: &WindowFunction, planned: &Field, collector: &mut Collector) {
        let (column, data_type) = match function.fun.name() {
            RESULT_KIND => (WindowColumn::Kind, DataType::Utf8View),
            _ => (WindowColumn::Rank, DataType::Int64),
        };
        let name = collector.names.unique(function.fun.name());
        self.add(column, Field::new(name, data_type, false), planned);
    }

    /// Adds a column, which the plan has as `planned`.
    fn add(&mut self, column: WindowColumn, field: Field, planned: &Field) {
        let known = self.columns.iter().position(|known| *known == column).unwrap_or_else(|| {
            self.columns.push(column);
            self.fields.push(field);
            self.fields.len() - 1
        });
        let field = &self.fields[known];
        self.results.push(result(field.name(), field.data_type(), planned));
    }
}
