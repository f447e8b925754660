//! OVER: functions of the rows around each row, by key, in the order of their time.
//!
//! All functions over one partitioning and order are one node of DataFusion's plan, and become one of the program's, where their frames end alike. Those over others
//! lie above or below it: rows keep their time attribute, and so a chain of nodes computes them.

mod call;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr::WindowFunction;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, SortExpr, Window, lit, when};
use pelton_data::TimeColumn;
use pelton_data::column::sql_name;
use pelton_data::over::{Frame, FrameEnd, OverCall, OverColumn, OverFunction, OverSpec};

use crate::bind::names::Names;
use crate::bind::time_attribute::{TimeAttribute, is_cut, time_attribute, time_attributes};
use crate::coerce::held_types::{carried_type, held_type, part_of};
use crate::coerce::simplify::simplify;
use crate::coerce::zeros::with_one_zero;
use crate::errors::{Place, PlanError, external};
use crate::lower::Lowering;
use crate::lower::accumulate::integer_under_cast;
use crate::lower::aggregate::result;
use crate::lower::over::call::{end_of, is_fixed};
use crate::lower::scope::{INPUT, cast_to, column as scope_column, column_of};
use crate::lower::unbound::{Branch, Cut, Relation, UnboundTarget};
use crate::lower::window_bounds::materialize;
use crate::parse::shown_name;
use crate::pipeline::Operator;

/// The input of a node while its columns are collected.
pub(crate) struct Collector {
    pub branches: Vec<Branch>,
    pub names: Names,
    pub fields: Vec<FieldRef>,
    /// For each column, one expression a branch.
    pub columns: Vec<Vec<Expr>>,
}

