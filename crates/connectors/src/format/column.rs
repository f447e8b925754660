//! One column's fields, decoded into an Arrow array.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, PrimitiveArray, StringViewArray, StringViewBuilder};
use arrow::array::{BooleanBufferBuilder, NullBufferBuilder};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampSecondType,
};
use pelton_data::column::sql_name;
use pelton_data::json;
use pelton_data::time::ticks_per_second;
use pelton_runtime::source::AbsentColumn;

use super::nested::{Parts, without_nulls};
use super::split::{Span, Split};
use super::time::{self, TimestampFormat};
use super::value::{self, Wrong};

/// Bytes that a string view holds itself.
const INLINE_BYTES_MAX: usize = 12;

/// What fields mean apart from their types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldRules {
    /// An unquoted field with this text is NULL.
    pub(crate) null_literal: Option<Vec<u8>>,
    /// Whether an empty unquoted field of any type but STRING is NULL.
    pub(crate) empty_is_null: bool,
    /// How timestamps are written.
    pub(crate) timestamps: TimestampFormat,
    /// How escaped fields are to be read.
    pub(crate) escapes: Escapes,
    /// Whether an object without a member that a ROW has is an error; else the field is NULL.
    pub(crate) missing_is_wrong: bool,
    /// Whether a value that does not fit its column is an error, also where Flink has one for it.
    pub(crate) is_strict: bool,
}

/// Escape sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escapes {
    /// Inside quotes two quotes stand for one; the escape character takes away the next one's meaning.
    Csv {
        /// Quote character, if any.
        quote: Option<u8>,
        /// Escape character, if any.
        escape: Option<u8>,
    },
    /// RFC 8259.
    Json,
}

impl FieldRules {
    /// Whether the field is the null literal.
    pub(crate) fn is_null(&self, field: &[u8], span: Span) -> bool {
        !span.is_quoted() && self.null_literal.as_deref() == Some(field)
    }

    /// What is wrong with a field that should be there.
    pub(super) fn missing(&self) -> Wrong {
        if self.escapes == Escapes::Json { Wrong::Member } else { Wrong::Missing }
    }

    pub(super) fn unescape(&self, field: &[u8], span: Span) -> Result<Vec<u8>, Wrong> {
        match self.escapes {
            Escapes::Csv { quote, escape } => {
                Ok(super::csv::unescape(field, quote.filter(|_| span.is_quoted()), escape))
            }
            Escapes::Json => json::unescape(field).ok_or(Wrong::Escape),
        }
    }
}

/// The fields of one column in some rows of a chunk.
pub(crate) struct Fields<'a> {
    /// The chunk.
    pub(crate) bytes: &'a Buffer,
    /// The chunk, where all of it is UTF-8 and some column wants to know.
    pub(crate) text: Option<&'a str>,
    pub(crate) split: &'a Split,
    /// Which field of each row.
    pub(crate) place: usize,
    pub(crate) rules: &'a FieldRules,
}

impl Fields<'_> {
    #[inline]
    pub(super) fn spans(&self) -> impl Iterator<Item = Span> {
        self.split.spans.iter().skip(self.place).step_by(self.split.width).copied()
    }
}

/// Decoded values of a column, so far.
pub(crate) struct ColumnDecoder {
    field: Field,
    values: Values,
    nulls: NullBufferBuilder,
}

enum Values {
    Boolean(BooleanBufferBuilder),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Decimal { values: Vec<i128>, precision: u8, scale: i8 },
    Date(Vec<i32>),
    Timestamp { values: Vec<i64>, ticks_per_second: i64, zoned: bool },
    String { builder: StringViewBuilder, block: Option<u32> },
    Nested(Parts),
}

/// A value that does not fit its column, for people.
pub(crate) struct Misfit {
    pub(crate) why: Wrong,
    /// What is wrong, and what would be right.
    pub(crate) problem: String,
    /// The part of a nested value that does not fit; none where it is the whole.
    pub(crate) part: Option<NestedPart>,
}

