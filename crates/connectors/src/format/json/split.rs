//! Lines with one JSON object each into the members that columns want.

use std::ops::Range;

use crate::format::rows::{Failure, Span, Split};

/// A member that no column wants.
const UNWANTED: usize = usize::MAX;

/// Splits the rows of a table.
pub(crate) struct JsonSplitter {
    /// Names of the wanted columns.
    wanted: Vec<String>,
    /// A column to name where a line is no object at all.
    first_column: String,
    /// Whether an object without one of them is an error.
    fail_on_missing_field: bool,
}

/// The members of the line before, by position: objects in a file mostly have theirs in one order.
type Order = Vec<(Range<usize>, usize)>;

/// Where in a line something else should stand, and what.
struct Unexpected {
    at: usize,
    expected: &'static str,
}

fn unexpected<T>(at: usize, expected: &'static str) -> Result<T, Unexpected> {
    Err(Unexpected { at, expected })
}

impl JsonSplitter {
    /// A splitter that keeps the members named `wanted`, in that order. `first_column` is the table's first.
    pub(crate) fn new(wanted: Vec<String>, first_column: String, fail_on_missing_field: bool) -> JsonSplitter {
        JsonSplitter { wanted, first_column, fail_on_missing_field }
    }

    /// See [`crate::format::rows::Splitter::split`].
    pub(crate) fn split(&self, bytes: &[u8], mut at: usize, rows_max: usize, split: &mut Split) -> usize {
        let mut handled = 0;
        let mut order = Order::new();
        while at < bytes.len() && handled < rows_max {
            let next = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length + 1);
            let line = &bytes[..next];
            let start = after_blanks(line, at);
            if start == next {
                at = next;
                continue;
            }
            handled += 1;
            let first_span = split.spans.len();
            split.spans.resize(first_span + split.width, Span::ABSENT);
            let end = next - line[at..].iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
            let spans = &mut split.spans[first_span..];
            let member = |place: usize, span| {
                if place != UNWANTED {
                    spans[place] = span;
                }
            };
            let outcome = object(&bytes[..end], start, &mut order, |key| self.place(key), member);
            // What lines end with is not among them.
            let may_be_wrong = split.has_controls && has_controls(&bytes[at..end]);
            let outcome = outcome.and_then(|()| if may_be_wrong { check_strings(&bytes[..end], at) } else { Ok(()) });
            let failure = match outcome {
                Ok(()) => self.missing(at..end, &split.spans[first_span..]),
                Err(unexpected) => Some(self.failure(bytes, at..end, &unexpected)),
            };
            match failure {
                None => split.rows.push(at as u32..end as u32),
                Some(failure) => {
                    split.spans.truncate(first_span);
                    split.failures.push(failure);
                }
            }
            at = next;
        }
        at
    }

    fn place(&self, key: &[u8]) -> usize {
        self.wanted.iter().position(|name| name.as_bytes() == key).unwrap_or(UNWANTED)
    }

    /// The failure of an object that lacks a wanted member, where that is one.
    fn missing(&self, line: Range<usize>, spans: &[Span]) -> Option<Failure> {
        if !self.fail_on_missing_field {
            return None;
        }
        let place = spans.iter().position(|&span| span == Span::ABSENT)?;
        Some(Failure {
            row: line.start as u32..line.end as u32,
            column: self.wanted[place].clone(),
            value: line,
            problem: "has no such member".into(),
        })
    }

    fn failure(&self, bytes: &[u8], line: Range<usize>, unexpected: &Unexpected) -> Failure {
        let character = String::from_utf8_lossy(&bytes[line.start..unexpected.at]).chars().count() + 1;
        Failure {
            row: line.start as u32..line.end as u32,
            column: self.first_column.clone(),
            problem: format!("is no JSON object: {} is expected at character {character}", unexpected.expected),
            value: line,
        }
    }
}

/// Tells the names of the members of the object in `line`, as far as it is one.
pub(crate) fn for_each_name(line: &[u8], name: impl Fn(&[u8])) {
    let find = |key: &[u8]| {
        name(key);
        UNWANTED
    };
    let start = after_blanks(line, 0);
    let end = line.len() - line.iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
    if start < end {
        // What is wrong with it comes up when the table is read.
        let _ = object(&line[..end], start, &mut Order::new(), find, |_, _| {});
    }
}

/// Walks over the members of the object that starts at `start` and must end with `line`. `find` gives a key's place;
/// `member` hears the place and value of each member.
fn object(
    line: &[u8],
    start: usize,
    order: &mut Order,
    find: impl Fn(&[u8]) -> usize,
    mut member: impl FnMut(usize, Span),
) -> Result<(), Unexpected> {
    if line.get(start) != Some(&b'{') {
        return unexpected(start, "'{'");
    }
    let mut at = after_blanks(line, start + 1);
    let mut position = 0;
    if line.get(at) == Some(&b'}') {
        return end(line, at + 1);
    }
    loop {
        if line.get(at) != Some(&b'"') {
            return unexpected(at, "a name in double quotes");
        }
        let (place, after_key) = key(line, at + 1, position, order, &find)?;
        at = after_blanks(line, after_key);
        if line.get(at) != Some(&b':') {
            return unexpected(at, "':'");
        }
        let (span, after_value) = value(line, after_blanks(line, at + 1))?;
        member(place, span);
        at = after_blanks(line, after_value);
        match line.get(at) {
            Some(b',') => at = after_blanks(line, at + 1),
            Some(b'}') => return end(line, at + 1),
            _ => return unexpected(at, "',' or '}'"),
        }
        position += 1;
    }
}

