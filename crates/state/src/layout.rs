//! What one entry of a table holds: a key, then accumulators.
//!
//! Compiled code, interpreted primitives, merging and reading out all follow this one layout, so that a pipeline can
//! change its tier between two blocks without touching its state.

use std::sync::Arc;

use arrow::datatypes::DataType;
use pelton_data::aggregate::{Accumulate, Accumulator, KeyColumn};

use crate::aggregates::{Aggregate, STATE_BYTES_MAX, Visitor, visit};

/// Set in the byte at [`PackedColumn::null_offset`] where the key is NULL.
pub const NULL_BIT: u8 = 0x80;

/// The state of a string before there is one, as one number: [`NULL_BIT`] is set in its length.
const NO_STRING: u128 = (NULL_BIT as u128) << 24;

/// Bytes of the position before the value that came first or last.
pub(crate) const POSITION_WIDTH: usize = 8;

/// Bytes of the number of a group in a store.
const STORE_NUMBER_WIDTH: usize = 4;

/// Bytes before the key of a packed entry: its hash, which is never zero in an entry that is in use.
pub(crate) const PACKED_HEADER: usize = 8;

/// Where an entry holds what.
///
/// | key | entry |
/// |---|---|
/// | none | accumulators |
/// | integer | key (8 bytes; absent in dense tables, see [`EntryLayout::dense_stride`]), accumulators |
/// | packed | hash (8 bytes), packed key, accumulators |
#[derive(Debug, Clone, PartialEq)]
pub struct EntryLayout {
    key_columns: Vec<KeyColumn>,
    keys: KeyLayout,
    key_fields: Vec<Field>,
    accumulators: Vec<AccumulatorSlot>,
    key_bytes: usize,
    stride: usize,
    initial: Vec<u8>,
    use_word: Option<UseWord>,
    dense_keys: DenseKeys,
    /// Layouts that have the same one accumulate the same.
    accumulates: Arc<()>,
    has_references: bool,
    /// That of layouts with one accumulator less, the last.
    accumulates_more_than: Option<Arc<()>>,
}

/// When integer keys have entries side by side, so that a key says where its entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DenseKeys {
    /// Where they lie close together for as many as they are.
    #[default]
    WhereClose,
    /// Wherever a table may be so long.
    WherePossible,
    /// Nowhere: all are found by hash.
    Never,
}

/// A word of an entry of a dense table that is seldom what it was at first once a row has reached the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UseWord {
    /// First byte inside the entry.
    pub offset: usize,
    /// What it holds at first.
    pub initial: u64,
}

/// A value that every entry holds, of a key or of an accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    /// First byte inside the entry.
    pub(crate) offset: usize,
    /// Bytes.
    pub(crate) width: usize,
}

/// How the grouping columns form a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyLayout {
    /// No grouping: one entry.
    None,
    /// One column of at most eight bytes without a fraction, widened to 64 bits (unsigned ones by their bits).
    Integer {
        /// Type of the column.
        data_type: DataType,
        /// Whether NULLs occur; they have an entry of their own.
        nullable: bool,
    },
    /// Any other columns, side by side in fixed places.
    Packed {
        /// Bytes of a packed key, a multiple of 8; bytes that belong to no column are zero.
        width: usize,
        /// In the order of the key columns, wherever they are placed.
        columns: Vec<PackedColumn>,
    },
}

/// Where a packed key holds one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedColumn {
    /// Type of the column.
    pub data_type: DataType,
    /// First byte inside the packed key.
    pub offset: usize,
    /// Bytes. Strings take 16: length (`u32`), then the bytes themselves and zeros where they are at most 12, else the
    /// first four and the address of the whole.
    pub width: usize,
    /// The byte inside the packed key that has [`NULL_BIT`] set where the column is NULL (its other bytes are zero then). For
    /// strings it is the highest byte of the length.
    pub null_offset: Option<usize>,
}

/// Where an entry holds one accumulator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccumulatorSlot {
    /// What it accumulates.
    pub accumulator: Accumulator,
    /// First byte inside the entry. A multiple of the width, or of 8 where the width is more.
    pub offset: usize,
    /// Bytes: 1, 2, 4, 8, 16 or 24.
    pub width: usize,
}