/// A part of a nested value.
pub(crate) struct NestedPart {
    /// How it is reached from the column: `.field[1]['key']`.
    pub(crate) path: String,
    /// Where its text lies in the chunk.
    pub(crate) value: Range<usize>,
    /// Whether it cannot be NULL.
    pub(crate) is_required: bool,
}

/// Whether text formats can hold values of this type.
pub(crate) fn is_text_type(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Boolean | Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Decimal128(..) | Date32 | Utf8View => true,
        Timestamp(unit, _) => *unit != TimeUnit::Nanosecond,
        _ => false,
    }
}

impl ColumnDecoder {
    /// A decoder for the type of `field`, one of those that [`is_text_type`] accepts, with room for `rows`.
    pub(crate) fn new(field: &Field, rows: usize) -> ColumnDecoder {
        let values = match field.data_type() {
            DataType::Boolean => Values::Boolean(BooleanBufferBuilder::new(rows)),
            DataType::Int8 => Values::Int8(Vec::with_capacity(rows)),
            DataType::Int16 => Values::Int16(Vec::with_capacity(rows)),
            DataType::Int32 => Values::Int32(Vec::with_capacity(rows)),
            DataType::Int64 => Values::Int64(Vec::with_capacity(rows)),
            DataType::Float32 => Values::Float32(Vec::with_capacity(rows)),
            DataType::Float64 => Values::Float64(Vec::with_capacity(rows)),
            &DataType::Decimal128(precision, scale) => {
                Values::Decimal { values: Vec::with_capacity(rows), precision, scale }
            }
            DataType::Date32 => Values::Date(Vec::with_capacity(rows)),
            DataType::Timestamp(unit, zone) => Values::Timestamp {
                values: Vec::with_capacity(rows),
                ticks_per_second: ticks_per_second(*unit),
                zoned: zone.is_some(),
            },
            DataType::Utf8View => Values::String { builder: StringViewBuilder::with_capacity(rows), block: None },
            nested => Values::Nested(Parts::new(nested, rows)),
        };
        ColumnDecoder { field: field.clone(), values, nulls: NullBufferBuilder::new(rows) }
    }

    /// Decodes more fields; `wrong` hears the row's index among them and what is wrong with each that cannot be decoded,
    /// and NULL takes its place.
    pub(crate) fn extend(&mut self, fields: &Fields, wrong: &mut dyn FnMut(usize, Misfit)) {
        let Self { field, values, nulls } = self;
        let nullable = field.is_nullable();
        if let Values::Nested(parts) = values {
            return parts.extend(fields, nulls, field, wrong);
        }
        let wrong = &mut |row, why| {
            wrong(row, Misfit { why, problem: problem(why, field.data_type()), part: None });
        };
        let mut sink = FieldSink { nulls, nullable, wrong };
        match values {
            Values::Boolean(bits) => {
                sink.each(fields, |value| bits.append(value), value::boolean, loose_boolean);
            }
            Values::Int8(values) => sink.each(fields, |value| values.push(value), narrow::<i8>, truncated::<i8>),
            Values::Int16(values) => sink.each(fields, |value| values.push(value), narrow::<i16>, truncated::<i16>),
            Values::Int32(values) => sink.each(fields, |value| values.push(value), narrow::<i32>, truncated::<i32>),
            Values::Int64(values) => sink.each(fields, |value| values.push(value), value::integer, truncated::<i64>),
            Values::Float32(values) => sink.each(fields, |value| values.push(value), value::float::<f32>, no_other),
            Values::Float64(values) => sink.each(fields, |value| values.push(value), value::float::<f64>, no_other),
            Values::Decimal { values, precision, scale } => {
                let parse = |text: &[u8]| value::decimal(text, *precision, *scale);
                let round = |text: &[u8], _| match value::rounded_decimal(text, *precision, *scale) {
                    Err(Wrong::Range) => Err(Wrong::TooLarge),
                    rounded => rounded,
                };
                sink.each(fields, |value| values.push(value), parse, round);
            }
            Values::Date(values) => sink.each(fields, |value| values.push(value), time::date, no_other),
            Values::Timestamp { values, ticks_per_second, zoned } => {
                let format = fields.rules.timestamps;
                let parse = |text: &[u8]| time::timestamp(text, format, *ticks_per_second, *zoned);
                sink.each(fields, |value| values.push(value), parse, no_other);
            }
            Values::String { builder, block } => sink.strings(fields, builder, block),
            Values::Nested(_) => unreachable!("nested values were decoded above"),
        }
    }

