//! Flink's syntax, and that of other dialects, that the parser would stumble over or take for something else: it is known by a
//! few words in a row, and refused where these stand.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::errors::{Place, PlanError};
use crate::parse::refuse::OPERATOR_WORDS;
use crate::parse::vocabulary::{CONSTRUCTORS, NESTING_MAX};

/// A statement's tokens without blanks, seen from one of them.
struct Words<'t, 's> {
    tokens: &'t [&'s TokenWithSpan],
    at: usize,
}

impl Words<'_, '_> {
    /// The token so many places on.
    fn token(&self, offset: usize) -> Option<&Token> {
        self.tokens.get(self.at + offset).map(|token| &token.token)
    }

    /// The token before.
    fn before(&self) -> Option<&Token> {
        self.at.checked_sub(1).map(|at| &self.tokens[at].token)
    }

    /// Whether the token so many places on is this word, not in backticks.
    fn is(&self, offset: usize, word: &str) -> bool {
        self.token(offset).is_some_and(|token| is_word(token, word))
    }

    /// Whether the statement ends so many places on.
    fn ends(&self, offset: usize) -> bool {
        matches!(self.token(offset), None | Some(Token::SemiColon | Token::EOF))
    }

    fn opens(&self, offset: usize) -> bool {
        self.token(offset) == Some(&Token::LParen)
    }

    /// Whether no blank stands between a token and the next.
    fn touches_next(&self, offset: usize) -> bool {
        let [first, second] = [offset, offset + 1].map(|offset| self.tokens.get(self.at + offset));
        first.zip(second).is_some_and(|(first, second)| first.span.end == second.span.start)
    }

    /// A whole number so many places on.
    fn number(&self, offset: usize) -> &str {
        match self.token(offset) {
            Some(Token::Number(digits, _)) => digits,
            _ => "1",
        }
    }

    /// Whether the arguments of a call, whose parenthesis is the next token, have words between them that only JSON functions take.
    fn has_json_syntax(&self) -> bool {
        let mut depth = 0;
        for (offset, token) in self.tokens[self.at..].iter().enumerate().skip(1) {
            match &token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ if depth > 1 => {}
                Token::Colon => return true,
                Token::Word(_) if self.is(offset, "ON") && self.is(offset + 1, "NULL") => return true,
                token if is_word(token, "VALUE") && self.token(offset - 1).is_some_and(ends_operand) => return true,
                _ => {}
            }
            // What is nested deeper is not read anyway.
            if depth == 0 || depth > NESTING_MAX {
                return false;
            }
        }
        false
    }

    /// Where `ROW<` or `MAP<` follows, or `ARRAY<` of these, which the parser does not know as types.
    fn nested_type(&self) -> Option<usize> {
        let opens = |offset: usize| self.token(offset + 1) == Some(&Token::Lt);
        let arrays = (0..NESTING_MAX).take_while(|array| self.is(1 + 2 * array, "ARRAY") && opens(1 + 2 * array));
        let offset = 1 + 2 * arrays.count();
        let is_named = ["ROW", "MAP"].into_iter().any(|name| self.is(offset, name));
        (is_named && opens(offset)).then_some(offset)
    }

    fn place(&self, offset: usize) -> Option<Place> {
        Place::at(self.tokens[self.at + offset].span.start)
    }

    fn refuse(&self, offset: usize, construct: &str, instead: &str) -> Result<(), PlanError> {
        Err(PlanError::unsupported(self.place(offset), construct, instead))
    }
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// Words, besides operators, that an operand follows.
const OPENING_WORDS: [&str; 8] = ["ALL", "CASE", "DISTINCT", "ELSE", "ESCAPE", "THEN", "TO", "WHEN"];

/// Whether an operand may end with this token.
fn ends_operand(token: &Token) -> bool {
    let mut opening = OPERATOR_WORDS.iter().chain(&OPENING_WORDS);
    match token {
        Token::Word(_) => !opening.any(|word| is_word(token, word)),
        Token::SingleQuotedString(_) | Token::Number(..) | Token::RParen => true,
        _ => false,
    }
}

/// Units of an interval.
const INTERVAL_UNITS: [&str; 8] = ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"];

