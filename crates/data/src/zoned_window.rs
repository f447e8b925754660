//! Windows by the clocks of a time zone.
//!
//! The rows of a day are those between two midnights, even where clocks are changed: a day may have 23 hours or 25. What clocks show is cut into
//! windows, as instants are elsewhere; an edge is at the first instant at which clocks show it or more. A window lies between two edges, so
//! that of an hour which clocks show twice both are in one window, as in Flink. Edges are told apart where no two of them fall into an hour
//! that clocks skip.
//!
//! Windows that are half an hour, or a part of that, from each other have their edges where clocks show them in whatever way they are changed: they are as
//! long as in UTC, and shown from what clocks showed when they began to what clocks showed when they ended.

use crate::time::Micros;
use crate::window::{Covered, Slice, Window};
use crate::zone::Zone;

/// How windows follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Shape {
    Tumbling,
    Hopping { slide: Micros },
    Cumulative { step: Micros },
}

/// `TUMBLE`, `HOP` or `CUMULATE` of instants by the clocks of a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ZonedWindow {
    zone: Zone,
    shape: Shape,
    size: Micros,
    offset: Micros,
}

const HOUR: Micros = 3_600_000_000;

const DAY: Micros = 24 * HOUR;

impl ZonedWindow {
    /// The windows by the clocks of a zone; `None` where two edges may be one instant, or clocks show an edge twice.
    pub fn new(window: Window, zone: Zone) -> Option<ZonedWindow> {
        let (shape, size, offset, by_hours) = match window {
            Window::Tumbling { size, offset } => (Shape::Tumbling, size, offset, size % HOUR == 0),
            Window::Hopping { size, slide, offset } => {
                (Shape::Hopping { slide }, size, offset, slide % DAY == 0 && size % DAY == 0)
            }
            Window::Cumulative { size, step, offset } => (Shape::Cumulative { step }, size, offset, step % DAY == 0),
            _ => return None,
        };
        let zoned = ZonedWindow { zone, shape, size, offset };
        let is_near = match shape {
            Shape::Cumulative { .. } => (HOUR / 2) % size == 0,
            _ => zoned.is_near(),
        };
        let are_apart = || !zoned.is_by_single_days() || !zone.skips_a_day();
        (is_near || by_hours && offset % HOUR == 0 && are_apart()).then_some(zoned)
    }

    /// The zone.
    pub fn zone(self) -> Zone {
        self.zone
    }

    /// The same windows of what clocks show.
    pub fn by_clock(self) -> Window {
        let ZonedWindow { shape, size, offset, .. } = self;
        match shape {
            Shape::Tumbling => Window::Tumbling { size, offset },
            Shape::Hopping { slide } => Window::Hopping { size, slide, offset },
            Shape::Cumulative { step } => Window::Cumulative { size, step, offset },
        }
    }

    /// Whether edges of several windows are a day from each other, so that they are one instant where clocks skip that day. `TUMBLE` has nothing between them.
    fn is_by_single_days(self) -> bool {
        let is_day = match self.shape {
            Shape::Tumbling => false,
            Shape::Hopping { slide } => [self.size % slide, slide - self.size % slide].contains(&DAY),
            Shape::Cumulative { step } => step == DAY,
        };
        is_day && self.offset % DAY == 0
    }

    /// Whether all edges are half an hour or a part of that from each other.
    fn is_near(self) -> bool {
        let distance = match self.shape {
            Shape::Tumbling => self.size,
            Shape::Hopping { slide } => slide,
            Shape::Cumulative { step } => step,
        };
        (HOUR / 2) % distance == 0
    }

    /// The instant of an edge, where clocks showed `clock` at `instant` and are not changed between the two unless edges are far from each other.
    fn edge(self, edge: Micros, (instant, clock): (Micros, Micros)) -> Micros {
        if self.is_near() { edge.saturating_sub(clock.saturating_sub(instant)) } else { self.zone.first(edge) }
    }

    /// See [`Window::slice`].
    pub fn slice(self, time: Micros) -> Slice {
        let clock = self.zone.clock(time);
        let mut slice = self.by_clock().slice(clock);
        let at = |edge: Micros| self.edge(edge, (time, clock));
        // Clocks may have shown more before.
        while !self.is_near() && at(slice.end) <= time && slice.end < Micros::MAX {
            slice = self.by_clock().slice(slice.end);
        }
        let covered = slice
            .covered
            .map(|Covered { first_end, last_end }| Covered { first_end: at(first_end), last_end: at(last_end) });
        Slice { start: at(slice.start), end: at(slice.end), covered }
    }

    /// See [`Window::next_end`].
    pub fn next_end(self, time: Micros) -> Micros {
        let clock = self.zone.clock(time);
        let mut end = self.by_clock().next_end(clock);
        while !self.is_near() && self.edge(end, (time, clock)) <= time && end < Micros::MAX {
            end = self.by_clock().next_end(end);
        }
        self.edge(end, (time, clock))
    }

