//! Conditions of pairs of rows that a join has put together.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use datafusion_physical_expr::PhysicalExpr;
use pelton_state::join::streams::Test;

use super::expression::Expression;
use super::rows::true_rows;
use crate::error::CompileError;

/// Which rows of a batch with these columns a predicate is true for.
///
/// # Errors
/// Where the predicate has no type over the columns.
pub fn test(predicate: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<Test>, CompileError> {
    let predicate = Expression::new(predicate, schema, Some(&DataType::Boolean))?;
    Ok(Arc::new(move |rows: &RecordBatch| {
        let met = predicate.evaluate_batch(rows)?;
        Ok(true_rows(met.as_boolean()))
    }))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};
    use datafusion_physical_expr::expressions::{binary, col, lit};

    use super::*;

    #[test]
    fn null_is_not_true() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
        let rows = RecordBatch::try_from_iter([("other", values.clone()), ("v", values)]).unwrap();
        let schema = rows.schema();
        let is_large = binary(col("v", &schema).unwrap(), datafusion_expr::Operator::Gt, lit(2_i64), &schema).unwrap();
        let met = test(&is_large, &schema).unwrap()(&rows).unwrap();
        assert_eq!(met.iter().collect::<Vec<_>>(), [false, false, true]);
    }
}
