//! How long after its due time an event's result is handed out, at rates that a program feeds, which may change in steps (Enjima, figures 6 and 9).
//!
//! A program feeds the table `event (due_ns BIGINT NOT NULL, event_time TIMESTAMP(6) NOT NULL, kind BIGINT NOT NULL, ad BIGINT NOT NULL)`: every
//! tenth of a millisecond as many rows as the rate wants, all of that instant. `kind` is 0, 1 or 2, `ad` any of ten thousand. A third of the rows are of the
//! kind 0, or two thirds: a case's `thirds=1,2` says so for each of its rates, so that more rows pass than before. The first column of the query's result says when the event was due that completed the row. A benchmark that `joins` another table has it fed likewise, at the same rate with other rows. An event that could not be fed in time was due all the same.
//!
//! Beside that stands what the machine takes by itself, measured in turn with the query: an instant goes from a thread that spins to one that waits as the
//! engine's workers do, and from there to one that sleeps, with nothing to do in between. Where that is milliseconds, so are the query's. A case's
//! `spin=200us` has idle workers look for work for so long before they sleep. A case's `every=10ms` is how often rows are fed in place of every tenth of a
//! millisecond: workers sleep in between, and what is measured is how they wake.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::Int64Type;
use pelton::{PushSource, Query, Session};
use pelton_connectors::options::parse_duration;

use super::file::{Benchmark, Case};
use super::measure::start_in;
use super::plot::Picture;
use super::report::{Figure, Samples, Wait};
use super::{Arguments, BenchError};

/// How often rows are fed where the case does not say.
const FED_EVERY: Duration = Duration::from_micros(100);

/// What follows a step is looked at apart for so long.
const SETTLED_AFTER: Duration = Duration::from_millis(100);

/// Different rows that are fed in turn: fewer would be learnt by heart.
const ROWS: usize = 1 << 16;

/// Spans of each rate in a picture.
const SPANS: u32 = 40;

/// When an event was due, and how much later its result was there.
type Sample = (Duration, Duration);

/// Runs the case several times, each of its rates for the same time: of each the median and the 99th percentile, of those after the first also
/// the median of what follows the step.
pub(super) fn measure(benchmark: &Benchmark, case: &Case, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let rates = numbers(case, "rates")?;
    let mut thirds = if case.parameters.contains_key("thirds") { numbers(case, "thirds")? } else { vec![1] };
    thirds.resize(rates.len(), 1);
    let has_shares = thirds.iter().any(|&thirds| thirds != 1);
    let each = Duration::from_secs_f64(arguments.seconds);
    let mut found: Vec<[Samples; 3]> = vec![Default::default(); rates.len()];
    let mut bare_found = [(); 2].map(|()| Samples::default());
    let mut last = Vec::new();
    for _ in 0..arguments.repeat.max(1) {
        let bare = bare(case, fed_every(case)?, each);
        for (samples, share) in bare_found.iter_mut().zip([0.5, 0.99]) {
            samples.0.extend(quantile(bare.clone(), share).map(in_ms));
        }
        let samples = samples(benchmark, case, arguments, (&rates, &thirds), each)?;
        for (part, found) in found.iter_mut().enumerate() {
            let from = each * part as u32;
            let settled = if part == 0 { from } else { from + SETTLED_AFTER };
            let of = |from: Duration, until: Duration, share: f64| {
                let within = samples.iter().filter(|(due, _)| from <= *due && *due < until);
                quantile(within.map(|(_, latency)| *latency).collect(), share)
            };
            let quantiles =
                [of(settled, from + each, 0.5), of(settled, from + each, 0.99), of(from, from + SETTLED_AFTER, 0.5)];
            for (samples, quantile) in found.iter_mut().zip(quantiles) {
                samples.0.extend(quantile.map(in_ms));
            }
        }
        last = samples;
    }
    if let Some(folder) = arguments.plots.as_ref().filter(|_| rates.len() > 1) {
        let of = |(rate, thirds): (&usize, &usize)| match has_shares {
            true => format!("{} M/s ({thirds} of 3 kinds pass)", *rate as f64 / 1e6),
            false => format!("{} M/s", *rate as f64 / 1e6),
        };
        let parts: Vec<String> = rates.iter().zip(&thirds).map(of).collect();
        let title = format!("{}: {}, {} s each", benchmark.name, parts.join(", "), arguments.seconds);
        picture(&title, &last, each / SPANS).write(folder, &format!("{}-{}", benchmark.name, case.name))?;
    }
    let figure = |waited_for: String, samples_ms: Samples| {
        let (bench, case) = (benchmark.name.clone(), case.name.clone());
        Figure::Wait(Wait { bench, case, waited_for, workers: arguments.workers, samples_ms })
    };
    let [median, highest] = bare_found;
    let mut figures =
        vec![figure("median of bare threads".to_owned(), median), figure("p99 of bare threads".to_owned(), highest)];
    for ((part, rate), [median, highest, stepped]) in rates.iter().enumerate().zip(found) {
        let mut at = format!("{} M/s", *rate as f64 / 1e6);
        if has_shares {
            at += &format!(", {} of 3 kinds pass ({})", thirds[part], part + 1);
        }
        figures.push(figure(format!("median at {at}"), median));
        figures.push(figure(format!("p99 at {at}"), highest));
        if part > 0 {
            figures.push(figure(format!("step to {at}"), stepped));
        }
    }
    Ok(figures)
}

