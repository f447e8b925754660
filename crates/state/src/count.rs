//! Windows of so many rows of each key, and how they close.
//!
//! The rows of a key are numbered, and its windows are made of slices of as many rows as divide their size and their slide. Rows come one block after
//! the other, in their order. A slice is complete when it has all of its rows, and a window when its last slice is: it is put together from its slices,
//! and leaves with all others that a block completes. When the input has ended, windows that are not complete leave as well.
//!
//! A key keeps the slices that windows need which are not complete, and how many it has had. Where nothing is made of the numbers of windows, a key
//! whose windows are all complete is forgotten.

mod snapshot;

use std::collections::VecDeque;
use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::time::WATERMARK_MAX;
use pelton_data::window::{Combination, ResultKind, slice_rows};

use crate::coalesce::{CopiedGroups, Leaving};
use crate::layout::EntryLayout;
use crate::table::{CompleteSlices, CountedKeys, Remainder, Table};
use crate::window::{CloseLimits, ClosedWindow};

/// So many slices of windows are combined at a time, at most.
const COMBINED_SLICES_MAX: usize = 16 << 10;

/// Places whose accumulators refer to what nobody needs any more are few below this.
const OUT_OF_REACH_MIN: usize = 1024;

/// Tables of windows that have left are kept to be used again, so many at most: about as many blocks are computed before windows leave.
const SPARE_TABLES_MAX: usize = 16;

/// Slots of the table of keys that are looked at together for windows that are not complete.
const SLOTS_AT_ONCE: usize = 1024;

/// Which windows, in slices.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// Rows of a slice.
    slice_rows: i64,
    /// Slices of a window.
    slices: i64,
    /// Slices from the start of one window to that of the next.
    slide: i64,
}

impl Shape {
    fn new(size: i64, slide: i64) -> Shape {
        let slice_rows = slice_rows(size, slide);
        Shape { slice_rows, slices: size / slice_rows, slide: slide / slice_rows }
    }

    /// The window whose first slice is this one of its key's.
    fn window(self, first: i64) -> ClosedWindow {
        let start = first * self.slice_rows;
        ClosedWindow { start, end: start + self.slices * self.slice_rows, groups: 1, kind: ResultKind::Final }
    }

    /// Whether a slice lies between two windows, in none.
    fn is_between(self, number: i64) -> bool {
        number % self.slide >= self.slices
    }
}

/// Where the rows of each key are counted, block by block.
#[derive(Debug)]
pub struct RowCounter {
    layout: Arc<EntryLayout>,
    shape: Shape,
    /// Whether windows are reported with their numbers: then those of all keys are kept.
    are_numbered: bool,
    keys: CountedKeys,
    /// What slices have accumulated, by place.
    values: Table,
    /// Those that the rows have completed which were placed last.
    complete: CompleteSlices,
    /// Whether windows are put together anew from all of their slices.
    are_recomputed: bool,
    /// By a key's mark less one, its complete slices that windows need which are not.
    held: Vec<HeldSlices>,
    /// Windows that are being put together.
    closing: Closing,
    leaving: CopiedGroups,
    spare: Vec<Table>,
    /// Places that were taken back since what they referred to was forgotten.
    out_of_reach: usize,
    /// Slots that have been looked at for windows that are not complete.
    slots_done: usize,
}

/// The complete slices of a key that windows need which are not: two stacks, unless these are put together anew.
#[derive(Debug, Default)]
struct HeldSlices {
    /// The earliest first.
    places: VecDeque<u32>,
    /// So many of the first have the totals of themselves and those behind them up to the last of these.
    totals: usize,
    /// What has the total of all behind these, where there are some.
    running: Option<u32>,
}

impl HeldSlices {
    /// Adds a slice to the total of the last, which gets the place `running`, where there is need for it.
    fn add(&mut self, place: u32, running: impl FnOnce() -> u32, closing: &mut Closing) {
        if self.totals == 0 {
            return;
        }
        let running = running();
        if let Some(before) = self.running.replace(running) {
            closing.add(before, running);
            closing.gone.push(before);
        }
        closing.add(place, running);
    }

