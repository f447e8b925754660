//! What DataFusion does to a plan before it is lowered: types are made to agree, and joins get their keys.
//!
//! The list of rules is short on purpose. Lowering folds projections, splits and places filters and folds constants by
//! itself, and some of DataFusion's rules are wrong for streams: `EliminateGroupByConstant` drops window keys that look
//! constant, `PushDownFilter` puts the outer of two filters first, so that the inner no longer guards it.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, binary_expr, cast};
use datafusion_optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion_optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion_optimizer::eliminate_outer_join::EliminateOuterJoin;
use datafusion_optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion_optimizer::{Analyzer, Optimizer, OptimizerContext};

use super::context::CONFIGURATION;

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
    ANALYZER.execute_and_check(keep_floats(plan)?, &CONFIGURATION, |_, _| {})
}

/// Where FLOAT or DOUBLE meets DECIMAL, DECIMAL becomes DOUBLE, as in Flink. DataFusion would make a decimal of the other,
/// which has no NaN and few digits.
fn keep_floats(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up(|node| {
        let schema = merge_schema(&node.inputs());
        node.map_expressions(|expression| expression.transform_up(|expression| keep_float(expression, &schema)))
    });
    rewritten.map(|rewritten| rewritten.data)
}

fn keep_float(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expression else {
        return Ok(Transformed::no(expression));
    };
    // An expression without a type yet is left to the analyzer, which says what is wrong with it.
    let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else {
        return Ok(Transformed::no(expression));
    };
    let double = |side: &Expr| cast(side.clone(), DataType::Float64);
    Ok(match (left_type, right_type) {
        (left_type, DataType::Decimal128(..)) if left_type.is_floating() => {
            Transformed::yes(binary_expr((**left).clone(), *op, double(right)))
        }
        (DataType::Decimal128(..), right_type) if right_type.is_floating() => {
            Transformed::yes(binary_expr(double(left), *op, (**right).clone()))
        }
        _ => Transformed::no(expression),
    })
}

/// Brings joins into the form that lowering reads.
pub(super) fn prepare_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
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
