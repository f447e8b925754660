//! Patterns of LIKE and SIMILAR TO, respelt.

use pelton_functions::PatternError;
use sqlparser::ast::{Expr, Spanned, Value, ValueWithSpan};

use crate::errors::{Place, PlanError};
use crate::parse::flink_aliases::{call, not, text_literal};

/// The pattern of `LIKE pattern ESCAPE escape` with a backslash in place of the character that escapes others.
pub(crate) fn like_pattern(pattern: &Expr, escape: &Expr) -> Result<Expr, PlanError> {
    respelt(pattern, Some(escape), "like_pattern", pelton_functions::like)
}

/// `text [NOT] SIMILAR TO pattern [ESCAPE escape]`
pub(crate) fn similar_to(text: Expr, negated: bool, pattern: &Expr, escape: Option<&Expr>) -> Result<Expr, PlanError> {
    let respelt = respelt(pattern, escape, "similar_pattern", pelton_functions::similar)?;
    let matches = call("regexp_like", vec![text, respelt], pattern.span());
    Ok(if negated { not(matches) } else { matches })
}

/// A pattern rewritten: now where it is a literal, for each row otherwise.
fn respelt(
    pattern: &Expr,
    escape: Option<&Expr>,
    function: &str,
    rewrite: fn(&str, Option<char>) -> Result<String, PatternError>,
) -> Result<Expr, PlanError> {
    let span = pattern.span();
    let letter = match escape.map(|escape| (text_of(escape), escape)) {
        None => Some(None),
        Some((Some(text), escape)) => Some(escape_letter(text, escape)?),
        Some((None, _)) => None,
    };
    match (text_of(pattern), letter) {
        (Some(text), Some(letter)) => match rewrite(text, letter) {
            Ok(rewritten) => Ok(text_literal(&rewritten, span)),
            Err(error) => Err(PlanError::invalid(Place::of(span), error.message).with_hint(error.hint)),
        },
        _ => Ok(call(function, [pattern].into_iter().chain(escape).cloned().collect(), span)),
    }
}

fn text_of(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

/// The character that ESCAPE names; none where the text is empty.
fn escape_letter(text: &str, escape: &Expr) -> Result<Option<char>, PlanError> {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (letter, None) => Ok(letter),
        _ => Err(PlanError::invalid(Place::of(escape.span()), "what ESCAPE names must be one character")
            .with_hint("write ESCAPE '!'")),
    }
}
