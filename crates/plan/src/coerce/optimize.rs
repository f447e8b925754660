//! What DataFusion does to a plan before it is lowered: types are made to agree, and joins get their keys.
//!
//! The list of rules is short on purpose. Lowering folds projections, splits and places filters and folds constants by
//! itself, and some of DataFusion's rules are wrong for streams: `EliminateGroupByConstant` drops window keys that look
//! constant, `PushDownFilter` puts the outer of two filters first, so that the inner no longer guards it.

use std::sync::{Arc, LazyLock};

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, JoinType, LogicalPlan, Operator, binary_expr, lit, when};
use datafusion_optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion_optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion_optimizer::eliminate_outer_join::EliminateOuterJoin;
use datafusion_optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion_optimizer::{Analyzer, Optimizer, OptimizerContext};

use crate::coerce::conditions;
use crate::coerce::flat_map_filters::below_flat_maps;
use crate::coerce::flink_types::flink_types;
use crate::coerce::set_operations::as_aggregations;
use crate::coerce::simplify::CONFIGURATION;
use crate::coerce::subqueries::as_joins;
use crate::coerce::zeros::equate;
use crate::errors::Place;

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

/// Makes joins of subqueries, the first of which stands at `subquery`, and types agree, with casts where SQL has implicit ones.
pub(crate) fn coerce(plan: LogicalPlan, subquery: Option<Place>) -> Result<LogicalPlan> {
    let plan = as_joins(as_aggregations(plan)?, subquery)?;
    conditions::check(&plan)?;
    ANALYZER.execute_and_check(flink_types(plan)?, &CONFIGURATION, |_, _| {})
}

/// Brings joins, and what looks for equal values, into the form that lowering reads.
pub(crate) fn prepare(plan: LogicalPlan) -> Result<LogicalPlan> {
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
    JOIN_RULES.optimize(equal_nulls(below_flat_maps(plan)?)?, &context, |_, _| {})
}

/// Writes `IS NOT DISTINCT FROM` in conditions of joins, those of `FROM a, b WHERE …` among them, with equalities, by which rows are looked up. DataFusion's
/// rules would let NULL equal NULL in all equalities of a join, or of several, where it does in one.
fn equal_nulls(plan: LogicalPlan) -> Result<LogicalPlan> {
    let written = |filter: Expr, schema: &DFSchema, is_of_join: &dyn Fn(&Expr) -> bool| {
        let conditions = split_conjunction_owned(filter).into_iter().map(|condition| match is_of_join(&condition) {
            true => equalities(condition, schema),
            false => Ok(vec![condition]),
        });
        Ok::<_, DataFusionError>(conjunction(conditions.collect::<Result<Vec<_>>>()?.into_iter().flatten()))
    };
    let rewritten = plan.transform_up(|node| match node {
        LogicalPlan::Join(mut join) => {
            let Some(filter) = join.filter.take() else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
            join.filter = written(filter, &merge_schema(&[&join.left, &join.right]), &|_| true)?;
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        LogicalPlan::Filter(mut filter) if matches!(*filter.input, LogicalPlan::Join(_)) => {
            let predicate = std::mem::take(&mut filter.predicate);
            let joins = |condition: &Expr| joins_sides(condition, &filter.input);
            filter.predicate = written(predicate, filter.input.schema(), &joins)?.unwrap_or_else(|| lit(true));
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        other => Ok(Transformed::no(other)),
    });
    rewritten.map(|rewritten| rewritten.data)
}

/// Whether a condition compares a value of one side of an inner join with one of the other.
fn joins_sides(condition: &Expr, plan: &LogicalPlan) -> bool {
    let (Expr::BinaryExpr(BinaryExpr { left, right, .. }), LogicalPlan::Join(join)) = (condition, plan) else {
        return false;
    };
    let is_of =
        |side: &LogicalPlan, value: &Expr| value.column_refs().iter().all(|column| side.schema().has_column(column));
    let compares = |one, other| is_of(&join.left, one) && is_of(&join.right, other);
    join.join_type == JoinType::Inner
        && (compares(left, right)
            || compares(right, left)
            || joins_sides(condition, &join.left)
            || joins_sides(condition, &join.right))
}

/// `a IS NOT DISTINCT FROM b` as two equalities: both are NULL or neither is, and with another value in place of NULL they are equal. Every other
/// condition stays.
fn equalities(condition: Expr, schema: &DFSchema) -> Result<Vec<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::IsNotDistinctFrom, right }) = &condition else {
        return Ok(vec![condition]);
    };
    let data_type = left.get_type(schema)?;
    let Ok(stand_in) = ScalarValue::new_default(&data_type) else { return Ok(vec![condition]) };
    if right.get_type(schema)? != data_type || [left, right].iter().any(|side| side.column_refs().is_empty()) {
        return Ok(vec![condition]);
    }
    if !left.nullable(schema)? && !right.nullable(schema)? {
        return Ok(vec![binary_expr((**left).clone(), Operator::Eq, (**right).clone())]);
    }
    let is_null = |side: &Expr| side.clone().is_null();
    let valued = |side: &Expr| when(is_null(side), lit(stand_in.clone())).otherwise(side.clone());
    let values = binary_expr(valued(left)?, Operator::Eq, valued(right)?);
    Ok(vec![binary_expr(is_null(left), Operator::Eq, is_null(right)), values])
}
