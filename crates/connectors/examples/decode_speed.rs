//! How fast files in the page cache are decoded, beside the readers of arrow-csv, arrow-json and parquet on one thread.
//!
//! `cargo run --release -p pelton-connectors --example decode_speed [MEGABYTES]`

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pelton_connectors::{TableRequest, open_sink, open_source};
use pelton_runtime::source::{Read, Rows};

const BATCH_ROWS: usize = 16 * 1024;
const REPEATS: usize = 5;

fn main() {
    let megabytes: usize = std::env::args().nth(1).map_or(200, |text| text.parse().expect("a number of megabytes"));
    let directory = std::env::temp_dir().join(format!("pelton-decode-speed-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the files");
    let csv = directory.join("t.csv");
    generate(&csv, megabytes << 20);
    let schema = schema();
    let json = convert(&csv, &schema, &directory.join("t.json"));
    let parquet = convert(&csv, &schema, &directory.join("t.parquet"));
    compare(&csv, &schema, arrow_csv_rows);
    compare(&json, &schema, arrow_json_rows);
    compare(&parquet, &schema, arrow_parquet_rows);
    std::fs::remove_dir_all(&directory).expect("the files can be removed again");
}

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("time", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("user", DataType::Int64, true),
        Field::new("count", DataType::Int32, true),
        Field::new("price", DataType::Float64, true),
        Field::new("symbol", DataType::Utf8View, true),
        Field::new("comment", DataType::Utf8View, true),
    ])
}

/// Rows of all the usual kinds of columns, from a simple generator.
fn generate(path: &Path, bytes: usize) {
    let mut out = std::io::BufWriter::new(File::create(path).expect("a file for the rows"));
    let mut state = 42u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut written = 0;
    let mut second = 0;
    while written < bytes {
        second += next(2);
        let (day, hour, minute) = (1 + second / 86_400 % 28, second / 3_600 % 24, second / 60 % 60);
        let line = format!(
            "2013-01-{day:02} {hour:02}:{minute:02}:{:02}.{:03},{},{},{}.{:02},{},comment number {}\n",
            second % 60,
            next(1000),
            next(10_000_000_000),
            next(1000),
            next(500),
            next(100),
            ["SPY", "AIG", "BAC", "IBM"][next(4) as usize],
            next(1_000_000)
        );
        out.write_all(line.as_bytes()).expect("room for the rows");
        written += line.len();
    }
    out.flush().expect("room for the rows");
}

fn request(path: &Path, schema: &Schema) -> TableRequest {
    let options = [("connector", "filesystem"), ("path", path.to_str().expect("a readable path"))];
    TableRequest {
        name: "t".into(),
        schema: Arc::new(schema.clone()),
        columns: (0..schema.fields().len()).collect(),
        metadata: BTreeMap::new(),
        options: options.map(|(name, value)| (name.to_string(), value.to_string())).into(),
        event_time: None,
        block_rows: BATCH_ROWS,
        seed: 0,
    }
}

/// Writes the rows of a CSV file in another format.
fn convert(from: &Path, schema: &Schema, to: &Path) -> std::path::PathBuf {
    if to.extension().is_some_and(|extension| extension == "parquet") {
        let file = File::create(to).expect("a file for the rows");
        let properties =
            parquet::file::properties::WriterProperties::builder().set_max_row_group_row_count(Some(128 << 10)).build();
        let mut writer = ArrowWriter::try_new(file, Arc::new(schema.clone()), Some(properties)).expect("a writer");
        each_batch(from, schema, |batch| writer.write(&batch).expect("room for the rows"));
        writer.close().expect("room for the rows");
    } else {
        let mut sink = open_sink(&request(to, schema)).expect("a sink");
        each_batch(from, schema, |batch| sink.write(&batch).expect("room for the rows"));
        sink.finish().expect("room for the rows");
    }
    to.to_path_buf()
}

fn each_batch(path: &Path, schema: &Schema, mut take: impl FnMut(arrow::array::RecordBatch)) {
    let mut source = open_source(&request(path, schema)).expect("a source");
    while let Read::Chunk(chunk) = source.read(0).expect("readable rows") {
        let Rows::Batch(batch) = chunk().expect("decodable rows").rows else { panic!("files are not replayed") };
        take(batch);
    }
}

/// Rows that so many threads decode.
fn pelton_rows(path: &Path, schema: &Schema, threads: usize) -> usize {
    let source = Mutex::new(open_source(&request(path, schema)).expect("a source"));
    let rows = || {
        let mut rows = 0;
        loop {
            let read = source.lock().expect("no reader panics").read(0).expect("readable rows");
            let Read::Chunk(chunk) = read else { return rows };
            let Rows::Batch(batch) = chunk().expect("decodable rows").rows else { panic!("files are not replayed") };
            rows += batch.num_rows();
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(rows)).collect();
        rows() + others.into_iter().map(|thread| thread.join().expect("no decoder panics")).sum::<usize>()
    })
}

/// Strings in the form that the reader has natively.
fn with_plain_strings(schema: &Schema) -> Arc<Schema> {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8View => Field::new(field.name(), DataType::Utf8, true),
        _ => Field::clone(field),
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

fn arrow_csv_rows(path: &Path, schema: &Schema) -> usize {
    let file = BufReader::with_capacity(512 << 10, File::open(path).expect("a file"));
    let reader = arrow_csv::ReaderBuilder::new(with_plain_strings(schema)).with_batch_size(BATCH_ROWS);
    let reader = reader.build_buffered(file).expect("a reader");
    reader.map(|batch| batch.expect("decodable rows").num_rows()).sum()
}

fn arrow_json_rows(path: &Path, schema: &Schema) -> usize {
    let file = BufReader::with_capacity(512 << 10, File::open(path).expect("a file"));
    let reader = arrow_json::ReaderBuilder::new(with_plain_strings(schema)).with_batch_size(BATCH_ROWS);
    reader.build(file).expect("a reader").map(|batch| batch.expect("decodable rows").num_rows()).sum()
}

fn arrow_parquet_rows(path: &Path, _schema: &Schema) -> usize {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).expect("a file")).expect("a reader");
    let reader = reader.with_batch_size(BATCH_ROWS).build().expect("a reader");
    reader.map(|batch| batch.expect("decodable rows").num_rows()).sum()
}

/// Runs the readers in alternation, and prints medians.
fn compare(path: &Path, schema: &Schema, reference: impl Fn(&Path, &Schema) -> usize) {
    let mut seconds = [const { Vec::new() }; 3];
    for _ in 0..REPEATS {
        let mut rows = [0; 3];
        for (case, (seconds, rows)) in seconds.iter_mut().zip(&mut rows).enumerate() {
            let start = Instant::now();
            *rows = if case == 0 { reference(path, schema) } else { pelton_rows(path, schema, case) };
            seconds.push(start.elapsed().as_secs_f64());
        }
        assert!(rows[0] == rows[1] && rows[1] == rows[2], "the readers disagree: {rows:?}");
    }
    let median = |mut seconds: Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    };
    let bytes = std::fs::metadata(path).expect("a file").len() as f64;
    let [reference, one, two] = seconds.map(median);
    println!(
        "{}: arrow {:.0} MB/s, pelton {:.0} MB/s ({:.2} x), two threads {:.0} MB/s ({:.2} x one)",
        path.extension().map_or("".into(), |extension| extension.to_string_lossy()),
        bytes / reference / 1e6,
        bytes / one / 1e6,
        reference / one,
        bytes / two / 1e6,
        one / two
    );
}
