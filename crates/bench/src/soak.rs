//! A soak: ten different queries for as long as is wanted, at rates that change, which are judged by what they counted and by the memory that the
//! process has.
//!
//! The rate is once, twice, six and twelve times the least, goes back the same way, and begins anew; each time round it begins with a hundred
//! times as many rows at once. Event times are those of the clock, mostly out of order; keys come and go. A row counts in as many rows of a query's result as the query
//! says, or it was late, or could not be read: the results' first column, summed, says of how many rows they are.

use std::fs::OpenOptions;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::Int64Type;
use pelton::Progress;
use pelton::query::QueryControl;
use pelton::{PushSource, Query, Session};
use pelton_runtime::progress::time_with_unit;

use crate::BenchError;
use crate::latency::mixed;
use crate::resident::resident_bytes;

/// What a query's rows come to its table by, in the order of their times or not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Feed {
    Ordered,
    Disordered,
    /// Lines of text, some of which are none.
    Pipe,
}

/// One of the ten.
struct Soaked {
    name: &'static str,
    feed: Feed,
    /// Rows of results that each row counts in.
    times: u64,
    /// Over the table `${event}`.
    sql: &'static str,
}

const QUERIES: [Soaked; 10] = [
    Soaked {
        name: "filter",
        feed: Feed::Disordered,
        times: 1,
        sql: "SELECT CAST(1 AS BIGINT) AS n, name FROM ${event} WHERE MOD(id, 3) = 0
              UNION ALL SELECT CAST(1 AS BIGINT), UPPER(name) FROM ${event} WHERE MOD(id, 3) <> 0",
    },
    Soaked {
        name: "tumble",
        feed: Feed::Disordered,
        times: 1,
        sql: "SELECT COUNT(*) AS n, key, window_end FROM TUMBLE(TABLE ${event}, DESCRIPTOR(at), INTERVAL '0.5' SECOND)
              GROUP BY window_start, window_end, key",
    },
    Soaked {
        name: "hop",
        feed: Feed::Ordered,
        times: 5,
        sql: "SELECT COUNT(*) AS n, name, MAX(id) AS last FROM HOP(TABLE ${event}, DESCRIPTOR(at), INTERVAL '0.1' SECOND, INTERVAL '0.5' SECOND)
              GROUP BY window_start, window_end, name",
    },
    Soaked {
        name: "session",
        feed: Feed::Disordered,
        times: 1,
        sql: "SELECT COUNT(*) AS n, key FROM SESSION(TABLE ${event} PARTITION BY key, DESCRIPTOR(at), INTERVAL '0.1' SECOND)
              GROUP BY window_start, window_end, key",
    },
    Soaked {
        name: "count",
        feed: Feed::Disordered,
        times: 1,
        sql: "SELECT COUNT(*) AS n, MEDIAN(key) AS m FROM TABLE(TUMBLE_ROWS(TABLE ${event}, 1000)) GROUP BY window_start, window_end",
    },
    Soaked {
        name: "over",
        feed: Feed::Disordered,
        times: 1,
        sql: "SELECT CAST(1 AS BIGINT) AS n, SUM(id) OVER (PARTITION BY key ORDER BY at ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS s FROM ${event}",
    },
    Soaked {
        name: "distinct",
        feed: Feed::Disordered,
        times: 1,
        sql: "SELECT CAST(1 AS BIGINT) AS n, name FROM (
                  SELECT name, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, id ORDER BY at) AS r
                  FROM TUMBLE(TABLE ${event}, DESCRIPTOR(at), INTERVAL '0.2' SECOND))
              WHERE r = 1",
    },
    Soaked {
        name: "join",
        feed: Feed::Disordered,
        times: 1,
        sql: "SELECT CAST(1 AS BIGINT) AS n, price FROM ${event} JOIN product ON MOD(id, 1000) = product",
    },
    Soaked {
        name: "twice",
        feed: Feed::Disordered,
        times: 1,
        sql: "WITH small AS (
                  SELECT window_time AS at, key, COUNT(*) AS n FROM TUMBLE(TABLE ${event}, DESCRIPTOR(at), INTERVAL '0.1' SECOND)
                  GROUP BY window_start, window_end, window_time, key)
              SELECT SUM(n) AS n, COUNT(DISTINCT key) AS keys FROM TUMBLE(TABLE small, DESCRIPTOR(at), INTERVAL '1' SECOND)
              GROUP BY window_start, window_end",
    },
    Soaked {
        name: "text",
        feed: Feed::Pipe,
        times: 1,
        sql: "SELECT COUNT(*) AS n, MOD(id, 10) AS digit FROM TUMBLE(TABLE ${event}, DESCRIPTOR(at), INTERVAL '0.5' SECOND)
              GROUP BY window_start, window_end, MOD(id, 10)",
    },
];

