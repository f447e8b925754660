//! State that is open, made again of its snapshots: what closes is the same, on any number of workers, and spoiled bytes are refused.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use pelton_data::aggregate::{Accumulate, Accumulator, KeyColumn};
use pelton_data::arrangement::OrderKey;
use pelton_data::ranking::{Numbering, Ranking};
use pelton_data::window::{Combination, Emission, SessionSlots, Window};
use pelton_state::count::RowCounter;
use pelton_state::kernel::KernelError;
use pelton_state::layout::EntryLayout;
use pelton_state::ranking::Ranker;
use pelton_state::slice::{SliceId, SliceStore};
use pelton_state::snapshot::{SnapshotError, restore, take, with_hash};
use pelton_state::table::Table;
use pelton_state::window::{CloseLimits, Contents, Open, WindowState};

const SLICE: i64 = 10_000;

/// One operator on some workers.
struct Operator {
    open: Open,
    stores: Vec<SliceStore>,
}

impl Operator {
    fn state(&mut self) -> WindowState<'_> {
        WindowState { open: &mut self.open, stores: self.stores.iter_mut().collect() }
    }

    /// Seals all that workers have up to an instant, closes windows, and reads them out: start, end, kind, key and first accumulator; or rows.
    fn close(&mut self, until: i64) -> Vec<String> {
        for store in &mut self.stores {
            store.take_until(until).into_iter().for_each(|(id, table)| self.open.seal(id, table));
            let complete = if store.has_open_counts() { store.counter().take_complete(until) } else { None };
            let ended = if until == i64::MAX { store.take_counter() } else { None };
            self.open.seal_counts(complete.into_iter().collect(), ended);
        }
        let limits = CloseLimits { until, groups_at_once: 1000, groups_max: usize::MAX, parts_min: usize::MAX };
        let mut lines = Vec::new();
        while self
            .open
            .close::<KernelError>(limits, &mut Vec::new(), &mut |mut leaving| {
                lines.extend(read(leaving.contents()));
                Ok(())
            })
            .unwrap()
            < until
        {}
        lines.sort();
        lines
    }
}

fn read(contents: Contents<'_>) -> Vec<String> {
    match contents {
        Contents::Rows(rows) => {
            let columns = (rows.rows.column(0).as_primitive::<Int64Type>(), rows.rows.column(1).as_string_view());
            let line = |row: usize| {
                format!("{:?} {} {:?} {:?}", rows.window, rows.ranks[row], columns.0.value(row), columns.1.value(row))
            };
            (0..rows.ranks.len()).map(line).collect()
        }
        Contents::Groups(groups) => {
            let keys = groups.table.key_array(0, groups.entries);
            let values = groups.table.integers(0, groups.entries);
            let windows = groups.windows.iter().flat_map(|window| std::iter::repeat_n(window, window.groups));
            let keys = keys.as_primitive::<Int64Type>().values().to_vec();
            let line = |((window, key), value): ((&pelton_state::window::ClosedWindow, i64), i64)| {
                format!("{} {} {:?} {key} {value}", window.start, window.end, window.kind)
            };
            windows.zip(keys).zip(values).map(line).collect()
        }
    }
}

/// Makes an operator on other numbers of workers of the snapshot of one, and compares what closes. Spoiled snapshots are refused; where their hash is
/// right, nothing panics, then or later.
fn check(mut operator: Operator, new: impl Fn() -> Operator, until: i64) {
    let bytes = take(&operator.state()).unwrap();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..400 {
        random = random.wrapping_mul(0xda94_2042_e4dd_58b5).rotate_left(17) ^ 0x9e37;
        let mut spoiled = bytes.clone();
        if random.is_multiple_of(4) {
            spoiled.truncate(random as usize / 4 % bytes.len());
        } else {
            spoiled[random as usize / 64 % bytes.len()] ^= 1 << (random / 4 % 8);
        }
        assert!(restore(&mut new().state(), &spoiled).is_err());
        spoiled.truncate(spoiled.len().saturating_sub(8));
        // What is not refused may come to something else, and is closed.
        let mut other = new();
        if restore(&mut other.state(), &with_hash(spoiled)).is_ok() {
            drop((other.close(until), other.close(i64::MAX)));
        }
    }
    let mut made = new();
    restore(&mut made.state(), &bytes).unwrap();
    // What is made of a snapshot takes no more than that, but for what is written of each worker.
    let again = take(&made.state()).unwrap();
    assert!(again.len() <= bytes.len() + 9 * made.stores.len(), "{} {}", again.len(), bytes.len());
    let mut last = new();
    restore(&mut last.state(), &again).unwrap();
    let expected = operator.close(until);
    assert!(expected.len() > 2, "something closes");
    assert_eq!(last.close(until), expected);
    assert_eq!(last.close(i64::MAX), operator.close(i64::MAX));
}

fn integer_key() -> KeyColumn {
    KeyColumn { data_type: DataType::Int64, nullable: false }
}

