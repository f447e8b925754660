use std::sync::Arc;

use pelton::arrow::array::{
    ArrayRef, Float32Array, Float64Array, Int32Array, Int64Array, MapArray, StringViewArray, StructArray,
    TimestampMillisecondArray,
};
use pelton::arrow::buffer::OffsetBuffer;
use pelton::arrow::datatypes::{Field, Fields, TimeUnit};

use super::*;

fn zone() -> Zone {
    Zone::named("Europe/Berlin").unwrap()
}

#[test]
fn a_table_shows_times_in_nested_values_as_in_columns() {
    let utc = DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into()));
    let instants = cast(&Int64Array::from(vec![Some(0), None]), &utc).unwrap();
    let times = cast(&Int64Array::from(vec![Some(1_500), None]), &DataType::Timestamp(TimeUnit::Millisecond, None));
    let parts: Fields =
        vec![Field::new("i", utc, true), Field::new("t", times.as_ref().unwrap().data_type().clone(), true)].into();
    let nested = Arc::new(StructArray::new(parts, vec![instants.clone(), times.unwrap()], None)) as ArrayRef;
    let rows = RecordBatch::try_from_iter_with_nullable([("i", instants, true), ("r", nested, true)]).unwrap();
    let printed = |format: Format| {
        let mut out = Vec::new();
        Printer::new(format, rows.schema(), zone()).print(&rows, &mut out).unwrap();
        String::from_utf8(out)
            .unwrap()
            .lines()
            .skip(usize::from(format != Format::Json))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let shown = printed(Format::Table);
    assert_eq!(shown[1], "1970-01-01 01:00:00.000  {i: 1970-01-01 01:00:00.000, t: 1970-01-01 00:00:01.500}");
    assert_eq!(shown[2], "NULL                     {i: NULL, t: NULL}");
    assert!(printed(Format::Csv)[0].starts_with("1970-01-01 00:00:00Z,"), "{:?}", printed(Format::Csv));
    assert!(printed(Format::Json)[0].starts_with("{\"i\":\"1970-01-01T00:00:00Z\","), "{:?}", printed(Format::Json));
}