const COLUMNS: &str = "id BIGINT NOT NULL, key BIGINT NOT NULL, name STRING NOT NULL, at TIMESTAMP(3) NOT NULL, \
                       WATERMARK FOR at AS at - INTERVAL '0.05' SECOND";

/// How rates follow each other, as multiples of the least, and how often they all do.
const STEPS: [u64; 6] = [1, 2, 6, 12, 6, 2];
const ROUNDS: u32 = 8;

/// How often rows are fed.
const TICK: Duration = Duration::from_millis(5);

/// At once there are as many rows as otherwise in so many ticks.
const BURST_TICKS: u64 = 100;

/// Rows are out of order by less than this, which the watermark waits for, but for one in so many, which is late.
const DISORDER_MS: u64 = 40;
const LATE_EVERY: u64 = 499;
const LATE_MS: i64 = 10_000;

/// One line of text in so many is no row.
const BROKEN_EVERY: u64 = 97;

/// Keys at a time; so many new ones come each second, and as many go.
const KEYS: u64 = 1_000;
const NEW_KEYS_PER_S: u64 = 10;

/// The reader of one query pauses for so long every second.
const PAUSE: Duration = Duration::from_millis(300);

/// Memory is looked at by quarters of the time.
const QUARTERS: usize = 4;

/// The memory of the last quarter may be larger than that of the second by this, of it or in bytes: by less than a soak that leaks ten bytes for each row
/// would grow in a minute.
const GROWTH_MAX: f64 = 0.05;
const GROWTH_BYTES_MAX: f64 = 16e6;

/// What a soak has shown.
#[derive(Debug)]
pub struct Report {
    /// Of each query.
    pub accounts: Vec<Account>,
    /// Bytes that the process had, ascending by time, at equal intervals.
    pub resident: Vec<f64>,
}

/// What became of a query's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// What the query is called here.
    pub name: &'static str,
    /// Rows that were fed.
    pub fed: u64,
    /// Rows that were counted in results, of each as often as it should be.
    pub counted: u64,
    /// How often that is.
    pub times: u64,
    /// Rows that came too late.
    pub late: u64,
    /// Rows that could not be read.
    pub rejected: u64,
}

impl Account {
    /// Whether each row that came in has come out, or is known to have been left out.
    pub fn is_balanced(&self) -> bool {
        let left_out = self.late + self.rejected;
        self.fed > 0 && self.counted == (self.fed - left_out.min(self.fed)) * self.times
    }
}

impl Report {
    /// The most memory of the second quarter and of the last one.
    pub fn quarters(&self) -> [f64; 2] {
        let quarter = self.resident.len() / QUARTERS;
        let most = |from: usize| self.resident[from..from + quarter].iter().copied().fold(0.0, f64::max);
        [most(quarter), most(self.resident.len() - quarter)]
    }

    /// Whether the memory of the last quarter, of whole rounds of rates as the second is, is no larger than then, but for what always varies. It is not where
    /// too little was measured to say so.
    pub fn is_flat(&self) -> bool {
        let [second, last] = self.quarters();
        self.resident.len() >= QUARTERS && last <= second + f64::max(second * GROWTH_MAX, GROWTH_BYTES_MAX)
    }

    /// Writes what became of each query's rows, and the verdict.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&self, output: &mut dyn Write) -> std::io::Result<()> {
        for Account { name, fed, counted, times, late, rejected } in &self.accounts {
            writeln!(
                output,
                "{name}: {fed} rows in, {counted} counted ({times} times each), {late} late, {rejected} rejected"
            )?;
        }
        let [second, last] = self.quarters().map(|bytes| bytes / 1e6);
        let judge = |is_good: bool| if is_good { "yes" } else { "NO" };
        let is_balanced = self.accounts.iter().all(Account::is_balanced);
        writeln!(output, "every row accounted for: {}", judge(is_balanced))?;
        writeln!(
            output,
            "memory flat (last quarter at most 5 % or 16 MB above the second): {}, {second:.0} MB in the second quarter, {last:.0} MB in the last",
            judge(self.is_flat())
        )
    }
}

