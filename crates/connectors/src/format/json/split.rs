//! JSON objects into the members that columns want.

use std::collections::HashMap;
use std::ops::Range;

use pelton_data::json::unescape;

use super::layout::{Layout, wrong_end, wrong_separator};
use crate::format::split::{Failure, Line, Span, Split};

/// A member that no column wants.
const UNWANTED: usize = usize::MAX;

/// Wanted columns up to which a name is compared with each.
const FEW_COLUMNS: usize = 16;

/// Splits the rows of a table.
pub(crate) struct JsonSplitter {
    /// Names of the wanted columns.
    wanted: Vec<String>,
    /// Their places by name, where they are more than a few.
    places: HashMap<Vec<u8>, usize>,
    /// A column to name where a line is no object at all.
    first_column: String,
    /// Whether an object without one of them is an error.
    fail_on_missing_field: bool,
    layout: Layout,
}

/// The members of the line before, by position: objects in a file mostly have theirs in one order.
pub(crate) type Order = Vec<(Range<usize>, usize)>;

/// Where in a line something else should stand, and what.
pub(crate) struct Unexpected {
    at: usize,
    expected: &'static str,
}

fn unexpected<T>(at: usize, expected: &'static str) -> Result<T, Unexpected> {
    Err(Unexpected { at, expected })
}

impl JsonSplitter {
    /// A splitter that keeps the members named `wanted`, in that order. `first_column` is the table's first.
    pub(crate) fn new(
        wanted: Vec<String>,
        first_column: String,
        fail_on_missing_field: bool,
        layout: Layout,
    ) -> JsonSplitter {
        let named = if wanted.len() > FEW_COLUMNS { wanted.as_slice() } else { &[] };
        let places = named.iter().enumerate().map(|(place, name)| (name.clone().into_bytes(), place)).collect();
        JsonSplitter { wanted, places, first_column, fail_on_missing_field, layout }
    }

    /// Where the last whole row of `bytes` ends, which begins with one; `None` where there is none.
    pub(crate) fn last_row_end(&self, bytes: &[u8]) -> Option<usize> {
        self.layout.last_row_end(bytes)
    }

    /// How the file's objects lie in it.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// See [`crate::format::rows::Splitter::split`].
    pub(crate) fn split(&self, bytes: &[u8], mut at: usize, rows_max: usize, split: &mut Split) -> usize {
        let mut handled = 0;
        let mut order = Order::new();
        while at < bytes.len() && handled < rows_max {
            let start = self.next_object(bytes, at, &mut split.line);
            let Line { end, next } = split.line;
            if let Some(failure) = self.wrong_separator(bytes, at..start, start..end, split) {
                split.failures.push(failure);
                at = next;
                continue;
            }
            if start == end {
                at = next;
                continue;
            }
            handled += 1;
            at = self.row(bytes, start, end, &mut order, split).unwrap_or(next);
        }
        at
    }

    /// Where the object at `at` begins: in `line`, or in the next one, which `line` then is.
    #[inline]
    fn next_object(&self, bytes: &[u8], at: usize, line: &mut Line) -> usize {
        if at < line.next {
            return at;
        }
        let start;
        (start, line.end, line.next) = self.next_row(bytes, at);
        start
    }