    /// What adds up to the window of all slices.
    fn total(&mut self, closing: &mut Closing) -> [Option<u32>; 2] {
        if self.totals == 0 {
            self.turn(0, closing);
            self.totals = self.places.len();
            closing.gone.extend(self.running.take());
        }
        [Some(self.places[0]), self.running]
    }

    /// Makes totals of all slices from one on.
    fn turn(&mut self, first: usize, closing: &mut Closing) {
        for at in (first + 1..self.places.len()).rev() {
            closing.add(self.places[at], self.places[at - 1]);
        }
    }

    /// Gives up the first slices.
    fn leave(&mut self, slices: usize, closing: &mut Closing) {
        closing.gone.extend(self.places.drain(..slices));
        self.totals = self.totals.saturating_sub(slices);
    }
}

/// Windows to be put together from slices.
#[derive(Debug, Default)]
struct Closing {
    /// Slices that are added to others before that, one after the other: their places, and those of the others.
    sums: (Vec<u32>, Vec<u32>),
    /// Entries of keys.
    keys: Vec<u32>,
    /// Which of the key's slices is the first.
    first: Vec<i64>,
    /// The first slices, the second and so on, by their places, and of which windows they are.
    slices: Vec<(Vec<u32>, Vec<u32>)>,
    /// Slices that are combined in all.
    count: usize,
    /// Places that no window needs any more than these.
    gone: Vec<u32>,
}

impl Closing {
    /// Has a slice added to another.
    fn add(&mut self, place: u32, to: u32) {
        self.sums.0.push(place);
        self.sums.1.push(to);
        self.count += 1;
    }

    /// Adds a window of these slices, of which there is at least one.
    fn push(&mut self, key: u32, first: i64, places: impl Iterator<Item = u32>) {
        let window = self.keys.len() as u32;
        self.keys.push(key);
        self.first.push(first);
        for (distance, place) in places.enumerate() {
            if self.slices.len() == distance {
                self.slices.push(Default::default());
            }
            let (from, to) = &mut self.slices[distance];
            from.push(place);
            to.push(window);
            self.count += 1;
        }
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.first.clear();
        self.gone.clear();
        self.sums.0.clear();
        self.sums.1.clear();
        self.count = 0;
        self.slices.iter_mut().for_each(|(from, to)| {
            from.clear();
            to.clear();
        });
    }
}

impl RowCounter {
    /// No row has come. Windows have `size` rows of a key each, and one begins every `slide` rows; where they are not numbered, nobody reads which of
    /// its key's a window is.
    ///
    /// # Panics
    /// Where windows are not put together anew, and accumulators refer to something beside their entries.
    pub fn new(
        (size, slide): (i64, i64),
        combination: Combination,
        layout: &Arc<EntryLayout>,
        are_numbered: bool,
    ) -> RowCounter {
        let shape = Shape::new(size, slide);
        let are_recomputed = combination != Combination::TwoStacks;
        assert!(are_recomputed || !layout.has_references(), "totals hold all that there is of their slices");
        RowCounter {
            layout: layout.clone(),
            shape,
            are_numbered,
            keys: CountedKeys::new(layout, shape.slice_rows),
            values: Table::unkeyed(layout.clone()),
            complete: CompleteSlices::default(),
            are_recomputed,
            held: Vec::new(),
            closing: Closing::default(),
            leaving: CopiedGroups::new(layout),
            spare: Vec::new(),
            out_of_reach: 0,
            slots_done: 0,
        }
    }

    /// The layout of what groups accumulate.
    pub fn layout(&self) -> &Arc<EntryLayout> {
        &self.layout
    }

    /// Where the next rows find the entries of their keys.
    pub fn keys(&mut self) -> &mut Table {
        self.keys.table()
    }

