//! Columns that are computed of others outside of a pipeline.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Schema};
use datafusion_physical_expr::PhysicalExpr;
use pelton_state::kernel::KernelError;
use std::sync::Arc;

use super::expression::Expression;
use crate::error::CompileError;

/// Computes a column of so many rows, of those that it reads, which are asked for by their places.
pub struct Column {
    expression: Expression,
}

/// The values of an expression over columns of a schema, as values of `data_type`.
///
/// # Errors
/// Where the expression has no type over the columns.
pub fn column(planned: &Arc<dyn PhysicalExpr>, schema: &Schema, data_type: &DataType) -> Result<Column, CompileError> {
    Ok(Column { expression: Expression::new(planned, schema, Some(data_type))? })
}

impl Column {
    /// Whether it has a value for each row, and always the same.
    pub fn is_total(&self) -> bool {
        !self.expression.can_fail() && !self.expression.is_volatile()
    }

    /// Its values for so many rows.
    ///
    /// # Errors
    /// Where it has no value for one of the rows.
    pub fn compute(&self, rows: usize, column: &dyn Fn(usize) -> ArrayRef) -> Result<ArrayRef, KernelError> {
        self.expression.evaluate_columns(rows, column)
    }
}
