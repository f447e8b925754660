//! Files of lines: bytes are taken off a file up to the end of a row; whoever is free decodes them.

use std::io::{self, Read as _};
use std::sync::Arc;
use std::task::Waker;

use arrow::datatypes::DataType;
use pelton_runtime::source::{Position, Read, SourceError};

use super::files::{self, InputFile, problem};
use super::live;
use crate::format::compression;
use crate::format::csv::Dialect;
use crate::format::csv::split::CsvSplitter;
use crate::format::infer::{Inferred, infer};
use crate::format::json::layout::Layout;
use crate::format::opened::{Change, OpenedFile};
use crate::format::rows::{RowDecoder, Splitter, TextChunk};
use crate::format::{RowShape, TextFormat, TextKind};
use crate::storage::Location;
use crate::{ConnectorError, TableRequest};

/// Bytes in a chunk, about: large against the cost of handing it over, small against the caches.
const CHUNK_BYTES: usize = 512 << 10;

/// Bytes in the longest row. Beyond it a quote is missing rather than a row that long.
const ROW_BYTES_MAX: usize = 64 << 20;

/// Bytes read to find a file's header in.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// Bytes read to infer columns from.
const INFER_BYTES_MAX: usize = 4 << 20;

/// Bytes at the start of a file that are looked at to tell whether it is text.
const TEXT_BYTES_CHECKED: usize = 8 << 10;

/// What is wrong with a file that ends within its array.
const OPEN_ARRAY: &str = "the array that the file consists of is not closed; the file may be cut off";

/// What some programs begin UTF-8 text with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How inputs of lines are read into the rows of a table.
pub(crate) struct TextReading {
    format: TextFormat,
    shape: RowShape,
    chunk_bytes: usize,
    waker: Option<Waker>,
}

/// The names in the header of a file; `None` where the file has no whole row.
pub(super) fn header(location: &Location, dialect: &Dialect) -> io::Result<Option<Vec<String>>> {
    let mut bytes = Vec::new();
    if fill(&mut *compression::open(location)?, &mut bytes, HEADER_BYTES_MAX)? == Filled::End {
        bytes.push(b'\n');
    }
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    Ok(CsvSplitter::first_row(dialect, text).map(|(names, _)| names))
}

/// An input of lines, and how far it has been read.
pub(crate) enum TextStream {
    /// It is to be read from there, where that is not its start.
    Unopened(InputFile, Option<Position>),
    /// Its first row is not there yet.
    Opening(InputFile, Beginning, Option<Position>),
    Open(OpenFile),
    /// What its file was called.
    Ended(String),
}

/// The first bytes of a file.
pub(crate) struct Beginning {
    reader: Box<dyn io::Read + Send>,
    /// What the reader reads, where others may change it meanwhile.
    file: Option<OpenedFile>,
    bytes: Vec<u8>,
}

/// What there is of a file.
pub(super) enum Next<T> {
    There(T),
    /// Nothing yet.
    Later,
    End,
}

/// What filling came to.
#[derive(PartialEq, Eq)]
enum Filled {
    Enough,
    /// Nothing more yet.
    Pending,
    /// The input has ended.
    End,
}

/// A file that is being read.
pub(crate) struct OpenFile {
    place: String,
    reader: Box<dyn io::Read + Send>,
    /// What the reader reads, where others may change it meanwhile.
    file: Option<OpenedFile>,
    pub(super) decoder: Arc<RowDecoder>,
    /// Bytes read beyond the last whole row.
    rest: Vec<u8>,
    /// Number of the line that `rest` begins with, from 1.
    line: u64,
    /// Bytes of the file before `rest`.
    byte: u64,
    at_end: bool,
    /// Whether its bytes can be read again.
    is_regular: bool,
    /// Whether rows were read from it.
    has_rows: bool,
    /// Why there is no more to read, where rows before that had to be delivered first.
    failure: Option<String>,
}

