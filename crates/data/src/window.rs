//! Which windows there are, and the slices of time that they are made of.
//!
//! A slice is a stretch of time that no window's edge divides: all its rows belong to the same windows. A row goes once into its
//! slice; a window is put together from its slices. (LightSaber, sections 2.3 and 3. Where a window's size is no multiple of its
//! slide there are two slices a slide: "pairs" of Krishnamurthy et al., On-the-fly sharing for streamed aggregation, section 4.)

mod combination;
mod grid;

use crate::Micros;
use crate::time::{WATERMARK_MAX, WATERMARK_MIN, slice_start};
use crate::zoned_window::ZonedWindow;

pub use self::combination::Combination;

/// How rows are assigned to windows. Lengths are in microseconds and positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Window {
    /// `TUMBLE`: windows `[offset + k * size, offset + (k + 1) * size)`.
    Tumbling {
        /// Length.
        size: Micros,
        /// Where window 0 begins.
        offset: Micros,
    },
    /// `HOP`: windows `[offset + k * slide, offset + k * slide + size)`. With a slide longer than the size there are rows in no window.
    Hopping {
        /// Length.
        size: Micros,
        /// From the start of one window to the next.
        slide: Micros,
        /// Where window 0 begins.
        offset: Micros,
    },
    /// `CUMULATE`: windows `[offset + k * size, offset + k * size + j * step)` for `j` from 1 to `size / step`.
    Cumulative {
        /// Length of the longest, a multiple of `step`.
        size: Micros,
        /// From the end of one window to the next.
        step: Micros,
        /// Where window 0 begins.
        offset: Micros,
    },
    /// The same by the clocks of a time zone.
    Zoned(ZonedWindow),
    /// `SESSION`: rows of one key, each at most `gap` after the one before in time; from the first row's time to `gap` after the last's.
    Session {
        /// Longest time between two rows of a session.
        gap: Micros,
    },
    /// `TUMBLE_ROWS` and `HOP_ROWS`: windows `[k * slide, k * slide + size)` for `k` from 0, of the numbers that rows have in their stream, from 0.
    /// Instants of these windows, and watermarks, are such numbers: how many rows have come.
    Rows {
        /// How many rows.
        size: i64,
        /// From the first row of one window to that of the next.
        slide: i64,
    },
    /// The same with `PARTITION BY`: the rows of each key are numbered by themselves. Watermarks are how many rows have come of all keys.
    RowsByKey {
        /// How many rows of a key.
        size: i64,
        /// From the first row of one window to that of the next.
        slide: i64,
    },
    /// What results of windows that count rows fall into, whose time is the number of the last row that their window has room for: windows `[k, k + 1)` of such
    /// numbers.
    Counted,
    /// No window: one result when a bounded input has ended.
    Global,
}

/// The windows of results of windows that count rows.
const ROW_BY_ROW: Window = Window::Tumbling { size: 1, offset: 0 };

/// A result's time is that much before the end of its window, in microseconds.
const RESULT_BEFORE_END: Micros = 1_000;

/// Which accumulators of a group tell its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSlots {
    /// The smallest time, in ticks of its column.
    pub first: usize,
    /// The largest time.
    pub last: usize,
    /// How many rows.
    pub rows: usize,
}

/// When windows are reported besides when their time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Emission {
    /// Rows that come up to so long after their windows have ended correct them, in microseconds.
    pub lateness: Micros,
    /// So long after rows have come for them, on the clock and in microseconds, windows are reported whose time has not come.
    pub early_after: Option<Micros>,
    /// Windows are reported so long after their time has come, in microseconds, and rows that come until then count as if they were in time.
    pub delay: Micros,
}

impl Emission {
    /// Whether every window is reported once.
    pub fn is_once(&self) -> bool {
        self.lateness == 0 && self.early_after.is_none()
    }

    /// How far time has come for windows that are delayed, by a watermark.
    pub fn delayed(&self, watermark: Micros) -> Micros {
        // Nothing more comes then.
        if watermark == WATERMARK_MAX { watermark } else { watermark.saturating_sub(self.delay) }
    }
}

/// What a row of results is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResultKind {
    /// What a window came to when its time had come. There is no other kind unless asked for.
    Final,
    /// The same once more, with rows that came later than that, but not too late.
    Correction,
    /// What the rows of a window come to that have come so far, before its time.
    Early,
}

