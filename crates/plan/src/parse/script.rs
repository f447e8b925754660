//! A script as tokens, divided at semicolons.

use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::errors::{Place, PlanError};
use crate::parse::dialect::FlinkDialect;
use crate::parse::vocabulary::{NESTING_MAX, is_blank};

/// A script on its way through the parser.
pub(super) struct Script<'a> {
    text: &'a str,
    /// Byte offset of the start of each line.
    lines: Vec<usize>,
    tokens: std::iter::Peekable<std::vec::IntoIter<TokenWithSpan>>,
}

/// The tokens between two semicolons; the first is no blank.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub tokens: Vec<TokenWithSpan>,
}

impl<'a> Script<'a> {
    pub fn new(text: &'a str) -> Result<Script<'a>, PlanError> {
        let mut tokens = Tokenizer::new(&FlinkDialect::default(), text).tokenize_with_location().map_err(|error| {
            from_parser(ParserError::TokenizerError(format!("{}{}", error.message, error.location)), None)
        })?;
        keep_spellings(text, &mut tokens);
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Ok(Script { text, lines: std::iter::once(0).chain(breaks).collect(), tokens: tokens.into_iter().peekable() })
    }

    /// The next piece that is not blank.
    pub fn next_piece(&mut self) -> Option<Piece> {
        while self.tokens.peek().is_some() {
            let mut tokens: Vec<TokenWithSpan> = Vec::new();
            for token in self.tokens.by_ref() {
                match token.token {
                    Token::SemiColon => break,
                    Token::EOF => {}
                    _ => tokens.push(token),
                }
            }
            let first = tokens.iter().position(|token| !is_blank(token));
            if let Some(first) = first {
                tokens.drain(..first);
                shorten_local_zones(&mut tokens);
                return Some(Piece { tokens });
            }
        }
        None
    }

    /// The text between two locations.
    pub fn text(&self, from: Location, to: Location) -> &'a str {
        &self.text[self.offset(from)..self.offset(to)]
    }

    fn offset(&self, location: Location) -> usize {
        let start = self.lines[location.line as usize - 1];
        let line = &self.text[start..];
        let column = location.column as usize - 1;
        start + line.char_indices().nth(column).map_or(line.len(), |(at, _)| at)
    }
}

impl Piece {
    /// Where the statement begins.
    pub fn start(&self) -> Location {
        self.tokens.first().expect("a piece is not blank").span.start
    }

    /// Whether it begins with these words.
    pub fn begins_with(&self, words: &[&str]) -> bool {
        self.tokens_of_words(words).is_some()
    }

    /// How many of its tokens the words take, where it begins with them.
    pub fn tokens_of_words(&self, words: &[&str]) -> Option<usize> {
        let mut wanted = words.iter();
        let mut next = wanted.next();
        for (at, token) in self.tokens.iter().enumerate() {
            let Some(word) = next else { return Some(at) };
            match &token.token {
                Token::Whitespace(_) => {}
                Token::Word(found) if found.value.eq_ignore_ascii_case(word) => next = wanted.next(),
                _ => return None,
            }
        }
        next.is_none().then_some(self.tokens.len())
    }

    /// Just behind its last token.
    pub fn end(&self) -> Location {
        self.tokens.iter().rfind(|token| !is_blank(token)).expect("a piece is not blank").span.end
    }
}

/// Writes `TIMESTAMP[(p)] WITH LOCAL TIME ZONE`, which sqlparser cannot parse, as `TIMESTAMP_LTZ[(p)]`.
fn shorten_local_zones(tokens: &mut Vec<TokenWithSpan>) {
    const ZONE: [&str; 4] = ["WITH", "LOCAL", "TIME", "ZONE"];
    let is_word = |token: &TokenWithSpan, wanted: &str| matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted));
    let mut start = 0;
    while let Some(found) = tokens[start..].iter().position(|token| is_word(token, "TIMESTAMP")) {
        let timestamp = start + found;
        start = timestamp + 1;
        let following = || (start..tokens.len()).filter(|at| !is_blank(&tokens[*at]));
        let is_precise = following().next().is_some_and(|at| tokens[at].token == Token::LParen);
        let zone: Vec<usize> = following().skip(if is_precise { 3 } else { 0 }).take(ZONE.len()).collect();
        if zone.len() == ZONE.len() && zone.iter().zip(ZONE).all(|(at, word)| is_word(&tokens[*at], word)) {
            tokens[timestamp].token = Token::make_word("TIMESTAMP_LTZ", None);
            // What is left of the type ends where it was written to end.
            let last = (timestamp..zone[0]).rfind(|at| !is_blank(&tokens[*at])).unwrap_or(timestamp);
            tokens[last].span.end = tokens[zone[ZONE.len() - 1]].span.end;
            tokens.drain(zone[0]..=zone[ZONE.len() - 1]);
        }
    }
}

/// Leaves `!=` and `==` as they are written: the tokenizer takes them for `<>` and `=`, and Flink has only these.
fn keep_spellings(text: &str, tokens: &mut [TokenWithSpan]) {
    let mut rest = text.chars();
    let mut at = Location::new(1, 1);
    for token in tokens.iter_mut().filter(|token| matches!(token.token, Token::Neq | Token::DoubleEq)) {
        while at < token.span.start {
            at = match rest.next() {
                Some('\n') => Location::new(at.line + 1, 1),
                Some(_) => Location::new(at.line, at.column + 1),
                None => return,
            };
        }
        let written = rest.as_str();
        if written.starts_with("!=") || written.starts_with("==") {
            token.token = Token::CustomBinaryOperator(written[..2].to_string());
        }
    }
}

/// sqlparser's error in our form. It writes the place behind the message; an error at the end of the input has none, and
/// is placed at `end`.
pub(super) fn from_parser(error: ParserError, end: Option<Location>) -> PlanError {
    let text = match error {
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => text,
        ParserError::RecursionLimitExceeded => {
            let place = end.and_then(Place::at);
            return PlanError::syntax(place, "the statement is nested too deeply")
                .with_hint(format!("at most {NESTING_MAX} levels can be read: use views"));
        }
    };
    let (message, place) = match split_place(&text) {
        Some((message, place)) => (message, Some(place)),
        None => (text.as_str(), end.and_then(Place::at)),
    };
    let message = message.trim();
    let message = match message.strip_prefix("Expected: ").and_then(|rest| rest.rsplit_once(", found: ")) {
        Some((expected, "EOF")) => format!("expected {expected}, found the end of the statement"),
        Some((expected, found)) => format!("expected {expected}, found {found}"),
        None => match message.strip_prefix("No infix parser for token ") {
            Some(token) => {
                let word = token.split_once("value: \"").and_then(|(_, rest)| rest.split('"').next());
                let operator = word.unwrap_or("of this form");
                let hint = "there are + - * / % || = <> < <= > >= AND OR NOT IN IS LIKE BETWEEN";
                return PlanError::syntax(place, format!("there is no operator {operator}")).with_hint(hint);
            }
            None => message.to_string(),
        },
    };
    PlanError::syntax(place, message)
}

fn split_place(text: &str) -> Option<(&str, Place)> {
    let (message, place) = text.rsplit_once(" at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    Some((message, Place { line: line.parse().ok()?, column: column.parse().ok()? }))
}
