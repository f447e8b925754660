//! IN, EXISTS, ANY and ALL of subqueries inside of other expressions, which become values: of the rows of the list that are equal, their number; of the list, its
//! least and its greatest value. By themselves, and behind AND, they are joins that keep or drop rows (`subqueries`).

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema, ExprSchema, Result, ScalarValue};
use datafusion_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::logical_plan::Subquery;
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr, lit, not, when};
use datafusion_functions_aggregate::count::{count, count_all};
use datafusion_functions_aggregate::min_max::{max, min};

use crate::bind::table_scan::is_bounded;
use crate::errors::{Place, PlanError, external};

/// The column of a list that a value is looked for in. Columns of tables have no such name.
const LISTED: &str = "__listed";

/// The plan with values in the place of such subqueries. The first subquery stands at `place`.
///
/// # Errors
/// Where one of them has no end.
pub(crate) fn as_values(plan: LogicalPlan, place: Option<Place>) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Filter(mut filter) => {
            let schema = filter.input.schema().clone();
            let conditions =
                split_conjunction_owned(filter.predicate).into_iter().map(|condition| match joined(condition) {
                    Ok(membership) => Ok(membership),
                    Err(condition) => with_values(condition, &schema, place).map(|rewritten| rewritten.data),
                });
            let conditions = conjunction(conditions.collect::<Result<Vec<_>>>()?);
            filter.predicate = conditions.expect("a predicate has a condition");
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        LogicalPlan::Projection(projection) => {
            let schema = projection.input.schema().clone();
            let projection = LogicalPlan::Projection(projection);
            let names = NamePreserver::new(&projection);
            projection.map_expressions(|expression| {
                let name = names.save(&expression);
                let rewritten = with_values(expression, &schema, place)?;
                Ok(rewritten.update_data(|expression| name.restore(expression)))
            })
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(rewritten?.data)
}

/// A condition that keeps or drops rows as a join does: IN or EXISTS of a subquery, or NOT of these. The error is any other condition.
fn joined(condition: Expr) -> Result<Expr, Expr> {
    match condition {
        Expr::SetComparison(comparison) => membership(comparison).map_err(Expr::SetComparison),
        Expr::Not(inner) if matches!(*inner, Expr::Exists(_) | Expr::InSubquery(_)) => Ok(Expr::Not(inner)),
        Expr::Exists(_) | Expr::InSubquery(_) => Ok(condition),
        other => Err(other),
    }
}

/// `= ANY` as IN, `<> ALL` as NOT IN. The error is any other comparison.
fn membership(comparison: SetComparison) -> Result<Expr, SetComparison> {
    let negated = match (comparison.op, &comparison.quantifier) {
        (Operator::Eq, SetQuantifier::Any) => false,
        (Operator::NotEq, SetQuantifier::All) => true,
        _ => return Err(comparison),
    };
    let SetComparison { expr, subquery, .. } = comparison;
    Ok(Expr::InSubquery(InSubquery { expr, subquery, negated }))
}

/// An expression over `schema` with values in the place of its subqueries.
fn with_values(expression: Expr, schema: &DFSchema, place: Option<Place>) -> Result<Transformed<Expr>> {
    expression.transform_up(|part| {
        if let Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) = &part
            && !is_bounded(&subquery.subquery)?
        {
            let construct = "an unbounded subquery inside of an expression";
            let hint = "read bounded tables in it, or write IN or EXISTS by itself or with AND";
            return Err(external(PlanError::unsupported(place, construct, hint)));
        }
        let value = match part {
            Expr::Exists(Exists { subquery, negated }) => {
                let rows = value_of(&subquery, subquery.subquery.as_ref().clone(), count_all())?;
                if negated { rows.eq(lit(0_i64)) } else { rows.gt(lit(0_i64)) }
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let is_in = List::new(*expr, subquery, schema)?.contains()?;
                if negated { not(is_in) } else { is_in }
            }
            Expr::SetComparison(comparison) => match membership(comparison) {
                Ok(membership) => return with_values(membership, schema, place),
                Err(SetComparison { expr, subquery, op, quantifier }) => {
                    List::new(*expr, subquery, schema)?.compares(op, &quantifier)?
                }
            },
            other => return Ok(Transformed::no(other)),
        };
        Ok(Transformed::yes(value))
    })
}

