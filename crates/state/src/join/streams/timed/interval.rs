//! Rows whose times differ by no less and no more than so much.
//!
//! Rows of both sides are gone through in the order of their times. Each is paired with the rows of its key on the other side that came before it and are near
//! enough, and then joins those of its own side, for rows to come.

use pelton_data::Micros;
use pelton_data::join::{JoinKind, Side};

use super::found::Found;
use super::rings::Rings;
use super::rows::{NO_KEY, NO_ROW, Row, SideRows};
use crate::key_numbers::KeyNumbers;

/// With fewer keys, or entries of rings, than this, none are looked for that nobody needs.
const SWEPT_MIN: usize = if cfg!(test) { 4 } else { 4096 };

/// How many rows before its own the rows in the ring of a row's key are prefetched,
const AHEAD: usize = 8;

/// and how many before, where these lie.
const RING_AHEAD: usize = 2 * AHEAD;

/// Pairs of rows that are near each other.
#[derive(Debug)]
pub(super) struct IntervalJoin {
    kind: JoinKind,
    /// `left time - right time` is at least that,
    lower: Micros,
    /// and at most that.
    upper: Micros,
    /// The rows of both sides that may match rows to come.
    rings: [Rings; 2],
    /// With so many keys, or so many entries in the rings, those that nobody needs are looked for.
    swept_at: (usize, usize),
}

impl IntervalJoin {
    pub fn new(kind: JoinKind, lower: Micros, upper: Micros) -> IntervalJoin {
        IntervalJoin { kind, lower, upper, rings: Default::default(), swept_at: (SWEPT_MIN, SWEPT_MIN) }
    }

    /// How far the times of one side's rows may be behind the watermark when pairs leave.
    pub fn delay(&self, side: Side) -> Micros {
        match side {
            Side::Left => self.lower.saturating_neg().max(0),
            Side::Right => self.upper.max(0),
        }
    }

    /// How long after a row's time it is certain that it has no match, where rows without one leave.
    pub fn aftermath(&self) -> Micros {
        let sides = Side::BOTH.into_iter().filter(|&side| self.kind.keeps_unmatched(side));
        sides.map(|side| self.delay(side)).max().unwrap_or(0)
    }

    /// The times of the rows that one of this side and time matches on the other side.
    fn matches(&self, side: Side, time: Micros) -> (Micros, Micros) {
        match side {
            Side::Left => (time.saturating_sub(self.upper), time.saturating_sub(self.lower)),
            Side::Right => (time.saturating_add(self.lower), time.saturating_add(self.upper)),
        }
    }

    /// Whether rows of this side match rows that are gone through after them.
    fn looks_ahead(&self, side: Side) -> bool {
        match side {
            // Of rows of one time those of the left side come first.
            Side::Left => self.lower <= 0,
            Side::Right => self.upper > 0,
        }
    }

    /// Goes on through the rows to be joined, until about so much work has been done; what is left of it.
    pub fn join(&mut self, sides: &mut [SideRows; 2], keys: usize, found: &mut Found, mut work: usize) -> usize {
        self.rings.iter_mut().for_each(|rings| rings.resize(keys));
        let rows_expire = Side::BOTH.into_iter().any(|side| self.kind.keeps_unmatched(side));
        while work > 0 {
            let (side, row) = match (sides[0].peek(), sides[1].peek()) {
                (Some(left), Some(right)) if left.time <= right.time => (Side::Left, left),
                (Some(left), None) => (Side::Left, left),
                (_, Some(right)) => (Side::Right, right),
                (None, None) => break,
            };
            if rows_expire {
                work -= self.expire(sides, row.time, found, work);
                if work == 0 {
                    break;
                }
            }
            if let Some(key) = sides[side.port()].key_ahead(RING_AHEAD) {
                self.rings.iter().for_each(|rings| rings.prefetch(key));
            }
            if let Some(key) = sides[side.port()].key_ahead(AHEAD) {
                self.rings.iter().for_each(|rings| rings.prefetch_rows(key));
            }
            work = work.saturating_sub(1 + self.join_row(side, row, found));
            sides[side.port()].skip(1);
        }
        work
    }

    /// Pairs a row with those before it. Returns how many.
    #[inline(always)]
    fn join_row(&mut self, side: Side, row: Row, found: &mut Found) -> usize {
        if row.key == NO_KEY {
            return 0;
        }
        let times = self.matches(side, row.time);
        let pairs = match side {
            Side::Left => self.rings[1].visit(row.key, times, |other| found.push(row.number, other)),
            Side::Right => self.rings[0].visit(row.key, times, |other| found.push(other, row.number)),
        };
        if self.looks_ahead(side) {
            self.rings[side.port()].push(row.key, row.time, row.number);
        }
        pairs
    }