/// Adds rows of keys to a table; each accumulator is changed by its own number.
pub(super) fn add(table: &mut Table, keys: &[i64], change: impl Fn(usize, i64) -> i64) {
    let (mut entries, layout) = (Vec::new(), table.layout().clone());
    let (first, last) = (keys.iter().min().unwrap(), keys.iter().max().unwrap());
    table.prepare_integers(*first, *last, keys.len());
    table.find_or_insert_integers(keys, &mut entries, &mut Vec::new());
    let base = table.base();
    for (at, entry) in entries.into_iter().enumerate() {
        for (index, slot) in layout.accumulators().iter().enumerate() {
            // SAFETY: it is the address of an accumulator of eight bytes of an entry that the table has just given.
            let value = unsafe { &mut *base.wrapping_add(entry as usize * 8 + slot.offset).cast::<i64>() };
            *value = match slot.accumulator.accumulate {
                Accumulate::Minimum => (*value).min(change(index, at as i64)),
                Accumulate::Maximum => (*value).max(change(index, at as i64)),
                _ => *value + 1,
            };
        }
    }
}

#[test]
fn what_some_workers_have_of_windows_goes_on_with_more_or_fewer() {
    let layout = EntryLayout::new(&[integer_key()], &[Accumulator::counting_rows()]);
    let window = Window::Hopping { size: 3 * SLICE, slide: SLICE, offset: 0 };
    for combination in [Combination::SubtractOnEvict, Combination::TwoStacks, Combination::Recompute] {
        for (workers, workers_then) in [(2, 1), (1, 3), (2, 2)] {
            for lateness in [0, 2 * SLICE] {
                let emission = Emission { lateness, ..Emission::default() };
                let operator = |workers: usize| Operator {
                    open: Open::groups(window, combination, &layout, None, emission),
                    stores: (0..workers).map(|_| SliceStore::new(layout.clone())).collect(),
                };
                let mut before = operator(workers);
                let mut expected = 0;
                for slice in 0..8_i64 {
                    for (worker, store) in before.stores.iter_mut().enumerate() {
                        let keys: Vec<i64> = (0..40).map(|row| slice * 5 + row * (1 + worker as i64) % 30).collect();
                        add(store.table(SliceId::new((slice + 1) * SLICE, slice * SLICE)), &keys, |_, _| 0);
                    }
                    if slice < 5 {
                        expected += before.close((slice + 1) * SLICE).len();
                    }
                }
                if lateness > 0 {
                    let id = SliceId { first_end: 5 * SLICE + 1, start: 3 * SLICE, corrects: true };
                    add(before.stores[0].table(id), &[17, 18], |_, _| 0);
                }
                assert!(expected > 100);
                check(before, || operator(workers_then), 7 * SLICE);
            }
        }
    }
}

#[test]
fn sessions_go_on_from_snapshots() {
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    let of_time = |accumulate| Accumulator::new(accumulate, Some(time.clone()), false);
    let accumulators = [Accumulator::counting_rows(), of_time(Accumulate::Minimum), of_time(Accumulate::Maximum)];
    let layout = EntryLayout::new(&[integer_key()], &accumulators);
    let slots = SessionSlots { first: 1, last: 2, rows: 0 };
    for lateness in [0, 5 * SLICE] {
        let emission = Emission { lateness, ..Emission::default() };
        let operator = |workers: usize| Operator {
            open: Open::groups(Window::Session { gap: SLICE }, Combination::Merge, &layout, Some(slots), emission),
            stores: (0..workers).map(|_| SliceStore::new(layout.clone())).collect(),
        };
        let mut before = operator(2);
        for slice in 0..9_i64 {
            for (worker, store) in before.stores.iter_mut().enumerate() {
                let keys: Vec<i64> = (0..20).filter(|key| (key + slice) % (3 + worker as i64) > 0).collect();
                let table = store.table(SliceId::new(slice * SLICE, slice * SLICE));
                add(table, &keys, |_, at| slice * SLICE + at * 400);
            }
            // A row that comes late joins a session that has been reported and one that is open: what that comes to is a correction.
            let joined = [(4, 4 * SLICE), (6, 6 * SLICE), (6, 6 * SLICE + 400)];
            for &(_, first_end) in joined.iter().filter(|(of_slice, _)| *of_slice == slice) {
                let start = if first_end % SLICE == 0 { first_end } else { 5 * SLICE };
                add(before.stores[0].table(SliceId::new(first_end, start)), &[70], |_, _| start);
            }
            if slice < 7 {
                before.close(slice * SLICE + SLICE / 2);
            }
        }
        // Rows that came behind the watermark.
        let table = before.stores[0].table(SliceId::new(7 * SLICE, 4 * SLICE));
        add(table, &[3, 4, 55], |_, at| 4 * SLICE + at);
        check(before, || operator(1), 8 * SLICE);
    }
}

