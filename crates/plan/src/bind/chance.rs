//! What is drawn by chance is drawn once for each row. Projections vanish when a plan is lowered, and what a column is computed from is computed
//! wherever it is read: a column of RAND or UUID may be read once only.

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::logical_plan::LogicalPlan;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, ScalarUDF};

use crate::errors::source_locations::SourceLocations;
use crate::errors::{PlanError, external};

/// Functions whose values are drawn by chance.
const BY_CHANCE: [&str; 2] = ["random", "uuid"];

/// Aggregates that take each value once, besides asking whether it is NULL.
const READ_ONCE: [&str; 5] = ["avg", "count", "max", "min", "sum"];

/// Refuses plans in which one value would be drawn several times.
pub(crate) fn check_chance(plan: &LogicalPlan, locations: &SourceLocations) -> Result<()> {
    let mut is_any_drawn = false;
    plan.apply(|node| {
        node.apply_expressions(|expression| {
            is_any_drawn |= expression.exists(|part| Ok(draws(part)))?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if is_any_drawn { drawn(plan, locations).map(drop) } else { Ok(()) }
}

/// Functions that become CASE, with an argument in the condition and in a branch.
const REWRITTEN: [&str; 4] = ["coalesce", "nullif", "nvl", "nvl2"];

/// Which columns of a plan are drawn by chance.
fn drawn(plan: &LogicalPlan, locations: &SourceLocations) -> Result<Vec<bool>> {
    let inputs = plan.inputs().into_iter().map(|input| drawn(input, locations)).collect::<Result<Vec<_>>>()?;
    let width = plan.schema().fields().len();
    if let LogicalPlan::Union(_) = plan {
        return Ok((0..width).map(|column| inputs.iter().any(|input| input.get(column) == Some(&true))).collect());
    }
    let (schema, columns) = (merge_schema(&plan.inputs()), inputs.concat());
    let reads_most = match plan {
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => 1,
        _ => 0,
    };
    let mut reads = vec![0; columns.len()];
    let mut is_repeated = false;
    plan.apply_expressions(|expression| {
        expression.apply(|part| {
            if let Some(column) = column_of(part, &schema, &columns) {
                reads[column] += 1;
            }
            if let Expr::AggregateFunction(call) = part
                && (call.params.distinct || !READ_ONCE.contains(&call.func.name()))
            {
                let mut arguments = call.params.args.iter();
                is_repeated |= arguments.any(|argument| is_drawn(argument, &schema, &columns));
            }
            is_repeated |= written_twice(part).iter().any(|operand| is_drawn(operand, &schema, &columns));
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if is_repeated || reads.iter().any(|reads| *reads > reads_most) {
        let place = BY_CHANCE.iter().chain(&["rand", "rand_integer"]).find_map(|name| locations.place_of(name));
        let hint = "write it to a table by INSERT INTO and read that, or read random values from a datagen table";
        let construct = "reading a value of RAND or UUID more than once";
        return Err(external(PlanError::unsupported(place, construct, hint)));
    }
    Ok(match plan {
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().map(|expression| is_drawn(expression, &schema, &columns)).collect()
        }
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => vec![false; width],
        _ => columns.into_iter().chain(std::iter::repeat(false)).take(width).collect(),
    })
}

/// Operands that stand twice in what an expression is rewritten to.
fn written_twice(expression: &Expr) -> &[Expr] {
    match expression {
        Expr::Between(between) => std::slice::from_ref(between.expr.as_ref()),
        Expr::ScalarFunction(call) if REWRITTEN.contains(&call.name()) => &call.args,
        _ => &[],
    }
}

/// The column that an expression is, if it is one that is drawn by chance.
fn column_of(expression: &Expr, schema: &DFSchema, columns: &[bool]) -> Option<usize> {
    let Expr::Column(column) = expression else { return None };
    schema.maybe_index_of_column(column).filter(|index| columns.get(*index) == Some(&true))
}

fn is_drawn(expression: &Expr, schema: &DFSchema, columns: &[bool]) -> bool {
    let found = expression.exists(|part| Ok(draws(part) || column_of(part, schema, columns).is_some()));
    found.expect("a look at an expression does not fail")
}

fn draws(expression: &Expr) -> bool {
    let is_by_chance = |function: &ScalarUDF| BY_CHANCE.contains(&function.name());
    matches!(expression, Expr::ScalarFunction(call) if is_by_chance(&call.func))
}
