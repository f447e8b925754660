use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};

use super::*;

const LENGTH: Micros = 20;

/// Windows of two slices each, of which the largest two values of each key are asked for; two slices have a row of each key.
fn windows(keys: i64) -> RankedWindows {
    let fields = ["k", "v"].map(|name| Field::new(name, DataType::Int64, false));
    let ranking = Ranking {
        schema: Arc::new(Schema::new(fields.to_vec())),
        keys: vec![0],
        order: vec![OrderKey { column: 1, descending: true, nulls_first: false }],
        first: 1,
        last: 2,
    };
    let ranker = Arc::new(Ranker::new(ranking));
    let window = Window::Hopping { size: LENGTH, slide: LENGTH / 2, offset: 0 };
    let mut windows = RankedWindows::new(window, ranker.clone(), 0);
    for start in [0, LENGTH / 2] {
        let columns: [ArrayRef; 2] = [
            Arc::new((0..keys).map(|row| Some(row * 7_919 % keys)).collect::<Int64Array>()),
            Arc::new((0..keys).map(|row| Some(row + start)).collect::<Int64Array>()),
        ];
        let batch = RecordBatch::try_new(ranker.ranking.schema.clone(), columns.to_vec()).unwrap();
        let first_end = windows.window.next_end(start);
        windows.add(SliceId { first_end, start, corrects: false }, &ranker.choose(&batch).unwrap());
    }
    windows
}

/// The rows of all windows by end, key, value and rank, when so much is done in one call; and how many calls it took.
fn closed(keys: i64, groups_max: usize) -> (Vec<(Micros, i64, i64, i64)>, usize) {
    let mut windows = windows(keys);
    let limits = CloseLimits { until: LENGTH * 2, groups_at_once: 1000, groups_max, parts_min: usize::MAX };
    let (mut rows, mut calls) = (Vec::new(), 0);
    let mut until = Micros::MIN;
    while until < limits.until {
        calls += 1;
        until = windows
            .close(limits, &mut |leaving: Leaving<'_>| {
                let Leaving::Now(Contents::Rows(closed)) = leaving else { unreachable!("rows leave") };
                let value = |column: usize, row| closed.rows.column(column).as_primitive::<Int64Type>().value(row);
                let all = closed.ranks.iter().enumerate();
                rows.extend(all.map(|(row, &rank)| (closed.window.end, value(0, row), value(1, row), rank)));
                Ok::<_, KernelError>(())
            })
            .unwrap();
    }
    assert!(windows.slices.is_empty() && windows.closing.is_none());
    assert_eq!((windows.bytes(), windows.unneeded.len()), (0, 0));
    (rows, calls)
}

#[test]
fn many_keys_are_closed_part_by_part() {
    let keys = 10_007;
    let (rows, calls) = closed(keys, usize::MAX);
    let per_window = keys as usize;
    // The first window has one slice, the second both, the third the last.
    assert_eq!((rows.len(), calls), (per_window * 4, 1));
    let (first, others) = rows.split_at(per_window);
    assert!(first.iter().zip(0..).all(|(row, key)| (row.0, row.1, row.3) == (LENGTH / 2, key, 1)));
    let (second, third) = others.split_at(per_window * 2);
    assert!(second.iter().zip(0..).all(|(row, place)| (row.0, row.1, row.3) == (LENGTH, place / 2, place % 2 + 1)));
    assert!(third.iter().zip(0..).all(|(row, key)| (row.0, row.1, row.3) == (LENGTH / 2 * 3, key, 1)));
    for groups_max in [1, 5_000, 100_000] {
        let (in_parts, calls) = closed(keys, groups_max);
        assert!(in_parts == rows && calls > 1, "{groups_max} at a time, in {calls} calls");
    }
}

#[test]
fn few_keys_are_closed_at_once() {
    for keys in [1, 10] {
        let (rows, calls) = closed(keys, 32_768);
        assert_eq!((rows.len(), calls), (keys as usize * 4, 1));
    }
}
