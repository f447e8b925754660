//! `PRINTF`, with the formats of Java's `String.format` for texts, numbers and truth.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, Int64Type};
use datafusion_common::{Result, exec_err};
use pelton_data::decimal_text::DecimalText;
use pelton_data::float_text::{write_double, write_float};

use crate::growth;
use crate::text::{string_at, strings};

/// Characters of a padded value, and digits behind the point: more are a slip.
const WIDTH_MAX: usize = 1 << 20;

/// `PRINTF(format, value, …)`: NULL where the format is none, or has no value, or not one of its type.
pub(super) fn printf(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let formats = strings(&arguments[0]);
    let columns = arguments[1..].iter().map(Column::new).collect::<Result<Vec<_>>>()?;
    let (mut written, mut bytes) = (StringViewBuilder::with_capacity(formats.len()), 0_usize);
    for row in 0..formats.len() {
        let text = string_at(formats, row).map(|format| formatted(format, &columns, row, bytes)).transpose()?.flatten();
        bytes = bytes.saturating_add(text.as_ref().map_or(0, String::len));
        growth::check("printf", bytes)?;
        written.append_option(text);
    }
    Ok(Arc::new(written.finish()))
}

/// Whether there is a format for values of a type.
pub(super) fn is_printed(data_type: &DataType) -> bool {
    let is_known = matches!(
        data_type,
        DataType::Boolean | DataType::Float32 | DataType::Float64 | DataType::Decimal128(..) | DataType::Null
    );
    is_known || data_type.is_integer() || data_type.is_string()
}

/// Values of one type.
struct Column {
    values: ArrayRef,
    /// Of the values as they were given.
    data_type: DataType,
}

/// What a row has.
enum Value {
    Null,
    Text(String),
    Truth(bool),
    /// With how many bits it has.
    Whole(i64, u32),
    /// As it is written with all of its digits, and by `%s`.
    Number(String, String),
}

impl Column {
    fn new(values: &ArrayRef) -> Result<Column> {
        let data_type = values.data_type().clone();
        let values = match &data_type {
            integer if integer.is_integer() => cast(values, &DataType::Int64)?,
            DataType::Boolean | DataType::Float32 | DataType::Float64 | DataType::Decimal128(..) | DataType::Null => {
                values.clone()
            }
            text => {
                assert!(text.is_string(), "PRINTF of {text} is refused when the query is planned");
                cast(values, &DataType::Utf8View)?
            }
        };
        Ok(Column { values, data_type })
    }

    fn value(&self, row: usize) -> Value {
        let values = &self.values;
        if self.data_type.is_null() || values.is_null(row) {
            return Value::Null;
        }
        match &self.data_type {
            DataType::Boolean => Value::Truth(values.as_boolean().value(row)),
            DataType::Float32 => {
                let number = values.as_primitive::<Float32Type>().value(row);
                let mut shown = String::new();
                write_float(number, &mut shown);
                Value::Number(format!("{number:e}"), shown)
            }
            DataType::Float64 => {
                let number = values.as_primitive::<Float64Type>().value(row);
                let mut shown = String::new();
                write_double(number, &mut shown);
                Value::Number(format!("{number:e}"), shown)
            }
            DataType::Decimal128(..) => {
                let text = values.as_primitive::<Decimal128Type>().value_as_string(row);
                Value::Number(text.clone(), text)
            }
            integer if integer.is_integer() => {
                let bits = integer.primitive_width().map_or(64, |bytes| bytes as u32 * 8);
                Value::Whole(values.as_primitive::<Int64Type>().value(row), bits)
            }
            _ => Value::Text(values.as_string_view().value(row).to_string()),
        }
    }
}

/// What stands behind a percent sign.
struct Conversion<'a> {
    /// Which value, from 0, where it is named.
    index: Option<usize>,
    flags: &'a str,
    width: usize,
    precision: Option<usize>,
    letter: char,
}

