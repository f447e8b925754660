//! The values of one column.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, ArrowPrimitiveType, BinaryViewArray, BooleanArray, PrimitiveArray, StringViewArray};
use arrow::compute::nullif;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampSecondType,
};
use pelton_data::column::{TextPool, sql_name};

use crate::format::value::decimal;
use crate::generated::{EventTimes, positive};
use crate::options::Options;
use crate::random::{Draw, Stream};
use crate::{ConnectorError, TextLength};

/// Milliseconds in a day.
const DAY_MS: i64 = 86_400_000;

/// Hexadecimal digits, and bytes, in a draw.
const DIGITS_PER_DRAW: u64 = 16;
const BYTES_PER_DRAW: u64 = 8;

/// Characters of strings, and bytes, where nothing says how many.
const LENGTH_DEFAULT: u64 = 100;

/// A block's strings together are at most this long: views address them with 32 bits.
const BLOCK_TEXT_BYTES_MAX: u64 = 1 << 31;

/// A column and how its values are chosen.
#[derive(Debug)]
pub(super) struct Field {
    data_type: DataType,
    values: Values,
    stream: Stream,
    nulls: Option<(Stream, f64)>,
}

/// How values are chosen. Bounds are inclusive.
#[derive(Debug, Clone, Copy)]
enum Values {
    Boolean,
    Integer {
        min: i64,
        max: i64,
    },
    Float {
        min: f64,
        max: f64,
    },
    /// In units of the type's last digit.
    Decimal {
        min: i128,
        max: i128,
    },
    Text {
        length: u64,
        varies: bool,
    },
    Bytes {
        length: u64,
        varies: bool,
    },
    Time {
        past_ms_max: u64,
    },
    Sequence {
        start: i64,
        end: i64,
    },
}

impl Field {
    pub(super) fn of(
        (field, length): (&arrow::datatypes::Field, Option<TextLength>),
        options: &Options,
        seed: u64,
        block_rows: usize,
    ) -> Result<Field, ConnectorError> {
        let asked = Asked { name: field.name(), data_type: field.data_type(), length, options };
        let kinds = [("random", false), ("sequence", true)];
        let values = match options.choice(&asked.option("kind"), &kinds)? {
            Some(true) => asked.sequence()?,
            _ => asked.random()?,
        };
        if let Values::Text { length, .. } | Values::Bytes { length, .. } = values
            && length.saturating_mul(block_rows as u64) > BLOCK_TEXT_BYTES_MAX
        {
            let length_max = BLOCK_TEXT_BYTES_MAX / block_rows as u64;
            return Err(ConnectorError::option(asked.option("length"), format!("must be at most {length_max}")));
        }
        let rate = options.parsed(&asked.option("null-rate"), "a number between 0 and 1", |text| {
            text.trim().parse().ok().filter(|rate| (0.0..=1.0).contains(rate))
        })?;
        let rate = rate.filter(|&rate| rate > 0.0);
        if rate.is_some() && !field.is_nullable() {
            return Err(ConnectorError::option(asked.option("null-rate"), "is not zero, but the column is NOT NULL"));
        }
        Ok(Field {
            data_type: field.data_type().clone(),
            values,
            stream: Stream::new(seed, field.name()),
            nulls: rate.map(|rate| (Stream::new(seed, &asked.option("null-rate")), rate)),
        })
    }

    /// Bytes of a row's string at most; none of other values.
    pub(super) fn text_bytes(&self) -> u64 {
        match self.values {
            Values::Text { length, .. } | Values::Bytes { length, .. } => length,
            _ => 0,
        }
    }

    /// How many rows there can be.
    pub(super) fn rows(&self) -> Option<u64> {
        match self.values {
            Values::Sequence { start, end } => Some(start.abs_diff(end).saturating_add(1)),
            _ => None,
        }
    }

