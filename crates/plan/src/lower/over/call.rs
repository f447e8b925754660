//! Calls of functions OVER rows, from DataFusion's plan.

use arrow::datatypes::{DataType, Field};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr::{NullTreatment, WindowFunction};
use datafusion_expr::{Expr, ExprSchemable, WindowFunctionDefinition};
use pelton_data::column::sql_name;
use pelton_data::over::{Frame, FrameEnd, OverCall, OverFunction};
use pelton_data::udaf;
use pelton_data::udaf::UdafHandle;
use pelton_functions::aggregates::{Listing, Ordered, aggregate_function};

use crate::bind::aggregate_functions::is_planned;
use crate::bind::over_frame::frame_of;
use crate::bind::over_functions;
use crate::bind::udaf::udaf_of;
use crate::coerce::held_types::held_or_same;
use crate::coerce::literals::whole_number;
use crate::errors::{Place, PlanError, external};
use crate::lower::Lowering;
use crate::lower::accumulate::{delimiter_of, filtered, fraction_of, has_extremes, hint_for};
use crate::lower::aggregate_call::{distinct_hint, is_same_if_distinct};
use crate::lower::over::Collector;
use crate::parse::shown_name;

impl Lowering<'_> {
    /// A call of the plan, whose argument becomes a column.
    pub(crate) fn call(
        &self,
        collector: &mut Collector,
        window: &WindowFunction,
        field: &Field,
        schema: &DFSchema,
    ) -> Result<OverCall> {
        if let WindowFunctionDefinition::AggregateUDF(function) = &window.fun {
            let types = window.params.args.iter().filter_map(|argument| argument.get_type(schema).ok());
            let built_in = || aggregate_function(function.name(), &types.collect::<Vec<_>>());
            if let Some(function) = udaf_of(function).or_else(built_in) {
                return self.own_call(collector, function, window, field, schema);
            }
        }
        let name = window.fun.name();
        let place = self.locations.over(name);
        let (mut function, is_distinct) = function_of_call(window, place).map_err(external)?;
        let data_type = match function {
            // It is computed as DOUBLE, and cast to the type that it has.
            OverFunction::Variance { .. } => DataType::Float64,
            _ => held_or_same(field.data_type()),
        };
        if leaves_out_beside_nulls(collector, window, &function, schema)?
            && let DataType::List(item) = &data_type
        {
            let listing = Listing::Array { is_distinct, ignores_nulls: false };
            let arrays = UdafHandle(udaf::function(Ordered::new(listing, vec![item.data_type().clone()], Vec::new())));
            return self.call_of_rows(collector, (arrays, data_type), is_distinct, window, schema);
        }
        let frame = match function {
            OverFunction::RowNumber | OverFunction::Lag { .. } => Frame::Rows { preceding: None },
            OverFunction::Rank { .. } => Frame::Range { preceding: None },
            OverFunction::Lead { rows } => Frame::RowsAround { preceding: Some(0), following: Some(rows) },
            _ => frame_of(&window.params.window_frame, place).map_err(external)?,
        };
        let argument = argument_of(collector, window, (&mut function, is_distinct), schema, place)?;
        let counts_rows = |column: &usize| {
            function == OverFunction::Count && !is_distinct && !collector.fields[*column].is_nullable()
        };
        let argument = argument.filter(|column| !counts_rows(column));
        if function == OverFunction::Count && argument.is_none() {
            function = OverFunction::CountRows;
        }
        if let Some(column) = argument {
            let data_type = collector.fields[column].data_type();
            if !takes(&function, is_distinct, data_type) {
                let construct = format!("{} of {} OVER rows", shown_name(name), sql_name(data_type));
                return Err(external(PlanError::unsupported(place, construct, hint_for(data_type))));
            }
        }
        Ok(OverCall { function, is_distinct, argument, frame, data_type })
    }

    /// A call of a function with states of its own.
    fn own_call(
        &self,
        collector: &mut Collector,
        function: UdafHandle,
        window: &WindowFunction,
        field: &Field,
        schema: &DFSchema,
    ) -> Result<OverCall> {
        let (name, params) = (window.fun.name(), &window.params);
        let place = self.locations.over(name);
        let shown = name.to_uppercase();
        let refused = |construct: String, hint: &str| Err(external(PlanError::unsupported(place, construct, hint)));
        if params.distinct && !is_same_if_distinct(name) {
            return refused(format!("{shown}(DISTINCT …) OVER"), distinct_hint(name));
        }
        match params.null_treatment {
            Some(NullTreatment::IgnoreNulls) if !is_planned(name) => {
                return refused(format!("{shown} … IGNORE NULLS"), "let the function pass over them");
            }
            Some(NullTreatment::RespectNulls) if is_planned(name) => {
                return refused(format!("{shown} … RESPECT NULLS"), "leave it out: NULLs are passed over");
            }
            _ => {}
        }
        self.call_of_rows(collector, (function, held_or_same(field.data_type())), false, window, schema)
    }

    /// A call of a function that is given its arguments row by row, with values of a type. Where it `tells_equal` ones, both zeros are one.
    fn call_of_rows(
        &self,
        collector: &mut Collector,
        (function, data_type): (UdafHandle, DataType),
        tells_equal: bool,
        window: &WindowFunction,
        schema: &DFSchema,
    ) -> Result<OverCall> {
        let params = &window.params;
        let place = self.locations.over(window.fun.name());
        let mut columns = |expression: &Expr, name: &str| {
            let values = collector.simplified(collector.of_branches(expression, schema)?)?;
            let values = if tells_equal { collector.with_one_zero(values)? } else { values };
            check_flat(collector, &values, window.fun.name(), place)?;
            collector.add_column(values, name)
        };
        let arguments = params.args.iter().map(|argument| columns(argument, "argument")).collect::<Result<_>>()?;
        let condition = params.filter.as_ref().map(|filter| columns(filter, "condition")).transpose()?;
        let frame = frame_of(&params.window_frame, place).map_err(external)?;
        Ok(OverCall {
            function: OverFunction::Udaf { function, arguments, condition },
            is_distinct: false,
            argument: None,
            frame,
            data_type,
        })
    }
}

