//! Pairs of windows that have not ended. Each leaves once: with an early report, or when its window ends.

use std::collections::{BTreeMap, VecDeque};

use pelton_data::Micros;
use pelton_data::join::Side;
use pelton_data::time::WATERMARK_MIN;
use pelton_data::window::Window;

use super::pairs::Residual;
use super::window_pairs::{Leaving, Pass, SideRows, WindowPairs};
use super::windows::{ClosedSlice, WindowJoin};
use crate::slice::SliceId;
use crate::snapshot::{Reader, SnapshotError, Writer};

/// What has been reported of a window: pairs of the first rows, so many of each slice, of each side.
#[derive(Debug, Default)]
pub(super) struct Reported {
    sides: [BTreeMap<SliceId, usize>; 2],
}

impl WindowJoin {
    /// The next window that has pairs which have not been reported, with its end; none where all have been. Windows that begin at or before `began_behind` are left
    /// out.
    pub fn report_next(&mut self, residual: Option<&Residual>, began_behind: Micros) -> Option<(Micros, WindowPairs)> {
        let after = self.reported_until;
        let mut ends = self.open_ends(Side::Left).into_iter().filter(|end| *end > after);
        let Some((end, rows)) = ends.find_map(|end| Some((end, self.rows_with_news(end, began_behind)?))) else {
            self.reported_until = WATERMARK_MIN;
            return None;
        };
        self.reported_until = end;
        let reported = self.reported.entry(end).or_default();
        let now = Reported { sides: rows.each_ref().map(|slices| counts(slices)) };
        let before = std::mem::replace(reported, now);
        let [left, right] = rows;
        let count = |slices: &[(SliceId, ClosedSlice)]| slices.iter().map(|(_, slice)| slice.rows()).sum::<usize>();
        let (probing, rows, others) =
            if count(&left) >= count(&right) { (Side::Left, left, right) } else { (Side::Right, right, left) };
        let leaving = Leaving { pairs: true, matched: false, unmatched: false };
        let pass = before.pass(probing, &rows, others, leaving);
        Some((end, self.pairs(end, residual, VecDeque::from([pass]), 0)))
    }

    /// The rows of a window, where both sides have some, and one has some that have not been reported.
    fn rows_with_news(&self, end: Micros, began_behind: Micros) -> Option<[Vec<(SliceId, ClosedSlice)>; 2]> {
        let began_later = began_behind == WATERMARK_MIN || self.start_of(end) > began_behind;
        let rows = Side::BOTH.map(|side| self.so_far(side, end));
        let counts = rows.each_ref().map(|slices| counts(slices));
        let reported = self.reported.get(&end);
        let has_news = !counts.iter().any(BTreeMap::is_empty) && reported.is_none_or(|before| before.sides != counts);
        (began_later && has_news).then_some(rows)
    }
}

/// How many rows slices have.
fn counts(slices: &[(SliceId, ClosedSlice)]) -> BTreeMap<SliceId, usize> {
    slices.iter().map(|(slice, rows)| (*slice, rows.rows())).collect()
}

impl Reported {
    /// Rows of a side that look for their matches in slices of the other, of which what has been reported does not leave again.
    pub fn pass(
        &self,
        probing: Side,
        rows: &[(SliceId, ClosedSlice)],
        others: Vec<(SliceId, ClosedSlice)>,
        leaving: Leaving,
    ) -> Pass {
        let reported = others.iter().map(|(slice, _)| self.rows(probing.other(), slice)).collect();
        let mut batches = VecDeque::new();
        for (slice, rows) in rows {
            let mut reported = self.rows(probing, slice);
            for batch in rows.batches.iter() {
                let count = reported.min(batch.num_rows());
                let parts = [(0, count, true), (count, batch.num_rows() - count, false)];
                for (first, count, are_reported) in parts.into_iter().filter(|(_, count, _)| *count > 0) {
                    batches.push_back(SideRows { rows: batch.slice(first, count), are_reported });
                }
                reported -= count;
            }
        }
        Pass::new(probing, batches, others, leaving, reported)
    }

    fn rows(&self, side: Side, slice: &SliceId) -> usize {
        self.sides[side.port()].get(slice).copied().unwrap_or(0)
    }

    pub fn write_to(&self, out: &mut Writer) {
        for slices in &self.sides {
            out.count(slices.len());
            for (slice, rows) in slices {
                slice.write_to(out);
                out.count(*rows);
            }
        }
    }

    /// # Errors
    /// Where the bytes are none of this.
    pub fn read_from(windows: &[Window; 2], input: &mut Reader<'_>) -> Result<Reported, SnapshotError> {
        let mut reported = Reported::default();
        for (slices, window) in reported.sides.iter_mut().zip(windows) {
            for _ in 0..input.count(1, "slices that were reported early")? {
                let slice = SliceId::read_from(window, input)?;
                slices.insert(slice, input.count(0, "rows that were reported early")?);
            }
        }
        Ok(reported)
    }
}
