//! Flink's spellings of what DataFusion has, expanded in the syntax tree.
//!
//! What is expanded is optimised and compiled like what it stands for. Functions that DataFusion does not have, or
//! gives another meaning, are those of `pelton_functions`.

use pelton_functions::time_unit::Unit;
use pelton_functions::{CHARACTER_SETS, character_set};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, CharacterLength, DataType, ExactNumberInfo, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName, ObjectNamePart, Spanned, TimezoneInfo,
    Value, ValueWithSpan,
};
use sqlparser::tokenizer::Span;

use crate::errors::{Place, PlanError};
use crate::parse::flink_time_aliases::{
    extract, extracted_field, fractional_digits, round_to, timestamp_add, timestamp_diff, to_timestamp_ltz,
};
use crate::parse::over_calls::{ordered_inside, without_filter, without_group};
use crate::parse::{flink_time_aliases, substitutes};

/// Names of functions that `expand_alias` knows, in upper case.
const RESPELT: &[&str] = &[
    "CEILING",
    "CONCAT",
    "CURRENT_DATE",
    "CURRENT_ROW_TIMESTAMP",
    "DAYOFMONTH",
    "DAYOFWEEK",
    "DAYOFYEAR",
    "E",
    "ELT",
    "ENDSWITH",
    "FROM_BASE64",
    "HOUR",
    "IF",
    "LOCALTIMESTAMP",
    "LOG",
    "MINUTE",
    "MOD",
    "MONTH",
    "NOW",
    "QUARTER",
    "RAND_INTEGER",
    "REGEXP",
    "REGEXP_SUBSTR",
    "SECOND",
    "SIGN",
    "STARTSWITH",
    "SUBSTR",
    "SUBSTRING",
    "TO_BASE64",
    "TRUNCATE",
    "WEEK",
    "YEAR",
];

/// Names of functions that are expanded, in upper case.
pub(crate) fn respelt_names() -> impl Iterator<Item = &'static str> {
    RESPELT.iter().copied()
}

/// Base64 as Flink's functions have it, filled up with `=`, as DataFusion calls it.
pub(crate) const BASE64_PADDED: &str = "base64pad";

/// The name of a function as it was written, in lower case, where a call of another stands in for it.
pub(crate) fn written_name(function: &Function) -> String {
    let name = function.name.to_string().to_lowercase();
    let last = match &function.args {
        FunctionArguments::List(list) => list.args.last(),
        _ => None,
    };
    let is_padded = matches!(
        last,
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }))))
            if text == BASE64_PADDED
    );
    match name.as_str() {
        "decode" if is_padded => "from_base64".to_string(),
        "encode" if is_padded => "to_base64".to_string(),
        "array_of" => "array".to_string(),
        "map_of" => "map".to_string(),
        _ => name,
    }
}

/// Whether a function's name, in upper case, is one to be written in a query: others stand in for a spelling, or are refused.
pub(crate) fn is_written(name: &str) -> bool {
    let stands_in = matches!(
        name,
        "CEIL_TO"
            | "ARRAY_OF"
            | "CHARACTER_DECODE"
            | "CHARACTER_ENCODE"
            | "FIT_NESTED"
            | "FLOOR_TO"
            | "IS_JSON_VALUE"
            | "ITEM"
            | "LIKE_PATTERN"
            | "MAP_OF"
            | "ROW_FIELD"
            | "SIMILAR_PATTERN"
            | "SUBSTRING_FROM"
            | "LENGTH_BETWEEN"
            | "TIMESTAMPADD_TIME"
            | "TIMESTAMPDIFF_MICROS"
            | "TIMESTAMP_TO_STRING"
            | "TO_TIMESTAMP_LTZ_MICROS"
    );
    !stands_in && substitutes::instead_of(name).or_else(|| substitutes::of_syntax(name)).is_none()
}

