//! Which files a path names, what is known about them, and what their columns are.

mod support;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::DataType;
use pelton_connectors::{declared, is_bounded, open_sink, open_source};
use pelton_runtime::source::{Decoded, Read, Source};
use support::{Directory, options, read, request, rows, schema};

fn lines(path: &str, pairs: &[&str]) -> Result<Vec<String>, String> {
    read(&request(schema("a STRING"), options(path, pairs))).map(|table| rows(&table.rows))
}

#[test]
fn a_path_is_a_file_a_directory_or_a_glob() {
    let directory = Directory::new();
    let root = directory.path().to_str().unwrap().to_string();
    directory.file("b/2.csv", "b2\n");
    directory.file("b/1.csv", "b1\n");
    let file = directory.file("a.csv", "a\n");
    directory.file("_SUCCESS", "success\n");
    directory.file(".part.inprogress", "part\n");
    directory.file("b/_tmp/3.csv", "b3\n");
    directory.file("b/.2.csv", "no\n");
    directory.file("b/none.csv", "");
    assert_eq!(lines(&file, &[]).unwrap(), ["a"]);
    assert_eq!(lines(&format!("file://{file}"), &[]).unwrap(), ["a"]);
    assert_eq!(lines(&root, &[]).unwrap(), ["a", "b1", "b2"]);
    assert_eq!(lines(&format!("{root}/b/[12].csv"), &[]).unwrap(), ["b1", "b2"]);
    assert_eq!(lines(&format!("{root}/*"), &["format=csv"]).unwrap(), ["a", "b1", "b2"]);
    assert_eq!(lines(&format!("{root}/**/*.csv"), &[]).unwrap(), ["a", "b1", "b2"]);
    // Hidden names are read where they are asked for.
    assert_eq!(lines(&format!("{root}/_*"), &["format=csv"]).unwrap(), ["success"]);
    assert_eq!(lines(&format!("{root}/.p*"), &["format=csv"]).unwrap(), ["part"]);
    assert_eq!(lines(&format!("{root}/b/_t*/?.csv"), &[]).unwrap(), ["b3"]);
    assert_eq!(lines(&format!("{root}/**/_tmp/*.csv"), &[]).unwrap(), ["b3"]);
    let empty = directory.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert_eq!(lines(empty.to_str().unwrap(), &["format=csv"]).unwrap(), [""; 0]);
    let message = |path: &str, pairs: &[&str]| lines(path, pairs).unwrap_err().replace(&root, "ROOT");
    assert_eq!(message(&format!("{root}/x.csv"), &[]), "ROOT/x.csv: no such file or directory");
    assert_eq!(message(&format!("{root}/x*.csv"), &[]), "ROOT/x*.csv: no file matches");
    assert_eq!(message(&format!("{root}/b/*/3.csv"), &[]), "ROOT/b/*/3.csv: no file matches");
    assert_eq!(
        message("gs://bucket/x.csv", &[]),
        "option 'path' has the scheme 'gs'; only file:// and s3:// are supported"
    );
    #[cfg(not(feature = "s3"))]
    assert_eq!(
        message("s3://bucket/x.csv", &[]),
        "option 'path' has the scheme 's3', which this program was built without: build it with the feature 's3'"
    );
    assert_eq!(
        message(empty.to_str().unwrap(), &[]),
        "option 'format' is missing, and no file name tells it: add 'format' = 'csv', 'json', 'parquet', 'avro' or 'raw'"
    );
    directory.file("c.json", "{}\n");
    assert_eq!(
        message(&root, &[]),
        "option 'format' is missing, and the name of ROOT/c.json does not tell the same as the others"
    );
}

#[test]
fn a_damaged_file_is_named_with_the_rows_that_are_lost() {
    let directory = Directory::new();
    let columns: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..400_000).map(|row| format!("row {row}"))));
    let batch = RecordBatch::try_new(Arc::new(schema("a STRING")), vec![columns]).unwrap();
    let damaged = |name: &str, damage: fn(&mut Vec<u8>)| {
        let path = directory.path().join(name);
        let request = request(schema("a STRING"), options(path.to_str().unwrap(), &[]));
        let mut sink = open_sink(&request).unwrap();
        sink.write(&batch).unwrap();
        sink.finish().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        damage(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        let Err(message) = read(&request) else { panic!("{name} is damaged") };
        message.replace(directory.path().to_str().unwrap(), "DIR")
    };
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2);
    for name in ["t.csv.gz", "t.json.gz", "t.csv.zst"] {
        let message = damaged(name, cut);
        let (before, after) = message.split_once(" on are not there: cannot be decompressed: ").expect(&message);
        let first_row = before.strip_prefix(&format!("DIR/{name}: the rows from ")).expect(&message);
        // Rows before it were read.
        assert!((2..240_000).contains(&first_row.parse::<u64>().expect(&message)), "{message}");
        assert!(after.ends_with("; it is damaged, cut off, or not compressed as its name says"), "{message}");
    }
    let message = damaged("t.parquet", cut);
    assert!(message.starts_with("DIR/t.parquet: is not a Parquet file, or is damaged: "), "{message}");
    let message = damaged("u.parquet", |bytes| bytes[4..64].fill(0xff));
    assert!(
        message.starts_with("DIR/u.parquet: the rows from 1 on cannot be decoded, the file is damaged: "),
        "{message}"
    );
}

