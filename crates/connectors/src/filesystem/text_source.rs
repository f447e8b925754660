//! Files of lines: bytes are taken off a file up to the end of a row; whoever is free decodes them.

use std::io::{self, Read as _};
use std::sync::Arc;

use arrow::datatypes::Schema;
use pelton_data::column::sql_name;
use pelton_runtime::source::{Read, Source, SourceError};

use super::files::{self, InputFile, problem};
use crate::format::column::is_text_type;
use crate::format::compression;
use crate::format::csv::split::CsvSplitter;
use crate::format::infer::infer;
use crate::format::rows::{RowDecoder, Splitter, TextChunk};
use crate::format::{RowShape, TextFormat, TextKind};
use crate::{ConnectorError, TableRequest};

/// Bytes in a chunk, about: large against the cost of handing it over, small against the caches.
const CHUNK_BYTES: usize = 512 << 10;

/// Bytes in the longest row. Beyond it a quote is missing rather than a row that long.
const ROW_BYTES_MAX: usize = 64 << 20;

/// Bytes read to find a file's header in.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// Bytes read to infer columns from.
const INFER_BYTES_MAX: usize = 4 << 20;

/// What some programs begin UTF-8 text with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Lines of text in files.
pub(super) struct TextSource {
    format: TextFormat,
    shape: RowShape,
    files: Vec<Partition>,
    chunk_bytes: usize,
}

enum Partition {
    Unopened(InputFile),
    Open(OpenFile),
    Ended,
}

/// A file that is being read.
struct OpenFile {
    place: String,
    reader: Box<dyn io::Read + Send>,
    decoder: Arc<RowDecoder>,
    /// Bytes read beyond the last whole row.
    rest: Vec<u8>,
    /// Number of the line that `rest` begins with, from 1.
    line: u64,
    at_end: bool,
}

impl TextSource {
    pub(super) fn open(
        request: &TableRequest,
        files: Vec<InputFile>,
        format: TextFormat,
    ) -> Result<TextSource, ConnectorError> {
        let shape = files::row_shape(request)?;
        for (index, field) in request.schema.fields().iter().enumerate() {
            if !request.metadata.contains_key(&index) && !is_text_type(field.data_type()) {
                let name = sql_name(field.data_type());
                let problem = format!("has the type {name}, which text cannot hold; declare it STRING");
                return Err(ConnectorError::column(field.name(), problem));
            }
        }
        let files = files.into_iter().map(Partition::Unopened).collect();
        Ok(TextSource { format, shape, files, chunk_bytes: CHUNK_BYTES })
    }
}

/// The columns of a file, from its first rows.
pub(super) fn declared_schema(file: &InputFile, format: &TextFormat) -> Result<Option<Schema>, ConnectorError> {
    let place = |error: io::Error| ConnectorError::place(&file.place, problem(&error));
    let mut bytes = Vec::new();
    let mut reader = compression::open(&file.path).map_err(place)?;
    if !fill(&mut *reader, &mut bytes, INFER_BYTES_MAX).map_err(place)? {
        bytes.truncate(memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1));
    }
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    Ok(infer(format, text).filter(|schema| !schema.fields().is_empty()))
}

impl Source for TextSource {
    /// One a file. A directory without files still has one, which ends at once.
    fn partitions(&self) -> usize {
        self.files.len().max(1)
    }

    fn read(&mut self, partition: usize) -> Result<Read, SourceError> {
        let Some(state) = self.files.get_mut(partition) else { return Ok(Read::End) };
        if let Partition::Unopened(file) = state {
            *state = match OpenFile::open(file, &self.format, &self.shape, self.chunk_bytes)? {
                Some(open) => Partition::Open(open),
                None => Partition::Ended,
            };
        }
        let Partition::Open(file) = state else { return Ok(Read::End) };
        match file.next_rows(self.chunk_bytes)? {
            Some(chunk) => {
                let decoder = file.decoder.clone();
                Ok(Read::Chunk(Box::new(move || decoder.decode(chunk))))
            }
            None => {
                *state = Partition::Ended;
                Ok(Read::End)
            }
        }
    }
}

impl OpenFile {
    /// Opens a file and reads its header, if its format has one. `None` where there is nothing in it.
    fn open(
        file: &InputFile,
        format: &TextFormat,
        shape: &RowShape,
        chunk_bytes: usize,
    ) -> Result<Option<OpenFile>, SourceError> {
        let input = |problem: String| SourceError::Input { place: file.place.clone(), problem };
        let reader = compression::open(&file.path).map_err(|error| input(problem(&error)))?;
        OpenFile::start(reader, file, format, shape, chunk_bytes)
    }