    /// Replaces the entries of the keys of the next rows, in their order, by those of [`RowCounter::values`] where the rows are accumulated. That must
    /// be done before anything else.
    ///
    /// # Panics
    /// Where an entry is none.
    pub fn place(&mut self, entries: &mut [u32]) {
        self.reserve(entries.len());
        self.keys.place(entries, self.values.unkeyed_units(), &mut self.complete);
    }

    /// Where accumulators change.
    pub fn values(&mut self) -> &mut Table {
        &mut self.values
    }

    /// Closes the windows that rows have completed, now that these are accumulated. Must be called before keys of other rows are looked for.
    pub fn rows_added(&mut self) {
        if self.complete.is_empty() {
            return;
        }
        let mut complete = std::mem::take(&mut self.complete);
        match self.shape {
            Shape { slices: 1, slide: 1, .. } => {
                let units = self.values.unkeyed_units();
                let entries: Vec<u32> = complete.places.iter().map(|place| place * units).collect();
                self.leave(&complete.keys, &entries, &complete.numbers);
                self.forget(&complete.places, &entries);
            }
            _ => self.close_slices(&complete),
        }
        complete.clear();
        self.complete = complete;
        if !self.are_numbered && self.shape.slices == 1 && self.shape.slide == 1 {
            self.keys.drop_complete();
        }
        self.drop_references();
    }

    /// Keeps slices for the windows that need them, and closes those that are complete.
    fn close_slices(&mut self, complete: &CompleteSlices) {
        let Shape { slices, slide, .. } = self.shape;
        let mut closing = std::mem::take(&mut self.closing);
        if !self.are_recomputed {
            self.reserve(complete.keys.len());
        }
        for ((&key, &place), &number) in complete.keys.iter().zip(&complete.places).zip(&complete.numbers) {
            if self.shape.is_between(number) {
                closing.gone.push(place);
                continue;
            }
            let mark = self.mark(key);
            let held = &mut self.held[mark];
            held.places.push_back(place);
            if !self.are_recomputed {
                held.add(place, || self.keys.take_place(), &mut closing);
            }
            if held.places.len() as i64 == slices {
                let first = number + 1 - slices;
                if self.are_recomputed {
                    closing.push(key, first, held.places.iter().copied());
                } else {
                    let parts = held.total(&mut closing);
                    closing.push(key, first, parts.into_iter().flatten());
                }
                held.leave(slide.min(slices) as usize, &mut closing);
            }
            if closing.count >= COMBINED_SLICES_MAX {
                self.combine(&mut closing);
            }
        }
        self.combine(&mut closing);
        self.closing = closing;
    }

    /// Where in `held` a key has its slices.
    fn mark(&mut self, key: u32) -> usize {
        let mark = match self.keys.mark(key) {
            0 => {
                self.held.push(HeldSlices::default());
                let mark = u32::try_from(self.held.len()).expect("keys have 32-bit numbers");
                self.keys.set_mark(key, mark);
                mark
            }
            mark => mark,
        };
        mark as usize - 1
    }

    /// Makes sure that there are so many places without a slice.
    fn reserve(&mut self, places: usize) {
        let missing = self.keys.reserve(places);
        self.values.extend_unkeyed(missing);
    }

    /// Puts windows together, and takes back what no other needs.
    fn combine(&mut self, closing: &mut Closing) {
        let (before, units) = (self.leaving.groups.groups() as u32, self.values.unkeyed_units());
        let to_entries = |places: &mut Vec<u32>| places.iter_mut().for_each(|place| *place *= units);
        let (from, to) = &mut closing.sums;
        if !from.is_empty() {
            to_entries(from);
            to_entries(to);
            self.values.add_within(from, to, None);
        }
        closing.slices.iter_mut().for_each(|(from, _)| to_entries(from));
        if let Some(((entries, _), others)) = closing.slices.split_first_mut() {
            self.leave(&closing.keys, entries, &closing.first);
            for (from, to) in others.iter_mut().filter(|(from, _)| !from.is_empty()) {
                to.iter_mut().for_each(|window| *window += before);
                self.leaving.groups.add_at(&self.values, &*from, &*to);
            }
        }
        let places = std::mem::take(&mut closing.gone);
        let mut entries = places.clone();
        to_entries(&mut entries);
        self.forget(&places, &entries);
        closing.clear();
    }

