//! For each row of the left side the nearest row of its key on the right side, before or after it.
//!
//! Rows of both sides are gone through in the order of their times. Where the match is before a row, each key remembers its newest right row; where it is
//! after, each key has a chain of left rows that wait for the next right row.

use std::collections::VecDeque;

use arrow::error::ArrowError;
use pelton_data::join::{JoinKind, Side};

use super::found::Found;
use super::rows::{NO_KEY, NO_ROW, Row, SideRows};
use crate::key_numbers::KeyNumbers;

/// With fewer keys than this, none are looked for that nobody needs.
const SWEPT_MIN: usize = if cfg!(test) { 4 } else { 4096 };

/// So many rows that nobody needs may be held beside those of the keys.
const UNUSED_ROWS_MAX: usize = if cfg!(test) { 8 } else { 1 << 14 };

/// Rows with the nearest of the other side.
#[derive(Debug)]
pub(super) struct NearestJoin {
    /// Whether rows without a match leave.
    keeps_unmatched: bool,
    /// Whether a match must meet a condition.
    has_residual: bool,
    is_backward: bool,
    is_strict: bool,
    /// Of each key the newest right row where it is matched by rows after it, else the last left row that waits.
    rows: Vec<u64>,
    /// Of each left row that waits the one of its key before it. In the order of their numbers.
    waiting: Waiting,
    keys_swept_at: usize,
}

/// Left rows that wait for a match.
#[derive(Debug, Default)]
struct Waiting {
    /// Of the rows from `first` on: the row before it of the same key, or itself when it waits no more.
    before: VecDeque<u64>,
    first: u64,
    rows: usize,
}

impl Waiting {
    fn push(&mut self, row: u64, before: u64) {
        if self.before.is_empty() {
            self.first = row;
        }
        // Rows without a key wait for nothing.
        let next = self.first + self.before.len() as u64;
        self.before.extend(next..row);
        self.before.push_back(before);
        self.rows += 1;
    }

    /// A row waits no more; the one before it.
    fn leave(&mut self, row: u64) -> u64 {
        self.rows -= 1;
        std::mem::replace(&mut self.before[(row - self.first) as usize], row)
    }

    /// The first row that waits.
    fn oldest(&mut self) -> Option<u64> {
        while self.before.front() == Some(&self.first) {
            self.before.pop_front();
            self.first += 1;
        }
        (!self.before.is_empty()).then_some(self.first)
    }

    /// All rows that wait, in order, each with the one before it.
    fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        (self.first..).zip(self.before.iter().copied()).filter(|(row, before)| row != before)
    }
}

impl NearestJoin {
    /// # Panics
    /// Where rows of the right side leave without a match.
    pub fn new(kind: JoinKind, (is_backward, is_strict): (bool, bool), has_residual: bool) -> NearestJoin {
        assert!(!kind.keeps_unmatched(Side::Right), "rows of the right side leave with one of the left only");
        let keeps_unmatched = kind.keeps_unmatched(Side::Left);
        let (rows, waiting) = (Vec::new(), Waiting::default());
        NearestJoin { keeps_unmatched, has_residual, is_backward, is_strict, rows, waiting, keys_swept_at: SWEPT_MIN }
    }

    /// Goes through the rows to be joined; what is left of so much work.
    pub fn join(&mut self, sides: &mut [SideRows; 2], keys: usize, found: &mut Found, mut work: usize) -> usize {
        self.rows.resize(keys, NO_ROW);
        // Of rows of one time, the right ones come first where they match left ones after them.
        let right_first = self.is_backward != self.is_strict;
        loop {
            let (side, row) = match (sides[0].peek(), sides[1].peek()) {
                (Some(left), Some(right)) if left.time < right.time || (left.time == right.time && !right_first) => {
                    (Side::Left, left)
                }
                (Some(left), None) => (Side::Left, left),
                (_, Some(right)) => (Side::Right, right),
                (None, None) => break,
            };
            let (rows, pairs) = match (side, self.is_backward) {
                (Side::Left, true) => (self.look_back(row, found), 0),
                (Side::Left, false) => (self.wait(row, found), 0),
                (Side::Right, true) => (self.remember(row), 0),
                (Side::Right, false) => self.meet_waiting(&sides[1], found),
            };
            sides[side.port()].skip(rows);
            work = work.saturating_sub(rows + pairs);
        }
        work
    }

    #[inline(always)]
    fn look_back(&mut self, row: Row, found: &mut Found) -> usize {
        let newest = if row.key == NO_KEY { NO_ROW } else { self.rows[row.key as usize] };
        self.pair(row.number, newest, found);
        1
    }

    #[inline(always)]
    fn remember(&mut self, row: Row) -> usize {
        if row.key != NO_KEY {
            self.rows[row.key as usize] = row.number;
        }
        1
    }

