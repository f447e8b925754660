//! Averages of the rows before each row, as in a textbook: a ring of values, a sum and a count.

use arrow::array::{Array, AsArray};
use arrow::datatypes::Float64Type;
use pelton_data::Block;

/// AVG of the floating-point `value` over each row and those before it, `rows` in all. `take` is given the averages of each block.
///
/// What enters is added to a running sum, and what leaves is subtracted: the sum drifts, which the engine's does not.
///
/// # Panics
/// Where a value is NULL: the benchmarks' inputs hold none.
pub fn averages(blocks: &[Block], value: usize, rows: usize, mut take: impl FnMut(&[f64])) {
    let (mut ring, mut at) = (vec![0.0; rows], 0);
    let (mut sum, mut count) = (0.0, 0_u64);
    let mut averages = Vec::new();
    for block in blocks {
        let column = &block.raw_columns()[value];
        assert_eq!(column.null_count(), 0, "the reference loops know no NULLs");
        averages.clear();
        averages.extend(column.as_primitive::<Float64Type>().values().iter().map(|&value| {
            let leaving = std::mem::replace(&mut ring[at], value);
            at = if at + 1 == rows { 0 } else { at + 1 };
            count += u64::from(count < rows as u64);
            sum += value;
            sum -= leaving;
            sum / count as f64
        }));
        take(&averages);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, RecordBatch};

    use super::*;

    #[test]
    fn averages_are_those_of_the_rows_before() {
        let values: Vec<f64> = (0..1_000).map(|row| f64::from(row * 31 % 101)).collect();
        let block = |values: &[f64]| {
            let column: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
            Block::new(RecordBatch::try_from_iter([("v", column)]).unwrap(), None).unwrap()
        };
        let blocks: Vec<Block> = values.chunks(300).map(block).collect();
        let mut found = Vec::new();
        averages(&blocks, 0, 7, |averages| found.extend_from_slice(averages));
        let frames = (0..values.len()).map(|row| &values[(row + 1).saturating_sub(7)..=row]);
        let expected: Vec<f64> = frames.map(|frame| frame.iter().sum::<f64>() / frame.len() as f64).collect();
        assert_eq!(found, expected);
    }
}