    fn start(
        mut reader: Box<dyn io::Read + Send>,
        file: &InputFile,
        format: &TextFormat,
        shape: &RowShape,
        chunk_bytes: usize,
    ) -> Result<Option<OpenFile>, SourceError> {
        let input = |problem: String| SourceError::Input { place: file.place.clone(), problem };
        let has_header = matches!(&format.kind, TextKind::Csv(dialect) if dialect.header);
        let first_bytes = chunk_bytes.max(if has_header { HEADER_BYTES_MAX } else { BYTE_ORDER_MARK.len() });
        let mut rest = Vec::with_capacity(first_bytes.min(file.size as usize + 1));
        fill(&mut *reader, &mut rest, first_bytes).map_err(|error| input(problem(&error)))?;
        if rest.starts_with(BYTE_ORDER_MARK) {
            rest.drain(..BYTE_ORDER_MARK.len());
        }
        let mut line = 1;
        let mut header = None;
        if let TextKind::Csv(dialect) = &format.kind
            && dialect.header
        {
            let Some((names, next)) = CsvSplitter::first_row(dialect, &rest) else { return Ok(None) };
            line += newlines(&rest[..next]);
            rest.drain(..next);
            header = Some(names);
        }
        let decoder = format.decoder(shape, file.place.clone(), header, file.constants(shape));
        let decoder = decoder.map_err(|error| input(error.to_string()))?;
        let place = file.place.clone();
        Ok(Some(OpenFile { place, reader, decoder: Arc::new(decoder), rest, line, at_end: false }))
    }

