//! Sums and minima over each row and those before it, by the algorithms of the literature (LightSaber, section 2.3 and figure 15), each as tight
//! as we can write it for one window that slides by one row.
//!
//! The sums drift where what leaves is subtracted; the engine's do not.

use std::marker::PhantomData;

/// How values are put together.
pub trait Operation {
    /// Changes nothing.
    const NEUTRAL: f64;

    /// Both.
    fn combine(older: f64, younger: f64) -> f64;
}

/// Addition.
#[derive(Debug)]
pub struct Sum;

impl Operation for Sum {
    const NEUTRAL: f64 = 0.0;

    #[inline]
    fn combine(older: f64, younger: f64) -> f64 {
        older + younger
    }
}

/// The smaller of both. No value is NaN.
#[derive(Debug)]
pub struct Minimum;

impl Operation for Minimum {
    const NEUTRAL: f64 = f64::INFINITY;

    #[inline]
    fn combine(older: f64, younger: f64) -> f64 {
        if older < younger { older } else { younger }
    }
}

/// An algorithm, and what it has seen.
pub trait Sliding {
    /// Nothing seen. A window has so many rows, at least one.
    fn new(rows: usize) -> Self
    where
        Self: Sized;

    /// Takes values. Result `n` is that of the window that ends with value `n`.
    fn slide(&mut self, values: &[f64], results: &mut [f64]);

    /// How many values and partial results it keeps, or has room for where that is fixed.
    fn partials(&self) -> usize;
}

/// Subtract on evict: a running sum, and a ring of what it is made of.
#[derive(Debug)]
pub struct SubtractOnEvict {
    ring: Vec<f64>,
    at: usize,
    sum: f64,
}

impl Sliding for SubtractOnEvict {
    fn new(rows: usize) -> SubtractOnEvict {
        SubtractOnEvict { ring: vec![0.0; rows], at: 0, sum: 0.0 }
    }

    fn slide(&mut self, values: &[f64], results: &mut [f64]) {
        let SubtractOnEvict { ring, at, sum } = self;
        in_pieces(at, ring.len(), values, results, |at, values, results| {
            let ring = &mut ring[at..at + values.len()];
            for ((&value, leaving), result) in values.iter().zip(ring).zip(results) {
                // One addition waits for the last row's, not two.
                *sum += value - *leaving;
                *leaving = value;
                *result = *sum;
            }
        });
    }

    fn partials(&self) -> usize {
        self.ring.len()
    }
}

/// Columns of the stream of which layouts keep more than they need (Mendes, figures 7a and 8): values of eight bytes.
const COLUMNS: usize = 4;

/// Subtract on evict that keeps whole rows, one of whose columns it looks at.
#[derive(Debug)]
pub struct KeptRows {
    ring: Vec<[f64; COLUMNS]>,
    at: usize,
    sum: f64,
}

impl Sliding for KeptRows {
    fn new(rows: usize) -> KeptRows {
        KeptRows { ring: vec![[0.0; COLUMNS]; rows], at: 0, sum: 0.0 }
    }

    fn slide(&mut self, values: &[f64], results: &mut [f64]) {
        let KeptRows { ring, at, sum } = self;
        in_pieces(at, ring.len(), values, results, |at, values, results| {
            let ring = &mut ring[at..at + values.len()];
            for ((&value, leaving), result) in values.iter().zip(ring).zip(results) {
                *sum += value - leaving[0];
                *leaving = [value; COLUMNS];
                *result = *sum;
            }
        });
    }

    fn partials(&self) -> usize {
        self.ring.len() * COLUMNS
    }
}

/// Subtract on evict that keeps all columns, each by itself, one of which it looks at.
#[derive(Debug)]
pub struct KeptColumns {
    needed: SubtractOnEvict,
    others: [Vec<f64>; COLUMNS - 1],
}

impl Sliding for KeptColumns {
    fn new(rows: usize) -> KeptColumns {
        KeptColumns { needed: SubtractOnEvict::new(rows), others: [(); COLUMNS - 1].map(|()| vec![0.0; rows]) }
    }

    fn slide(&mut self, values: &[f64], results: &mut [f64]) {
        let KeptColumns { needed, others } = self;
        let (mut at, rows) = (needed.at, needed.ring.len());
        in_pieces(&mut at, rows, values, results, |at, values, _| {
            others.iter_mut().for_each(|column| column[at..at + values.len()].copy_from_slice(values));
        });
        needed.slide(values, results);
    }

    fn partials(&self) -> usize {
        self.needed.partials() * COLUMNS
    }
}