impl Lowering<'_> {
    /// Functions over rows; `plan` is the plan that consists of them.
    pub(crate) fn over(&mut self, plan: &LogicalPlan, window: &Window) -> Result<Relation> {
        if let Some((_, relation)) = self.unbound.aggregates.iter().find(|(known, _)| known == plan) {
            return Ok(relation.clone());
        }
        let functions: Vec<&WindowFunction> = window.window_expr.iter().map(window_function).collect();
        let end_of = |function: &&WindowFunction| end_of(function, self.locations.over(function.fun.name()));
        let ends = functions.iter().map(end_of).collect::<Result<Vec<_>, _>>().map_err(external)?;
        if ends.iter().any(|end| *end != ends[0]) {
            let relation = self.over_in_turn(window, &ends)?;
            self.unbound.aggregates.push((plan.clone(), relation.clone()));
            return Ok(relation);
        }
        let first = &functions[0].params;
        let input = self.relation(&window.input)?;
        let schema = window.input.schema();
        if self.numbers_windows(&functions, &input, schema)? {
            // A condition above says how many rows are kept: those who read the same plan may want different numbers.
            let fields = &window.schema.fields()[schema.fields().len()..];
            return self.number_rows(&functions, fields, input, &window.input);
        }
        let input = input.each_in_its_windows()?;
        input.branches.iter().try_for_each(Branch::check_each_row_once)?;
        if first.order_by.is_empty() {
            // Nothing else of those is planned, which INTERSECT ALL and EXCEPT ALL are made of.
            let fields = &window.schema.fields()[schema.fields().len()..];
            return self.number_rows(&functions, fields, input, &window.input);
        }
        let time = self.order_column(&first.order_by, &window.input)?;
        let is_processing_time = time_attribute(&window.input, time) == Some(TimeAttribute::Processing);
        self.check_end(&functions, ends[0], &input, is_processing_time).map_err(external)?;
        let mut collector = Collector::new(input);
        let (mut results, columns) = collector.hand_on_all(schema)?;
        let time = self.time_of(&mut collector, time, schema)?;
        let mut keys = Vec::new();
        for key in &first.partition_by {
            keys.extend(collector.add_key(key, schema, self.locations.first_over())?);
        }
        let fields: Vec<FieldRef> = columns.iter().map(|column| collector.field(*column)).collect();
        let mut values = Values { calls: Vec::new(), columns, fields };
        for (function, field) in functions.iter().zip(&window.schema.fields()[schema.fields().len()..]) {
            let mut call = self.call(&mut collector, function, field, schema)?;
            if is_processing_time {
                call = in_processing_time(call);
            }
            let (name, data_type) = (shown_name(function.fun.name()).to_lowercase(), call.data_type.clone());
            let default = default_of(&call, function);
            let is_nullable = field.is_nullable() || default.is_some();
            let name = values.add_call(&mut collector, call, &name, is_nullable);
            let value = result(&name, &data_type, field);
            results.push(match default {
                None => value,
                Some(default) => values.or_default(&mut collector, value, default, schema, field)?,
            });
        }
        let input_schema = Arc::new(Schema::new(collector.fields.clone()));
        let Values { calls, columns, fields } = values;
        let schema = Arc::new(Schema::new(fields));
        self.feed_rows(self.unbound.operators.len(), collector, |_, columns| Some(columns[time.index].clone()));
        let over = OverSpec { input_schema, time: Some(time), keys, calls, columns, schema };
        let mut branch = self.unbound.add_operator(Operator::Over(over))?;
        branch.columns = results;
        let relation = Relation { branches: vec![branch] };
        self.unbound.aggregates.push((plan.clone(), relation.clone()));
        Ok(relation)
    }

    /// Functions whose frames end at several places behind their rows, one node after the other: all frames of a node end alike.
    fn over_in_turn(&mut self, window: &Window, ends: &[Option<FrameEnd>]) -> Result<Relation> {
        let inputs = window.input.schema().fields().len();
        let mut plan = LogicalPlan::clone(&window.input);
        let mut order: Vec<usize> = (0..ends.len()).collect();
        order.sort_by_key(|&function| ends[function]);
        for functions in order.chunk_by(|&one, &next| ends[one] == ends[next]) {
            let functions = functions.iter().map(|&function| window.window_expr[function].clone()).collect();
            plan = LogicalPlan::Window(Window::try_new(functions, Arc::new(plan))?);
        }
        let mut relation = self.relation(&plan)?;
        for branch in &mut relation.branches {
            let computed = branch.columns.split_off(inputs);
            let mut computed: Vec<(usize, Expr)> = order.iter().copied().zip(computed).collect();
            computed.sort_by_key(|(function, _)| *function);
            branch.columns.extend(computed.into_iter().map(|(_, column)| column));
        }
        Ok(relation)
    }

    /// Refuses frames whose end never comes.
    fn check_end(
        &self,
        functions: &[&WindowFunction],
        end: Option<FrameEnd>,
        input: &Relation,
        is_processing_time: bool,
    ) -> std::result::Result<(), PlanError> {
        let place = self.locations.over(functions[0].fun.name());
        let of_rows = "end it a number of rows after the row: ROWS BETWEEN CURRENT ROW AND 10 FOLLOWING";
        match end {
            Some(FrameEnd::Unbounded) if !self.unbound.is_bounded(input) => {
                let construct = "a frame of an unbounded table that ends with the last row";
                Err(PlanError::unsupported(place, construct, of_rows))
            }
            Some(FrameEnd::Range(_)) if is_processing_time => {
                let construct = "a frame in processing time that ends some time after the row";
                Err(PlanError::unsupported(place, construct, of_rows))
            }
            _ => Ok(()),
        }
    }

    /// The column of the input that rows are put in order by.
    fn order_column(&self, order: &[SortExpr], input: &LogicalPlan) -> Result<usize> {
        let hint = || {
            match time_attributes(input).as_slice() {
            _ if is_cut(input) => AGGREGATE_FIRST.to_string(),
            [] => "declare WATERMARK FOR column AS column - INTERVAL '5' SECOND, or a column AS PROCTIME(), in CREATE TABLE"
                .to_string(),
            names => format!("write ORDER BY {}", names.join(" or ")),
        }
        };
        let refused =
            |place: Option<Place>, message: &str| Err(external(PlanError::invalid(place, message).with_hint(hint())));
        let unsupported = |construct: &str, hint: &str| {
            Err(external(PlanError::unsupported(self.locations.over_order(None), construct, hint)))
        };
        if order.len() > 1 {
            return unsupported("OVER … ORDER BY several columns", "order by a time attribute alone");
        }
        if order.iter().any(|key| !key.asc) {
            let hint = "leave DESC out for the first rows; the last are known when a window has ended: ROW_NUMBER has them with PARTITION BY window_start, window_end";
            return unsupported("OVER … ORDER BY … DESC", hint);
        }
        let [SortExpr { expr: Expr::Column(column), .. }] = order else {
            let place = self.locations.over_order(None);
            return refused(place, "OVER puts rows in the order of one time attribute, ascending");
        };
        let index = input.schema().index_of_column(column)?;
        if time_attribute(input, index).is_none() {
            let message = format!("{} is not a time attribute, and OVER goes by time attributes only", column.name);
            return refused(self.locations.over_order(Some(&column.name)), &message);
        }
        Ok(index)
    }

    /// The column that is the time attribute of all branches.
    fn time_of(&self, collector: &mut Collector, index: usize, schema: &DFSchema) -> Result<TimeColumn> {
        let times: Vec<Expr> = collector.branches.iter().map(|branch| branch.columns[index].clone()).collect();
        let name = schema.field(index).name();
        if !times.iter().all(|time| column_of(time, INPUT).is_some()) {
            let construct = format!("OVER … ORDER BY {name} of rows that a window function has cut");
            let place = self.locations.over_order(Some(name));
            return Err(external(PlanError::unsupported(place, construct, AGGREGATE_FIRST)));
        }
        for (branch, time) in collector.branches.iter().zip(&times) {
            self.check_time_of_join(branch.input, time, self.locations.over_order(Some(name)))?;
        }
        let Added::Column(column) = collector.add(times, name)? else { unreachable!("a column is no constant") };
        let data_type = collector.fields[column].data_type();
        Ok(TimeColumn::new(column, data_type).expect("a time attribute is a timestamp"))
    }

    /// Ends the branches in an operator that takes rows. `time` is the time attribute of a branch that they go by, from its windows and columns.
    pub(crate) fn feed_rows(
        &mut self,
        operator: usize,
        collector: Collector,
        time: impl Fn(Option<Cut>, &[Expr]) -> Option<Expr>,
    ) {
        let Collector { branches, columns, .. } = collector;
        for (number, branch) in branches.into_iter().enumerate() {
            let columns: Vec<Expr> = columns.iter().map(|values| values[number].clone()).collect();
            let time = time(branch.cut.clone(), &columns);
            self.unbound.end(branch, UnboundTarget::Rows { operator, time, columns });
        }
    }
}

