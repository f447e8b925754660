//! The structs that machine code reads and writes.
//!
//! The compiler emits loads and stores at these structs' field offsets (`std::mem::offset_of!`), and the engine fills
//! them before each call: this module is the only place where both meet. All pointers are borrowed for one call.

/// One column as machine code sees it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ColumnPointer {
    /// Row 0's value, code, view or bit; see [`crate::column::values_ptr`].
    pub values: *const u8,
    /// Row 0's validity bit, one for valid. Never null where the column may hold NULLs: a column without a validity
    /// buffer gets a constant run of ones.
    pub validity: *const u8,
}

/// One output column: room for as many rows as the call has selected.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct OutputPointer {
    /// Where row 0's value goes. Booleans are written as a byte a row and packed afterwards.
    pub values: *mut u8,
    /// Where row 0's validity byte goes (1 for valid), or null where the column cannot be NULL.
    pub validity: *mut u8,
}

/// The dense table of one of several slices.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SliceTable {
    /// The entry of the key `dense_base`; null where the slice has no row in the call.
    pub entries: *mut u8,
    /// Its byte, as [`CallFrame::dense_present`] has one.
    pub present: *mut u8,
}

/// Everything one call of a compiled function reads and writes.
#[repr(C)]
#[derive(Debug)]
pub struct CallFrame {
    /// The block's columns in block order, then those of looked-up tables, both by row; then those computed outside (by
    /// DataFusion), by position.
    pub columns: *const ColumnPointer,
    /// Row numbers to visit, ascending, or null to visit `first..first + count`.
    pub selection: *const u32,
    /// One pointer for each lookup before this function: for each visited position the row of the looked-up table, or
    /// `u32::MAX` where there was no match.
    pub lookup_rows: *const *const u32,
    /// First row where there is no selection.
    pub first: u64,
    /// How many positions to visit.
    pub count: u64,
    /// Where to resume: positions before this one are done. Updated when a call exits early.
    pub position: u64,
    /// Added to each value of the event-time column, in its ticks.
    pub time_shift_ticks: i64,
    /// For aggregation by hash: for each visited position, the byte offset of its entry divided by the entry's alignment unit (8).
    pub entries: *const u32,
    /// Entry 0 of the table.
    pub table: *mut u8,
    /// Dense tables and indexes: the key of entry 0.
    pub dense_base: i64,
    /// Dense tables and indexes: number of entries; for tables a key outside `base..base + length` is a side exit.
    pub dense_length: u64,
    /// Dense tables: one byte an entry, set to 1 when a row reached it.
    pub dense_present: *mut u8,
    /// For rows of several slices: for each row of the block, from row 0 on, which of `slice_tables` is its slice's. These take the place of `table` and
    /// `dense_present`, and all have entries for the same keys.
    pub slice_numbers: *const u8,
    /// The tables of the slices.
    pub slice_tables: *const SliceTable,
    /// For aggregation by looked-up row: the address of the entry of each number, then of rows that found none; zero where it
    /// is not known yet, which is a side exit. Numbers are rows of the looked-up table, or distances of a key from
    /// `dense_base`; there are `dense_length`.
    pub lookup_entries: *const usize,
    /// Where output columns go.
    pub outputs: *const OutputPointer,
    /// Where a predicate's survivors go: at most `count` row numbers, or positions once there was a lookup.
    pub survivors: *mut u32,
    /// How many survivors were written.
    pub survivor_count: u64,
}

/// Why a compiled function came back.
#[repr(u64)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// All positions are done.
    Done = 0,
    /// The key at `position` lies outside the dense table: widen it, or change to hashing, and call again.
    KeyOutOfRange = 1,
    /// An expression at `position` has no value (division by zero): evaluating it outside says which and why.
    RowFailed = 2,
    /// The entry of the row that `position` looked up is not known: find it by key, and call again.
    EntryUnknown = 3,
}
