//! Units of time, as INTERVAL literals and time functions name them.

const MICROS_PER_SECOND: i128 = 1_000_000;

/// A unit of time, coarse before fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// 1,000 years, the last of which is a multiple of 1,000.
    Millennium,
    /// 100 years, the last of which is a multiple of 100.
    Century,
    /// 10 years, the first of which is a multiple of 10.
    Decade,
    /// 12 months.
    Year,
    /// 3 months.
    Quarter,
    /// As long as the calendar says.
    Month,
    /// 7 days.
    Week,
    /// 24 hours.
    Day,
    /// 60 minutes.
    Hour,
    /// 60 seconds.
    Minute,
    /// The SI unit.
    Second,
    /// A thousandth of a second.
    Millisecond,
    /// A millionth of a second.
    Microsecond,
}

/// The units of lengths, and behind them those that only FLOOR and CEIL know.
const UNITS: [Unit; 13] = [
    Unit::Year,
    Unit::Quarter,
    Unit::Month,
    Unit::Week,
    Unit::Day,
    Unit::Hour,
    Unit::Minute,
    Unit::Second,
    Unit::Millisecond,
    Unit::Microsecond,
    Unit::Decade,
    Unit::Century,
    Unit::Millennium,
];

/// How many of them are units of lengths.
const LENGTHS: usize = 10;

/// A length of time: months vary in length, so they cannot be counted in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// This many months.
    Months(i128),
    /// This many microseconds.
    Micros(i128),
}

impl Unit {
    /// The unit of lengths of this name, in singular or plural, in any case.
    pub fn named(name: &str) -> Option<Unit> {
        let singular = name.strip_suffix(['s', 'S']).unwrap_or(name);
        UNITS[..LENGTHS].iter().copied().find(|unit| unit.name().eq_ignore_ascii_case(singular))
    }

    /// The unit of this name that times are rounded to, in singular or plural, in any case.
    pub fn of_rounding(name: &str) -> Option<Unit> {
        let singular = name.strip_suffix(['s', 'S']).unwrap_or(name);
        UNITS.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(singular))
    }

    /// As SQL writes it, in singular and upper case.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Millennium => "MILLENNIUM",
            Unit::Century => "CENTURY",
            Unit::Decade => "DECADE",
            Unit::Year => "YEAR",
            Unit::Quarter => "QUARTER",
            Unit::Month => "MONTH",
            Unit::Week => "WEEK",
            Unit::Day => "DAY",
            Unit::Hour => "HOUR",
            Unit::Minute => "MINUTE",
            Unit::Second => "SECOND",
            Unit::Millisecond => "MILLISECOND",
            Unit::Microsecond => "MICROSECOND",
        }
    }

    /// How long one is.
    pub fn length(self) -> Length {
        match self {
            Unit::Millennium => Length::Months(12_000),
            Unit::Century => Length::Months(1_200),
            Unit::Decade => Length::Months(120),
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
