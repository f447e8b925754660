//! Sessions of many keys, part by part, against a model: also where many end at one instant, and where they become longer after that has been noted.

use std::collections::BTreeMap;
use std::convert::Infallible;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use pelton_data::aggregate::{Accumulate, Accumulator, KeyColumn};
use pelton_data::window::{ResultKind, SessionSlots};
use pelton_state::coalesce::Leaving;
use pelton_state::layout::EntryLayout;
use pelton_state::session::OpenSessions;
use pelton_state::slice::SliceId;
use pelton_state::table::Table;
use pelton_state::window::{CloseLimits, Contents};
use proptest::prelude::*;

use super::model::Random;
use super::operators::add;

const GAP: i64 = 10_000;

/// A session by its end, start, key and number of rows.
type Session = (i64, i64, i64, i64);

/// The times of all rows of each key.
#[derive(Default)]
struct Rows(BTreeMap<i64, Vec<i64>>);

impl Rows {
    /// The sessions that end in these bounds, the last one too.
    fn sessions(&self, after: i64, until: i64) -> Vec<Session> {
        let mut sessions = Vec::new();
        for (&key, times) in &self.0 {
            let mut times = times.clone();
            times.sort_unstable();
            let of_key = times.chunk_by(|one, next| next - one <= GAP);
            sessions.extend(of_key.map(|rows| (rows[rows.len() - 1] + GAP, rows[0], key, rows.len() as i64)));
        }
        sessions.retain(|(end, ..)| (after + 1..=until).contains(end));
        sessions.sort_unstable();
        sessions
    }
}

/// Does what may be done part by part, and returns what leaves, in the order in which it does.
fn taken(
    kind: ResultKind,
    mut next: impl FnMut(&mut dyn FnMut(Leaving<'_>) -> Result<(), Infallible>) -> bool,
) -> Vec<Session> {
    let mut sessions = Vec::new();
    let mut take = |mut leaving: Leaving<'_>| {
        let Contents::Groups(groups) = leaving.contents() else { panic!("groups are kept") };
        let keys = groups.table.key_array(0, groups.entries);
        let rows = groups.table.integers(0, groups.entries);
        let windows = groups.windows.iter().flat_map(|window| std::iter::repeat_n(window, window.groups));
        for ((window, key), rows) in windows.zip(keys.as_primitive::<Int64Type>().values()).zip(rows) {
            assert_eq!(window.kind, kind);
            sessions.push((window.end, window.start, *key, rows));
        }
        Ok(())
    };
    while !next(&mut take) {}
    sessions
}

/// The keys of one worker's rows in a slice, and how far behind the slice's start each row is.
fn drawn(random: &mut Random) -> Vec<(i64, i64)> {
    match random.below(4) {
        0 => Vec::new(),
        // All at once, of which others have some as well.
        1 => {
            let (keys, first) = (1 + random.below(3_000) as i64, random.below(50) as i64);
            let at = random.below(GAP as u64) as i64;
            (first..first + keys).map(|key| (key, at)).collect()
        }
        most => {
            let rows = random.below(if most == 2 { 40 } else { 4_000 });
            (0..rows).map(|_| (random.below(5_000) as i64, random.below(GAP as u64) as i64)).collect()
        }
    }
}

fn limits(until: i64, random: &mut Random) -> CloseLimits {
    CloseLimits {
        until,
        groups_at_once: [1, 100, 1 << 20][random.below(3) as usize],
        groups_max: [1, 300, 20_000, usize::MAX][random.below(4) as usize],
        parts_min: usize::MAX,
    }
}

fn check_sessions(seed: u64) {
    let random = &mut Random(seed | 1);
    let time = |accumulate| Accumulator::new(accumulate, Some(DataType::Timestamp(TimeUnit::Microsecond, None)), false);
    let accumulators = [Accumulator::counting_rows(), time(Accumulate::Minimum), time(Accumulate::Maximum)];
    let layout = EntryLayout::new(&[KeyColumn { data_type: DataType::Int64, nullable: false }], &accumulators);
    let mut open = OpenSessions::new((GAP, 0), SessionSlots { first: 1, last: 2, rows: 0 }, &layout);
    let (mut rows, mut spare, mut closed_until) = (Rows::default(), Vec::new(), 0);
    for slice in 0..12 {
        let start = slice * GAP;
        for _worker in 0..2 {
            let drawn = drawn(random);
            if !drawn.is_empty() {
                let mut table = spare.pop().unwrap_or_else(|| Table::new(layout.clone()));
                let keys: Vec<i64> = drawn.iter().map(|(key, _)| *key).collect();
                add(&mut table, &keys, |_, at| start + drawn[at as usize].1);
                open.seal(SliceId::new(start, start), table);
            }
            drawn.into_iter().for_each(|(key, at)| rows.0.entry(key).or_default().push(start + at));
        }
        if slice % 3 == 1 {
            let limits = limits(0, random);
            let mut reported =
                taken(ResultKind::Early, |mut take| open.report_early(limits, &mut spare, &mut take).unwrap());
            reported.sort_unstable();
            assert_eq!(reported, rows.sessions(closed_until, i64::MAX), "reported after slice {slice}");
        }
        // Rows may come at the end of the slice, and join what ends there.
        let until = start + random.below(GAP as u64) as i64;
        let limits = limits(until, random);
        let closed = taken(ResultKind::Final, |mut take| open.close(limits, &mut spare, &mut take).unwrap() == until);
        assert!(closed.is_sorted_by_key(|(end, ..)| *end), "in the order of their ends");
        let mut closed = closed;
        closed.sort_unstable();
        assert_eq!(closed, rows.sessions(closed_until, until), "closed to {until}");
        closed_until = until;
    }
    let limits = CloseLimits { until: i64::MAX, groups_at_once: 100, groups_max: 1_000, parts_min: usize::MAX };
    let mut closed =
        taken(ResultKind::Final, |mut take| open.close(limits, &mut spare, &mut take).unwrap() == i64::MAX);
    closed.sort_unstable();
    assert_eq!(closed, rows.sessions(closed_until, i64::MAX));
    assert_eq!((open.slices(), open.next_end()), (0, None), "nothing is left");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::cases(60, 6)))]

    #[test]
    fn sessions_are_as_the_model_has_them(seed in any::<u64>()) {
        check_sessions(seed);
    }
}