#[test]
fn a_file_that_the_system_does_not_deliver_is_not_called_damaged() {
    let directory = Directory::new();
    let columns: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..400_000).map(|row| format!("row {row}"))));
    let batch = RecordBatch::try_new(Arc::new(schema("a STRING")), vec![columns]).unwrap();
    let path = directory.path().join("t.parquet");
    let request = request(schema("a STRING"), options(path.to_str().unwrap(), &[]));
    let opened = || {
        let mut sink = open_sink(&request).unwrap();
        sink.write(&batch).unwrap();
        sink.finish().unwrap();
        open_source(&request).unwrap()
    };
    let next = |source: &mut Box<dyn Source>| {
        let Read::Chunk(chunk) = source.read(0).map_err(|error| error.to_string())? else { panic!("rows are left") };
        chunk().map_err(|error| error.to_string())
    };
    let message = |result: Result<Decoded, String>| {
        let Err(message) = result else { panic!("rows that are not there") };
        message.replace(directory.path().to_str().unwrap(), "DIR")
    };
    let mut source = opened();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(message(next(&mut source)), "DIR/t.parquet: no such file or directory");

    // A directory can be opened as a file, and not be read.
    let mut source = opened();
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(message(next(&mut source)), "DIR/t.parquet: Is a directory (os error 21)");
}

#[test]
fn options_that_make_no_sense_are_named() {
    let directory = Directory::new();
    let path = directory.file("t.csv", "1\n");
    for (pairs, message) in [
        (
            &["format=cvs"][..],
            "option 'format' must be 'csv', 'json', 'parquet', 'avro' or 'raw', not 'cvs'; did you mean 'csv'?",
        ),
        (&["csv.field-delimiter=ab"], "option 'csv.field-delimiter' must be a single character, not 'ab'"),
        (
            &["csv.field-delimiter=\""],
            "option 'csv.quote-character' cannot be the same character as 'csv.field-delimiter'",
        ),
        (&["csv.quote-character=“"], "option 'csv.quote-character' must be an ASCII character, not '“'"),
        (&["csv.field-delimiter=\\n"], "option 'csv.field-delimiter' cannot be a line end"),
        (
            &["csv.disable-quote-character=true", "csv.quote-character='"],
            "option 'csv.quote-character' cannot be given together with 'csv.disable-quote-character' = 'true'",
        ),
        (&["csv.header=yes"], "option 'csv.header' must be 'true' or 'false', not 'yes'"),
        (&["on-error=ignore"], "option 'on-error' must be 'fail' or 'skip', not 'ignore'"),
        (&["source.monitor-interval=0"], "option 'source.monitor-interval' must be longer than 0"),
        (
            &["source.path.regex-pattern=a("],
            "option 'source.path.regex-pattern' must be a regular expression, not 'a(': unclosed group",
        ),
    ] {
        assert_eq!(lines(&path, pairs).unwrap_err(), message);
    }
    let message = lines(&path, &["csv.heder=true"]).unwrap_err();
    assert_eq!(message, "unknown option 'csv.heder'; did you mean 'csv.header'?");
    let message = lines(&path, &["format=json", "csv.header=true"]).unwrap_err();
    assert_eq!(message, "option 'csv.header' has no effect on this table; leave it out");
    let mut missing = options(&path, &[]);
    missing.remove("path");
    let message = open_source(&request(schema("a STRING"), missing)).err().unwrap().to_string();
    assert_eq!(message, "option 'path' is missing: add 'path' = '/data/trades.csv'");
    assert_eq!(is_bounded(&options(&path, &[])), Ok(true));
    assert_eq!(is_bounded(&options(&path, &["source.monitor-interval=1 s"])), Ok(false));
}

