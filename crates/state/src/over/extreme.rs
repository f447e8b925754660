//! The smallest value of frames.

use std::collections::VecDeque;
use std::ops::Range;

use arrow::array::ArrowNativeTypeOp;

use super::row_store::ColumnStore;
use super::scan::scan_backwards;
use super::totals::Middle;
use crate::aggregates::{Aggregate, Minimum};
use crate::snapshot::{Reader, SnapshotError, Writer};
use crate::vector::vectorised;

/// What can be the smallest value of a frame one day, on a monotone queue.
///
/// Values that a later one as small or smaller has overtaken will never be the smallest again: what is left ascends. Rows enter it
/// a run at a time, so that nothing is decided for each row; until then their values wait as they are.
#[derive(Debug)]
pub(super) struct Candidates<K> {
    /// Position and value, of whole runs.
    queue: VecDeque<(u64, K)>,
    /// Values of the last run.
    last: Vec<K>,
    /// The smallest of all whole runs, where none ever leaves.
    smallest: Option<K>,
}

/// Values that are looked at together.
const GROUP_ROWS: usize = 16;

/// Values in an order that can be turned round.
pub(super) trait Key: ArrowNativeTypeOp + Ord {
    /// In the order that is turned round: the largest is the smallest.
    fn reversed(self) -> Self;
}

impl Key for i64 {
    #[inline]
    fn reversed(self) -> i64 {
        !self
    }
}

impl Key for i128 {
    #[inline]
    fn reversed(self) -> i128 {
        !self
    }
}

impl<K: Key> Candidates<K> {
    /// No rows yet. Rows leave where the frame `is_bounded` only.
    pub fn new(is_bounded: bool) -> Candidates<K> {
        let smallest = (!is_bounded).then_some(Minimum::<K>::EMPTY);
        Candidates { queue: VecDeque::new(), last: Vec::new(), smallest }
    }
}

impl<K: Key> Middle for Candidates<K> {
    type Of = Minimum<K>;

    type Value = K;

    fn enter(&mut self, values: &[K]) {
        if self.smallest.is_none() {
            self.last.extend_from_slice(values);
        }
    }

    fn end_run(&mut self, end: u64, total: K) {
        if let Some(smallest) = &mut self.smallest {
            *smallest = total.min(*smallest);
            return;
        }
        while self.queue.pop_back_if(|(_, value)| *value >= total).is_some() {}
        // From the last row back each value that is smaller than all after it; they are turned round behind those of earlier runs.
        let earlier = self.queue.len();
        let mut smallest = None;
        let Candidates { queue, last, .. } = self;
        let mut push = |first: u64, values: &[K]| {
            for (position, &value) in (first..first + values.len() as u64).rev().zip(values.iter().rev()) {
                if smallest.is_none_or(|smallest| value < smallest) {
                    smallest = Some(value);
                    queue.push_back((position, value));
                }
            }
            smallest.unwrap_or(Minimum::<K>::EMPTY)
        };
        let (head, groups) = last.as_rchunks::<GROUP_ROWS>();
        let first = end - last.len() as u64;
        vectorised(
            #[inline(always)]
            || {
                let (mut is_last, mut smallest) = (true, Minimum::<K>::EMPTY);
                for (index, group) in groups.iter().enumerate().rev() {
                    // Of most groups all is overtaken.
                    if is_last || group.iter().copied().fold(Minimum::<K>::EMPTY, K::min) < smallest {
                        smallest = push(first + (head.len() + index * GROUP_ROWS) as u64, group);
                        is_last = false;
                    }
                }
            },
        );
        push(first, head);
        last.clear();
        let new = self.queue.len() - earlier;
        (0..new / 2).for_each(|row| self.queue.swap(earlier + row, earlier + new - 1 - row));
    }

    fn leave_until(&mut self, end: u64) {
        while self.queue.pop_front_if(|(position, _)| *position < end).is_some() {}
    }

    fn take_until(&mut self, start: u64, end: u64, _kept: Option<&ColumnStore<K>>, front: &mut Vec<K>) {
        front.clear();
        while let Some((position, value)) = self.queue.pop_front_if(|(position, _)| *position < end) {
            if position >= start {
                front.resize((position + 1 - start) as usize, value);
            }
        }
        // What is left is as small as all that follows, or the queue has smaller.
        front.resize((end - start) as usize, Minimum::<K>::EMPTY);
    }

