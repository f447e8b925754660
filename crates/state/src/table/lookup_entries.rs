//! Entries by looked-up row.
//!
//! Where all grouping columns are columns of one looked-up table, the row that was found there says which group a row belongs to. Its
//! entry is found by key once; from then on by the number of the looked-up row, whatever the key's type, without a hash.

use std::sync::{Arc, Weak};

use super::Table;
use super::region::Region;
use crate::join::Bucket;

/// Addresses are kept once this fraction of their number have been asked for: a short slice does not pay for a long table.
const NUMBERS_PER_ROW: usize = 4;

/// Which looked-up rows have which entries.
#[derive(Debug, Clone, Copy)]
pub struct LookupKeys<'a> {
    /// The looked-up table.
    pub bucket: &'a Arc<Bucket>,
    /// Its columns that are the key, in the order of the table's key columns.
    pub columns: &'a [usize],
    /// What numbers its rows.
    pub numbering: Numbering,
    /// Whether rows that found none have a group (whose key is NULL), or count for nothing.
    pub keep_unmatched: bool,
}

/// What numbers looked-up rows. The number after the last stands for rows that found none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// The row.
    Row,
    /// Its place in the dense index: the distance of its key from the smallest.
    Place,
}

impl LookupKeys<'_> {
    /// Numbers that stand for rows.
    pub fn length(&self) -> usize {
        match self.numbering {
            Numbering::Row => self.bucket.columns().num_rows(),
            Numbering::Place => self.bucket.dense().map_or(0, |places| places.length),
        }
    }
}

/// Addresses of the entries of looked-up rows, good until entries move.
#[derive(Debug)]
pub(super) struct LookupEntries {
    /// The looked-up table. Its address is of no other table while it is kept; its rows are freed when the last kernel has another load of the table.
    bucket: Weak<Bucket>,
    columns: Box<[usize]>,
    numbering: Numbering,
    keep_unmatched: bool,
    /// Which entries these are: those since the table's entries moved last.
    moves: u64,
    /// Rows asked for before there were addresses.
    rows: usize,
    /// One address for each number and one more, zero where it is not known; empty before there are any. They are addresses as
    /// machine code reads them, and never followed here.
    addresses: Vec<usize>,
    /// An entry that is none of the table's: what is accumulated here counts for nothing.
    discarded: Region,
}

impl LookupEntries {
    pub(super) fn bytes(&self) -> usize {
        self.addresses.capacity() * size_of::<usize>() + self.discarded.bytes()
    }

    /// Whether these are the entries of these keys.
    fn are_of(&self, keys: &LookupKeys<'_>) -> bool {
        std::ptr::eq(self.bucket.as_ptr(), Arc::as_ptr(keys.bucket))
            && *self.columns == *keys.columns
            && self.numbering == keys.numbering
            && self.keep_unmatched == keys.keep_unmatched
    }

    /// For a table that has forgotten its groups.
    pub(super) fn clear(&mut self) {
        self.rows = 0;
        self.addresses.clear();
    }
}

impl Table {
    /// Whether it is worthwhile to find entries of these looked-up rows by number, now that `rows` more are to be found.
    pub fn keeps_lookup_entries(&mut self, keys: &LookupKeys<'_>, rows: usize) -> bool {
        let slot = self.lookup_slot(keys);
        let lookup = &mut self.lookups[slot];
        lookup.rows = lookup.rows.saturating_add(rows);
        lookup.rows >= keys.length() / NUMBERS_PER_ROW
    }

    /// For each number the address of its entry, zero where it is not known yet; then the same for rows that found none. The
    /// addresses are good for as long as entries are, see [`Table`].
    pub fn lookup_entries(&mut self, keys: &LookupKeys<'_>) -> &[usize] {
        // They would be forgotten with each part of its entries that a table moves.
        self.finish_growth();
        self.lookup_addresses(keys)
    }

    /// Keeps the entries of numbers, found since entries moved last.
    ///
    /// # Panics
    /// Where a number is out of range, or entries are not as many.
    pub fn keep_lookup_entries(&mut self, keys: &LookupKeys<'_>, numbers: &[u32], entries: &[u32]) {
        assert_eq!(numbers.len(), entries.len(), "one entry for each number");
        let base = self.base();
        let addresses = self.lookup_addresses(keys);
        for (&number, &entry) in numbers.iter().zip(entries) {
            addresses[number as usize] = base.wrapping_add(entry as usize * 8).expose_provenance();
        }
    }

    /// Leaves of `numbers` those whose entries are not known, each once. What is accumulated for them counts for nothing unless entries are kept for them.
    ///
    /// # Panics
    /// Where a number is out of range.
    pub fn discard_unknown(&mut self, keys: &LookupKeys<'_>, numbers: &mut Vec<u32>) {
        let (slot, bytes) = (self.lookup_slot(keys), self.layout.stride());
        let discarded = &mut self.lookups[slot].discarded;
        if discarded.bytes() == 0 {
            *discarded = Region::zeroed(bytes);
        }
        let discarded = discarded.as_ptr().expose_provenance();
        let addresses = self.lookup_addresses(keys);
        numbers.retain(|&number| {
            let address = &mut addresses[number as usize];
            let is_unknown = *address == 0;
            if is_unknown {
                *address = discarded;
            }
            is_unknown
        });
    }

    fn lookup_addresses(&mut self, keys: &LookupKeys<'_>) -> &mut [usize] {
        let (slot, moves) = (self.lookup_slot(keys), self.moves());
        let lookup = &mut self.lookups[slot];
        if lookup.moves != moves {
            lookup.addresses.clear();
            lookup.moves = moves;
        }
        lookup.addresses.resize(keys.length() + 1, 0);
        &mut lookup.addresses
    }

    /// The place among those kept, of which there is one for each way in which the pipelines of a window look keys up.
    fn lookup_slot(&mut self, keys: &LookupKeys<'_>) -> usize {
        self.lookups.iter().position(|lookup| lookup.are_of(keys)).unwrap_or_else(|| {
            // Where the table has been loaded again, nobody has the load before.
            self.lookups.retain(|lookup| lookup.bucket.strong_count() > 0);
            self.lookups.push(LookupEntries {
                bucket: Arc::downgrade(keys.bucket),
                columns: keys.columns.into(),
                numbering: keys.numbering,
                keep_unmatched: keys.keep_unmatched,
                moves: self.moves(),
                rows: 0,
                addresses: Vec::new(),
                discarded: Region::empty(),
            });
            self.lookups.len() - 1
        })
    }
}
