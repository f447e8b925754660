//! The zeros of floating-point numbers are one value: `=` says so, and so must what finds equal values by other means.

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{Case, InList};
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, Operator, binary_expr};

/// Makes `IN`, `NULLIF`, `CASE x WHEN` and the keys of joins find 0.0 where they look for -0.0. Types agree already.
pub(crate) fn equate(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up(|node| {
        let schema = merge_schema(&node.inputs());
        let node = node.map_expressions(|expression| expression.transform_up(|part| equate_part(part, &schema)))?;
        node.transform_data(|node| equate_keys(node, &schema))
    });
    rewritten.map(|rewritten| rewritten.data)
}

fn equate_part(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut expression = expression;
    match &mut expression {
        Expr::InList(InList { expr, list, .. }) if is_float(expr, schema) => {
            for value in list.iter_mut().chain([&mut **expr]) {
                *value = with_one_zero(std::mem::take(value), schema)?;
            }
        }
        Expr::Case(Case { expr: Some(operand), when_then_expr, .. }) if is_float(operand, schema) => {
            for value in when_then_expr.iter_mut().map(|(when, _)| &mut **when).chain([&mut **operand]) {
                *value = with_one_zero(std::mem::take(value), schema)?;
            }
        }
        // The value stays as it is where it is not NULL.
        Expr::ScalarFunction(call) if call.name() == "nullif" && is_float(&call.args[0], schema) => {
            let [value, other] = [0, 1].map(|index| call.args[index].clone());
            let null = Expr::Literal(ScalarValue::try_from(value.get_type(schema)?)?, None);
            let is_equal = binary_expr(value.clone(), Operator::Eq, other);
            expression = Expr::Case(Case::new(None, vec![(is_equal.into(), null.into())], Some(value.into())));
        }
        _ => return Ok(Transformed::no(expression)),
    }
    Ok(Transformed::yes(expression))
}

/// The keys of a join are looked up by their bits.
fn equate_keys(node: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = node else { return Ok(Transformed::no(node)) };
    for key in join.on.iter_mut().flat_map(|(left, right)| [left, right]) {
        *key = with_one_zero(std::mem::take(key), schema)?;
    }
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}

fn is_float(expression: &Expr, schema: &DFSchema) -> bool {
    expression.get_type(schema).is_ok_and(|data_type| data_type.is_floating())
}

/// The expression with 0.0 in place of -0.0, which IEEE 754 makes of it when 0.0 is added, if it is a floating-point number.
pub(crate) fn with_one_zero(expression: Expr, schema: &DFSchema) -> Result<Expr> {
    let data_type = expression.get_type(schema)?;
    if !data_type.is_floating() {
        return Ok(expression);
    }
    let zero = ScalarValue::new_zero(&data_type)?;
    match &expression {
        Expr::Literal(value, _) if value.is_null() => Ok(expression),
        Expr::Literal(value, metadata) => Ok(Expr::Literal(value.add(&zero)?, metadata.clone())),
        _ => Ok(binary_expr(expression, Operator::Plus, Expr::Literal(zero, None))),
    }
}
