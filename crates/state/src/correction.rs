//! Windows that are reported more than once: before their time, and when rows that come late correct them.
//!
//! A window is reported when its time has come, and stays open for rows that come up to the allowed lateness after that. Its slices are kept by
//! key as long. Rows that come when a window of theirs has been reported are put together by the watermark of their partition under which they came;
//! when time has passed that, all groups of a window that they change are computed anew from the window's slices, and reported once more.
//! What is corrected, and to what, does so not depend on blocks or workers.
//!
//! The slices that windows share with others that have been reported are kept also where windows are reported before their time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::window::{Covered, Window};

use crate::layout::EntryLayout;
use crate::slice::SliceId;
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};
use crate::table::{ABSENT, KeyScratch, Table};
use crate::window::covered;

/// What of the slices of one aggregation is kept so that windows can be corrected, and what corrects them.
#[derive(Debug)]
pub(crate) struct Corrections {
    window: Window,
    lateness: Micros,
    layout: Arc<EntryLayout>,
    /// Slices of windows that may still be corrected, by start: the end of the last, and all rows that count in any of them.
    kept: BTreeMap<Micros, (Micros, Table)>,
    /// Rows that correct windows, by when they do so and the start of their slice.
    pieces: BTreeMap<(Micros, Micros), Table>,
    scratch: KeyScratch,
}

/// Rows of one slice that have corrected windows.
pub(crate) struct Piece {
    pub table: Table,
    /// The end of the last window that the rows count in.
    pub last_end: Micros,
}

impl Corrections {
    pub fn new(window: Window, lateness: Micros, layout: &Arc<EntryLayout>) -> Corrections {
        let (kept, pieces) = (BTreeMap::new(), BTreeMap::new());
        Corrections { window, lateness, layout: layout.clone(), kept, pieces, scratch: KeyScratch::default() }
    }

    /// Takes one worker's table of rows that correct windows. Returns a table that is no longer needed, where there is one.
    pub fn seal(&mut self, id: SliceId, table: Table) -> Option<Table> {
        match self.pieces.get_mut(&(id.first_end, id.start)) {
            Some(merged) => Some(merged.merge(table)),
            None => {
                self.pieces.insert((id.first_end, id.start), table);
                None
            }
        }
    }

    /// Keeps the rows of a slice that counts in no more windows which have not been reported. Returns a table that is no longer needed, where there
    /// is one.
    pub fn keep(&mut self, start: Micros, table: Table) -> Option<Table> {
        match self.kept.get_mut(&start) {
            Some((_, kept)) => Some(kept.merge(table)),
            None => {
                self.kept.insert(start, (self.covered(start).last_end, table));
                None
            }
        }
    }

    /// When windows are corrected, ascending.
    pub fn dues(&self) -> impl Iterator<Item = Micros> {
        self.pieces.keys().map(|(due, _)| *due)
    }

    /// When the next windows are corrected.
    pub fn next_due(&self) -> Option<Micros> {
        self.dues().next()
    }

    /// Adds the rows that correct windows at `due` to the slices that are kept. Returns the rows, and the windows that they change, in the order of
    /// their ends, each with the groups that are changed.
    pub fn correct(&mut self, due: Micros) -> (Vec<Piece>, Vec<(Range<Micros>, Table)>) {
        let later = self.pieces.split_off(&(due.saturating_add(1), Micros::MIN));
        let pieces = std::mem::replace(&mut self.pieces, later);
        let watermark = due - 1;
        let mut ends = BTreeSet::new();
        let mut slices = Vec::new();
        for ((_, start), table) in pieces {
            self.add(start, &table);
            let Covered { first_end, last_end } = self.covered(start);
            // Rows are too late for windows that end before this, and come in time for those that end after the watermark.
            let first_end = self.window.next_end(watermark.saturating_sub(self.lateness)).max(first_end);
            let next = |end: &Micros| Some(self.window.next_end(*end));
            let changed =
                std::iter::successors(Some(first_end), next).take_while(|end| *end <= last_end.min(watermark));
            ends.extend(changed);
            slices.push((start, Piece { table, last_end }));
        }
        let windows = ends.into_iter().map(|end| {
            let bounds = self.window.start(end)..end;
            let changing = slices.iter().filter(|(start, _)| bounds.contains(start)).map(|(_, piece)| &piece.table);
            let groups = self.groups(&bounds, changing);
            (bounds, groups)
        });
        let windows = windows.collect();
        (slices.into_iter().map(|(_, piece)| piece).collect(), windows)
    }

