//! Casts of constants that have no value, in parts of an expression that may never be computed: they fail for the rows that they are computed for, as
//! divisions by zero do there. DataFusion would refuse the whole expression.
//!
//! Only casts that were asked for are left to the rows, so this is done before types are made to agree: `i = 'x'` is refused wherever it stands.

use std::sync::{Arc, LazyLock};

use arrow::compute::can_cast_types;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, DFSchemaRef, Result, ScalarValue};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

use crate::coerce::simplify::simplify;
use crate::coerce::strictness::is_strict;

/// The expression with such casts as calls.
pub(crate) fn defer_casts(expression: Expr) -> Result<Expr> {
    let deferred = expression.transform_down(|part| match is_choice(&part) {
        true => {
            let choice = part.transform_up(deferred_cast)?;
            Ok(Transformed::new(choice.data, choice.transformed, TreeNodeRecursion::Jump))
        }
        false => Ok(Transformed::no(part)),
    });
    deferred.map(|deferred| deferred.data)
}

/// Whether parts of an expression may never be computed.
fn is_choice(expression: &Expr) -> bool {
    match expression {
        Expr::Case(_) | Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. }) => true,
        Expr::ScalarFunction(call) => matches!(call.name(), "coalesce" | "nvl" | "nvl2"),
        _ => false,
    }
}

fn deferred_cast(part: Expr) -> Result<Transformed<Expr>> {
    static NO_COLUMNS: LazyLock<DFSchemaRef> = LazyLock::new(|| Arc::new(DFSchema::empty()));
    let Expr::Cast(cast) = &part else { return Ok(Transformed::no(part)) };
    let target = cast.field.data_type();
    let is_known = !part.any_column_refs()
        && cast.expr.get_type(&*NO_COLUMNS).is_ok_and(|operand| can_cast_types(&operand, target));
    if !is_known || simplify(part.clone(), &NO_COLUMNS).is_ok() {
        return Ok(Transformed::no(part));
    }
    let target = ScalarValue::try_from(target)?;
    let operand = cast.expr.as_ref().clone();
    let target = Expr::Literal(target, None);
    Ok(Transformed::yes(match is_strict() {
        true => pelton_functions::strict_cast_as(operand, target),
        false => pelton_functions::cast_as(operand, target),
    }))
}
