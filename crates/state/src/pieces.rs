//! What blocks have of slices that begin and end within them: of each slice a piece, many in one table.
//!
//! A slice of few rows is not worth a table of its own, which must be made, merged and cleared. A worker finds the groups of all of its small
//! slices in one table instead, which knows their numbers; a piece is a list of numbers and what each of these groups has accumulated. Whoever closes windows
//! learns the key of each number once, and from then on combines pieces without a look at a key (LightSaber, section 4: what
//! threads keep apart until slices are merged).
//!
//! Numbers last as long as their table is small and pays: then it begins anew, with other numbers, and forgets keys that come no more.

use std::ops::Range;
use std::sync::Arc;

use crate::layout::{EntryLayout, KeyLayout};
use crate::slice::SliceId;
use crate::table::{SliceGroups, Table};

/// The table of keys begins anew when those that have a number take more than this: searches would leave the second-level cache.
const KEY_BYTES_MAX: usize = 512 << 10;

/// It begins anew as well when it has seen so many rows for each of its groups, for some of which none may come any more.
const ROWS_PER_GROUP_MAX: usize = 256;

/// With fewer groups than this, those that come no more cost nothing.
const FORGOTTEN_GROUPS_MIN: u32 = 1024;

/// Pieces that nobody reads any more, kept for the next block.
const SPARE_PIECES_MAX: usize = 2;

/// What one worker has of some slices.
#[derive(Debug)]
pub struct Pieces {
    /// Pieces whose numbers are of the same groups have the same source.
    source: Arc<()>,
    /// Keys of the groups that come after those of all earlier pieces of the source.
    keys: Table,
    /// The number of each place's group.
    numbers: Vec<u32>,
    /// What the groups have accumulated, in their places.
    values: Table,
    /// The entries of the places.
    entries: Vec<u32>,
    /// Where the places of each slice end, in ascending order of slices.
    slices: Vec<(SliceId, usize)>,
}

impl Pieces {
    fn new(layout: &Arc<EntryLayout>, keys: &Arc<EntryLayout>, source: Arc<()>) -> Pieces {
        Pieces {
            source,
            keys: Table::list(keys.clone()),
            numbers: Vec::new(),
            values: Table::placed(layout.clone()),
            entries: Vec::new(),
            slices: Vec::new(),
        }
    }

    fn clear(&mut self, source: Arc<()>) {
        self.source = source;
        self.keys.clear();
        self.numbers.clear();
        self.values.clear();
        self.slices.clear();
    }

    /// What tells the groups of these pieces from those that have the same numbers elsewhere.
    pub(crate) fn source(&self) -> &Arc<()> {
        &self.source
    }

    /// Keys of the groups whose numbers follow those of earlier pieces of the source.
    pub(crate) fn keys(&self) -> &Table {
        &self.keys
    }

    /// The slices, ascending.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = SliceId> {
        self.slices.iter().map(|(id, _)| *id)
    }

    /// One of the slices, and the places of its groups; `None` behind the last.
    pub(crate) fn slice(&self, index: usize) -> Option<(SliceId, Range<usize>)> {
        let &(id, end) = self.slices.get(index)?;
        Some((id, index.checked_sub(1).map_or(0, |before| self.slices[before].1)..end))
    }

    /// The numbers of the groups in some places.
    pub(crate) fn numbers(&self, places: Range<usize>) -> &[u32] {
        &self.numbers[places]
    }

    /// What the groups in some places have accumulated: a table, and their entries.
    pub(crate) fn values(&self, places: Range<usize>) -> (&Table, &[u32]) {
        (&self.values, &self.entries[places])
    }

    fn bytes(&self) -> usize {
        self.keys.bytes() + self.values.bytes() + 4 * (self.numbers.capacity() + self.entries.capacity())
    }
}

/// Where a worker adds rows to pieces.
#[derive(Debug)]
pub struct PieceWriter {
    layout: Arc<EntryLayout>,
    groups: SliceGroups,
    source: Arc<()>,
    /// Rows since the table of keys began anew.
    rows: usize,
    filling: Pieces,
    /// Complete, and not taken.
    complete: Vec<Arc<Pieces>>,
    /// All that are or were complete: whoever took them may still read them.
    lent: Vec<Arc<Pieces>>,
}

