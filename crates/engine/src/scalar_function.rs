//! Scalar functions of your own.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use pelton_data::column::sql_name;

use crate::function::{checked, guarded};

/// A scalar function over Arrow arrays: it gets one array for each argument, all of the same length, and returns an array of that length.
///
/// # Errors
/// Whatever the closure returns as an error stops the query and is shown to the user.
pub(crate) fn scalar_function<F>(name: &str, arguments: Vec<DataType>, returns: DataType, body: F) -> ScalarUDF
where
    F: Fn(&[ArrayRef]) -> Result<ArrayRef, String> + Send + Sync + 'static,
{
    let signature = Signature::user_defined(Volatility::Immutable);
    let name = name.to_owned();
    ScalarUDF::new_from_impl(OwnFunction { name, arguments, returns, signature, body: Arc::new(body) })
}

type Body = dyn Fn(&[ArrayRef]) -> Result<ArrayRef, String> + Send + Sync;

/// A function as DataFusion's planner sees it: these arguments, which are cast to their types, and this result.
struct OwnFunction {
    name: String,
    arguments: Vec<DataType>,
    returns: DataType,
    signature: Signature,
    body: Arc<Body>,
}

impl fmt::Debug for OwnFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScalarFunction").field(&self.name).finish()
    }
}

impl PartialEq for OwnFunction {
    fn eq(&self, other: &OwnFunction) -> bool {
        Arc::ptr_eq(&self.body, &other.body)
    }
}

impl Eq for OwnFunction {}

impl Hash for OwnFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for OwnFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name.to_uppercase();
        if given.len() != self.arguments.len() {
            let plural = if self.arguments.len() == 1 { "" } else { "s" };
            return plan_err!("{name} takes {} argument{plural}, not {}", self.arguments.len(), given.len());
        }
        match self.arguments.iter().zip(given).position(|(wanted, given)| !takes(wanted, given)) {
            None => Ok(self.arguments.clone()),
            Some(at) => plan_err!(
                "argument {} of {name} is {}; it must be {}: use CAST",
                at + 1,
                sql_name(&given[at]),
                sql_name(&self.arguments[at])
            ),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = &arguments.args;
        let all_scalars = values.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(values)?;
        let result = guarded(|| (self.body)(&arrays))
            .and_then(|result| checked(result, arrays.first().map_or(1, |array| array.len()), &self.returns))
            .map_err(DataFusionError::Execution)?;
        if all_scalars && result.len() == 1 {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

/// Whether an argument of a type is cast to the type that a function wants: where no value of it is lost. Integers that are large become the nearest floating-point numbers.
fn takes(wanted: &DataType, given: &DataType) -> bool {
    use DataType::{Date32, Decimal128, Float32, Float64, List, Map, Struct, Timestamp};
    match (wanted, given) {
        (wanted, given) if wanted == given || given.is_null() => true,
        (Timestamp(wanted, wanted_zone), Timestamp(given, given_zone)) => {
            (wanted_zone.is_some() || given_zone.is_none()) && fraction_digits(*wanted) >= fraction_digits(*given)
        }
        (Timestamp(..), Date32) => true,
        (Float64, given) => given.is_numeric(),
        (Float32, given) => given.is_integer(),
        (Decimal128(precision, scale), given) => decimal_digits(given).is_some_and(|(given, given_scale)| {
            let whole = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
            *scale >= given_scale && whole(*precision, *scale) >= whole(given, given_scale)
        }),
        (wanted, given) if wanted.is_integer() && given.is_integer() => {
            wanted.primitive_width() >= given.primitive_width()
        }
        (List(wanted), List(given)) => takes(wanted.data_type(), given.data_type()),
        (Map(wanted, _), Map(given, _)) => match (wanted.data_type(), given.data_type()) {
            (Struct(wanted), Struct(given)) if wanted.len() == given.len() => {
                wanted.iter().zip(given).all(|(wanted, given)| takes(wanted.data_type(), given.data_type()))
            }
            _ => false,
        },
        (wanted, given) => (wanted.is_string() && given.is_string()) || (wanted.is_binary() && given.is_binary()),
    }
}

/// Digits that values of an exact type have, and how many of them are behind the point.
fn decimal_digits(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal128(precision, scale) => Some((*precision, *scale)),
        DataType::Int8 => Some((3, 0)),
        DataType::Int16 => Some((5, 0)),
        DataType::Int32 => Some((10, 0)),
        DataType::Int64 => Some((19, 0)),
        _ => None,
    }
}

/// Fractional digits of a second.
fn fraction_digits(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_cast_where_nothing_is_lost() {
        use DataType::{Decimal128, Float64, Int32, Int64, Null, Timestamp, Utf8, Utf8View};
        let time = |unit: TimeUnit| Timestamp(unit, None);
        let taken = [
            (Int64, Int32),
            (Float64, Int64),
            (Utf8, Utf8View),
            (Int64, Null),
            (time(TimeUnit::Microsecond), time(TimeUnit::Second)),
            (Decimal128(38, 9), Decimal128(10, 2)),
            (Decimal128(28, 9), Int64),
        ];
        let refused = [
            (Int32, Int64),
            (Int64, time(TimeUnit::Second)),
            (time(TimeUnit::Second), time(TimeUnit::Millisecond)),
            (Decimal128(10, 2), Decimal128(10, 3)),
            (Decimal128(10, 2), Decimal128(11, 2)),
            (Decimal128(27, 9), Int64),
            (Int64, Utf8),
        ];
        taken.iter().for_each(|(wanted, given)| assert!(takes(wanted, given), "{given} as {wanted}"));
        refused.iter().for_each(|(wanted, given)| assert!(!takes(wanted, given), "{given} as {wanted}"));
    }
}
