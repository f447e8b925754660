//! A case runs in every tier and mix of tiers, and gives the model's rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion_common::ScalarValue;
use pelton_compiler::{compile, interpret};
use pelton_state::join::{Bucket, Lookups};
use pelton_state::kernel::{Kernel, KernelError};
use pelton_state::profile::{PredicateOrder, Profile};

use crate::choices::{Choices, Noise};
use crate::columns;
use crate::model::{self, Outcome, Row, table_rows};
use crate::queries::{self, Query};
use crate::runs::{BOUNDS, Run};

/// A query, its input and how it is cut.
pub struct Case {
    pub query: Query,
    pub run: Run,
}

impl Case {
    /// The case that the choices make.
    pub fn new(choices: &[u32]) -> Case {
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

/// What a fuzzer calls: the case that any bytes make, two of them a choice.
pub fn check_bytes(bytes: &[u8]) {
    let choices = bytes.chunks(2).map(|pair| u32::from(pair[0]) | u32::from(pair.get(1).copied().unwrap_or(0)) << 8);
    check(&choices.collect::<Vec<_>>());
}

/// Compares every way to run the case with the model.
pub fn check(choices: &[u32]) {
    let Case { query, run } = Case::new(choices);
    let expected = model::outcome(&query, &run.rows(), BOUNDS);
    let lookups = lookups(&query);
    let interpreted = interpret(&query.program, 0).unwrap();
    compare("interpreted", &query, &expected, run.outcome(&query, &lookups, [&interpreted, &interpreted]));
    let compiled = compile(&query.program, 0, &lookups.shapes()).unwrap().kernel;
    compare("compiled", &query, &expected, run.outcome(&query, &lookups, [&compiled, &compiled]));
    compare("mixed", &query, &expected, run.outcome(&query, &lookups, [&interpreted, &compiled]));
    if let Some(fetching) = compiled.fetching(true) {
        compare("fetching ahead", &query, &expected, run.outcome(&query, &lookups, [&fetching, &compiled]));
    }
    check_other_tables(&query, &run, [&interpreted, &compiled]);
    let others = [&compiled, &interpreted];
    for (order, other) in orders(compiled.as_ref(), choices).iter().zip(others) {
        let reordered = compiled.reordered(order).expect("compiled code knows other orders");
        assert_eq!(&reordered.order(), order);
        compare("reordered", &query, &expected, run.outcome(&query, &lookups, [&reordered, other]));
        let mut profile = Profile::default();
        run.profile(reordered.as_ref(), &lookups, &mut profile);
        assert_eq!(profile, profiled(compiled.as_ref(), &lookups, &run), "counts do not depend on the order");
    }
}

/// Gives kernels other tables: of the shape that they were compiled for, and of others.
fn check_other_tables(query: &Query, run: &Run, kernels: [&Arc<dyn Kernel>; 2]) {
    if query.tables.is_empty() {
        return;
    }
    let fewer = |rows: &RecordBatch| rows.slice(rows.num_rows() / 3, rows.num_rows() / 2);
    let twice = |rows: &RecordBatch| concat_batches(&rows.schema(), [rows, rows]).unwrap();
    let none = |rows: &RecordBatch| rows.slice(0, 0);
    for (name, change) in [("fewer", &fewer as &dyn Fn(&RecordBatch) -> _), ("twice", &twice), ("none", &none)] {
        let tables = query.tables.iter().map(|(rows, keys)| (change(rows), keys.clone())).collect();
        let query = Query { program: query.program.clone(), tables };
        let (expected, lookups) = (model::outcome(&query, &run.rows(), BOUNDS), lookups(&query));
        for (tier, kernel) in ["interpreted", "compiled"].into_iter().zip(kernels) {
            let how = format!("{tier} with other tables: {name}");
            compare(&how, &query, &expected, run.outcome(&query, &lookups, [kernel, kernel]));
        }
    }
}

fn lookups(query: &Query) -> Lookups {
    Lookups::new(query.tables.iter().map(|(rows, keys)| Arc::new(Bucket::new(rows.clone(), keys))).collect())
}

fn profiled(kernel: &dyn Kernel, lookups: &Lookups, run: &Run) -> Profile {
    let mut profile = Profile::default();
    run.profile(kernel, lookups, &mut profile);
    profile
}

/// Two orders of a kernel's predicates that chance chooses, where it has several.
fn orders(kernel: &dyn Kernel, choices: &[u32]) -> Vec<PredicateOrder> {
    let planned = kernel.order();
    if planned.tested.len() < 2 {
        return Vec::new();
    }
    let seed = choices.iter().fold(1, |seed: u64, &choice| seed.wrapping_mul(31).wrapping_add(choice.into()));
    let mut noise = Noise::new(seed);
    let mut below = |end: usize| noise.next() as usize % end;
    let one = |_| {
        let mut order = planned.clone();
        let (primitives, loops) = order.tested.split_at_mut(planned.over_blocks);
        for part in [primitives, loops] {
            (1..part.len()).rev().for_each(|last| part.swap(last, below(last + 1)));
        }
        order.over_blocks = if planned.over_blocks > 0 { 1 + below(planned.over_blocks) } else { 0 };
        order
    };
    (0..2).map(one).collect()
}

fn compare(how: &str, query: &Query, expected: &Outcome, actual: Result<Vec<RecordBatch>, KernelError>) {
    match (expected, actual) {
        (Outcome::Failed, Err(_)) => {}
        (Outcome::Failed, Ok(_)) => panic!("{how}: rows, where the model failed\n{:#?}", query.program),
        (Outcome::Rows(_), Err(error)) => panic!("{how}: {error}\n{:#?}", query.program),
        (Outcome::Rows(expected), Ok(batches)) => {
            let schema = match &query.pipeline().target {
                pelton_plan::pipeline::Target::Stream { schema, .. }
                | pelton_plan::pipeline::Target::Rows { schema, .. } => schema,
                pelton_plan::pipeline::Target::Groups { port, .. } => &query.program.groups(port.operator).schema,
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
