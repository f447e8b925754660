//! Parquet: a part of a row group at a time, wanted columns only, brought to the types that the table declares.

use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options, filter_record_batch};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Compression;
use parquet::file::metadata::PageIndexPolicy;
use pelton_data::column::{MAP_ENTRIES, MAP_KEY, MAP_VALUE, is_nested, sql_name};
use pelton_data::{BLOCK_ROWS_DEFAULT, Provenance};
use pelton_runtime::source::{Decoded, LeftOut, RejectedRow, Rows, SourceError};

use super::on_error::OnError;
use super::opened::{self, OpenedFile};
use super::rows::{VALUE_CHARACTERS_MAX, repeat};
use super::value::Wrong;
use super::{Origin, RowShape};
use crate::ConnectorError;
use nested::Lost;
use parts::{Division, FileNumber, GroupRows, Readers};

pub(crate) mod parts;

mod file;

mod raw;

mod nested;

/// Batches are small enough that their memory stays in the cache and can be used again, and parts end where pages do: 163,840 rows are eight
/// pages of 20,480, as the arrow libraries write them where values are not long. Parts of half as many rows are read a fifth slower by two
/// workers, whose readers then skip twice as often. One worker has no reader that skips.
const DIVISION: Division = Division { batch_rows: BLOCK_ROWS_DEFAULT, part_batches: 10, part_batches_alone: 2 };