/// When and how fast rows are fed.
#[derive(Clone, Copy)]
struct Course {
    start: Instant,
    whole: Duration,
    rows_per_s: u64,
}

impl Course {
    /// How many times the least the rate is then.
    fn factor(&self, at: Duration) -> u64 {
        let steps = STEPS.len() as u32 * ROUNDS;
        STEPS[(at.as_nanos() * u128::from(steps) / self.whole.as_nanos()) as usize % STEPS.len()]
    }

    /// Rows of a tick.
    fn rows(&self, tick: u32) -> u64 {
        let rows = self.rows_per_s * self.factor(TICK * tick) * TICK.as_millis() as u64 / 1_000;
        let round = |tick: u32| (TICK * tick).as_nanos() * u128::from(ROUNDS) / self.whole.as_nanos();
        let is_burst = tick == 0 || round(tick) > round(tick - 1);
        if is_burst { rows * BURST_TICKS } else { rows }
    }

    /// Has rows fed by their numbers whenever it is time, or as soon after as there is room. Returns how many there were.
    fn feed(&self, mut feed: impl FnMut(Range<u64>) -> Result<(), BenchError>) -> Result<u64, BenchError> {
        let (mut tick, mut fed) = (0, 0);
        while TICK * tick < self.whole {
            thread::sleep((TICK * tick).saturating_sub(self.start.elapsed()));
            let rows = self.rows(tick);
            feed(fed..fed + rows)?;
            fed += rows;
            tick += 1;
        }
        Ok(fed)
    }
}

/// Runs all ten for that time, at so many rows a second of each at least, and says every so often how they are.
///
/// # Errors
/// Where a query fails, or what it says cannot be written.
pub fn soak(
    whole: Duration,
    rows_per_s: u64,
    folder: &Path,
    status_every: Duration,
    output: &mut dyn Write,
) -> Result<Report, BenchError> {
    let session = Session::new();
    execute(
        &session,
        "CREATE TABLE product (product BIGINT NOT NULL, price DOUBLE NOT NULL) WITH (
             'connector' = 'datagen', 'number-of-rows' = '1000',
             'fields.product.kind' = 'sequence', 'fields.product.start' = '0', 'fields.product.end' = '999')",
    )?;
    let mut feeds = Vec::new();
    for soaked in &QUERIES {
        feeds.push(table(&session, soaked, folder)?);
    }
    let of_one = |soaked: &Soaked| session.sql(&soaked.sql.replace("${event}", soaked.name));
    let queries = QUERIES.iter().map(of_one).collect::<Result<Vec<Query>, _>>()?;
    let controls: Vec<QueryControl> = queries.iter().map(Query::control).collect();
    let course = Course { start: Instant::now(), whole, rows_per_s };
    let feeders: Vec<_> = feeds.into_iter().map(|feed| thread::spawn(move || feed(course))).collect();
    let readers = queries.into_iter().enumerate().map(|(index, query)| thread::spawn(move || read(query, index == 0)));
    let readers: Vec<_> = readers.collect();
    let resident = watch(course, &controls, status_every, output)?;
    let joined = "reading and feeding do not panic";
    let mut accounts = Vec::new();
    for ((soaked, feeder), reader) in QUERIES.iter().zip(feeders).zip(readers) {
        let fed = feeder.join().expect(joined)?;
        let (counted, progress) = reader.join().expect(joined)?;
        let rejected = progress.sources.iter().map(|source| source.left_out.skipped_rows).sum();
        let (name, times, late) = (soaked.name, soaked.times, progress.late_rows());
        accounts.push(Account { name, fed, counted, times, late, rejected });
    }
    Ok(Report { accounts, resident })
}

fn execute(session: &Session, script: &str) -> Result<(), BenchError> {
    session.prepare(script)?.iter().try_for_each(|statement| session.execute(statement).map(drop))?;
    Ok(())
}

