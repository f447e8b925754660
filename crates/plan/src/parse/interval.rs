//! Flink's INTERVAL literals: `INTERVAL '5' SECOND`, `INTERVAL '1:30' MINUTE TO SECOND`, `INTERVAL '2-6' YEAR TO MONTH`.
//!
//! The syntax tree keeps them in one form, which DataFusion reads too: a number of one unit.

use std::ops::RangeInclusive;

use pelton_data::Micros;
use pelton_functions::time_unit::{Length, Unit};
use sqlparser::ast::{BinaryOperator, DateTimeField, Expr, Interval, Spanned, UnaryOperator, Value, ValueWithSpan};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Span, Token};

use crate::errors::{Place, PlanError};
use crate::parse::flink_aliases::call;

const MICROS_PER_SECOND: i128 = 1_000_000;

/// Parses a literal, the next token being `INTERVAL`.
pub(super) fn parse_literal(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.expect_keyword(Keyword::INTERVAL)?;
    let is_negative = match parser.peek_token_ref().token {
        Token::Minus | Token::Plus => parser.next_token().token == Token::Minus,
        _ => false,
    };
    let literal = parser.next_token();
    let Token::SingleQuotedString(text) = &literal.token else {
        return parser.expected("a quoted number after INTERVAL, as in INTERVAL '10' SECOND", literal);
    };
    let (first, precision) = parse_unit(parser)?;
    let last = if parser.parse_keyword(Keyword::TO) { Some(parse_unit(parser)?.0) } else { None };
    let Some(length) = length_of(text, first, last, is_negative) else {
        return parser.expected(&form_of(first, last), literal);
    };
    let is_written = last.is_none() && first != Unit::Quarter;
    let (number, unit) = match last {
        // DataFusion knows no quarters.
        None if first == Unit::Quarter => in_one_unit(length),
        None => (if is_negative { format!("-{}", text.trim()) } else { text.trim().to_string() }, first),
        Some(_) => in_one_unit(length),
    };
    let span = if is_written { literal.span } else { without_room(literal.span) };
    let value = Value::SingleQuotedString(number).with_span(span);
    Ok(Expr::Interval(Interval {
        value: Box::new(Expr::Value(value)),
        leading_field: Some(field_of(unit)),
        leading_precision: precision.filter(|_| is_written),
        last_field: None,
        fractional_seconds_precision: None,
    }))
}

/// The product of a literal and a whole number, in either order, where it comes next behind `left`.
pub(super) fn parse_product(parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
    let [operator, right] = parser.peek_tokens_ref::<2>().map(|token| &token.token);
    let is_interval = matches!(left, Expr::Interval(_)) && matches!(right, Token::Number(..) | Token::Minus)
        || matches!(right, Token::Word(word) if word.keyword == Keyword::INTERVAL) && whole_number(left).is_some();
    if *operator != Token::Mul || !is_interval {
        return None;
    }
    parser.advance_token();
    Some(parser.parse_subexpr(precedence).map(|right| {
        let product = match (left, &right) {
            (Expr::Interval(interval), number) | (number, Expr::Interval(interval)) => times(interval, number),
            _ => None,
        };
        product.unwrap_or_else(|| Expr::BinaryOp {
            left: Box::new(left.clone()),
            op: BinaryOperator::Multiply,
            right: Box::new(right),
        })
    }))
}

fn times(interval: &Interval, number: &Expr) -> Option<Expr> {
    let unit = Unit::named(&interval.leading_field.as_ref()?.to_string())?;
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), span }) = interval.value.as_ref() else {
        return None;
    };
    let number = i128::from(whole_number(number)?);
    let length = match length_of(text, unit, None, false)? {
        Length::Months(months) => Length::Months(months.checked_mul(number)?),
        Length::Micros(micros) => Length::Micros(micros.checked_mul(number)?),
    };
    let (number, unit) = in_one_unit(length);
    let value = Box::new(Expr::Value(Value::SingleQuotedString(number).with_span(without_room(*span))));
    let leading_field = Some(field_of(unit));
    Some(Expr::Interval(Interval { value, leading_field, leading_precision: None, ..interval.clone() }))
}

fn whole_number(expression: &Expr) -> Option<i64> {
    match expression {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => digits.parse().ok(),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => whole_number(expr)?.checked_neg(),
        _ => None,
    }
}