/// Refuses such syntax where it begins at token `at` of a statement without its blanks.
pub(super) fn check(tokens: &[&TokenWithSpan], at: usize) -> Result<(), PlanError> {
    let words = Words { tokens, at };
    let no_operator = |operator: &str, hint: &str| Err(PlanError::syntax(words.place(0), operator).with_hint(hint));
    match &tokens[at].token {
        Token::ShiftLeft => no_operator("there is no operator <<", "multiply by a power of two, as in i * 2"),
        Token::ShiftRight => no_operator("there is no operator >>", "divide by a power of two, as in i / 2"),
        Token::CustomBinaryOperator(_) if ["ALL", "ANY", "SOME"].into_iter().any(|word| words.is(1, word)) => {
            words.refuse(0, "a subquery in an expression", "join with a bounded table instead")
        }
        Token::NationalStringLiteral(_) => words.refuse(0, "N'…'", "leave N out: strings are Unicode"),
        Token::Mul if words.before().is_some_and(|before| is_word(before, "SELECT") || *before == Token::Period) => {
            let listed = ["EXCEPT", "EXCLUDE", "REPLACE", "RENAME"].into_iter().find(|word| words.is(1, word));
            match listed {
                Some(word) if words.opens(2) => words.refuse(0, &format!("* {word}"), "name the columns"),
                _ => Ok(()),
            }
        }
        Token::Word(word) if word.quote_style.is_none() => check_word(&words, &word.value),
        _ => Ok(()),
    }
}

fn check_word(words: &Words<'_, '_>, word: &str) -> Result<(), PlanError> {
    let upper = word.to_ascii_uppercase();
    match upper.as_str() {
        "BETWEEN" if words.is(1, "SYMMETRIC") && !words.is(2, "AND") => {
            words.refuse(0, "BETWEEN SYMMETRIC", "write BETWEEN LEAST(a, b) AND GREATEST(a, b)")
        }
        "BETWEEN" if words.is(1, "ASYMMETRIC") && !words.is(2, "AND") => {
            words.refuse(0, "BETWEEN ASYMMETRIC", "leave ASYMMETRIC out: it says what BETWEEN does without it")
        }
        // With plain arguments it may be a function that the program has added.
        "JSON_OBJECTAGG" if words.opens(1) && words.has_json_syntax() => {
            words.refuse(0, "JSON_OBJECTAGG", "write LISTAGG(key || ':' || value)")
        }
        "GROUP" if words.is(1, "BY") && words.opens(2) && words.token(3) == Some(&Token::RParen) => {
            words.refuse(0, "GROUP BY ()", "leave it out: aggregates alone are of all rows")
        }
        "AS" if words.is(1, "INTERVAL") && INTERVAL_UNITS.iter().any(|unit| words.is(2, unit)) => {
            words.refuse(1, "a cast to INTERVAL", "write TIMESTAMPADD(DAY, number, time) to add so many days to a time")
        }
        "AS" if let Some(offset) = words.nested_type() => {
            let name = if words.is(offset, "ROW") { "ROW" } else { "MAP" };
            words.refuse(offset, &format!("CAST to {name}"), CONSTRUCTORS)
        }
        "MEMBER" if words.is(1, "OF") => words.refuse(0, "MEMBER OF", "write value IN (1, 2)"),
        "OVERLAPS" if words.opens(1) => {
            words.refuse(0, "OVERLAPS", "compare the ends: start_1 < end_2 AND start_2 < end_1")
        }
        "SELECT" if words.is(1, "TOP") && matches!(words.token(2), Some(Token::Number(..))) => {
            let instead = format!("write LIMIT {} at the end of the query", words.number(2));
            words.refuse(1, "TOP", &instead)
        }
        // Not `WATERMARK FOR share AS …` nor `SUBSTRING(… FOR share)`.
        "FOR" if words.ends(2) || ["OF", "NOWAIT", "SKIP"].iter().any(|word| words.is(2, word)) => {
            let locked = ["UPDATE", "SHARE"].into_iter().find(|word| words.is(1, word));
            match locked {
                Some(word) => words.refuse(0, &format!("FOR {word}"), "leave it out: rows need no locks"),
                None => Ok(()),
            }
        }
        _ if upper.starts_with('_')
            && matches!(words.token(1), Some(Token::SingleQuotedString(_)))
            && words.touches_next(0) =>
        {
            words.refuse(0, &format!("{upper}'…'"), &format!("leave {upper} out: strings are UTF-8"))
        }
        _ => Ok(()),
    }
}
