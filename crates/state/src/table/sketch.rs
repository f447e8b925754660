//! About how many distinct values there were, in little memory whatever their number: HyperLogLog.
//!
//! The hash of a value names a register and gives a rank, how many zeros follow; a register keeps its largest rank. (Flajolet, Fusy, Gandouet
//! and Meunier, 2007.) Neither order nor repetition of values changes that, and the registers of a union are the larger ones of its parts. The
//! estimate is Ertl's, which is unbiased from the first value on ("New cardinality estimation algorithms for HyperLogLog
//! sketches", 2017, algorithm 6).

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{ArrowNativeType, BinaryViewType, ByteViewType, DataType, StringViewType};

use super::hash::{hash_bytes, hash_pair};
use crate::layout::value_width;
use crate::snapshot::{Reader, SnapshotError, Writer};

/// Bits of a hash that name a register.
const REGISTER_BITS: u32 = 14;

/// The standard error of an estimate is 1.04 / √16384, which is 0.8 %.
const REGISTERS: usize = 1 << REGISTER_BITS;

/// The largest rank: all bits of the hash behind the register's are zero.
const RANK_MAX: usize = 64 - REGISTER_BITS as usize + 1;

/// Registers that are listed; with more all are kept.
const LISTED_MAX: usize = 1024;

/// One group's registers.
#[derive(Debug)]
pub(super) enum Sketch {
    /// Those that are not zero, ascending: the register's number in the upper 24 bits, its rank in the lower 8.
    Listed(Vec<u32>),
    /// All ranks.
    All(Box<[u8; REGISTERS]>),
}

impl Default for Sketch {
    fn default() -> Sketch {
        Sketch::Listed(Vec::new())
    }
}

