//! The engine from outside. One program: linking an engine takes longer than most of its tests.

mod adaptation_events;

mod alignment;

mod builder;

mod bursts;

mod checkpoints;

mod altered_jobs;
mod jobs;

mod markers;

mod memory;

mod nested_data;

mod operators;

mod program_tables;

mod queries;

mod regions;

mod registered_rows;

mod reload;

#[cfg(feature = "s3")]
mod s3;

mod session;

mod sessions;

mod sharing;

mod shown;

mod stage;

#[cfg(unix)]
mod starting;

mod tcp;

mod time;

mod watched_files;
