//! What a function takes and returns, and how it is computed.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion_common::{Result, ScalarValue, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use pelton_data::column::sql_name;
use regex::Regex;

use crate::time::{instants, zoned};
use crate::{charset, digest, growth, json, number, printf, regexp, text, time, url, wildcard};

/// What an argument must be; DataFusion casts it to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    /// A string.
    Text,
    /// A whole number, as BIGINT.
    Integer,
    /// BYTES.
    Bytes,
    /// A DATE or TIMESTAMP of any precision; a string is read as TIMESTAMP(3).
    Time,
    /// The same, but a string stays one.
    TimeOrText,
    /// A number, as it is.
    Number,
    /// A number, as DOUBLE.
    Double,
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
    /// Whether there may be more arguments, like that of the last parameter.
    pub repeats: bool,
    /// Its type, given those of its arguments as they are after the cast.
    pub returns: fn(&[DataType]) -> DataType,
    /// Whether it may be NULL, given the fields of its arguments.
    pub is_nullable: fn(&[FieldRef]) -> bool,
    /// How it is computed.
    pub evaluate: Evaluate,
}

/// What computes the values of a function.
#[derive(Debug, Clone, Copy)]
pub(super) enum Evaluate {
    /// Of arrays that all have the same length.
    Arrays(fn(&[ArrayRef]) -> Result<ArrayRef>),
    /// Of columns and constants.
    Arguments(fn(&Arguments<'_>) -> Result<ArrayRef>),
    /// The same, where the second argument is a regular expression, which is compiled when the query is planned if it is constant.
    Pattern(fn(&Arguments<'_>) -> Result<ArrayRef>),
}

/// The arguments of one call.
#[derive(Debug)]
pub(super) struct Arguments<'a> {
    arguments: &'a [ColumnarValue],
    /// Values to compute.
    pub rows: usize,
    /// The constant regular expression among the arguments, compiled.
    pub regex: Option<&'a Regex>,
}

/// One argument.
#[derive(Debug, Clone)]
pub(super) struct Argument {
    /// Its values: one that holds for all rows where it is constant.
    pub values: ArrayRef,
    /// Whether it is constant.
    pub is_constant: bool,
}

impl Arguments<'_> {
    /// The argument at `index`; `None` where it was not given.
    pub fn get(&self, index: usize) -> Result<Option<Argument>> {
        let argument = |value: &ColumnarValue| match value {
            ColumnarValue::Array(values) => Ok(Argument { values: values.clone(), is_constant: false }),
            ColumnarValue::Scalar(value) => Ok(Argument { values: value.to_array()?, is_constant: true }),
        };
        self.arguments.get(index).map(argument).transpose()
    }

    /// The argument at `index`, which must be given, with a value for each row.
    pub fn column(&self, index: usize) -> Result<ArrayRef> {
        self.arguments[index].to_array(self.rows)
    }
}

impl Argument {
    /// Where the value of a row is.
    pub fn place(&self, row: usize) -> usize {
        if self.is_constant { 0 } else { row }
    }
}

/// All functions of our own but GREATEST and LEAST, by name.
pub(super) const DEFINITIONS: [Definition; 69] = {
    use Evaluate::{Arguments, Arrays, Pattern};
    use Parameter::{Any, Bytes, Double, Integer, Number, Text, Time, TimeOrText};
    [
        define("bin", &[Integer], 1, string, Arrays(text::bin)),
        define("ceil_to", &[Text, Time], 2, second, Arguments(time::ceil_to)),
        define("character_decode", &[Bytes, Text], 2, string, Arrays(charset::decode)),
        define("character_encode", &[Text, Text], 2, bytes, Arrays(charset::encode)),
        define("chr", &[Integer], 1, string, Arrays(text::chr)),
        define("convert_tz", &[Text, Text, Text], 3, string, Arrays(zoned::convert_tz)),
        define("date_format", &[TimeOrText, Text], 2, string, Arrays(time::date_format)),
        define("floor_to", &[Text, Time], 2, second, Arguments(time::floor_to)),
        define("from_unixtime", &[Integer, Text], 1, string, Arrays(time::from_unixtime)),
        define("hex", &[Any], 1, string, Arrays(text::hex)),
        define("instr", &[Text, Text, Integer, Integer], 2, integer, Arrays(text::instr)),
        define("is_alpha", &[Any], 1, boolean, Arrays(text::is_alpha)),
        define("is_decimal", &[Any], 1, boolean, Arrays(text::is_decimal)),
        define("is_digit", &[Any], 1, boolean, Arrays(text::is_digit)),
        define("inet_aton", &[Text], 1, bigint, Arrays(url::inet_aton)),
        define("inet_ntoa", &[Integer], 1, string, Arrays(url::inet_ntoa)),
        define("is_json_value", &[Text, Text], 1, boolean, Arrays(json::is_json_value)),
        variadic("json_array", &[Text, Any], string, Arrays(json::json_array)),
        define("json_exists", &[Text, Text, Text], 2, boolean, Arrays(json::json_exists)),
        variadic("json_object", &[Text, Any], string, Arrays(json::json_object)),
        define("json_query", &[Text; 5], 2, string, Arrays(json::json_query)),
        define("json_quote", &[Text], 1, string, Arrays(json::json_quote)),
        define("json_string", &[Any], 1, string, Arrays(json::json_string)),
        define("json_unquote", &[Text], 1, string, Arrays(json::json_unquote)),
        define("json_value", &[Text; 7], 2, string, Arrays(json::json_value)),
        define("like_pattern", &[Text, Text], 1, string, Arrays(wildcard::like_pattern)),
        define("left", &[Text, Integer], 2, string, Arrays(text::left)),
        define("length_between", &[Time, Time], 2, time::length_type, Arrays(time::length_between)),
        define("locate", &[Text, Text, Integer], 2, integer, Arrays(text::locate)),
        define("log", &[Double, Double], 2, double, Arrays(number::log)),
        define("log2", &[Double], 1, double, Arrays(number::log2)),
        define("lpad", &[Text, Integer, Text], 2, string, Arrays(text::lpad)),
        define("md5", &[Text], 1, string, Arrays(digest::md5)),
        define("parse_url", &[Text, Text, Text], 2, string, Arrays(url::parse_url)),
        variadic("printf", &[Text, Any], string, Arrays(printf::printf)),
        define("regexp_count", &[Text, Text], 2, integer, Pattern(regexp::regexp_count)),
        define("regexp_extract", &[Text, Text, Integer], 2, string, Pattern(regexp::regexp_extract)),
        define("regexp_instr", &[Text, Text], 2, integer, Pattern(regexp::regexp_instr)),
        define("regexp_like", &[Text, Text], 2, boolean, Pattern(regexp::regexp_like)),
        define("regexp_replace", &[Text, Text, Text], 3, string, Pattern(regexp::regexp_replace)),
        define("repeat", &[Text, Integer], 2, string, Arrays(growth::repeat)),
        define("right", &[Text, Integer], 2, string, Arrays(text::right)),
        define("rpad", &[Text, Integer, Text], 2, string, Arrays(text::rpad)),
        define("sha1", &[Text], 1, string, Arrays(digest::sha1)),
        define("sha2", &[Text, Integer], 2, string, Arrays(digest::sha2)),
        define("sha224", &[Text], 1, string, Arrays(digest::sha224)),
        define("sha256", &[Text], 1, string, Arrays(digest::sha256)),
        define("sha384", &[Text], 1, string, Arrays(digest::sha384)),
        define("sha512", &[Text], 1, string, Arrays(digest::sha512)),
        define("similar_pattern", &[Text, Text], 1, string, Arrays(wildcard::similar_pattern)),
        define("signum", &[Number], 1, number::sign_type, Arrays(number::sign)),
        define("split_index", &[Text, Any, Integer], 3, string, Arguments(text::split_index)),
        define("sqrt", &[Double], 1, double, Arrays(number::sqrt)),
        define("substring_from", &[Text, Integer, Integer], 2, string, Arrays(text::substring)),
        define("timestamp_to_string", &[Time], 1, string, Arrays(time::to_string)),
        define("timestampadd", &[Text, Integer, Time], 3, third, Arguments(time::add_days)),
        define("timestampadd_time", &[Text, Integer, Time], 3, third_as_timestamp, Arguments(time::add_time)),
        define("timestampdiff", &[Text, Time, Time], 3, integer, Arguments(time::timestamp_diff)),
        define("timestampdiff_micros", &[Text, Time, Time], 3, bigint, Arguments(time::timestamp_diff_micros)),
        define("to_date", &[Text, Text], 1, date, Arrays(time::to_date)),
        define("to_timestamp", &[Text, Text], 1, timestamp, Arrays(time::to_timestamp)),
        define("to_timestamp_ltz", &[Any, Any, Text], 1, instants::millis, Arrays(instants::to_instant)),
        define("to_timestamp_ltz_micros", &[Number, Integer], 2, instants::micros, Arrays(instants::to_instant)),
        define("translate", &[Text; 3], 3, string, Arrays(text::translate)),
        define("typeof", &[Any], 1, string, Arrays(text::type_of)),
        define("unhex", &[Text], 1, bytes, Arrays(text::unhex)),
        define("unix_timestamp", &[Text, Text], 1, bigint, Arrays(time::unix_timestamp)),
        define("url_decode", &[Text], 1, string, Arrays(url::url_decode)),
        define("url_encode", &[Text], 1, string, Arrays(url::url_encode)),
    ]
};

const fn define(
    name: &'static str,
    parameters: &'static [Parameter],
    required: usize,
    returns: fn(&[DataType]) -> DataType,
    evaluate: Evaluate,
) -> Definition {
    Definition { name, parameters, required, repeats: false, returns, is_nullable: always, evaluate }
}

/// A function whose last parameter may be given several times, or not at all.
const fn variadic(
    name: &'static str,
    parameters: &'static [Parameter],
    returns: fn(&[DataType]) -> DataType,
    evaluate: Evaluate,
) -> Definition {
    Definition { repeats: true, ..define(name, parameters, parameters.len() - 1, returns, evaluate) }
}

/// Of functions that may be NULL, as far as is known before they are computed.
pub(super) fn always(_: &[FieldRef]) -> bool {
    true
}

fn string(_: &[DataType]) -> DataType {
    DataType::Utf8View
}

fn bytes(_: &[DataType]) -> DataType {
    DataType::BinaryView
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

fn double(_: &[DataType]) -> DataType {
    DataType::Float64
}

pub(super) fn second(types: &[DataType]) -> DataType {
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
    /// Compiled when the query is planned, where it is a constant.
    regex: Option<Regex>,
}

impl Function {
    pub fn new(definition: &'static Definition) -> Function {
        Function { definition, signature: Signature::user_defined(Volatility::Immutable), regex: None }
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
        let Definition { name, parameters, required, repeats, .. } = self.definition;
        let name = written_name(name);
        let most = if *repeats { usize::MAX } else { parameters.len() };
        if let Some(wanted) = unmet_count(*required, most, types.len()) {
            return plan_err!("{name} takes {wanted}, not {}", types.len());
        }
        let cast = |(at, (parameter, given)): (usize, (&Parameter, &DataType))| match accepted(*parameter, given) {
            Some(data_type) => Ok(data_type),
            None => {
                let wanted = match parameter {
                    Parameter::Text => "a string",
                    Parameter::Integer => "a whole number",
                    Parameter::Number | Parameter::Double => "a number",
                    Parameter::Bytes => "BYTES",
                    Parameter::Time | Parameter::TimeOrText => "a DATE or TIMESTAMP",
                    Parameter::Any => "a value",
                };
                plan_err!("argument {} of {name} is {}; it must be {wanted}: use CAST", at + 1, sql_name(given))
            }
        };
        let last = parameters.last().into_iter().cycle();
        parameters.iter().chain(last).zip(types).enumerate().map(cast).collect()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok((self.definition.returns)(types))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let is_nullable = (self.definition.is_nullable)(args.arg_fields);
        Ok(Arc::new(Field::new(self.definition.name, self.return_type(&types)?, is_nullable)))
    }

    fn simplify(&self, arguments: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let pattern = match arguments.get(1) {
            Some(Expr::Literal(ScalarValue::Utf8View(Some(pattern)) | ScalarValue::Utf8(Some(pattern)), _))
                if matches!(self.definition.evaluate, Evaluate::Pattern(_)) && self.regex.is_none() =>
            {
                pattern
            }
            _ => return Ok(ExprSimplifyResult::Original(arguments)),
        };
        // What is wrong with it is said when there is a row to apply it to.
        let Ok(Some(regex)) = regexp::compiled(self.definition.name, pattern) else {
            return Ok(ExprSimplifyResult::Original(arguments));
        };
        if self.definition.name == "regexp_like" && regexp::is_plain(pattern) {
            return Ok(ExprSimplifyResult::Simplified(regexp::as_operator(arguments)));
        }
        let prepared = Function { regex: Some(regex), ..Function::new(self.definition) };
        let function = ScalarFunction::new_udf(ScalarUDF::new_from_impl(prepared).into(), arguments);
        Ok(ExprSimplifyResult::Simplified(Expr::ScalarFunction(function)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let values = match self.definition.evaluate {
            Evaluate::Arrays(evaluate) => evaluate(&ColumnarValue::values_to_arrays(&args.args)?)?,
            Evaluate::Arguments(evaluate) | Evaluate::Pattern(evaluate) => {
                let rows = if is_constant { 1 } else { args.number_rows };
                evaluate(&Arguments { arguments: &args.args, rows, regex: self.regex.as_ref() })?
            }
        };
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(values))
    }
}

/// How many arguments a function takes, in words, where `given` are too few or too many.
pub fn unmet_count(required: usize, most: usize, given: usize) -> Option<String> {
    if (required..=most).contains(&given) {
        return None;
    }
    Some(match (required, most) {
        (1, 1) => "1 argument".to_string(),
        (required, usize::MAX) => format!("{required} or more arguments"),
        (required, most) if required == most => format!("{most} arguments"),
        (required, most) if required + 1 == most => format!("{required} or {most} arguments"),
        (required, most) => format!("{required} to {most} arguments"),
    })
}

/// How the user wrote a function that has another name in the syntax tree.
pub(super) fn written_name(name: &str) -> String {
    match name {
        "ceil_to" => "CEIL".to_string(),
        "character_decode" => "DECODE".to_string(),
        "character_encode" => "ENCODE".to_string(),
        "floor_to" => "FLOOR".to_string(),
        "like_pattern" => "ESCAPE".to_string(),
        "regexp_like" => "REGEXP".to_string(),
        "similar_pattern" => "SIMILAR TO".to_string(),
        "signum" => "SIGN".to_string(),
        "substring_from" => "SUBSTRING".to_string(),
        "length_between" => "(later - earlier) UNIT".to_string(),
        "timestampadd_time" => "TIMESTAMPADD".to_string(),
        "timestampdiff_micros" => "TIMESTAMPDIFF".to_string(),
        "to_timestamp_ltz_micros" => "TO_TIMESTAMP_LTZ".to_string(),
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
        Parameter::Bytes => {
            let is_bytes = matches!(given, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
            (is_bytes || given.is_null()).then_some(DataType::BinaryView)
        }
        Parameter::Integer => (given.is_integer() || given.is_null()).then_some(DataType::Int64),
        Parameter::Number if given.is_numeric() => Some(given.clone()),
        Parameter::Number | Parameter::Double => (given.is_numeric() || given.is_null()).then_some(DataType::Float64),
        Parameter::TimeOrText if given.is_string() => Some(DataType::Utf8View),
        Parameter::Time | Parameter::TimeOrText => match given {
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
            }
            DataType::Timestamp(..) | DataType::Date32 => Some(given.clone()),
            other if other.is_string() || other.is_null() => Some(timestamp(&[])),
            _ => None,
        },
    }
}
