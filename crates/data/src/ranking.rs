//! Top-N: the first rows of each window and key, in an order.

use arrow::datatypes::SchemaRef;

use crate::arrangement::OrderKey;

/// How rows of one key are numbered, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Numbering {
    /// `ROW_NUMBER()`: each row has a number of its own.
    Rows,
    /// `RANK()`: rows that are equal in the order have the number of the first of them.
    Rank,
    /// `DENSE_RANK()`: rows that are equal in the order have one number, and the next rows have the next.
    DenseRank,
}

/// Which rows of each window and key are kept, and in which order they leave. Rows that are equal in the order stand as they came where that is
/// known; else their other columns tell them apart, smaller values first. So which of them are kept depends neither on workers nor on blocks.
#[derive(Debug, Clone)]
pub struct Ranking {
    /// The rows' columns, at least one.
    pub schema: SchemaRef,
    /// Which of them are the keys.
    pub keys: Vec<usize>,
    /// The order, with the most significant column first. None of them is a key.
    pub order: Vec<OrderKey>,
    /// Which of the columns says how rows came, where that is known: a position among all rows, which grows. It is the last of the order.
    pub arrival: Option<usize>,
    /// Whether these positions are the same in each run. Those of rows of several partitions depend on which was read first: then all are written as 0, and
    /// the other columns tell rows apart.
    pub knows_arrival: bool,
    /// How rows are numbered.
    pub numbering: Numbering,
    /// Number of the first row that leaves.
    pub first: u64,
    /// Number of the last row that leaves.
    pub last: u64,
}

impl Ranking {
    /// How many columns of the order make rows equal that share their values.
    pub fn peer_columns(&self) -> usize {
        self.order.iter().take_while(|key| Some(key.column) != self.arrival).count()
    }

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