    /// Where what comes at `at` begins and ends, and where the next begins: a line, or a value.
    #[inline]
    fn next_row(&self, bytes: &[u8], at: usize) -> (usize, usize, usize) {
        if self.layout == Layout::Lines {
            let next = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length + 1);
            let end = next - bytes[at..next].iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
            return (after_blanks(&bytes[..end], at).min(end), end, next);
        }
        match self.layout.next_value(bytes, at) {
            Some((start, end)) => (start, start + bytes[start..end].trim_ascii_end().len(), end),
            None => {
                let start = self.layout.next_start(bytes, at);
                let end =
                    bytes.len() - bytes[start..].iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
                (start, end, bytes.len())
            }
        }
    }

    /// Splits what lies between `start` and `end`. Returns where the next object begins, if it is not the only one there.
    #[inline]
    fn row(&self, bytes: &[u8], start: usize, end: usize, order: &mut Order, split: &mut Split) -> Option<usize> {
        let first_span = split.spans.len();
        split.spans.resize(first_span + split.width, Span::ABSENT);
        let spans = &mut split.spans[first_span..];
        let outcome = object(&bytes[..end], start, order, |key| self.place(key), |place, span| spans[place] = span);
        let next = following_object(&bytes[..end], start, &outcome);
        let outcome = match (next, outcome) {
            (Some(_), outcome) => outcome.map(drop),
            (None, Ok(object_end)) if object_end < end => {
                let following = after_blanks(&bytes[..end], object_end);
                if following < end { unexpected(following, "the end of the line") } else { Ok(()) }
            }
            (None, outcome) => outcome.map(drop),
        };
        let (end, next) = next.map_or((end, None), |(object_end, next)| (object_end, Some(next)));
        // What lines end with is not among them.
        let may_be_wrong = self.layout != Layout::Lines || split.has_controls && has_controls(&bytes[start..end]);
        let outcome = outcome.and_then(|()| if may_be_wrong { check_strings(&bytes[..end], start) } else { Ok(()) });
        let failure = match outcome {
            Ok(()) => self.missing(start..end, &split.spans[first_span..]),
            Err(unexpected) => Some(self.failure(bytes, start..end, &unexpected)),
        };
        match failure {
            None => split.rows.push(start as u32..end as u32),
            Some(failure) => {
                split.spans.truncate(first_span);
                split.failures.push(failure);
            }
        }
        next
    }

    /// The failure of a value of an array that stands `behind` something else than it should, or of the array's end.
    #[inline]
    fn wrong_separator(
        &self,
        bytes: &[u8],
        behind: Range<usize>,
        value: Range<usize>,
        split: &mut Split,
    ) -> Option<Failure> {
        if self.layout != Layout::Array {
            return None;
        }
        let between = &bytes[behind.clone()];
        let (problem, text) = if value.is_empty() {
            let at = behind.start + wrong_end(between)?;
            ("is not expected there: the array ends with one ']'".to_string(), at..at + 1)
        } else {
            let follows_value = std::mem::replace(&mut split.follows_value, true);
            (wrong_separator(between, follows_value)?, value)
        };
        let row = text.start as u32..text.end as u32;
        Some(Failure { row, column: self.first_column.clone(), value: text, problem })
    }

    fn place(&self, key: &[u8]) -> Option<usize> {
        if self.wanted.len() > FEW_COLUMNS {
            return self.places.get(key).copied();
        }
        self.wanted.iter().position(|name| name.as_bytes() == key)
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
            problem: format!(
                "is not a valid JSON object: {} is expected at character {character}",
                unexpected.expected
            ),
            value: line,
        }
    }
}

/// Tells the names of the members of the first `rows_max` objects of a text, as far as they are some.
pub(crate) fn for_each_name(bytes: &[u8], layout: Layout, rows_max: usize, name: impl Fn(&[u8])) {
    let find = |key: &[u8]| {
        name(key);
        None
    };
    let splitter = JsonSplitter::new(Vec::new(), String::new(), false, layout);
    let (mut at, mut handled) = (0, 0);
    let mut line = Line::default();
    while at < bytes.len() && handled < rows_max {
        let start = splitter.next_object(bytes, at, &mut line);
        let Line { end, next } = line;
        at = next;
        if start == end {
            continue;
        }
        handled += 1;
        // What is wrong with it comes up when the table is read.
        let object_end = object(&bytes[..end], start, &mut Order::new(), find, |_, _| {});
        if let Some((_, following)) = following_object(&bytes[..end], start, &object_end) {
            at = following;
        }
    }
}

