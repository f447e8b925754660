//! Functions over strings, and those that make strings of numbers.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Int32Array, Int64Array, StringViewArray, StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::{Result, exec_datafusion_err, exec_err};
use pelton_data::column::{Cuts, sql_name};
use regex::{CaptureLocations, NoExpand, Regex};

use crate::definition::{Arguments, Definition, Evaluate, Parameter, always};
use crate::growth;
use crate::regular::{java_only, translated};

pub(super) fn strings(array: &ArrayRef) -> &StringViewArray {
    array.as_string_view()
}

pub(super) fn integers(array: &ArrayRef) -> &Int64Array {
    array.as_primitive::<Int64Type>()
}

fn integer_at(array: Option<&Int64Array>, row: usize, default: i64) -> Option<i64> {
    match array {
        None => Some(default),
        Some(array) => array.is_valid(row).then(|| array.value(row)),
    }
}

pub(super) fn string_at(array: &StringViewArray, row: usize) -> Option<&str> {
    array.is_valid(row).then(|| array.value(row))
}

fn collect(rows: usize, value: impl FnMut(usize) -> Option<String>) -> ArrayRef {
    Arc::new((0..rows).map(value).collect::<StringViewArray>())
}

/// Whoever asks for more has made a slip: it is a gigabyte where characters have four bytes, and a string has four at most.
const PADDED_CHARACTERS_MAX: i64 = 1 << 28;

/// `LEFT(text, count)`: the first characters; none where `count` is negative, as in Flink.
pub(super) fn left(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    ends(arguments, |text, count| 0..text.char_indices().nth(count).map_or(text.len(), |(at, _)| at))
}

/// `RIGHT(text, count)`: the last ones likewise.
pub(super) fn right(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    ends(arguments, |text, count| {
        let before = count.checked_sub(1).map(|last| text.char_indices().nth_back(last).map_or(0, |(at, _)| at));
        before.unwrap_or(text.len())..text.len()
    })
}

fn ends(arguments: &[ArrayRef], part: fn(&str, usize) -> Range<usize>) -> Result<ArrayRef> {
    let (texts, counts) = (strings(&arguments[0]), integers(&arguments[1]));
    let mut parts = Cuts::of(texts);
    for row in 0..texts.len() {
        match string_at(texts, row).zip(integer_at(Some(counts), row, 0)) {
            Some((text, count)) => parts.push(row, part(text, usize::try_from(count).unwrap_or(0))),
            None => parts.push_null(),
        }
    }
    Ok(Arc::new(parts.finish()))
}

/// `LPAD(text, length[, pad])`: as many characters, of `pad` in front where the text has fewer; NULL where the length is negative or
/// there is nothing to pad with, as in Flink.
pub(super) fn lpad(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    padded("LPAD", arguments, |text, padding| [padding, text].concat())
}

/// `RPAD(text, length[, pad])`: likewise, behind it.
pub(super) fn rpad(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    padded("RPAD", arguments, |text, padding| [text, padding].concat())
}

fn padded(name: &str, arguments: &[ArrayRef], together: fn(&str, &str) -> String) -> Result<ArrayRef> {
    let (texts, lengths) = (strings(&arguments[0]), integers(&arguments[1]));
    let pads = arguments.get(2).map(strings);
    if let Some(length) = lengths.iter().flatten().find(|length| *length > PADDED_CHARACTERS_MAX) {
        return exec_err!("{name} makes no string of {length} characters");
    }
    // What a row becomes: its text cut off, or the characters that are missing.
    let of_row = |row: usize| {
        let text = string_at(texts, row)?;
        let length = usize::try_from(integer_at(Some(lengths), row, 0)?).ok()?;
        let pad = pads.map_or(Some(" "), |pads| string_at(pads, row)).filter(|pad| !pad.is_empty())?;
        Some(match text.char_indices().nth(length) {
            Some((end, _)) => (&text[..end], pad, 0),
            None => (text, pad, length - text.chars().count()),
        })
    };
    let bytes_of = |(text, pad, missing): (&str, &str, usize)| {
        text.len().saturating_add(pad.len().saturating_mul(missing.div_ceil(pad.chars().count())))
    };
    let bytes = (0..texts.len()).filter_map(of_row).map(bytes_of).fold(0, usize::saturating_add);
    growth::check(name, bytes)?;
    Ok(collect(texts.len(), |row| {
        let (text, pad, missing) = of_row(row)?;
        let padding: String = pad.chars().cycle().take(missing).collect();
        Some(together(text, &padding))
    }))
}

