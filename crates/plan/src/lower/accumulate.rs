//! Which accumulators compute an aggregate, and how its value is made of them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion_common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion_expr::{Cast, Expr, ExprSchemable, lit, when};
use pelton_data::aggregate::{Accumulate, Accumulator, Holistic, POSITION_INPUTS_MAX};
use pelton_data::column::sql_name;
use pelton_data::udaf::UdafHandle;
use pelton_functions::decimal::decimal_upper_half;
use pelton_functions::rounded;

use crate::bind::aggregate_functions::RESULT_KIND;
use crate::coerce::held_types::{held_or_same, held_type, part_of};
use crate::coerce::simplify::simplify;
use crate::coerce::zeros::with_one_zero;
use crate::errors::{Place, PlanError, external};
use crate::lower::Lowering;
use crate::lower::aggregate_call::{Call, distinct_hint};
use crate::lower::scope::{cast_to, without_dictionary_cast};
use crate::lower::unbound::Branch;
use crate::lower::window_bounds::materialize;
use crate::pipeline::{Window, WindowColumn};

/// Digits of which as many decimals as a counter counts, 2^63, have a sum of no more digits than a DECIMAL.
const SUMMED_DIGITS: u8 = 19;

/// An aggregation while its accumulators are collected.
pub(crate) struct Collector {
    pub branches: Vec<Branch>,
    /// Whether a result may stand for no rows at all.
    may_be_empty: bool,
    /// Whether slices leave windows.
    evicts_slices: bool,
    pub accumulators: Vec<Accumulator>,
    /// One argument for each branch, one list for each accumulator.
    pub arguments: Vec<Vec<Option<Expr>>>,
    /// The accumulators of each list of arguments.
    by_arguments: HashMap<Vec<Option<Expr>>, Vec<usize>>,
}

