//! Windows of few groups that close together: each has its rows, and its sums are rounded as slices came, however many close at once, and whether slices are
//! pieces of a block or tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use pelton_data::aggregate::{Accumulate, Accumulator, KeyColumn};
use pelton_data::window::{Combination, Emission, Window};
use pelton_state::coalesce::Leaving;
use pelton_state::slice::SliceId;
use pelton_state::small_slices::SmallSliceWriter;
use pelton_state::table::{EntryLayout, Table};
use pelton_state::window::{CloseLimits, Contents, OpenWindows};
use proptest::prelude::*;

use super::model::Random;
use super::snapshots::again;

pub(super) const SLIDE: i64 = 10;

const SLICES: usize = if cfg!(miri) { 40 } else { 200 };

/// A key, and what is added to its integer sum and its largest value. The sum of floats gets a number that must be rounded.
pub(super) type Row = (i64, i64);

/// What one group has in a window: its sum and its largest value.
type Held = (i64, i64);

/// Rows by slice. Slice `number` has those that come in time, and those that come when one of its windows has closed.
struct Rows {
    in_time: Vec<Vec<Row>>,
    behind: Vec<Vec<Row>>,
}

/// Groups that mostly have rows in each slice; now and then there is another one, one goes, one lacks rows, or nothing comes at all.
fn rows(random: &mut Random) -> Rows {
    let (mut first, mut end) = (0, [1, 2, 4, 9, 30, 70][random.below(6) as usize]);
    let changes_seldom = random.below(2) == 0;
    let mut rows = Rows { in_time: Vec::new(), behind: Vec::new() };
    for _ in 0..SLICES {
        match random.below(if changes_seldom { 600 } else { 60 }) {
            0 => end += 1,
            1 if first + 1 < end => first += 1,
            _ => {}
        }
        let lacks = random.below(8) == 0;
        let mut of_slice: Vec<Row> = Vec::new();
        for _ in 0..1 + random.below(3) {
            let keys = (first..end).filter(|_| !lacks || random.below(3) > 0).collect::<Vec<_>>();
            of_slice.extend(keys.into_iter().map(|key| (key, random.below(1000) as i64 - 500)));
        }
        if random.below(50) == 0 {
            of_slice.clear();
        }
        let is_behind = random.below(40) == 0;
        rows.behind.push(if is_behind { vec![(first, 7), (end - 1, 1000)] } else { Vec::new() });
        rows.in_time.push(of_slice);
    }
    rows
}

fn float(value: i64) -> f64 {
    0.1 + value as f64 / 3.0
}

/// Adds a row to each of some entries.
pub(super) fn add(table: &mut Table, entries: &[u32], rows: &[Row]) {
    let (layout, base) = (table.layout().clone(), table.base());
    for (&entry, &(_, value)) in entries.iter().zip(rows) {
        for slot in layout.accumulators() {
            let at = base.wrapping_add(entry as usize * 8 + slot.offset);
            let (integer, number) = (at.cast::<i64>(), at.cast::<f64>());
            // SAFETY: it is the address of an accumulator of eight bytes of an entry that the table has just given.
            unsafe {
                match slot.accumulator.accumulate {
                    Accumulate::Count => integer.write_unaligned(integer.read_unaligned() + 1),
                    Accumulate::SumInteger => integer.write_unaligned(integer.read_unaligned() + value),
                    Accumulate::Maximum => integer.write_unaligned(integer.read_unaligned().max(value)),
                    _ => number.write_unaligned(number.read_unaligned() + float(value)),
                }
            }
        }
    }
}

pub(super) fn entries_of(table: &mut Table, rows: &[Row]) -> Vec<u32> {
    let (keys, mut entries) = (rows.iter().map(|row| row.0).collect::<Vec<_>>(), Vec::new());
    let bounds = (keys.iter().min(), keys.iter().max());
    if let (Some(&minimum), Some(&maximum)) = bounds {
        table.prepare_integers(minimum, maximum, keys.len());
        table.find_or_insert_integers(&keys, &mut entries, &mut Vec::new());
    }
    entries
}

/// Windows over the same rows, in blocks of some slices each, of which those in the middle are pieces.
struct Run<'a> {
    layout: Arc<EntryLayout>,
    window: Window,
    open: OpenWindows,
    writers: Vec<SmallSliceWriter>,
    rows: &'a Rows,
    /// Each group of each window, with the bits of its sum of floats.
    found: BTreeMap<(i64, i64), (Held, u64)>,
}

