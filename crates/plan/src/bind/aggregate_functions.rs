//! The aggregate functions that windows compute, as DataFusion's planner sees them: names, arguments, types.
//!
//! NULLs are passed over by all. Those that DataFusion has with the same meaning are DataFusion's; the others are defined here, and
//! nothing but their types is ever asked of DataFusion.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field};
use datafusion_common::{Result, internal_err, plan_err};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use pelton_data::column::sql_name;

use crate::coerce::held_types::held_type;
use crate::parse::shown_name;

/// Says of a window's results whether they are its first or correct others.
pub(crate) const RESULT_KIND: &str = "result_kind";

/// Says which keys of a set of GROUPING SETS are rolled up; it is also written GROUPING_ID.
pub(crate) const GROUPING: &str = "grouping";

/// Numbers equal sets of GROUPING SETS.
pub(crate) const GROUP_ID: &str = "group_id";

/// The functions by their own names; `variance` is another name of `var_samp`.
pub(crate) const AGGREGATES: [&str; 43] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "bool_and",
    "bool_or",
    "every",
    "bit_and",
    "bit_or",
    "bit_xor",
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "var_pop",
    "var_samp",
    "variance",
    "stddev_pop",
    "stddev_samp",
    "first_value",
    "last_value",
    "median",
    "percentile",
    "percentile_cont",
    "percentile_disc",
    "mode",
    "array_agg",
    "listagg",
    "approx_count_distinct",
    "approx_percentile",
    GROUPING,
    "grouping_id",
    GROUP_ID,
    RESULT_KIND,
];

/// Whether DataFusion's function of this name is one of these: some have another name there.
pub(crate) fn is_planned(name: &str) -> bool {
    AGGREGATES.contains(&name) || matches!(name, "var" | "stddev")
}

/// What to write instead of an aggregate function that Flink or DataFusion have and windows do not compute yet.
pub(crate) fn instead_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "approx_distinct" => "write APPROX_COUNT_DISTINCT(column)",
        "approx_median" => "write APPROX_PERCENTILE(column, 0.5)",
        "approx_percentile_cont" => "write APPROX_PERCENTILE(column, 0.95)",
        "collect" | "json_arrayagg" => "write ARRAY_AGG(column)",
        "json_objectagg" => "write LISTAGG(key || ':' || value)",
        "nth_value" => "use FIRST_VALUE or LAST_VALUE",
        "stddev" => "write STDDEV_SAMP or STDDEV_POP",
        "string_agg" => "write LISTAGG(column, ', ')",
        "var" => "write VAR_SAMP or VAR_POP",
        _ => return None,
    })
}

/// The function of this name, in any case.
pub(crate) fn aggregate_function(name: &str) -> Option<Arc<AggregateUDF>> {
    use datafusion_functions_aggregate::{average, count, min_max, stddev, sum, variance};
    let name = name.to_lowercase();
    Some(match name.as_str() {
        "count" => count::count_udaf(),
        "sum" => sum::sum_udaf(),
        "avg" => average::avg_udaf(),
        "min" => min_max::min_udaf(),
        "max" => min_max::max_udaf(),
        "var_pop" => variance::var_pop_udaf(),
        "var_samp" | "variance" => variance::var_samp_udaf(),
        "stddev_pop" => stddev::stddev_pop_udaf(),
        "stddev_samp" => stddev::stddev_udaf(),
        "grouping_id" => return aggregate_function(GROUPING),
        name => OWN.iter().find(|function| function.name() == name)?.clone(),
    })
}

static OWN: LazyLock<Vec<Arc<AggregateUDF>>> = LazyLock::new(|| {
    let own = DEFINITIONS.iter().map(|definition| AggregateUDF::new_from_impl(Function::new(definition)));
    own.map(Arc::new).collect()
});

/// What an argument must be; it is cast to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parameter {
    /// Anything.
    Any,
    /// A number, as DOUBLE.
    Number,
    /// A constant number, as DOUBLE.
    Fraction,
    /// A string.
    Text,
    /// An integer.
    Integer,
    /// A condition.
    Boolean,
}

/// A function of our own.
#[derive(Debug)]
struct Definition {
    name: &'static str,
    parameters: &'static [Parameter],
    /// How many of the parameters, from the front, must be given.
    required: usize,
    /// Whether its first argument may stand in `WITHIN GROUP (ORDER BY …)`.
    is_ordered_set: bool,
    /// How it is written.
    written: &'static str,
    /// Its type, given those of its arguments as they are after the cast.
    returns: fn(&[DataType]) -> DataType,
}

