//! Values in their text and binary forms. Those of Postgres 15 are expected.

use pelton::arrow::array::{Int32Builder, MapBuilder, StringBuilder, StructArray};
use pelton::arrow::buffer::OffsetBuffer;

use super::*;

/// The forms of the values of a column; NULL is `None`.
fn forms(values: ArrayRef, form: Form) -> Vec<Option<Vec<u8>>> {
    let zone = Zone::named("Europe/Berlin").unwrap();
    let rows = RecordBatch::try_from_iter([("c", values)]).unwrap();
    let columns = Columns::of(&rows, zone).unwrap();
    let value = |row: usize| {
        let mut out = BytesMut::new();
        columns.put_row(row, &[form], &mut out);
        assert_eq!((out[0], out.len() - 1), (b'D', i32::from_be_bytes(out[1..5].try_into().unwrap()) as usize));
        let length = i32::from_be_bytes(out[7..11].try_into().unwrap());
        (length >= 0).then(|| {
            assert_eq!(length as usize, out.len() - 11);
            out[11..].to_vec()
        })
    };
    (0..rows.num_rows()).map(value).collect()
}

fn texts(values: impl Array + 'static) -> Vec<Option<String>> {
    forms(Arc::new(values), Form::Text)
        .into_iter()
        .map(|text| text.map(|text| String::from_utf8(text).unwrap()))
        .collect()
}

fn texts_of(data_type: &DataType, values: Vec<Option<i64>>) -> Vec<Option<String>> {
    let values: ArrayRef = Arc::new(Int64Array::from(values));
    texts_of_array(cast(&values, data_type).unwrap())
}

fn texts_of_array(values: ArrayRef) -> Vec<Option<String>> {
    forms(values, Form::Text).into_iter().map(|text| text.map(|text| String::from_utf8(text).unwrap())).collect()
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some((*text).to_owned())).collect()
}

#[test]
fn scalars_have_the_text_of_postgres() {
    assert_eq!(
        texts(BooleanArray::from(vec![Some(true), Some(false), None])),
        [Some("t".into()), Some("f".into()), None]
    );
    let floats = Float64Array::from(vec![1.0, 0.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0]);
    assert_eq!(texts(floats), some(&["1", "0.1", "NaN", "Infinity", "-Infinity", "-0"]));
    let decimals = Decimal128Array::from(vec![12_345, -5]).with_precision_and_scale(10, 2).unwrap();
    assert_eq!(texts(decimals), some(&["123.45", "-0.05"]));
    assert_eq!(texts(BinaryViewArray::from(vec![b"\x00\xffa".as_slice(), b""])), some(&["\\x00ff61", "\\x"]));
    assert_eq!(texts(StringViewArray::from(vec!["a,b", ""])), some(&["a,b", ""]));
}

#[test]
fn times_have_the_text_of_postgres() {
    let timestamp = |unit: TimeUnit| DataType::Timestamp(unit, None);
    assert_eq!(
        texts_of(&timestamp(TimeUnit::Millisecond), vec![Some(-1), None]),
        [Some("1969-12-31 23:59:59.999".into()), None]
    );
    assert_eq!(texts_of(&timestamp(TimeUnit::Microsecond), vec![Some(1_500_000)]), some(&["1970-01-01 00:00:01.5"]));
    let instant = DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into()));
    assert_eq!(
        texts_of(&instant, vec![Some(0), Some(1_720_000_000_123)]),
        some(&["1970-01-01 01:00:00+01", "2024-07-03 11:46:40.123+02"])
    );
    assert_eq!(texts(Date32Array::from(vec![0, 19_907])), some(&["1970-01-01", "2024-07-03"]));
}

#[test]
fn arrays_quote_what_would_be_read_as_something_else() {
    let items = StringViewArray::from(vec![Some("a"), None, Some("null"), Some("x y"), Some("q\"\\"), Some("")]);
    let field = Arc::new(Field::new("item", DataType::Utf8View, true));
    let lists = ListArray::new(field, OffsetBuffer::from_lengths([6, 0]), Arc::new(items), None);
    assert_eq!(texts(lists), some(&[r#"{a,NULL,"null","x y","q\"\\",""}"#, "{}"]));
}

#[test]
fn rows_and_maps_are_json() {
    let fields: Fields = vec![
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("f", DataType::Float64, true),
    ]
    .into();
    let times = cast(&(Arc::new(Int64Array::from(vec![Some(0), None])) as ArrayRef), fields[0].data_type()).unwrap();
    let row = StructArray::new(fields, vec![times, Arc::new(Float64Array::from(vec![f64::NAN, 0.5]))], None);
    assert_eq!(texts(row), some(&[r#"{"t":"1970-01-01 00:00:00.000","f":"NaN"}"#, r#"{"t":null,"f":0.5}"#]));
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    map.keys().append_value("k");
    map.values().append_value(1);
    map.append(true).unwrap();
    assert_eq!(texts(map.finish()), some(&[r#"{"k":1}"#]));
}

#[test]
fn binary_forms_count_from_the_year_2000() {
    let binary = |values: ArrayRef| forms(values, Form::Binary).into_iter().flatten().collect::<Vec<_>>();
    assert_eq!(binary(Arc::new(Int16Array::from(vec![-2]))), [(-2_i16).to_be_bytes()]);
    assert_eq!(binary(Arc::new(Date32Array::from(vec![10_957]))), [0_i32.to_be_bytes()]);
    let times: ArrayRef = Arc::new(Int64Array::from(vec![946_684_801_000]));
    let times = cast(&times, &DataType::Timestamp(TimeUnit::Millisecond, None)).unwrap();
    assert_eq!(binary(times), [1_000_000_i64.to_be_bytes()]);
    let items = Int32Array::from(vec![Some(7), None]);
    let field = Arc::new(Field::new("item", DataType::Int32, true));
    let lists = ListArray::new(field, OffsetBuffer::from_lengths([2]), Arc::new(items), None);
    let expected: Vec<u8> = [1, 1, 23, 2, 1, 4, 7, -1].into_iter().flat_map(i32::to_be_bytes).collect();
    assert_eq!(binary(Arc::new(lists)), [expected]);
}