    /// See [`Window::start`].
    pub fn start(self, end: Micros) -> Micros {
        let last = end.saturating_sub(1);
        let clock = self.zone.clock(last);
        self.edge(self.by_clock().start(self.by_clock().next_end(clock)), (last, clock))
    }

    /// What clocks show at the start and at the end of the window that ends at `end`.
    pub fn shown(self, end: Micros) -> (Micros, Micros) {
        let shown_end = self.by_clock().next_end(self.zone.clock(end.saturating_sub(1)));
        // Clocks may be changed within one that is longer than half an hour.
        let shown_start = match self.is_near() {
            true => self.zone.clock(self.start(end)),
            false => self.by_clock().start(shown_end),
        };
        (shown_start, shown_end)
    }

    /// See [`Window::of_results`].
    pub fn of_results(self) -> ZonedWindow {
        match (self.shape, self.by_clock().of_results()) {
            (_, Window::Tumbling { size, offset }) => ZonedWindow { shape: Shape::Tumbling, size, offset, ..self },
            (_, _) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hours in 1970 and after, of the days in which clocks in Berlin are put forward and back, and of others near them.
    fn hours() -> impl Iterator<Item = Micros> {
        [1_585_000_800, 1_603_065_600]
            .into_iter()
            .flat_map(|first| (0..24 * 14).map(move |hour| first * 1_000_000 + hour * HOUR))
    }

    fn windows() -> Vec<ZonedWindow> {
        let zones = ["Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu"];
        let plain = [
            Window::Tumbling { size: DAY, offset: 0 },
            Window::Tumbling { size: 7 * DAY, offset: -3 * DAY },
            Window::Tumbling { size: HOUR, offset: 0 },
            Window::Tumbling { size: 5 * HOUR, offset: HOUR },
            Window::Tumbling { size: HOUR / 4, offset: 60_000_000 },
            Window::Hopping { size: 3 * DAY, slide: DAY, offset: 2 * HOUR },
            Window::Hopping { size: 3 * HOUR, slide: HOUR / 2, offset: 0 },
            Window::Cumulative { size: 7 * DAY, step: DAY, offset: 0 },
        ];
        let all = zones.into_iter().flat_map(|zone| plain.map(|window| (window, Zone::named(zone).unwrap())));
        all.map(|(window, zone)| ZonedWindow::new(window, zone).unwrap()).collect()
    }

    #[test]
    fn every_instant_is_in_one_slice_and_windows_are_made_of_slices() {
        for window in windows() {
            for time in hours().flat_map(|hour| [hour - 1, hour, hour + 1_200_000_000]) {
                let slice = window.slice(time);
                assert!(slice.start <= time && time < slice.end, "{window:?} {time} {slice:?}");
                assert_eq!(window.slice(slice.start), slice, "{window:?} {time}");
                assert_eq!(window.slice(slice.end - 1), slice, "{window:?} {time}");
                let ends = slice.covered.expect("no instant is left out");
                let mut end = window.next_end(time);
                assert_eq!(end, ends.first_end, "{window:?} {time}");
                while end <= ends.last_end {
                    assert!(window.start(end) <= slice.start && slice.end <= end, "{window:?} {time} {end}");
                    end = window.next_end(end);
                }
            }
        }
    }

    #[test]
    fn windows_in_which_clocks_are_changed_are_shown_from_what_these_showed() {
        let minutes = |text: &str| {
            let (hour, minute) = text.split_once(':').unwrap();
            (hour.parse::<i64>().unwrap() * 60 + minute.parse::<i64>().unwrap()) * 60_000_000
        };
        let window = Window::Hopping { size: 3 * HOUR / 4, slide: HOUR / 4, offset: 0 };
        let window = ZonedWindow::new(window, Zone::named("Europe/London").unwrap()).unwrap();
        // Midnights of days on which clocks are put forward and back at 01:00 UTC, and ends in UTC.
        for (midnight, end, shown) in [
            (1_459_036_800, "0:45", ("0:00", "0:45")),
            (1_459_036_800, "1:15", ("0:30", "2:15")),
            (1_459_036_800, "1:45", ("2:00", "2:45")),
            (1_477_785_600, "0:45", ("1:00", "1:45")),
            (1_477_785_600, "1:15", ("1:30", "1:15")),
            (1_477_785_600, "1:45", ("1:00", "1:45")),
        ] {
            let midnight = midnight * 1_000_000;
            let (start, end) = window.shown(midnight + minutes(end));
            assert_eq!((start - midnight, end - midnight), (minutes(shown.0), minutes(shown.1)), "{shown:?}");
        }
    }

    #[test]
    fn edges_that_may_be_one_instant_are_refused() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        for window in [
            Window::Tumbling { size: 20 * 60_000_000, offset: 0 },
            Window::Tumbling { size: DAY, offset: HOUR / 2 },
            Window::Hopping { size: 2 * HOUR, slide: HOUR, offset: 0 },
            Window::Cumulative { size: DAY, step: HOUR, offset: 0 },
            Window::Session { gap: HOUR },
        ] {
            assert_eq!(ZonedWindow::new(window, berlin), None, "{window:?}");
        }
    }
}
