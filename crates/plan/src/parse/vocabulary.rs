//! Words and tokens that several parts of the parser know.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// How deep parentheses, calls and subqueries may be nested.
pub(super) const NESTING_MAX: usize = 50;

/// The prefix of the expression that stands for `TABLE name` as an argument of a table function:
/// `Expr::Prefixed { prefix: TABLE, value: name }`. For `TABLE name PARTITION BY key, …` the value is the tuple `(name, key, …)`, and for
/// `(SELECT …) PARTITION BY key, …` the subquery is in the place of the name.
pub const TABLE_ARGUMENT_PREFIX: &str = "TABLE";

/// What to write in place of a CAST to a type with parts.
pub(crate) const CONSTRUCTORS: &str = "write ARRAY[…], MAP[…] or ROW(…)";

/// Functions that read files, and the format of each.
pub(super) const READERS: [(&str, &str); 4] =
    [("read_csv", "csv"), ("read_json", "json"), ("read_parquet", "parquet"), ("read_lines", "raw")];

/// Functions of other systems that read files, and the one here.
pub(super) const SYNONYMS: [(&str, &str); 7] = [
    ("read_csv_auto", "read_csv"),
    ("read_json_auto", "read_json"),
    ("read_ndjson", "read_json"),
    ("read_ndjson_auto", "read_json"),
    ("parquet_scan", "read_parquet"),
    ("csv_scan", "read_csv"),
    ("read_text", "read_lines"),
];

/// The function of this name that reads files, and its format.
pub(super) fn reader_function(name: &str) -> Option<(&'static str, &'static str)> {
    READERS.into_iter().find(|(reader, _)| reader.eq_ignore_ascii_case(name))
}

/// Whether a token is white space or a comment.
pub(super) fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}
