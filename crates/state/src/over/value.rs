//! The forms in which values are kept and results computed: all types of arguments are one of them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayBuilder, ArrayRef, ArrowNativeTypeOp, AsArray, BinaryViewArray, BinaryViewBuilder, Date32Array,
    Decimal128Array, Float64Array, Int32Array, Int64Array, ListArray, NullBufferBuilder, new_empty_array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};
use pelton_data::allowance::Allowance;
use pelton_data::column::gathered;
use pelton_data::decimal::{DecimalTotal, fits};

use super::distinct::{DistinctSums, FloatSums, IntegerSums};
use super::extreme::Key;
use super::frame::{Bounds, Moves, Step};
use super::frequencies::Findable;
use super::sum::{DecimalSum, FloatSum, FrameSum, IntegerSum};
use super::variance::Powers;
use crate::aggregates::{FloatVariance, IntegerVariance, NoVariance, Takes, integer_mean};
use crate::vector::vectorised;

/// A value as it is kept.
pub(super) trait Value: ArrowNativeTypeOp {
    /// How values are summed.
    type Sum: FrameSum<Self> + std::fmt::Debug;

    /// What variances are computed from.
    type Powers: Powers + Takes<Self> + std::fmt::Debug;

    /// What sums and variances of distinct values are computed from.
    type DistinctSums: DistinctSums<Self>;

    /// What stands in their order as values do.
    type Key: Key + Findable<Borrowed = Self::Key> + std::fmt::Debug;

    fn key(self) -> Self::Key;

    fn of_key(key: Self::Key) -> Self;

    /// The nearest double.
    fn float(self) -> f64;

    /// Results of this form.
    fn results(results: &mut Results) -> &mut Vec<Self>;

    /// Where sums are appended: among the results, where they have their form, or else in `scratch`.
    fn totals<'a>(results: &'a mut Results, scratch: &'a mut Vec<Total<Self>>) -> &'a mut Vec<Total<Self>>;

    /// Makes results of the sums from the `first` on.
    fn finish_sums(scratch: &mut Vec<Total<Self>>, first: usize, results: &mut Results) -> Result<(), Overflow>;

    /// Makes the means of so many values each, or of none, of the sums from the `first` on. Means of integers lose their fraction, unless results are floating-point.
    fn finish_means(
        scratch: &mut Vec<Total<Self>>,
        first: usize,
        counts: Counts<'_>,
        decimal: Option<DecimalMean>,
        results: &mut Results,
    ) -> Result<(), Overflow>;
}

/// A sum of values.
pub(super) type Total<T> = <<T as Value>::Sum as FrameSum<T>>::Total;

/// A sum or mean that has too many digits for its type, or lists and texts that take too much.
#[derive(Debug)]
pub(super) struct Overflow;

/// How many values each frame has.
#[derive(Clone, Copy)]
pub(super) enum Counts<'a> {
    /// As many as rows.
    Rows(&'a Bounds),
    /// Fewer, as there are NULLs.
    Valid(&'a [u64]),
}

/// How a mean of decimals is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecimalMean {
    /// Digits behind the point beyond those of the values.
    pub digits: i8,
    /// All digits.
    pub precision: u8,
}

/// One form of a column of values.
#[derive(Debug)]
pub(super) enum Column {
    Integers(Int64Array),
    Floats(Float64Array),
    Decimals(Decimal128Array),
    /// Strings too.
    Bytes(BinaryViewArray),
}

/// Which form values of a type have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Integer,
    Float,
    Decimal,
    Bytes,
}

impl Form {
    /// The form of values of a type that planning lets through.
    pub fn of(data_type: &DataType) -> Form {
        match data_type {
            DataType::Float32 | DataType::Float64 => Form::Float,
            DataType::Decimal128(..) => Form::Decimal,
            DataType::Utf8View | DataType::BinaryView => Form::Bytes,
            _ => Form::Integer,
        }
    }
}

impl Column {
    /// The values of an array.
    pub fn new(array: &ArrayRef) -> Column {
        let widened = |wanted: &DataType| cast(array, wanted).expect("values are widened to their form");
        match Form::of(array.data_type()) {
            Form::Float => Column::Floats(widened(&DataType::Float64).as_primitive::<Float64Type>().clone()),
            Form::Decimal => Column::Decimals(array.as_primitive::<Decimal128Type>().clone()),
            Form::Bytes => Column::Bytes(widened(&DataType::BinaryView).as_binary_view().clone()),
            // A cast would check each value.
            Form::Integer => Column::Integers(match array.data_type() {
                DataType::Int32 => array.as_primitive::<Int32Type>().unary(i64::from),
                DataType::Date32 => array.as_primitive::<Date32Type>().unary(i64::from),
                _ => widened(&DataType::Int64).as_primitive::<Int64Type>().clone(),
            }),
        }
    }
}

