//! Builds hash tables: rows are counted by partition and divided among partitions, and each partition is built by itself.

use std::ops::Range;

use super::{UNITS_OF_WORKER, Unit, parts, ranges, units_max};
use crate::join::hashed::{HashedIndex, HashedKeys, Partitioning, Slot, bytes_of_slots, locate};
use crate::join::index::Matches;
use crate::join::keys::{CHUNK_ROWS, KeyColumns, Packing};
use crate::table::KeyRows;

/// A partition has about so many rows: its slots stay in the second-level cache while it is built.
const PARTITION_ROWS: usize = 1 << 14;

const PARTITION_BITS_MAX: u32 = 10;

/// Slots of each key.
const SLOTS_PER_KEY: usize = 2;

/// A hash table that is being built.
pub(super) struct HashedBuild {
    keys: HashedKeys,
    partitioning: Partitioning,
    /// The rows of each unit that divides them.
    ranges: Vec<Range<usize>>,
    divided: Divided,
    stage: Stage,
    slots: Vec<Box<[Slot]>>,
    /// The rows of each key, one key after the other.
    list: Vec<u32>,
}

enum Stage {
    /// Keys are packed, and the rows of each partition counted. Of each unit: its counts.
    Counts(Vec<Vec<u32>>),
    /// Rows are divided.
    Divide(Vec<Vec<u32>>),
    /// The different keys of each partition are counted.
    Keys(Vec<usize>),
    /// Partitions get their slots.
    Slots {
        keys: Vec<usize>,
        are_unique: bool,
    },
    Built,
}

/// Rows partition by partition.
#[derive(Default)]
struct Divided {
    /// Where each partition begins, and where the last ends.
    starts: Vec<usize>,
    /// Each is given back when it has its slots.
    partitions: Vec<Partition>,
}

/// The rows of a partition, each with the word of its key.
#[derive(Default)]
struct Partition {
    words: Vec<u64>,
    rows: Vec<u32>,
}

/// Bytes of a row in a partition.
const DIVIDED_ROW_BYTES: usize = size_of::<u64>() + size_of::<u32>();

impl Partition {
    fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u32)> {
        self.words.iter().copied().zip(self.rows.iter().copied())
    }
}

impl Divided {
    fn lengths(&self) -> impl Iterator<Item = usize> {
        self.starts.windows(2).map(|pair| pair[1] - pair[0])
    }

    fn largest(&self) -> usize {
        self.lengths().max().unwrap_or(0)
    }
}

impl HashedBuild {
    pub fn new(keys: &KeyColumns) -> HashedBuild {
        let partitions = keys.rows().div_ceil(PARTITION_ROWS).max(1).next_power_of_two();
        let partitioning = Partitioning::new(partitions.ilog2().min(PARTITION_BITS_MAX));
        let keys = if keys.is_integer() {
            HashedKeys::Integer
        } else {
            HashedKeys::Packed { packing: Packing::new(&keys.types()), keys: Vec::new() }
        };
        HashedBuild {
            keys,
            partitioning,
            ranges: Vec::new(),
            divided: Divided::default(),
            stage: Stage::Counts(Vec::new()),
            slots: Vec::new(),
            list: Vec::new(),
        }
    }

    /// Bytes at the end of the next step, done by so many threads, for so many rows.
    pub fn bytes(&self, rows: usize, workers: usize) -> usize {
        let packed = match &self.keys {
            HashedKeys::Integer => 0,
            HashedKeys::Packed { packing, .. } => rows * packing.width(),
        };
        let with_key = self.divided.starts.last().copied().unwrap_or(0);
        let divided = with_key * DIVIDED_ROW_BYTES;
        let slots = |keys: usize| slots_of(keys) * size_of::<Slot>();
        let built = size_of_val(self.list.as_slice()) + bytes_of_slots(&self.slots);
        packed
            + match &self.stage {
                Stage::Counts(_) => 0,
                Stage::Divide(_) => divided,
                Stage::Keys(_) => divided + workers * slots(self.divided.largest()),
                Stage::Slots { keys, are_unique } => {
                    let listed = if *are_unique { 0 } else { with_key + workers * self.divided.largest() };
                    // A partition's rows are given back when it has its slots.
                    let of_partition = |(&keys, rows): (&usize, usize)| slots(keys).max(rows * DIVIDED_ROW_BYTES);
                    keys.iter().zip(self.divided.lengths()).map(of_partition).sum::<usize>()
                        + keys.len() * size_of::<Box<[Slot]>>()
                        + workers * self.divided.largest() * DIVIDED_ROW_BYTES
                        + listed * size_of::<u32>()
                }
                Stage::Built => built,
            }
    }

