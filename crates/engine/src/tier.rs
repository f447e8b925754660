//! The code of a program's pipelines.

use std::sync::Arc;

use pelton_compiler::CompileError;
use pelton_plan::pipeline::Program;
use pelton_runtime::graph::KernelSlot;
use pelton_state::join_index::JoinIndex;

/// The code of each of a program's pipelines.
pub(crate) fn kernels(program: &Program, lookups: &[Arc<JoinIndex>]) -> Result<Vec<Arc<KernelSlot>>, CompileError> {
    let pipelines = 0..program.pipelines.len();
    let slot = |pipeline| Ok(Arc::new(KernelSlot::new(pelton_compiler::interpret(program, pipeline, lookups)?)));
    pipelines.map(slot).collect()
}