    /// Lets windows leave that begin with these slices, or have no others.
    fn leave(&mut self, keys: &[u32], entries: &[u32], first: &[i64]) {
        let CopiedGroups { groups, windows, .. } = &mut self.leaving;
        groups.append_parts((self.keys.table(), keys), (&self.values, entries));
        windows.extend(first.iter().map(|&first| self.shape.window(first)));
    }

    /// Takes places back.
    fn forget(&mut self, places: &[u32], entries: &[u32]) {
        self.values.reset_entries(entries);
        self.keys.free(places.iter().copied());
        self.out_of_reach += places.len();
    }

    /// Forgets what accumulators have referred to that nobody needs any more, where that is the most there is.
    fn drop_references(&mut self) {
        let held = self.keys.places() - self.keys.free_places().len();
        if !self.layout.has_references() || self.out_of_reach < held.max(OUT_OF_REACH_MIN) {
            return;
        }
        self.out_of_reach = 0;
        let mut is_free = vec![false; self.keys.places()];
        self.keys.free_places().iter().for_each(|&place| is_free[place as usize] = true);
        let units = self.values.unkeyed_units();
        let held = (0..).zip(is_free).filter(|(_, is_free)| !is_free).map(|(place, _)| place * units);
        let held: Vec<u32> = held.collect();
        let mut values = Table::unkeyed(self.layout.clone());
        values.extend_unkeyed(self.keys.places());
        values.add_at(&self.values, &held, &held);
        self.values = values;
    }

    /// Takes the windows that blocks have completed so far; `until` says how many rows of all keys these have.
    pub fn take_complete(&mut self, until: Micros) -> Option<CompleteWindows> {
        let groups = self.take_leaving()?;
        Some(CompleteWindows { until, groups })
    }

    fn take_leaving(&mut self) -> Option<CopiedGroups> {
        if self.leaving.windows.is_empty() {
            return None;
        }
        self.leaving.groups.share();
        let groups = self.spare.pop().unwrap_or_else(|| Table::list(self.layout.clone()));
        Some(std::mem::replace(&mut self.leaving, CopiedGroups::of(groups, Vec::new())))
    }

    /// Takes back the cleared table of windows that have left.
    pub fn recycle(&mut self, table: Table) {
        if self.spare.len() < SPARE_TABLES_MAX {
            self.spare.push(table);
        }
    }

    /// The next windows that are not complete, about so many; `None` where there is none any more. No row may come behind that.
    fn take_rest(&mut self, windows_max: usize) -> Option<CopiedGroups> {
        let slots = self.keys.table().slots();
        let mut closing = std::mem::take(&mut self.closing);
        while self.slots_done < slots && self.leaving.windows.len() < windows_max {
            let end = slots.min(self.slots_done + SLOTS_AT_ONCE);
            for remainder in self.keys.remainders(self.slots_done..end) {
                self.close_remainder(remainder, &mut closing);
            }
            self.combine(&mut closing);
            self.slots_done = end;
        }
        self.closing = closing;
        self.take_leaving()
    }

