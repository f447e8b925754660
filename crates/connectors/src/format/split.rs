//! Rows of a chunk, split into fields that are not decoded yet.

use std::ops::Range;

/// Where a field lies in its chunk: start in bits 0..32, length in bits 32..61, flags above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(u64);

impl Span {
    const QUOTED: u64 = 1 << 61;
    const ESCAPED: u64 = 1 << 62;
    /// A field that is NULL by its encoding.
    pub(crate) const NULL: Span = Span(1 << 63);
    /// A field that is not there at all; NULL too.
    pub(crate) const ABSENT: Span = Span(1 << 63 | 1);
    /// A field that is not there where it should be: NULL, if the row is to be kept at all.
    pub(crate) const MISSING: Span = Span(1 << 63 | 2);
    /// A part of a nested value that is NULL itself.
    pub(crate) const OUTER: Span = Span(1 << 63 | 3);

    /// An unquoted field.
    #[inline]
    pub(crate) fn plain(start: usize, end: usize) -> Span {
        Span(start as u64 | ((end - start) as u64) << 32)
    }

    /// A quoted field; the quotes lie outside of the span.
    #[inline]
    pub(crate) fn quoted(start: usize, end: usize) -> Span {
        Span(Span::plain(start, end).0 | Span::QUOTED)
    }

    /// The same field, which holds escape sequences if `escaped`.
    #[inline]
    pub(crate) fn escaped(self, escaped: bool) -> Span {
        if escaped { Span(self.0 | Span::ESCAPED) } else { self }
    }

    #[inline]
    pub(crate) fn is_null(self) -> bool {
        self.0 >> 63 != 0
    }

    #[inline]
    pub(crate) fn is_quoted(self) -> bool {
        self.0 & Span::QUOTED != 0
    }

    #[inline]
    pub(crate) fn is_escaped(self) -> bool {
        self.0 & Span::ESCAPED != 0
    }

    #[inline]
    pub(crate) fn range(self) -> Range<usize> {
        let start = self.0 as u32 as usize;
        start..start + (self.0 >> 32 & ((1 << 29) - 1)) as usize
    }
}

/// Some rows of a chunk, split into fields.
pub(crate) struct Split {
    /// Wanted fields a row.
    pub(crate) width: usize,
    /// Row after row, `width` each.
    pub(crate) spans: Vec<Span>,
    /// Where each row lies in the chunk, without its line end.
    pub(crate) rows: Vec<Range<u32>>,
    /// Rows that cannot be split; they are not among `rows`.
    pub(crate) failures: Vec<Failure>,
    /// Whether the chunk is of JSON lines and has control characters besides line ends.
    pub(crate) has_controls: bool,
    /// The line of JSON that was split last: the next object may lie in it.
    pub(crate) line: Line,
    /// Whether a value of an array stands before what comes next.
    pub(crate) follows_value: bool,
}

/// Where a line of a chunk ends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Line {
    /// End of its text, without the line end and blanks before it.
    pub(crate) end: usize,
    /// Start of the next line.
    pub(crate) next: usize,
}

/// A row that cannot be decoded, and why.
pub(crate) struct Failure {
    /// Where the row lies in the chunk.
    pub(crate) row: Range<u32>,
    /// Name of the column it fails at.
    pub(crate) column: String,
    /// The text that is wrong.
    pub(crate) value: Range<usize>,
    /// What is wrong with it.
    pub(crate) problem: String,
}

impl Split {
    /// Nothing yet, of so many fields a row.
    pub(crate) fn new(width: usize) -> Split {
        Split {
            width,
            spans: Vec::new(),
            rows: Vec::new(),
            failures: Vec::new(),
            has_controls: false,
            line: Line::default(),
            follows_value: false,
        }
    }

    /// Forgets the rows. The line stays: it may have more of them.
    pub(crate) fn clear(&mut self) {
        self.spans.clear();
        self.rows.clear();
        self.failures.clear();
    }
}