#[test]
fn the_first_rows_of_windows_go_on_from_snapshots() {
    let fields = [("k", DataType::Int64), ("s", DataType::Utf8View)];
    let fields = fields.into_iter().map(|(name, data_type)| Field::new(name, data_type, false));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let order = vec![OrderKey { column: 1, descending: true, nulls_first: false }];
    let numbering = Numbering::Rows;
    let ranking = Ranking {
        schema: schema.clone(),
        keys: vec![0],
        order,
        arrival: None,
        knows_arrival: false,
        numbering,
        first: 1,
        last: 3,
    };
    let ranker = Arc::new(Ranker::new(ranking));
    let window = Window::Hopping { size: 3 * SLICE, slide: SLICE, offset: 0 };
    let emission = Emission { lateness: 2 * SLICE, ..Emission::default() };
    let layout = EntryLayout::new(&[], &[]);
    let operator = || Operator {
        open: Open::ranked(window, ranker.clone(), emission),
        stores: vec![SliceStore::new(layout.clone())],
    };
    let rows = |slice: i64| {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..60).map(|row| row % 7)));
        let words = (0..60).map(|row| format!("a word, longer than a view: {}", (row * 31 + slice * 17) % 97));
        let batch =
            RecordBatch::try_new(schema.clone(), vec![keys, Arc::new(StringViewArray::from_iter_values(words))]);
        ranker.choose(&batch.unwrap()).unwrap()
    };
    let mut before = operator();
    for slice in 0..6 {
        before.open.add_rows(SliceId::new((slice + 1) * SLICE, slice * SLICE), rows(slice));
        if slice < 4 {
            before.close((slice + 1) * SLICE);
        }
    }
    before.close(5 * SLICE);
    // Rows of a slice all of whose windows have been reported, a while ago.
    before.open.add_rows(SliceId { first_end: 5 * SLICE + 1, start: SLICE, corrects: true }, rows(40));
    before.close(5 * SLICE + 1);
    before.open.add_rows(SliceId { first_end: 5 * SLICE + 2, start: 2 * SLICE, corrects: true }, rows(50));
    check(before, operator, 6 * SLICE);
}

#[test]
fn windows_of_rows_go_on_from_snapshots() {
    let layout = EntryLayout::new(&[integer_key()], &[Accumulator::counting_rows()]);
    for (size, slide) in [(5, 5), (12, 4), (3, 8), (20, 1), (7, 3)] {
        for combination in [Combination::Recompute, Combination::TwoStacks] {
            let operator = || Operator {
                open: Open::groups(Window::RowsByKey { size, slide }, combination, &layout, None, Emission::default()),
                stores: vec![SliceStore::counting(RowCounter::new((size, slide), combination, &layout, true))],
            };
            let (mut before, mut without) = (operator(), operator());
            let count = |operator: &mut Operator, block: i64| {
                let counter = operator.stores[0].counter();
                let keys: Vec<i64> = (0..50).map(|row| (row * row + block * 3) % 23).collect();
                let mut entries = Vec::new();
                counter.keys().prepare_integers(0, 22, keys.len());
                counter.keys().find_or_insert_integers(&keys, &mut entries, &mut Vec::new());
                counter.place(&mut entries);
                for entry in entries {
                    let at = counter.values().base().wrapping_add(entry as usize * 8 + layout.accumulators()[0].offset);
                    // SAFETY: it is the address of a count of an entry that the counter has just given.
                    unsafe { *at.cast::<i64>() += 1 };
                }
                counter.rows_added();
                let complete = counter.take_complete(block).into_iter().collect();
                operator.open.seal_counts(complete, None);
            };
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            for block in 0..12 {
                count(&mut before, block);
                count(&mut without, block);
                let bytes = take(&before.state()).unwrap();
                before = operator();
                restore(&mut before.state(), &bytes).unwrap();
                if block % 3 == 0 {
                    found.extend(before.close(block));
                    expected.extend(without.close(block));
                }
            }
            assert_eq!(found, expected, "{size} {slide}");
            check(before, operator, 11);
        }
    }
}

#[test]
fn what_is_at_something_has_no_snapshot_until_that_is_done() {
    let layout = EntryLayout::new(&[integer_key()], &[Accumulator::counting_rows()]);
    let window = Window::Tumbling { size: SLICE, offset: 0 };
    let mut open = Open::groups(window, Combination::Single, &layout, None, Emission::default());
    let mut table = Table::new(layout.clone());
    add(&mut table, &(0..5000).collect::<Vec<_>>(), |_, _| 0);
    open.seal(SliceId::new(SLICE, 0), table);
    let limits = CloseLimits { until: SLICE, groups_at_once: 1000, groups_max: 10, parts_min: usize::MAX };
    let (mut spare, mut error) = (Vec::new(), None);
    while open.close::<KernelError>(limits, &mut spare, &mut |_| Ok(())).unwrap() < SLICE {
        error = error.or(take(&open).err());
    }
    assert_eq!(error, Some(SnapshotError::UnderWay("windows are being closed")));
    assert!(take(&open).is_ok());
}
