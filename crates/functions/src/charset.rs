//! Strings as bytes of a character set, and back, as Java does it.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryViewArray, StringViewArray};
use datafusion_common::{Result, exec_err};

/// The character sets there are, in the order in which they are named to users.
pub const CHARACTER_SETS: [&str; 6] = ["US-ASCII", "ISO-8859-1", "UTF-8", "UTF-16BE", "UTF-16LE", "UTF-16"];

/// The character set of that name, in any case: by the name it has above, or by another one that Java has for it.
pub fn character_set(name: &str) -> Option<&'static str> {
    CHARACTER_SETS.into_iter().find(|set| {
        set.eq_ignore_ascii_case(name) || other_names(set).split(' ').any(|other| other.eq_ignore_ascii_case(name))
    })
}

/// What else Java calls a set.
fn other_names(set: &str) -> &'static str {
    match set {
        "US-ASCII" => {
            "646 ANSI_X3.4-1968 ANSI_X3.4-1986 ASCII ASCII7 cp367 csASCII IBM367 ISO646-US \
             ISO_646.irv:1983 ISO_646.irv:1991 iso-ir-6 us"
        }
        "ISO-8859-1" => {
            "819 8859_1 cp819 csISOLatin1 IBM-819 IBM819 ISO8859-1 ISO8859_1 ISO_8859-1 \
             ISO_8859-1:1987 ISO_8859_1 iso-ir-100 l1 latin1"
        }
        "UTF-8" => "UTF8 unicode-1-1-utf-8",
        "UTF-16BE" => "ISO-10646-UCS-2 UTF_16BE UnicodeBigUnmarked X-UTF-16BE",
        "UTF-16LE" => "UTF_16LE UnicodeLittleUnmarked X-UTF-16LE",
        _ => "UTF16 UTF_16 Unicode UnicodeBig",
    }
}

/// What stands for bytes that are no character.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// `ENCODE(text, set)`: what the set does not have becomes a question mark.
pub(super) fn encode(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = arguments[0].as_string_view().iter();
    Ok(Arc::new(recoded(texts, &arguments[1], encoded_text).collect::<Result<BinaryViewArray>>()?))
}

/// `DECODE(bytes, set)`: what is no character becomes U+FFFD.
pub(super) fn decode(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let bytes = arguments[0].as_binary_view().iter();
    Ok(Arc::new(recoded(bytes, &arguments[1], decoded_bytes).collect::<Result<StringViewArray>>()?))
}

fn recoded<Value, Recoded>(
    values: impl Iterator<Item = Option<Value>>,
    sets: &ArrayRef,
    recode: fn(Value, &str) -> Recoded,
) -> impl Iterator<Item = Result<Option<Recoded>>> {
    let recode = move |(value, set)| Ok(recode(value, known(set)?));
    values.zip(sets.as_string_view()).map(move |(value, set)| value.zip(set).map(recode).transpose())
}

/// The set of a name that [`character_set`] has given.
fn known(name: &str) -> Result<&str> {
    match CHARACTER_SETS.contains(&name) {
        true => Ok(name),
        false => exec_err!("'{name}' is not a valid character set; use {}", CHARACTER_SETS.join(", ")),
    }
}

fn encoded_text(text: &str, set: &str) -> Vec<u8> {
    let narrow = |last: char| text.chars().map(|letter| if letter <= last { letter as u8 } else { b'?' }).collect();
    match set {
        "US-ASCII" => narrow('\u{7f}'),
        "ISO-8859-1" => narrow('\u{ff}'),
        "UTF-16LE" => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        "UTF-16BE" => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        "UTF-16" if !text.is_empty() => {
            let marked = std::iter::once(0xfeff).chain(text.encode_utf16());
            marked.flat_map(u16::to_be_bytes).collect()
        }
        _ => text.as_bytes().to_vec(),
    }
}

