//! Values in their order, any of which can be found by its rank.

use super::frequencies::Findable;

/// So many values are in one chunk, at most: to make room for one more moves half of them, which are in the first-level cache.
const CHUNK_MAX: usize = 512;

/// A chunk of fewer is put together with one beside it.
const CHUNK_MIN: usize = CHUNK_MAX / 4;

/// Two chunks are put together where they have no more.
const JOINED_MAX: usize = CHUNK_MAX * 3 / 4;

/// Values in ascending order, each as often as it came: in chunks, and beside them how many are in which (a Fenwick tree), so that a value comes, leaves and is
/// found in O(log n).
#[derive(Debug)]
pub(super) struct OrderStatistics<K> {
    /// Ascending; none is empty.
    chunks: Vec<Vec<K>>,
    /// How many values the chunks have: node `i`, counted from one, has the sum of as many chunks up to the `i`th as its lowest bit says.
    counts: Vec<usize>,
    len: usize,
    /// Bytes that values hold elsewhere.
    bytes_beside: usize,
}

impl<K: Findable> OrderStatistics<K> {
    /// No values yet.
    pub fn new() -> OrderStatistics<K> {
        OrderStatistics { chunks: Vec::new(), counts: Vec::new(), len: 0, bytes_beside: 0 }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Takes a value.
    pub fn enter(&mut self, value: &K::Borrowed) {
        // Behind all others it comes into the last chunk.
        let at = self.chunk_of(value).min(self.chunks.len().saturating_sub(1));
        let owned = K::owned(value);
        (self.len, self.bytes_beside) = (self.len + 1, self.bytes_beside + owned.bytes());
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(vec![owned]);
            return self.count_anew();
        };
        chunk.insert(chunk.partition_point(|other| other.borrow() < value), owned);
        if chunk.len() <= CHUNK_MAX {
            return self.count(at, 1);
        }
        let upper = chunk.split_off(CHUNK_MAX / 2);
        self.chunks.insert(at + 1, upper);
        self.count_anew();
    }

    /// Takes a value out that has come.
    ///
    /// # Panics
    /// Where it has not.
    pub fn leave(&mut self, value: &K::Borrowed) {
        let at = self.chunk_of(value);
        let chunk = self.chunks.get_mut(at).expect("what leaves has entered");
        let place = chunk.binary_search_by(|other| other.borrow().cmp(value)).ok();
        let left = chunk.remove(place.expect("what leaves has entered"));
        (self.len, self.bytes_beside) = (self.len - 1, self.bytes_beside - left.bytes());
        if chunk.len() >= CHUNK_MIN || !self.join(at) {
            self.count(at, -1);
        }
    }

    /// The value with so many before it in the order, of which there are more.
    pub fn nth(&self, rank: usize) -> &K {
        // All chunks whose values come before it.
        let (mut chunks, mut left) = (0, rank);
        let mut step = (self.chunks.len() + 1).next_power_of_two() / 2;
        while step > 0 {
            if let Some(&count) = self.counts.get(chunks + step - 1).filter(|count| **count <= left) {
                (chunks, left) = (chunks + step, left - count);
            }
            step /= 2;
        }
        &self.chunks[chunks][left]
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.chunks.iter().flatten()
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let values: usize = self.chunks.iter().map(Vec::capacity).sum();
        let chunks = values * size_of::<K>() + self.chunks.capacity() * size_of::<Vec<K>>();
        chunks + self.counts.capacity() * size_of::<usize>() + self.bytes_beside
    }

    /// The first chunk that has such a value or a larger one.
    fn chunk_of(&self, value: &K::Borrowed) -> usize {
        self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| last.borrow() < value))
    }

    /// Puts a chunk of few values together with one beside it, or forgets one that has none: whether it did.
    fn join(&mut self, at: usize) -> bool {
        if self.chunks[at].is_empty() {
            self.chunks.remove(at);
        } else {
            let fits = |left: &usize| self.chunks[*left].len() + self.chunks[left + 1].len() <= JOINED_MAX;
            let neighbours = at.saturating_sub(1)..(at + 1).min(self.chunks.len() - 1);
            let Some(left) = neighbours.into_iter().find(fits) else { return false };
            let right = self.chunks.remove(left + 1);
            self.chunks[left].extend(right);
        }
        self.count_anew();
        true
    }

    /// Counts one value more, or less, of a chunk.
    fn count(&mut self, at: usize, change: isize) {
        let mut node = at + 1;
        while let Some(count) = self.counts.get_mut(node - 1) {
            *count = count.wrapping_add_signed(change);
            node += node & node.wrapping_neg();
        }
    }

    /// Counts the values of all chunks: there is one more or less, as after every hundred values or so.
    fn count_anew(&mut self) {
        self.counts.clear();
        self.counts.extend(self.chunks.iter().map(Vec::len));
        for node in 1..=self.counts.len() {
            let above = node + (node & node.wrapping_neg());
            if above <= self.counts.len() {
                self.counts[above - 1] += self.counts[node - 1];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(ranked: &OrderStatistics<i64>, expected: &[i64]) {
        assert_eq!(ranked.len(), expected.len());
        assert!(ranked.iter().eq(expected));
        for (rank, value) in expected.iter().enumerate().step_by(1 + expected.len() / 50) {
            assert_eq!(ranked.nth(rank), value);
        }
        let fill = expected.len() / ranked.chunks.len().max(1);
        assert!(ranked.chunks.len() < 2 || fill >= CHUNK_MIN / 2, "{fill} values a chunk");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn values_are_where_sorting_puts_them(
            values in prop::collection::vec(-300i64..300, 1..6000), spread in 1i64..2000, frame in 1usize..5000,
        ) {
            let values: Vec<i64> = values.iter().zip(0i64..).map(|(value, at)| value * spread + at).collect();
            let (mut ranked, mut expected) = (OrderStatistics::new(), Vec::new());
            for (at, &value) in values.iter().enumerate() {
                ranked.enter(&value);
                expected.insert(expected.partition_point(|other| *other < value), value);
                if at >= frame {
                    ranked.leave(&values[at - frame]);
                    expected.remove(expected.binary_search(&values[at - frame]).unwrap());
                }
                if at % 997 == 0 {
                    check(&ranked, &expected);
                }
            }
            check(&ranked, &expected);
            values[values.len().saturating_sub(frame)..].iter().for_each(|value| ranked.leave(value));
            check(&ranked, &[]);
        }
    }
}