    /// The values of these rows.
    pub(super) fn column(&self, rows: Range<u64>, times: &EventTimes) -> ArrayRef {
        let values = self.values(rows.clone(), times);
        let Some((stream, rate)) = self.nulls else { return values };
        let is_null: BooleanArray = rows.map(|row| Some(stream.at(row).unit() < rate)).collect();
        nullif(&values, &is_null).expect("one decision was made for each value")
    }

    fn values(&self, rows: Range<u64>, times: &EventTimes) -> ArrayRef {
        let draws = rows.clone().map(|row| self.stream.at(row));
        match self.values {
            Values::Boolean => Arc::new(draws.map(|draw| Some(draw.below(2) == 1)).collect::<BooleanArray>()),
            Values::Integer { min, max } => self.integers(draws.map(|draw| uniform(draw, min, max))),
            Values::Float { min, max } => {
                // Weighing both bounds instead of scaling their difference, which may not be finite.
                self.floats(draws.map(|draw| min * (1.0 - draw.unit()) + max * draw.unit()))
            }
            Values::Decimal { min, max } => self.decimals(rows.map(|row| {
                let wide = u128::from(self.stream.at(2 * row).0) << 64 | u128::from(self.stream.at(2 * row + 1).0);
                // Ranges of 38 digits exceed the signed half of 128 bits: the sum is right modulo 2^128.
                min.wrapping_add((wide % (max.abs_diff(min) + 1)) as i128)
            })),
            Values::Text { length, varies } => Arc::new(self.texts(rows, length, varies)),
            Values::Bytes { length, varies } => Arc::new(self.bytes(rows, length, varies)),
            Values::Time { past_ms_max } => {
                let past = |row| self.stream.at(row).below_wide(past_ms_max + 1) as i64;
                self.times(rows.map(|row| times.at_ms(row) - past(row)))
            }
            Values::Sequence { start, .. } => self.sequence(rows.map(|row| start + row as i64)),
        }
    }

    fn sequence(&self, numbers: impl Iterator<Item = i64>) -> ArrayRef {
        match self.data_type {
            DataType::Float32 | DataType::Float64 => self.floats(numbers.map(|number| number as f64)),
            DataType::Decimal128(_, scale) => {
                let unit = 10i128.pow(u32::from(scale.unsigned_abs()));
                self.decimals(numbers.map(|number| i128::from(number) * unit))
            }
            DataType::Utf8View => Arc::new(StringViewArray::from_iter_values(numbers.map(|number| number.to_string()))),
            _ => self.integers(numbers),
        }
    }

    fn integers(&self, values: impl Iterator<Item = i64>) -> ArrayRef {
        match self.data_type {
            DataType::Int8 => primitive::<Int8Type>(values.map(|value| value as i8)),
            DataType::Int16 => primitive::<Int16Type>(values.map(|value| value as i16)),
            DataType::Int32 => primitive::<Int32Type>(values.map(|value| value as i32)),
            _ => primitive::<Int64Type>(values),
        }
    }

    fn floats(&self, values: impl Iterator<Item = f64>) -> ArrayRef {
        match self.data_type {
            DataType::Float32 => primitive::<Float32Type>(values.map(|value| value as f32)),
            _ => primitive::<Float64Type>(values),
        }
    }

    fn decimals(&self, values: impl Iterator<Item = i128>) -> ArrayRef {
        let values = PrimitiveArray::<Decimal128Type>::from_iter_values(values);
        Arc::new(values.with_data_type(self.data_type.clone()))
    }

    fn times(&self, milliseconds: impl Iterator<Item = i64>) -> ArrayRef {
        let zone = |zone: &Option<Arc<str>>| zone.clone();
        match &self.data_type {
            DataType::Date32 => primitive::<Date32Type>(milliseconds.map(|ms| ms.div_euclid(DAY_MS) as i32)),
            DataType::Timestamp(TimeUnit::Second, of) => {
                let seconds = milliseconds.map(|ms| ms.div_euclid(1_000));
                Arc::new(PrimitiveArray::<TimestampSecondType>::from_iter_values(seconds).with_timezone_opt(zone(of)))
            }
            DataType::Timestamp(TimeUnit::Millisecond, of) => {
                let values = PrimitiveArray::<TimestampMillisecondType>::from_iter_values(milliseconds);
                Arc::new(values.with_timezone_opt(zone(of)))
            }
            DataType::Timestamp(_, of) => {
                let micros = milliseconds.map(|ms| ms * 1_000);
                Arc::new(
                    PrimitiveArray::<TimestampMicrosecondType>::from_iter_values(micros).with_timezone_opt(zone(of)),
                )
            }
            other => unreachable!("{other} is no time"),
        }
    }