/// What an aggregate is of the rows of a plan, in the place of a subquery.
fn value_of(subquery: &Subquery, rows: LogicalPlan, aggregate: Expr) -> Result<Expr> {
    let aggregation = LogicalPlanBuilder::from(rows).aggregate(Vec::<Expr>::new(), [aggregate])?.build()?;
    Ok(Expr::ScalarSubquery(subquery.with_plan(aggregation.into())))
}

/// A value and a list that it is looked for in.
struct List<'a> {
    value: Expr,
    subquery: Subquery,
    /// Its rows, with the column [`LISTED`].
    rows: LogicalPlan,
    /// The columns of the query around.
    schema: &'a DFSchema,
}

impl<'a> List<'a> {
    fn new(value: Expr, subquery: Subquery, schema: &'a DFSchema) -> Result<List<'a>> {
        let rows = subquery.subquery.as_ref().clone();
        let listed = Expr::Column(rows.schema().columns().swap_remove(0));
        let rows = LogicalPlanBuilder::from(rows).project([listed.alias(LISTED)])?.build()?;
        Ok(List { value, subquery, rows, schema })
    }

    fn listed() -> Expr {
        Expr::Column(Column::new_unqualified(LISTED))
    }

    fn of_all(&self, aggregate: Expr) -> Result<Expr> {
        value_of(&self.subquery, self.rows.clone(), aggregate)
    }

    /// `value IN list`.
    fn contains(&self) -> Result<Expr> {
        let value = self.value.clone().transform_up(|part| match part {
            Expr::Column(column) => {
                let field = self.schema.field_from_column(&column)?.clone();
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        let equal = LogicalPlanBuilder::from(self.rows.clone()).filter(Self::listed().eq(value.data))?.build()?;
        let is_found = value_of(&self.subquery, equal, count_all())?.gt(lit(0_i64));
        self.decided(is_found, true)
    }

    /// `value op ANY list` or `value op ALL list`, by the values of the list that are the first to decide.
    fn compares(&self, op: Operator, quantifier: &SetQuantifier) -> Result<Expr> {
        let is_any = *quantifier == SetQuantifier::Any;
        let with = |bound: Expr| {
            Ok::<_, datafusion_common::DataFusionError>(binary_expr(self.value.clone(), op, self.of_all(bound)?))
        };
        let (least, greatest) = (min(Self::listed()), max(Self::listed()));
        let compared = match (op, is_any) {
            (Operator::Gt | Operator::GtEq, true) | (Operator::Lt | Operator::LtEq, false) => with(least)?,
            (Operator::Lt | Operator::LtEq, true) | (Operator::Gt | Operator::GtEq, false) => with(greatest)?,
            (_, true) => with(least)?.or(with(greatest)?),
            (_, false) => with(least)?.and(with(greatest)?),
        };
        self.decided(if is_any { compared } else { not(compared) }, is_any)
    }

    /// `decision` where a row of the list decides it, as `decides` says; the opposite where none does, unless a comparison was with NULL.
    fn decided(&self, decides: Expr, decision: bool) -> Result<Expr> {
        let is_listed_nullable = Self::listed().nullable(self.rows.schema())?;
        let rows = self.of_all(count_all())?;
        let has_null = self.of_all(count(Self::listed()))?.lt(rows.clone());
        let is_unknown = match (self.value.nullable(self.schema)?, is_listed_nullable) {
            (false, false) => return when(decides, lit(decision)).otherwise(lit(!decision)),
            (true, false) => self.value.clone().is_null(),
            (false, true) => has_null,
            (true, true) => self.value.clone().is_null().or(has_null),
        };
        when(decides, lit(decision))
            .when(rows.eq(lit(0_i64)), lit(!decision))
            .when(is_unknown, lit(ScalarValue::Boolean(None)))
            .otherwise(lit(!decision))
    }
}