impl Sketch {
    /// Notes a value by its hash.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64) {
        let register = (hash >> (64 - REGISTER_BITS)) as usize;
        // A bit behind all others ends the search for one.
        let rank = (hash << REGISTER_BITS | 1 << (REGISTER_BITS - 1)).leading_zeros() as u8 + 1;
        self.raise(register, rank);
    }

    #[inline]
    fn raise(&mut self, register: usize, rank: u8) {
        match self {
            Sketch::All(ranks) => ranks[register] = ranks[register].max(rank),
            Sketch::Listed(listed) => {
                let entry = (register as u32) << 8 | u32::from(rank);
                let at = listed.partition_point(|other| other >> 8 < entry >> 8);
                match listed.get_mut(at) {
                    Some(known) if *known >> 8 == entry >> 8 => *known = (*known).max(entry),
                    _ => self.add(at, entry),
                }
            }
        }
    }

    /// Adds a register that was zero.
    fn add(&mut self, at: usize, entry: u32) {
        let Sketch::Listed(listed) = self else { unreachable!("all registers are there") };
        listed.insert(at, entry);
        if listed.len() > LISTED_MAX {
            let mut ranks = Box::new([0; REGISTERS]);
            listed.iter().for_each(|entry| ranks[(entry >> 8) as usize] = *entry as u8);
            *self = Sketch::All(ranks);
        }
    }

    /// Notes all values that another has noted.
    pub(super) fn merge(&mut self, other: &Sketch) {
        match (&mut *self, other) {
            (_, Sketch::Listed(listed)) => {
                listed.iter().for_each(|entry| self.raise((entry >> 8) as usize, *entry as u8));
            }
            (Sketch::All(mine), Sketch::All(theirs)) => {
                mine.iter_mut().zip(theirs.iter()).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
            }
            (Sketch::Listed(listed), Sketch::All(theirs)) => {
                let listed = std::mem::take(listed);
                *self = Sketch::All(theirs.clone());
                self.merge(&Sketch::Listed(listed));
            }
        }
    }

    /// About how many distinct values there were.
    pub(super) fn estimate(&self) -> u64 {
        // How many registers have each rank.
        let mut counts = [0_u32; RANK_MAX + 1];
        match self {
            Sketch::All(ranks) => ranks.iter().for_each(|&rank| counts[usize::from(rank)] += 1),
            Sketch::Listed(listed) => {
                listed.iter().for_each(|entry| counts[*entry as u8 as usize] += 1);
                counts[0] = (REGISTERS - listed.len()) as u32;
            }
        }
        let registers = REGISTERS as f64;
        let share = |rank: usize| f64::from(counts[rank]) / registers;
        let mut sum = registers * at_the_largest_rank(1.0 - share(RANK_MAX));
        for rank in (1..RANK_MAX).rev() {
            sum = 0.5 * (sum + f64::from(counts[rank]));
        }
        sum += registers * at_rank_zero(share(0));
        let scale = 0.5 / std::f64::consts::LN_2;
        (scale * registers * registers / sum).round() as u64
    }

    /// Writes one group's registers, if it has any.
    pub(super) fn write_to(sketch: Option<&Sketch>, out: &mut Writer) {
        match sketch {
            None => out.list::<u32>(&[]),
            Some(Sketch::Listed(listed)) => out.list(listed),
            Some(Sketch::All(ranks)) => {
                out.count(REGISTERS);
                out.column(ranks.as_slice());
            }
        }
    }

    /// Reads one group's registers, if it has any.
    pub(super) fn read_from(input: &mut Reader<'_>) -> Result<Option<Sketch>, SnapshotError> {
        let count = input.count(1, "registers")?;
        if count == REGISTERS {
            let ranks = input.raw(REGISTERS, "ranks")?;
            input.check(ranks.iter().all(|&rank| usize::from(rank) <= RANK_MAX), "ranks of registers")?;
            return Ok(Some(Sketch::All(Box::new(ranks.try_into().expect("as many were read")))));
        }
        let listed = input.column::<u32>(count, "registers")?;
        let is_right = |&entry: &u32| (entry >> 8) < REGISTERS as u32 && (1..=RANK_MAX).contains(&(entry as u8).into());
        let are_ascending = listed.windows(2).all(|pair| pair[0] >> 8 < pair[1] >> 8);
        input.check(count <= LISTED_MAX && are_ascending && listed.iter().all(is_right), "registers, ascending")?;
        Ok((count > 0).then(|| Sketch::Listed(listed.to_vec())))
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Sketch::Listed(listed) => listed.capacity() * size_of::<u32>(),
            Sketch::All(_) => REGISTERS,
        }
    }
}

/// Ertl's σ: what registers that saw no value say, which are this share of all.
fn at_rank_zero(share: f64) -> f64 {
    if share == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (share, 1.0, share);
    loop {
        power *= power;
        let next = sum + power * weight;
        if next == sum {
            return sum;
        }
        sum = next;
        weight += weight;
    }
}

/// Ertl's τ: what registers say that have not reached the largest rank, which are this share of all.
fn at_the_largest_rank(share: f64) -> f64 {
    if share == 0.0 || share == 1.0 {
        return 0.0;
    }
    let (mut root, mut weight, mut sum) = (share, 1.0, 1.0 - share);
    loop {
        root = root.sqrt();
        weight *= 0.5;
        let next = sum - (1.0 - root).powi(2) * weight;
        if next == sum {
            return sum / 3.0;
        }
        sum = next;
    }
}

/// Visits the values at some places, each with the number that stands beside its place, by their hashes: values of one type that are equal
/// have the same.
pub(super) fn each_hash(
    values: &ArrayRef,
    numbers: impl Iterator<Item = (usize, u32)>,
    mut visit: impl FnMut(u32, u64),
) {
    match (values.data_type(), value_width(values.data_type())) {
        (DataType::Utf8View, _) => strings::<StringViewType>(values, numbers, visit),
        (DataType::BinaryView, _) => strings::<BinaryViewType>(values, numbers, visit),
        (DataType::Boolean, _) => {
            let values = values.as_boolean().values();
            numbers.for_each(|(at, number)| visit(number, spread(u64::from(values.value(at)))));
        }
        (_, 1) => words::<i8>(values, numbers, visit, |value| value as u64),
        (_, 2) => words::<i16>(values, numbers, visit, |value| value as u64),
        (_, 4) => words::<i32>(values, numbers, visit, |value| value as u64),
        (_, 8) => words::<i64>(values, numbers, visit, |value| value as u64),
        _ => words::<i128>(values, numbers, visit, |value| hash_pair(value as u64, (value >> 64) as u64)),
    }
}

