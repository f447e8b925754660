//! Text to statements.
//!
//! A script is cut into tokens once, so that every token, and with it every node of a syntax tree, knows its place in the
//! whole script. The tokens are divided at semicolons (`script`), brought into one form where they are strings (`unicode`), looked over for what cannot be parsed or planned
//! (`refuse`, `syntax`, `substitutes`), their long chains of operators are balanced (`chains`), and they are read statement by statement (`reader`, `session`, `statement_set`, `table`, `files`, `column_type`) with sqlparser's own parser as a base.

mod vocabulary;

mod statement;

mod script;

mod dialect;

mod json;

mod flink_aliases;

mod flink_time_aliases;

mod over_calls;

mod patterns;

mod substitutes;

mod syntax;

mod refuse;

mod asof;

mod chains;

mod session;

mod reader;

mod statement_set;

mod table;

mod files;

mod unicode;

mod column_type;

mod interval;

mod group_window;

pub(crate) use column_type::unknown_type;
pub use dialect::FlinkDialect;
pub(crate) use files::{named_table, stem};
pub(crate) use flink_aliases::{BASE64_PADDED, is_written, respelt_names, written_name};
pub(crate) use group_window::note as group_window_note;
pub use interval::interval_micros;
pub(crate) use over_calls::shown_name;
pub use statement::{
    ColumnDefinition, ColumnKind, Dropped, FileArgument, FileTable, Insert, NameFilter, Named, OptionPlace, Parsed,
    RelationKind, Statement, TableDefinition, ViewDefinition, WatermarkDefinition,
};
pub(crate) use substitutes::instead_of;
pub(crate) use table::check_columns;
pub(crate) use vocabulary::CONSTRUCTORS;
pub use vocabulary::TABLE_ARGUMENT_PREFIX;

#[cfg(test)]
mod tests;

use crate::errors::PlanError;
use crate::stack::with_stack;

/// Stack of the thread that parses. Each level of nesting takes up to 110 KiB of it without optimisation, and up to `vocabulary::NESTING_MAX` levels are read; a chain
/// of up to `refuse::CHAIN_MAX` operators that cannot be read to its end is dropped level by level.
const STACK_BYTES: usize = 64 << 20;

/// Parses a script: statements separated by semicolons, with comments.
///
/// All of it is parsed before any of it runs: the first error is returned, with its place in the whole script.
pub fn parse(sql: &str) -> Result<Vec<Parsed>, PlanError> {
    with_stack("parse", STACK_BYTES, || parse_here(sql))
}

fn parse_here(sql: &str) -> Result<Vec<Parsed>, PlanError> {
    let mut script = script::Script::new(sql)?;
    let mut statements = Vec::new();
    while let Some(parsed) = reader::read(&mut script)? {
        statements.push(parsed);
    }
    Ok(statements)
}