/// What to do where rows are cut into windows.
const AGGREGATE_FIRST: &str = "aggregate the windows first: GROUP BY window_start, window_end, window_time";

/// What a node computes, and its columns.
struct Values {
    calls: Vec<OverCall>,
    columns: Vec<OverColumn>,
    fields: Vec<FieldRef>,
}

impl Values {
    /// Adds a call, and its value as a column. Returns the column's name.
    fn add_call(&mut self, collector: &mut Collector, call: OverCall, name: &str, is_nullable: bool) -> String {
        let name = collector.names.unique(name);
        self.fields.push(Arc::new(Field::new(name.clone(), call.data_type.clone(), is_nullable)));
        self.columns.push(OverColumn::Value(self.calls.len()));
        self.calls.push(call);
        name
    }

    /// The `value` of LAG or LEAD, or its default where there are too few rows.
    fn or_default(
        &mut self,
        collector: &mut Collector,
        value: Expr,
        DefaultValue { rows, counted: (function, frame), value: default }: DefaultValue<'_>,
        schema: &DFSchema,
        field: &Field,
    ) -> Result<Expr> {
        let data_type = DataType::Int64;
        let number = OverCall { function, is_distinct: false, argument: None, frame, data_type };
        let number = self.add_call(collector, number, "rows", false);
        let of_branches = collector.of_branches(default, schema)?;
        let cast = collector.branches.iter().zip(of_branches);
        let cast = cast.map(|(branch, default)| cast_to(default, field.data_type(), &branch.scope));
        let default = match collector.add(cast.collect::<Result<_>>()?, "default")? {
            Added::Constant(constant) => constant,
            Added::Column(column) => {
                let held = collector.fields[column].clone();
                if !self.columns.contains(&OverColumn::Input(column)) {
                    self.columns.push(OverColumn::Input(column));
                    self.fields.push(held.clone());
                }
                result(held.name(), held.data_type(), field)
            }
        };
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        when(scope_column(INPUT, &number).lt_eq(lit(rows)), default).otherwise(value)
    }
}

/// What LAG or LEAD is where there are too few rows.
struct DefaultValue<'w> {
    /// Where it counts no more rows than so many,
    rows: u64,
    /// this call,
    counted: (OverFunction, Frame),
    /// it is this.
    value: &'w Expr,
}

