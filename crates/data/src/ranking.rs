//! Top-N: the first rows of each window and key, in an order.

use arrow::datatypes::SchemaRef;

use crate::arrangement::OrderKey;

/// Which rows of each window and key are kept, and in which order they leave. Rows that the order does not tell apart are told apart by
/// their other columns, smaller values first, so that which of them are kept does not depend on how they came.
#[derive(Debug, Clone)]
pub struct Ranking {
    /// The rows' columns, at least one.
    pub schema: SchemaRef,
    /// Which of them are the keys.
    pub keys: Vec<usize>,
    /// The order, with the most significant column first. None of them is a key.
    pub order: Vec<OrderKey>,
    /// Rank of the first row that leaves. The first of all has rank 1.
    pub first: u64,
    /// Rank of the last row that leaves: so many rows are kept.
    pub last: u64,
}

impl Ranking {
    /// The columns by which the rows of one key are told apart: those of the order, and then all others.
    pub fn sorted(&self) -> Vec<OrderKey> {
        let mut sorted = self.order.clone();
        for column in 0..self.schema.fields().len() {
            if !self.keys.contains(&column) && !sorted.iter().any(|known| known.column == column) {
                sorted.push(OrderKey { column, descending: false, nulls_first: true });
            }
        }
        sorted
    }
}