/// Feeds one table, and says how many rows that were.
type Feeder = Box<dyn FnOnce(Course) -> Result<u64, BenchError> + Send>;

/// Makes a query's table, which has its name.
fn table(session: &Session, soaked: &Soaked, folder: &Path) -> Result<Feeder, BenchError> {
    if soaked.feed != Feed::Pipe {
        let source = session.push_table(soaked.name, COLUMNS)?;
        let is_ordered = soaked.feed == Feed::Ordered;
        return Ok(Box::new(move |course| {
            course.feed(|rows| Ok(source.push_blocking(batch(&source, rows, course, is_ordered))?))
        }));
    }
    let path = folder.join(soaked.name);
    let place = path.display().to_string();
    let made = Command::new("mkfifo").arg(&path).status();
    let made = made.map_err(|error| BenchError::File { place: place.clone(), error })?;
    if !made.success() {
        return Err(BenchError::Input(format!("mkfifo cannot make {place}")));
    }
    execute(
        session,
        &format!(
        "CREATE TABLE {} (id BIGINT NOT NULL, ms BIGINT NOT NULL, at AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR at AS at)
         WITH ('connector' = 'filesystem', 'path' = '{place}', 'format' = 'csv', 'on-error' = 'skip')",
        soaked.name
    ),
    )?;
    Ok(Box::new(move |course| {
        let failed = |error| BenchError::File { place: place.clone(), error };
        let mut pipe = OpenOptions::new().write(true).open(&path).map_err(failed)?;
        course.feed(|rows| {
            let now_ms = now_ms();
            let line = |row: u64| match row % BROKEN_EVERY {
                0 => format!("broken {row}\n"),
                _ => format!("{row},{now_ms}\n"),
            };
            pipe.write_all(rows.map(line).collect::<String>().as_bytes()).map_err(failed)
        })
    }))
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}

/// Rows of these numbers.
fn batch(source: &PushSource, rows: Range<u64>, course: Course, is_ordered: bool) -> RecordBatch {
    let (now_ms, first_key) = (now_ms(), course.start.elapsed().as_secs() * NEW_KEYS_PER_S);
    let keys: Vec<i64> = rows.clone().map(|row| (first_key + mixed(row) % KEYS) as i64).collect();
    let time = |row: u64| match row % LATE_EVERY {
        _ if is_ordered => now_ms,
        0 if row > 0 => now_ms - LATE_MS,
        _ => now_ms - (mixed(!row) % DISORDER_MS) as i64,
    };
    let columns: [ArrayRef; 4] = [
        Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row as i64))),
        Arc::new(Int64Array::from(keys.clone())),
        Arc::new(StringViewArray::from_iter_values(keys.iter().map(|key| format!("customer number {key}")))),
        Arc::new(TimestampMillisecondArray::from_iter_values(rows.map(time))),
    ];
    RecordBatch::try_new(source.schema().clone(), columns.to_vec()).expect("the columns are those of the table")
}

/// Sums the first column of a query's result to its end.
fn read(mut query: Query, pauses: bool) -> Result<(u64, Progress), BenchError> {
    let (mut counted, mut read_since) = (0, Instant::now());
    while let Some(rows) = query.next_batch()? {
        let counts = rows.column(0).as_primitive_opt::<Int64Type>();
        let counts =
            counts.ok_or_else(|| BenchError::Input("the first column of the result is not a valid BIGINT".into()))?;
        counted += counts.values().iter().sum::<i64>() as u64;
        if pauses && read_since.elapsed() > Duration::from_secs(1) {
            thread::sleep(PAUSE);
            read_since = Instant::now();
        }
    }
    Ok((counted, query.wait()?))
}

/// Looks at the process until all rows should have been fed, and says now and then how the queries are. Returns the bytes that it had.
fn watch(
    course: Course,
    controls: &[QueryControl],
    status_every: Duration,
    output: &mut dyn Write,
) -> Result<Vec<f64>, BenchError> {
    // Equal parts of each quarter, none longer than a second.
    let looks = (course.whole.as_secs() as u32).next_multiple_of(4).max(40);
    let (mut resident, mut next_status) = (Vec::new(), status_every);
    for look in 1..=looks {
        thread::sleep((course.whole * look / looks).saturating_sub(course.start.elapsed()));
        resident.extend(resident_bytes(std::process::id()));
        let now = course.start.elapsed();
        if now >= next_status {
            next_status += status_every;
            let written =
                writeln!(output, "{}", status(course, now, controls, resident.last())).and_then(|()| output.flush());
            written.map_err(|error| BenchError::File { place: "the report".to_owned(), error })?;
        }
    }
    Ok(resident)
}