fn printed(format: Format) -> String {
    let name: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a,b"), None, Some("")]));
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1, 20_000, 3]));
    let rows = RecordBatch::try_from_iter_with_nullable([("name", name, true), ("n", number, false)]).unwrap();
    let mut printer = Printer::new(format, rows.schema(), zone());
    let mut out = Vec::new();
    printer.print(&rows, &mut out).unwrap();
    printer.finish(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn rows_have_three_forms() {
    assert_eq!(printed(Format::Table), "name      n\n────  ─────\na,b       1\nNULL  20000\n          3\n");
    assert_eq!(printed(Format::Csv), "name,n\n\"a,b\",1\n,20000\n\"\",3\n");
    assert_eq!(
        printed(Format::Json),
        "{\"name\":\"a,b\",\"n\":1}\n{\"name\":null,\"n\":20000}\n{\"name\":\"\",\"n\":3}\n"
    );
}

#[test]
fn a_table_grows_with_its_rows_and_keeps_their_alignment() {
    let schema = Arc::new(pelton::arrow::datatypes::Schema::new(vec![
        pelton::arrow::datatypes::Field::new("name", DataType::Utf8View, false),
        pelton::arrow::datatypes::Field::new("n", DataType::Int64, false),
    ]));
    let mut printer = Printer::new(Format::Table, schema.clone(), zone());
    let mut out = Vec::new();
    let long = "x".repeat(61);
    for (name, number) in [("a", 1), ("second", 12345), ("third", 7), (&long, 8)] {
        let columns: Vec<ArrayRef> =
            vec![Arc::new(StringViewArray::from(vec![name])), Arc::new(Int64Array::from(vec![number]))];
        printer.print(&RecordBatch::try_new(schema.clone(), columns).unwrap(), &mut out).unwrap();
    }
    let expected = format!(
        "name  n\n────  ─\na     1\n\
         second       12345\nthird            7\n{long}         8\n"
    );
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn text_in_csv_is_read_as_it_was() {
    let mut line = String::new();
    for (index, text) in ["a b", "a,b", "say \"a\"", "", "a\nb", "a\rb"].into_iter().enumerate() {
        write_csv_field(index, text, &mut line);
    }
    assert_eq!(line, "a b,\"a,b\",\"say \"\"a\"\"\",\"\",\"a\nb\",\"a\rb\"");
}

#[test]
fn what_would_break_a_table_is_escaped_there_alone() {
    let text: ArrayRef = Arc::new(StringViewArray::from(vec!["a\nb", "a\tb\\", "\u{1b}[2Jé"]));
    let rows = RecordBatch::try_from_iter([("t\r", text)]).unwrap();
    let printed = |format| {
        let mut out = Vec::new();
        Printer::new(format, rows.schema(), zone()).print(&rows, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(printed(Format::Table), "t\\r\n──────────\na\\nb\na\\tb\\\n\\u{1b}[2Jé\n");
    assert_eq!(printed(Format::Csv), "\"t\r\"\n\"a\nb\"\na\tb\\\n\u{1b}[2Jé\n");
}

#[test]
fn what_a_statement_says_keeps_its_lines() {
    let text: ArrayRef = Arc::new(StringViewArray::from(vec!["CREATE TABLE t (\n  a INT\t\n)"]));
    let rows = RecordBatch::try_from_iter([("statement", text)]).unwrap();
    let mut out = Vec::new();
    Printer::of_statement(Format::Table, rows.schema(), zone()).print(&rows, &mut out).unwrap();
    let printed = String::from_utf8(out).unwrap();
    assert_eq!(printed, "statement\n────────────────\nCREATE TABLE t (\n  a INT\\t\n)\n");
}

#[test]
fn infinities_in_csv_are_those_of_files() {
    let numbers = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.5];
    let doubles: ArrayRef = Arc::new(Float64Array::from(numbers.to_vec()));
    let floats: ArrayRef = Arc::new(Float32Array::from(numbers.map(|number| number as f32).to_vec()));
    let text: ArrayRef = Arc::new(StringViewArray::from(vec!["inf"; 4]));
    let rows = RecordBatch::try_from_iter([("d", doubles), ("f", floats), ("s", text)]).unwrap();
    let mut out = Vec::new();
    Printer::new(Format::Csv, rows.schema(), zone()).print(&rows, &mut out).unwrap();
    let expected = "d,f,s\nInfinity,Infinity,inf\n-Infinity,-Infinity,inf\nNaN,NaN,inf\n1.5,1.5,inf\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

/// One row of a MAP from `keys` to a NULL.
fn map_of(keys: ArrayRef) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![None]));
    let sides =
        [Field::new("key", keys.data_type().clone(), false), Field::new("value", values.data_type().clone(), true)];
    let sides = Fields::from_iter(sides);
    let entries = StructArray::new(sides.clone(), vec![keys, values], None);
    let field = Arc::new(Field::new("entries", DataType::Struct(sides), false));
    let map: ArrayRef = Arc::new(MapArray::new(field, OffsetBuffer::from_lengths([1]), entries, None, false));
    RecordBatch::try_from_iter([("m", map)]).unwrap()
}

#[test]
fn null_in_nested_values_is_written_out() {
    let printed = |format: Format, rows: &RecordBatch| {
        let mut out = Vec::new();
        let printed =
            Printer::new(format, rows.schema(), zone()).print(rows, &mut out).map_err(|error| error.to_string());
        printed.map(|()| String::from_utf8(out).unwrap())
    };
    let rows = map_of(Arc::new(StringViewArray::from(vec!["k"])));
    assert_eq!(printed(Format::Csv, &rows).unwrap(), "m\n{k: NULL}\n");
    assert_eq!(printed(Format::Json, &rows).unwrap(), "{\"m\":{\"k\":null}}\n");
    // JSON has no other keys than strings.
    let rows = map_of(Arc::new(Int32Array::from(vec![7])));
    assert_eq!(printed(Format::Csv, &rows).unwrap(), "m\n{7: NULL}\n");
    let expected = "column m of the result has the type MAP<INT, BIGINT>, which JSON cannot hold: the keys of its objects are strings; \
                    CAST it to STRING, or print CSV";
    assert_eq!(printed(Format::Json, &rows).unwrap_err(), expected);
}

#[test]
fn a_time_beyond_the_calendar_is_an_error_that_names_its_row() {
    let times: ArrayRef =
        Arc::new(TimestampMillisecondArray::from(vec![Some(0), None, Some(i64::MIN), Some(i64::MAX), Some(1)]));
    let rows = RecordBatch::try_from_iter_with_nullable([("t", times, true)]).unwrap();
    let field = Arc::new(Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true));
    let within: ArrayRef = Arc::new(StructArray::new(vec![field].into(), vec![rows.column(0).clone()], None));
    let within = RecordBatch::try_from_iter([("t", within)]).unwrap();
    let tried =
        [Format::Table, Format::Csv, Format::Json].into_iter().flat_map(|format| [(format, &rows), (format, &within)]);
    for (format, rows) in tried {
        let mut printer = Printer::new(format, rows.schema(), zone());
        let mut out = Vec::new();
        printer.print(&rows.slice(0, 2), &mut out).unwrap();
        let printed = out.len();
        let error = printer.print(&rows.slice(2, 3), &mut out).unwrap_err();
        let expected = "row 3 of the result, column t: has a time that no calendar reaches; leave it out with WHERE";
        assert_eq!((error.to_string().as_str(), out.len()), (expected, printed));
    }
}

#[test]
fn a_result_without_rows_has_columns() {
    let schema = Arc::new(pelton::arrow::datatypes::Schema::new(vec![pelton::arrow::datatypes::Field::new(
        "n",
        DataType::Int64,
        false,
    )]));
    for (format, expected) in [(Format::Table, "n\n─\n"), (Format::Csv, "n\n"), (Format::Json, "")] {
        let mut out = Vec::new();
        Printer::new(format, schema.clone(), zone()).finish(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn a_table_is_cut_to_the_terminal() {
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a text that is too long", "short"]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let rows = RecordBatch::try_from_iter([("t", texts), ("n", numbers)]).unwrap();
    let printed = |line_max| {
        let mut out = Vec::new();
        let mut printer = Printer::new(Format::Table, rows.schema(), zone()).fitting(Some(line_max));
        printer.print(&rows, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), printer.has_cut())
    };
    let whole = "t                        n\n───────────────────────  ─\na text that is too long  1\nshort                    2\n";
    assert_eq!(printed(26), (whole.to_owned(), false));
    let cut = "t             n\n────────────  ─\na text that…  1\nshort         2\n";
    assert_eq!(printed(15), (cut.to_owned(), true));
    let narrow = "t…\n─…\na…\ns…\n";
    assert_eq!(printed(2), (narrow.to_owned(), true));
}

#[test]
fn numbers_are_readable() {
    assert_eq!([count(7), count(1_234_567)], ["7", "1 234 567"]);
    assert_eq!([short(999.0), short(12_345.0), short(2.5e6)], ["999", "12.3 k", "2.50 M"]);
}
