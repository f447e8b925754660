//! Stateful operators: what holds rows, or what they add up to, until the watermark passes.
//!
//! This is their contract. The scheduler, the budget, progress, snapshots and simulation know it, and no operator by its name. An
//! operator has two halves: the [`StatefulOperator`] is shared by the workers, takes blocks at its ports, advances with the watermark and
//! has snapshots; its [`Control`] is guarded by the scheduler's lock and says what is due.

pub(crate) mod inputs;

pub(crate) mod context;

pub(crate) mod state;

pub(crate) mod control;

#[cfg(test)]
mod merge;

pub(crate) mod over;

pub(crate) mod unmatched;

pub(crate) mod timed_join;

pub(crate) mod window;

pub(crate) mod window_join;

use arrow::array::RecordBatch;
use pelton_data::time::WATERMARK_MIN;
use pelton_data::window::Window;
use pelton_data::{Block, Micros, TimeColumn};
use pelton_state::kernel::{KernelCall, KernelError};
use pelton_state::over::Arriving;
pub use pelton_state::snapshot::SnapshotError;

use self::context::TaskContext;
use crate::late::LateRow;
use crate::operators::inputs::Inputs;
use crate::state::finished::Finished;
use crate::state::results::Timed;

/// An operator of a graph.
pub struct OperatorNode(pub(crate) Box<dyn StatefulOperator>);

/// An operator as the workers share it.
pub(crate) trait StatefulOperator: Send + Sync {
    /// For people.
    fn name(&self) -> &str;

    /// The event-time column of its results, if they have one.
    fn time_column(&self) -> Option<TimeColumn>;

    /// Operators that take its state and no rows: `Graph::operators[i]`. They are told when state has been handed to them.
    fn subscribers(&self) -> &[usize] {
        &[]
    }

    /// How much later its results are final than the watermark of its inputs says, in microseconds.
    fn delay(&self) -> Micros {
        0
    }

    /// Whether a port takes its blocks one after the other, in their order.
    fn takes_in_order(&self) -> bool {
        false
    }

    /// Whether its state is free when the watermark has passed it. Then streams that are ahead of others wait for these where memory is short.
    fn is_freed_by_time(&self) -> bool {
        true
    }

    /// The parts of its state whose memory is measured apart.
    fn accounts(&self, _workers: usize) -> usize {
        1
    }

    /// Prepares for a run: called once, before any block comes.
    fn start(&mut self, start: &Start) -> Box<dyn Control>;

    /// Takes a block at a port, through the code of the pipeline that feeds it; any number of workers at a time. What it leaves in
    /// `Finished::output` waits until it advances.
    ///
    /// # Errors
    /// What the code returns, or where state would take more memory than allowed.
    fn take(
        &self,
        port: usize,
        kernel: KernelCall<'_>,
        block: &Block,
        context: &mut TaskContext<'_>,
        finished: &mut Finished,
    ) -> Result<(), KernelError>;

    /// Charges what a worker has added, if it is time to measure that.
    ///
    /// # Errors
    /// Where it is more than allowed.
    fn charge(&self, _context: &TaskContext<'_>, _now_ns: u64) -> Result<(), KernelError> {
        Ok(())
    }

    /// Turns state into rows that is due: a part of it, where it is much. One worker at a time.
    ///
    /// # Errors
    /// What computing them returns, or where state would take more memory than allowed.
    fn advance<'a>(&'a self, due: Due, context: &'a TaskContext<'_>) -> Result<Advanced<'a>, KernelError>;

    /// Turns state into rows that is not due: a part of it, where it is much. One worker at a time, and none that advances.
    ///
    /// # Errors
    /// As [`StatefulOperator::advance`].
    fn report_early(&self, _context: &TaskContext<'_>) -> Result<EarlyRows, KernelError> {
        unreachable!("only an operator whose control asks for it reports early")
    }

    /// What it holds, for people who watch the run.
    fn holding(&self) -> Holding;

    /// Forgets its state.
    fn clear(&self);

    /// Its state as bytes, in the place of those that are in the list.
    ///
    /// # Errors
    /// Where it is at something that must be done first, or a user-defined aggregate has states without a form.
    fn snapshot(&self, into: Vec<u8>) -> Result<Vec<u8>, SnapshotError>;

    /// Replaces its state by that of a snapshot, which may be of a run with another number of workers.
    ///
    /// # Errors
    /// Where the bytes are not such a state: then it keeps what it has.
    fn restore(&self, bytes: &[u8]) -> Result<Restored, SnapshotError>;

    /// Makes its state anew, from its snapshot, while the run goes on.
    ///
    /// # Errors
    /// As [`StatefulOperator::snapshot`].
    fn renew(&self) -> Result<(), SnapshotError>;
}

/// How an operator starts.
pub(crate) struct Start {
    /// Which it is of the graph's operators.
    pub index: usize,
    /// Threads that work on it.
    pub workers: usize,
    /// Streams that feed it.
    pub ports: usize,
}

/// What an operator advances with.
pub(crate) struct Due {
    /// Rows that have waited, with the port of each batch; those of one port in their order.
    pub rows: Vec<(usize, Arriving)>,
    /// [`Control::reach`] of its inputs.
    pub until: Micros,
    /// How many rows should be computed at most, so that the task is short.
    pub rows_max: usize,
}