/// Where the object at `start` ends and the next one of its line begins, if there is one: behind an object that is wrong, where its brackets end.
#[inline]
fn following_object(line: &[u8], start: usize, end: &Result<usize, Unexpected>) -> Option<(usize, usize)> {
    let end = match end {
        Ok(end) => *end,
        Err(_) if line.get(start) == Some(&b'{') => nested_end(line, start).ok()?,
        Err(_) => return None,
    };
    let following = after_blanks(line, end);
    (line.get(following) == Some(&b'{')).then_some((end, following))
}

/// Walks over the members of the object that starts at `start`, and returns where it ends. `find` gives a key's place, and none for one that nobody wants;
/// `member` hears the place and value of each other.
pub(crate) fn object(
    line: &[u8],
    start: usize,
    order: &mut Order,
    find: impl Fn(&[u8]) -> Option<usize>,
    mut member: impl FnMut(usize, Span),
) -> Result<usize, Unexpected> {
    let mut position = 0;
    let find = |text: &[u8]| find(text).unwrap_or(UNWANTED);
    let key = |at| {
        position += 1;
        key(line, at, position - 1, order, find)
    };
    walk(line, start, key, |place, span| {
        if place != UNWANTED {
            member(place, span);
        }
    })
}

/// Walks over the members of the object that starts at `start`, whatever their keys, and returns where it ends.
pub(crate) fn members(line: &[u8], start: usize, member: impl FnMut(Span, Span)) -> Result<usize, Unexpected> {
    walk(line, start, |at| string(line, at), member)
}

/// Walks over an object; `key` reads one behind its opening quote, and says where it ends.
#[inline]
fn walk<K>(
    line: &[u8],
    start: usize,
    mut key: impl FnMut(usize) -> Result<(K, usize), Unexpected>,
    mut member: impl FnMut(K, Span),
) -> Result<usize, Unexpected> {
    if line.get(start) != Some(&b'{') {
        return unexpected(start, "'{'");
    }
    let mut at = after_blanks(line, start + 1);
    if line.get(at) == Some(&b'}') {
        return Ok(at + 1);
    }
    loop {
        if line.get(at) != Some(&b'"') {
            return unexpected(at, "a name in double quotes");
        }
        let (found, after_key) = key(at + 1)?;
        at = after_blanks(line, after_key);
        if line.get(at) != Some(&b':') {
            return unexpected(at, "':'");
        }
        let (span, after_value) = value(line, after_blanks(line, at + 1))?;
        member(found, span);
        at = after_blanks(line, after_value);
        match line.get(at) {
            Some(b',') => at = after_blanks(line, at + 1),
            Some(b'}') => return Ok(at + 1),
            _ => return unexpected(at, "',' or '}'"),
        }
    }
}

/// Walks over the elements of the array that starts at `start`, and returns where it ends.
pub(crate) fn elements(line: &[u8], start: usize, mut element: impl FnMut(Span)) -> Result<usize, Unexpected> {
    let mut at = after_blanks(line, start + 1);
    if line.get(at) == Some(&b']') {
        return Ok(at + 1);
    }
    loop {
        let (span, after_value) = value(line, at)?;
        element(span);
        at = after_blanks(line, after_value);
        match line.get(at) {
            Some(b',') => at = after_blanks(line, at + 1),
            Some(b']') => return Ok(at + 1),
            _ => return unexpected(at, "',' or ']'"),
        }
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
        // Of a map with a repeated key a later object is read before an earlier one, so that the key may lie behind this line.
        if line.get(end) == Some(&b'"') && line.get(before.clone()) == Some(&line[start..end]) {
            return Ok((*place, end + 1));
        }
    }
    let (span, after) = string(line, start)?;
    let text = &line[span.range()];
    if span.is_escaped() {
        let place = unescape(text).map_or(UNWANTED, |text| find(&text));
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
                [b'-' | b'0'..=b'9', ..] => unexpected(start, "a JSON number"),
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
pub(super) fn nested_end(line: &[u8], start: usize) -> Result<usize, Unexpected> {
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
