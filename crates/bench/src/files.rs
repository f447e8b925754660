//! How fast files in the page cache are read, beside another reader of the same files on one thread.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::file::{Benchmark, Case};
use super::report::{Figure, Line, Samples};
use super::{Arguments, BenchError, loops, measure};

/// Rows that the other readers decode at a time.
const BATCH_ROWS: usize = 16 * 1024;

/// A folder of files that lasts as long as the value.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// An empty folder for a benchmark.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub(super) fn new(name: &str) -> Result<Folder, BenchError> {
        // A case may be measured against itself, with files of its own.
        static FOLDERS: AtomicUsize = AtomicUsize::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pelton-{name}-{}-{number}", std::process::id()));
        let failed = |error| BenchError::File { place: path.display().to_string(), error };
        std::fs::create_dir_all(&path).map_err(failed)?;
        Ok(Folder(path))
    }

    /// Its path, for statements.
    pub(super) fn text(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans the folder of temporary files.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Executes what writes the files of a case.
pub(super) fn prepare(setup: &str, statements: &str) -> Result<(), BenchError> {
    let session = pelton::Session::new();
    for statement in session.prepare(&format!("{setup};\n{statements}"))? {
        if let pelton::Outcome::Running(query) = session.execute(&statement)? {
            query.wait()?;
        }
    }
    Ok(())
}

/// The engine and the other reader take turns.
pub(super) fn measure(benchmark: &Benchmark, case: &Case, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let folder = Folder::new(&benchmark.name)?;
    let statements = benchmark.statements(case, arguments.seconds, &folder.text());
    prepare(&statements.setup, &statements.prepare)?;
    let (path, schema) = loops::file_of(&statements.setup, &benchmark.table)?;
    let bytes = std::fs::metadata(&path).map_err(|error| file_error(&path, error))?.len();
    let reader = benchmark.references.first().map(String::as_str);
    let reader = reader.ok_or_else(|| BenchError::Input("a benchmark of files needs a reference".into()))?;
    let [mut engine, mut other] = [const { Samples(Vec::new()) }; 2];
    let mut rows = 0;
    for _ in 0..arguments.repeat.max(1) {
        let measured = measure::engine(
            &statements.setup,
            &statements.query,
            &[benchmark.table.as_str()],
            &[("pelton.tier", "auto")],
            arguments.workers,
        )?;
        engine.0.push(measured);
        let start = Instant::now();
        rows = rows_of(reader, &path, &schema)?;
        other.0.push(rows as f64 / start.elapsed().as_secs_f64());
    }
    Ok(vec![Figure::Rate(Line {
        bench: benchmark.name.clone(),
        case: case.name.clone(),
        engine: "auto".to_string(),
        workers: arguments.workers,
        samples: engine,
        bytes_per_record: bytes as usize / rows.max(1),
        reference: Some((reader.to_string(), other)),
    })])
}

fn rows_of(reader: &str, path: &Path, schema: &Schema) -> Result<usize, BenchError> {
    let file = File::open(path).map_err(|error| file_error(path, error))?;
    let failed = |error: ArrowError| BenchError::Input(format!("{}: {error}", path.display()));
    let count = |mut batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>| {
        batches.try_fold(0, |rows, batch| Ok(rows + batch.map_err(failed)?.num_rows()))
    };
    let buffered = |file| BufReader::with_capacity(512 << 10, file);
    match reader {
        "arrow-csv" => {
            let reader = arrow_csv::ReaderBuilder::new(with_plain_strings(schema)).with_batch_size(BATCH_ROWS);
            count(Box::new(reader.build_buffered(buffered(file)).map_err(failed)?))
        }
        "arrow-json" => {
            let reader = arrow_json::ReaderBuilder::new(with_plain_strings(schema)).with_batch_size(BATCH_ROWS);
            count(Box::new(reader.build(buffered(file)).map_err(failed)?))
        }
        "parquet" => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| failed(error.into()))?;
            count(Box::new(reader.with_batch_size(BATCH_ROWS).build().map_err(|error| failed(error.into()))?))
        }
        other => {
            Err(BenchError::Input(format!("there is no reader '{other}'; there are arrow-csv, arrow-json, parquet")))
        }
    }
}

fn file_error(path: &Path, error: std::io::Error) -> BenchError {
    BenchError::File { place: path.display().to_string(), error }
}

/// Strings in the form that the readers have natively.
fn with_plain_strings(schema: &Schema) -> Arc<Schema> {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8View => Field::new(field.name(), DataType::Utf8, true),
        _ => Field::clone(field),
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}