impl EntryLayout {
    /// The layout of entries with these keys and accumulators.
    ///
    /// # Panics
    /// Where a type is none that blocks hold: planning refuses such queries.
    pub fn new(keys: &[KeyColumn], accumulators: &[Accumulator]) -> Arc<EntryLayout> {
        let key_layout = key_layout(keys);
        let key_bytes = match &key_layout {
            KeyLayout::None => 0,
            KeyLayout::Integer { .. } => 8,
            KeyLayout::Packed { width, .. } => PACKED_HEADER + width,
        };
        let (slots, end) = place_accumulators(accumulators, key_bytes);
        let mut initial = vec![0; end - key_bytes];
        for slot in &slots {
            let at = slot.offset - key_bytes;
            initial[at..at + slot.width].copy_from_slice(&initial_state(&slot.accumulator)[..slot.width]);
        }
        let (key_columns, key_fields) = (keys.to_vec(), key_fields(&key_layout));
        Arc::new(EntryLayout {
            key_columns,
            keys: key_layout,
            key_fields,
            has_references: accumulators.iter().any(Accumulator::has_reference),
            use_word: use_word(&slots),
            accumulators: slots,
            key_bytes,
            stride: if key_bytes == 0 { end } else { stride_of(end) },
            initial,
            dense_keys: DenseKeys::default(),
            accumulates: Arc::new(()),
            accumulates_more_than: None,
        })
    }

    /// The same layout for tables whose integer keys have entries side by side in other cases.
    pub fn with_dense_keys(self: Arc<EntryLayout>, dense_keys: DenseKeys) -> Arc<EntryLayout> {
        Arc::new(EntryLayout { dense_keys, ..Arc::unwrap_or_clone(self) })
    }

    pub(crate) fn dense_keys(&self) -> DenseKeys {
        self.dense_keys
    }

    /// The layout of entries with another accumulator behind the others.
    pub(crate) fn with_another(&self, accumulator: Accumulator) -> Arc<EntryLayout> {
        let accumulators = self.accumulators.iter().map(|slot| slot.accumulator.clone());
        let layout = EntryLayout::new(&self.key_columns, &accumulators.chain([accumulator]).collect::<Vec<_>>());
        let accumulates_more_than = Some(self.accumulates.clone());
        let dense_keys = self.dense_keys;
        Arc::new(EntryLayout { accumulates_more_than, dense_keys, ..Arc::unwrap_or_clone(layout) })
    }

    /// The layout of entries that accumulate the same, and have no keys.
    pub(crate) fn without_keys(&self) -> Arc<EntryLayout> {
        let accumulators: Vec<Accumulator> = self.accumulators.iter().map(|slot| slot.accumulator.clone()).collect();
        let layout = Arc::unwrap_or_clone(EntryLayout::new(&[], &accumulators));
        let (accumulates, accumulates_more_than) = (self.accumulates.clone(), self.accumulates_more_than.clone());
        Arc::new(EntryLayout { accumulates, accumulates_more_than, ..layout })
    }

    /// Whether entries of the other layout accumulate the same, but for an accumulator that this one may have behind, and are known to.
    pub(crate) fn is_of_kind(&self, other: &EntryLayout) -> bool {
        let has_more = |less: &Arc<()>| Arc::ptr_eq(less, &other.accumulates);
        Arc::ptr_eq(&self.accumulates, &other.accumulates) || self.accumulates_more_than.as_ref().is_some_and(has_more)
    }

    /// The grouping columns as given.
    pub fn key_columns(&self) -> &[KeyColumn] {
        &self.key_columns
    }

    /// How the grouping columns form a key.
    pub fn keys(&self) -> &KeyLayout {
        &self.keys
    }

    /// Where the accumulators are, in the order given.
    pub fn accumulators(&self) -> &[AccumulatorSlot] {
        &self.accumulators
    }

    /// Which of the accumulators counts the rows of its group, if one does.
    pub(crate) fn row_count(&self) -> Option<usize> {
        self.accumulators.iter().position(|slot| slot.accumulator.counts_rows())
    }