impl ResultKind {
    /// As users read it.
    pub fn name(self) -> &'static str {
        match self {
            ResultKind::Final => "final",
            ResultKind::Correction => "correction",
            ResultKind::Early => "early",
        }
    }
}

/// A stretch of time whose rows belong to the same windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// First instant.
    pub start: Micros,
    /// First instant after it.
    pub end: Micros,
    /// The ends of the windows that cover it; `None` where none does.
    pub covered: Option<Covered>,
}

/// Which windows cover a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Covered {
    /// End of the first.
    pub first_end: Micros,
    /// End of the last: after it the slice is forgotten.
    pub last_end: Micros,
}

impl Slice {
    /// The slice so much later, which is where this one ends.
    pub fn next(&self, stride: Micros) -> Slice {
        let later = |time: Micros| time.saturating_add(stride);
        let covered =
            self.covered.map(|ends| Covered { first_end: later(ends.first_end), last_end: later(ends.last_end) });
        Slice { start: self.end, end: later(self.end), covered }
    }
}

impl Window {
    /// Whether each row is in one window, neither in several nor in none.
    pub fn has_each_row_once(&self) -> bool {
        match *self {
            Window::Tumbling { .. } | Window::Session { .. } | Window::Counted | Window::Global => true,
            Window::Hopping { size, slide, .. } => size == slide,
            Window::Cumulative { size, step, .. } => size == step,
            Window::Rows { size, slide } | Window::RowsByKey { size, slide } => size == slide,
            Window::Zoned(zoned) => zoned.by_clock().has_each_row_once(),
        }
    }

    /// The slice that holds `time`.
    pub fn slice(&self, time: Micros) -> Slice {
        let covered = |first_end, last_end| Some(Covered { first_end, last_end });
        match *self {
            Window::Tumbling { size, offset } => {
                let start = slice_start(time, size, offset);
                let end = start.saturating_add(size);
                Slice { start, end, covered: covered(end, end) }
            }
            Window::Hopping { size, slide, offset } => {
                let period = slice_start(time, slide, offset);
                let next = period.saturating_add(slide);
                let last_end = period.saturating_add(size);
                // Windows end this long after a multiple of the slide.
                let rest = size % slide;
                let edge = period.saturating_add(rest);
                if time < edge {
                    Slice { start: period, end: edge, covered: covered(edge, last_end) }
                } else {
                    let is_covered = size >= slide;
                    let first_end = next.saturating_add(rest);
                    Slice { start: edge, end: next, covered: covered(first_end, last_end).filter(|_| is_covered) }
                }
            }
            Window::Cumulative { size, step, offset } => {
                let start = slice_start(time, step, offset);
                let end = start.saturating_add(step);
                Slice { start, end, covered: covered(end, slice_start(time, size, offset).saturating_add(size)) }
            }
            Window::Zoned(window) => window.slice(time),
            Window::Counted => ROW_BY_ROW.slice(time),
            // No two rows of a slice are further apart than the gap: those of one key are in one session, which may go on for ever.
            Window::Session { gap } => {
                let start = slice_start(time, gap, 0);
                let end = start.saturating_add(gap);
                Slice { start, end, covered: covered(end, Micros::MAX) }
            }
            Window::Rows { size, slide } | Window::RowsByKey { size, slide } => {
                let slice = Window::Hopping { size, slide, offset: 0 }.slice(time);
                // No window begins before the first row.
                let covered = slice.covered.map(|ends| Covered { first_end: ends.first_end.max(size), ..ends });
                Slice { covered, ..slice }
            }
            Window::Global => {
                Slice { start: Micros::MIN, end: Micros::MAX, covered: covered(Micros::MAX, Micros::MAX) }
            }
        }
    }

    /// From slice to slice, where all have the same length and each belongs to windows that are so much later than those of the one before.
    pub fn stride(&self) -> Option<Micros> {
        match *self {
            Window::Tumbling { size, .. } => Some(size),
            Window::Counted => ROW_BY_ROW.stride(),
            Window::Hopping { size, slide, .. } if size % slide == 0 => Some(slide),
            _ => None,
        }
    }

