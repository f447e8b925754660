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

use super::diagnose::sql_name;
use super::draft::held_type;
use crate::parse::shown_name;

/// Says of a window's results whether they are its first or correct others.
pub(crate) const RESULT_KIND: &str = "result_kind";

/// The functions by their own names; `variance` is another name of `var_samp`.
pub(super) const AGGREGATES: [&str; 22] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
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
    RESULT_KIND,
];

/// Whether DataFusion's function of this name is one of these: some have another name there.
pub(super) fn is_planned(name: &str) -> bool {
    AGGREGATES.contains(&name) || matches!(name, "var" | "stddev")
}

/// What to write instead of an aggregate function that Flink or DataFusion have and windows do not compute yet.
pub(super) fn instead_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "approx_distinct" => "write APPROX_COUNT_DISTINCT(column)",
        "approx_median" => "write APPROX_PERCENTILE(column, 0.5)",
        "approx_percentile_cont" => "write APPROX_PERCENTILE(column, 0.95)",
        "bit_and" | "bit_or" | "bit_xor" => "register it from Rust as a function of your own",
        "bool_and" => "write MIN(CASE WHEN condition THEN 1 ELSE 0 END) = 1",
        "bool_or" => "write MAX(CASE WHEN condition THEN 1 ELSE 0 END) = 1",
        "collect" | "json_arrayagg" => "write ARRAY_AGG(column)",
        "corr" | "covar_pop" | "covar_samp" | "regr_slope" => {
            "compute it from AVG(x * y), AVG(x), AVG(y) and VAR_POP(x)"
        }
        "grouping" | "grouping_id" | "group_id" => {
            "write one INSERT for each set of keys, in one EXECUTE STATEMENT SET"
        }
        "json_objectagg" => "write LISTAGG(key || ':' || value)",
        "nth_value" => "use FIRST_VALUE or LAST_VALUE",
        "stddev" => "write STDDEV_SAMP or STDDEV_POP",
        "string_agg" => "write LISTAGG(column, ', ')",
        "var" => "write VAR_SAMP or VAR_POP",
        _ => return None,
    })
}

/// The function of this name, in any case.
pub(super) fn aggregate_function(name: &str) -> Option<Arc<AggregateUDF>> {
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

const DEFINITIONS: [Definition; 14] = {
    use Parameter::{Any, Fraction, Number, Text};
    [
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
        self.definition.name != "approx_count_distinct"
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