impl Conversion<'_> {
    fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }

    /// Whether Java knows the conversion, and takes its flags, width and precision together.
    fn is_allowed(&self) -> bool {
        let has_none = |flags: &str| !flags.chars().any(|flag| self.has(flag));
        let is_allowed_here = match self.letter {
            's' | 'S' | 'b' | 'B' => has_none("#+ 0,("),
            'd' => self.precision.is_none() && has_none("#"),
            'x' | 'X' | 'o' => self.precision.is_none() && has_none(","),
            'f' => true,
            'e' | 'E' => has_none(","),
            '%' => self.precision.is_none() && has_none("#+ 0,("),
            'n' => self.precision.is_none() && self.flags.is_empty() && self.width == 0,
            _ => false,
        };
        let is_repeated = self.flags.char_indices().any(|(at, flag)| self.flags[..at].contains(flag));
        let excluded = [['+', ' '], ['-', '0']].iter().any(|pair| pair.iter().all(|flag| self.has(*flag)));
        let lacks_width = self.width == 0 && (self.has('-') || self.has('0'));
        is_allowed_here && !is_repeated && !excluded && !lacks_width
    }
}

/// The conversion at the begin of a text, and what is behind it; `None` where there is none.
fn conversion(text: &str) -> Option<(Conversion<'_>, &str)> {
    let digits = |text: &str| text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let (mut rest, mut index) = (text, None);
    if let Some((number, behind)) = text.split_at_checked(digits(text)).filter(|(_, behind)| behind.starts_with('$')) {
        index = Some(number.parse::<usize>().ok()?.checked_sub(1)?);
        rest = &behind[1..];
    }
    let (flags, behind) =
        rest.split_at(rest.len() - rest.trim_start_matches(['-', '#', '+', ' ', '0', ',', '(']).len());
    let (width, behind) = behind.split_at(digits(behind));
    let (precision, behind) = match behind.strip_prefix('.') {
        Some(behind) => {
            let (precision, behind) = behind.split_at(digits(behind));
            (Some(precision.parse().ok()?), behind)
        }
        None => (None, behind),
    };
    let letter = behind.chars().next()?;
    let width = if width.is_empty() { 0 } else { width.parse().ok()? };
    Some((Conversion { index, flags, width, precision, letter }, &behind[letter.len_utf8()..]))
}

/// What a format makes of a row's values, where so many bytes were made before.
fn formatted(format: &str, columns: &[Column], row: usize, bytes: usize) -> Result<Option<String>> {
    let (mut written, mut rest, mut next) = (String::new(), format, 0);
    while let Some((before, behind)) = rest.split_once('%') {
        written.push_str(before);
        let Some((conversion, behind)) = conversion(behind) else { return Ok(None) };
        rest = behind;
        if !conversion.is_allowed() {
            return Ok(None);
        }
        let width = conversion.width.max(conversion.precision.unwrap_or(0));
        if width > WIDTH_MAX {
            return exec_err!("PRINTF makes no value of more than {WIDTH_MAX} characters: {width} are asked for");
        }
        growth::check("printf", bytes.saturating_add(written.len()).saturating_add(width))?;
        let text = match conversion.letter {
            '%' => Some("%".to_string()),
            'n' => Some("\n".to_string()),
            _ => {
                let index = conversion.index.unwrap_or_else(|| {
                    next += 1;
                    next - 1
                });
                columns.get(index).and_then(|column| converted(&conversion, &column.value(row)))
            }
        };
        let Some(text) = text else { return Ok(None) };
        let missing = conversion.width.saturating_sub(text.chars().count());
        let padding = " ".repeat(missing);
        written.extend(if conversion.has('-') { [text, padding] } else { [padding, text] });
    }
    written.push_str(rest);
    Ok(Some(written))
}

