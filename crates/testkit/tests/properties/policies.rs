//! Ten queries at once under every policy, with blocks and with queues between operators, on one worker and on two: results are the same.

use pelton_runtime::policy::PolicyName;
use pelton_testkit::rows::row_lines;
use pelton_testkit::script::engine::{execute, session};
use pelton_testkit::script::run::Configuration;

/// Rows of each query's input: queues are slow.
const ROWS: i64 = 3_000;

/// What the queries read: one row in ten milliseconds, of which some come late by less than the watermark waits; names that some keys have; and a view.
const TABLES: &str = "
CREATE TABLE made (i BIGINT NOT NULL) WITH (
    'connector' = 'datagen', 'number-of-rows' = '${rows}', 'pace' = 'flat-out', 'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '${rows}'
);
CREATE TABLE t (
    i BIGINT NOT NULL, k AS MOD(i * 7919, 13), v AS MOD(i * i * 31, 1009), s AS CASE WHEN MOD(i, 5) = 0 THEN 'five' ELSE 'other' END,
    ts AS TIMESTAMPADD(SECOND, CAST(i / 100 - CASE WHEN MOD(i, 17) = 0 THEN 1 ELSE 0 END AS INT), TIMESTAMP '2020-01-01 00:00:00'),
    WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) WITH (
    'connector' = 'datagen', 'number-of-rows' = '${rows}', 'pace' = 'flat-out', 'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '${rows}'
);
CREATE VIEW named AS SELECT i AS k, CAST(i * 100 AS BIGINT) AS factor FROM made WHERE i < 9;
CREATE VIEW per_key AS
    SELECT window_start, window_end, window_time AS at, k, SUM(v) AS total FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND))
    GROUP BY window_start, window_end, window_time, k;
CREATE VIEW timed AS SELECT at, k, total FROM per_key;
CREATE VIEW few AS SELECT k, ts FROM t WHERE v < 60";

/// One of each kind of operator.
const QUERIES: [&str; 10] = [
    "SELECT i, v * 2 AS doubled FROM t WHERE v > 300 AND k <> 4",
    "SELECT window_end, k, s, COUNT(*) AS n, AVG(v) AS mean FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '3' SECOND)) GROUP BY window_start, window_end, k, s",
    "SELECT window_end, k, MIN(v) AS least, SUM(v) AS total FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND)) GROUP BY window_start, window_end, k",
    "SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(SESSION(TABLE few PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY window_start, window_end, k",
    "SELECT i, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '3' SECOND PRECEDING AND CURRENT ROW) AS total FROM t",
    "SELECT window_end, k, total, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC, k) AS place FROM per_key) WHERE place <= 3",
    "SELECT t.i, n.factor + t.v AS rated FROM t LEFT JOIN named AS n ON t.k = n.k",
    "SELECT i, v FROM t WHERE v < 50 UNION ALL SELECT i, k FROM t WHERE k = 7",
    "SELECT v, i FROM t ORDER BY v DESC, i LIMIT 200 OFFSET 3",
    "SELECT window_end, COUNT(DISTINCT k) AS keys, MAX(total) AS most FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(at), INTERVAL '4' SECOND)) GROUP BY window_start, window_end",
];

/// The rows of each query, in some order. All run at once.
fn results(configuration: Configuration) -> Vec<Vec<String>> {
    let session = session(configuration);
    assert_eq!(execute(&session, &TABLES.replace("${rows}", &ROWS.to_string())).error, None);
    let queries: Vec<_> = QUERIES.iter().map(|sql| session.sql(sql).unwrap()).collect();
    let lines = queries.into_iter().map(|query| {
        let batches = query.collect().unwrap();
        let mut lines: Vec<String> = batches.iter().flat_map(|batch| row_lines(batch).unwrap()).collect();
        lines.sort();
        lines
    });
    lines.collect()
}

#[test]
fn results_do_not_depend_on_policies_data_passing_or_workers() {
    let (tier, block_rows) = ("auto", None);
    let first = Configuration { tier: "interpret", workers: 1, block_rows, policy: "adaptive", data_passing: "blocks" };
    let expected = results(first);
    for (sql, lines) in QUERIES.iter().zip(&expected) {
        assert!(lines.len() >= 8, "{} rows of {sql}", lines.len());
    }
    for policy in PolicyName::all() {
        for data_passing in ["blocks", "queues"] {
            for workers in [1, 2] {
                let configuration = Configuration { tier, workers, block_rows, policy: policy.name(), data_passing };
                for (sql, (found, expected)) in QUERIES.iter().zip(results(configuration).iter().zip(&expected)) {
                    assert!(found == expected, "{configuration}: other rows of {sql}");
                }
            }
        }
    }
}