    /// Whole rows, about a chunk of them; `None` at the end.
    fn next_rows(&mut self, chunk_bytes: usize) -> Result<Option<TextChunk>, SourceError> {
        let mut bytes = std::mem::take(&mut self.rest);
        let mut wanted = chunk_bytes;
        let end = loop {
            if !self.at_end {
                let filled = fill(&mut *self.reader, &mut bytes, wanted);
                self.at_end = filled.map_err(|error| self.input(problem(&error)))?;
            }
            if self.at_end {
                if bytes.last().is_some_and(|&byte| byte != b'\n') {
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
            wanted = bytes.len() * 2;
        };
        if bytes.is_empty() {
            return Ok(None);
        }
        if end < bytes.len() {
            self.rest = Vec::with_capacity(chunk_bytes.max(bytes.len() - end));
            self.rest.extend_from_slice(&bytes[end..]);
            bytes.truncate(end);
        }
        let first_line = self.line;
        self.line += newlines(&bytes);
        Ok(Some(TextChunk { bytes, first_line }))
    }

    fn last_row_end(&self, bytes: &[u8]) -> Option<usize> {
        match &self.decoder.splitter {
            Splitter::Csv(csv) => csv.last_row_end(bytes),
            Splitter::Json(_) => memchr::memrchr(b'\n', bytes).map(|at| at + 1),
        }
    }

    fn input(&self, problem: String) -> SourceError {
        SourceError::Input { place: self.place.clone(), problem }
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Reads until `bytes` has `wanted` of them; whether the input has ended.
fn fill(reader: &mut (dyn io::Read + Send), bytes: &mut Vec<u8>, wanted: usize) -> io::Result<bool> {
    let missing = wanted.saturating_sub(bytes.len());
    let read = reader.take(missing as u64).read_to_end(bytes)?;
    Ok(read < missing)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::AsArray;
    use arrow::datatypes::{DataType, Field};
    use pelton_runtime::source::Rows;
    use proptest::prelude::*;

    use super::*;
    use crate::format::{Format, FormatName};
    use crate::options::Options;

    /// The rows of a table of two strings, and how many lines were rejected.
    type Outcome = (Vec<Vec<String>>, u64);

    /// What is read from `bytes` in chunks of `chunk_bytes`.
    fn read(bytes: &[u8], format: FormatName, pairs: &[(&str, &str)], chunk_bytes: usize) -> Outcome {
        let mut options: BTreeMap<String, String> =
            pairs.iter().map(|&(name, value)| (name.to_string(), value.to_string())).collect();
        options.insert("on-error".into(), "skip".into());
        let fields = ["a", "b"].map(|name| Field::new(name, DataType::Utf8View, true));
        let request = TableRequest {
            name: "t".into(),
            schema: Arc::new(Schema::new(fields.to_vec())),
            columns: vec![0, 1],
            metadata: BTreeMap::new(),
            options: options.clone(),
            event_time: None,
            block_rows: 1024,
            seed: 0,
        };
        let Format::Text(format) = Format::new(&Options::new(&options), Some(format)).unwrap() else { panic!("text") };
        let shape = files::row_shape(&request).unwrap();
        let file = files::InputFile::for_test(bytes.len());
        let reader = Box::new(io::Cursor::new(bytes.to_vec()));
        let mut outcome = (Vec::new(), 0);
        let Some(mut file) = OpenFile::start(reader, &file, &format, &shape, chunk_bytes).unwrap() else {
            return outcome;
        };
        while let Some(chunk) = file.next_rows(chunk_bytes).unwrap() {
            let decoded = file.decoder.decode(chunk).unwrap();
            let Rows::Batch(batch) = decoded.rows else { panic!("files are not replayed") };
            outcome.1 += decoded.rejected_count;
            for row in 0..batch.num_rows() {
                let value = |column: &arrow::array::ArrayRef| column.as_string_view().value(row).to_string();
                outcome.0.push(batch.columns().iter().map(value).collect());
            }
        }
        outcome
    }

    /// The same by the simplest parser of the plain dialect that there is.
    fn reference(bytes: &[u8]) -> Outcome {
        let mut outcome = (Vec::new(), 0);
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] == b'\n' || bytes[at..].starts_with(b"\r\n") {
                at += if bytes[at] == b'\n' { 1 } else { 2 };
                continue;
            }
            let (row, next) = reference_row(bytes, at);
            at = next;
            let texts = row.map(|fields| fields.into_iter().map(String::from_utf8).collect::<Result<Vec<_>, _>>());
            match texts {
                Some(Ok(texts)) if texts.len() == 2 => outcome.0.push(texts),
                _ => outcome.1 += 1,
            }
        }
        outcome
    }

    fn reference_row(bytes: &[u8], mut at: usize) -> (Option<Vec<Vec<u8>>>, usize) {
        let ends =
            |at: usize| at == bytes.len() || matches!(bytes[at], b',' | b'\n') || bytes[at..].starts_with(b"\r\n");
        let mut fields = Vec::new();
        let mut is_right = true;
        loop {
            let mut field = Vec::new();
            if bytes.get(at) == Some(&b'"') {
                at += 1;
                loop {
                    match bytes.get(at) {
                        None => return (None, at),
                        Some(b'"') if bytes.get(at + 1) == Some(&b'"') => at += 1,
                        Some(b'"') => break,
                        Some(_) => {}
                    }
                    field.push(bytes[at]);
                    at += 1;
                }
                at += 1;
                is_right &= ends(at);
            }
            while !ends(at) {
                field.push(bytes[at]);
                at += 1;
            }
            fields.push(field);
            if bytes.get(at) != Some(&b',') {
                let next = at + bytes[at..].iter().take_while(|&&byte| byte == b'\r').count() + 1;
                return (is_right.then_some(fields), next.min(bytes.len()));
            }
            at += 1;
        }
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            4 => "[ab \t]{0,3}".prop_map(String::into_bytes),
            4 => prop::sample::select(vec![&b","[..], b"\n", b"\"", b"\"\"", b",\"", b"\",", b"\"\n", b"\r\n", b"\r"])
                .prop_map(<[u8]>::to_vec),
            2 => "x,y\n".prop_map(String::into_bytes),
            2 => "\"[a,\n]{0,20}\",a string of some length\n".prop_map(String::into_bytes),
            1 => prop::sample::select(vec![&b"\\"[..], b"#", b"{\"a\":\"", b"\"}", b"\xff", b"\xc3\xa9", b"\xc2"]).prop_map(<[u8]>::to_vec),
        ];
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn csv_is_read_as_by_the_simplest_parser_wherever_it_is_cut(bytes in bytes()) {
            let mut lines = bytes.clone();
            if bytes.last().is_some_and(|&byte| byte != b'\n') {
                lines.push(b'\n');
            }
            let expected = reference(&lines);
            for chunk_bytes in (1..40).chain([bytes.len().max(1), bytes.len() + 1]) {
                let found = read(&bytes, FormatName::Csv, &[], chunk_bytes);
                prop_assert_eq!(&found, &expected, "chunks of {} bytes of {:?}", chunk_bytes, String::from_utf8_lossy(&bytes));
            }
        }

        #[test]
        fn where_chunks_are_cut_changes_nothing(bytes in bytes()) {
            let dialects: [&[(&str, &str)]; 6] = [
                &[("csv.escape-character", "\\")],
                &[("csv.delimiter-run", "true")],
                &[("csv.delimiter-run", "true"), ("csv.field-delimiter", ",")],
                &[("csv.trim", "true"), ("csv.allow-comments", "true")],
                &[("csv.field-delimiter", "\u{e9}"), ("csv.quote-character", "a")],
                &[("csv.disable-quote-character", "true"), ("csv.escape-character", "a")],
            ];
            let check = |format, pairs: &[(&str, &str)]| {
                let whole = read(&bytes, format, pairs, bytes.len() + 1);
                for chunk_bytes in [1, 2, 3, 5, 8, 13, 21] {
                    let found = read(&bytes, format, pairs, chunk_bytes);
                    assert_eq!(found, whole, "chunks of {chunk_bytes} bytes of {:?}", String::from_utf8_lossy(&bytes));
                }
            };
            for pairs in dialects {
                check(FormatName::Csv, pairs);
            }
            check(FormatName::Json, &[]);
        }
    }
}
