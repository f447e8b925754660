//! Programs of one pipeline, and windows, without what most tests do not need.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use pelton_data::aggregate::Accumulator;
use pelton_plan::pipeline::{Operator, Pipeline, Port, Program, Window, WindowAggregate};

/// A program that is this pipeline and the windows that it feeds.
pub fn program(pipeline: Pipeline, windows: Vec<WindowAggregate>) -> Program {
    Program {
        sources: Vec::new(),
        lookups: Vec::new(),
        pipelines: vec![pipeline],
        operators: windows.into_iter().map(Operator::Window).collect(),
        outputs: Vec::new(),
    }
}

/// Where the only pipeline feeds the only operator.
#[allow(dead_code, reason = "not every test groups rows")]
pub const PORT: Port = Port { operator: 0, number: 0 };

/// Windows without output columns.
pub fn aggregate(window: Window, keys: Vec<FieldRef>, accumulators: Vec<Accumulator>) -> WindowAggregate {
    WindowAggregate {
        window,
        bounds: window,
        keys,
        accumulators,
        columns: Vec::new(),
        schema: Arc::new(Schema::empty()),
        session_slots: None,
        ranking: None,
        collected: Vec::new(),
        time_column: None,
        slices: None,
    }
}