    /// Adds the fields of ROWs in the column that no row had. `path` is how the column is reached.
    pub(super) fn add_absent(&self, path: &str, absent: &mut Vec<AbsentColumn>) {
        if let Values::Nested(parts) = &self.values {
            parts.add_absent(path, absent);
        }
    }

    /// The column as a part of nested values, without NULL where it cannot be.
    pub(super) fn finish_part(self) -> ArrayRef {
        let nullable = self.field.is_nullable();
        let values = self.finish();
        if !nullable && values.null_count() > 0 { without_nulls(&values) } else { values }
    }

    /// The column.
    pub(crate) fn finish(mut self) -> ArrayRef {
        let rows = self.nulls.len();
        let nulls = self.nulls.finish();
        let data_type = self.field.data_type().clone();
        match self.values {
            Values::Boolean(mut bits) => Arc::new(BooleanArray::new(bits.finish(), nulls)),
            Values::Int8(values) => primitive::<Int8Type>(values, nulls, data_type),
            Values::Int16(values) => primitive::<Int16Type>(values, nulls, data_type),
            Values::Int32(values) => primitive::<Int32Type>(values, nulls, data_type),
            Values::Int64(values) => primitive::<Int64Type>(values, nulls, data_type),
            Values::Float32(values) => primitive::<Float32Type>(values, nulls, data_type),
            Values::Float64(values) => primitive::<Float64Type>(values, nulls, data_type),
            Values::Decimal { values, .. } => primitive::<Decimal128Type>(values, nulls, data_type),
            Values::Date(values) => primitive::<Date32Type>(values, nulls, data_type),
            Values::Timestamp { values, ticks_per_second, .. } => match ticks_per_second {
                1 => primitive::<TimestampSecondType>(values, nulls, data_type),
                1_000 => primitive::<TimestampMillisecondType>(values, nulls, data_type),
                _ => primitive::<TimestampMicrosecondType>(values, nulls, data_type),
            },
            Values::String { mut builder, .. } => {
                let array: StringViewArray = builder.finish();
                Arc::new(array)
            }
            Values::Nested(parts) => parts.finish(rows, nulls),
        }
    }
}

fn primitive<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
    data_type: DataType,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(data_type))
}

#[inline]
fn narrow<T: TryFrom<i64>>(text: &[u8]) -> Result<T, Wrong> {
    T::try_from(value::integer(text)?).map_err(|_| Wrong::Range)
}

/// A number of JSON, which may have a fraction, as an integer; other formats and strings have none.
fn truncated<T: TryFrom<i64>>(text: &[u8], form: Form) -> Result<T, Wrong> {
    match form {
        Form::JsonNumber => T::try_from(value::truncated(text)?).map_err(|_| Wrong::Range),
        Form::Other => narrow(text),
    }
}

/// Truth in any text, but not in an object or array.
fn loose_boolean(text: &[u8], form: Form) -> Result<bool, Wrong> {
    match (form, text.first()) {
        (Form::JsonNumber, Some(b'{' | b'[')) => Err(Wrong::Form),
        _ => Ok(value::loose_boolean(text)),
    }
}

