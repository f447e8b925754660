//! Top-N: the first rows of each window and key.
//!
//! Rows are kept as bytes that compare as the rows do (arrow's row format): first the columns of the order, among them where rows stand in the order
//! of their arrival if that is known, then all others, which tell apart what the order does not. So which rows are kept depends neither on the order in which they come nor on who brings them, and a
//! row that is not among the first of its slice is not among those of any window. Workers choose the first rows of a block by themselves
//! ([`Ranker`]); these go into the slice that all share ([`RankedWindows`]).
//!
//! With an allowed lateness slices stay until their windows are final, and rows that come when a window of theirs has been reported are put
//! together by the watermark of their partition under which they came, as those of groups are (`crate::correction`). When time has passed
//! that, the first rows of each key that they change are reported once more, all of them.

mod correct;

mod early;

mod keys;

mod ranker;

mod snapshot;

use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

use arrow::error::ArrowError;
use pelton_data::Micros;
use pelton_data::ranking::Numbering;
use pelton_data::window::{ResultKind, Window};

use self::correct::Correcting;
use self::early::EarlyReport;
use self::keys::{Keys, LeftRows};
pub use self::ranker::{Candidates, Ranker};
use crate::coalesce::Leaving;
use crate::kernel::KernelError;
use crate::slice::SliceId;
use crate::window::{CloseLimits, ClosedRows, ClosedWindow, Contents};
use crate::work::Work;

/// What a kept row takes beside its bytes, about: where they are, and what the allocator needs.
const ENTRY_BYTES: usize = 32;

/// The first rows of the open windows.
#[derive(Debug)]
pub struct RankedWindows {
    window: Window,
    lateness: Micros,
    ranker: Arc<Ranker>,
    /// Slices of windows that are not final.
    slices: BTreeMap<SliceId, RankedSlice>,
    /// Rows that correct windows, in the order in which they do so.
    corrections: BTreeMap<SliceId, RankedSlice>,
    /// All windows that end at or before this have been reported.
    closed_until: Micros,
    /// A window of which some keys have been reported.
    closing: Option<Closing>,
    /// Windows that are being corrected.
    correcting: Option<Correcting>,
    /// Where some windows have been reported that have not ended.
    early: Option<EarlyReport>,
    /// Slices whose windows are all final.
    unneeded: Vec<LeftRows>,
}

/// A window that is reported key by key.
#[derive(Debug)]
struct Closing {
    end: Micros,
    /// Those that have not been reported.
    keys: Keys,
}

/// To report a row takes as long as to do something with so many groups.
const WORK_PER_ROW: usize = 6;

/// The first rows of one slice.
#[derive(Debug)]
struct RankedSlice {
    /// End of the next window that needs them, if that is not behind the last.
    next_end: Micros,
    /// End of the last window that does.
    last_end: Micros,
    /// By key. The last row is on top.
    keys: HashMap<Key, FirstRows>,
    bytes: usize,
}

/// The bytes of a key.
type Key = Box<[u8]>;

/// The bytes of some rows of one key.
type FirstRows = BinaryHeap<Box<[u8]>>;

/// A row as bytes: those of its key, and its own.
type KeyedRow<'a> = (&'a [u8], &'a [u8]);

impl RankedWindows {
    /// No rows yet. Windows are corrected by rows that come up to `lateness` after them.
    pub fn new(window: Window, ranker: Arc<Ranker>, lateness: Micros) -> RankedWindows {
        let (slices, corrections) = (BTreeMap::new(), BTreeMap::new());
        RankedWindows {
            window,
            lateness,
            ranker,
            slices,
            corrections,
            closed_until: Micros::MIN,
            closing: None,
            correcting: None,
            early: None,
            unneeded: Vec::new(),
        }
    }

    /// Adds rows of a slice that were chosen by the same ranker: at once, or when a report has been done that is under way.
    ///
    /// # Panics
    /// Where the slice is in no window.
    pub fn add(&mut self, id: SliceId, candidates: Candidates) {
        match &mut self.early {
            Some(early) => early.keep(id, candidates),
            None => self.add_now(id, &candidates),
        }
    }

    fn add_now(&mut self, id: SliceId, candidates: &Candidates) {
        let last_end = self.last_end(id.start);
        let slices = if id.corrects { &mut self.corrections } else { &mut self.slices };
        let slice = slices.entry(id).or_insert_with(|| RankedSlice::new(id.first_end, last_end));
        slice.add_all(candidates, &self.ranker);
    }

    /// Windows that end at or before this have closed.
    pub(crate) fn closed_until(&self) -> Micros {
        self.closed_until
    }

    /// When windows are corrected, ascending.
    pub fn dues(&self) -> Vec<Micros> {
        self.corrections.keys().map(|id| id.first_end).collect()
    }

    fn last_end(&self, start: Micros) -> Micros {
        self.window.slice(start).covered.expect("a slice with rows belongs to a window").last_end
    }

