//! Simplification of expressions, with casts as Flink has them.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::{Cast, Expr, ExprSchemable, TryCast, cast};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use pelton_data::decimal::divides_exactly;
use pelton_functions::decimal::decimal_to_double;
use pelton_functions::{
    cast_as, cast_literal, is_flink_cast, is_own_cast, strict_cast_as, strict_cast_literal, timestamp_to_string,
    try_cast_as,
};

use super::fractions::keep_fractions;
use super::memberships::set_apart;
use super::strictness::is_strict;

/// DataFusion's settings; nothing of a session changes them.
pub(crate) static CONFIGURATION: LazyLock<Arc<ConfigOptions>> = LazyLock::new(|| {
    let mut options = ConfigOptions::default();
    // The type that casts to TIMESTAMP_LTZ give.
    options.execution.time_zone = Some("+00:00".to_string());
    options.optimizer.skip_failed_rules = false;
    options.optimizer.filter_null_join_keys = false;
    Arc::new(options)
});

/// Folds constants and brings comparisons into the form `column operator literal`.
pub(crate) fn simplify(expression: Expr, scope: &Arc<DFSchema>) -> Result<Expr> {
    if matches!(expression, Expr::Column(_) | Expr::Literal(..)) {
        return Ok(expression);
    }
    let context = SimplifyContext::builder()
        .with_schema(scope.clone())
        .with_config_options(CONFIGURATION.clone())
        .with_current_time()
        .build();
    let expression = set_apart(flink_casts(expression, scope)?, scope)?;
    let simplified = ExprSimplifier::new(context).simplify(expression.data)?;
    Ok(if expression.transformed { simplified.unalias_nested().data } else { simplified })
}

/// Lets casts mean what they do in Flink. DataFusion's writes timestamps as RFC 3339 does, rounds twice what it makes of decimals, and does more that
/// `pelton_functions` has another way for.
fn flink_casts(expression: Expr, scope: &Arc<DFSchema>) -> Result<Expr> {
    let replaced = expression.transform_up(|node| {
        let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = &node else {
            return Ok(match keep_fractions(&node, scope)? {
                Some(kept) => Transformed::yes(kept),
                None => Transformed::no(node),
            });
        };
        let (from, to) = (expr.get_type(scope)?, field.data_type());
        if let Some(literal) = widened(expr, to) {
            return Ok(Transformed::yes(literal));
        }
        match from {
            DataType::Decimal128(precision, digits) if to.is_floating() && !divides_exactly(precision, digits) => {
                let double = decimal_to_double(expr.as_ref().clone());
                Ok(Transformed::yes(if *to == DataType::Float64 { double } else { cast(double, to.clone()) }))
            }
            DataType::Timestamp(..) if to.is_string() => {
                let text = timestamp_to_string(expr.as_ref().clone());
                Ok(Transformed::yes(if *to == DataType::Utf8View { text } else { cast(text, to.clone()) }))
            }
            from if is_own_cast(&from, to) || !is_strict() && is_flink_cast(&from, to) => {
                let is_try = matches!(node, Expr::TryCast(_));
                own_cast(expr.as_ref().clone(), to, is_try, scope).map(Transformed::yes)
            }
            _ => Ok(Transformed::no(node)),
        }
    })?;
    Ok(replaced.data)
}

/// A whole number as a literal of a wider type: comparisons are brought into their form before the simplifier folds casts.
fn widened(operand: &Expr, to: &DataType) -> Option<Expr> {
    let Expr::Literal(literal @ (ScalarValue::Int32(Some(_)) | ScalarValue::Int64(Some(_))), _) = operand else {
        return None;
    };
    let is_wider = matches!(to, DataType::Int64 | DataType::Float64 | DataType::Decimal128(..));
    let widened = literal.cast_to(to).ok().filter(|widened| is_wider && !widened.is_null())?;
    Some(Expr::Literal(widened, None))
}

/// A cast that `pelton_functions` computes. One of a constant is computed now, so that a wrong one is refused where it stands.
fn own_cast(value: Expr, to: &DataType, is_try: bool, scope: &Arc<DFSchema>) -> Result<Expr> {
    let value = if value.any_column_refs() { value } else { simplify(value, scope)? };
    if let Expr::Literal(value, _) = &value {
        let literal = match is_strict() && !is_try {
            true => strict_cast_literal(value, to)?,
            false => cast_literal(value, to, is_try)?,
        };
        return Ok(Expr::Literal(literal, None));
    }
    let target = Expr::Literal(ScalarValue::try_from(to)?, None);
    Ok(match is_try {
        true => try_cast_as(value, target),
        false if is_strict() => strict_cast_as(value, target),
        false => cast_as(value, target),
    })
}