/// Latencies span by span, over the time at which their events were due.
fn picture<'a>(title: &'a str, samples: &[Sample], span: Duration) -> Picture<'a> {
    let mut spans: BTreeMap<u128, Vec<Duration>> = BTreeMap::new();
    for (due, latency) in samples {
        spans.entry(due.as_nanos() / span.as_nanos()).or_default().push(*latency);
    }
    let line = |share: f64| {
        let point = |(index, latencies): (&u128, &Vec<Duration>)| {
            let middle_s = (*index as f64 + 0.5) * span.as_secs_f64();
            Some((middle_s, in_ms(quantile(latencies.clone(), share)?)))
        };
        spans.iter().filter_map(point).collect()
    };
    let lines = vec![("median", line(0.5)), ("99 of 100", line(0.99))];
    Picture { title, axes: "milliseconds until the result is there, over seconds", is_logarithmic: true, lines }
}

/// Values of the case's rates, one after the other: `rates=1000,2000` are rows a second.
fn numbers(case: &Case, name: &str) -> Result<Vec<usize>, BenchError> {
    let text = case.parameters.get(name).map_or("", String::as_str);
    let numbers: Result<Vec<usize>, _> = text.split(',').map(str::parse).collect();
    numbers.map_err(|_| {
        BenchError::Input(format!("case {}: {name} are numbers with commas between, not '{text}'", case.name))
    })
}

fn fed_every(case: &Case) -> Result<Duration, BenchError> {
    let Some(text) = case.parameters.get("every") else { return Ok(FED_EVERY) };
    let wrong = || BenchError::Input(format!("case {}: every is a duration such as 10ms, not '{text}'", case.name));
    parse_duration(text).filter(|every| !every.is_zero()).ok_or_else(wrong)
}

fn in_ms(latency: Duration) -> f64 {
    latency.as_secs_f64() * 1e3
}

fn quantile(mut latencies: Vec<Duration>, share: f64) -> Option<Duration> {
    latencies.sort_unstable();
    let last = latencies.len().checked_sub(1)?;
    Some(latencies[(share * last as f64).round() as usize])
}

/// How long an instant takes through three threads, the second of which does not sleep where the case's workers spin, as often as rows are fed.
fn bare(case: &Case, fed_every: Duration, each: Duration) -> Vec<Duration> {
    let ((feed, fed), (pass, passed)) = (mpsc::channel::<Duration>(), mpsc::channel::<Duration>());
    let spins = case.parameters.contains_key("spin");
    let start = Instant::now();
    let worker = thread::spawn(move || {
        let next = || loop {
            match fed.try_recv() {
                Err(mpsc::TryRecvError::Empty) if spins => thread::yield_now(),
                Err(mpsc::TryRecvError::Empty) => break fed.recv().ok(),
                received => break received.ok(),
            }
        };
        while let Some(due) = next() {
            pass.send(due).expect("the reader reads all");
        }
    });
    let reader = thread::spawn(move || passed.iter().map(|due| start.elapsed().saturating_sub(due)).collect());
    let mut due = fed_every;
    while due < each {
        wait_until(start, due);
        feed.send(due).expect("the worker takes all");
        due += fed_every;
    }
    drop(feed);
    worker.join().expect("passing instants on does not panic");
    reader.join().expect("reading instants does not panic")
}

/// Sleeping takes longer than asked for by more than what is measured.
fn wait_until(start: Instant, due: Duration) {
    while start.elapsed() < due {
        std::hint::spin_loop();
    }
}

