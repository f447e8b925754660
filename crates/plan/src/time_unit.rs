//! Units of time, as INTERVAL literals and time functions name them.

use sqlparser::ast::DateTimeField;

const MICROS_PER_SECOND: i128 = 1_000_000;

/// A unit of time, coarse before fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
}

/// A length of time: months vary in length, so they cannot be counted in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Months(i128),
    Micros(i128),
}

impl Unit {
    /// The unit of this name, in singular or plural.
    pub fn named(name: &str) -> Option<Unit> {
        let name = name.to_ascii_uppercase();
        Some(match name.strip_suffix('S').unwrap_or(&name) {
            "YEAR" => Unit::Year,
            "QUARTER" => Unit::Quarter,
            "MONTH" => Unit::Month,
            "WEEK" => Unit::Week,
            "DAY" => Unit::Day,
            "HOUR" => Unit::Hour,
            "MINUTE" => Unit::Minute,
            "SECOND" => Unit::Second,
            "MILLISECOND" => Unit::Millisecond,
            "MICROSECOND" => Unit::Microsecond,
            _ => return None,
        })
    }

    /// As the syntax tree has it.
    pub fn field(self) -> DateTimeField {
        match self {
            Unit::Year => DateTimeField::Year,
            Unit::Quarter => DateTimeField::Quarter,
            Unit::Month => DateTimeField::Month,
            Unit::Week => DateTimeField::Week(None),
            Unit::Day => DateTimeField::Day,
            Unit::Hour => DateTimeField::Hour,
            Unit::Minute => DateTimeField::Minute,
            Unit::Second => DateTimeField::Second,
            Unit::Millisecond => DateTimeField::Millisecond,
            Unit::Microsecond => DateTimeField::Microsecond,
        }
    }

    /// How long one is.
    pub fn length(self) -> Length {
        match self {
            Unit::Year => Length::Months(12),
            Unit::Quarter => Length::Months(3),
            Unit::Month => Length::Months(1),
            Unit::Week => Length::Micros(7 * 86_400 * MICROS_PER_SECOND),
            Unit::Day => Length::Micros(86_400 * MICROS_PER_SECOND),
            Unit::Hour => Length::Micros(3_600 * MICROS_PER_SECOND),
            Unit::Minute => Length::Micros(60 * MICROS_PER_SECOND),
            Unit::Second => Length::Micros(MICROS_PER_SECOND),
            Unit::Millisecond => Length::Micros(1_000),
            Unit::Microsecond => Length::Micros(1),
        }
    }
}