    /// The end of the first window that ends after `time`.
    pub fn next_end(&self, time: Micros) -> Micros {
        let (distance, offset) = match *self {
            Window::Tumbling { size, offset } => (size, offset),
            Window::Hopping { size, slide, offset } => (slide, offset.saturating_add(size % slide)),
            Window::Cumulative { step, offset, .. } => (step, offset),
            Window::Zoned(window) => return window.next_end(time),
            Window::Counted => return ROW_BY_ROW.next_end(time),
            Window::Rows { size, slide } => {
                return Window::Hopping { size, slide, offset: 0 }.next_end(time).max(size);
            }
            // Sessions end wherever their rows do, and any row may be the last of its key's window.
            Window::Session { .. } | Window::RowsByKey { .. } => return time.saturating_add(1),
            Window::Global => return Micros::MAX,
        };
        slice_start(time, distance, offset).saturating_add(distance)
    }

    /// The start of the window that ends at `end`: there is one at most for each end.
    ///
    /// # Panics
    /// Of sessions, which begin where their first rows are.
    pub fn start(&self, end: Micros) -> Micros {
        match *self {
            Window::Tumbling { size, .. }
            | Window::Hopping { size, .. }
            | Window::Rows { size, .. }
            | Window::RowsByKey { size, .. } => end.saturating_sub(size),
            Window::Cumulative { size, offset, .. } => slice_start(end.saturating_sub(1), size, offset),
            Window::Zoned(window) => window.start(end),
            Window::Counted => ROW_BY_ROW.start(end),
            Window::Session { .. } => panic!("the end of a session does not say where it began"),
            Window::Global => Micros::MIN,
        }
    }

    /// The bounds of a window as people read them: what clocks show.
    pub fn shown(&self, start: Micros, end: Micros) -> (Micros, Micros) {
        match self {
            Window::Zoned(window) => window.shown(end),
            _ => (start, end),
        }
    }

    /// Up to where windows are over when the input's watermark is `watermark`. A session that ends exactly there is not: a row of that time
    /// may still come in time, and is near enough to belong to it.
    pub fn over_until(&self, watermark: Micros) -> Micros {
        match self {
            Window::Session { .. } if watermark != WATERMARK_MAX => watermark.saturating_sub(1),
            _ => watermark,
        }
    }

    /// The time of a result of the window that ends at `end`: its last millisecond, or the number of the last row that it has room for.
    pub fn result_time(&self, end: Micros) -> Micros {
        end.saturating_sub(if self.counts_rows() { 1 } else { RESULT_BEFORE_END })
    }

    /// The start of the window whose results have this time.
    ///
    /// # Panics
    /// Of sessions, as [`Window::start`].
    pub fn start_of_result(&self, time: Micros) -> Micros {
        self.start(time.saturating_add(if self.counts_rows() { 1 } else { RESULT_BEFORE_END }))
    }

    /// The watermark of the results when the windows that end at or before `closed_until` have been reported.
    pub fn results_watermark(&self, closed_until: Micros) -> Micros {
        match self {
            Window::Session { .. } if closed_until != WATERMARK_MAX => {
                let unit = RESULT_BEFORE_END;
                slice_start(closed_until.saturating_add(1), unit, 0).saturating_sub(unit)
            }
            // Windows of the same number end at different times for different keys: that of these results stands still until all have come.
            Window::RowsByKey { .. } if closed_until != WATERMARK_MAX => WATERMARK_MIN,
            _ => closed_until,
        }
    }

    /// Whether windows are so many rows, and not so long.
    pub fn counts_rows(&self) -> bool {
        matches!(self, Window::Rows { .. } | Window::RowsByKey { .. } | Window::Counted)
    }

    /// Whether windows go by how many rows have come before each in its stream or of its key.
    pub fn goes_by_arrival(&self) -> bool {
        matches!(self, Window::Rows { .. } | Window::RowsByKey { .. })
    }

    /// Slices of the longest window; of sessions, whose length has no limit, 1.
    pub fn slices_max(&self) -> i64 {
        match *self {
            Window::Zoned(window) => window.by_clock().slices_max(),
            Window::Rows { size, slide } => Window::Hopping { size, slide, offset: 0 }.slices_max(),
            Window::RowsByKey { size, slide } => size / slice_rows(size, slide),
            Window::Tumbling { .. } | Window::Session { .. } | Window::Counted | Window::Global => 1,
            Window::Hopping { size, slide, .. } if size % slide == 0 => size / slide,
            Window::Hopping { size, slide, .. } => 2 * (size / slide) + 1,
            Window::Cumulative { size, step, .. } => size / step,
        }
    }