/// Two stacks, which lie in one ring: what enters takes the places of what has left.
#[derive(Debug)]
pub struct TwoStacks<O> {
    /// Before `at` values of the back stack; from there on the front stack's totals, and `NEUTRAL` behind the last.
    ring: Vec<f64>,
    at: usize,
    back: f64,
    operation: PhantomData<O>,
}

impl<O: Operation> Sliding for TwoStacks<O> {
    fn new(rows: usize) -> TwoStacks<O> {
        TwoStacks { ring: vec![O::NEUTRAL; rows + 1], at: 0, back: O::NEUTRAL, operation: PhantomData }
    }

    fn slide(&mut self, values: &[f64], results: &mut [f64]) {
        let TwoStacks { ring, at, back, .. } = self;
        let rows = ring.len() - 1;
        in_pieces(at, rows, values, results, |at, values, results| {
            let (piece, is_last) = (&mut ring[at..=at + values.len()], at + values.len() == rows);
            for (row, (&value, result)) in values.iter().zip(results).enumerate() {
                *back = O::combine(*back, value);
                *result = O::combine(piece[row + 1], *back);
                piece[row] = value;
            }
            if is_last {
                let mut total = O::NEUTRAL;
                for value in ring[..rows].iter_mut().rev() {
                    total = O::combine(*value, total);
                    *value = total;
                }
                *back = O::NEUTRAL;
            }
        });
    }

    fn partials(&self) -> usize {
        self.ring.len() + 1
    }
}

/// SlickDeque for what cannot be subtracted: values that no later one has overtaken, in a ring of fixed size (as in LightSaber, section 6.6). For
/// sums it is [`SubtractOnEvict`].
#[derive(Debug)]
pub struct SlickDeque {
    rows: u64,
    /// Value, and its row.
    ring: Vec<(f64, u64)>,
    /// First and one past the last; counted on, taken modulo the ring's length, a power of two.
    head: usize,
    tail: usize,
    row: u64,
}

impl Sliding for SlickDeque {
    fn new(rows: usize) -> SlickDeque {
        // Before the first that has left is taken out there is one more.
        let ring = vec![(0.0, 0); (rows + 1).next_power_of_two()];
        SlickDeque { rows: rows as u64, ring, head: 0, tail: 0, row: 0 }
    }

    fn slide(&mut self, values: &[f64], results: &mut [f64]) {
        let mask = self.ring.len() - 1;
        let ring = self.ring.as_mut_slice();
        let (mut head, mut tail, mut row) = (self.head, self.tail, self.row);
        for (&value, result) in values.iter().zip(results) {
            while tail > head && ring[(tail - 1) & mask].0 >= value {
                tail -= 1;
            }
            ring[tail & mask] = (value, row);
            tail += 1;
            if ring[head & mask].1 + self.rows <= row {
                head += 1;
            }
            *result = ring[head & mask].0;
            row += 1;
        }
        (self.head, self.tail, self.row) = (head, tail, row);
    }

    fn partials(&self) -> usize {
        self.ring.len()
    }
}

/// SlideSide for what can be subtracted: a ring of running sums.
#[derive(Debug)]
pub struct SlideSideSum {
    ring: Vec<f64>,
    at: usize,
    sum: f64,
}

impl Sliding for SlideSideSum {
    fn new(rows: usize) -> SlideSideSum {
        SlideSideSum { ring: vec![0.0; rows], at: 0, sum: 0.0 }
    }

    fn slide(&mut self, values: &[f64], results: &mut [f64]) {
        let SlideSideSum { ring, at, sum } = self;
        in_pieces(at, ring.len(), values, results, |at, values, results| {
            let ring = &mut ring[at..at + values.len()];
            for ((&value, before), result) in values.iter().zip(ring).zip(results) {
                *sum += value;
                *result = *sum - *before;
                *before = *sum;
            }
        });
    }

    fn partials(&self) -> usize {
        self.ring.len()
    }
}

/// SlideSide for what cannot: the values of this round, and the totals backwards of the round before.
#[derive(Debug)]
pub struct SlideSide<O> {
    values: Vec<f64>,
    /// And `NEUTRAL` behind the last.
    suffixes: Vec<f64>,
    at: usize,
    prefix: f64,
    operation: PhantomData<O>,
}

impl<O: Operation> Sliding for SlideSide<O> {
    fn new(rows: usize) -> SlideSide<O> {
        let (values, suffixes) = (vec![O::NEUTRAL; rows], vec![O::NEUTRAL; rows + 1]);
        SlideSide { values, suffixes, at: 0, prefix: O::NEUTRAL, operation: PhantomData }
    }

