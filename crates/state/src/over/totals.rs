//! Totals of frames from which nothing is ever subtracted.
//!
//! It is [two stacks](crate::two_stacks) on two levels. Of rows, `front` has the suffix of each that leaves next, to the end of its run, and `back` the
//! prefix of the run that rows enter: both are scans over values that lie side by side, so that a row costs a few operations. Between them there are
//! whole runs, of which the [`Middle`] keeps what it needs: a frame of any length takes little memory beside its values.

use std::ops::Range;

use arrow::datatypes::ArrowNativeType;
use pelton_data::over::Frame;

use super::frame::{Bounds, Moves, Step};
use super::row_store::ColumnStore;
use super::scan::{Front, Running, add_known};
use super::scanned::Scanned;
use super::short::{ShortFrames, is_short};
use crate::aggregates::Aggregate;
use crate::snapshot::{Reader, SnapshotError, Writer};

/// Rows whose total is kept as one where they neither begin nor end a frame. Runs begin at its multiples.
pub(super) const RUN_ROWS: u64 = 1024;

/// The whole runs between those that rows leave and enter.
pub(super) trait Middle {
    /// What the rows of a frame are put together to.
    type Of: Aggregate<State = Self::Value>;

    type Value: ArrowNativeType;

    /// Values enter the last run.
    fn enter(&mut self, values: &[Self::Value]);

    /// The last run ends at the position `end`. All its values together are `total`.
    fn end_run(&mut self, end: u64, total: Self::Value);

    /// Takes out the runs up to the position `end`.
    fn leave_until(&mut self, end: u64);

    /// The same, and has the total of each row from `start` on to there in the place of what `front` has.
    fn take_until(
        &mut self,
        start: u64,
        end: u64,
        kept: Option<&ColumnStore<Self::Value>>,
        front: &mut Vec<Self::Value>,
    );

    /// Takes out all runs, and has the total of each row from `start` on to the position `end` there: all are of the last run.
    fn take_last(
        &mut self,
        start: u64,
        end: u64,
        kept: Option<&ColumnStore<Self::Value>>,
        front: &mut Vec<Self::Value>,
    );

    /// Of all runs.
    fn total(&self) -> Self::Value;

    /// Writes the runs.
    fn write_to(&self, out: &mut Writer);

    /// Becomes what was written: `last_rows` rows have come behind the rows of whole runs.
    fn read_from(&mut self, whole: Range<u64>, last_rows: u64, input: &mut Reader<'_>) -> Result<(), SnapshotError>;

    /// Bytes of memory held elsewhere.
    fn bytes(&self) -> usize;
}

/// Totals of frames of more than one run, or of any length.
#[derive(Debug)]
pub(super) struct LongFrames<M: Middle> {
    /// The total from each row on from `front_start` to `front_end`.
    front: Vec<M::Value>,
    front_start: u64,
    front_end: u64,
    /// Runs from `front_end` to `back_start`.
    middle: M,
    middle_total: M::Value,
    /// The rows from `back_start` to `end`.
    back: Running<M::Value>,
    back_start: u64,
    /// First row of the last frame.
    start: u64,
    /// One past its last row.
    end: u64,
}

/// Totals of frames, as suits their lengths.
#[derive(Debug)]
pub(super) enum Totals<M: Middle> {
    Short(ShortFrames<M::Value>),
    Long(LongFrames<M>),
}

impl<M: Middle> Totals<M> {
    /// No rows yet. All are `of_one_key`, or these are of one of several.
    pub fn new(frame: Frame, of_one_key: bool, middle: impl FnOnce(bool) -> M) -> Totals<M> {
        match frame {
            Frame::Rows { preceding: Some(preceding) } if is_short(frame, of_one_key) => {
                Totals::Short(ShortFrames::new::<M::Of>(preceding as usize))
            }
            _ => Totals::Long(LongFrames::new(middle(frame.is_bounded()))),
        }
    }

