//! Sessions by key, for keys from 0 on: what is open lies in an array, in a list in the order in which it will be over.

use pelton_data::{Block, Micros};

use super::integers;

/// End of a session, its key, and the sum of its values.
pub type Session = (Micros, i64, i64);

/// A key whose session is open, or none where it is in no list.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Time of its last row, in ticks.
    last: i64,
    sum: i64,
    /// The key whose session has been longer without a row, and the one that had one next.
    older: u32,
    younger: u32,
}

/// SUM of the integers `value` by the integer `key`, which is less than `keys`, over sessions of rows in order of time: those that are at most `gap`
/// after another. A session is over when a row comes that is more than that after its last. `take` is given those that are over after each block, in the
/// order of their ends.
///
/// # Panics
/// Where rows have no times.
pub fn sums(
    blocks: &[Block],
    (key, value): (usize, usize),
    keys: usize,
    gap: Micros,
    mut take: impl FnMut(&[Session]),
) {
    // The list is a ring, closed by an entry behind those of the keys; what is not in it points at itself.
    let ends = keys as u32;
    let alone = |key: u32| Open { last: 0, sum: 0, older: key, younger: key };
    let mut open: Vec<Open> = (0..=ends).map(alone).collect();
    let mut over: Vec<Session> = Vec::new();
    for block in blocks {
        let column = block.time_column().expect("sessions are of rows with times");
        let (shift, ticks) = (block.time_shift_ticks(), integers(block, column.index));
        let gap_ticks = gap / column.micros_per_tick;
        for ((&tick, &key), &value) in ticks.iter().zip(integers(block, key)).zip(integers(block, value)) {
            let now = tick + shift;
            close(&mut open, ends, now - gap_ticks, |last, key, sum| {
                over.push(((last + gap_ticks) * column.micros_per_tick, key, sum));
            });
            let Open { sum, older, younger, .. } = open[key as usize];
            open[older as usize].younger = younger;
            open[younger as usize].older = older;
            let youngest = std::mem::replace(&mut open[ends as usize].older, key as u32);
            open[youngest as usize].younger = key as u32;
            open[key as usize] = Open { last: now, sum: sum + value, older: youngest, younger: ends };
        }
        take(&over);
        over.clear();
    }
    if let Some(column) = blocks.last().and_then(Block::time_column) {
        let gap_ticks = gap / column.micros_per_tick;
        close(&mut open, ends, i64::MAX, |last, key, sum| {
            over.push(((last + gap_ticks) * column.micros_per_tick, key, sum));
        });
    }
    take(&over);
}

/// Takes the sessions whose last rows are before `first` out of the list.
#[inline]
fn close(open: &mut [Open], ends: u32, first: i64, mut visit: impl FnMut(i64, i64, i64)) {
    loop {
        let oldest = open[ends as usize].younger;
        let Open { last, sum, younger, .. } = open[oldest as usize];
        if oldest == ends || last >= first {
            return;
        }
        visit(last, i64::from(oldest), sum);
        open[ends as usize].younger = younger;
        open[younger as usize].older = ends;
        open[oldest as usize] = Open { last: 0, sum: 0, older: oldest, younger: oldest };
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::block_of;
    use super::*;

    #[test]
    fn sessions_are_those_of_their_definition() {
        let rows: Vec<(i64, i64, i64)> = (0..5_000).map(|row| (row / 3, row * row % 17, row * 31 % 101)).collect();
        let blocks: Vec<Block> = rows.chunks(700).map(block_of).collect();
        for gap in [0, 1, 2, 5, 10_000] {
            let mut found = Vec::new();
            sums(&blocks, (1, 2), 17, gap * 1_000, |over| found.extend_from_slice(over));
            assert!(found.is_sorted_by_key(|session| session.0), "they leave in the order of their ends");
            let mut expected = Vec::new();
            for key in 0..17 {
                let of_key: Vec<_> = rows.iter().filter(|row| row.1 == key).collect();
                for session in of_key.chunk_by(|a, b| b.0 - a.0 <= gap) {
                    let last = session.last().unwrap().0;
                    expected.push(((last + gap) * 1_000, key, session.iter().map(|row| row.2).sum::<i64>()));
                }
            }
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
    }
}
