//! Windows that are reported more than once: before their time, and when rows that come late correct them.
//!
//! A window is reported when its time has come, and stays open for rows that come up to the allowed lateness after that. Its slices are kept by
//! key as long. Rows that come when a window of theirs has been reported are put together by the watermark of their partition under which they came;
//! when time has passed that, all groups of a window that they change are computed anew from the window's slices, and reported once more.
//! What is corrected, and to what, does so not depend on blocks or workers.
//!
//! The slices that windows share with others that have been reported are kept also where windows are reported before their time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::window::{Covered, ResultKind, Window};

use crate::closed_slices::ClosedSlices;
use crate::layout::EntryLayout;
use crate::slice::{SliceId, covered};
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};
use crate::table::{ABSENT, Chosen, KeyScratch, Merging, Table};
use crate::window::ClosedWindow;
use crate::work::{GROUPS_PER_WINDOW, SLICES_PER_GROUP, Work, listing_work};

/// What of the slices of one aggregation is kept so that windows can be corrected, and what corrects them.
#[derive(Debug)]
pub(crate) struct Corrections {
    window: Window,
    lateness: Micros,
    layout: Arc<EntryLayout>,
    /// Slices of windows that may still be corrected, each needed until the end of the last: all rows that count in any of them.
    kept: ClosedSlices,
    /// Rows that correct windows, by when they do so and the start of their slice.
    pieces: ClosedSlices,
    /// Windows that are being corrected.
    correcting: Option<Correcting>,
    /// The groups of one of them that are reported next; empty between calls.
    groups: Table,
    scratch: KeyScratch,
}

/// Windows that are corrected, of which a part has been.
#[derive(Debug)]
struct Correcting {
    /// The rows that correct them, by the start of their slice.
    pieces: VecDeque<(Micros, Table)>,
    /// How many of these have been added to the slices that are kept, and how far the next one has been.
    pieces_added: usize,
    merging: Option<Merging>,
    /// The ends of windows that have not been reported, ascending.
    ends: VecDeque<Micros>,
    /// Of the first of these, how many pieces' groups have been reported,
    pieces_reported: usize,
    /// and how many slots of the next.
    slots_reported: usize,
}

/// The first of the windows over a slice that rows count in which came under a watermark, by its end: they are too late for those before.
pub(crate) fn first_counted(window: &Window, covered: &Covered, watermark: Micros, lateness: Micros) -> Micros {
    window.next_end(watermark.saturating_sub(lateness)).max(covered.first_end)
}

/// The ends of windows from the first on that is counted, up to `last_end`.
pub(crate) fn ends_from(window: &Window, first_end: Micros, last_end: Micros) -> impl Iterator<Item = Micros> {
    std::iter::successors(Some(first_end), |end| Some(window.next_end(*end))).take_while(move |end| *end <= last_end)
}

impl Corrections {
    pub fn new(window: Window, lateness: Micros, layout: &Arc<EntryLayout>) -> Corrections {
        Corrections {
            window,
            lateness,
            layout: layout.clone(),
            kept: ClosedSlices::default(),
            pieces: ClosedSlices::default(),
            correcting: None,
            groups: Table::new(layout.clone()),
            scratch: KeyScratch::default(),
        }
    }

    /// Takes one worker's table of rows that correct windows.
    pub fn seal(&mut self, id: SliceId, table: Table) {
        self.pieces.add(id, table);
    }

    /// Keeps the rows of a slice that counts in no more windows which have not been reported.
    pub fn keep(&mut self, start: Micros, table: Table) {
        self.kept.add(self.kept_id(start), table);
    }

    /// What a slice is called that is kept.
    fn kept_id(&self, start: Micros) -> SliceId {
        SliceId::new(self.covered(start).last_end, start)
    }

    /// Merges a part of what there is several times of a slice: whether there was any.
    pub fn merge_next(&mut self, unneeded: &mut Vec<Table>, work: &mut Work) -> bool {
        self.kept.merge_next(unneeded, work) || self.pieces.merge_next(unneeded, work)
    }

    /// When windows are corrected, ascending.
    pub fn dues(&self) -> impl Iterator<Item = Micros> {
        self.pieces.ids().map(|id| id.first_end)
    }

    /// When the next windows are corrected.
    pub fn next_due(&self) -> Option<Micros> {
        self.pieces.first_end()
    }

