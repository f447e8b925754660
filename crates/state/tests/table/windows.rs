//! Windows that are put together from slices, against a model.

use std::collections::HashMap;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use pelton_data::aggregate::{Accumulate, Accumulator, KeyColumn};
use pelton_data::window::{Combination, Emission, Window};
use pelton_state::coalesce::Leaving;
use pelton_state::slice::{SliceId, SliceStore};
use pelton_state::small_slices::SmallSliceWriter;
use pelton_state::table::{EntryLayout, IntegerMode, Table};
use pelton_state::window::{CloseLimits, ClosedGroups, Contents, OpenWindows};
use proptest::prelude::*;

use super::snapshots::{again, sometimes_again};

use super::model::{
    Draw, Group, Model, Random, accumulators, add_drawn, add_to_model, add_to_table, column, draw, entries_of_rows,
    key_columns, key_types, keys_of_rows, read_entries,
};

/// Rows of one slice: its number, the number of the first window that they count in, and their groups.
type SliceModel = (i64, i64, Model);

const SLIDE: i64 = 10;

/// The windows of slices that come in any order, against the same windows put together from all slices of each.
fn check_windows(seed: u64) {
    let random = &mut Random(seed | 1);
    let types = key_types(random.below(11) as usize);
    let keys = key_columns(&types, true);
    let slides = [1, 2, 3, 6][random.below(4) as usize];
    let size = slides * SLIDE;
    let (window, combination) = match random.below(3) {
        _ if slides == 1 => (Window::Tumbling { size, offset: 0 }, Combination::Single),
        0 => (Window::Cumulative { size, step: SLIDE, offset: 0 }, Combination::Prefix),
        1 => (Window::Hopping { size, slide: SLIDE, offset: 0 }, Combination::Recompute),
        _ => (Window::Hopping { size, slide: SLIDE, offset: 0 }, Combination::TwoStacks),
    };
    let mut accumulators = accumulators();
    if random.below(2) == 0 {
        // Only a count of rows says which groups there are; of values that may be NULL it does not.
        accumulators[0] =
            Accumulator { argument_type: Some(DataType::Int8), argument_nullable: true, ..accumulators[0].clone() };
    }
    let layout = EntryLayout::new(&keys, &accumulators);
    let mut open = OpenWindows::new(window, combination, &layout, Emission::default());
    let (mut slices, mut closed, mut spare) = (Vec::<SliceModel>::new(), Vec::new(), Vec::new());
    let mut closed_until = 0;
    for slice in 0..24 {
        for _ in 0..1 + random.below(2) {
            // Some rows are late, but not for all of their windows.
            let of_slice = slice - (random.below(slides as u64 + 1) as i64).min(slice);
            let covered = window.slice(of_slice * SLIDE).covered.expect("windows have no gaps");
            if covered.last_end <= closed_until || (slides == 1 && of_slice < slice) || random.below(8) == 0 {
                continue;
            }
            let rows = 1 + random.below(300) as usize;
            let draws = (0..rows).map(|_| (random.below(5) > 0).then(|| draw(random, Draw::Moving, slice)));
            let draws: Vec<Option<i64>> = draws.collect();
            let mut table = spare.pop().unwrap_or_else(|| Table::new(layout.clone()));
            let model = add_drawn(&mut table, &types, &draws, random);
            let first_end = covered.first_end.max(closed_until + SLIDE);
            open.seal(SliceId::new(first_end, of_slice * SLIDE), table);
            slices.push((of_slice, first_end, model));
        }
        open = sometimes_again(open, || OpenWindows::new(window, combination, &layout, Emission::default()), random);
        if random.below(3) > 0 {
            let until = (slice + 1) * SLIDE;
            while closed_until < until {
                let groups_at_once = [1, 7, 500, 1 << 20][random.below(4) as usize];
                let groups_max = [1, 600, usize::MAX][random.below(3) as usize];
                let parts_min = [1, 50, usize::MAX][random.below(3) as usize];
                let limits = CloseLimits { until, groups_at_once, groups_max, parts_min };
                closed_until =
                    open.close(limits, &mut spare, &mut |leaving| take(leaving, limits, &mut closed)).unwrap();
            }
        }
    }
    let mut found: Vec<(i64, Model)> = Vec::new();
    for (end, key, group) in closed {
        if found.last().is_none_or(|last| last.0 != end) {
            found.push((end, Model::new()));
        }
        assert!(found.last_mut().unwrap().1.insert(key, group).is_none(), "a window has a key once");
    }
    let expected = (1..=closed_until / SLIDE).map(|end| (end * SLIDE, model_window(&window, end * SLIDE, &slices)));
    assert_eq!(found, expected.filter(|(_, model)| !model.is_empty()).collect::<Vec<_>>());
}