    pub fn units<'a>(&'a mut self, columns: &'a KeyColumns, workers: usize) -> Vec<Unit<'a>> {
        let partitioning = self.partitioning;
        let partitions = ranges(partitioning.count(), workers * UNITS_OF_WORKER);
        match &mut self.stage {
            Stage::Counts(counts) => {
                self.ranges = ranges(columns.rows(), units_max(columns.rows(), workers));
                counts.resize_with(self.ranges.len(), || vec![0; partitioning.count()]);
                count_units(columns, &mut self.keys, partitioning, self.ranges.iter().zip(counts))
            }
            Stage::Divide(counts) => {
                let lengths = self.divided.lengths();
                self.divided.partitions =
                    lengths.map(|rows| Partition { words: vec![0; rows], rows: vec![0; rows] }).collect();
                let partitions = &mut self.divided.partitions;
                divide_units(columns, &self.keys, partitioning, self.ranges.iter().zip(counts), partitions)
            }
            Stage::Keys(keys) => {
                keys.resize(partitioning.count(), 0);
                let (divided, hashed) = (&self.divided, &self.keys);
                let unit = |(range, keys): (Range<usize>, &'a mut [usize])| {
                    let partitions = &divided.partitions[range];
                    Box::new(move || count_keys(hashed, partitioning, partitions, keys)) as Unit<'a>
                };
                let parts = parts(keys, partitions.iter().map(|range| range.len()));
                partitions.into_iter().zip(parts).map(unit).collect()
            }
            Stage::Slots { keys, are_unique } => {
                self.slots.resize_with(partitioning.count(), Box::default);
                let (hashed, keys, starts) = (&self.keys, &*keys, &self.divided.starts);
                self.list = vec![0; if *are_unique { 0 } else { starts.last().copied().unwrap_or(0) }];
                let listed =
                    |range: &Range<usize>| if *are_unique { 0 } else { starts[range.end] - starts[range.start] };
                let lists = parts(&mut self.list, partitions.iter().map(listed));
                let slots = parts(&mut self.slots, partitions.iter().map(|range| range.len()));
                let divided = parts(&mut self.divided.partitions, partitions.iter().map(|range| range.len()));
                let units = partitions.into_iter().zip(divided).zip(slots.into_iter().zip(lists));
                let units = units.map(|((range, divided), (slots, list))| {
                    let (keys, first) = (&keys[range.clone()], starts[range.start]);
                    Box::new(move || fill_slots(hashed, partitioning, (divided, keys), slots, (list, first)))
                        as Unit<'a>
                });
                units.collect()
            }
            Stage::Built => Vec::new(),
        }
    }

    pub fn is_built(&self) -> bool {
        matches!(self.stage, Stage::Built)
    }

    pub fn advance(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Built) {
            Stage::Counts(counts) => {
                let mut end = 0;
                let of_partition =
                    |partition: usize| counts.iter().map(|counts| counts[partition] as usize).sum::<usize>();
                self.divided.starts = std::iter::once(0)
                    .chain((0..self.partitioning.count()).map(|partition| {
                        end += of_partition(partition);
                        end
                    }))
                    .collect();
                Stage::Divide(counts)
            }
            Stage::Divide(_) => Stage::Keys(Vec::new()),
            Stage::Keys(keys) => {
                let are_unique = keys.iter().sum::<usize>() == self.divided.starts.last().copied().unwrap_or(0);
                Stage::Slots { keys, are_unique }
            }
            Stage::Slots { .. } | Stage::Built => {
                self.divided = Divided::default();
                Stage::Built
            }
        };
    }

    /// The index, and the list of rows, which is empty where keys are unique.
    pub fn finish(self) -> (HashedIndex, Vec<u32>) {
        (HashedIndex::new(self.keys, self.partitioning, self.slots), self.list)
    }
}

