//! Groups of one slice: a table of entries, found by key.
//!
//! A key finds its entry column-at-a-time: all keys of a batch are hashed and the lines of their entries fetched ahead, then
//! probed. Entries are numbered in units of eight bytes from [`Table::base`], so that whoever updates accumulators adds an
//! offset of the [`EntryLayout`] and needs to know nothing else.
//!
//! In reading order: [`integer`] (one key of at most eight bytes), [`previous`] (groups of a table's previous layout), [`packed`] (all others), [`grid`] (several integers close together), [`key_shape`] (how these are hashed) and [`pack`] (how they are packed),
//! [`extremes`] (smallest and largest strings), [`arrivals`] (values that came first and last, by their [`positions`]), [`stores`], [`value_lists`], [`sketch`] and [`udaf`] (all values of a group, or what is kept of them),
//! [`lookup_entries`] (groups by looked-up row), [`rows`] (keys of any type), `probing` (what all lookups of keys share), [`hint`] (what a slice's table teaches the next one's), [`chosen`] (which entries are meant), [`strided`] (where entries hold what), [`list`] and [`unkeyed`] (groups in a row, not found by key), [`presence`] (which of them there are), [`sums`] (of lists), [`merge`], [`same_keys`] (single groups found in another table), [`numbering`] (groups of several tables by number), [`counting`] (keys whose rows are counted),
//! [`read_out`] (as Arrow columns, made by [`arrays`]), [`snapshot`]; `hash`, `region`, `stock` (pages ahead of need), `capacity` (how many slots), `spread` (growth) and `arena` are what they stand on.

mod integer;

mod previous;

mod packed;

mod grid;

pub(crate) mod key_shape;

mod pack;

mod extremes;

mod positions;

mod arrivals;

mod stores;

mod value_lists;

mod sketch;

pub(crate) mod udaf;

mod lookup_entries;

mod probing;

mod hint;

mod chosen;

mod strided;

mod list;

mod presence;

mod sums;

mod unkeyed;

mod key_scratch;

mod merge;

mod same_keys;

mod numbering;

mod counting;

mod rows;

mod arrays;

mod read_out;

mod snapshot;

pub(crate) mod hash;

pub(crate) mod region;

mod spread;

mod line;

#[cfg(all(target_os = "linux", not(miri)))]
pub mod stock;

mod capacity;

mod allowance;

mod arena;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

pub(crate) use self::arrays::string_array;
pub use self::chosen::Chosen;
pub(crate) use self::counting::{CompleteSlices, CountedKeys, Remainder};
pub use self::hint::TableHint;
pub use self::integer::{DENSE_LENGTH_MAX, IntegerMode};
pub(crate) use self::key_scratch::KeyScratch;
pub(crate) use self::list::LentKeys;
pub use self::lookup_entries::{LookupKeys, Numbering};
pub(crate) use self::merge::Merging;
pub use self::numbering::GroupNumbers;
pub(crate) use self::numbering::SliceGroups;
pub use self::pack::{KeyRows, pack_keys, widen_keys};
pub use self::positions::Positions;
pub(crate) use self::probing::ABSENT;
pub use self::stores::{Entries, GroupedValues, ValueGroups};
pub(crate) use self::sums::SummedRows;

use self::pack::keys_in_place;
pub use crate::layout::{AccumulatorSlot, EntryLayout, KeyLayout, PackedColumn};
use crate::profile::KeysFound;

use self::allowance::Allowance;
use self::arena::Arena;
use self::grid::Grid;
use self::integer::IntegerGroups;
use self::line::is_cached;
use self::list::ListedGroups;
use self::lookup_entries::LookupEntries;
use self::packed::PackedGroups;
use self::probing::BATCH;
use self::region::Region;
use self::stores::Store;
use self::strided::Strided;
use self::unkeyed::UnkeyedGroups;

/// Rows for whose entries lines are fetched before anyone touches their accumulators, in tables that leave the second-level cache.
const CALL_ROWS: usize = 2048;

/// To go through so many bytes beside an entry takes as long as to do something with the entry.
const BESIDE_BYTES_PER_GROUP: usize = 32;