    /// Bytes of an entry before its accumulators.
    pub(crate) fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Bytes from one entry to the next outside dense tables, a multiple of 8.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Bytes from one entry to the next in dense tables, whose entries hold no key: those of the accumulators. These still lie at [`AccumulatorSlot::offset`] from the entry, whose first eight bytes belong to the
    /// entry before it.
    pub fn dense_stride(&self) -> usize {
        debug_assert!(matches!(self.keys, KeyLayout::Integer { .. }));
        self.initial.len()
    }

    /// By which word entries of dense tables show that they are in use: they are where it is not what it was at first, or where the entry's byte says so. So
    /// whoever changes the word need not touch the byte, a second line of memory, but where the word is as at first again. `None` where only the
    /// byte says so.
    pub fn use_word(&self) -> Option<UseWord> {
        self.use_word
    }

    /// Whether an accumulator refers to something beside its entry: a string, or what a store keeps.
    pub(crate) fn has_references(&self) -> bool {
        self.has_references
    }

    /// Whether groups are cheaper to read out where they are than to copy.
    pub(crate) fn keeps_sets(&self) -> bool {
        self.has_references && self.accumulators.iter().any(|slot| slot.accumulator.accumulate.keeps_sets())
    }

    /// The values that make a key, but for hashes.
    pub(crate) fn key_fields(&self) -> &[Field] {
        &self.key_fields
    }

    /// All values of an entry, but for hashes.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field> {
        let accumulators = self.accumulators.iter().map(|slot| Field { offset: slot.offset, width: slot.width });
        self.key_fields.iter().copied().chain(accumulators)
    }

    /// What the accumulators of a new entry hold, from the end of the key to the end of the entry.
    pub(crate) fn initial(&self) -> &[u8] {
        &self.initial
    }
}

fn key_layout(keys: &[KeyColumn]) -> KeyLayout {
    match keys {
        [] => KeyLayout::None,
        [key] if is_integer(&key.data_type) => {
            KeyLayout::Integer { data_type: key.data_type.clone(), nullable: key.nullable }
        }
        keys => packed_layout(keys),
    }
}

fn packed_layout(keys: &[KeyColumn]) -> KeyLayout {
    let mut columns: Vec<PackedColumn> = keys
        .iter()
        .map(|key| {
            let width = value_width(&key.data_type);
            PackedColumn { data_type: key.data_type.clone(), offset: 0, width, null_offset: None }
        })
        .collect();
    let mut end = 0;
    for wanted in [16, 8, 4, 2, 1] {
        for column in columns.iter_mut().filter(|column| column.width == wanted) {
            column.offset = end;
            end += wanted;
        }
    }
    for (column, key) in columns.iter_mut().zip(keys).filter(|(_, key)| key.nullable) {
        if is_string(&key.data_type) {
            column.null_offset = Some(column.offset + 3);
        } else {
            column.null_offset = Some(end);
            end += 1;
        }
    }
    KeyLayout::Packed { width: end.next_multiple_of(8), columns }
}

fn key_fields(keys: &KeyLayout) -> Vec<Field> {
    match keys {
        KeyLayout::None => Vec::new(),
        KeyLayout::Integer { .. } => vec![Field { offset: 0, width: 8 }],
        KeyLayout::Packed { columns, .. } => {
            let values = columns.iter().map(|column| (column.offset, column.width));
            // That of a string is part of it.
            let nulls =
                columns.iter().filter(|column| !is_string(&column.data_type)).filter_map(|column| column.null_offset);
            let fields = values.chain(nulls.map(|offset| (offset, 1)));
            fields.map(|(offset, width)| Field { offset: PACKED_HEADER + offset, width }).collect()
        }
    }
}

fn place_accumulators(accumulators: &[Accumulator], start: usize) -> (Vec<AccumulatorSlot>, usize) {
    let mut slots: Vec<AccumulatorSlot> = accumulators
        .iter()
        .map(|accumulator| AccumulatorSlot {
            accumulator: accumulator.clone(),
            offset: 0,
            width: state_width(accumulator),
        })
        .collect();
    let mut end = start;
    for wanted in [24, 16, 8, 4, 2, 1] {
        for slot in slots.iter_mut().filter(|slot| slot.width == wanted) {
            slot.offset = end;
            end += wanted;
        }
    }
    // Without accumulators there are still eight bytes: entries side by side must differ in their place.
    (slots, end.max(start + 8).next_multiple_of(8))
}

