//! Patterns of LIKE and SIMILAR TO, respelt.

use sqlparser::ast::{Expr, Spanned, Value, ValueWithSpan};

use super::respell::{call, not, text_literal};
use crate::error::{Place, PlanError};

/// The pattern of `LIKE pattern ESCAPE escape` with a backslash in place of the letter that escapes others.
pub(crate) fn like_pattern(pattern: &Expr, escape: &ValueWithSpan) -> Result<Expr, PlanError> {
    let single = match &escape.value {
        Value::SingleQuotedString(text) => text.chars().next().filter(|_| text.chars().count() == 1),
        _ => None,
    };
    let Some(escape_letter) = single else {
        return Err(PlanError::invalid(Place::of(escape.span), "what ESCAPE names must be one character")
            .with_hint("write ESCAPE '!'"));
    };
    let span = pattern.span();
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = pattern else {
        let construct = "ESCAPE behind a pattern that is no literal";
        return Err(PlanError::unsupported(Place::of(span), construct, "write the pattern as 'text', or use LOCATE"));
    };
    let mut rewritten = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != escape_letter {
            rewritten.push_str(if letter == '\\' { "\\" } else { "" });
            rewritten.push(letter);
            continue;
        }
        match letters.next() {
            Some(escaped) if escaped == '%' || escaped == '_' || escaped == escape_letter => {
                rewritten.push_str(if escaped == '%' || escaped == '_' || escaped == '\\' { "\\" } else { "" });
                rewritten.push(escaped);
            }
            _ => {
                let message = format!("in the pattern '{text}' the letter {escape_letter} escapes nothing");
                let hint = format!("write it before %, _ or another {escape_letter}");
                return Err(PlanError::invalid(Place::of(span), message).with_hint(hint));
            }
        }
    }
    Ok(text_literal(&rewritten, span))
}

/// `text [NOT] SIMILAR TO pattern [ESCAPE escape]`
pub(crate) fn similar_to(
    text: Expr,
    negated: bool,
    pattern: &Expr,
    escape: Option<&ValueWithSpan>,
) -> Result<Expr, PlanError> {
    let span = pattern.span();
    let matches = call("regexp_like", vec![text, text_literal(&similar_pattern(pattern, escape)?, span)], span);
    Ok(if negated { not(matches) } else { matches })
}

/// A regular expression for a SIMILAR TO pattern: `%` and `_` as in LIKE, the rest as in regular expressions.
fn similar_pattern(pattern: &Expr, escape: Option<&ValueWithSpan>) -> Result<String, PlanError> {
    let place = Place::of(pattern.span());
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = pattern else {
        return Err(PlanError::unsupported(
            place,
            "SIMILAR TO with a pattern that is no literal",
            "use REGEXP(text, pattern)",
        ));
    };
    let escape = match escape.map(|escape| &escape.value) {
        Some(Value::SingleQuotedString(text)) => text.chars().next(),
        _ => None,
    };
    let mut expression = String::from("(?s)^(?:");
    let mut letters = text.chars();
    let mut is_in_class = false;
    while let Some(letter) = letters.next() {
        if Some(letter) == escape {
            let escaped = letters.next().map(String::from).unwrap_or_default();
            expression.push_str(&regex::escape(&escaped));
            continue;
        }
        match letter {
            '%' if !is_in_class => expression.push_str(".*"),
            '_' if !is_in_class => expression.push('.'),
            '.' | '^' | '$' | '\\' if !is_in_class => expression.extend(['\\', letter]),
            _ => {
                is_in_class = (is_in_class || letter == '[') && letter != ']';
                expression.push(letter);
            }
        }
    }
    expression.push_str(")$");
    match regex::Regex::new(&expression) {
        Ok(_) => Ok(expression),
        Err(_) => Err(PlanError::invalid(place, format!("'{text}' is no SIMILAR TO pattern"))
            .with_hint("close all brackets, and put what * + ? { repeat before them")),
    }
}
