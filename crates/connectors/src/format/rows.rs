//! From a chunk of text to columns: rows are split into fields, a thousand at a time, then each wanted column is
//! decoded in one tight loop over its fields.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, SchemaRef};
use pelton_data::Provenance;
use pelton_runtime::source::{Absent, AbsentColumn, Decoded, LeftOut, RejectedRow, Rows, SourceError};

use super::absent::hint;
use super::column::{ColumnDecoder, FieldRules, Fields, Misfit, NestedPart};
use super::csv::split::CsvSplitter;
use super::json::{self, split::JsonSplitter};
use super::on_error::OnError;
use super::split::{Failure, Span, Split};
use super::value::Wrong;

/// Rows split before their columns are decoded: their fields' places stay in the first-level caches.
pub(super) const SPLIT_ROWS: usize = 1024;

/// Characters of a value, and bytes of a row, that messages and rejected rows show.
pub(crate) const VALUE_CHARACTERS_MAX: usize = 100;
const ROW_BYTES_SHOWN_MAX: usize = 1024;

/// Rows of a chunk whose names are told where a column is in none.
const NAMED_ROWS: usize = 100;

/// A value that cannot be decoded, and why.
struct WrongValue {
    /// Its row's index in a [`Split`].
    row: usize,
    column: usize,
    misfit: Misfit,
}

/// How text is split into rows and fields.
pub(crate) enum Splitter {
    Csv(CsvSplitter),
    Json(JsonSplitter),
}

impl Splitter {
    /// Splits up to `rows_max` rows from `at` on, and returns where it stopped. The chunk ends with a line end.
    pub(crate) fn split(&self, bytes: &[u8], at: usize, rows_max: usize, split: &mut Split) -> usize {
        match self {
            Splitter::Csv(csv) => csv.split(bytes, at, rows_max, split),
            Splitter::Json(json) => json.split(bytes, at, rows_max, split),
        }
    }
}

impl Splitter {
    /// The names that the first rows of a chunk have for their fields, where they name them.
    fn names(&self, bytes: &[u8]) -> Vec<String> {
        match self {
            Splitter::Csv(_) => Vec::new(),
            Splitter::Json(json) => json::names(bytes, json.layout(), NAMED_ROWS),
        }
    }
}

/// A column of the decoded rows.
#[derive(Debug, Clone)]
pub(crate) enum OutputColumn {
    /// Decoded from the field at this place of [`Split::spans`].
    Field(usize),
    /// The same value in every row: an array of one.
    Constant(ArrayRef),
}

/// Whole rows of text.
pub(crate) struct TextChunk {
    /// Ends with a line end.
    pub(crate) bytes: Vec<u8>,
    /// Number of the line at the start of `bytes`, from 1.
    pub(crate) first_line: u64,
    /// How many lines they are.
    pub(crate) lines: u64,
    /// Whether rows of the same file stand before them.
    pub(crate) follows_rows: bool,
}

/// Decodes the rows of one file.
pub(crate) struct RowDecoder {
    /// The file, for messages.
    pub(crate) place: String,
    pub(crate) splitter: Splitter,
    /// Wanted fields a row.
    pub(crate) width: usize,
    pub(crate) rules: Arc<FieldRules>,
    pub(crate) on_error: OnError,
    /// What is delivered; one of `columns` for each field.
    pub(crate) schema: SchemaRef,
    pub(crate) columns: Vec<OutputColumn>,
}

/// Columns of rows, before those are taken out that do not fit the table.
pub(crate) struct DecodedColumns {
    /// One for each delivered column. Columns that are NOT NULL may have NULLs in rows that are not kept.
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) rows: usize,
    /// For each row whether it stays; all do where there is no list.
    pub(crate) kept: Option<Vec<bool>>,
    pub(crate) left_out: LeftOut,
}

/// The chunk being decoded: what is done so far.
struct Progress<'a> {
    bytes: Buffer,
    /// Where each row ends that is a message; else rows are lines.
    message_ends: Option<&'a [u32]>,
    first_line: u64,
    rows: usize,
    /// For each row whether it stays, once one has been rejected; those behind the list do.
    kept: Option<Vec<bool>>,
    left_out: LeftOut,
    /// For each wanted field whether no row has it.
    absent: Vec<bool>,
}

