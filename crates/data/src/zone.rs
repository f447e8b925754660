//! Time zones: what clocks show at an instant, and when.
//!
//! Instants, and what clocks show, are both microseconds: a clock's as if it were UTC's.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, MappedLocalTime, Offset, TimeZone};
use chrono_tz::Tz;

use crate::time::Micros;

/// A time zone whose clocks are changed now and then, or that is not UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Zone(Clocks);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Clocks {
    /// Those of a region.
    Region(Tz),
    /// Those that are always as many minutes ahead of UTC.
    Ahead(i32),
}

const MINUTE: Micros = 60_000_000;

const HOUR: Micros = 60 * MINUTE;

/// Clocks are less than this ahead of UTC, and behind it.
const AHEAD_MINUTES_MAX: i32 = 18 * 60;

impl Zone {
    /// The zone of a name such as `Europe/Berlin`, `GMT+8`, `UTC+05:30` or `+08:00`; `None` where there is none.
    pub fn named(name: &str) -> Option<Zone> {
        Some(Zone(match Tz::from_str(name) {
            Ok(region) => Clocks::Region(region),
            Err(_) => Clocks::Ahead(minutes_ahead(name)?),
        }))
    }

    /// What clocks show at an instant.
    pub fn clock(self, instant: Micros) -> Micros {
        instant.saturating_add(self.ahead(instant))
    }

    /// How far clocks are ahead of UTC at an instant.
    fn ahead(self, instant: Micros) -> Micros {
        match self.0 {
            Clocks::Ahead(minutes) => Micros::from(minutes) * MINUTE,
            Clocks::Region(region) => {
                let Some(utc) = DateTime::from_timestamp_micros(instant) else { return 0 };
                Micros::from(region.offset_from_utc_datetime(&utc.naive_utc()).fix().local_minus_utc()) * 1_000_000
            }
        }
    }

    /// Whether clocks were put forward over a whole day once: the zone came to lie on the other side of the date line.
    pub fn skips_a_day(self) -> bool {
        // It lies there for longer than a month, and did not before there were time zones.
        let months = (-1_600..1_800).map(|month| month * 30 * 24 * HOUR);
        let ahead: Vec<Micros> = months.map(|instant| self.clock(instant) - instant).collect();
        ahead.windows(2).any(|pair| pair[1] - pair[0] >= 20 * HOUR)
    }

    /// The first instant from which on clocks show `clock` or later: where it is skipped, that at which clocks are put forward; where they show
    /// it twice, the first.
    pub fn first(self, clock: Micros) -> Micros {
        match self.shown_at(clock) {
            Some((first, _)) => first,
            None => self.put_forward_over(clock),
        }
    }

    /// The instant at which clocks show `clock`: where they show it twice, the first; where it is skipped, when clocks that had not been put forward
    /// would show it. It is what `java.time` means.
    pub fn instant(self, clock: Micros) -> Micros {
        self.shown_at(clock).map_or_else(|| self.not_put_forward(clock), |(first, _)| first)
    }

    /// The same, but the second instant where clocks show `clock` twice. It is what Java's `SimpleDateFormat` means.
    pub fn last_instant(self, clock: Micros) -> Micros {
        self.shown_at(clock).map_or_else(|| self.not_put_forward(clock), |(_, last)| last)
    }

    /// The first and the last instant at which clocks show `clock`; `None` where it is skipped.
    fn shown_at(self, clock: Micros) -> Option<(Micros, Micros)> {
        let region = match self.0 {
            Clocks::Region(region) => region,
            Clocks::Ahead(_) => {
                let instant = clock.saturating_sub(self.ahead(clock));
                return Some((instant, instant));
            }
        };
        let Some(shown) = DateTime::from_timestamp_micros(clock) else { return Some((clock, clock)) };
        match region.from_local_datetime(&shown.naive_utc()) {
            MappedLocalTime::Single(time) => Some((time.timestamp_micros(), time.timestamp_micros())),
            MappedLocalTime::Ambiguous(first, last) => Some((first.timestamp_micros(), last.timestamp_micros())),
            MappedLocalTime::None => None,
        }
    }

    /// When clocks are put forward over a time that they skip.
    fn put_forward_over(self, clock: Micros) -> Micros {
        // They show less a day before, and more a day after.
        let (mut before, mut after) = (clock - 36 * HOUR, clock + 36 * HOUR);
        while after - before > 1 {
            let between = before.midpoint(after);
            if self.clock(between) < clock { before = between } else { after = between }
        }
        after
    }

