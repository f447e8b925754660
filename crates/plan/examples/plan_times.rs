//! How long statements take to plan as they grow: `cargo run --release -p pelton-plan --example plan_times [NAME]`.
//!
//! Each case is planned at half its size and at its size: the last column says by which factor time grows. Work that grows with the square shows as 4.

use std::time::{Duration, Instant};

use pelton_plan::{Catalog, Statement, Table, parse, plan_statements};

/// A statement of some size.
struct Case {
    name: &'static str,
    size: usize,
    sql: fn(usize) -> String,
}

const CASES: &[Case] = &[
    Case {
        name: "sums",
        size: 2_000,
        sql: |size| format!("SELECT k, {} FROM t GROUP BY k", list(size, ", ", |n| format!("SUM(v + {n}) AS s{n}"))),
    },
    Case {
        name: "sums-of-columns",
        size: 2_000,
        sql: |size| format!("SELECT {} FROM wide", list(size, ", ", |n| format!("SUM(c{n}) AS s{n}"))),
    },
    Case {
        name: "columns",
        size: 2_000,
        sql: |size| format!("SELECT {} FROM wide", list(size, ", ", |n| format!("c{n} + 1 AS d{n}"))),
    },
    Case { name: "star", size: 2_000, sql: |_| "SELECT * FROM wide WHERE c1 > 5".to_string() },
    Case {
        name: "concat",
        size: 1_000,
        sql: |size| format!("SELECT CONCAT({}) AS x FROM t", list(size, ", ", |_| "s".to_string())),
    },
    Case {
        name: "or",
        size: 20_000,
        sql: |size| format!("SELECT k FROM t WHERE {}", list(size, " OR ", |n| format!("k = {n}"))),
    },
    Case {
        name: "and",
        size: 2_000,
        sql: |size| format!("SELECT k FROM t WHERE {}", list(size, " AND ", |n| format!("v <> {n}"))),
    },
    Case {
        name: "case",
        size: 1_000,
        sql: |size| format!("SELECT CASE {} END AS x FROM t", list(size, " ", |n| format!("WHEN v = {n} THEN {n}"))),
    },
    Case {
        name: "plus",
        size: 250,
        sql: |size| format!("SELECT {} AS x FROM t", list(size, " + ", |_| "v".to_string())),
    },
    Case {
        name: "tables",
        size: 800,
        sql: |size| {
            let tables = list(size, ", ", |n| match n {
                0 => "t0 AS (SELECT k, v FROM t)".to_string(),
                n => format!("t{n} AS (SELECT k, v FROM t{} WHERE v > {n})", n - 1),
            });
            format!("WITH {tables} SELECT * FROM t{}", size - 1)
        },
    },
    Case {
        name: "unions",
        size: 200,
        sql: |size| list(size, " UNION ALL ", |n| format!("SELECT k, v + {n} AS v FROM t")),
    },
];

fn list(size: usize, separator: &str, part: impl Fn(usize) -> String) -> String {
    (0..size).map(part).collect::<Vec<_>>().join(separator)
}

fn main() {
    let wanted = std::env::args().nth(1);
    let catalog = catalog();
    println!("{:<16} {:>7} {:>12} {:>12} {:>7}", "case", "size", "half", "whole", "grows");
    for case in CASES.iter().filter(|case| wanted.as_deref().is_none_or(|wanted| wanted == case.name)) {
        let [half, whole] = [case.size / 2, case.size].map(|size| time(&catalog, &(case.sql)(size)));
        let grows = whole.as_secs_f64() / half.as_secs_f64();
        println!("{:<16} {:>7} {half:>12.2?} {whole:>12.2?} {grows:>7.1}", case.name, case.size);
    }
}

/// The tables that the cases read.
fn catalog() -> Catalog {
    let columns = list(2_000, ", ", |n| format!("c{n} BIGINT"));
    let text = format!("CREATE TABLE t (k BIGINT, v BIGINT, s STRING); CREATE TABLE wide ({columns})");
    let mut catalog = Catalog::default();
    for parsed in parse(&text).expect("the tables parse") {
        let Statement::CreateTable(definition) = parsed.statement else { unreachable!("only tables are created") };
        let delivered = definition.physical_schema().as_ref().clone();
        let table = Table::new(definition, delivered, true).expect("the columns are those declared");
        catalog.add_table(table).expect("each name comes once");
    }
    catalog
}

fn time(catalog: &Catalog, sql: &str) -> Duration {
    let start = Instant::now();
    let parsed = parse(sql).unwrap_or_else(|error| panic!("{error}"));
    plan_statements(catalog, &[&parsed[0].statement]).unwrap_or_else(|error| panic!("{error}"));
    start.elapsed()
}
