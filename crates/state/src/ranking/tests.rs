use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use pelton_data::arrangement::OrderKey;
use pelton_data::ranking::Ranking;

use super::*;

const LENGTH: Micros = 20;

/// Rows by the end of their window, with key, value and rank.
type Reported = Vec<(Micros, i64, i64, i64)>;

/// Windows of two slices each, of which the largest two values of each key are asked for; two slices have a row of each key.
fn windows(keys: i64, lateness: Micros) -> RankedWindows {
    let order = OrderKey { column: 1, descending: true, nulls_first: false };
    let ranker = Arc::new(ranker(Numbering::Rows, order, 2));
    let window = Window::Hopping { size: LENGTH, slide: LENGTH / 2, offset: 0 };
    let mut windows = RankedWindows::new(window, ranker, lateness);
    for start in [0, LENGTH / 2] {
        let id = SliceId::new(windows.window.next_end(start), start);
        let candidates = rows_of_all(&windows, keys, start);
        windows.add(id, candidates);
    }
    windows
}

/// Numbers rows of each key `k`, up to `last`.
fn ranker(numbering: Numbering, order: OrderKey, last: u64) -> Ranker {
    let fields = ["k", "v"].map(|name| Field::new(name, DataType::Int64, false));
    Ranker::new(Ranking {
        schema: Arc::new(Schema::new(fields.to_vec())),
        keys: vec![0],
        order: vec![order],
        arrival: None,
        knows_arrival: false,
        numbering,
        first: 1,
        last,
    })
}

/// A row of each key, with values from `first` on.
fn rows_of_all(windows: &RankedWindows, keys: i64, first: i64) -> Candidates {
    let columns: [ArrayRef; 2] = [
        Arc::new((0..keys).map(|row| Some(row * 7_919 % keys)).collect::<Int64Array>()),
        Arc::new((0..keys).map(|row| Some(row + first)).collect::<Int64Array>()),
    ];
    let batch = RecordBatch::try_new(windows.ranker.ranking.schema.clone(), columns.to_vec()).unwrap();
    windows.ranker.choose(&batch).unwrap()
}

/// Adds what leaves of windows that are reported as `kind`.
fn take(leaving: &Leaving<'_>, kind: ResultKind, reported: &mut Reported) -> Result<(), KernelError> {
    let Leaving::Now(Contents::Rows(rows)) = leaving else { unreachable!("rows leave") };
    assert_eq!(rows.window.kind, kind);
    let value = |column: usize, row| rows.rows.column(column).as_primitive::<Int64Type>().value(row);
    let all = rows.ranks.iter().enumerate();
    reported.extend(all.map(|(row, &rank)| (rows.window.end, value(0, row), value(1, row), rank)));
    Ok(())
}

fn limits(until: Micros, groups_max: usize) -> CloseLimits {
    CloseLimits { until, groups_at_once: 1000, groups_max, parts_min: usize::MAX }
}

/// Closes windows up to the end of one; in how many calls.
fn close(windows: &mut RankedWindows, limits: CloseLimits, kind: ResultKind) -> (Reported, usize) {
    let (mut rows, mut calls) = (Reported::new(), 1);
    while windows.close(limits, &mut |leaving: Leaving<'_>| take(&leaving, kind, &mut rows)).unwrap() < limits.until {
        calls += 1;
    }
    (rows, calls)
}

