//! Cuts: what a run is between two rows of each of its inputs, from which another run of the same graph goes on.
//!
//! At a cut no source is read and nothing is under way: every row that was read has come into the state of an operator or has been handed to a sink. So the
//! state is exactly that of the rows before the cut, whatever the number of workers, and no task mixes rows from before and behind it. Rows that are under way are
//! bounded (`scheduler/dispatch/backpressure.rs`), and so is the time until they are done.
//!
//! [`cut`] takes the state, [`restore`] gives it to a new run, of the same graph or of one that shares parts with it ([`mapping`]), and [`outputs`] ends and commits
//! what sinks have written. [`take_over`] has a run go on in the place of another one.

mod cut;

mod mapping;

mod outputs;

mod restore;

mod take_over;

pub use cut::CutError;
pub use mapping::StateMapping;
pub use outputs::Outputs;
pub use restore::RestoreError;
pub use take_over::{Reserved, TakeOverError};

use pelton_data::Micros;
use pelton_data::time::WATERMARK_MIN;
use serde::{Deserialize, Serialize};

use crate::source::Position;

/// What a run is at a cut.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSnapshot {
    /// As [`crate::graph::Graph::sources`].
    pub sources: Vec<SourceSnapshot>,
    /// As [`crate::graph::Graph::pipelines`].
    pub pipelines: Vec<StreamSnapshot>,
    /// As [`crate::graph::Graph::operators`].
    pub operators: Vec<OperatorSnapshot>,
    /// As [`crate::graph::Graph::sinks`].
    pub sinks: Vec<SinkSnapshot>,
}

impl RunSnapshot {
    /// All but the state of operators.
    pub fn without_state(&self) -> RunSnapshot {
        let RunSnapshot { sources, pipelines, operators, sinks } = self;
        let without_state = |operator: &OperatorSnapshot| OperatorSnapshot {
            name: operator.name.clone(),
            state: Vec::new(),
            stream: operator.stream.clone(),
            late_rows: operator.late_rows,
            began_behind: operator.began_behind,
        };
        let operators = operators.iter().map(without_state).collect();
        RunSnapshot { sources: sources.clone(), pipelines: pipelines.clone(), operators, sinks: sinks.clone() }
    }
}

/// An input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSnapshot {
    /// The name of its table.
    pub name: String,
    /// Its partitions.
    pub partitions: Vec<PartitionSnapshot>,
    /// See [`crate::source::Source::completed`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completed: Vec<String>,
    /// The watermark over all of them.
    pub watermark: Micros,
    /// What its blocks were numbered up to.
    pub stream: StreamSnapshot,
}

/// A partition of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionSnapshot {
    /// See [`crate::source::Source::partition_name`].
    pub name: String,
    /// Where its next row is; `None` where the source cannot be put there again.
    pub position: Option<Position>,
    /// How far its event time had come.
    pub watermark: Micros,
    /// Nothing more can be read.
    pub has_ended: bool,
    /// It held no time back.
    pub is_idle: bool,
}

/// What blocks of a stream were numbered up to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSnapshot {
    /// Blocks that have passed.
    pub blocks: u64,
    /// Rows that have passed.
    pub rows: u64,
}

/// A stateful operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorSnapshot {
    /// Its name.
    pub name: String,
    /// Its state, as [`crate::snapshot`] writes it. A store of snapshots keeps it beside the rest.
    #[serde(skip)]
    pub state: Vec<u8>,
    /// What blocks of its results were numbered up to.
    pub stream: StreamSnapshot,
    /// Rows that came too late.
    pub late_rows: u64,
    /// See [`crate::source::Source::began_behind`].
    #[serde(default = "no_time")]
    pub began_behind: Micros,
}

fn no_time() -> Micros {
    WATERMARK_MIN
}

/// An output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkSnapshot {
    /// Its name.
    pub name: String,
    /// Rows that have been handed to the sink.
    pub rows: u64,
    /// Rows that are left out before the first.
    pub offset: usize,
    /// Rows that are still wanted, where there is a limit.
    pub rows_left: Option<usize>,
    /// What the sink needs to commit its rows; `None` where it has none to commit. See [`crate::sink::Sink::prepare`].
    pub prepared: Option<String>,
}
