//! Timed joins against a nested loop.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, StringViewArray, TimestampMillisecondArray, TimestampSecondArray,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit};
use pelton_data::TimeColumn;
use pelton_data::join::JoinSide;
use pelton_data::time::{WATERMARK_MAX, WATERMARK_MIN};
use proptest::prelude::*;

use super::*;
use crate::snapshot::{restore, take};

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % end
    }

    fn chance(&mut self, one_of: u64) -> bool {
        self.below(one_of) == 0
    }
}

/// A row of a side: its number, the number of its key, and its time in seconds.
#[derive(Debug, Clone, Copy)]
struct ModelRow {
    id: i64,
    key: Option<i64>,
    second: i64,
}

/// What leaves: the numbers of both rows.
type Pair = (Option<i64>, Option<i64>);

/// How keys are held.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Keys {
    None,
    Integer,
    Both,
}

#[derive(Debug, Clone)]
struct Case {
    kind: JoinKind,
    time: JoinTime,
    keys: Keys,
    has_residual: bool,
    rows: [Vec<ModelRow>; 2],
}

const KINDS: [JoinKind; 6] =
    [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full, JoinKind::Semi, JoinKind::Anti];

const SECOND: Micros = 1_000_000;

fn unit(side: Side) -> TimeUnit {
    if side == Side::Left { TimeUnit::Millisecond } else { TimeUnit::Second }
}

fn schema(side: Side) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("number", DataType::Int64, true),
        Field::new("text", DataType::Utf8View, true),
        Field::new("ts", DataType::Timestamp(unit(side), None), false),
    ]))
}

fn batch(side: Side, rows: &[ModelRow]) -> RecordBatch {
    let text = |key: i64| if key % 2 == 0 { format!("k{key}") } else { format!("a key that no view holds {key}") };
    let ids: Int64Array = rows.iter().map(|row| Some(row.id)).collect();
    let numbers: Int64Array = rows.iter().map(|row| row.key).collect();
    let texts: StringViewArray = rows.iter().map(|row| row.key.map(text)).collect();
    let seconds = rows.iter().map(|row| row.second);
    let times: ArrayRef = match side {
        Side::Left => Arc::new(TimestampMillisecondArray::from_iter_values(seconds.map(|second| second * 1_000))),
        Side::Right => Arc::new(TimestampSecondArray::from_iter_values(seconds)),
    };
    RecordBatch::try_new(schema(side), vec![Arc::new(ids), Arc::new(numbers), Arc::new(texts), times]).unwrap()
}

impl Case {
    fn draw(random: &mut Random, is_interval: bool) -> Case {
        let time = if is_interval {
            let lower = random.below(14) as i64 - 8;
            JoinTime::Interval { lower: lower * SECOND, upper: (lower + random.below(10) as i64) * SECOND }
        } else {
            JoinTime::Nearest { is_backward: random.chance(2), is_strict: random.chance(2) }
        };
        let kinds: Vec<JoinKind> =
            KINDS.into_iter().filter(|kind| is_interval || !kind.keeps_unmatched(Side::Right)).collect();
        let distinct = 1 + random.below(6);
        let counts = [random.below(60), random.below(60)];
        let mut id = 0;
        let rows = [0, 1].map(|side| {
            let count = if random.chance(10) { 0 } else { counts[side] };
            let rows = (0..count).map(|_| {
                id += 1;
                let key = (!random.chance(8)).then(|| (random.below(distinct) * random.below(distinct)) as i64);
                ModelRow { id, key, second: random.below(40) as i64 }
            });
            rows.collect()
        });
        let keys = [Keys::None, Keys::Integer, Keys::Both][random.below(3) as usize];
        let kind = kinds[random.below(kinds.len() as u64) as usize];
        Case { kind, time, keys, has_residual: random.chance(2), rows }
    }

    fn spec(&self) -> Arc<JoinSpec> {
        let side = |side: Side| JoinSide {
            schema: schema(side),
            keys: match self.keys {
                Keys::None => vec![],
                Keys::Integer => vec![1],
                Keys::Both => vec![2, 1],
            },
            time: TimeColumn::new(3, &DataType::Timestamp(unit(side), None)),
        };
        let id = |name| Field::new(name, DataType::Int64, true);
        Arc::new(JoinSpec {
            kind: self.kind,
            time: self.time,
            sides: Side::BOTH.map(side),
            columns: vec![JoinColumn::Of(Side::Left, 0), JoinColumn::Of(Side::Right, 0)],
            schema: Arc::new(Schema::new(vec![id("left"), id("right")])),
            output_time: None,
        })
    }

