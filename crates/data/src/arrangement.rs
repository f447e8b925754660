//! Which rows of an output are wanted, and in which order.

/// Which of an output's rows are written, and in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arrangement {
    /// Rows leave in this order, once all of them are there. None: in the order they come in.
    pub order: Option<Order>,
    /// So many of the first rows are left out.
    pub offset: usize,
    /// At most so many rows are written; then the output ends, and with the last output the run.
    pub rows_max: Option<usize>,
}

/// How rows are put in order. Rows that the keys do not tell apart are told apart by their other columns, so that the order
/// is the same whatever order they came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The most significant first.
    pub keys: Vec<OrderKey>,
    /// Columns that are written; the others behind them are there for the keys only.
    pub columns: usize,
}

/// One column by which rows are put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderKey {
    /// Index of the column.
    pub column: usize,
    /// Largest first.
    pub descending: bool,
    /// NULLs before everything else.
    pub nulls_first: bool,
}