/// The groups of one slice, as one worker has seen them.
///
/// Entry numbers and pointers are valid until the next call that takes `&mut self` and looks keys up, whether it adds groups or not, or forgets them:
/// `prepare_integers`, `find_or_insert_*`, `merge`, `clear`.
#[derive(Debug)]
pub struct Table {
    layout: Arc<EntryLayout>,
    groups: Groups,
    /// Bytes of the strings that accumulators hold.
    strings: Arena,
    /// What accumulators keep beside their entries; one for each accumulator.
    stores: Vec<Option<Store>>,
    /// Entries by looked-up row.
    lookups: Vec<LookupEntries>,
    /// Whether whoever has it takes groups of a previous layout ([`previous`]).
    may_have_previous: bool,
    /// Groups of its previous layout.
    previous: Option<Box<Table>>,
}

#[derive(Debug)]
enum Groups {
    Single { entry: Region, present: bool },
    // Tables are moved from owner to owner, several times for each slice.
    Integer(Box<IntegerGroups>),
    Packed(Box<PackedGroups>),
    Listed(Box<ListedGroups>),
    Unkeyed(Box<UnkeyedGroups>),
}

impl Table {
    /// An empty table.
    pub fn new(layout: Arc<EntryLayout>) -> Table {
        Table::with_hint(layout, TableHint::default())
    }

    /// An empty table with room for what the table had that gave the hint.
    pub fn with_hint(layout: Arc<EntryLayout>, hint: TableHint) -> Table {
        let groups = match layout.keys() {
            KeyLayout::None => {
                let entry = Region::zeroed(layout.stride());
                // SAFETY: the region is one entry, which is all accumulators.
                unsafe { entry.as_ptr().copy_from_nonoverlapping(layout.initial().as_ptr(), layout.initial().len()) };
                Groups::Single { entry, present: false }
            }
            KeyLayout::Integer { .. } => Groups::Integer(Box::new(IntegerGroups::new(hint))),
            KeyLayout::Packed { .. } => Groups::Packed(Box::new(PackedGroups::new(&layout, hint))),
        };
        Table::of(layout, groups)
    }

    fn of(layout: Arc<EntryLayout>, groups: Groups) -> Table {
        let is_one_group = matches!(groups, Groups::Single { .. });
        let stores = layout.accumulators().iter().map(|slot| Store::new(&slot.accumulator, is_one_group)).collect();
        let (strings, lookups) = (Arena::default(), Vec::new());
        Table { layout, groups, strings, stores, lookups, may_have_previous: false, previous: None }
    }

    /// What this table would have liked to know when it was made.
    pub fn hint(&self) -> TableHint {
        match &self.groups {
            Groups::Integer(groups) => {
                let hint = groups.hint(&self.layout);
                let previous = self.previous.as_ref().map_or(0, |previous| previous.groups_about());
                TableHint { groups: hint.groups + previous, ..hint }
            }
            Groups::Packed(groups) => {
                TableHint { groups: groups.groups(), rows: groups.rows(), ..TableHint::default() }
            }
            Groups::Single { .. } | Groups::Listed(_) | Groups::Unkeyed(_) => {
                TableHint { groups: self.groups(), ..TableHint::default() }
            }
        }
    }

    /// Where entries hold what.
    pub fn layout(&self) -> &Arc<EntryLayout> {
        &self.layout
    }

    /// Groups. Counts them where entries are dense.
    pub fn groups(&self) -> usize {
        match &self.groups {
            Groups::Single { present, .. } => usize::from(*present),
            Groups::Integer(groups) => groups.groups(&self.layout),
            Groups::Packed(groups) => groups.groups(),
            Groups::Listed(groups) => groups.groups(),
            Groups::Unkeyed(groups) => groups.groups(),
        }
    }

    /// Groups, or about as many where entries are dense and there are very many places.
    pub(crate) fn groups_about(&self) -> usize {
        match &self.groups {
            Groups::Integer(groups) => groups.groups_about(&self.layout),
            _ => self.groups(),
        }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let entries = self.bytes_of_entries() + self.previous.as_ref().map_or(0, |previous| previous.bytes());
        if self.lookups.is_empty() && !self.layout.has_references() {
            return entries;
        }
        let lookups: usize = self.lookups.iter().map(LookupEntries::bytes).sum();
        let stores: usize = self.stores.iter().flatten().map(Store::bytes).sum();
        entries + self.strings.bytes() + stores + lookups
    }

    fn bytes_of_entries(&self) -> usize {
        match &self.groups {
            Groups::Single { entry, .. } => entry.bytes(),
            Groups::Integer(groups) => groups.bytes(),
            Groups::Packed(groups) => groups.bytes(),
            Groups::Listed(groups) => groups.bytes(),
            Groups::Unkeyed(groups) => groups.bytes(),
        }
    }

