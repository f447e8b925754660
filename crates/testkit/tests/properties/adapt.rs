//! Data that shifts at random while code changes at random moments: the rows are those of the interpreter, which knows one variant only, with all keys found by hash.
//!
//! Ranges, selectivities, skew and the number of keys change from phase to phase, NULLs appear, rows come out of order. A seed that fails is in the message:
//! `PELTON_ADAPT_SEED` tries it alone, and `PELTON_ADAPT_SEEDS` sets how many are tried. Where workers are threads, a seed says what chance wants and not when; where
//! they have none, it says in which order all happens as well, and a seed that has failed fails again.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use arrow::compute::cast;
use pelton::{AdaptationEvent, AdaptationKind, PushSource, Session};
use pelton_runtime::clock::Clock;
use pelton_runtime::pool::Pool;
use pelton_testkit::rows::row_lines;
use pelton_testkit::script::engine::execute;

/// Seeds that are tried unless told otherwise.
const SEEDS: u64 = 16;
const PHASES: usize = 6;
const COLUMNS: &str = "ts TIMESTAMP(3) NOT NULL, k BIGINT, a BIGINT, b BIGINT, s STRING, WATERMARK FOR ts AS ts - INTERVAL '0.050' SECOND";

/// Predicates of every kind: primitives, loops of machine code, what DataFusion evaluates, and one that could fail and so stays where it is.
const QUERIES: [&str; 4] = [
    "SELECT window_end, k, COUNT(*), SUM(a), MIN(b) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)
     WHERE a < 50 AND b >= 10 AND a > -1000 AND s <> 'x' AND a * b < 3000 AND s LIKE '%e%'
     GROUP BY window_start, window_end, k",
    "SELECT window_end, COUNT(*), SUM(b) FROM HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '500' MILLISECOND, INTERVAL '1' SECOND)
     WHERE b IS NOT NULL AND a % 3 = 1 AND k < 100 AND a BETWEEN 3 AND 60
     GROUP BY window_start, window_end",
    "SELECT window_end, k, a, COUNT(*), SUM(b) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)
     WHERE b > 5 GROUP BY window_start, window_end, k, a",
    "SELECT ts, k, a + b FROM t WHERE a * k <> b AND b * 2 > a AND k <> 3 AND a < 90 AND (b = 0 OR 100 / b > 0) AND s = 'yes'",
];

struct Random(u64);

impl Random {
    fn of(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % end as u64) as i64
    }

    fn some(&mut self, value: i64, has_nulls: bool) -> Option<i64> {
        (!has_nulls || self.below(4) > 0).then_some(value)
    }
}

/// Rows of one character, a batch at a time.
fn batches(source: &PushSource, seed: u64) -> Vec<RecordBatch> {
    let mut random = Random::of(seed);
    let (mut batches, mut now) = (Vec::new(), 0);
    for _ in 0..PHASES {
        let keys = [1, 5, 500, 1 << 40][random.below(4) as usize];
        let (low, range) = (random.below(100) - 20, 1 + random.below(200));
        let (has_nulls, disorder, is_rare) = (random.below(2) == 0, 1 + random.below(2) * 80, random.below(2) == 0);
        // One key may have most of the rows.
        let (hot_key, hot_percent) = (random.below(keys), [0, 0, 60, 95][random.below(4) as usize]);
        for _ in 0..4 {
            let rows = 1 + random.below(900) as usize;
            let mut columns: [Vec<Option<i64>>; 4] = Default::default();
            let mut strings = Vec::new();
            for _ in 0..rows {
                now += random.below(4);
                columns[0].push(Some(now - random.below(disorder)));
                let key = if random.below(100) < hot_percent { hot_key } else { random.below(keys) };
                let (a, b) = (low + random.below(range), random.below(range));
                columns[1].push(random.some(key, has_nulls));
                columns[2].push(random.some(a, has_nulls));
                columns[3].push(random.some(b, has_nulls));
                let is_yes = random.below(if is_rare { 50 } else { 2 }) == 0;
                strings.push((!has_nulls || random.below(9) > 0).then_some(if is_yes { "yes" } else { "x" }));
            }
            let [times, keys, a, b] = columns;
            let times = TimestampMillisecondArray::from(times);
            let times = cast(&times, source.schema().field(0).data_type()).expect("times of milliseconds");
            let integers = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
            let strings = Arc::new(strings.into_iter().collect::<StringViewArray>());
            let columns = vec![times, integers(keys), integers(a), integers(b), strings];
            batches.push(RecordBatch::try_new(source.schema().clone(), columns).expect("the table's columns"));
        }
    }
    batches
}

/// What becomes of a query: its rows, sorted, and how many came too late; and of its code.
type Found = ((Vec<String>, u64), Vec<Happened>);

