//! Numbers for the groups of several tables: a group that has one is found by its key once for each table, and then combined
//! with itself in any of them without a look at the key.

use std::sync::Arc;

use pelton_data::aggregate::Accumulator;

use super::merge::KeyScratch;
use super::{Chosen, Table};
use crate::layout::EntryLayout;

/// The entries that groups have in lists ([`Table::list`]) of one layout, in the order in which their keys were first seen.
#[derive(Debug)]
pub struct GroupNumbers {
    /// Holds each key, and how many were seen up to its first.
    table: Table,
    groups: usize,
    /// Buffers that are reused.
    found: Vec<u32>,
    scratch: KeyScratch,
}

impl GroupNumbers {
    /// No group has a number. Tables will have the keys of this layout.
    pub fn new(layout: &EntryLayout) -> GroupNumbers {
        let order = Accumulator::counting_rows();
        GroupNumbers {
            table: Table::new(EntryLayout::new(layout.key_columns(), &[order])),
            groups: 0,
            found: Vec::new(),
            scratch: KeyScratch::default(),
        }
    }

    /// Replaces `listed` by the entries that the groups of a table's `entries` have in lists, and `new` by those of `entries` whose
    /// groups had none: these follow the last that there was.
    ///
    /// # Panics
    /// Where the table's keys are others, or an entry is not in use.
    pub fn assign(&mut self, table: &Table, entries: Chosen<'_>, listed: &mut Vec<u32>, new: &mut Vec<u32>) {
        let mut found = std::mem::take(&mut self.found);
        self.table.entries_of(table, entries, &mut found, &mut self.scratch);
        listed.clear();
        new.clear();
        let layout = Arc::clone(self.table.layout());
        let slot = &layout.accumulators()[0];
        let order_place = self.table.place(slot.offset, slot.width);
        for (&entry, from) in found.iter().zip(entries.iter()) {
            let order = order_place.address(entry).cast::<i64>();
            // SAFETY: it is the address of a count, of eight bytes.
            let mut number = unsafe { order.read_unaligned() };
            if number == 0 {
                self.groups += 1;
                number = self.groups as i64;
                // SAFETY: as above.
                unsafe { order.write_unaligned(number) };
                new.push(from);
            }
            listed.push(number as u32 - 1);
        }
        self.found = found;
    }

    /// Takes all numbers back.
    pub fn clear(&mut self) {
        self.table.clear();
        self.groups = 0;
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }
}
