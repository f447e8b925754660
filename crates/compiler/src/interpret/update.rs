//! Accumulators, one column of arguments at a time.

use std::borrow::Cow;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, UInt8Array, downcast_primitive_array,
};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use pelton_data::aggregate::Accumulate;
use pelton_state::aggregates::{
    Aggregate, Maximum, Minimum, SumFloat, SumFloatWide, SumInteger, SumSquares, SumSquares128, SumSquares192, SumWide,
    Takes,
};
use pelton_state::join::gather;
use pelton_state::layout::AccumulatorSlot;
use pelton_state::table::{Entries, Positions, Table};

use crate::fold::{CountedRows, fold};
use crate::select::{Level, append_rows, ordered_f32, ordered_f64};

/// Adds one argument of each row that counts to accumulator `slot` of the row's entry; `values` is `None` where rows are counted. Where
/// each row has an entry, rows are listed or a range.
///
/// `entries` are what `table` gave for these rows since it last moved; `positions` are those of all rows of `values`.
///
/// # Panics
/// Where there are not as many entries as rows, or a row is out of range.
pub(crate) fn update(
    table: &mut Table,
    slot: usize,
    entries: Entries<'_>,
    values: Option<&ArrayRef>,
    kept: CountedRows<'_>,
    positions: Positions<'_>,
) {
    use Accumulate::{First, Last, Maximum, Minimum};
    let accumulate = table.layout().accumulators()[slot].accumulator.accumulate;
    match (values, accumulate) {
        (Some(values), First | Last) => update_kept_values(table, slot, entries, values, kept, positions),
        (Some(values), stored) if stored.has_store() => {
            update_kept_values(table, slot, entries, values, kept, positions);
        }
        (Some(values), Minimum | Maximum) if is_view(values) => {
            update_string_extreme(table, slot, entries, values, kept);
        }
        _ => {
            let layout = table.layout().clone();
            let AccumulatorSlot { accumulator, offset, width } = &layout.accumulators()[slot];
            // SAFETY: `entries` came from this table, whose layout has this slot; nothing else touches the table.
            let slots = unsafe { Slots::new(table.base().add(*offset), *width, entries, kept) };
            match values {
                None => slots.count(None),
                Some(values) => slots.accumulate(accumulator.accumulate, values),
            }
        }
    }
}

fn update_string_extreme(
    table: &mut Table,
    slot: usize,
    entries: Entries<'_>,
    values: &ArrayRef,
    kept: CountedRows<'_>,
) {
    let (values, rows) = match kept {
        CountedRows::Range(first, end) => (values.slice(first, end - first), None),
        CountedRows::Listed(rows) => (values.clone(), Some(Cow::Borrowed(rows))),
        CountedRows::Masked(first, end, mask) => {
            let mut rows = Vec::new();
            append_rows(Level::best(), mask, first, end, &mut rows);
            (values.clone(), Some(Cow::Owned(rows)))
        }
    };
    let rows = rows.as_deref();
    let entries = match entries {
        Entries::Each(entries) => Cow::Borrowed(entries),
        Entries::Single(entry) => Cow::Owned(vec![entry; rows.map_or(values.len(), <[u32]>::len)]),
    };
    match values.as_string_view_opt() {
        Some(strings) => table.update_string_extreme(slot, &entries, strings, rows),
        None => table.update_string_extreme(slot, &entries, values.as_binary_view(), rows),
    }
}

/// Lets the values that count reach an accumulator that keeps values themselves.
fn update_kept_values(
    table: &mut Table,
    slot: usize,
    entries: Entries<'_>,
    values: &ArrayRef,
    kept: CountedRows<'_>,
    positions: Positions<'_>,
) {
    let mut listed = Vec::new();
    let rows = match kept {
        CountedRows::Range(first, end) => {
            return update_values(table, slot, entries, &values.slice(first, end - first), positions.skip(first));
        }
        CountedRows::Listed(rows) => rows,
        CountedRows::Masked(first, end, mask) => {
            append_rows(Level::best(), mask, first, end, &mut listed);
            &listed
        }
    };
    let values = gather(values, rows);
    update_values(table, slot, entries, &values, positions.of_rows(rows));
}