    /// Begins to correct windows by the rows that do so at `due`.
    pub fn begin(&mut self, due: Micros) {
        let watermark = due - 1;
        let mut ends = BTreeSet::new();
        let mut pieces = VecDeque::new();
        while let Some((SliceId { start, .. }, table)) = self.pieces.pop_until(due) {
            let covered = self.covered(start);
            let first_end = first_counted(&self.window, &covered, watermark, self.lateness);
            // They come in time for windows that end after the watermark.
            ends.extend(ends_from(&self.window, first_end, covered.last_end.min(watermark)));
            pieces.push_back((start, table));
        }
        let ends = ends.into_iter().collect();
        self.correcting =
            Some(Correcting { pieces, pieces_added: 0, merging: None, ends, pieces_reported: 0, slots_reported: 0 });
    }

    /// Adds the rows that correct windows to the slices that are kept, and reports the groups that they change of each window, in the order of their ends: a part
    /// of all that. Returns whether it has been done.
    ///
    /// # Panics
    /// Where nothing is being corrected.
    ///
    /// # Errors
    /// What `report` returns.
    pub fn advance<E>(
        &mut self,
        groups_at_once: usize,
        work: &mut Work,
        report: &mut impl FnMut(ClosedWindow, &Table, Chosen<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        while self.add_next(work) {
            if work.is_done() {
                return Ok(false);
            }
        }
        while let Some(&end) = self.correcting().ends.front() {
            if work.is_done() {
                return Ok(false);
            }
            if !self.list_next(end, groups_at_once, work) {
                let correcting = self.correcting();
                correcting.ends.pop_front();
                correcting.pieces_reported = 0;
                work.spend(GROUPS_PER_WINDOW);
                continue;
            }
            let entries = self.groups.entry_offsets();
            let (start, kind) = (self.window.start(end), ResultKind::Correction);
            let result = match entries.is_empty() {
                true => Ok(()),
                false => report(ClosedWindow { start, end, groups: 0, kind }, &self.groups, (&entries).into()),
            };
            self.groups.clear();
            result?;
        }
        Ok(true)
    }

    fn correcting(&mut self) -> &mut Correcting {
        self.correcting.as_mut().expect("windows are being corrected")
    }

    /// Takes the rows of a slice that have corrected windows, with its start; once there are no more, nothing is being corrected.
    pub fn take_corrected(&mut self) -> Option<(Micros, Table)> {
        let piece = self.correcting().pieces.pop_front();
        if piece.is_none() {
            self.correcting = None;
        }
        piece
    }

    /// Puts back what was taken last.
    pub fn put_back(&mut self, start: Micros, table: Table) {
        self.correcting().pieces.push_front((start, table));
    }

    /// Adds some rows that correct windows to the slice that is kept: whether there were any.
    fn add_next(&mut self, work: &mut Work) -> bool {
        let correcting = self.correcting.as_mut().expect("windows are being corrected");
        let Some((start, piece)) = correcting.pieces.get(correcting.pieces_added) else { return false };
        let last_end = self.window.slice(*start).covered.expect("a slice with rows belongs to a window").last_end;
        let kept = self.kept.table(SliceId::new(last_end, *start), || Table::new(self.layout.clone()));
        match correcting.merging.get_or_insert_with(|| Merging::new(kept, piece)).advance(kept, piece) {
            Some(merged) => merged.spend(work),
            None => {
                correcting.merging = None;
                correcting.pieces_added += 1;
            }
        }
        true
    }

    /// Puts some groups together of the window that ends at `end`, of those that are changed and have not been reported: whether there were slots left with any.
    fn list_next(&mut self, end: Micros, groups_at_once: usize, work: &mut Work) -> bool {
        let bounds = self.window.start(end)..end;
        let correcting = self.correcting.as_mut().expect("windows are being corrected");
        let mut changing = correcting.pieces.iter().filter(|(start, _)| bounds.contains(start)).map(|(_, piece)| piece);
        let before: Vec<&Table> = changing.by_ref().take(correcting.pieces_reported).collect();
        let Some(piece) = changing.next() else { return false };
        let kept: Vec<&Table> = self.kept.begun_in(&bounds).collect();
        let work_per_group = kept.iter().map(|kept| kept.work_per_group()).sum::<usize>().max(1);
        let groups_max = (groups_at_once / work_per_group).max(1);
        // Groups may be few in many slots, and all slices are looked at for any of them.
        let (mut from, first) = (Vec::new(), correcting.slots_reported);
        while from.len() < groups_max && correcting.slots_reported < piece.slots() && !work.is_done() {
            let listed = correcting.slots_reported;
            let slots = listed..piece.slots().min(listed + work.slots(groups_max - from.len()));
            piece.push_entries(slots.clone(), &mut from);
            correcting.slots_reported = slots.end;
        }
        work.spend(listing_work(correcting.slots_reported - first, 0));
        for before in before {
            let known = before.find_entries_of(piece, &from);
            let mut known = known.into_iter();
            from.retain(|_| known.next() == Some(ABSENT));
        }
        if correcting.slots_reported == piece.slots() {
            correcting.slots_reported = 0;
            correcting.pieces_reported += 1;
        }
        if from.is_empty() {
            return true;
        }
        work.spend(from.len() * work_per_group + kept.len() / SLICES_PER_GROUP);
        self.groups.entries_of(piece, (&from).into(), &mut Vec::new(), &mut self.scratch);
        let entries = self.groups.entry_offsets();
        for kept in kept {
            let found = kept.find_entries_of(&self.groups, &entries);
            let pairs = found.into_iter().zip(entries.iter().copied()).filter(|(from, _)| *from != ABSENT);
            let (from, to): (Vec<u32>, Vec<u32>) = pairs.unzip();
            self.groups.add_at(kept, &from, &to);
        }
        true
    }

    /// The slices that are kept and those that correct windows, each with the end of the first window that it counts in, or an earlier time.
    pub fn slices(&self) -> impl Iterator<Item = (SliceId, &Table)> {
        let kept = self.kept.tables().map(|(id, table)| (SliceId::new(Micros::MIN, id.start), table));
        // Rows that correct windows count in those that were not over when they came: a window that was, and has not been reported, is final without them first.
        let correcting = self.pieces.tables().map(|(id, table)| (SliceId::new(id.first_end, id.start), table));
        kept.chain(correcting)
    }

    pub fn layout(&self) -> &Arc<EntryLayout> {
        &self.layout
    }

    /// Forgets slices all of whose windows are final when time has come to `until`.
    pub fn forget(&mut self, until: Micros, unneeded: &mut Vec<Table>) {
        let lateness = self.lateness;
        while let Some((_, table)) = self.kept.pop_if(|id| id.first_end.saturating_add(lateness) <= until) {
            unneeded.push(table);
        }
    }

    /// Whether a slice has been merged in part, or windows have been corrected in part.
    pub fn is_under_way(&self) -> bool {
        self.kept.is_merging() || self.pieces.is_merging() || self.correcting.is_some()
    }

    /// Writes what is kept, and what corrects it.
    pub fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        out.count(self.kept.tables_written());
        for (SliceId { start, .. }, table) in self.kept.tables() {
            out.instant(*start);
            table.write_to(out)?;
        }
        out.count(self.pieces.tables_written());
        for (SliceId { first_end, start, .. }, table) in self.pieces.tables() {
            out.instant(*first_end);
            out.instant(*start);
            table.write_to(out)?;
        }
        Ok(())
    }

