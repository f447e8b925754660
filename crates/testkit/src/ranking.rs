//! What the first rows of windows are, by their definition: all rows of each group of each window, put in order.

use std::cmp::Ordering;

use crate::windows::Row;

/// A column of rows by which they are put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderColumn {
    /// Which: `ts`, `k`, `i`, `f` or `s`.
    pub name: &'static str,
    /// Largest first.
    pub is_descending: bool,
    /// NULLs before everything else.
    pub nulls_first: bool,
}

impl OrderColumn {
    /// In SQL.
    pub fn sql(&self) -> String {
        let direction = if self.is_descending { "DESC" } else { "ASC" };
        let nulls = if self.nulls_first { "FIRST" } else { "LAST" };
        format!("{} {direction} NULLS {nulls}", self.name)
    }

    fn compare(&self, left: &Row, right: &Row) -> Ordering {
        let (ordering, is_null) = match self.name {
            "ts" => (left.time.cmp(&right.time), (false, false)),
            "k" => (left.key.cmp(&right.key), (left.key.is_none(), right.key.is_none())),
            "i" => (left.integer.cmp(&right.integer), (left.integer.is_none(), right.integer.is_none())),
            "f" => {
                let both = left.float.zip(right.float).map(|(left, right)| left.total_cmp(&right));
                (both.unwrap_or(Ordering::Equal), (left.float.is_none(), right.float.is_none()))
            }
            _ => (left.text.cmp(&right.text), (left.text.is_none(), right.text.is_none())),
        };
        match is_null {
            (true, true) => Ordering::Equal,
            (true, false) | (false, true) => (is_null.0 != self.nulls_first).cmp(&(is_null.1 != self.nulls_first)),
            (false, false) if self.is_descending => ordering.reverse(),
            (false, false) => ordering,
        }
    }
}

/// The first `rows_max` rows in an order, of rows that are given as they came. Those that it does not tell apart are in the order of `others`, smaller values and
/// NULLs first, and then as they came.
pub fn first_rows<'r>(
    rows: &[&'r Row],
    order: &[OrderColumn],
    others: &[&'static str],
    rows_max: usize,
) -> Vec<&'r Row> {
    let others = others.iter().map(|name| OrderColumn { name, is_descending: false, nulls_first: true });
    let columns: Vec<OrderColumn> = order.iter().copied().chain(others).collect();
    let mut rows = rows.to_vec();
    rows.sort_by(|left, right| {
        let differing = columns.iter().map(|column| column.compare(left, right)).find(|ordering| ordering.is_ne());
        differing.unwrap_or(Ordering::Equal)
    });
    rows.truncate(rows_max);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_told_apart_by_their_other_columns() {
        let row = |time, integer| Row { time, key: None, integer, float: None, text: None };
        let rows = [row(1, Some(5)), row(2, None), row(3, Some(7)), row(0, Some(5))];
        let rows: Vec<&Row> = rows.iter().collect();
        let first = |is_descending, nulls_first, rows_max| {
            let order = [OrderColumn { name: "i", is_descending, nulls_first }];
            first_rows(&rows, &order, &["ts"], rows_max).iter().map(|row| row.time).collect::<Vec<_>>()
        };
        assert_eq!(first(false, true, 3), [2, 0, 1]);
        assert_eq!(first(true, false, 4), [3, 0, 1, 2]);
        assert_eq!(first(true, true, 2), [2, 3]);
        let order = [OrderColumn { name: "i", is_descending: false, nulls_first: false }];
        assert_eq!(first_rows(&rows, &order, &[], 2).iter().map(|row| row.time).collect::<Vec<_>>(), [1, 0]);
    }
}