/// A value as text; `None` where the conversion does not take it.
fn converted(conversion: &Conversion<'_>, value: &Value) -> Option<String> {
    let lower = conversion.letter.to_ascii_lowercase();
    let text = match (lower, value) {
        ('s', value) => cut(shown(value), conversion),
        ('b', Value::Null) => cut("false".to_string(), conversion),
        ('b', Value::Truth(truth)) => cut(truth.to_string(), conversion),
        ('b', _) => cut("true".to_string(), conversion),
        ('d' | 'x' | 'o' | 'f' | 'e', Value::Null) => cut("null".to_string(), conversion),
        ('d', Value::Whole(number, _)) => signed(conversion, *number < 0, number.unsigned_abs().to_string(), None),
        // The bits of a number have no sign.
        ('x' | 'o', Value::Whole(..)) if ['+', ' ', '('].iter().any(|flag| conversion.has(*flag)) => return None,
        ('x', Value::Whole(number, bits)) => filled(conversion, "0x", format!("{:x}", last_bits(*number, *bits))),
        ('o', Value::Whole(number, bits)) => filled(conversion, "0", format!("{:o}", last_bits(*number, *bits))),
        ('f', Value::Number(number, shown)) => {
            let digits = conversion.precision.unwrap_or(6);
            let Some((is_negative, whole, fraction)) = fixed(number, digits) else { return Some(shown.clone()) };
            let fraction = if digits == 0 && !conversion.has('#') { None } else { Some(fraction) };
            signed(conversion, is_negative, whole, fraction)
        }
        ('e', Value::Number(number, shown)) => {
            let double: f64 = number.parse().ok()?;
            if !double.is_finite() {
                return Some(shown.clone());
            }
            let written = format!("{:.*e}", conversion.precision.unwrap_or(6), double.abs());
            let (mantissa, exponent) = written.split_once('e')?;
            let exponent: i32 = exponent.parse().ok()?;
            let point = if conversion.has('#') && !mantissa.contains('.') { "." } else { "" };
            let exponent = format!("{point}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
            signed(conversion, double < 0.0, format!("{mantissa}{exponent}"), None)
        }
        _ => return None,
    };
    Some(if conversion.letter.is_ascii_uppercase() { text.to_uppercase() } else { text })
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_string(),
        Value::Text(text) | Value::Number(_, text) => text.clone(),
        Value::Truth(truth) => truth.to_string(),
        Value::Whole(number, _) => number.to_string(),
    }
}

/// As many characters as the precision says.
fn cut(text: String, conversion: &Conversion<'_>) -> String {
    match conversion.precision {
        Some(length) => text.chars().take(length).collect(),
        None => text,
    }
}

fn last_bits(number: i64, bits: u32) -> u64 {
    number as u64 & (u64::MAX >> (64 - bits))
}

/// A number with so many digits behind the point, the half rounded away from zero: whether it is negative, and its digits before and behind the point.
fn fixed(number: &str, digits: usize) -> Option<(bool, String, String)> {
    let scale = i8::try_from(digits).ok().filter(|scale| *scale <= 37);
    let units = scale.and_then(|scale| DecimalText::parse(number.as_bytes())?.rounded(scale));
    let (is_negative, text) = match units {
        Some(units) => (units < 0, format!("{:0>width$}", units.unsigned_abs(), width = digits + 1)),
        None => {
            let double = number.parse::<f64>().ok().filter(|number| number.is_finite())?;
            (double < 0.0, format!("{:.digits$}", double.abs()).replace('.', ""))
        }
    };
    let (whole, fraction) = text.split_at(text.len() - digits);
    Some((is_negative, whole.to_string(), fraction.to_string()))
}

/// A number with its sign, in groups of three digits where that is asked for, and filled with zeros.
fn signed(conversion: &Conversion<'_>, is_negative: bool, whole: String, fraction: Option<String>) -> String {
    let whole = match conversion.has(',') {
        true => {
            let first = whole.len() % 3;
            let groups = whole.as_bytes()[first..].chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
            let first = (first > 0).then(|| whole[..first].to_string());
            first.into_iter().chain(groups).collect::<Vec<_>>().join(",")
        }
        false => whole,
    };
    let (before, behind) = match is_negative {
        true if conversion.has('(') => ("(", ")"),
        true => ("-", ""),
        false if conversion.has('+') => ("+", ""),
        false if conversion.has(' ') => (" ", ""),
        false => ("", ""),
    };
    let fraction = fraction.map(|fraction| format!(".{fraction}")).unwrap_or_default();
    let length = before.len() + whole.len() + fraction.len() + behind.len();
    let zeros = if conversion.has('0') { conversion.width.saturating_sub(length) } else { 0 };
    format!("{before}{}{whole}{fraction}{behind}", "0".repeat(zeros))
}

/// The bits of a number, behind a prefix where `#` asks for it.
fn filled(conversion: &Conversion<'_>, prefix: &str, digits: String) -> String {
    let prefix = if conversion.has('#') { prefix } else { "" };
    let length = prefix.len() + digits.len();
    let zeros = if conversion.has('0') { conversion.width.saturating_sub(length) } else { 0 };
    format!("{prefix}{}{digits}", "0".repeat(zeros))
}