/// The default of a call, if it has one.
fn default_of<'w>(call: &OverCall, function: &'w WindowFunction) -> Option<DefaultValue<'w>> {
    let value = function.params.args.get(2)?;
    match call.function {
        OverFunction::Lag { rows } => {
            let counted = (OverFunction::RowNumber, Frame::Rows { preceding: None });
            Some(DefaultValue { rows, counted, value })
        }
        OverFunction::Lead { rows } => {
            Some(DefaultValue { rows, counted: (OverFunction::CountRows, call.frame), value })
        }
        _ => None,
    }
}

/// The same call in processing time, where each row has a time of its own: rows that are read together share a clock reading, and what is computed must
/// not depend on how many these are.
fn in_processing_time(call: OverCall) -> OverCall {
    match call.function {
        OverFunction::Rank { .. } => {
            OverCall { function: OverFunction::RowNumber, frame: Frame::Rows { preceding: None }, ..call }
        }
        _ => OverCall { frame: call.frame.in_processing_time(), ..call },
    }
}

/// What became of a column.
pub(crate) enum Added {
    /// It is the same value for all rows.
    Constant(Expr),
    /// Its index.
    Column(usize),
}

impl Collector {
    pub fn new(input: Relation) -> Collector {
        Collector { branches: input.branches, names: Names::default(), fields: Vec::new(), columns: Vec::new() }
    }

    /// An expression over the relation, whose columns `schema` describes, for each branch.
    pub fn of_branches(&self, expression: &Expr, schema: &DFSchema) -> Result<Vec<Expr>> {
        self.branches.iter().map(|branch| branch.substitute(expression, schema)).collect()
    }

    /// An expression, which `values` are for each branch, in terms of each branch's scope.
    fn simplified(&self, values: Vec<Expr>) -> Result<Vec<Expr>> {
        let pairs = self.branches.iter().zip(values);
        pairs.map(|(branch, value)| simplify(materialize(value, branch)?, &branch.scope)).collect()
    }

    /// Whether an expression, which `values` are for each branch, may be NULL.
    fn is_nullable(&self, values: &[Expr]) -> Result<bool> {
        let nullable = self.branches.iter().zip(values).map(|(branch, value)| value.nullable(branch.scope.as_ref()));
        Ok(nullable.collect::<Result<Vec<bool>>>()?.contains(&true))
    }

    /// Adds a column, unless there is the same. `values` are one expression a branch.
    pub fn add(&mut self, values: Vec<Expr>, name: &str) -> Result<Added> {
        self.add_or_find(values, name, false)
    }

    /// The same of a column that rows have: a nested value is handed on as it is.
    pub fn hand_on(&mut self, values: Vec<Expr>, name: &str) -> Result<Added> {
        self.add_or_find(values, name, true)
    }

    /// Hands all columns of the relation on, which `schema` describes. Returns what they are in the result, and those that are held.
    fn hand_on_all(&mut self, schema: &DFSchema) -> Result<(Vec<Expr>, Vec<OverColumn>)> {
        let (mut results, mut columns) = (Vec::new(), Vec::new());
        for (index, field) in schema.fields().iter().enumerate() {
            let values = self.branches.iter().map(|branch| branch.columns[index].clone()).collect();
            match self.hand_on(values, field.name())? {
                Added::Constant(value) => results.push(value),
                Added::Column(column) => {
                    results.push(result(self.fields[column].name(), self.fields[column].data_type(), field));
                    columns.push(OverColumn::Input(column));
                }
            }
        }
        Ok((results, columns))
    }

    fn add_or_find(&mut self, values: Vec<Expr>, name: &str, may_be_nested: bool) -> Result<Added> {
        let values = self.simplified(values)?;
        match &values[0] {
            constant @ Expr::Literal(..) if values.iter().all(|value| value == constant) => {
                Ok(Added::Constant(constant.clone()))
            }
            _ => self.add_held(values, name, may_be_nested).map(Added::Column),
        }
    }

    /// Adds a key; none where it is the same for all rows. `place` is that of a function OVER rows.
    pub fn add_key(&mut self, key: &Expr, schema: &DFSchema, place: Option<Place>) -> Result<Option<usize>> {
        let values = self.simplified(self.of_branches(key, schema)?)?;
        if matches!(values[0], Expr::Literal(..)) && values.iter().all(|value| *value == values[0]) {
            return Ok(None);
        }
        let pairs = self.branches.iter().zip(values);
        let values = pairs.map(|(branch, value)| with_one_zero(value, &branch.scope));
        let values: Vec<Expr> = values.collect::<Result<_>>()?;
        let data_type = values[0].get_type(self.branches[0].scope.as_ref())?;
        if let Some(part) = part_of(&data_type) {
            let construct = format!("PARTITION BY a value of type {}", sql_name(&data_type));
            let hint = format!("partition by parts of it, as in {part}");
            return Err(external(PlanError::unsupported(place, construct, hint)));
        }
        self.add_column(values, "key").map(Some)
    }