/// One value will do where all rows have one entry, and the accumulator holds the first or last.
fn update_values(table: &mut Table, slot: usize, entries: Entries<'_>, values: &ArrayRef, positions: Positions<'_>) {
    let accumulate = table.layout().accumulators()[slot].accumulator.accumulate;
    match (accumulate, entries) {
        (Accumulate::First | Accumulate::Last, Entries::Each(entries)) => {
            assert_eq!(values.len(), entries.len(), "one entry for each row");
            table.update_arrivals(slot, entries.iter().copied().enumerate(), values, positions);
        }
        (Accumulate::First | Accumulate::Last, Entries::Single(entry)) => {
            let mut rows = 0..values.len();
            let row = match accumulate {
                Accumulate::First => rows.find(|&row| values.is_valid(row)),
                _ => rows.rfind(|&row| values.is_valid(row)),
            };
            table.update_arrivals(slot, row.map(|row| (row, entry)).into_iter(), values, positions);
        }
        _ => table.update_store(slot, entries, values, positions),
    }
}

fn is_view(values: &ArrayRef) -> bool {
    matches!(values.data_type(), DataType::Utf8View | DataType::BinaryView)
}

/// One accumulator of each row's entry.
struct Slots<'a> {
    /// Address of the accumulator in entry 0.
    base: *mut u8,
    width: usize,
    entries: Entries<'a>,
    kept: CountedRows<'a>,
}

