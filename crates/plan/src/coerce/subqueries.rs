//! Subqueries in expressions become joins: IN and EXISTS semi joins, NOT IN and NOT EXISTS anti joins, and one that has a single value a left join. IN and EXISTS
//! inside of other expressions become values before (`subquery_values`).

use std::sync::{Arc, LazyLock};

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::logical_plan::{Filter, Join};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, lit};
use datafusion_optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
use datafusion_optimizer::scalar_subquery_to_join::ScalarSubqueryToJoin;
use datafusion_optimizer::{Optimizer, OptimizerContext};

use crate::bind::row_membership;
use crate::bind::table_scan::is_bounded;
use crate::coerce::correlated;
use crate::coerce::simplify::CONFIGURATION;
use crate::coerce::subquery_values::as_values;
use crate::errors::{Place, PlanError, external};
use crate::lower::scope::substitute;

static RULES: LazyLock<Optimizer> = LazyLock::new(|| {
    Optimizer::with_rules(vec![Arc::new(DecorrelatePredicateSubquery::new()), Arc::new(ScalarSubqueryToJoin::new())])
});

static SETTINGS: LazyLock<Arc<ConfigOptions>> = LazyLock::new(|| {
    let mut options = ConfigOptions::clone(&CONFIGURATION);
    // Or else those that name no column of the query around them would stay.
    options.optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    Arc::new(options)
});

/// The plan with joins in the place of subqueries, the first of which stands at `place`.
pub(crate) fn as_joins(plan: LogicalPlan, place: Option<Place>) -> Result<LogicalPlan> {
    let mut has_subquery = false;
    for_each_subquery(&plan, |node, subquery| {
        has_subquery = true;
        match subquery {
            _ if !matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Projection(_)) => {
                let hint = "compute it in a subquery or view, and read that";
                Err(external(PlanError::unsupported(place, "a subquery outside of SELECT, WHERE and HAVING", hint)))
            }
            Expr::ScalarSubquery(query) if !has_one_row(&query.subquery) => {
                let hint = "compute an aggregate in it, as in (SELECT MAX(x) FROM t)";
                Err(external(PlanError::unsupported(place, "a subquery as a value, of more than one row,", hint)))
            }
            _ => Ok(()),
        }
    })?;
    if !has_subquery {
        return Ok(plan);
    }
    let plan = memberships(plan)?;
    // Of aggregations that are values already, and of those that they become.
    let plan = correlated::prepare(as_values(correlated::prepare(plan, place)?, place)?, place)?;
    let context = OptimizerContext::new_with_config_options(SETTINGS.clone());
    let refused = || {
        let hint = "compare columns of both queries with =, and leave out LIMIT, or join with the subquery";
        external(PlanError::unsupported(place, "this subquery", hint))
    };
    // What fails here is a plan that the rules have not finished.
    let plan = RULES.optimize(plan, &context, |_, _| {}).map_err(|_| refused())?;
    for_each_subquery(&plan, |_, _| Err(refused()))?;
    let rewritten = plan.transform_up(|node| match node {
        LogicalPlan::Join(join) if join.null_aware => not_in(join).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

fn for_each_subquery(plan: &LogicalPlan, mut visit: impl FnMut(&LogicalPlan, &Expr) -> Result<()>) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        for expression in node.expressions() {
            expression.apply(|part| {
                if let Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) = part {
                    visit(node, part)?;
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Brings IN of several values, which is written as EXISTS, into the form in which subqueries are made joins: conditions that are never NULL lose their IS NOT FALSE, so that
/// equalities are keys by which rows are found, and conditions of the subquery may read the columns of the query around it.
fn memberships(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_down_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) if is_membership(&filter) => membership(filter).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    });
    rewritten.map(|rewritten| rewritten.data)
}

fn is_membership(filter: &Filter) -> bool {
    matches!(&*filter.input, LogicalPlan::SubqueryAlias(alias) if alias.alias.table() == row_membership::ROWS)
}

fn membership(Filter { predicate, input, .. }: Filter) -> Result<LogicalPlan> {
    let plain = predicate.transform_up(|part| match part {
        Expr::IsNotFalse(inner) if !inner.nullable(input.schema())? => Ok(Transformed::yes(*inner)),
        other => Ok(Transformed::no(other)),
    });
    let (mut predicate, mut input) = (plain?.data, input);
    loop {
        let (below, columns) = match &*input {
            LogicalPlan::SubqueryAlias(alias) => {
                (alias.input.clone(), alias.input.schema().columns().into_iter().map(Expr::Column).collect())
            }
            LogicalPlan::Projection(projection) => (projection.input.clone(), projection.expr.clone()),
            _ => break,
        };
        predicate = substitute(predicate, input.schema(), &columns)?;
        input = below;
    }
    Filter::try_new(predicate, input).map(LogicalPlan::Filter)
}

/// Whether a plan has at most one row, whatever it reads.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Filter(filter) => has_one_row(&filter.input),
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        _ => false,
    }
}

/// `x NOT IN (SELECT y …)`: a row stays where `x = y` is false for all rows of the subquery, and not where it is NULL for one. Rows of a bounded subquery are
/// found by `y`: of those that stay, none has a NULL among its rows of the subquery, and a row whose `x` is NULL has no row there.
fn not_in(join: Join) -> Result<LogicalPlan> {
    let Join { left, right, filter, .. } = join;
    let (membership, others) = match filter.expect("the condition of NOT IN") {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => (*left, *right),
        membership => (membership, lit(true)),
    };
    let anti_join = |left: LogicalPlan, right: LogicalPlan, condition: Expr| {
        LogicalPlanBuilder::from(left).join_on(right, JoinType::LeftAnti, [condition.and(others.clone())])?.build()
    };
    let (left, right) = (Arc::unwrap_or_clone(left), Arc::unwrap_or_clone(right));
    let Expr::BinaryExpr(BinaryExpr { left: value, op: Operator::Eq, right: listed }) = &membership else {
        unreachable!("NOT IN compares with =")
    };
    if !is_bounded(&right)? {
        return anti_join(left, right, membership.is_not_false());
    }
    let is_nullable = |expression: &Expr, schema: &DFSchema| expression.nullable(schema);
    let (value_nullable, listed_nullable) = (is_nullable(value, left.schema())?, is_nullable(listed, right.schema())?);
    let (value, listed) = (value.as_ref().clone(), listed.as_ref().clone());
    let mut plan = anti_join(left, right.clone(), membership.clone())?;
    if listed_nullable {
        let nulls = LogicalPlan::Filter(Filter::try_new(listed.is_null(), Arc::new(right.clone()))?);
        plan = anti_join(plan, nulls, lit(true))?;
    }
    if value_nullable {
        // Where rows of the list do not depend on the row outside, one tells that there are any.
        let any = if others == lit(true) { LogicalPlanBuilder::from(right).limit(0, Some(1))?.build()? } else { right };
        plan = anti_join(plan, any, value.is_null())?;
    }
    Ok(plan)
}
