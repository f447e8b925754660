//! What a function takes and returns, and how it is computed.

use std::hash::{Hash, Hasher};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{Result, ScalarValue, plan_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::{text, time};
use crate::types::SqlType;

/// What an argument must be; DataFusion casts it to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    /// A string.
    Text,
    /// A whole number, as BIGINT.
    Integer,
    /// A DATE or TIMESTAMP of any precision; a string is read as TIMESTAMP(3).
    Time,
    /// Anything.
    Any,
}

/// A function of our own.
#[derive(Debug)]
pub(super) struct Definition {
    /// In lower case, as DataFusion looks it up.
    pub name: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// How many of the parameters, from the front, must be given.
    pub required: usize,
    /// Its type, given those of its arguments as they are after the cast.
    pub returns: fn(&[DataType]) -> DataType,
    /// Its values. All arguments have the same length.
    pub evaluate: fn(&[ArrayRef]) -> Result<ArrayRef>,
}

/// All functions of our own but GREATEST and LEAST, by name.
pub(super) const DEFINITIONS: [Definition; 22] = {
    use Parameter::{Any, Integer, Text, Time};
    [
        define("bin", &[Integer], 1, string, text::bin),
        define("ceil_to", &[Text, Time], 2, second, time::ceil_to),
        define("date_format", &[Time, Text], 2, string, time::date_format),
        define("floor_to", &[Text, Time], 2, second, time::floor_to),
        define("from_unixtime", &[Integer, Text], 1, string, time::from_unixtime),
        define("hex", &[Any], 1, string, text::hex),
        define("is_alpha", &[Any], 1, boolean, text::is_alpha),
        define("is_decimal", &[Any], 1, boolean, text::is_decimal),
        define("is_digit", &[Any], 1, boolean, text::is_digit),
        define("json_value", &[Text, Text], 2, string, text::json_value),
        define("locate", &[Text, Text, Integer], 2, integer, text::locate),
        define("regexp_extract", &[Text, Text, Integer], 2, string, text::regexp_extract),
        define("split_index", &[Text, Any, Integer], 3, string, text::split_index),
        define("substring_from", &[Text, Integer, Integer], 2, string, text::substring),
        define("timestamp_to_string", &[Time], 1, string, time::to_string),
        define("timestampadd", &[Text, Integer, Time], 3, third, time::add_days),
        define("timestampadd_time", &[Text, Integer, Time], 3, third_as_timestamp, time::add_time),
        define("timestampdiff", &[Text, Time, Time], 3, bigint, time::timestamp_diff),
        define("to_date", &[Text, Text], 1, date, time::to_date),
        define("to_timestamp", &[Text, Text], 1, timestamp, time::to_timestamp),
        define("typeof", &[Any], 1, string, text::type_of),
        define("unix_timestamp", &[Text, Text], 1, bigint, time::unix_timestamp),
    ]
};

const fn define(
    name: &'static str,
    parameters: &'static [Parameter],
    required: usize,
    returns: fn(&[DataType]) -> DataType,
    evaluate: fn(&[ArrayRef]) -> Result<ArrayRef>,
) -> Definition {
    Definition { name, parameters, required, returns, evaluate }
}

fn string(_: &[DataType]) -> DataType {
    DataType::Utf8View
}

fn boolean(_: &[DataType]) -> DataType {
    DataType::Boolean
}

fn integer(_: &[DataType]) -> DataType {
    DataType::Int32
}

fn bigint(_: &[DataType]) -> DataType {
    DataType::Int64
}

fn date(_: &[DataType]) -> DataType {
    DataType::Date32
}

fn timestamp(_: &[DataType]) -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, None)
}

fn second(types: &[DataType]) -> DataType {
    types[1].clone()
}

fn third(types: &[DataType]) -> DataType {
    types[2].clone()
}

fn third_as_timestamp(types: &[DataType]) -> DataType {
    match &types[2] {
        DataType::Date32 => timestamp(types),
        other => other.clone(),
    }
}

/// A definition as DataFusion sees it.
#[derive(Debug)]
pub(super) struct Function {
    definition: &'static Definition,
    signature: Signature,
}

impl Function {
    pub fn new(definition: &'static Definition) -> Function {
        Function { definition, signature: Signature::user_defined(Volatility::Immutable) }
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

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let Definition { name, parameters, required, .. } = self.definition;
        let name = written_name(name);
        if types.len() < *required || types.len() > parameters.len() {
            let wanted = match parameters.len() {
                most if most == *required => most.to_string(),
                most => format!("{required} to {most}"),
            };
            return plan_err!("{name} takes {wanted} arguments, not {}", types.len());
        }
        let cast = |(at, (parameter, given)): (usize, (&Parameter, &DataType))| match accepted(*parameter, given) {
            Some(data_type) => Ok(data_type),
            None => {
                let given =
                    SqlType::from_arrow(given).map_or_else(|| given.to_string(), |sql_type| sql_type.to_string());
                let wanted = match parameter {
                    Parameter::Text => "a string",
                    Parameter::Integer => "a whole number",
                    Parameter::Time => "a DATE or TIMESTAMP",
                    Parameter::Any => "a value",
                };
                plan_err!("argument {} of {name} is {given}; it must be {wanted}: use CAST", at + 1)
            }
        };
        parameters.iter().zip(types).enumerate().map(cast).collect()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok((self.definition.returns)(types))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let values = (self.definition.evaluate)(&ColumnarValue::values_to_arrays(&args.args)?)?;
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(values))
    }
}

/// How the user wrote a function that has another name in the syntax tree.
fn written_name(name: &str) -> String {
    match name {
        "ceil_to" => "CEIL".to_string(),
        "floor_to" => "FLOOR".to_string(),
        "substring_from" => "SUBSTRING".to_string(),
        "timestampadd_time" => "TIMESTAMPADD".to_string(),
        other => other.to_uppercase(),
    }
}

/// The type an argument of type `given` is cast to, or `None` where it does not fit.
fn accepted(parameter: Parameter, given: &DataType) -> Option<DataType> {
    let given = match given {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    match parameter {
        Parameter::Any if given.is_string() => Some(DataType::Utf8View),
        Parameter::Any => Some(given.clone()),
        Parameter::Text => (given.is_string() || given.is_null()).then_some(DataType::Utf8View),
        Parameter::Integer => (given.is_integer() || given.is_null()).then_some(DataType::Int64),
        Parameter::Time => match given {
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
            }
            DataType::Timestamp(..) | DataType::Date32 => Some(given.clone()),
            other if other.is_string() || other.is_null() => Some(timestamp(&[])),
            _ => None,
        },
    }
}