/// The rows of all windows when so much is done in one call; and how many calls it took.
fn closed(keys: i64, groups_max: usize) -> (Reported, usize) {
    let mut windows = windows(keys, 0);
    let closed = close(&mut windows, limits(LENGTH * 2, groups_max), ResultKind::Final);
    assert!(windows.slices.is_empty() && windows.closing.is_none());
    assert_eq!((windows.bytes(), windows.unneeded.len()), (0, 0));
    closed
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

/// What is reported of windows before their time, when so much is done in one call, and rows come after the first.
fn reported_early(keys: i64, groups_max: usize) -> (Reported, usize) {
    let mut windows = windows(keys, 0);
    let (mut rows, mut calls) = (Reported::new(), 1);
    let mut report = |windows: &mut RankedWindows| {
        let mut hand_on = |leaving: Leaving<'_>| take(&leaving, ResultKind::Early, &mut rows);
        windows.report_early(limits(Micros::MIN, groups_max), &mut hand_on).unwrap()
    };
    let mut is_done = report(&mut windows);
    let late = rows_of_all(&windows, keys, 1_000_000);
    windows.add(SliceId::new(LENGTH / 2, 0), late);
    while !is_done {
        assert!(windows.is_reporting());
        is_done = report(&mut windows);
        calls += 1;
    }
    assert!(!windows.is_reporting());
    // The rows that came meanwhile are in the next report.
    let final_rows = close(&mut windows, limits(LENGTH / 2, usize::MAX), ResultKind::Final).0;
    let with_late = final_rows.iter().filter(|row| row.2 >= 1_000_000 && row.3 == 1).count();
    assert_eq!((final_rows.len(), with_late), (keys as usize * 2, keys as usize));
    (rows, calls)
}

#[test]
fn windows_are_reported_early_part_by_part() {
    let keys = 10_007;
    let (rows, calls) = reported_early(keys, usize::MAX);
    assert_eq!((&rows, calls), (&closed(keys, usize::MAX).0, 1));
    for groups_max in [1, 5_000, 100_000] {
        let (in_parts, calls) = reported_early(keys, groups_max);
        assert!(in_parts == rows && calls > 1, "{groups_max} at a time, in {calls} calls");
    }
}

/// What windows are corrected to by rows of every second key, when so much is done in one call; and what they hold then.
fn corrected(keys: i64, groups_max: usize) -> (Reported, usize, Reported) {
    let mut windows = windows(keys, LENGTH * 2);
    close(&mut windows, limits(LENGTH, groups_max), ResultKind::Final);
    for (start, keys, first) in [(0, keys, 1_000_000), (LENGTH / 2, keys / 2, 2_000_000), (LENGTH / 2, 10, -5)] {
        let candidates = rows_of_all(&windows, keys, first);
        windows.add(SliceId { first_end: LENGTH + 1, start, corrects: true }, candidates);
    }
    let (corrected, calls) = close(&mut windows, limits(LENGTH + 1, groups_max), ResultKind::Correction);
    let (left, _) = close(&mut windows, limits(LENGTH * 2, groups_max), ResultKind::Final);
    close(&mut windows, limits(LENGTH * 8, groups_max), ResultKind::Final);
    assert_eq!((windows.bytes(), windows.slices.len(), windows.unneeded.len()), (0, 0, 0));
    (corrected, calls, left)
}

#[test]
fn windows_are_corrected_part_by_part() {
    let keys = 10_007;
    let (rows, calls, left) = corrected(keys, usize::MAX);
    let of = |end: Micros, rank: i64| rows.iter().filter(move |row| (row.0, row.3) == (end, rank));
    // The first window has the rows of its slice and one more of each key, the second those of both.
    assert_eq!([of(LENGTH / 2, 1).count(), of(LENGTH / 2, 2).count()], [keys as usize; 2]);
    assert_eq!([of(LENGTH, 1).count(), of(LENGTH, 2).count(), calls], [keys as usize, keys as usize, 1]);
    assert_eq!(of(LENGTH, 1).filter(|row| row.2 >= 2_000_000).count(), keys as usize / 2);
    // The last window has the second slice: half of the keys have two rows, of the ten others those that are known.
    assert!(left.iter().filter(|row| row.2 >= 2_000_000).count() == keys as usize / 2);
    for groups_max in [1, 5_000, 100_000] {
        let (in_parts, calls, left_in_parts) = corrected(keys, groups_max);
        assert!(in_parts == rows && left_in_parts == left && calls > 1, "{groups_max} at a time, in {calls} calls");
    }
}

/// Adds rows of one key with these values, one by one: how often rows were dropped, and the values that are retained in the end.
fn added(ranker: &Ranker, values: impl Iterator<Item = i64>) -> (usize, Vec<i64>) {
    let mut slice = RankedSlice::new(LENGTH, LENGTH);
    let mut drops = 0;
    for value in values {
        let columns: [ArrayRef; 2] = [Arc::new(Int64Array::from(vec![1])), Arc::new(Int64Array::from(vec![value]))];
        let batch = RecordBatch::try_new(ranker.ranking.schema.clone(), columns.to_vec()).unwrap();
        let bytes_before = slice.bytes;
        slice.add_all(&ranker.choose(&batch).unwrap(), ranker);
        drops += usize::from(slice.bytes <= bytes_before);
    }
    let mut rows: Vec<KeyedRow<'_>> = slice.rows().collect();
    rows.sort_unstable();
    let ranked: Vec<KeyedRow<'_>> = ranker.ranked(&rows).map(|(_, row)| row).collect();
    let values = ranker.decoded(&ranked).unwrap().column(1).as_primitive::<Int64Type>().values().to_vec();
    (drops, values)
}

#[test]
fn retained_peers_are_not_sorted_for_every_row() {
    let order = OrderKey { column: 1, descending: false, nulls_first: false };
    // A heap that grows by doubling is full with so many rows, or has one place left.
    for peers in [1 << 7, (1 << 7) - 1] {
        let values = || std::iter::repeat_n(0, peers).chain(std::iter::repeat_n(1, 4 * peers));
        let (drops, retained) = added(&ranker(Numbering::DenseRank, order, 1), values());
        assert_eq!(retained, vec![0; peers]);
        assert!(drops <= 5, "{drops} sorts for {peers} peers");
        // Rows with RANK 1 are known to be all that can be retained: what is behind them is dropped without a sort.
        let (drops, retained) = added(&ranker(Numbering::Rank, order, 1), values());
        assert_eq!((drops, retained), (4 * peers, vec![0; peers]));
        // Rows of smaller values and peers of the last are not behind.
        let (_, retained) = added(&ranker(Numbering::Rank, order, 3), [5, 4, 4, 4, 5, 3].into_iter());
        assert_eq!(retained, [3, 4, 4, 4]);
        let (_, retained) = added(&ranker(Numbering::DenseRank, order, 2), [5, 4, 4, 6, 5, 3].into_iter());
        assert_eq!(retained, [3, 4, 4]);
    }
}
