//! Rows divided by their keys, so that the index of each part stays in the cache: radix partitioning, as a Grace hash join does it on disk (Mendes et al.,
//! section 3.4).

use arrow::array::{
    Array, ArrayData, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, make_array, new_empty_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::{interleave, take_record_batch};
use arrow::datatypes::{ArrowNativeType, DataType, SchemaRef};
use arrow::error::ArrowError;
use pelton_data::column::{Layout, align_bits, logical_type};

use super::keys::{KeyColumns, Packing};
use crate::table::KeyRows;
use crate::table::hash::hash_word;
use crate::table::region::use_huge_pages;

/// More partitions are more places that are written to in turn than the first-level cache has lines for.
const PARTITION_BITS_MAX: u32 = 10;

/// Neighbours of a batch whose keys are compared.
const SAMPLES_OF_BATCH: usize = 64;

/// Neighbours' keys are close where they differ by at most this part of what all do: in no order they differ by a third.
const CLUSTERED_PART: u128 = 32;

/// Which of two to the power of `bits` partitions a key belongs to. All rows of a key are in one.
pub(super) struct Partitioning {
    bits: u32,
    keys: PartitionKeys,
}

enum PartitionKeys {
    /// Integers that lie close together: each partition has the keys of a range, whose dense index is small.
    Ranges {
        /// The smallest key.
        first: i64,
        /// The distance of the largest.
        distance: u64,
        /// Two to the power of it are the keys of a partition.
        shift: u32,
    },
    /// Integers by their hash.
    Integers,
    /// Other keys by their hash.
    Packed(Packing),
}

impl Partitioning {
    /// About `count` partitions of integers from `first` to `last`.
    pub fn of_ranges((first, last): (i64, i64), count: usize) -> Partitioning {
        let bits = bits(count);
        let distance = last.wrapping_sub(first) as u64;
        // As many bits as the distance has, less those that tell partitions apart.
        let shift = (u64::BITS - distance.leading_zeros()).saturating_sub(bits);
        Partitioning { bits, keys: PartitionKeys::Ranges { first, distance, shift } }
    }

    /// About `count` partitions of integers.
    pub fn of_integers(count: usize) -> Partitioning {
        Partitioning { bits: bits(count), keys: PartitionKeys::Integers }
    }

    /// About `count` partitions of keys with these types, which are no integers.
    pub fn of_packed(types: &[DataType], count: usize) -> Partitioning {
        let types: Vec<DataType> = types.iter().map(|data_type| logical_type(data_type).clone()).collect();
        Partitioning { bits: bits(count), keys: PartitionKeys::Packed(Packing::new(&types)) }
    }

    fn count(&self) -> usize {
        1 << self.bits
    }

    /// Appends the partition of each row.
    fn append(&self, keys: &KeyColumns, numbers: &mut Vec<u16>) {
        // An index of hashes searches by their upper bits, which must differ within a partition.
        let mask = self.count() as u64 - 1;
        match &self.keys {
            &PartitionKeys::Ranges { first, distance, shift } => {
                // A key out of the range has no match: any partition will do.
                let number = |key: &i64| ((key.wrapping_sub(first) as u64).min(distance) >> shift) as u16;
                keys.visit_integers(|integers| numbers.extend(integers.iter().map(number)));
            }
            PartitionKeys::Integers => keys.visit_integers(|integers| {
                numbers.extend(integers.iter().map(|key| (hash_word(key.cast_unsigned()) & mask) as u16));
            }),
            PartitionKeys::Packed(packing) => {
                let (mut packed, mut hashes) = (Vec::new(), Vec::new());
                keys.pack(packing, KeyRows::Range(0..keys.rows()), &mut packed);
                // SAFETY: the keys have just been packed from columns that are borrowed.
                unsafe { packing.hash(&packed, &mut hashes) };
                numbers.extend(hashes.iter().map(|hash| (hash & mask) as u16));
            }
        }
    }

    /// The rows of each partition, in their order.
    ///
    /// # Errors
    /// Where the batches do not fit the schema.
    ///
    /// # Panics
    /// Where there are more rows than 32 bits count.
    pub fn divide(
        &self,
        batches: &[RecordBatch],
        schema: &SchemaRef,
        key_columns: &[usize],
    ) -> Result<Vec<RecordBatch>, ArrowError> {
        let mut numbers = Vec::new();
        for batch in batches {
            let keys = key_columns.iter().map(|&key| batch.column(key).clone());
            self.append(&KeyColumns::new(keys.collect()), &mut numbers);
        }
        let (targets, bounds) = targets(&numbers, self.count());
        let columns = schema.fields().iter().enumerate().map(|(column, field)| match batches {
            [] => Ok(new_empty_array(field.data_type())),
            _ => scattered(&batches.iter().map(|batch| batch.column(column)).collect::<Vec<_>>(), &targets),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(targets.len()));
        let rows = RecordBatch::try_new_with_options(schema.clone(), columns.collect::<Result<_, _>>()?, &options)?;
        Ok(bounds.windows(2).map(|bounds| rows.slice(bounds[0] as usize, (bounds[1] - bounds[0]) as usize)).collect())
    }
}

fn bits(partitions: usize) -> u32 {
    partitions.max(1).next_power_of_two().ilog2().min(PARTITION_BITS_MAX)
}

/// Where each row goes, and where each partition begins and the last one ends.
fn targets(numbers: &[u16], partitions: usize) -> (Vec<u32>, Vec<u32>) {
    assert!(u32::try_from(numbers.len()).is_ok(), "row numbers have 32 bits");
    let mut bounds = vec![0_u32; partitions + 1];
    numbers.iter().for_each(|&number| bounds[number as usize + 1] += 1);
    for partition in 0..partitions {
        bounds[partition + 1] += bounds[partition];
    }
    let mut next = bounds.clone();
    let target = |&number: &u16| {
        let next = &mut next[number as usize];
        *next += 1;
        *next - 1
    };
    (numbers.iter().map(target).collect(), bounds)
}

/// The values of arrays of one type, each at its target.
fn scattered(arrays: &[&ArrayRef], targets: &[u32]) -> Result<ArrayRef, ArrowError> {
    let Some(Layout::Fixed { width }) = Layout::of(arrays[0].data_type()) else {
        let mut places = vec![(0, 0); targets.len()];
        let rows = arrays.iter().enumerate().flat_map(|(array, rows)| (0..rows.len()).map(move |row| (array, row)));
        targets.iter().zip(rows).for_each(|(&target, place)| places[target as usize] = place);
        let arrays: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
        return interleave(&arrays, &places).map(align_bits);
    };
    let data: Vec<ArrayData> = arrays.iter().map(|array| array.to_data()).collect();
    let values = match width {
        1 => scatter::<i8>(&data, targets),
        2 => scatter::<i16>(&data, targets),
        4 => scatter::<i32>(&data, targets),
        8 => scatter::<i64>(&data, targets),
        _ => scatter::<i128>(&data, targets),
    };
    let scattered = ArrayData::builder(arrays[0].data_type().clone()).len(targets.len()).add_buffer(values);
    Ok(make_array(scattered.nulls(scatter_nulls(arrays, targets)).build()?))
}

/// `targets` has each number below its length once.
fn scatter<T: ArrowNativeType>(arrays: &[ArrayData], targets: &[u32]) -> Buffer {
    let rows = targets.len();
    let mut values: Vec<T> = Vec::with_capacity(rows);
    let places = &mut values.spare_capacity_mut()[..rows];
    use_huge_pages(places);
    let mut written = 0;
    for array in arrays {
        let own = &targets[written..][..array.len()];
        own.iter().zip(array.buffer::<T>(0)).for_each(|(&target, &value)| _ = places[target as usize].write(value));
        written += own.len();
    }
    assert_eq!(written, rows, "each target has a row");
    // SAFETY: there is room for `rows` values, and as many have been written, each to a place of its own.
    unsafe { values.set_len(rows) };
    values.into()
}

fn scatter_nulls(arrays: &[&ArrayRef], mut targets: &[u32]) -> Option<NullBuffer> {
    if arrays.iter().all(|array| array.null_count() == 0) {
        return None;
    }
    let mut is_valid = vec![true; targets.len()];
    for array in arrays {
        let own = targets.split_off(..array.len()).expect("each row has a target");
        let nulls = array.nulls().map(|nulls| nulls.iter());
        let invalid = own.iter().zip(nulls.into_iter().flatten()).filter(|(_, is_valid)| !is_valid);
        invalid.for_each(|(&target, _)| is_valid[target as usize] = false);
    }
    Some(NullBuffer::new(BooleanBuffer::from(is_valid)))
}

/// Rows whose key is an integer, with the smallest and the largest one; nothing where no row has a key.
pub(super) struct KeyedRows {
    pub rows: RecordBatch,
    extent: Option<(i64, i64)>,
}

impl KeyedRows {
    pub fn new(rows: RecordBatch, key: usize) -> KeyedRows {
        let keys = KeyColumns::new(vec![rows.column(key).clone()]);
        let mut extent = (i64::MAX, i64::MIN);
        let mut include = |key: i64| extent = (extent.0.min(key), extent.1.max(key));
        match keys.all_have_keys() {
            true => keys.visit_integers(|integers| integers.iter().for_each(|&key| include(key))),
            false => keys.for_each_integer(0..keys.rows(), |_, key| include(key)),
        }
        KeyedRows { rows, extent: (extent.0 <= extent.1).then_some(extent) }
    }

    /// The smallest and the largest key of all rows.
    pub fn extent(all: &[KeyedRows]) -> Option<(i64, i64)> {
        all.iter().filter_map(|rows| rows.extent).reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    /// Leaves out rows with no key from `first` to `last`, as far as these are the most of a batch: what remains of it is copied.
    ///
    /// # Errors
    /// Where Arrow cannot choose rows of a type.
    pub fn within(all: Vec<KeyedRows>, key: usize, range: Option<(i64, i64)>) -> Result<Vec<KeyedRows>, ArrowError> {
        let Some((first, last)) = range else { return Ok(Vec::new()) };
        let mut chosen = Vec::with_capacity(all.len());
        for batch in all {
            match batch.extent {
                Some((smallest, largest)) if smallest >= first && largest <= last => chosen.push(batch),
                Some((smallest, largest)) if smallest <= last && largest >= first => {
                    chosen.extend(batch.chosen(key, (first, last))?);
                }
                _ => {}
            }
        }
        Ok(chosen)
    }

    fn chosen(self, key: usize, (first, last): (i64, i64)) -> Result<Option<KeyedRows>, ArrowError> {
        let keys = KeyColumns::new(vec![self.rows.column(key).clone()]);
        let is_within = |key: i64| (first..=last).contains(&key);
        let mut rows = vec![0_u32; keys.rows() + 1];
        let mut end = 0;
        // Each row is written, and stays where it is chosen: that is no branch to predict.
        keys.for_each_integer(0..keys.rows(), |row, key| {
            rows[end] = row;
            end += usize::from(is_within(key));
        });
        rows.truncate(end);
        Ok(match end {
            0 => None,
            _ if 2 * end > keys.rows() => Some(self),
            _ => Some(KeyedRows::new(take_record_batch(&self.rows, &UInt32Array::from(rows))?, key)),
        })
    }

    /// Whether keys of rows that follow each other are so close that what they lead to is in the cache: far closer than keys in no order.
    pub fn are_clustered(all: &[KeyedRows], key: usize) -> bool {
        let Some((smallest, largest)) = KeyedRows::extent(all) else { return true };
        let (mut distances, mut count) = (0_u128, 0_u128);
        for batch in all {
            let rows = batch.rows.num_rows();
            let step = rows.div_ceil(SAMPLES_OF_BATCH).max(2);
            let mut integers = Vec::new();
            let sample: Vec<u32> = (0..rows as u32 - 1).step_by(step).flat_map(|row| [row, row + 1]).collect();
            KeyColumns::new(vec![batch.rows.column(key).clone()]).integers(Some(&sample), &mut integers);
            for pair in integers.chunks_exact(2) {
                distances += u128::from(pair[0].abs_diff(pair[1]));
                count += 1;
            }
        }
        distances * CLUSTERED_PART <= u128::from(smallest.abs_diff(largest)) * count
    }
}
