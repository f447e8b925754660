//! Processes: an engine belongs to the one that has made it.

use pyo3::prelude::*;

use crate::error::invalid;

/// The threads of an engine do not survive a fork.
pub fn check_process(process: u32) -> PyResult<()> {
    match process == std::process::id() {
        true => Ok(()),
        false => Err(invalid(
            "the engine belongs to the process that forked this one: connect again, or start processes with the method 'spawn'",
        )),
    }
}