fn status(course: Course, now: Duration, controls: &[QueryControl], resident: Option<&f64>) -> String {
    let all: Vec<Progress> = controls.iter().map(QueryControl::progress).collect();
    let sum = |of_one: fn(&Progress) -> f64| all.iter().map(of_one).sum::<f64>();
    let p99_us =
        all.iter().map(|progress| progress.run().latency().processing_ns.value_at_quantile(0.99) / 1_000).max();
    let held = QUERIES.iter().zip(&all);
    let held = held
        .filter_map(|(soaked, progress)| Some(format!("{} by {}", soaked.name, progress.load.held_back_by.as_ref()?)));
    let held: Vec<String> = held.collect();
    format!(
        "{:.0} s, rate × {}: {:.1} MB resident, {:.0} rows/s in, {:.0} rows/s out, {:.2} cores, {:.0} rows waiting, state {:.1} MB, worst p99 {}, held back: {}",
        now.as_secs_f64(),
        course.factor(now.min(course.whole - Duration::from_nanos(1))),
        resident.unwrap_or(&0.0) / 1e6,
        sum(|progress| progress.load.rows_in_per_s),
        sum(|progress| progress.load.rows_out_per_s),
        sum(|progress| progress.load.busy_cores),
        sum(|progress| progress.load.rows_waiting as f64),
        sum(|progress| progress.load.state_bytes as f64) / 1e6,
        time_with_unit(p99_us.unwrap_or(0)),
        if held.is_empty() { "none".to_owned() } else { held.join(", ") }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(resident: &[f64]) -> Report {
        Report { accounts: Vec::new(), resident: resident.to_vec() }
    }

    #[test]
    fn memory_is_flat_that_varies_and_does_not_grow() {
        let mega = |numbers: [f64; 8]| report(&numbers.map(|number| number * 1e6));
        // It may grow at first.
        assert!(mega([10.0, 900.0, 800.0, 1_000.0, 500.0, 2_000.0, 1_049.0, 900.0]).is_flat());
        assert!(!mega([10.0, 900.0, 800.0, 1_000.0, 500.0, 600.0, 1_051.0, 900.0]).is_flat());
        assert!(mega([10.0, 10.0, 90.0, 100.0, 100.0, 100.0, 100.0, 115.0]).is_flat());
        assert!(!mega([10.0, 10.0, 90.0, 100.0, 100.0, 100.0, 100.0, 117.0]).is_flat());
    }

    #[test]
    fn each_row_is_counted_as_often_as_it_should_be_or_left_out() {
        let account = Account { name: "hop", fed: 100, counted: 485, times: 5, late: 2, rejected: 1 };
        assert!(account.is_balanced());
        for wrong in [
            Account { counted: 484, ..account.clone() },
            Account { late: 1, ..account.clone() },
            Account { rejected: 0, ..account.clone() },
            Account { fed: 0, counted: 0, late: 0, rejected: 0, ..account },
        ] {
            assert!(!wrong.is_balanced(), "{wrong:?}");
        }
    }

    #[test]
    fn rates_rise_and_fall_and_begin_with_a_burst() {
        let course = Course { start: Instant::now(), whole: Duration::from_secs(48), rows_per_s: 1_000 };
        let second = |second: u32| course.factor(Duration::from_secs(second.into()));
        assert_eq!((0..8).map(second).collect::<Vec<_>>(), [1, 2, 6, 12, 6, 2, 1, 2]);
        let ticks_per_s = 200;
        // Five rows a tick at the least rate, five hundred where a round begins.
        let rows = [0, 1, 3 * ticks_per_s, 6 * ticks_per_s - 1, 6 * ticks_per_s, 6 * ticks_per_s + 1];
        assert_eq!(rows.map(|tick| course.rows(tick)), [500, 5, 60, 10, 500, 5]);
    }
}