/// How the pages of files to write may be compressed, by the names that Flink has.
pub(crate) fn compressions() -> [(&'static str, Compression); 4] {
    [
        ("uncompressed", Compression::UNCOMPRESSED),
        ("snappy", Compression::SNAPPY),
        ("lz4", Compression::LZ4_RAW),
        ("zstd", Compression::ZSTD(Default::default())),
    ]
}

/// Decodes the parts of one file.
pub(crate) struct ParquetDecoder {
    file: OpenedFile,
    place: String,
    metadata: ArrowReaderMetadata,
    on_error: OnError,
    /// What is delivered.
    schema: SchemaRef,
    columns: Vec<Column>,
    division: Division,
}

enum Column {
    /// The column of this index in the file.
    File(usize),
    /// The same value in every row: an array of one.
    Constant(ArrayRef),
}

/// A file and its metadata.
fn opened(path: &Path, place: &str) -> Result<(OpenedFile, ArrowReaderMetadata), ConnectorError> {
    let system = |error: io::Error| ConnectorError::place(place, opened::problem(&error));
    let file = OpenedFile::open(path).map_err(system)?;
    // Where pages begin, so that those that others decode are not touched; their statistics are not needed.
    let options = ArrowReaderOptions::new().with_offset_index_policy(PageIndexPolicy::Optional);
    match parts::unless_damaged(|| ArrowReaderMetadata::load(&file, options)) {
        Ok(metadata) => Ok((file, metadata)),
        Err(error) => Err(match Failure::of(&error.to_string()) {
            Failure::System(error) => system(error),
            Failure::Unsupported(what) => ConnectorError::place(place, format!("cannot be decoded: {what}")),
            Failure::Damage(what) => {
                ConnectorError::place(place, format!("is not a Parquet file, or is damaged: {what}"))
            }
        }),
    }
}

/// Why a file could not be read.
enum Failure {
    /// The system did not deliver its bytes.
    System(io::Error),
    /// They are right, and the library does not know how to read them.
    Unsupported(String),
    Damage(String),
}

impl Failure {
    /// What the library's words mean: an error of the system passes through it as text.
    fn of(message: &str) -> Failure {
        let code = message.rsplit_once("(os error ").and_then(|(_, code)| code.strip_suffix(')')?.parse().ok());
        if let Some(code) = code {
            return Failure::System(io::Error::from_raw_os_error(code));
        }
        let what = plain(message);
        if let Some(compression) = what.strip_prefix("Disabled feature at compile time: ") {
            return Failure::Unsupported(format!("compression by {compression} is not supported; write it with zstd"));
        }
        match message.contains("NYI: ") {
            true => Failure::Unsupported(what.to_owned()),
            false => Failure::Damage(what.to_owned()),
        }
    }
}

/// What the library says, without the names that it gives to its errors.
fn plain(message: &str) -> &str {
    let names = ["External: ", "Parquet error: ", "Parquet argument error: ", "EOF: ", "NYI: "];
    let rest = names.iter().find_map(|name| message.strip_prefix(name));
    rest.map_or(message, plain)
}

/// The columns of a file, with the types that tables have for them.
pub(crate) fn declared_schema(path: &Path, place: &str) -> Result<Schema, ConnectorError> {
    let (_, metadata) = opened(path, place)?;
    let field = |field: &Arc<Field>| match table_type(field.data_type()) {
        Some(data_type) => Ok(Field::new(field.name(), data_type, field.is_nullable())),
        None => {
            let problem = format!(
                "has the type {} in {place}, which tables do not hold; declare the other columns by name",
                sql_name(field.data_type())
            );
            Err(ConnectorError::column(field.name(), problem))
        }
    };
    Ok(Schema::new(metadata.schema().fields().iter().map(field).collect::<Result<Vec<_>, _>>()?))
}

/// The table's type for values that a file has as `data_type`.
fn table_type(data_type: &DataType) -> Option<DataType> {
    use DataType::*;
    Some(match data_type {
        Boolean | Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Date32 | Decimal128(..) => data_type.clone(),
        UInt8 => Int16,
        UInt16 => Int32,
        UInt32 => Int64,
        UInt64 => Decimal128(20, 0),
        Float16 => Float32,
        Decimal32(precision, scale) | Decimal64(precision, scale) => Decimal128(*precision, *scale),
        Date64 => Date32,
        Utf8 | LargeUtf8 | Utf8View => Utf8View,
        Binary | LargeBinary | BinaryView => BinaryView,
        Timestamp(unit, zone) => {
            let unit = if *unit == TimeUnit::Nanosecond { TimeUnit::Microsecond } else { *unit };
            Timestamp(unit, zone.as_ref().map(|_| "+00:00".into()))
        }
        Dictionary(_, value) => return table_type(value),
        Struct(fields) => {
            let field = |field: &Arc<Field>| Some(Field::clone(field).with_data_type(table_type(field.data_type())?));
            Struct(fields.iter().map(|one| Some(Arc::new(field(one)?))).collect::<Option<Vec<_>>>()?.into())
        }
        List(item) | LargeList(item) => {
            List(Arc::new(Field::new_list_field(table_type(item.data_type())?, item.is_nullable())))
        }
        Map(entries, _) => {
            let pair = nested_pair(entries)?;
            let fields = [
                Field::new(MAP_KEY, table_type(pair[0].data_type())?, false),
                Field::new(MAP_VALUE, table_type(pair[1].data_type())?, pair[1].is_nullable()),
            ];
            Map(Arc::new(Field::new(MAP_ENTRIES, Struct(fields.into_iter().collect()), false)), false)
        }
        _ => return None,
    })
}

/// The fields of the keys and values of a map whose keys are not nested.
fn nested_pair(entries: &Field) -> Option<&Fields> {
    match entries.data_type() {
        DataType::Struct(pair) if pair.len() == 2 && !pair[0].data_type().is_nested() => Some(pair),
        _ => None,
    }
}

/// Whether every value of type `from` is one of type `to`, or can be told not to be.
fn is_readable(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match (from, to) {
        _ if is_nested(to) => nested::is_nested_readable(from, to),
        _ if from == to => !from.is_nested(),
        (from, to) if from.is_integer() => to.is_integer() || to.is_floating() || matches!(to, Decimal128(..)),
        (Float16, Float32 | Float64) | (Float32, Float64) | (Date64, Date32) => true,
        (Decimal32(_, a) | Decimal64(_, a) | Decimal128(_, a), Decimal128(_, b)) => a <= b,
        (Timestamp(..), Timestamp(..)) => true,
        (Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView, Utf8View) => true,
        (Binary | LargeBinary | BinaryView, BinaryView) => true,
        (Dictionary(_, value), to) => is_readable(value, to),
        _ => false,
    }
}

/// The values of a column as those of another type, NULL where they do not fit it. Of times what is finer than the type is left out.
fn cast(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions { safe: true, ..Default::default() };
    let coarser = match data_type {
        DataType::Timestamp(unit, _) => pelton_data::time::coarser(column, *unit),
        _ => None,
    };
    cast_with_options(coarser.as_ref().unwrap_or(column), data_type, &options)
}

/// The values of a column as those of a flat type, and the rows, in order, whose values do not fit, with NULL in their place.
fn flat(column: &ArrayRef, data_type: &DataType) -> Result<(ArrayRef, Vec<usize>, Wrong), ArrowError> {
    if let Some(decoded) = raw::decoded(column, data_type) {
        return Ok(decoded);
    }
    let values = cast(column, data_type)?;
    let lost = match values.null_count() > column.null_count() {
        true => (0..values.len()).filter(|&row| values.is_null(row) && !column.is_null(row)).collect(),
        false => Vec::new(),
    };
    Ok((values, lost, Wrong::Range))
}

/// A value as messages show it. Bytes are shown as text, which they mostly are.
fn shown(column: &ArrayRef, row: usize) -> String {
    match column.data_type() {
        DataType::BinaryView if column.is_valid(row) => {
            String::from_utf8_lossy(column.as_binary_view().value(row)).into_owned()
        }
        DataType::FixedSizeBinary(_) if column.is_valid(row) => {
            raw::int96_text(column.as_fixed_size_binary().value(row)).unwrap_or_default()
        }
        data_type if is_nested(data_type) => {
            let texts = cast(&column.slice(row, 1), &with_text(data_type));
            texts.and_then(|texts| array_value_to_string(&texts, 0)).unwrap_or_default()
        }
        _ => array_value_to_string(column, row).unwrap_or_default(),
    }
}

/// The type with text in the place of bytes.
fn with_text(data_type: &DataType) -> DataType {
    let part = |part: &Arc<Field>| Arc::new(Field::clone(part).with_data_type(with_text(part.data_type())));
    match data_type {
        DataType::BinaryView => DataType::Utf8View,
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(part).collect()),
        DataType::List(item) => DataType::List(part(item)),
        DataType::Map(entries, is_ordered) => DataType::Map(part(entries), *is_ordered),
        other => other.clone(),
    }
}

