//! Where the entries of a table hold a value.

use std::ptr::NonNull;
use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::ArrowNativeType;

use super::chosen::Chosen;
use super::region::Region;

/// Where the entries of a table hold one value: at the same distance from each other, in units of what entries are numbered by.
#[derive(Clone, Copy)]
pub(super) struct Strided {
    /// Address of the value in entry 0.
    start: *mut u8,
    step: usize,
    width: usize,
    /// Bytes from `start` on that are the table's.
    room: usize,
}

impl Strided {
    /// Of values of `width` bytes, the first at `start` and each `step` units behind the one before, in `room` bytes that are the table's.
    #[inline(always)]
    pub(super) fn new(start: *mut u8, step: usize, width: usize, room: usize) -> Strided {
        Strided { start, step, width, room }
    }

    /// Bytes of the value.
    pub(super) fn width(self) -> usize {
        self.width
    }

    /// A part of the value.
    pub(super) fn part(self, offset: usize, width: usize) -> Strided {
        assert!(offset + width <= self.width, "a part lies within its value");
        Strided { start: self.start.wrapping_add(offset), width, room: self.room.saturating_sub(offset), ..self }
    }

    /// The value of each entry, which is an integer or holds no other: no address.
    pub(super) fn gather<T: ArrowNativeType>(self, entries: Chosen<'_>) -> Vec<T> {
        assert_eq!(self.width, size_of::<T>(), "values have the width of their type");
        match entries {
            Chosen::Neighbours { first, count } if self.step == self.width => {
                let values = self.neighbours(first, count).cast::<T>();
                // SAFETY: as many values lie side by side from there on, aligned as columns of lists are, and may have any bits.
                unsafe { std::slice::from_raw_parts(values, count) }.to_vec()
            }
            Chosen::Neighbours { .. } => {
                // SAFETY: the value lies within its table, and may have any bits.
                entries.iter().map(|entry| unsafe { self.address(entry).cast::<T>().read_unaligned() }).collect()
            }
            Chosen::Listed(entries) => {
                let place = self.of(entries);
                // SAFETY: as above; the entry is one of those that were asked for.
                entries.iter().map(|&entry| unsafe { place.address(entry).cast::<T>().read_unaligned() }).collect()
            }
        }
    }

    /// The values of neighbours as they lie, where they lie side by side in `columns`, of which the table must say that they are shared.
    pub(super) fn share(self, entries: Chosen<'_>, columns: &Arc<Region>) -> Option<Buffer> {
        let Chosen::Neighbours { first, count } = entries else { return None };
        // Parts of values have others between them.
        let values = NonNull::new(if self.step == self.width { self.neighbours(first, count) } else { return None })?;
        let start = (values.as_ptr() as usize).checked_sub(columns.as_ptr() as usize)?;
        if start + count * self.width > columns.bytes() {
            return None;
        }
        // SAFETY: so many bytes lie within the columns from there on, as just checked, which live as long as the buffer. They were all written, and
        // nobody changes them: a list says that columns are shared until it has given them up, and then takes them back when nobody else has them.
        Some(unsafe { Buffer::from_custom_allocation(values, count * self.width, columns.clone()) })
    }

    /// The address of the value in an entry, all of which lies within the table.
    #[inline(always)]
    pub(super) fn address(self, entry: u32) -> *mut u8 {
        let at = entry as usize * self.step;
        assert!(at + self.width <= self.room, "an entry lies within its table");
        // SAFETY: the value lies within the table's memory, as just checked.
        unsafe { self.start.add(at) }
    }

    /// The place for some entries, all of which lie within the table: to check them at once costs less than one by one.
    pub(super) fn of(self, entries: &[u32]) -> CheckedStrided {
        let last = entries.iter().fold(0, |last, &entry| last.max(entry)) as usize;
        let is_within = last * self.step + self.width <= self.room;
        assert!(is_within || entries.is_empty(), "an entry lies within its table");
        CheckedStrided { start: self.start, step: self.step }
    }

    /// The address of the first of the values of neighbours, which lie side by side, all within the table.
    #[inline(always)]
    pub(super) fn neighbours(self, first: usize, count: usize) -> *mut u8 {
        assert!(self.step == self.width, "only the groups of a list are neighbours");
        assert!((first + count) * self.width <= self.room, "an entry lies within its table");
        // SAFETY: the values lie within the table's memory, as just checked.
        unsafe { self.start.add(first * self.width) }
    }
}

/// A [`Strided`] of entries that all lie within their table.
#[derive(Clone, Copy)]
pub(super) struct CheckedStrided {
    start: *mut u8,
    step: usize,
}

impl CheckedStrided {
    /// The address of the value in an entry.
    ///
    /// # Safety
    /// The entry must be one of those that the place was asked for.
    #[inline(always)]
    pub(super) unsafe fn address(self, entry: u32) -> *mut u8 {
        // SAFETY: the value lies within the table's memory, as was checked for all of the entries.
        unsafe { self.start.add(entry as usize * self.step) }
    }
}