    fn not_put_forward(self, clock: Micros) -> Micros {
        clock - self.ahead(self.put_forward_over(clock) - 1)
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Clocks::Region(region) => f.write_str(region.name()),
            Clocks::Ahead(minutes) => {
                let sign = if minutes < 0 { '-' } else { '+' };
                write!(f, "GMT{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
        }
    }
}

/// The minutes of `GMT+8`, `UTC-03:30` or `+08:00`.
fn minutes_ahead(name: &str) -> Option<i32> {
    let (number, is_named) = match name.strip_prefix("GMT").or_else(|| name.strip_prefix("UTC")) {
        Some(number) => (number, true),
        None => (name, false),
    };
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => (-1, number),
        None => (1, number.strip_prefix('+')?),
    };
    let (hours, minutes) = match number.split_once(':') {
        Some((hours, minutes)) => (hours, Some(minutes)),
        None => (number, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i32>().ok())?;
    let hours = digits(hours).filter(|_| hours.len() == 2 || is_named && hours.len() == 1)?;
    let minutes = match minutes {
        Some(minutes) => digits(minutes).filter(|number| minutes.len() == 2 && *number < 60)?,
        None => 0,
    };
    let ahead = hours * 60 + minutes;
    (ahead <= AHEAD_MINUTES_MAX).then_some(sign * ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Micros {
        text.parse::<DateTime<chrono::Utc>>().unwrap().timestamp_micros()
    }

    #[test]
    fn clocks_are_put_forward_and_back() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        assert_eq!(berlin.clock(at("2020-03-29T00:59:59Z")), at("2020-03-29T01:59:59Z"));
        assert_eq!(berlin.clock(at("2020-03-29T01:00:00Z")), at("2020-03-29T03:00:00Z"));
        // 2 o'clock is skipped in March, and comes twice in October.
        for (clock, first, instant, last) in [
            ("2020-03-29T00:00:00Z", "2020-03-28T23:00:00Z", "2020-03-28T23:00:00Z", "2020-03-28T23:00:00Z"),
            ("2020-03-29T02:00:00Z", "2020-03-29T01:00:00Z", "2020-03-29T01:00:00Z", "2020-03-29T01:00:00Z"),
            ("2020-03-29T02:30:00Z", "2020-03-29T01:00:00Z", "2020-03-29T01:30:00Z", "2020-03-29T01:30:00Z"),
            ("2020-03-29T03:00:00Z", "2020-03-29T01:00:00Z", "2020-03-29T01:00:00Z", "2020-03-29T01:00:00Z"),
            ("2020-10-25T02:00:00Z", "2020-10-25T00:00:00Z", "2020-10-25T00:00:00Z", "2020-10-25T01:00:00Z"),
            ("2020-10-25T02:30:00Z", "2020-10-25T00:30:00Z", "2020-10-25T00:30:00Z", "2020-10-25T01:30:00Z"),
            ("2020-10-25T03:00:00Z", "2020-10-25T02:00:00Z", "2020-10-25T02:00:00Z", "2020-10-25T02:00:00Z"),
        ] {
            let found = [berlin.first(at(clock)), berlin.instant(at(clock)), berlin.last_instant(at(clock))];
            assert_eq!(found, [first, instant, last].map(at), "{clock}");
        }
        assert_eq!(Zone::named("Europe/Berlim"), None);
        let skips = |name: &str| Zone::named(name).unwrap().skips_a_day();
        assert!(["Pacific/Apia", "Pacific/Fakaofo", "Pacific/Kwajalein", "Asia/Manila"].into_iter().all(skips));
        assert!(!["Europe/Berlin", "America/Juneau", "Australia/Lord_Howe", "UTC", "GMT+14"].into_iter().any(skips));
        for instant in [Micros::MIN, Micros::MAX] {
            assert_eq!((berlin.clock(instant), berlin.first(instant)), (instant, instant));
        }
    }

    #[test]
    fn zones_may_be_so_many_hours_ahead() {
        let shown = |name: &str| Zone::named(name).map(|zone| (zone.to_string(), zone.clock(0) / MINUTE));
        for (name, known, minutes) in [
            ("GMT+8", "GMT+08:00", 480),
            ("GMT-08", "GMT-08:00", -480),
            ("UTC+05:30", "GMT+05:30", 330),
            ("-03:30", "GMT-03:30", -210),
            ("+08", "GMT+08:00", 480),
            ("Asia/Kolkata", "Asia/Kolkata", 330),
        ] {
            assert_eq!(shown(name), Some((known.to_string(), minutes)), "{name}");
        }
        for name in ["", "8", "+8", "GMT8", "GMT+", "GMT+19", "GMT+8:0", "GMT+08:60", "GMT+ä8", "+-8", "Nowhere"] {
            assert_eq!(shown(name), None, "{name}");
        }
        let ahead = Zone::named("GMT+8").unwrap();
        assert_eq!([ahead.first(0), ahead.instant(0), ahead.last_instant(0)], [-480 * MINUTE; 3]);
    }
}
