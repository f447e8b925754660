//! The columns of a list.

use std::sync::Arc;

use crate::layout::{EntryLayout, Field};
use crate::table::arena::Arena;
use crate::table::region::Region;

/// A list always has room for a multiple of so many groups: columns of any width are aligned then.
const LENGTH_STEP: usize = 4;

/// A list that grows gets room for so much more at least: one of so many parts.
const GROWTH_PART: usize = 2;

/// Columns that arrays share are kept to be used again, so many at most: about as many batches wait to be written.
const LENT_COLUMNS_MAX: usize = 16;

#[derive(Debug)]
pub(in crate::table) struct ListedGroups {
    /// For each value at `offset` of the layout's entries, from byte `offset * capacity` on, as many as there is room for.
    pub(super) columns: Arc<Region>,
    pub(super) capacity: usize,
    pub(super) groups: usize,
    /// Arrays may share the columns: until groups are cleared, which lends the columns to them, nothing changes.
    pub(super) is_shared: bool,
    /// Columns that arrays have shared, and may share still.
    pub(super) lent: Vec<Arc<Region>>,
    /// Keys that lie in the columns of another list.
    pub(super) borrowed: Option<LentKeys>,
    /// Of an entry of the layout so many bytes are its key's.
    pub(super) key_bytes: usize,
    /// How often groups have come or gone.
    pub(super) changes: u64,
    /// Entries whose integer key is NULL, ascending.
    pub(super) nulls: Vec<u32>,
    /// Bytes of long strings that keys point to.
    pub(super) arena: Arena,
}

/// Keys of groups side by side, which lists that have the same may share: none of them changes any more.
#[derive(Debug, Clone)]
pub(crate) struct LentKeys {
    pub(super) columns: Arc<Region>,
    pub(super) capacity: usize,
    /// How many groups they are of.
    pub(crate) groups: usize,
}

impl LentKeys {
    /// Bytes of memory held, with what lies beside the keys.
    pub(crate) fn bytes(&self) -> usize {
        self.columns.bytes()
    }

    /// The column of the keys that entries of the layout have at `offset`.
    pub(in crate::table) fn column(&self, offset: usize) -> *mut u8 {
        self.columns.as_ptr().wrapping_add(offset * self.capacity)
    }
}

impl ListedGroups {
    pub(in crate::table) fn new(layout: &EntryLayout) -> ListedGroups {
        ListedGroups {
            columns: Arc::new(Region::empty()),
            capacity: 0,
            groups: 0,
            is_shared: false,
            lent: Vec::new(),
            borrowed: None,
            key_bytes: layout.key_bytes(),
            changes: 0,
            nulls: Vec::new(),
            arena: Arena::default(),
        }
    }

    /// Where the values lie that entries of the layout have at an offset, where arrays may share them: keys, and accumulators.
    pub(in crate::table) fn shared(&self) -> impl Iterator<Item = &Arc<Region>> {
        let borrowed = self.borrowed.as_ref().map(|keys| &keys.columns);
        let columns = self.is_shared.then_some(&self.columns);
        columns.into_iter().chain(borrowed)
    }

    pub(in crate::table) fn groups(&self) -> usize {
        self.groups
    }

    pub(in crate::table) fn bytes(&self) -> usize {
        let unread = self.lent.iter().filter(|columns| Arc::strong_count(columns) == 1);
        self.columns.bytes() + unread.map(|columns| columns.bytes()).sum::<usize>() + self.arena.bytes()
    }

    /// The column of the values that entries of the layout have at `offset`.
    #[inline(always)]
    pub(in crate::table) fn column(&self, offset: usize) -> *mut u8 {
        if let Some(keys) = self.borrowed.as_ref().filter(|_| offset < self.key_bytes) {
            return keys.column(offset);
        }
        self.columns.as_ptr().wrapping_add(offset * self.capacity)
    }

    pub(in crate::table) fn entries_bytes(&self) -> usize {
        self.columns.bytes()
    }

    pub(in crate::table) fn clear(&mut self) {
        self.groups = 0;
        self.changes += 1;
        self.borrowed = None;
        self.nulls.clear();
        self.arena.clear();
        if std::mem::take(&mut self.is_shared) {
            if self.lent.len() == LENT_COLUMNS_MAX {
                // Whoever reads it keeps it.
                self.lent.remove(0);
            }
            self.lent.push(std::mem::replace(&mut self.columns, Arc::new(Region::empty())));
            self.capacity = 0;
        }
    }

    /// Whether an integer key is NULL.
    pub(in crate::table) fn has_null_keys(&self) -> bool {
        !self.nulls.is_empty()
    }

    /// The integer key of an entry; `None` where it is NULL.
    pub(in crate::table) fn integer_key(&self, entry: u32) -> Option<i64> {
        assert!((entry as usize) < self.groups, "an entry lies within its table");
        if !self.nulls.is_empty() && self.nulls.binary_search(&entry).is_ok() {
            return None;
        }
        // SAFETY: keys are the first column, of eight bytes each, and there is one for each group.
        Some(unsafe { self.column(0).cast::<i64>().add(entry as usize).read() })
    }

    /// Appends `count` groups, whose values the caller must write. Returns the number of the first.
    pub(in crate::table) fn extend(&mut self, layout: &EntryLayout, count: usize) -> usize {
        assert!(!self.is_shared, "nothing changes that arrays share");
        let first = self.groups;
        let has_keys = self.borrowed.as_ref().is_none_or(|keys| first + count <= keys.groups);
        assert!(has_keys, "each group has a key");
        self.changes += u64::from(count > 0);
        if first + count > self.capacity {
            self.grow(layout, (first + count).max(self.capacity + self.capacity / GROWTH_PART));
        }
        self.groups += count;
        first
    }

    /// Makes room for as many groups, or for more where there are columns to be used again.
    #[cold]
    pub(in crate::table) fn grow(&mut self, layout: &EntryLayout, wanted: usize) {
        // Columns need no room between them, as the values of an entry may.
        let width = layout.fields().map(|field| field.offset + field.width).max().unwrap_or(1);
        // What comes next is about as long as what left last.
        let last = self.lent.last().filter(|_| self.capacity == 0).map_or(0, |columns| columns.bytes() / width);
        let mut capacity = wanted.max(last).next_multiple_of(LENGTH_STEP);
        // Whoever read them has done so: this waits for it, which a look at their number would not. What left last is in the cache, if any is.
        let suits = |columns: &mut Arc<Region>| {
            Arc::get_mut(columns).is_some_and(|columns| capacity * width <= columns.bytes())
        };
        let longer = match self.lent.iter_mut().rposition(suits) {
            Some(unread) => self.lent.remove(unread),
            None => Arc::new(Region::zeroed(capacity * width)),
        };
        capacity = longer.bytes() / width / LENGTH_STEP * LENGTH_STEP;
        assert!(longer.bytes() as u64 <= 8 << 32, "a table is limited to 32 GiB");
        let first_own = if self.borrowed.is_some() { self.key_bytes } else { 0 };
        for Field { offset, width } in layout.fields().filter(|field| field.offset >= first_own) {
            // SAFETY: both columns have room for `groups` values of `width` bytes, in different allocations.
            unsafe {
                let to = longer.as_ptr().add(offset * capacity);
                to.copy_from_nonoverlapping(self.column(offset), self.groups * width);
            }
        }
        self.columns = longer;
        self.capacity = capacity;
    }
}