/// `CHR(code)`: the character of Latin-1 that the code's last eight bits are; none where it is negative, as in Flink.
pub(super) fn chr(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let codes = integers(&arguments[0]);
    Ok(collect(codes.len(), |row| {
        let code = integer_at(Some(codes), row, 0)?;
        Some(if code < 0 { String::new() } else { char::from(code as u8).to_string() })
    }))
}

/// `SUBSTRING(text, from[, length])`: `from` counts from 1, or from the end where it is negative; 0 means 1. NULL where the length is
/// negative, as in Flink.
pub(super) fn substring(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let text = strings(&arguments[0]);
    let (starts, lengths) = (arguments.get(1).map(integers), arguments.get(2).map(integers));
    Ok(collect(text.len(), |row| {
        let text = string_at(text, row)?;
        let from = integer_at(starts, row, 1)?;
        let length = usize::try_from(integer_at(lengths, row, i64::MAX)?).ok()?;
        let count = text.chars().count() as i64;
        let start = match from {
            1.. => from - 1,
            0 => 0,
            _ => count.saturating_add(from),
        };
        if start < 0 || start >= count {
            return Some(String::new());
        }
        Some(text.chars().skip(start as usize).take(length).collect())
    }))
}

/// `LOCATE(part, text[, from])`: the place of `part` in `text`, from 1; 0 where there is none.
pub(super) fn locate(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let (parts, texts) = (strings(&arguments[0]), strings(&arguments[1]));
    let starts = arguments.get(2).map(integers);
    let places = (0..parts.len()).map(|row| {
        let part = string_at(parts, row)?;
        let text = string_at(texts, row)?;
        let from = integer_at(starts, row, 1)?;
        let Some(skipped) = usize::try_from(from - 1).ok() else { return Some(0) };
        let Some(start) = text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(skipped) else {
            return Some(0);
        };
        let found = text[start..].find(part).map(|at| skipped + text[start..start + at].chars().count() + 1);
        Some(found.map_or(0, |place| place as i32))
    });
    Ok(Arc::new(places.collect::<Int32Array>()))
}

/// `SPLIT_INDEX(text, delimiter, index)`: the part at `index`, from 0; NULL out of range. A number as the delimiter is a code point.
pub(super) fn split_index(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (Some(mut delimiters), Some(indices)) = (arguments.get(1)?, arguments.get(2)?) else {
        return exec_err!("SPLIT_INDEX takes 3 arguments");
    };
    if delimiters.values.data_type() != &DataType::Utf8View {
        let codes = cast(&delimiters.values, &DataType::Int64)?;
        delimiters.values = collect(codes.len(), |row| {
            let code = integer_at(Some(integers(&codes)), row, 0)?;
            Some(char::from_u32(u32::try_from(code).ok()?)?.to_string())
        });
    }
    let text = arguments.column(0)?;
    let (text, all_delimiters, all_indices) = (strings(&text), strings(&delimiters.values), integers(&indices.values));
    let mut parts = Cuts::of(text);
    for row in 0..arguments.rows {
        let part = (|| {
            let text = string_at(text, row)?;
            let delimiter = string_at(all_delimiters, delimiters.place(row))?;
            let index = integer_at(Some(all_indices), indices.place(row), 0)?;
            part(text, delimiter, usize::try_from(index).ok()?)
        })();
        match part {
            Some(part) => parts.push(row, part),
            None => parts.push_null(),
        }
    }
    Ok(Arc::new(parts.finish()))
}

