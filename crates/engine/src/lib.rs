//! Pelton: SQL over streams, inside your process, at the speed of the machine.
//!
//! The stages of a statement: [`Session::sql`] parses it and plans it against the catalogue; the tables it names are opened by their
//! connectors; each pipeline gets an interpreted kernel at once and a compiled one a moment later; the runtime's workers run
//! them; results arrive as Arrow record batches at [`Query::next_batch`] or through the [`futures_core::Stream`] that a query is.
//!
//! ```
//! let session = pelton::Session::new();
//! let query = session.sql(
//!     "CREATE TABLE bid (WATERMARK FOR dateTime AS dateTime)
//!        WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows' = '92000', 'pace' = 'flat-out');
//!      SELECT window_start, COUNT(*) AS bids
//!      FROM TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '5' SECOND)
//!      GROUP BY window_start, window_end",
//! )?;
//! let bids: usize = query.collect()?.iter().map(|batch| batch.num_rows()).sum();
//! assert_eq!(bids, 2);
//! # Ok::<(), pelton::Error>(())
//! ```
//!
//! In reading order: [`engine`], [`session`], [`statement`], [`settings`], `setting_list` (all of them), `table` (what `CREATE TABLE` does), `wrapped_source` and `event_time` (where that is computed), `registered_rows` (tables whose rows the program has), `emission` (when windows are reported), `execute` (from a program to a run), `lookups` (loads the tables that it joins with), `shared_sources` (reads tables for several queries), `shared_joins` (joins them for several), `tier` (interpreted
//! first, compiled a moment later), [`query`] (a running query and its results), [`job`] (an insert under a name), [`checkpoints`] (from which it goes on after a failure), `shown_jobs`, [`progress`] (its figures), `waiting` (what it waits for), `running` (how it fares), `operators` (what each of its operators costs), `adaptation_events` (what happens to its code), `late` (what came too late for it), [`push`] and [`pull`] (rows from your program, and for it), `results` (on their way to whoever reads them), [`builder`] (queries
//! as calls instead of text), [`function`], `scalar_function`, `table_function`, [`explain`], `analyze` (what became of a query's code), [`display`], [`simulation`].

pub mod engine;

pub mod session;

pub mod statement;

pub mod settings;

mod setting_list;

mod table;

mod wrapped_source;

mod event_time;

mod registered_rows;

mod dead_letters;

mod flink_options;

mod emission;

mod execute;

mod assembled;

mod lookups;

mod shared_joins;
mod shared_sources;

mod shared_aggregations;

mod reader;

mod sharing;

mod reload;

mod inserts;

mod tier;

pub mod query;

pub mod job;

pub mod checkpoints;

mod shown_jobs;

pub mod progress;

mod waiting;

mod running;

mod running_program;

mod operators;

mod program_sharing;
mod program_tables;

mod adaptation_events;

mod late;

pub mod push;

pub mod pull;

mod results;

pub mod builder;

pub mod function;

mod scalar_function;

mod table_function;

#[doc(hidden)]
pub mod simulation;

pub mod explain;

mod analyze;

pub mod display;

pub mod error;

pub use adaptation_events::{AdaptationEvent, AdaptationEvents, AdaptationKind};
pub use arrow;
pub use builder::QueryBuilder;
pub use engine::Engine;
pub use error::Error;
pub use job::Job;
pub use pelton_connectors::options::suggest;
pub use pelton_data::spelling::identifier;
pub use pelton_plan::{Place, PlanError, PlanErrorKind};
pub use progress::Progress;
pub use pull::PullSink;
pub use push::PushSource;
pub use query::{Query, Summary};
pub use registered_rows::EventTime;
pub use session::Session;
pub use statement::{Outcome, Prepared};

/// The examples of the book that are Rust.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/fluent-api.md")]
struct FluentApi;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/jobs.md")]
struct JobsPage;