impl Lowering<'_> {
    /// What a call computes of all values of a group; `None` where accumulators of a fixed size will do.
    fn holistic(&self, call: &Call) -> Result<Option<Holistic>> {
        let percentile = |fraction: f64, is_continuous: bool| Holistic::Percentile {
            fraction,
            is_continuous,
            is_descending: call.is_descending,
        };
        let fraction = || {
            let place = self.locations.place_of(&call.function);
            fraction_of(&call.function, &call.constants[0], place).map_err(external)
        };
        Ok(Some(match (call.function.as_str(), call.is_distinct) {
            ("median", _) => percentile(0.5, true),
            ("percentile" | "percentile_cont", _) => percentile(fraction()?, true),
            ("percentile_disc", _) => percentile(fraction()?, false),
            ("mode", false) => Holistic::Mode,
            // Each value is there once: it is the smallest.
            ("mode", true) => Holistic::Percentile { fraction: 0.0, is_continuous: false, is_descending: false },
            ("array_agg", is_distinct) => Holistic::Array { is_distinct },
            ("listagg", _) => {
                let place = self.locations.place_of(&call.function);
                Holistic::Joined { delimiter: delimiter_of(call.constants.first(), place).map_err(external)? }
            }
            ("count", true) | ("approx_count_distinct", _) => Holistic::Count,
            ("approx_percentile", false) => Holistic::RoundedPercentile { fraction: fraction()? },
            // Which values are distinct must be known exactly anyway.
            ("approx_percentile", true) => percentile(fraction()?, false),
            ("sum", true) => Holistic::Sum,
            ("avg", true) => Holistic::Mean,
            ("var" | "var_pop" | "stddev" | "stddev_pop", true) => Holistic::Variance {
                is_sample: matches!(call.function.as_str(), "var" | "stddev"),
                is_root: call.function.starts_with("stddev"),
            },
            _ => return Ok(None),
        }))
    }

    /// The accumulators of an aggregate of all values, and the column that they give.
    fn holistic_value(
        &self,
        collector: &mut Collector,
        call: Call,
        function: Holistic,
        arguments: Vec<Option<Expr>>,
    ) -> Result<WindowColumn> {
        let is_ordered = matches!(function, Holistic::Array { .. } | Holistic::Joined { .. });
        if is_ordered {
            self.check_inputs(collector)?;
        }
        let is_any_null = collector.is_nullable(arguments.iter().flatten());
        let is_estimated = call.function == "approx_count_distinct";
        let arguments = match function {
            Holistic::RoundedPercentile { .. } => collector.rounded(arguments)?,
            Holistic::Mode => collector.equated(arguments)?,
            _ if call.is_distinct || is_estimated => collector.equated(arguments)?,
            _ => arguments,
        };
        let arrivals = (is_ordered && !call.is_distinct)
            .then(|| collector.add(Accumulate::Arrivals, arguments.clone()))
            .transpose()?;
        let kept = match function {
            Holistic::RoundedPercentile { .. } => Accumulate::Frequencies,
            // Nothing is looked for in a list while rows come, but none of it can be subtracted.
            Holistic::Mode if collector.evicts_slices => Accumulate::Frequencies,
            _ if is_estimated => Accumulate::DistinctSketch,
            _ if call.is_distinct => Accumulate::Distinct { is_ordered },
            _ => Accumulate::Values,
        };
        let values = collector.add(kept, arguments)?;
        let nulls = if is_any_null && !call.nulls.is_empty() {
            let nulls = collector.arguments_of(&call.function, call.nulls)?;
            Some(collector.add(Accumulate::Arrivals, nulls)?)
        } else {
            None
        };
        Ok(WindowColumn::Holistic { function, values, arrivals, nulls })
    }

    /// An array of all values of an expression, which `values` are for each branch, in the order of their arrival, NULLs among them.
    pub(crate) fn array_of(&self, collector: &mut Collector, values: Vec<Expr>) -> Result<WindowColumn> {
        let is_null = |value: &Expr| when(value.clone().is_null(), lit(1_i64)).end().map(Some);
        let nulls = values.iter().map(is_null).collect::<Result<_>>()?;
        let call = Call { function: "array_agg".to_string(), nulls, ..Call::default() };
        let arguments = collector.arguments_of(&call.function, values.into_iter().map(Some).collect())?;
        self.holistic_value(collector, call, Holistic::Array { is_distinct: false }, arguments)
    }

    /// The accumulators of one aggregate, and the column, its type and whether it may be NULL, that they give.
    pub(crate) fn window_value(
        &self,
        collector: &mut Collector,
        expressions: Vec<Expr>,
        field: &Field,
    ) -> Result<(WindowColumn, DataType, bool)> {
        let mut call = self.aggregate_call(collector, expressions)?;
        let function = call.function.clone();
        if function == RESULT_KIND {
            return Ok((WindowColumn::Kind, DataType::Utf8View, false));
        }
        let arguments = std::mem::take(&mut call.arguments);
        let arguments = collector.arguments_of(&function, arguments)?;
        let refused = |data_type: &DataType| self.refused_type(&function, data_type);
        if let Some(own) = call.own.take() {
            let accumulator = self.own_accumulator(collector, &call, own, arguments)?;
            let column = WindowColumn::Value { accumulator, count: None };
            return Ok((column, held_or_same(field.data_type()), function != "regr_count"));
        }
        let Some(data_type) = collector.type_of(&arguments)? else {
            let count = collector.add(Accumulate::Count, arguments)?;
            return Ok((WindowColumn::Value { accumulator: count, count: None }, DataType::Int64, false));
        };
        let nullable = collector.may_be_empty || collector.is_nullable(arguments.iter().flatten());
        if let Some(holistic) = self.holistic(&call)? {
            let is_sum = matches!(holistic, Holistic::Sum | Holistic::Mean);
            if held_type(&data_type).is_none() || is_sum && sum_of(&data_type, false).is_none() {
                return Err(refused(&data_type));
            }
            let nullable = match holistic {
                Holistic::Count => false,
                Holistic::Variance { is_sample, .. } => nullable || is_sample,
                _ => nullable,
            };
            // A variance is computed as DOUBLE, and cast to the type that it has.
            let is_variance = matches!(holistic, Holistic::Variance { .. });
            let held = if is_variance { DataType::Float64 } else { held_or_same(field.data_type()) };
            let column = self.holistic_value(collector, call, holistic, arguments)?;
            return Ok((column, held, nullable));
        }
        match function.as_str() {
            "count" => {
                let count = collector.count_of(&arguments)?;
                Ok((WindowColumn::Value { accumulator: count, count: None }, DataType::Int64, false))
            }
            "avg" => {
                let sum = sum_of(&data_type, true).ok_or_else(|| refused(&data_type))?;
                let count = collector.count_of(&arguments)?;
                let upper_sum = collector.upper_sum(&data_type, &arguments)?;
                let sum = collector.add(sum, arguments)?;
                Ok((WindowColumn::Mean { sum, upper_sum, count }, field.data_type().clone(), nullable))
            }
            "var" | "var_pop" | "stddev" | "stddev_pop" => {
                let count = collector.count_of(&arguments)?;
                // Sums of integers are exact, in whatever order: squares of 64 bits have 128, and their sums more.
                let (sum, squares) = match data_type {
                    DataType::Int64 => (Accumulate::SumWide, Accumulate::SumSquares192),
                    _ if data_type.is_signed_integer() => (Accumulate::SumWide, Accumulate::SumSquares128),
                    _ => (Accumulate::SumFloatWide, Accumulate::SumSquares),
                };
                let sum = collector.add(sum, arguments.clone())?;
                let squares = collector.add(squares, arguments)?;
                let is_sample = matches!(function.as_str(), "var" | "stddev");
                let is_root = function.starts_with("stddev");
                let column = WindowColumn::Variance { sum, squares, count, is_sample, is_root };
                Ok((column, DataType::Float64, nullable || is_sample))
            }
            _ => self.held_value(collector, &function, arguments, &data_type, field),
        }
    }

    /// What a function with states of its own keeps of rows of its arguments.
    fn own_accumulator(
        &self,
        collector: &mut Collector,
        call: &Call,
        function: UdafHandle,
        arguments: Vec<Option<Expr>>,
    ) -> Result<usize> {
        if call.is_distinct {
            let construct = format!("DISTINCT in {}", call.function.to_uppercase());
            let place = self.locations.place_of(&call.function);
            return Err(external(PlanError::unsupported(place, construct, distinct_hint(&call.function))));
        }
        self.check_inputs(collector)?;
        let data_type = collector.type_of(&arguments)?.expect("its arguments are one value");
        let is_nullable = collector.is_nullable(arguments.iter().flatten());
        Ok(collector.add_accumulator(Accumulator::own(function, data_type, is_nullable), arguments))
    }

    /// A sum, or a value that an accumulator holds.
    fn held_value(
        &self,
        collector: &mut Collector,
        function: &str,
        arguments: Vec<Option<Expr>>,
        data_type: &DataType,
        field: &Field,
    ) -> Result<(WindowColumn, DataType, bool)> {
        let nullable = collector.may_be_empty || collector.is_nullable(arguments.iter().flatten());
        let (accumulate, counts_values) = match function {
            "sum" => (sum_of(data_type, false), true),
            // FALSE is less than TRUE.
            "min" | "bool_and" | "every" => (Some(Accumulate::Minimum).filter(|_| is_compared(data_type)), true),
            "max" | "bool_or" => (Some(Accumulate::Maximum).filter(|_| is_compared(data_type)), true),
            // These know by themselves whether there was a value.
            "first_value" => (Some(Accumulate::First).filter(|_| held_type(data_type).is_some()), false),
            "last_value" => (Some(Accumulate::Last).filter(|_| held_type(data_type).is_some()), false),
            other => unreachable!("the aggregate {other} is not offered to the planner"),
        };
        let accumulate = accumulate.ok_or_else(|| self.refused_type(function, data_type))?;
        if !counts_values {
            self.check_inputs(collector)?;
        }
        let count = if nullable && counts_values { Some(collector.count_of(&arguments)?) } else { None };
        if function == "sum"
            && let Some(upper_sum) = collector.upper_sum(data_type, &arguments)?
        {
            let sum = collector.add(accumulate, arguments)?;
            return Ok((WindowColumn::DecimalSum { sum, upper_sum, count }, field.data_type().clone(), nullable));
        }
        let accumulator = collector.add(accumulate, arguments)?;
        Ok((WindowColumn::Value { accumulator, count }, held_or_same(field.data_type()), nullable))
    }

    fn refused_type(&self, function: &str, data_type: &DataType) -> DataFusionError {
        let construct = format!("{} of {}", function.to_uppercase(), sql_name(data_type));
        let place = self.locations.place_of(function).or(self.locations.grouping);
        external(PlanError::unsupported(place, construct, hint_for(data_type)))
    }

    /// Rows must be told apart by their inputs where it matters which came first.
    fn check_inputs(&self, collector: &Collector) -> Result<()> {
        if collector.branches.len() <= POSITION_INPUTS_MAX {
            return Ok(());
        }
        let message = format!("a UNION ALL of more than {POSITION_INPUTS_MAX} parts has no first or last row");
        Err(external(PlanError::invalid(self.locations.grouping, message).with_hint("read the parts as one table")))
    }
}

