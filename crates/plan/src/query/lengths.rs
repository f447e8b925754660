//! Lengths of time in expressions: intervals, and what lies between two times.
//!
//! Days and what is finer have one form, in which they are compared: a day has 24 hours, as in Flink. DataFusion counts the days of an interval apart from
//! the rest of it, and what lies between two times in no days at all.

use arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::{Expr, ExprSchemable, Operator};

use super::context::external;
use crate::error::PlanError;

const NANOSECONDS_PER_DAY: i64 = 86_400_000_000_000;

/// The same length without days, unless it is one of centuries, which the rest of an interval has no room for.
pub(super) fn of_equal_days(length: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let nanoseconds = i64::from(length.days).checked_mul(NANOSECONDS_PER_DAY);
    match nanoseconds.and_then(|days| days.checked_add(length.nanoseconds)) {
        Some(nanoseconds) => IntervalMonthDayNano::new(length.months, 0, nanoseconds),
        None => length,
    }
}

/// Refuses to compare months with days, of which none have always as many.
pub(super) fn check_lengths(operator: Operator, left: &Expr, right: &Expr, schema: &DFSchema) -> Result<()> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    if !matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom) {
        return Ok(());
    }
    match (has_months(left, schema), has_months(right, schema)) {
        (Some(left), Some(right)) if left != right => {
            let error = PlanError::invalid(None, "an INTERVAL of months or years cannot be compared with one of days");
            let hint =
                "months vary in length: compare with days, or TIMESTAMPDIFF(MONTH, earlier, later) with a number";
            Err(external(error.with_hint(hint)))
        }
        _ => Ok(()),
    }
}

/// Whether a length is one of months; `None` where it is none, or not known before it is computed.
fn has_months(expression: &Expr, schema: &DFSchema) -> Option<bool> {
    match expression {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(length)), _) => Some(length.months != 0),
        Expr::Negative(length) => has_months(length, schema),
        other => matches!(other.get_type(schema), Ok(DataType::Duration(_))).then_some(false),
    }
}