impl TextReading {
    /// # Errors
    /// Where the format has no values of a column's type.
    pub(crate) fn new(request: &TableRequest, format: TextFormat) -> Result<TextReading, ConnectorError> {
        let shape = files::row_shape(request)?;
        for (index, field) in request.schema.fields().iter().enumerate() {
            let is_data = request.is_in_rows(index);
            if is_data && !format.holds(field.data_type()) {
                let problem = format!("{}; declare it STRING", format.unheld(field.data_type()));
                return Err(ConnectorError::column(field.name(), problem));
            }
        }
        check_raw(request, &format)?;
        Ok(TextReading { format, shape, chunk_bytes: CHUNK_BYTES, waker: request.host.waker.clone() })
    }

    /// Takes the next rows of an input.
    pub(crate) fn read(&self, stream: &mut TextStream) -> Result<Read, SourceError> {
        if let TextStream::Unopened(file, from) = stream {
            let beginning = Beginning::open(file, self.waker.clone())?;
            *stream = TextStream::Opening(file.clone(), beginning, *from);
        }
        if let TextStream::Opening(file, beginning, from) = stream {
            *stream = match OpenFile::start(beginning, file, &self.format, &self.shape, self.chunk_bytes)? {
                Next::There(mut open) => {
                    from.map_or(Ok(()), |from| open.skip_to(from))?;
                    TextStream::Open(open)
                }
                Next::Later => return Ok(self.wait()),
                Next::End => TextStream::Ended(file.place.clone()),
            };
        }
        let TextStream::Open(file) = stream else { return Ok(Read::End) };
        match file.next_rows(self.chunk_bytes)? {
            Next::There(chunk) => {
                let decoder = file.decoder.clone();
                Ok(Read::Chunk(Box::new(move || decoder.decode(chunk))))
            }
            Next::Later => Ok(self.wait()),
            Next::End => {
                *stream = TextStream::Ended(std::mem::take(&mut file.place));
                Ok(Read::End)
            }
        }
    }

    /// Nothing is there now.
    pub(crate) fn wait(&self) -> Read {
        Read::Wait(live::wait(self.waker.as_ref()))
    }
}

impl TextStream {
    /// What comes from a reader, which has [`io::ErrorKind::WouldBlock`] for nothing now. `place` names it in messages.
    pub(crate) fn of_reader(place: String, reader: Box<dyn io::Read + Send>) -> TextStream {
        TextStream::Opening(InputFile::without_path(place), Beginning::of(reader), None)
    }

    /// A file that is read from its start.
    pub(super) fn of_file(file: InputFile) -> TextStream {
        TextStream::Unopened(file, None)
    }

    /// What its file is called.
    pub(super) fn place(&self) -> &str {
        match self {
            TextStream::Unopened(file, _) | TextStream::Opening(file, ..) => &file.place,
            TextStream::Open(file) => &file.place,
            TextStream::Ended(place) => place,
        }
    }

    /// How far a file has been read, unless its bytes can be read once only.
    pub(super) fn position(&self) -> Option<Position> {
        match self {
            TextStream::Unopened(file, from) | TextStream::Opening(file, _, from) if !file.is_live => {
                Some(from.unwrap_or_default())
            }
            TextStream::Open(file) if file.is_regular => Some(Position { row: file.line, byte: file.byte, end: None }),
            _ => None,
        }
    }

    /// Goes on at a position, before anything is read.
    pub(super) fn seek(&mut self, position: Position) {
        if let TextStream::Unopened(_, from) = self {
            *from = Some(position);
        }
    }
}

/// The format of lines has one column, a STRING.
pub(crate) fn check_raw(request: &TableRequest, format: &TextFormat) -> Result<(), ConnectorError> {
    if !matches!(format.kind, TextKind::Raw(_)) {
        return Ok(());
    }
    let fields = request.schema.fields().iter().enumerate();
    let mut stored = fields.filter(|(index, _)| request.is_in_rows(*index)).map(|(_, field)| field);
    let first = stored.next();
    if let Some(other) = first.filter(|field| *field.data_type() != DataType::Utf8View).or(stored.next()) {
        let problem = "does not fit the format 'raw', whose only column is a STRING: the line";
        return Err(ConnectorError::column(other.name(), problem));
    }
    Ok(())
}