/// Of types for which Flink reads nothing else than is read at once.
fn no_other<T>(_: &[u8], _: Form) -> Result<T, Wrong> {
    Err(Wrong::Form)
}

/// What a field is, apart from its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// JSON without quotes.
    JsonNumber,
    Other,
}

/// Where decoded fields go.
struct FieldSink<'a> {
    nulls: &'a mut NullBufferBuilder,
    nullable: bool,
    wrong: &'a mut dyn FnMut(usize, Wrong),
}

impl FieldSink<'_> {
    #[inline]
    fn each<T: Default>(
        &mut self,
        fields: &Fields,
        mut push: impl FnMut(T),
        parse: impl Fn(&[u8]) -> Result<T, Wrong>,
        parse_loosely: impl Fn(&[u8], Form) -> Result<T, Wrong>,
    ) {
        let bytes = fields.bytes.as_slice();
        let has_null_literal = fields.rules.null_literal.is_some();
        for (row, span) in fields.spans().enumerate() {
            if !span.is_null() {
                let field = &bytes[span.range()];
                if let Ok(value) = parse(field)
                    && !(has_null_literal && fields.rules.is_null(field, span))
                {
                    push(value);
                    self.nulls.append_non_null();
                    continue;
                }
            }
            match unusual(bytes, span, fields.rules, &parse, &parse_loosely) {
                Ok(Some(value)) => {
                    push(value);
                    self.nulls.append_non_null();
                }
                Ok(None) => {
                    push(T::default());
                    self.nulls.append_null();
                    self.check_null(row, span);
                }
                Err(why) => {
                    push(T::default());
                    self.nulls.append_null();
                    (self.wrong)(row, why);
                }
            }
        }
    }

    fn strings(&mut self, fields: &Fields, builder: &mut StringViewBuilder, block: &mut Option<u32>) {
        let bytes = fields.bytes.as_slice();
        for (row, span) in fields.spans().enumerate() {
            if span == Span::MISSING {
                builder.append_null();
                (self.wrong)(row, fields.rules.missing());
                continue;
            }
            if span.is_null() || fields.rules.is_null(&bytes[span.range()], span) {
                builder.append_null();
                self.check_null(row, span);
                continue;
            }
            if let Err(why) = append_string(fields, span, builder, block) {
                builder.append_null();
                (self.wrong)(row, why);
            }
        }
    }

    fn check_null(&mut self, row: usize, span: Span) {
        if !self.nullable && span != Span::OUTER {
            (self.wrong)(row, Wrong::Null);
        }
    }
}

#[inline]
fn append_string(
    fields: &Fields,
    span: Span,
    builder: &mut StringViewBuilder,
    block: &mut Option<u32>,
) -> Result<(), Wrong> {
    let range = span.range();
    if fields.rules.escapes == Escapes::Json && !span.is_quoted() && matches!(fields.bytes[range.start], b'{' | b'[') {
        let value = json::compact(&fields.bytes[range], json::write_double_number).ok_or(Wrong::Json)?;
        builder.append_value(std::str::from_utf8(&value).map_err(|_| Wrong::Utf8)?);
    } else if span.is_escaped() {
        let value = fields.rules.unescape(&fields.bytes[range], span)?;
        builder.append_value(std::str::from_utf8(&value).map_err(|_| Wrong::Utf8)?);
    } else if range.len() <= INLINE_BYTES_MAX {
        // The fields' ends are ASCII characters, so that a part of valid text is valid.
        let value = match fields.text {
            Some(text) => &text[range],
            None => std::str::from_utf8(&fields.bytes[range]).map_err(|_| Wrong::Utf8)?,
        };
        builder.append_value(value);
    } else {
        let block = *block.get_or_insert_with(|| builder.append_block(fields.bytes.clone()));
        builder.try_append_view(block, range.start as u32, range.len() as u32).map_err(|_| Wrong::Utf8)?;
    }
    Ok(())
}

