//! What `SHOW PROGRESS` shows: what running queries wait for, the answer to "why is there no output?".

use arrow::temporal_conversions::timestamp_us_to_datetime;
use pelton_data::Micros;
use pelton_data::time::{WATERMARK_MAX, WATERMARK_MIN};
use pelton_data::window::Window;
use pelton_runtime::progress::{Laggard, OverProgress, Progress, WindowProgress, time_with_unit};

/// Names of the columns.
pub(crate) const COLUMNS: [&str; 7] = ["query", "window", "next end", "watermark", "waits for", "idle", "late rows"];

/// Those that a user looks for first.
pub(crate) const NARROW: [(&str, usize); 4] = [("query", 18), ("window", 10), ("waits for", 57), ("late rows", 9)];

/// Idle partitions that are named; of others there is the number.
const IDLE_NAMED_MAX: usize = 3;

/// One row for each window of a query, which is the session's query `number`, and for all functions OVER rows of one order; one row where there are none.
pub(crate) fn rows(number: usize, progress: &Progress) -> Vec<Vec<String>> {
    let query = query_name(number, progress.sinks.iter().map(|sink| sink.name.as_str()));
    let window = |window: &WindowProgress| {
        vec![
            query.clone(),
            window.name.clone(),
            next_end(window),
            reached(window, window.watermark),
            waits_for(window),
            idle(&window.idle),
            window.late_rows.to_string(),
        ]
    };
    let over = |over: &OverProgress| {
        vec![
            query.clone(),
            over.name.clone(),
            format!("none: {} rows wait for their time", over.waiting_rows),
            instant(over.watermark),
            over_waits_for(over),
            idle(&over.idle),
            over.late_rows.to_string(),
        ]
    };
    let by_time = progress.overs.iter().filter(|over| over.is_by_time);
    let rows: Vec<Vec<String>> =
        progress.windows.iter().filter(|window| !window.is_shared).map(window).chain(by_time.map(over)).collect();
    if rows.is_empty() {
        let empty = String::new;
        return vec![vec![query, empty(), empty(), empty(), "rows".to_owned(), empty(), empty()]];
    }
    rows
}

/// What people call the session's query `number` with these outputs.
pub(crate) fn query_name<'a>(number: usize, outputs: impl Iterator<Item = &'a str>) -> String {
    format!("{number}: {}", outputs.collect::<Vec<_>>().join(", "))
}

fn next_end(window: &WindowProgress) -> String {
    match (window.window, window.next_end) {
        (Window::RowsByKey { .. }, _) => "that of each key".to_owned(),
        // A row that comes may make it longer, or begin one that ends before.
        (Window::Session { .. }, Some(end)) if end != WATERMARK_MAX => format!("{} at the earliest", instant(end)),
        (_, Some(end)) => reached(window, end),
        (_, None) => "none is open".to_owned(),
    }
}

/// An instant of a window, or how many rows.
fn reached(window: &WindowProgress, at: Micros) -> String {
    match at {
        WATERMARK_MIN | WATERMARK_MAX => instant(at),
        1 if window.window.counts_rows() => "1 row".to_owned(),
        rows if window.window.counts_rows() => format!("{rows} rows"),
        micros => instant(micros),
    }
}

fn waits_for(window: &WindowProgress) -> String {
    match (window.next_end, &window.held_back_by) {
        (_, None) => "the rest of its input to be processed".to_owned(),
        (_, Some(laggard)) if window.window.counts_rows() => format!("rows of {}", partition(laggard)),
        (None, Some(laggard)) => format!("rows of {}", partition(laggard)),
        // It has no need of time.
        (Some(WATERMARK_MAX), Some(laggard)) => format!("the end of {}", partition(laggard)),
        (Some(end), Some(laggard)) if laggard.reached() < end => time_of(laggard),
        (Some(_), Some(_)) => "rows that were read to be processed".to_owned(),
    }
}

fn over_waits_for(over: &OverProgress) -> String {
    match &over.held_back_by {
        None => "the rest of its input to be processed".to_owned(),
        Some(_) if !over.has_kept_up => "rows that were read to be processed".to_owned(),
        Some(laggard) if over.waiting_rows == 0 => format!("rows of {}", partition(laggard)),
        Some(laggard) => time_of(laggard),
    }
}

/// The partition that holds time back, and how far it has come.
fn time_of(laggard: &Laggard) -> String {
    if laggard.is_idle {
        return format!("rows of any input: all of it is idle, {} too", partition(laggard));
    }
    let come_so_far = match (laggard.watermark, laggard.delay) {
        (WATERMARK_MIN, _) => "had no row yet".to_owned(),
        (time, 0) => format!("is at {}", instant(time)),
        (time, delay) => {
            let late = time_with_unit(delay.unsigned_abs());
            format!("is at {}, and whose rows may be {late} late", instant(time))
        }
    };
    format!("{}, which {come_so_far}", partition(laggard))
}

fn idle(idle: &[Laggard]) -> String {
    let mut named: Vec<String> = idle.iter().take(IDLE_NAMED_MAX).map(partition).collect();
    match idle.len() - named.len() {
        0 => {}
        others => named.push(format!("{others} more")),
    }
    named.join("; ")
}

fn partition(laggard: &Laggard) -> String {
    format!("{}, partition {}", laggard.source, laggard.partition)
}

fn instant(micros: Micros) -> String {
    match micros {
        WATERMARK_MIN => "none yet".to_owned(),
        WATERMARK_MAX => "the end of its input".to_owned(),
        micros => timestamp_us_to_datetime(micros)
            .map_or_else(|| micros.to_string(), |time| time.format("%Y-%m-%d %H:%M:%S%.3f").to_string()),
    }
}