impl ParquetDecoder {
    /// Reads the metadata of the file at `path`, and finds the wanted columns in it. `constants` are the values of the
    /// columns that are not in the data, in order.
    pub(crate) fn open(
        path: &Path,
        place: &str,
        shape: &RowShape,
        constants: Vec<ArrayRef>,
        on_error: OnError,
    ) -> Result<ParquetDecoder, ConnectorError> {
        let (file, metadata) = opened(path, place)?;
        let file_schema = metadata.schema().clone();
        let mut columns = Vec::new();
        let mut constants = constants.into_iter();
        for (origin, field) in shape.origins.iter().zip(shape.schema.fields()) {
            let Origin::Data(_) = origin else {
                columns.push(Column::Constant(constants.next().expect("one constant each")));
                continue;
            };
            let Ok(index) = file_schema.index_of(field.name()) else {
                let names: Vec<&str> = file_schema.fields().iter().map(|field| field.name().as_str()).collect();
                let problem = format!("is not in {place}, which has {}", names.join(", "));
                return Err(ConnectorError::column(field.name(), problem));
            };
            let found = file_schema.field(index);
            if !is_readable(found.data_type(), field.data_type()) {
                let (is, wanted) = (sql_name(found.data_type()), sql_name(field.data_type()));
                let problem = format!("is of type {is} in {place}, which cannot be read as {wanted}");
                return Err(ConnectorError::column(field.name(), problem));
            }
            if !raw::is_read(&metadata.parquet_schema().root_schema().get_fields()[index], found.data_type()) {
                let problem =
                    format!("is nested in {place} in a form of old writers, which is not read; write it anew");
                return Err(ConnectorError::column(field.name(), problem));
            }
            columns.push(Column::File(index));
        }
        let metadata = parts::unless_damaged(|| raw::with_raw_columns(&metadata)).map_err(|error| {
            ConnectorError::place(place, format!("cannot be decoded: {}", plain(&error.to_string())))
        })?;
        let (place, schema) = (place.to_string(), shape.schema.clone());
        Ok(ParquetDecoder { file, place, metadata, on_error, schema, columns, division: DIVISION })
    }

    /// The part behind another one, or the first, to be decoded by one of `readers`.
    pub(crate) fn part_after(&self, before: Option<GroupRows>, readers: &Readers) -> Option<GroupRows> {
        self.division.part_after(&self.metadata, before, readers.are_alone())
    }

    /// What [`ParquetDecoder::part_after`] goes on from behind so many rows.
    pub(crate) fn nothing_behind(&self, rows: u64) -> GroupRows {
        Division::nothing_behind(&self.metadata, rows)
    }

    /// The rows of a part, by one of `readers`, which know this file by its number.
    ///
    /// # Errors
    /// [`SourceError`] where the file cannot be read, or for the first row with a value that the table does not hold.
    pub(crate) fn decode(&self, part: GroupRows, readers: &Readers, file: FileNumber) -> Result<Decoded, SourceError> {
        let mut left_out = LeftOut::default();
        let mut batches = Vec::new();
        let mut first_row = part.first_row;
        let wanted = self.columns.iter().filter_map(|column| match column {
            Column::File(index) => Some(*index),
            Column::Constant(_) => None,
        });
        let open = || parts::builder(&self.file, &self.metadata, wanted);
        let read = readers.read(file, part, self.division, open);
        if let Some(problem) = self.file.problem(false) {
            return Err(self.input(format!("the rows from {first_row} on are not there: {problem}")));
        }
        for batch in read.map_err(|error| self.unreadable(first_row, &error.to_string()))? {
            batches.push(self.convert(&batch, first_row, &mut left_out)?);
            first_row += batch.num_rows() as u64;
        }
        let provenance = Provenance { input: Arc::from(self.place.as_str()), first_row: part.first_row };
        let provenance = (left_out.rejected.count == 0).then_some(provenance);
        Ok(Decoded { rows: Rows::Batches(batches), left_out, provenance })
    }