/// What to do with an argument of a type that a function does not take.
pub(crate) fn hint_for(data_type: &DataType) -> String {
    match part_of(data_type) {
        Some(part) => format!("take a part of it, as in {part}"),
        None => "cast the argument to a number".to_string(),
    }
}

/// An aggregate's argument where `filter` is true, and NULL elsewhere; rows are counted by a 1. A cast stays outermost: it says what is
/// accumulated.
pub(crate) fn filtered(argument: Option<Expr>, filter: Expr) -> Result<Expr> {
    match argument {
        Some(Expr::Cast(Cast { expr, field })) => {
            Ok(Expr::Cast(Cast { expr: Box::new(filtered(Some(*expr), filter)?), field }))
        }
        argument => when(filter, argument.unwrap_or_else(|| lit(1_i64))).end(),
    }
}

/// How values of a type are summed: means of 64-bit integers must not wrap around on the way.
fn sum_of(data_type: &DataType, for_mean: bool) -> Option<Accumulate> {
    match data_type {
        DataType::Int64 if for_mean => Some(Accumulate::SumWide),
        other if other.is_signed_integer() => Some(Accumulate::SumInteger),
        DataType::Float32 | DataType::Float64 => Some(Accumulate::SumFloat),
        DataType::Decimal128(..) => Some(Accumulate::SumWide),
        _ => None,
    }
}

