//! CSV rows into fields, and chunks into whole rows.

use super::Dialect;
use crate::format::split::{Failure, Span, Split};

/// A field that no column wants.
const UNWANTED: usize = usize::MAX;

/// Splits the rows of one file.
pub(crate) struct CsvSplitter {
    dialect: Dialect,
    /// For each field of a row its place among the wanted ones, or [`UNWANTED`].
    places: Vec<usize>,
    /// For each field the name of its column, for messages.
    names: Vec<String>,
    /// Whether rows with too few fields are rows, the others of which are missing.
    keeps_short_rows: bool,
    delimiter_word: u64,
    second_delimiter_word: u64,
}

/// One field: what it is, where the next begins, and whether it was the row's last.
struct Field {
    span: Span,
    next: usize,
    end: FieldEnd,
    problem: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldEnd {
    Delimiter,
    /// A line end that begins here: the place of `\r` or `\n`.
    Line,
    /// The text ends without a line end.
    Text,
}

/// One row.
struct Row {
    /// Fields, wanted or not.
    fields: usize,
    /// Where the next row begins.
    next: usize,
    /// Whether a line end came; otherwise the text ended first.
    ended: bool,
    /// What is wrong with which field.
    problem: Option<(usize, &'static str, Span)>,
}

const NEWLINES: u64 = u64::from_le_bytes([b'\n'; 8]);

/// For each byte of `word` that is zero its highest bit; bytes above the first zero may be wrong.
#[inline(always)]
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080
}

#[inline(always)]
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

impl CsvSplitter {
    /// A splitter for rows whose fields are named `names`, of which those at the indices `wanted` are kept, in that order.
    pub(crate) fn new(dialect: Dialect, names: Vec<String>, wanted: &[usize]) -> CsvSplitter {
        let mut places = vec![UNWANTED; names.len()];
        for (place, &field) in wanted.iter().enumerate() {
            places[field] = place;
        }
        let first = dialect.delimiter[0];
        let second = match first {
            b' ' if dialect.delimits_by_blanks() => b'\t',
            b'\t' if dialect.delimits_by_blanks() => b' ',
            other => other,
        };
        CsvSplitter {
            dialect,
            places,
            names,
            keeps_short_rows: false,
            delimiter_word: u64::from_le_bytes([first; 8]),
            second_delimiter_word: u64::from_le_bytes([second; 8]),
        }
    }

    /// The same, for which rows with too few fields are rows, if `keeps`.
    pub(crate) fn keep_short_rows(self, keeps: bool) -> CsvSplitter {
        CsvSplitter { keeps_short_rows: keeps, ..self }
    }

    /// See [`crate::format::rows::Splitter::split`].
    pub(crate) fn split(&self, bytes: &[u8], mut at: usize, rows_max: usize, split: &mut Split) -> usize {
        let mut handled = 0;
        while at < bytes.len() && handled < rows_max {
            if let Some(next) = self.skipped_line(bytes, at) {
                at = next;
                continue;
            }
            handled += 1;
            let first_span = split.spans.len();
            split.spans.resize(first_span + split.width, Span::NULL);
            let row = self.row(bytes, at, &mut split.spans[first_span..]);
            let range = at as u32..line_end(bytes, at, row.next) as u32;
            if row.fields == self.places.len() && row.problem.is_none() {
                split.rows.push(range);
            } else if self.keeps_short_rows && row.fields < self.places.len() && row.problem.is_none() {
                let missing = self.places[row.fields..].iter().filter(|&&place| place != UNWANTED);
                missing.for_each(|&place| split.spans[first_span + place] = Span::MISSING);
                split.rows.push(range);
            } else {
                split.spans.truncate(first_span);
                split.failures.push(self.failure(range, &row));
            }
            at = row.next;
        }
        at
    }

    fn failure(&self, range: std::ops::Range<u32>, row: &Row) -> Failure {
        let (expected, found) = (self.places.len(), row.fields);
        let name = |field: usize| self.names.get(field).or(self.names.last()).cloned().unwrap_or_default();
        let count = |fields: usize| if fields == 1 { "1 field".to_string() } else { format!("{fields} fields") };
        match row.problem {
            Some((field, problem, span)) => {
                Failure { column: name(field), value: span.range(), problem: problem.into(), row: range }
            }
            None => Failure {
                column: name(found),
                value: range.start as usize..range.end as usize,
                problem: format!("has {} where {expected} are expected", count(found)),
                row: range,
            },
        }
    }