    /// The rows of a batch as the table has them; `left_out` gets those that are rejected.
    fn convert(&self, batch: &RecordBatch, first_row: u64, left_out: &mut LeftOut) -> Result<RecordBatch, SourceError> {
        let mut wrong = Vec::new();
        let mut columns = Vec::new();
        for (index, column) in self.columns.iter().enumerate() {
            let field = self.schema.field(index);
            columns.push(match column {
                Column::Constant(value) => repeat(value, batch.num_rows()),
                Column::File(file_index) => {
                    let name = self.metadata.schema().field(*file_index).name();
                    let column = batch.column_by_name(name).expect("the reader delivers what it was asked for");
                    self.coerce(index, column, field, &mut wrong)?
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::new(super::all_nullable(&self.schema)), columns, &options);
        let rows = rows.map_err(|error| self.input(error))?;
        self.without(rows, batch, wrong, first_row, left_out)
    }

    /// The column with the type of `field`; `wrong` gets the values that it cannot hold.
    fn coerce(
        &self,
        index: usize,
        column: &ArrayRef,
        field: &Field,
        wrong: &mut Vec<(usize, Lost)>,
    ) -> Result<ArrayRef, SourceError> {
        let (values, lost) = nested::converted(column, field).map_err(|error| self.input(error))?;
        wrong.extend(lost.into_iter().map(|lost| (index, lost)));
        Ok(values)
    }

    /// The rows without those that are `wrong`, which `decoded` gets. `read` has them as they are in the file.
    fn without(
        &self,
        mut rows: RecordBatch,
        read: &RecordBatch,
        mut wrong: Vec<(usize, Lost)>,
        first_row: u64,
        left_out: &mut LeftOut,
    ) -> Result<RecordBatch, SourceError> {
        wrong.sort_by_key(|(column, lost)| (lost.row, *column));
        wrong.dedup_by_key(|(_, lost)| lost.row);
        let mut kept = vec![true; if wrong.is_empty() { 0 } else { rows.num_rows() }];
        for (index, Lost { row, path, value, problem }) in &wrong {
            kept[*row] = false;
            let name = self.schema.field(*index).name();
            let column = format!("{name}{path}");
            let value = value.chars().take(VALUE_CHARACTERS_MAX).collect();
            let (place, problem) = (self.place.clone(), problem.clone());
            let error = SourceError::Row { place, row: first_row + *row as u64, column, value, problem };
            if self.on_error == OnError::Fail {
                return Err(error);
            }
            left_out.rejected.push(|| {
                let values: Vec<String> = read.columns().iter().map(|column| shown(column, *row)).collect();
                RejectedRow { error, row: values.join(", ") }
            });
        }
        if !wrong.is_empty() {
            rows = filter_record_batch(&rows, &BooleanArray::from(kept)).map_err(|error| self.input(error))?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), rows.columns().to_vec(), &options);
        rows.map_err(|error| self.input(error))
    }

    /// Why the rows from one on could not be read, given what the library says.
    fn unreadable(&self, first_row: u64, message: &str) -> SourceError {
        let problem = match Failure::of(message) {
            Failure::System(error) => format!("are not there: {}", opened::problem(&error)),
            Failure::Unsupported(what) => format!("cannot be decoded: {what}"),
            Failure::Damage(what) => format!("cannot be decoded, the file is damaged: {what}"),
        };
        self.input(format!("the rows from {first_row} on {problem}"))
    }

    fn input(&self, error: impl ToString) -> SourceError {
        SourceError::Input { place: self.place.clone(), problem: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_says_is_damage_where_it_is_nothing_else() {
        for (message, meaning) in [
            ("External: Input/output error (os error 5)", "system: Input/output error (os error 5)"),
            ("Parquet error: External: Permission denied (os error 13)", "system: Permission denied (os error 13)"),
            ("NYI: Encoding X is not supported", "unsupported: Encoding X is not supported"),
            (
                "Parquet error: Disabled feature at compile time: brotli",
                "unsupported: compression by brotli is not supported; write it with zstd",
            ),
            ("EOF: Invalid page header", "damage: Invalid page header"),
            ("Parquet error: a page (of 3 bytes)", "damage: a page (of 3 bytes)"),
        ] {
            let found = match Failure::of(message) {
                Failure::System(error) => format!("system: {error}"),
                Failure::Unsupported(what) => format!("unsupported: {what}"),
                Failure::Damage(what) => format!("damage: {what}"),
            };
            assert_eq!(found, meaning);
        }
    }
}
