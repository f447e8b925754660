//! What `SHOW PROGRESS` shows: what running queries wait for, the answer to "why is there no output?".

use arrow::temporal_conversions::timestamp_us_to_datetime;
use pelton_data::Micros;
use pelton_data::time::{WATERMARK_MAX, WATERMARK_MIN};
use pelton_data::window::Window;
use pelton_runtime::progress::{
    Holding, Laggard, OpenWindows, Progress, StatefulProgress, WaitingRows, time_with_unit,
};

/// Names of the columns.
pub(crate) const COLUMNS: [&str; 7] = ["query", "window", "next end", "watermark", "waits for", "idle", "late rows"];

/// Those that a user looks for first.
pub(crate) const NARROW: [(&str, usize); 4] = [("query", 18), ("window", 10), ("waits for", 57), ("late rows", 9)];

/// Idle partitions that are named; of others there is the number.
const IDLE_NAMED_MAX: usize = 3;

/// One row for each window of a query, which is the session's query `number`, and for all functions OVER rows of one order; one row where there are none.
pub(crate) fn rows(number: usize, progress: &Progress) -> Vec<Vec<String>> {
    let query = query_name(number, progress.sinks.iter().map(|sink| sink.name.as_str()));
    let row = |operator: &StatefulProgress| {
        let [next_end, reached, waits_for] = match &operator.holding {
            Holding::Windows(open) if open.is_shared => return None,
            Holding::Windows(open) => {
                [next_end(open), reached(open, operator.watermark), windows_wait_for(operator, open)]
            }
            Holding::Rows(rows) if !rows.are_by_time => return None,
            Holding::Rows(rows) => [
                format!("none: {} rows wait for their time", waiting(operator, rows)),
                instant(operator.watermark),
                rows_wait_for(operator, rows),
            ],
        };
        let (name, late_rows) = (operator.name.clone(), operator.late_rows.to_string());
        Some(vec![query.clone(), name, next_end, reached, waits_for, idle(&operator.idle), late_rows])
    };
    let rows: Vec<Vec<String>> = progress.stateful.iter().filter_map(row).collect();
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

fn next_end(open: &OpenWindows) -> String {
    match (open.window, open.next_end) {
        (Window::RowsByKey { .. }, _) => "that of each key".to_owned(),
        // A row that comes may make it longer, or begin one that ends before.
        (Window::Session { .. }, Some(end)) if end != WATERMARK_MAX => format!("{} at the earliest", instant(end)),
        (_, Some(end)) => reached(open, end),
        (_, None) => "none is open".to_owned(),
    }
}

/// An instant of a window, or how many rows.
fn reached(open: &OpenWindows, at: Micros) -> String {
    match at {
        WATERMARK_MIN | WATERMARK_MAX => instant(at),
        1 if open.window.counts_rows() => "1 row".to_owned(),
        rows if open.window.counts_rows() => format!("{rows} rows"),
        micros => instant(micros),
    }
}

fn windows_wait_for(operator: &StatefulProgress, open: &OpenWindows) -> String {
    match (open.next_end, &operator.held_back_by) {
        (_, None) => "the rest of its input to be processed".to_owned(),
        (_, Some(laggard)) if open.window.counts_rows() => format!("rows of {}", partition(laggard)),
        (None, Some(laggard)) => format!("rows of {}", partition(laggard)),
        // It has no need of time.
        (Some(WATERMARK_MAX), Some(laggard)) => format!("the end of {}", partition(laggard)),
        (Some(end), Some(laggard)) if laggard.reached() < end => time_of(laggard),
        (Some(_), Some(_)) => "rows that were read to be processed".to_owned(),
    }
}

/// Rows that wait for their time: none where nothing comes any more.
fn waiting(operator: &StatefulProgress, rows: &WaitingRows) -> u64 {
    if operator.has_ended { 0 } else { rows.rows }
}

fn rows_wait_for(operator: &StatefulProgress, rows: &WaitingRows) -> String {
    match &operator.held_back_by {
        None => "the rest of its input to be processed".to_owned(),
        Some(_) if !operator.has_kept_up => "rows that were read to be processed".to_owned(),
        Some(laggard) if waiting(operator, rows) == 0 => format!("rows of {}", partition(laggard)),
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