/// What is called, with its constants, and whether each value counts once.
fn function_of_call(window: &WindowFunction, place: Option<Place>) -> Result<(OverFunction, bool), PlanError> {
    let (name, params) = (window.fun.name(), &window.params);
    let shown = shown_name(name);
    let refused = |construct: String, hint: &str| Err(PlanError::unsupported(place, construct, hint));
    let Some(mut function) = function_of(name) else {
        return refused(format!("{shown} … OVER"), over_functions::HINT);
    };
    match (&mut function, params.args.as_slice()) {
        (OverFunction::Percentile { fraction, .. }, [_, constant]) => *fraction = fraction_of(&shown, constant, place)?,
        (OverFunction::Joined { delimiter }, [_, constant]) => {
            *delimiter = delimiter_of(Some(constant), place)?.into();
        }
        (OverFunction::Array { ignores_nulls }, _) => {
            *ignores_nulls = params.null_treatment == Some(NullTreatment::IgnoreNulls);
        }
        (OverFunction::Lag { rows } | OverFunction::Lead { rows }, arguments) => {
            *rows = rows_away(&shown, arguments, place)?;
        }
        (OverFunction::Count, [_, _, ..]) => {
            return refused("COUNT of several columns".to_owned(), "count one column");
        }
        _ => {}
    }
    let is_distinct = match function {
        OverFunction::RowNumber | OverFunction::Rank { .. } | OverFunction::Lag { .. } | OverFunction::Lead { .. }
            if params.distinct =>
        {
            return refused(format!("{shown}(DISTINCT …) OVER"), "leave DISTINCT out: it looks at one row");
        }
        OverFunction::Mode if params.distinct => {
            // Each value is there once: it is the smallest.
            function = percentile(0.0, false, false);
            true
        }
        OverFunction::Minimum | OverFunction::Maximum | OverFunction::First | OverFunction::Last => false,
        _ => params.distinct || name == "approx_count_distinct",
    };
    let passes_over_nulls = !matches!(
        function,
        OverFunction::Lag { .. }
            | OverFunction::Lead { .. }
            | OverFunction::RowNumber
            | OverFunction::Rank { .. }
            | OverFunction::Array { ignores_nulls: false }
    );
    match params.null_treatment {
        Some(NullTreatment::IgnoreNulls) if !passes_over_nulls => {
            refused(format!("{shown} … IGNORE NULLS"), "leave it out: NULLs are values here")
        }
        Some(NullTreatment::RespectNulls) if passes_over_nulls => {
            refused(format!("{shown} … RESPECT NULLS"), "leave it out: NULLs are passed over")
        }
        _ => Ok((function, is_distinct)),
    }
}

/// Whether a FILTER leaves rows out of arrays in which NULLs stand.
fn leaves_out_beside_nulls(
    collector: &Collector,
    window: &WindowFunction,
    function: &OverFunction,
    schema: &DFSchema,
) -> Result<bool> {
    match (function, window.params.args.as_slice()) {
        (OverFunction::Array { ignores_nulls: false }, [argument]) if window.params.filter.is_some() => {
            collector.is_nullable(&collector.of_branches(argument, schema)?)
        }
        _ => Ok(false),
    }
}

/// The column that a function is computed from: NULL in rows that a FILTER leaves out.
fn argument_of(
    collector: &mut Collector,
    window: &WindowFunction,
    (function, is_distinct): (&mut OverFunction, bool),
    schema: &DFSchema,
    place: Option<Place>,
) -> Result<Option<usize>> {
    let params = &window.params;
    let argument = params.args.first().filter(|argument| !is_wildcard(argument));
    let argument = argument.map(|argument| collector.of_branches(argument, schema)).transpose()?;
    let argument = match &params.filter {
        None => argument,
        Some(filter) => {
            if let OverFunction::Array { ignores_nulls } = function {
                *ignores_nulls = true;
            }
            let filters = collector.of_branches(filter, schema)?;
            let values = filters
                .into_iter()
                .enumerate()
                .map(|(branch, filter)| filtered(argument.as_ref().map(|argument| argument[branch].clone()), filter));
            Some(values.collect::<Result<Vec<_>>>()?)
        }
    };
    let argument = argument.map(|argument| collector.argument(argument, function, is_distinct)).transpose()?;
    let Some(values) = argument else { return Ok(None) };
    check_flat(collector, &values, window.fun.name(), place)?;
    collector.add_column(values, "argument").map(Some)
}

