//! Functions over strings, and those that make strings of numbers.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Int32Array, Int64Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::{Result, exec_err};
use pelton_data::column::{Cuts, sql_name};
use regex::Regex;

use crate::casting::double;
use crate::definition::{Arguments, Definition, Evaluate, Parameter, always};
use crate::growth;

pub(super) fn strings(array: &ArrayRef) -> &StringViewArray {
    array.as_string_view()
}

pub(super) fn integers(array: &ArrayRef) -> &Int64Array {
    array.as_primitive::<Int64Type>()
}

pub(super) fn integer_at(array: Option<&Int64Array>, row: usize, default: i64) -> Option<i64> {
    match array {
        None => Some(default),
        Some(array) => array.is_valid(row).then(|| array.value(row)),
    }
}

pub(super) fn string_at(array: &StringViewArray, row: usize) -> Option<&str> {
    array.is_valid(row).then(|| array.value(row))
}

pub(super) fn collect(rows: usize, value: impl FnMut(usize) -> Option<String>) -> ArrayRef {
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

/// `LOCATE(part, text[, from])`: the place of `part` in `text` from the character `from` on, counted from 1; 0 where there is none. A `from` below 1 means 1,
/// and an empty part is at 1 wherever the search starts, as in Flink.
pub(super) fn locate(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let (parts, texts) = (strings(&arguments[0]), strings(&arguments[1]));
    let starts = arguments.get(2).map(integers);
    let places = (0..parts.len()).map(|row| {
        let (part, text) = (string_at(parts, row)?, string_at(texts, row)?);
        Some(place_of(part, text, integer_at(starts, row, 1)?))
    });
    Ok(Arc::new(places.collect::<Int32Array>()))
}

/// The place of `part` in `text` from the character `from` on, counted from 1; 0 where there is none.
fn place_of(part: &str, text: &str, from: i64) -> i32 {
    if part.is_empty() {
        return 1;
    }
    let skipped = usize::try_from(from.saturating_sub(1)).unwrap_or(0);
    let Some((start, _)) = text.char_indices().nth(skipped) else { return 0 };
    let found = text[start..].find(part).map(|at| skipped + text[start..start + at].chars().count() + 1);
    found.map_or(0, |place| place as i32)
}

/// `INSTR(text, part[, from[, number]])`: the place of occurrence `number` of `part`, counted from 1; 0 where there is none. Where `from` is negative
/// the search starts so many characters before the end and goes backwards. Occurrences may overlap.
pub(super) fn instr(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let (texts, parts) = (strings(&arguments[0]), strings(&arguments[1]));
    let (starts, numbers) = (arguments.get(2).map(integers), arguments.get(3).map(integers));
    let place = |row: usize| {
        let (Some(text), Some(part), Some(from), Some(number)) =
            (string_at(texts, row), string_at(parts, row), integer_at(starts, row, 1), integer_at(numbers, row, 1))
        else {
            return Ok(None);
        };
        if number < 1 {
            return exec_err!("INSTR looks for occurrence {number}; the first one is 1");
        }
        Ok(Some(match from {
            0 => 0,
            1.. => occurrence(part, text, from, number),
            _ => {
                let [part, text] = [part, text].map(|text| text.chars().rev().collect::<String>());
                let letters = |text: &str| text.chars().count() as i32;
                match occurrence(&part, &text, from.saturating_neg(), number) {
                    0 => 0,
                    place => letters(&text) + 2 - place - letters(&part),
                }
            }
        }))
    };
    Ok(Arc::new((0..texts.len()).map(place).collect::<Result<Int32Array>>()?))
}

/// The place of an occurrence, the first of which begins at the character `from` or behind it; both count from 1.
fn occurrence(part: &str, text: &str, from: i64, number: i64) -> i32 {
    // Of an empty part all occurrences are at 1.
    let first = place_of(part, text, from);
    if first == 0 || part.is_empty() {
        return first;
    }
    // Characters are counted from one occurrence to the next.
    let (mut place, mut at) = (first, text.char_indices().nth(first as usize - 1).map_or(0, |(at, _)| at));
    for _ in 1..number {
        let behind = at + text[at..].chars().next().map_or(0, char::len_utf8);
        let Some(found) = text[behind..].find(part) else { return 0 };
        place += 1 + text[behind..behind + found].chars().count() as i32;
        at = behind + found;
    }
    place
}

/// `SPLIT_INDEX(text, delimiter, index)`: the part at `index`, from 0; NULL out of range. A number from 1 to 255 as the delimiter is a code point; there are
/// no others.
pub(super) fn split_index(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let (Some(mut delimiters), Some(indices)) = (arguments.get(1)?, arguments.get(2)?) else {
        return exec_err!("SPLIT_INDEX takes 3 arguments");
    };
    if delimiters.values.data_type() != &DataType::Utf8View {
        let codes = cast(&delimiters.values, &DataType::Int64)?;
        delimiters.values = collect(codes.len(), |row| {
            let code = integer_at(Some(integers(&codes)), row, 0)?;
            Some(char::from(u8::try_from(code).ok().filter(|code| *code > 0)?).to_string())
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

/// Where the part at `index` lies. As in Flink an empty text has no parts, and an empty delimiter splits at each blank.
fn part(text: &str, delimiter: &str, index: usize) -> Option<Range<usize>> {
    match (text.as_bytes(), delimiter.as_bytes()) {
        ([], _) => None,
        (_, []) => {
            let mut starts = text.char_indices().filter(|(_, letter)| is_java_blank(*letter));
            let start = if index == 0 { 0 } else { starts.nth(index - 1).map(|(at, blank)| at + blank.len_utf8())? };
            Some(start..starts.next().map_or(text.len(), |(at, _)| at))
        }
        (bytes, [delimiter]) => part_at_bytes(bytes, *delimiter, index),
        _ => {
            let mut starts = text.match_indices(delimiter).map(|(at, _)| at);
            let start = if index == 0 { 0 } else { starts.nth(index - 1)? + delimiter.len() };
            Some(start..starts.next().unwrap_or(text.len()))
        }
    }
}

/// Java's `Character.isWhitespace`: no-break spaces are none.
fn is_java_blank(letter: char) -> bool {
    letter.is_whitespace() && !matches!(letter, '\u{a0}' | '\u{2007}' | '\u{202f}' | '\u{85}')
        || ('\u{1c}'..='\u{1f}').contains(&letter)
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
    repeats: false,
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

/// `OVERLAY(text PLACING part FROM start [FOR length])`: the text itself where nothing starts there, and nothing of it behind the part where it has less
/// letters than the length, or that is none, as in Flink.
pub(super) const OVERLAY: Definition = Definition {
    name: "overlay",
    parameters: &[Parameter::Text, Parameter::Text, Parameter::Integer, Parameter::Integer],
    required: 3,
    repeats: false,
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
        return exec_err!("HEX takes a whole number or a string, not {}", sql_name(values.data_type()));
    }
    let bytes = cast(values, &DataType::BinaryView)?;
    let bytes: &BinaryViewArray = bytes.as_binary_view();
    Ok(collect(bytes.len(), |row| {
        bytes.is_valid(row).then(|| bytes.value(row).iter().map(|byte| format!("{byte:02X}")).collect())
    }))
}

/// `UNHEX(text)`: the bytes that hexadecimal digits stand for, an odd first digit for one by itself; NULL where there are others.
pub(super) fn unhex(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let bytes = strings(&arguments[0]).iter().map(|text| {
        let digits: Option<Vec<u8>> = text?.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
        let digits = digits?;
        let (odd, pairs) = digits.split_at(digits.len() % 2);
        Some(odd.iter().copied().chain(pairs.chunks(2).map(|pair| pair[0] * 16 + pair[1])).collect::<Vec<u8>>())
    });
    Ok(Arc::new(bytes.collect::<BinaryViewArray>()))
}

/// `TRANSLATE(text, from, to)`: characters of `from` become those of `to` at the same places, and are left out where it has none. Nothing
/// changes where `from` is NULL, and nothing is put in where `to` is, as in Flink.
pub(super) fn translate(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [texts, from, to] = [0, 1, 2].map(|index| strings(&arguments[index]));
    Ok(collect(texts.len(), |row| {
        let text = string_at(texts, row)?;
        let Some(from) = string_at(from, row) else { return Some(text.to_string()) };
        let from: Vec<char> = from.chars().collect();
        let to: Vec<char> = string_at(to, row).unwrap_or_default().chars().collect();
        let translated = text.chars().filter_map(|letter| match from.iter().position(|known| *known == letter) {
            Some(place) => to.get(place).copied(),
            None => Some(letter),
        });
        Some(translated.collect())
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
        // The array of NULL itself has no NULLs marked.
        let holds = of_numbers && !array.data_type().is_null();
        let values = (0..array.len()).map(|row| Some(array.is_valid(row) && holds));
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
    static DIGITS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\p{Nd}+$").expect("it is a pattern"));
    test(&arguments[0], |text| DIGITS.is_match(text), of_numbers)
}

/// `IS_DECIMAL(text)`: a number.
pub(super) fn is_decimal(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let of_numbers = arguments[0].data_type().is_numeric();
    test(&arguments[0], |text| double(text.trim()).is_some(), of_numbers)
}
