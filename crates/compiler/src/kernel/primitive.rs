//! Predicates that primitives evaluate.

use arrow::datatypes::DataType;

use crate::interpret::expression::Expression;
use crate::select::Selector;

/// A predicate over one column of the block.
pub(crate) struct Select {
    /// The column.
    pub(crate) column: usize,
    /// Its type, as blocks have it.
    pub(crate) data_type: DataType,
    /// The test.
    pub(crate) selector: Selector,
    /// As planned, for people.
    pub(crate) planned: Expression,
}
