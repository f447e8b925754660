//! Accumulators, one column of arguments at a time.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, downcast_primitive_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use pelton_data::aggregate::Accumulate;
use pelton_data::wide_float::WideFloat;
use pelton_state::layout::AccumulatorSlot;
use pelton_state::table::Table;

/// Which entry of a table each row belongs to, in units of eight bytes from entry 0.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Entries<'a> {
    /// All rows belong to one.
    Single(u32),
    /// One for each row.
    Each(&'a [u32]),
}

/// Adds one argument of each row to accumulator `slot` of the row's entry; `values` is `None` where rows are counted.
///
/// `entries` are what `table` gave for these rows since it last moved.
pub(crate) fn update(table: &mut Table, slot: usize, entries: Entries<'_>, values: Option<&ArrayRef>, rows: usize) {
    if let (Some(values), Entries::Each(entries)) = (values, entries) {
        assert_eq!(values.len(), entries.len(), "one argument for each row");
    }
    let is_extreme =
        |slot: &AccumulatorSlot| matches!(slot.accumulator.accumulate, Accumulate::Minimum | Accumulate::Maximum);
    match values {
        Some(values) if is_view(values) && is_extreme(&table.layout().accumulators()[slot]) => {
            let single;
            let entries = match entries {
                Entries::Each(entries) => entries,
                Entries::Single(entry) => {
                    single = vec![entry; rows];
                    &single
                }
            };
            match values.as_string_view_opt() {
                Some(strings) => table.update_string_extreme(slot, entries, strings, None),
                None => table.update_string_extreme(slot, entries, values.as_binary_view(), None),
            }
        }
        _ => {
            let layout = table.layout().clone();
            let AccumulatorSlot { accumulator, offset, width } = &layout.accumulators()[slot];
            // SAFETY: `entries` came from this table, whose layout has this slot; nothing else touches the table.
            let slots = unsafe { Slots::new(table.base().add(*offset), *width, entries) };
            match values {
                None => slots.count(rows, None),
                Some(values) => slots.accumulate(accumulator.accumulate, values),
            }
        }
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
}

impl<'a> Slots<'a> {
    /// # Safety
    /// For each of `entries`, `width` bytes from `base + 8 * entry` on must be readable and writable for `'a`, through
    /// no other reference, and hold a state of any type they are accessed as.
    unsafe fn new(base: *mut u8, width: usize, entries: Entries<'a>) -> Slots<'a> {
        Slots { base, width, entries }
    }

    fn count(&self, rows: usize, nulls: Option<NullBuffer>) {
        let counted = nulls.as_ref().map_or(rows, |nulls| rows - nulls.null_count());
        match self.entries {
            Entries::Single(_) => self.fold(&[counted as u64], None, |count: u64, more| count.wrapping_add(more)),
            Entries::Each(entries) => {
                // The values are not looked at; one for each row is there for the loop's length.
                self.fold(entries, nulls.as_ref(), |count: u64, _| count.wrapping_add(1));
            }
        }
    }

    fn accumulate(&self, accumulate: Accumulate, values: &ArrayRef) {
        match accumulate {
            Accumulate::Count => self.count(values.len(), values.logical_nulls()),
            Accumulate::SumInteger => self.sum_integer(values),
            Accumulate::SumWide => self.sum_wide(values),
            Accumulate::SumFloat => match values.data_type() {
                DataType::Float32 => self.sum::<Float32Type, f64>(values, |sum, value| sum + f64::from(value)),
                _ => self.sum::<Float64Type, f64>(values, |sum, value| sum + value),
            },
            Accumulate::SumFloatWide => {
                self.sum::<Float64Type, WideFloat>(values, |sum, value| sum.plus(WideFloat::new(value)))
            }
            Accumulate::SumSquares => {
                self.sum::<Float64Type, WideFloat>(values, |sum, value| sum.plus(WideFloat::square(value)));
            }
            Accumulate::Minimum => self.extreme(values, false),
            Accumulate::Maximum => self.extreme(values, true),
        }
    }

    fn sum_integer(&self, values: &ArrayRef) {
        match values.data_type() {
            DataType::Int8 => self.sum::<Int8Type, i64>(values, |sum, value| sum.wrapping_add(value.into())),
            DataType::Int16 => self.sum::<Int16Type, i64>(values, |sum, value| sum.wrapping_add(value.into())),
            DataType::Int32 => self.sum::<Int32Type, i64>(values, |sum, value| sum.wrapping_add(value.into())),
            DataType::Int64 => self.sum::<Int64Type, i64>(values, |sum, value| sum.wrapping_add(value)),
            DataType::UInt8 => self.sum::<UInt8Type, i64>(values, |sum, value| sum.wrapping_add(value.into())),
            DataType::UInt16 => self.sum::<UInt16Type, i64>(values, |sum, value| sum.wrapping_add(value.into())),
            DataType::UInt32 => self.sum::<UInt32Type, i64>(values, |sum, value| sum.wrapping_add(value.into())),
            DataType::UInt64 => self.sum::<UInt64Type, i64>(values, |sum, value| sum.wrapping_add(value as i64)),
            other => unreachable!("the sum of {other} is no integer: checked when the kernel was made"),
        }
    }

    fn sum_wide(&self, values: &ArrayRef) {
        match values.data_type() {
            DataType::Int8 => self.sum::<Int8Type, i128>(values, |sum, value| sum.wrapping_add(value.into())),
            DataType::Int16 => self.sum::<Int16Type, i128>(values, |sum, value| sum.wrapping_add(value.into())),
            DataType::Int32 => self.sum::<Int32Type, i128>(values, |sum, value| sum.wrapping_add(value.into())),
            DataType::Int64 => self.sum::<Int64Type, i128>(values, |sum, value| sum.wrapping_add(value.into())),
            DataType::UInt8 => self.sum::<UInt8Type, i128>(values, |sum, value| sum.wrapping_add(value.into())),
            DataType::UInt16 => self.sum::<UInt16Type, i128>(values, |sum, value| sum.wrapping_add(value.into())),
            DataType::UInt32 => self.sum::<UInt32Type, i128>(values, |sum, value| sum.wrapping_add(value.into())),
            DataType::UInt64 => self.sum::<UInt64Type, i128>(values, |sum, value| sum.wrapping_add(value.into())),
            DataType::Decimal128(..) => self.sum::<Decimal128Type, i128>(values, |sum, value| sum.wrapping_add(value)),
            other => unreachable!("the sum of {other} has no 128 bits: checked when the kernel was made"),
        }
    }

    fn sum<T: ArrowPrimitiveType, S: Copy>(&self, values: &ArrayRef, add: impl Fn(S, T::Native) -> S) {
        let values = values.as_primitive::<T>();
        self.fold(values.values(), values.nulls(), add);
    }

    /// Smallest or largest value, floating-point values in total order.
    fn extreme(&self, values: &ArrayRef, largest: bool) {
        fn of<T: ArrowPrimitiveType>(slots: &Slots<'_>, values: &PrimitiveArray<T>, largest: bool) {
            let (values, nulls) = (values.values(), values.nulls());
            if largest {
                slots.fold(values, nulls, |best: T::Native, value| if value.is_gt(best) { value } else { best });
            } else {
                slots.fold(values, nulls, |best: T::Native, value| if value.is_lt(best) { value } else { best });
            }
        }
        if let Some(booleans) = values.as_boolean_opt() {
            let bytes: Vec<u8> = booleans.values().iter().map(u8::from).collect();
            let pick = if largest { u8::max } else { u8::min };
            return self.fold(&bytes, booleans.nulls(), pick);
        }
        downcast_primitive_array!(
            values => of(self, values, largest),
            other => unreachable!("{other} has no extremes: checked when the kernel was made")
        );
    }

    /// `state = step(state, value)` for each value that is not NULL, in order.
    fn fold<S: Copy, V: Copy>(&self, values: &[V], nulls: Option<&NullBuffer>, step: impl Fn(S, V) -> S) {
        assert!(size_of::<S>() <= self.width, "the state fits its slot");
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        match self.entries {
            Entries::Single(entry) => {
                // SAFETY: `Slots::new` was promised that the entry's slot can be read.
                let mut state = unsafe { self.state::<S>(entry).read_unaligned() };
                match nulls {
                    None => values.iter().for_each(|&value| state = step(state, value)),
                    Some(nulls) => nulls.valid_indices().for_each(|row| state = step(state, values[row])),
                }
                // SAFETY: as above, and written.
                unsafe { self.state::<S>(entry).write_unaligned(state) };
            }
            Entries::Each(entries) => {
                let change = |entry: u32, value: V| {
                    let state = self.state::<S>(entry);
                    // SAFETY: `Slots::new` was promised that each entry's slot can be read and written.
                    unsafe { state.write_unaligned(step(state.read_unaligned(), value)) };
                };
                match nulls {
                    None => entries.iter().zip(values).for_each(|(&entry, &value)| change(entry, value)),
                    Some(nulls) => nulls.valid_indices().for_each(|row| change(entries[row], values[row])),
                }
            }
        }
    }

    fn state<S>(&self, entry: u32) -> *mut S {
        self.base.wrapping_add(entry as usize * 8).cast()
    }
}
