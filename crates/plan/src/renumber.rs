//! Expressions over columns at other places, and programs whose operators have other numbers.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;

use crate::pipeline::{Operator, Pipeline, Port, Step, StreamRef, Target};

/// An expression whose columns are elsewhere: `place` tells where each is.
pub(crate) fn renumbered(expression: &Arc<dyn PhysicalExpr>, place: impl Fn(usize) -> usize) -> Arc<dyn PhysicalExpr> {
    let renumbered = expression.clone().transform_down(|node| {
        let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        let column = Column::new(column.name(), place(column.index()));
        Ok(Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>))
    });
    renumbered.expect("columns are renumbered without fail").data
}

impl Pipeline {
    /// The same over another input, on whose columns `expression` puts an expression over those of this one.
    pub(crate) fn over(
        &self,
        input: StreamRef,
        input_schema: &SchemaRef,
        expression: impl Fn(&Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr>,
    ) -> Pipeline {
        let mut pipeline = Pipeline { input, input_schema: input_schema.clone(), ..self.clone() };
        pipeline.expressions_mut().for_each(|of_pipeline| *of_pipeline = expression(of_pipeline));
        pipeline
    }

    /// All expressions over its columns.
    fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Arc<dyn PhysicalExpr>> {
        let of_steps = self.steps.iter_mut().flat_map(|step| -> Vec<&mut Arc<dyn PhysicalExpr>> {
            match step {
                Step::Filter(condition) => vec![condition],
                Step::Lookup { keys, conditions, .. } => keys.iter_mut().chain(conditions).collect(),
                Step::FlatMap { arguments, condition, .. } => arguments.iter_mut().chain(condition).collect(),
            }
        });
        let of_target: Vec<&mut Arc<dyn PhysicalExpr>> = match &mut self.target {
            Target::Stream { columns, .. } | Target::Rows { columns, .. } => columns.iter_mut().collect(),
            Target::Groups { keys, arguments, .. } => keys.iter_mut().chain(arguments.iter_mut().flatten()).collect(),
        };
        of_steps.chain(of_target)
    }
}

impl Target {
    /// Where it feeds an operator, to be changed.
    pub(crate) fn port_mut(&mut self) -> Option<&mut Port> {
        match self {
            Target::Stream { .. } => None,
            Target::Rows { port, .. } | Target::Groups { port, .. } => Some(port),
        }
    }
}

impl Operator {
    /// The same of a program without the first operator, which is none of those that it names.
    pub(crate) fn without_first(&self) -> Operator {
        let mut moved = self.clone();
        match &mut moved {
            Operator::Window(window) => window.slices.iter_mut().for_each(|slices| *slices -= 1),
            Operator::Slices(slices) => slices.windows.iter_mut().for_each(|window| *window -= 1),
            Operator::Over(_) | Operator::Join(_) | Operator::Unmatched(_) => {}
        }
        moved
    }
}
