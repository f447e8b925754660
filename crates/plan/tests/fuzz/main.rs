//! No text makes the parser or the planner panic, hang or overflow: the kept corpus of `fuzz/`, and mutations of it.

#[path = "../../../../fuzz/corpus.rs"]
mod corpus;
mod target;

/// Pieces that are put where they do not belong.
const WORDS: [&str; 44] = [
    ";",
    "(",
    ")",
    "'",
    "`",
    "\"",
    ",",
    ".",
    "--",
    "/*",
    "*/",
    "/*+",
    "é",
    "\u{0}",
    "\n",
    "\u{2028}",
    "INTERVAL",
    "TABLE",
    "NOT",
    "CAST(",
    "CASE",
    "SELECT",
    "BEGIN",
    "END",
    "TO",
    "SIMILAR TO",
    "PROCTIME()",
    "=>",
    "- ",
    "99999999999999999999",
    "ARRAY<",
    "((((((",
    "NULL",
    "* ",
    "bid",
    " FROM bid",
    "price",
    "ts",
    " GROUP BY window_start, window_end",
    "COUNT(*)",
    " JOIN side ON auction = id",
    "WITH x AS (SELECT",
    " UNION ALL ",
    "'1'",
];

#[test]
fn kept_scripts_and_their_mutations_do_not_panic() {
    corpus::run("sql", &WORDS, 400, target::sql);
}