/// Results of one call, row by row.
#[derive(Debug)]
pub(super) struct Results {
    values: ResultValues,
    nulls: NullBufferBuilder,
}

#[derive(Debug)]
enum ResultValues {
    Integers(Vec<i64>),
    /// Of 32 bits.
    Narrow(NarrowIntegers),
    Floats(Vec<f64>),
    Decimals(Vec<i128>),
    /// These know by themselves which are NULL.
    Bytes(BinaryViewBuilder),
    /// Values of all lists, one list after the other, and where each ends.
    Lists(Box<Results>, Vec<i32>),
    /// Those of the program's own functions, which make arrays of them.
    Arrays(Vec<ArrayRef>),
}

/// Integers that leave with 32 bits. Those of a run are narrowed while they are in the first-level cache.
#[derive(Debug)]
struct NarrowIntegers {
    narrow: Vec<i32>,
    /// Those of the last run.
    last: Vec<i64>,
}

impl NarrowIntegers {
    /// Narrows those of the last run. Sums wrap around.
    fn narrow(&mut self) {
        self.narrow.extend(self.last.iter().map(|&value| value as i32));
        self.last.clear();
    }
}

impl Results {
    /// No results yet, and room for so many of this type.
    pub fn new(data_type: &DataType, rows: usize) -> Results {
        if let DataType::List(item) = data_type {
            let values = ResultValues::Lists(Box::new(Results::new(item.data_type(), rows)), vec![0]);
            return Results { values, nulls: NullBufferBuilder::new(rows) };
        }
        let values = match Form::of(data_type) {
            Form::Integer if matches!(data_type, DataType::Int32 | DataType::Date32) => {
                ResultValues::Narrow(NarrowIntegers { narrow: Vec::with_capacity(rows), last: Vec::new() })
            }
            Form::Integer => ResultValues::Integers(Vec::with_capacity(rows)),
            Form::Float => ResultValues::Floats(Vec::with_capacity(rows)),
            Form::Decimal => ResultValues::Decimals(Vec::with_capacity(rows)),
            Form::Bytes => ResultValues::Bytes(BinaryViewBuilder::with_capacity(rows)),
        };
        Results { values, nulls: NullBufferBuilder::new(rows) }
    }

    /// The same, of one of the program's own functions.
    pub fn of_udaf() -> Results {
        Results { values: ResultValues::Arrays(Vec::new()), nulls: NullBufferBuilder::new(0) }
    }

    /// Says of the last `rows` results that none is NULL.
    pub fn append_valid(&mut self, rows: usize) {
        self.nulls.append_n_non_nulls(rows);
    }

    /// Says of each of the last results whether it is not NULL.
    pub fn append_validity(&mut self, validity: impl Iterator<Item = bool>) {
        validity.for_each(|is_valid| self.nulls.append(is_valid));
    }

    pub fn integers(&mut self) -> &mut Vec<i64> {
        match &mut self.values {
            ResultValues::Integers(values) => values,
            ResultValues::Narrow(integers) => &mut integers.last,
            _ => unreachable!("results are integers"),
        }
    }

    /// All results of a run have been appended.
    pub fn end_run(&mut self) {
        if let ResultValues::Narrow(integers) = &mut self.values {
            integers.narrow();
        }
    }

    pub fn floats(&mut self) -> &mut Vec<f64> {
        if let ResultValues::Floats(values) = &mut self.values { values } else { unreachable!("results are floats") }
    }

    fn decimals(&mut self) -> &mut Vec<i128> {
        if let ResultValues::Decimals(values) = &mut self.values {
            values
        } else {
            unreachable!("results are decimals")
        }
    }

    pub fn bytes(&mut self) -> &mut BinaryViewBuilder {
        if let ResultValues::Bytes(values) = &mut self.values { values } else { unreachable!("results are bytes") }
    }

    /// Appends a list of what `push` appends, NULL where that is nothing.
    ///
    /// # Errors
    /// Where lists have more values together than they can.
    pub fn push_list(&mut self, push: impl FnOnce(&mut Results)) -> Result<(), Overflow> {
        let ResultValues::Lists(items, ends) = &mut self.values else { unreachable!("results are lists") };
        push(items);
        let end = i32::try_from(items.len()).map_err(|_| Overflow)?;
        // Eight bytes each, about.
        if !Allowance::get().allows(8 * items.len()) {
            return Err(Overflow);
        }
        self.nulls.append(ends.last() != Some(&end));
        ends.push(end);
        Ok(())
    }

