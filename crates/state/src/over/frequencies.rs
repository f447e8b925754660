//! How often each value comes in a frame.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;

/// A value that is looked for among others.
pub(super) trait Findable: Clone + Eq + Hash + Ord + Borrow<Self::Borrowed> {
    /// What it is looked for by.
    type Borrowed: Hash + Ord + ?Sized;

    fn owned(borrowed: &Self::Borrowed) -> Self;

    /// Bytes of memory that it holds elsewhere.
    fn bytes(&self) -> usize;
}

impl Findable for i64 {
    type Borrowed = i64;

    fn owned(borrowed: &i64) -> i64 {
        *borrowed
    }

    fn bytes(&self) -> usize {
        0
    }
}

impl Findable for i128 {
    type Borrowed = i128;

    fn owned(borrowed: &i128) -> i128 {
        *borrowed
    }

    fn bytes(&self) -> usize {
        0
    }
}

impl Findable for Arc<[u8]> {
    type Borrowed = [u8];

    fn owned(borrowed: &[u8]) -> Arc<[u8]> {
        borrowed.into()
    }

    fn bytes(&self) -> usize {
        // The two counts of references stand before it.
        self.len() + 2 * size_of::<usize>()
    }
}

/// How often each value comes.
#[derive(Debug)]
pub(super) struct Frequencies<K> {
    counts: HashMap<K, u64>,
    /// The values by how often they come, of those that come as often the smallest last; where the most frequent is asked for.
    by_count: Option<BTreeSet<(u64, Reverse<K>)>>,
    /// Bytes that values hold elsewhere.
    bytes_beside: usize,
}

impl<K: Findable> Frequencies<K> {
    /// No values yet. The most frequent can be asked for where `are_ordered`.
    pub fn new(are_ordered: bool) -> Frequencies<K> {
        Frequencies { counts: HashMap::new(), by_count: are_ordered.then(BTreeSet::new), bytes_beside: 0 }
    }

    /// Takes a value, so many times. Whether there was none like it.
    pub fn enter(&mut self, value: &K::Borrowed, times: u64) -> bool {
        if let Some((known, count)) = self.counts.get_key_value_mut(value) {
            let before = std::mem::replace(count, *count + times);
            reorder(&mut self.by_count, known, before, before + times);
            return false;
        }
        let value = K::owned(value);
        self.bytes_beside += value.bytes();
        reorder(&mut self.by_count, &value, 0, times);
        self.counts.insert(value, times);
        true
    }

    /// Takes a value out that has come. Whether there is none like it any more.
    pub fn leave(&mut self, value: &K::Borrowed) -> bool {
        let (known, count) = self.counts.get_key_value_mut(value).expect("what leaves has entered");
        let before = std::mem::replace(count, *count - 1);
        reorder(&mut self.by_count, known, before, before - 1);
        if before > 1 {
            return false;
        }
        self.bytes_beside -= known.bytes();
        self.counts.remove(value);
        true
    }

    /// How many values are distinct.
    pub fn distinct(&self) -> usize {
        self.counts.len()
    }

    /// The most frequent value, the smallest of several; `None` where there is none.
    pub fn mode(&self) -> Option<&K> {
        let by_count = self.by_count.as_ref().expect("the most frequent value is kept in view");
        by_count.last().map(|(_, Reverse(value))| value)
    }

    /// The values in ascending order, and how often each comes.
    pub fn in_order(&self) -> Vec<(&K, u64)> {
        let mut values: Vec<_> = self.counts.iter().map(|(value, &count)| (value, count)).collect();
        values.sort_unstable();
        values
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let by_count = self.by_count.as_ref().map_or(0, |by_count| by_count.len() * size_of::<(u64, K)>());
        self.counts.allocation_size() + by_count + self.bytes_beside
    }
}

/// Moves a value that has come so often to where it belongs when it has come so often.
fn reorder<K: Findable>(by_count: &mut Option<BTreeSet<(u64, Reverse<K>)>>, value: &K, before: u64, now: u64) {
    let Some(by_count) = by_count else { return };
    let mut place = (before, Reverse(value.clone()));
    by_count.remove(&place);
    if now > 0 {
        place.0 = now;
        by_count.insert(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_value_is_the_smallest_of_several() {
        let mut words: Frequencies<Arc<[u8]>> = Frequencies::new(true);
        assert_eq!(words.mode(), None);
        let entered = ["b", "a", "c", "b", "c"].map(|word| words.enter(word.as_bytes(), 1));
        assert_eq!(entered, [true, true, true, false, false]);
        assert_eq!((words.distinct(), words.mode().map(|mode| &**mode)), (3, Some(&b"b"[..])));
        assert_eq!(["b", "b", "a"].map(|word| words.leave(word.as_bytes())), [false, true, true]);
        assert_eq!((words.distinct(), words.mode().map(|mode| &**mode)), (1, Some(&b"c"[..])));
        assert_eq!(words.in_order(), [(&b"c"[..].into(), 2)]);
        assert_eq!(["c", "c"].map(|word| words.leave(word.as_bytes())), [false, true]);
        assert_eq!((words.distinct(), words.mode(), words.bytes_beside), (0, None, 0));
    }
}