/// Refuses whole nested values as the argument of a function: what is kept of rows are flat values.
fn check_flat(collector: &Collector, values: &[Expr], function: &str, place: Option<Place>) -> Result<()> {
    for (branch, value) in collector.branches.iter().zip(values) {
        let data_type = value.get_type(branch.scope.as_ref())?;
        if data_type.is_nested() {
            let construct = format!("{} of {} OVER rows", shown_name(function), sql_name(&data_type));
            return Err(external(PlanError::unsupported(place, construct, hint_for(&data_type))));
        }
    }
    Ok(())
}

fn percentile(fraction: f64, is_continuous: bool, is_descending: bool) -> OverFunction {
    OverFunction::Percentile { fraction, is_continuous, is_descending }
}

fn function_of(name: &str) -> Option<OverFunction> {
    Some(match name {
        // Frames keep their values anyway, or those that are distinct, so that estimates are exact.
        "count" | "approx_count_distinct" => OverFunction::Count,
        "sum" => OverFunction::Sum,
        "avg" => OverFunction::Mean,
        "var" => OverFunction::Variance { is_sample: true, is_root: false },
        "var_pop" => OverFunction::Variance { is_sample: false, is_root: false },
        "stddev" => OverFunction::Variance { is_sample: true, is_root: true },
        "stddev_pop" => OverFunction::Variance { is_sample: false, is_root: true },
        // FALSE is less than TRUE.
        "min" | "bool_and" | "every" => OverFunction::Minimum,
        "max" | "bool_or" => OverFunction::Maximum,
        "first_value" => OverFunction::First,
        "last_value" => OverFunction::Last,
        "row_number" => OverFunction::RowNumber,
        "rank" => OverFunction::Rank { is_dense: false },
        "dense_rank" => OverFunction::Rank { is_dense: true },
        "lag" => OverFunction::Lag { rows: 1 },
        "lead" => OverFunction::Lead { rows: 1 },
        "mode" => OverFunction::Mode,
        "median" | "percentile" | "percentile_cont" => percentile(0.5, true, false),
        "percentile_cont_descending" => percentile(0.5, true, true),
        "percentile_disc" | "approx_percentile" => percentile(0.5, false, false),
        "percentile_disc_descending" => percentile(0.5, false, true),
        "array_agg" => OverFunction::Array { ignores_nulls: false },
        "listagg" => OverFunction::Joined { delimiter: ",".into() },
        _ => return None,
    })
}

#[expect(deprecated, reason = "COUNT(*) is planned with a wildcard as its argument")]
fn is_wildcard(argument: &Expr) -> bool {
    matches!(argument, Expr::Wildcard { .. })
}

/// How many rows LAG looks back, or LEAD ahead.
fn rows_away(name: &str, arguments: &[Expr], place: Option<Place>) -> Result<u64, PlanError> {
    match arguments {
        [_] => Ok(1),
        [_, rows, ..] if let Some(rows @ 0..) = whole_number(rows) => Ok(rows as u64),
        _ => {
            let side = if name == "LEAD" { "ahead" } else { "back" };
            let message = format!("{name} looks {side} a number of rows, written as digits");
            let hint = format!("write {name}(x), {name}(x, 3) or {name}(x, 3, default)");
            Err(PlanError::invalid(place, message).with_hint(hint))
        }
    }
}

/// Where the frame of a function ends, if that is after its row. `place` is the function's.
pub(crate) fn end_of(window: &WindowFunction, place: Option<Place>) -> Result<Option<FrameEnd>, PlanError> {
    match window.fun.name() {
        "row_number" | "rank" | "dense_rank" | "lag" => Ok(None),
        "lead" => rows_away("LEAD", &window.params.args, place).map(|rows| Some(FrameEnd::Rows(rows))),
        _ => frame_of(&window.params.window_frame, place).map(|frame| frame.end()),
    }
}

/// Whether values of a type are numbers, or kept as such.
pub(crate) fn is_fixed(data_type: &DataType) -> bool {
    has_extremes(data_type) && *data_type != DataType::Utf8View
}

fn takes(function: &OverFunction, is_distinct: bool, data_type: &DataType) -> bool {
    match function {
        OverFunction::Sum | OverFunction::Mean | OverFunction::Variance { .. } => data_type.is_numeric(),
        OverFunction::Count if !is_distinct => is_fixed(data_type),
        OverFunction::Joined { .. } => *data_type == DataType::Utf8View,
        OverFunction::Minimum | OverFunction::Maximum => has_extremes(data_type) || *data_type == DataType::Boolean,
        OverFunction::Percentile { is_continuous: true, .. } => has_extremes(data_type),
        _ => has_extremes(data_type) || matches!(data_type, DataType::Boolean | DataType::BinaryView),
    }
}
