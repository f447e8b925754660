//! What waits in front of an operator, counted.

use std::collections::VecDeque;
use std::collections::vec_deque::Drain;
use std::ops::Deref;

use arrow::array::RecordBatch;
use pelton_data::column::bytes_of;
use pelton_data::{Block, Origin};
use pelton_state::over::Arriving;

/// Rows that wait together.
pub(crate) trait Queued {
    /// How many.
    fn rows(&self) -> u64;

    /// Their size, as [`pelton_data::Block::memory_bytes`] counts it.
    fn bytes(&self) -> usize;
}

/// What waits in front of an operator, in its order. How much that is, is known without a look at it: a worker that looks for work asks that of
/// every operator, and other workers write where the rows of each block are counted.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    waiting: VecDeque<T>,
    rows: u64,
    bytes: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue { waiting: VecDeque::new(), rows: 0, bytes: 0 }
    }
}

impl<T> Deref for Queue<T> {
    type Target = VecDeque<T>;

    fn deref(&self) -> &VecDeque<T> {
        &self.waiting
    }
}

impl<T: Queued> Queue<T> {
    /// Of all that waits.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Of all that waits.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn push_back(&mut self, last: T) {
        self.count(&last);
        self.waiting.push_back(last);
    }

    pub fn push_front(&mut self, first: T) {
        self.count(&first);
        self.waiting.push_front(first);
    }

    /// How many from the front have so many rows at least, all where that is not reached.
    pub fn count_of(&self, rows: u64) -> usize {
        if self.rows <= rows {
            return self.waiting.len();
        }
        let mut before = 0;
        let few = self.waiting.iter().take_while(|waiting| {
            let is_wanted = before < rows;
            before += waiting.rows();
            is_wanted
        });
        few.count()
    }

    /// Takes so many from the front.
    pub fn take(&mut self, count: usize) -> Drain<'_, T> {
        for taken in self.waiting.range(..count) {
            self.rows -= taken.rows();
            self.bytes -= taken.bytes();
        }
        self.waiting.drain(..count)
    }

    pub fn clear(&mut self) {
        *self = Queue::default();
    }

    fn count(&mut self, more: &T) {
        self.rows += more.rows();
        self.bytes += more.bytes();
    }
}

impl Queued for (u64, Block) {
    fn rows(&self) -> u64 {
        self.1.rows() as u64
    }

    fn bytes(&self) -> usize {
        self.1.memory_bytes()
    }
}

impl Queued for (usize, Arriving) {
    fn rows(&self) -> u64 {
        self.1.rows.num_rows() as u64
    }

    fn bytes(&self) -> usize {
        bytes_of(&self.1.rows)
    }
}

impl Queued for (RecordBatch, Origin) {
    fn rows(&self) -> u64 {
        self.0.num_rows() as u64
    }

    fn bytes(&self) -> usize {
        bytes_of(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Queued for u64 {
        fn rows(&self) -> u64 {
            *self
        }

        fn bytes(&self) -> usize {
            *self as usize * 8
        }
    }

    #[test]
    fn a_queue_knows_how_much_waits() {
        let mut queue = Queue::default();
        let is_sum = |queue: &Queue<u64>| {
            assert_eq!((queue.rows(), queue.bytes()), (queue.iter().sum(), queue.iter().sum::<u64>() as usize * 8));
        };
        [5, 7, 0, 11].into_iter().for_each(|rows| queue.push_back(rows));
        is_sum(&queue);
        assert_eq!(queue.take(2).collect::<Vec<_>>(), [5, 7]);
        is_sum(&queue);
        queue.push_front(3);
        assert_eq!((queue.rows(), queue.len()), (14, 3));
        queue.clear();
        assert_eq!((queue.rows(), queue.bytes(), queue.len()), (0, 0, 0));
    }
}
