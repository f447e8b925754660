//! SQL text to logical plan to pipelines.
//!
//! A query's life begins here as text. [`parse`](mod@parse) turns a script into statements, each of which knows its place;
//! DDL statements become entries of the [`catalog`], whose columns have the [`types`] declared. [`query`] plans queries and inserts against the catalogue: what comes out are [`pipeline`]s.

pub mod errors;

pub mod parse;

pub mod types;

pub mod catalog;

pub mod pipeline;

pub mod query;

mod bind;

mod coerce;

mod lower;

mod share;

pub mod partial_results;

mod renumber;

pub mod shared_join;

pub mod explain;

pub mod show;

mod length;

mod session_settings;

mod stack;

pub mod terms;

/// A bound for what functions make, which compiled expressions keep to.
pub mod growth {
    pub use pelton_functions::{bounded, bytes_of_array, can_grow, is_too_large, joined};
}

pub use catalog::{Catalog, Relation, Table};
pub use errors::{Place, PlanError, PlanErrorKind, closest};
pub use parse::{Parsed, Statement, parse};
pub use pelton_functions::{always_casts, is_flink_cast};
pub use query::{Planned, plan, plan_statements};
