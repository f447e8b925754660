//! Windows whose groups mostly stay: those that leave together share the keys of those before.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use pelton_data::aggregate::KeyColumn;
use pelton_data::window::{Combination, Emission, Window};
use pelton_state::coalesce::{CopiedGroups, Leaving};
use pelton_state::slice::SliceId;
use pelton_state::table::{EntryLayout, Table};
use pelton_state::window::{CloseLimits, ClosedGroups, Contents, OpenWindows};
use proptest::prelude::*;

use super::model::{Random, accumulators, column, entries_of_rows, key_columns, key_types, keys_of_rows};
use super::windows::add_sums;

const SLIDE: i64 = 10;

/// Groups of a window: its end, a key, and the sum.
type Row = (i64, Vec<Option<String>>, i64);

/// What has left together, with arrays that may share what others have.
struct Left {
    keys: Vec<ArrayRef>,
    sums: ArrayRef,
    ends: Vec<i64>,
}

impl Left {
    fn of(groups: &ClosedGroups<'_>, keys: usize) -> Left {
        let ends = groups.windows.iter().flat_map(|window| std::iter::repeat_n(window.end, window.groups));
        Left {
            keys: (0..keys).map(|key| groups.table.key_array(key, groups.entries)).collect(),
            sums: groups.table.accumulator_array(0, groups.entries),
            ends: ends.collect(),
        }
    }

    fn rows(&self) -> Vec<Row> {
        let sums = keys_of_rows(std::slice::from_ref(&self.sums), self.ends.len());
        let sum = |sum: Vec<Option<String>>| sum[0].as_ref().expect("no sum is NULL").parse().expect("a sum");
        let keys = keys_of_rows(&self.keys, self.ends.len());
        self.ends.iter().zip(keys).zip(sums).map(|((&end, key), of)| (end, key, sum(of))).collect()
    }
}

/// Windows over slices, each with a value for each of its keys.
struct Slices {
    open: OpenWindows,
    layout: std::sync::Arc<EntryLayout>,
    types: Vec<DataType>,
    count: i64,
    parts_min: usize,
}

impl Slices {
    fn new(types: &[DataType], slides: i64, combination: Combination, parts_min: usize) -> Slices {
        let keys = key_columns(types, true);
        let layout = EntryLayout::new(&keys, &[accumulators()[1].clone(), accumulators()[0].clone()]);
        let window = Window::Hopping { size: slides * SLIDE, slide: SLIDE, offset: 0 };
        let open = OpenWindows::new(window, combination, &layout, Emission::default());
        Slices { open, layout, types: types.to_vec(), count: 0, parts_min }
    }

    /// Returns the keys.
    fn seal(&mut self, draws: &[Option<i64>], value: i64) -> Vec<Vec<Option<String>>> {
        let columns: Vec<ArrayRef> = self.types.iter().map(|data_type| column(data_type, draws)).collect();
        let mut table = Table::new(self.layout.clone());
        let entries = entries_of_rows(&mut table, &columns, draws.len());
        add_sums(&mut table, &entries, &vec![value; draws.len()]);
        self.open.seal(SliceId::new((self.count + 1) * SLIDE, self.count * SLIDE), table);
        self.count += 1;
        keys_of_rows(&columns, draws.len())
    }

    /// Closes all windows; where copies are taken, to be read when all have closed, spares take their place.
    fn close(&mut self, groups_at_once: usize, spares: Option<&mut Vec<CopiedGroups>>) -> Vec<Left> {
        let (mut left, mut taken, keys) = (Vec::new(), Vec::new(), self.types.len());
        let mut spares = spares;
        let read = |contents: Contents<'_>| match contents {
            Contents::Groups(groups) => Left::of(&groups, keys),
            Contents::Rows(_) => panic!("groups are kept"),
        };
        let mut hand_on = |mut leaving: Leaving<'_>| -> Result<(), std::convert::Infallible> {
            match (&mut leaving, &mut spares) {
                (Leaving::Later(copied), Some(spares)) => taken.push(copied.take(spares.pop())),
                _ => left.push(read(leaving.contents())),
            }
            Ok(())
        };
        let limits = CloseLimits {
            until: self.count * SLIDE,
            groups_at_once,
            groups_max: usize::MAX,
            parts_min: self.parts_min,
        };
        while self.open.close(limits, &mut Vec::new(), &mut hand_on).unwrap() < limits.until {}
        for copied in &mut taken {
            left.push(read(copied.contents()));
            copied.clear();
        }
        if let Some(spares) = spares {
            spares.append(&mut taken);
        }
        left
    }
}

