//! The parts of a job's program, by which state finds its place when another program goes on.

use std::sync::{Arc, LazyLock};

use pelton_plan::explain::Definitions;
use pelton_plan::pipeline::{Output, Program};
use pelton_runtime::checkpoint::StateMapping;
use serde::{Deserialize, Serialize};

/// The parts of a program that state belongs to: sources and outputs by their tables, the others by what they compute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProgramParts {
    /// Tables that are read.
    pub sources: Vec<String>,
    /// What each pipeline computes.
    pub pipelines: Vec<String>,
    /// Operators.
    pub operators: Vec<OperatorPart>,
    /// Tables that are written.
    pub outputs: Vec<String>,
}

/// The parts of a program, found when a job that has checkpoints or is altered needs them.
pub(crate) type LazyParts = LazyLock<ProgramParts, Box<dyn FnOnce() -> ProgramParts + Send>>;

/// An operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OperatorPart {
    /// Its name in its program.
    pub name: String,
    /// What it computes.
    pub definition: String,
}

/// What becomes of a part of a job that is altered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes on.
    Kept,
    /// It is new, and has seen nothing of what was read before.
    New,
    /// It was there before only.
    Gone,
}

impl ProgramParts {
    /// Those of a program, once they are needed.
    pub fn lazy(program: &Arc<Program>) -> Arc<LazyParts> {
        let program = program.clone();
        Arc::new(LazyParts::new(Box::new(move || ProgramParts::of(&program))))
    }

    pub fn of(program: &Program) -> ProgramParts {
        let Definitions { pipelines, operators } = Definitions::of(program);
        let operators = operators.into_iter().enumerate();
        let operators =
            operators.map(|(number, definition)| OperatorPart { name: program.operator_name(number), definition });
        ProgramParts {
            sources: program.sources.iter().map(|source| source.table.clone()).collect(),
            pipelines,
            operators: operators.collect(),
            outputs: program.outputs.iter().map(Output::name).map(str::to_owned).collect(),
        }
    }

    /// Which parts of the program before these go on from.
    pub fn mapping_from(&self, before: &ProgramParts) -> StateMapping {
        fn definitions(parts: &ProgramParts) -> Vec<&str> {
            parts.operators.iter().map(|operator| operator.definition.as_str()).collect()
        }
        StateMapping {
            sources: matches(&self.sources, &before.sources),
            pipelines: matches(&self.pipelines, &before.pipelines),
            operators: matches(&definitions(self), &definitions(before)),
            sinks: matches(&self.outputs, &before.outputs),
        }
    }

    /// What becomes of each part, with its name: those of this program in order, and behind them those of the one before that are gone.
    pub fn fates(&self, before: &ProgramParts) -> Vec<(String, Fate)> {
        let StateMapping { sources, operators, sinks, .. } = self.mapping_from(before);
        let names = |parts: &ProgramParts| {
            [
                parts.sources.iter().map(|table| format!("source {table}")).collect::<Vec<_>>(),
                parts.operators.iter().map(|operator| operator.name.clone()).collect(),
                parts.outputs.iter().map(|table| format!("output {table}")).collect(),
            ]
        };
        let (mut fates, mut gone) = (Vec::new(), Vec::new());
        for ((now, before), mapped) in names(self).into_iter().zip(names(before)).zip([sources, operators, sinks]) {
            let fate = |from: &Option<usize>| if from.is_some() { Fate::Kept } else { Fate::New };
            fates.extend(now.into_iter().zip(mapped.iter().map(fate)));
            let is_gone = |number: usize| !mapped.contains(&Some(number));
            gone.extend(before.into_iter().enumerate().filter(|(number, _)| is_gone(*number)).map(|(_, name)| name));
        }
        fates.extend(gone.into_iter().map(|name| (name, Fate::Gone)));
        fates
    }

    /// In what an operator differs from that of a checkpoint, where one does.
    pub fn difference(&self, checkpoint: &ProgramParts) -> Option<String> {
        let operators = self.operators.iter().zip(&checkpoint.operators);
        let (now, then) = operators.into_iter().find(|(now, then)| now.definition != then.definition)?;
        let differing = now.definition.lines().zip(then.definition.lines()).find(|(now, then)| now != then);
        let (line, other) = differing.unwrap_or((&now.definition, &then.definition));
        Some(format!(
            "the state of {} is of another query: it has '{}', and this query has '{}'",
            then.name,
            other.trim(),
            line.trim()
        ))
    }
}

/// For each of these the number of the first equal one before that no other has.
fn matches<T: PartialEq>(now: &[T], before: &[T]) -> Vec<Option<usize>> {
    let mut is_taken = vec![false; before.len()];
    let matched = |name: &T| {
        let found = (0..before.len()).find(|&number| !is_taken[number] && before[number] == *name)?;
        is_taken[found] = true;
        Some(found)
    };
    now.iter().map(matched).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(operators: &[(&str, &str)], outputs: &[&str]) -> ProgramParts {
        let part = |&(name, definition): &(&str, &str)| OperatorPart {
            name: name.to_owned(),
            definition: definition.to_owned(),
        };
        ProgramParts {
            sources: vec!["t".to_owned()],
            operators: operators.iter().map(part).collect(),
            outputs: outputs.iter().map(|&table| table.to_owned()).collect(),
            ..ProgramParts::default()
        }
    }

    #[test]
    fn equal_parts_go_on_once_each() {
        let before = parts(&[("window 0", "a"), ("window 1", "b"), ("window 2", "a")], &["x", "y"]);
        let now = parts(&[("window 0", "b"), ("window 1", "a"), ("window 2", "c")], &["y", "z"]);
        let mapping = now.mapping_from(&before);
        assert_eq!(mapping.operators, [Some(1), Some(0), None]);
        assert_eq!((mapping.sources, mapping.sinks), (vec![Some(0)], vec![Some(1), None]));
        let fates = now.fates(&before);
        let of = |fate: Fate| {
            fates.iter().filter(|(_, own)| *own == fate).map(|(name, _)| name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of(Fate::Kept), ["source t", "window 0", "window 1", "output y"]);
        assert_eq!(of(Fate::New), ["window 2", "output z"]);
        assert_eq!(of(Fate::Gone), ["window 2", "output x"]);
    }

    #[test]
    fn a_difference_names_the_lines() {
        let checkpoint = parts(&[("window 0", "window tumbling 10 SECOND\n  key a")], &[]);
        let now = parts(&[("window 0", "window tumbling 20 SECOND\n  key a")], &[]);
        let difference = now.difference(&checkpoint).unwrap();
        assert_eq!(
            difference,
            "the state of window 0 is of another query: it has 'window tumbling 10 SECOND', and this query has 'window tumbling 20 SECOND'"
        );
        assert_eq!(now.difference(&now), None);
    }
}