/// The expression in DataFusion's spelling, or `None` where it stays as it is. Its arguments have been expanded before.
pub(crate) fn expand_alias(expression: &mut Expr) -> Result<Option<Expr>, PlanError> {
    match expression {
        Expr::Function(function) => return expand_function(function),
        Expr::Cast { data_type, expr, .. } => {
            let length = text_length(data_type);
            expand_type(data_type, expr.span())?;
            return length.map(|(name, length)| of_length(name, length, expression)).transpose();
        }
        Expr::TypedString(literal) => {
            let span = literal.value.span;
            if let DataType::Timestamp(precision @ None, _) = &mut literal.data_type {
                *precision = Some(fractional_digits(&literal.value)?);
            }
            expand_type(&mut literal.data_type, span)?;
        }
        Expr::Extract { field, expr, .. } => return Ok(Some(extract(field.clone(), take(expr)))),
        Expr::Floor { expr, field } => return round_to("floor_to", expr, field),
        Expr::Ceil { expr, field } => return round_to("ceil_to", expr, field),
        // DataFusion's own is quick, and right where it is known to find a place and a length.
        Expr::Substring { expr, substring_from: Some(from), substring_for, .. }
            if !is_positive_number(from)
                || substring_for.as_ref().is_some_and(|length| whole_number(length).is_none()) =>
        {
            let span = expr.span();
            let length = substring_for.as_mut().map(take);
            let arguments = [take(expr), take(from)].into_iter().chain(length).collect();
            return Ok(Some(call("substring_from", arguments, span)));
        }
        _ => {}
    }
    Ok(None)
}

/// The name of a plain function, in upper case.
fn name_of(function: &Function) -> Option<String> {
    match function.name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] if name.quote_style.is_none() => Some(name.value.to_ascii_uppercase()),
        _ => None,
    }
}

/// The arguments of a call that is nothing but a call.
pub(crate) fn plain_arguments(function: &Function) -> Option<Vec<Expr>> {
    let is_plain = function.over.is_none() && function.filter.is_none() && function.within_group.is_empty();
    match &function.args {
        FunctionArguments::None if is_plain => Some(Vec::new()),
        FunctionArguments::List(list) if is_plain && list.duplicate_treatment.is_none() && list.clauses.is_empty() => {
            let argument = |argument: &FunctionArg| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => Some(expression.clone()),
                _ => None,
            };
            list.args.iter().map(argument).collect()
        }
        _ => None,
    }
}

fn expand_function(function: &Function) -> Result<Option<Expr>, PlanError> {
    let Some(name) = name_of(function) else { return Ok(None) };
    // The place of a call is that of its name: the span of a deep argument is not to be looked for.
    let span = function.name.0[0].span();
    refuse(&name, function, span)?;
    if let Some(function) = without_group(&name, function)? {
        return Ok(Some(Expr::Function(function)));
    }
    if let Some(function) = ordered_inside(&name, function) {
        return Ok(Some(Expr::Function(function)));
    }
    if let Some(function) = without_filter(&name, function) {
        return Ok(Some(Expr::Function(function)));
    }
    let is_known = RESPELT.contains(&name.as_str())
        || matches!(
            name.as_str(),
            "DATE_TRUNC"
                | "DECODE"
                | "ENCODE"
                | "LOCATE"
                | "TIMESTAMPADD"
                | "TIMESTAMPDIFF"
                | "TO_TIMESTAMP_LTZ"
                | "UNIX_TIMESTAMP"
        );
    if !is_known {
        return Ok(None);
    }
    let Some(arguments) = plain_arguments(function) else { return Ok(None) };
    match (name.as_str(), arguments.as_slice()) {
        ("DATE_TRUNC", [unit, time]) => Ok(truncated(unit, time, span)),
        ("DECODE" | "ENCODE", [value, set]) => recoded(&name, value, set, span),
        ("ELT", [index, values @ ..]) if !values.is_empty() => Ok(Some(chosen(index, values, span))),
        _ => expand_call(&name, arguments, span),
    }
}

