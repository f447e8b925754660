//! What Flink can and Pelton cannot do yet, as far as the words alone tell: each with what to write instead.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::syntax;
use crate::error::{Place, PlanError};

/// Deepest expression or chain of set operations that is read. The syntax tree is walked recursively, and a sum of n terms is a tree n deep.
const DEPTH_MAX: usize = 300;

/// The error for a statement that begins with `word`.
pub(super) fn statement(word: &str, place: Option<Place>) -> PlanError {
    let upper = word.to_ascii_uppercase();
    let instead = match upper.as_str() {
        "UPDATE" | "DELETE" | "MERGE" | "TRUNCATE" | "UPSERT" => "streams are append-only: use INSERT INTO … SELECT",
        "ALTER" => "use DROP TABLE and CREATE TABLE",
        "USE" => "a session has one catalog and one database: leave USE out",
        "ANALYZE" => "the engine profiles while it runs: leave ANALYZE out",
        "CALL" | "LOAD" | "UNLOAD" | "ADD" | "REMOVE" => "add functions through the Rust crate",
        "COMPILE" | "EXECUTE" => "use INSERT INTO or EXECUTE STATEMENT SET BEGIN … END",
        "BEGIN" | "COMMIT" | "ROLLBACK" | "START" => {
            "there are no transactions; for several inserts use EXECUTE STATEMENT SET BEGIN … END"
        }
        "STOP" | "QUIT" | "EXIT" | "CLEAR" | "HELP" | "SOURCE" => {
            "this is a command of Flink's client, not a statement"
        }
        _ => {
            let statements =
                ["SELECT", "CREATE", "DROP", "INSERT", "EXPLAIN", "SHOW", "DESCRIBE", "RESET", "VALUES", "WITH"];
            let error = PlanError::syntax(place, format!("expected a statement, found {word}"));
            return match crate::error::closest(word, statements) {
                Some(meant) => error.with_hint(format!("did you mean {meant}?")),
                None => error.with_hint("statements begin with SELECT, WITH, CREATE, DROP, INSERT INTO, EXECUTE STATEMENT SET, SET, RESET, EXPLAIN, SHOW or DESCRIBE"),
            };
        }
    };
    PlanError::unsupported(place, upper, instead)
}

/// The error for `CREATE word` and `DROP word`.
pub(super) fn created(word: &str, place: Option<Place>) -> PlanError {
    let upper = word.to_ascii_uppercase();
    let instead = match upper.as_str() {
        "CATALOG" | "DATABASE" | "SCHEMA" => "a session has one catalog and one database: leave the statement out",
        "FUNCTION" | "SYSTEM" => "add functions through the Rust crate",
        "MATERIALIZED" => "use CREATE VIEW, or INSERT INTO a table",
        "MODEL" | "CONNECTION" | "INDEX" => "leave the statement out",
        _ => {
            return PlanError::syntax(place, format!("expected TABLE or VIEW, found {word}"))
                .with_hint("write CREATE [TEMPORARY] TABLE, CREATE [TEMPORARY] VIEW, DROP TABLE or DROP VIEW");
        }
    };
    PlanError::unsupported(place, upper, instead)
}

/// Refuses constructs that sqlparser would not read, or would read as something else, or that would overflow the stack.
pub(super) fn check_tokens(tokens: &[TokenWithSpan]) -> Result<(), PlanError> {
    for token in tokens {
        check_token(token)?;
    }
    let words: Vec<&TokenWithSpan> = tokens.iter().filter(|token| !super::script::is_blank(token)).collect();
    for (at, token) in words.iter().enumerate() {
        check_construct(token, words.get(at + 1).copied())?;
        syntax::check(&words, at)?;
    }
    check_depth(&words)
}

fn check_token(token: &TokenWithSpan) -> Result<(), PlanError> {
    let place = Place::at(token.span.start);
    match &token.token {
        Token::DoubleQuotedString(text) => {
            Err(PlanError::syntax(place, format!("\"{text}\" is neither a name nor a string"))
                .with_hint(format!("write `{text}` for a name, '{text}' for a string")))
        }
        Token::Placeholder(text) => {
            Err(PlanError::unsupported(place, format!("the placeholder {text}"), "write the value in the statement"))
        }
        Token::Whitespace(Whitespace::MultiLineComment(comment)) if comment.starts_with('+') => {
            Err(PlanError::unsupported(place, "a hint /*+ … */", "put options in WITH (…) of CREATE TABLE"))
        }
        _ => Ok(()),
    }
}

