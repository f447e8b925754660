//! What streams and operators compute, in words without the numbers that they have in their program: what they hold is alike where the words are.

use std::fmt;
use std::fmt::Write;

use pelton_data::column::sql_name;

use super::{
    WindowText, accumulation, expression, field, fields, join, over, ranked, window_column, write_program, write_step,
};
use crate::length::Length;
use crate::pipeline::{Operator, Pipeline, Program, SourceUse, Step, StreamRef, Target, TimeSource, WindowAggregate};

/// What each pipeline and operator of a program computes, from its sources on.
///
/// State of an operator is one of another program's operator where both definitions are the same. What is made of the state when it is read, such as
/// the columns of a window's results, is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Definitions {
    /// As [`Program::pipelines`].
    pub pipelines: Vec<String>,
    /// As [`Program::operators`].
    pub operators: Vec<String>,
}

impl Definitions {
    /// Those of a program.
    pub fn of(program: &Program) -> Definitions {
        let written = |write: &dyn Fn(&mut String) -> fmt::Result| {
            let mut text = String::new();
            write(&mut text).expect("writing to a string does not fail");
            text
        };
        let pipelines = 0..program.pipelines.len();
        let operators = 0..program.operators.len();
        Definitions {
            pipelines: pipelines.map(|number| written(&|text| write_stream(text, program, number, 0))).collect(),
            operators: operators.map(|number| written(&|text| write_operator(text, program, number, 0))).collect(),
        }
    }
}

/// Writes a pipeline, and what it reads.
fn write_stream(text: &mut String, program: &Program, number: usize, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    let pipeline = &program.pipelines[number];
    for step in &pipeline.steps {
        write_step(text, step, program, &indent)?;
    }
    for step in &pipeline.steps {
        if let Step::Lookup { table, .. } = step {
            writeln!(text, "{indent}  joined with")?;
            write_program(text, &program.lookups[*table].program, &format!("{indent}    "))?;
        }
    }
    write_target(text, program, pipeline, &indent)?;
    match pipeline.input {
        StreamRef::Source(source) => {
            let source = &program.sources[source];
            writeln!(text, "{indent}  of table {}{}", source.table, time(source))
        }
        StreamRef::Pipeline(input) => {
            writeln!(text, "{indent}  of the stream")?;
            write_stream(text, program, input, depth + 2)
        }
        StreamRef::Operator(input) => {
            writeln!(text, "{indent}  of the results of")?;
            write_results(text, program, input, depth + 2)
        }
    }
}

/// What rows are placed in time by.
fn time(source: &SourceUse) -> String {
    match source.time {
        TimeSource::None | TimeSource::Noted { .. } => String::new(),
        TimeSource::Event { column, delay } => {
            let column = field(source.schema.field(column));
            let computed = source.computed_time.as_ref().map(|time| format!(" = {}", expression(time.as_ref())));
            format!(" by {column}{}, delay {}", computed.unwrap_or_default(), Length(delay))
        }
        TimeSource::Processing { .. } => " by processing time".to_owned(),
    }
}

/// Writes what rows become, with the types of values.
fn write_target(text: &mut String, program: &Program, pipeline: &Pipeline, indent: &str) -> fmt::Result {
    match &pipeline.target {
        Target::Stream { columns, schema } | Target::Rows { columns, schema, .. } => {
            for (column, output) in columns.iter().zip(schema.fields()) {
                writeln!(text, "{indent}  {} = {}", field(output), expression(column.as_ref()))?;
            }
        }
        Target::Groups { port, keys, arguments } => {
            let window = program.groups(port.operator);
            for (key, expression_of) in window.keys.iter().zip(keys) {
                let key_type = sql_name(key.data_type());
                writeln!(text, "{indent}  key {} {key_type}", expression(expression_of.as_ref()))?;
            }
            for (accumulator, argument) in window.accumulators.iter().zip(arguments) {
                let accumulation = accumulation(accumulator, argument.as_ref());
                writeln!(text, "{indent}  accumulator {accumulation} {:?}", accumulator.argument_type)?;
            }
        }
    }
    Ok(())
}

/// Writes what an operator holds, and what that comes from.
fn write_operator(text: &mut String, program: &Program, number: usize, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    write!(text, "{indent}{} ", program.operators[number].kind())?;
    match &program.operators[number] {
        Operator::Window(window) => write_window(text, window, &indent)?,
        Operator::Slices(slices) => {
            writeln!(text, "{:?}", slices.grid)?;
            for &window in &slices.windows {
                write!(text, "{indent}  for ")?;
                write_window(text, program.groups(window), &indent)?;
            }
        }
        Operator::Over(spec) => over::write(text, spec, &indent)?,
        Operator::Join(spec) => join::write(text, spec, &indent)?,
        Operator::Unmatched(unmatched) => writeln!(text, "{}", fields(&unmatched.schema))?,
    }
    if let Some(slices) = program.operators[number].as_window().and_then(|window| window.slices) {
        write!(text, "{indent}  from ")?;
        return write_operator(text, program, slices, depth + 1);
    }
    for (pipeline, _) in program.feeding(number) {
        writeln!(text, "{indent}  fed by")?;
        write_stream(text, program, pipeline, depth + 1)?;
    }
    Ok(())
}

/// Writes which windows there are and what each keeps beside its groups.
fn write_window(text: &mut String, window: &WindowAggregate, indent: &str) -> fmt::Result {
    writeln!(text, "{}", WindowText { window: &window.window, bounds: &window.bounds })?;
    if let Some(ranking) = &window.ranking {
        let schema = fields(&ranking.schema);
        writeln!(text, "{indent}  rows {} of {schema}", ranked(ranking))?;
    }
    Ok(())
}

/// Writes an operator, and the columns of its results.
fn write_results(text: &mut String, program: &Program, number: usize, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    if let Some(window) = program.operators[number].as_window() {
        for (column, output) in window.columns.iter().zip(window.schema.fields()) {
            writeln!(text, "{indent}{} = {}", field(output), window_column(column, window))?;
        }
    }
    write_operator(text, program, number, depth)
}
