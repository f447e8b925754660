//! Patterns of LIKE and SIMILAR TO in the forms that are matched here: LIKE with a backslash that escapes, and regular expressions.

use arrow::array::{Array, ArrayRef, StringViewArray};
use datafusion_common::{Result, exec_datafusion_err};
use std::sync::Arc;

use crate::text::{string_at, strings};

/// What is wrong with a pattern, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError {
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: String,
}

/// The pattern of `LIKE pattern ESCAPE escape` with a backslash in place of the character that escapes others; without one nothing is escaped.
///
/// # Errors
/// Where the escape character stands before what needs no escape.
pub fn like(pattern: &str, escape: Option<char>) -> Result<String, PatternError> {
    let mut rewritten = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if Some(letter) != escape {
            rewritten.push_str(if letter == '\\' { "\\" } else { "" });
            rewritten.push(letter);
            continue;
        }
        match letters.next() {
            Some(escaped) if matches!(escaped, '%' | '_') || escaped == letter => {
                rewritten.push_str(if matches!(escaped, '%' | '_' | '\\') { "\\" } else { "" });
                rewritten.push(escaped);
            }
            _ => {
                let message = format!("in the pattern '{pattern}' the letter {letter} escapes nothing");
                return Err(PatternError { message, hint: format!("write it before %, _ or another {letter}") });
            }
        }
    }
    Ok(rewritten)
}

/// Classes of characters that SIMILAR TO has by name, and their names in regular expressions.
const CLASSES: [(&str, &str); 7] = [
    ("alpha", "alpha"),
    ("upper", "upper"),
    ("lower", "lower"),
    ("digit", "digit"),
    ("space", "space"),
    ("whitespace", "space"),
    ("alnum", "alnum"),
];

/// A regular expression for a pattern of SIMILAR TO: `%` and `_` as in LIKE, `^` and `$` stand for themselves, the rest is as in regular expressions.
/// It matches whole texts.
///
/// # Errors
/// Where that is not a valid regular expression.
pub fn similar(pattern: &str, escape: Option<char>) -> Result<String, PatternError> {
    let mut expression = String::from("(?s)^(?:");
    let mut rest = pattern.chars();
    let mut is_in_class = false;
    while let Some(letter) = rest.next() {
        if Some(letter) == escape {
            let escaped = rest.next().map(String::from).unwrap_or_default();
            expression.push_str(&regex::escape(&escaped));
            continue;
        }
        match letter {
            '[' if is_in_class && rest.as_str().starts_with(':') => {
                let name = rest.as_str()[1..].split_once(":]").map_or("", |(name, _)| name);
                let known = CLASSES.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
                match known {
                    Some((_, name_here)) => {
                        expression.extend(["[:", name_here, ":]"]);
                        // The colons and the bracket as well.
                        rest.nth(name.chars().count() + 2);
                    }
                    None => expression.push_str("\\["),
                }
            }
            '[' if is_in_class => expression.push_str("\\["),
            '%' if !is_in_class => expression.push_str(".*"),
            '_' if !is_in_class => expression.push('.'),
            '.' if !is_in_class => expression.push_str("(?-s:.)"),
            '$' if !is_in_class => expression.push_str("\\$"),
            '^' if !is_in_class => expression.push_str("\\^"),
            '\\' => expression.push_str("\\\\"),
            _ => {
                is_in_class = (is_in_class || letter == '[') && letter != ']';
                expression.push(letter);
            }
        }
    }
    expression.push_str(")$");
    match regex::Regex::new(&expression) {
        Ok(_) => Ok(expression),
        Err(_) => Err(PatternError {
            message: format!("'{pattern}' is not a valid SIMILAR TO pattern"),
            hint: "close all brackets, and put what * + ? { repeat before them".to_string(),
        }),
    }
}

/// `like_pattern(pattern[, escape])`: see [`like`]. Patterns of LIKE that are computed for each row.
pub(super) fn like_pattern(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    rewritten(arguments, like)
}

/// `similar_pattern(pattern[, escape])`: see [`similar`].
pub(super) fn similar_pattern(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    rewritten(arguments, similar)
}

fn rewritten(
    arguments: &[ArrayRef],
    rewrite: fn(&str, Option<char>) -> Result<String, PatternError>,
) -> Result<ArrayRef> {
    let (patterns, escapes) = (strings(&arguments[0]), arguments.get(1).map(strings));
    let rewritten = (0..patterns.len()).map(|row| {
        let Some(pattern) = string_at(patterns, row) else { return Ok(None) };
        let escape = match escapes {
            None => None,
            Some(escapes) => match string_at(escapes, row) {
                Some(escape) => Some(escape_character(escape)?),
                None => return Ok(None),
            },
        };
        let failed = |error: PatternError| exec_datafusion_err!("{}; {}", error.message, error.hint);
        rewrite(pattern, escape.flatten()).map(Some).map_err(failed)
    });
    Ok(Arc::new(rewritten.collect::<Result<StringViewArray>>()?))
}

/// The character that a text names; none where it is empty.
fn escape_character(escape: &str) -> Result<Option<char>> {
    let mut letters = escape.chars();
    match (letters.next(), letters.next()) {
        (first, None) => Ok(first),
        _ => Err(exec_datafusion_err!("'{escape}' is not a valid escape character: it must be one character")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_escapes_only_where_it_is_named() {
        for (pattern, escape, here) in [
            (r"a\c", None, Ok(r"a\\c")),
            (r"\", None, Ok(r"\\")),
            (r"a\%", None, Ok(r"a\\%")),
            ("a!%!_!!", Some('!'), Ok(r"a\%\_!")),
            (r"a\\\%", Some('\\'), Ok(r"a\\\%")),
            ("a!b", Some('!'), Err("in the pattern 'a!b' the letter ! escapes nothing")),
            ("a!", Some('!'), Err("in the pattern 'a!' the letter ! escapes nothing")),
        ] {
            let rewritten = like(pattern, escape);
            assert_eq!(rewritten.as_deref().map_err(|error| error.message.as_str()), here, "{pattern}");
        }
    }

    #[test]
    fn classes_of_similar_to_have_names_in_any_case() {
        for (pattern, text, is_match) in [
            ("a[[:ALPHA:]]", "ab", true),
            ("a[[:digit:]_%]+", "a1_%", true),
            ("a[^[:WHITESPACE:]]", "a ", false),
            (r"a\c", r"a\c", true),
            (r"a[\]", r"a\", true),
            ("a[[]b", "a[b", true),
            ("a.c", "abc", true),
            ("a.c", "a\nc", false),
            ("a_c", "a\nc", true),
            ("a$c", "a$c", true),
            ("a(b|c)%", "acx", true),
        ] {
            let regex = regex::Regex::new(&similar(pattern, None).unwrap()).unwrap();
            assert_eq!(regex.is_match(text), is_match, "{pattern} and {text}");
        }
        assert!(similar("a(b", None).is_err());
    }
}
