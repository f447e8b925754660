//! The list of the crate's functions: name, parameters, type and the code of each.

use arrow::datatypes::{DataType, TimeUnit};

use crate::definition::{Definition, Evaluate, Parameter, always, second};
use crate::time::{instants, zoned};
use crate::{charset, digest, growth, json, number, printf, regexp, text, time, url, wildcard};

/// All functions of our own but GREATEST and LEAST, by name.
pub(super) const DEFINITIONS: [Definition; 69] = {
    use Evaluate::{Arguments, Arrays, Pattern};
    use Parameter::{Any, Bytes, Double, Integer, Json, Number, Printed, Text, Time, TimeOrText};
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
        variadic("json_array", &[Text, Json], string, Arrays(json::json_array)),
        define("json_exists", &[Text, Text, Text], 2, boolean, Arrays(json::json_exists)),
        variadic("json_object", &[Text, Json], string, Arrays(json::json_object)),
        define("json_query", &[Text; 5], 2, string, Arrays(json::json_query)),
        define("json_quote", &[Text], 1, string, Arrays(json::json_quote)),
        define("json_string", &[Json], 1, string, Arrays(json::json_string)),
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
        variadic("printf", &[Text, Printed], string, Arrays(printf::printf)),
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

fn third(types: &[DataType]) -> DataType {
    types[2].clone()
}

fn third_as_timestamp(types: &[DataType]) -> DataType {
    match &types[2] {
        DataType::Date32 => timestamp(types),
        other => other.clone(),
    }
}
