//! How much memory the state of a query's windows has, with slices and with a table for each window.

use std::time::Duration;

use super::file::{Benchmark, Case};
use super::report::{Figure, Samples, State};
use super::{Arguments, BenchError, measure};

/// How often the query is asked.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Both in turn.
pub(super) fn measure(benchmark: &Benchmark, case: &Case, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let statements = benchmark.statements(case, arguments.seconds, "");
    let [mut slices, mut buckets] = [const { Samples(Vec::new()) }; 2];
    let most = |windows: &str| -> Result<f64, BenchError> {
        let settings = [("pelton.windows", windows)];
        let query = measure::start(&statements.setup, &statements.query, &settings, arguments.workers)?;
        let control = query.control();
        let mut most = 0;
        while !control.has_ended() {
            most = most.max(control.progress().operators.iter().map(|operator| operator.state_bytes).sum());
            std::thread::sleep(LOOK_INTERVAL);
        }
        query.wait()?;
        Ok(most as f64)
    };
    for _ in 0..arguments.repeat.max(1) {
        slices.0.push(most("slices")?);
        buckets.0.push(most("buckets")?);
    }
    let (bench, case) = (benchmark.name.clone(), case.name.clone());
    Ok(vec![Figure::State(State { bench, case, workers: arguments.workers, slices, buckets })])
}
