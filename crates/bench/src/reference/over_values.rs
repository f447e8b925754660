//! What needs all values of a window that slides by one row, as one would write it by hand.

use std::collections::HashMap;

use super::sliding::Sliding;

/// A ring of the values, and something that they enter and leave.
#[derive(Debug)]
struct Ring {
    values: Vec<f64>,
    rows: usize,
    at: usize,
}

impl Ring {
    fn new(rows: usize) -> Ring {
        Ring { values: Vec::new(), rows, at: 0 }
    }

    /// Takes a value, and gives the one that leaves.
    fn replace(&mut self, value: f64) -> Option<f64> {
        if self.values.len() < self.rows {
            self.values.push(value);
            return None;
        }
        let left = std::mem::replace(&mut self.values[self.at], value);
        self.at = (self.at + 1) % self.rows;
        Some(left)
    }
}

/// The values in a sorted array that each is moved into, and out of: O(n) a row.
#[derive(Debug)]
struct SortedArray {
    ring: Ring,
    sorted: Vec<f64>,
}

impl SortedArray {
    fn new(rows: usize) -> SortedArray {
        SortedArray { ring: Ring::new(rows), sorted: Vec::new() }
    }

    /// All values, with the next one and without the one that leaves.
    #[inline]
    fn with(&mut self, value: f64) -> &[f64] {
        let SortedArray { ring, sorted } = self;
        if let Some(left) = ring.replace(value) {
            sorted.remove(sorted.partition_point(|other| *other < left));
        }
        sorted.insert(sorted.partition_point(|other| *other < value), value);
        sorted
    }

    fn partials(&self) -> usize {
        self.ring.values.len() + self.sorted.len()
    }
}

/// The median.
#[derive(Debug)]
pub struct SortedArrayMedian(SortedArray);

impl Sliding for SortedArrayMedian {
    fn new(rows: usize) -> SortedArrayMedian {
        SortedArrayMedian(SortedArray::new(rows))
    }

    fn slide(&mut self, values: &[f64], results: &mut [f64]) {
        for (&value, result) in values.iter().zip(results) {
            let sorted = self.0.with(value);
            let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
            *result = low + (high - low) / 2.0;
        }
    }

    fn partials(&self) -> usize {
        self.0.partials()
    }
}

/// The sum of [`FRACTIONS`] of the values, between two of them where they lie there.
#[derive(Debug)]
pub struct SortedArrayPercentiles(SortedArray);

/// Percentiles.
const FRACTIONS: [f64; 3] = [0.5, 0.95, 0.99];

impl Sliding for SortedArrayPercentiles {
    fn new(rows: usize) -> SortedArrayPercentiles {
        SortedArrayPercentiles(SortedArray::new(rows))
    }

    fn slide(&mut self, values: &[f64], results: &mut [f64]) {
        for (&value, result) in values.iter().zip(results) {
            let sorted = self.0.with(value);
            let percentile = |fraction: f64| {
                let place = fraction * (sorted.len() - 1) as f64;
                let low = sorted[place as usize];
                let high = sorted[(place as usize + 1).min(sorted.len() - 1)];
                low + (high - low) * place.fract()
            };
            *result = FRACTIONS.into_iter().map(percentile).sum();
        }
    }

    fn partials(&self) -> usize {
        self.0.partials()
    }
}

/// How many values are distinct, by the standard library's hash map from values to how often they come.
#[derive(Debug)]
pub struct HashMapDistinct {
    ring: Ring,
    counts: HashMap<u64, u64>,
}

impl Sliding for HashMapDistinct {
    fn new(rows: usize) -> HashMapDistinct {
        HashMapDistinct { ring: Ring::new(rows), counts: HashMap::new() }
    }

    fn slide(&mut self, values: &[f64], results: &mut [f64]) {
        let HashMapDistinct { ring, counts } = self;
        for (&value, result) in values.iter().zip(results) {
            *counts.entry(value.to_bits()).or_insert(0) += 1;
            if let Some(left) = ring.replace(value) {
                let count = counts.get_mut(&left.to_bits()).expect("it has come");
                *count -= 1;
                if *count == 0 {
                    counts.remove(&left.to_bits());
                }
            }
            *result = counts.len() as f64;
        }
    }

    fn partials(&self) -> usize {
        self.ring.values.len() + self.counts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_those_of_the_values_before() {
        let values: Vec<f64> = (0..500).map(|row| f64::from(row * 31 % 101)).collect();
        for rows in [1, 8, 75] {
            let [mut medians, mut distinct, mut percentiles] = [(); 3].map(|()| vec![0.0; 500]);
            SortedArrayMedian::new(rows).slide(&values, &mut medians);
            SortedArrayPercentiles::new(rows).slide(&values, &mut percentiles);
            HashMapDistinct::new(rows).slide(&values, &mut distinct);
            for row in 0..500 {
                let mut frame = values[(row + 1_usize).saturating_sub(rows)..=row].to_vec();
                frame.sort_by(f64::total_cmp);
                let median = f64::midpoint(frame[(frame.len() - 1) / 2], frame[frame.len() / 2]);
                let upper = [0.95, 0.99]
                    .map(|fraction| pelton_data::percentile::continuous_place(frame.len(), fraction, false));
                let upper = upper.map(|(place, share)| {
                    let high = frame[(place + 1).min(frame.len() - 1)];
                    pelton_data::percentile::between(frame[place], high, share)
                });
                let error = percentiles[row] - (median + upper[0] + upper[1]);
                assert!(error.abs() < 1e-9, "{error} in row {row} of {rows}");
                frame.dedup();
                assert_eq!((medians[row], distinct[row]), (median, frame.len() as f64));
            }
        }
    }
}
