//! All values of groups, in lists that are kept beside the entries.
//!
//! A list is a chain of chunks, each twice as long as the one before it up to [`CHUNK_BYTES_MAX`]: values are written once and never moved,
//! a long list has hardly more bytes than its values, and a short one takes a cache line or two. (Mendes, sections 3.4 and 3.5.)

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::{BooleanBuffer, MutableBuffer};
use arrow::datatypes::{ArrowNativeType, BinaryViewType, ByteViewType, DataType, StringViewType};
use pelton_data::column::VIEW_INLINE_LENGTH_MAX;
use std::sync::Arc;

use super::arena::Arena;
use super::arrays::{fixed_array, string_array};
use crate::layout::{is_string, value_width};

/// Bytes of the longest chunk's values: a fraction of the first-level cache, so that what is appended stays there until it is full.
const CHUNK_BYTES_MAX: usize = 16 << 10;

/// Bytes of the first chunk's values: with its header it is one cache line.
const CHUNK_BYTES_MIN: usize = 48;

/// Before a chunk's values: the address of the chunk before it, and how many values all before it have.
const HEADER_BYTES: usize = 16;

/// Lists of values of one type, by number.
#[derive(Debug)]
pub(super) struct Lists {
    data_type: DataType,
    width: usize,
    lists: Vec<List>,
    /// Chunks, and the bytes of long strings.
    arena: Arena,
}

/// One list: its last chunk.
#[derive(Debug, Clone, Copy)]
struct List {
    chunk: *mut u8,
    used: u32,
    capacity: u32,
}

// SAFETY: lists point to chunks of the arena that is kept with them; all access goes through `&self` and `&mut self` of the owner.
unsafe impl Send for Lists {}
// SAFETY: as above: nothing is written through a shared reference.
unsafe impl Sync for Lists {}

impl Lists {
    /// No lists, of values of this type.
    pub(super) fn new(data_type: &DataType) -> Lists {
        Lists {
            data_type: data_type.clone(),
            width: value_width(data_type),
            lists: Vec::new(),
            arena: Arena::default(),
        }
    }

    /// The type of the values.
    pub(super) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// How many lists there are.
    pub(super) fn len(&self) -> usize {
        self.lists.len()
    }

    /// Makes sure that there are this many lists.
    pub(super) fn grow_to(&mut self, count: usize) {
        let empty = List { chunk: std::ptr::null_mut(), used: 0, capacity: 0 };
        self.lists.resize(count.max(self.lists.len()), empty);
    }

    pub(super) fn bytes(&self) -> usize {
        self.arena.bytes() + self.lists.capacity() * size_of::<List>()
    }

    pub(super) fn clear(&mut self) {
        self.lists.clear();
        self.arena.clear();
    }

    /// Appends values to lists: `numbers` has a list for each value at the places that it comes with.
    pub(super) fn append(&mut self, numbers: impl Iterator<Item = (usize, u32)>, values: &ArrayRef) {
        assert_eq!(values.data_type(), &self.data_type, "values have the lists' type");
        match (&self.data_type, self.width) {
            (DataType::Utf8View, _) => self.append_strings::<StringViewType>(numbers, values),
            (DataType::BinaryView, _) => self.append_strings::<BinaryViewType>(numbers, values),
            (DataType::Boolean, _) => {
                let values = values.as_boolean().values();
                numbers.for_each(|(at, number)| self.push(number, u8::from(values.value(at))));
            }
            (_, 1) => self.append_values::<i8>(numbers, values),
            (_, 2) => self.append_values::<i16>(numbers, values),
            (_, 4) => self.append_values::<i32>(numbers, values),
            (_, 8) => self.append_values::<i64>(numbers, values),
            _ => self.append_values::<i128>(numbers, values),
        }
    }

    fn append_values<T: ArrowNativeType>(&mut self, numbers: impl Iterator<Item = (usize, u32)>, values: &ArrayRef) {
        let data = values.to_data();
        let values = data.buffer::<T>(0);
        numbers.for_each(|(at, number)| self.push(number, values[at]));
    }

