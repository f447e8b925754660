//! Scalar functions of your own.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion_common::DataFusionError;
use datafusion_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};

/// A scalar function over Arrow arrays: it gets one array for each argument, all of the same length, and returns an array of that length.
///
/// # Errors
/// Whatever the closure returns as an error stops the query and is shown to the user.
pub(crate) fn scalar_function<F>(name: &str, arguments: Vec<DataType>, returns: DataType, body: F) -> ScalarUDF
where
    F: Fn(&[ArrayRef]) -> Result<ArrayRef, String> + Send + Sync + 'static,
{
    let evaluate = move |values: &[ColumnarValue]| {
        let all_scalars = values.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(values)?;
        let result = body(&arrays).map_err(DataFusionError::Execution)?;
        if all_scalars && result.len() == 1 {
            return Ok(ColumnarValue::Scalar(datafusion_common::ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    };
    create_udf(name, arguments, returns, Volatility::Immutable, Arc::new(evaluate))
}