/// Bytes from one entry with a key and so many bytes to the next. Of 24 a line of the cache holds two and a part, which a search would have to go on to the next line for, and an
/// entry's address takes a multiplication: at 32 sums and counts by 10,000 to a million keys are a sixth to a quarter faster.
fn stride_of(bytes: usize) -> usize {
    if bytes == 24 { 32 } else { bytes }
}

/// See [`EntryLayout::use_word`]: a count of all rows if there is one, which no row leaves as it is.
fn use_word(slots: &[AccumulatorSlot]) -> Option<UseWord> {
    let is_word = |slot: &&AccumulatorSlot| {
        let is_value = matches!(
            slot.accumulator.accumulate,
            Accumulate::Count
                | Accumulate::SumInteger
                | Accumulate::SumFloat
                | Accumulate::Minimum
                | Accumulate::Maximum
        );
        is_value && slot.width == size_of::<u64>()
    };
    let is_kept_by_nulls =
        |slot: &&AccumulatorSlot| !slot.accumulator.counts_rows() && slot.accumulator.argument_nullable;
    let slot =
        slots.iter().filter(is_word).min_by_key(|slot| (is_kept_by_nulls(slot), !slot.accumulator.counts_rows()))?;
    let initial = initial_state(&slot.accumulator);
    let initial = initial.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
    Some(UseWord { offset: slot.offset, initial })
}

/// Whether a key of this type is kept as one 64-bit integer.
pub(crate) fn is_integer(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Boolean
            | Int8
            | Int16
            | Int32
            | Int64
            | UInt8
            | UInt16
            | UInt32
            | UInt64
            | Date32
            | Date64
            | Time32(_)
            | Time64(_)
            | Timestamp(..)
            | Duration(_)
    )
}

/// Whether values of this type are views of bytes.
pub(crate) fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

/// Bytes of a value inside keys and accumulators.
pub(crate) fn value_width(data_type: &DataType) -> usize {
    match data_type {
        DataType::Boolean => 1,
        DataType::Utf8View | DataType::BinaryView => 16,
        other => match other.primitive_width() {
            Some(width @ (1 | 2 | 4 | 8 | 16)) => width,
            _ => panic!("no table holds values of type {other}"),
        },
    }
}

/// Bytes of an accumulator's state.
struct StateWidth;

impl Visitor for StateWidth {
    type Output = usize;

    fn visit<A: Aggregate>(self) -> usize {
        size_of::<A::State>()
    }
}

fn state_width(accumulator: &Accumulator) -> usize {
    visit(accumulator, StateWidth).unwrap_or_else(|| match accumulator.accumulate {
        Accumulate::First | Accumulate::Last => {
            POSITION_WIDTH + value_width(value_type(accumulator)).next_multiple_of(POSITION_WIDTH)
        }
        _ if accumulator.accumulate.has_store() => STORE_NUMBER_WIDTH,
        _ => value_width(value_type(accumulator)),
    })
}

/// The type of the values that an accumulator holds one of.
pub(crate) fn value_type(accumulator: &Accumulator) -> &DataType {
    accumulator.argument_type.as_ref().expect("a value that is held is an argument")
}

/// The state before any value, in its first bytes.
struct InitialState;

impl Visitor for InitialState {
    type Output = [u8; STATE_BYTES_MAX];

    fn visit<A: Aggregate>(self) -> [u8; STATE_BYTES_MAX] {
        A::empty_bytes()
    }
}

/// The state before any value, in its first bytes. A string says that it is none, and no group in a store has the number zero.
fn initial_state(accumulator: &Accumulator) -> [u8; STATE_BYTES_MAX] {
    visit(accumulator, InitialState).unwrap_or_else(|| {
        let mut state = [0; STATE_BYTES_MAX];
        match accumulator.accumulate {
            Accumulate::First | Accumulate::Last => {
                if accumulator.accumulate == Accumulate::First {
                    state[..POSITION_WIDTH].fill(0xff);
                }
                if is_string(value_type(accumulator)) {
                    state[POSITION_WIDTH..].copy_from_slice(&NO_STRING.to_le_bytes());
                }
            }
            Accumulate::Minimum | Accumulate::Maximum => state[..16].copy_from_slice(&NO_STRING.to_le_bytes()),
            _ => {}
        }
        state
    })
}
