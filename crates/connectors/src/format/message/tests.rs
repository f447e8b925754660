//! What is encoded is decoded again, and what is wrong is named.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use arrow::array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array, ListArray,
    RecordBatch, StringViewArray, StructArray, TimestampMicrosecondArray, TimestampMillisecondArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Schema};
use pelton_runtime::source::SourceError;
use prost::Message as _;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};

use super::{MessageFormat, Payloads, Side};
use crate::options::Options;

fn format(options: &[(&str, &str)]) -> MessageFormat {
    let options = options.iter().chain(&[("connector", "kafka")]);
    let options: BTreeMap<String, String> = options.map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let options = Options::new(&options);
    MessageFormat::of(&options, Side::Value, false).unwrap().expect("the options name a format")
}

fn encoded(format: &MessageFormat, batch: &RecordBatch) -> Vec<Vec<u8>> {
    let mut encoder = format.encoder(batch.schema_ref(), "topic-value".to_owned()).unwrap();
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    encoder.encode(batch, &mut bytes, &mut ends).unwrap();
    let starts = [0].into_iter().chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, &end)| bytes[start..end].to_vec()).collect()
}

fn payloads(format: &MessageFormat, messages: &[Vec<u8>]) -> Payloads {
    let mut payloads = Payloads::new(format.framing());
    messages.iter().for_each(|message| payloads.push(message));
    payloads
}

/// The columns of messages, all of which are right.
fn decoded(format: &MessageFormat, schema: &Arc<Schema>, wanted: &[usize], messages: &[Vec<u8>]) -> RecordBatch {
    let decoder = format.decoder(schema, wanted, "place").unwrap();
    let decoded = decoder.decode(payloads(format, messages)).unwrap();
    assert_eq!(decoded.left_out.rejected.count, 0);
    decoded.into_batch(&Arc::new(schema.project(wanted).unwrap())).unwrap()
}

fn round(format: &MessageFormat, batch: &RecordBatch) {
    let messages = encoded(format, batch);
    assert_eq!(messages.len(), batch.num_rows());
    let schema = batch.schema();
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    assert_eq!(decoded(format, &schema, &all, &messages), *batch);
    // Some columns in another order, and none at all.
    assert_eq!(decoded(format, &schema, &[1, 0], &messages), batch.project(&[1, 0]).unwrap());
    assert_eq!(decoded(format, &schema, &[], &messages).num_rows(), batch.num_rows());
}

