//! Which inserts of a statement set a part of its program works for: errors say so.

use std::collections::BTreeMap;

use pelton_plan::pipeline::{Program, StreamRef};
use pelton_runtime::run::RunError;

use crate::error::Error;

/// Tables that the rows of a pipeline, window or OVER are inserted into, by its name. Empty where a program has one output: that needs no name.
#[derive(Debug, Default)]
pub(crate) struct Inserts(BTreeMap<String, Vec<String>>);

impl Inserts {
    pub fn of(program: &Program) -> Inserts {
        let mut inserts = Inserts::default();
        if program.outputs.len() > 1 {
            for output in &program.outputs {
                output.inputs.iter().for_each(|&input| inserts.add(program, input, output.name()));
            }
        }
        inserts
    }

    /// Adds an insert's table to all that its rows come from.
    fn add(&mut self, program: &Program, stream: StreamRef, table: &str) {
        let (name, inputs) = match stream {
            StreamRef::Source(_) => return,
            StreamRef::Pipeline(index) => (program.pipeline_name(index), vec![program.pipelines[index].input]),
            StreamRef::Operator(index) => {
                let feeding = program.feeding(index).map(|(pipeline, _)| StreamRef::Pipeline(pipeline));
                (program.operator_name(index), feeding.collect())
            }
        };
        let tables = self.0.entry(name).or_default();
        if !tables.iter().any(|known| known == table) {
            tables.push(table.to_owned());
            inputs.into_iter().for_each(|input| self.add(program, input, table));
        }
    }

    /// The error, with the inserts that what failed works for.
    pub fn named(&self, error: RunError) -> Error {
        Error::Run(match error {
            RunError::Kernel { pipeline, error } => {
                let tables = self.0.get(&pipeline).map(|tables| format!(", for INSERT INTO {}", tables.join(" and ")));
                RunError::Kernel { pipeline: pipeline + &tables.unwrap_or_default(), error }
            }
            other => other,
        })
    }
}