    fn append_strings<T: ByteViewType>(&mut self, numbers: impl Iterator<Item = (usize, u32)>, values: &ArrayRef) {
        let values = values.as_byte_view::<T>();
        for (at, number) in numbers {
            let view = values.views()[at];
            let value: &[u8] = values.value(at).as_ref();
            let held = self.hold(view, value);
            self.push(number, held);
        }
    }

    /// A view as lists hold it: of a long string its higher half is the address of its bytes.
    fn hold(&mut self, view: u128, value: &[u8]) -> u128 {
        if value.len() <= VIEW_INLINE_LENGTH_MAX as usize {
            return view;
        }
        let address = self.arena.store(value).expose_provenance() as u128;
        view & u128::from(u64::MAX) | address << 64
    }

    /// Appends neighbours that have no NULLs to one list.
    pub(super) fn append_all(&mut self, number: u32, values: &ArrayRef) {
        if self.data_type == DataType::Boolean || is_string(&self.data_type) {
            return self.append((0..values.len()).map(|at| (at, number)), values);
        }
        assert_eq!(values.data_type(), &self.data_type, "values have the lists' type");
        let data = values.to_data();
        let bytes = &data.buffers()[0].as_slice()[data.offset() * self.width..][..data.len() * self.width];
        self.extend(number, bytes);
    }

    /// Appends ascending positions to one list.
    pub(super) fn append_positions(&mut self, numbers: impl Iterator<Item = (u64, u32)>) {
        assert_eq!(self.data_type, DataType::UInt64, "positions are 64 bits");
        numbers.for_each(|(position, number)| self.push(number, position));
    }

    #[inline(always)]
    fn push<T: Copy>(&mut self, number: u32, value: T) {
        debug_assert_eq!(self.width, size_of::<T>());
        let mut list = self.lists[number as usize];
        if list.used == list.capacity {
            list = self.add_chunk(number);
        }
        // SAFETY: the chunk has room for `capacity` values of the lists' width behind its header; `used` is less.
        unsafe { list.chunk.add(HEADER_BYTES).cast::<T>().add(list.used as usize).write_unaligned(value) };
        self.lists[number as usize].used += 1;
    }