/// A field that is NULL, escaped, has blanks around it or does not fit its type; or is indeed wrong.
#[cold]
fn unusual<T>(
    bytes: &[u8],
    span: Span,
    rules: &FieldRules,
    parse: impl Fn(&[u8]) -> Result<T, Wrong>,
    parse_loosely: impl Fn(&[u8], Form) -> Result<T, Wrong>,
) -> Result<Option<T>, Wrong> {
    if span.is_null() {
        return if span == Span::MISSING { Err(rules.missing()) } else { Ok(None) };
    }
    let field = &bytes[span.range()];
    if rules.is_null(field, span) {
        return Ok(None);
    }
    let unescaped;
    let mut text = field;
    if span.is_escaped() {
        unescaped = rules.unescape(field, span)?;
        text = &unescaped;
    }
    let text = text.trim_ascii();
    if text.is_empty() && rules.empty_is_null && !span.is_quoted() {
        return Ok(None);
    }
    let form = match rules.escapes {
        Escapes::Json if !span.is_quoted() => Form::JsonNumber,
        _ => Form::Other,
    };
    match parse(text) {
        Err(wrong) if !rules.is_strict => match parse_loosely(text, form) {
            Ok(value) => Ok(Some(value)),
            Err(Wrong::TooLarge) => Err(Wrong::TooLarge),
            Err(_) => Err(wrong),
        },
        parsed => parsed.map(Some),
    }
}

/// What is wrong with a field, and what would be right, for people.
pub(crate) fn problem(why: Wrong, data_type: &DataType) -> String {
    let name = sql_name(data_type);
    match (why, data_type) {
        (Wrong::Form, DataType::Struct(_) | DataType::Map(..)) => {
            format!("is not a valid JSON object, as {name} is read from")
        }
        (Wrong::Form, DataType::List(_)) => format!("is not a valid JSON array, as {name} is read from"),
        (Wrong::Form, DataType::Int32) => format!("is not an {name}"),
        (Wrong::Form, DataType::Date32) => "is not a DATE such as 2013-01-31".into(),
        (Wrong::Form, DataType::Timestamp(_, None)) => format!("is not a {name} such as 2013-01-31 08:15:00"),
        (Wrong::Form, DataType::Timestamp(..)) => format!("is not a {name} such as 2013-01-31 08:15:00Z"),
        (Wrong::Form, _) => format!("is not a {name}"),
        (Wrong::Range, DataType::Int8) => format!("does not fit {name} ({} to {})", i8::MIN, i8::MAX),
        (Wrong::Range, DataType::Int16) => format!("does not fit {name} ({} to {})", i16::MIN, i16::MAX),
        (Wrong::Range, DataType::Int32) => format!("does not fit {name} ({} to {})", i32::MIN, i32::MAX),
        (Wrong::Range, DataType::Int64) => format!("does not fit {name} ({} to {})", i64::MIN, i64::MAX),
        (Wrong::Range, _) => format!("does not fit {name}"),
        (Wrong::TooLarge, _) => format!("does not fit {name}"),
        (Wrong::Digits, _) => format!("has more digits after the point than {name} keeps"),
        (Wrong::Zone, _) => {
            let zoned = name.replace("TIMESTAMP", "TIMESTAMP_LTZ");
            format!("has a time zone, which a {name} has not: declare the column {zoned}")
        }
        (Wrong::Utf8, _) => "is not valid UTF-8".into(),
        (Wrong::Json, _) => "is not valid JSON".into(),
        (Wrong::Escape, _) => "has an escape sequence that means nothing".into(),
        (Wrong::NullPart, _) => "is NULL, and this part of the column is NOT NULL".into(),
        (Wrong::Null, _) => "is NULL, and the column is NOT NULL, as event times are".into(),
        (Wrong::Member, _) => "has no such member".into(),
        (Wrong::Missing, _) => "has fewer fields than are expected".into(),
    }
}