/// The integer, and its type, that was cast for a sum, to BIGINT, or for a mean, to DOUBLE. What the query itself casts to DOUBLE is summed as
/// that.
pub(crate) fn integer_under_cast(argument: &Expr, is_mean: bool, branch: &Branch) -> Option<(Expr, DataType)> {
    let Expr::Cast(cast) = argument else { return None };
    let data_type = cast.expr.get_type(branch.scope.as_ref()).ok()?;
    let wider = if is_mean { DataType::Float64 } else { DataType::Int64 };
    (*cast.field.data_type() == wider && data_type.is_signed_integer()).then(|| (cast.expr.as_ref().clone(), data_type))
}

/// The number under a cast to another number, which is NULL where the cast is.
fn number_under_cast(argument: Expr, branch: &Branch) -> Result<Expr> {
    if let Expr::Cast(cast) = &argument
        && cast.field.data_type().is_numeric()
        && cast.expr.get_type(branch.scope.as_ref())?.is_numeric()
    {
        return Ok(cast.expr.as_ref().clone());
    }
    Ok(argument)
}

/// Whether windows have the least and the greatest value of a type: FALSE is less than TRUE.
fn is_compared(data_type: &DataType) -> bool {
    has_extremes(data_type) || *data_type == DataType::Boolean
}

pub(crate) fn has_extremes(data_type: &DataType) -> bool {
    data_type.is_signed_integer()
        || matches!(
            data_type,
            DataType::Float32
                | DataType::Float64
                | DataType::Decimal128(..)
                | DataType::Date32
                | DataType::Timestamp(..)
                | DataType::Utf8View
        )
}

impl Collector {
    /// Of the rows of these branches in such a window.
    pub fn new(branches: Vec<Branch>, window: &Window, may_be_empty: bool) -> Collector {
        let evicts_slices = window.evicts_slices();
        Collector {
            branches,
            may_be_empty,
            evicts_slices,
            accumulators: Vec::new(),
            arguments: Vec::new(),
            by_arguments: HashMap::new(),
        }
    }