impl PieceWriter {
    /// Whether pieces can be made of slices of this layout.
    pub fn takes(layout: &EntryLayout) -> bool {
        !matches!(layout.keys(), KeyLayout::None) && !layout.has_references()
    }

    /// No rows yet.
    ///
    /// # Panics
    /// Where [`PieceWriter::takes`] says no.
    pub fn new(layout: Arc<EntryLayout>) -> PieceWriter {
        assert!(PieceWriter::takes(&layout), "pieces are of groups that have keys");
        let (mut groups, source) = (SliceGroups::new(&layout), Arc::new(()));
        let filling = Pieces::new(&layout, groups.table().layout(), source.clone());
        PieceWriter { layout, groups, source, rows: 0, filling, complete: Vec::new(), lent: Vec::new() }
    }

    /// Where the next rows, so many of them, find their groups. All of a slice's must come together.
    pub fn groups(&mut self, rows: usize) -> &mut Table {
        let numbered = self.groups.numbered();
        let is_stale = numbered >= FORGOTTEN_GROUPS_MIN && self.rows >= ROWS_PER_GROUP_MAX * numbered as usize;
        if is_stale || self.groups.used_bytes() > KEY_BYTES_MAX || self.groups.is_exhausted() {
            self.finish();
            self.groups.clear();
            self.source = Arc::new(());
            self.filling.source = self.source.clone();
            self.rows = 0;
        }
        self.rows += rows;
        self.groups.table()
    }

    /// Replaces `entries` of the table of groups, of the rows of a slice, by entries of [`PieceWriter::values`].
    ///
    /// # Panics
    /// Where the slice is not behind the one before, or an entry is none.
    pub fn place(&mut self, slice: SliceId, entries: &mut [u32]) {
        let Pieces { keys, numbers, values, entries: placed, slices, .. } = &mut self.filling;
        assert!(slices.last().is_none_or(|(last, _)| *last < slice), "slices come in their order");
        let (first, units) = (numbers.len(), values.placed_units());
        self.groups.place(entries, units, numbers, keys);
        values.extend_placed(numbers.len() - first);
        placed.extend((placed.len()..numbers.len()).map(|place| place as u32 * units));
        slices.push((slice, numbers.len()));
    }

    /// Where accumulators change.
    pub fn values(&mut self) -> &mut Table {
        &mut self.filling.values
    }

    /// Whether the slice comes behind all that are being filled.
    pub fn is_next(&self, slice: SliceId) -> bool {
        self.filling.slices.last().is_none_or(|(last, _)| *last < slice)
    }

    /// Makes what there is complete.
    fn finish(&mut self) {
        if self.filling.slices.is_empty() {
            return;
        }
        let unread = self.lent.iter().position(|pieces| Arc::strong_count(pieces) == 1);
        let spare = unread.and_then(|at| Arc::into_inner(self.lent.swap_remove(at)));
        let next = match spare {
            Some(mut pieces) => {
                pieces.clear(self.source.clone());
                pieces
            }
            None => Pieces::new(&self.layout, self.groups.table().layout(), self.source.clone()),
        };
        let mut unread = 0;
        self.lent.retain(|pieces| {
            unread += usize::from(Arc::strong_count(pieces) == 1);
            Arc::strong_count(pieces) > 1 || unread <= SPARE_PIECES_MAX
        });
        let complete = Arc::new(std::mem::replace(&mut self.filling, next));
        self.lent.push(complete.clone());
        self.complete.push(complete);
    }

    /// Takes all pieces, those of one source in their order.
    pub fn take(&mut self) -> Vec<Arc<Pieces>> {
        self.finish();
        std::mem::take(&mut self.complete)
    }

    /// Bytes of memory held, by pieces that others read as well.
    pub fn bytes(&self) -> usize {
        let pieces = self.lent.iter().map(|pieces| pieces.bytes()).sum::<usize>();
        pieces + self.filling.bytes() + self.groups.bytes()
    }
}