    /// As `add`, for expressions in terms of each branch's scope, whether constant or not.
    pub fn add_column(&mut self, values: Vec<Expr>, name: &str) -> Result<usize> {
        self.add_held(values, name, false)
    }

    fn add_held(&mut self, values: Vec<Expr>, name: &str, may_be_nested: bool) -> Result<usize> {
        let pairs = self.branches.iter().zip(values);
        let held = pairs.map(|(branch, value)| {
            let data_type = value.get_type(branch.scope.as_ref())?;
            let is_carried = may_be_nested && matches!(value, Expr::Column(_));
            let wanted = if is_carried { carried_type(&data_type) } else { held_type(&data_type) };
            let wanted = wanted.ok_or_else(|| {
                let message = format!("{name} has type {}, which no row can hold", sql_name(&data_type));
                external(PlanError::invalid(None, message).with_hint("CAST it to another type"))
            })?;
            if data_type == wanted {
                return Ok(value);
            }
            simplify(cast_to(value, &wanted, &branch.scope)?, &branch.scope)
        });
        let held: Vec<Expr> = held.collect::<Result<_>>()?;
        if let Some(known) = self.columns.iter().position(|column| *column == held) {
            return Ok(known);
        }
        let scope = self.branches[0].scope.as_ref();
        let data_type = held[0].get_type(scope)?;
        let nullable = self.is_nullable(&held)?;
        self.fields.push(Arc::new(Field::new(self.names.unique(name), data_type, nullable)));
        self.columns.push(held);
        Ok(self.columns.len() - 1)
    }

    /// An argument in the form that its function takes: integers that are summed come without the cast that DataFusion's functions ask
    /// for, and of what is only counted that is not a number it is enough to know whether it is NULL.
    fn argument(&self, values: Vec<Expr>, function: &OverFunction, is_distinct: bool) -> Result<Vec<Expr>> {
        let values = self.simplified(values)?;
        let values = match function {
            OverFunction::Sum | OverFunction::Mean | OverFunction::Variance { .. } => {
                let is_mean = *function != OverFunction::Sum;
                let uncast = |(branch, argument)| integer_under_cast(argument, is_mean, branch);
                let uncast: Option<Vec<_>> = self.branches.iter().zip(&values).map(uncast).collect();
                let same = uncast.filter(|uncast| uncast.iter().all(|(_, data_type)| *data_type == uncast[0].1));
                same.map_or(values, |same| same.into_iter().map(|(argument, _)| argument).collect())
            }
            OverFunction::Count if !is_distinct => {
                let counted = self.branches.iter().zip(values).map(|(branch, value)| {
                    let scope = branch.scope.as_ref();
                    let data_type = value.get_type(scope)?;
                    if is_fixed(&data_type) || !data_type.is_nested() && !value.nullable(scope)? {
                        return Ok(value);
                    }
                    when(value.is_not_null(), lit(1_i8)).end()
                });
                counted.collect::<Result<_>>()?
            }
            _ => values,
        };
        if !is_distinct && *function != OverFunction::Mode {
            return Ok(values);
        }
        // Equal ones are looked for.
        self.with_one_zero(values)
    }

    /// Values of which both zeros are one.
    fn with_one_zero(&self, values: Vec<Expr>) -> Result<Vec<Expr>> {
        let pairs = self.branches.iter().zip(values);
        pairs.map(|(branch, value)| with_one_zero(value, &branch.scope)).collect()
    }

    pub fn field(&self, column: OverColumn) -> FieldRef {
        match column {
            OverColumn::Input(column) => self.fields[column].clone(),
            OverColumn::Value(_) => unreachable!("only columns of the input have been added"),
        }
    }
}

fn window_function(expression: &Expr) -> &WindowFunction {
    match expression {
        Expr::Alias(alias) => window_function(&alias.expr),
        Expr::WindowFunction(function) => function,
        other => unreachable!("{other} is no function OVER rows"),
    }
}
