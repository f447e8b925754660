//! The three forms in which values are kept and results computed: all types of arguments are one of them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, AsArray, Decimal128Array, Float64Array, Int64Array, NullBufferBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type};

use super::sum::{FloatSum, FrameSum, IntegerSum};

/// A value as it is kept.
pub(super) trait Value: ArrowNativeTypeOp {
    /// How values are summed.
    type Sum: FrameSum<Self> + std::fmt::Debug;

    /// The sum as a result.
    fn push_sum(total: <Self::Sum as FrameSum<Self>>::Total, results: &mut Results);

    /// The mean of so many values. False where it does not fit `data_type`.
    fn push_mean(
        total: <Self::Sum as FrameSum<Self>>::Total,
        count: u64,
        decimal: Option<DecimalMean>,
        results: &mut Results,
    ) -> bool;

    /// A value as a result.
    fn push(self, results: &mut Results);
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
}

/// Which form values of a type have; `None` where they have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Integer,
    Float,
    Decimal,
}

impl Form {
    /// The form of values of a type that planning lets through.
    pub fn of(data_type: &DataType) -> Form {
        match data_type {
            DataType::Float32 | DataType::Float64 => Form::Float,
            DataType::Decimal128(..) => Form::Decimal,
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
            Form::Integer => {
                // Dates have 32 bits and no direct way to 64.
                let narrow = match array.data_type() {
                    DataType::Date32 => cast(array, &DataType::Int32).expect("a date is a number of days"),
                    _ => array.clone(),
                };
                let wide = cast(&narrow, &DataType::Int64).expect("values are widened to their form");
                Column::Integers(wide.as_primitive::<Int64Type>().clone())
            }
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
    Floats(Vec<f64>),
    Decimals(Vec<i128>),
}

impl Results {
    /// No results yet, and room for so many of this type.
    pub fn new(data_type: &DataType, rows: usize) -> Results {
        let values = match Form::of(data_type) {
            Form::Integer => ResultValues::Integers(Vec::with_capacity(rows)),
            Form::Float => ResultValues::Floats(Vec::with_capacity(rows)),
            Form::Decimal => ResultValues::Decimals(Vec::with_capacity(rows)),
        };
        Results { values, nulls: NullBufferBuilder::new(rows) }
    }

    /// NULL.
    pub fn push_null(&mut self) {
        match &mut self.values {
            ResultValues::Integers(values) => values.push(0),
            ResultValues::Floats(values) => values.push(0.0),
            ResultValues::Decimals(values) => values.push(0),
        }
        self.nulls.append_null();
    }

    #[inline]
    pub fn push_integer(&mut self, value: i64) {
        let ResultValues::Integers(values) = &mut self.values else { unreachable!("the result is an integer") };
        values.push(value);
        self.nulls.append_non_null();
    }

    #[inline]
    fn push_float(&mut self, value: f64) {
        let ResultValues::Floats(values) = &mut self.values else { unreachable!("the result is a float") };
        values.push(value);
        self.nulls.append_non_null();
    }

    #[inline]
    fn push_decimal(&mut self, value: i128) {
        let ResultValues::Decimals(values) = &mut self.values else { unreachable!("the result is a decimal") };
        values.push(value);
        self.nulls.append_non_null();
    }

    /// The results as an array.
    pub fn finish(mut self, data_type: &DataType) -> ArrayRef {
        let nulls = self.nulls.finish();
        let held: ArrayRef = match self.values {
            ResultValues::Integers(values) => Arc::new(Int64Array::new(values.into(), nulls)),
            ResultValues::Floats(values) => Arc::new(Float64Array::new(values.into(), nulls)),
            ResultValues::Decimals(values) => {
                return Arc::new(Decimal128Array::new(values.into(), nulls).with_data_type(data_type.clone()));
            }
        };
        let narrow = match data_type {
            DataType::Date32 => cast(&held, &DataType::Int32).expect("what was a date fits one"),
            _ => held,
        };
        cast(&narrow, data_type).expect("a result is of the type that it was planned with")
    }
}

impl Value for i64 {
    type Sum = IntegerSum;

    #[inline]
    fn push_sum(total: i128, results: &mut Results) {
        results.push_integer(total as i64);
    }

    #[inline]
    fn push_mean(total: i128, count: u64, _decimal: Option<DecimalMean>, results: &mut Results) -> bool {
        results.push_float(total as f64 / count as f64);
        true
    }

    #[inline]
    fn push(self, results: &mut Results) {
        results.push_integer(self);
    }
}

impl Value for f64 {
    type Sum = FloatSum;

    #[inline]
    fn push_sum(total: f64, results: &mut Results) {
        results.push_float(total);
    }

    #[inline]
    fn push_mean(total: f64, count: u64, _decimal: Option<DecimalMean>, results: &mut Results) -> bool {
        results.push_float(total / count as f64);
        true
    }

    #[inline]
    fn push(self, results: &mut Results) {
        results.push_float(self);
    }
}

impl Value for i128 {
    type Sum = IntegerSum;

    #[inline]
    fn push_sum(total: i128, results: &mut Results) {
        results.push_decimal(total);
    }

    fn push_mean(total: i128, count: u64, decimal: Option<DecimalMean>, results: &mut Results) -> bool {
        let DecimalMean { digits, precision } = decimal.expect("a mean of decimals is a decimal");
        let mean = pelton_data::aggregate::decimal_mean(total, count as i64, digits, precision);
        mean.inspect(|&mean| results.push_decimal(mean)).is_some()
    }

    #[inline]
    fn push(self, results: &mut Results) {
        results.push_decimal(self);
    }
}