    /// Appends values by their bytes.
    fn extend(&mut self, number: u32, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let mut list = self.lists[number as usize];
            if list.used == list.capacity {
                list = self.add_chunk(number);
            }
            let room = (list.capacity - list.used) as usize * self.width;
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            // SAFETY: the chunk has room for these bytes behind its values, and they are not of this chunk.
            unsafe {
                let end = list.chunk.add(HEADER_BYTES + list.used as usize * self.width);
                end.copy_from_nonoverlapping(now.as_ptr(), now.len());
            }
            self.lists[number as usize].used += (now.len() / self.width) as u32;
            bytes = rest;
        }
    }

    #[inline(never)]
    fn add_chunk(&mut self, number: u32) -> List {
        let old = self.lists[number as usize];
        let bytes = (old.capacity as usize * self.width * 2).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        let capacity = (bytes / self.width) as u32;
        let before = self.length(number) as u64;
        let chunk = self.arena.allocate(HEADER_BYTES + capacity as usize * self.width);
        // SAFETY: the chunk was just allocated, aligned to 8, and begins with a header.
        unsafe {
            chunk.cast::<*mut u8>().write(old.chunk);
            chunk.add(8).cast::<u64>().write(before);
        }
        let list = List { chunk, used: 0, capacity };
        self.lists[number as usize] = list;
        list
    }

    /// How many values a list has.
    pub(super) fn length(&self, number: u32) -> usize {
        let list = self.lists[number as usize];
        // SAFETY: a list that has values has a chunk of the arena, which begins with a header.
        let before = if list.chunk.is_null() { 0 } else { unsafe { header(list.chunk) }.1 };
        before as usize + list.used as usize
    }

    /// The bytes of a list's values, chunk by chunk, the last first.
    fn chunks(&self, number: u32) -> impl Iterator<Item = &[u8]> {
        let mut next = (self.lists[number as usize].chunk, self.length(number) as u64);
        std::iter::from_fn(move || {
            let (chunk, end) = next;
            if chunk.is_null() {
                return None;
            }
            // SAFETY: a chunk that is linked lies in the arena, which is borrowed with the lists; it has a header, then the values behind those
            // of the chunks before it.
            unsafe {
                next = header(chunk);
                Some(std::slice::from_raw_parts(chunk.add(HEADER_BYTES), (end - next.1) as usize * self.width))
            }
        })
    }

    /// Appends another table's list to one of these.
    pub(super) fn append_list(&mut self, number: u32, other: &Lists, from: u32) {
        let chunks: Vec<&[u8]> = other.chunks(from).collect();
        for chunk in chunks.into_iter().rev() {
            if is_string(&self.data_type) {
                for view in chunk.chunks_exact(16) {
                    let view = u128::from_le_bytes(view.try_into().expect("views are of 16 bytes"));
                    // SAFETY: the view is of the other's lists, which are borrowed.
                    let held = self.hold(view, unsafe { string_of(&view) });
                    self.push(number, held);
                }
            } else {
                self.extend(number, chunk);
            }
        }
    }

    /// The values of lists one behind the other, and where each begins; `None` stands for a list without values.
    pub(super) fn gather(&self, numbers: &[Option<u32>]) -> (Vec<usize>, ArrayRef) {
        let mut offsets = vec![0];
        for number in numbers {
            offsets.push(offsets[offsets.len() - 1] + number.map_or(0, |number| self.length(number)));
        }
        let length = offsets[numbers.len()];
        let mut values = MutableBuffer::from_len_zeroed(length * self.width);
        for (number, end) in numbers.iter().zip(&offsets[1..]) {
            let Some(number) = *number else { continue };
            let mut end = end * self.width;
            for chunk in self.chunks(number) {
                values.as_slice_mut()[end - chunk.len()..end].copy_from_slice(chunk);
                end -= chunk.len();
            }
        }
        let values: ArrayRef = match &self.data_type {
            DataType::Boolean => {
                let bits = BooleanBuffer::collect_bool(length, |at| values.as_slice()[at] != 0);
                Arc::new(BooleanArray::new(bits, None))
            }
            data_type if is_string(data_type) => {
                let views: &[u128] = values.typed_data();
                // SAFETY: the views are of these lists, which are borrowed.
                string_array(data_type, views.iter().map(|view| Some(unsafe { string_of(view) })))
            }
            data_type => fixed_array(data_type, length, values.into(), None),
        };
        (offsets, values)
    }
}

/// Where the chunk before a chunk is, and how many values all before it have.
///
/// # Safety
/// The chunk must begin with its header.
unsafe fn header(chunk: *const u8) -> (*mut u8, u64) {
    // SAFETY: the caller's promise.
    unsafe { (chunk.cast::<*mut u8>().read(), chunk.add(8).cast::<u64>().read()) }
}

/// The bytes of a string as lists hold it.
///
/// # Safety
/// The arena of the lists that the view is of must live as long as the result.
unsafe fn string_of(view: &u128) -> &[u8] {
    let length = *view as u32 as usize;
    if length <= VIEW_INLINE_LENGTH_MAX as usize {
        // SAFETY: the bytes of a short string follow its length inside the view.
        return unsafe { std::slice::from_raw_parts(std::ptr::from_ref(view).cast::<u8>().add(4), length) };
    }
    let address = std::ptr::with_exposed_provenance::<u8>((*view >> 64) as usize);
    // SAFETY: the higher half of a long string is the address of its bytes in the arena.
    unsafe { std::slice::from_raw_parts(address, length) }
}