    /// Allows the table to take so many bytes more from now on, when it doubles: where that would not do, it fills up.
    pub fn allow(&mut self, bytes: usize) {
        if let Some(allowance) = self.allowance() {
            allowance.allow(bytes);
        }
    }

    /// Bytes that are left of what was allowed; nothing of tables that do not double.
    pub(crate) fn allowed_bytes(&mut self) -> Option<usize> {
        self.allowance().map(|allowance| allowance.left())
    }

    /// Allows the table to take anything again. Returns what it would have taken, had it been allowed to.
    pub fn settle(&mut self) -> Option<usize> {
        self.allowance().and_then(Allowance::settle)
    }

    fn allowance(&mut self) -> Option<&mut Allowance> {
        match &mut self.groups {
            Groups::Integer(groups) => Some(&mut groups.allowance),
            Groups::Packed(groups) => Some(&mut groups.allowance),
            Groups::Single { .. } | Groups::Listed(_) | Groups::Unkeyed(_) => None,
        }
    }

    /// The smallest and largest integer key that the table was prepared for since it was empty: only these may be touched.
    pub fn prepared_integers(&self) -> Option<(i64, i64)> {
        if let Groups::Integer(groups) = &self.groups { groups.extent() } else { None }
    }

    /// How entries of integer keys are found; `None` before the first is.
    pub fn integer_mode(&self) -> Option<IntegerMode> {
        if let Groups::Integer(groups) = &self.groups { groups.mode() } else { None }
    }

    /// How the entries of integer keys are found, and between which keys where that is assumed of them.
    pub fn keys_found(&self) -> Option<KeysFound> {
        if let Groups::Packed(groups) = &self.groups {
            let places = groups.grid()?.places()?;
            return Some(places.map_or(KeysFound::ByHash, |combinations| KeysFound::Among { combinations }));
        }
        match (self.integer_mode()?, self.prepared_integers()) {
            (IntegerMode::Dense { .. }, Some((first, last))) => Some(KeysFound::Between { first, last }),
            (IntegerMode::Dense { .. }, None) => None,
            (IntegerMode::Hash, _) => Some(KeysFound::ByHash),
        }
    }

    /// How often keys of several integers lay outside of what they were assumed to be among.
    pub fn keys_outside(&self) -> u64 {
        let Groups::Packed(groups) = &self.groups else { return 0 };
        groups.grid().map_or(0, Grid::outside)
    }

    /// Replaces `entries` by the entries of `keys`, in either mode; new keys become groups. `scratch_hashes` is overwritten.
    ///
    /// # Panics
    /// Where the layout's keys are not integer, or a dense table was not prepared for a key.
    pub fn find_or_insert_integers(&mut self, keys: &[i64], entries: &mut Vec<u32>, scratch_hashes: &mut Vec<u64>) {
        let layout = &self.layout;
        let groups = integer_groups(&mut self.groups);
        debug_assert!(groups.is_prepared(keys), "a dense table must be prepared for its keys");
        groups.find_or_insert(layout, keys, entries, scratch_hashes);
    }

    /// The entry of the NULL key, in either mode; it becomes a group. Other entries stay where they are.
    ///
    /// # Panics
    /// Where the layout's keys are not integer.
    pub fn null_entry(&mut self) -> u32 {
        let layout = &self.layout;
        integer_groups(&mut self.groups).entry_of_new_null(layout)
    }

    /// Replaces `entries` by the entries of `rows` packed keys; new keys become groups. `scratch_hashes` is overwritten.
    ///
    /// # Safety
    /// `keys` must come from [`pack_keys`] with this table's layout, and the columns it packed must still be there: keys point to
    /// long strings.
    ///
    /// # Panics
    /// Where the layout's keys are not packed.
    pub unsafe fn find_or_insert_packed(
        &mut self,
        keys: &[u8],
        rows: usize,
        entries: &mut Vec<u32>,
        scratch_hashes: &mut Vec<u64>,
    ) {
        let Groups::Packed(groups) = &mut self.groups else { panic!("the table's keys are not packed") };
        // SAFETY: the caller's promise, passed on.
        unsafe { groups.find_or_insert(&self.layout, keys, rows, entries, scratch_hashes) }
    }

