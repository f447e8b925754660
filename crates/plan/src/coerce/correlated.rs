//! Correlated subqueries, which name columns of the query around them, before they become joins.
//!
//! The join compares with the outer row what a filter of the subquery compares, but behind everything else that the subquery does. The result is the same only
//! where no operator between this filter and the top of the subquery depends on which rows the filter passes. Aggregations depend on them: with GROUP BY each
//! compared column becomes a grouping column; without GROUP BY they have a row also where no row passes, which a join does not find. DataFusion's rules take that
//! into account for subqueries that are values alone, so EXISTS and IN of such an aggregation become values here. Other operators that depend on the rows are
//! refused.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchemaRef, DataFusionError, JoinType, Result};
use datafusion_expr::expr::{Exists, InSubquery};
use datafusion_expr::expr_rewriter::{NamePreserver, strip_outer_reference};
use datafusion_expr::logical_plan::{Aggregate, FetchType, Filter, Join, SkipType, Subquery};
use datafusion_expr::utils::split_conjunction;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, lit, not, when};

use crate::errors::{Place, PlanError, external};

/// The plan with correlated subqueries that DataFusion's rules make the right joins of. The first subquery stands at `place`.
///
/// # Errors
/// Where a join cannot stand for a subquery.
pub(crate) fn prepare(plan: LogicalPlan, place: Option<Place>) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let around = node.inputs().into_iter().map(|input| input.schema().clone()).collect();
        let correlated = Correlated { place, around };
        let names = NamePreserver::new(&node);
        node.map_expressions(|expression| {
            let name = names.save(&expression);
            let rewritten = expression.transform_up(|part| correlated.subquery(part))?;
            Ok(rewritten.update_data(|expression| name.restore(expression)))
        })
    });
    Ok(rewritten?.data)
}

/// The column of a subquery that is a value.
const VALUE: &str = "__value";

/// Whether a plan names columns of the query around it.
fn is_correlated(plan: &LogicalPlan) -> bool {
    plan.contains_outer_reference() || plan.inputs().into_iter().any(is_correlated)
}

struct Correlated {
    place: Option<Place>,
    /// The columns of the query around a subquery.
    around: Vec<DFSchemaRef>,
}

/// What an operator is the top of, apart from projections and filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Top {
    /// A subquery that is a value.
    Value,
    /// A subquery behind EXISTS or IN, or another operator.
    Other,
}

/// A subquery that aggregates without GROUP BY.
struct Aggregated<'a> {
    /// The condition on its row, behind HAVING.
    having: Option<&'a Filter>,
}

