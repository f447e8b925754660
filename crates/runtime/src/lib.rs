//! Tasks, workers, watermarks and ordered output.
//!
//! The runtime receives a [`graph::Graph`] of sources, kernels, windows and sinks and runs it to its end on a number of
//! workers. It never sees SQL, plans or the compiler: a kernel is a value it calls for each block.
//!
//! A record's stretch here: a worker reads a chunk and decodes it; the sequencer puts decoded chunks back in order, stamps
//! their blocks with watermarks and queues them; any worker takes a block and calls the pipeline's kernel; results leave in
//! the order of their blocks; when the watermark passes a window, the workers' tables are merged and read out.
//!
//! In reading order: [`source`] and [`sink`] (what a connector implements), [`graph`], [`adapt`] (code that learns what the data looks like), [`clock`], [`wake`], then inside:
//! `order`, `inputs` (how far time has come), `sequence` (watermarks), [`late`] (rows that came too late), `operators` (the contract of stateful operators, and each of them), `state` (what is queued, or passes as `records` and [`events`]; `deliver` who gets it), [`budget`] (what state may take), `operator` and `load` (what is known of what runs), [`latency`] (how long results take), [`policy`] and `turn` (who goes first), `choose` (what can run, and what of it does), `outlet` (order
//! and limit of an output), `room` (lists that are used again), `task` and `write` (how tasks are done), `threads` (one for each operator, where the policy says so), `aside` (work that no run waits for), `pages` (the one that prepares memory), `pin` (threads that stay on one core), and [`run`] with [`pool`] (who does them), [`snapshot`] (the state of its operators as bytes) and [`progress`].

pub mod source;

pub mod sink;

pub mod graph;

pub mod adapt;

pub mod clock;

pub mod counters;

pub mod wake;

mod order;

mod inputs;

mod sequence;

pub mod late;

mod consumers;

mod finished;

mod queue;

mod state;
mod sync;

mod deliver;

mod results;

mod queued;

#[cfg(feature = "queues")]
mod records;

#[cfg_attr(not(feature = "queues"), path = "events/absent.rs")]
pub mod events;

mod operators;

pub mod budget;

mod operator;

mod load;

pub mod latency;

mod turn;

pub mod policy;

mod choose;

mod outlet;

mod room;

mod task;

mod write;

mod threads;

mod aside;

#[cfg(target_os = "linux")]
mod pin;

#[cfg(all(target_os = "linux", not(miri)))]
mod pages;

mod error;

mod options;

mod shared;

mod crew;

mod worker;

pub mod run;

pub mod snapshot;

pub mod pool;

pub mod progress;
