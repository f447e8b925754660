//! Parquet files whose values are not what their columns say.

mod support;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::data_type::{ByteArray, ByteArrayType, Int96, Int96Type};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use support::{Directory, Table, options, read, request, rows, schema};

/// Writes columns of bytes, and one of INT96 times by day since 1970 and nanosecond of the day.
fn write(path: &Path, message: &str, texts: &[&[u8]], times: &[(i32, i64)], properties: WriterPropertiesBuilder) {
    let schema = Arc::new(parse_message_type(message).unwrap());
    let mut file =
        SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::new(properties.build())).unwrap();
    let mut group = file.next_row_group().unwrap();
    while let Some(mut column) = group.next_column().unwrap() {
        if let parquet::column::writer::ColumnWriter::Int96ColumnWriter(_) = column.untyped() {
            let time = |&(day, nanos): &(i32, i64)| {
                let mut time = Int96::new();
                time.set_data(nanos as u32, (nanos >> 32) as u32, (day + 2_440_588) as u32);
                time
            };
            let times: Vec<Int96> = times.iter().map(time).collect();
            column.typed::<Int96Type>().write_batch(&times, None, None).unwrap();
        } else {
            let values: Vec<ByteArray> = texts.iter().map(|text| ByteArray::from(text.to_vec())).collect();
            column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    file.close().unwrap();
}

#[test]
fn bytes_that_are_not_utf8_are_no_string() {
    let directory = Directory::new();
    let path = directory.path().join("t.parquet");
    let texts: [&[u8]; 6] =
        [b"plain", b"x\xff\xfe", "é, and more than twelve bytes".as_bytes(), b"", b"thirteen bytes \xc3", b"last"];
    let plain = || WriterProperties::builder().set_dictionary_enabled(false);
    let encodings = [
        WriterProperties::builder(),
        plain().set_encoding(Encoding::PLAIN),
        plain().set_encoding(Encoding::DELTA_LENGTH_BYTE_ARRAY),
        plain().set_encoding(Encoding::DELTA_BYTE_ARRAY),
    ];
    for annotation in ["", "(UTF8)", "(STRING)", "(JSON)", "(ENUM)", "(BSON)"] {
        for properties in &encodings {
            write(&path, &format!("message m {{ required binary s {annotation}; }}"), &texts, &[], properties.clone());
            let table = |pairs: &[&str]| -> Result<Table, String> {
                let path = path.to_str().unwrap();
                read(&request(schema("s STRING"), options(path, pairs))).map_err(|error| error.replace(path, "FILE"))
            };
            let Err(message) = table(&[]) else { panic!("{annotation}: there are bytes that are no string") };
            assert_eq!(message, "FILE, row 2, column 's': 'x\u{fffd}\u{fffd}' is not valid UTF-8", "{annotation}");
            let skipped = table(&["on-error=skip"]).unwrap();
            assert_eq!(rows(&skipped.rows), ["plain", "é, and more than twelve bytes", "", "last"], "{annotation}");
            assert_eq!(skipped.rejected.count, 2);
            let message = skipped.rejected.first[1].error.to_string();
            assert!(message.ends_with("row 5, column 's': 'thirteen bytes \u{fffd}' is not valid UTF-8"), "{message}");
        }
    }
    // Bytes can be read as bytes.
    write(&path, "message m { required binary s; }", &texts, &[], WriterProperties::builder());
    let declared = pelton_connectors::declared(&options(path.to_str().unwrap(), &[]));
    assert_eq!(declared.unwrap().unwrap().schema.field(0).data_type(), &arrow::datatypes::DataType::BinaryView);
}

#[test]
fn int96_times_have_the_right_value_or_none() {
    let directory = Directory::new();
    let path = directory.path().join("t.parquet");
    // 9999-12-31, 0001-01-01, 1677-09-21 and 2262-04-12, beside what fits nanoseconds; and a day no TIMESTAMP(6) has.
    let times = [
        (2_932_896, 86_399_999_999_999),
        (-719_162, 0),
        (-106_752, 1),
        (106_752, 0),
        (0, 1_999_999),
        (-1, 86_399_999_999_999),
    ];
    let far = (2_000_000_000, 0);
    write(&path, "message m { required int96 t; }", &[], &[&times[..], &[far]].concat(), WriterProperties::builder());
    let table = |columns: &str, pairs: &[&str]| {
        let path = path.to_str().unwrap();
        read(&request(schema(columns), options(path, pairs))).map_err(|error| error.replace(path, "FILE"))
    };
    let skipped = |columns: &str| {
        let table = table(columns, &["on-error=skip"]).unwrap();
        (rows(&table.rows.slice(0, 6)), table.rejected.count)
    };
    let micros = [
        "9999-12-31T23:59:59.999999",
        "0001-01-01T00:00:00",
        "1677-09-21T00:00:00",
        "2262-04-12T00:00:00",
        "1970-01-01T00:00:00.001999",
        "1969-12-31T23:59:59.999999",
    ];
    assert_eq!(skipped("t TIMESTAMP(6)"), (micros.map(str::to_owned).to_vec(), 1));
    assert_eq!(skipped("t TIMESTAMP_LTZ(6)"), (micros.map(|time| format!("{time}Z")).to_vec(), 1));
    let millis = [
        "9999-12-31T23:59:59.999",
        "0001-01-01T00:00:00",
        "1677-09-21T00:00:00",
        "2262-04-12T00:00:00",
        "1970-01-01T00:00:00.001",
        "1969-12-31T23:59:59.999",
    ];
    assert_eq!(skipped("t TIMESTAMP(3)"), (millis.map(str::to_owned).to_vec(), 0));
    let seconds = millis.map(|time| time.split('.').next().unwrap().to_owned());
    assert_eq!(skipped("t TIMESTAMP(0)"), (seconds.to_vec(), 0));
    let Err(message) = table("t TIMESTAMP(6)", &[]) else { panic!("it fits no 64 bits of microseconds") };
    assert_eq!(message, "FILE, row 7, column 't': '0 ns of Julian day 2002440588' does not fit TIMESTAMP(6)");
}
