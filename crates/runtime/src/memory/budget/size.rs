//! Sizes of memory as people read them.

use std::fmt;

/// A size as people write it, in the largest unit of which there is a whole one.
pub(crate) struct Bytes(pub usize);

/// A size beyond one that is allowed, in the unit of that one, with as many digits as it takes to see that it is.
pub(super) struct Beyond {
    pub bytes: usize,
    pub bytes_max: usize,
}

/// Digits behind the point that tell one byte more than a terabyte.
const DIGITS_MAX: usize = 12;

const UNITS: [(usize, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_bytes(f, self.0, unit_of(self.0))
    }
}

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Beyond { bytes, bytes_max } = *self;
        let Some((unit, name)) = unit_of(bytes_max).filter(|(unit, _)| !bytes.is_multiple_of(*unit)) else {
            return write_bytes(f, bytes, unit_of(bytes_max));
        };
        let rounded = |bytes: usize, digits: usize| format!("{:.digits$}", bytes as f64 / unit as f64);
        let tells = |digits: &usize| rounded(bytes, *digits) != rounded(bytes_max, *digits);
        let digits = (1..DIGITS_MAX).find(tells).unwrap_or(DIGITS_MAX);
        write!(f, "{} {name}", rounded(bytes, digits))
    }
}

/// The largest unit of which there is a whole one; none of bytes.
fn unit_of(bytes: usize) -> Option<(usize, &'static str)> {
    UNITS.into_iter().find(|&(unit, _)| bytes >= unit)
}

fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: usize, unit: Option<(usize, &str)>) -> fmt::Result {
    match unit {
        Some((unit, name)) if bytes.is_multiple_of(unit) => write!(f, "{} {name}", bytes / unit),
        Some((unit, name)) => write!(f, "{:.1} {name}", bytes as f64 / unit as f64),
        None if bytes == 1 => f.write_str("1 byte"),
        None => write!(f, "{bytes} bytes"),
    }
}
