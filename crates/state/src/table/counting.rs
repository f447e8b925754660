//! Keys whose rows are counted: each slice of a key's rows has a place in another table, where they are accumulated, until it has all of its rows.
//!
//! What a batch of rows changes is found in two steps, each over all of them: the entries of their keys, and the places of the slices that are open
//! there. A key whose slice is complete has another place from its next row on, so that rows in front of and behind the end of a window are
//! accumulated together.

use std::ops::Range;

use pelton_data::aggregate::Accumulator;

use super::strided::Strided;
use super::{Chosen, KeyScratch, Table};
use crate::layout::EntryLayout;

/// Keys that have come no more often than this are worth no look at which of them could be dropped.
const DROPPED_KEYS_MIN: usize = 1024;

/// Keys are dropped when so many rows have come for each of them since that was done last: those that come again must be found room for.
const ROWS_PER_KEY_MIN: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct CountedKeys {
    /// Each key with two words. The first is how many rows its open slice lacks, or, where none is open, how many slices it has had, below zero. The
    /// second holds the place of the open slice, and behind it what [`CountedKeys::set_mark`] keeps.
    table: Table,
    /// Rows of a slice.
    rows: i64,
    /// By place: which of its key's slices is there.
    numbers: Vec<i64>,
    /// Places without a slice. The last is taken first: it is in the cache.
    free: Vec<u32>,
    /// Slices that are open.
    open: usize,
    /// Rows since keys were dropped.
    rows_since: usize,
    /// When there are so many, keys are counted: some may be dropped.
    rows_until_look: usize,
}

/// Slices that have all of their rows, in the order of these.
#[derive(Debug, Default)]
pub(crate) struct CompleteSlices {
    /// The entries of their keys, until keys are looked up.
    pub keys: Vec<u32>,
    pub places: Vec<u32>,
    /// Which of the key's slices, from 0 on.
    pub numbers: Vec<i64>,
}

/// What a key has that is not complete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remainder {
    pub key: u32,
    /// Slices that are complete, or were.
    pub complete: i64,
    /// The place of the next one, where it has a row.
    pub open: Option<u32>,
    /// Rows that this one lacks.
    pub lacking: i64,
    pub mark: u32,
}

impl CompleteSlices {
    fn push(&mut self, key: u32, place: u32, number: i64) {
        self.keys.push(key);
        self.places.push(place);
        self.numbers.push(number);
    }

