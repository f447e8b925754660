//! What is kept for windows that slide by one row, and how long each result takes when rows come one at a time (LightSaber, figures 15c and f): the engine's
//! operator, and each algorithm of the literature, over the same values.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Float64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, TimeUnit};
use pelton_data::TimeColumn;
use pelton_data::over::{Frame, OverCall, OverColumn, OverFunction, OverSpec};
use pelton_state::over::{OverRows, ROWS_AT_ONCE_MAX};

use super::BenchError;
use super::file::{Benchmark, Case};
use super::loops::{self, Input};
use super::report::{Figure, RetainedSlices};

/// Rows that come before those whose results are timed: as many as the longest window has, at most so many.
const ROWS_BEFORE_MAX: usize = 1 << 22;

/// Results that are timed.
const RESULTS: usize = 20_000;

/// Rows that come at a time before that.
const BATCH_ROWS: usize = 8192;

/// A line for the engine and for each algorithm; none where the benchmark has no window of doubles that slides by one row, or each is a query of its own.
pub(super) fn measure(benchmark: &Benchmark, case: &Case, input: &Input) -> Result<Vec<Figure>, BenchError> {
    if benchmark.windows_are_queries() || case.parameters.get("type").is_some_and(|of| of != "DOUBLE") {
        return Ok(Vec::new());
    }
    let rows = match case.number("window") {
        Some(rows) => vec![rows],
        None => case.frames(),
    };
    let known: Vec<&String> = benchmark.references.iter().filter(|name| is_sliding(name)).collect();
    let (Some(first), false) = (known.first(), rows.is_empty()) else { return Ok(Vec::new()) };
    let function = if first.contains("min-") { OverFunction::Minimum } else { OverFunction::Sum };
    let values = values(input, rows.iter().copied().max().unwrap_or(0).min(ROWS_BEFORE_MAX) + RESULTS);
    let kept = |strategy: &str, (partials, taken_ns): (usize, Vec<u64>)| {
        let (bench, case) = (benchmark.name.clone(), case.name.clone());
        Figure::RetainedSlices(RetainedSlices::new(bench, case, strategy, partials, taken_ns))
    };
    let mut figures = vec![kept("pelton", engine(function, &rows, &values)?)];
    figures.extend(known.into_iter().map(|name| kept(&format!("loop {name}"), algorithm(name, &rows, &values))));
    Ok(figures)
}

fn is_sliding(name: &str) -> bool {
    loops::sliding_many(name, &[1]).is_some()
}

/// So many values of the column `v`, those of the input over and over.
fn values(input: &Input, count: usize) -> Vec<f64> {
    let column = input.column("v");
    let blocks = input.blocks.iter().map(|block| block.raw_columns()[column].as_primitive::<Float64Type>());
    let mut values: Vec<f64> = blocks.flat_map(|block| block.values().to_vec()).collect();
    while values.len() < count && !values.is_empty() {
        values.extend_from_within(..values.len().min(count - values.len()));
    }
    values.truncate(count);
    values
}

/// How many partial results an algorithm keeps, and how long each result took.
fn algorithm(name: &str, rows: &[usize], values: &[f64]) -> (usize, Vec<u64>) {
    let mut sliding = loops::sliding_many(name, rows).expect("only those that there are were asked for");
    let (before, timed) = values.split_at(values.len() - RESULTS.min(values.len()));
    let mut results = vec![vec![0.0; BATCH_ROWS]; rows.len()];
    before.chunks(BATCH_ROWS).for_each(|values| sliding.slide(values, &mut results));
    let mut one = vec![vec![0.0]; rows.len()];
    let taken_ns = timed.iter().map(|value| {
        took_ns(|| {
            sliding.slide(std::slice::from_ref(value), &mut one);
            std::hint::black_box(&one);
        })
    });
    let taken_ns = taken_ns.collect();
    (sliding.partials(), taken_ns)
}

