//! What is kept of the rows of one key.

use super::Argument;
use super::call::CallState;
use super::deferred::DeferredOfKey;
use super::frame::FrameTicks;
use super::planned::PlannedCall;
use super::retained::RetainedColumn;
use super::row_store::ColumnStore;
use super::scanned::Scanned;

/// The rows of one key.
#[derive(Debug)]
pub(super) struct Partition {
    /// Rows so far.
    pub rows: u64,
    /// Time of the last, where any call's frame depends on times.
    pub last_tick: i64,
    /// For each frame, where that of the last row began.
    pub starts: Vec<u64>,
    pub times: ColumnStore<i64>,
    /// For each argument what is kept of it.
    pub kept: Vec<Option<RetainedColumn>>,
    /// For each argument what sums of several frames share.
    pub scanned: Vec<Option<Scanned<f64>>>,
    /// For each call.
    pub states: Vec<CallState>,
    /// Its rows that wait for others, where frames end after their rows.
    pub deferred: Option<Box<DeferredOfKey>>,
    /// Bytes that all this took when it was measured, and those that may have come since, about.
    pub measured_bytes: usize,
    pub unmeasured_bytes: usize,
}

impl Partition {
    pub fn new(calls: &[PlannedCall], arguments: &[Argument], frames: usize, of_one_key: bool) -> Partition {
        let form = |planned: &PlannedCall| planned.argument.map(|argument| arguments[argument].form);
        let state = |planned: &PlannedCall| CallState::new(planned, form(planned), of_one_key);
        Partition {
            rows: 0,
            last_tick: i64::MIN,
            starts: vec![0; frames],
            times: ColumnStore::new(false, None),
            kept: arguments.iter().map(Argument::store).collect(),
            scanned: arguments.iter().map(Argument::scanned).collect(),
            states: calls.iter().map(state).collect(),
            deferred: None,
            measured_bytes: 0,
            unmeasured_bytes: 0,
        }
    }

    /// Forgets what no later row looks back at.
    pub fn forget(&mut self, frames: &[FrameTicks], arguments: &[Argument]) {
        let timed = frames.iter().zip(&self.starts).filter(|(frame, _)| frame.length().is_some());
        let deferred = self.deferred.iter().map(|deferred| deferred.left);
        self.times.forget(timed.map(|(_, start)| *start).chain(deferred).min().unwrap_or(0));
        for (kept, argument) in self.kept.iter_mut().zip(arguments) {
            let Some(kept) = kept else { continue };
            let starts = argument.frames_kept.iter().map(|&frame| self.starts[frame]);
            let rows = argument.rows_kept.map(|rows| self.rows.saturating_sub(rows));
            kept.forget(starts.chain(rows).min().expect("what is kept is kept for something"));
        }
        for (scanned, argument) in self.scanned.iter_mut().zip(arguments) {
            let Some(scanned) = scanned else { continue };
            let starts = argument.frames_scanned.iter().map(|&frame| self.starts[frame]);
            scanned.forget(starts.min().expect("there are several frames"));
        }
    }

    pub fn deferred(&self) -> &DeferredOfKey {
        self.deferred.as_ref().expect("frames end after their rows")
    }

    pub fn deferred_mut(&mut self) -> &mut DeferredOfKey {
        self.deferred.as_mut().expect("frames end after their rows")
    }

    pub fn bytes(&self) -> usize {
        let deferred = self.deferred.as_ref().map_or(0, |deferred| deferred.bytes());
        let kept: usize = self.kept.iter().flatten().map(RetainedColumn::bytes).sum();
        let scanned: usize = self.scanned.iter().flatten().map(Scanned::bytes).sum();
        let states: usize = self.states.iter().map(|state| size_of::<CallState>() + state.bytes()).sum();
        size_of::<Partition>() + self.starts.capacity() * 8 + self.times.bytes() + kept + scanned + states + deferred
    }
}