/// Groups that come and go now and then, in windows that leave together: each has its rows, and what has left does not change.
fn check_staying(seed: u64) {
    let random = &mut Random(seed | 1);
    let slides = 2 + random.below(4) as i64;
    let combination =
        [Combination::SubtractOnEvict, Combination::TwoStacks, Combination::Recompute][random.below(3) as usize];
    let (types, parts_min) = (key_types(random.below(11) as usize), [1, 8, usize::MAX][random.below(3) as usize]);
    let mut slices = Slices::new(&types, slides, combination, parts_min);
    let (mut held, mut models) = (Vec::new(), Vec::<HashMap<Vec<Option<String>>, i64>>::new());
    let mut spares = (random.below(2) == 0).then(Vec::new);
    let (mut first, mut last) = (0, 5);
    for _ in 0..20 {
        for _ in 0..1 + random.below(12) {
            match random.below(30) {
                0 if first < last => first += 1,
                1 => last += 1 + random.below(3) as i64,
                _ => {}
            }
            let with_null = (random.below(20) == 0).then_some(None);
            let mut draws: Vec<Option<i64>> = (first..=last).map(Some).chain(with_null).collect();
            if random.below(40) == 0 {
                draws.reverse();
            }
            let value = random.below(1000) as i64;
            let mut model = HashMap::new();
            slices.seal(&draws, value).into_iter().for_each(|key| *model.entry(key).or_insert(0) += value);
            models.push(model);
        }
        let groups_at_once = [4, 60, 200, 2000][random.below(4) as usize];
        for left in slices.close(groups_at_once, spares.as_mut()) {
            let rows = left.rows();
            held.push((left, rows));
        }
    }
    let mut found: HashMap<(i64, Vec<Option<String>>), i64> = HashMap::new();
    for (left, rows) in held {
        assert_eq!(left.rows(), rows, "what has left does not change");
        rows.into_iter().for_each(|(end, key, sum)| assert!(found.insert((end, key), sum).is_none(), "a key once"));
    }
    let mut expected = HashMap::new();
    for (slice, model) in (1..).zip(&models) {
        for end in slice..(slice + slides).min(models.len() as i64 + 1) {
            for (key, sum) in model {
                *expected.entry((end * SLIDE, key.clone())).or_insert(0) += sum;
            }
        }
    }
    assert_eq!(found, expected);
}

#[test]
fn windows_with_the_same_groups_share_their_keys() {
    let mut slices = Slices::new(&[DataType::Int64, DataType::Int32], 3, Combination::TwoStacks, usize::MAX);
    let draws = |count: i64| (0..count).map(Some).collect::<Vec<_>>();
    let mut close = |windows: usize, keys: i64| {
        (0..windows).for_each(|_| drop(slices.seal(&draws(keys), 1)));
        let mut left = slices.close(4000, None);
        assert_eq!(left.len(), 1);
        left.remove(0)
    };
    let address = |left: &Left, key: usize| left.keys[key].to_data().buffers()[0].as_ptr();
    let (_first, second) = (close(5, 10), close(5, 10));
    for shorter in [close(5, 10), close(2, 10), close(5, 10)] {
        assert_eq!(address(&shorter, 0), address(&second, 0));
        assert_eq!(address(&shorter, 1), address(&second, 1));
        assert_eq!(shorter.rows().len(), shorter.ends.len());
    }
    let longer = close(6, 10);
    assert_ne!(address(&longer, 0), address(&second, 0));
    assert_eq!(address(&close(6, 10), 0), address(&longer, 0));
    let others = close(6, 11);
    assert_ne!(address(&others, 0), address(&longer, 0));
    assert_eq!(others.rows().iter().filter(|row| row.0 == others.ends[0]).count(), 11);
}