    /// Appends the totals of the frames of a run to `totals`. `entering` has the run's values, `kept` those from the first frame's start
    /// on, where the middle looks any up; `buffer` is overwritten.
    pub fn slide(
        &mut self,
        bounds: &Bounds,
        entering: Entering<'_, M::Value>,
        kept: Option<&ColumnStore<M::Value>>,
        buffer: &mut Vec<M::Value>,
        totals: &mut Vec<M::Value>,
    ) {
        match self {
            Totals::Short(frames) => frames.slide::<M::Of>(entering.values, buffer, totals),
            Totals::Long(frames) => bounds.steps().for_each(|step| frames.slide(step, entering, kept, totals)),
        }
    }

    /// Writes what is remembered.
    pub fn write_to(&self, out: &mut Writer) {
        match self {
            Totals::Short(frames) => frames.write_to(out),
            Totals::Long(frames) => frames.write_to(out),
        }
    }

    /// Becomes what was written when there were so many rows.
    pub fn read_from(&mut self, start: u64, rows: u64, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        match self {
            Totals::Short(frames) => frames.read_from(input),
            Totals::Long(frames) => frames.read_from(start, rows, input),
        }
    }

    /// Bytes of memory held elsewhere.
    pub fn bytes(&self) -> usize {
        match self {
            Totals::Short(frames) => frames.bytes(),
            Totals::Long(frames) => frames.bytes(),
        }
    }
}

/// Values of neighbouring rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entering<'a, V> {
    pub values: &'a [V],
    /// Of the first.
    pub position: u64,
    /// Totals of these rows and of whole runs before them, where several frames share them.
    pub scanned: Option<&'a Scanned<V>>,
}

impl<'a, V> Entering<'a, V> {
    /// Values from a position on.
    pub fn new(values: &'a [V], position: u64) -> Entering<'a, V> {
        Entering { values, position, scanned: None }
    }

    /// Those of the rows from one position to before another.
    #[inline]
    pub fn between(&self, start: u64, end: u64) -> &'a [V] {
        &self.values[(start - self.position) as usize..(end - self.position) as usize]
    }
}

impl<M: Middle> LongFrames<M> {
    /// No rows yet.
    pub fn new(middle: M) -> LongFrames<M> {
        LongFrames {
            front: Vec::new(),
            front_start: 0,
            front_end: 0,
            middle,
            middle_total: M::Of::EMPTY,
            back: Running::new::<M::Of>(),
            back_start: 0,
            start: 0,
            end: 0,
        }
    }

    /// Appends the totals of the frames of a step to `totals`. `entering` has the values that enter, `kept` those from the first frame's start
    /// on, where any ever leave.
    pub fn slide(
        &mut self,
        step: Step,
        entering: Entering<'_, M::Value>,
        kept: Option<&ColumnStore<M::Value>>,
        totals: &mut Vec<M::Value>,
    ) {
        let Step { mut rows, mut start, end, moves } = step;
        if moves == Moves::Nothing {
            self.enter(entering.between(self.end, end));
            self.leave(start, kept, entering.scanned);
            let older = M::Of::combine(self.front_total(start), self.middle_total);
            return totals.resize(totals.len() + rows, M::Of::combine(older, self.back.total::<M::Of>()));
        }
        self.enter(entering.between(self.end, end - 1));
        totals.reserve(rows);
        while rows > 0 {
            self.end_full_run();
            self.leave(start, kept, entering.scanned);
            // As far as both ends stay in their runs.
            let mut count = rows.min((RUN_ROWS - self.end % RUN_ROWS) as usize);
            if moves == Moves::Both {
                count = count.min((self.front_end - start) as usize);
            }
            let values = entering.between(self.end, self.end + count as u64);
            self.middle.enter(values);
            let front = match moves {
                Moves::Both => Front::Each(&self.front[(start - self.front_start) as usize..][..count]),
                _ => Front::Same(self.front_total(start)),
            };
            match entering.scanned {
                Some(scanned) => {
                    let so_far = scanned.so_far(self.end, self.end + count as u64);
                    add_known::<M::Of>(so_far, front, self.middle_total, totals);
                }
                None => self.back.scan::<M::Of>(self.end, values, front, self.middle_total, totals),
            }
            self.end += count as u64;
            if moves == Moves::Both {
                self.start = start + count as u64 - 1;
                start += count as u64;
            }
            rows -= count;
        }
        if let Some(scanned) = entering.scanned {
            self.back = scanned.last();
        }
    }

