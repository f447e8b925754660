//! The run of a job, and what another query needs to take its place.

use std::sync::Arc;

use pelton_runtime::budget::Unread;
use pelton_runtime::graph::Graph;
use pelton_runtime::pool::Pool;
use pelton_runtime::run::{Run, RunHandle, RunOptions};

use crate::checkpoints::parts::{LazyParts, ProgramParts};
use crate::error::Error;

/// The run of a job. Another query can take its place: where both write a table, that is written on, where both read one, that is read on, and operators that
/// compute the same keep their state.
pub(crate) struct RunningProgram {
    pub run: RunHandle,
    pub parts: Arc<LazyParts>,
    /// The threads that run it.
    pub pool: Pool,
}

impl RunningProgram {
    /// Whether it writes a table.
    pub fn writes(&self, table: &str) -> bool {
        self.parts.outputs.iter().any(|output| output == table)
    }

    /// Those of the run that takes its place.
    pub fn run_options(&self, options: RunOptions) -> (RunOptions, Unread) {
        let options = self.run.successor_options(options);
        let unread = options.unread.clone();
        (options, unread)
    }

    /// Ends it at a cut, and starts the other there. Where that fails, it goes on.
    pub fn give_way(
        &self,
        graph: Graph,
        options: RunOptions,
        (pool, parts): (&Pool, &ProgramParts),
    ) -> Result<Run, Error> {
        let taken = Run::take_over(&self.run, graph, options, pool, &parts.mapping_from(&self.parts));
        taken.map_err(|error| Error::Usage(format!("the job was not altered, and goes on as it is: {error}")))
    }
}
