//! The loops of a kernel, and what they share.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::code_memory::Code;
use crate::error::CompileError;
use crate::interpret::expression::Expression;
use crate::interpret::rows::Origin;
use crate::lower::function::{ColumnSource, Effect, Recipe, Variant, columns_read};
use crate::lower::graph::{Graph, NodeId, Operation};

/// What all functions of a kernel have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The pipeline's expressions.
    pub(crate) graph: Graph,
    /// For each column of the pipeline, how machine code reads it.
    pub(crate) columns: Vec<ColumnSource>,
    /// For each column of the pipeline, its name.
    pub(crate) names: Vec<String>,
    /// For each column of the pipeline, where it is.
    pub(crate) origins: Vec<Origin>,
    /// Expressions that DataFusion evaluates before a function runs.
    pub(crate) foreign: Vec<Expression>,
    /// For each lookup, which of the program's tables it looks rows up in; `None` for a flat map, which makes rows.
    pub(crate) tables: Vec<Option<usize>>,
}

/// A loop of machine code over the positions of a call, compiled for the calls that occur.
pub(crate) struct Loop {
    /// What it does.
    pub(crate) effect: Effect,
    /// The columns it reads, foreign ones included.
    pub(super) reads: Vec<NodeId>,
    /// What it computes, as planned: says why a row failed.
    pub(crate) planned: Vec<Expression>,
    /// Of most kinds of calls there is none: a kernel has several loops, and a process many kernels.
    codes: [OnceLock<Box<Code>>; 8],
}

impl Loop {
    /// A loop that is compiled when it first runs.
    pub(crate) fn new(graph: &Graph, effect: Effect, planned: Vec<Expression>) -> Loop {
        let reads = columns_read(graph, &effect);
        Loop { effect, reads, planned, codes: Default::default() }
    }

    /// Compiles it now for calls of a kind that is likely.
    ///
    /// # Errors
    /// As [`Code::compile`].
    pub(crate) fn compile_for(&self, shared: &Shared, variant: Variant) -> Result<(), CompileError> {
        let code = self.recipe(shared, variant).compile()?;
        self.slot(variant).get_or_init(|| Box::new(code));
        Ok(())
    }

    /// How it would be compiled.
    pub(crate) fn recipe<'a>(&'a self, shared: &'a Shared, variant: Variant) -> Recipe<'a> {
        Recipe { graph: &shared.graph, columns: &shared.columns, effect: &self.effect, variant }
    }

    /// The foreign columns it reads.
    pub(crate) fn foreign(&self, graph: &Graph) -> BTreeSet<usize> {
        let index = |&id: &NodeId| match graph.node(id).operation {
            Operation::Foreign(index) => Some(index),
            _ => None,
        };
        self.reads.iter().filter_map(index).collect()
    }

    /// Makes a loop that keeps rows, and was not compiled yet, list them by position.
    pub(crate) fn keep_positions(&mut self) {
        let Effect::Keep { by_position, .. } = &mut self.effect else { unreachable!("the loop keeps rows") };
        *by_position = true;
    }

    fn slot(&self, variant: Variant) -> &OnceLock<Box<Code>> {
        &self.codes[usize::from(variant.all_valid) + 2 * usize::from(variant.selected) + 4 * usize::from(variant.asks)]
    }

    pub(super) fn code(&self, shared: &Shared, variant: Variant) -> &Code {
        // What compiled once for other calls compiles for these: only whether rows are listed, NULLs looked at, entries asked for, and these in one table differs.
        let compiled = || self.recipe(shared, variant).compile().expect("the loop compiled before");
        self.slot(variant).get_or_init(|| Box::new(compiled()))
    }
}
