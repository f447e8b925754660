//! Single groups of one table that are found in another, and leave it.

use super::{ABSENT, Groups, Table};
use crate::layout::EntryLayout;

impl Table {
    /// The entries here of the keys that some entries of another table have, or [`ABSENT`].
    ///
    /// # Panics
    /// Where the keys differ in their layout, an entry is out of range, or this table is a list.
    pub(crate) fn find_entries_of(&self, other: &Table, from: &[u32]) -> Vec<u32> {
        assert!(self.layout.keys() == other.layout.keys(), "tables that are combined have the same keys");
        let mut entries = Vec::new();
        match &self.groups {
            Groups::Single { present, .. } => entries.resize(from.len(), if *present { 0 } else { ABSENT }),
            Groups::Integer(groups) => {
                let keys: Vec<Option<i64>> = from.iter().map(|&entry| other.integer_key(entry)).collect();
                let known: Vec<i64> = keys.iter().flatten().copied().collect();
                groups.find(&self.layout, &known, &mut entries);
                if let Some(at) = keys.iter().position(Option::is_none) {
                    // Entries of one table have different keys, so that one at most is NULL.
                    entries.insert(at, groups.null(&self.layout).unwrap_or(ABSENT));
                }
            }
            Groups::Packed(groups) => {
                let mut keys = Vec::new();
                other.copy_packed_keys(from.into(), &mut keys);
                // SAFETY: the keys are those of a table with the same layout of keys, which is there until after the call.
                unsafe { groups.find(&keys, from.len(), &mut entries, &mut Vec::new()) };
            }
            Groups::Listed(_) | Groups::Unkeyed(_) => panic!("nothing is found in a list"),
        }
        entries
    }

    /// Makes the accumulators of some entries what they are before any value. The groups stay.
    ///
    /// # Panics
    /// Where an entry is out of range.
    pub(crate) fn reset_entries(&mut self, entries: &[u32]) {
        let layout: &EntryLayout = &self.layout;
        let initial = layout.initial();
        let offset = layout.key_bytes();
        for &entry in entries {
            let at = entry as usize * 8 + offset;
            assert!(at + initial.len() <= self.entries_bytes(), "an entry lies within its table");
            // SAFETY: the entry's accumulators lie within the table's memory, as just checked, and the table is borrowed mutably.
            unsafe { self.start().add(at).copy_from_nonoverlapping(initial.as_ptr(), initial.len()) };
        }
        // What is kept of the only group is not told apart by group. Of one among several it is out of reach, and goes with the table.
        if matches!(self.groups, Groups::Single { .. }) && !entries.is_empty() {
            self.clear_references();
        }
    }
}
