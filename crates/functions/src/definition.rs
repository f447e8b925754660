//! What a function takes and returns, and how it is computed.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::Result;
use datafusion_expr::ColumnarValue;
use regex::Regex;

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
    /// What has a form in JSON.
    Json,
    /// What PRINTF writes.
    Printed,
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
    pub arguments: &'a [ColumnarValue],
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

/// Of functions that may be NULL, as far as is known before they are computed.
pub(super) fn always(_: &[FieldRef]) -> bool {
    true
}

pub(super) fn second(types: &[DataType]) -> DataType {
    types[1].clone()
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