#[test]
fn an_early_result_has_no_rows_that_the_final_one_lacks() {
    let types = key_types(0);
    let keys = key_columns(&types, true);
    let layout = EntryLayout::new(&keys, &accumulators());
    let emission = Emission { lateness: 20, early_after: Some(1), delay: 0 };
    let window = Window::Tumbling { size: SLIDE, offset: 0 };
    let mut open = OpenWindows::new(window, Combination::Single, &layout, emission);
    let mut expected = Model::new();
    let mut rows = |values: &[i64], are_expected: bool| {
        let columns: Vec<ArrayRef> = types.iter().map(|key| column(key, &vec![Some(1); values.len()])).collect();
        let mut table = Table::new(layout.clone());
        add_to_table(&mut table, &columns, values);
        let keys = keys_of_rows(&columns, values.len()).into_iter().filter(|_| are_expected);
        keys.zip(values).for_each(|(key, &value)| add_to_model(&mut expected, key, &Group::new(value)));
        table
    };
    open.seal(SliceId::new(SLIDE, 0), rows(&[1, 2], true));
    // It came when time had come to 12: the window was over by then, and is to be closed without it.
    let late = SliceId { first_end: 13, start: 0, corrects: true };
    open.seal(late, rows(&[4], false));
    let mut found = Model::new();
    let mut take = |mut leaving: Leaving<'_>| {
        let closed = groups(&mut leaving);
        assert!(closed.windows.iter().all(|window| window.end == SLIDE));
        found.extend(read_entries(closed.table, closed.entries));
        Ok::<_, std::convert::Infallible>(())
    };
    let limits = CloseLimits { until: 0, groups_at_once: 500, groups_max: usize::MAX, parts_min: usize::MAX };
    assert!(open.report_early(limits, &mut Vec::new(), &mut take).unwrap());
    assert_eq!(found, expected);
}

#[test]
fn reports_take_no_more_memory_the_more_there_are() {
    let types = key_types(8);
    let keys = key_columns(&types, true);
    let layout = EntryLayout::new(&keys, &accumulators());
    let emission = Emission { lateness: 0, early_after: Some(1), delay: 0 };
    let windows = [
        (Window::Tumbling { size: SLIDE, offset: 0 }, Combination::Single),
        (Window::Hopping { size: 2 * SLIDE, slide: SLIDE, offset: 0 }, Combination::TwoStacks),
    ];
    for (window, combination) in windows {
        let mut open = OpenWindows::new(window, combination, &layout, emission);
        let limits = CloseLimits { until: 0, groups_at_once: 64, groups_max: 100, parts_min: usize::MAX };
        let (mut spare, mut bytes) = (Vec::new(), Vec::new());
        for round in 0..20 {
            for start in [0, SLIDE] {
                let values: Vec<i64> = (0..1000).collect();
                let columns: Vec<ArrayRef> = types
                    .iter()
                    .map(|key| column(key, &values.iter().map(|value| Some(*value)).collect::<Vec<_>>()))
                    .collect();
                let mut table = spare.pop().unwrap_or_else(|| Table::new(layout.clone()));
                add_to_table(&mut table, &columns, &values);
                open.seal(SliceId::new(start + SLIDE, start), table);
            }
            let (mut parts, mut groups_reported) = (1, 0);
            let mut take = |mut leaving: Leaving<'_>| {
                groups_reported += groups(&mut leaving).entries.len();
                Ok::<_, std::convert::Infallible>(())
            };
            while !open.report_early(limits, &mut spare, &mut take).unwrap() {
                assert!(open.is_reporting());
                parts += 1;
            }
            assert!(!open.is_reporting() && parts > 10, "{parts} parts");
            let windows = if matches!(window, Window::Hopping { .. }) { 3 } else { 2 };
            assert_eq!(groups_reported, windows * 1000, "round {round}");
            bytes.push(open.bytes());
        }
        // Strings that come again take some before they are gone through.
        assert!(bytes[19] < 2 * bytes[1], "{bytes:?}");
        assert!(spare.len() <= 4, "{} tables to spare", spare.len());
    }
}

