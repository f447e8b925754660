//! What `EXPLAIN` says.

use std::fmt::Write;

use pelton_plan::query::Planned;

use crate::error::Error;

/// The logical plan, the pipelines, the kernels, and what is not portable to Flink, as text.
///
/// # Errors
/// [`Error::Compile`] where a pipeline cannot be described.
pub(crate) fn explain(planned: &Planned) -> Result<String, Error> {
    let mut text = String::new();
    let program = &planned.program;
    let _ = writeln!(text, "== logical plan ==\n{}", pelton_plan::explain::logical_plans(planned).trim_end());
    let _ = writeln!(text, "\n== pipelines ==\n{}", pelton_plan::explain::pipelines(program).trim_end());
    let notes = pelton_plan::explain::portability(planned);
    if !notes.is_empty() {
        let _ = writeln!(text, "\n== not portable to Flink ==\n{}", notes.join("\n"));
    }
    Ok(text)
}
