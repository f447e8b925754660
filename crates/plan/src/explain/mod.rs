//! Plans as people read them: EXPLAIN prints these, and golden tests keep them.

mod definition;
mod expression;

pub(crate) mod flink;

pub(crate) mod notes;

mod over;

mod join;

mod portability;

pub(crate) mod reserved;

use std::fmt;
use std::fmt::Write;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_physical_expr::PhysicalExpr;
use pelton_data::aggregate::{Accumulate, Accumulator, Holistic};
use pelton_data::arrangement::{Arrangement, OrderKey};
use pelton_data::column::sql_name;
use pelton_data::join::JoinKind;
use pelton_data::ranking::{Numbering, Ranking};
use pelton_data::udaf::Merging;

use crate::length::Length;
use crate::pipeline::{
    Combination, Operator, Output, OutputTarget, Pipeline, Program, SharedSlices, SourceUse, Step, Target, TimeSource,
    Window, WindowAggregate, WindowColumn,
};
use crate::query::Planned;

pub use definition::Definitions;
pub use expression::expression;
pub use notes::Notes;
pub use portability::portability;

/// The logical plans of all statements, each under where its rows go.
pub fn logical_plans(planned: &Planned) -> String {
    let mut text = String::new();
    for (target, plan) in &planned.logical {
        let target = match target {
            OutputTarget::Result => "result".to_string(),
            OutputTarget::Table(table) => format!("table {table}"),
        };
        let _ = writeln!(text, "{target}");
        for line in plan.display_indent().to_string().lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// Sources, lookups, pipelines, windows and outputs of a program.
pub fn pipelines(program: &Program) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_program(&mut text, program, "");
    text
}

fn write_program(text: &mut String, program: &Program, indent: &str) -> fmt::Result {
    for (number, source) in program.sources.iter().enumerate() {
        write_source(text, number, source, indent)?;
    }
    for (number, lookup) in program.lookups.iter().enumerate() {
        let keys: Vec<&str> = lookup.keys.iter().map(|key| lookup.schema.field(*key).name().as_str()).collect();
        let keys = if keys.is_empty() { "without a key".to_string() } else { format!("by {}", keys.join(", ")) };
        writeln!(text, "{indent}lookup {number}: {keys}, loaded from")?;
        write_program(text, &lookup.program, &format!("{indent}  "))?;
    }
    for (number, pipeline) in program.pipelines.iter().enumerate() {
        write_pipeline(text, number, pipeline, program, indent)?;
    }
    for (number, operator) in program.operators.iter().enumerate() {
        write!(text, "{indent}{}: ", program.operator_name(number))?;
        match operator {
            Operator::Window(window) => write_window(text, window, indent)?,
            Operator::Slices(slices) => write_slices(text, slices)?,
            Operator::Over(over) => over::write(text, over, indent)?,
            Operator::Join(join) => join::write(text, join, indent)?,
            Operator::Unmatched(unmatched) => {
                let table = unmatched.table;
                writeln!(text, "pairs, and rows of lookup {table} that are in none once the other side has ended")?;
                writeln!(text, "{indent}  columns {}", fields(&unmatched.schema))?;
            }
        }
    }
    for (number, output) in program.outputs.iter().enumerate() {
        let target = match &output.target {
            OutputTarget::Result => "result".to_string(),
            OutputTarget::Table(table) => format!("table {table}"),
        };
        let inputs: Vec<String> = output.inputs.iter().map(|input| program.stream_name(*input)).collect();
        writeln!(text, "{indent}output {number}: {target} from {}", inputs.join(", "))?;
        writeln!(text, "{indent}  columns {}", fields(&output.schema))?;
        write_arrangement(text, output, program, indent)?;
    }
    Ok(())
}

fn write_arrangement(text: &mut String, output: &Output, program: &Program, indent: &str) -> fmt::Result {
    let Arrangement { order, offset, rows_max } = &output.arrangement;
    if let (Some(order), Some(input)) = (order, output.inputs.first()) {
        writeln!(text, "{indent}  in the order of {}", order_keys(&order.keys, program.schema(*input)))?;
    }
    if *offset > 0 {
        writeln!(text, "{indent}  without the first {offset} rows")?;
    }
    match rows_max {
        Some(rows_max) => writeln!(text, "{indent}  at most {rows_max} rows"),
        None => Ok(()),
    }
}

fn order_keys(keys: &[OrderKey], schema: &Schema) -> String {
    let keys = keys.iter().map(|key| {
        let direction = if key.descending { " descending" } else { "" };
        let nulls = match (key.nulls_first, key.descending) {
            (true, true) => ", NULLs first",
            (false, false) => ", NULLs last",
            _ => "",
        };
        format!("{}{direction}{nulls}", schema.field(key.column).name())
    });
    keys.collect::<Vec<_>>().join(", ")
}

fn write_source(text: &mut String, number: usize, source: &SourceUse, indent: &str) -> fmt::Result {
    writeln!(text, "{indent}source {number}: table {}", source.table)?;
    writeln!(text, "{indent}  columns {}", fields(&source.schema))?;
    match source.time {
        TimeSource::None | TimeSource::Noted { .. } => Ok(()),
        TimeSource::Event { column, delay } => {
            let name = source.schema.field(column).name();
            match &source.computed_time {
                Some(computed) => {
                    writeln!(
                        text,
                        "{indent}  event time {name} = {}, watermark {name} - {}",
                        expression(computed.as_ref()),
                        Length(delay)
                    )
                }
                None => writeln!(text, "{indent}  event time {name}, watermark {name} - {}", Length(delay)),
            }
        }
        TimeSource::Processing { column } => {
            writeln!(text, "{indent}  processing time {}", source.schema.field(column).name())
        }
    }
}

fn write_step(text: &mut String, step: &Step, program: &Program, indent: &str) -> fmt::Result {
    let adds = |names: &[&str]| if names.is_empty() { String::new() } else { format!(", adds {}", names.join(", ")) };
    match step {
        Step::Filter(predicate) => writeln!(text, "{indent}  filter {}", expression(predicate.as_ref())),
        Step::Lookup { table, keys, kind, conditions, columns, .. } => {
            let lookup = &program.lookups[*table];
            let pairs = keys.iter().zip(&lookup.keys);
            let pairs = pairs
                .map(|(key, column)| format!("{} = {}", expression(key.as_ref()), lookup.schema.field(*column).name()));
            let conditions = conditions.iter().map(|condition| expression(condition.as_ref()).to_string());
            let on = pairs.chain(conditions).collect::<Vec<_>>().join(" and ");
            let on = if on.is_empty() { "all rows".to_string() } else { format!("on {on}") };
            let added: Vec<&str> = columns.iter().map(|column| lookup.schema.field(*column).name().as_str()).collect();
            let kept = match kind {
                JoinKind::Inner => "",
                JoinKind::Left => ", keeps unmatched rows",
                JoinKind::Right => ", keeps unmatched rows of the table",
                JoinKind::Full => ", keeps unmatched rows of both sides",
                JoinKind::Semi => ", keeps rows with a match",
                JoinKind::Anti => ", keeps rows without a match",
            };
            writeln!(text, "{indent}  lookup {table} {on}{}{kept}", adds(&added))
        }
        Step::FlatMap { function, arguments, keep_unmatched, condition, fields, .. } => {
            let arguments: Vec<String> =
                arguments.iter().map(|argument| expression(argument.as_ref()).to_string()).collect();
            let added: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            let on = condition.as_ref().map(|on| format!(" on {}", expression(on.as_ref()))).unwrap_or_default();
            let kept = if *keep_unmatched { ", keeps unmatched rows" } else { "" };
            let (name, arguments) = (function.0.name(), arguments.join(", "));
            writeln!(text, "{indent}  flat map {name}({arguments}){on}{}{kept}", adds(&added))
        }
    }
}

fn write_pipeline(
    text: &mut String,
    number: usize,
    pipeline: &Pipeline,
    program: &Program,
    indent: &str,
) -> fmt::Result {
    let (input, target) = (program.stream_name(pipeline.input), program.target_name(&pipeline.target));
    writeln!(text, "{indent}pipeline {number}: {input} to {target}")?;
    for step in &pipeline.steps {
        write_step(text, step, program, indent)?;
    }
    match &pipeline.target {
        Target::Stream { columns, schema } | Target::Rows { columns, schema, .. } => {
            let arrival = match &pipeline.target {
                Target::Rows { port, .. } => {
                    let window = program.operators[port.operator].as_window();
                    window.and_then(|window| window.ranking.as_ref()?.arrival)
                }
                _ => None,
            };
            let columns = columns.iter().zip(schema.fields()).enumerate();
            for (_, (column, field)) in columns.filter(|(index, _)| Some(*index) != arrival) {
                writeln!(text, "{indent}  {} = {}", field.name(), expression(column.as_ref()))?;
            }
        }
        Target::Groups { port, keys, arguments } => {
            for (number, key) in keys.iter().enumerate() {
                writeln!(text, "{indent}  key {number} = {}", expression(key.as_ref()))?;
            }
            let accumulators = &program.groups(port.operator).accumulators;
            for (number, (accumulator, argument)) in accumulators.iter().zip(arguments).enumerate() {
                writeln!(text, "{indent}  accumulator {number} = {}", accumulation(accumulator, argument.as_ref()))?;
            }
        }
    }
    Ok(())
}

fn write_slices(text: &mut String, slices: &SharedSlices) -> fmt::Result {
    let windows = slices.windows.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let Window::Hopping { slide, .. } = slices.grid else { unreachable!("slices are as long as a grid's slide") };
    writeln!(text, "of {}, shared by windows {windows}", Length(slide))
}

fn write_window(text: &mut String, window: &WindowAggregate, indent: &str) -> fmt::Result {
    writeln!(text, "{}", WindowText { window: &window.window, bounds: &window.bounds })?;
    if let Some(ranking) = &window.ranking {
        let does = if window.keeps_rows_alone() { "keeps" } else { "keeps all rows, reports" };
        writeln!(text, "{indent}  {does} {}", ranked(ranking))?;
    }
    if let Some(combination) = combination(window).filter(|_| !window.keeps_rows_alone()) {
        writeln!(text, "{indent}  slices combined: {combination}")?;
    }
    for (column, field) in window.columns.iter().zip(window.schema.fields()) {
        writeln!(text, "{indent}  {} = {}", self::field(field), window_column(column, window))?;
    }
    Ok(())
}

/// Which windows, in words: those that rows fall into, and those whose bounds the results have.
struct WindowText<'a> {
    window: &'a Window,
    bounds: &'a Window,
}