    /// Lets go the rows that match no row at `time` or later, where those without a match leave, in the order in which that comes to be. Returns how many.
    pub fn expire(&self, sides: &mut [SideRows; 2], time: Micros, found: &mut Found, rows_max: usize) -> usize {
        let mut rows = 0;
        while rows < rows_max {
            let (left, right) = (self.expiry(Side::Left, sides), self.expiry(Side::Right, sides));
            let first = left.into_iter().chain(right).min();
            let Some(first) = first.filter(|&first| first < time || time == Micros::MAX) else { break };
            let side = if left == Some(first) { Side::Left } else { Side::Right };
            let expired = &mut sides[side.port()];
            let Some((number, _)) = expired.oldest() else { break };
            expired.expire_oldest();
            if !expired.has_matched(number) {
                match side {
                    Side::Left => found.push_lone(number, NO_ROW),
                    Side::Right => found.push_lone(NO_ROW, number),
                }
            }
            rows += 1;
        }
        rows
    }

    /// The last time at which the oldest row of a side finds a match, where rows without one leave.
    fn expiry(&self, side: Side, sides: &[SideRows; 2]) -> Option<Micros> {
        if !self.kind.keeps_unmatched(side) {
            return None;
        }
        sides[side.port()].oldest().map(|(_, time)| self.matches(side, time).1)
    }

    /// The first time at which a row without a match may leave, of those that have been gone through.
    pub fn first_lone(&self, sides: &[SideRows; 2]) -> Option<Micros> {
        let lone = |side: Side| {
            let (_, time) = sides[side.port()].oldest()?;
            self.expiry(side, sides).map(|expiry| expiry.max(time))
        };
        Side::BOTH.into_iter().filter_map(lone).min()
    }

    /// Forgets what matches no row at `time` or later.
    pub fn forget(&mut self, sides: &mut [SideRows; 2], keys: &mut Option<KeyNumbers>, time: Micros) {
        for side in Side::BOTH {
            if !self.kind.keeps_unmatched(side) {
                sides[side.port()].expire_before(self.first_needed(side, time));
            }
        }
        let entries: usize = self.rings.iter().map(Rings::capacity).sum();
        let count = keys.as_ref().map_or(1, KeyNumbers::count);
        if count < self.swept_at.0 && entries < self.swept_at.1 {
            return;
        }
        for side in Side::BOTH {
            let from = self.first_needed(side, time);
            self.rings[side.port()].resize(count);
            self.rings[side.port()].drop_all_before(from);
        }
        let mut kept: Vec<bool> = (0..count).map(|key| self.rings.iter().any(|rings| rings.has_rows(key))).collect();
        sides.iter().for_each(|side| side.keep_keys(&mut kept));
        let mut kept_count = count;
        if let Some(keys) = keys {
            keys.retain(&kept);
            kept_count = keys.count();
            self.rings.iter_mut().for_each(|rings| rings.retain(&kept));
            sides.iter_mut().for_each(|side| side.renumber_keys(&kept));
        } else {
            self.rings.iter_mut().for_each(|rings| rings.retain(&[true]));
        }
        let entries_left: usize = self.rings.iter().map(Rings::capacity).sum();
        // Where most keys come again and again, their rings grow to what they were.
        let regrown = if 2 * kept_count >= count { 2 * entries } else { 0 };
        self.swept_at = ((2 * kept_count).max(SWEPT_MIN), (4 * entries_left).max(regrown).max(SWEPT_MIN));
    }

    /// The time of the earliest row of a side that matches a row at `time` or later.
    fn first_needed(&self, side: Side, time: Micros) -> Micros {
        match (side, time) {
            (_, Micros::MAX) => Micros::MAX,
            (Side::Left, _) => time.saturating_add(self.lower),
            (Side::Right, _) => time.saturating_sub(self.upper),
        }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.rings.iter().map(Rings::bytes).sum()
    }

    /// Takes up a row that has been joined: it may match rows to come.
    pub fn restore(&mut self, side: Side, row: Row, keys: usize) {
        self.rings.iter_mut().for_each(|rings| rings.resize(keys));
        if row.key != NO_KEY && self.looks_ahead(side) {
            self.rings[side.port()].push(row.key, row.time, row.number);
        }
    }
}
