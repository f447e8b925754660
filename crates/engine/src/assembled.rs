//! A program that is ready to run, and where its run begins.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use pelton_runtime::graph::Graph;
use pelton_runtime::pool::Pool;
use pelton_runtime::run::{Run, RunOptions};

use crate::checkpoints::error::CheckpointError;
use crate::checkpoints::job::Restored;
use crate::checkpoints::parts::{LazyParts, ProgramParts};
use crate::error::Error;
use crate::execute::{Surroundings, Tables, Unstarted, operators, pipeline_nodes, result_schema, take_tables};
use crate::inserts::Inserts;
use crate::query::{NamedStories, Query};
use crate::reload::Reloading;
use crate::results::Results;

/// A program that is ready to run.
pub(crate) struct Assembled {
    pub graph: Graph,
    pub options: RunOptions,
    pub parts: Arc<LazyParts>,
    pub schema: SchemaRef,
    pub results: Option<Results>,
    pub stories: Vec<NamedStories>,
    pub inserts: Inserts,
    pub reloading: Option<Reloading>,
}

impl Unstarted {
    /// Makes the graph of a program whose tables are open. Takes the tables that the user of the session has opened: no other query gets them.
    pub fn assemble(self, surroundings: &Surroundings<'_>) -> Result<Assembled, Error> {
        self.check_program_tables(surroundings)?;
        let Unstarted { program, parts, sharing, lookups, kernels, held, reloading, .. } = self;
        let Unstarted { budget, unread, options, sinks, sources, .. } = self;
        let (settings, waker) = (surroundings.settings, options.waker.clone());
        let Tables { sinks, sources, results } =
            take_tables(&program, surroundings, (sinks, sources), &sharing, &unread, &waker)?;
        let stories =
            kernels.iter().enumerate().map(|(index, kernel)| (program.pipeline_name(index), kernel.stories()));
        let stories = stories.collect();
        let graph = Graph {
            pipelines: pipeline_nodes(&program, kernels),
            operators: operators(&program, &lookups, &sources, settings),
            sinks,
            sources,
        };
        let options = RunOptions {
            block_rows: settings.block_rows,
            late: surroundings.late.clone(),
            budget,
            held,
            unread,
            data_passing: settings.data_passing,
            holds_ends: surroundings.checkpointed.is_some(),
            ..options
        };
        let (inserts, schema) = (Inserts::of(&program), result_schema(&program));
        Ok(Assembled { graph, options, parts, schema, results, stories, inserts, reloading })
    }
}

impl Assembled {
    /// Starts it, where it left off or in the place of a job, if there is something that it goes on from. A cut of that job is waited for.
    pub fn start(self, surroundings: &Surroundings<'_>) -> Result<Query, Error> {
        let Assembled { mut graph, options, parts, schema, results, stories, inserts, reloading } = self;
        let pool = surroundings.pool;
        let run = match (surroundings.predecessor, surroundings.restored) {
            (Some(before), _) => before.give_way(graph, options, (pool, &parts))?,
            (None, Some(restored)) => restore(graph, options, (pool, &parts), restored)?,
            (None, None) => {
                if surroundings.checkpointed.is_some_and(|job| job.recovers) {
                    let recovered = graph.sinks.iter_mut().try_for_each(|node| node.sink.recover());
                    recovered
                        .map_err(|error| CheckpointError { place: "none".to_owned(), problem: error.to_string() })?;
                }
                Run::start(graph, options, pool)
            }
        };
        let query = Query::new(run, schema, results, stories, (inserts, parts));
        if let Some(reloading) = reloading {
            reloading.start(query.weak());
        }
        Ok(query)
    }
}

/// Starts a graph from what a run of the same program was, or of one that it is altered from.
fn restore(
    graph: Graph,
    options: RunOptions,
    (pool, parts): (&Pool, &ProgramParts),
    restored: Restored<'_>,
) -> Result<Run, CheckpointError> {
    let failed = |problem: String| CheckpointError { place: restored.place.to_owned(), problem };
    let run = match restored.parts {
        Some(before) if restored.is_altered => {
            Run::restore_mapped(graph, options, pool, (restored.run, &parts.mapping_from(before)))
        }
        before => match before.and_then(|before| parts.difference(before)) {
            Some(difference) => return Err(failed(difference)),
            None => Run::restore(graph, options, pool, restored.run),
        },
    };
    run.map_err(|error| failed(error.to_string()))
}