    fn residual(&self) -> Option<Residual> {
        let id = |name| Field::new(name, DataType::Int64, true);
        self.has_residual.then(|| Residual {
            columns: vec![(Side::Left, 0), (Side::Right, 0)],
            schema: Arc::new(Schema::new(vec![id("left"), id("right")])),
            test: Arc::new(|pairs: &RecordBatch| {
                let ids = |column: usize| pairs.column(column).as_primitive::<Int64Type>();
                assert_eq!(ids(0).null_count() + ids(1).null_count(), 0, "only pairs are asked for");
                Ok(BooleanBuffer::collect_bool(pairs.num_rows(), |row| meets(ids(0).value(row), ids(1).value(row))))
            }),
        })
    }

    fn has_equal_keys(&self, left: &ModelRow, right: &ModelRow) -> bool {
        self.keys == Keys::None || (left.key.is_some() && left.key == right.key)
    }

    fn meets_residual(&self, left: &ModelRow, right: &ModelRow) -> bool {
        !self.has_residual || meets(left.id, right.id)
    }

    /// The rows of the right side that a left row is paired with.
    fn matches<'a>(&'a self, left: &ModelRow) -> Vec<&'a ModelRow> {
        let equal = self.rows[1].iter().filter(|right| self.has_equal_keys(left, right));
        match self.time {
            JoinTime::Interval { lower, upper } => equal
                .filter(|right| (lower..=upper).contains(&((left.second - right.second) * SECOND)))
                .filter(|right| self.meets_residual(left, right))
                .collect(),
            JoinTime::Nearest { is_backward, is_strict } => {
                let distance = |right: &ModelRow| {
                    if is_backward { left.second - right.second } else { right.second - left.second }
                };
                // Of rows of one time the last.
                equal
                    .filter(|right| distance(right) >= i64::from(is_strict))
                    .rev()
                    .min_by_key(|right| distance(right))
                    .into_iter()
                    .filter(|right| self.meets_residual(left, right))
                    .collect()
            }
            JoinTime::Windows { .. } => unreachable!("no join of windows is drawn"),
        }
    }

    fn expected(&self) -> Vec<Pair> {
        let mut pairs: Vec<Pair> = Vec::new();
        let mut matched = Vec::new();
        for left in &self.rows[0] {
            let matches = self.matches(left);
            matched.extend(matches.iter().map(|right| right.id));
            match self.kind {
                JoinKind::Semi if !matches.is_empty() => pairs.push((Some(left.id), None)),
                JoinKind::Semi => {}
                JoinKind::Anti if !matches.is_empty() => {}
                _ if matches.is_empty() && self.kind.keeps_unmatched(Side::Left) => pairs.push((Some(left.id), None)),
                _ => pairs.extend(matches.iter().map(|right| (Some(left.id), Some(right.id)))),
            }
        }
        if self.kind.keeps_unmatched(Side::Right) {
            let unmatched = self.rows[1].iter().filter(|right| !matched.contains(&right.id));
            pairs.extend(unmatched.map(|right| (None, Some(right.id))));
        }
        pairs.sort_unstable();
        pairs
    }

    /// The rows as they come: at random moments, those of one side and time in their order.
    fn join(&self, random: &mut Random) -> Vec<Pair> {
        let mut join = TimedJoin::new(self.spec(), self.residual());
        let mut coming = self.arrivals(random);
        let (mut pairs, mut returned_until, mut watermark) = (Vec::new(), WATERMARK_MIN, WATERMARK_MIN);
        while coming.iter().any(|rows| !rows.is_empty()) {
            for side in Side::BOTH {
                let rows = &mut coming[side.port()];
                let count = (random.below(12) as usize).min(rows.len());
                let rows: Vec<ModelRow> = rows.drain(..count).collect();
                assert_eq!(join.add(side, batch(side, &rows)).unwrap(), 0);
            }
            let first = coming.iter().flatten().map(|row| row.second).min().unwrap_or(40);
            watermark = watermark.max((first - random.below(4) as i64) * SECOND - random.below(3) as i64);
            self.advance(&mut join, watermark, random, (&mut pairs, &mut returned_until));
            if random.chance(3) {
                let bytes = take(&join).unwrap();
                join = TimedJoin::new(self.spec(), self.residual());
                restore(&mut join, &bytes).unwrap();
                assert!(take(&join).unwrap() == bytes, "what is restored has the same snapshot");
            }
        }
        self.advance(&mut join, WATERMARK_MAX, random, (&mut pairs, &mut returned_until));
        if let JoinTime::Interval { .. } = self.time {
            assert_eq!(join.rows(), 0);
        }
        pairs
    }

    fn arrivals(&self, random: &mut Random) -> [Vec<ModelRow>; 2] {
        self.rows.clone().map(|mut rows| {
            rows.sort_by_key(|row| row.second);
            for at in 1..rows.len() {
                if random.chance(2) && rows[at - 1].second < rows[at].second {
                    rows.swap(at - 1, at);
                }
            }
            rows
        })
    }

    fn advance(
        &self,
        join: &mut TimedJoin,
        watermark: Micros,
        random: &mut Random,
        (pairs, returned_until): (&mut Vec<Pair>, &mut Micros),
    ) {
        loop {
            let (leaving, joined) = join.advance(watermark, 1 + random.below(9) as usize).unwrap();
            for batch in leaving.iter().flat_map(|pairs| pairs.output().unwrap()) {
                let ids = |column: usize| batch.column(column).as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
                let new: Vec<Pair> = ids(0).into_iter().zip(ids(1)).collect();
                assert!(new.iter().all(|pair| self.earliest(pair) >= *returned_until), "{new:?} {returned_until}");
                pairs.extend(new);
            }
            let until = join.results_until(joined);
            assert!(until >= *returned_until, "{until} after {returned_until}");
            *returned_until = until;
            if joined >= watermark {
                return;
            }
            if random.chance(5) {
                let bytes = take(join).unwrap();
                *join = TimedJoin::new(self.spec(), self.residual());
                restore(join, &bytes).unwrap();
            }
        }
    }

    /// The time by which a result is late.
    fn earliest(&self, &(left, right): &Pair) -> Micros {
        let time =
            |side: Side, id: i64| self.rows[side.port()].iter().find(|row| row.id == id).unwrap().second * SECOND;
        let (left, right) = (left.map(|id| time(Side::Left, id)), right.map(|id| time(Side::Right, id)));
        match self.time {
            JoinTime::Nearest { .. } => left.unwrap(),
            _ => left.into_iter().chain(right).min().unwrap(),
        }
    }
}

