//! When windows close, among what the scheduler's lock guards.

use std::collections::{BTreeSet, VecDeque};

use pelton_data::Micros;
use pelton_data::time::WATERMARK_MIN;
use pelton_data::window::{Emission, Window};

use crate::operators::inputs::Inputs;
use crate::operators::{Control, Restored, Seen};
use crate::state::finished::Finished;

/// Blocks that each worker but one may add to windows while others are being closed.
const BLOCKS_AHEAD_PER_WORKER: usize = 2;

/// Of windows longer than blocks, so many ends are passed meanwhile, however many workers there are.
const ENDS_AHEAD_MAX: usize = 2;

pub(crate) struct WindowControl {
    window: Window,
    /// Whether it is slices that windows share.
    is_shared: bool,
    /// When windows are reported besides when their time has come.
    emission: Emission,
    /// Windows that end at or before this have been closed,
    closed_until: Micros,
    /// and the next ones end then: asked for each block that waits.
    next_end: Micros,
    /// When windows are corrected.
    corrections: BTreeSet<Micros>,
    /// Up to where windows are over by the blocks that have been added ahead of closing them, but for those that end no other window than the one before.
    blocks_ahead: VecDeque<Micros>,
    /// When the first row was read that has come since windows were reported last.
    rows_since_ns: Option<u64>,
}

impl WindowControl {
    /// None has closed.
    pub fn new(window: Window, emission: Emission, is_shared: bool) -> WindowControl {
        WindowControl {
            window,
            is_shared,
            emission,
            closed_until: WATERMARK_MIN,
            next_end: WATERMARK_MIN,
            corrections: BTreeSet::new(),
            blocks_ahead: VecDeque::new(),
            rows_since_ns: None,
        }
    }

    /// Up to where windows are over when their input has come to a watermark.
    fn over_until(&self, watermark: Micros) -> Micros {
        self.window.over_until(self.emission.delayed(watermark))
    }

    /// Whether windows are to be closed, or corrected, where they are over up to there.
    fn must_close_at(&self, over_until: Micros) -> bool {
        if over_until <= self.closed_until {
            return false;
        }
        let is_corrected = self.corrections.first().is_some_and(|due| *due <= over_until);
        is_corrected || self.next_end <= over_until
    }

    /// Rows that correct windows do so when time moves on, all that have come by then together. Where nothing comes for now that would move it, an
    /// instant passes for them, unless a window would end by that.
    fn pass_instant_at_rest(&mut self, inputs: &mut Inputs) {
        let next = self.reach(inputs).saturating_add(1);
        let ends_window = !matches!(self.window, Window::Session { .. }) && self.next_end <= next;
        if self.corrections.contains(&next) && !ends_window && inputs.are_idle() {
            inputs.pass_instant();
        }
    }

    /// Whether windows are over that were not when a block was added ahead last. What is of open windows goes where it is in any case.
    fn has_ended_others(&self, over_until: Micros) -> bool {
        self.blocks_ahead.back().is_none_or(|&last| self.window.next_end(last) <= over_until)
    }
}

impl Control for WindowControl {
    fn came(&mut self, finished: &mut Finished) {
        self.corrections.extend(finished.corrections.drain(..));
        if finished.rows > 0 {
            self.rows_since_ns.get_or_insert(finished.stamp.ingested_ns);
        }
    }

    fn time_passed(&mut self, inputs: &mut Inputs) {
        self.pass_instant_at_rest(inputs);
        let over_until = self.reach(inputs);
        if self.must_close_at(over_until) && self.has_ended_others(over_until) {
            self.blocks_ahead.push_back(over_until);
        }
    }

    fn reach(&self, inputs: &Inputs) -> Micros {
        self.over_until(inputs.watermark())
    }

    fn is_due(&self, inputs: &Inputs) -> bool {
        self.must_close_at(self.reach(inputs))
    }

    fn first_due(&self, inputs: &Inputs, mut watermarks: &mut dyn Iterator<Item = Micros>) -> Option<usize> {
        if self.is_due(inputs) || self.window.goes_by_arrival() {
            return None;
        }
        Iterator::position(&mut watermarks, |watermark| self.must_close_at(self.over_until(watermark)))
    }

    /// While windows are being closed, only as many blocks as other workers need to be busy meanwhile. Slices wait for their turn in memory, and outside
    /// of the cache: of windows longer than blocks as much waits for each end as the window has.
    fn takes_block(&self, inputs: &Inputs, is_short: bool, workers: usize) -> bool {
        let most = (workers - 1) * BLOCKS_AHEAD_PER_WORKER;
        let most = if is_short { most.min(ENDS_AHEAD_MAX) } else { most };
        !self.is_due(inputs) || self.blocks_ahead.len() < most
    }

    fn advanced(&mut self, until: Micros) {
        (self.closed_until, self.next_end) = (until, self.window.next_end(until));
        self.corrections = self.corrections.split_off(&until.saturating_add(1));
        forget_closed(&mut self.blocks_ahead, &self.window, until);
    }

    fn gives_way(&self) -> bool {
        true
    }

    fn report_ns(&self) -> Option<u64> {
        let rows_since_ns = self.rows_since_ns?;
        self.emission.early_after.map(|micros| rows_since_ns.saturating_add(micros as u64 * 1_000))
    }

    fn report_begins(&mut self) {
        self.rows_since_ns = None;
    }

    fn time_due(&self, inputs: &Inputs, seen: &Seen) -> Option<Micros> {
        if self.window.counts_rows() {
            return None;
        }
        let reach = self.reach(inputs);
        let reached = self.closed_until.max(reach);
        let next = match self.window {
            _ if reached == WATERMARK_MIN => Some(WATERMARK_MIN),
            // By processing time no row has a later one than when it came.
            Window::Session { gap } if self.closed_until > seen.filled_until.saturating_add(gap) => None,
            _ => Some(self.window.next_end(reached)),
        };
        let next = next.into_iter().chain(self.corrections.first().copied()).min()?;
        Some(next.saturating_add(inputs.watermark().saturating_sub(reach)))
    }

    fn results_watermark(&self, left_until: Micros) -> Micros {
        if self.is_shared { left_until } else { self.window.results_watermark(left_until) }
    }

    /// Windows that had closed are corrected at the instants that are due.
    fn restored(&mut self, inputs: &mut Inputs, Restored { reached, due }: Restored) {
        self.corrections.extend(due);
        // Time may have been ahead of the rows.
        if self.emission.lateness > 0 && reached != WATERMARK_MIN {
            inputs.raise(reached.saturating_add(self.emission.delay));
        }
    }
}

/// Forgets blocks that were added ahead, all of whose windows that are over end at or before `until`: a block goes on for some time behind the last end that it passes.
fn forget_closed(blocks_ahead: &mut VecDeque<Micros>, window: &Window, until: Micros) {
    let next_end = window.next_end(until);
    while blocks_ahead.pop_front_if(|watermark| *watermark < next_end).is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_ahead_until_the_last_window_is_closed_that_they_end() {
        let left = |window: Window, until: Micros| {
            let mut blocks_ahead = VecDeque::from([1_016, 2_010]);
            forget_closed(&mut blocks_ahead, &window, until);
            blocks_ahead.len()
        };
        let tumbling = Window::Tumbling { size: 1_000, offset: 0 };
        assert_eq!([900, 1_000, 1_999, 2_000, 2_010].map(|until| left(tumbling, until)), [2, 1, 1, 0, 0]);
        let sessions = Window::Session { gap: 10 };
        assert_eq!([1_000, 1_016, 2_009, 2_010].map(|until| left(sessions, until)), [2, 1, 1, 0]);
    }
}
