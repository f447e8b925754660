//! Parquet: a part of a row group at a time, wanted columns only, brought to the types that the table declares.

use std::io;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::Schema;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Compression;
use parquet::file::metadata::PageIndexPolicy;
use pelton_data::{BLOCK_ROWS_DEFAULT, Provenance};
use pelton_runtime::source::{Decoded, LeftOut, Rows, SourceError};

use super::columnar::{Conversion, declared, raw};
use super::on_error::OnError;
use super::opened::{self, OpenedFile};
use super::shape::RowShape;
use crate::ConnectorError;
use crate::storage::Location;
use parts::{Division, FileNumber, GroupRows, Readers};

pub(crate) mod parts;

mod file;

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
    conversion: Conversion,
    division: Division,
}

/// A file and its metadata.
fn opened(location: &Location, place: &str) -> Result<(OpenedFile, ArrowReaderMetadata), ConnectorError> {
    let system = |error: io::Error| ConnectorError::place(place, opened::problem(&error));
    let file = OpenedFile::open(location).map_err(system)?;
    // Where pages begin, so that those that others decode are not touched; their statistics are not needed.
    let options = ArrowReaderOptions::new().with_offset_index_policy(PageIndexPolicy::Optional);
    match parts::unless_damaged(|| ArrowReaderMetadata::load(&file, options)) {
        Ok(metadata) => Ok((file, metadata)),
        Err(error) => Err(match (file.problem(true), Failure::of(&error.to_string())) {
            (Some(problem), _) => ConnectorError::place(place, problem),
            (None, Failure::System(error)) => system(error),
            (None, Failure::Unsupported(what)) => ConnectorError::place(place, format!("cannot be decoded: {what}")),
            (None, Failure::Damage(what)) => {
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
pub(crate) fn declared_schema(location: &Location, place: &str) -> Result<Schema, ConnectorError> {
    let (_, metadata) = opened(location, place)?;
    declared(metadata.schema(), place)
}

impl ParquetDecoder {
    /// Reads the metadata of the file at `location`, and finds the wanted columns in it. `constants` are the values of the
    /// columns that are not in the data, in order.
    pub(crate) fn open(
        location: &Location,
        place: &str,
        shape: &RowShape,
        constants: Vec<ArrayRef>,
        on_error: OnError,
    ) -> Result<ParquetDecoder, ConnectorError> {
        let (file, metadata) = opened(location, place)?;
        let conversion = Conversion::new(metadata.schema(), place, shape, constants, on_error)?;
        for index in conversion.file_columns() {
            let found = metadata.schema().field(index);
            if !raw::is_read(&metadata.parquet_schema().root_schema().get_fields()[index], found.data_type()) {
                let problem =
                    format!("is nested in {place} in a form of old writers, which is not read; write it anew");
                return Err(ConnectorError::column(found.name(), problem));
            }
        }
        let metadata = parts::unless_damaged(|| raw::with_raw_columns(&metadata)).map_err(|error| {
            ConnectorError::place(place, format!("cannot be decoded: {}", plain(&error.to_string())))
        })?;
        Ok(ParquetDecoder { file, place: place.to_string(), metadata, conversion, division: DIVISION })
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
        let wanted = self.conversion.file_columns();
        let open = || parts::builder(&self.file, &self.metadata, wanted);
        let read = readers.read(file, part, self.division, open);
        if let Some(problem) = self.file.problem(false) {
            return Err(self.input(format!("the rows from {first_row} on are not there: {problem}")));
        }
        for batch in read.map_err(|error| self.unreadable(first_row, &error.to_string()))? {
            batches.push(self.conversion.convert(&batch, first_row, &mut left_out)?);
            first_row += batch.num_rows() as u64;
        }
        let provenance = Provenance { input: Arc::from(self.place.as_str()), first_row: part.first_row };
        let provenance = (left_out.rejected.count == 0).then_some(provenance);
        Ok(Decoded { rows: Rows::Batches(batches), left_out, provenance })
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