/// Slots of a partition with so many keys.
fn slots_of(keys: usize) -> usize {
    (keys * SLOTS_PER_KEY).max(1)
}

/// Units that pack the keys of some rows, where they are packed, and count the rows of each partition.
fn count_units<'a>(
    columns: &'a KeyColumns,
    keys: &'a mut HashedKeys,
    partitioning: Partitioning,
    units: impl ExactSizeIterator<Item = (&'a Range<usize>, &'a mut Vec<u32>)>,
) -> Vec<Unit<'a>> {
    match keys {
        HashedKeys::Integer => units
            .map(|(range, counts)| {
                Box::new(move || {
                    let keys = &HashedKeys::Integer;
                    columns.for_each_integer(range.clone(), |_, key| {
                        counts[partitioning.partition(keys.hash(key.cast_unsigned()))] += 1;
                    });
                }) as Unit<'a>
            })
            .collect(),
        HashedKeys::Packed { packing, keys } => {
            let packing = &*packing;
            *keys = vec![0; columns.rows() * packing.width()];
            let units: Vec<_> = units.collect();
            let parts = parts(keys, units.iter().map(|(range, _)| range.len() * packing.width()));
            let unit = |((range, counts), part): ((&'a Range<usize>, &'a mut Vec<u32>), &'a mut [u8])| {
                Box::new(move || pack(columns, packing, partitioning, range, part, counts)) as Unit<'a>
            };
            units.into_iter().zip(parts).map(unit).collect()
        }
    }
}

/// Packs the keys of rows, and counts those of each partition.
fn pack(
    columns: &KeyColumns,
    packing: &Packing,
    partitioning: Partitioning,
    rows: &Range<usize>,
    keys: &mut [u8],
    counts: &mut [u32],
) {
    let (mut packed, mut hashes) = (Vec::new(), Vec::new());
    let starts = rows.clone().step_by(CHUNK_ROWS);
    for (start, part) in starts.zip(keys.chunks_mut(CHUNK_ROWS * packing.width())) {
        let chunk = start..rows.end.min(start + CHUNK_ROWS);
        columns.pack(packing, KeyRows::Range(chunk.clone()), &mut packed);
        part.copy_from_slice(&packed);
        // SAFETY: the keys have just been packed from columns that are borrowed.
        unsafe { packing.hash(&packed, &mut hashes) };
        for (_, &hash) in chunk.zip(&hashes).filter(|(row, _)| columns.has_key(*row)) {
            counts[partitioning.partition(hash << 1)] += 1;
        }
    }
}

/// Units that divide rows: each has a part of each partition.
fn divide_units<'a>(
    columns: &'a KeyColumns,
    keys: &'a HashedKeys,
    partitioning: Partitioning,
    units: impl ExactSizeIterator<Item = (&'a Range<usize>, &'a mut Vec<u32>)>,
    partitions: &'a mut [Partition],
) -> Vec<Unit<'a>> {
    let units: Vec<(&Range<usize>, &mut Vec<u32>)> = units.collect();
    let mut parts: Vec<Vec<(&'a mut [u64], &'a mut [u32])>> = units.iter().map(|_| Vec::new()).collect();
    for (partition, divided) in partitions.iter_mut().enumerate() {
        let (mut words, mut rows) = (divided.words.as_mut_slice(), divided.rows.as_mut_slice());
        for ((_, counts), parts) in units.iter().zip(&mut parts) {
            let length = counts[partition] as usize;
            let taken = words.split_off_mut(..length).zip(rows.split_off_mut(..length));
            parts.push(taken.expect("there is room for all that were counted"));
        }
    }
    let units = units.into_iter().zip(parts).map(|((range, next), mut parts)| {
        Box::new(move || {
            next.fill(0);
            for_each_word(columns, keys, range.clone(), |row, word| {
                let partition = partitioning.partition(keys.hash(word));
                let (words, rows) = &mut parts[partition];
                let at = next[partition] as usize;
                (words[at], rows[at]) = (word, row);
                next[partition] += 1;
            });
        }) as Unit<'a>
    });
    units.collect()
}