/// Refuses control characters between quotes from `start` on, in what is an object else. Blanks between values may be some.
fn check_strings(line: &[u8], start: usize) -> Result<(), Unexpected> {
    let mut is_string = false;
    let mut at = start;
    while let Some(&byte) = line.get(at) {
        match byte {
            b'"' => is_string = !is_string,
            b'\\' => at += 1,
            0..b' ' if is_string => return unexpected(at, "an escape sequence in place of a control character"),
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Whether a text has control characters besides line ends.
pub(crate) fn has_controls(text: &[u8]) -> bool {
    // Without a branch for each byte, so that many are compared at a time.
    let has = |part: &[u8]| part.iter().fold(false, |has, &byte| has | (byte < b' ') & (byte != b'\n'));
    text.chunks(1 << 12).any(has)
}

/// Whether an unquoted value may be a number, as far as its ends tell: columns of numbers look closer.
fn is_number(text: &[u8]) -> bool {
    match text.strip_prefix(b"-").unwrap_or(text) {
        [b'0', b'0'..=b'9', ..] => false,
        [b'0'..=b'9', rest @ ..] => rest.last().is_none_or(u8::is_ascii_digit),
        _ => false,
    }
}

fn end(line: &[u8], at: usize) -> Result<(), Unexpected> {
    let at = after_blanks(line, at);
    if at < line.len() { unexpected(at, "the end of the line") } else { Ok(()) }
}

/// The place of the key whose text starts at `start`, and where its closing quote ends.
#[inline]
fn key(
    line: &[u8],
    start: usize,
    position: usize,
    order: &mut Order,
    find: impl Fn(&[u8]) -> usize,
) -> Result<(usize, usize), Unexpected> {
    if let Some((before, place)) = order.get(position) {
        let end = start + before.len();
        if line.get(end) == Some(&b'"') && line[start..end] == line[before.clone()] {
            return Ok((*place, end + 1));
        }
    }
    let (span, after) = string(line, start)?;
    let text = &line[span.range()];
    if span.is_escaped() {
        let place = super::unescape(text).map_or(UNWANTED, |text| find(&text));
        return Ok((place, after));
    }
    let place = find(text);
    order.truncate(position);
    if order.len() == position {
        order.push((span.range(), place));
    }
    Ok((place, after))
}

/// The value at `start`, and where it ends.
#[inline]
fn value(line: &[u8], start: usize) -> Result<(Span, usize), Unexpected> {
    match line.get(start) {
        Some(b'"') => string(line, start + 1),
        Some(b'{' | b'[') => {
            let end = nested_end(line, start)?;
            Ok((Span::plain(start, end), end))
        }
        Some(_) => {
            let length = line[start..].iter().position(|&byte| matches!(byte, b',' | b'}' | b']') || is_blank(byte));
            let end = length.map_or(line.len(), |length| start + length);
            match &line[start..end] {
                b"null" => Ok((Span::NULL, end)),
                b"true" | b"false" => Ok((Span::plain(start, end), end)),
                text if is_number(text) => Ok((Span::plain(start, end), end)),
                [b'-' | b'0'..=b'9', ..] => unexpected(start, "a number as JSON has them"),
                _ => unexpected(start, "a value"),
            }
        }
        None => unexpected(start, "a value"),
    }
}

/// The string whose text starts at `start`, and where its closing quote ends.
#[inline]
fn string(line: &[u8], start: usize) -> Result<(Span, usize), Unexpected> {
    let mut at = start;
    let mut escaped = false;
    loop {
        match memchr::memchr2(b'"', b'\\', &line[at..]) {
            None => return unexpected(line.len(), "'\"'"),
            Some(length) if line[at + length] == b'"' => {
                let end = at + length;
                return Ok((Span::quoted(start, end).escaped(escaped), end + 1));
            }
            Some(length) => {
                escaped = true;
                at = (at + length + 2).min(line.len());
            }
        }
    }
}

/// Where the object or array at `start` ends. What stands in it is not looked at.
fn nested_end(line: &[u8], start: usize) -> Result<usize, Unexpected> {
    let mut depth = 0usize;
    let mut at = start;
    while let Some(byte) = line.get(at) {
        match byte {
            b'"' => {
                at = string(line, at + 1)?.1;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Ok(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    unexpected(line.len(), "'}' or ']'")
}

#[inline]
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

#[inline]
fn after_blanks(line: &[u8], mut at: usize) -> usize {
    while line.get(at).is_some_and(|&byte| is_blank(byte)) {
        at += 1;
    }
    at
}