fn expand_call(name: &str, arguments: Vec<Expr>, span: Span) -> Result<Option<Expr>, PlanError> {
    if let Some(volatile) = expand_volatile(name, &arguments, span)? {
        return Ok(Some(volatile));
    }
    let count = arguments.len();
    let wrong_count = |wanted: &str| {
        Err(PlanError::invalid(Place::of(span), format!("{name} takes {wanted} arguments, not {count}"))
            .with_hint(format!("SHOW FUNCTIONS lists what there is besides {name}")))
    };
    let mut arguments = arguments.into_iter();
    let mut next = || arguments.next().expect("the number of arguments was checked");
    if let Some(field) = extracted_field(name) {
        return if count == 1 { Ok(Some(extract(field, next()))) } else { wrong_count("1") };
    }
    Ok(Some(match (name, count) {
        ("CEILING", 1) => call("ceil", vec![next()], span),
        ("CONCAT", 1) => cast(next(), DataType::String(None)),
        ("CONCAT", 2..) => {
            let first = next();
            let joined = arguments.fold(first, |left, right| operator(left, BinaryOperator::StringConcat, right));
            Expr::Nested(Box::new(joined))
        }
        ("E", 0) => {
            cast(number_literal(&std::f64::consts::E.to_string(), span), DataType::Double(ExactNumberInfo::None))
        }
        ("ENDSWITH" | "REGEXP" | "REGEXP_SUBSTR" | "STARTSWITH", 2) => {
            call(other_name(name), arguments.collect(), span)
        }
        ("FROM_BASE64", 1) => {
            cast(call("decode", vec![next(), text_literal(BASE64_PADDED, span)], span), DataType::String(None))
        }
        ("TO_BASE64", 1) => call("encode", vec![next(), text_literal(BASE64_PADDED, span)], span),
        ("IF", 3) => conditional(next(), next(), next()),
        ("LOCATE", 2) => {
            let part = next();
            call("strpos", vec![next(), part], span)
        }
        ("LOG", 1) => call("ln", vec![next()], span),
        ("LOG", 2) | ("LOCATE", 3) => return Ok(None),
        ("MOD", 2) => {
            let [dividend, divisor] = [next(), next()].map(as_operand);
            Expr::Nested(Box::new(operator(dividend, BinaryOperator::Modulo, divisor)))
        }
        ("SIGN", 1) => call("signum", vec![next()], span),
        ("SUBSTR" | "SUBSTRING", 2..=3) => call("substring_from", arguments.collect(), span),
        ("TIMESTAMPADD", 3) => timestamp_add(&next(), next(), next(), span)?,
        ("TIMESTAMPDIFF", 3) => timestamp_diff(&next(), next(), next(), span)?,
        ("TO_TIMESTAMP_LTZ", 1..=3) => to_timestamp_ltz(arguments.collect(), span)?,
        ("TRUNCATE", 1..=2) => call("trunc", arguments.collect(), span),
        ("CEILING" | "FROM_BASE64" | "RAND_INTEGER" | "TO_BASE64" | "SIGN", _) => return wrong_count("1"),
        ("CONCAT" | "ELT", _) => return wrong_count(if name == "ELT" { "2 or more" } else { "1 or more" }),
        ("CURRENT_DATE" | "CURRENT_ROW_TIMESTAMP" | "E" | "LOCALTIMESTAMP" | "NOW", _) => return wrong_count("0"),
        ("IF" | "TIMESTAMPADD" | "TIMESTAMPDIFF", _) => return wrong_count("3"),
        ("ENDSWITH" | "STARTSWITH" | "MOD" | "REGEXP" | "REGEXP_SUBSTR", _) => return wrong_count("2"),
        ("LOG" | "TRUNCATE", _) => return wrong_count("1 to 2"),
        ("TO_TIMESTAMP_LTZ", _) => return wrong_count("1 to 3"),
        ("LOCATE" | "SUBSTR" | "SUBSTRING", _) => return wrong_count("2 to 3"),
        _ => return Ok(None),
    }))
}

/// An argument as an operand: what an operator might come apart of is put in brackets.
fn as_operand(argument: Expr) -> Expr {
    match argument {
        Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_) => argument,
        other => Expr::Nested(Box::new(other)),
    }
}

/// `ENCODE` and `DECODE` with a character set, as Flink has them; what else they are told by name DataFusion knows: 'hex' and 'base64'.
fn recoded(name: &str, value: &Expr, set: &Expr, span: Span) -> Result<Option<Expr>, PlanError> {
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = set else { return Ok(None) };
    if let Some(known) = character_set(text) {
        let name = if name == "ENCODE" { "character_encode" } else { "character_decode" };
        return Ok(Some(call(name, vec![value.clone(), text_literal(known, set.span())], span)));
    }
    if ["hex", "base64", BASE64_PADDED].contains(&text.to_lowercase().as_str()) {
        return Ok(None);
    }
    let error = PlanError::invalid(Place::of(set.span()), format!("'{text}' is not a valid character set"));
    Err(error.with_hint(format!("use {}, hex or base64", CHARACTER_SETS.join(", "))))
}

