//! Joins of rows by the distance of their times.
//!
//! Rows of both sides wait until the watermark has passed them, so that nothing depends on the order in which they come; then they are gone through in the order of their
//! times. In reading order: [`interval`] (all rows that are near), [`nearest`] (the nearest row), `rows` (the rows of a side), `rings` (rows by key),
//! `found` (what leaves), `snapshot`.

mod interval;

mod nearest;

mod rows;

mod rings;

mod found;

mod snapshot;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::RecordBatch;
use pelton_data::Micros;
use pelton_data::aggregate::KeyColumn;
use pelton_data::column::logical_type;
use pelton_data::join::{JoinColumn, JoinKind, JoinSpec, JoinTime, Side};

use self::found::Found;
pub use self::found::LeavingPairs;
use self::interval::IntervalJoin;
use self::nearest::NearestJoin;
use self::rows::SideRows;
use super::pairs::{Residual, unexpected};
use crate::kernel::KernelError;
use crate::key_numbers::KeyNumbers;
use crate::pending::Arriving;

/// Rows that are put in order at once.
const ROWS_AT_ONCE_MAX: usize = 1 << 16;

/// Rows of both sides that are joined by their times.
pub struct TimedJoin {
    spec: Arc<JoinSpec>,
    residual: Option<Residual>,
    sides: [SideRows; 2],
    /// None where all rows have the same key.
    keys: Option<KeyNumbers>,
    method: Method,
    found: Found,
}

/// Which rows match.
#[derive(Debug)]
enum Method {
    Interval(Box<IntervalJoin>),
    Nearest(NearestJoin),
}

impl TimedJoin {
    /// No rows yet.
    ///
    /// # Panics
    /// Where the join is one of windows, or a side has no time.
    pub fn new(spec: Arc<JoinSpec>, residual: Option<Residual>) -> TimedJoin {
        let (kind, has_residual) = (spec.kind, residual.is_some());
        let method = match spec.time {
            JoinTime::Interval { lower, upper } => Method::Interval(Box::new(IntervalJoin::new(kind, lower, upper))),
            JoinTime::Nearest { is_backward, is_strict } => {
                Method::Nearest(NearestJoin::new(kind, (is_backward, is_strict), has_residual))
            }
            JoinTime::Windows { .. } => panic!("rows of windows are not joined by their times"),
        };
        let sides = Side::BOTH.map(|side| {
            let has_matched = kind.keeps_unmatched(side) || (kind == JoinKind::Semi && side == Side::Left);
            SideRows::new(spec.sides[side.port()].clone(), has_matched)
        });
        let left = &spec.sides[0];
        let key = |&column: &usize| {
            let data_type = logical_type(left.schema.field(column).data_type()).clone();
            // Rows with a NULL match nothing, and are not looked up.
            (column, KeyColumn { data_type, nullable: false })
        };
        let keys = (!left.keys.is_empty()).then(|| KeyNumbers::new(left.keys.iter().map(key).collect()));
        TimedJoin { spec, residual, sides, keys, method, found: Found::default() }
    }

    /// Takes rows of one side. Returns how many of them are left out: those before the watermark that has been advanced to.
    ///
    /// # Errors
    /// Where Arrow cannot put them in order.
    pub fn add(&mut self, side: Side, rows: RecordBatch) -> Result<usize, KernelError> {
        if rows.num_rows() == 0 {
            return Ok(0);
        }
        let side = &mut self.sides[side.port()];
        side.pending.add(0, Arriving::from(rows), side.time.index).map_err(unexpected)
    }

    /// Joins the next rows before `watermark`. About `rows_max` rows are gone through or returned; there are more to come where the time is before the
    /// watermark: it is that up to which all rows have been joined.
    ///
    /// # Errors
    /// Where the residual condition has no value for a pair, or Arrow cannot put rows together.
    pub fn advance(&mut self, watermark: Micros, rows_max: usize) -> Result<(Vec<LeavingPairs>, Micros), KernelError> {
        for side in &mut self.sides {
            side.pending.pass(side.last_tick_before(watermark));
        }
        let (mut output, mut work) = (Vec::new(), rows_max.max(1));
        loop {
            if self.next_row_time().is_none() && !self.take_pending(watermark, work).map_err(unexpected)? {
                break;
            }
            let keys = self.keys.as_ref().map_or(1, KeyNumbers::count);
            work = match &mut self.method {
                Method::Interval(interval) => interval.join(&mut self.sides, keys, &mut self.found, work),
                // Rows that have been put in order are few, and each is in few pairs: all of them are gone through.
                Method::Nearest(nearest) => nearest.join(&mut self.sides, keys, &mut self.found, work),
            };
            self.take_found(&mut output)?;
            if work == 0 {
                return self.paused(output, watermark);
            }
        }
        let lone = match &mut self.method {
            Method::Interval(interval) => interval.expire(&mut self.sides, watermark, &mut self.found, work),
            Method::Nearest(nearest) if watermark == Micros::MAX => nearest.end(&mut self.found, work),
            Method::Nearest(_) => 0,
        };
        if lone == work {
            self.take_found(&mut output)?;
            return self.paused(output, watermark);
        }
        self.take_found(&mut output)?;
        self.forget(watermark)?;
        Ok((output, watermark))
    }