/// Where the part at `index` lies. As in Flink an empty text has no parts, and an empty delimiter splits nothing.
fn part(text: &str, delimiter: &str, index: usize) -> Option<Range<usize>> {
    match (text.as_bytes(), delimiter.as_bytes()) {
        ([], _) => None,
        (_, []) => (index == 0).then_some(0..text.len()),
        (bytes, [delimiter]) => part_at_bytes(bytes, *delimiter, index),
        _ => {
            let mut starts = text.match_indices(delimiter).map(|(at, _)| at);
            let start = if index == 0 { 0 } else { starts.nth(index - 1)? + delimiter.len() };
            Some(start..starts.next().unwrap_or(text.len()))
        }
    }
}

fn part_at_bytes(text: &[u8], delimiter: u8, index: usize) -> Option<Range<usize>> {
    let (mut start, mut before) = (0, index);
    for (number, bytes) in text.chunks(64).enumerate() {
        let mut found = places(bytes, delimiter);
        while found != 0 {
            let at = number * 64 + found.trailing_zeros() as usize;
            if before == 0 {
                return Some(start..at);
            }
            (start, before) = (at + 1, before - 1);
            found &= found - 1;
        }
    }
    (before == 0).then_some(start..text.len())
}

/// A bit for each of at most 64 bytes: whether it is `wanted`. All at once, because a search from one place to the next stumbles over the
/// different lengths between them.
fn places(bytes: &[u8], wanted: u8) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([0x7f; 8]);
    let pattern = u64::from_ne_bytes([wanted; 8]);
    let of_word = |word: [u8; 8]| {
        let differing = u64::from_le_bytes(word) ^ pattern;
        // The highest bit of each byte that differs nowhere; one multiplication moves that of byte `i` to bit `56 + i`.
        let equal = !(((differing & LOW) + LOW) | differing | LOW);
        (equal >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let found = words.iter().enumerate().fold(0, |found, (at, &word)| found | of_word(word) << (8 * at));
    if rest.is_empty() {
        return found;
    }
    let mut last = [!wanted; 8];
    last[..rest.len()].copy_from_slice(rest);
    found | of_word(last) << (8 * words.len())
}

/// `REPLACE(text, part, replacement)`, where DataFusion's leaves the text as it is for an empty part: there is one before each letter and one
/// behind the last, as in Flink.
pub(super) const REPLACE: Definition = Definition {
    name: "replace",
    parameters: &[Parameter::Text; 3],
    required: 3,
    returns: |_| DataType::Utf8View,
    is_nullable: always,
    evaluate: Evaluate::Arrays(|arguments| {
        let [texts, parts, replacements] = [0, 1, 2].map(|index| strings(&arguments[index]));
        growth::check("replace", growth::bytes_of_replace(texts, parts, replacements))?;
        Ok(collect(texts.len(), |row| {
            let (text, part) = (string_at(texts, row)?, string_at(parts, row)?);
            Some(text.replace(part, string_at(replacements, row)?))
        }))
    }),
};

/// `REGEXP_EXTRACT(text, expression[, group])`: what the group matched, 0 being all of the match; NULL where nothing matched.
pub(super) fn regexp_extract(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let text = arguments.column(0)?;
    let Some(expressions) = arguments.get(1)? else { return exec_err!("REGEXP_EXTRACT takes 2 to 3 arguments") };
    let groups = arguments.get(2)?;
    // A clone shares what was compiled, but not the memory that searches need: workers do not wait for each other.
    let mut known = arguments.regex.cloned().map(|regex| (None, Extractor::new(regex)));
    let (text, all_expressions) = (strings(&text), strings(&expressions.values));
    let all_groups = groups.as_ref().map(|groups| (groups, integers(&groups.values)));
    let mut matches = Cuts::of(text);
    for row in 0..arguments.rows {
        let group = all_groups.map_or(Some(0), |(groups, values)| integer_at(Some(values), groups.place(row), 0));
        let (Some(text), Some(expression), Some(group)) =
            (string_at(text, row), string_at(all_expressions, expressions.place(row)), group)
        else {
            matches.push_null();
            continue;
        };
        let extractor = match &mut known {
            Some((of, extractor)) if of.is_none_or(|of| of == expression) => extractor,
            known => &mut known.insert((Some(expression), Extractor::new(compiled("regexp_extract", expression)?))).1,
        };
        match extractor.find(text, usize::try_from(group).unwrap_or(usize::MAX)) {
            Some((start, end)) => matches.push(row, start..end),
            None => matches.push_null(),
        }
    }
    Ok(Arc::new(matches.finish()))
}

/// The regular expression that a function is given.
pub(super) fn compiled(function: &str, expression: &str) -> Result<Regex> {
    let function = function.to_uppercase();
    if let Some((message, instead)) = java_only(expression) {
        return exec_err!("{function}: {message}; {instead}");
    }
    Regex::new(&translated(expression))
        .map_err(|error| exec_datafusion_err!("{function}: '{expression}' is no regular expression: {error}"))
}

/// `REGEXP_REPLACE(text, expression, replacement)`: the replacement is put in as it is, `$1` and backslashes too, as in Flink.
pub(super) fn regexp_replace(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let columns = [arguments.column(0)?, arguments.column(1)?, arguments.column(2)?];
    let [texts, expressions, replacements] = columns.each_ref().map(strings);
    let mut known = arguments.regex.cloned().map(|regex| (None, regex));
    let (mut replaced, mut bytes) = (StringViewBuilder::with_capacity(arguments.rows), 0_usize);
    for row in 0..arguments.rows {
        let (Some(text), Some(expression), Some(replacement)) =
            (string_at(texts, row), string_at(expressions, row), string_at(replacements, row))
        else {
            replaced.append_null();
            continue;
        };
        let regex = match &mut known {
            Some((of, regex)) if of.is_none_or(|of| of == expression) => regex,
            known => &mut known.insert((Some(expression), compiled("regexp_replace", expression)?)).1,
        };
        let count = || regex.find_iter(text).count();
        bytes = bytes.saturating_add(growth::replaced_bytes(text, replacement, 0, count));
        growth::check("regexp_replace", bytes)?;
        replaced.append_value(regex.replace_all(text, NoExpand(replacement)));
    }
    Ok(Arc::new(replaced.finish()))
}

/// `OVERLAY(text PLACING part FROM start [FOR length])`: the text itself where nothing starts there, and nothing of it behind the part where it has less
/// letters than the length, or that is none, as in Flink.
pub(super) const OVERLAY: Definition = Definition {
    name: "overlay",
    parameters: &[Parameter::Text, Parameter::Text, Parameter::Integer, Parameter::Integer],
    required: 3,
    returns: |_| DataType::Utf8View,
    is_nullable: always,
    evaluate: Evaluate::Arrays(|arguments| {
        let [texts, parts] = [strings(&arguments[0]), strings(&arguments[1])];
        let (starts, lengths) = (integers(&arguments[2]), arguments.get(3).map(integers));
        Ok(collect(texts.len(), |row| {
            let (text, part) = (string_at(texts, row)?, string_at(parts, row)?);
            let letters = |text: &str| i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
            let start = integer_at(Some(starts), row, 0)?;
            let length = integer_at(lengths, row, letters(part))?;
            if !(1..=letters(text)).contains(&start) {
                return Some(text.to_string());
            }
            let place = |before: i64| text.char_indices().nth(before as usize).map_or(text.len(), |(at, _)| at);
            let end = (start - 1).saturating_add(length);
            let rest = if length > 0 && end < letters(text) { &text[place(end)..] } else { "" };
            Some([&text[..place(start - 1)], part, rest].concat())
        }))
    }),
};

/// Patterns of Java's as the library has them, for functions that take them as they are. No query calls it: the planner does.
pub(super) const JAVA_PATTERN: Definition = Definition {
    name: "java_pattern",
    parameters: &[Parameter::Text],
    required: 1,
    returns: |_| DataType::Utf8View,
    is_nullable: always,
    evaluate: Evaluate::Arrays(|arguments| {
        let patterns = strings(&arguments[0]);
        Ok(collect(patterns.len(), |row| string_at(patterns, row).map(translated)))
    }),
};

/// A regular expression and room for what its groups match.
struct Extractor {
    regex: Regex,
    groups: CaptureLocations,
}

impl Extractor {
    fn new(regex: Regex) -> Extractor {
        Extractor { groups: regex.capture_locations(), regex }
    }

    /// Where the group of the first match lies.
    fn find(&mut self, text: &str, group: usize) -> Option<(usize, usize)> {
        if group == 0 {
            return self.regex.find(text).map(|found| (found.start(), found.end()));
        }
        self.regex.captures_read(&mut self.groups, text)?;
        self.groups.get(group)
    }
}

/// `BIN(number)`: in binary, two's complement.
pub(super) fn bin(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let numbers = integers(&arguments[0]);
    Ok(collect(numbers.len(), |row| integer_at(Some(numbers), row, 0).map(|number| format!("{number:b}"))))
}

/// `HEX(number)` in two's complement, `HEX(text)` its UTF-8 bytes, in capitals.
pub(super) fn hex(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let values = &arguments[0];
    if values.data_type().is_integer() {
        let numbers = cast(values, &DataType::Int64)?;
        return Ok(collect(numbers.len(), |row| {
            integer_at(Some(integers(&numbers)), row, 0).map(|number| format!("{number:X}"))
        }));
    }
    if !values.data_type().is_string() && !matches!(values.data_type(), DataType::Binary | DataType::BinaryView) {
        return exec_err!("HEX takes a whole number or a string, not {}", values.data_type());
    }
    let bytes = cast(values, &DataType::BinaryView)?;
    let bytes: &BinaryViewArray = bytes.as_binary_view();
    Ok(collect(bytes.len(), |row| {
        bytes.is_valid(row).then(|| bytes.value(row).iter().map(|byte| format!("{byte:02X}")).collect())
    }))
}

/// `TYPEOF(value)`: its SQL type.
pub(super) fn type_of(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let name = sql_name(arguments[0].data_type());
    Ok(collect(arguments[0].len(), |_| Some(name.clone())))
}

/// Tests of what a text consists of: false for NULL and for the empty text, as in Flink.
fn test(array: &ArrayRef, holds: impl Fn(&str) -> bool, of_numbers: bool) -> Result<ArrayRef> {
    if array.data_type() != &DataType::Utf8View {
        let values = (0..array.len()).map(|row| Some(array.is_valid(row) && of_numbers));
        return Ok(Arc::new(values.collect::<BooleanArray>()));
    }
    let values = strings(array).iter().map(|text| Some(text.is_some_and(|text| !text.is_empty() && holds(text))));
    Ok(Arc::new(values.collect::<BooleanArray>()))
}

/// `IS_ALPHA(text)`: letters only.
pub(super) fn is_alpha(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    test(&arguments[0], |text| text.chars().all(char::is_alphabetic), false)
}

/// `IS_DIGIT(text)`: digits only.
pub(super) fn is_digit(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let of_numbers = arguments[0].data_type().is_integer();
    test(&arguments[0], |text| text.chars().all(char::is_numeric), of_numbers)
}

/// `IS_DECIMAL(text)`: a number.
pub(super) fn is_decimal(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let of_numbers = arguments[0].data_type().is_numeric();
    test(&arguments[0], |text| text.trim().parse::<f64>().is_ok_and(f64::is_finite), of_numbers)
}
