//! `TO_TIMESTAMP_LTZ`: of whole numbers of seconds and milliseconds it is a cast.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{Expr, ExprSchemable, cast};
use pelton_data::column::sql_name;

use super::literals::whole_number;
use crate::errors::{PlanError, external};

/// A call of `TO_TIMESTAMP_LTZ`, whose first argument has this type, as what computes it.
pub(crate) fn instant(mut call: ScalarFunction, data_type: &DataType, schema: &DFSchema) -> Result<Expr> {
    let others = call.args[1..].iter().map(|argument| argument.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let is_text = |of: &DataType| of.is_string() || of.is_null();
    let is_fitting = match data_type {
        text if text.is_string() => others.iter().all(is_text),
        number if number.is_numeric() || number.is_null() => {
            others.len() < 2 && others.iter().all(|of| of.is_integer() || of.is_null())
        }
        _ => false,
    };
    if !is_fitting {
        let types: Vec<String> = [data_type].into_iter().chain(&others).map(sql_name).collect();
        let message = format!("there is no TO_TIMESTAMP_LTZ({})", types.join(", "));
        let hint = "write TO_TIMESTAMP_LTZ(number [, precision]) or TO_TIMESTAMP_LTZ(text [, pattern [, zone]])";
        return Err(external(PlanError::invalid(None, message).with_hint(hint)));
    }
    let precision = match call.args.get(1) {
        None => Some(3),
        Some(precision) => whole_number(precision),
    };
    let instant = |unit: TimeUnit| DataType::Timestamp(unit, Some("+00:00".into()));
    let unit = match precision {
        Some(0) => TimeUnit::Second,
        Some(3) => TimeUnit::Millisecond,
        _ => return Ok(Expr::ScalarFunction(call)),
    };
    if !data_type.is_integer() {
        return Ok(Expr::ScalarFunction(call));
    }
    let target = Expr::Literal(ScalarValue::try_from(&instant(unit))?, None);
    let instants = pelton_functions::cast_as(call.args.swap_remove(0), target);
    Ok(if unit == TimeUnit::Second { cast(instants, instant(TimeUnit::Millisecond)) } else { instants })
}
