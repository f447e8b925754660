//! The first rows of windows that rows have corrected which came when these had been reported.

use std::collections::btree_map::Entry;
use std::collections::{BTreeSet, VecDeque};

use pelton_data::Micros;
use pelton_data::window::ResultKind;

use super::keys::{Keys, LeftRows};
use super::{Key, KeyedRow, RankedSlice, RankedWindows, WORK_PER_ROW};
use crate::coalesce::Leaving;
use crate::correction::{ends_from, first_counted};
use crate::kernel::KernelError;
use crate::slice::SliceId;
use crate::work::Work;

/// Windows that are corrected, of which a part has been.
#[derive(Debug)]
pub(super) struct Correcting {
    pub due: Micros,
    /// The rows that correct them, as the slices which they will be.
    arriving: VecDeque<(SliceId, RankedSlice)>,
    /// The ends of windows that have not been reported, ascending,
    ends: VecDeque<Micros>,
    /// and the keys of the first of these that have not been.
    keys: Keys,
    /// Rows that are added to a slice that there is.
    adding: Option<(SliceId, LeftRows)>,
}

impl Correcting {
    /// Bytes of memory that its rows take.
    pub fn bytes(&self) -> usize {
        let adding = self.adding.as_ref().map_or(0, |(_, rows)| rows.bytes());
        adding + self.arriving.iter().map(|(_, slice)| slice.bytes).sum::<usize>()
    }

    /// Those of its rows that count in the window that ends at `end`.
    fn counting<'a>(&'a self, windows: &RankedWindows, end: Micros) -> Vec<&'a RankedSlice> {
        let arriving = self.arriving.iter().filter(|(id, _)| windows.counts(*id, end));
        arriving.map(|(_, slice)| slice).collect()
    }
}

impl RankedWindows {
    /// Hands on the first rows of each window and key that are changed by the rows which correct windows at `due`, and adds these to the slices, or does a part of that:
    /// whether all has been done.
    pub(super) fn correct<E: From<KernelError>>(
        &mut self,
        due: Micros,
        rows_at_once: usize,
        work: &mut Work,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut correcting = match self.correcting.take() {
            Some(correcting) => correcting,
            None => self.begin_to_correct(due),
        };
        let are_reported = self.report_corrections(&mut correcting, rows_at_once, work, hand_on)?;
        let is_done = are_reported && self.add_corrections(&mut correcting, work);
        self.correcting = (!is_done).then_some(correcting);
        Ok(is_done)
    }

    /// Takes the rows that correct windows at `due`.
    fn begin_to_correct(&mut self, due: Micros) -> Correcting {
        let watermark = due - 1;
        let (mut ends, mut arriving) = (BTreeSet::new(), VecDeque::new());
        while let Some(first) = self.corrections.first_entry().filter(|first| first.key().first_end <= due) {
            let (SliceId { start, .. }, mut slice) = first.remove_entry();
            let covered = self.window.slice(start).covered.expect("a slice with rows belongs to a window");
            let first_end = first_counted(&self.window, &covered, watermark, self.lateness);
            // They come in time for windows that end after the watermark.
            ends.extend(ends_from(&self.window, first_end, covered.last_end.min(watermark)));
            slice.next_end = self.window.next_end(watermark).max(covered.first_end);
            arriving.push_back((SliceId { first_end, start, corrects: true }, slice));
        }
        Correcting { due, arriving, ends: ends.into_iter().collect(), keys: Keys::new(), adding: None }
    }

    /// Hands on the first rows of some windows and keys: whether these were the last.
    fn report_corrections<E: From<KernelError>>(
        &self,
        correcting: &mut Correcting,
        rows_at_once: usize,
        work: &mut Work,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        while let Some(&end) = correcting.ends.front() {
            if work.is_done() {
                return Ok(false);
            }
            let mut keys = std::mem::replace(&mut correcting.keys, Keys::new());
            let arriving = correcting.counting(self, end);
            let Some(next) = keys.next(&arriving, work) else {
                correcting.ends.pop_front();
                continue;
            };
            let leaving = self.changed(end, &arriving, &next);
            work.spend(leaving.len().max(next.len()) * WORK_PER_ROW);
            self.hand_on_rows((end, ResultKind::Correction), &leaving, rows_at_once, hand_on)?;
            correcting.keys = keys;
        }
        Ok(true)
    }

    /// The ranked rows of the window that ends at `end`, of those of these keys whose first rows are others with those that arrive.
    fn changed<'a>(&'a self, end: Micros, arriving: &[&'a RankedSlice], keys: &[Key]) -> Vec<(i64, KeyedRow<'a>)> {
        let known = self.slices.iter().filter(|(id, _)| self.counts(**id, end));
        let known: Vec<&RankedSlice> = known.map(|(_, slice)| slice).collect();
        let mut changed = Vec::new();
        for key in keys {
            let mut rows: Vec<KeyedRow<'_>> = known.iter().flat_map(|slice| slice.rows_of(key)).collect();
            rows.sort_unstable();
            let before: Vec<_> = self.ranker.ranked(&rows).collect();
            rows.extend(arriving.iter().flat_map(|slice| slice.rows_of(key)));
            rows.sort_unstable();
            let after: Vec<_> = self.ranker.ranked(&rows).collect();
            if !self.ranker.are_same(&before, &after) {
                changed.extend(after);
            }
        }
        changed
    }

    /// Whether the rows of a slice count in the window that ends at `end`.
    fn counts(&self, id: SliceId, end: Micros) -> bool {
        (self.window.start(end)..end).contains(&id.start) && id.first_end <= end
    }

    /// Adds rows that have corrected windows to the slices, or some of them: whether these were the last.
    fn add_corrections(&mut self, correcting: &mut Correcting, work: &mut Work) -> bool {
        while !work.is_done() {
            if let Some((id, rows)) = &mut correcting.adding {
                let known = self.slices.get_mut(id).expect("rows are added to a slice that there is");
                for (key, rows) in rows.take(work) {
                    rows.iter().for_each(|row| known.add(&key, row, &self.ranker));
                }
                if rows.is_empty() {
                    correcting.adding = None;
                }
                continue;
            }
            let Some((id, mut slice)) = correcting.arriving.pop_front() else { return true };
            match self.slices.entry(id) {
                Entry::Vacant(entry) => _ = entry.insert(slice),
                Entry::Occupied(_) => correcting.adding = Some((id, LeftRows::of(&mut slice))),
            }
        }
        false
    }
}
