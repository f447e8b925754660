//! Where an expression has another type here than in Flink, or is a cast that Flink refuses.
//!
//! The plan is looked at as it was written, before types are made to agree: a cast that is in it then was asked for.

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::Case;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, TryCast};

use super::context::TableScanSource;
use super::diagnose::{place_of, sql_name};
use super::foreign::Foreign;
use crate::error::Place;

/// Notes it, and what `foreign` could not tell before its columns were known. `column_place` has the places of the columns of the result.
pub(super) fn note(
    plan: &LogicalPlan,
    is_insert: bool,
    foreign: &mut Foreign,
    column_place: impl Fn(usize) -> Option<Place>,
) {
    let mut keys = Vec::new();
    // The plan is well-formed: the walk visits its nodes and fails at none.
    let _ = plan.apply(|node| {
        let schema = merge_schema(&node.inputs());
        if computing_table(node).is_none() {
            node.expressions().iter().for_each(|expression| note_casts(expression, &schema, foreign));
        }
        if let LogicalPlan::Aggregate(aggregate) = node {
            keys.extend(aggregate.group_expr.iter().filter_map(|key| key.try_as_col().cloned()));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    foreign.grouped_by(&keys);
    if let Some((place, note)) = wide_literal(plan, is_insert, column_place) {
        foreign.notes.add(place, note);
    }
}

/// Notes the casts in an expression that Flink refuses. Those in computed columns are noted where these are planned, which knows the table.
pub(super) fn note_casts(expression: &Expr, schema: &DFSchema, foreign: &mut Foreign) {
    let _ = expression.apply(|part| {
        if let Some(note) = refused_cast(part, schema, foreign) {
            foreign.note(place_in(part), Some(note));
        }
        Ok(TreeNodeRecursion::Continue)
    });
}

/// The table of which a plan is the projection that computes its columns.
fn computing_table(plan: &LogicalPlan) -> Option<&str> {
    let LogicalPlan::Projection(projection) = plan else { return None };
    let LogicalPlan::TableScan(scan) = projection.input.as_ref() else { return None };
    let source = scan.source.downcast_ref::<TableScanSource>().filter(|source| !source.has_all_columns())?;
    Some(&source.table.definition.name)
}

/// Where the first column stands in an expression of a plan.
pub(crate) fn place_in(expression: &Expr) -> Option<Place> {
    let mut first = None;
    let _ = expression.apply(|part| {
        if let Expr::Column(column) = part {
            first = first.into_iter().chain(place_of(column.spans.first())).min();
        }
        Ok(TreeNodeRecursion::Continue)
    });
    first
}

/// A cast between a number and a point in time.
fn refused_cast(expression: &Expr, schema: &DFSchema, foreign: &Foreign) -> Option<String> {
    let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = expression else { return None };
    let (from, to) = (expr.get_type(schema).ok()?, field.data_type());
    let is_time = |data_type: &DataType| matches!(data_type, DataType::Timestamp(..) | DataType::Date32);
    let to_number = "TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', time) makes a number";
    let instead = match (&from, to) {
        // Functions of an instant are such casts themselves: TO_TIMESTAMP_LTZ of a number, and UNIX_TIMESTAMP of the clock.
        (_, DataType::Timestamp(_, Some(_))) if from.is_integer() && !foreign.is_written(place_in(expr)) => {
            return None;
        }
        (DataType::Timestamp(_, Some(_)), _) if to.is_integer() => {
            let is_clock = matches!(expr.as_ref(), Expr::ScalarFunction(call) if call.args.is_empty());
            if is_clock {
                return None;
            }
            "TIMESTAMPDIFF(SECOND, TO_TIMESTAMP_LTZ(0, 3), time) makes a number"
        }
        (from, to) if from.is_numeric() && is_time(to) => "TO_TIMESTAMP_LTZ(number, 3) makes a time of milliseconds",
        (from, to) if is_time(from) && to.is_numeric() => to_number,
        _ => return None,
    };
    Some(format!("Flink has no cast of {} to {}; {instead}", sql_name(&from), sql_name(to)))
}

/// A whole number that is BIGINT here, and INT in Flink, where it decides the type of more than itself, or of a column of the result.
fn wide_literal(
    plan: &LogicalPlan,
    is_insert: bool,
    column_place: impl Fn(usize) -> Option<Place>,
) -> Option<(Option<Place>, String)> {
    let (mut found, mut place, mut within) = (None, None, String::new());
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
        if found.is_some() {
            within = computing_table(node).map_or(String::new(), |table| format!(": table {table}"));
        }
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    if found.is_none()
        && !is_insert
        && let LogicalPlan::Projection(projection) = plan
    {
        let mut columns = projection.expr.iter().map(|column| column.clone().unalias()).enumerate();
        if let Some((index, literal)) = columns.find(|(_, column)| is_small_literal(column)) {
            found = Some(literal);
            place = column_place(index);
        }
    }
    let found = found?;
    let place = place.or_else(|| place_in(&found));
    let shown = match found {
        Expr::ScalarFunction(call) => format!("{}(…)", call.name().to_uppercase()),
        Expr::Case(_) => "CASE … END".to_string(),
        other => other.human_display().to_string(),
    };
    Some((place, format!("a whole number such as 1 is BIGINT here, and INT in Flink: so is {shown}{within}")))
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
