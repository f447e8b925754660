//! The hand-written loops over the rows of two tables.

use std::hint::black_box;

use pelton_data::{Block, Micros};

use super::{EachLoop, Input, Loop};
use crate::error::BenchError;
use crate::file::{Benchmark, Case};
use crate::reference::interval_join::{self, TimedPairs, TimedSide};
use crate::reference::table_join::Table;
use crate::reference::window_join::{self, Pairs, Side};

/// The loop of this name for a case over the table that the benchmark reads and the one that it joins; `None` where it is none of a join. Each call goes over about `call_rows` rows of the first.
///
/// # Errors
/// Where the benchmark joins nothing, or the other table cannot be read.
pub fn named(
    name: &str,
    benchmark: &Benchmark,
    case: &Case,
    setup: &str,
    input: &Input,
    call_rows: usize,
) -> Result<Option<Loop>, BenchError> {
    if !name.starts_with("join-") && !name.starts_with("probe-") {
        return Ok(None);
    }
    let other = benchmark.other.as_ref();
    let other =
        other.ok_or_else(|| BenchError::Input(format!("the loop '{name}' needs a line 'joins' or 'probes'")))?;
    let table = Input::load(setup, &other.table)?;
    let left: Vec<usize> = benchmark.columns.iter().map(|column| input.column(column)).collect();
    let right: Vec<usize> = other.columns.iter().map(|column| table.column(column)).collect();
    let needs = |what: &str| BenchError::Input(format!("the loop '{name}' needs {what}"));
    let number =
        |name: &str| case.number(name).ok_or_else(|| needs(&format!("a number '{name}' of case {}", case.name)));
    match name {
        "probe-dense" | "probe-hashed" => {
            let (&[key, value], &[table_key, table_value]) = (&left[..], &right[..]) else {
                return Err(needs("a key and a value of both tables"));
            };
            let rows = pairs_of(&table, table_key, table_value);
            let table = if name == "probe-dense" { Table::dense(&rows) } else { Table::hashed(&rows) };
            Ok(Some(Loop::Each(probe(table, (key, value)))))
        }
        "join-windows" | "join-windows-once" => {
            let size = number("window_ms")? as Micros * 1_000;
            let pairs = if name == "join-windows" { Pairs::All } else { Pairs::RightOnce };
            let blocks = table.repeated(input.repetitions(call_rows));
            Ok(Some(Loop::Together(Box::new(move |lefts, workers| {
                let sides = [side(lefts, &left), side(&blocks, &right)];
                black_box(window_join::join(sides, size, pairs, workers, &|output| {
                    black_box(output);
                }));
            }))))
        }
        "join-interval" | "join-latest" => {
            let (&[key, time, value], &[right_key, right_time, right_value]) = (&left[..], &right[..]) else {
                return Err(needs("a key, a time and a value of both tables"));
            };
            let keys = number("keys")?;
            let ticks = number("distance_ms").unwrap_or(0) as i64;
            let is_interval = name == "join-interval";
            let blocks = table.repeated(input.repetitions(call_rows));
            Ok(Some(Loop::Together(Box::new(move |lefts, workers| {
                in_stretches([lefts, &blocks], workers, &|lefts, rights| {
                    let left = TimedSide { blocks: lefts, key, time, value };
                    let right = TimedSide { blocks: rights, key: right_key, time: right_time, value: right_value };
                    match is_interval {
                        true => interval_join::near([left, right], keys, ticks, take),
                        false => interval_join::latest([left, right], keys, take),
                    }
                });
            }))))
        }
        other => Err(BenchError::Input(format!("there is no reference loop '{other}'"))),
    }
}

fn take(pairs: &TimedPairs) {
    black_box(pairs);
}

/// A side whose key is the first of its columns.
fn side<'a>(blocks: &'a [Block], columns: &'a [usize]) -> Side<'a> {
    Side { blocks, key: columns[0], columns }
}

/// Each thread joins a stretch of both streams. Pairs of rows of two stretches are left out: they are few.
fn in_stretches(sides: [&[Block]; 2], workers: usize, join: &(dyn Fn(&[Block], &[Block]) + Sync)) {
    let [lefts, rights] = sides.map(|blocks| blocks.chunks(blocks.len().div_ceil(workers).max(1)));
    std::thread::scope(|scope| {
        for (lefts, rights) in lefts.zip(rights) {
            scope.spawn(move || join(lefts, rights));
        }
    });
}

fn pairs_of(table: &Input, key: usize, value: usize) -> Vec<(i64, i64)> {
    let column = |block, column| super::integers(block, column).iter().copied();
    table.blocks.iter().flat_map(|block| column(block, key).zip(column(block, value))).collect()
}

fn probe(table: Table, columns: (usize, usize)) -> EachLoop {
    Box::new(move |blocks| {
        let mut output: [Vec<i64>; 3] = Default::default();
        for block in blocks {
            table.probe(block, columns, &mut output);
            black_box(&output);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
name n
what It joins.
reads left_events value event_time
joins right_events value event_time
reference join-windows
case small window_ms=1000

setup
CREATE TABLE left_events (`value` BIGINT NOT NULL, event_time TIMESTAMP(3) NOT NULL, WATERMARK FOR event_time AS event_time) WITH ('connector' = 'hdes', 'rows' = '40000', 'pace' = 'flat-out', 'replay' = 'memory', 'replay.passes' = '1');
CREATE TABLE right_events (`value` BIGINT NOT NULL, event_time TIMESTAMP(3) NOT NULL, WATERMARK FOR event_time AS event_time) WITH ('connector' = 'hdes', 'stream' = '2', 'rows' = '40000', 'pace' = 'flat-out', 'replay' = 'memory', 'replay.passes' = '1');

query
SELECT 1
";

    #[test]
    fn loops_join_what_the_benchmark_names() {
        let benchmark = Benchmark::parse(TEXT).unwrap();
        let case = &benchmark.cases[0];
        let statements = benchmark.statements(case, 1.0, "nowhere");
        let input = Input::load(&statements.setup, &benchmark.table).unwrap();
        let named = |name: &str| named(name, &benchmark, case, &statements.setup, &input, 80_000);
        let Some(Loop::Together(run)) = named("join-windows").unwrap() else { panic!("it has threads itself") };
        run(&input.passes(80_000), 2);
        assert!(named("sums-by-integer").unwrap().is_none());
        let problem = |name: &str| named(name).err().map(|error| error.to_string());
        assert_eq!(problem("join-none").as_deref(), Some("there is no reference loop 'join-none'"));
        let needs = "the loop 'join-interval' needs a key, a time and a value of both tables";
        assert_eq!(problem("join-interval").as_deref(), Some(needs));
    }
}
