//! `pelton demo`: the hottest auctions of each ten seconds of a generated stream, live.

mod view;

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pelton::arrow::array::{AsArray, RecordBatch};
use pelton::arrow::datatypes::Int64Type;
use pelton::arrow::datatypes::TimestampMillisecondType;
use pelton::progress::{PipelineProgress, Progress, time_with_unit};
use pelton::query::QueryControl;
use pelton::{Query, Session};

use crate::Failure;
use crate::arguments::DemoArguments;
use crate::output::output;
use crate::print::{count, short};
use crate::stop;

/// Auctions shown of each window.
const HOTTEST: usize = 10;

/// How often the terminal view is drawn.
const FRAME: Duration = Duration::from_millis(100);

/// How often a line is printed where there is no terminal.
const LINE: Duration = Duration::from_secs(1);

/// What the demo shows at one instant.
pub(crate) struct Frame {
    pub progress: Progress,
    /// Rows read a second, over the last second or so.
    pub rows_in_per_s: f64,
    /// Rows of results a second since the start.
    pub rows_out_per_s: f64,
    pub newest: Option<Window>,
}

/// The hottest auctions of one closed window.
#[derive(Clone, Default)]
pub(crate) struct Window {
    /// Milliseconds since 1970.
    pub start_ms: i64,
    /// Auction, bids, highest price in cents; most bids first.
    pub auctions: Vec<(i64, i64, i64)>,
}

/// The newest window, as whoever reads the results has seen it so far.
type Newest = Arc<Mutex<Option<Window>>>;

struct Demo {
    control: QueryControl,
    newest: Newest,
    started: Instant,
    /// When rows were counted, and how many there were.
    counted: (Instant, u64),
    rows_in_per_s: f64,
}

/// Runs the demo until `q`, Ctrl-C or the end of its time.
pub fn demo(arguments: &DemoArguments) -> Result<(), Failure> {
    let session = Session::new();
    stop::listen(&session)?;
    if let Some(workers) = arguments.workers {
        session.set("pelton.workers", &workers.to_string())?;
    }
    let query = session.sql(&script(arguments.rate))?;
    let control = query.control();
    stop::attend(Some(control.clone()));
    let newest = Newest::default();
    // A window has more batches than may wait: were they read once a frame, their latency would be the frame's.
    let reader = thread::spawn({
        let newest = newest.clone();
        move || read(query, &newest)
    });
    let now = Instant::now();
    let mut demo = Demo { control, newest, started: now, counted: (now, 0), rows_in_per_s: 0.0 };
    let until = arguments.seconds.map(|seconds| now + Duration::from_secs(seconds));
    if io::stdout().is_terminal() {
        view::show(&mut demo, until)?
    } else {
        print_lines(&mut demo, until)?
    }
    demo.control.drain();
    let summary = reader.join().expect("reading results does not panic")?;
    print_summary(&summary)?;
    Ok(())
}

fn script(rate: u64) -> String {
    format!(
        "CREATE TABLE bid (WATERMARK FOR dateTime AS dateTime)
         WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows-per-second' = '{rate}', 'pace' = 'real-time', 'base-time' = 'now');
         SELECT window_start, auction, COUNT(*) AS bids, MAX(price) AS highest
         FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
         GROUP BY window_start, window_end, auction"
    )
}

/// Reads results as they come, until the query has ended.
fn read(mut query: Query, newest: &Mutex<Option<Window>>) -> Result<Progress, pelton::Error> {
    while let Some(rows) = query.next_batch()? {
        newest.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().take(&rows);
    }
    query.wait()
}

impl Window {
    /// Takes rows in the order of their windows: only the newest is kept.
    fn take(&mut self, rows: &RecordBatch) {
        let starts = rows.column(0).as_primitive::<TimestampMillisecondType>();
        let numbers = |column: usize| rows.column(column).as_primitive::<Int64Type>();
        let (auctions, bids, highest) = (numbers(1), numbers(2), numbers(3));
        for row in 0..rows.num_rows() {
            if self.start_ms != starts.value(row) {
                *self = Window { start_ms: starts.value(row), auctions: Vec::new() };
            }
            let rank = |&(auction, bids, _): &(i64, i64, i64)| (-bids, auction);
            let entry = (auctions.value(row), bids.value(row), highest.value(row));
            let place = self.auctions.partition_point(|other| rank(other) < rank(&entry));
            if place < HOTTEST {
                self.auctions.truncate(HOTTEST - 1);
                self.auctions.insert(place, entry);
            }
        }
    }
}

impl Demo {
    fn frame(&mut self) -> Frame {
        let progress = self.control.progress();
        let rows: u64 = progress.sources.iter().map(|source| source.rows).sum();
        let (at, before) = self.counted;
        if at.elapsed() >= Duration::from_millis(500) {
            self.rows_in_per_s = (rows - before) as f64 / at.elapsed().as_secs_f64();
            self.counted = (Instant::now(), rows);
        }
        let out: u64 = progress.sinks.iter().map(|sink| sink.rows).sum();
        Frame {
            rows_in_per_s: self.rows_in_per_s,
            rows_out_per_s: out as f64 / self.started.elapsed().as_secs_f64(),
            newest: self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            progress,
        }
    }
}