impl fmt::Display for WindowText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WindowText { window, bounds } = self;
        let (plain, zone) = match bounds {
            Window::Zoned(zoned) => (zoned.by_clock(), Some(zoned.zone())),
            plain => (**plain, None),
        };
        let offset = match plain {
            Window::Tumbling { size, offset } => {
                write!(f, "tumbling {}", Length(size))?;
                offset
            }
            Window::Hopping { size, slide, offset } => {
                write!(f, "hopping {} by {}", Length(size), Length(slide))?;
                offset
            }
            Window::Cumulative { size, step, offset } => {
                write!(f, "cumulating to {} by {}", Length(size), Length(step))?;
                offset
            }
            Window::Session { gap } => {
                write!(f, "sessions, gap {}", Length(gap))?;
                0
            }
            Window::Rows { size, slide } | Window::RowsByKey { size, slide } => {
                let by_key = if let Window::RowsByKey { .. } = bounds { " of each key" } else { "" };
                write!(f, "of {size} rows{by_key}")?;
                if size != slide {
                    write!(f, ", one every {slide}")?;
                }
                0
            }
            Window::Zoned(_) => unreachable!("its windows by the clock are plain"),
            Window::Counted => unreachable!("what is grouped by has the bounds of the windows that count"),
            Window::Global => return f.write_str("all rows, once they have ended"),
        };
        if offset != 0 {
            write!(f, ", offset {}", Length(offset))?;
        }
        if let Some(zone) = zone {
            write!(f, ", by the clocks of {zone}")?;
        }
        if window == bounds { Ok(()) } else { f.write_str(", each of its own results") }
    }
}