#[test]
fn metadata_columns() {
    let directory = Directory::new();
    let path = directory.file("t.csv", "1\n2\n");
    let columns = "p STRING, a INT, n STRING, s BIGINT NOT NULL, m TIMESTAMP_LTZ(3)";
    let mut request = request(schema(columns), options(&path, &[]));
    request.metadata = [(0, "file.path"), (2, "file.name"), (3, "file.size"), (4, "file.modification-time")]
        .map(|(column, key)| (column, key.to_string()))
        .into();
    request.columns = vec![0, 1, 2, 3];
    let expected = [format!("{path}|1|t.csv|4"), format!("{path}|2|t.csv|4")];
    assert_eq!(rows(&read(&request).unwrap().rows), expected);
    request.columns = vec![4];
    let modified = &rows(&read(&request).unwrap().rows)[0];
    assert!(modified.starts_with("20") && modified.ends_with('Z'), "{modified}");
    request.metadata.insert(2, "file.nmae".into());
    let message = read(&request).err().unwrap();
    assert_eq!(
        message,
        "column 'n' asks for the metadata 'file.nmae', which files do not have; did you mean 'file.name'?"
    );
    request.metadata.insert(2, "file.size".into());
    let message = read(&request).err().unwrap();
    assert_eq!(message, "column 'n' must be declared BIGINT, the type of the metadata 'file.size'");
}

#[test]
fn tables_without_columns_take_those_of_their_files() {
    let directory = Directory::new();
    let shown = |path: &str, pairs: &[&str]| {
        let schema = declared(&options(path, pairs)).unwrap().map(|declared| declared.schema);
        schema.map(|schema| {
            let column = |field: &std::sync::Arc<arrow::datatypes::Field>| {
                format!("{} {}", field.name(), pelton_data::column::sql_name(field.data_type()))
            };
            schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
        })
    };
    let content = "a,b,c,d,e,f,g,h\n\
        1,0.5,true,x,2013-01-31,2013-01-31 08:15:00,2013-01-31T08:15:00.123456Z,\n\
        ,2,,7,,,,\n";
    let path = directory.file("t.csv", content);
    let columns = "a BIGINT, b DOUBLE, c BOOLEAN, d STRING, e DATE, f TIMESTAMP(3), g TIMESTAMP_LTZ(6), h STRING";
    for pairs in [&[][..], &["csv.header=true"], &["csv.ignore-first-line=true"]] {
        assert_eq!(shown(&path, pairs).unwrap(), columns);
    }
    let found = declared(&options(&path, &[])).unwrap().unwrap().options;
    let told = [("csv.ignore-first-line", "true"), ("format", "csv")];
    assert!(found.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(told), "{found:?}");
    let path =
        directory.file("t.json", "{\"a\":1,\"b\":\"1\"}\n{\"c\":{\"d\":1},\"a\":2.5,\"t\":\"2013-01-31T08:15:00Z\"}\n");
    assert_eq!(shown(&path, &[]).unwrap(), "a DOUBLE, b STRING, c ROW<`d` BIGINT>, t TIMESTAMP_LTZ(3)");
}

#[test]
fn columns_of_json_are_inferred_up_to_a_limit() {
    const COLUMNS_MAX: usize = 4_096;
    let directory = Directory::new();
    let fresh = |count: usize| {
        let lines = (0..count).map(|line| format!("{{\"k{line}\":{}}}\n", if line % 2 == 0 { "1" } else { "\"x\"" }));
        directory.file("t.json", lines.collect::<String>())
    };
    let declared = |path: &str| declared(&options(path, &[])).map(|declared| declared.unwrap().schema);
    let most = declared(&fresh(COLUMNS_MAX)).unwrap();
    assert_eq!(most.fields().len(), COLUMNS_MAX);
    for (at, data_type) in [(0, DataType::Int64), (1, DataType::Utf8View), (4_095, DataType::Utf8View)] {
        assert_eq!((most.field(at).name(), most.field(at).data_type()), (&format!("k{at}"), &data_type));
    }
    for count in [COLUMNS_MAX + 1, 20_480] {
        let path = fresh(count);
        let message = declared(&path).unwrap_err().to_string().replace(&path, "FILE");
        let problem = "has more than 4096 different members in its first rows: name its columns and their types";
        assert_eq!(message, format!("FILE: {problem}"));
    }
}

#[test]
fn types_of_json_are_those_of_all_first_rows() {
    let directory = Directory::new();
    // More rows than are split at once, and more columns than are compared one by one.
    let mut lines: Vec<String> = (0..3_000).map(|line| format!("{{\"k{}\":1,\"a\":1}}\n", line % 40)).collect();
    lines[2_500] = "{\"k7\":\"x\",\"a\":1.5}\n".into();
    let path = directory.file("t.json", lines.concat());
    let found = declared(&options(&path, &[])).unwrap().unwrap().schema;
    let data_type = |name: &str| found.field_with_name(name).unwrap().data_type().clone();
    assert_eq!(found.fields().len(), 41);
    assert_eq!(data_type("a"), DataType::Float64);
    assert_eq!(data_type("k7"), DataType::Utf8View);
    assert_eq!(data_type("k39"), DataType::Int64);
}