    /// Becomes what was written when windows had closed up to `closed_until`.
    pub fn read_from(
        &mut self,
        closed_until: Micros,
        is_subtracted: bool,
        input: &mut Reader<'_>,
    ) -> Result<(), SnapshotError> {
        for _ in 0..input.count(1, "slices that are kept")? {
            let start = input.instant("the start of a slice")?;
            covered(&self.window, start, input)?;
            let table = self.read_table(is_subtracted, input)?;
            self.keep(start, table);
        }
        for _ in 0..input.count(1, "slices that correct windows")? {
            let due = input.instant("when windows are corrected")?;
            let start = input.instant("the start of a slice")?;
            let covered = covered(&self.window, start, input)?;
            let is_due = due > closed_until && covered.first_end < due;
            input.check(is_due, "a time when windows are corrected")?;
            let table = self.read_table(is_subtracted, input)?;
            self.seal(SliceId { first_end: due, start, corrects: true }, table);
        }
        Ok(())
    }

    /// Reads rows; those of groups that are subtracted again must be there.
    fn read_table(&self, is_subtracted: bool, input: &mut Reader<'_>) -> Result<Table, SnapshotError> {
        let mut table = Table::new(self.layout.clone());
        table.read_from(input)?;
        if is_subtracted {
            table.check_rows(input)?;
        }
        Ok(table)
    }

    /// Bytes of memory held by tables.
    pub fn bytes(&self) -> usize {
        let correcting = self.correcting.iter().flat_map(|correcting| &correcting.pieces);
        let correcting: usize = correcting.map(|(_, table)| table.bytes()).sum();
        self.kept.bytes() + self.pieces.bytes() + correcting + self.groups.bytes()
    }

    pub fn covered(&self, start: Micros) -> Covered {
        self.window.slice(start).covered.expect("a slice with rows belongs to a window")
    }
}
