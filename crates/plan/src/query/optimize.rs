//! What DataFusion does to a plan before it is lowered: types are made to agree, and joins get their keys.
//!
//! The list of rules is short on purpose. Lowering folds projections, splits and places filters and folds constants by
//! itself, and some of DataFusion's rules are wrong for streams: `EliminateGroupByConstant` drops window keys that look
//! constant, `PushDownFilter` puts the outer of two filters first, so that the inner no longer guards it.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, binary_expr, cast};
use datafusion_optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion_optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion_optimizer::eliminate_outer_join::EliminateOuterJoin;
use datafusion_optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion_optimizer::{Analyzer, Optimizer, OptimizerContext};

use super::context::CONFIGURATION;
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

/// Gives expressions the types that they have in Flink, where DataFusion's are others.
fn flink_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up(|node| {
        let schema = merge_schema(&node.inputs());
        node.map_expressions(|expression| {
            expression.transform_up(|expression| match &expression {
                Expr::BinaryExpr(_) => keep_float(expression, &schema),
                Expr::ScalarFunction(call) if call.name() == "trunc" => shorten(expression, &schema),
                _ => Ok(Transformed::no(expression)),
            })
        })
    });
    rewritten.map(|rewritten| rewritten.data)
}

/// TRUNCATE of a DECIMAL has no more digits behind the point than it was truncated to.
fn shorten(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(call) = &expression else { return Ok(Transformed::no(expression)) };
    let digits = match call.args.get(1) {
        None | Some(Expr::Negative(_)) => Some(0),
        Some(Expr::Literal(ScalarValue::Int64(digits), _)) => digits.map(|digits| digits.max(0)),
        Some(_) => None,
    };
    let (Some(digits), Ok(DataType::Decimal128(precision, scale))) = (digits, call.args[0].get_type(schema)) else {
        return Ok(Transformed::no(expression));
    };
    let Some(scale_now) = i8::try_from(digits).ok().filter(|digits| *digits < scale) else {
        return Ok(Transformed::no(expression));
    };
    let precision_now = (precision - (scale - scale_now) as u8 + 1).min(precision);
    Ok(Transformed::yes(cast(expression, DataType::Decimal128(precision_now, scale_now))))
}

/// Where FLOAT or DOUBLE meets DECIMAL, DECIMAL becomes DOUBLE. DataFusion would make a decimal of the other, which has no
/// NaN and few digits.
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