/// An event of a query's code, without times.
type Happened = (AdaptationKind, Option<&'static str>, String);

fn happened(event: AdaptationEvent) -> Happened {
    (event.kind, event.specialisation, event.summary)
}

fn rows(seed: u64, query: &str, settings: &[(&str, &str)]) -> Found {
    let session = Session::new();
    settings.iter().for_each(|(key, value)| session.set(key, value).expect("a setting"));
    session.set("pelton.seed", &seed.to_string()).expect("a setting");
    let source = session.push_table("t", COLUMNS).expect("a table");
    let mut query = session.sql(query).expect("a query");
    let events = query.adaptation_events();
    let batches = batches(&source, seed);
    let mut lines = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || batches.into_iter().for_each(|batch| source.push_blocking(batch).expect("the query runs")));
        while let Some(batch) = query.next_batch().expect("no row fails") {
            lines.extend(row_lines(&batch).expect("rows can be printed"));
        }
    });
    lines.sort();
    let late = query.wait().expect("the query ends").late_rows();
    ((lines, late), events.map(happened).collect())
}

/// The same where workers have no threads: after each step chance says who does the next.
fn rows_step_by_step(seed: u64, query: &str, workers: usize, settings: &[(&str, &str)]) -> Found {
    let (pool, mut workers) = Pool::manual(workers, Clock::Manual(Arc::default()));
    let session = Session::with_pool(pool);
    settings.iter().for_each(|(key, value)| session.set(key, value).expect("a setting"));
    session.set("pelton.seed", &seed.to_string()).expect("a setting");
    let source = session.push_table("t", COLUMNS).expect("a table");
    let mut query = session.sql(query).expect("a query");
    let events = query.adaptation_events();
    let mut batches = batches(&source, seed).into_iter().peekable();
    let mut source = Some(source);
    let mut random = Random::of(seed);
    let mut lines = Vec::new();
    loop {
        match random.below(8) {
            0 => match (batches.peek(), &source) {
                (Some(batch), Some(source)) => {
                    if source.try_push(batch.clone()).expect("the query runs") {
                        batches.next();
                    }
                }
                _ => source = None,
            },
            1 => drop(workers.step_background()),
            2 => match query.try_next_batch().expect("no row fails") {
                Some(batch) => lines.extend(row_lines(&batch).expect("rows can be printed")),
                None if query.control().has_ended() => break,
                None => {}
            },
            _ => drop(workers.step(random.below(workers.count() as i64) as usize)),
        }
    }
    lines.sort();
    let late = query.wait().expect("the query ends").late_rows();
    ((lines, late), events.map(happened).collect())
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("it is a number"))
}

