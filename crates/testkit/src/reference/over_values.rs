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

/// The median, from a sorted array that each value is moved into, and out of: O(n) a row.
#[derive(Debug)]
pub struct SortedArrayMedian {
    ring: Ring,
    sorted: Vec<f64>,
}

impl Sliding for SortedArrayMedian {
    fn new(rows: usize) -> SortedArrayMedian {
        SortedArrayMedian { ring: Ring::new(rows), sorted: Vec::new() }
    }

    fn slide(&mut self, values: &[f64], results: &mut [f64]) {
        let SortedArrayMedian { ring, sorted } = self;
        for (&value, result) in values.iter().zip(results) {
            if let Some(left) = ring.replace(value) {
                sorted.remove(sorted.partition_point(|other| *other < left));
            }
            sorted.insert(sorted.partition_point(|other| *other < value), value);
            let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
            *result = low + (high - low) / 2.0;
        }
    }

    fn partials(&self) -> usize {
        self.ring.values.len() + self.sorted.len()
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
            let (mut medians, mut distinct) = (vec![0.0; 500], vec![0.0; 500]);
            SortedArrayMedian::new(rows).slide(&values, &mut medians);
            HashMapDistinct::new(rows).slide(&values, &mut distinct);
            for row in 0..500 {
                let mut frame = values[(row + 1_usize).saturating_sub(rows)..=row].to_vec();
                frame.sort_by(f64::total_cmp);
                let median = f64::midpoint(frame[(frame.len() - 1) / 2], frame[frame.len() / 2]);
                frame.dedup();
                assert_eq!((medians[row], distinct[row]), (median, frame.len() as f64));
            }
        }
    }
}
