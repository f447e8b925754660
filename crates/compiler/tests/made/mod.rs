//! Programs of one pipeline, and windows, without what most tests do not need.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use pelton_data::aggregate::Accumulator;
use pelton_plan::pipeline::{Pipeline, Program, Window, WindowAggregate};

/// A program that is this pipeline and the windows that it feeds.
pub fn program(pipeline: Pipeline, windows: Vec<WindowAggregate>) -> Program {
    Program {
        sources: Vec::new(),
        lookups: Vec::new(),
        pipelines: vec![pipeline],
        windows,
        shared: Vec::new(),
        overs: Vec::new(),
        outputs: Vec::new(),
    }
}

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
        gathered: Vec::new(),
        time_column: None,
    }
}
