//! Windows most of whose groups have come with the last slices: groups are given numbers without a search as long as all are of one source of pieces, are searched
//! for beside tables and other sources, and are forgotten when they have left.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int64Type};
use pelton_data::aggregate::{Accumulate, Accumulator, KeyColumn};
use pelton_data::window::{Combination, Emission, Window};
use pelton_state::coalesce::Leaving;
use pelton_state::slice::SliceId;
use pelton_state::small_slices::SmallSliceWriter;
use pelton_state::table::{EntryLayout, Table};
use pelton_state::window::{CloseLimits, Contents, OpenWindows};
use proptest::prelude::*;

use super::model::Random;
use super::runs::{Row, SLIDE, add, entries_of};
use super::snapshots::again;

const SLICES: usize = if cfg!(miri) { 30 } else { 240 };

/// Slices that a window has.
const SLIDES: usize = 7;

/// Windows over slices, of which each worker has some.
struct Run {
    combination: Combination,
    layout: Arc<EntryLayout>,
    open: OpenWindows,
    writers: Vec<SmallSliceWriter>,
    /// The sum of each group of each window.
    found: BTreeMap<(i64, i64), i64>,
}

fn id(slice: usize) -> SliceId {
    SliceId::new((slice as i64 + 1) * SLIDE, slice as i64 * SLIDE)
}

impl Run {
    fn new(combination: Combination, random: &mut Random) -> Run {
        let mut accumulators = vec![Accumulator::new(Accumulate::SumInteger, Some(DataType::Int64), false)];
        if random.below(2) == 0 {
            accumulators.push(Accumulator::counting_rows());
        }
        let layout = EntryLayout::new(&[KeyColumn { data_type: DataType::Int64, nullable: false }], &accumulators);
        let writers = (0..2).map(|_| SmallSliceWriter::new(layout.clone(), combination)).collect();
        let open = Run::windows(combination, &layout);
        Run { combination, layout, open, writers, found: BTreeMap::new() }
    }

    fn windows(combination: Combination, layout: &Arc<EntryLayout>) -> OpenWindows {
        let window = Window::Hopping { size: SLIDES as i64 * SLIDE, slide: SLIDE, offset: 0 };
        OpenWindows::new(window, combination, layout, Emission::default())
    }

    /// A worker has some slices, as pieces.
    fn close_small_slices(&mut self, first: usize, slices: &[Vec<Row>], writer: usize) {
        let rows: Vec<Row> = slices.iter().flatten().copied().collect();
        if rows.is_empty() {
            return;
        }
        let writer = &mut self.writers[writer];
        let mut entries = entries_of(writer.groups(rows.len()), &rows);
        writer.place_all((first..).zip(slices).map(|(slice, rows)| (id(slice), rows.len())), &mut entries);
        add(writer.values(), &entries, &rows);
        writer.take().into_iter().for_each(|pieces| self.open.close_small_slices(pieces));
    }

    /// A worker has a slice, as a table.
    fn seal_table(&mut self, slice: usize, rows: &[Row]) {
        let mut table = Table::new(self.layout.clone());
        let entries = entries_of(&mut table, rows);
        add(&mut table, &entries, rows);
        self.open.seal(id(slice), table);
    }

    fn close(&mut self, until: i64, random: &mut Random) {
        let groups_at_once = [40, 1 << 14][random.below(2) as usize];
        let groups_max = [1, 300, usize::MAX][random.below(3) as usize];
        let limits = CloseLimits { until, groups_at_once, groups_max, parts_min: usize::MAX };
        let found = &mut self.found;
        let mut take = |mut leaving: Leaving<'_>| -> Result<(), std::convert::Infallible> {
            let Contents::Groups(groups) = leaving.contents() else { panic!("groups are kept") };
            let ends = groups.windows.iter().flat_map(|window| std::iter::repeat_n(window.end, window.groups));
            let keys = groups.table.key_array(0, groups.entries);
            let sums = groups.table.accumulator_array(0, groups.entries);
            let (keys, sums) = (keys.as_primitive::<Int64Type>(), sums.as_primitive::<Int64Type>());
            for ((end, key), sum) in ends.zip(keys.values()).zip(sums.values()) {
                assert!(found.insert((end, *key), *sum).is_none(), "a window has a key once");
            }
            Ok(())
        };
        while self.open.close(limits, &mut Vec::new(), &mut take).unwrap() < until {}
    }

    /// What comes later is of other sources.
    fn change_sources(&mut self) {
        self.writers
            .iter_mut()
            .for_each(|writer| *writer = SmallSliceWriter::new(self.layout.clone(), self.combination));
    }
}

/// Rows mostly of groups that there were not before, and of some that there were, a few of which have long left.
fn rows(random: &mut Random) -> Vec<Vec<Row>> {
    let (mut groups, most) = (0_u64, 1 + random.below(if cfg!(miri) { 20 } else { 400 }));
    let slice = |_| {
        let rows = (0..random.below(most)).map(|_| {
            let back = [0, 0, 0, 0, most, SLIDES as u64 * most, 40 * most][random.below(7) as usize];
            let group = if back == 0 { groups } else { groups.saturating_sub(random.below(back)) };
            groups = groups.max(group + 1);
            ((group * 7919) as i64 % (1 << 40), random.below(1000) as i64 - 500)
        });
        rows.collect()
    };
    (0..SLICES).map(slice).collect()
}

fn expected(slices: &[Vec<Row>]) -> BTreeMap<(i64, i64), i64> {
    let mut all = BTreeMap::new();
    for (slice, rows) in slices.iter().enumerate() {
        for end in slice + 1..(slice + SLIDES).min(slices.len()) + 1 {
            for (key, value) in rows {
                *all.entry((end as i64 * SLIDE, *key)).or_default() += value;
            }
        }
    }
    all
}

fn check(seed: u64) {
    let random = &mut Random(seed | 1);
    let slices = rows(random);
    let combinations = [Combination::SubtractOnEvict, Combination::TwoStacks, Combination::Recompute];
    let combination = combinations[random.below(5).saturating_sub(2) as usize];
    let mut run = Run::new(combination, random);
    let (mut first, others_are_seldom) = (0, random.below(2) == 0);
    while first < SLICES {
        let end = SLICES.min(first + 1 + random.below(12) as usize);
        match random.below(if others_are_seldom { 24 } else { 4 }) {
            0 => {
                let half: Vec<Vec<Row>> =
                    slices[first..end].iter().map(|rows| rows[rows.len() / 2..].to_vec()).collect();
                run.close_small_slices(first, &half, 1);
                let half: Vec<Vec<Row>> =
                    slices[first..end].iter().map(|rows| rows[..rows.len() / 2].to_vec()).collect();
                run.close_small_slices(first, &half, 0);
            }
            1 => (first..end).for_each(|slice| run.seal_table(slice, &slices[slice])),
            2 => {
                run.change_sources();
                run.close_small_slices(first, &slices[first..end], 0);
            }
            _ => run.close_small_slices(first, &slices[first..end], 0),
        }
        run.close(end as i64 * SLIDE, random);
        if random.below(30) == 0 {
            let (combination, layout) = (run.combination, run.layout.clone());
            run.open = again(&run.open, || Run::windows(combination, &layout), random);
            run.change_sources();
        }
        first = end;
    }
    let expected = expected(&slices);
    assert!(run.found == expected, "{combination:?}: {} groups of windows, not {}", run.found.len(), expected.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::cases(60, 2), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn groups_are_found_wherever_slices_come_from(seed in any::<u64>()) {
        check(seed);
    }
}