/// The place of a number that was not written but computed.
fn without_room(span: Span) -> Span {
    Span::new(span.start, span.start)
}

/// A unit, with its precision, which matters to Flink alone: `SECOND(3)`, `DAY(2)`.
fn parse_unit(parser: &mut Parser) -> Result<(Unit, Option<u64>), ParserError> {
    let token = parser.next_token();
    let unit = match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Unit::named(&word.value),
        _ => None,
    };
    let Some(unit) = unit else {
        return parser.expected("a unit after the number, such as SECOND, MINUTE, HOUR or DAY", token);
    };
    let mut precision = None;
    if parser.consume_token(&Token::LParen) {
        precision = Some(parser.parse_literal_uint()?);
        if parser.consume_token(&Token::Comma) {
            parser.parse_literal_uint()?;
        }
        parser.expect_token(&Token::RParen)?;
    }
    Ok((unit, precision))
}

/// Units that may stand behind the difference of two times; finer ones are names there.
const QUALIFIERS: RangeInclusive<Unit> = Unit::Year..=Unit::Second;

/// Reads what may stand behind a difference in parentheses: a unit, or two with TO. The first of them, and where it stands.
pub(super) fn parse_qualifier(parser: &mut Parser) -> Result<Option<(Unit, Span)>, ParserError> {
    let next = parser.peek_token_ref();
    let unit = match &next.token {
        Token::Word(word) if word.quote_style.is_none() => Unit::named(&word.value),
        _ => None,
    };
    let Some(unit) = unit.filter(|unit| QUALIFIERS.contains(unit)) else { return Ok(None) };
    let span = next.span;
    parse_unit(parser)?;
    if parser.parse_keyword(Keyword::TO) {
        parse_unit(parser)?;
    }
    Ok(Some((unit, span)))
}

/// `(later - earlier) DAY`: the length of time between two, whole in every unit of days and finer.
pub(super) fn difference(expression: &Expr, unit: Unit, span: Span) -> Result<Expr, PlanError> {
    let name = unit.name();
    let operands = match expression {
        Expr::Nested(inner) => match inner.as_ref() {
            Expr::BinaryOp { left, op: BinaryOperator::Minus, right } => Some((left, right)),
            _ => None,
        },
        _ => None,
    };
    let Some((later, earlier)) = operands else {
        let error = PlanError::syntax(Place::of(span), format!("{name} stands behind a difference of two times"));
        return Err(error.with_hint(format!("write (later - earlier) {name}, or AS `{name}` for a name")));
    };
    if let Length::Months(_) = unit.length() {
        let error = PlanError::unsupported(
            Place::of(span),
            format!("a difference in {name}"),
            format!("write TIMESTAMPDIFF({name}, {earlier}, {later}) for a number, or AS `{name}` for a name"),
        );
        return Err(error);
    }
    Ok(call("length_between", vec![later.as_ref().clone(), earlier.as_ref().clone()], later.span()))
}

/// What the text of a literal must look like.
fn form_of(first: Unit, last: Option<Unit>) -> String {
    match last {
        None => format!("a number of {}s, such as '10'", first.name()),
        Some(last) => match format_between(first, last) {
            Some(form) => format!("the form '{form}' for {} TO {}", first.name(), last.name()),
            None => format!("a finer unit after TO than {}, not {}", first.name(), last.name()),
        },
    }
}

fn format_between(first: Unit, last: Unit) -> Option<String> {
    if (first, last) == (Unit::Year, Unit::Month) {
        return Some("years-months".to_string());
    }
    if first < Unit::Day || last > Unit::Second || first >= last {
        return None;
    }
    let parts = [(Unit::Day, "days "), (Unit::Hour, "hh:"), (Unit::Minute, "mm:"), (Unit::Second, "ss.fff")];
    let wanted = parts.iter().filter(|(unit, _)| (first..=last).contains(unit));
    let form: String = wanted.map(|(_, form)| *form).collect();
    Some(form.trim_end_matches([':', ' ']).to_string())
}