    /// Where the next line begins, if the one at `at` is no row: a comment, or blank where a row has several fields.
    fn skipped_line(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let comment = self.dialect.comment == Some(bytes[at]);
        let blank = || {
            let mut at = at;
            while self.dialect.delimits_by_blanks() && bytes.get(at).is_some_and(|&byte| is_blank(byte)) {
                at += 1;
            }
            matches!(bytes[at..], [b'\n', ..] | [b'\r', b'\n', ..]) && self.places.len() > 1
        };
        if !comment && !blank() {
            return None;
        }
        Some(memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length + 1))
    }

    /// Splits the row at `start`, and writes its wanted fields' places to `spans`.
    #[inline]
    fn row(&self, bytes: &[u8], start: usize, spans: &mut [Span]) -> Row {
        match (self.dialect.delimits_by_blanks(), self.dialect.delimiter.len() == 1 && self.is_plain()) {
            (true, _) => self.row_of::<true, false>(bytes, start, spans),
            (false, true) => self.row_of::<false, true>(bytes, start, spans),
            (false, false) => self.row_of::<false, false>(bytes, start, spans),
        }
    }

    /// Whether nothing but a one-byte delimiter, a line end and an opening quote has a meaning.
    fn is_plain(&self) -> bool {
        let Dialect { delimiter_run, escape, trim, .. } = &self.dialect;
        !delimiter_run && escape.is_none() && !trim
    }

    #[inline(always)]
    fn row_of<const BLANKS: bool, const PLAIN: bool>(&self, bytes: &[u8], start: usize, spans: &mut [Span]) -> Row {
        let mut row = Row { fields: 0, next: start, ended: false, problem: None };
        if !PLAIN && self.dialect.delimiter_run {
            row.next = self.after_delimiters::<BLANKS>(bytes, row.next);
        }
        loop {
            let opens_quoted = bytes.get(row.next).is_some_and(|&byte| Some(byte) == self.dialect.quote);
            let field = if PLAIN && !opens_quoted {
                self.plain_field(bytes, row.next)
            } else {
                self.any_field::<BLANKS>(bytes, row.next)
            };
            if let Some(&place) = self.places.get(row.fields)
                && place != UNWANTED
            {
                spans[place] = field.span;
            }
            if let (Some(problem), None) = (field.problem, row.problem) {
                row.problem = Some((row.fields, problem, field.span));
            }
            row.fields += 1;
            row.next = field.next;
            let mut end = field.end;
            if !PLAIN && self.dialect.delimiter_run && end == FieldEnd::Delimiter {
                row.next = self.after_delimiters::<BLANKS>(bytes, row.next);
                if let Some((next, last)) = line_end_at(bytes, row.next) {
                    (row.next, end) = (next, last);
                }
            }
            if end != FieldEnd::Delimiter {
                row.ended = end == FieldEnd::Line;
                return row;
            }
        }
    }

    /// The unquoted field at `start` of a row in which only a one-byte delimiter and line ends have a meaning.
    #[inline(always)]
    fn plain_field(&self, bytes: &[u8], start: usize) -> Field {
        let at = self.find_end::<false>(bytes, start);
        match bytes.get(at) {
            None => Field { span: Span::plain(start, at), next: at, end: FieldEnd::Text, problem: None },
            Some(b'\n') => {
                let end = if at > start && bytes[at - 1] == b'\r' { at - 1 } else { at };
                Field { span: Span::plain(start, end), next: at + 1, end: FieldEnd::Line, problem: None }
            }
            Some(_) => Field { span: Span::plain(start, at), next: at + 1, end: FieldEnd::Delimiter, problem: None },
        }
    }