/// How windows are put together: the strategy, a word of the model of LightSaber (section 2.3), and the tables of groups that are added or subtracted for each slice;
/// `None` where there are no windows. Rows become panes, which are slices, in the tables of all workers (P), but where those of each key are counted (S);
/// suffixes and prefixes of them are sashes.
fn combination(window: &WindowAggregate) -> Option<String> {
    let slices = window.window.slices_max();
    let panes = if let Window::RowsByKey { .. } = window.window { "S" } else { "P" };
    let (name, word, cost) = match window.combination() {
        Combination::Single if window.window == Window::Global => return None,
        Combination::Single => ("each window is one", "S → Window", "O(1) tables a slice, none kept".to_string()),
        Combination::Buckets => unreachable!("a plan does not choose it"),
        Combination::Recompute => ("recompute", "S → Window", format!("O(n) tables a window of n = {slices} slices")),
        Combination::SubtractOnEvict => {
            let mut accumulators = window.accumulators.iter().map(|kept| kept.accumulate);
            let others = match accumulators.all(Accumulate::is_invertible) {
                true => String::new(),
                false => format!(
                    "; what cannot be subtracted recomputed, O(n) values a group and window of n = {slices} slices"
                ),
            };
            let reads_all = |column: &WindowColumn| matches!(column, WindowColumn::Holistic { function, .. } if *function != Holistic::Count);
            let read = match window.columns.iter().any(reads_all) {
                true => "; all distinct values of each group gone through for each window",
                false => "",
            };
            ("subtract on evict", "I → Window", format!("O(1) tables a slice, {slices} slices kept{others}{read}"))
        }
        Combination::TwoStacks => {
            ("two stacks", "I → Sash, S → Window", format!("O(1) tables a slice, amortized, {slices} slices kept"))
        }
        Combination::Merge => {
            ("merge with the sessions touched", "I → Window", "O(1) tables a slice, 2 slices kept".to_string())
        }
        Combination::Prefix => ("prefix scan", "I → Window", "O(1) tables a slice, none kept".to_string()),
    };
    Some(format!("{name} ({panes} → Pane, {word}): {cost}"))
}

