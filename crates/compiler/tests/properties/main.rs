//! Every way to run a query gives the same rows: interpreted, compiled, cut into blocks of any size, spread over
//! workers, changing from one tier to the other halfway; and they are the rows that a model computes one at a time.
//!
//! `PELTON_PROPERTY_CASES` sets how many random queries are tried.

mod choices;
mod columns;
mod expressions;
mod model;
mod queries;
mod runs;

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion_common::ScalarValue;
use pelton_compiler::{compile, interpret};
use pelton_state::join_index::JoinIndex;
use pelton_state::kernel::KernelError;
use proptest::prelude::*;

use choices::{Choices, Noise};
use model::{Outcome, Row, table_rows};
use queries::Query;
use runs::{BOUNDS, Run};

fn config() -> ProptestConfig {
    let cases = std::env::var("PELTON_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(256);
    ProptestConfig { cases, max_shrink_iters: 2_000, ..ProptestConfig::with_source_file("properties") }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_way_to_run_a_query_gives_the_rows_of_the_model(choices in prop::collection::vec(any::<u32>(), 50..500)) {
        check(&choices);
    }
}

/// The property means something only as long as random queries do more than nothing.
#[test]
fn random_queries_fail_sometimes_and_have_rows_and_groups_often() {
    let (mut failures, mut streams, mut groups, mut joins) = (0, 0, 0, 0);
    for seed in 0..300 {
        let mut noise = Noise::new(seed);
        let choices: Vec<u32> = (0..300).map(|_| noise.next() as u32).collect();
        let Case { query, run } = Case::new(&choices);
        match model::outcome(&query, &run.rows(), BOUNDS) {
            Outcome::Failed => failures += 1,
            Outcome::Rows(rows) if rows.len() > 3 => {
                joins += usize::from(!query.tables.is_empty());
                *if query.window().is_some() { &mut groups } else { &mut streams } += 1;
            }
            Outcome::Rows(_) => {}
        }
    }
    let reached = [failures, streams, groups, joins];
    assert!(reached.iter().all(|&count| count >= 10) && failures <= 60, "{reached:?}");
}

/// A query, its input and how it is cut.
struct Case {
    query: Query,
    run: Run,
}

impl Case {
    fn new(choices: &[u32]) -> Case {
        let mut choices = Choices::new(choices);
        let schema = columns::schema(&mut choices, "c", 6);
        let query = queries::query(&mut choices, &schema);
        let rows = *choices.pick(&[10, 1, 150, 40, 80, 0, 700, 20]);
        let batch = columns::rows(&mut choices, &schema, rows);
        let workers = if is_exact(&query) { 2 } else { 1 };
        let run = Run::new(&mut choices, &batch, workers);
        Case { query, run }
    }
}

/// Whether the result does not depend on the order of the rows: floating-point sums round.
fn is_exact(query: &Query) -> bool {
    use pelton_data::aggregate::Accumulate::SumFloat;
    query.window().is_some_and(|window| window.accumulators.iter().all(|kept| kept.accumulate != SumFloat))
}

fn check(choices: &[u32]) {
    let Case { query, run } = Case::new(choices);
    let expected = model::outcome(&query, &run.rows(), BOUNDS);
    let lookups: Vec<_> =
        query.tables.iter().map(|(rows, keys)| Arc::new(JoinIndex::new(rows.clone(), keys))).collect();
    let interpreted = interpret(&query.program, 0, &lookups).unwrap();
    compare("interpreted", &query, &expected, run.outcome(&query, [&interpreted, &interpreted]));
    let compiled = compile(&query.program, 0, &lookups).unwrap().kernel;
    compare("compiled", &query, &expected, run.outcome(&query, [&compiled, &compiled]));
    compare("mixed", &query, &expected, run.outcome(&query, [&interpreted, &compiled]));
}

fn compare(how: &str, query: &Query, expected: &Outcome, actual: Result<Vec<RecordBatch>, KernelError>) {
    match (expected, actual) {
        (Outcome::Failed, Err(_)) => {}
        (Outcome::Failed, Ok(_)) => panic!("{how}: rows, where the model failed\n{:#?}", query.program),
        (Outcome::Rows(_), Err(error)) => panic!("{how}: {error}\n{:#?}", query.program),
        (Outcome::Rows(expected), Ok(batches)) => {
            let schema = match &query.pipeline().target {
                pelton_plan::pipeline::Target::Stream { schema, .. } => schema,
                pelton_plan::pipeline::Target::Window { window, .. } => &query.program.windows[*window].schema,
            };
            assert!(batches.iter().all(|batch| &batch.schema() == schema));
            let mut actual = printed(batches.iter().flat_map(table_rows));
            let mut expected = printed(expected.iter().cloned());
            if query.window().is_some() {
                actual.sort();
                expected.sort();
            }
            if actual != expected {
                panic!("{how}: {}\n{:#?}", difference(&expected, &actual), query.program);
            }
        }
    }
}

/// Rows as text that differs where values do; all NaNs are alike.
fn printed(rows: impl Iterator<Item = Row>) -> Vec<String> {
    let one = |value: ScalarValue| match value {
        ScalarValue::Float64(Some(value)) if value.is_nan() => "NaN".to_owned(),
        ScalarValue::Float32(Some(value)) if value.is_nan() => "NaN".to_owned(),
        other => format!("{other:?}"),
    };
    rows.map(|row| row.into_iter().map(one).collect::<Vec<_>>().join(", ")).collect()
}

fn difference(expected: &[String], actual: &[String]) -> String {
    let only = |left: &[String], right: &[String]| {
        let rows: Vec<String> = left.iter().filter(|row| !right.contains(row)).take(5).cloned().collect();
        rows.join("\n  ")
    };
    format!(
        "{} rows expected, {} came\nmissing:\n  {}\nunexpected:\n  {}",
        expected.len(),
        actual.len(),
        only(expected, actual),
        only(actual, expected)
    )
}
