//! What EXPLAIN says that Flink would not understand: each query with the notes that it gets, as parts of their text. What Flink 2.3 takes has none.

use pelton_plan::{Catalog, Statement, Table, explain, parse, plan_statements};

const TABLES: &str = "CREATE TABLE t (k INT, v BIGINT, f FLOAT, m DECIMAL(10, 2), s STRING, d DATE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
    CREATE TABLE into_int (i INT);
    CREATE TABLE into_double (x DOUBLE);
    CREATE TABLE words (`value` INT, `day` INT);
    CREATE TABLE bare (value INT);
    CREATE TABLE slow (k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '300' SECOND)";

const CLOSES: &str = "a window closes when the watermark reaches its end";

const IN_TIME: &str = "a row at the watermark is in time for functions OVER rows";

const TUMBLE: &str =
    "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end";
const HOP: &str = "FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)) GROUP BY window_start, window_end";
const SESSION: &str =
    "FROM TABLE(SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end";

/// A query, and parts of the notes that it gets.
type Case = (&'static str, &'static [&'static str]);

const FLAT: &[Case] = &[
    ("SELECT k + 1 AS a, 7 AS b, COALESCE(k, 0) AS c, MOD(v, 2) AS e FROM t", &[]),
    ("SELECT CAST(v + 1 AS INT) AS a, CAST(7 AS INT) AS b FROM t", &[]),
    ("SELECT TO_TIMESTAMP_LTZ(1.5, 0) AS a, TO_TIMESTAMP_LTZ(v, 3) AS b FROM t", &[]),
    ("SELECT CAST(m AS TIMESTAMP_LTZ(3)) AS a FROM t", &["Flink has no cast of DECIMAL(10, 2) to TIMESTAMP_LTZ(3)"]),
    ("SELECT CAST(v AS TIMESTAMP(3)) AS a FROM t", &["Flink has no cast of BIGINT to TIMESTAMP(3)"]),
    // Reserved words.
    ("SELECT `value`, `day` FROM words", &[]),
    ("SELECT value FROM words", &["value is a reserved word of Flink"]),
    ("SELECT w.value, w.day AS total FROM words AS w", &["value is a reserved word", "day is a reserved word"]),
    ("SELECT k AS rank FROM t", &["rank is a reserved word"]),
    ("SELECT k AS `rank`, s AS name, v AS total FROM t", &[]),
    ("SELECT result.k FROM t AS result", &["result is a reserved word"]),
    ("WITH start AS (SELECT k FROM t) SELECT k FROM start", &["start is a reserved word"]),
    ("SELECT x FROM (SELECT k FROM t) AS u (x)", &[]),
    ("SELECT user FROM (SELECT k FROM t) AS u (user)", &["user is a reserved word"]),
    ("SELECT `value` FROM bare", &["value is a reserved word of Flink; write `value` in backticks: table bare"]),
    // Intervals.
    (
        "SELECT ts + INTERVAL '99' DAY AS a, ts + INTERVAL '100' DAY(3) AS b, ts + INTERVAL '1.5' SECOND AS c FROM t",
        &[],
    ),
    ("SELECT ts + INTERVAL '100' DAY AS a FROM t", &["Flink takes 2 digits in INTERVAL '100' DAY; write DAY(3)"]),
    (
        "SELECT k FROM slow",
        &["Flink takes 2 digits in INTERVAL '300' SECOND; write SECOND(3), or a larger unit: table slow"],
    ),
    // Comparisons.
    (
        "SELECT k FROM t WHERE k = 5 AND s = '5' AND v > '5' AND v BETWEEN '1' AND '5' AND k IN ('1', '2') AND s > 5",
        &[],
    ),
    ("SELECT k FROM t WHERE k = '5'", &["Flink does not compare INT with STRING"]),
    ("SELECT k FROM t WHERE s <> 5", &["Flink does not compare STRING with INT"]),
    ("SELECT k FROM t WHERE k IN (1, '2')", &["Flink does not compare INT with STRING"]),
    ("SELECT CASE k WHEN '1' THEN 2 END AS a FROM t", &["Flink does not compare INT with STRING"]),
    ("SELECT k FROM t WHERE d = DATE '2024-01-01' AND ts = TIMESTAMP '2024-01-01 00:00:00' AND d = '2024-01-01'", &[]),
    ("SELECT k FROM t WHERE d < ts", &["Flink does not compare DATE with TIMESTAMP(3)"]),
    ("SELECT k FROM t WHERE d BETWEEN ts AND ts", &["Flink does not compare DATE with TIMESTAMP(3)"]),
    // Inserts.
    ("INSERT INTO into_int SELECT k FROM t", &[]),
    ("INSERT INTO into_int SELECT 7", &[]),
    ("INSERT INTO into_int SELECT CAST(v AS INT) FROM t", &[]),
    ("INSERT INTO into_int SELECT v FROM t", &["Flink does not insert BIGINT into the column i of type INT"]),
    ("INSERT INTO into_double SELECT v FROM t", &[]),
    // Functions OVER rows.
    ("SELECT SUM(v) OVER (PARTITION BY k ORDER BY ts) AS a FROM t", &[IN_TIME]),
    (
        "SELECT SUM(v) FILTER (WHERE k > 1) OVER (ORDER BY ts) AS a FROM t",
        &[IN_TIME, "Flink has no FILTER of functions OVER rows"],
    ),
    ("SELECT s LIKE 'a%' AS a, s SIMILAR TO 'a' AS b, UPPER(s) AS c FROM t", &[]),
    ("SELECT k, v FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) = 1", &[]),
];
/// What is selected, from what, and notes.
const WINDOWS: &[(&str, &str, &[&str])] = &[
    ("SUM(k) AS a, AVG(k) AS b, AVG(f) AS c, STDDEV_POP(v) AS e", TUMBLE, &[CLOSES]),
    ("AVG(CAST(v AS DOUBLE)) AS a, SUM(CAST(k AS DOUBLE)) AS b, STDDEV_POP(CAST(v AS DOUBLE)) AS c", TUMBLE, &[CLOSES]),
    ("FIRST_VALUE(v) AS a", TUMBLE, &[CLOSES]),
    ("FIRST_VALUE(v) AS a", HOP, &[CLOSES, "Flink has FIRST_VALUE and LAST_VALUE in windows of TUMBLE only"]),
    ("LAST_VALUE(v) AS a", SESSION, &[CLOSES, "Flink has FIRST_VALUE and LAST_VALUE in windows of TUMBLE only"]),
    ("ARRAY_AGG(v) AS a, LISTAGG(s) AS b", HOP, &[CLOSES]),
];

fn cases() -> Vec<(String, &'static [&'static str])> {
    let flat = FLAT.iter().map(|(sql, notes)| ((*sql).to_string(), *notes));
    flat.chain(WINDOWS.iter().map(|(columns, from, notes)| (format!("SELECT {columns} {from}"), *notes))).collect()
}

#[test]
fn each_query_has_the_notes_that_it_needs_and_no_others() {
    let mut catalog = Catalog::default();
    for parsed in parse(TABLES).expect("the tables parse") {
        let Statement::CreateTable(definition) = parsed.statement else { panic!("only tables are created") };
        let delivered = definition.physical_schema().as_ref().clone();
        catalog.add_table(Table::new(definition, delivered, false).expect("fits")).expect("is new");
    }
    let mut wrong = Vec::new();
    for (sql, expected) in cases() {
        let parsed = parse(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let planned = plan_statements(&catalog, &[&parsed[0].statement]);
        let planned = planned.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let notes = explain::portability(&planned);
        let is_noted = |part: &&str| notes.iter().any(|note| note.contains(*part));
        if notes.len() != expected.len() || !expected.iter().all(is_noted) {
            wrong.push(format!("{sql}\n  expected {expected:?}\n  found {notes:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
