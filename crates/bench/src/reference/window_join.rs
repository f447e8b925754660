//! Joins of the rows of two streams in the same tumbling windows on equal integers. The rows of a window are partitioned by their keys first, so that the
//! table of a partition fits the cache of a core.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow::array::AsArray;
use arrow::datatypes::DataType;
use pelton_data::{Block, Micros};

use super::{integers, windows};

/// A stream: its blocks in order of time, its key, and the columns of it that pairs have.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The rows.
    pub blocks: &'a [Block],
    /// The column that is equal.
    pub key: usize,
    /// What pairs have.
    pub columns: &'a [usize],
}

/// Which pairs leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairs {
    /// All.
    All,
    /// Each row of the right side that has a match once, with its own columns alone.
    RightOnce,
}

/// Values of a column, copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    /// Integers and times.
    Words(Vec<i64>),
    /// Strings, as views.
    Views(Vec<u128>),
}

/// Rows of a block.
type Run = (usize, Range<usize>);

/// Rows on the right of a partition, about: their table and their columns take half of a second-level cache.
const PARTITION_ROWS: usize = 1 << 15;

/// At most so many partitions, as a power of two: more are more streams of writes than the processor has addresses for.
const PARTITION_BITS_MAX: u32 = 10;

/// Pairs that are put together before they are taken.
const PAIRS_TAKEN: usize = 1 << 13;

