//! The smallest or largest value of frames.

use std::collections::VecDeque;

use arrow::array::ArrowNativeTypeOp;

/// The extreme value of a frame that moves forward, on a monotone queue: values that a later and better one has overtaken will never
/// be the extreme again and are dropped, so that what is left is sorted, the best first.
#[derive(Debug)]
pub(super) struct Extreme<T> {
    /// Position and value.
    candidates: VecDeque<(u64, T)>,
    is_largest: bool,
    is_bounded: bool,
}

impl<T: ArrowNativeTypeOp> Extreme<T> {
    /// Of no values yet.
    pub fn new(is_largest: bool, is_bounded: bool) -> Extreme<T> {
        Extreme { candidates: VecDeque::new(), is_largest, is_bounded }
    }

    /// The value at `position`, behind all others, enters.
    #[inline]
    pub fn push(&mut self, position: u64, value: T) {
        // Where no value ever leaves, only the best counts.
        if !self.is_bounded && self.candidates.front().is_some_and(|(_, best)| !self.is_better(value, *best)) {
            return;
        }
        while let Some(&(_, last)) = self.candidates.back()
            && !self.is_better(last, value)
        {
            self.candidates.pop_back();
        }
        self.candidates.push_back((position, value));
    }

    #[inline]
    fn is_better(&self, value: T, other: T) -> bool {
        if self.is_largest { value.is_gt(other) } else { value.is_lt(other) }
    }

    /// Values before `start` leave.
    #[inline]
    pub fn evict(&mut self, start: u64) {
        while self.candidates.front().is_some_and(|(position, _)| *position < start) {
            self.candidates.pop_front();
        }
    }

    /// The extreme value, if there is any.
    #[inline]
    pub fn value(&self) -> Option<T> {
        self.candidates.front().map(|(_, value)| *value)
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.candidates.capacity() * size_of::<(u64, T)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extreme_of_a_frame_is_that_of_its_values() {
        let values: Vec<i64> = (0..500).map(|row| row * 7_919 % 101).collect();
        for rows in [1, 2, 7, 100] {
            for is_largest in [false, true] {
                let mut extreme = Extreme::new(is_largest, true);
                for (row, &value) in values.iter().enumerate() {
                    let start = (row + 1).saturating_sub(rows);
                    extreme.push(row as u64, value);
                    extreme.evict(start as u64);
                    let frame = values[start..=row].iter().copied();
                    assert_eq!(extreme.value(), if is_largest { frame.max() } else { frame.min() });
                }
            }
        }
    }

    #[test]
    fn where_nothing_leaves_one_value_is_kept() {
        let mut extreme = Extreme::new(true, false);
        for value in [3.0, 1.0, f64::NAN, 2.0, f64::INFINITY] {
            extreme.push(0, value);
            assert_eq!(extreme.candidates.len(), 1);
        }
        assert!(extreme.value().is_some_and(f64::is_nan));
    }
}