fn decoded_bytes(bytes: &[u8], set: &str) -> String {
    match set {
        "US-ASCII" => bytes.iter().map(|byte| if byte.is_ascii() { *byte as char } else { REPLACEMENT }).collect(),
        "ISO-8859-1" => bytes.iter().map(|byte| *byte as char).collect(),
        "UTF-16LE" => decoded_units(bytes, u16::from_le_bytes),
        "UTF-16BE" => decoded_units(bytes, u16::from_be_bytes),
        "UTF-16" => match bytes {
            [0xff, 0xfe, rest @ ..] => decoded_units(rest, u16::from_le_bytes),
            [0xfe, 0xff, rest @ ..] | rest => decoded_units(rest, u16::from_be_bytes),
        },
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// UTF-16: the first half of a pair takes what follows with it, whether that is the other half or not.
fn decoded_units(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let mut units = pairs.iter().map(|pair| unit(*pair));
    let mut text = String::with_capacity(bytes.len());
    while let Some(first) = units.next() {
        let letter = match first {
            0xd800..=0xdbff => units.next().and_then(|second| char::decode_utf16([first, second]).next()?.ok()),
            // A mark of the order of bytes, the wrong way round.
            0xfffe => None,
            other => char::from_u32(u32::from(other)),
        };
        text.push(letter.unwrap_or(REPLACEMENT));
    }
    if !odd.is_empty() {
        text.push(REPLACEMENT);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_the_sets_that_have_all_of_it() {
        for set in ["UTF-8", "UTF-16BE", "UTF-16LE", "UTF-16"] {
            for text in ["", "a", "aä€😀"] {
                assert_eq!(decoded_bytes(&encoded_text(text, set), set), text, "{set}");
            }
        }
        assert_eq!(decoded_bytes(&encoded_text("aä€😀", "ISO-8859-1"), "ISO-8859-1"), "aä??");
        assert_eq!(encoded_text("aä€😀", "US-ASCII"), b"a???");
    }

    #[test]
    fn a_set_has_one_of_its_names_in_any_case() {
        for (name, set) in [
            ("utf-16be", "UTF-16BE"),
            ("utf8", "UTF-8"),
            ("LATIN1", "ISO-8859-1"),
            ("iso8859_1", "ISO-8859-1"),
            ("Ascii", "US-ASCII"),
            ("unicode", "UTF-16"),
            ("x-utf-16le", "UTF-16LE"),
        ] {
            assert_eq!(character_set(name), Some(set), "{name}");
        }
        for name in ["", " ", "UTF-7", "UTF-16 ", "latin2", "utf8 unicode-1-1-utf-8"] {
            assert_eq!(character_set(name), None, "{name}");
        }
    }

    #[test]
    fn utf_16_has_a_mark_unless_its_order_is_said() {
        assert_eq!(encoded_text("a", "UTF-16"), [0xfe, 0xff, 0, b'a']);
        assert_eq!(encoded_text("a", "UTF-16BE"), [0, b'a']);
        assert_eq!(encoded_text("a", "UTF-16LE"), [b'a', 0]);
        assert_eq!(decoded_bytes(&[0xff, 0xfe, b'a', 0], "UTF-16"), "a");
        assert_eq!(decoded_bytes(&[0, b'a'], "UTF-16"), "a");
        assert_eq!(decoded_bytes(&[0xfe, 0xff, 0, b'a'], "UTF-16BE"), "\u{feff}a");
    }

    #[test]
    fn what_is_no_character_is_replaced() {
        assert_eq!(decoded_bytes(&[b'a', 0x80], "US-ASCII"), "a\u{fffd}");
        assert_eq!(decoded_bytes(&[b'a', 0xff, b'b'], "UTF-8"), "a\u{fffd}b");
        assert_eq!(decoded_bytes(&[0xd8, 0x00, 0x00, b'a', 0x00, b'b'], "UTF-16BE"), "\u{fffd}b");
        assert_eq!(decoded_bytes(&[0xdc, 0x00, 0x00, b'b', 0x00], "UTF-16BE"), "\u{fffd}b\u{fffd}");
    }
}