fn simple() -> RecordBatch {
    let columns: [(&str, ArrayRef, bool); 6] = [
        ("id", Arc::new(Int32Array::from(vec![1, -2, 3])), false),
        (
            "text",
            Arc::new(StringViewArray::from(vec![Some("ab"), None, Some("a text that is longer than a view")])),
            true,
        ),
        ("big", Arc::new(Int64Array::from(vec![Some(i64::MAX), None, Some(i64::MIN)])), true),
        ("ratio", Arc::new(Float64Array::from(vec![None, Some(0.5), Some(-1e300)])), true),
        ("yes", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])), true),
        ("parts", parts(), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// An array of rows.
fn parts() -> ArrayRef {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let row = StructArray::from(vec![(Arc::new(Field::new("n", DataType::Int64, true)), numbers)]);
    let element = Arc::new(Field::new("element", row.data_type().clone(), false));
    let offsets = OffsetBuffer::from_lengths([2, 0, 1]);
    Arc::new(ListArray::new(element, offsets, Arc::new(row), None))
}

#[test]
fn text_and_changes_are_read_as_they_are_written() {
    round(&format(&[("format", "json")]), &simple());
    round(&format(&[("value.format", "debezium-json")]), &simple());
    round(&format(&[("format", "csv")]), &simple().project(&[0, 4]).unwrap());
    let changes = encoded(&format(&[("format", "debezium-json")]), &simple().project(&[0, 1]).unwrap());
    assert_eq!(changes[1], br#"{"before":null,"after":{"id":-2,"text":null},"op":"c"}"#);
}

#[test]
fn avro_has_the_bytes_that_flink_has() {
    let avro = format(&[("format", "avro")]);
    round(&avro, &simple());
    let first = &encoded(&avro, &simple().project(&[0, 1]).unwrap())[..2];
    // A zigzag number, the second of the union with null and a string; then the first of it.
    assert_eq!(first, [vec![2, 2, 4, b'a', b'b'], vec![3, 0]]);
    let millis = vec![Some(1_700_000_000_123), None];
    let micros = vec![Some(1_700_000_000_123_456), None];
    let local: ArrayRef = Arc::new(TimestampMillisecondArray::from(millis.clone()));
    let zoned: ArrayRef = Arc::new(TimestampMicrosecondArray::from(micros).with_timezone("+00:00"));
    let price = Decimal128Array::from(vec![Some(-12_345), None]).with_precision_and_scale(10, 2).unwrap();
    let bytes: ArrayRef = Arc::new(BinaryViewArray::from(vec![Some(b"\x00\xff".as_slice()), None]));
    let columns = [("local", local), ("zoned", zoned), ("price", Arc::new(price) as ArrayRef), ("bytes", bytes)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap();
    round(&avro, &batch);
    round(&format(&[("format", "avro"), ("avro.timestamp_mapping.legacy", "false")]), &batch);
}

/// A schema registry that has no schema at first, for so many requests.
fn registry(requests: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut schemas: Vec<serde_json::Value> = Vec::new();
        for _ in 0..requests {
            let (mut stream, _) = listener.accept().unwrap();
            let mut text = String::new();
            let mut bytes = [0; 4096];
            while !text.contains("\r\n\r\n") || text.starts_with("POST") && !text.ends_with('}') {
                let count = stream.read(&mut bytes).unwrap();
                text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
            }
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let path = head.split(' ').nth(1).unwrap();
            let answer = match path.strip_prefix("/schemas/ids/") {
                Some(number) => match schemas.get(number.parse::<usize>().unwrap() - 1) {
                    Some(schema) => format!("200 OK\r\n\r\n{}", serde_json::json!({ "schema": schema })),
                    None => "404 Not Found\r\n\r\n{}".to_owned(),
                },
                None => {
                    assert_eq!(path, "/subjects/topic-value/versions");
                    let posted: serde_json::Value = serde_json::from_str(body).unwrap();
                    schemas.push(posted["schema"].clone());
                    format!("200 OK\r\n\r\n{{\"id\":{}}}", schemas.len())
                }
            };
            stream.write_all(format!("HTTP/1.1 {answer}").as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn messages_name_schemas_of_a_registry() {
    let url = registry(7);
    let confluent = |on_error| {
        format(&[("format", "avro-confluent"), ("avro-confluent.url", url.as_str()), ("on-error", on_error)])
    };
    let format = confluent("fail");
    let (old, new) = (simple().project(&[0, 1]).unwrap(), simple());
    let mut messages = encoded(&format, &old);
    assert_eq!(messages[1], [0, 0, 0, 0, 1, 3, 0]);
    messages.extend(encoded(&format, &new));
    messages.extend(messages[..1].to_vec());
    // Columns that the older schema lacks are NULL.
    let rows = decoded(&format, &new.schema(), &[0, 2], &messages);
    let expected: [ArrayRef; 2] = [
        Arc::new(Int32Array::from(vec![1, -2, 3, 1, -2, 3, 1])),
        Arc::new(Int64Array::from(vec![None, None, None, Some(i64::MAX), None, Some(i64::MIN), None])),
    ];
    assert_eq!(rows.columns(), expected);
    // What is no such message is left out alone.
    messages[2] = vec![0, 0, 0, 0, 9, 1];
    messages[4] = b"text".to_vec();
    messages[5].pop();
    let decoder = confluent("skip").decoder(&new.schema(), &[0], "place").unwrap();
    let decoded = decoder.decode(payloads(&format, &messages)).unwrap();
    assert_eq!(decoded.kept, Some(vec![true, true, false, true, false, false, true]));
    let problems: Vec<String> = decoded.left_out.rejected.first.iter().map(|row| row.error.to_string()).collect();
    assert!(problems[0].contains("names the schema 9, which the registry does not have"), "{problems:?}");
    assert!(problems[1].contains("is not in Confluent's wire format"), "{problems:?}");
    assert!(problems[2].contains("row 5") && problems[2].contains("is no such Avro record"), "{problems:?}");
}

/// The file of a message as [`simple`] has them.
fn descriptor(path: &std::path::Path) {
    let field = |number: usize, (name, kind): (&str, Type)| FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number as i32 + 1),
        label: Some(if name == "parts" { Label::Repeated } else { Label::Optional }.into()),
        r#type: Some(kind.into()),
        type_name: (kind == Type::Message).then(|| ".shop.Part".to_owned()),
        ..FieldDescriptorProto::default()
    };
    let message = |name: &str, fields: &[(&str, Type)]| DescriptorProto {
        name: Some(name.to_owned()),
        field: fields.iter().copied().enumerate().map(|(number, named)| field(number, named)).collect(),
        ..DescriptorProto::default()
    };
    let simple = [
        ("id", Type::Int32),
        ("text", Type::String),
        ("big", Type::Int64),
        ("ratio", Type::Double),
        ("yes", Type::Bool),
        ("parts", Type::Message),
    ];
    let file = FileDescriptorProto {
        name: Some("shop.proto".to_owned()),
        package: Some("shop".to_owned()),
        message_type: vec![message("Simple", &simple), message("Part", &[("n", Type::Int64)])],
        ..FileDescriptorProto::default()
    };
    std::fs::write(path, FileDescriptorSet { file: vec![file] }.encode_to_vec()).unwrap();
}

#[test]
fn protobuf_has_the_fields_of_its_descriptor() {
    let path = std::env::temp_dir().join(format!("pelton-protobuf-{}.desc", std::process::id()));
    descriptor(&path);
    let file = path.display().to_string();
    let options = [("format", "protobuf"), ("protobuf.descriptor-file", file.as_str())];
    let of = |name| format(&[options[0], options[1], ("protobuf.message-name", name), ("on-error", "fail")]);
    let protobuf = of("shop.Simple");
    round(&protobuf, &simple());
    // Field 1 is the number 1, field 2 the text.
    assert_eq!(encoded(&protobuf, &simple().project(&[0, 1]).unwrap())[0], [8, 1, 18, 2, b'a', b'b']);
    let wrong = |format: &MessageFormat, schema: Schema| match format.decoder(&Arc::new(schema), &[0], "place") {
        Ok(_) => panic!("it does not fit"),
        Err(error) => error.to_string(),
    };
    let number = |name| Schema::new(vec![Field::new(name, DataType::Int64, true)]);
    let error = wrong(&of("shop.Smple"), number("id"));
    assert!(error.ends_with("does not have; did you mean 'shop.Simple'?"), "{error}");
    assert!(wrong(&protobuf, number("ids")).contains("did you mean 'id'?"));
    assert!(wrong(&protobuf, number("id")).contains("has the type BIGINT, and its field in the message is"));
    std::fs::remove_file(&path).unwrap();
    let error = wrong(&of("shop.Simple"), number("big"));
    assert!(error.starts_with("option 'protobuf.descriptor-file' is '"), "{error}");
}

#[test]
fn changes_other_than_inserts_are_refused() {
    let change = |op: &str, after: &str| format!(r#"{{"before": null, "after": {after}, "op": "{op}"}}"#).into_bytes();
    let row = r#"{"id": 1}"#;
    let messages = [change("c", row), change("r", row), change("u", row), change("d", "null"), b"{\"id\": 1}".to_vec()];
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int32, true)]));
    let strict = format(&[("format", "debezium-json")]).decoder(&schema, &[0], "place").unwrap();
    let all = format(&[("format", "debezium-json")]);
    let Err(SourceError::Row { row, value, problem, .. }) = strict.decode(payloads(&all, &messages)) else {
        panic!("there is an update")
    };
    assert_eq!((row, value.as_str()), (2, "u"));
    assert_eq!(problem, "is an update, and only inserts ('c' and 'r') are supported");
    let skipping = format(&[("format", "debezium-json"), ("on-error", "skip")]);
    let decoded = skipping.decoder(&schema, &[0], "place").unwrap().decode(payloads(&all, &messages)).unwrap();
    assert_eq!(decoded.kept, Some(vec![true, true, false, false, false]));
    let wrapped = [format!(r#"{{"schema": {{}}, "payload": {}}}"#, String::from_utf8_lossy(&messages[0])).into_bytes()];
    let with_schema = format(&[("format", "debezium-json"), ("debezium-json.schema-include", "true")]);
    assert_eq!(self::decoded(&with_schema, &schema, &[0], &wrapped).num_rows(), 1);
}
