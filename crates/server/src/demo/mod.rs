//! `pelton demo`: bids of a generated auction, counted live.
//!
//! In reading order: [`bids`] (the query and its newest window), [`history`] (rates and latencies over time), [`words`] (what has become of the
//! code, for people), [`view`] (the terminal view).

mod bids;

mod history;

mod view;

mod words;

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pelton::progress::Progress;
use pelton::query::QueryControl;
use pelton::{Query, Session};

use crate::arguments::DemoArguments;
use crate::failure::Failure;
use crate::output::output;
use crate::print::{count, short};
use crate::stop;

use bids::Window;
use history::History;

/// How often the terminal view is drawn.
const FRAME: Duration = Duration::from_millis(50);

/// How often it is looked for a new result where lines are printed.
const LOOK: Duration = Duration::from_millis(20);

/// Lots named in a line.
const LOTS_IN_LINE: usize = 3;

/// What the demo shows at one instant.
struct Frame<'a> {
    progress: Progress,
    history: &'a History,
    workers: usize,
    /// The newest window, if one has closed.
    newest: Option<Window>,
}

/// The newest window so far: written by the reader of results.
type Newest = Arc<Mutex<Option<Window>>>;

struct Demo {
    control: QueryControl,
    newest: Newest,
    history: History,
    workers: usize,
}

/// Runs the demo until `q`, Ctrl-C or the end of its time.
pub fn demo(arguments: &DemoArguments) -> Result<(), Failure> {
    let session = Session::new();
    stop::listen(stop::Interrupted::Queries(session.clone()), stop::Interrupt::EndsProgram)?;
    let workers = arguments.workers.unwrap_or(thread::available_parallelism().map_or(1, usize::from) as u64);
    session.set("pelton.workers", &workers.to_string())?;
    let query = session.sql(&bids::script(arguments.rate))?;
    let control = query.control();
    stop::attend(Some(control.clone()));
    let newest = Newest::default();
    // A thread of its own: results that waited for the next frame would have its latency.
    let reader = thread::spawn({
        let newest = newest.clone();
        move || read(query, &newest)
    });
    let mut demo = Demo { control, newest, history: History::default(), workers: workers as usize };
    let until = arguments.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
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

/// Reads results as they come, until the query has ended.
fn read(mut query: Query, newest: &Mutex<Option<Window>>) -> Result<Progress, pelton::Error> {
    while let Some(rows) = query.next_batch()? {
        newest.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().take(&rows);
    }
    query.wait()
}

impl Demo {
    fn frame(&mut self) -> Frame<'_> {
        let progress = self.control.progress();
        self.history.note(&progress);
        Frame { history: &self.history, workers: self.workers, newest: self.newest(), progress }
    }

    fn newest(&self) -> Option<Window> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_over(&self, until: Option<Instant>) -> bool {
        stop::was_asked() || self.control.has_ended() || until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Prints a line for each window.
fn print_lines(demo: &mut Demo, until: Option<Instant>) -> Result<(), Failure> {
    let mut printed_ms = None;
    while !demo.is_over(until) {
        thread::sleep(LOOK);
        let Some(newest) = demo.newest() else { continue };
        if printed_ms.replace(newest.end_ms) != Some(newest.end_ms) {
            let line = line(&demo.frame());
            writeln!(output(), "{line}")?;
        }
    }
    Ok(())
}

fn line(frame: &Frame<'_>) -> String {
    let lots = frame.newest.as_ref().map(Window::ranked).unwrap_or_default();
    let lots = lots.iter().take(LOTS_IN_LINE).map(|(lot, bids)| format!("{} {}", bids::name(*lot), count(*bids)));
    let lots: Vec<String> = lots.collect();
    format!(
        "{:.1} s: {} bids a second; {}; most bids in {}: {}; {}",
        frame.progress.elapsed.as_secs_f64(),
        short(frame.history.bids_per_s(&frame.progress)),
        frame.history.latency_text(&frame.progress),
        bids::WINDOW_TEXT,
        lots.join(", "),
        words::adaptation(&frame.progress),
    )
}

fn print_summary(summary: &Progress) -> io::Result<()> {
    let mut out = output();
    let rows: u64 = summary.sources.iter().map(|source| source.rows).sum();
    let seconds = summary.elapsed.as_secs_f64();
    let rate = short(rows as f64 / seconds);
    writeln!(out, "{} bids in {seconds:.1} s, {rate} a second; {}", count(rows), history::latency_text(summary))?;
    writeln!(out, "{}", words::adaptation(summary))?;
    for pipeline in &summary.pipelines {
        words::details(pipeline).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    for operator in summary.operators.iter().filter(|operator| operator.late_rows > 0) {
        writeln!(out, "{}: {} late input rows", operator.name, count(operator.late_rows))?;
    }
    Ok(())
}
