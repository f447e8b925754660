//! Values that cannot be compared.

use datafusion_common::{DFSchema, Result};
use datafusion_expr::{Expr, ExprSchemable, Operator};
use pelton_data::column::sql_name;

use crate::coerce::lengths::check_lengths;
use crate::errors::{PlanError, external};

/// Whether an operator tells which of two values comes first, or whether they are equal.
pub(crate) fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// As [`check_comparable`], where the operator compares.
pub(crate) fn check_operands(operator: Operator, left: &Expr, right: &Expr, schema: &DFSchema) -> Result<()> {
    if is_comparison(operator) { check_comparable(left, right, schema) } else { Ok(()) }
}

/// Refuses to compare values that have no order.
pub(crate) fn check_comparable(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<()> {
    [left, right].into_iter().try_for_each(|operand| check_flat(operand, schema))?;
    check_lengths(left, right, schema)
}

/// Refuses to compare whole values of ROW, ARRAY and MAP, of which NULLs would be equal.
fn check_flat(operand: &Expr, schema: &DFSchema) -> Result<()> {
    let Some(data_type) = operand.get_type(schema).ok().filter(|data_type| data_type.is_nested()) else {
        return Ok(());
    };
    let error = PlanError::invalid(None, format!("values of type {} cannot be compared", sql_name(&data_type)));
    Err(external(error.with_hint("compare their parts, as in row.field, array[1] or map['key']")))
}