/// Which rows are kept.
fn ranked(ranking: &Ranking) -> String {
    let Ranking { schema, keys, order, arrival, numbering, first, last, .. } = ranking;
    let ranks = match numbering {
        Numbering::Rows => None,
        Numbering::Rank => Some("ranks"),
        Numbering::DenseRank => Some("dense ranks"),
    };
    let which = match (first, last) {
        (first, last) if let Some(ranks) = ranks => format!("the rows of {ranks} {first} to {last}"),
        (1, 1) => "the first row".to_string(),
        (1, last) => format!("the first {last} rows"),
        (first, last) if first == last => format!("row {last}"),
        (first, last) => format!("rows {first} to {last}"),
    };
    let keys: Vec<&str> = keys.iter().map(|key| schema.field(*key).name().as_str()).collect();
    let by = if keys.is_empty() { String::new() } else { format!(" by {}", keys.join(", ")) };
    let (came, order): (Vec<OrderKey>, Vec<OrderKey>) =
        order.iter().copied().partition(|key| Some(key.column) == *arrival);
    let came = came.first().map(|key| if key.descending { "arrival descending" } else { "arrival" });
    let order = match (order.as_slice(), came) {
        ([], None) => "all columns".to_string(),
        ([], Some(came)) => came.to_string(),
        (order, None) => order_keys(order, schema),
        (order, Some(came)) => format!("{}, {came}", order_keys(order, schema)),
    };
    format!("{which}{by} in the order of {order}")
}

fn window_column(column: &WindowColumn, window: &WindowAggregate) -> String {
    match column {
        WindowColumn::Rank => "number of the row".to_string(),
        WindowColumn::Row(column) => {
            let schema = window.ranking.as_ref().map(|ranking| &ranking.schema);
            schema.expect("rows are kept").field(*column).name().clone()
        }
        WindowColumn::Start => "start".to_string(),
        WindowColumn::End => "end".to_string(),
        WindowColumn::Time if window.bounds.counts_rows() => "number of the last row".to_string(),
        WindowColumn::Time => "last millisecond".to_string(),
        WindowColumn::Kind => "kind of result".to_string(),
        WindowColumn::Key(key) => format!("key {key}"),
        WindowColumn::Value { accumulator, count: None } => format!("accumulator {accumulator}"),
        WindowColumn::Value { accumulator, count: Some(count) } => {
            format!("accumulator {accumulator}, NULL where accumulator {count} is 0")
        }
        WindowColumn::Variance { sum, squares, count, is_sample, is_root } => {
            let what = if *is_root { "standard deviation" } else { "variance" };
            let of = if *is_sample { "sample" } else { "population" };
            format!("{what} of the {of} from accumulators {sum}, {squares} and {count}")
        }
        WindowColumn::Holistic { function, values, arrivals, nulls } => {
            let others = arrivals.iter().chain(nulls).map(|accumulator| format!(" and {accumulator}"));
            format!("{} of accumulator {values}{}", holistic(function), others.collect::<String>())
        }
        WindowColumn::DecimalSum { sum, upper_sum, count } => {
            let nulls = count.map(|count| format!(", NULL where accumulator {count} is 0")).unwrap_or_default();
            format!("accumulators {sum} and {upper_sum}{nulls}")
        }
        WindowColumn::Mean { sum, upper_sum: None, count } => format!("accumulator {sum} / accumulator {count}"),
        WindowColumn::Mean { sum, upper_sum: Some(upper), count } => {
            format!("accumulators {sum} and {upper} / accumulator {count}")
        }
    }
}

