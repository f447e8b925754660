//! Objects with several members of one name: the last value counts, at the place of the first, as in the maps that Flink reads objects into.

use std::collections::HashMap;
use std::hash::Hash;

/// Members of an object up to which each key is compared with each.
const FEW_MEMBERS: usize = 16;

/// For each key among `count` members, the first member that has it and the last; `None` where no two members have the same.
pub fn last_of_each<K: Eq + Hash>(count: usize, key: impl Fn(usize) -> K) -> Option<Vec<(usize, usize)>> {
    if count <= FEW_MEMBERS && !(0..count).any(|one| (0..one).any(|other| key(one) == key(other))) {
        return None;
    }
    let mut kept: Vec<(usize, usize)> = Vec::with_capacity(count);
    let mut places = HashMap::with_capacity(count);
    for member in 0..count {
        let place = *places.entry(key(member)).or_insert(kept.len());
        match kept.get_mut(place) {
            Some((_, last)) => *last = member,
            None => kept.push((member, member)),
        }
    }
    (kept.len() < count).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_stands_at_the_place_of_the_first() {
        let of = |keys: &[u8]| last_of_each(keys.len(), |member| keys[member]);
        assert_eq!(of(b""), None);
        assert_eq!(of(b"abc"), None);
        assert_eq!(of(b"abaca"), Some(vec![(0, 4), (1, 1), (3, 3)]));
        assert_eq!(of(b"aa"), Some(vec![(0, 1)]));
        let many: Vec<u8> = (0..40).collect();
        assert_eq!(of(&many), None);
        let repeated = of(&[&many[..], &[7]].concat()).unwrap();
        assert_eq!((repeated.len(), repeated[7]), (40, (7, 40)));
    }
}