    /// The slices that are kept and those that correct windows, each with the end of the first window that it counts in, or an earlier time.
    pub fn slices(&self) -> impl Iterator<Item = (SliceId, &Table)> {
        let kept = self.kept.iter().map(|(start, (_, table))| (SliceId::new(Micros::MIN, *start), table));
        // Rows that correct windows count in those that were not over when they came: a window that was, and has not been reported, is final without them first.
        let correcting = self.pieces.iter().map(|((due, start), table)| (SliceId::new(*due, *start), table));
        kept.chain(correcting)
    }

    pub fn layout(&self) -> &Arc<EntryLayout> {
        &self.layout
    }

    /// Forgets slices all of whose windows are final when time has come to `until`.
    pub fn forget(&mut self, until: Micros, spare: &mut Vec<Table>) {
        while let Some(first) =
            self.kept.first_entry().filter(|first| first.get().0.saturating_add(self.lateness) <= until)
        {
            spare.push(first.remove().1);
        }
    }

    /// Writes what is kept, and what corrects it.
    pub fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        out.count(self.kept.len());
        for (start, (_, table)) in &self.kept {
            out.instant(*start);
            table.write_to(out)?;
        }
        out.count(self.pieces.len());
        for ((due, start), table) in &self.pieces {
            out.instant(*due);
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
            let last_end = covered(&self.window, start, input)?.last_end;
            self.kept.insert(start, (last_end, self.read_table(is_subtracted, input)?));
        }
        for _ in 0..input.count(1, "slices that correct windows")? {
            let due = input.instant("when windows are corrected")?;
            let start = input.instant("the start of a slice")?;
            let covered = covered(&self.window, start, input)?;
            let is_due = due > closed_until && covered.first_end < due;
            input.check(is_due, "a time when windows are corrected")?;
            self.pieces.insert((due, start), self.read_table(is_subtracted, input)?);
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
        self.kept.values().map(|(_, table)| table).chain(self.pieces.values()).map(Table::bytes).sum()
    }

    pub fn covered(&self, start: Micros) -> Covered {
        self.window.slice(start).covered.expect("a slice with rows belongs to a window")
    }

    /// Adds rows to the slice that is kept.
    fn add(&mut self, start: Micros, piece: &Table) {
        let last_end = self.covered(start).last_end;
        let (_, kept) = self.kept.entry(start).or_insert_with(|| (last_end, Table::new(self.layout.clone())));
        kept.add(piece);
    }

    /// The groups of a window that have rows in any of `changing`, with all of their rows.
    fn groups<'t>(&mut self, bounds: &Range<Micros>, changing: impl Iterator<Item = &'t Table>) -> Table {
        let mut groups = Table::new(self.layout.clone());
        for piece in changing {
            let from = piece.entry_offsets();
            groups.entries_of(piece, (&from).into(), &mut Vec::new(), &mut self.scratch);
        }
        let entries = groups.entry_offsets();
        for (_, kept) in self.kept.range(bounds.clone()).map(|(_, kept)| kept) {
            let found = kept.find_entries_of(&groups, &entries);
            let pairs = found.into_iter().zip(entries.iter().copied()).filter(|(from, _)| *from != ABSENT);
            let (from, to): (Vec<u32>, Vec<u32>) = pairs.unzip();
            groups.add_at(kept, &from, &to);
        }
        groups
    }
}