    fn wait(&mut self, row: Row, found: &mut Found) -> usize {
        if row.key == NO_KEY {
            self.pair(row.number, NO_ROW, found);
        } else {
            let before = std::mem::replace(&mut self.rows[row.key as usize], row.number);
            self.waiting.push(row.number, before);
        }
        1
    }

    /// Pairs rows of the right side that have one time with those that wait for them: of one key the last of them. Returns how many rows these are, and how many pairs.
    fn meet_waiting(&mut self, right: &SideRows, found: &mut Found) -> (usize, usize) {
        let peers = right.peers();
        let (count, mut pairs) = (peers.len(), 0);
        for row in peers.rev().filter(|row| row.key != NO_KEY) {
            let mut left = std::mem::replace(&mut self.rows[row.key as usize], NO_ROW);
            let mut lefts = Vec::new();
            while left != NO_ROW {
                lefts.push(left);
                left = self.waiting.leave(left);
            }
            pairs += lefts.len();
            lefts.into_iter().rev().for_each(|left| self.pair(left, row.number, found));
        }
        (count, pairs)
    }

    /// A left row leaves with its match. Where that does not meet the residual condition, it has none.
    #[inline(always)]
    fn pair(&self, left: u64, right: u64, found: &mut Found) {
        if right != NO_ROW {
            found.push(left, right);
        }
        if self.keeps_unmatched && (right == NO_ROW || self.has_residual) {
            found.push_lone(left, NO_ROW);
        }
    }

    /// No more rows come: those that wait leave without a match, so many at most. Returns how many.
    pub fn end(&mut self, found: &mut Found, rows_max: usize) -> usize {
        self.rows.fill(NO_ROW);
        let mut rows = 0;
        while rows < rows_max
            && let Some(row) = self.waiting.oldest()
        {
            self.waiting.leave(row);
            self.pair(row, NO_ROW, found);
            rows += 1;
        }
        rows
    }

    /// The first left row that waits.
    pub fn first_waiting(&mut self) -> Option<u64> {
        self.waiting.oldest()
    }

    /// Forgets what no row to come needs. There is no row to be joined.
    pub fn forget(&mut self, sides: &mut [SideRows; 2], keys: &mut Option<KeyNumbers>) -> Result<(), ArrowError> {
        let [left, right] = sides;
        if self.is_backward {
            left.expire_to(u64::MAX);
            self.forget_keys(keys);
            let versions = self.rows.iter().filter(|row| **row != NO_ROW);
            if right.rows_in_order() > 2 * self.rows.len() + UNUSED_ROWS_MAX {
                let mut kept: Vec<u64> = versions.copied().collect();
                kept.sort_unstable();
                let first = right.keep_only(&kept)?;
                let renumbered = |row: &mut u64| *row = renumbered(*row, &kept, first);
                self.rows.iter_mut().for_each(renumbered);
            }
            return Ok(());
        }
        right.expire_to(u64::MAX);
        left.expire_to(self.first_waiting().unwrap_or(u64::MAX));
        if left.rows_in_order() > 2 * self.waiting.rows + UNUSED_ROWS_MAX {
            let (kept, before): (Vec<u64>, Vec<u64>) = self.waiting.all().unzip();
            let first = left.keep_only(&kept)?;
            let before = before.into_iter().map(|row| renumbered(row, &kept, first)).collect();
            self.waiting = Waiting { before, first, rows: kept.len() };
            self.rows.iter_mut().for_each(|row| *row = renumbered(*row, &kept, first));
        }
        self.forget_keys(keys);
        Ok(())
    }

    /// Forgets keys without rows, where they may be many.
    fn forget_keys(&mut self, keys: &mut Option<KeyNumbers>) {
        let Some(keys) = keys.as_mut().filter(|keys| keys.count() >= self.keys_swept_at) else { return };
        self.rows.resize(keys.count(), NO_ROW);
        let kept: Vec<bool> = self.rows.iter().map(|row| *row != NO_ROW).collect();
        keys.retain(&kept);
        self.rows.retain(|row| *row != NO_ROW);
        self.rows.shrink_to_fit();
        self.keys_swept_at = (2 * self.rows.len()).max(SWEPT_MIN);
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        (self.rows.capacity() + self.waiting.before.capacity()) * size_of::<u64>()
    }

    /// Whether a joined row of the left side waits for its match.
    pub fn waits(&self, row: u64) -> bool {
        let before = row.checked_sub(self.waiting.first).and_then(|at| self.waiting.before.get(at as usize));
        before.is_some_and(|before| *before != row)
    }

    /// Takes up a row that has been joined.
    pub fn restore(&mut self, side: Side, row: Row, waits: bool, keys: usize) {
        self.rows.resize(keys, NO_ROW);
        if side == Side::Right && self.is_backward {
            self.remember(row);
        } else if side == Side::Left && waits && row.key != NO_KEY {
            self.wait(row, &mut Found::default());
        }
    }
}

fn renumbered(row: u64, kept: &[u64], first: u64) -> u64 {
    kept.binary_search(&row).map_or(NO_ROW, |at| first + at as u64)
}