fn check_construct(token: &TokenWithSpan, next: Option<&TokenWithSpan>) -> Result<(), PlanError> {
    let Token::Word(word) = &token.token else { return Ok(()) };
    if word.quote_style.is_some() {
        return Ok(());
    }
    let place = Place::at(token.span.start);
    let next = next.map(|next| &next.token);
    let next_keyword = match next {
        Some(Token::Word(next)) => next.keyword,
        _ => Keyword::NoKeyword,
    };
    let refuse = |construct: &str, instead: &str| Err(PlanError::unsupported(place, construct, instead));
    let flat = "keep each value in a column of its own";
    match (word.keyword, next) {
        (Keyword::MATCH_RECOGNIZE, Some(Token::LParen)) => {
            refuse("MATCH_RECOGNIZE", "filter and group within TUMBLE windows")
        }
        (Keyword::FOR, _) if next_keyword == Keyword::SYSTEM_TIME => {
            refuse("FOR SYSTEM_TIME AS OF", "join with a bounded table, which is loaded when the query starts")
        }
        (Keyword::LATERAL, _) => refuse("LATERAL", "compute the values with scalar functions in SELECT"),
        (Keyword::UNNEST, Some(Token::LParen)) => refuse("UNNEST", "have one row for each element in the input"),
        (Keyword::ARRAY, Some(Token::LBracket | Token::Lt | Token::LParen)) => refuse("ARRAY", flat),
        (Keyword::MAP, Some(Token::LBracket | Token::Lt)) => refuse("MAP", flat),
        (Keyword::ROW, Some(Token::LParen | Token::Lt)) => refuse("ROW", flat),
        (Keyword::MULTISET, Some(Token::LBracket | Token::Lt)) => refuse("MULTISET", flat),
        (Keyword::TABLESAMPLE, _) => refuse("TABLESAMPLE", "filter with WHERE, as in WHERE MOD(id, 100) = 0"),
        (Keyword::PIVOT, Some(Token::LParen)) => {
            refuse("PIVOT", "aggregate with CASE, as in SUM(CASE WHEN k = 1 THEN v END)")
        }
        (Keyword::CONNECT, _) if next_keyword == Keyword::BY => refuse("CONNECT BY", "hierarchies cannot be queried"),
        (Keyword::WITH, _) if next_keyword == Keyword::RECURSIVE => {
            refuse("WITH RECURSIVE", "repeat the step in several CTEs")
        }
        _ => Ok(()),
    }
}

/// One level of parentheses.
#[derive(Default)]
struct Level {
    /// Operators since the last comma: an upper bound of the depth of the expression being read.
    operators: usize,
    /// The most operators between two commas.
    operators_max: usize,
}

/// Words that make an expression, or a chain of set operations, one level deeper.
pub(super) const OPERATOR_WORDS: [&str; 17] = [
    "AND",
    "OR",
    "NOT",
    "IS",
    "IN",
    "BETWEEN",
    "LIKE",
    "ILIKE",
    "SIMILAR",
    "UNION",
    "INTERSECT",
    "EXCEPT",
    "MINUS",
    "AT",
    "COLLATE",
    "DIV",
    "JOIN",
];

fn check_depth(words: &[&TokenWithSpan]) -> Result<(), PlanError> {
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level::default();
    for token in words {
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                level.operators += 1;
                outer.push(std::mem::take(&mut level));
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                if let Some(mut enclosing) = outer.pop() {
                    enclosing.operators += level.operators.max(level.operators_max);
                    level = enclosing;
                }
            }
            Token::Comma => {
                level.operators_max = level.operators_max.max(level.operators);
                level.operators = 0;
            }
            Token::Word(word) if !OPERATOR_WORDS.iter().any(|operator| word.value.eq_ignore_ascii_case(operator)) => {}
            Token::Number(..) | Token::SingleQuotedString(_) => {}
            _ => level.operators += 1,
        }
        if level.operators > DEPTH_MAX {
            let place = Place::at(token.span.start);
            return Err(PlanError::syntax(place, format!("the expression has more than {DEPTH_MAX} operators"))
                .with_hint("split it, or use IN (…) for long lists of alternatives"));
        }
    }
    Ok(())
}