    /// What has been returned so far, and up to which time all rows have been joined, if more may be done.
    fn paused(
        &mut self,
        output: Vec<LeavingPairs>,
        watermark: Micros,
    ) -> Result<(Vec<LeavingPairs>, Micros), KernelError> {
        let pending = self.sides.iter().filter_map(SideRows::first_pending);
        let next = pending.chain(self.next_row_time()).min().unwrap_or(Micros::MAX);
        let lone = match &self.method {
            Method::Interval(interval) => interval.first_lone(&self.sides),
            Method::Nearest(_) => None,
        };
        let next = next.min(lone.unwrap_or(next));
        self.forget(next.min(watermark))?;
        // A time before the watermark asks for another turn.
        Ok((output, next.min(watermark.saturating_sub(1))))
    }

    /// The time of the next row to be joined.
    fn next_row_time(&self) -> Option<Micros> {
        self.sides.iter().filter_map(|side| side.peek().map(|row| row.time)).min()
    }

    /// Puts about so many rows before the watermark in order; whether there are any.
    fn take_pending(&mut self, watermark: Micros, rows_max: usize) -> Result<bool, arrow::error::ArrowError> {
        let rows_max = rows_max.min(ROWS_AT_ONCE_MAX);
        let until = self.sides.iter().map(|side| side.cut(watermark, rows_max)).min().unwrap_or(watermark);
        for side in &mut self.sides {
            side.take_pending(until, &mut self.keys)?;
        }
        Ok(self.next_row_time().is_some())
    }

    fn take_found(&mut self, output: &mut Vec<LeavingPairs>) -> Result<(), KernelError> {
        output.extend(self.found.take(&self.spec, self.residual.as_ref(), &mut self.sides)?);
        Ok(())
    }

    /// Forgets what matches no row at `time` or later. Of the nearest rows nothing is forgotten while rows are to be joined.
    fn forget(&mut self, time: Micros) -> Result<(), KernelError> {
        let is_under_way = self.next_row_time().is_some();
        match &mut self.method {
            Method::Interval(interval) => interval.forget(&mut self.sides, &mut self.keys, time),
            Method::Nearest(nearest) if !is_under_way => {
                nearest.forget(&mut self.sides, &mut self.keys).map_err(unexpected)?;
            }
            Method::Nearest(_) => {}
        }
        self.sides.iter_mut().for_each(SideRows::drop_expired);
        Ok(())
    }

    /// Up to which time all results have been returned, where all rows before `joined` have been joined: no later result has an earlier time.
    pub fn results_until(&mut self, joined: Micros) -> Micros {
        if joined == Micros::MAX {
            return joined;
        }
        match &mut self.method {
            Method::Interval(interval) => {
                let time = self.spec.output_time.map(|time| self.spec.columns[time.index]);
                let delay = match time {
                    Some(JoinColumn::Of(side, _)) => interval.delay(side),
                    _ => Side::BOTH.map(|side| interval.delay(side)).into_iter().max().unwrap_or(0),
                };
                joined.saturating_sub(delay)
            }
            Method::Nearest(nearest) => {
                let waiting = nearest.first_waiting().map(|row| self.sides[0].time_of(row));
                waiting.map_or(joined, |waiting| waiting.min(joined))
            }
        }
    }

    /// How much later than a row the last row may be that it has an effect on, where rows leave for want of a match.
    pub fn aftermath(&self) -> Micros {
        match &self.method {
            Method::Interval(interval) => interval.aftermath(),
            Method::Nearest(_) => 0,
        }
    }

    /// Rows that wait or may match again.
    pub fn rows(&self) -> usize {
        self.sides.iter().map(SideRows::rows).sum()
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let method = match &self.method {
            Method::Interval(interval) => interval.bytes(),
            Method::Nearest(nearest) => nearest.bytes(),
        };
        let keys = self.keys.as_ref().map_or(0, KeyNumbers::bytes);
        self.sides.iter().map(SideRows::bytes).sum::<usize>() + keys + method + self.found.bytes()
    }
}