    /// The place of the first delimiter (its first byte) or newline from `at` on.
    #[inline(always)]
    fn find_end<const BLANKS: bool>(&self, bytes: &[u8], mut at: usize) -> usize {
        while let Some(word) = bytes.get(at..at + 8) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            let mut hits = zero_bytes(word ^ self.delimiter_word) | zero_bytes(word ^ NEWLINES);
            if BLANKS {
                hits |= zero_bytes(word ^ self.second_delimiter_word);
            }
            if hits != 0 {
                return at + (hits.trailing_zeros() / 8) as usize;
            }
            at += 8;
        }
        let delimiters = [self.delimiter_word as u8, self.second_delimiter_word as u8];
        while at < bytes.len() && bytes[at] != b'\n' && !delimiters.contains(&bytes[at]) {
            at += 1;
        }
        at
    }

    /// The field at `start` in any dialect.
    fn any_field<const BLANKS: bool>(&self, bytes: &[u8], start: usize) -> Field {
        let mut at = start;
        if self.dialect.trim && !BLANKS {
            at = self.after_blanks(bytes, at);
        }
        if bytes.get(at).is_some_and(|&byte| Some(byte) == self.dialect.quote) {
            return self.quoted_field::<BLANKS>(bytes, at);
        }
        let (end, escaped) = self.unquoted_end::<BLANKS>(bytes, at);
        let mut span_end = end;
        if self.dialect.trim {
            while span_end > at && is_blank(bytes[span_end - 1]) {
                span_end -= 1;
            }
        }
        let (next, kind) = self.after_field::<BLANKS>(bytes, end);
        Field { span: Span::plain(at, span_end).escaped(escaped), next, end: kind, problem: None }
    }

    /// Where the unquoted field that goes on at `at` ends, and whether it holds escapes.
    fn unquoted_end<const BLANKS: bool>(&self, bytes: &[u8], mut at: usize) -> (usize, bool) {
        let start = at;
        let mut escaped = false;
        loop {
            let mut end = self.find_end::<BLANKS>(bytes, at);
            if let Some(escape) = self.dialect.escape
                && let Some(length) = memchr::memchr(escape, &bytes[at..end])
            {
                escaped = true;
                at = (at + length + 2).min(bytes.len());
                continue;
            }
            if end < bytes.len() && bytes[end] != b'\n' && !self.is_delimiter::<BLANKS>(bytes, end) {
                at = end + 1;
                continue;
            }
            if bytes.get(end) == Some(&b'\n') && end > start && end > at && bytes[end - 1] == b'\r' {
                end -= 1;
            }
            return (end, escaped);
        }
    }

    /// The field whose opening quote is at `open`.
    fn quoted_field<const BLANKS: bool>(&self, bytes: &[u8], open: usize) -> Field {
        let quote = bytes[open];
        let start = open + 1;
        let mut at = start;
        let mut escaped = false;
        let close = loop {
            let found = match self.dialect.escape {
                Some(escape) => memchr::memchr2(quote, escape, &bytes[at..]),
                None => memchr::memchr(quote, &bytes[at..]),
            };
            let Some(length) = found else {
                let span = Span::quoted(start, bytes.len());
                let problem = Some("begins with a quote that is not closed");
                return Field { span, next: bytes.len(), end: FieldEnd::Text, problem };
            };
            at += length;
            if bytes[at] != quote || bytes.get(at + 1) == Some(&quote) {
                escaped = true;
                at = (at + 2).min(bytes.len());
                continue;
            }
            break at;
        };
        let mut after = close + 1;
        if self.dialect.trim && !BLANKS {
            after = self.after_blanks(bytes, after);
        }
        let span = Span::quoted(start, close).escaped(escaped);
        let ends =
            after == bytes.len() || self.is_delimiter::<BLANKS>(bytes, after) || line_end_at(bytes, after).is_some();
        if ends {
            let (next, end) = self.after_field::<BLANKS>(bytes, after);
            return Field { span, next, end, problem: None };
        }
        let (end, _) = self.unquoted_end::<BLANKS>(bytes, after);
        let (next, kind) = self.after_field::<BLANKS>(bytes, end);
        let problem = match self.after_blanks(bytes, after) == end {
            true => Some("has blanks after its closing quote; add 'csv.trim' = 'true'"),
            false => Some("has text after its closing quote; a quote inside of quotes is written twice"),
        };
        Field { span: Span::plain(open, end), next, end: kind, problem }
    }

    #[inline]
    fn is_delimiter<const BLANKS: bool>(&self, bytes: &[u8], at: usize) -> bool {
        let delimiter = self.dialect.delimiter.as_slice();
        bytes[at..].starts_with(delimiter) || BLANKS && bytes.get(at).is_some_and(|&byte| is_blank(byte))
    }

    /// What follows the field that ends at `end`.
    fn after_field<const BLANKS: bool>(&self, bytes: &[u8], end: usize) -> (usize, FieldEnd) {
        if end < bytes.len() && self.is_delimiter::<BLANKS>(bytes, end) {
            return (end + self.dialect.delimiter.len(), FieldEnd::Delimiter);
        }
        line_end_at(bytes, end).unwrap_or((bytes.len(), FieldEnd::Text))
    }

    fn after_delimiters<const BLANKS: bool>(&self, bytes: &[u8], mut at: usize) -> usize {
        while at < bytes.len() && self.is_delimiter::<BLANKS>(bytes, at) {
            at += self.dialect.delimiter.len();
        }
        at
    }

    /// The first byte from `at` on that is no blank, or is a delimiter.
    fn after_blanks(&self, bytes: &[u8], mut at: usize) -> usize {
        while at < bytes.len() && is_blank(bytes[at]) && !self.is_delimiter::<false>(bytes, at) {
            at += 1;
        }
        at
    }

    /// The fields of the first row of `bytes` that is no comment, as text, and where the next row begins.
    /// `None` where there is no row.
    pub(crate) fn first_row(dialect: &Dialect, bytes: &[u8]) -> Option<(Vec<String>, usize)> {
        // A row of unknown length: places are added until it fits.
        let mut at = 0;
        let one = CsvSplitter::new(dialect.clone(), vec![String::new(); 2], &[]);
        while at < bytes.len() {
            let Some(next) = one.skipped_line(bytes, at) else { break };
            at = next;
        }
        if at >= bytes.len() {
            return None;
        }
        let count = one.row(bytes, at, &mut []).fields;
        let all: Vec<usize> = (0..count).collect();
        let splitter = CsvSplitter::new(dialect.clone(), vec![String::new(); count], &all);
        let mut spans = vec![Span::NULL; count];
        let row = splitter.row(bytes, at, &mut spans);
        let field = |span: &Span| {
            let text = &bytes[span.range()];
            let text = match span.is_escaped() {
                true => super::unescape(text, dialect.quote.filter(|_| span.is_quoted()), dialect.escape),
                false => text.to_vec(),
            };
            String::from_utf8_lossy(&text).trim().to_string()
        };
        Some((spans.iter().map(field).collect(), row.next))
    }

    /// Where the last whole row of `bytes` ends, or `None` where there is none. `bytes` begins with a row.
    pub(crate) fn last_row_end(&self, bytes: &[u8]) -> Option<usize> {
        let newline = || memchr::memrchr(b'\n', bytes).map(|at| at + 1);
        match self.dialect.quote {
            _ if self.dialect.escape.is_some() => self.last_row_end_by_rows(bytes),
            Some(quote) if memchr::memchr(quote, bytes).is_some() => {
                let by_rows = !self.is_plain() || self.dialect.comment.is_some() || self.dialect.delimiter.len() > 1;
                if by_rows { self.last_row_end_by_rows(bytes) } else { self.last_row_end_by_quotes(bytes, quote) }
            }
            _ => newline(),
        }
    }

    fn last_row_end_by_rows(&self, bytes: &[u8]) -> Option<usize> {
        let mut end = None;
        let mut at = 0;
        let mut spans = vec![Span::NULL; self.places.len()];
        while at < bytes.len() {
            at = match self.skipped_line(bytes, at) {
                Some(next) if bytes[next - 1] == b'\n' => next,
                Some(_) => break,
                None => {
                    let row = self.row(bytes, at, &mut spans);
                    if !row.ended {
                        break;
                    }
                    row.next
                }
            };
            end = Some(at);
        }
        end
    }

    /// A quote opens a field where it is the field's first byte; all that matters besides are the quotes that close.
    fn last_row_end_by_quotes(&self, bytes: &[u8], quote: u8) -> Option<usize> {
        let delimiter = self.dialect.delimiter[0];
        let mut end = None;
        let mut at = 0;
        loop {
            let open = memchr::memchr(quote, &bytes[at..]).map(|length| at + length);
            let unquoted = &bytes[at..open.unwrap_or(bytes.len())];
            end = memchr::memrchr(b'\n', unquoted).map(|length| at + length + 1).or(end);
            let Some(open) = open else { return end };
            at = open + 1;
            if open > 0 && bytes[open - 1] != delimiter && bytes[open - 1] != b'\n' {
                continue;
            }
            loop {
                let Some(length) = memchr::memchr(quote, &bytes[at..]) else { return end };
                at += length + 1;
                if bytes.get(at) != Some(&quote) {
                    break;
                }
                at += 1;
            }
        }
    }
}

/// Where the line that goes from `start` to the next one at `next` ends.
fn line_end(bytes: &[u8], start: usize, next: usize) -> usize {
    match bytes[start..next] {
        [.., b'\r', b'\n'] => next - 2,
        [.., b'\n'] => next - 1,
        _ => next,
    }
}

/// If a line ends at `at`: where the next begins.
fn line_end_at(bytes: &[u8], at: usize) -> Option<(usize, FieldEnd)> {
    match bytes[at..] {
        [] => Some((at, FieldEnd::Text)),
        [b'\n', ..] => Some((at + 1, FieldEnd::Line)),
        [b'\r', b'\n', ..] => Some((at + 2, FieldEnd::Line)),
        _ => None,
    }
}