impl<'a> Run<'a> {
    fn new(layout: &Arc<EntryLayout>, slides: i64, rows: &'a Rows) -> Run<'a> {
        let window = Window::Hopping { size: slides * SLIDE, slide: SLIDE, offset: 0 };
        let open = OpenWindows::new(window, Combination::TwoStacks, layout, Emission::default());
        let writers = (0..2).map(|_| SmallSliceWriter::new(layout.clone(), Combination::TwoStacks)).collect();
        Run { layout: layout.clone(), window, open, writers, rows, found: BTreeMap::new() }
    }

    fn seal(&mut self, id: SliceId, rows: &[Row]) {
        if rows.is_empty() {
            return;
        }
        let mut table = Table::new(self.layout.clone());
        let entries = entries_of(&mut table, rows);
        add(&mut table, &entries, rows);
        self.open.seal(id, table);
    }

    /// Seals the slices of a block, which one of two workers had.
    fn seal_block(&mut self, slices: std::ops::Range<usize>, writer: usize) {
        let id = |slice: usize| SliceId::new((slice as i64 + 1) * SLIDE, slice as i64 * SLIDE);
        let inner = slices.start + 1..slices.end.saturating_sub(1);
        let of_inner: Vec<Row> = inner.clone().flat_map(|slice| self.rows.in_time[slice].clone()).collect();
        if !of_inner.is_empty() {
            let pieces = &mut self.writers[writer];
            let mut entries = entries_of(pieces.groups(of_inner.len()), &of_inner);
            let counts = inner.clone().map(|slice| (id(slice), self.rows.in_time[slice].len()));
            pieces.place_all(counts, &mut entries);
            add(pieces.values(), &entries, &of_inner);
            pieces.take().into_iter().for_each(|pieces| self.open.close_small_slices(pieces));
        }
        let data = self.rows;
        for slice in slices {
            if !inner.contains(&slice) {
                self.seal(id(slice), &data.in_time[slice]);
            }
            // Rows of the slice before that its first window has not.
            if let Some(before) = slice.checked_sub(1) {
                self.seal(SliceId::new(id(slice).first_end, id(before).start), &data.behind[before]);
            }
        }
    }

    /// Seals the slices of a block, which one of two workers had, and closes their windows.
    fn add_block(&mut self, slices: std::ops::Range<usize>, writer: usize, random: &mut Random) {
        self.seal_block(slices.clone(), writer);
        let until = slices.end as i64 * SLIDE;
        let groups_at_once = [1, 40, 400, 1 << 20][random.below(4) as usize];
        let groups_max = [1, 300, usize::MAX][random.below(3) as usize];
        let parts_min = [usize::MAX, 1, 50][random.below(3) as usize];
        let limits = CloseLimits { until, groups_at_once, groups_max, parts_min };
        while self.close(limits) < until {}
        if random.below(8) == 0 {
            let new = || OpenWindows::new(self.window, Combination::TwoStacks, &self.layout, Emission::default());
            self.open = again(&self.open, new, random);
            // What comes later has other numbers.
            let writers = self.writers.iter_mut();
            writers.for_each(|writer| *writer = SmallSliceWriter::new(self.layout.clone(), Combination::TwoStacks));
        }
    }

    fn close(&mut self, limits: CloseLimits) -> i64 {
        let slots = self.layout.accumulators();
        let slot = |wanted| slots.iter().position(|slot| slot.accumulator.accumulate == wanted).expect("there is one");
        let [sum, largest, floats] = [Accumulate::SumInteger, Accumulate::Maximum, Accumulate::SumFloat].map(slot);
        let found = &mut self.found;
        let mut take = |mut leaving: Leaving<'_>| -> Result<(), std::convert::Infallible> {
            let Contents::Groups(groups) = leaving.contents() else { panic!("groups are kept") };
            let mut ends = groups.windows.iter().flat_map(|window| std::iter::repeat_n(window.end, window.groups));
            let integers = |slot: usize| groups.table.accumulator_array(slot, groups.entries);
            let (keys, sums, largest) = (groups.table.key_array(0, groups.entries), integers(sum), integers(largest));
            let floats = groups.table.accumulator_array(floats, groups.entries);
            for at in 0..groups.entries.len() {
                let [key, sum, largest] =
                    [&keys, &sums, &largest].map(|column| column.as_primitive::<Int64Type>().value(at));
                let bits = floats.as_primitive::<Float64Type>().value(at).to_bits();
                let end = ends.next().expect("each group is of a window");
                assert!(found.insert((end, key), ((sum, largest), bits)).is_none(), "a window has a key once");
            }
            assert_eq!(ends.next(), None);
            Ok(())
        };
        self.open.close(limits, &mut Vec::new(), &mut take).unwrap()
    }
}

