//! Time zones: what clocks show at an instant, and when.
//!
//! Instants, and what clocks show, are both microseconds: a clock's as if it were UTC's.

use std::str::FromStr;

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::Tz;

use crate::time::Micros;

/// A time zone whose clocks are changed now and then, or that is not UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Zone(Tz);

const HOUR: Micros = 3_600_000_000;

impl Zone {
    /// The zone of a name such as `Europe/Berlin`; `None` where there is none.
    pub fn named(name: &str) -> Option<Zone> {
        Tz::from_str(name).ok().map(Zone)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// What clocks show at an instant.
    pub fn clock(self, instant: Micros) -> Micros {
        let Some(utc) = DateTime::from_timestamp_micros(instant) else { return instant };
        let offset = self.0.offset_from_utc_datetime(&utc.naive_utc());
        instant.saturating_add(i64::from(offset.fix().local_minus_utc()) * 1_000_000)
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
        let Some(shown) = DateTime::from_timestamp_micros(clock) else { return clock };
        if let Some(first) = self.0.from_local_datetime(&shown.naive_utc()).earliest() {
            return first.timestamp_micros();
        }
        // Clocks are put forward over it. They show less a day before, and more a day after.
        let (mut before, mut after) = (clock - 36 * HOUR, clock + 36 * HOUR);
        while after - before > 1 {
            let between = before.midpoint(after);
            if self.clock(between) < clock { before = between } else { after = between }
        }
        after
    }
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
        for (clock, first) in [
            ("2020-03-29T00:00:00Z", "2020-03-28T23:00:00Z"),
            ("2020-03-29T02:00:00Z", "2020-03-29T01:00:00Z"),
            ("2020-03-29T02:30:00Z", "2020-03-29T01:00:00Z"),
            ("2020-03-29T03:00:00Z", "2020-03-29T01:00:00Z"),
            ("2020-10-25T02:00:00Z", "2020-10-25T00:00:00Z"),
            ("2020-10-25T03:00:00Z", "2020-10-25T02:00:00Z"),
        ] {
            assert_eq!(berlin.first(at(clock)), at(first), "{clock}");
        }
        assert_eq!(Zone::named("Europe/Berlim"), None);
        let skips = |name: &str| Zone::named(name).unwrap().skips_a_day();
        assert!(["Pacific/Apia", "Pacific/Fakaofo", "Pacific/Kwajalein", "Asia/Manila"].into_iter().all(skips));
        assert!(!["Europe/Berlin", "America/Juneau", "Australia/Lord_Howe", "UTC"].into_iter().any(skips));
        for instant in [Micros::MIN, Micros::MAX] {
            assert_eq!((berlin.clock(instant), berlin.first(instant)), (instant, instant));
        }
    }
}