/// Windows that are put together when the next ones have closed have their keys from each other as well, however many leave together.
#[test]
fn windows_in_parts_share_their_keys() {
    let mut slices = Slices::new(&[DataType::Int64, DataType::Int32], 3, Combination::TwoStacks, 1);
    let mut close = |windows: usize, keys: i64| {
        let draws: Vec<Option<i64>> = (0..keys).map(Some).collect();
        (0..windows).for_each(|_| drop(slices.seal(&draws, 1)));
        let mut left = slices.close(4000, Some(&mut Vec::new()));
        assert_eq!(left.len(), 1);
        left.remove(0)
    };
    let address = |left: &Left| left.keys[0].to_data().buffers()[0].as_ptr();
    let (first, second) = (close(2, 100), close(2, 100));
    assert_ne!(address(&first), address(&second));
    for others in [close(5, 100), close(1, 100), close(6, 100)] {
        assert_eq!(address(&others), address(&second));
        assert!(others.rows().iter().all(|(_, _, sum)| *sum == 3));
    }
    let longer = close(6, 101);
    assert_ne!(address(&longer), address(&second));
    let windows_of_last_key = longer.rows().iter().filter(|(_, _, sum)| *sum < 3).count();
    assert_eq!(windows_of_last_key, 2, "its first two windows have one slice and two slices with it");
}

/// Sums of floats are rounded as slices came, whoever puts windows together, and however many close together.
#[test]
fn sums_are_rounded_alike_wherever_windows_are_put_together() {
    const SLIDES: i64 = 7;
    let keys = [KeyColumn { data_type: DataType::Int64, nullable: false }];
    let layout = EntryLayout::new(&keys, &[accumulators()[0].clone(), accumulators()[7].clone()]);
    let windows = |parts_min: usize, slices_at_once: i64| {
        let window = Window::Hopping { size: SLIDES * SLIDE, slide: SLIDE, offset: 0 };
        let mut open = OpenWindows::new(window, Combination::TwoStacks, &layout, Emission::default());
        let random = &mut Random(17);
        let (mut found, mut spares) = (Vec::new(), Vec::<CopiedGroups>::new());
        for slice in 0..60 {
            let keys: Vec<i64> = (0..30).filter(|_| random.below(3) > 0).collect();
            let (mut table, mut entries) = (Table::new(layout.clone()), Vec::new());
            table.prepare_integers(0, 29, keys.len());
            table.find_or_insert_integers(&keys, &mut entries, &mut Vec::new());
            for entry in entries {
                let mut address = |slot: usize| {
                    table.base().wrapping_add(entry as usize * 8 + table.layout().accumulators()[slot].offset)
                };
                // SAFETY: these are the addresses of a count and a sum of an entry that the table has just given.
                unsafe {
                    address(0).cast::<i64>().write_unaligned(1);
                    address(1).cast::<f64>().write_unaligned(0.1 + random.below(1 << 50) as f64 / 3.0);
                }
            }
            open.seal(SliceId::new((slice + 1) * SLIDE, slice * SLIDE), table);
            if (slice + 1) % slices_at_once > 0 {
                continue;
            }
            let mut taken = Vec::new();
            let mut hand_on = |leaving: Leaving<'_>| -> Result<(), std::convert::Infallible> {
                let Leaving::Later(copied) = leaving else { panic!("windows are small") };
                taken.push(copied.take(spares.pop()));
                Ok(())
            };
            let until = (slice + 1) * SLIDE;
            let limits = CloseLimits { until, groups_at_once: 400, groups_max: usize::MAX, parts_min };
            open.close(limits, &mut Vec::new(), &mut hand_on).unwrap();
            for copied in &mut taken {
                let Contents::Groups(groups) = copied.contents() else { panic!("groups are kept") };
                let left = Left::of(&groups, 1);
                let sums = groups.table.accumulator_array(1, groups.entries).to_data().buffers()[0]
                    .typed_data::<u64>()
                    .to_vec();
                let (ends, keys) = (left.ends.clone(), keys_of_rows(&left.keys, left.ends.len()));
                found.extend(ends.into_iter().zip(keys).zip(sums));
                copied.clear();
            }
            spares.append(&mut taken);
        }
        found.sort();
        found
    };
    let expected = windows(usize::MAX, 1);
    assert!(expected.len() > 1000);
    for (parts_min, slices_at_once) in [(usize::MAX, 10), (1, 1), (1, 3), (1, 20)] {
        assert_eq!(windows(parts_min, slices_at_once), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::cases(60, 2), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn groups_that_stay_leave_with_their_windows(seed in any::<u64>()) {
        check_staying(seed);
    }
}