/// The columns of a file, from its first rows. `is_told` says which options the table has.
pub(super) fn declared_schema(
    file: &InputFile,
    format: &TextFormat,
    is_told: &dyn Fn(&str) -> bool,
) -> Result<Option<Inferred>, ConnectorError> {
    let place = |error: io::Error| ConnectorError::place(&file.place, problem(&error));
    if file.is_live {
        return Err(ConnectorError::place(&file.place, "is read once: name its columns and their types"));
    }
    let mut bytes = Vec::new();
    let mut reader = compression::open(&file.location).map_err(place)?;
    let filled = fill(&mut *reader, &mut bytes, INFER_BYTES_MAX).map_err(place)?;
    // An object that is cut off is none; a row may look like a shorter one.
    if filled != Filled::End && !matches!(format.kind, TextKind::Json { .. }) {
        bytes.truncate(memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1));
    }
    if bytes.iter().take(TEXT_BYTES_CHECKED).any(|&byte| byte == 0) {
        let problem = "is not text: it has zero bytes; name its columns and its format if it is";
        return Err(ConnectorError::place(&file.place, problem));
    }
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    let inferred = infer(format, is_told, text).map_err(|problem| ConnectorError::place(&file.place, problem))?;
    Ok(inferred.filter(|inferred| !inferred.schema.fields().is_empty()))
}

impl Beginning {
    fn open(file: &InputFile, waker: Option<Waker>) -> Result<Beginning, SourceError> {
        let input = |error: io::Error| SourceError::Input { place: file.place.clone(), problem: problem(&error) };
        if file.is_live {
            let reader = live::open(file.location.path(), waker).map_err(input)?;
            return Ok(Beginning::of(Box::new(reader)));
        }
        let opened = OpenedFile::open(&file.location).map_err(input)?;
        let reader = compression::reader(file.location.path(), opened.clone()).map_err(input)?;
        Ok(Beginning { file: Some(opened), ..Beginning::of(reader) })
    }

    /// Nothing is known of the bytes yet that `reader` has.
    pub(super) fn of(reader: Box<dyn io::Read + Send>) -> Beginning {
        Beginning { reader, file: None, bytes: Vec::new() }
    }
}

impl OpenFile {
    /// Reads the header, if the format has one, from a reader that is at the file's start.
    pub(super) fn start(
        beginning: &mut Beginning,
        file: &InputFile,
        format: &TextFormat,
        shape: &RowShape,
        chunk_bytes: usize,
    ) -> Result<Next<OpenFile>, SourceError> {
        let input = |problem: String| SourceError::Input { place: file.place.clone(), problem };
        let is_looked_at = match &format.kind {
            TextKind::Csv(dialect) => dialect.has_first_row(),
            TextKind::Json { .. } => true,
            TextKind::Raw(_) => false,
        };
        let first_bytes = chunk_bytes.max(if is_looked_at { HEADER_BYTES_MAX } else { BYTE_ORDER_MARK.len() });
        let Beginning { reader, file: opened, bytes } = beginning;
        bytes.reserve(first_bytes.min(file.size as usize + 1));
        let filled = fill_unchanged(&mut **reader, opened.as_ref(), bytes, first_bytes).map_err(input)?;
        if filled == Filled::Pending && !is_beginning_known(format, bytes) {
            return Ok(Next::Later);
        }
        let mut rest = std::mem::take(bytes);
        let bytes_read = rest.len();
        if rest.starts_with(BYTE_ORDER_MARK) {
            rest.drain(..BYTE_ORDER_MARK.len());
        }
        let mut line = 1;
        let mut header = None;
        if let TextKind::Csv(dialect) = &format.kind
            && dialect.has_first_row()
        {
            let Some((names, next)) = CsvSplitter::first_row(dialect, &rest) else { return Ok(Next::End) };
            line += newlines(&rest[..next]);
            rest.drain(..next);
            header = dialect.header.then_some(names);
        }
        let mut layout = Layout::default();
        if let TextKind::Json { .. } = &format.kind {
            let start;
            (layout, start) = Layout::of(&rest);
            line += newlines(&rest[..start]);
            rest.drain(..start);
        }
        let decoder = format.decoder(shape, file.place.clone(), header, layout, file.constants(shape).map_err(input)?);
        let decoder = decoder.map_err(|error| input(error.to_string()))?;
        let place = file.place.clone();
        let mut reader = std::mem::replace(reader, Box::new(io::empty()));
        let byte = (bytes_read - rest.len()) as u64;
        if rest.len() > chunk_bytes {
            let later = io::Cursor::new(rest.split_off(chunk_bytes));
            reader = Box::new(later.chain(reader));
        }
        Ok(Next::There(OpenFile {
            place,
            reader,
            file: opened.take(),
            decoder: Arc::new(decoder),
            rest,
            line,
            byte,
            at_end: false,
            is_regular: !file.is_live,
            has_rows: false,
            failure: None,
        }))
    }