/// Visits those of some rows that have a key, with its word.
#[inline(always)]
fn for_each_word(columns: &KeyColumns, keys: &HashedKeys, rows: Range<usize>, mut visit: impl FnMut(u32, u64)) {
    match keys {
        HashedKeys::Integer => columns.for_each_integer(rows, |row, key| visit(row, key.cast_unsigned())),
        HashedKeys::Packed { packing, keys } => {
            let (width, mut hashes) = (packing.width(), Vec::new());
            for start in rows.clone().step_by(CHUNK_ROWS) {
                let chunk = start..rows.end.min(start + CHUNK_ROWS);
                // SAFETY: the keys have been packed from columns that are borrowed.
                unsafe { packing.hash(&keys[chunk.start * width..chunk.end * width], &mut hashes) };
                let with_key = chunk.zip(&hashes).filter(|(row, _)| columns.has_key(*row));
                with_key.for_each(|(row, &hash)| visit(row as u32, hash));
            }
        }
    }
}

/// Puts a row into the slots of its partition, where the first row of its key says which key a slot has. Its slot.
#[inline(always)]
fn insert(slots: &mut [Slot], keys: &HashedKeys, partitioning: Partitioning, (word, row): (u64, u32)) -> usize {
    let home = partitioning.home(keys.hash(word), slots.len());
    let at = match keys {
        HashedKeys::Integer => locate(slots, home, word, |_| true),
        HashedKeys::Packed { packing, keys } => {
            let key = |row: u32| &keys[row as usize * packing.width()..][..packing.width()];
            // SAFETY: both keys have been packed from columns that are borrowed.
            locate(slots, home, word, |held| unsafe { packing.equal(key(held.first), key(row)) })
        }
    };
    let slot = &mut slots[at];
    if slot.matches.count == 0 {
        *slot = Slot { word, matches: Matches { first: row, count: 0 } };
    }
    slot.matches.count += 1;
    at
}

/// Counts the different keys of some partitions.
fn count_keys(keys: &HashedKeys, partitioning: Partitioning, partitions: &[Partition], counts: &mut [usize]) {
    let mut slots = Vec::new();
    for (partition, count) in partitions.iter().zip(counts) {
        let rows = partition.iter();
        slots.clear();
        slots.resize(slots_of(rows.len()), Slot::default());
        for row in rows {
            let at = insert(&mut slots, keys, partitioning, row);
            *count += usize::from(slots[at].matches.count == 1);
        }
    }
}

/// Makes the slots of some partitions, whose rows are given back; `list` has the rows of each of their keys, one key after the other, from the bucket's `first`
/// listed row on, and is empty where keys are unique.
fn fill_slots(
    keys: &HashedKeys,
    partitioning: Partitioning,
    (partitions, key_counts): (&mut [Partition], &[usize]),
    slots: &mut [Box<[Slot]>],
    (list, first): (&mut [u32], usize),
) {
    let (mut slots_of_rows, mut start) = (Vec::new(), first);
    for ((partition, &keys_of_partition), slots) in partitions.iter_mut().zip(key_counts).zip(slots) {
        let partition = std::mem::take(partition);
        *slots = vec![Slot::default(); slots_of(keys_of_partition)].into_boxed_slice();
        if list.is_empty() {
            partition.iter().for_each(|row| _ = insert(slots, keys, partitioning, row));
            continue;
        }
        slots_of_rows.clear();
        slots_of_rows.extend(partition.iter().map(|row| insert(slots, keys, partitioning, row) as u32));
        let mut next = start as u32;
        start += partition.rows.len();
        for Slot { matches, .. } in slots.iter_mut() {
            (matches.first, next) = (next, next + matches.count);
        }
        for ((_, row), &slot) in partition.iter().zip(&slots_of_rows) {
            let next = &mut slots[slot as usize].matches.first;
            list[*next as usize - first] = row;
            *next += 1;
        }
        slots.iter_mut().for_each(|slot| slot.matches.first -= slot.matches.count);
    }
}