impl Progress<'_> {
    /// Takes a row out of those that stay.
    fn leave_out(&mut self, row: usize) {
        let kept = self.kept.get_or_insert_default();
        kept.resize(self.rows, true);
        kept[row] = false;
    }

    /// Whether the rows of `split` are messages, one each, of which there are several.
    fn are_messages(&self, split: &Split) -> bool {
        let Some(ends) = self.message_ends.filter(|ends| ends.len() > 1) else { return true };
        let begins = |row: usize| if row == 0 { 0 } else { ends[row - 1] };
        let is_message = |(row, range): (usize, &std::ops::Range<u32>)| {
            row < ends.len() && begins(row) <= range.start && range.start < ends[row]
        };
        split.failures.is_empty() && (self.rows..).zip(&split.rows).all(is_message)
    }

    /// Number of the row that begins at a byte: its line, or the message's index.
    fn row_number(&self, start: u32) -> u64 {
        match self.message_ends {
            Some(ends) => ends.partition_point(|&end| end <= start) as u64,
            None => {
                self.first_line + memchr::memchr_iter(b'\n', &self.bytes.as_slice()[..start as usize]).count() as u64
            }
        }
    }

    /// Looks for the fields that no row had before. Of a field that most rows have, one row is looked at.
    fn look_for_absent(&mut self, split: &Split) {
        for (place, is_absent) in self.absent.iter_mut().enumerate().filter(|(_, is_absent)| **is_absent) {
            *is_absent = split.spans.iter().skip(place).step_by(split.width).all(|&span| span == Span::ABSENT);
        }
    }
}

impl RowDecoder {
    /// The rows of a chunk.
    ///
    /// # Errors
    /// [`SourceError::Row`] for the first row that cannot be decoded, unless such rows are skipped.
    pub(crate) fn decode(&self, chunk: TextChunk) -> Result<Decoded, SourceError> {
        let TextChunk { bytes, first_line, lines, follows_rows } = chunk;
        let progress = self.begin(Buffer::from_vec(bytes), None, first_line);
        let decoded = self.columns_of(progress, follows_rows)?.expect("rows that are lines are where they are");
        self.deliver(decoded, first_line, lines)
    }

    /// The columns of messages, each of which ends with a line end. `None` where there are several and one of them is not exactly one row: then they are to be decoded
    /// one by one. [`SourceError::Row`] has the index of a message in the place of a line.
    ///
    /// # Errors
    /// As [`RowDecoder::decode`].
    pub(crate) fn decode_messages(&self, bytes: Buffer, ends: &[u32]) -> Result<Option<DecodedColumns>, SourceError> {
        let decoded = self.columns_of(self.begin(bytes, Some(ends), 0), false)?;
        Ok(decoded.filter(|decoded| decoded.rows == ends.len() || ends.len() == 1))
    }

