//! Tasks, workers, watermarks and ordered output.
//!
//! The runtime receives a [`graph::Graph`] of sources, kernels, windows and sinks and runs it to its end on a number of
//! workers. It never sees SQL, plans or the compiler: a kernel is a value it calls for each block.
//!
//! A record's stretch here: a worker reads a chunk and decodes it; the sequencer puts decoded chunks back in order, stamps
//! their blocks with watermarks and queues them; any worker takes a block and calls the pipeline's kernel; results leave in
//! the order of their blocks; when the watermark passes a window, the workers' tables are merged and read out.
//!
//! In reading order: [`graph`] (nodes and the streams between them), [`source`] (what a connector implements; chunks in order, with watermarks), [`exchange`] (sources that several runs read), [`clock`],
//! [`late`] (rows that came too late), `state` (what is queued, in progress and finished), [`data_passing`] (what streams pass), `operators` (the contract of
//! stateful operators, and each of them), [`memory`] (budgets, prepared pages), [`adapt`] (code that learns what the data looks like), [`scheduler`] (policies,
//! tasks, workers), [`output`] (sinks, latency), [`run`], [`snapshot`] (the state of operators as bytes), [`checkpoint`] (the state of a run between two rows) and [`progress`].

pub mod graph;

pub mod source;

pub mod exchange;

pub mod clock;

pub mod counters;

mod sync;

pub mod late;

mod error;

mod options;

mod state;

#[cfg_attr(not(feature = "queues"), path = "data_passing/absent.rs")]
pub mod data_passing;

mod operators;

pub mod memory;

pub mod adapt;

pub mod scheduler;

pub mod output;

mod shared;

pub mod run;

pub mod snapshot;

pub mod checkpoint;

pub mod progress;

#[cfg(test)]
mod testing;

pub use memory::budget;
pub use output::{latency, sink};
pub use scheduler::{attendants, policy, pool, wake};
