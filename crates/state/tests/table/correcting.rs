//! Windows that rows correct which come when they have been reported, against a model.

use std::collections::BTreeMap;
use std::convert::Infallible;

use pelton_data::window::{Combination, Emission, ResultKind, Window};
use pelton_state::coalesce::Leaving;
use pelton_state::slice::SliceId;
use pelton_state::table::{EntryLayout, Table};
use pelton_state::window::{CloseLimits, Contents, OpenWindows};
use proptest::prelude::*;

use super::model::{
    Draw, Model, Random, accumulators, add_drawn, add_to_model, draw, key_columns, key_types, read_entries,
};
use super::snapshots::sometimes_again;

const SLIDE: i64 = 10;

/// Rows of one slice, and the watermark under which they came.
struct Arrived {
    start: i64,
    watermark: i64,
    rows: Model,
}

/// What is reported in one go: groups by the end of their window, and by whether they correct it.
type Reported = BTreeMap<(i64, bool), Model>;

struct Stream {
    window: Window,
    lateness: i64,
    arrived: Vec<Arrived>,
}

impl Stream {
    /// What a slice is called for rows that come now, if they count in any window.
    fn id(&self, start: i64, watermark: i64) -> Option<SliceId> {
        let covered = self.window.slice(start).covered.expect("windows have no gaps");
        if covered.first_end > watermark {
            return Some(SliceId::new(covered.first_end, start));
        }
        let is_final = covered.last_end.max(self.next_final(watermark)) > covered.last_end;
        (!is_final).then_some(SliceId { first_end: watermark + 1, start, corrects: true })
    }

    /// The end of the first window that is not final.
    fn next_final(&self, watermark: i64) -> i64 {
        self.window.next_end(watermark - self.lateness)
    }

    /// The rows of a window that came by a watermark, of the keys that `has` tells.
    fn rows(&self, end: i64, watermark: i64, has: impl Fn(&Vec<Option<String>>) -> bool) -> Model {
        let mut model = Model::new();
        let bounds = self.window.start(end)..end;
        let arrived = self.arrived.iter().filter(|rows| bounds.contains(&rows.start) && rows.watermark <= watermark);
        for (key, group) in arrived.flat_map(|rows| &rows.rows).filter(|(key, _)| has(key)) {
            add_to_model(&mut model, key.clone(), group);
        }
        model
    }

    /// What is reported when time comes from one watermark to another one.
    fn expected(&self, from: i64, until: i64) -> Reported {
        let mut reported = Reported::new();
        let correcting =
            |rows: &&Arrived| rows.watermark == from && self.id(rows.start, from).is_some_and(|id| id.corrects);
        let correcting: Vec<&Arrived> = self.arrived.iter().filter(correcting).collect();
        for end in (self.next_final(from)..=from).filter(|end| end % SLIDE == 0) {
            let changing = correcting.iter().filter(|rows| (self.window.start(end)..end).contains(&rows.start));
            let changing: Vec<&Model> = changing.map(|rows| &rows.rows).collect();
            let groups = self.rows(end, from, |key| changing.iter().any(|rows| rows.contains_key(key)));
            reported.insert((end, true), groups);
        }
        for end in (from + 1..=until).filter(|end| end % SLIDE == 0) {
            reported.insert((end, false), self.rows(end, from, |_| true));
        }
        reported.retain(|_, groups| !groups.is_empty());
        reported
    }
}

fn check_corrections(seed: u64) {
    let random = &mut Random(seed | 1);
    let types = key_types(random.below(11) as usize);
    let keys = key_columns(&types, true);
    let slides = 1 + random.below(3) as i64;
    let (window, combination) = match slides {
        1 => (Window::Tumbling { size: SLIDE, offset: 0 }, Combination::Single),
        _ if random.below(2) == 0 => {
            (Window::Hopping { size: slides * SLIDE, slide: SLIDE, offset: 0 }, Combination::TwoStacks)
        }
        _ => (Window::Hopping { size: slides * SLIDE, slide: SLIDE, offset: 0 }, Combination::Recompute),
    };
    let layout = EntryLayout::new(&keys, &accumulators());
    let emission = Emission { lateness: 1 + random.below(40) as i64, ..Emission::default() };
    let new = || OpenWindows::new(window, combination, &layout, emission);
    let (mut open, mut spare) = (new(), Vec::new());
    let mut stream = Stream { window, lateness: emission.lateness, arrived: Vec::new() };
    let mut watermark = 0;
    for step in 0..20 {
        for _ in 0..random.below(5) {
            let start = ((watermark / SLIDE + 1 - random.below(6) as i64).max(0)) * SLIDE;
            let Some(id) = stream.id(start, watermark) else { continue };
            let rows_max = if random.below(8) == 0 { 3_000 } else { 200 };
            let rows = 1 + random.below(rows_max) as usize;
            let draws = (0..rows).map(|_| (random.below(9) > 0).then(|| draw(random, Draw::Near, step)));
            let draws: Vec<Option<i64>> = draws.collect();
            let mut table = spare.pop().unwrap_or_else(|| Table::new(layout.clone()));
            let model = add_drawn(&mut table, &types, &draws, random);
            open.seal(id, table);
            stream.arrived.push(Arrived { start, watermark, rows: model });
        }
        open = sometimes_again(open, new, random);
        let until = watermark + 1 + random.below(25) as i64;
        assert_eq!(closed(&mut open, until, &mut spare, random), stream.expected(watermark, until), "to {until}");
        watermark = until;
    }
    closed(&mut open, watermark + 1_000, &mut spare, random);
    assert_eq!((open.sealed_slices(), open.dues()), (0, vec![]), "nothing is left");
}

/// Closes windows in however many parts.
fn closed(open: &mut OpenWindows, until: i64, spare: &mut Vec<Table>, random: &mut Random) -> Reported {
    let mut reported = Reported::new();
    let limits = CloseLimits {
        until,
        groups_at_once: [1, 7, 500, 1 << 20][random.below(4) as usize],
        groups_max: [1, 600, usize::MAX][random.below(3) as usize],
        parts_min: usize::MAX,
    };
    let mut take = |mut leaving: Leaving<'_>| {
        let Contents::Groups(groups) = leaving.contents() else { panic!("groups are kept") };
        let windows = groups.windows.iter().flat_map(|window| std::iter::repeat_n(window, window.groups));
        for (window, (key, group)) in windows.zip(read_entries(groups.table, groups.entries)) {
            let of_window = reported.entry((window.end, window.kind == ResultKind::Correction)).or_default();
            assert!(of_window.insert(key, group).is_none(), "a window is reported with a key once");
        }
        Ok::<_, Infallible>(())
    };
    while open.close(limits, spare, &mut take).unwrap() < until {}
    reported
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::cases(150, 15)))]

    #[test]
    fn corrected_windows_are_as_the_model_has_them(seed in any::<u64>()) {
        check_corrections(seed);
    }
}