    /// Closes what there is of a key's windows.
    fn close_remainder(&mut self, remainder: Remainder, closing: &mut Closing) {
        let Remainder { key, complete, open, mark, .. } = remainder;
        if self.shape.is_between(complete) {
            return;
        }
        let held = mark.checked_sub(1).map(|mark| std::mem::take(&mut self.held[mark as usize]));
        let mut held = held.unwrap_or_default();
        let first = complete - held.places.len() as i64;
        held.places.extend(open);
        let slices = held.places.len();
        if !self.are_recomputed {
            held.turn(held.totals, closing);
        }
        for start in (0..slices).step_by(self.shape.slide as usize) {
            let number = first + start as i64;
            if self.are_recomputed {
                closing.push(key, number, held.places.range(start..).copied());
            } else {
                let rest = Some(held.totals).filter(|totals| (start + 1..slices).contains(totals));
                closing.push(key, number, std::iter::once(start).chain(rest).map(|at| held.places[at]));
            }
            if closing.count >= COMBINED_SLICES_MAX {
                self.combine(closing);
            }
        }
    }

    /// Whether a window is open.
    pub fn has_open(&self) -> bool {
        self.keys.has_open() || self.held.iter().any(|held| !held.places.is_empty())
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let held: usize = self.held.iter().map(|held| 4 * held.places.capacity() + size_of::<HeldSlices>()).sum();
        let spare: usize = self.spare.iter().map(Table::bytes).sum();
        self.keys.bytes() + self.values.bytes() + held + spare + self.leaving.bytes()
    }
}

/// Windows that are complete.
#[derive(Debug)]
pub struct CompleteWindows {
    /// So many rows of all keys have come with the block that completed them.
    until: Micros,
    groups: CopiedGroups,
}

impl CompleteWindows {
    /// So many rows of all keys have come with the block that completed them.
    pub fn until(&self) -> Micros {
        self.until
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.groups.bytes()
    }
}

/// Windows of one aggregation that have not been reported.
#[derive(Debug)]
pub struct OpenCounts {
    layout: Arc<EntryLayout>,
    complete: VecDeque<CompleteWindows>,
    /// What has those that are not complete, once the input has ended.
    rest: Option<Box<RowCounter>>,
}

impl OpenCounts {
    /// No window is complete. Tables will have this layout.
    pub fn new(layout: &Arc<EntryLayout>) -> OpenCounts {
        OpenCounts { layout: layout.clone(), complete: VecDeque::new(), rest: None }
    }

    /// Takes windows that are complete, behind all others.
    pub fn seal(&mut self, windows: CompleteWindows) {
        self.complete.push_back(windows);
    }

    /// Takes what the rows were counted with: no more come.
    pub fn end(&mut self, counter: Box<RowCounter>) {
        self.rest = Some(counter);
    }

    /// Hands windows to `hand_on`, those of one key in their order: the complete ones, up to which all must have been sealed, and when the input has ended
    /// all others. Their tables are cleared and added to `spare`. Returns up to where that has been done.
    ///
    /// # Errors
    /// What `hand_on` returns.
    pub fn close<E>(
        &mut self,
        limits: CloseLimits,
        spare: &mut Vec<Table>,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<Micros, E> {
        let mut done = 0;
        let mut leave = |mut groups: CopiedGroups| {
            done += groups.windows.len();
            hand_on(Leaving::Later(&mut groups))?;
            groups.clear();
            spare.push(groups.groups);
            Ok(done >= limits.groups_max)
        };
        while let Some(windows) = self.complete.pop_front_if(|windows| windows.until <= limits.until) {
            if leave(windows.groups)? {
                return Ok(windows.until);
            }
        }
        if let Some(counter) = self.rest.as_mut().filter(|_| limits.until == WATERMARK_MAX) {
            while let Some(groups) = counter.take_rest(limits.groups_at_once) {
                if leave(groups)? {
                    return Ok(WATERMARK_MAX - 1);
                }
            }
            self.rest = None;
        }
        Ok(limits.until)
    }

    /// What has not been reported.
    pub fn slices(&self) -> usize {
        self.complete.len() + usize::from(self.rest.as_ref().is_some_and(|counter| counter.has_open()))
    }

    /// Bytes of memory held by tables.
    pub fn bytes(&self) -> usize {
        let complete: usize = self.complete.iter().map(CompleteWindows::bytes).sum();
        complete + self.rest.as_ref().map_or(0, |counter| counter.bytes())
    }
}