    /// Appends what one of the program's own functions made.
    pub fn push_array(&mut self, array: ArrayRef) {
        let ResultValues::Arrays(arrays) = &mut self.values else { unreachable!("results are arrays") };
        arrays.push(array);
    }

    fn len(&self) -> usize {
        match &self.values {
            ResultValues::Integers(values) => values.len(),
            ResultValues::Narrow(integers) => integers.narrow.len() + integers.last.len(),
            ResultValues::Floats(values) => values.len(),
            ResultValues::Decimals(values) => values.len(),
            ResultValues::Bytes(values) => values.len(),
            ResultValues::Lists(_, ends) => ends.len() - 1,
            ResultValues::Arrays(arrays) => arrays.iter().map(|array| array.len()).sum(),
        }
    }

    /// The results as an array.
    pub fn finish(mut self, data_type: &DataType) -> ArrayRef {
        let nulls = self.nulls.finish();
        let held: ArrayRef = match self.values {
            ResultValues::Integers(values) => Arc::new(Int64Array::new(values.into(), nulls)),
            ResultValues::Narrow(mut integers) => {
                integers.narrow();
                let values = ScalarBuffer::from(integers.narrow);
                return match data_type {
                    DataType::Date32 => Arc::new(Date32Array::new(values, nulls)),
                    _ => Arc::new(Int32Array::new(values, nulls)),
                };
            }
            ResultValues::Floats(values) => Arc::new(Float64Array::new(values.into(), nulls)),
            ResultValues::Bytes(mut values) => Arc::new(values.finish()),
            ResultValues::Arrays(arrays) => {
                let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                return match arrays.is_empty() {
                    true => new_empty_array(data_type),
                    false => gathered(concat(&arrays).expect("a function's values are of its type")),
                };
            }
            ResultValues::Lists(items, ends) => {
                let DataType::List(item) = data_type else { unreachable!("results are lists") };
                let items = items.finish(item.data_type());
                return Arc::new(ListArray::new(item.clone(), OffsetBuffer::new(ends.into()), items, nulls));
            }
            ResultValues::Decimals(values) => {
                return Arc::new(Decimal128Array::new(values.into(), nulls).with_data_type(data_type.clone()));
            }
        };
        match (held.as_primitive_opt::<Int64Type>(), data_type) {
            // Sums wrap around.
            (Some(sums), DataType::Int16) => Arc::new(sums.unary::<_, Int16Type>(|sum| sum as i16)),
            (Some(sums), DataType::Int8) => Arc::new(sums.unary::<_, Int8Type>(|sum| sum as i8)),
            _ => cast(&held, data_type).expect("a result is of the type that it was planned with"),
        }
    }
}

/// Replaces sums of so many values by their means.
#[inline(always)]
fn divide(sums: &mut [f64], counts: Counts<'_>) {
    let mut sums = sums;
    match counts {
        // The mean of no values is NULL, whatever stands there.
        Counts::Valid(counts) => sums.iter_mut().zip(counts).for_each(|(sum, &count)| *sum /= count.max(1) as f64),
        Counts::Rows(bounds) => {
            for step in bounds.steps() {
                let (now, later) = sums.split_at_mut(step.rows);
                sums = later;
                if step.moves == Moves::End {
                    now.iter_mut().zip(step.lengths()).for_each(|(sum, count)| *sum /= count as f64);
                } else {
                    let count = (step.end - step.start) as f64;
                    now.iter_mut().for_each(|sum| *sum /= count);
                }
            }
        }
    }
}

impl Value for i64 {
    type Sum = IntegerSum;

    type Powers = IntegerVariance;

    type DistinctSums = IntegerSums;

    type Key = i64;

    #[inline]
    fn key(self) -> i64 {
        self
    }

    #[inline]
    fn of_key(key: i64) -> i64 {
        key
    }

    fn float(self) -> f64 {
        self as f64
    }

    fn results(results: &mut Results) -> &mut Vec<i64> {
        results.integers()
    }

    fn totals<'a>(_results: &'a mut Results, scratch: &'a mut Vec<i128>) -> &'a mut Vec<i128> {
        scratch
    }

    fn finish_sums(scratch: &mut Vec<i128>, _first: usize, results: &mut Results) -> Result<(), Overflow> {
        results.integers().extend(scratch.drain(..).map(|total| total as i64));
        Ok(())
    }

