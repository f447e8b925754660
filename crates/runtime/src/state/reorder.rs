//! Puts results of parallel work back into the order in which the work was handed out.

use std::collections::VecDeque;

/// Hands out positions and gives finished items back in their order. One item may be of several positions, one behind the other.
///
/// Holds at most as many items as there are positions handed out and not yet released, which callers limit.
#[derive(Debug)]
pub struct Reorder<T> {
    next: u64,
    released: u64,
    /// For each position its item, with how many positions that is of: those behind the first have none.
    waiting: VecDeque<Option<(T, usize)>>,
    /// Nothing more is given back.
    is_closed: bool,
}

impl<T> Default for Reorder<T> {
    fn default() -> Self {
        Reorder { next: 0, released: 0, waiting: VecDeque::new(), is_closed: false }
    }
}

impl<T> Reorder<T> {
    /// The next position.
    pub fn hand_out(&mut self) -> u64 {
        self.next += 1;
        self.waiting.push_back(None);
        self.next - 1
    }

    /// As [`Reorder::finish`] and [`Reorder::release`]: an item that is the next in order is not put down first.
    pub fn pass(&mut self, position: u64, count: usize, item: T) -> Option<T> {
        if position == self.released && !self.is_closed && matches!(self.waiting.front(), Some(None)) {
            self.leave(count);
            return Some(item);
        }
        self.finish(position, count, item);
        self.release()
    }

    /// Keeps the item that was made for `count` positions from `position` on.
    ///
    /// # Panics
    /// Where one of the positions was never handed out, or the item of the first is here already.
    pub fn finish(&mut self, position: u64, count: usize, item: T) {
        let index = position.checked_sub(self.released).expect("a position is finished once") as usize;
        assert!(count > 0 && index + count <= self.waiting.len(), "a position is handed out before it is finished");
        let slot = &mut self.waiting[index];
        assert!(slot.is_none(), "position {position} is finished twice");
        *slot = Some((item, count));
    }

    /// The next item in order, if it is here.
    pub fn release(&mut self) -> Option<T> {
        if self.is_closed {
            return None;
        }
        let (item, count) = self.waiting.front_mut()?.take()?;
        self.leave(count);
        Some(item)
    }

    fn leave(&mut self, count: usize) {
        self.waiting.drain(..count);
        self.released += count as u64;
    }

    /// Gives nothing back from now on: what comes behind an error has no place.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Positions handed out whose items were not released yet.
    pub fn outstanding(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_leave_in_the_order_of_their_positions() {
        let mut order = Reorder::default();
        let positions: Vec<u64> = (0..4).map(|_| order.hand_out()).collect();
        order.finish(positions[2], 1, 'c');
        order.finish(positions[1], 1, 'b');
        assert_eq!(order.release(), None);
        order.finish(positions[0], 1, 'a');
        assert_eq!(std::iter::from_fn(|| order.release()).collect::<String>(), "abc");
        assert_eq!(order.outstanding(), 1);
        order.finish(positions[3], 1, 'd');
        assert_eq!(order.release(), Some('d'));
        assert_eq!(order.outstanding(), 0);
    }

    #[test]
    fn an_item_that_is_next_in_order_passes() {
        let mut order = Reorder::default();
        let positions: Vec<u64> = (0..3).map(|_| order.hand_out()).collect();
        assert_eq!(order.pass(positions[1], 1, 'b'), None);
        assert_eq!((order.pass(positions[0], 1, 'a'), order.release(), order.release()), (Some('a'), Some('b'), None));
        order.close();
        assert_eq!((order.pass(positions[2], 1, 'c'), order.outstanding()), (None, 1));
    }

    #[test]
    fn an_item_of_several_positions_takes_the_place_of_all() {
        let mut order = Reorder::default();
        let positions: Vec<u64> = (0..7).map(|_| order.hand_out()).collect();
        order.finish(positions[3], 3, 'c');
        assert_eq!((order.pass(positions[0], 2, 'a'), order.release(), order.outstanding()), (Some('a'), None, 5));
        assert_eq!(order.pass(positions[6], 1, 'd'), None);
        assert_eq!(order.pass(positions[2], 1, 'b'), Some('b'));
        assert_eq!((order.release(), order.outstanding()), (Some('c'), 1));
        assert_eq!((order.release(), order.outstanding()), (Some('d'), 0));
    }

    #[test]
    #[should_panic(expected = "handed out before")]
    fn an_item_cannot_be_of_positions_that_were_not_handed_out() {
        let mut order = Reorder::default();
        let position = order.hand_out();
        order.finish(position, 2, ());
    }

    #[test]
    fn nothing_leaves_once_closed() {
        let mut order = Reorder::default();
        let positions: Vec<u64> = (0..3).map(|_| order.hand_out()).collect();
        order.finish(positions[0], 1, 'a');
        assert_eq!(order.release(), Some('a'));
        order.close();
        order.finish(positions[1], 1, 'b');
        assert_eq!(order.release(), None);
        order.finish(positions[2], 1, 'c');
        assert_eq!((order.release(), order.outstanding()), (None, 2));
    }

    #[test]
    #[should_panic(expected = "finished twice")]
    fn a_position_finished_twice_is_a_broken_invariant() {
        let mut order = Reorder::default();
        let position = order.hand_out();
        order.finish(position, 1, ());
        order.finish(position, 1, ());
    }
}