    pub fn clear(&mut self) {
        self.keys.clear();
        self.places.clear();
        self.numbers.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

impl CountedKeys {
    /// No key has come. Slices have so many rows, and keys are those of the layout.
    pub fn new(layout: &EntryLayout, rows: i64) -> CountedKeys {
        let words = [Accumulator::counting_rows(), Accumulator::counting_rows()];
        let keys = EntryLayout::new(layout.key_columns(), &words).with_dense_keys(layout.dense_keys());
        CountedKeys {
            table: Table::new(keys),
            rows,
            numbers: Vec::new(),
            free: Vec::new(),
            open: 0,
            rows_since: 0,
            rows_until_look: ROWS_PER_KEY_MIN * DROPPED_KEYS_MIN,
        }
    }

    /// Where rows find the entries of their keys.
    pub fn table(&mut self) -> &mut Table {
        &mut self.table
    }

    /// The keys.
    pub fn known(&self) -> &Table {
        &self.table
    }

    /// Gives a new key slices that are complete, and one that is open: how many rows that lacks, and its place.
    pub fn resume(&mut self, key: u32, complete: i64, open: Option<(i64, u32)>) {
        let words = self.words().address(key).cast::<i64>();
        let (lacking, place) = open.unwrap_or((-complete, 0));
        // SAFETY: it is the address of two words of eight bytes; nobody else has access to the table.
        unsafe {
            words.write_unaligned(lacking);
            words.add(1).cast::<u32>().write_unaligned(place);
        }
        if open.is_some() {
            self.numbers[place as usize] = complete;
            self.open += 1;
        }
    }

    /// Places in all.
    pub fn places(&self) -> usize {
        self.numbers.len()
    }

    /// Makes sure that so many slices can be opened: how many places there are more than before.
    pub fn reserve(&mut self, slices: usize) -> usize {
        let before = self.numbers.len();
        let missing = slices.saturating_sub(self.free.len());
        let places = u32::try_from(before + missing).expect("places have 32-bit numbers");
        self.numbers.resize(places as usize, 0);
        // What was there before is taken first.
        self.free.splice(0..0, (before as u32..places).rev());
        missing
    }

    /// Replaces `entries` of the table, of the keys of the next rows, by the places of the slices that the rows belong to, in units of `units`. The
    /// slices that are complete with them are appended to `complete`.
    ///
    /// # Panics
    /// Where an entry is none of the table, or places are missing: see [`CountedKeys::reserve`].
    pub fn place(&mut self, entries: &mut [u32], units: u32, complete: &mut CompleteSlices) {
        assert!(self.free.len() >= entries.len(), "each row may open a slice");
        self.rows_since += entries.len();
        let words = self.words().of(entries);
        for entry in entries {
            // SAFETY: the entry is one of those that the place was asked for, where there are two words of eight bytes; nobody else has access to
            // the table.
            unsafe {
                let lacking = words.address(*entry).cast::<i64>();
                let held = lacking.add(1).cast::<u32>();
                let rows = lacking.read_unaligned();
                let place = if rows > 1 {
                    lacking.write_unaligned(rows - 1);
                    held.read_unaligned()
                } else {
                    let (rows, place) = self.turn(*entry, rows, held.read_unaligned(), complete);
                    lacking.write_unaligned(rows);
                    held.write_unaligned(place);
                    place
                };
                *entry = place * units;
            }
        }
    }

    /// The first row of a slice, or the last one. Returns the key's first word behind it, and the slice's place.
    #[inline]
    fn turn(&mut self, key: u32, lacking: i64, held: u32, complete: &mut CompleteSlices) -> (i64, u32) {
        let (number, place) = if lacking == 1 {
            self.open -= 1;
            (self.numbers[held as usize], held)
        } else {
            let (number, place) = (-lacking, self.free.pop().expect("each row may open a slice"));
            if self.rows > 1 {
                self.numbers[place as usize] = number;
                self.open += 1;
                return (self.rows - 1, place);
            }
            (number, place)
        };
        complete.push(key, place, number);
        (-(number + 1), place)
    }

    /// A place for something else than a key's rows.
    ///
    /// # Panics
    /// Where there is none: see [`CountedKeys::reserve`].
    pub fn take_place(&mut self) -> u32 {
        self.free.pop().expect("places are reserved")
    }

    /// Takes places back whose slices nobody needs any more.
    pub fn free(&mut self, places: impl IntoIterator<Item = u32>) {
        self.free.extend(places);
    }

    /// Places without a slice.
    pub fn free_places(&self) -> &[u32] {
        &self.free
    }

    /// What [`CountedKeys::set_mark`] gave a key last; 0 where it did not.
    pub fn mark(&self, key: u32) -> u32 {
        let words = self.words().address(key).cast::<u32>();
        // SAFETY: it is the address of two words of eight bytes.
        unsafe { words.add(3).read_unaligned() }
    }

    /// Keeps a number beside a key.
    pub fn set_mark(&mut self, key: u32, mark: u32) {
        let words = self.words().address(key).cast::<u32>();
        // SAFETY: it is the address of two words of eight bytes; nobody else has access to the table.
        unsafe { words.add(3).write_unaligned(mark) };
    }

    /// What the keys of some of the table's slots have that is not complete.
    pub fn remainders(&self, slots: Range<usize>) -> Vec<Remainder> {
        let mut entries = Vec::new();
        self.table.push_entries(slots, &mut entries);
        let words = self.words();
        let remainder = |key| {
            let words = words.address(key);
            // SAFETY: it is the address of two words of eight bytes.
            let (rows, place) =
                unsafe { (words.cast::<i64>().read_unaligned(), words.cast::<u32>().add(2).read_unaligned()) };
            let (complete, open) = if rows > 0 { (self.numbers[place as usize], Some(place)) } else { (-rows, None) };
            Remainder { key, complete, open, lacking: rows.max(0), mark: self.mark(key) }
        };
        entries.into_iter().map(remainder).collect()
    }

    /// Forgets keys of which no slice is open, where these are not few and that is worth it. What slices they have had is forgotten, too.
    pub fn drop_complete(&mut self) {
        if self.rows_since < self.rows_until_look {
            return;
        }
        let keys = self.table.groups();
        self.rows_until_look = ROWS_PER_KEY_MIN * keys.max(DROPPED_KEYS_MIN);
        if self.rows_since < self.rows_until_look {
            return;
        }
        self.rows_since = 0;
        if keys < DROPPED_KEYS_MIN || self.open * 4 > keys * 3 {
            return;
        }
        let remaining = self.remainders(0..self.table.slots());
        let from: Vec<u32> = remaining.iter().filter(|key| key.open.is_some()).map(|key| key.key).collect();
        let mut table = Table::new(self.table.layout().clone());
        let mut to = Vec::new();
        table.entries_of(&self.table, Chosen::Listed(&from), &mut to, &mut KeyScratch::default());
        table.add_at(&self.table, &from, &to);
        self.table = table;
    }

    /// Whether any slice is open.
    pub fn has_open(&self) -> bool {
        self.open > 0
    }

    /// Where entries have both words.
    fn words(&self) -> Strided {
        let [lacking, held] = self.table.layout().accumulators() else { unreachable!("there are two words") };
        assert_eq!(held.offset, lacking.offset + lacking.width, "the words lie side by side");
        self.table.place(lacking.offset, lacking.width + held.width)
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.table.bytes() + 8 * self.numbers.capacity() + 4 * self.free.capacity()
    }
}