    /// Replaces `entries` by the entries of the keys that `columns` hold in `rows`, for packed keys. The scratch buffers are
    /// overwritten.
    ///
    /// # Panics
    /// Where the layout's keys are not packed, the columns are not of their types, or a row is out of range.
    pub fn find_or_insert_columns(
        &mut self,
        columns: &[ArrayRef],
        rows: KeyRows<'_>,
        entries: &mut Vec<u32>,
        scratch_keys: &mut Vec<u8>,
        scratch_hashes: &mut Vec<u64>,
    ) {
        let Groups::Packed(groups) = &mut self.groups else { panic!("the table's keys are not packed") };
        if let Some(keys) = keys_in_place(&self.layout, columns, &rows) {
            // SAFETY: the keys are what packing would have made of these rows, from columns that are borrowed until after the call.
            return unsafe { groups.find_or_insert(&self.layout, keys, rows.count(), entries, scratch_hashes) };
        }
        let count = rows.count();
        groups.spread_for(&self.layout, count);
        // A dictionary's values are packed for each call: that is worth it for many rows only.
        let coded = columns.iter().any(|column| matches!(column.data_type(), DataType::Dictionary(..)));
        let batch_rows = if coded { count } else { BATCH };
        entries.clear();
        while entries.len() < count {
            let first = entries.len();
            let batch = rows.part(first..count.min(first + batch_rows));
            match groups.append_by_places(&self.layout, columns, &batch, entries, (scratch_keys, scratch_hashes)) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(_) => {
                    groups.grow_once(&self.layout, count);
                    entries.clear();
                    continue;
                }
            }
            pack_keys(&self.layout, columns, batch, scratch_keys);
            let added = scratch_keys.len() / groups.key_width();
            // SAFETY: the keys were just packed with this layout from columns that are borrowed until after the call.
            let found = unsafe { groups.append(&self.layout, scratch_keys, added, entries, scratch_hashes) };
            if found.is_err() {
                groups.grow_once(&self.layout, count);
                // Entries found so far have moved: they are found again.
                entries.clear();
            }
        }
    }

    /// How many rows a caller should find the entries of before it touches their accumulators: with more, a large table's lines would
    /// have left the cache by then.
    pub fn call_rows(&self) -> usize {
        if is_cached(self.entries_bytes()) { usize::MAX } else { CALL_ROWS }
    }

    /// The only entry of a table without keys; it becomes a group.
    ///
    /// # Panics
    /// Where the layout has keys.
    pub fn single_entry(&mut self) -> u32 {
        let Groups::Single { present, .. } = &mut self.groups else { panic!("the table has keys") };
        *present = true;
        0
    }

    /// Entry 0.
    pub fn base(&mut self) -> *mut u8 {
        self.start()
    }

    fn start(&self) -> *mut u8 {
        match &self.groups {
            Groups::Single { entry, .. } => entry.as_ptr(),
            Groups::Integer(groups) => groups.base(),
            Groups::Packed(groups) => groups.base(),
            Groups::Listed(groups) => groups.column(0),
            Groups::Unkeyed(groups) => groups.base(),
        }
    }

    /// Where the table holds the value of `width` bytes that an entry of its layout has at `offset`.
    #[inline(always)]
    fn place(&self, offset: usize, width: usize) -> Strided {
        if let Groups::Listed(list) = &self.groups {
            let column = list.column(offset);
            return Strided::new(column, width, width, list.groups() * width);
        }
        if let Groups::Unkeyed(groups) = &self.groups {
            assert!(offset >= groups.skipped(), "groups in their places have no keys");
        }
        let room = self.entries_bytes().saturating_sub(offset);
        Strided::new(self.start().wrapping_add(offset), 8, width, room)
    }

    /// The address of an accumulator of an entry in use.
    #[inline(always)]
    fn accumulator_address(&self, slot: &AccumulatorSlot, entry: u32) -> *mut u8 {
        self.place(slot.offset, slot.width).address(entry)
    }

    /// Dense tables: one byte for each entry, to be set to 1 when a row reaches it and [`EntryLayout::use_word`] does not show that. Null otherwise.
    pub fn dense_present(&mut self) -> *mut u8 {
        if let Groups::Integer(groups) = &mut self.groups { groups.present() } else { std::ptr::null_mut() }
    }

    /// The entries in use, as numbers.
    pub fn entry_offsets(&self) -> Vec<u32> {
        let mut entries = Vec::new();
        self.push_entries(0..self.slots(), &mut entries);
        entries
    }

    /// Places that an entry may be in.
    pub fn slots(&self) -> usize {
        match &self.groups {
            Groups::Single { .. } => 1,
            Groups::Integer(groups) => groups.slots(),
            Groups::Packed(groups) => groups.slots(&self.layout),
            Groups::Listed(groups) => groups.groups(),
            Groups::Unkeyed(groups) => groups.groups(),
        }
    }

    /// Appends the entries in use that are in some of the [`Table::slots`], as numbers.
    ///
    /// # Panics
    /// Where there are fewer slots.
    pub fn push_entries(&self, slots: Range<usize>, entries: &mut Vec<u32>) {
        match &self.groups {
            Groups::Single { present, .. } => entries.extend((*present && slots.contains(&0)).then_some(0)),
            Groups::Integer(groups) => groups.push_entries(&self.layout, slots, entries),
            Groups::Packed(groups) => groups.push_entries(&self.layout, slots, entries),
            Groups::Listed(_) => entries.extend(slots.map(|slot| slot as u32)),
            Groups::Unkeyed(_) => entries.extend(slots.map(|slot| slot as u32 * self.unkeyed_units())),
        }
    }

    /// How much more it is to do something with a group than with one that has nothing beside its entry: in multiples of that.
    pub(crate) fn work_per_group(&self) -> usize {
        let beside: usize = self.stores.iter().flatten().map(Store::bytes).sum();
        if beside == 0 {
            // To count groups may take a look at each.
            return 1;
        }
        1 + beside / (self.groups_about().max(1) * BESIDE_BYTES_PER_GROUP)
    }

    /// Forgets all groups and keeps the memory, as far as it was used.
    pub fn clear(&mut self) {
        while !self.clear_part(usize::MAX) {}
    }

    /// As [`Table::clear`], about so many bytes of entries at most, its own or those of a set: whether all has been forgotten. Until then nothing else may be done with
    /// the table.
    pub fn clear_part(&mut self, bytes_max: usize) -> bool {
        if !self.clear_references_part(bytes_max) {
            return false;
        }
        let initial = self.layout.initial();
        let is_clear = match &mut self.groups {
            Groups::Single { entry, present } => {
                *present = false;
                // SAFETY: the region is one entry, which is all accumulators.
                unsafe { entry.as_ptr().copy_from_nonoverlapping(initial.as_ptr(), initial.len()) };
                true
            }
            Groups::Integer(groups) => groups.clear(&self.layout, bytes_max),
            Groups::Packed(groups) => groups.clear(&self.layout, bytes_max),
            Groups::Listed(groups) => {
                groups.clear();
                true
            }
            Groups::Unkeyed(groups) => {
                groups.clear();
                true
            }
        };
        if is_clear {
            self.lookups.iter_mut().for_each(LookupEntries::clear);
            self.previous = None;
        }
        is_clear
    }

    /// Forgets what accumulators refer to.
    fn clear_references(&mut self) {
        while !self.clear_references_part(usize::MAX) {}
    }

    /// The same, about so many bytes of sets at most: whether all has been forgotten.
    fn clear_references_part(&mut self, bytes_max: usize) -> bool {
        if !self.layout.has_references() {
            return true;
        }
        self.strings.clear();
        self.stores.iter_mut().flatten().all(|store| store.clear(bytes_max))
    }

    /// Moves all entries at once that are to be moved since the table has grown, for whoever wants to know where they are for longer.
    pub(crate) fn finish_growth(&mut self) {
        while !self.finish_growth_part(usize::MAX) {}
    }

    /// The same for the entries in so many slots, or somewhat more: whether all have been moved.
    pub(crate) fn finish_growth_part(&mut self, slots_max: usize) -> bool {
        match &mut self.groups {
            Groups::Single { .. } | Groups::Listed(_) | Groups::Unkeyed(_) => true,
            Groups::Integer(groups) => !groups.grow_part(&self.layout, slots_max),
            Groups::Packed(groups) => !groups.spread(&self.layout, slots_max),
        }
    }

    /// How often entries have moved.
    pub(crate) fn moves(&self) -> u64 {
        match &self.groups {
            Groups::Single { .. } | Groups::Listed(_) | Groups::Unkeyed(_) => 0,
            Groups::Integer(groups) => groups.moves(),
            Groups::Packed(groups) => groups.moves(),
        }
    }
}

fn integer_groups(groups: &mut Groups) -> &mut IntegerGroups {
    if let Groups::Integer(groups) = groups { groups } else { panic!("the table's keys are not integers") }
}