/// Feeds the query at each rate, with so many thirds of the rows of the kind 0, and says how long each result took, in the order in which they came.
fn samples(
    benchmark: &Benchmark,
    case: &Case,
    arguments: &Arguments,
    steps: (&[usize], &[usize]),
    each: Duration,
) -> Result<Vec<Sample>, BenchError> {
    let statements = benchmark.statements(case, arguments.seconds, "");
    let session = Session::new();
    session.set("pelton.tier", "compile")?;
    if let Some(spin) = case.parameters.get("spin") {
        session.set("pelton.spin", spin)?;
    }
    let columns = "due_ns BIGINT NOT NULL, event_time TIMESTAMP(6) NOT NULL, kind BIGINT NOT NULL, ad BIGINT NOT NULL, \
                   WATERMARK FOR event_time AS event_time";
    let other = benchmark.other.as_ref().map(|other| other.table.as_str());
    let tables = std::iter::once("event").chain(other).map(|table| session.push_table(table, columns));
    let tables = tables.collect::<Result<Vec<_>, _>>()?;
    let query = start_in(&session, &statements.setup, &statements.query, arguments.workers)?;
    let start = Instant::now();
    let reader = thread::spawn(move || read(query, start));
    feed(tables, fed_every(case)?, steps, each, start)?;
    reader.join().expect("reading results does not panic")
}

fn read(mut query: Query, start: Instant) -> Result<Vec<Sample>, BenchError> {
    let mut samples = Vec::new();
    while let Some(rows) = query.next_batch()? {
        let now = start.elapsed();
        let due_ns = rows.column(0).as_primitive_opt::<Int64Type>();
        let due_ns =
            due_ns.ok_or_else(|| BenchError::Input("the first column of the result is not a valid BIGINT".into()))?;
        samples.extend(due_ns.values().iter().map(|&due_ns| {
            let due = Duration::from_nanos(due_ns as u64);
            (due, now.saturating_sub(due))
        }));
    }
    Ok(samples)
}

/// Another number for each, of which the next one says nothing.
pub(crate) fn mixed(number: u64) -> u64 {
    let once = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let twice = (once ^ (once >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    twice ^ (twice >> 31)
}

/// Rows that a table is fed in turn.
struct FedRows {
    /// For each rate.
    kinds: Vec<Int64Array>,
    ads: Int64Array,
}

impl FedRows {
    /// Those of a table, from 0, with so many thirds of the kind 0 at each rate.
    fn new(table: u64, thirds: &[usize]) -> FedRows {
        let column = |seed: u64, below: u64| (0..ROWS as u64).map(|row| (mixed(seed + row) % below) as i64).collect();
        let (kinds, ads): (Int64Array, Int64Array) =
            (column((table << 33) + 1, 3), column((table << 33) + (1 << 32), 10_000));
        let of_thirds = |&thirds: &usize| kinds.unary::<_, Int64Type>(|kind| (kind + 1 - thirds as i64).max(0));
        FedRows { kinds: thirds.iter().map(of_thirds).collect(), ads }
    }

    /// The columns of some rows, which are due at once.
    fn columns(&self, due: Duration, part: usize, rows: Range<usize>) -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from_value(due.as_nanos() as i64, rows.len())),
            Arc::new(TimestampMicrosecondArray::from_value(due.as_micros() as i64, rows.len())),
            Arc::new(self.kinds[part].slice(rows.start, rows.len())),
            Arc::new(self.ads.slice(rows.start, rows.len())),
        ]
    }
}

/// Feeds rows of all tables when they are due, or as soon after as there is room.
fn feed(
    tables: Vec<PushSource>,
    fed_every: Duration,
    (rates, thirds): (&[usize], &[usize]),
    each: Duration,
    start: Instant,
) -> Result<(), BenchError> {
    let fed: Vec<FedRows> = (0..tables.len() as u64).map(|table| FedRows::new(table, thirds)).collect();
    let (mut due, mut row, mut owed) = (fed_every, 0, 0.0);
    let until = each * rates.len() as u32;
    while due < until {
        let part = (due.as_nanos() / each.as_nanos()) as usize;
        owed += rates[part] as f64 * fed_every.as_secs_f64();
        wait_until(start, due);
        while owed >= 1.0 {
            let rows = (owed as usize).min(ROWS - row);
            for (table, fed) in tables.iter().zip(&fed) {
                let batch = RecordBatch::try_new(table.schema().clone(), fed.columns(due, part, row..row + rows));
                table.push_blocking(batch.expect("the columns are those of the table"))?;
            }
            owed -= rows as f64;
            row = (row + rows) % ROWS;
        }
        due += fed_every;
    }
    Ok(())
}
