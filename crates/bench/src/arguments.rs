//! What to measure.

use std::path::PathBuf;

/// What to measure, and how often.
#[derive(Debug, Clone)]
pub struct Arguments {
    /// Names of benchmarks, or `NAME/CASE`; all where there are none.
    pub names: Vec<String>,
    /// Threads.
    pub workers: usize,
    /// How long each measurement takes.
    pub seconds: f64,
    /// Measurements of each thing.
    pub repeat: usize,
    /// Whether the report is for programs: one JSON object a line.
    pub json: bool,
    /// Where pictures are written, if any are.
    pub plots: Option<PathBuf>,
}