    fn begin<'a>(&self, bytes: Buffer, message_ends: Option<&'a [u32]>, first_line: u64) -> Progress<'a> {
        Progress {
            bytes,
            message_ends,
            first_line,
            rows: 0,
            kept: None,
            left_out: LeftOut::of_rows(self.on_error.keeps_all()),
            absent: vec![true; self.width],
        }
    }

    /// Splits and decodes all rows. `None` where they should be messages and are not.
    fn columns_of(
        &self,
        mut progress: Progress<'_>,
        follows_rows: bool,
    ) -> Result<Option<DecodedColumns>, SourceError> {
        let bytes = progress.bytes.clone();
        let bytes = bytes.as_slice();
        let mut decoders: Vec<Option<ColumnDecoder>> = self.columns.iter().map(|_| None).collect();
        let has_controls = matches!(self.splitter, Splitter::Json(_)) && super::json::split::has_controls(bytes);
        let mut split = Split { has_controls, follows_value: follows_rows, ..Split::new(self.width) };
        let text = self.schema.fields().iter().any(|field| has_text(field.data_type()));
        let text = if text { std::str::from_utf8(bytes).ok() } else { None };
        let mut at = 0;
        while at < bytes.len() {
            split.clear();
            let start = at;
            at = self.splitter.split(bytes, at, SPLIT_ROWS, &mut split);
            if !progress.are_messages(&split) {
                return Ok(None);
            }
            // Rows are about as long as those so far: room for all of them is made at once.
            let rows_left = split.rows.len() * (bytes.len() - start) / (at - start).max(1);
            let mut wrong = Vec::new();
            for (index, (column, decoder)) in self.columns.iter().zip(&mut decoders).enumerate() {
                let OutputColumn::Field(place) = column else { continue };
                let decoder = decoder.get_or_insert_with(|| {
                    ColumnDecoder::new(self.schema.field(index), rows_left + rows_left / 16 + 16)
                });
                let fields = Fields { bytes: &progress.bytes, text, split: &split, place: *place, rules: &self.rules };
                decoder.extend(&fields, &mut |row, misfit| {
                    wrong.push(WrongValue { row, column: index, misfit });
                });
            }
            progress.look_for_absent(&split);
            let first_row = progress.rows;
            progress.rows += split.rows.len();
            if !wrong.is_empty() || !split.failures.is_empty() {
                self.reject(&mut progress, &mut split, first_row, wrong)?;
            }
        }
        Ok(Some(self.finish(progress, decoders)))
    }

    /// Takes note of the rows of `split` that cannot be decoded.
    fn reject(
        &self,
        progress: &mut Progress,
        split: &mut Split,
        first_row: usize,
        mut wrong: Vec<WrongValue>,
    ) -> Result<(), SourceError> {
        // Of a row that goes, the value that tells why comes first.
        let rejects = |wrong: &WrongValue| {
            let is_required = match &wrong.misfit.part {
                Some(part) => part.is_required,
                None => !self.schema.field(wrong.column).is_nullable(),
            };
            // A value of which NULL is made is no error unless its column cannot be NULL.
            self.on_error != OnError::Null && wrong.misfit.why != Wrong::TooLarge || is_required
        };
        wrong.sort_by_key(|value| (value.row, !rejects(value), value.column));
        let mut failures: Vec<_> = split.failures.drain(..).map(|failure| (failure, true)).collect();
        let mut rejected_row = None;
        for value in wrong {
            let is_rejected = rejects(&value);
            let WrongValue { row, column, misfit } = value;
            if rejected_row == Some(row) {
                continue;
            }
            if is_rejected {
                rejected_row = Some(row);
                progress.leave_out(first_row + row);
            }
            failures.push((self.failure(split, row, column, misfit), is_rejected));
        }
        failures.sort_by_key(|(failure, _)| failure.row.start);
        let bytes_max = if self.on_error.keeps_all() { usize::MAX } else { ROW_BYTES_SHOWN_MAX };
        for (failure, is_rejected) in failures {
            if is_rejected && self.on_error == OnError::Fail {
                return Err(self.error(progress, &failure));
            }
            let mut left_out = std::mem::take(&mut progress.left_out);
            let row = || {
                let row = &progress.bytes[failure.row.start as usize..failure.row.end as usize];
                let row = String::from_utf8_lossy(&row[..row.len().min(bytes_max)]).into_owned();
                RejectedRow { error: self.error(progress, &failure), row }
            };
            if is_rejected {
                left_out.rejected.push(row)
            } else {
                left_out.nulled.push(row)
            }
            progress.left_out = left_out;
        }
        Ok(())
    }

    /// Why the value of a column in a row of `split` cannot be decoded.
    fn failure(&self, split: &Split, row: usize, column: usize, misfit: Misfit) -> Failure {
        let OutputColumn::Field(place) = self.columns[column] else { unreachable!("only fields are decoded") };
        let span = split.spans[row * split.width + place];
        let range = split.rows[row].clone();
        let name = self.schema.field(column).name();
        if let Some(NestedPart { path, value, .. }) = misfit.part {
            return Failure { row: range, column: format!("{name}{path}"), value, problem: misfit.problem };
        }
        let value = match span {
            Span::MISSING => range.start as usize..range.end as usize,
            span if span.is_null() => 0..0,
            span => span.range(),
        };
        Failure { row: range, column: name.clone(), value, problem: misfit.problem }
    }

    fn error(&self, progress: &Progress, failure: &Failure) -> SourceError {
        let value = String::from_utf8_lossy(&progress.bytes[failure.value.clone()]);
        let row = progress.row_number(failure.row.start);
        let is_header =
            progress.message_ends.is_none() && row == 1 && value.trim().eq_ignore_ascii_case(&failure.column);
        let hint = if is_header { "; if the first row names the columns, add 'csv.header' = 'true'" } else { "" };
        SourceError::Row {
            place: self.place.clone(),
            row,
            column: failure.column.clone(),
            value: value.chars().take(VALUE_CHARACTERS_MAX).collect(),
            problem: format!("{}{hint}", failure.problem),
        }
    }

    /// Which columns no row of the chunk has, and which fields of ROWs, and what the rows have instead.
    fn absent(&self, progress: &Progress, decoders: &[Option<ColumnDecoder>]) -> Absent {
        let mut names = None;
        let mut columns = Vec::new();
        let rows = progress.rows as u64;
        for ((column, field), decoder) in self.columns.iter().zip(self.schema.fields()).zip(decoders) {
            let OutputColumn::Field(place) = column else { continue };
            if let Some(decoder) = decoder {
                decoder.add_absent(field.name(), &mut columns);
            }
            if progress.absent[*place] && progress.rows > 0 {
                let is_known = |name: &String| self.schema.field_with_name(name).is_err();
                let names = names.get_or_insert_with(|| {
                    self.splitter.names(progress.bytes.as_slice()).into_iter().filter(is_known).collect::<Vec<_>>()
                });
                let hint = hint(field.name(), names);
                columns.push(AbsentColumn { name: field.name().clone(), is_field: false, rows, hint });
            }
        }
        Absent { rows, columns, place: self.place.clone(), has_other_places: false }
    }

    fn finish(&self, mut progress: Progress, decoders: Vec<Option<ColumnDecoder>>) -> DecodedColumns {
        progress.left_out.absent = self.absent(&progress, &decoders);
        let columns = self.columns.iter().zip(decoders).enumerate().map(|(index, (column, decoder))| match column {
            OutputColumn::Constant(value) => repeat(value, progress.rows),
            OutputColumn::Field(_) => match decoder {
                Some(decoder) => decoder.finish(),
                None => arrow::array::new_empty_array(self.schema.field(index).data_type()),
            },
        });
        let columns = columns.collect();
        let mut kept = progress.kept;
        if let Some(kept) = &mut kept {
            kept.resize(progress.rows, true);
        }
        DecodedColumns { columns, rows: progress.rows, kept, left_out: progress.left_out }
    }

    /// The rows of a chunk that stay.
    fn deliver(&self, mut decoded: DecodedColumns, first_line: u64, lines: u64) -> Result<Decoded, SourceError> {
        // With as many rows as lines each row is a line.
        let is_known = decoded.kept.is_none() && decoded.rows as u64 == lines;
        let provenance = is_known.then(|| Provenance { input: Arc::from(self.place.as_str()), first_row: first_line });
        let left_out = std::mem::take(&mut decoded.left_out);
        let batch = decoded
            .into_batch(&self.schema)
            .map_err(|error| SourceError::Input { place: self.place.clone(), problem: error.to_string() })?;
        Ok(Decoded { rows: Rows::Batches(vec![batch]), left_out, provenance })
    }
}