    /// Whether a slice leaves windows while others of theirs stay, so that it is worth keeping what can be subtracted.
    pub fn evicts_slices(&self) -> bool {
        match self {
            Window::Zoned(window) => window.by_clock().evicts_slices(),
            Window::Hopping { .. } | Window::Rows { .. } => self.slices_max() > 2,
            _ => false,
        }
    }

    /// The windows that rows fall into which are results of these windows, one for each window, or for all that end within one millisecond: a result's
    /// time ([`Window::result_time`]) is just before the end of its window, so that it is found by the end. These windows end where those do, but do not overlap.
    pub fn of_results(&self) -> Window {
        match *self {
            Window::Hopping { size, slide, offset } => {
                Window::Tumbling { size: slide, offset: offset.saturating_add(size % slide) }
            }
            Window::Cumulative { step, offset, .. } => Window::Tumbling { size: step, offset },
            Window::Zoned(window) => Window::Zoned(window.of_results()),
            // Where sessions begin their results say.
            Window::Session { .. } => Window::Tumbling { size: RESULT_BEFORE_END, offset: 0 },
            Window::Rows { .. } => Window::Counted,
            same @ (Window::Tumbling { .. } | Window::RowsByKey { .. } | Window::Counted | Window::Global) => same,
        }
    }
}

