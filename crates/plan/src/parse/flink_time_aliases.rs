//! Flink's spellings of functions of times, and its types of times.

use pelton_functions::time_unit::Unit;
use sqlparser::ast::{
    BinaryOperator, CeilFloorKind, DataType, DateTimeField, Expr, ExtractSyntax, Spanned, TimezoneInfo, Value,
    ValueWithSpan,
};
use sqlparser::tokenizer::Span;

use crate::errors::{Place, PlanError};
use crate::parse::flink_aliases::{call, cast, number_literal, operator, text_literal, whole_number};
use crate::types::TIMESTAMP_PRECISION_DEFAULT;

/// The most digits of a second that a time has.
const PRECISION_MAX: u64 = 6;

/// `FLOOR(time TO unit)` and `CEIL(time TO unit)`; `None` where a number is rounded.
pub(crate) fn round_to(name: &str, time: &Expr, kind: &CeilFloorKind) -> Result<Option<Expr>, PlanError> {
    let CeilFloorKind::DateTimeField(field) = kind else { return Ok(None) };
    let name_of_unit = match field {
        DateTimeField::NoDateTime => return Ok(None),
        DateTimeField::Millenium => "MILLENNIUM".to_string(),
        other => other.to_string(),
    };
    let span = time.span();
    let unit = Unit::of_rounding(&name_of_unit).ok_or_else(|| {
        PlanError::invalid(Place::of(span), format!("{name_of_unit} is not a valid unit of time")).with_hint(
            "use MILLENNIUM, CENTURY, DECADE, YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND or MICROSECOND",
        )
    })?;
    Ok(Some(call(name, vec![text_literal(unit.name(), span), time.clone()], span)))
}

/// The field that a function such as HOUR extracts.
pub(crate) fn extracted_field(name: &str) -> Option<DateTimeField> {
    Some(match name {
        "YEAR" => DateTimeField::Year,
        "QUARTER" => DateTimeField::Quarter,
        "MONTH" => DateTimeField::Month,
        "WEEK" => DateTimeField::Week(None),
        "DAYOFMONTH" => DateTimeField::Day,
        "DAYOFWEEK" => DateTimeField::Dow,
        "DAYOFYEAR" => DateTimeField::Doy,
        "HOUR" => DateTimeField::Hour,
        "MINUTE" => DateTimeField::Minute,
        "SECOND" => DateTimeField::Second,
        _ => return None,
    })
}

/// `EXTRACT`, as BIGINT. Days of the week count from 1 = Sunday, where DataFusion's count from 0; its fractions of a second contain the seconds.
pub(crate) fn extract(field: DateTimeField, from: Expr) -> Expr {
    let literal = |number: i64| number_literal(&number.to_string(), Span::empty());
    let counted = match field {
        DateTimeField::Decade => Some((0, 10)),
        DateTimeField::Century => Some((99, 100)),
        DateTimeField::Millennium | DateTimeField::Millenium => Some((999, 1000)),
        _ => None,
    };
    if let Some((before, years)) = counted {
        // The first century ends with the year 100, the first decade before the year 10.
        let year = Box::new(operator(extract(DateTimeField::Year, from), BinaryOperator::Plus, literal(before)));
        return Expr::Nested(Box::new(operator(Expr::Nested(year), BinaryOperator::Divide, literal(years))));
    }
    let (then, number) = match field {
        DateTimeField::Dow => (BinaryOperator::Plus, 1),
        DateTimeField::Millisecond | DateTimeField::Milliseconds => (BinaryOperator::Modulo, 1_000),
        DateTimeField::Microsecond | DateTimeField::Microseconds => (BinaryOperator::Modulo, 1_000_000),
        DateTimeField::Nanosecond | DateTimeField::Nanoseconds => (BinaryOperator::Modulo, 1_000_000_000),
        _ => (BinaryOperator::Plus, 0),
    };
    let extracted = Expr::Extract { field, syntax: ExtractSyntax::From, expr: Box::new(from) };
    let extracted = cast(extracted, DataType::BigInt(None));
    if number == 0 {
        return extracted;
    }
    let number = match then {
        // A remainder has the type of the divisor.
        BinaryOperator::Modulo => cast(literal(number), DataType::BigInt(None)),
        _ => literal(number),
    };
    Expr::Nested(Box::new(operator(extracted, then, number)))
}

