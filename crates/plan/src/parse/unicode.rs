//! `U&'…'`: strings whose characters may be written by their numbers, as in `U&'\0001'` or `U&'#0001' UESCAPE '#'`. They are strings like
//! others from here on.

use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::errors::{Place, PlanError};
use crate::parse::vocabulary::is_blank;

/// Hexadecimal digits of an escape, each of which is one unit of UTF-16.
const ESCAPE_DIGITS: usize = 4;

/// Puts the strings that they stand for in the place of all such literals.
pub(super) fn decode(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, PlanError> {
    let is_prefix = |token: &Token| matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("U"));
    let mut decoded = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some((token, behind)) = rest.split_first() {
        rest = behind;
        // Blanks are tokens: these three touch one another.
        if is_prefix(&token.token)
            && let [ampersand, literal, behind @ ..] = behind
            && ampersand.token == Token::Ampersand
            && let Token::SingleQuotedString(text) = &literal.token
        {
            let (escape, read) = escape_character(behind)?;
            let place = Place::at(token.span.start);
            decoded.push(TokenWithSpan {
                token: Token::SingleQuotedString(unescaped(text, escape, place)?),
                span: Span { start: token.span.start, end: literal.span.end },
            });
            rest = &behind[read..];
        } else {
            decoded.push(token.clone());
        }
    }
    Ok(decoded)
}

/// What escapes begin with by the tokens behind a literal, and how many of these say so.
fn escape_character(behind: &[TokenWithSpan]) -> Result<(char, usize), PlanError> {
    let mut words = behind.iter().enumerate().filter(|(_, token)| !is_blank(token));
    match words.next() {
        Some((_, TokenWithSpan { token: Token::Word(word), .. })) if word.value.eq_ignore_ascii_case("UESCAPE") => {}
        _ => return Ok(('\\', 0)),
    }
    let Some((at, named)) = words.next() else {
        let place = behind.first().and_then(|token| Place::at(token.span.start));
        return Err(PlanError::syntax(place, "UESCAPE names no character").with_hint("write it behind, as in '#'"));
    };
    let mut characters = match &named.token {
        Token::SingleQuotedString(text) => text.chars(),
        _ => "".chars(),
    };
    match (characters.next(), characters.next()) {
        (Some(escape), None)
            if !escape.is_ascii_hexdigit() && !escape.is_whitespace() && !['+', '"'].contains(&escape) =>
        {
            Ok((escape, at + 1))
        }
        _ => {
            let problem = "UESCAPE takes one character that is no digit, none of the letters A to F, no blank, + or \"";
            Err(PlanError::syntax(Place::at(named.span.start), problem).with_hint("write UESCAPE '#'"))
        }
    }
}

/// The text with characters in the place of their escapes; two escape characters stand for one.
fn unescaped(text: &str, escape: char, place: Option<Place>) -> Result<String, PlanError> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        if character != escape {
            units.extend_from_slice(character.encode_utf16(&mut [0; 2]));
        } else if let Some(behind) = rest.strip_prefix(escape) {
            units.extend_from_slice(escape.encode_utf16(&mut [0; 2]));
            rest = behind;
        } else {
            let digits =
                rest.get(..ESCAPE_DIGITS).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
            let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()).ok_or_else(|| {
                let problem = format!("{escape} in U&'…' needs {ESCAPE_DIGITS} hexadecimal digits behind it");
                PlanError::syntax(place, problem).with_hint(format!("write {escape}{escape} for {escape} itself"))
            })?;
            units.push(unit);
            rest = &rest[ESCAPE_DIGITS..];
        }
    }
    String::from_utf16(&units).map_err(|_| {
        let problem = "U&'…' has half of a surrogate pair, which is no character";
        PlanError::syntax(place, problem).with_hint("write both halves, the first being D800 to DBFF")
    })
}
