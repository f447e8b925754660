//! Joins of two streams, in words.

use std::fmt;
use std::fmt::Write;

use pelton_data::join::{JoinColumn, JoinKind, JoinTime, Side, WindowBound};

use super::expression::expression;
use super::{WindowText, field};
use crate::length::Length;
use crate::pipeline::StreamJoin;

/// Writes which rows are put together, and what leaves.
pub(crate) fn write(text: &mut String, join: &StreamJoin, indent: &str) -> fmt::Result {
    let spec = &join.spec;
    let name = |side: Side, column: usize| {
        format!("{}.{}", side_name(side), spec.sides[side.port()].schema.field(column).name())
    };
    let kind = match spec.kind {
        JoinKind::Inner => "inner",
        JoinKind::Left => "left outer",
        JoinKind::Right => "right outer",
        JoinKind::Full => "full outer",
        JoinKind::Semi => "semi",
        JoinKind::Anti => "anti",
    };
    match &spec.time {
        JoinTime::Windows { bounds, .. } => {
            writeln!(text, "{kind}, of rows in the same window, {}", WindowText { window: bounds, bounds })?;
        }
        JoinTime::Interval { lower, upper } => {
            let (lower, upper) = (Length(*lower), Length(*upper));
            writeln!(text, "{kind}, of rows whose times differ, left - right, by {lower} to {upper}")?;
        }
        JoinTime::Nearest { is_backward, is_strict } => {
            let which = if *is_backward { "latest" } else { "earliest" };
            let side = if *is_backward { "before" } else { "after" };
            let peers = if *is_strict { "" } else { ", or at the same time" };
            writeln!(text, "{kind}, of each row with the {which} row {side} it{peers}")?;
        }
    }
    let [left, right] = &spec.sides;
    for (&left, &right) in left.keys.iter().zip(&right.keys) {
        writeln!(text, "{indent}  on {} = {}", name(Side::Left, left), name(Side::Right, right))?;
    }
    if let Some(residual) = &join.residual {
        writeln!(text, "{indent}  where {}", expression(residual.predicate.as_ref()))?;
    }
    for (column, output) in spec.columns.iter().zip(spec.schema.fields()) {
        let value = match *column {
            JoinColumn::Of(side, column) => name(side, column),
            JoinColumn::Window(bound, side) => {
                let bound = match bound {
                    WindowBound::Start => "start",
                    WindowBound::End => "end",
                    WindowBound::Time => "last millisecond",
                };
                side.map_or(bound.to_string(), |side| {
                    format!("{bound}, NULL without a row of the {} side", side_name(side))
                })
            }
        };
        writeln!(text, "{indent}  {} = {value}", field(output))?;
    }
    Ok(())
}

fn side_name(side: Side) -> &'static str {
    match side {
        Side::Left => "left",
        Side::Right => "right",
    }
}