fn holistic(function: &Holistic) -> String {
    match function {
        Holistic::Count => "count".to_string(),
        Holistic::Sum => "sum".to_string(),
        Holistic::Mean => "mean".to_string(),
        Holistic::Variance { is_sample, is_root } => {
            let what = if *is_root { "standard deviation" } else { "variance" };
            format!("{what} of the {}", if *is_sample { "sample" } else { "population" })
        }
        Holistic::Percentile { fraction, is_continuous, is_descending } => {
            let which = if *is_continuous { "continuous" } else { "discrete" };
            let from = if *is_descending { " from the largest" } else { "" };
            format!("{which} percentile {fraction}{from}")
        }
        Holistic::RoundedPercentile { fraction } => format!("percentile {fraction} of rounded numbers"),
        Holistic::Mode => "mode".to_string(),
        Holistic::Array { .. } => "array".to_string(),
        Holistic::Joined { delimiter } => format!("string joined by '{delimiter}'"),
    }
}

fn accumulation(accumulator: &Accumulator, argument: Option<&Arc<dyn PhysicalExpr>>) -> String {
    let name = match accumulator.accumulate {
        Accumulate::Count => "count",
        Accumulate::SumInteger => "sum",
        Accumulate::SumWide => "sum in 128 bits",
        Accumulate::SumFloat => "sum of floats",
        Accumulate::SumFloatWide => "sum of floats in 106 bits",
        Accumulate::SumSquares => "sum of squares in 106 bits",
        Accumulate::SumSquares128 => "sum of squares in 128 bits",
        Accumulate::SumSquares192 => "sum of squares in 192 bits",
        Accumulate::Minimum => "minimum",
        Accumulate::Maximum => "maximum",
        Accumulate::First => "first",
        Accumulate::Last => "last",
        Accumulate::Values => "list",
        Accumulate::Arrivals => "list of positions",
        Accumulate::Distinct { is_ordered: false } => "set",
        Accumulate::Distinct { is_ordered: true } => "set with positions",
        Accumulate::Frequencies => "set with frequencies",
        Accumulate::DistinctSketch => "sketch of distinct values",
        Accumulate::Udaf(merging) => return own_accumulation(accumulator, merging, argument),
    };
    match argument {
        Some(argument) => format!("{name} of {}", expression(argument.as_ref())),
        None => format!("{name} of rows"),
    }
}

/// What a function of the program's own keeps.
fn own_accumulation(accumulator: &Accumulator, merging: Merging, argument: Option<&Arc<dyn PhysicalExpr>>) -> String {
    let name = accumulator.function.as_ref().map_or("", |function| function.0.name());
    let arguments = argument.map(|argument| expression(argument.as_ref()).to_string()).unwrap_or_default();
    match merging {
        Merging::Rows => format!("rows for {name} of {arguments}: computed of all rows of a window"),
        Merging::Combine => format!("state of {name} of {arguments}: states combine"),
        Merging::Invert => format!("state of {name} of {arguments}: states combine and are subtracted"),
    }
}

fn fields(schema: &Schema) -> String {
    schema.fields().iter().map(|own| field(own)).collect::<Vec<_>>().join(", ")
}

fn field(field: &Field) -> String {
    let coded = if matches!(field.data_type(), DataType::Dictionary(..)) { " in codes" } else { "" };
    let data_type = sql_name(field.data_type());
    format!("{} {data_type}{coded}{}", field.name(), if field.is_nullable() { "" } else { " NOT NULL" })
}
