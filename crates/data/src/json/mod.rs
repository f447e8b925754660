//! JSON as text: strings and their escape sequences, and objects and arrays in compact form.

mod compact;

mod repeated;

pub use self::compact::{compact, write_double_number, write_string};
pub use self::repeated::last_of_each;

/// The text of a string without its escape sequences, or `None` where one of them means nothing.
pub fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(length) = memchr::memchr(b'\\', &text[at..]) {
        out.extend_from_slice(&text[at..at + length]);
        at += length + 2;
        out.push(match text.get(at - 1)? {
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            &escaped @ (b'"' | b'\\' | b'/') => escaped,
            b'u' => {
                let (character, length) = unicode_escape(&text[at..])?;
                at += length;
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return None,
        });
    }
    out.extend_from_slice(&text[at..]);
    Some(out)
}

/// The character whose code stands at the start of `text`, after `\u`, and the length of that code: characters beyond
/// the first 65,536 have two, with `\u` between them.
fn unicode_escape(text: &[u8]) -> Option<(char, usize)> {
    let first = hexadecimal(text.get(..4)?)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 4));
    }
    let second = hexadecimal(text.get(4..10)?.strip_prefix(b"\\u")?)?;
    if !(0xd800..0xdc00).contains(&first) || !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    Some((char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))?, 10))
}

fn hexadecimal(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0, |value, &digit| Some(value * 16 + char::from(digit).to_digit(16)?))
}