    fn take_last(&mut self, start: u64, end: u64, _kept: Option<&ColumnStore<K>>, front: &mut Vec<K>) {
        self.queue.clear();
        let rows = (end - start) as usize;
        // All are overwritten.
        front.resize(rows, Minimum::<K>::EMPTY);
        scan_backwards::<Minimum<K>>(&self.last[self.last.len() - rows..], Minimum::<K>::EMPTY, front);
        self.last.clear();
    }

    fn total(&self) -> K {
        self.smallest.or(self.queue.front().map(|(_, value)| *value)).unwrap_or(Minimum::<K>::EMPTY)
    }

    fn write_to(&self, out: &mut Writer) {
        let (positions, values): (Vec<u64>, Vec<K>) = self.queue.iter().copied().unzip();
        out.list(&positions);
        out.column(&values);
        out.column(&self.last);
        out.column(self.smallest.as_slice());
    }

    fn read_from(&mut self, whole: Range<u64>, last_rows: u64, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let positions = input.list::<u64>("positions of candidates")?;
        let values = input.column::<K>(positions.len(), "candidates")?;
        let are_ascending = positions.is_sorted_by(|one, next| one < next);
        let are_within = positions.iter().all(|position| whole.contains(position));
        input.check(are_ascending && are_within, "positions of candidates, ascending")?;
        self.queue = positions.iter().copied().zip(values.iter().copied()).collect();
        match &mut self.smallest {
            Some(smallest) => *smallest = input.column(1, "the smallest value")?[0],
            None => {
                let rows = usize::try_from(last_rows).unwrap_or(usize::MAX);
                self.last = input.column(rows, "values of the last run")?.to_vec();
            }
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.queue.capacity() * size_of::<(u64, K)>() + self.last.capacity() * size_of::<K>()
    }
}

#[cfg(test)]
mod tests {
    use pelton_data::over::Frame;

    use super::super::frame::Bounds;
    use super::super::totals::{Entering, Totals};
    use super::*;

    /// The smallest of the last `rows` values, or of all, given in runs; and how many candidates there were at most.
    fn sliding(values: &[i64], rows: Option<u64>, run_rows: usize) -> (Vec<i64>, usize) {
        let preceding = rows.map(|rows| rows - 1);
        let mut totals = Totals::new(Frame::Rows { preceding }, false, Candidates::new);
        let (mut found, mut position, mut bytes) = (Vec::new(), 0, 0);
        for values in values.chunks(run_rows) {
            let bounds = Bounds::Rows { position, rows: values.len(), preceding };
            totals.slide(&bounds, Entering::new(values, position), None, &mut Vec::new(), &mut found);
            position += values.len() as u64;
            bytes = bytes.max(totals.bytes());
        }
        (found, bytes)
    }

    #[test]
    fn the_smallest_of_a_frame_is_that_of_its_values() {
        let shuffled: Vec<i64> = (0..5_000).map(|row| row * 7_919 % 1_009).collect();
        let rising: Vec<i64> = (0..5_000).map(|row| row / 3).collect();
        let falling: Vec<i64> = rising.iter().map(|value| -value).collect();
        for values in [shuffled, rising, falling] {
            for rows in [1, 2, 7, 100, 1023, 1024, 1025, 3000] {
                let frame = |row: usize| values[(row + 1).saturating_sub(rows)..=row].iter().copied().min().unwrap();
                let expected: Vec<i64> = (0..values.len()).map(frame).collect();
                for run_rows in [1, 300, 5_000] {
                    assert_eq!(sliding(&values, Some(rows as u64), run_rows).0, expected, "{rows} rows, {run_rows}");
                }
            }
        }
    }

    #[test]
    fn few_values_wait() {
        let values: Vec<i64> = (0..200_000).map(|row| row * 7_919 % 200_003).collect();
        assert!(sliding(&values, Some(100_000), 5000).1 < 40_000);
        let (found, bytes) = sliding(&values, None, 5000);
        assert_eq!(bytes, 0);
        assert_eq!(found[199_999], 0);
    }
}
