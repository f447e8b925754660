//! Joins of rows of two streams with equal keys and times that are near: each row looks at the rows of the other side that came before it, which lie in a ring
//! for each key. Also the nearest row before: of each key the last one.

use std::collections::VecDeque;

use pelton_data::Block;

use super::integers;

/// A stream: its blocks in order of time, its key from 0 on, its time, and one column that pairs have.
#[derive(Debug, Clone, Copy)]
pub struct TimedSide<'a> {
    /// The rows.
    pub blocks: &'a [Block],
    /// The column that is equal.
    pub key: usize,
    /// When each row was.
    pub time: usize,
    /// What pairs have.
    pub value: usize,
}

/// Pairs, column by column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimedPairs {
    /// The key of both.
    pub keys: Vec<i64>,
    /// The times of both sides, in ticks.
    pub times: [Vec<i64>; 2],
    /// The values of both sides.
    pub values: [Vec<i64>; 2],
}

/// Pairs that are put together before they are taken.
const PAIRS_TAKEN: usize = 1 << 13;

#[derive(Debug, Clone, Copy)]
struct Row {
    time: i64,
    key: i64,
    value: i64,
}

impl TimedPairs {
    #[inline(always)]
    fn push(&mut self, left: Row, right: Row) {
        self.keys.push(left.key);
        self.times[0].push(left.time);
        self.times[1].push(right.time);
        self.values[0].push(left.value);
        self.values[1].push(right.value);
    }

    fn take(&mut self, take: &mut impl FnMut(&TimedPairs)) {
        take(self);
        self.keys.clear();
        self.times.iter_mut().chain(&mut self.values).for_each(Vec::clear);
    }
}