fn take(
    mut leaving: Leaving<'_>,
    limits: CloseLimits,
    taken: &mut Vec<(i64, Vec<Option<String>>, Group)>,
) -> Result<(), std::convert::Infallible> {
    let closed = groups(&mut leaving);
    assert!((1..=limits.groups_at_once).contains(&closed.entries.len()));
    let ends = closed.windows.iter().flat_map(|window| std::iter::repeat_n(window.end, window.groups));
    let groups = read_entries(closed.table, closed.entries);
    assert_eq!(ends.clone().count(), groups.len());
    taken.extend(ends.zip(groups).map(|(end, (key, group))| (end, key, group)));
    Ok(())
}

fn groups<'a>(leaving: &'a mut Leaving<'_>) -> ClosedGroups<'a> {
    let Contents::Groups(groups) = leaving.contents() else { panic!("groups are kept") };
    groups
}

fn model_window(window: &Window, end: i64, slices: &[SliceModel]) -> Model {
    let mut model = Model::new();
    for (slice, first_end, groups) in slices {
        let is_in = *slice * SLIDE >= window.start(end) && *slice * SLIDE < end && *first_end <= end;
        for (key, group) in groups.iter().filter(|_| is_in) {
            add_to_model(&mut model, key.clone(), group);
        }
    }
    model
}

/// Adds a value, and a row where rows are counted, to an entry for each row.
pub fn add_sums(table: &mut Table, entries: &[u32], values: &[i64]) {
    let (layout, base) = (table.layout().clone(), table.base());
    for (&entry, &value) in entries.iter().zip(values) {
        for (slot, added) in layout.accumulators().iter().zip([value, 1]) {
            // SAFETY: it is the address of a sum or count of an entry that the table has just given.
            unsafe { *base.wrapping_add(entry as usize * 8 + slot.offset).cast::<i64>() += added };
        }
    }
}

/// A window of groups that come and go, in tables or pieces of slices: each has the sum of its rows.
fn check_coming_and_going(seed: u64) {
    let random = &mut Random(seed | 1);
    let types = key_types(random.below(11) as usize);
    let keys = key_columns(&types, true);
    let counts = random.below(2) as usize;
    let accumulators = [accumulators()[1].clone(), accumulators()[0].clone()];
    let layout = EntryLayout::new(&keys, &accumulators[..1 + counts]);
    let slides = 3 + random.below(3) as i64;
    let window = Window::Hopping { size: slides * SLIDE, slide: SLIDE, offset: 0 };
    let combination =
        [Combination::SubtractOnEvict, Combination::TwoStacks, Combination::Recompute][random.below(3) as usize];
    let mut open = OpenWindows::new(window, combination, &layout, Emission::default());
    let mut writers = [(); 2].map(|()| SmallSliceWriter::new(layout.clone(), combination));
    let mut slices: Vec<HashMap<Vec<Option<String>>, i64>> = Vec::new();
    let mut closed = 0;
    for slice in 0..60 {
        let mut model = HashMap::new();
        for part in 0..3 {
            let rows_max = if random.below(4) > 0 { 40 } else { 1 + 3000 * u64::from(part == 0) };
            let rows = random.below(rows_max) as usize;
            let drawn = [Draw::Near, Draw::Moving, Draw::Anywhere][random.below(3) as usize];
            let draws: Vec<Option<i64>> =
                (0..rows).map(|_| (random.below(5) > 0).then(|| draw(random, drawn, slice))).collect();
            let columns: Vec<ArrayRef> = types.iter().map(|data_type| column(data_type, &draws)).collect();
            let values: Vec<i64> = (0..rows).map(|_| random.below(1000) as i64).collect();
            if rows == 0 {
                continue;
            }
            let id = SliceId::new((slice + 1) * SLIDE, slice * SLIDE);
            if let (true, Some(writer)) = (random.below(6) > 0, writers.get_mut(part)) {
                let mut entries = entries_of_rows(writer.groups(rows), &columns, rows);
                writer.place(id, &mut entries);
                add_sums(writer.values(), &entries, &values);
            } else {
                let mut table = Table::new(layout.clone());
                let entries = entries_of_rows(&mut table, &columns, rows);
                add_sums(&mut table, &entries, &values);
                open.seal(id, table);
            }
            for (key, value) in keys_of_rows(&columns, rows).into_iter().zip(values) {
                *model.entry(key).or_insert(0) += value;
            }
        }
        slices.push(model);
        if random.below(3) == 0 {
            continue;
        }
        writers.iter_mut().flat_map(SmallSliceWriter::take).for_each(|pieces| open.close_small_slices(pieces));
        if random.below(12) == 0 {
            open = again(&open, || OpenWindows::new(window, combination, &layout, Emission::default()), random);
            // What comes later has other numbers.
            writers.iter_mut().for_each(|writer| *writer = SmallSliceWriter::new(layout.clone(), combination));
        }
        for end in closed..slices.len() {
            let limits = CloseLimits {
                until: (end as i64 + 1) * SLIDE,
                groups_at_once: 1 << 20,
                groups_max: [1, 100, usize::MAX][random.below(3) as usize],
                parts_min: [1, 50, usize::MAX][random.below(3) as usize],
            };
            let first = (end + 1).saturating_sub(slides as usize);
            assert_eq!(sums_of_next(&mut open, types.len(), limits), sums(&slices[first..=end]), "slice {end}");
        }
        closed = slices.len();
    }
}