impl<'a> Aggregated<'a> {
    /// `None` where the plan is not one, or has several conditions on its row.
    fn of(plan: &'a LogicalPlan) -> Option<Aggregated<'a>> {
        match plan {
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => Some(Aggregated { having: None }),
            LogicalPlan::Projection(projection) => Aggregated::of(&projection.input),
            LogicalPlan::SubqueryAlias(alias) => Aggregated::of(&alias.input),
            LogicalPlan::Filter(filter) => {
                Aggregated::of(&filter.input).filter(|inner| inner.having.is_none())?;
                Some(Aggregated { having: Some(filter) })
            }
            _ => None,
        }
    }

    /// The plan without the condition on its row.
    fn without_having(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let Some(having) = self.having else { return Ok(plan.clone()) };
        let without = plan.clone().transform_down(|node| match node {
            LogicalPlan::Filter(filter) if filter == *having => {
                Ok(Transformed::new(Arc::unwrap_or_clone(filter.input), true, TreeNodeRecursion::Stop))
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(without?.data)
    }
}

impl Correlated {
    fn subquery(&self, expression: Expr) -> Result<Transformed<Expr>> {
        if let Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::ScalarSubquery(subquery) = &expression
        {
            self.check_columns(&subquery.subquery)?;
        }
        match expression {
            Expr::Exists(exists) if is_correlated(&exists.subquery.subquery) => self.exists(exists),
            Expr::InSubquery(membership) if is_correlated(&membership.subquery.subquery) => self.membership(membership),
            Expr::ScalarSubquery(subquery) => self.value(subquery),
            other => Ok(Transformed::no(other)),
        }
    }

    fn value(&self, subquery: Subquery) -> Result<Transformed<Expr>> {
        let plan = subquery.subquery.as_ref();
        let having = Aggregated::of(plan).filter(|aggregated| aggregated.having.is_some() && is_correlated(plan));
        let Some(aggregated) = having else {
            return Ok(Transformed::yes(self.one_value(&subquery, plan.clone())?));
        };
        let value = self.one_value(&subquery, aggregated.without_having(plan)?)?;
        let value = when(self.has_row(&aggregated, &subquery)?, value).end()?;
        Ok(Transformed::yes(value))
    }

    /// The value of an aggregation in the place of a subquery. It has a name that no column around it has.
    fn one_value(&self, subquery: &Subquery, aggregation: LogicalPlan) -> Result<Expr> {
        self.check(&aggregation, Top::Value)?;
        let column = aggregation.schema().columns().swap_remove(0);
        let plan = match column.name == VALUE {
            true => aggregation,
            false => LogicalPlanBuilder::from(aggregation).project([Expr::Column(column).alias(VALUE)])?.build()?,
        };
        Ok(Expr::ScalarSubquery(subquery.with_plan(Arc::new(plan))))
    }

    /// Whether an aggregation in the place of a subquery has a row; never NULL.
    fn has_row(&self, aggregated: &Aggregated<'_>, subquery: &Subquery) -> Result<Expr> {
        let Some(filter) = aggregated.having else { return Ok(lit(true)) };
        let met = LogicalPlanBuilder::from(filter.input.as_ref().clone());
        let met = met.project([filter.predicate.clone().alias("having")])?.build()?;
        Ok(self.one_value(subquery, met)?.is_true())
    }

    fn exists(&self, Exists { subquery, negated }: Exists) -> Result<Transformed<Expr>> {
        let plan = match self.first_rows(&subquery.subquery)? {
            Some(plan) => plan,
            None => return Ok(Transformed::yes(lit(negated))),
        };
        if let Some(aggregated) = Aggregated::of(plan) {
            let exists = self.has_row(&aggregated, &subquery)?;
            return Ok(Transformed::yes(if negated { not(exists) } else { exists }));
        }
        self.check(plan, Top::Other)?;
        let subquery = subquery.with_plan(Arc::new(plan.clone()));
        Ok(Transformed::yes(Expr::Exists(Exists { subquery, negated })))
    }

    fn membership(&self, InSubquery { expr, subquery, negated }: InSubquery) -> Result<Transformed<Expr>> {
        let plan = subquery.subquery.as_ref();
        if let Some(aggregated) = Aggregated::of(plan) {
            let listed = self.one_value(&subquery, aggregated.without_having(plan)?)?;
            let is_equal = (*expr).eq(listed);
            let is_in = match aggregated.having {
                Some(_) => self.has_row(&aggregated, &subquery)?.and(is_equal),
                None => is_equal,
            };
            return Ok(Transformed::yes(if negated { not(is_in) } else { is_in }));
        }
        if lists_equal(plan, &expr)? {
            // Every value of the list is equal, so NULL is none of them.
            return self.exists(Exists { subquery, negated });
        }
        self.check(plan, Top::Other)?;
        Ok(Transformed::no(Expr::InSubquery(InSubquery { expr, subquery, negated })))
    }

    /// The plan without LIMIT and ORDER BY at its top, which do not change whether it has rows; `None` where it has none.
    fn first_rows<'p>(&self, plan: &'p LogicalPlan) -> Result<Option<&'p LogicalPlan>> {
        match plan {
            LogicalPlan::Limit(limit) => match (limit.get_skip_type()?, limit.get_fetch_type()?) {
                (_, FetchType::Literal(Some(0))) => Ok(None),
                (SkipType::Literal(0), FetchType::Literal(_)) => self.first_rows(&limit.input),
                _ => Err(self.refused_limit()),
            },
            LogicalPlan::Sort(sort) => self.first_rows(&sort.input),
            // Rows are sorted by a column that is not selected.
            LogicalPlan::Projection(projection) if matches!(*projection.input, LogicalPlan::Sort(_)) => {
                self.first_rows(&projection.input)
            }
            other => Ok(Some(other)),
        }
    }

    /// Refuses columns of queries further out than the one around the subquery.
    fn check_columns(&self, plan: &LogicalPlan) -> Result<()> {
        let is_around = |expression: &Expr| match expression {
            Expr::OuterReferenceColumn(_, column) => self.around.iter().any(|schema| schema.has_column(column)),
            _ => true,
        };
        match plan.all_out_ref_exprs().iter().all(is_around) {
            true => Ok(()),
            false => {
                let hint = "compare it in the query around the subquery, or join with the subquery";
                Err(self.refused("a column of a query further out than the one around the subquery", hint))
            }
        }
    }

    /// Refuses operators between a filter that names outer columns and the top of the subquery which depend on the rows that pass it.
    fn check(&self, plan: &LogicalPlan, top: Top) -> Result<()> {
        if !is_correlated(plan) {
            return Ok(());
        }
        match plan {
            LogicalPlan::Projection(projection) => self.check(&projection.input, top),
            // The rules find the columns that they add to an aggregation under no other name.
            LogicalPlan::SubqueryAlias(alias) => self.check(&alias.input, Top::Other),
            LogicalPlan::Filter(filter) => {
                self.check_filter(filter)?;
                self.check(&filter.input, top)
            }
            LogicalPlan::Aggregate(aggregate) => self.check_aggregate(aggregate, top),
            LogicalPlan::Join(join) => self.check_join(join),
            LogicalPlan::Limit(_) => Err(self.refused_limit()),
            LogicalPlan::Window(_) => {
                let hint = "rank all rows in a view, by PARTITION BY of the columns that are compared, and read that";
                Err(self.refused("OVER in a correlated subquery", hint))
            }
            // DataFusion's rules leave others as they are where a column of theirs, or below them, is one of the query around.
            other => other.inputs().into_iter().try_for_each(|input| self.check(input, Top::Other)),
        }
    }

    /// Refuses equalities that the rules drop, as if NULL were equal to itself.
    fn check_filter(&self, filter: &Filter) -> Result<()> {
        let is_of_itself = |condition: &&Expr| {
            condition.contains_outer()
                && matches!(condition, Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if left == right)
        };
        match split_conjunction(&filter.predicate).iter().any(is_of_itself) {
            true => Err(self.refused("a column compared with itself in a correlated subquery", "write IS NOT NULL")),
            false => Ok(()),
        }
    }

    fn check_aggregate(&self, aggregate: &Aggregate, top: Top) -> Result<()> {
        if !is_correlated(&aggregate.input) {
            return Ok(());
        }
        if aggregate.group_expr.is_empty() && top != Top::Value {
            let construct = "an aggregation without GROUP BY inside of a correlated subquery";
            let hint = "let it be the outermost query of the subquery, as in (SELECT COUNT(*) FROM t WHERE t.k = s.k)";
            return Err(self.refused(construct, hint));
        }
        if aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_))) {
            return Err(self.refused("GROUPING SETS in a correlated subquery", "group by columns alone"));
        }
        if !aggregate.aggr_expr.is_empty() {
            self.check_grouped(&aggregate.input)?;
        }
        self.check(&aggregate.input, Top::Other)
    }

    /// Refuses to group by columns that are compared as values of another type: several of them may be equal to one outer value.
    fn check_grouped(&self, plan: &LogicalPlan) -> Result<()> {
        if let LogicalPlan::Filter(filter) = plan {
            for condition in split_conjunction(&filter.predicate).into_iter().filter(|one| one.contains_outer()) {
                let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { continue };
                let is_cast = |side: &Expr| matches!(side, Expr::Cast(cast) if matches!(*cast.expr, Expr::Column(_)));
                let [left_type, right_type] = [left, right].map(|side| side.get_type(filter.input.schema()));
                let (left_type, right_type) = (left_type?, right_type?);
                let are_both = |is_kind: fn(&DataType) -> bool| is_kind(&left_type) && is_kind(&right_type);
                let is_instant = |data_type: &DataType| matches!(data_type, DataType::Timestamp(..));
                let are_alike = left_type == right_type || are_both(DataType::is_numeric) || are_both(is_instant);
                if is_cast(left) || is_cast(right) || !are_alike {
                    let construct = "an equality of values of different types in a subquery that is a value";
                    let hint = "compare columns of the same type, or cast the outer one";
                    return Err(self.refused(construct, hint));
                }
            }
        }
        plan.inputs().into_iter().try_for_each(|input| self.check_grouped(input))
    }

    /// Refuses filters on the side of an outer join which may be filled with NULLs, and LIMIT beside them, which the rules would drop.
    fn check_join(&self, join: &Join) -> Result<()> {
        let (passes_left, passes_right) = match join.join_type {
            JoinType::Inner => (true, true),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, false),
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (false, true),
            JoinType::Full => (false, false),
        };
        let sides = [(&join.left, passes_left), (&join.right, passes_right)];
        if sides.iter().any(|(side, passes)| !passes && is_correlated(side)) {
            let hint = "filter the rows that the outer join keeps, or use JOIN";
            return Err(self.refused("a correlated subquery inside of an outer join", hint));
        }
        if sides.iter().any(|(side, _)| has_limit(side)) {
            return Err(self.refused_limit());
        }
        sides.iter().try_for_each(|(side, _)| self.check(side, Top::Other))
    }

    fn refused_limit(&self) -> DataFusionError {
        let hint = "leave it out, or put it into a subquery that names no column of the query around it";
        self.refused("LIMIT or OFFSET in a correlated subquery", hint)
    }

    fn refused(&self, construct: &str, hint: &str) -> DataFusionError {
        external(PlanError::unsupported(self.place, construct, hint))
    }
}

fn has_limit(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Limit(_)) || plan.inputs().into_iter().any(has_limit)
}

/// Whether all values of the list `plan` are those that are equal to `value`, as one of its filters compares them.
fn lists_equal(plan: &LogicalPlan, value: &Expr) -> Result<bool> {
    let Some(listed) = plan.head_output_expr()? else { return Ok(false) };
    let mut lists_equal = false;
    plan.apply(|node| {
        if let LogicalPlan::Filter(filter) = node {
            for condition in split_conjunction(&filter.predicate).into_iter().filter(|one| one.contains_outer()) {
                if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) =
                    strip_outer_reference(condition.clone())
                {
                    lists_equal |= (*left == listed && *right == *value) || (*left == *value && *right == listed);
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(lists_equal)
}