const DEFINITIONS: [Definition; 34] = {
    use Parameter::{Any, Boolean, Fraction, Integer, Number, Text};
    [
        define("bool_and", &[Boolean], first, "BOOL_AND(condition)"),
        define("bool_or", &[Boolean], first, "BOOL_OR(condition)"),
        define("every", &[Boolean], first, "EVERY(condition)"),
        define("bit_and", &[Integer], first, "BIT_AND(column)"),
        define("bit_or", &[Integer], first, "BIT_OR(column)"),
        define("bit_xor", &[Integer], first, "BIT_XOR(column)"),
        define("corr", &[Number, Number], double, "CORR(y, x)"),
        define("covar_pop", &[Number, Number], double, "COVAR_POP(y, x)"),
        define("covar_samp", &[Number, Number], double, "COVAR_SAMP(y, x)"),
        define("regr_avgx", &[Number, Number], double, "REGR_AVGX(y, x)"),
        define("regr_avgy", &[Number, Number], double, "REGR_AVGY(y, x)"),
        define("regr_count", &[Number, Number], bigint, "REGR_COUNT(y, x)"),
        define("regr_intercept", &[Number, Number], double, "REGR_INTERCEPT(y, x)"),
        define("regr_r2", &[Number, Number], double, "REGR_R2(y, x)"),
        define("regr_slope", &[Number, Number], double, "REGR_SLOPE(y, x)"),
        define("regr_sxx", &[Number, Number], double, "REGR_SXX(y, x)"),
        define("regr_sxy", &[Number, Number], double, "REGR_SXY(y, x)"),
        define("regr_syy", &[Number, Number], double, "REGR_SYY(y, x)"),
        define("first_value", &[Any], first, "FIRST_VALUE(column)"),
        define("last_value", &[Any], first, "LAST_VALUE(column)"),
        define("median", &[Number], double, "MEDIAN(column)"),
        define("percentile", &[Number, Fraction], double, "PERCENTILE(column, 0.95)"),
        ordered_set(
            "percentile_cont",
            &[Number, Fraction],
            double,
            "PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY column)",
        ),
        ordered_set("percentile_disc", &[Any, Fraction], first, "PERCENTILE_DISC(0.95) WITHIN GROUP (ORDER BY column)"),
        // What stands OVER rows for those two with DESC.
        define(
            "percentile_cont_descending",
            &[Number, Fraction],
            double,
            "PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY column DESC)",
        ),
        define(
            "percentile_disc_descending",
            &[Any, Fraction],
            first,
            "PERCENTILE_DISC(0.95) WITHIN GROUP (ORDER BY column DESC)",
        ),
        ordered_set("mode", &[Any], first, "MODE(column)"),
        define("array_agg", &[Any], array, "ARRAY_AGG(column)"),
        define(GROUPING, &[Any], bigint, "GROUPING(key)"),
        define(GROUP_ID, &[], bigint, "GROUP_ID()"),
        define(RESULT_KIND, &[], text, "RESULT_KIND()"),
        Definition { required: 1, ..define("listagg", &[Text, Text], first, "LISTAGG(column, ', ')") },
        define("approx_count_distinct", &[Any], bigint, "APPROX_COUNT_DISTINCT(column)"),
        define("approx_percentile", &[Number, Fraction], double, "APPROX_PERCENTILE(column, 0.95)"),
    ]
};

const fn define(
    name: &'static str,
    parameters: &'static [Parameter],
    returns: fn(&[DataType]) -> DataType,
    written: &'static str,
) -> Definition {
    Definition { name, parameters, required: parameters.len(), is_ordered_set: false, written, returns }
}

const fn ordered_set(
    name: &'static str,
    parameters: &'static [Parameter],
    returns: fn(&[DataType]) -> DataType,
    written: &'static str,
) -> Definition {
    Definition { is_ordered_set: true, ..define(name, parameters, returns, written) }
}

fn first(types: &[DataType]) -> DataType {
    types[0].clone()
}

fn text(_: &[DataType]) -> DataType {
    DataType::Utf8View
}

fn double(_: &[DataType]) -> DataType {
    DataType::Float64
}

fn bigint(_: &[DataType]) -> DataType {
    DataType::Int64
}

fn array(types: &[DataType]) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(held_type(&types[0]).unwrap_or_else(|| types[0].clone()), true)))
}

/// A definition as DataFusion sees it.
#[derive(Debug)]
struct Function {
    definition: &'static Definition,
    signature: Signature,
}

impl Function {
    fn new(definition: &'static Definition) -> Function {
        // DataFusion coerces no arguments where there are none.
        let signature = match definition.parameters {
            [] => Signature::nullary(Volatility::Immutable),
            _ if definition.name == GROUPING => Signature::variadic_any(Volatility::Immutable),
            _ => Signature::user_defined(Volatility::Immutable),
        };
        Function { definition, signature }
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.definition.name == other.definition.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
    }
}

impl AggregateUDFImpl for Function {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok((self.definition.returns)(types))
    }

    fn is_nullable(&self) -> bool {
        // Of no values the number is zero.
        !matches!(self.definition.name, "approx_count_distinct" | "regr_count" | GROUPING | GROUP_ID)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let Definition { name, parameters, required, written, .. } = self.definition;
        let name = shown_name(name);
        if let Some(wanted) = pelton_functions::unmet_count(*required, parameters.len(), types.len()) {
            return plan_err!("{name} takes {wanted}, not {}; write {written}", types.len());
        }
        let accepted = |(at, (parameter, given)): (usize, (&Parameter, &DataType))| {
            let is_number = given.is_numeric() || given.is_null();
            let (wanted, fits) = match parameter {
                Parameter::Any if given.is_string() => return Ok(DataType::Utf8View),
                Parameter::Any => return Ok(given.clone()),
                Parameter::Number => ("a number", is_number.then_some(DataType::Float64)),
                Parameter::Fraction => ("a number from 0 to 1", is_number.then_some(DataType::Float64)),
                Parameter::Text => ("a string", (given.is_string() || given.is_null()).then_some(DataType::Utf8View)),
                Parameter::Integer if given.is_null() => ("an integer", Some(DataType::Int32)),
                Parameter::Integer => ("an integer", held_type(given).filter(DataType::is_signed_integer)),
                Parameter::Boolean => {
                    let fits = *given == DataType::Boolean || given.is_null();
                    ("a condition", fits.then_some(DataType::Boolean))
                }
            };
            match fits {
                Some(data_type) => Ok(data_type),
                None => plan_err!("argument {} of {name} is {}; it must be {wanted}", at + 1, sql_name(given)),
            }
        };
        parameters.iter().zip(types).enumerate().map(accepted).collect()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.definition.is_ordered_set
    }

    fn supports_null_handling_clause(&self) -> bool {
        true
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        internal_err!("windows compute aggregates, not DataFusion")
    }
}