    /// Leaves out the rows before a position that an earlier reader of the same file had come to; 0 is the start of its rows.
    fn skip_to(&mut self, from: Position) -> Result<(), SourceError> {
        let Some(mut left) = from.byte.checked_sub(self.byte).filter(|left| *left > 0) else { return Ok(()) };
        let held = left.min(self.rest.len() as u64);
        self.rest.drain(..held as usize);
        left -= held;
        let skipped = io::copy(&mut (&mut *self.reader).take(left), &mut io::sink());
        let skipped = skipped.map_err(|error| self.input(problem(&error)))?;
        if skipped < left {
            let problem = format!(
                "has {} bytes, and was read up to byte {} before: it was changed",
                from.byte - left + skipped,
                from.byte
            );
            return Err(self.input(problem));
        }
        (self.byte, self.line, self.has_rows) = (from.byte, from.row, true);
        Ok(())
    }

    /// Whole rows, about a chunk of them or as many as there are.
    pub(super) fn next_rows(&mut self, chunk_bytes: usize) -> Result<Next<TextChunk>, SourceError> {
        if let Some(error) = self.failure.take() {
            return Err(self.lost_rows(&error));
        }
        let mut bytes = std::mem::take(&mut self.rest);
        let mut wanted = chunk_bytes;
        let end = loop {
            let mut filled = Filled::End;
            if !self.at_end {
                filled = match fill_unchanged(&mut *self.reader, self.file.as_ref(), &mut bytes, wanted) {
                    Ok(filled) => filled,
                    // Whole rows that were read before are there.
                    Err(problem) => match self.last_row_end(&bytes) {
                        Some(end) if end > 0 => {
                            self.failure = Some(problem);
                            break end;
                        }
                        _ => return Err(self.lost_rows(&problem)),
                    },
                };
            }
            if filled == Filled::End {
                if self.ends_within_array(&bytes) {
                    match self.last_row_end(&bytes) {
                        Some(end) if end > 0 => {
                            self.failure = Some(OPEN_ARRAY.to_string());
                            break end;
                        }
                        _ => return Err(self.lost_rows(OPEN_ARRAY)),
                    }
                }
                if bytes.last().is_some_and(|&byte| byte != b'\n') {
                    self.check_last_row(&bytes)?;
                    bytes.push(b'\n');
                }
                break bytes.len();
            }
            if let Some(end) = self.last_row_end(&bytes) {
                break end;
            }
            if bytes.len() >= ROW_BYTES_MAX {
                let problem =
                    format!("the row at line {} is longer than {ROW_BYTES_MAX} bytes; is a quote missing?", self.line);
                return Err(self.input(problem));
            }
            if filled == Filled::Pending {
                self.rest = bytes;
                return Ok(Next::Later);
            }
            wanted = bytes.len() * 2;
        };
        if bytes.is_empty() {
            return Ok(Next::End);
        }
        if end < bytes.len() {
            self.rest = Vec::with_capacity(chunk_bytes.max(bytes.len() - end));
            self.rest.extend_from_slice(&bytes[end..]);
            bytes.truncate(end);
        }
        let first_line = self.line;
        let lines = newlines(&bytes);
        self.line += lines;
        self.byte += bytes.len() as u64;
        // Rows are numbered by their lines, where each has one.
        let lines = if self.layout() == Layout::Lines { lines } else { u64::MAX };
        let follows_rows = std::mem::replace(&mut self.has_rows, true);
        Ok(Next::There(TextChunk { bytes, first_line, lines, follows_rows }))
    }