/// Joins rows whose keys are equal, below `keys`, and whose times are at most `distance_ticks` apart.
pub fn near(sides: [TimedSide<'_>; 2], keys: usize, distance_ticks: i64, mut take: impl FnMut(&TimedPairs)) {
    let mut rings: [Vec<VecDeque<Row>>; 2] = [(); 2].map(|()| vec![VecDeque::new(); keys]);
    let mut pairs = TimedPairs::default();
    in_order(sides, |side, row| {
        let others = &mut rings[1 - side][row.key as usize];
        while others.front().is_some_and(|other| other.time < row.time - distance_ticks) {
            others.pop_front();
        }
        for &other in &*others {
            match side {
                0 => pairs.push(row, other),
                _ => pairs.push(other, row),
            }
        }
        rings[side][row.key as usize].push_back(row);
        if pairs.keys.len() >= PAIRS_TAKEN {
            pairs.take(&mut take);
        }
    });
    pairs.take(&mut take);
}

/// Joins each row of the left side with the last one of the right side that has its key, below `keys`, and is not later.
pub fn latest(sides: [TimedSide<'_>; 2], keys: usize, mut take: impl FnMut(&TimedPairs)) {
    let mut last: Vec<Option<Row>> = vec![None; keys];
    let mut pairs = TimedPairs::default();
    // Of rows of one time those of the right side come first.
    in_order([sides[1], sides[0]], |side, row| match side {
        0 => last[row.key as usize] = Some(row),
        _ => {
            if let Some(right) = last[row.key as usize] {
                pairs.push(row, right);
            }
            if pairs.keys.len() >= PAIRS_TAKEN {
                pairs.take(&mut take);
            }
        }
    });
    pairs.take(&mut take);
}

/// Visits the rows of both sides in order of time; of rows of one time those of the first side come first.
fn in_order(sides: [TimedSide<'_>; 2], mut visit: impl FnMut(usize, Row)) {
    let [mut first, mut second] = sides.map(Cursor::new);
    loop {
        match (first.row(), second.row()) {
            (Some(row), Some(limit)) if row.time <= limit.time => {
                first.each(|time| time <= limit.time, |row| visit(0, row));
            }
            (Some(limit), Some(_)) => second.each(|time| time < limit.time, |row| visit(1, row)),
            (Some(_), None) => first.each(|_| true, |row| visit(0, row)),
            (None, Some(_)) => second.each(|_| true, |row| visit(1, row)),
            (None, None) => return,
        }
    }
}

/// A place among the rows of a side.
struct Cursor<'a> {
    side: TimedSide<'a>,
    block: usize,
    row: usize,
    columns: Columns<'a>,
}

/// Those of the cursor's block.
#[derive(Default)]
struct Columns<'a> {
    times: &'a [i64],
    keys: &'a [i64],
    values: &'a [i64],
    shift_ticks: i64,
}

impl<'a> Columns<'a> {
    fn of(side: TimedSide<'a>, block: usize) -> Columns<'a> {
        let Some(block) = side.blocks.get(block) else { return Columns::default() };
        let column = |column: usize| integers(block, column);
        Columns {
            times: column(side.time),
            keys: column(side.key),
            values: column(side.value),
            shift_ticks: block.time_shift_ticks(),
        }
    }

    #[inline(always)]
    fn row(&self, row: usize) -> Row {
        Row { time: self.times[row] + self.shift_ticks, key: self.keys[row], value: self.values[row] }
    }
}

impl<'a> Cursor<'a> {
    fn new(side: TimedSide<'a>) -> Cursor<'a> {
        let mut cursor = Cursor { side, block: 0, row: 0, columns: Columns::of(side, 0) };
        cursor.skip_ended();
        cursor
    }

    /// The row here; `None` behind the last.
    fn row(&self) -> Option<Row> {
        (self.block < self.side.blocks.len()).then(|| self.columns.row(self.row))
    }

    /// Visits rows of this block as long as their times are wanted.
    #[inline(always)]
    fn each(&mut self, is_wanted: impl Fn(i64) -> bool, mut visit: impl FnMut(Row)) {
        while self.row < self.columns.times.len() {
            let row = self.columns.row(self.row);
            if !is_wanted(row.time) {
                return;
            }
            visit(row);
            self.row += 1;
        }
        self.skip_ended();
    }

    fn skip_ended(&mut self) {
        while self.row == self.columns.times.len() && self.block < self.side.blocks.len() {
            (self.block, self.row) = (self.block + 1, 0);
            self.columns = Columns::of(self.side, self.block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::block_of;
    use super::*;

    fn rows(count: i64, keys: i64, seed: i64) -> Vec<(i64, i64, i64)> {
        let mixed = |row: i64| (row.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) as u64 >> 33) as i64;
        (0..count).map(|row| (row * 3 / (2 + seed % 3), mixed(row + seed) % keys, row)).collect()
    }

    fn found(
        sides: &[Vec<(i64, i64, i64)>; 2],
        join: impl FnOnce([TimedSide<'_>; 2], &mut dyn FnMut(&TimedPairs)),
    ) -> Vec<[i64; 5]> {
        let blocks = sides.each_ref().map(|rows| rows.chunks(300).map(block_of).collect::<Vec<_>>());
        let sides = blocks.each_ref().map(|blocks| TimedSide { blocks, key: 1, time: 0, value: 2 });
        let mut found = Vec::new();
        join(sides, &mut |pairs| {
            let row = |row: usize| {
                [pairs.keys[row], pairs.times[0][row], pairs.times[1][row], pairs.values[0][row], pairs.values[1][row]]
            };
            found.extend((0..pairs.keys.len()).map(row));
        });
        found.sort_unstable();
        found
    }

    #[test]
    fn pairs_that_are_near() {
        let sides = [rows(2_000, 20, 1), rows(2_500, 20, 1 << 40)];
        let mut expected = Vec::new();
        for left in &sides[0] {
            let near = sides[1].iter().filter(|right| left.1 == right.1 && left.0.abs_diff(right.0) <= 50);
            expected.extend(near.map(|right| [left.1, left.0, right.0, left.2, right.2]));
        }
        expected.sort_unstable();
        assert!(expected.len() > 2_000);
        assert_eq!(found(&sides, |sides, take| near(sides, 20, 50, take)), expected);
    }

    #[test]
    fn the_last_row_before() {
        let sides = [rows(2_000, 200, 1), rows(2_500, 200, 1 << 40)];
        let mut expected = Vec::new();
        for left in &sides[0] {
            let before = sides[1].iter().rfind(|right| left.1 == right.1 && right.0 <= left.0);
            expected.extend(before.map(|right| [left.1, left.0, right.0, left.2, right.2]));
        }
        expected.sort_unstable();
        assert!(expected.len() > 1_000);
        assert_eq!(found(&sides, |sides, take| latest(sides, 200, take)), expected);
    }
}