    fn slide(&mut self, values: &[f64], results: &mut [f64]) {
        let SlideSide { values: kept, suffixes, at, prefix, .. } = self;
        let rows = kept.len();
        in_pieces(at, rows, values, results, |at, values, results| {
            for ((&value, &suffix), result) in values.iter().zip(&suffixes[at + 1..]).zip(results) {
                *prefix = O::combine(*prefix, value);
                *result = O::combine(suffix, *prefix);
            }
            kept[at..at + values.len()].copy_from_slice(values);
            if at + values.len() == rows {
                let mut total = O::NEUTRAL;
                for (&value, suffix) in kept.iter().zip(suffixes.iter_mut()).rev() {
                    total = O::combine(value, total);
                    *suffix = total;
                }
                *prefix = O::NEUTRAL;
            }
        });
    }

    fn partials(&self) -> usize {
        self.values.len() + self.suffixes.len()
    }
}

/// FlatFAT: a tree of totals in an array; the window's is its root.
#[derive(Debug)]
pub struct FlatFat<O> {
    /// Node `n` is above `2 n` and `2 n + 1`; the second half are leaves.
    nodes: Vec<f64>,
    rows: usize,
    at: usize,
    operation: PhantomData<O>,
}

impl<O: Operation> Sliding for FlatFat<O> {
    fn new(rows: usize) -> FlatFat<O> {
        FlatFat { nodes: vec![O::NEUTRAL; rows.next_power_of_two() * 2], rows, at: 0, operation: PhantomData }
    }

    fn slide(&mut self, values: &[f64], results: &mut [f64]) {
        let nodes = self.nodes.as_mut_slice();
        for (&value, result) in values.iter().zip(results) {
            let mut node = nodes.len() / 2 + self.at;
            self.at = if self.at + 1 == self.rows { 0 } else { self.at + 1 };
            nodes[node] = value;
            let mut total = value;
            while node > 1 {
                // The order of both does not matter to a sum or a minimum.
                total = O::combine(nodes[node ^ 1], total);
                node /= 2;
                nodes[node] = total;
            }
            *result = total;
        }
    }

    fn partials(&self) -> usize {
        self.nodes.len()
    }
}

/// Goes round a ring of `length` places from `at` on, in pieces that lie side by side.
#[inline]
fn in_pieces(
    at: &mut usize,
    length: usize,
    values: &[f64],
    results: &mut [f64],
    mut piece: impl FnMut(usize, &[f64], &mut [f64]),
) {
    let (mut values, mut results) = (values, results);
    while !values.is_empty() {
        let count = values.len().min(length - *at);
        let (now, later) = values.split_at(count);
        let (results_now, results_later) = results.split_at_mut(count);
        piece(*at, now, results_now);
        (values, results) = (later, results_later);
        *at = if *at + count == length { 0 } else { *at + count };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of an algorithm that is given values in pieces.
    fn found<S: Sliding>(values: &[f64], rows: usize) -> Vec<f64> {
        let mut sliding = S::new(rows);
        let mut results = vec![0.0; values.len()];
        for (values, results) in values.chunks(30).zip(results.chunks_mut(30)) {
            sliding.slide(values, results);
        }
        assert!(sliding.partials() >= rows);
        results
    }

    #[test]
    fn all_algorithms_agree_with_the_definition() {
        let values: Vec<f64> = (0..500).map(|row| f64::from(row * 7_919 % 101)).collect();
        for rows in [1, 2, 3, 16, 30, 64, 100, 700] {
            let frame = |row: usize| values[(row + 1).saturating_sub(rows)..=row].iter().copied();
            let sums: Vec<f64> = (0..values.len()).map(|row| frame(row).sum()).collect();
            assert_eq!(found::<SubtractOnEvict>(&values, rows), sums);
            assert_eq!(found::<SlideSideSum>(&values, rows), sums);
            assert_eq!(found::<TwoStacks<Sum>>(&values, rows), sums);
            assert_eq!(found::<FlatFat<Sum>>(&values, rows), sums);
            let minima: Vec<f64> = (0..values.len()).map(|row| frame(row).fold(f64::INFINITY, f64::min)).collect();
            assert_eq!(found::<TwoStacks<Minimum>>(&values, rows), minima);
            assert_eq!(found::<SlickDeque>(&values, rows), minima);
            assert_eq!(found::<SlideSide<Minimum>>(&values, rows), minima);
            assert_eq!(found::<FlatFat<Minimum>>(&values, rows), minima);
        }
    }
}