fn meets(left: i64, right: i64) -> bool {
    (left + right) % 3 != 0
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 8 } else { 400 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_timed_join_returns_what_a_nested_loop_does(seed in 1u64.., is_interval: bool) {
        let random = &mut Random(seed);
        let case = Case::draw(random, is_interval);
        let first = case.join(random);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, case.expected(), "{:?}", &case);
        // The order does not depend on when rows come either.
        prop_assert_eq!(case.join(random), first, "{:?}", &case);
    }
}

fn rows(count: i64, key: impl Fn(i64) -> i64, second: impl Fn(i64) -> i64) -> Vec<ModelRow> {
    (0..count).map(|id| ModelRow { id, key: Some(key(id)), second: second(id) }).collect()
}

#[test]
fn rows_before_the_watermark_are_left_out() {
    let time = JoinTime::Interval { lower: 0, upper: 5 * SECOND };
    let case = Case { kind: JoinKind::Inner, time, keys: Keys::Integer, has_residual: false, rows: [vec![], vec![]] };
    let mut join = TimedJoin::new(case.spec(), None);
    assert_eq!(join.add(Side::Right, batch(Side::Right, &rows(4, |_| 1, |id| id))).unwrap(), 0);
    let (none, joined) = join.advance(2 * SECOND + 1, 100).unwrap();
    assert_eq!((none.len(), joined), (0, 2 * SECOND + 1));
    // The row at 2 is before the watermark as well.
    assert_eq!(join.add(Side::Left, batch(Side::Left, &rows(4, |_| 1, |id| id))).unwrap(), 3);
    let (pairs, _) = join.advance(WATERMARK_MAX, 100).unwrap();
    assert_eq!(pairs.iter().flat_map(|pairs| pairs.output().unwrap()).map(|batch| batch.num_rows()).sum::<usize>(), 4);
}

#[test]
fn memory_stays_the_same_however_much_has_come() {
    let interval = JoinTime::Interval { lower: -2 * SECOND, upper: 3 * SECOND };
    let nearest = |is_backward| JoinTime::Nearest { is_backward, is_strict: false };
    for (time, kind) in [
        (interval, JoinKind::Inner),
        (interval, JoinKind::Full),
        (nearest(true), JoinKind::Left),
        (nearest(false), JoinKind::Left),
    ] {
        for is_few_keys in [true, false] {
            if matches!(time, JoinTime::Nearest { .. }) && !is_few_keys {
                // The newest row of each key is kept.
                continue;
            }
            let case = Case { kind, time, keys: Keys::Both, has_residual: false, rows: [vec![], vec![]] };
            let mut join = TimedJoin::new(case.spec(), None);
            let mut bytes_max = [0, 0];
            for step in 0..200_i64 {
                for side in Side::BOTH {
                    let key = |id: i64| if is_few_keys { id % 50 } else { step * 1_000 + id };
                    let rows = rows(500, key, |id| step * 5 + id / 100);
                    join.add(side, batch(side, &rows)).unwrap();
                }
                while join.advance(step * 5 * SECOND, 5_000).unwrap().1 < step * 5 * SECOND {}
                let half = &mut bytes_max[usize::from(step >= 100)];
                *half = join.bytes().max(*half);
            }
            let [first, second] = bytes_max;
            assert!(second <= first + first / 20, "{time:?} {kind:?}: {first} bytes, then {second}");
        }
    }
}