    fn texts(&self, rows: Range<u64>, length: u64, varies: bool) -> StringViewArray {
        let lengths: Vec<u32> = rows.clone().map(|row| self.length(row, length, varies)).collect();
        let mut text = Vec::with_capacity(lengths.iter().map(|&length| length as usize).sum());
        for (row, &length) in rows.zip(&lengths) {
            let end = text.len() + length as usize;
            for draw in self.row_draws(row, length.into(), DIGITS_PER_DRAW) {
                let digits = draw.0.to_le_bytes().into_iter().flat_map(|byte| [byte & 15, byte >> 4]);
                text.extend(digits.map(|digit| b"0123456789abcdef"[usize::from(digit)]));
            }
            text.truncate(end);
        }
        let ends = lengths.iter().scan(0, |end, &length| {
            *end += length;
            Some(*end - length..*end)
        });
        TextPool::new(text).strings(ends)
    }

    fn bytes(&self, rows: Range<u64>, length: u64, varies: bool) -> BinaryViewArray {
        BinaryViewArray::from_iter_values(rows.map(|row| {
            let length = self.length(row, length, varies);
            let draws = self.row_draws(row, length.into(), BYTES_PER_DRAW);
            draws.flat_map(|draw| draw.0.to_le_bytes()).take(length as usize).collect::<Vec<u8>>()
        }))
    }

    fn length(&self, row: u64, length: u64, varies: bool) -> u32 {
        let length = if varies { 1 + self.stream.at(row).below_wide(length) } else { length };
        length as u32
    }

    /// Draws that no other row has, enough for `length` characters or bytes.
    fn row_draws(&self, row: u64, length: u64, per_draw: u64) -> impl Iterator<Item = Draw> {
        let own = Stream::new(self.stream.at(row).0, "");
        (0..length.div_ceil(per_draw)).map(move |draw| own.at(draw))
    }
}

fn primitive<T: ArrowPrimitiveType>(values: impl Iterator<Item = T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

/// Uniform between two bounds, both inclusive.
fn uniform(draw: Draw, min: i64, max: i64) -> i64 {
    let count = u128::from(max.abs_diff(min)) + 1;
    min.wrapping_add(((u128::from(draw.0) * count) >> 64) as i64)
}

/// What the options ask of a column.
struct Asked<'a> {
    name: &'a str,
    data_type: &'a DataType,
    length: Option<TextLength>,
    options: &'a Options<'a>,
}