/// `DATE_TRUNC` to units finer than seconds, which DataFusion rounds up in constants before 1970.
fn truncated(unit: &Expr, time: &Expr, span: Span) -> Option<Expr> {
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(name), .. }) = unit else { return None };
    let unit =
        [Unit::Millisecond, Unit::Microsecond].into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))?;
    Some(call("floor_to", vec![text_literal(unit.name(), span), time.clone()], span))
}

/// What DataFusion calls a function of two arguments.
fn other_name(name: &str) -> &'static str {
    match name {
        "ENDSWITH" => "ends_with",
        "REGEXP" => "regexp_like",
        "REGEXP_SUBSTR" => "regexp_extract",
        _ => "starts_with",
    }
}

/// What the clock or chance decides.
fn expand_volatile(name: &str, arguments: &[Expr], span: Span) -> Result<Option<Expr>, PlanError> {
    let now = || call("current_timestamp", Vec::new(), span);
    // What clocks show.
    let shown = || cast(now(), DataType::Timestamp(Some(3), TimezoneInfo::None));
    Ok(Some(match (name, arguments) {
        ("CURRENT_DATE", []) => cast(shown(), DataType::Date),
        ("CURRENT_ROW_TIMESTAMP" | "NOW", []) => now(),
        ("LOCALTIMESTAMP", []) => shown(),
        ("UNIX_TIMESTAMP", []) => {
            let millis = cast(now(), DataType::BigInt(None));
            Expr::Nested(Box::new(operator(millis, BinaryOperator::Divide, number_literal("1000", span))))
        }
        ("RAND_INTEGER", [bound]) => {
            if whole_number(bound) == Some(0) || matches!(bound, Expr::UnaryOp { .. }) {
                return Err(PlanError::invalid(Place::of(span), "the bound of RAND_INTEGER must be positive")
                    .with_hint("write RAND_INTEGER(10) for numbers from 0 to 9"));
            }
            let bound = Expr::Nested(Box::new(bound.clone()));
            let scaled = operator(call("random", Vec::new(), span), BinaryOperator::Multiply, bound);
            cast(Expr::Nested(Box::new(scaled)), DataType::Int(None))
        }
        _ => return Ok(None),
    }))
}

fn refuse(name: &str, function: &Function, span: Span) -> Result<(), PlanError> {
    let arguments = match &function.args {
        FunctionArguments::None | FunctionArguments::Subquery(_) => 0,
        FunctionArguments::List(list) => list.args.len(),
    };
    let (construct, instead) = match (name, substitutes::of_syntax(name)) {
        ("RAND", _) if arguments > 0 => {
            ("RAND with a seed", "write RAND(): in which order rows are computed is not fixed")
        }
        ("RAND_INTEGER", _) if arguments > 1 => {
            ("RAND_INTEGER with a seed", "write RAND_INTEGER(bound): in which order rows are computed is not fixed")
        }
        ("PROCTIME", _) => ("PROCTIME() in a query", "declare a column `p AS PROCTIME()` in CREATE TABLE"),
        (_, Some(instead)) => (name, instead),
        (_, None) => return Ok(()),
    };
    Err(PlanError::unsupported(Place::of(span), construct, instead))
}

/// What brings a string to the length of a type, and that length: VARCHAR cuts, CHAR also fills with spaces. VARCHAR without a length has
/// none, CHAR has one letter, as in Flink.
fn text_length(data_type: &DataType) -> Option<(&'static str, Option<CharacterLength>)> {
    match data_type {
        DataType::Varchar(Some(length))
        | DataType::CharacterVarying(Some(length))
        | DataType::CharVarying(Some(length)) => Some(("left", Some(*length))),
        DataType::Char(length) | DataType::Character(length) => Some(("rpad", *length)),
        _ => None,
    }
}

