//! Statements that clients of Postgres send and the engine does not know: transactions, parameters of the session, and what drivers ask first.

use std::sync::Arc;

use pelton::arrow::array::{RecordBatch, StringViewArray};
use pelton::arrow::datatypes::{DataType, Field, Schema};

use crate::scan::{Kind, Token, scan};

/// What a statement asks of the connection, where it is not for the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionCommand {
    /// Each statement takes effect at once: there is nothing to begin.
    Begin,
    /// `COMMIT` or `ROLLBACK`, as the answer names it.
    EndTransaction(&'static str),
    /// A parameter of the session is set.
    Set { name: String, value: String },
    /// It is answered, and changes nothing.
    Nothing(&'static str),
    /// A row of one column.
    Value { column: String, value: String },
    /// All prepared statements are forgotten, or one.
    Deallocate(Option<String>),
    /// Tables of the system catalog, which there are not.
    Catalog,
    /// A parameter that does not exist.
    UnknownParameter(String),
}

/// Version of Postgres whose protocol and type numbers clients find here.
pub const SERVER_VERSION: &str = "15.0";

/// Parameters that clients set or show, and their values. Setting them changes nothing, apart from the time zone.
const PARAMETERS: [(&str, &str); 22] = [
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, YMD"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("extra_float_digits", "1"),
    ("idle_in_transaction_session_timeout", "0"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("lock_timeout", "0"),
    ("max_identifier_length", "63"),
    ("search_path", "public"),
    ("server_encoding", "UTF8"),
    ("server_version", SERVER_VERSION),
    ("server_version_num", "150000"),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    (TIME_ZONE, "UTC"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "off"),
];

pub const TIME_ZONE: &str = "timezone";

/// The encoding of all text.
const ENCODINGS: [&str; 3] = ["UTF8", "UTF-8", "UNICODE"];

impl SessionCommand {
    /// The command that a statement is; `None` where it is for the engine.
    pub fn of(statement: &str) -> Option<SessionCommand> {
        let tokens: Vec<Token> = scan(statement).into_iter().filter(|token| token.kind != Kind::Comment).collect();
        let words: Vec<String> = tokens.iter().map(|token| token.text.to_ascii_uppercase()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["BEGIN", "STATEMENT", ..] => None,
            ["BEGIN", ..] | ["START", "TRANSACTION", ..] => Some(SessionCommand::Begin),
            ["COMMIT"] | ["COMMIT" | "END", "TRANSACTION" | "WORK"] | ["END"] => {
                Some(SessionCommand::EndTransaction("COMMIT"))
            }
            ["ROLLBACK"] | ["ABORT"] | ["ROLLBACK" | "ABORT", "TRANSACTION" | "WORK"] => {
                Some(SessionCommand::EndTransaction("ROLLBACK"))
            }
            ["SAVEPOINT", _] => Some(SessionCommand::Nothing("SAVEPOINT")),
            ["RELEASE", ..] => Some(SessionCommand::Nothing("RELEASE")),
            ["ROLLBACK", "TO", ..] => Some(SessionCommand::Nothing("ROLLBACK")),
            ["DISCARD", "ALL"] => Some(SessionCommand::Nothing("DISCARD ALL")),
            ["UNLISTEN", ..] => Some(SessionCommand::Nothing("UNLISTEN")),
            ["DEALLOCATE", "ALL"] => Some(SessionCommand::Deallocate(None)),
            ["DEALLOCATE", .., _] => Some(SessionCommand::Deallocate(Some(unquoted(tokens.last()?)))),
            ["SET", "SESSION", "CHARACTERISTICS", ..] | ["SET", "TRANSACTION", ..] => {
                Some(SessionCommand::Nothing("SET"))
            }
            ["SET", "SESSION" | "LOCAL", ..] => set(&tokens[2..]),
            ["SET", ..] => set(&tokens[1..]),
            ["SHOW", "TRANSACTION", "ISOLATION", "LEVEL"] => shown("transaction_isolation"),
            ["SHOW", "TIME", "ZONE"] => shown(TIME_ZONE),
            ["SHOW", _] => shown(&unquoted(&tokens[1])),
            ["SELECT", rest @ ..] => {
                selected(rest).or_else(|| asks_catalog(&tokens).then_some(SessionCommand::Catalog))
            }
            _ => None,
        }
    }
}

/// `name = value`, `name TO value` or `TIME ZONE value`. Settings of the engine have their names in quotes.
fn set(tokens: &[Token]) -> Option<SessionCommand> {
    let (name, value) = match tokens {
        [time, zone, value @ ..] if time.is("TIME") && zone.is("ZONE") => (TIME_ZONE.to_owned(), value),
        [name, by, value @ ..] if name.kind == Kind::Word && (by.is("=") || by.is("TO")) => {
            (name.text.to_ascii_lowercase(), value)
        }
        _ => return None,
    };
    let value: Vec<String> = value.iter().map(unquoted).collect();
    let value = value.join("");
    let is_known = PARAMETERS.iter().any(|(known, _)| *known == name);
    let is_encoding = ENCODINGS.iter().any(|encoding| value.eq_ignore_ascii_case(encoding));
    Some(match name.as_str() {
        "names" | "client_encoding" if !is_encoding => SessionCommand::UnknownParameter(format!("{name} = {value}")),
        _ if is_known => SessionCommand::Set { name, value },
        _ => SessionCommand::UnknownParameter(name),
    })
}

fn shown(name: &str) -> Option<SessionCommand> {
    let (column, value) = PARAMETERS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(SessionCommand::Value { column: (*column).to_owned(), value: (*value).to_owned() })
}

/// What drivers ask: `SELECT version()` and the like.
fn selected(words: &[&str]) -> Option<SessionCommand> {
    let words = words.strip_prefix(&["PG_CATALOG", "."]).unwrap_or(words);
    let (function, is_call) = match words {
        [function] => (*function, false),
        [function, "(", ")"] => (*function, true),
        _ => return None,
    };
    let version = format!("PostgreSQL {SERVER_VERSION} (Pelton {})", env!("CARGO_PKG_VERSION"));
    let value = match (function, is_call) {
        ("VERSION", true) => version.as_str(),
        ("CURRENT_SCHEMA", _) => "public",
        ("CURRENT_DATABASE", true) | ("CURRENT_CATALOG", false) => "pelton",
        ("CURRENT_USER" | "SESSION_USER" | "USER", false) => "pelton",
        ("PG_IS_IN_RECOVERY", true) => "f",
        _ => return None,
    };
    Some(SessionCommand::Value { column: function.to_ascii_lowercase(), value: value.to_owned() })
}

/// Whether a query names a table or a function of the system catalog.
fn asks_catalog(tokens: &[Token]) -> bool {
    tokens.iter().any(|token| {
        let name = token.name().unwrap_or_default().to_ascii_lowercase();
        ["pg_catalog", "information_schema", "pg_type", "pg_class", "pg_namespace", "pg_database"]
            .contains(&name.as_str())
    })
}

/// A row of one column.
pub fn row(column: &str, value: &str) -> RecordBatch {
    let schema = Schema::new(vec![Field::new(column, DataType::Utf8View, false)]);
    let values = StringViewArray::from(vec![value]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(values)]).expect("a column of one value is a row")
}

/// A name or a value without its quotes.
fn unquoted(token: &Token) -> String {
    match token.kind {
        Kind::Text if token.is_closed => {
            let quote = &token.text[..1];
            token.text[1..token.text.len() - 1].replace(&quote.repeat(2), quote)
        }
        _ => token.text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_the_engine_are_left_to_it() {
        for statement in [
            "SET 'pelton.workers' = '2'",
            "SET",
            "SHOW TABLES",
            "SHOW CREATE TABLE t",
            "BEGIN STATEMENT SET BEGIN INSERT INTO a SELECT 1; END",
            "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END",
            "SELECT a FROM t",
            "SELECT 'pg_catalog'",
        ] {
            assert_eq!(SessionCommand::of(statement), None, "{statement}");
        }
    }

    #[test]
    fn what_drivers_send_is_known() {
        use SessionCommand::*;
        let set = |name: &str, value: &str| Some(Set { name: name.to_owned(), value: value.to_owned() });
        assert_eq!(SessionCommand::of("/* a */ begin"), Some(Begin));
        assert_eq!(SessionCommand::of("START TRANSACTION ISOLATION LEVEL READ COMMITTED"), Some(Begin));
        assert_eq!(SessionCommand::of("SET extra_float_digits = 3"), set("extra_float_digits", "3"));
        assert_eq!(SessionCommand::of("set session datestyle to 'ISO'"), set("datestyle", "ISO"));
        assert_eq!(SessionCommand::of("SET TIME ZONE 'Europe/Berlin'"), set("timezone", "Europe/Berlin"));
        assert_eq!(
            SessionCommand::of("SET client_encoding TO latin1"),
            Some(UnknownParameter("client_encoding = latin1".to_owned()))
        );
        assert_eq!(SessionCommand::of("SET work_mem = 1"), Some(UnknownParameter("work_mem".to_owned())));
        let value = |column: &str, value: &str| Some(Value { column: column.to_owned(), value: value.to_owned() });
        assert_eq!(
            SessionCommand::of("SHOW transaction isolation level"),
            value("transaction_isolation", "read committed")
        );
        assert_eq!(SessionCommand::of("select pg_catalog.current_schema()"), value("current_schema", "public"));
        assert_eq!(SessionCommand::of("SELECT c.oid FROM pg_catalog.pg_class c"), Some(Catalog));
        assert_eq!(SessionCommand::of("DEALLOCATE PREPARE \"a b\""), Some(Deallocate(Some("a b".to_owned()))));
    }
}
