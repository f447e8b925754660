//! How many pairs a part of a window has, where many rows have one key.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pelton_data::join::{JoinColumn, JoinKind, JoinSide, JoinSpec, JoinTime, Side};
use pelton_data::window::Window;

use super::*;
use crate::join::streams::{Test, WindowJoin};

const SIZE: i64 = 1_000_000;

/// The rows of a side: so many of key 0, and one of each other key.
const HOT: usize = 300;

const OTHERS: usize = 1_200;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, false), Field::new("number", DataType::Int64, false)]))
}

fn spec(kind: JoinKind) -> Arc<JoinSpec> {
    let sides = if kind.has_pairs() { Side::BOTH.as_slice() } else { &Side::BOTH[..1] };
    let columns: Vec<JoinColumn> = sides.iter().map(|&side| JoinColumn::Of(side, 1)).collect();
    let fields = columns.iter().map(|_| Field::new("number", DataType::Int64, true));
    let windows = Window::Tumbling { size: SIZE, offset: 0 };
    Arc::new(JoinSpec {
        kind,
        time: JoinTime::Windows { sides: [windows, windows], bounds: windows },
        sides: [0, 1].map(|_| JoinSide { schema: schema(), keys: vec![0], time: None }),
        schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        columns,
        output_time: None,
    })
}

/// Rows of a side, those of key 0 in the middle. Keys of the left side are even, those of the right side multiples of three.
fn rows(side: Side) -> RecordBatch {
    let step = if side == Side::Left { 2 } else { 3 };
    let others = |numbers: std::ops::Range<usize>| numbers.map(|number| step * (1 + number as i64));
    let hot = std::iter::repeat_n(0, HOT);
    let keys: Int64Array = others(0..OTHERS / 2).chain(hot).chain(others(OTHERS / 2..OTHERS)).collect();
    let numbers = Int64Array::from_iter_values(0..keys.len() as i64);
    RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(numbers)]).unwrap()
}

/// The rows of each part.
fn parts(kind: JoinKind, rows_max: usize, residual: Option<&Residual>) -> Vec<usize> {
    let mut join = WindowJoin::new(spec(kind));
    for side in Side::BOTH {
        assert_eq!(join.add(side, SliceId::new(SIZE, 0), rows(side)), 0);
    }
    let mut pairs = join.close(SIZE, residual);
    pairs.prepare().unwrap();
    let mut parts = Vec::new();
    while let Some(part) = pairs.next_part(rows_max).unwrap() {
        parts.push(part.join().unwrap().iter().map(RecordBatch::num_rows).sum());
    }
    assert!(pairs.is_done());
    parts
}

#[test]
fn parts_have_few_more_pairs_than_asked_for() {
    // Keys that both sides have: the multiples of six.
    let shared = 2 * OTHERS / 6;
    for (kind, rows) in [
        (JoinKind::Inner, HOT * HOT + shared),
        (JoinKind::Left, HOT * HOT + OTHERS),
        (JoinKind::Full, HOT * HOT + 2 * OTHERS - shared),
        (JoinKind::Semi, HOT + shared),
        (JoinKind::Anti, OTHERS - shared),
    ] {
        for rows_max in [1, 100, 2_048, 100_000] {
            let parts = parts(kind, rows_max, None);
            assert_eq!(parts.iter().sum::<usize>(), rows, "{kind:?} in parts of {rows_max}");
            let most = parts.iter().max().unwrap();
            assert!(*most < 2 * rows_max + HOT, "{kind:?} in parts of {rows_max}: {most} rows");
        }
    }
}

#[test]
fn parts_are_as_small_where_few_pairs_meet_a_condition() {
    let columns = vec![(Side::Left, 1), (Side::Right, 1)];
    let tested = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let note = tested.clone();
    let is_equal = move |rows: &RecordBatch| {
        note.lock().unwrap().push(rows.num_rows());
        let [left, right] = [0, 1].map(|column| rows.column(column).as_any().downcast_ref::<Int64Array>().unwrap());
        Ok(BooleanBuffer::collect_bool(rows.num_rows(), |row| left.value(row) == right.value(row)))
    };
    let test: Arc<Test> = Arc::new(is_equal);
    let residual = Residual { columns, schema: schema(), test };
    for (kind, rows) in [(JoinKind::Inner, HOT), (JoinKind::Semi, HOT), (JoinKind::Left, HOT + OTHERS)] {
        assert_eq!(parts(kind, 2_048, Some(&residual)).iter().sum::<usize>(), rows, "{kind:?}");
        let tested = std::mem::take(&mut *tested.lock().unwrap());
        assert!(tested.iter().all(|rows| *rows < 2_048 + HOT), "{kind:?} {tested:?}");
    }
}
