//! Lengths of time as people write them.

use std::fmt;

use pelton_data::Micros;

/// A length of time, in microseconds, as people write it.
pub struct Length(pub Micros);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0 => (1, "s"),
            micros if micros % 86_400_000_000 == 0 => (86_400_000_000, "d"),
            micros if micros % 3_600_000_000 == 0 => (3_600_000_000, "h"),
            micros if micros % 60_000_000 == 0 => (60_000_000, "min"),
            micros if micros % 1_000_000 == 0 => (1_000_000, "s"),
            micros if micros % 1_000 == 0 => (1_000, "ms"),
            _ => (1, "us"),
        };
        write!(f, "{} {name}", self.0 / unit)
    }
}
