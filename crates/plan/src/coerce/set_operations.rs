//! INTERSECT and EXCEPT as aggregations: the rows of both sides are grouped by all columns, and a group tells by its sides whether it stays.
//!
//! With ALL, rows that are equal are numbered on each side before, and these numbers are grouped by as well: of equal rows the first stays where
//! the other side has a first, the second where it has a second.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::expr::WindowFunction;
use datafusion_expr::logical_plan::{Distinct, Join, Union};
use datafusion_expr::{
    Expr, ExprFunctionExt, JoinType, LogicalPlan, LogicalPlanBuilder, WindowFunctionDefinition, ident, lit,
};
use datafusion_functions_aggregate::min_max::{max, min};

use crate::bind::names::Names;
use crate::bind::over_functions::window_function;
use crate::lower::ranking::ROW_NUMBER;

/// The plan without the joins that DataFusion's planner makes of INTERSECT and EXCEPT, which are the only ones of these kinds.
pub(crate) fn as_aggregations(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti) => {
            aggregation(&join).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    });
    rewritten.map(|rewritten| rewritten.data)
}

fn aggregation(join: &Join) -> Result<LogicalPlan> {
    // With ALL, equal rows of a side that has none are numbered for nothing, which changes nothing.
    let (left, is_all) = match join.left.as_ref() {
        LogicalPlan::Distinct(Distinct::All(input)) => (input, false),
        _ => (&join.left, true),
    };
    let columns = left.schema().columns();
    let mut taken = Names::default();
    let mut names: Vec<String> = columns.iter().map(|column| taken.unique(&column.name)).collect();
    let (number, side) = (taken.unique("row_number"), taken.unique("side"));
    let left = side_of(left, &names, (0, &side), is_all.then_some(&number))?;
    let right = side_of(&join.right, &names, (1, &side), is_all.then_some(&number))?;
    names.extend(is_all.then_some(number));
    let both = LogicalPlan::Union(Union::try_new_with_loose_types(vec![Arc::new(left), Arc::new(right)])?);
    let (first, last) = (taken.unique("first_side"), taken.unique("last_side"));
    let sides = [min(ident(&side)).alias(&first), max(ident(&side)).alias(&last)];
    let is_kept = match join.join_type {
        JoinType::LeftSemi => ident(&first).eq(lit(0_i64)).and(ident(&last).eq(lit(1_i64))),
        _ => ident(&last).eq(lit(0_i64)),
    };
    let grouped = LogicalPlanBuilder::from(both).aggregate(names.iter().map(ident), sides)?;
    // What stands above names the left side's columns.
    let results =
        columns.into_iter().zip(&names).map(|(column, name)| ident(name).alias_qualified(column.relation, column.name));
    grouped.filter(is_kept)?.project(results.collect::<Vec<Expr>>())?.build()
}

/// The rows of one side, with the number of the side behind them, and before it, where it has a name, that of a row among equal ones.
fn side_of(
    input: &LogicalPlan,
    names: &[String],
    (number, side): (i64, &str),
    row: Option<&String>,
) -> Result<LogicalPlan> {
    let columns = input.schema().columns().into_iter().zip(names);
    let columns = columns.map(|(column, name)| Expr::Column(column).alias(name));
    let mut plan = LogicalPlanBuilder::from(input.clone()).project(columns.collect::<Vec<Expr>>())?;
    let mut results: Vec<Expr> = names.iter().map(ident).collect();
    if let Some(row) = row {
        let row_number = window_function(ROW_NUMBER).expect("rows are numbered");
        let call = Expr::from(WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number), Vec::new()));
        let call = call.partition_by(names.iter().map(ident).collect()).build()?.alias(row);
        plan = plan.window([call])?;
        results.push(ident(row));
    }
    plan.project(results.into_iter().chain([lit(number).alias(side)]).collect::<Vec<Expr>>())?.build()
}