/// Rows of each slice of a key's windows: the most that divide both.
pub fn slice_rows(size: i64, slide: i64) -> i64 {
    if slide == 0 { size } else { slice_rows(slide, size % slide) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The windows that hold `time`, by their definitions, ascending by end.
    fn windows(window: &Window, time: Micros) -> Vec<(Micros, Micros)> {
        let mut found = Vec::new();
        match *window {
            Window::Tumbling { size, offset } => {
                let start = (time - offset).div_euclid(size) * size + offset;
                found.push((start, start + size));
            }
            Window::Hopping { size, slide, offset } => {
                let last = (time - offset).div_euclid(slide) * slide + offset;
                let starts = (0..).map(|back| last - back * slide).take_while(|start| start + size > time);
                found.extend(starts.map(|start| (start, start + size)));
            }
            Window::Cumulative { size, step, offset } => {
                let start = (time - offset).div_euclid(size) * size + offset;
                found.extend(
                    (1..=size / step).map(|count| (start, start + count * step)).filter(|(_, end)| *end > time),
                );
            }
            Window::Rows { size, slide } => {
                let starts = (0..=time.div_euclid(slide)).map(|number| number * slide);
                found.extend(starts.filter(|start| start + size > time).map(|start| (start, start + size)));
            }
            Window::Counted => found.push((time, time + 1)),
            Window::Global => found.push((Micros::MIN, Micros::MAX)),
            Window::Zoned(_) | Window::RowsByKey { .. } | Window::Session { .. } => {
                unreachable!("where sessions are depends on the rows")
            }
        }
        found.sort_by_key(|(_, end)| *end);
        found
    }

    fn all() -> Vec<Window> {
        let mut all = vec![Window::Counted];
        for offset in [-7, 0, 1, 5] {
            for (size, slide) in [(10, 3), (10, 5), (9, 9), (3, 7), (7, 1), (12, 8), (1, 1), (6, 10)] {
                all.push(Window::Tumbling { size, offset });
                all.push(Window::Hopping { size, slide, offset });
                all.push(Window::Cumulative { size: size * slide, step: slide, offset });
            }
        }
        all
    }

    #[test]
    fn slices_know_the_windows_that_cover_them() {
        for window in all() {
            for time in -60..60 {
                let slice = window.slice(time);
                let expected = windows(&window, time);
                assert!(slice.start <= time && time < slice.end, "{window:?} {time} {slice:?}");
                let ends = expected.first().zip(expected.last());
                let ends = ends.map(|(first, last)| Covered { first_end: first.1, last_end: last.1 });
                assert_eq!(slice.covered, ends, "{window:?} {time}");
                for (start, end) in expected {
                    assert_eq!(window.start(end), start, "{window:?} {end}");
                    assert!(start <= slice.start && slice.end <= end, "{window:?} {time} {slice:?}");
                    assert_eq!(window.next_end(end - 1), end, "{window:?} {end}");
                }
            }
        }
    }

    #[test]
    fn slices_follow_each_other_where_they_are_alike() {
        let mut strides = 0;
        for window in all() {
            let Some(stride) = window.stride() else { continue };
            strides += 1;
            for time in -60..60 {
                let slice = window.slice(time);
                assert_eq!(slice.next(stride), window.slice(slice.end), "{window:?} {time}");
            }
        }
        assert!((2..all().len()).contains(&strides));
        let last = Window::Tumbling { size: 10, offset: 0 }.slice(Micros::MAX - 20).next(10);
        assert_eq!(last, Window::Tumbling { size: 10, offset: 0 }.slice(Micros::MAX - 10));
    }

    #[test]
    fn windows_of_rows_begin_with_the_first() {
        for (size, slide) in [(10, 3), (10, 5), (9, 9), (3, 7), (7, 1), (12, 8), (1, 1), (6, 10)] {
            let window = Window::Rows { size, slide };
            for row in 0..60 {
                let (slice, expected) = (window.slice(row), windows(&window, row));
                let ends = expected.first().zip(expected.last());
                let ends = ends.map(|(first, last)| Covered { first_end: first.1, last_end: last.1 });
                assert_eq!(slice.covered, ends, "{window:?} {row}");
                for (start, end) in expected {
                    assert_eq!((window.start(end), window.next_end(end - 1)), (start, end), "{window:?}");
                    assert!(start <= slice.start.max(0) && slice.end <= end, "{window:?} {row} {slice:?}");
                }
            }
            assert_eq!(window.next_end(Micros::MIN), size);
        }
        assert_eq!((slice_rows(12, 8), slice_rows(8, 12), slice_rows(7, 1), slice_rows(5, 5)), (4, 4, 1, 5));
    }

    #[test]
    fn a_window_has_no_more_slices_than_it_says() {
        for window in all() {
            for end in (-60..60).filter(|&end| window.next_end(end - 1) == end) {
                let mut starts: Vec<Micros> = (window.start(end)..end).map(|time| window.slice(time).start).collect();
                starts.dedup();
                assert!(starts.len() as i64 <= window.slices_max(), "{window:?} {end} {starts:?}");
            }
        }
    }

    #[test]
    fn a_result_is_found_by_the_end_of_its_window() {
        for window in all() {
            for time in -60..60 {
                let end = window.next_end(time);
                let again = window.of_results().slice(end - 1);
                assert_eq!(again.covered, Some(Covered { first_end: end, last_end: end }), "{window:?} {end}");
            }
        }
    }

    #[test]
    fn results_of_rows_are_found_by_the_last_of_them() {
        let (rows, sessions) = (Window::Rows { size: 10, slide: 4 }, Window::Session { gap: 10 });
        for end in [10, 14, 18] {
            let again = rows.of_results().slice(rows.result_time(end));
            assert_eq!(again.covered, Some(Covered { first_end: end, last_end: end }));
            assert_eq!(rows.results_watermark(end), end, "no later result is of a window that ends there");
        }
        let again = sessions.of_results().slice(sessions.result_time(7_000));
        assert_eq!(again.covered, Some(Covered { first_end: 7_000, last_end: 7_000 }));
        let by_key = Window::RowsByKey { size: 10, slide: 4 };
        assert_eq!((by_key.of_results(), by_key.results_watermark(10)), (by_key, WATERMARK_MIN));
    }

    #[test]
    fn a_session_is_over_when_no_row_can_join_it_in_time() {
        let sessions = Window::Session { gap: 10 };
        assert_eq!((sessions.over_until(20), sessions.over_until(WATERMARK_MAX)), (19, WATERMARK_MAX));
        // Sessions that end at 20_001 or later have their last millisecond in the 20th at the earliest, cut to milliseconds in the 19th.
        assert_eq!(sessions.results_watermark(20_000), 19_000);
        assert_eq!(sessions.results_watermark(20_999), 20_000);
        let slice = sessions.slice(-1);
        assert_eq!((slice.start, slice.end, slice.covered.unwrap().first_end), (-10, 0, 0));
    }

    #[test]
    fn time_ends_without_an_overflow() {
        for window in all().into_iter().chain([Window::Global]) {
            for time in [Micros::MIN, Micros::MIN + 1, Micros::MAX - 1, Micros::MAX] {
                let slice = window.slice(time);
                assert!(slice.start <= time && slice.end >= time);
                assert!(window.start(window.next_end(time)) <= window.next_end(time));
            }
        }
    }
}