/// `TIMESTAMPADD(unit, count, time)`
pub(crate) fn timestamp_add(unit: &Expr, count: Expr, time: Expr, span: Span) -> Result<Expr, PlanError> {
    let unit = unit_argument(unit)?;
    let name = if unit <= Unit::Day { "timestampadd" } else { "timestampadd_time" };
    Ok(call(name, vec![text_literal(unit.name(), span), count, time], span))
}

/// `TIMESTAMPDIFF(unit, from, to)`
pub(crate) fn timestamp_diff(unit: &Expr, from: Expr, to: Expr, span: Span) -> Result<Expr, PlanError> {
    let unit = unit_argument(unit)?;
    let name = if unit == Unit::Microsecond { "timestampdiff_micros" } else { "timestampdiff" };
    Ok(call(name, vec![text_literal(unit.name(), span), from, to], span))
}

/// `TO_TIMESTAMP_LTZ(number, precision)` and `TO_TIMESTAMP_LTZ(text[, pattern[, zone]])`. How many digits the instant has is known by the precision.
pub(crate) fn to_timestamp_ltz(arguments: Vec<Expr>, span: Span) -> Result<Expr, PlanError> {
    let precision = arguments.get(1).and_then(|precision| match precision {
        Expr::UnaryOp { expr, .. } => whole_number(expr).map(|_| u64::MAX),
        other => whole_number(other),
    });
    match precision {
        None | Some(0..=3) => Ok(call("to_timestamp_ltz", arguments, span)),
        Some(4..=PRECISION_MAX) if arguments.len() == 2 => Ok(call("to_timestamp_ltz_micros", arguments, span)),
        Some(_) => {
            let place = arguments.get(1).and_then(|precision| Place::of(precision.span())).or(Place::of(span));
            Err(PlanError::invalid(place, "the precision of TO_TIMESTAMP_LTZ must be from 0 to 6")
                .with_hint("write 0 for a number of seconds, 3 for milliseconds, 6 for microseconds"))
        }
    }
}

fn unit_argument(argument: &Expr) -> Result<Unit, PlanError> {
    let name = match argument {
        Expr::Identifier(name) => name.value.clone(),
        other => other.to_string(),
    };
    let upper = name.to_ascii_uppercase();
    let name = upper.strip_prefix("SQL_TSI_").unwrap_or(&upper);
    Unit::named(name).ok_or_else(|| {
        PlanError::invalid(Place::of(argument.span()), format!("{name} is not a valid unit of time"))
            .with_hint("use YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND or MICROSECOND")
    })
}

/// Brings a type of times to one that DataFusion knows, with Flink's default; others stay. `span` is where it is used.
pub(crate) fn expand_type(data_type: &mut DataType, span: Span) -> Result<(), PlanError> {
    let default = u64::from(TIMESTAMP_PRECISION_DEFAULT);
    let expanded = match data_type {
        DataType::Timestamp(precision, zone) => {
            DataType::Timestamp(Some(whole_unit(precision.unwrap_or(default), span)?), *zone)
        }
        DataType::Custom(name, modifiers) if name.to_string().eq_ignore_ascii_case("TIMESTAMP_LTZ") => {
            let precision = match modifiers.as_slice() {
                [] => default,
                [precision] => precision.parse().unwrap_or(default),
                _ => return Ok(()),
            };
            DataType::Timestamp(Some(whole_unit(precision, span)?), TimezoneInfo::WithTimeZone)
        }
        _ => return Ok(()),
    };
    *data_type = expanded;
    Ok(())
}

/// The fractional digits of the coarsest Arrow unit that keeps `precision` of them.
fn whole_unit(precision: u64, span: Span) -> Result<u64, PlanError> {
    match precision {
        0 => Ok(0),
        1..=3 => Ok(3),
        4..=PRECISION_MAX => Ok(6),
        other => {
            let message = format!("a time has up to {PRECISION_MAX} digits of a second, not {other}");
            Err(PlanError::invalid(Place::of(span), message).with_hint("write TIMESTAMP(6), which has microseconds"))
        }
    }
}

/// A literal has as many fractional digits as were written.
pub(crate) fn fractional_digits(value: &ValueWithSpan) -> Result<u64, PlanError> {
    let Value::SingleQuotedString(text) = &value.value else { return Ok(0) };
    let fraction = text.rsplit_once('.').map_or("", |(_, fraction)| fraction);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count() as u64;
    if digits > PRECISION_MAX {
        let message = format!("a time has up to {PRECISION_MAX} digits of a second, and '{text}' has {digits}");
        return Err(
            PlanError::invalid(Place::of(value.span), message).with_hint("leave out what is finer than microseconds")
        );
    }
    Ok(digits)
}
