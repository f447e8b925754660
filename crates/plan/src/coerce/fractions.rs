//! Casts of times that are compared with constants which the times themselves cannot be: a fraction of a second, or of a day.
//!
//! DataFusion takes such a cast from the time and what does not fit from the constant, so that `CAST(t AS TIMESTAMP(3)) < TIMESTAMP '… 00:00:00.5'` becomes
//! `t < TIMESTAMP '… 00:00:00'`. It does not look through a cast that it does not know.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{Between, InList};
use datafusion_expr::{BinaryExpr, Cast, Expr, ExprSchemable, TryCast};
use pelton_data::time::ticks_per_second;
use pelton_functions::{cast_as, try_cast_as};

use crate::coerce::comparisons::is_comparison;

const SECONDS_PER_DAY: i64 = 86_400;

/// A comparison with such casts as calls; `None` where there are none.
pub(crate) fn keep_fractions(comparison: &Expr, scope: &DFSchema) -> Result<Option<Expr>> {
    let mut kept = comparison.clone();
    let mut values: Vec<&mut Expr> = match &mut kept {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => vec![left, right],
        Expr::Between(Between { expr, low, high, .. }) => vec![expr, low, high],
        Expr::InList(InList { expr, list, .. }) => list.iter_mut().chain([&mut **expr]).collect(),
        _ => return Ok(None),
    };
    let constants: Vec<ScalarValue> = values.iter().filter_map(|value| constant(value)).collect();
    let mut is_kept = false;
    for value in &mut values {
        let (inner, target, is_try) = match &mut **value {
            Expr::Cast(Cast { expr, field }) => (expr, field, false),
            Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
            _ => continue,
        };
        let from = inner.get_type(scope)?;
        if constants.iter().all(|constant| holds(&from, constant)) {
            continue;
        }
        let (inner, target) = (std::mem::take(&mut **inner), ScalarValue::try_from(target.data_type())?);
        let called = if is_try { try_cast_as } else { cast_as };
        **value = called(inner, Expr::Literal(target, None));
        is_kept = true;
    }
    Ok(is_kept.then_some(kept))
}

/// What a literal is, whatever it is cast to.
fn constant(value: &Expr) -> Option<ScalarValue> {
    match value {
        Expr::Literal(literal, _) => Some(literal.clone()),
        Expr::Cast(Cast { expr, field }) => constant(expr)?.cast_to(field.data_type()).ok(),
        _ => None,
    }
}

/// Whether times of a type can be equal to a constant; true of what are no times.
fn holds(times: &DataType, constant: &ScalarValue) -> bool {
    use ScalarValue::{TimestampMicrosecond, TimestampMillisecond, TimestampNanosecond, TimestampSecond};
    let (ticks, unit) = match constant {
        TimestampSecond(Some(ticks), _) => (*ticks, TimeUnit::Second),
        TimestampMillisecond(Some(ticks), _) => (*ticks, TimeUnit::Millisecond),
        TimestampMicrosecond(Some(ticks), _) => (*ticks, TimeUnit::Microsecond),
        TimestampNanosecond(Some(ticks), _) => (*ticks, TimeUnit::Nanosecond),
        _ => return true,
    };
    match times {
        DataType::Date32 => ticks % (SECONDS_PER_DAY * ticks_per_second(unit)) == 0,
        DataType::Timestamp(coarser, _) if *coarser < unit => {
            ticks % (ticks_per_second(unit) / ticks_per_second(*coarser)) == 0
        }
        _ => true,
    }
}
