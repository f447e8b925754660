//! Avro files.

mod support;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use pelton_connectors::{TableRequest, declared, open_sink, open_source};
use pelton_runtime::source::Read;
use support::{Directory, options, read, request, rows, schema};

const COLUMNS: &str = "n BIGINT NOT NULL, s STRING, ts TIMESTAMP(3)";

fn batch(first: i64, count: i64) -> RecordBatch {
    let numbers = first..first + count;
    let columns: [ArrayRef; 3] = [
        Arc::new(Int64Array::from_iter_values(numbers.clone())),
        Arc::new(StringViewArray::from_iter(numbers.clone().map(|n| (n % 3 > 0).then(|| format!("row {n}"))))),
        Arc::new(TimestampMillisecondArray::from_iter_values(numbers)),
    ];
    RecordBatch::try_new(Arc::new(schema(COLUMNS)), columns.into()).unwrap()
}

/// A table of a file with so many batches of a thousand rows.
fn written(directory: &Directory, name: &str, pairs: &[&str], batches: i64) -> TableRequest {
    let path = directory.path().join(name);
    let table = request(schema(COLUMNS), options(path.to_str().unwrap(), pairs));
    let mut sink = open_sink(&table).unwrap();
    for number in 0..batches {
        sink.write(&batch(number * 1_000, 1_000)).unwrap();
    }
    sink.finish().unwrap();
    table
}

#[test]
fn what_is_written_is_read() {
    for codec in ["null", "deflate", "snappy", "zstandard"] {
        let directory = Directory::new();
        let table = written(&directory, "t.avro", &[&format!("avro.codec={codec}")], 3);
        let found = rows(&read(&table).unwrap().rows);
        assert_eq!(found.len(), 3_000, "{codec}");
        assert_eq!(found[..2], ["0|NULL|1970-01-01T00:00:00", "1|row 1|1970-01-01T00:00:00.001"]);
        assert_eq!(found[2_999], "2999|row 2999|1970-01-01T00:00:02.999");
        // One column, and none.
        let one = TableRequest { columns: vec![1], ..table.clone() };
        assert_eq!(rows(&read(&one).unwrap().rows)[2], "row 2");
        let none = TableRequest { columns: vec![], ..table.clone() };
        assert_eq!(read(&none).unwrap().rows.num_rows(), 3_000);
        let told = declared(&table.options).unwrap().unwrap().schema;
        let told: Vec<String> = told
            .fields()
            .iter()
            .map(|field| format!("{} {}", field.name(), pelton_data::column::sql_name(field.data_type())))
            .collect();
        assert_eq!(told, ["n BIGINT", "s STRING", "ts TIMESTAMP_LTZ(3)"]);
    }
}

#[test]
fn reading_goes_on_between_blocks() {
    let directory = Directory::new();
    // So many that they are read in several chunks.
    let table = written(&directory, "t.avro", &["avro.codec=null"], 60);
    let mut source = open_source(&table).unwrap();
    let Read::Chunk(first) = source.read(0).unwrap() else { panic!("there are rows") };
    let before: usize = first().unwrap().rows.into_batches().iter().map(RecordBatch::num_rows).sum();
    let position = source.position(0).unwrap();
    assert_eq!(position.row, before as u64);
    assert!(before < 60_000, "{before} rows are one chunk");
    let mut later = open_source(&table).unwrap();
    let name = source.partition_name(0).into_owned();
    assert!(later.resume(&name, Some(position)));
    let (mut rows, mut first_row) = (0, None);
    while let Read::Chunk(chunk) = later.read(0).unwrap() {
        let decoded = chunk().unwrap();
        first_row.get_or_insert(decoded.provenance.unwrap().first_row);
        rows += decoded.rows.into_batches().iter().map(RecordBatch::num_rows).sum::<usize>();
    }
    assert_eq!((first_row, rows), (Some(before as u64 + 1), 60_000 - before));
}

#[test]
fn what_is_wrong_is_named() {
    let directory = Directory::new();
    let table = written(&directory, "t.avro", &["avro.codec=null"], 3);
    let path = directory.path().join("t.avro");
    let message = |table: &TableRequest| {
        let Err(message) = read(table) else { panic!("something is wrong") };
        message.replace(directory.path().to_str().unwrap(), "DIR")
    };
    let with = |columns: &str| TableRequest { schema: Arc::new(schema(columns)), columns: vec![0], ..table.clone() };
    assert_eq!(message(&with("m BIGINT")), "DIR/t.avro: column 'm' is not in DIR/t.avro, which has n, s, ts");
    let wrong = "DIR/t.avro: column 's' is of type STRING in DIR/t.avro, which cannot be read as BIGINT";
    assert_eq!(message(&with("s BIGINT")), wrong);
    // Rows whose values the table does not hold.
    let small = with("n TINYINT");
    assert_eq!(message(&small), "DIR/t.avro, row 129, column 'n': '128' does not fit TINYINT (-128 to 127)");
    let mut skipping = small.clone();
    skipping.options.insert("on-error".into(), "skip".into());
    let found = read(&skipping).unwrap();
    assert_eq!((found.rows.num_rows(), found.rejected.count), (128, 2_872));
    assert_eq!(
        open_sink(&table).err().unwrap().to_string().replace(directory.path().to_str().unwrap(), "DIR"),
        "DIR/t.avro: is there already, and an Avro file cannot grow; remove it, or name a directory, which gets a file for each INSERT"
    );
    let bytes = std::fs::read(&path).unwrap();
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        message(&table)
    };
    let cut_off = damaged(&|bytes| bytes.truncate(bytes.len() - 10));
    assert_eq!(cut_off, "DIR/t.avro: the rows from 2001 on are not there: its last block is cut off");
    let header = damaged(&|bytes| bytes.truncate(20));
    assert_eq!(header, "DIR/t.avro: is not an Avro file, or is damaged: its header is cut off");
    let text = damaged(&|bytes| *bytes = b"a,b\n1,2\n".to_vec());
    assert_eq!(text, "DIR/t.avro: is not an Avro file, or is damaged: it does not begin as one");
}