fn words<T: ArrowNativeType>(
    values: &ArrayRef,
    numbers: impl Iterator<Item = (usize, u32)>,
    mut visit: impl FnMut(u32, u64),
    word: impl Fn(T) -> u64,
) {
    let data = values.to_data();
    let values = data.buffer::<T>(0);
    numbers.for_each(|(at, number)| visit(number, spread(word(values[at]))));
}

fn strings<T: ByteViewType>(
    values: &ArrayRef,
    numbers: impl Iterator<Item = (usize, u32)>,
    mut visit: impl FnMut(u32, u64),
) {
    let values = values.as_byte_view::<T>();
    numbers.for_each(|(at, number)| visit(number, spread(hash_bytes(values.value(at).as_ref()))));
}

/// Lets each bit of a word change each bit of its hash in half of all cases: Murmur's finalizer, behind which zero is nothing special.
#[inline(always)]
fn spread(word: u64) -> u64 {
    let mut hash = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, StringViewArray};

    use super::*;

    fn sketch(values: ArrayRef) -> Sketch {
        let mut sketch = Sketch::default();
        each_hash(&values, (0..values.len()).map(|at| (at, 0)), |_, hash| sketch.insert(hash));
        sketch
    }

    /// Estimates are within four standard errors.
    fn check(values: ArrayRef, distinct: usize) {
        let estimate = sketch(values).estimate() as f64;
        let error = (estimate - distinct as f64).abs() / distinct as f64;
        assert!(error < 4.0 * 1.04 / (REGISTERS as f64).sqrt(), "{estimate} of {distinct}");
    }

    #[test]
    fn estimates_are_near_whatever_the_values() {
        for count in [100, 1_000, 10_000, 100_000, 1_000_000] {
            for step in [1, 3, 64, 1_000_003, 1 << 40] {
                check(
                    Arc::new(Int64Array::from_iter_values((0..count).map(|number: i64| number.wrapping_mul(step)))),
                    count as usize,
                );
            }
            check(
                Arc::new(Float64Array::from_iter_values((0..count).map(|number| number as f64 / 8.0))),
                count as usize,
            );
            let words = (0..count).map(|number| format!("user {number}"));
            check(Arc::new(StringViewArray::from_iter_values(words)), count as usize);
        }
    }

    #[test]
    fn few_values_are_counted_exactly() {
        assert_eq!(Sketch::default().estimate(), 0);
        for count in 1..60 {
            assert_eq!(sketch(Arc::new(Int64Array::from_iter_values(0..count))).estimate(), count as u64);
        }
    }

    #[test]
    fn parts_merge_to_the_whole_in_any_order() {
        let part = |range: std::ops::Range<i64>| sketch(Arc::new(Int64Array::from_iter_values(range)));
        let ranges = [0..10, 0..5_000, 4_000..4_500, 90_000..120_000, 100..1_200];
        let whole = part(0..5_000).merged(&part(90_000..120_000));
        for turn in 0..ranges.len() {
            let mut merged = Sketch::default();
            (0..ranges.len()).for_each(|at| merged.merge(&part(ranges[(at + turn) % ranges.len()].clone())));
            assert_eq!(merged.estimate(), whole.estimate());
        }
        // Listed registers say what all of them would.
        let (few, mut all) = (part(0..700), Sketch::All(Box::new([0; REGISTERS])));
        all.merge(&few);
        assert_eq!(all.estimate(), few.estimate());
    }

    impl Sketch {
        fn merged(mut self, other: &Sketch) -> Sketch {
            self.merge(other);
            self
        }
    }
}
