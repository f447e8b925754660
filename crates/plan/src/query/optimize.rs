//! What DataFusion does to a plan before it is lowered: types are made to agree, and joins get their keys.
//!
//! The list of rules is short on purpose. Lowering folds projections, splits and places filters and folds constants by
//! itself, and some of DataFusion's rules are wrong for streams: `EliminateGroupByConstant` drops window keys that look
//! constant, `PushDownFilter` puts the outer of two filters first, so that the inner no longer guards it.

use std::sync::{Arc, LazyLock};

use datafusion_common::Result;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::LogicalPlan;
use datafusion_optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion_optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion_optimizer::eliminate_outer_join::EliminateOuterJoin;
use datafusion_optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion_optimizer::{Analyzer, Optimizer, OptimizerContext};

use super::context::CONFIGURATION;
use super::flink_types::flink_types;
use super::zeros::equate;

static ANALYZER: LazyLock<Analyzer> = LazyLock::new(|| Analyzer::with_rules(vec![Arc::new(TypeCoercion::new())]));

static JOIN_RULES: LazyLock<Optimizer> = LazyLock::new(|| {
    Optimizer::with_rules(vec![
        // a JOIN b ON a.k = b.k
        Arc::new(ExtractEquijoinPredicate::new()),
        // FROM a, b WHERE a.k = b.k
        Arc::new(EliminateCrossJoin::new()),
        // LEFT JOIN … WHERE a column of the right side is something
        Arc::new(EliminateOuterJoin::new()),
    ])
});

/// Makes types agree, with casts where SQL has implicit ones.
pub(super) fn coerce(plan: LogicalPlan) -> Result<LogicalPlan> {
    ANALYZER.execute_and_check(flink_types(plan)?, &CONFIGURATION, |_, _| {})
}

/// Brings joins, and what looks for equal values, into the form that lowering reads.
pub(super) fn prepare(plan: LogicalPlan) -> Result<LogicalPlan> {
    equate(prepare_joins(plan)?)
}

fn prepare_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_join = false;
    plan.apply(|node| {
        has_join |= matches!(node, LogicalPlan::Join(_));
        Ok(if has_join { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_join {
        return Ok(plan);
    }
    let context = OptimizerContext::new_with_config_options(CONFIGURATION.clone()).with_max_passes(1);
    JOIN_RULES.optimize(plan, &context, |_, _| {})
}