    fn finish_means(
        scratch: &mut Vec<i128>,
        _first: usize,
        counts: Counts<'_>,
        _decimal: Option<DecimalMean>,
        results: &mut Results,
    ) -> Result<(), Overflow> {
        let totals = scratch.drain(..);
        if let ResultValues::Floats(means) = &mut results.values {
            let first = means.len();
            // Few sums need more than 64 bits, which take longer to convert.
            let float = |total: i128| i64::try_from(total).map_or_else(|_| total as f64, |total| total as f64);
            means.extend(totals.map(float));
            vectorised(
                #[inline(always)]
                || divide(&mut means[first..], counts),
            );
            return Ok(());
        }
        let mean = |(total, count)| integer_mean(total, count);
        match counts {
            Counts::Valid(counts) => results.integers().extend(totals.zip(counts.iter().copied()).map(mean)),
            Counts::Rows(bounds) => {
                let counts = bounds.steps().flat_map(Step::lengths);
                results.integers().extend(totals.zip(counts).map(mean));
            }
        }
        Ok(())
    }
}

impl Value for f64 {
    type Sum = FloatSum;

    type Powers = FloatVariance;

    type DistinctSums = FloatSums;

    type Key = i64;

    /// In total order, as `f64::total_cmp` has it.
    #[inline]
    fn key(self) -> i64 {
        let bits = self.to_bits() as i64;
        bits ^ ((bits >> 63) as u64 >> 1) as i64
    }

    #[inline]
    fn of_key(key: i64) -> f64 {
        f64::from_bits((key ^ ((key >> 63) as u64 >> 1) as i64) as u64)
    }

    fn float(self) -> f64 {
        self
    }

    fn results(results: &mut Results) -> &mut Vec<f64> {
        results.floats()
    }

    fn totals<'a>(results: &'a mut Results, _scratch: &'a mut Vec<f64>) -> &'a mut Vec<f64> {
        results.floats()
    }

    fn finish_sums(_scratch: &mut Vec<f64>, _first: usize, _results: &mut Results) -> Result<(), Overflow> {
        Ok(())
    }

    fn finish_means(
        _scratch: &mut Vec<f64>,
        first: usize,
        counts: Counts<'_>,
        _decimal: Option<DecimalMean>,
        results: &mut Results,
    ) -> Result<(), Overflow> {
        vectorised(
            #[inline(always)]
            || divide(&mut results.floats()[first..], counts),
        );
        Ok(())
    }
}

impl Value for i128 {
    type Sum = DecimalSum;

    type Powers = NoVariance;

    type DistinctSums = DecimalTotal;

    type Key = i128;

    #[inline]
    fn key(self) -> i128 {
        self
    }

    #[inline]
    fn of_key(key: i128) -> i128 {
        key
    }

    fn float(self) -> f64 {
        self as f64
    }

    fn results(results: &mut Results) -> &mut Vec<i128> {
        results.decimals()
    }

    fn totals<'a>(results: &'a mut Results, _scratch: &'a mut Vec<i128>) -> &'a mut Vec<i128> {
        results.decimals()
    }

    fn finish_sums(_scratch: &mut Vec<i128>, first: usize, results: &mut Results) -> Result<(), Overflow> {
        // All are looked at: many at a time.
        let all_fit = results.decimals()[first..].iter().fold(true, |all, &sum| all & fits(sum));
        if all_fit { Ok(()) } else { Err(Overflow) }
    }

    fn finish_means(
        _scratch: &mut Vec<i128>,
        first: usize,
        counts: Counts<'_>,
        decimal: Option<DecimalMean>,
        results: &mut Results,
    ) -> Result<(), Overflow> {
        let DecimalMean { digits, precision } = decimal.expect("a mean of decimals is a decimal");
        let mean = |total: &mut i128, count: u64| {
            *total = match count {
                0 => 0,
                _ if !fits(*total) => return Err(Overflow),
                count => {
                    pelton_data::aggregate::decimal_mean(*total, count as i64, digits, precision).ok_or(Overflow)?
                }
            };
            Ok(())
        };
        let totals = results.decimals()[first..].iter_mut();
        match counts {
            Counts::Valid(counts) => totals.zip(counts).try_for_each(|(total, &count)| mean(total, count)),
            Counts::Rows(bounds) => {
                let counts = bounds.steps().flat_map(Step::lengths);
                totals.zip(counts).try_for_each(|(total, count)| mean(total, count))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_doubles_are_in_total_order() {
        let values = [-f64::NAN, f64::NEG_INFINITY, -1e300, -1.0, -0.0, 0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN];
        assert!(values.windows(2).all(|pair| pair[0].key() < pair[1].key()));
        assert!(values.iter().all(|value| f64::of_key(value.key()).to_bits() == value.to_bits()));
    }
}
