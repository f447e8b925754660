//! What Flink can and Pelton cannot do yet, as far as the words alone tell: each with what to write instead.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use crate::errors::{Place, PlanError};
use crate::parse::syntax;

/// Deepest expression that is read, and longest chain of joins or set operations. The syntax tree is walked recursively, and a sum of n terms is a tree n deep.
const DEPTH_MAX: usize = 300;

/// Most operators of a statement that are balanced: `AND`, `OR` and `||`.
pub(super) const CHAIN_MAX: usize = 50_000;

/// The error for a statement that begins with `word`.
pub(super) fn statement(word: &str, place: Option<Place>) -> PlanError {
    let upper = word.to_ascii_uppercase();
    let instead = match upper.as_str() {
        "UPDATE" | "DELETE" | "MERGE" | "TRUNCATE" | "UPSERT" => "streams are append-only: use INSERT INTO … SELECT",
        "ALTER" => {
            "only jobs are altered (ALTER JOB name AS INSERT INTO …); for a table use DROP TABLE and CREATE TABLE"
        }
        "ANALYZE" => "the engine profiles while it runs: leave ANALYZE out",
        "CALL" | "LOAD" | "UNLOAD" | "ADD" | "REMOVE" => "add functions through the Rust crate",
        "COMPILE" | "EXECUTE" => "use INSERT INTO or EXECUTE STATEMENT SET BEGIN … END",
        "BEGIN" | "COMMIT" | "ROLLBACK" | "START" => {
            "there are no transactions; for several inserts use EXECUTE STATEMENT SET BEGIN … END"
        }
        "QUIT" | "EXIT" | "CLEAR" | "HELP" | "SOURCE" => "this is a command of Flink's client, not a statement",
        _ => {
            let statements = [
                "SELECT", "CREATE", "DROP", "INSERT", "EXPLAIN", "SHOW", "DESCRIBE", "RESET", "VALUES", "WITH", "USE",
                "STOP", "ALTER",
            ];
            let error = PlanError::syntax(place, format!("expected a statement, found {word}"));
            return match crate::errors::closest(word, statements) {
                Some(meant) => error.with_hint(format!("did you mean {meant}?")),
                None => error.with_hint("statements begin with SELECT, WITH, CREATE, DROP, INSERT INTO, EXECUTE STATEMENT SET, SET, RESET, EXPLAIN, SHOW, DESCRIBE, STOP JOB or ALTER JOB"),
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
    let words: Vec<&TokenWithSpan> = tokens.iter().filter(|token| !super::vocabulary::is_blank(token)).collect();
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
    match (word.keyword, next) {
        (Keyword::MATCH_RECOGNIZE, Some(Token::LParen)) => {
            refuse("MATCH_RECOGNIZE", "filter and group within TUMBLE windows")
        }
        (Keyword::LATERAL, Some(Token::LParen)) => {
            refuse("LATERAL before a query", "call a table function: LATERAL TABLE(f(x)), or UNNEST(array)")
        }
        (Keyword::ARRAY, Some(Token::LParen)) => refuse("ARRAY of a query", "write ARRAY[1, 2]"),
        (Keyword::MULTISET, Some(Token::LBracket | Token::Lt)) => refuse("MULTISET", "use an ARRAY"),
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

/// One level of parentheses, or of CASE.
#[derive(Default)]
struct Level {
    /// Operators since the last separator: an upper bound of the depth of the expression being read.
    operators: usize,
    /// The most operators between two separators.
    operators_max: usize,
    /// Set operations and joins, each of which makes the plan a level deeper.
    relations: usize,
    /// The most of them in a level of parentheses inside.
    relations_inside: usize,
    /// `BETWEEN` whose `AND` has not come.
    ranges: usize,
    is_case: bool,
}

/// Words that make an expression one level deeper.
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

impl Level {
    /// A separator: what is on both sides is not one inside of the other.
    fn separate(&mut self) {
        self.operators_max = self.operators_max.max(self.operators);
        self.operators = 0;
    }

    fn word(&mut self, word: &str) {
        match word.to_ascii_uppercase().as_str() {
            "AND" if self.ranges > 0 => self.ranges -= 1,
            // Chains of these are balanced.
            "AND" | "OR" => self.separate(),
            "WHEN" | "THEN" | "ELSE" if self.is_case => self.separate(),
            "BETWEEN" => {
                self.ranges += 1;
                self.operators += 1;
            }
            "UNION" | "INTERSECT" | "EXCEPT" | "MINUS" | "JOIN" => self.relations += 1,
            upper if OPERATOR_WORDS.contains(&upper) => self.operators += 1,
            _ => {}
        }
    }
}

/// Checks that no expression is deeper than what walks it can go.
fn check_depth(words: &[&TokenWithSpan]) -> Result<(), PlanError> {
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level::default();
    let mut chained = 0;
    for token in words {
        let is_word = |wanted: &str| matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted));
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                level.operators += 1;
                outer.push(std::mem::take(&mut level));
            }
            Token::RParen | Token::RBracket | Token::RBrace => close(&mut level, &mut outer),
            _ if is_word("CASE") => {
                level.operators += 1;
                outer.push(std::mem::replace(&mut level, Level { is_case: true, ..Level::default() }));
            }
            _ if level.is_case && is_word("END") => close(&mut level, &mut outer),
            Token::Comma => level.separate(),
            Token::Word(word) => {
                chained += usize::from(is_word("AND") || is_word("OR"));
                level.word(&word.value);
            }
            Token::StringConcat => chained += 1,
            Token::Number(..) | Token::SingleQuotedString(_) => {}
            _ => level.operators += 1,
        }
        let refused =
            |what: String, hint: &str| Err(PlanError::syntax(Place::at(token.span.start), what).with_hint(hint));
        if level.operators > DEPTH_MAX {
            let hint = "compute a part of it in a subquery or view; AND, OR, || and IN (…) may be longer";
            return refused(format!("the expression has more than {DEPTH_MAX} operators"), hint);
        }
        if level.relations + level.relations_inside > DEPTH_MAX {
            let hint = "INSERT parts of it into a table, one after the other";
            return refused(format!("the query has more than {DEPTH_MAX} joins or set operations"), hint);
        }
        if chained > CHAIN_MAX {
            let hint = "use IN (…) for long lists of alternatives, or join with a table of them";
            return refused(format!("the statement has more than {CHAIN_MAX} AND, OR and ||"), hint);
        }
    }
    Ok(())
}

/// Goes on behind a parenthesis, or END. What is deepest inside counts outside.
fn close(level: &mut Level, outer: &mut Vec<Level>) {
    if let Some(mut enclosing) = outer.pop() {
        enclosing.operators += level.operators.max(level.operators_max);
        enclosing.relations_inside = enclosing.relations_inside.max(level.relations + level.relations_inside);
        *level = enclosing;
    }
}
