//! Functions of the rows before each row, over blocks.

use pelton_data::Block;

use super::doubles;
use super::sliding::Sliding;
use super::sliding_many::SlidingMany;

/// The results of an algorithm over the `value` of each row, as a double, and those before it, `rows` in all. `take` is given those of
/// each block.
///
/// # Panics
/// Where a value is NULL: the benchmarks' inputs hold none.
pub fn slide<S: Sliding>(blocks: &[Block], value: usize, rows: usize, mut take: impl FnMut(&mut [f64])) {
    let mut sliding = S::new(rows);
    let mut results = Vec::new();
    for block in blocks {
        results.resize(block.rows(), 0.0);
        sliding.slide(&doubles(block, value), &mut results);
        take(&mut results);
    }
}

/// As [`slide`], for several windows. `take` is given a list for each.
///
/// # Panics
/// As [`slide`].
pub fn slide_many(
    blocks: &[Block],
    value: usize,
    (sliding, windows): (&mut dyn SlidingMany, usize),
    mut take: impl FnMut(&[Vec<f64>]),
) {
    let mut results = vec![Vec::new(); windows];
    for block in blocks {
        results.iter_mut().for_each(|results| results.resize(block.rows(), 0.0));
        sliding.slide(&doubles(block, value), &mut results);
        take(&results);
    }
}

/// AVG over each row and those before it, as [`slide`]: a running sum divided by a count. `S` says what is kept of the rows.
///
/// What enters is added to a running sum, and what leaves is subtracted: the sum drifts, which the engine's does not.
///
/// # Panics
/// As [`slide`].
pub fn averages<S: Sliding>(blocks: &[Block], value: usize, rows: usize, mut take: impl FnMut(&[f64])) {
    let mut count = 0;
    slide::<S>(blocks, value, rows, |sums| {
        let growing = (rows - count).min(sums.len());
        let (first, full) = sums.split_at_mut(growing);
        for sum in first {
            count += 1;
            *sum /= count as f64;
        }
        full.iter_mut().for_each(|sum| *sum /= rows as f64);
        take(sums);
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch};

    use super::*;
    use crate::reference::sliding::{KeptColumns, KeptRows, SubtractOnEvict};

    type Averages = fn(&[Block], usize, &mut Vec<f64>);

    #[test]
    fn averages_are_those_of_the_rows_before() {
        let values: Vec<f64> = (0..1_000).map(|row| f64::from(row * 31 % 101)).collect();
        let block = |values: &[f64]| {
            let column: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
            Block::new(RecordBatch::try_from_iter([("v", column)]).unwrap(), None).unwrap()
        };
        let blocks: Vec<Block> = values.chunks(300).map(block).collect();
        for rows in [7, 450] {
            let layouts: [Averages; 3] = [
                |blocks, rows, found| {
                    averages::<SubtractOnEvict>(blocks, 0, rows, |some| found.extend_from_slice(some))
                },
                |blocks, rows, found| averages::<KeptRows>(blocks, 0, rows, |some| found.extend_from_slice(some)),
                |blocks, rows, found| averages::<KeptColumns>(blocks, 0, rows, |some| found.extend_from_slice(some)),
            ];
            let frames = (0..values.len()).map(|row| &values[(row + 1).saturating_sub(rows)..=row]);
            let expected: Vec<f64> = frames.map(|frame| frame.iter().sum::<f64>() / frame.len() as f64).collect();
            for averages in layouts {
                let mut found = Vec::new();
                averages(&blocks, rows, &mut found);
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn integers_are_taken_as_doubles() {
        use crate::reference::sliding_many::SlickDequeMany;
        let values: Vec<i32> = (0..500).map(|row| row * 31 % 101 - 50).collect();
        let columns: [ArrayRef; 2] = [
            Arc::new(Int32Array::from(values.clone())),
            Arc::new(Float64Array::from_iter_values(values.iter().map(|&value| f64::from(value)))),
        ];
        let found = columns.map(|column| {
            let block = Block::new(RecordBatch::try_from_iter([("v", column)]).unwrap(), None).unwrap();
            let mut found = Vec::new();
            slide_many(&[block], 0, (&mut SlickDequeMany::new(&[7, 90]), 2), |results| {
                found.extend_from_slice(results)
            });
            found
        });
        assert_eq!(found[0], found[1]);
        assert_eq!(found[0][1][499], f64::from(*values[410..].iter().min().unwrap()));
    }
}
