//! Where an expression has another type here than in Flink, or is a cast that Flink refuses.
//!
//! The plan is looked at as it was written, before types are made to agree: a cast that is in it then was asked for.

use std::collections::BTreeSet;

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::Case;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, TryCast};

use super::diagnose::sql_name;

/// Notes it, one line for each kind of difference.
pub(super) fn note(plan: &LogicalPlan, is_insert: bool, notes: &mut BTreeSet<String>) {
    // The plan is well-formed: the walk visits its nodes and fails at none.
    let _ = plan.apply(|node| {
        let schema = merge_schema(&node.inputs());
        for expression in node.expressions() {
            let _ = expression.apply(|part| {
                notes.extend(refused_cast(part, &schema));
                Ok(TreeNodeRecursion::Continue)
            });
        }
        Ok(TreeNodeRecursion::Continue)
    });
    notes.extend(wide_literal(plan, is_insert));
}

/// A cast between a number and a point in time.
fn refused_cast(expression: &Expr, schema: &DFSchema) -> Option<String> {
    let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = expression else { return None };
    let (from, to) = (expr.get_type(schema).ok()?, field.data_type());
    let is_time = |data_type: &DataType| matches!(data_type, DataType::Timestamp(..) | DataType::Date32);
    let instead = match (&from, to) {
        // What the clock shows, and TO_TIMESTAMP_LTZ of a number, are such casts themselves.
        (_, DataType::Timestamp(_, Some(_))) if from.is_integer() => return None,
        (DataType::Timestamp(_, Some(_)), _) if to.is_integer() => return None,
        (from, to) if from.is_numeric() && is_time(to) => "TO_TIMESTAMP_LTZ(number, 3) makes a time of milliseconds",
        (from, to) if is_time(from) && to.is_numeric() => {
            "TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', time) makes a number"
        }
        _ => return None,
    };
    Some(format!("Flink has no cast of {} to {}; {instead}", sql_name(&from), sql_name(to)))
}

/// A whole number that is BIGINT here, and INT in Flink, where it decides the type of more than itself, or of a column of the result.
fn wide_literal(plan: &LogicalPlan, is_insert: bool) -> Option<String> {
    let mut found = None;
    let _ = plan.apply(|node| {
        let schema = merge_schema(&node.inputs());
        for expression in node.expressions() {
            let _ = expression.apply(|part| {
                if found.is_none() && widens(part, &schema) {
                    found = Some(part.clone());
                    return Ok(TreeNodeRecursion::Stop);
                }
                Ok(TreeNodeRecursion::Continue)
            });
        }
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    if found.is_none()
        && !is_insert
        && let LogicalPlan::Projection(projection) = plan
    {
        let mut columns = projection.expr.iter().map(|column| column.clone().unalias());
        found = columns.find(is_small_literal);
    }
    let shown = match found? {
        Expr::ScalarFunction(call) => format!("{}(…)", call.name().to_uppercase()),
        Expr::Case(_) => "CASE … END".to_string(),
        other => other.human_display().to_string(),
    };
    Some(format!("a whole number such as 1 is BIGINT here, and INT in Flink: so is {shown}"))
}

/// Whether an expression is BIGINT, and would be INT or narrower if the literals in it were INT.
fn widens(expression: &Expr, schema: &DFSchema) -> bool {
    let operands: Vec<&Expr> = match expression {
        Expr::BinaryExpr(BinaryExpr {
            left,
            right,
            op: Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo,
        }) => vec![left, right],
        Expr::Case(Case { when_then_expr, else_expr, .. }) => {
            when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(else_expr.as_deref()).collect()
        }
        Expr::ScalarFunction(call) if matches!(call.name(), "coalesce" | "greatest" | "least" | "nvl") => {
            call.args.iter().collect()
        }
        _ => return false,
    };
    let is_narrow = |operand: &&Expr| {
        let data_type = operand.get_type(schema);
        matches!(data_type, Ok(DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Null))
    };
    let (literals, others): (Vec<&Expr>, Vec<&Expr>) = operands.into_iter().partition(|part| is_small_literal(part));
    !literals.is_empty() && others.iter().all(is_narrow)
}

/// A literal that is INT in Flink.
fn is_small_literal(expression: &Expr) -> bool {
    matches!(expression, Expr::Literal(ScalarValue::Int64(Some(number)), _) if i32::try_from(*number).is_ok())
}
