//! Scalar functions, aggregate functions with states of their own (`aggregates`) and table functions (`table`), with the meaning that Flink gives them, where DataFusion has none or another one under that name.
//!
//! A record meets them in a kernel, as an expression that is computed for a whole block: what stands here runs for every row.
//! Each is a definition (`definition.rs`) that a plan names; they take the place of DataFusion's functions of the same name. What
//! is only another spelling of something DataFusion has is respelt when a query is parsed, and is not here.
//!
//! `docs/sql/differences-from-flink.md` lists the values that differ from Flink's on purpose, and `tests/sql/flink/differences.slt` tests them.

pub mod aggregates;

mod definition;

mod function;

mod definitions;

pub mod decimal;

mod text;

mod wildcard;

mod time;

pub mod time_unit;

mod clock;

mod json;

mod url;

mod growth;

mod charset;

mod digest;

mod pattern;

mod extreme;

mod printf;

mod regexp;

mod regular;

mod rounding;

mod casting;

mod number;

mod significant;

mod nested;

mod table;

pub use casting::{always_casts, cast_literal, is_flink_cast, is_own_cast, makes_null, strict_cast_literal};
pub use charset::{CHARACTER_SETS, character_set};
pub use definition::unmet_count;
pub use growth::{bounded, bytes_of_array, can_grow, is_too_large, joined};
pub use json::is_path as is_json_path;
pub use nested::{ARRAY_OF, FIELD, FIT, ITEM, MAP_OF, field, fit_nested, fits, item};
pub use regular::{java_only, translated as translated_pattern};
pub use table::{UNNEST, table_functions, unnest};
pub use wildcard::{PatternError, like, similar};

use std::sync::Arc;

use datafusion_common::ScalarValue;
use datafusion_expr::{Expr, ScalarUDF};

/// Flink's functions that are no respelling of DataFusion's. They take precedence over DataFusion's of the same name.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let own =
        definitions::DEFINITIONS.iter().map(|definition| ScalarUDF::new_from_impl(function::Function::new(definition)));
    let clock = ScalarUDF::new_from_impl(clock::CurrentTimestamp::new());
    own.chain(extreme::functions()).chain(nested::functions()).chain([clock]).map(Arc::new).collect()
}

/// What is wrong with a pattern of times such as `yyyy-MM-dd`; `None` where nothing is.
pub fn time_pattern_error(pattern: &str) -> Option<String> {
    pattern::Pattern::new(pattern).err().map(|error| error.message().into_owned())
}

/// A timestamp as a string, as Flink writes it.
pub fn timestamp_to_string(timestamp: Expr) -> Expr {
    named("timestamp_to_string", vec![timestamp])
}

/// ROUND of a FLOAT or DOUBLE, and of how many digits are left.
pub fn round(arguments: Vec<Expr>) -> Expr {
    call(&rounding::ROUND, arguments)
}

/// ROUND of a whole number, and of how many digits are left.
pub fn round_integer(arguments: Vec<Expr>) -> Expr {
    call(&rounding::ROUND_INTEGER, arguments)
}

/// TRUNCATE of a FLOAT or DOUBLE, and of how many digits are left.
pub fn truncate(arguments: Vec<Expr>) -> Expr {
    call(&rounding::TRUNCATE, arguments)
}

/// A DOUBLE as the integer that [`pelton_data::significant::rounded`] makes of it.
pub fn rounded(number: Expr) -> Expr {
    call(&significant::DEFINITION, vec![number])
}

/// REPLACE with a text to look for that may be empty.
pub fn replace(arguments: Vec<Expr>) -> Expr {
    call(&text::REPLACE, arguments)
}

/// Whether a regular expression of Java's finds something in a text.
pub fn regexp_like(text: Expr, pattern: Expr) -> Expr {
    named("regexp_like", vec![text, pattern])
}