/// What each group of each window should have.
fn expected(rows: &Rows, slides: i64) -> BTreeMap<(i64, i64), Held> {
    let mut all = BTreeMap::new();
    for slice in 0..SLICES as i64 {
        for (rows, first) in [(&rows.in_time, slice + 1), (&rows.behind, slice + 2)] {
            for end in first..(slice + slides).min(SLICES as i64) + 1 {
                for &(key, value) in &rows[slice as usize] {
                    let held: &mut Held = all.entry((end * SLIDE, key)).or_insert((0, i64::MIN));
                    *held = (held.0 + value, held.1.max(value));
                }
            }
        }
    }
    all
}

/// The integer sum, the largest value and the sum of floats that [`Run`] reads.
fn accumulators() -> Vec<Accumulator> {
    let of = |accumulate, data_type| Accumulator::new(accumulate, Some(data_type), false);
    vec![
        of(Accumulate::SumInteger, DataType::Int64),
        of(Accumulate::Maximum, DataType::Int64),
        of(Accumulate::SumFloat, DataType::Float64),
    ]
}

#[test]
fn windows_of_the_same_groups_close_several_at_a_time() {
    let slides = 6;
    let of_slice: Vec<Row> = (0..4).map(|key| (key, 1)).collect();
    let rows = Rows { in_time: vec![of_slice; SLICES], behind: vec![Vec::new(); SLICES] };
    let layout = EntryLayout::new(&[KeyColumn { data_type: DataType::Int64, nullable: false }], &accumulators());
    let mut run = Run::new(&layout, slides, &rows);
    run.seal_block(0..SLICES, 0);
    // A call has work for one window, or for some that close together.
    let until = SLICES as i64 * SLIDE;
    let limits = CloseLimits { until, groups_at_once: 1 << 20, groups_max: 1, parts_min: usize::MAX };
    let (mut closed, mut longest) = (0, 0);
    while run.close(limits) < until {
        let windows = run.found.len() / 4;
        longest = longest.max(windows - std::mem::replace(&mut closed, windows));
    }
    assert!(longest > 1, "no windows closed together");
    let found = run.found.iter().map(|(group, (held, _))| (*group, *held));
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected(&rows, slides));
}

fn check_runs(seed: u64) {
    let random = &mut Random(seed | 1);
    let slides = [5, 6, 17, 60][random.below(4) as usize];
    let rows = rows(random);
    let mut accumulators = accumulators();
    // Where rows are not counted, whether a group is there is kept beside.
    if random.below(2) == 0 {
        accumulators.push(Accumulator::counting_rows());
    }
    let keys = [KeyColumn { data_type: DataType::Int64, nullable: random.below(2) == 0 }];
    let layout = EntryLayout::new(&keys, &accumulators);
    let mut one_by_one = Run::new(&layout, slides, &rows);
    (0..SLICES).for_each(|slice| one_by_one.add_block(slice..slice + 1, 0, &mut Random(3)));
    let found = one_by_one.found.iter().map(|(group, (held, _))| (*group, *held));
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected(&rows, slides));
    let mut together = Run::new(&layout, slides, &rows);
    let (mut slice, longest) = (0, [10, 40, 200][random.below(3) as usize]);
    while slice < SLICES {
        let end = SLICES.min(slice + 1 + random.below(longest) as usize);
        together.add_block(slice..end, random.below(2) as usize, random);
        slice = end;
    }
    assert_eq!(together.found, one_by_one.found);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::cases(60, 2), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_that_close_together_are_those_that_close_one_by_one(seed in any::<u64>()) {
        check_runs(seed);
    }
}