/// A cast to a string of some length.
fn of_length(name: &str, length: Option<CharacterLength>, cast: &mut Expr) -> Result<Expr, PlanError> {
    let span = cast.span();
    let letters = match length {
        None => 1,
        Some(CharacterLength::IntegerLength { length, .. }) => length,
        Some(CharacterLength::Max) => return Ok(cast.clone()),
    };
    if let Expr::Cast { data_type, .. } = cast {
        *data_type = DataType::String(None);
    }
    if i32::try_from(letters).is_err() || letters == 0 {
        let message = format!("a string has from 1 to {} letters, not {letters}", i32::MAX);
        return Err(PlanError::invalid(Place::of(span), message).with_hint("write CAST(value AS STRING)"));
    }
    let nothing = Expr::Value(Value::Null.with_empty_span());
    Ok(call(name, vec![std::mem::replace(cast, nothing), number_literal(&letters.to_string(), span)], span))
}

/// Flink's types in the names that DataFusion knows, with Flink's defaults.
fn expand_type(data_type: &mut DataType, span: Span) -> Result<(), PlanError> {
    let expanded = match data_type {
        DataType::Decimal(ExactNumberInfo::None)
        | DataType::Dec(ExactNumberInfo::None)
        | DataType::Numeric(ExactNumberInfo::None) => DataType::Decimal(ExactNumberInfo::PrecisionAndScale(10, 0)),
        DataType::Decimal(ExactNumberInfo::Precision(precision))
        | DataType::Numeric(ExactNumberInfo::Precision(precision)) => {
            DataType::Decimal(ExactNumberInfo::PrecisionAndScale(*precision, 0))
        }
        DataType::Dec(info) => DataType::Decimal(*info),
        DataType::Bytes(_) | DataType::Binary(_) | DataType::Varbinary(_) => DataType::Bytea,
        other => return flink_time_aliases::expand_type(other, span),
    };
    *data_type = expanded;
    Ok(())
}

fn is_positive_number(expression: &Expr) -> bool {
    whole_number(expression).is_some_and(|number| number > 0)
}

pub(crate) fn whole_number(expression: &Expr) -> Option<u64> {
    match expression {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => digits.parse().ok(),
        _ => None,
    }
}

fn conditional(condition: Expr, result: Expr, otherwise: Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: Some(Box::new(otherwise)),
    }
}

/// The value of that number, counted from 1; NULL where there is none.
fn chosen(index: &Expr, values: &[Expr], span: Span) -> Expr {
    let numbered = values.iter().enumerate().map(|(before, value)| CaseWhen {
        condition: number_literal(&(before + 1).to_string(), span),
        result: value.clone(),
    });
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: Some(Box::new(index.clone())),
        conditions: numbered.collect(),
        else_result: None,
    }
}

pub(crate) fn operator(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

pub(crate) fn not(expression: Expr) -> Expr {
    Expr::UnaryOp { op: sqlparser::ast::UnaryOperator::Not, expr: Box::new(expression) }
}

pub(crate) fn cast(expression: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expression), data_type, array: false, format: None }
}

pub(crate) fn text_literal(text: &str, span: Span) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_string()).with_span(span))
}

pub(crate) fn number_literal(digits: &str, span: Span) -> Expr {
    Expr::Value(Value::Number(digits.to_string(), false).with_span(span))
}

/// A call that was written, at the place of its name.
pub(crate) fn written_call(name: &str, arguments: Vec<Expr>, span: Span) -> Expr {
    let mut written = call(name, arguments, span);
    if let Expr::Function(function) = &mut written {
        function.name = ObjectName::from(vec![Ident::with_span(span, name.to_lowercase())]);
    }
    written
}

/// A call that stands in for a spelling of Flink: its name is at the place of what was written, and takes no room there, by which it is
/// told from names that were written.
pub(crate) fn call(name: &str, arguments: Vec<Expr>, span: Span) -> Expr {
    let arguments = arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::with_span(Span::new(span.start, span.start), name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Moves an expression out of a tree that is about to be replaced.
fn take(expression: &mut Box<Expr>) -> Expr {
    let nothing = Expr::Value(Value::Null.with_empty_span());
    std::mem::replace(expression.as_mut(), nothing)
}
