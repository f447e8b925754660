//! How far time has come where several streams meet: at the partitions of a source, and at the pipelines that feed a window or functions
//! OVER rows.

use pelton_data::time::{WATERMARK_MAX, WATERMARK_MIN};
use pelton_data::{Micros, Stamp};

/// One of the streams that meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// How far its time has come; the largest time where nothing more comes.
    pub watermark: Micros,
    /// It has delivered nothing for so long that it does not hold the others back.
    pub is_idle: bool,
}

/// How far time has come over all streams, that had come to `before`.
///
/// It is the least watermark of those that are not idle. Where all are, it is the largest, in whatever order they became so, and stands still, but for
/// [`Inputs::pass_instant`].
/// Time never goes back: a stream that is no longer idle may be behind, and then has rows that are late.
pub(crate) fn time_of(arrivals: impl Iterator<Item = Arrival> + Clone, before: Micros) -> Micros {
    let open = arrivals.filter(|arrival| arrival.watermark != WATERMARK_MAX);
    let active = open.clone().filter(|arrival| !arrival.is_idle).map(|arrival| arrival.watermark);
    match (active.min(), open.map(|arrival| arrival.watermark).max()) {
        (Some(least), _) => before.max(least),
        (None, Some(largest)) => before.max(largest),
        (None, None) => WATERMARK_MAX,
    }
}

/// The pipelines that feed a window or functions OVER rows.
#[derive(Debug)]
pub(crate) struct Inputs {
    inputs: Vec<Input>,
    watermark: Micros,
}

#[derive(Debug, Clone, Copy)]
struct Input {
    arrival: Arrival,
    has_ended: bool,
}

impl Inputs {
    /// So many that have delivered nothing.
    pub fn new(count: usize) -> Inputs {
        let arrival = Arrival { watermark: WATERMARK_MIN, is_idle: false };
        let inputs = vec![Input { arrival, has_ended: false }; count];
        Inputs { inputs, watermark: if count == 0 { WATERMARK_MAX } else { WATERMARK_MIN } }
    }

    /// How far time has come over all of them.
    pub fn watermark(&self) -> Micros {
        self.watermark
    }

    pub fn have_ended(&self) -> bool {
        self.inputs.iter().all(|input| input.has_ended)
    }

    /// Whether the time of an input has come further than that of another which holds it back.
    pub fn is_ahead(&self, input: usize) -> bool {
        let behind =
            |other: &Input| !other.arrival.is_idle && other.arrival.watermark < self.inputs[input].arrival.watermark;
        self.inputs.iter().any(behind)
    }

    /// Whether something may still come, but nothing does for now.
    pub fn are_idle(&self) -> bool {
        let mut open = self.inputs.iter().filter(|input| input.arrival.watermark != WATERMARK_MAX).peekable();
        open.peek().is_some() && open.all(|input| input.arrival.is_idle)
    }

    /// Notes a block that a pipeline has done with; whether it is the last that waits there. Returns whether the pipeline's time has moved on.
    pub fn pass(&mut self, input: usize, stamp: &Stamp, is_last: bool) -> bool {
        let arrival = &mut self.inputs[input].arrival;
        let has_moved = stamp.watermark > arrival.watermark;
        arrival.watermark = arrival.watermark.max(stamp.watermark);
        // What waits behind it is not idle, or says so itself.
        arrival.is_idle = stamp.is_idle && is_last;
        self.watermark = time_of(self.inputs.iter().map(|input| input.arrival), self.watermark);
        has_moved
    }

    /// Moves time on by as little as it can be.
    pub fn pass_instant(&mut self) {
        self.raise(self.watermark.saturating_add(1));
    }

    /// Moves time on up to there, if it has not come so far.
    pub fn raise(&mut self, watermark: Micros) {
        self.watermark = self.watermark.max(watermark);
    }

    /// Notes that there is a block for a pipeline. Returns whether all had been idle.
    pub fn wake(&mut self, input: usize) -> bool {
        let were_idle = self.are_idle();
        self.inputs[input].arrival.is_idle = false;
        were_idle
    }

    pub fn end(&mut self, input: usize) {
        self.inputs[input].has_ended = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(watermark: Micros, is_idle: bool) -> Stamp {
        Stamp { watermark, is_idle, ..Stamp::default() }
    }

    #[test]
    fn an_idle_input_does_not_hold_time_back_until_it_has_a_block() {
        let mut inputs = Inputs::new(2);
        inputs.pass(0, &stamp(10, false), true);
        inputs.pass(1, &stamp(30, false), true);
        assert_eq!(inputs.watermark(), 10);
        inputs.pass(0, &stamp(10, true), false);
        assert_eq!(inputs.watermark(), 10, "there is another block");
        inputs.pass(0, &stamp(10, true), true);
        assert_eq!((inputs.watermark(), inputs.are_idle()), (30, false));
        inputs.wake(0);
        inputs.pass(1, &stamp(50, false), true);
        assert_eq!(inputs.watermark(), 30, "time holds on, and does not go back");
        inputs.pass(0, &stamp(40, false), true);
        assert_eq!(inputs.watermark(), 40);
    }

    #[test]
    fn where_all_inputs_are_idle_time_stands_still_in_whatever_order_they_became_so() {
        for order in [[0, 1], [1, 0]] {
            let mut inputs = Inputs::new(3);
            for (input, time) in [(0, 10), (1, 30), (2, WATERMARK_MAX)] {
                inputs.pass(input, &stamp(time, false), true);
            }
            for input in order {
                inputs.pass(input, &stamp([10, 30][input], true), true);
            }
            assert_eq!((inputs.watermark(), inputs.are_idle()), (30, true), "the end of an input is no time");
            assert!(inputs.wake(1) && !inputs.are_idle());
        }
    }
}