impl Asked<'_> {
    fn option(&self, option: &str) -> String {
        format!("fields.{}.{option}", self.name)
    }

    fn random(&self) -> Result<Values, ConnectorError> {
        Ok(match *self.data_type {
            DataType::Boolean => Values::Boolean,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
                let (least, most) = self.integer_range();
                let (min, max) = self.bounds(least, most, |text| text.parse().ok())?;
                Values::Integer { min, max }
            }
            DataType::Float32 => {
                let (min, max) = self.bounds(f32::MIN, f32::MAX, |text| text.parse().ok())?;
                Values::Float { min: min.into(), max: max.into() }
            }
            DataType::Float64 => {
                let (min, max) = self.bounds(f64::MIN, f64::MAX, |text| text.parse().ok())?;
                Values::Float { min, max }
            }
            DataType::Decimal128(precision, scale) => {
                let most = 10i128.pow(u32::from(precision.min(DECIMAL128_MAX_PRECISION))) - 1;
                let parse = |text: &str| decimal(text.as_bytes(), precision, scale).ok();
                let (min, max) = self.bounds(-most, most, parse)?;
                Values::Decimal { min, max }
            }
            DataType::Utf8View => {
                let (length, varies) = self.length()?;
                Values::Text { length, varies }
            }
            DataType::BinaryView => {
                let (length, varies) = self.length()?;
                Values::Bytes { length, varies }
            }
            DataType::Date32
            | DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond, _) => {
                let past = self.options.duration(&self.option("max-past"))?.unwrap_or(Duration::ZERO);
                Values::Time { past_ms_max: past.as_millis() as u64 }
            }
            _ => return Err(self.not_of_type("cannot be generated")),
        })
    }

    /// How long strings are, and whether that is the longest.
    fn length(&self) -> Result<(u64, bool), ConnectorError> {
        let [length, varies] = ["length", "var-len"].map(|option| self.option(option));
        if let Some(TextLength::Exactly(characters)) = self.length {
            let given = [length, varies].into_iter().find(|option| self.options.text(option).is_some());
            let problem = format!("cannot be given: CHAR({characters}) has so many characters");
            return given.map_or(Ok((characters.into(), false)), |given| Err(ConnectorError::option(given, problem)));
        }
        let asked = positive(self.options, &length)?;
        // The longest VARCHAR is a STRING.
        let most = match self.length {
            Some(TextLength::AtMost(most)) if most < i32::MAX as u32 => Some(u64::from(most)),
            _ => None,
        };
        match (asked, most) {
            (Some(asked), Some(most)) if asked > most => {
                Err(ConnectorError::option(length, format!("must be at most {most}: the column is a VARCHAR({most})")))
            }
            _ => Ok((asked.or(most).unwrap_or(LENGTH_DEFAULT), self.options.boolean(&varies)?)),
        }
    }

    fn sequence(&self) -> Result<Values, ConnectorError> {
        let (least, most) = match self.data_type {
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => self.integer_range(),
            DataType::Float32 | DataType::Float64 | DataType::Utf8View => (i64::MIN, i64::MAX),
            DataType::Decimal128(precision, scale) => {
                let digits = (i32::from(*precision) - i32::from(*scale)).clamp(0, 18) as u32;
                (1 - 10i64.pow(digits), 10i64.pow(digits) - 1)
            }
            _ => return Err(self.not_of_type("has no sequence: use 'kind' = 'random'")),
        };
        let bound = |option: &str| {
            let name = self.option(option);
            let expected = format!("a whole number between {least} and {most}");
            let bound = self.options.parsed(&name, &expected, |text| {
                text.trim().parse().ok().filter(|bound| (least..=most).contains(bound))
            })?;
            bound.ok_or_else(|| ConnectorError::option(name, "is missing: a sequence has 'start' and 'end'"))
        };
        let (start, end): (i64, i64) = (bound("start")?, bound("end")?);
        if start > end {
            let problem = format!("must be at least 'start', which is {start}");
            return Err(ConnectorError::option(self.option("end"), problem));
        }
        Ok(Values::Sequence { start, end })
    }

    fn integer_range(&self) -> (i64, i64) {
        match self.data_type {
            DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
            _ => (i64::MIN, i64::MAX),
        }
    }

    /// `min` and `max`, within the type's.
    fn bounds<T: PartialOrd + Copy + std::fmt::Display>(
        &self,
        least: T,
        most: T,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<(T, T), ConnectorError> {
        let expected = format!("a value of type {}", sql_name(self.data_type));
        let bound = |option: &str| {
            let fits = |value: &T| (least..=most).contains(value);
            self.options.parsed(&self.option(option), &expected, |text| parse(text.trim()).filter(fits))
        };
        let (min, max) = (bound("min")?.unwrap_or(least), bound("max")?.unwrap_or(most));
        if min > max {
            return Err(ConnectorError::option(self.option("max"), "must be at least 'min'"));
        }
        Ok((min, max))
    }

    fn not_of_type(&self, problem: &str) -> ConnectorError {
        ConnectorError::column(self.name, format!("is of type {}, which {problem}", sql_name(self.data_type)))
    }
}