    /// Whether any branch's expression may be NULL.
    pub fn is_nullable<'e>(&self, expressions: impl Iterator<Item = &'e Expr>) -> bool {
        let mut pairs = self.branches.iter().zip(expressions);
        pairs.any(|(branch, expression)| expression.nullable(branch.scope.as_ref()).unwrap_or(true))
    }

    /// Arguments in the form that accumulators share: integers that are summed come without the cast that DataFusion's
    /// functions ask for.
    fn arguments_of(&self, function: &str, arguments: Vec<Option<Expr>>) -> Result<Vec<Option<Expr>>> {
        let mut simplified = Vec::new();
        for (branch, argument) in self.branches.iter().zip(arguments) {
            let Some(argument) = argument else { return Ok(vec![None; self.branches.len()]) };
            let argument = simplify(materialize(argument, branch)?, &branch.scope)?;
            let data_type = argument.get_type(branch.scope.as_ref())?;
            simplified.push(cast_to(argument, &held_or_same(&data_type), &branch.scope)?);
        }
        if matches!(function, "sum" | "avg" | "var" | "var_pop" | "stddev" | "stddev_pop") {
            let uncast = |(branch, argument)| integer_under_cast(argument, function != "sum", branch);
            let uncast: Option<Vec<_>> = self.branches.iter().zip(&simplified).map(uncast).collect();
            if let Some(uncast) = uncast.filter(|uncast| uncast.iter().all(|(_, data_type)| *data_type == uncast[0].1))
            {
                simplified = uncast.into_iter().map(|(argument, _)| argument).collect();
            }
        }
        Ok(simplified.into_iter().map(Some).collect())
    }

    /// Arguments of which equal ones are looked for.
    fn equated(&self, arguments: Vec<Option<Expr>>) -> Result<Vec<Option<Expr>>> {
        let pairs = self.branches.iter().zip(arguments);
        let equated = pairs.map(|(branch, argument)| argument.map(|it| with_one_zero(it, &branch.scope)).transpose());
        equated.collect()
    }

    /// Numbers of which only the first bits count.
    fn rounded(&self, arguments: Vec<Option<Expr>>) -> Result<Vec<Option<Expr>>> {
        let pairs = self.branches.iter().zip(arguments);
        let rounded = pairs.map(|(branch, number)| number.map(|it| simplify(rounded(it), &branch.scope)).transpose());
        rounded.collect()
    }

    fn type_of(&self, arguments: &[Option<Expr>]) -> Result<Option<DataType>> {
        let Some(argument) = &arguments[0] else { return Ok(None) };
        Ok(Some(argument.get_type(self.branches[0].scope.as_ref())?))
    }

    fn count_of(&mut self, arguments: &[Option<Expr>]) -> Result<usize> {
        if self.is_nullable(arguments.iter().flatten()) {
            let bare = self.branches.iter().zip(arguments).map(|(branch, argument)| {
                Ok(Some(number_under_cast(argument.clone().expect("a nullable argument"), branch)?))
            });
            let bare = bare.collect::<Result<_>>()?;
            self.add(Accumulate::Count, bare)
        } else {
            self.add(Accumulate::Count, vec![None; self.branches.len()])
        }
    }

    /// What sums the upper halves of decimals, where sums of so many digits may leave the 128 bits that they have.
    fn upper_sum(&mut self, data_type: &DataType, arguments: &[Option<Expr>]) -> Result<Option<usize>> {
        if !matches!(data_type, DataType::Decimal128(precision, _) if *precision > SUMMED_DIGITS) {
            return Ok(None);
        }
        let upper = arguments.iter().map(|argument| argument.clone().map(decimal_upper_half)).collect();
        self.add(Accumulate::SumWide, upper).map(Some)
    }

    pub fn add(&mut self, accumulate: Accumulate, arguments: Vec<Option<Expr>>) -> Result<usize> {
        let argument_type = self.type_of(&arguments)?;
        let argument_nullable = self.is_nullable(arguments.iter().flatten());
        let accumulator = Accumulator::new(accumulate, argument_type, argument_nullable);
        let bare = self.branches.iter().zip(arguments).map(|(branch, argument)| {
            argument.map(|argument| without_dictionary_cast(argument, &branch.scope)).transpose()
        });
        let arguments: Vec<Option<Expr>> = bare.collect::<Result<_>>()?;
        Ok(self.add_accumulator(accumulator, arguments))
    }

    /// The number of an accumulator, which is a new one where there is none like it.
    fn add_accumulator(&mut self, accumulator: Accumulator, arguments: Vec<Option<Expr>>) -> usize {
        let same = self.by_arguments.entry(arguments.clone()).or_default();
        if let Some(known) = same.iter().find(|known| self.accumulators[**known] == accumulator) {
            return *known;
        }
        same.push(self.accumulators.len());
        self.accumulators.push(accumulator);
        self.arguments.push(arguments);
        self.accumulators.len() - 1
    }
}

/// The fraction that the function of a percentile is given.
pub(crate) fn fraction_of(function: &str, constant: &Expr, place: Option<Place>) -> Result<f64, PlanError> {
    match simplify(constant.clone(), &Arc::new(DFSchema::empty())) {
        Ok(Expr::Literal(ScalarValue::Float64(Some(fraction)), _)) if (0.0..=1.0).contains(&fraction) => Ok(fraction),
        _ => {
            let shown = function.to_uppercase();
            let message = format!("the fraction of {shown} must be a constant number from 0 to 1");
            Err(PlanError::invalid(place, message).with_hint("write 0.95 for the 95th percentile"))
        }
    }
}

/// What LISTAGG puts between two values, a comma where nothing is given.
pub(crate) fn delimiter_of(constant: Option<&Expr>, place: Option<Place>) -> Result<String, PlanError> {
    let Some(constant) = constant else { return Ok(",".to_string()) };
    match simplify(constant.clone(), &Arc::new(DFSchema::empty())) {
        Ok(Expr::Literal(ScalarValue::Utf8View(Some(delimiter)), _)) => Ok(delimiter),
        _ => {
            let message = "the delimiter of LISTAGG must be a constant string";
            Err(PlanError::invalid(place, message).with_hint("write LISTAGG(column, ', ')"))
        }
    }
}