impl DecodedColumns {
    /// The rows that stay.
    pub(crate) fn into_batch(self, schema: &SchemaRef) -> Result<RecordBatch, arrow::error::ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        // NULLs in columns that are NOT NULL are still there: their rows go below.
        let nullable = Arc::new(super::all_nullable(schema));
        let mut batch = RecordBatch::try_new_with_options(nullable, self.columns, &options)?;
        if let Some(kept) = self.kept {
            batch = filter_record_batch(&batch, &BooleanArray::from(kept))?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options)
    }
}

/// Whether values of a type are text, or have parts that are.
fn has_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_text(field.data_type())),
        DataType::List(part) | DataType::Map(part, _) => has_text(part.data_type()),
        other => *other == DataType::Utf8View,
    }
}

/// An array of `rows` times the one value of `value`.
pub(crate) fn repeat(value: &ArrayRef, rows: usize) -> ArrayRef {
    use arrow::array::{StringViewArray, UInt32Array};
    if let Some(strings) = value.as_any().downcast_ref::<StringViewArray>().filter(|strings| strings.is_valid(0)) {
        let mut builder = arrow::array::StringViewBuilder::with_capacity(rows);
        builder.try_append_value_n(strings.value(0), rows).expect("a path is shorter than a buffer may be");
        return Arc::new(builder.finish());
    }
    let indices = UInt32Array::from(vec![0; rows]);
    arrow::compute::take(value, &indices, None).expect("a constant's row 0 can be repeated")
}