/// Joins `left` and `right` by so many threads, each of which joins whole windows, and returns how many pairs there were. `take` is given the columns of
/// pairs, those of the left side first.
pub fn join(
    [left, right]: [Side<'_>; 2],
    size: Micros,
    pairs: Pairs,
    workers: usize,
    take: &(dyn Fn(&[Values]) + Sync),
) -> u64 {
    let [lefts, rights] = [left, right].map(|side| runs(side.blocks, size));
    let both: Vec<(&Vec<Run>, &Vec<Run>)> =
        lefts.iter().filter_map(|(start, runs)| Some((runs, rights.get(start)?))).collect();
    std::thread::scope(|scope| {
        let worker = |worker: usize| {
            let own = both.iter().skip(worker).step_by(workers);
            move || {
                let mut joiner = Joiner::new([left, right], pairs);
                own.map(|(lefts, rights)| joiner.join([lefts, rights], take)).sum::<u64>()
            }
        };
        let threads: Vec<_> = (0..workers).map(|number| scope.spawn(worker(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a reference loop does not panic")).sum()
    })
}

/// The rows of each window.
fn runs(blocks: &[Block], size: Micros) -> BTreeMap<Micros, Vec<Run>> {
    let mut runs: BTreeMap<Micros, Vec<Run>> = BTreeMap::new();
    for (number, block) in blocks.iter().enumerate() {
        windows(block, size, |start, rows| runs.entry(start).or_default().push((number, rows)));
    }
    runs
}

#[inline(always)]
fn hash(key: i64) -> u64 {
    (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Joins one window after the other.
struct Joiner<'a> {
    sides: [Partitioned<'a>; 2],
    pairs: Pairs,
    /// For each place of the table the last row there, from 1; 0 where there is none.
    heads: Vec<u32>,
    /// For each row the one before it at its place.
    next: Vec<u32>,
    matched: [Vec<u32>; 2],
    output: Vec<Values>,
}

impl<'a> Joiner<'a> {
    fn new(sides: [Side<'a>; 2], pairs: Pairs) -> Joiner<'a> {
        let sides = sides.map(Partitioned::new);
        let output = match pairs {
            Pairs::All => sides.iter().flat_map(|side| side.columns.clone()).collect(),
            Pairs::RightOnce => sides[1].columns.clone(),
        };
        Joiner { sides, pairs, heads: Vec::new(), next: Vec::new(), matched: Default::default(), output }
    }

    fn join(&mut self, runs: [&[Run]; 2], take: &(dyn Fn(&[Values]) + Sync)) -> u64 {
        let rows = |runs: &[Run]| runs.iter().map(|(_, rows)| rows.len()).sum::<usize>();
        let partitions = (rows(runs[1]) / PARTITION_ROWS).max(1).next_power_of_two();
        let bits = partitions.trailing_zeros().min(PARTITION_BITS_MAX);
        for (side, runs) in self.sides.iter_mut().zip(runs) {
            side.fill(runs, rows(runs), bits);
        }
        let mut count = 0;
        for partition in 0..1 << bits {
            self.build(self.sides[1].rows_of(partition), bits);
            count += self.probe(partition, bits, take);
        }
        self.take(take);
        count
    }

    fn build(&mut self, rows: Range<usize>, bits: u32) {
        let places = (2 * rows.len()).next_power_of_two().max(16);
        let shift = 64 - places.trailing_zeros();
        self.heads.clear();
        self.heads.resize(places, 0);
        self.next.resize(rows.len(), 0);
        let keys = &self.sides[1].keys[rows];
        for ((row, key), next) in (1..).zip(keys).zip(&mut self.next) {
            let head = &mut self.heads[(hash(*key) << bits >> shift) as usize];
            *next = std::mem::replace(head, row);
        }
    }

    fn probe(&mut self, partition: usize, bits: u32, take: &(dyn Fn(&[Values]) + Sync)) -> u64 {
        let [lefts, rights] = [0, 1].map(|side: usize| self.sides[side].rows_of(partition));
        let shift = 64 - self.heads.len().trailing_zeros();
        let mut count = 0;
        for left in lefts {
            let key = self.sides[0].keys[left];
            let place = (hash(key) << bits >> shift) as usize;
            let mut row = self.heads[place];
            while row != 0 {
                let right = rights.start + row as usize - 1;
                if self.sides[1].keys[right] == key {
                    self.matched[0].push(left as u32);
                    self.matched[1].push(right as u32);
                    count += 1;
                    if self.pairs == Pairs::RightOnce {
                        // No key is there twice: nothing follows, and what is before it can go as well as stay.
                        self.heads[place] = unlinked(&mut self.next, self.heads[place], row);
                        break;
                    }
                }
                row = self.next[row as usize - 1];
            }
            if self.matched[0].len() >= PAIRS_TAKEN {
                self.take(take);
            }
        }
        count
    }

    /// Takes the pairs that were found.
    fn take(&mut self, take: &(dyn Fn(&[Values]) + Sync)) {
        let left_columns = if self.pairs == Pairs::All { self.sides[0].columns.len() } else { 0 };
        let (lefts, rights) = self.output.split_at_mut(left_columns);
        for (values, output) in self.sides[0].columns.iter().zip(lefts) {
            values.gather(&self.matched[0], output);
        }
        for (values, output) in self.sides[1].columns.iter().zip(rights) {
            values.gather(&self.matched[1], output);
        }
        take(&self.output);
        self.matched.iter_mut().for_each(Vec::clear);
    }
}

/// Takes a row out of a list, and returns the list's head.
fn unlinked(next: &mut [u32], head: u32, row: u32) -> u32 {
    let behind = next[row as usize - 1];
    if head == row {
        return behind;
    }
    let mut before = head;
    while next[before as usize - 1] != row {
        before = next[before as usize - 1];
    }
    next[before as usize - 1] = behind;
    head
}

/// The rows of a window of one side, partition by partition.
struct Partitioned<'a> {
    side: Side<'a>,
    keys: Vec<i64>,
    columns: Vec<Values>,
    /// Where each partition begins, and the last one ends.
    bounds: Vec<usize>,
    /// Where the rows of a run go.
    targets: Vec<u32>,
}

impl<'a> Partitioned<'a> {
    fn new(side: Side<'a>) -> Partitioned<'a> {
        let columns = side.columns.iter().map(|&column| Values::empty(side.blocks, column)).collect();
        Partitioned { side, keys: Vec::new(), columns, bounds: Vec::new(), targets: Vec::new() }
    }

    fn rows_of(&self, partition: usize) -> Range<usize> {
        self.bounds[partition]..self.bounds[partition + 1]
    }

    fn fill(&mut self, runs: &[Run], rows: usize, bits: u32) {
        self.keys.resize(rows, 0);
        self.columns.iter_mut().for_each(|column| column.resize(rows));
        if bits == 0 {
            return self.copy(runs, rows);
        }
        let partition = |key: i64| (hash(key) >> (64 - bits)) as usize;
        let mut counts = vec![0; 1 << bits];
        for (block, rows) in runs {
            for &key in &integers(&self.side.blocks[*block], self.side.key)[rows.clone()] {
                counts[partition(key)] += 1;
            }
        }
        self.bounds.clear();
        self.bounds.push(0);
        self.bounds.extend(counts.iter().scan(0, |end, count| {
            *end += count;
            Some(*end)
        }));
        let mut ends: Vec<u32> = self.bounds.iter().map(|&bound| bound as u32).collect();
        for (block, rows) in runs {
            let block = &self.side.blocks[*block];
            let keys = &integers(block, self.side.key)[rows.clone()];
            self.targets.clear();
            self.targets.extend(keys.iter().map(|&key| {
                let end = &mut ends[partition(key)];
                *end += 1;
                *end - 1
            }));
            self.targets.iter().zip(keys).for_each(|(&target, &key)| self.keys[target as usize] = key);
            for (values, &column) in self.columns.iter_mut().zip(self.side.columns) {
                values.scatter(block, column, rows.clone(), &self.targets);
            }
        }
    }

    /// One partition: rows keep their order.
    fn copy(&mut self, runs: &[Run], rows: usize) {
        self.bounds = vec![0, rows];
        let mut begin = 0;
        for (block, rows) in runs {
            let block = &self.side.blocks[*block];
            self.keys[begin..begin + rows.len()].copy_from_slice(&integers(block, self.side.key)[rows.clone()]);
            for (values, &column) in self.columns.iter_mut().zip(self.side.columns) {
                values.copy(block, column, rows.clone(), begin);
            }
            begin += rows.len();
        }
    }
}

impl Values {
    fn empty(blocks: &[Block], column: usize) -> Values {
        match blocks.first().map(|block| block.raw_columns()[column].data_type().clone()) {
            Some(DataType::Utf8View) => Values::Views(Vec::new()),
            _ => Values::Words(Vec::new()),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Values::Words(words) => words.len(),
            Values::Views(views) => views.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn resize(&mut self, rows: usize) {
        match self {
            Values::Words(words) => words.resize(rows, 0),
            Values::Views(views) => views.resize(rows, 0),
        }
    }

    fn copy(&mut self, block: &Block, column: usize, rows: Range<usize>, begin: usize) {
        let target = begin..begin + rows.len();
        match self {
            Values::Words(words) => words[target].copy_from_slice(&integers(block, column)[rows]),
            Values::Views(views) => views[target].copy_from_slice(&string_views(block, column)[rows]),
        }
    }

    fn scatter(&mut self, block: &Block, column: usize, rows: Range<usize>, targets: &[u32]) {
        fn scatter<T: Copy>(from: &[T], targets: &[u32], to: &mut [T]) {
            targets.iter().zip(from).for_each(|(&target, &value)| to[target as usize] = value);
        }
        match self {
            Values::Words(words) => scatter(&integers(block, column)[rows], targets, words),
            Values::Views(views) => scatter(&string_views(block, column)[rows], targets, views),
        }
    }

    fn gather(&self, rows: &[u32], output: &mut Values) {
        fn gather<T: Copy>(from: &[T], rows: &[u32], to: &mut Vec<T>) {
            to.clear();
            to.extend(rows.iter().map(|&row| from[row as usize]));
        }
        match (self, output) {
            (Values::Words(words), Values::Words(output)) => gather(words, rows, output),
            (Values::Views(views), Values::Views(output)) => gather(views, rows, output),
            _ => unreachable!("columns of the output have the types of those of their side"),
        }
    }
}

fn string_views(block: &Block, column: usize) -> &[u128] {
    block.raw_columns()[column].as_string_view().views()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use super::super::tests::block_of;
    use super::*;

    /// Rows of a time in milliseconds, a key and a value, in order of time.
    fn rows(count: i64, keys: i64, seed: i64) -> Vec<(i64, i64, i64)> {
        let mixed = |row: i64| (row.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) as u64 >> 33) as i64;
        (0..count).map(|row| (row / 2, mixed(row + seed) % keys, row)).collect()
    }

    fn joined(sides: &[Vec<(i64, i64, i64)>; 2], workers: usize) -> Vec<[i64; 3]> {
        let blocks = sides.each_ref().map(|rows| rows.chunks(700).map(block_of).collect::<Vec<_>>());
        let columns = [vec![1, 2], vec![2]];
        let side = |side: usize| Side { blocks: &blocks[side], key: 1, columns: &columns[side] };
        let found = Mutex::new(Vec::new());
        let count = join([side(0), side(1)], 1_000_000, Pairs::All, workers, &|output| {
            let words = |column: usize| match &output[column] {
                Values::Words(words) => words.clone(),
                Values::Views(_) => panic!("it has no strings"),
            };
            let (keys, lefts, rights) = (words(0), words(1), words(2));
            found.lock().unwrap().extend((0..keys.len()).map(|row| [keys[row], lefts[row], rights[row]]));
        });
        let mut found = found.into_inner().unwrap();
        assert_eq!(found.len() as u64, count);
        found.sort_unstable();
        found
    }

    #[test]
    fn pairs_of_equal_keys_in_one_window() {
        for (count, keys) in [(5_000, 40), (5_000, 100_000), (200_000, 50_000)] {
            let sides = [rows(count, keys, 1), rows(count, keys, 1 << 40)];
            let mut of_key: BTreeMap<(i64, i64), Vec<i64>> = BTreeMap::new();
            for (time, key, value) in &sides[1] {
                of_key.entry((time / 1_000, *key)).or_default().push(*value);
            }
            let pairs = |(time, key, value): &(i64, i64, i64)| {
                let (key, value) = (*key, *value);
                let rights = of_key.get(&(time / 1_000, key)).cloned().unwrap_or_default();
                rights.into_iter().map(move |right| [key, value, right])
            };
            let mut expected: Vec<[i64; 3]> = sides[0].iter().flat_map(pairs).collect();
            expected.sort_unstable();
            assert!(joined(&sides, 1) == expected && joined(&sides, 2) == expected, "{count} rows of {keys} keys");
        }
    }

    #[test]
    fn rows_in_partitions() {
        // One window of more rows than a partition has.
        let sides = [rows(200_000, 50_000, 1), rows(200_000, 50_000, 1 << 40)]
            .map(|rows| rows.into_iter().map(|(time, key, value)| (time / 1_000, key, value)).collect::<Vec<_>>());
        let mut counts = vec![0_u64; 50_000];
        sides[1].iter().for_each(|row| counts[row.1 as usize] += 1);
        let expected: u64 = sides[0].iter().map(|row| counts[row.1 as usize]).sum();
        assert_eq!(joined(&sides, 1).len() as u64, expected);
    }

    #[test]
    fn each_row_of_the_right_side_once() {
        let left = rows(5_000, 3_000, 1);
        let right: Vec<(i64, i64, i64)> = (0..2_500).map(|row| (row, row * 7 % 2_500, row)).collect();
        let wanted: BTreeSet<(i64, i64)> = left.iter().map(|row| (row.0 / 1_000, row.1)).collect();
        let expected: Vec<i64> =
            right.iter().filter(|row| wanted.contains(&(row.0 / 1_000, row.1))).map(|row| row.2).collect();
        let blocks = [left, right].map(|rows| rows.chunks(700).map(block_of).collect::<Vec<_>>());
        let side = |side: usize| Side { blocks: &blocks[side], key: 1, columns: &[2] };
        let found = Mutex::new(Vec::new());
        join([side(0), side(1)], 1_000_000, Pairs::RightOnce, 2, &|output| match output {
            [Values::Words(words)] => found.lock().unwrap().extend_from_slice(words),
            other => panic!("one column of words was expected, not {other:?}"),
        });
        let mut found = found.into_inner().unwrap();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}