fn is_over(demo: &Demo, until: Option<Instant>) -> bool {
    stop::was_asked() || demo.control.has_ended() || until.is_some_and(|until| Instant::now() >= until)
}

fn print_lines(demo: &mut Demo, until: Option<Instant>) -> Result<(), Failure> {
    while !is_over(demo, until) {
        thread::sleep(until.map_or(LINE, |until| until.saturating_duration_since(Instant::now()).min(LINE)));
        let frame = demo.frame();
        let hottest = frame.newest.as_ref().and_then(|window| window.auctions.first());
        let hottest = hottest.map_or("no window has closed yet".to_owned(), |(auction, bids, _)| {
            format!("hottest auction of the last window {auction} with {} bids", count(*bids as u64))
        });
        let pipeline = &frame.progress.pipelines[0];
        writeln!(
            output(),
            "{:.1} s: {} events/s in, {} rows/s out, latency {}, {} at {:.2} ns a record; {hottest}",
            frame.progress.elapsed.as_secs_f64(),
            short(frame.rows_in_per_s),
            short(frame.rows_out_per_s),
            latency(&frame.progress),
            pipeline.tier,
            pipeline.nanos_per_row(),
        )?;
    }
    Ok(())
}

/// End-to-end latency of the results so far: from reading the event that completed them to handing them out; and
/// from the ends of the windows, by the clock.
pub(crate) fn latency(progress: &Progress) -> String {
    let Some(sink) = progress.sinks.first().filter(|sink| !sink.results.all.processing_ns.is_empty()) else {
        return "not known yet".to_owned();
    };
    let micros = |quantile| sink.results.all.processing_ns.value_at_quantile(quantile) as f64 / 1e3;
    let behind = |quantile| time_with_unit(sink.results.all.event_time_us.value_at_quantile(quantile));
    format!(
        "p50 {:.0} µs, p99 {:.0} µs, behind the window's end p50 {}, p99 {}",
        micros(0.5),
        micros(0.99),
        behind(0.5),
        behind(0.99)
    )
}

/// So many of the events of a pipeline's code are shown, the last ones.
const EVENTS_SHOWN: usize = 5;

/// What has become of a pipeline's code: how far adaptation is, the variant that runs with its figures, and what happened last.
pub(crate) fn adaptation(pipeline: &PipelineProgress) -> Vec<String> {
    let story = &pipeline.story;
    let mut lines = vec![format!(" {}: {}", pipeline.name, story.stage)];
    lines.extend(
        story.variants.iter().filter(|variant| variant.is_current).map(|variant| format!("  {}", variant.figures())),
    );
    let shown = story.events.iter().skip(story.events.len().saturating_sub(EVENTS_SHOWN));
    lines.extend(shown.map(|event| format!("  at {:.1} s: {}", event.at.as_secs_f64(), event.summary())));
    lines.extend(story.keys_since().into_iter().chain(story.keys_figures()).map(|keys| format!("  {keys}")));
    lines
}

fn print_summary(summary: &Progress) -> io::Result<()> {
    let mut out = output();
    let rows: u64 = summary.sources.iter().map(|source| source.rows).sum();
    let seconds = summary.elapsed.as_secs_f64();
    writeln!(
        out,
        "{} events in {seconds:.1} s ({} a second), latency {}",
        count(rows),
        short(rows as f64 / seconds),
        latency(summary)
    )?;
    for pipeline in &summary.pipelines {
        let (stage, nanos) = (pipeline.story.stage, pipeline.nanos_per_row());
        writeln!(out, "{}: {}, {stage}, {nanos:.2} ns a record", pipeline.name, pipeline.tier)?;
        adaptation(pipeline).iter().skip(1).try_for_each(|line| writeln!(out, "{line}"))?;
    }
    for window in &summary.windows {
        writeln!(out, "{}: {} rows, {} late input rows", window.name, count(window.rows), count(window.late_rows))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pelton::arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};

    use super::{HOTTEST, Window};

    fn rows(start_ms: i64, auctions: &[(i64, i64)]) -> RecordBatch {
        let column = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
        let starts: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![start_ms; auctions.len()]));
        RecordBatch::try_from_iter([
            ("window_start", starts),
            ("auction", column(auctions.iter().map(|row| row.0).collect())),
            ("bids", column(auctions.iter().map(|row| row.1).collect())),
            ("highest", column(vec![100; auctions.len()])),
        ])
        .unwrap()
    }

    #[test]
    fn the_hottest_of_the_newest_window_are_kept() {
        let mut newest = Window::default();
        newest.take(&rows(10_000, &[(1, 500), (2, 600)]));
        let bids: Vec<(i64, i64)> = (0..30).map(|auction| (auction, auction % 15)).collect();
        newest.take(&rows(20_000, &bids[..20]));
        newest.take(&rows(20_000, &bids[20..]));
        assert_eq!(newest.start_ms, 20_000);
        assert_eq!(newest.auctions.len(), HOTTEST);
        let kept: Vec<(i64, i64)> = newest.auctions.iter().map(|&(auction, bids, _)| (auction, bids)).collect();
        assert_eq!(kept[..4], [(14, 14), (29, 14), (13, 13), (28, 13)]);
        assert_eq!(kept[9], (25, 10));
    }
}
