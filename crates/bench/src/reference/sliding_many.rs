//! Sums and minima over each row and those before it, for several windows of different lengths at once (LightSaber, figure 15 d–f): what the literature
//! does for one window, for each, or what it shares.

use std::marker::PhantomData;

use super::sliding::{Operation, Sliding};

/// An algorithm for several windows, and what it has seen.
pub trait SlidingMany {
    /// Takes values. Result `n` of each list, one a window, is that of its window that ends with value `n`.
    fn slide(&mut self, values: &[f64], results: &mut [Vec<f64>]);

    /// How many values and partial results it keeps, or has room for where that is fixed.
    fn partials(&self) -> usize;
}

/// An algorithm for one window, as often as there are windows.
pub struct Each(Vec<Box<dyn Sliding>>);

impl Each {
    /// Nothing seen. Each window has so many rows, at least one.
    pub fn new(rows: &[usize], one: fn(usize) -> Box<dyn Sliding>) -> Each {
        Each(rows.iter().map(|&rows| one(rows)).collect())
    }
}

impl SlidingMany for Each {
    fn slide(&mut self, values: &[f64], results: &mut [Vec<f64>]) {
        self.0.iter_mut().zip(results).for_each(|(one, results)| one.slide(values, results));
    }

    fn partials(&self) -> usize {
        self.0.iter().map(|one| one.partials()).sum()
    }
}

/// SlideSide for what can be subtracted: running sums, which all windows share.
#[derive(Debug)]
pub struct RunningSums {
    rows: Vec<usize>,
    /// Of at least so many rows as the longest window has.
    sums: Vec<f64>,
    longest: usize,
}

impl RunningSums {
    /// Nothing seen. Each window has so many rows, at least one.
    ///
    /// # Panics
    /// Where there is no window.
    pub fn new(rows: &[usize]) -> RunningSums {
        let longest = rows.iter().copied().max().expect("there is a window");
        RunningSums { rows: rows.to_vec(), sums: vec![0.0; longest], longest }
    }
}

impl SlidingMany for RunningSums {
    fn slide(&mut self, values: &[f64], results: &mut [Vec<f64>]) {
        // To forget what no window needs moves the rest: seldom.
        if self.sums.len() > (self.longest + values.len()) * 8 {
            self.sums.drain(..self.sums.len() - self.longest);
        }
        let first = self.sums.len();
        let mut sum = self.sums[first - 1];
        self.sums.extend(values.iter().map(|value| {
            sum += value;
            sum
        }));
        let sums = self.sums.as_slice();
        for (&rows, results) in self.rows.iter().zip(results) {
            let (now, before) = (&sums[first..], &sums[first - rows..]);
            for ((result, now), before) in results.iter_mut().zip(now).zip(before) {
                *result = now - before;
            }
        }
    }

    fn partials(&self) -> usize {
        self.sums.len()
    }
}

/// SlickDeque for what cannot be subtracted: values that no later one has overtaken, which all windows share; each has the place of its first.
#[derive(Debug)]
pub struct SlickDequeMany {
    rows: Vec<u64>,
    /// Value, and its row; a ring of a power of two.
    ring: Vec<(f64, u64)>,
    heads: Vec<usize>,
    tail: usize,
    row: u64,
}

impl SlickDequeMany {
    /// Nothing seen. Each window has so many rows, at least one.
    ///
    /// # Panics
    /// Where there is no window.
    pub fn new(rows: &[usize]) -> SlickDequeMany {
        let longest = rows.iter().copied().max().expect("there is a window");
        let ring = vec![(0.0, 0); (longest + 1).next_power_of_two()];
        let (rows, heads) = (rows.iter().map(|&rows| rows as u64).collect(), vec![0; rows.len()]);
        SlickDequeMany { rows, ring, heads, tail: 0, row: 0 }
    }
}

impl SlidingMany for SlickDequeMany {
    fn slide(&mut self, values: &[f64], results: &mut [Vec<f64>]) {
        let mask = self.ring.len() - 1;
        let ring = self.ring.as_mut_slice();
        let longest = (0..self.rows.len()).max_by_key(|&window| self.rows[window]).expect("there is a window");
        for (place, &value) in values.iter().enumerate() {
            let first = self.heads[longest];
            while self.tail > first && ring[(self.tail - 1) & mask].0 >= value {
                self.tail -= 1;
            }
            let tail = self.tail;
            ring[tail & mask] = (value, self.row);
            self.tail += 1;
            for ((&rows, head), results) in self.rows.iter().zip(&mut self.heads).zip(results.iter_mut()) {
                // What it pointed at may have been overtaken; one row leaves at a time.
                *head = (*head).min(tail);
                *head += usize::from(ring[*head & mask].1 + rows <= self.row);
                results[place] = ring[*head & mask].0;
            }
            self.row += 1;
        }
    }

