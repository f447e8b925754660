//! Two stacks: the total of elements that leave in the order in which they came, where nothing can be subtracted (LightSaber, section 2.1 and
//! figure 2).
//!
//! The front stack has a suffix for each element that leaves next: the total of it and of all behind it in this stack. Suffixes are computed when the
//! stack is used up, of the elements that have come since, from the youngest back (LightSaber, section 5.2: the suffix scan is lazy). Of these
//! elements the back stack has only their total, the prefix, which grows with each. Whoever uses the stacks keeps the elements, and says how they
//! are combined: slices of groups in windows, whole runs or single rows in frames of OVER.

/// Two stacks of elements with keys that ascend.
#[derive(Debug)]
pub(crate) struct TwoStacks<K, S> {
    /// The key of each element, and its suffix; the oldest is the last.
    front: Vec<(K, S)>,
    /// The total of the elements behind those of the front.
    prefix: S,
}

impl<K: Copy + Ord, S> TwoStacks<K, S> {
    /// No elements: their total is `empty`.
    pub fn new(empty: S) -> TwoStacks<K, S> {
        TwoStacks { front: Vec::new(), prefix: empty }
    }

    /// What was written: suffixes, of which the oldest is the last, and the prefix.
    pub fn of_parts(front: Vec<(K, S)>, prefix: S) -> TwoStacks<K, S> {
        TwoStacks { front, prefix }
    }

    /// Keys and suffixes; the oldest is the last.
    pub fn front(&self) -> &[(K, S)] {
        &self.front
    }

    /// The same, where an element comes late.
    pub fn front_mut(&mut self) -> &mut Vec<(K, S)> {
        &mut self.front
    }

    /// The total of the front stack; `None` where it is empty.
    pub fn oldest(&self) -> Option<&S> {
        self.front.last().map(|(_, suffix)| suffix)
    }

    /// The total of the back stack.
    pub fn prefix(&self) -> &S {
        &self.prefix
    }

    /// The same, where an element comes, or all have gone to the front.
    pub fn prefix_mut(&mut self) -> &mut S {
        &mut self.prefix
    }

    /// Takes the oldest element out of the front stack, where its key is no larger.
    pub fn pop_until(&mut self, key: K) -> Option<S> {
        self.front.pop_if(|(oldest, _)| *oldest <= key).map(|(_, suffix)| suffix)
    }

    /// Moves elements to the front, from the youngest back: `suffix` makes that of an element of the one behind it, if there is one.
    pub fn flip<E>(
        &mut self,
        youngest_first: impl Iterator<Item = (K, E)>,
        mut suffix: impl FnMut(Option<&S>, E) -> S,
    ) {
        for (key, element) in youngest_first {
            let of_element = suffix(self.oldest(), element);
            self.front.push((key, of_element));
        }
    }

    /// Room for so many suffixes.
    pub fn capacity(&self) -> usize {
        self.front.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_that_of_the_elements_that_are_left() {
        let values: Vec<u64> = (0..200).map(|at| at * 7_919 % 101).collect();
        for length in [1, 2, 7, 50] {
            let mut stacks = TwoStacks::new(u64::MAX);
            let mut younger: Vec<(usize, u64)> = Vec::new();
            for (at, &value) in values.iter().enumerate() {
                younger.push((at, value));
                *stacks.prefix_mut() = (*stacks.prefix()).min(value);
                if let Some(last) = at.checked_sub(length) {
                    if stacks.front().is_empty() {
                        stacks.flip(younger.drain(..).rev(), |behind, value| {
                            behind.map_or(value, |behind| value.min(*behind))
                        });
                        *stacks.prefix_mut() = u64::MAX;
                    }
                    while stacks.pop_until(last).is_some() {}
                }
                let total = stacks.oldest().map_or(u64::MAX, |oldest| *oldest).min(*stacks.prefix());
                let first = (at + 1).saturating_sub(length);
                assert_eq!(total, *values[first..=at].iter().min().unwrap(), "{length} values up to {at}");
            }
        }
    }
}