/// How far an operator has advanced.
pub(crate) struct Advanced<'a> {
    /// What is due up to here has been taken out of the state.
    pub until: Micros,
    /// What becomes of it.
    pub leaving: Leaving<'a>,
}

/// Rows that leave an operator.
pub(crate) enum Leaving<'a> {
    /// They are there, or could not be computed: what left before goes first.
    Now(Result<Left, KernelError>),
    /// They are read out while another worker may advance the operator further.
    Later(Box<dyn FnOnce() -> Result<Left, KernelError> + 'a>),
}

/// Rows that have left an operator.
pub(crate) struct Left {
    /// Each batch with a time that its rows are not behind, in the order of these times.
    pub rows: Vec<Timed>,
    /// No row comes behind them that is due at or before this.
    pub until: Micros,
    /// Rows that turned out to be late only now.
    pub late_rows: u64,
    /// The last of them.
    pub late: Option<(Option<RecordBatch>, Vec<LateRow>)>,
}

/// Rows of what is not final.
pub(crate) struct EarlyRows {
    pub rows: Vec<Timed>,
    /// Whether all has been reported.
    pub are_all: bool,
}

/// What a restored operator goes on from.
pub(crate) struct Restored {
    /// How far its time had come.
    pub reached: Micros,
    /// When something is due that no row announces.
    pub due: Vec<Micros>,
}

impl Restored {
    /// No time is known, and nothing is due.
    pub fn untimed() -> Restored {
        Restored { reached: WATERMARK_MIN, due: Vec::new() }
    }
}

/// What an operator has seen of its input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// Rows, but for late ones.
    pub rows_in: u64,
    /// Of them, those that had come when rows left it last.
    pub rows_done: u64,
    /// Rows that have left it.
    pub rows_out: u64,
    /// How far the time of sources had come when the last of them came.
    pub filled_until: Micros,
}

/// What the scheduler's lock guards of an operator: what is due. Each call takes some nanoseconds.
pub(crate) trait Control: Send {
    /// Notes what a pipeline made of a block.
    fn came(&mut self, _finished: &mut Finished) {}

    /// Notes that the time of its inputs may have moved on.
    fn time_passed(&mut self, _inputs: &mut Inputs) {}

    /// Up to where results are final by the watermark of its inputs.
    fn reach(&self, inputs: &Inputs) -> Micros {
        inputs.watermark()
    }

    /// Whether state is to be turned into rows.
    fn is_due(&self, inputs: &Inputs) -> bool;

    /// The first of the blocks with these watermarks that makes something due, where nothing is: the blocks behind it wait.
    fn first_due(&self, _inputs: &Inputs, _watermarks: &mut dyn Iterator<Item = Micros>) -> Option<usize> {
        None
    }

    /// Whether it takes a block now. `is_short`: blocks have rows of one slice; `workers` are as many.
    fn takes_block(&self, _inputs: &Inputs, _is_short: bool, _workers: usize) -> bool {
        true
    }

    /// Notes that what is due up to there has been taken out.
    fn advanced(&mut self, until: Micros);

    /// Whether something else of the run is done between two parts of what is due.
    fn gives_way(&self) -> bool {
        false
    }

    /// When state is to be reported that is not due.
    fn report_ns(&self) -> Option<u64> {
        None
    }

    /// Notes that this has begun.
    fn report_begins(&mut self) {}

    /// The watermark of its inputs at which rows may leave next that have come, if any may: without further rows, time need not be told
    /// before.
    fn time_due(&self, inputs: &Inputs, seen: &Seen) -> Option<Micros>;

    /// The watermark of its results, where all have left up to there.
    fn results_watermark(&self, left_until: Micros) -> Micros {
        left_until
    }

    /// Rows that wait for what is due, about.
    fn pending_rows(&self, seen: &Seen) -> u64 {
        seen.rows_in - seen.rows_done
    }

    /// Goes on from a snapshot.
    fn restored(&mut self, _inputs: &mut Inputs, _restored: Restored) {}
}

/// What an operator holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Holding {
    /// Groups, or first rows, of windows.
    Windows(OpenWindows),
    /// Rows.
    Rows(WaitingRows),
}

/// Windows that nothing has been reported of.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenWindows {
    /// How rows are assigned to them. Where rows are counted, instants below are numbers of rows.
    pub window: Window,
    /// Whether it is slices that other windows are put together from, and has no rows itself.
    pub is_shared: bool,
    /// Slices that are open.
    pub slices: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// The end of the first window that is open and has rows; of sessions, the earliest that one can have. The largest time stands for the
    /// end of the input.
    pub next_end: Option<Micros>,
}

/// Rows that wait, or are looked back at.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingRows {
    /// Whether rows are put in the order of their times, and so wait for these to pass.
    pub are_by_time: bool,
    /// How many wait.
    pub rows: u64,
    /// Bytes of these, and of those that are looked back at.
    pub bytes: u64,
}

impl Holding {
    /// Bytes of state.
    pub fn bytes(&self) -> u64 {
        match self {
            Holding::Windows(open) => open.bytes,
            Holding::Rows(waiting) => waiting.bytes,
        }
    }
}