    fn partials(&self) -> usize {
        self.ring.len() + self.heads.len()
    }
}

/// FlatFAT: a tree of totals over as many rows as the longest window has, in which each window looks its own up.
#[derive(Debug)]
pub struct FlatFatMany<O> {
    rows: Vec<usize>,
    /// Node `n` is above `2 n` and `2 n + 1`; the second half are leaves, a ring.
    nodes: Vec<f64>,
    at: usize,
    operation: PhantomData<O>,
}

impl<O: Operation> FlatFatMany<O> {
    /// Nothing seen. Each window has so many rows, at least one.
    ///
    /// # Panics
    /// Where there is no window.
    pub fn new(rows: &[usize]) -> FlatFatMany<O> {
        let longest = rows.iter().copied().max().expect("there is a window");
        let nodes = vec![O::NEUTRAL; longest.next_power_of_two() * 2];
        FlatFatMany { rows: rows.to_vec(), nodes, at: 0, operation: PhantomData }
    }

    /// The total of the leaves from one to another; the order does not matter to a sum or a minimum.
    #[inline]
    fn total(&self, first: usize, last: usize) -> f64 {
        let leaves = self.nodes.len() / 2;
        let (mut left, mut right, mut total) = (leaves + first, leaves + last + 1, O::NEUTRAL);
        while left < right {
            if left & 1 == 1 {
                total = O::combine(total, self.nodes[left]);
                left += 1;
            }
            if right & 1 == 1 {
                right -= 1;
                total = O::combine(total, self.nodes[right]);
            }
            (left, right) = (left / 2, right / 2);
        }
        total
    }
}

impl<O: Operation> SlidingMany for FlatFatMany<O> {
    fn slide(&mut self, values: &[f64], results: &mut [Vec<f64>]) {
        let leaves = self.nodes.len() / 2;
        for (place, &value) in values.iter().enumerate() {
            let mut node = leaves + self.at;
            self.nodes[node] = value;
            while node > 1 {
                node /= 2;
                self.nodes[node] = O::combine(self.nodes[2 * node], self.nodes[2 * node + 1]);
            }
            for (&rows, results) in self.rows.iter().zip(results.iter_mut()) {
                results[place] = match (self.at + 1).checked_sub(rows) {
                    Some(first) => self.total(first, self.at),
                    // The window begins before the end of the ring.
                    None => O::combine(self.total(leaves + self.at + 1 - rows, leaves - 1), self.total(0, self.at)),
                };
            }
            self.at = (self.at + 1) & (leaves - 1);
        }
    }

    fn partials(&self) -> usize {
        self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sliding::{Minimum, SlideSide, SubtractOnEvict, Sum, TwoStacks};
    use super::*;

    fn found(mut sliding: impl SlidingMany, values: &[f64], rows: &[usize]) -> Vec<Vec<f64>> {
        let mut all = vec![Vec::new(); rows.len()];
        for values in values.chunks(30) {
            let mut results = vec![vec![0.0; values.len()]; rows.len()];
            sliding.slide(values, &mut results);
            all.iter_mut().zip(results).for_each(|(all, results)| all.extend(results));
        }
        assert!(sliding.partials() >= *rows.iter().max().unwrap());
        all
    }

    #[test]
    fn all_algorithms_agree_with_the_definition() {
        let values: Vec<f64> = (0..500).map(|row| f64::from(row * 7_919 % 101)).collect();
        for rows in [&[1][..], &[64, 1, 3, 3, 700, 30], &[2, 100, 16]] {
            let expected = |total: fn(&[f64]) -> f64| {
                let of_window = |&rows: &usize| {
                    (0..values.len())
                        .map(|row| total(&values[(row + 1).saturating_sub(rows)..=row]))
                        .collect::<Vec<_>>()
                };
                rows.iter().map(of_window).collect::<Vec<_>>()
            };
            let sums = expected(|frame| frame.iter().sum());
            let each = Each::new(rows, |rows| Box::new(SubtractOnEvict::new(rows)));
            assert_eq!(found(each, &values, rows), sums);
            assert_eq!(found(RunningSums::new(rows), &values, rows), sums);
            let minima = expected(|frame| frame.iter().copied().fold(f64::INFINITY, f64::min));
            let each = Each::new(rows, |rows| Box::new(TwoStacks::<Minimum>::new(rows)));
            assert_eq!(found(each, &values, rows), minima);
            assert_eq!(found(SlickDequeMany::new(rows), &values, rows), minima);
            let each = Each::new(rows, |rows| Box::new(SlideSide::<Minimum>::new(rows)));
            assert_eq!(found(each, &values, rows), minima);
            assert_eq!(found(FlatFatMany::<Sum>::new(rows), &values, rows), sums);
            assert_eq!(found(FlatFatMany::<Minimum>::new(rows), &values, rows), minima);
        }
    }
}
