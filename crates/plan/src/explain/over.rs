//! Functions OVER rows, in words.

use std::fmt;
use std::fmt::Write;

use pelton_data::over::{Frame, OverCall, OverColumn, OverFunction, OverSpec, Sliding};

use crate::explain::field;
use crate::length::Length;

/// Writes what is computed, and how each call follows its frame.
pub(crate) fn write(text: &mut String, spec: &OverSpec, indent: &str) -> fmt::Result {
    let name = |column: &usize| spec.input_schema.field(*column).name().as_str();
    let keys: Vec<&str> = spec.keys.iter().map(name).collect();
    let by = if keys.is_empty() { String::new() } else { format!("by {}, ", keys.join(", ")) };
    let order = spec.time.map_or("their arrival", |time| name(&time.index));
    writeln!(text, "{by}in the order of {order}")?;
    for (column, output) in spec.columns.iter().zip(spec.schema.fields()) {
        match column {
            OverColumn::Input(column) => writeln!(text, "{indent}  {} = {}", field(output), name(column))?,
            OverColumn::Value(call) => {
                let call = &spec.calls[*call];
                writeln!(text, "{indent}  {} = {}", field(output), function(spec, call))?;
                writeln!(text, "{indent}    {}", sliding(spec, call))?;
            }
        }
    }
    Ok(())
}

fn function(spec: &OverSpec, call: &OverCall) -> String {
    let argument = call.argument.map_or("rows", |column| spec.input_schema.field(column).name());
    let argument = if call.is_distinct { format!("distinct {argument}") } else { argument.to_string() };
    let name = match &call.function {
        OverFunction::RowNumber => return "number of the row".to_string(),
        OverFunction::Rank { is_dense: false } => return "rank of the row".to_string(),
        OverFunction::Rank { is_dense: true } => return "dense rank of the row".to_string(),
        OverFunction::Lag { rows } => return format!("{argument} {rows} rows before"),
        OverFunction::Lead { rows } => return format!("{argument} {rows} rows after"),
        OverFunction::CountRows | OverFunction::Count => "count",
        OverFunction::Sum => "sum",
        OverFunction::Mean => "mean",
        OverFunction::Variance { is_sample, is_root } => match (*is_sample, *is_root) {
            (false, false) => "variance",
            (true, false) => "sample variance",
            (false, true) => "standard deviation",
            (true, true) => "sample standard deviation",
        },
        OverFunction::Minimum => "minimum",
        OverFunction::Maximum => "maximum",
        OverFunction::First => "first",
        OverFunction::Last => "last",
        OverFunction::Mode => "mode",
        OverFunction::Array { ignores_nulls: false } => "array",
        OverFunction::Array { ignores_nulls: true } => "array without NULLs",
        OverFunction::Joined { delimiter } => {
            return format!("values of {argument}, joined by '{delimiter}', over {}", frame(call.frame));
        }
        OverFunction::Udaf { function, arguments, condition } => {
            let name_of = |column: &usize| spec.input_schema.field(*column).name().as_str();
            let arguments = arguments.iter().map(name_of).collect::<Vec<_>>().join(", ");
            let rows = condition.as_ref().map_or(String::new(), |column| format!(" where {}", name_of(column)));
            return format!("{}({arguments}) over {}{rows}", function.0.name(), frame(call.frame));
        }
        OverFunction::Percentile { fraction, is_continuous, is_descending } => {
            let kind = if *is_continuous { "between values" } else { "of the values" };
            let from = if *is_descending { " from the largest" } else { "" };
            return format!("percentile {fraction}{from} of {argument}, {kind}, over {}", frame(call.frame));
        }
    };
    format!("{name} of {argument} over {}", frame(call.frame))
}

fn frame(frame: Frame) -> String {
    match frame {
        Frame::Rows { preceding: None } => "all rows up to the row".to_string(),
        Frame::Rows { preceding: Some(0) } => "the row alone".to_string(),
        Frame::Rows { preceding: Some(rows) } => format!("the row and {rows} before it"),
        Frame::Range { preceding: None } => "all rows up to the row's time".to_string(),
        Frame::Range { preceding: Some(0) } => "the rows of the row's time".to_string(),
        Frame::Range { preceding: Some(length) } => format!("the rows of {} up to the row's time", Length(length)),
        Frame::Arrived { preceding } => format!("the row and those of {} before it", Length(preceding)),
        Frame::RowsAround { preceding, following } => match (preceding, following) {
            (None, None) => "all rows".to_string(),
            (None, Some(after)) => format!("all rows up to {after} after the row"),
            (Some(0), None) => "the row and all after it".to_string(),
            (Some(0), Some(after)) => format!("the row and {after} after it"),
            (Some(before), None) => format!("the row, {before} before and all after it"),
            (Some(before), Some(after)) => format!("the row, {before} before and {after} after it"),
        },
        Frame::RangeAround { preceding, following } => {
            let end = following.map(|length| format!("to {} after", Length(length)));
            match (preceding, end) {
                (None, None) => "all rows".to_string(),
                (None, Some(end)) => format!("all rows up {end} the row's time"),
                (Some(0), end) => {
                    format!("the rows from the row's time {}", end.map_or("on".to_string(), |end| end + " it"))
                }
                (Some(before), end) => {
                    let end = end.map_or("on".to_string(), |end| end + " it");
                    format!("the rows from {} before the row's time {end}", Length(before))
                }
            }
        }
    }
}

/// How a call follows its frame: as for windows, whose slices are rows, or runs of them that become panes.
fn sliding(spec: &OverSpec, call: &OverCall) -> &'static str {
    match call.sliding(spec.argument_type(call)) {
        Sliding::Bounds => "positions (S → Window): O(1) a row, no values kept",
        Sliding::Lookup => "lookup (S → Window): O(1) a row",
        Sliding::Running => "prefix scan (I → Window): O(1) a row, no values kept",
        Sliding::SubtractOnEvict => "subtract on evict (I → Window): O(1) a row, values kept",
        Sliding::TwoStacks if matches!(call.function, OverFunction::Variance { .. } | OverFunction::Udaf { .. }) => {
            "two stacks (S → Sash, S → Window): O(1) a row, amortized, values and what is made of them kept"
        }
        Sliding::TwoStacks => "two stacks of runs (S → Pane, I → Sash, S → Window): O(1) a row, amortized, values kept",
        Sliding::MonotoneQueue => "monotone deque (I → Window): O(1) a row, amortized, candidates kept",
        Sliding::Frequencies if call.frame.is_bounded() => {
            "subtract on evict from frequencies (I → Window): O(1) a row, values and how often each comes kept"
        }
        Sliding::Frequencies => "frequencies (I → Window): O(1) a row, distinct values kept",
        Sliding::OrderedFrequencies if call.frame.is_bounded() => {
            "subtract on evict from frequencies in order (I → Window): O(log n) a row, values and how often each comes kept"
        }
        Sliding::OrderedFrequencies => "frequencies in order (I → Window): O(log n) a row, distinct values kept",
        Sliding::RankedFrequencies if call.frame.is_bounded() => {
            "subtract on evict from distinct values in order (I → Window): O(log n) a row, values and how often each comes kept"
        }
        Sliding::RankedFrequencies => "distinct values in order (I → Window): O(log n) a row, distinct values kept",
        Sliding::Ranked if call.frame.is_bounded() => {
            "subtract on evict from values in order (I → Window): O(log n) a row, values kept twice"
        }
        Sliding::Listed => "listing (S → Window): O(n) a row, values kept",
        Sliding::Ranked => "values in order (I → Window): O(log n) a row, values kept",
    }
}
