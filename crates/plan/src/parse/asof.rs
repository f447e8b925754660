//! `ASOF JOIN` as DuckDB writes it: `a ASOF [LEFT] JOIN b ON a.k = b.k AND a.time >= b.time`. sqlparser reads Snowflake's
//! `a ASOF JOIN b MATCH_CONDITION (a.time >= b.time) ON a.k = b.k` alone, and so that is what it gets.
//!
//! A join of DuckDB's has the condition TRUE, and one that drops rows without a match the word GLOBAL, for which there is no other use.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::parse::vocabulary::is_blank;

/// Writes all of them so.
pub(super) fn respell(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| keyword(token) == Keyword::ASOF) {
        return tokens;
    }
    let mut respelt: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    // For each join whose condition has not come: how deep inside of parentheses it is.
    let mut open: Vec<usize> = Vec::new();
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(token) = tokens.get(at) {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        match keyword(token) {
            Keyword::ASOF => {
                let join = Join::read(&tokens[at..]);
                if let Some(Join { is_inner, has_match_condition, words }) = join {
                    respelt.extend(is_inner.then(|| word(token, "GLOBAL", Keyword::GLOBAL)));
                    respelt.extend([token.clone(), word(token, "JOIN", Keyword::JOIN)]);
                    open.extend((!has_match_condition).then_some(depth));
                    at += words;
                    continue;
                }
                if let Some(kind) = kind_of(&tokens[at..]) {
                    // The word behind it is what is wrong.
                    respelt.push(token.clone());
                    at += kind + 1;
                    continue;
                }
            }
            Keyword::ON | Keyword::USING if open.last() == Some(&depth) => {
                open.pop();
                let here = |token_here: Token| TokenWithSpan { token: token_here, span: token.span };
                respelt.push(word(token, "MATCH_CONDITION", Keyword::MATCH_CONDITION));
                respelt.extend([here(Token::LParen), word(token, "TRUE", Keyword::TRUE), here(Token::RParen)]);
            }
            _ => {}
        }
        respelt.push(token.clone());
        at += 1;
    }
    respelt
}

/// How a join begins.
struct Join {
    /// Whether rows without a match are dropped.
    is_inner: bool,
    has_match_condition: bool,
    /// Tokens up to JOIN, and this.
    words: usize,
}

impl Join {
    /// A join that begins with the first of these tokens, which is ASOF.
    fn read(tokens: &[TokenWithSpan]) -> Option<Join> {
        let mut words = tokens.iter().enumerate().filter(|(_, token)| !is_blank(token)).skip(1);
        let (mut at, mut next) = words.next().map(|(at, token)| (at, keyword(token)))?;
        let kind = next;
        let mut read = || words.next().map(|(at, token)| (at, keyword(token)));
        if matches!(kind, Keyword::INNER | Keyword::LEFT) {
            (at, next) = read()?;
        }
        if kind == Keyword::LEFT && next == Keyword::OUTER {
            (at, next) = read()?;
        }
        if next != Keyword::JOIN {
            return None;
        }
        let has_match_condition = has_match_condition(&tokens[at..]);
        // Snowflake's keeps rows without a match.
        let is_inner = kind == Keyword::INNER || (kind == Keyword::JOIN && !has_match_condition);
        Some(Join { is_inner, has_match_condition, words: at + 1 })
    }
}

/// Which of these tokens, the first of which is ASOF, says what kind of join it is.
fn kind_of(tokens: &[TokenWithSpan]) -> Option<usize> {
    let (at, token) = tokens.iter().enumerate().skip(1).find(|(_, token)| !is_blank(token))?;
    matches!(keyword(token), Keyword::INNER | Keyword::LEFT).then_some(at)
}

/// Whether MATCH_CONDITION comes before the condition of a join, behind its JOIN.
fn has_match_condition(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0_usize;
    for token in tokens {
        match (&token.token, keyword(token)) {
            (Token::LParen, _) => depth += 1,
            (Token::RParen, _) if depth == 0 => return false,
            (Token::RParen, _) => depth -= 1,
            (_, Keyword::MATCH_CONDITION) if depth == 0 => return true,
            (_, Keyword::ON | Keyword::USING | Keyword::WHERE) if depth == 0 => return false,
            _ => {}
        }
    }
    false
}

fn keyword(token: &TokenWithSpan) -> Keyword {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// A word that stands where another does.
fn word(place: &TokenWithSpan, text: &str, keyword: Keyword) -> TokenWithSpan {
    let word = Word { value: text.to_string(), quote_style: None, keyword };
    TokenWithSpan { token: Token::Word(word), span: place.span }
}

#[cfg(test)]
mod tests {
    use sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::parse::FlinkDialect;

    fn respelt(text: &str) -> String {
        let tokens = Tokenizer::new(&FlinkDialect::default(), text).tokenize_with_location().unwrap();
        let words = respell(tokens).into_iter().filter(|token| !is_blank(token));
        words.map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn joins_are_written_as_snowflake_does() {
        for (written, expected) in [
            ("a ASOF JOIN b ON x >= y", "a GLOBAL ASOF JOIN b MATCH_CONDITION ( TRUE ) ON x >= y"),
            ("a ASOF LEFT OUTER JOIN b ON x", "a ASOF JOIN b MATCH_CONDITION ( TRUE ) ON x"),
            ("a ASOF JOIN b MATCH_CONDITION (x) ON y", "a ASOF JOIN b MATCH_CONDITION ( x ) ON y"),
            ("a ASOF INNER JOIN b MATCH_CONDITION (x) ON y", "a GLOBAL ASOF JOIN b MATCH_CONDITION ( x ) ON y"),
            (
                "a ASOF LEFT JOIN (SELECT * FROM c ASOF JOIN d ON z) b ON x",
                "a ASOF JOIN ( SELECT * FROM c GLOBAL ASOF JOIN d MATCH_CONDITION ( TRUE ) ON z ) b MATCH_CONDITION ( TRUE ) ON x",
            ),
            ("a JOIN b ON x", "a JOIN b ON x"),
            ("a ASOF OUTER JOIN b ON x", "a ASOF OUTER JOIN b ON x"),
            ("a ASOF LEFT INNER JOIN b ON x", "a ASOF INNER JOIN b ON x"),
        ] {
            assert_eq!(respelt(written), expected);
        }
    }
}
