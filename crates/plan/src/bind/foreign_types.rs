//! Casts, comparisons and inserts that Flink refuses for the types of their values.
//!
//! The plan is looked at as it was written, before types are made to agree: a cast that is in it then was asked for.

use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::DFSchema;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::expr::{Between, Case, InList};
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, TryCast};
use pelton_data::column::sql_name;

use crate::bind::foreign::Foreign;
use crate::bind::table_scan::TableScanSource;
use crate::coerce::comparisons::is_comparison;
use crate::errors::{Place, place_of};
use crate::types::SqlType;

/// Notes the casts that Flink refuses, and what `foreign` could not tell before its columns were known.
pub(crate) fn note(plan: &LogicalPlan, foreign: &mut Foreign) {
    let mut keys = Vec::new();
    // The plan is well-formed: the walk visits its nodes and fails at none.
    let _ = plan.apply_with_subqueries(|node| {
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
}

/// Notes the casts and comparisons in an expression that Flink refuses. Those in computed columns are noted where these are planned, which knows the table.
pub(crate) fn note_casts(expression: &Expr, schema: &DFSchema, foreign: &mut Foreign) {
    let _ = expression.apply(|part| {
        let note = refused_cast(part, schema, foreign).or_else(|| refused_comparison(part, schema));
        if let Some(note) = note {
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

/// A comparison of values whose types Flink does not compare.
fn refused_comparison(expression: &Expr, schema: &DFSchema) -> Option<String> {
    let type_of = |value: &Expr| value.get_type(schema).ok();
    let is_equality = |operator: Operator| matches!(operator, Operator::Eq | Operator::NotEq);
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            refused_pair(&type_of(left)?, &type_of(right)?, is_equality(*op))
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            let value = type_of(expr)?;
            [low, high].into_iter().find_map(|bound| refused_pair(&value, &type_of(bound)?, false))
        }
        Expr::InList(InList { expr, list, .. }) => {
            let value = type_of(expr)?;
            let types: Vec<DataType> = list.iter().filter_map(type_of).collect();
            // A list of text alone is cast as a whole.
            let are_mixed = types.iter().any(DataType::is_numeric);
            types.iter().find_map(|data_type| refused_pair(&value, data_type, are_mixed))
        }
        Expr::Case(Case { expr: Some(operand), when_then_expr, .. }) => {
            let value = type_of(operand)?;
            when_then_expr.iter().find_map(|(when, _)| refused_pair(&value, &type_of(when)?, true))
        }
        _ => None,
    }
}

/// The note about two types that are compared, for equality or order.
fn refused_pair(left: &DataType, right: &DataType, for_equality: bool) -> Option<String> {
    let is_time = |data_type: &DataType| matches!(data_type, DataType::Timestamp(..));
    let is_either = |one: &dyn Fn(&DataType) -> bool, other: &dyn Fn(&DataType) -> bool| {
        one(left) && other(right) || one(right) && other(left)
    };
    let instead = if is_either(&|side| *side == DataType::Date32, &is_time) {
        "CAST(date AS TIMESTAMP(3)) makes a time"
    } else if for_equality && is_either(&DataType::is_numeric, &DataType::is_string) {
        "cast the text to the number's type"
    } else {
        return None;
    };
    Some(format!("Flink does not compare {} with {}; {instead}", sql_name(left), sql_name(right)))
}

/// Notes the columns of an insert whose values Flink does not cast to the types of the table.
pub(crate) fn note_insert(
    plan: &LogicalPlan,
    columns: &[(usize, FieldRef)],
    place: impl Fn(usize) -> Option<Place>,
    foreign: &mut Foreign,
) {
    for (index, column) in columns {
        let (from, to) = (plan.schema().field(*index).data_type(), column.data_type());
        if !is_cast_implicitly(from, to) {
            let (from, to) = (sql_name(from), sql_name(to));
            let note = format!(
                "Flink does not insert {from} into the column {} of type {to}; CAST(value AS {to}) is the same",
                column.name()
            );
            foreign.notes.add(place(*index), note);
        }
    }
}

/// Whether Flink casts values of a type by itself where they are inserted.
fn is_cast_implicitly(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Decimal128, Float32, Float64, Timestamp};
    match (from, to) {
        (DataType::Null, _) => true,
        (from, to) if from.is_integer() && to.is_integer() => from.primitive_width() <= to.primitive_width(),
        (from, Decimal128(..) | Float64) => from.is_numeric(),
        (from, Float32) => from.is_integer() || matches!(from, Float32 | Decimal128(..)),
        (Timestamp(..), Timestamp(..)) | (Date32 | Timestamp(_, None), Date32) => true,
        (from, to) if from.is_string() => to.is_string(),
        (from, to) => from == to || SqlType::from_arrow(from) == SqlType::from_arrow(to),
    }
}

/// A cast between a number and a point in time.
fn refused_cast(expression: &Expr, schema: &DFSchema, foreign: &Foreign) -> Option<String> {
    let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = expression else { return None };
    let (from, to) = (expr.get_type(schema).ok()?, field.data_type());
    let is_time = |data_type: &DataType| matches!(data_type, DataType::Timestamp(..) | DataType::Date32);
    let to_number = "TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', time) makes a number";
    let instead = match (&from, to) {
        // Functions of an instant are such casts themselves: TO_TIMESTAMP_LTZ of a number, and UNIX_TIMESTAMP of the clock.
        (_, DataType::Timestamp(_, Some(_))) if from.is_numeric() && !foreign.is_written(place_in(expr)) => {
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