    /// What is before the middle, of a frame that begins at `start`.
    fn front_total(&self, start: u64) -> M::Value {
        match start < self.front_end {
            true => self.front[(start - self.front_start) as usize],
            false => M::Of::EMPTY,
        }
    }

    /// Values enter behind all others.
    fn enter(&mut self, values: &[M::Value]) {
        let mut values = values;
        while !values.is_empty() {
            self.end_full_run();
            let room = RUN_ROWS - self.end % RUN_ROWS;
            let (now, later) = values.split_at((room as usize).min(values.len()));
            self.middle.enter(now);
            for &value in now {
                self.back.push::<M::Of>(self.end, value);
                self.end += 1;
            }
            values = later;
        }
    }

    /// Ends the last run where it is full.
    fn end_full_run(&mut self) {
        if self.end.is_multiple_of(RUN_ROWS) && self.back_start < self.end {
            self.middle.end_run(self.end, self.back.total::<M::Of>());
            self.middle_total = self.middle.total();
            self.restart();
        }
    }

    /// A new run begins.
    fn restart(&mut self) {
        self.back = Running::new::<M::Of>();
        self.back_start = self.end;
    }

    /// What lies before `start` leaves.
    fn leave(&mut self, start: u64, kept: Option<&ColumnStore<M::Value>>, scanned: Option<&Scanned<M::Value>>) {
        if start <= self.start {
            return;
        }
        self.start = start;
        if start < self.front_end {
            return;
        }
        self.front_start = start;
        if start < self.back_start {
            // All runs but the last end at a multiple.
            self.front_end = (start + 1).next_multiple_of(RUN_ROWS);
            match scanned {
                Some(scanned) => {
                    self.middle.leave_until(self.front_end);
                    self.front.clear();
                    self.front.extend_from_slice(scanned.to_end_of_run(start));
                }
                None => self.middle.take_until(start, self.front_end, kept, &mut self.front),
            }
            self.middle_total = self.middle.total();
        } else {
            self.front_end = self.end;
            self.middle.take_last(start, self.end, kept, &mut self.front);
            self.middle_total = self.middle.total();
            self.restart();
        }
    }

    fn write_to(&self, out: &mut Writer) {
        out.column(&[self.front_start, self.front_end, self.back_start, self.start, self.end]);
        out.column(&self.back.parts());
        out.list(&self.front);
        self.middle.write_to(out);
    }

    fn read_from(&mut self, start: u64, rows: u64, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let mut position = || input.number("positions of a frame");
        (self.front_start, self.front_end, self.back_start) = (position()?, position()?, position()?);
        (self.start, self.end) = (position()?, position()?);
        let back = input.column(2, "the total of the last rows")?;
        self.back = Running::of_parts([back[0], back[1]]);
        self.front = input.list("totals of a run")?.to_vec();
        let is_right = self.front_start.checked_add(self.front.len() as u64) == Some(self.front_end)
            && self.front_start <= self.start
            && self.front_end <= self.back_start
            && (self.back_start == self.front_end || self.back_start.is_multiple_of(RUN_ROWS))
            && self.back_start <= self.end
            && self.start <= self.end
            && (self.start, self.end) == (start, rows);
        input.check(is_right, "positions of a frame that ends with the last row")?;
        self.middle.read_from(self.front_end..self.back_start, self.end - self.back_start, input)?;
        self.middle_total = self.middle.total();
        Ok(())
    }

    /// Bytes of memory held elsewhere.
    pub fn bytes(&self) -> usize {
        self.front.capacity() * size_of::<M::Value>() + self.middle.bytes()
    }
}