/// The length a literal denotes; `None` where its text has not the form that its units ask for.
fn length_of(text: &str, first: Unit, last: Option<Unit>, is_negative: bool) -> Option<Length> {
    let text = text.trim();
    let (text, is_negative) = match text.strip_prefix('-') {
        Some(rest) => (rest, !is_negative),
        None => (text.strip_prefix('+').unwrap_or(text), is_negative),
    };
    let sign = if is_negative { -1 } else { 1 };
    let Some(last) = last else {
        return Some(match first.length() {
            Length::Months(months) => Length::Months(sign * whole(text)?.checked_mul(months)?),
            Length::Micros(micros) => Length::Micros(sign * decimal(text, micros)?),
        });
    };
    format_between(first, last)?;
    if first == Unit::Year {
        let (years, months) = text.split_once('-')?;
        return Some(Length::Months(sign * (whole(years)? * 12 + whole(months)?)));
    }
    let mut units =
        [Unit::Day, Unit::Hour, Unit::Minute, Unit::Second].into_iter().filter(|u| (first..=last).contains(u));
    let mut total = 0;
    for part in text.split([' ', ':']) {
        let unit = units.next()?;
        let Length::Micros(micros) = unit.length() else { return None };
        total += if unit == Unit::Second { decimal(part, micros)? } else { whole(part)? * micros };
    }
    if units.next().is_some() {
        return None;
    }
    Some(Length::Micros(sign * total))
}

/// Digits only: at most 18, so that sums and products stay far inside 128 bits.
fn whole(text: &str) -> Option<i128> {
    let is_number = (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Digits with a decimal point, in microseconds; what lies below a microsecond must be zero.
fn decimal(text: &str, micros_per_unit: i128) -> Option<i128> {
    let Some((integer, fraction)) = text.split_once('.') else { return Some(whole(text)? * micros_per_unit) };
    let integer = if integer.is_empty() { 0 } else { whole(integer)? };
    let scaled = whole(fraction)? * micros_per_unit;
    let scale = 10_i128.pow(fraction.len() as u32);
    (scaled % scale == 0).then_some(integer * micros_per_unit + scaled / scale)
}

/// As the syntax tree has it.
fn field_of(unit: Unit) -> DateTimeField {
    match unit {
        Unit::Millennium => DateTimeField::Millennium,
        Unit::Century => DateTimeField::Century,
        Unit::Decade => DateTimeField::Decade,
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

/// The coarsest unit of which the length is a whole number.
fn in_one_unit(length: Length) -> (String, Unit) {
    match length {
        Length::Months(months) => (months.to_string(), Unit::Month),
        Length::Micros(micros) if micros % MICROS_PER_SECOND == 0 => {
            ((micros / MICROS_PER_SECOND).to_string(), Unit::Second)
        }
        Length::Micros(micros) => (micros.to_string(), Unit::Microsecond),
    }
}

/// The microseconds of an INTERVAL literal. `purpose` names what it is for, as in "the size of a window": months, years and
/// everything but a literal are refused.
pub fn interval_micros(expression: &Expr, purpose: &str) -> Result<Micros, PlanError> {
    let place = Place::of(expression.span());
    let hint = "write a literal such as INTERVAL '10' SECOND, INTERVAL '1' MINUTE or INTERVAL '1:30' MINUTE TO SECOND";
    let (interval, is_negative) = match expression {
        Expr::Interval(interval) => (interval, false),
        Expr::Nested(inner) => return interval_micros(inner, purpose),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Interval(interval) => (interval, true),
            _ => return Err(PlanError::invalid(place, format!("{purpose} must be an INTERVAL")).with_hint(hint)),
        },
        _ => return Err(PlanError::invalid(place, format!("{purpose} must be an INTERVAL")).with_hint(hint)),
    };
    let length = interval_length(interval, is_negative);
    match length {
        Some(Length::Micros(micros)) => Micros::try_from(micros)
            .map_err(|_| PlanError::invalid(place, format!("{purpose} is longer than 292,000 years"))),
        Some(Length::Months(_)) => Err(PlanError::invalid(place, format!("{purpose} cannot be in months or years"))
            .with_hint("their length varies: use DAY, HOUR, MINUTE or SECOND")),
        None => Err(PlanError::invalid(place, format!("{purpose} must be an INTERVAL")).with_hint(hint)),
    }
}

fn interval_length(interval: &Interval, is_negative: bool) -> Option<Length> {
    let Expr::Value(value) = interval.value.as_ref() else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let first = Unit::named(&interval.leading_field.as_ref()?.to_string())?;
    let last = match &interval.last_field {
        Some(field) => Some(Unit::named(&field.to_string())?),
        None => None,
    };
    length_of(text, first, last, is_negative)
}
