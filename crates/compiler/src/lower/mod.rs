//! Pipeline to machine code.
//!
//! Expressions become a graph in which equal ones are one node; each step of the pipeline becomes a loop over rows that
//! computes some nodes and has an effect: it keeps rows, writes columns, or changes accumulators. What machine code
//! cannot compute DataFusion does, before the loop runs.
//!
//! In reading order: [`graph`], [`translate`] and [`convert`] (expressions to nodes), [`emit`] (nodes to instructions),
//! [`accumulate`], [`frame`] (what loops read), [`ask`] (lines of later rows) and [`function`] (loops), [`linear`] and [`selection`] (what needs no machine code), [`plan`]
//! (pipelines to loops).

pub(crate) mod graph;

pub(crate) mod translate;

pub(crate) mod convert;

pub(crate) mod emit;

pub(crate) mod accumulate;

pub(crate) mod ask;

pub(crate) mod frame;

pub(crate) mod function;

pub(crate) mod linear;

pub(crate) mod selection;

pub(crate) mod plan;

use std::sync::Arc;

use pelton_plan::pipeline::Program;
use pelton_state::join::Shape;
use pelton_state::kernel::Kernel;

use crate::describe::{KernelDescription, describe_kernel};
use crate::error::CompileError;

/// A compiled pipeline.
pub struct Compiled {
    /// Its code.
    pub kernel: Arc<dyn Kernel>,
    /// The same for people.
    pub description: KernelDescription,
}

/// Compiles `program.pipelines[pipeline]` for lookup tables of these shapes, which are the program's. It takes tables of other shapes as well, and is
/// slower then.
///
/// # Errors
/// Where an expression has no type, an aggregate does not take its argument's type, or code generation fails.
pub fn compile(program: &Program, pipeline: usize, shapes: &[Shape]) -> Result<Compiled, CompileError> {
    let kernel = plan::plan_kernel(program, pipeline, shapes)?;
    plan::compile_likely(&kernel)?;
    let description = describe_kernel(&kernel);
    Ok(Compiled { kernel: Arc::new(kernel), description })
}
