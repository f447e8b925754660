//! How a graph is to be run.

use crate::clock::Clock;
use crate::data_passing::DataPassing;
use crate::late::LateLog;
use crate::memory::budget::{Budget, Held, Unread};
use crate::scheduler::wake::Waker;

/// How a graph is to be run.
#[derive(Debug)]
pub struct RunOptions {
    /// Threads that do the work: those of the pool.
    pub workers: usize,
    /// Rows of a block, at most [`pelton_data::BLOCK_ROWS_MAX`].
    pub block_rows: usize,
    /// What tells the time.
    pub clock: Clock,
    /// What connectors wake the workers with.
    pub waker: Waker,
    /// Keeps late rows.
    pub late: LateLog,
    /// What its state is charged to.
    pub budget: Budget,
    /// What is charged already of what it reads: tables that it joins with.
    pub held: Vec<Held>,
    /// What of its results nobody has read yet.
    pub unread: Unread,
    /// Whether outputs that have all of their rows wait for [`crate::run::RunHandle::end_outputs`] before they end.
    pub holds_ends: bool,
    /// What its streams pass.
    pub data_passing: DataPassing,
}