/// The sums of the groups of slices together.
fn sums(slices: &[HashMap<Vec<Option<String>>, i64>]) -> HashMap<Vec<Option<String>>, i64> {
    let mut all = HashMap::new();
    for (key, sum) in slices.iter().flatten() {
        *all.entry(key.clone()).or_insert(0) += sum;
    }
    all
}

/// Closes a window, and reads its sums out.
fn sums_of_next(open: &mut OpenWindows, keys: usize, limits: CloseLimits) -> HashMap<Vec<Option<String>>, i64> {
    let mut found = HashMap::new();
    let mut read_out = |mut leaving: Leaving<'_>| -> Result<(), std::convert::Infallible> {
        let groups = groups(&mut leaving);
        let keys: Vec<ArrayRef> = (0..keys).map(|key| groups.table.key_array(key, groups.entries)).collect();
        let sums = groups.table.integers(0, groups.entries);
        for (key, sum) in keys_of_rows(&keys, sums.len()).into_iter().zip(sums) {
            assert!(found.insert(key, sum).is_none(), "a window has a key once");
        }
        Ok(())
    };
    while open.close(limits, &mut Vec::new(), &mut read_out).unwrap() < limits.until {}
    found
}

/// A slice that begins while the one before is still filled begins with as much room as that has come to need.
#[test]
fn a_slice_has_room_for_what_the_one_before_has() {
    let keys = [KeyColumn { data_type: DataType::Int64, nullable: false }];
    let mut store = SliceStore::new(EntryLayout::new(&keys, &[Accumulator::counting_rows()]));
    let first = store.table(SliceId::new(SLIDE, 0));
    first.prepare_integers(0, 199_999, 200_000);
    first.find_or_insert_integers(&(0..200_000).collect::<Vec<_>>(), &mut Vec::new(), &mut Vec::new());
    let second = store.table(SliceId::new(2 * SLIDE, SLIDE));
    let mode = second.prepare_integers(7, 8, 2);
    assert!(matches!(mode, IntegerMode::Dense { base: ..=0, length: 200_000.. }), "{mode:?}");
}

/// Sums and counts are subtracted, and groups that have left are forgotten.
#[test]
fn a_running_window_forgets_what_has_left() {
    let count = |argument_type| Accumulator::new(Accumulate::Count, argument_type, false);
    let keys = [KeyColumn { data_type: DataType::Int64, nullable: false }];
    let layout = EntryLayout::new(&keys, &[count(None)]);
    let window = Window::Hopping { size: 5 * SLIDE, slide: SLIDE, offset: 0 };
    let mut open = OpenWindows::new(window, Combination::SubtractOnEvict, &layout, Emission::default());
    let mut bytes = 0;
    for slice in 0..200 {
        let mut table = Table::new(layout.clone());
        let keys: Vec<i64> = (0..300).map(|row| slice * 1000 + row % 100).collect();
        let mut entries = Vec::new();
        table.prepare_integers(keys[0], keys[0] + 99, keys.len());
        table.find_or_insert_integers(&keys, &mut entries, &mut Vec::new());
        for entry in entries {
            let at = table.base().wrapping_add(entry as usize * 8 + layout.accumulators()[0].offset);
            // SAFETY: it is the address of a count of an entry that the table has just given.
            unsafe { *at.cast::<i64>() += 1 };
        }
        open.seal(SliceId::new((slice + 1) * SLIDE, slice * SLIDE), table);
        let until = (slice + 1) * SLIDE;
        let limits = CloseLimits { until, groups_at_once: 1000, groups_max: 1000, parts_min: usize::MAX };
        let mut found = Vec::new();
        let mut read_out = |mut leaving: Leaving<'_>| -> Result<(), std::convert::Infallible> {
            let groups = groups(&mut leaving);
            let keys = groups.table.key_array(0, groups.entries);
            let counts = groups.table.accumulator_array(0, groups.entries);
            let (keys, counts) = (keys.as_primitive::<Int64Type>(), counts.as_primitive::<Int64Type>());
            found.extend(keys.values().iter().copied().zip(counts.values().iter().copied()));
            Ok(())
        };
        open.close(limits, &mut Vec::new(), &mut read_out).unwrap();
        found.sort_unstable();
        let held = (slice - 4).max(0)..slice + 1;
        let expected = held.flat_map(|slice| (0..100).map(move |key| (slice * 1000 + key, 3)));
        assert_eq!(found, expected.collect::<Vec<_>>());
        if slice == 50 {
            bytes = open.bytes();
        }
    }
    assert!(open.bytes() <= bytes, "{} bytes, {bytes} after a quarter of the slices", open.bytes());
}

