//! Equalities in WHERE that join tables stand below the calls of table functions: `FROM a, b, UNNEST(a.x) AS u (y) WHERE a.k = b.k`.
//!
//! DataFusion finds the keys of a join in a filter right above it, and knows no way through a call. Equalities of columns fail for no row: they may go before other
//! conditions, which would otherwise guard what stands behind them.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::logical_plan::{Filter, UserDefinedLogicalNodeCore};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

use crate::bind::flat_map::FlatMapNode;

/// The plan with such equalities below the calls.
pub(crate) fn below_flat_maps(plan: LogicalPlan) -> Result<LogicalPlan> {
    let moved = plan.transform_down(|node| {
        let LogicalPlan::Filter(filter) = &node else { return Ok(Transformed::no(node)) };
        let Some(call) = FlatMapNode::of(&filter.input).filter(|_| FlatMapNode::joined_by(filter).is_none()) else {
            return Ok(Transformed::no(node));
        };
        let input = &call.input;
        let is_of_input = |condition: &Expr| {
            are_equal_columns(condition)
                && condition.column_refs().iter().all(|column| input.schema().has_column(column))
        };
        let conditions = split_conjunction_owned(filter.predicate.clone());
        let (below, above): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_of_input);
        let Some(below) = conjunction(below) else { return Ok(Transformed::no(node)) };
        let input = LogicalPlan::Filter(Filter::try_new(below, Arc::new(input.clone()))?);
        let call = call.with_exprs_and_inputs(call.expressions(), vec![input])?.into_plan();
        Ok(Transformed::yes(match conjunction(above) {
            Some(above) => LogicalPlan::Filter(Filter::try_new(above, Arc::new(call))?),
            None => call,
        }))
    });
    moved.map(|moved| moved.data)
}

/// Whether a condition is the equality of two columns, which may be cast.
fn are_equal_columns(condition: &Expr) -> bool {
    let is_column = |side: &Expr| match side {
        Expr::Cast(cast) => matches!(*cast.expr, Expr::Column(_)),
        other => matches!(other, Expr::Column(_)),
    };
    matches!(condition, Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if is_column(left) && is_column(right))
}
