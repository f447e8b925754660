//! Scalar functions under the names, and with the meaning, that Flink gives them.
//!
//! DataFusion has most of them under the same name. Of the rest, those that are another spelling of something DataFusion
//! has are respelt in the syntax tree (`respell`) as they are parsed, so that they are optimised and compiled like what they stand for; the
//! others are functions of our own (`definition`), which take the place of DataFusion's function where it has one of the
//! same name and another meaning.
//!
//! Where we differ from Flink: the session's time zone is UTC; `UNIX_TIMESTAMP` of a text that is no time is NULL;
//! `TIMESTAMPDIFF` is BIGINT; `MD5` and the SHA family are left out.

mod respell;

mod definition;

mod text;

mod time;

mod pattern;

mod extreme;

use std::sync::{Arc, LazyLock};

use datafusion_expr::{Expr, ScalarUDF};

pub(crate) use respell::{respell, similar_to};

/// Flink's functions that are no respelling of DataFusion's. They take precedence over DataFusion's of the same name.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let own = definition::DEFINITIONS
        .iter()
        .map(|definition| ScalarUDF::new_from_impl(definition::Function::new(definition)));
    own.chain(extreme::functions()).map(Arc::new).collect()
}

/// A timestamp as a string, as Flink writes it.
pub(crate) fn timestamp_to_string(timestamp: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let named = definition::DEFINITIONS.iter().find(|definition| definition.name == "timestamp_to_string");
        Arc::new(ScalarUDF::new_from_impl(definition::Function::new(named.expect("it is defined"))))
    });
    FUNCTION.call(vec![timestamp])
}

/// Names of functions that are respelt in the syntax tree, in upper case.
pub(crate) fn respelt_names() -> impl Iterator<Item = &'static str> {
    respell::RESPELT.iter().copied()
}

/// Whether a function's name, in upper case, is one to be written in a query: others stand in for a spelling, or are refused.
pub(crate) fn is_written(name: &str) -> bool {
    let stands_in =
        matches!(name, "CEIL_TO" | "FLOOR_TO" | "SUBSTRING_FROM" | "TIMESTAMPADD_TIME" | "TIMESTAMP_TO_STRING");
    !stands_in && respell::refused(name).is_none()
}

#[cfg(test)]
mod tests;