/// The pattern of LIKE without ESCAPE, in which a backslash is a character like others, as one in which it escapes.
pub fn like_pattern(pattern: Expr) -> Expr {
    match &pattern {
        Expr::Literal(literal, _) => match literal.try_as_str() {
            Some(Some(text)) if text.contains('\\') => {
                Expr::Literal(ScalarValue::Utf8(Some(text.replace('\\', r"\\"))), None)
            }
            _ => pattern,
        },
        _ => named("like_pattern", vec![pattern]),
    }
}

/// A value as what stands beside it is, which is as in Flink, and not computed when it is planned.
pub fn cast_as(value: Expr, target: Expr) -> Expr {
    call(&casting::CAST_AS, vec![value, target])
}

/// The same, NULL where the value does not fit.
pub fn try_cast_as(value: Expr, target: Expr) -> Expr {
    call(&casting::TRY_CAST_AS, vec![value, target])
}

/// [`cast_as`] by the clocks of a time zone, where an instant is made of what clocks show, or the reverse.
pub fn cast_in_zone(value: Expr, target: Expr, zone: &str) -> Expr {
    call(&casting::CAST_AS, vec![value, target, lit(zone)])
}

/// The same, NULL where the value does not fit.
pub fn try_cast_in_zone(value: Expr, target: Expr, zone: &str) -> Expr {
    call(&casting::TRY_CAST_AS, vec![value, target, lit(zone)])
}

/// A function of times as it is by the clocks of a time zone, given its name and arguments; `None` where it is the same in all zones.
pub fn in_zone(function: &str, mut arguments: Vec<Expr>, zone: &str) -> Option<Expr> {
    let definition = match function {
        "from_unixtime" => &time::zoned::FROM_UNIXTIME,
        "unix_timestamp" => &time::zoned::UNIX_TIMESTAMP,
        "floor_to" => &time::zoned::FLOOR,
        "ceil_to" => &time::zoned::CEIL,
        _ => return None,
    };
    if arguments.len() == 1 {
        arguments.push(lit(time::PATTERN_DEFAULT));
    }
    arguments.push(lit(zone));
    Some(call(definition, arguments))
}

/// The same, which fails where the value does not fit, also where Flink makes another value of it.
pub fn strict_cast_as(value: Expr, target: Expr) -> Expr {
    call(&casting::STRICT_CAST_AS, vec![value, target])
}

/// How a query writes a function of this name that is [`cast_as`] or [`try_cast_as`].
pub fn cast_spelling(function: &str) -> Option<&'static str> {
    match function {
        name if name == casting::CAST_AS.name || name == casting::STRICT_CAST_AS.name => Some("CAST"),
        name if name == casting::TRY_CAST_AS.name => Some("TRY_CAST"),
        _ => None,
    }
}

/// POWER, a DOUBLE of any numbers.
pub fn power(arguments: Vec<Expr>) -> Expr {
    call(&number::POWER, arguments)
}

/// ABS of a whole number.
pub fn absolute(arguments: Vec<Expr>) -> Expr {
    call(&number::ABSOLUTE, arguments)
}

/// OVERLAY of strings.
pub fn overlay(arguments: Vec<Expr>) -> Expr {
    call(&text::OVERLAY, arguments)
}

/// Whether a function of this name makes something of its argument that nobody wrote.
pub fn is_pattern_translation(function: &str) -> bool {
    matches!(function, "like_pattern" | "similar_pattern")
}

/// A call of one of the functions that queries name.
fn named(name: &str, arguments: Vec<Expr>) -> Expr {
    let definition = definitions::DEFINITIONS.iter().find(|definition| definition.name == name);
    call(definition.expect("it is defined"), arguments)
}

/// A text as functions take it.
fn lit(text: &str) -> Expr {
    Expr::Literal(ScalarValue::Utf8View(Some(text.to_string())), None)
}

/// A call of a function that planning puts somewhere, and no query names.
fn call(definition: &'static definition::Definition, arguments: Vec<Expr>) -> Expr {
    ScalarUDF::new_from_impl(function::Function::new(definition)).call(arguments)
}