impl<'a> Slots<'a> {
    /// # Safety
    /// For each of `entries`, `width` bytes from `base + 8 * entry` on must be readable and writable for `'a`, through
    /// no other reference, and hold a state of any type they are accessed as.
    unsafe fn new(base: *mut u8, width: usize, entries: Entries<'a>, kept: CountedRows<'a>) -> Slots<'a> {
        if let Entries::Each(entries) = entries {
            assert_eq!(kept.count(None), entries.len(), "one entry for each row");
        }
        Slots { base, width, entries, kept }
    }

    fn count(&self, nulls: Option<&NullBuffer>) {
        match self.entries {
            Entries::Single(entry) => {
                let counted = self.kept.count(nulls) as u64;
                self.change(entry, |count: u64| count.wrapping_add(counted));
            }
            Entries::Each(entries) => {
                self.each(entries, nulls, |entry, _| self.change(entry, |count: u64| count.wrapping_add(1)));
            }
        }
    }

    fn accumulate(&self, accumulate: Accumulate, values: &ArrayRef) {
        match accumulate {
            Accumulate::Count => {
                let nulls = values.logical_nulls();
                self.count(nulls.as_ref().filter(|nulls| nulls.null_count() > 0));
            }
            Accumulate::SumInteger => self.sum_integer(values),
            Accumulate::SumWide => self.sum_wide(values),
            Accumulate::SumSquares128 => self.sum_squares::<SumSquares128>(values),
            Accumulate::SumSquares192 => self.sum_squares::<SumSquares192>(values),
            Accumulate::SumFloat => match values.data_type() {
                DataType::Float32 => self.sum_in_order::<Float32Type, f32, SumFloat>(values),
                _ => self.sum_in_order::<Float64Type, f64, SumFloat>(values),
            },
            Accumulate::SumFloatWide => self.sum_in_order::<Float64Type, f64, SumFloatWide>(values),
            Accumulate::SumSquares => self.sum_in_order::<Float64Type, f64, SumSquares>(values),
            Accumulate::Minimum => self.extreme(values, false),
            Accumulate::Maximum => self.extreme(values, true),
            Accumulate::First
            | Accumulate::Last
            | Accumulate::Values
            | Accumulate::Arrivals
            | Accumulate::Distinct { .. }
            | Accumulate::Frequencies
            | Accumulate::DistinctSketch
            | Accumulate::Udaf(_) => unreachable!("tables keep values themselves"),
        }
    }

    fn sum_integer(&self, values: &ArrayRef) {
        match values.data_type() {
            DataType::Int8 => self.sum::<Int8Type, i64, SumInteger>(values, Into::into),
            DataType::Int16 => self.sum::<Int16Type, i64, SumInteger>(values, Into::into),
            DataType::Int32 => self.sum::<Int32Type, i64, SumInteger>(values, Into::into),
            DataType::Int64 => self.sum::<Int64Type, i64, SumInteger>(values, Into::into),
            DataType::UInt8 => self.sum::<UInt8Type, i64, SumInteger>(values, Into::into),
            DataType::UInt16 => self.sum::<UInt16Type, i64, SumInteger>(values, Into::into),
            DataType::UInt32 => self.sum::<UInt32Type, i64, SumInteger>(values, Into::into),
            DataType::UInt64 => self.sum::<UInt64Type, i64, SumInteger>(values, |value| value as i64),
            other => unreachable!("the sum of {other} is no integer: checked when the kernel was made"),
        }
    }

    fn sum_wide(&self, values: &ArrayRef) {
        match values.data_type() {
            DataType::Int8 => self.sum_wide_integers::<Int8Type>(values),
            DataType::Int16 => self.sum_wide_integers::<Int16Type>(values),
            DataType::Int32 => self.sum_wide_integers::<Int32Type>(values),
            DataType::Int64 => self.sum_wide_integers::<Int64Type>(values),
            DataType::UInt8 => self.sum_wide_integers::<UInt8Type>(values),
            DataType::UInt16 => self.sum_wide_integers::<UInt16Type>(values),
            DataType::UInt32 => self.sum_wide_integers::<UInt32Type>(values),
            DataType::UInt64 => self.sum_wide_integers::<UInt64Type>(values),
            DataType::Decimal128(..) => self.sum::<Decimal128Type, i128, SumWide>(values, |value| value),
            other => unreachable!("the sum of {other} has no 128 bits: checked when the kernel was made"),
        }
    }

    /// Adds the squares of integers.
    fn sum_squares<A: Takes<i64>>(&self, values: &ArrayRef) {
        match values.data_type() {
            DataType::Int8 => self.sum::<Int8Type, i64, A>(values, Into::into),
            DataType::Int16 => self.sum::<Int16Type, i64, A>(values, Into::into),
            DataType::Int32 => self.sum::<Int32Type, i64, A>(values, Into::into),
            DataType::Int64 => self.sum::<Int64Type, i64, A>(values, Into::into),
            other => unreachable!("{other} is no integer with a sign: checked when the kernel was made"),
        }
    }

    /// Sums integers in 128 bits.
    fn sum_wide_integers<T: ArrowPrimitiveType<Native: Into<i128>>>(&self, values: &ArrayRef) {
        let Entries::Single(entry) = self.entries else {
            return self.sum::<T, i128, SumWide>(values, Into::into);
        };
        // The lower and the upper halves apart: no block has so many rows that their sums do not fit, and vectors add 64 bits.
        let values = values.as_primitive::<T>();
        let low = self.folded(values, Some(T::Native::ZERO), 0, |sum: u64, value| sum + u64::from(value.into() as u32));
        let high = |sum: i64, value: T::Native| sum.wrapping_add((value.into() >> 32) as i64);
        let high = self.folded(values, Some(T::Native::ZERO), 0, high);
        self.change(entry, |sum: i128| sum.wrapping_add((i128::from(high) << 32) + i128::from(low)));
    }

    /// Adds values in any order, each as a wider one.
    fn sum<T: ArrowPrimitiveType, W, A: Takes<W>>(&self, values: &ArrayRef, widen: impl Fn(T::Native) -> W) {
        self.fold(values.as_primitive::<T>(), Some(T::Native::ZERO), |sum, value| A::add(sum, widen(value)));
    }

    /// Adds values in the order of their rows.
    fn sum_in_order<T: ArrowPrimitiveType<Native = V>, V: ArrowNativeTypeOp, A: Takes<V>>(&self, values: &ArrayRef) {
        self.fold(values.as_primitive::<T>(), None, A::add);
    }

    /// Smallest or largest value, floating-point values in total order.
    fn extreme(&self, values: &ArrayRef, largest: bool) {
        if let Some(booleans) = values.as_boolean_opt() {
            let bytes: ScalarBuffer<u8> = booleans.values().iter().map(u8::from).collect();
            return self.extreme_of(&UInt8Array::new(bytes, booleans.nulls().cloned()), largest);
        }
        match values.data_type() {
            DataType::Float64 => {
                let float = |ordered: i64| f64::from_bits(ordered_f64(f64::from_bits(ordered as u64)) as u64);
                self.extreme_of_floats::<Float64Type, i64>(values, largest, ordered_f64, float);
            }
            DataType::Float32 => {
                let float = |ordered: i32| f32::from_bits(ordered_f32(f32::from_bits(ordered as u32)) as u32);
                self.extreme_of_floats::<Float32Type, i32>(values, largest, ordered_f32, float);
            }
            _ => downcast_primitive_array!(
                values => self.extreme_of(values, largest),
                other => unreachable!("{other} has no extremes: checked when the kernel was made")
            ),
        }
    }

    fn extreme_of<T: ArrowPrimitiveType>(&self, values: &PrimitiveArray<T>, largest: bool) {
        if largest {
            self.fold(values, Some(Maximum::<T::Native>::EMPTY), Maximum::<T::Native>::add);
        } else {
            self.fold(values, Some(Minimum::<T::Native>::EMPTY), Minimum::<T::Native>::add);
        }
    }

    /// As [`Slots::extreme_of`]. Vectors compare the integers that order as floating-point values do in total order; `float` is the
    /// inverse of `ordered`.
    fn extreme_of_floats<T: ArrowPrimitiveType, K: Ord + Copy>(
        &self,
        values: &ArrayRef,
        largest: bool,
        ordered: impl Fn(T::Native) -> K,
        float: impl Fn(K) -> T::Native,
    ) {
        let values = values.as_primitive::<T>();
        let Entries::Single(entry) = self.entries else { return self.extreme_of(values, largest) };
        self.change(entry, |held: T::Native| {
            let best = if largest {
                let neutral = Some(T::Native::MIN_TOTAL_ORDER);
                self.folded(values, neutral, ordered(held), |best: K, value| best.max(ordered(value)))
            } else {
                let neutral = Some(T::Native::MAX_TOTAL_ORDER);
                self.folded(values, neutral, ordered(held), |best: K, value| best.min(ordered(value)))
            };
            float(best)
        });
    }

    /// `state = step(state, value)` for each value that counts and is not NULL; in the order of rows where no value is `neutral`, which
    /// means that it changes no state.
    fn fold<T: ArrowPrimitiveType, S: Copy>(
        &self,
        values: &PrimitiveArray<T>,
        neutral: Option<T::Native>,
        step: impl Fn(S, T::Native) -> S,
    ) {
        match (self.entries, self.kept) {
            (Entries::Single(entry), _) => self.change(entry, |state| self.folded(values, neutral, state, step)),
            (Entries::Each(entries), CountedRows::Range(first, end)) if values.null_count() == 0 => {
                let values = values.values()[first..end].iter();
                entries.iter().zip(values).for_each(|(&entry, &value)| self.change(entry, |state| step(state, value)));
            }
            (Entries::Each(entries), _) => {
                let numbers = values.values();
                self.each(entries, nulls(values), |entry, row| self.change(entry, |state| step(state, numbers[row])));
            }
        }
    }

    /// What [`Slots::fold`] makes of a state where all rows belong to one entry.
    fn folded<T: ArrowPrimitiveType, S: Copy>(
        &self,
        values: &PrimitiveArray<T>,
        neutral: Option<T::Native>,
        state: S,
        step: impl Fn(S, T::Native) -> S,
    ) -> S {
        fold(Level::best(), values.values(), nulls(values), self.kept, neutral, state, step)
    }

    /// Visits the entry of each row that counts and is not NULL, and the row.
    fn each(&self, entries: &[u32], nulls: Option<&NullBuffer>, visit: impl Fn(u32, usize)) {
        let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
        let visit = |(&entry, row)| {
            if is_valid(row) {
                visit(entry, row)
            }
        };
        match self.kept {
            CountedRows::Range(first, end) => entries.iter().zip(first..end).for_each(visit),
            CountedRows::Listed(rows) => entries.iter().zip(rows.iter().map(|&row| row as usize)).for_each(visit),
            CountedRows::Masked(..) => unreachable!("rows with entries of their own are listed or a range"),
        }
    }

    /// Replaces the state of an entry.
    fn change<S: Copy>(&self, entry: u32, step: impl FnOnce(S) -> S) {
        assert!(size_of::<S>() <= self.width, "the state fits its slot");
        let state = self.base.wrapping_add(entry as usize * 8).cast::<S>();
        // SAFETY: `Slots::new` was promised that each entry's slot can be read and written.
        unsafe { state.write_unaligned(step(state.read_unaligned())) };
    }
}

/// The NULLs of an array that has some.
fn nulls(values: &dyn Array) -> Option<&NullBuffer> {
    values.nulls().filter(|nulls| nulls.null_count() > 0)
}