/// A slice that has all groups becomes a suffix where it lies; one that lacks some does not. Windows are the same of both.
#[test]
fn suffixes_are_made_of_slices_with_all_groups_and_of_others() {
    [1, usize::MAX].into_iter().for_each(check_suffixes);
}

fn check_suffixes(parts_min: usize) {
    const KEYS: i64 = 50;
    const SLICES: i64 = 7;
    let keys = [KeyColumn { data_type: DataType::Int64, nullable: false }];
    let least = Accumulator::new(Accumulate::Minimum, Some(DataType::Int64), false);
    let layout = EntryLayout::new(&keys, &[Accumulator::counting_rows(), least]);
    let window = Window::Hopping { size: SLICES * SLIDE, slide: SLIDE, offset: 0 };
    let mut open = OpenWindows::new(window, Combination::TwoStacks, &layout, Emission::default());
    let value = |slice: i64, key: i64| (slice * 37 + key * 11) % 101;
    let has = |slice: i64, key: i64| slice % 5 != 3 || key % 3 != 0;
    for slice in 0..6 * SLICES {
        let keys: Vec<i64> = (0..KEYS).filter(|&key| has(slice, key)).collect();
        let (mut table, mut entries) = (Table::new(layout.clone()), Vec::new());
        table.prepare_integers(0, KEYS - 1, keys.len());
        table.find_or_insert_integers(&keys, &mut entries, &mut Vec::new());
        for (&key, entry) in keys.iter().zip(entries) {
            let mut address = |index: usize| {
                table.base().wrapping_add(entry as usize * 8 + layout.accumulators()[index].offset).cast::<i64>()
            };
            // SAFETY: these are the addresses of two accumulators of eight bytes of an entry that the table has just given.
            unsafe {
                address(0).write_unaligned(1);
                address(1).write_unaligned(value(slice, key));
            }
        }
        open.seal(SliceId::new((slice + 1) * SLIDE, slice * SLIDE), table);
        let until = (slice + 1) * SLIDE;
        let limits = CloseLimits { until, groups_at_once: 1000, groups_max: usize::MAX, parts_min };
        let mut found = Vec::new();
        let mut read_out = |mut leaving: Leaving<'_>| -> Result<(), std::convert::Infallible> {
            let groups = groups(&mut leaving);
            let column = |index| groups.table.accumulator_array(index, groups.entries);
            let (keys, counts, least) = (groups.table.key_array(0, groups.entries), column(0), column(1));
            let [keys, counts, least] =
                [&keys, &counts, &least].map(|column| column.as_primitive::<Int64Type>().clone());
            found.extend((0..keys.len()).map(|at| (keys.value(at), counts.value(at), least.value(at))));
            Ok(())
        };
        open.close(limits, &mut Vec::new(), &mut read_out).unwrap();
        found.sort_unstable();
        let held = (slice + 1 - SLICES).max(0)..slice + 1;
        let expected = (0..KEYS).map(|key| {
            let with_key = held.clone().filter(|&slice| has(slice, key));
            let least =
                with_key.clone().map(|slice| value(slice, key)).min().expect("each window has slices with all groups");
            (key, with_key.count() as i64, least)
        });
        assert_eq!(found, expected.collect::<Vec<_>>(), "slice {slice}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::cases(40, 2), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_are_put_together_from_slices(seed in any::<u64>()) {
        check_windows(seed);
    }

    #[test]
    fn groups_come_into_a_window_and_leave_it(seed in any::<u64>()) {
        check_coming_and_going(seed);
    }
}