    fn last_row_end(&self, bytes: &[u8]) -> Option<usize> {
        match &self.decoder.splitter {
            Splitter::Csv(csv) => csv.last_row_end(bytes),
            Splitter::Json(json) => json.last_row_end(bytes),
        }
    }

    /// Notes that there is nothing to read behind `bytes`, and tells whether the array that the file consists of is not closed there.
    fn ends_within_array(&mut self, bytes: &[u8]) -> bool {
        let is_found_now = !std::mem::replace(&mut self.at_end, true);
        is_found_now && self.layout() == Layout::Array && !bytes.trim_ascii_end().ends_with(b"]")
    }

    fn layout(&self) -> Layout {
        match &self.decoder.splitter {
            Splitter::Csv(_) => Layout::Lines,
            Splitter::Json(json) => json.layout(),
        }
    }

    /// Whether the last row, which ends without a line end, is all there: who appends to the file may have written half of it.
    fn check_last_row(&self, bytes: &[u8]) -> Result<(), SourceError> {
        match self.file.as_ref().map(OpenedFile::change) {
            Some(Ok(Change::Grown)) => {
                let line = self.line + newlines(bytes);
                let problem = "has no line end, and the file was appended to while it was read: it may be half a row; \
                               read the file when it is complete";
                Err(self.input(format!("the row at line {line} {problem}")))
            }
            _ => Ok(()),
        }
    }

    fn lost_rows(&self, problem: &str) -> SourceError {
        self.input(format!("the rows from {} on are not there: {problem}", self.line))
    }

    fn input(&self, problem: String) -> SourceError {
        SourceError::Input { place: self.place.clone(), problem }
    }
}

/// Whether the first bytes of an input, of which more will come, tell how its rows are read: a header is whole when something stands behind it.
fn is_beginning_known(format: &TextFormat, bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    match &format.kind {
        TextKind::Csv(dialect) if dialect.has_first_row() => {
            CsvSplitter::first_row(dialect, text).is_some_and(|(_, next)| next < text.len())
        }
        TextKind::Json { .. } => text.contains(&b'\n') && Layout::known(text).is_some(),
        TextKind::Csv(_) | TextKind::Raw(_) => text.contains(&b'\n'),
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Reads as [`fill`] does, or says what is wrong. Bytes that are not those of the file as it was opened are left out.
fn fill_unchanged(
    reader: &mut (dyn io::Read + Send),
    file: Option<&OpenedFile>,
    bytes: &mut Vec<u8>,
    wanted: usize,
) -> Result<Filled, String> {
    let before = bytes.len();
    let filled = fill(reader, bytes, wanted);
    // What cannot be read of a changed file fails for that.
    if let Some(problem) = file.and_then(|file| file.problem(true)) {
        bytes.truncate(before);
        return Err(problem);
    }
    filled.map_err(|error| problem(&error))
}

/// Reads until `bytes` has `wanted` of them, or there are no more now.
fn fill(reader: &mut (dyn io::Read + Send), bytes: &mut Vec<u8>, wanted: usize) -> io::Result<Filled> {
    let missing = wanted.saturating_sub(bytes.len());
    match reader.take(missing as u64).read_to_end(bytes) {
        Ok(read) if read < missing => Ok(Filled::End),
        Ok(_) => Ok(Filled::Enough),
        // What was read before that is kept.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Filled::Pending),
        Err(error) => Err(error),
    }
}