    /// Closes windows that have rows and ended, in the order of their ends, and reports those once more that rows have corrected whose watermark
    /// has passed. Returns up to which end windows have been closed: what is left, be it of one of them, the next call goes on with.
    ///
    /// # Errors
    /// Where rows cannot be decoded, or what `hand_on` returns.
    pub fn close<E: From<KernelError>>(
        &mut self,
        limits: CloseLimits,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<Micros, E> {
        let rows_at_once = limits.groups_at_once.max(1);
        let mut work = Work::new(limits.groups_max);
        loop {
            let end = self.next_end().filter(|&end| end <= limits.until);
            let due = self.next_due().filter(|&due| due <= limits.until);
            // As much is freed as is added.
            if (end.is_some() || due.is_some()) && self.closing.is_none() && self.free(&mut work) {
                if work.is_done() {
                    return Ok(self.closed_until);
                }
                continue;
            }
            // Rows that correct a window came when its time had come.
            let until = match (end, due) {
                (Some(end), due) if due.is_none_or(|due| end < due) => {
                    if !self.read_out(end, rows_at_once, &mut work, hand_on)? {
                        self.closed_until = self.closed_until.max(end - 1);
                        return Ok(self.closed_until);
                    }
                    end
                }
                (_, Some(due)) => {
                    if !self.correct(due, rows_at_once, &mut work, hand_on)? {
                        return Ok(self.closed_until);
                    }
                    due - 1
                }
                _ => {
                    while !work.is_done() && self.free(&mut work) {}
                    if !self.unneeded.is_empty() && self.has_just_closed() {
                        return Ok(self.closed_until - 1);
                    }
                    limits.until
                }
            };
            self.forget(until);
            self.closed_until = until;
            if until == limits.until || work.is_done() {
                // It is not done with a window before its rows are freed, or nobody would call it again.
                return Ok(if self.unneeded.is_empty() || !self.has_just_closed() { until } else { until - 1 });
            }
        }
    }

    /// Whether all windows have been reported up to the end of one, and no further.
    fn has_just_closed(&self) -> bool {
        self.window.next_end(self.closed_until - 1) == self.closed_until
    }

    /// Frees a part of what nobody needs: whether there was any.
    fn free(&mut self, work: &mut Work) -> bool {
        let Some(unneeded) = self.unneeded.last_mut() else { return false };
        unneeded.take(work).for_each(drop);
        if unneeded.is_empty() {
            self.unneeded.pop();
        }
        true
    }

    /// Forgets slices all of whose windows are final when time has come to `until`.
    fn forget(&mut self, until: Micros) {
        let RankedWindows { lateness, slices, unneeded, .. } = self;
        slices.retain(|_, slice| {
            let is_needed = slice.is_open() || slice.last_end.saturating_add(*lateness) > until;
            if !is_needed {
                unneeded.push(LeftRows::of(slice));
            }
            is_needed
        });
    }

    /// Hands on the rows of the window that ends at `end`, or of some of its keys: whether these were all.
    fn read_out<E: From<KernelError>>(
        &mut self,
        end: Micros,
        rows_at_once: usize,
        work: &mut Work,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let needed: Vec<&RankedSlice> = self.slices.values().filter(|slice| slice.is_needed_at(end)).collect();
        let mut closing = self.closing.take().unwrap_or_else(|| Closing { end, keys: Keys::new() });
        assert_eq!(closing.end, end, "one window is closed after the other");
        while let Some(keys) = closing.keys.next(&needed, work) {
            let leaving = self.first_rows(&needed, &keys);
            work.spend(leaving.len() * WORK_PER_ROW);
            self.hand_on_rows((end, ResultKind::Final), &leaving, rows_at_once, hand_on)?;
            if work.is_done() {
                self.closing = Some(closing);
                return Ok(false);
            }
        }
        for slice in self.slices.values_mut().filter(|slice| slice.is_needed_at(end)) {
            slice.next_end = self.window.next_end(end);
        }
        Ok(true)
    }

    /// The ranked rows of these keys in the window that has the rows of these slices.
    fn first_rows<'a>(&self, slices: &[&'a RankedSlice], keys: &[Key]) -> Vec<(i64, KeyedRow<'a>)> {
        let mut first = Vec::new();
        for key in keys {
            let mut rows: Vec<KeyedRow<'a>> = slices.iter().flat_map(|slice| slice.rows_of(key)).collect();
            rows.sort_unstable();
            first.extend(self.ranker.ranked(&rows));
        }
        first
    }

    /// Hands on ranked rows of the window that ends at `end`.
    fn hand_on_rows<E: From<KernelError>>(
        &self,
        (end, kind): (Micros, ResultKind),
        ranked: &[(i64, KeyedRow<'_>)],
        rows_at_once: usize,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.window.start(end);
        for ranked in ranked.chunks(rows_at_once) {
            let (ranks, rows): (Vec<i64>, Vec<KeyedRow<'_>>) = ranked.iter().copied().unzip();
            let batch = self.ranker.decoded(&rows).map_err(state_error)?;
            let window = ClosedWindow { start, end, groups: rows.len(), kind };
            hand_on(Leaving::Now(Contents::Rows(ClosedRows { rows: &batch, ranks: &ranks, window })))?;
        }
        Ok(())
    }

    /// The end of the first window that has rows and has not been reported.
    pub fn next_end(&self) -> Option<Micros> {
        self.slices.values().filter(|slice| slice.is_open()).map(|slice| slice.next_end).min()
    }

    /// When windows are corrected next.
    fn next_due(&self) -> Option<Micros> {
        let correcting = self.correcting.as_ref().map(|correcting| correcting.due);
        correcting.or_else(|| self.corrections.keys().next().map(|id| id.first_end))
    }

    /// Slices with rows of windows that have not been reported.
    pub fn slices(&self) -> usize {
        self.slices.values().filter(|slice| slice.is_open()).count()
    }

    /// Bytes of memory that their rows take.
    pub fn bytes(&self) -> usize {
        let slices = self.slices.values().chain(self.corrections.values()).map(|slice| slice.bytes);
        let unneeded = self.unneeded.iter().map(LeftRows::bytes);
        let correcting = self.correcting.as_ref().map_or(0, Correcting::bytes);
        slices.chain(unneeded).sum::<usize>() + correcting + self.early.as_ref().map_or(0, EarlyReport::bytes)
    }
}

impl RankedSlice {
    fn new(next_end: Micros, last_end: Micros) -> RankedSlice {
        RankedSlice { next_end, last_end, keys: HashMap::new(), bytes: 0 }
    }

    /// Whether it counts in a window that has not been reported.
    fn is_open(&self) -> bool {
        self.next_end <= self.last_end
    }

    /// Whether the window that ends at `end` is the next that it counts in.
    fn is_needed_at(&self, end: Micros) -> bool {
        self.next_end == end && self.is_open()
    }

    fn rows(&self) -> impl Iterator<Item = KeyedRow<'_>> {
        self.keys.iter().flat_map(|(key, rows)| rows.iter().map(move |row| (&**key, &**row)))
    }

    fn rows_of(&self, key: &[u8]) -> impl Iterator<Item = KeyedRow<'_>> {
        let known = self.keys.get_key_value(key);
        known.into_iter().flat_map(|(key, rows)| rows.iter().map(move |row| (&**key, &**row)))
    }

    fn add_all(&mut self, candidates: &Candidates, ranker: &Ranker) {
        let mut with_length = Vec::new();
        for (index, (row, &place)) in candidates.rows.iter().zip(&candidates.places).enumerate() {
            let key = candidates.keys.as_ref().map_or(&[][..], |keys| keys.row(place as usize).data());
            let row = match &candidates.order_bytes {
                None => row.data(),
                Some(lengths) => {
                    with_length.clear();
                    with_length.extend_from_slice(row.data());
                    with_length.extend_from_slice(&lengths[index].to_be_bytes());
                    &with_length
                }
            };
            self.add(key, row, ranker);
        }
    }

    /// Adds a row in its kept form.
    fn add(&mut self, key: &[u8], row: &[u8], ranker: &Ranker) {
        let rows_max = ranker.rows_max();
        if rows_max == 0 {
            return;
        }
        let Some(rows) = self.keys.get_mut(key) else {
            self.bytes += ENTRY_BYTES * 2 + key.len() + row.len();
            self.keys.insert(key.into(), BinaryHeap::from([row.into()]));
            return;
        };
        if ranker.ranking.numbering != Numbering::Rows {
            if rows.peek().is_some_and(|last| ranker.is_behind(row, last, rows.len())) {
                return;
            }
            // How many rows have the numbers that are kept is known when they are in order.
            if rows.len() == rows.capacity() {
                let mut sorted = std::mem::take(rows).into_sorted_vec();
                let dropped = sorted.split_off(ranker.kept(&sorted));
                self.bytes -= dropped.iter().map(|row| ENTRY_BYTES + row.len()).sum::<usize>();
                *rows = sorted.into();
                // As many rows are added as were sorted before they are sorted again.
                rows.reserve(rows.len());
            }
            self.bytes += ENTRY_BYTES + row.len();
            rows.push(row.into());
        } else if rows.len() < rows_max {
            self.bytes += ENTRY_BYTES + row.len();
            rows.push(row.into());
        } else if let Some(mut last) = rows.peek_mut().filter(|last| row < &***last) {
            self.bytes = self.bytes + row.len() - last.len();
            *last = row.into();
        }
    }
}

fn state_error(error: ArrowError) -> KernelError {
    KernelError::State(error.to_string())
}

#[cfg(test)]
mod tests;