/// The same of the operator, whose partial results take eight bytes each: what else it has beside them counts as well.
fn engine(function: OverFunction, rows: &[usize], values: &[f64]) -> Result<(usize, Vec<u64>), BenchError> {
    let failed = |error: pelton_state::kernel::KernelError| BenchError::Input(error.to_string());
    let mut over = OverRows::new(spec(function, rows), 1);
    let first_timed = values.len() - RESULTS.min(values.len());
    for first in (0..first_timed).step_by(BATCH_ROWS) {
        let end = first_timed.min(first + BATCH_ROWS);
        over.add(0, batch(&values[first..end], first).into()).map_err(failed)?;
        over.advance(end as i64 * 1_000, (ROWS_AT_ONCE_MAX, BATCH_ROWS)).map_err(failed)?;
    }
    let mut taken_ns = Vec::with_capacity(RESULTS);
    for row in first_timed..values.len() {
        let one = batch(&values[row..=row], row);
        let mut result = Ok(());
        taken_ns.push(took_ns(|| {
            let added = over.add(0, one.into());
            result = added.and_then(|_| over.advance((row as i64 + 1) * 1_000, (ROWS_AT_ONCE_MAX, BATCH_ROWS))).map(
                |rows| {
                    std::hint::black_box(rows);
                },
            );
        }));
        result.map_err(failed)?;
    }
    Ok((over.bytes().div_ceil(size_of::<f64>()), taken_ns))
}

/// The function over each row and those before it, for windows of so many rows each.
fn spec(function: OverFunction, rows: &[usize]) -> OverSpec {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    let call = |&rows: &usize| OverCall {
        function: function.clone(),
        is_distinct: false,
        argument: Some(0),
        frame: Frame::Rows { preceding: Some(rows as u64 - 1) },
        data_type: DataType::Float64,
    };
    let results = (0..rows.len()).map(|call| Field::new(format!("result_{call}"), DataType::Float64, true));
    OverSpec {
        input_schema: batch(&[], 0).schema(),
        time: TimeColumn::new(1, &time),
        keys: Vec::new(),
        calls: rows.iter().map(call).collect(),
        columns: (0..rows.len()).map(OverColumn::Value).collect(),
        schema: Arc::new(Schema::new(results.collect::<Vec<_>>())),
    }
}

/// Rows of a millisecond each, the first of which is the stream's row `first`.
fn batch(values: &[f64], first: usize) -> RecordBatch {
    let times = first as i64..(first + values.len()) as i64;
    let columns: [(&str, ArrayRef, bool); 2] = [
        ("v", Arc::new(Float64Array::from_iter_values(values.iter().copied())), false),
        ("t", Arc::new(TimestampMillisecondArray::from_iter_values(times)), false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("both columns have as many rows")
}

/// How long something took, in nanoseconds, the reading of the clock among it.
fn took_ns(run: impl FnOnce()) -> u64 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_and_all_algorithms_take_each_row_and_keep_its_window() {
        let values: Vec<f64> = (0..RESULTS + 3_000).map(|row| f64::from(row as u32 * 31 % 101)).collect();
        for (function, name) in [(OverFunction::Sum, "sum-slide-side"), (OverFunction::Minimum, "min-slick-deque")] {
            let (partials, taken_ns) = algorithm(name, &[2_000], &values);
            assert!((2_000..=2_048).contains(&partials) && taken_ns.len() == RESULTS);
            // What cannot be the smallest any more is not kept.
            let least = if function == OverFunction::Sum { 2_000 } else { 20 };
            let (partials, taken_ns) = engine(function, &[2_000], &values).unwrap();
            assert!((least..=8_000).contains(&partials), "{partials} partial results");
            assert_eq!(taken_ns.len(), RESULTS);
        }
        let (partials, _) = algorithm("many-sum-flat-fat", &[10, 300], &values);
        assert_eq!(partials, 1_024);
        assert!(!is_sliding("over-averages"));
    }
}