#[test]
fn rows_do_not_depend_on_how_code_changes() {
    let (mut rows_seen, mut seen) = (0, BTreeSet::new());
    let seeds = match number("PELTON_ADAPT_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("PELTON_ADAPT_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds.clone() {
        for query in QUERIES {
            // Long blocks, of which memory is asked for ahead, and short ones, between which code changes more often.
            // Chance decides by whether the seed is odd where keys lie side by side.
            let block_rows = if (seed / 2).is_multiple_of(2) { "64" } else { "1024" };
            let of = |tier, workers, adapt, dense_keys| {
                let settings = [
                    ("pelton.tier", tier),
                    ("pelton.workers", workers),
                    ("pelton.adapt", adapt),
                    ("pelton.adapt.dense-keys", dense_keys),
                    ("pelton.block-rows", block_rows),
                ];
                rows(seed, query, &settings)
            };
            let (expected, _) = of("interpret", "1", "off", "forbid");
            rows_seen += expected.0.len();
            for workers in ["1", "2"] {
                for tier in ["compile", "auto"] {
                    let (found, events) = of(tier, workers, "random", "auto");
                    seen.extend(events.iter().filter_map(named));
                    assert_eq!(found, expected, "seed {seed}, {tier}, {workers} workers: {query}");
                }
            }
            for workers in [1, 2] {
                let settings = [("pelton.tier", "auto"), ("pelton.adapt", "random"), ("pelton.block-rows", block_rows)];
                let (found, events) = rows_step_by_step(seed, query, workers, &settings);
                seen.extend(events.iter().filter_map(named));
                let again = (seed == *seeds.start()).then(|| rows_step_by_step(seed, query, workers, &settings));
                assert!(
                    again.is_none_or(|again| again == (found.clone(), events)),
                    "seed {seed} does something else each time"
                );
                assert_eq!(found, expected, "seed {seed}, {workers} workers, step by step: {query}");
            }
        }
    }
    if seeds.count() >= SEEDS as usize {
        assert!(rows_seen >= 1_000, "{rows_seen} rows only");
        for expected in ["drawn: predicate-order", "drawn: tier", "drawn: fetch-ahead"] {
            assert!(seen.contains(expected), "not {expected}, but {seen:?}");
        }
        for assumed in ["dense-keys", "no-nulls"] {
            for expected in ["assumed", "broken"] {
                assert!(seen.contains(&format!("{expected}: {assumed}")), "not {expected}: {assumed}, but {seen:?}");
            }
        }
    }
}

/// What chance or the data has done to code.
fn named((kind, specialisation, _): &Happened) -> Option<String> {
    let is_named = matches!(kind, AdaptationKind::Drawn | AdaptationKind::Assumed | AdaptationKind::Broken);
    specialisation.filter(|_| is_named).map(|specialisation| format!("{kind}: {specialisation}"))
}

/// Rows of which one million after the other has another character: ranges, selectivities and how many keys there are change, and NULLs appear.
const SHIFTING: &str = "
CREATE TABLE numbers (n BIGINT NOT NULL) WITH (
    'connector' = 'datagen', 'number-of-rows' = '4000000', 'pace' = 'flat-out', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '3999999'
);
CREATE VIEW shifting AS SELECT
    CASE n / 1000000 WHEN 0 THEN n % 1000 WHEN 1 THEN n % 1000 * 1000003 WHEN 2 THEN n % 50000 ELSE NULLIF(n % 7, 3) END AS k,
    CASE WHEN n / 1000000 = 1 THEN n % 50 ELSE n * 31 % 1000 END AS a,
    CASE WHEN n / 1000000 = 3 AND n % 5 = 0 THEN NULL ELSE n * 17 % 1000 END AS b
FROM numbers";

const OF_SHIFTING: &str = "SELECT k, COUNT(*) AS c, SUM(a) AS s, MIN(b) AS least FROM shifting WHERE a < 900 AND b >= 5 AND a + b < 1900 GROUP BY k";

/// What code costs, as chance makes it up: in three phases, so that what paid does not any more.
fn costs(random: &mut Random) -> String {
    let mut phase = |first: i64| {
        let mut cost = |kind: &str| format!("{kind} {}", 1 + random.below(9));
        let costs = ["compiled", "interpreted", "reordered", "fetch-ahead"].map(&mut cost).join(", ");
        if first == 0 { costs } else { format!("from {first}: {costs}") }
    };
    [0, 900_000, 2_300_000].map(&mut phase).join("; ")
}

/// The rows of a query over the shifting rows, sorted, and what has become of its code.
fn rows_of_shifting(settings: &[(&str, &str)]) -> (Vec<String>, Vec<Happened>) {
    let session = Session::new();
    settings.iter().for_each(|(key, value)| session.set(key, value).expect("a setting"));
    assert_eq!(execute(&session, SHIFTING).error, None);
    let query = session.sql(OF_SHIFTING).expect("a query");
    let events = query.adaptation_events();
    let batches = query.collect().expect("no row fails");
    let mut lines: Vec<String> =
        batches.iter().flat_map(|batch| row_lines(batch).expect("rows can be printed")).collect();
    lines.sort();
    (lines, events.map(happened).collect())
}

#[test]
fn rows_do_not_depend_on_what_is_tried_and_undone() {
    let (expected, _) = rows_of_shifting(&[("pelton.tier", "interpret"), ("pelton.adapt", "off")]);
    assert!(expected.len() > 10_000, "{} rows", expected.len());
    const KINDS: [AdaptationKind; 5] = [
        AdaptationKind::Tried,
        AdaptationKind::Kept,
        AdaptationKind::Undone,
        AdaptationKind::Assumed,
        AdaptationKind::Broken,
    ];
    let mut seen = [0; 5];
    let seeds = number("PELTON_ADAPT_SEEDS").map_or(6, |seeds| seeds.clamp(1, 6));
    for seed in 1..=seeds {
        let costs = costs(&mut Random::of(seed));
        for workers in ["1", "2"] {
            let settings = [
                ("pelton.tier", "auto"),
                ("pelton.adapt", "on"),
                ("pelton.adapt.costs", costs.as_str()),
                ("pelton.workers", workers),
                ("pelton.block-rows", "8192"),
            ];
            let (found, events) = rows_of_shifting(&settings);
            assert!(found == expected, "seed {seed}, {workers} workers: other rows");
            for (kind, ..) in events {
                seen.iter_mut().zip(KINDS).for_each(|(count, expected)| *count += u32::from(kind == expected));
            }
        }
    }
    assert!(seeds < 6 || seen.iter().all(|count| *count > 0), "tried, kept, undone, assumed, broken: {seen:?}");
}
