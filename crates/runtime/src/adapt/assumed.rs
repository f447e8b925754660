//! What is assumed without being tried, as it is told: tables decide by themselves how they find entries, and blocks say whether they have NULLs.

use pelton_state::profile::{KeysFound, Met};

use super::story::What;
use super::{Adapt, AdaptOptions, Permission, Specialisation};

/// What is assumed where loops do without checks for NULL.
const NO_NULLS: &str = "columns that may hold NULLs have none";

/// What is assumed by now.
#[derive(Default)]
pub(super) struct Assumed {
    /// How the last table of each worker found entries.
    tables: Vec<KeysFound>,
    keys: Told,
    no_nulls: Told,
}

/// One assumption.
#[derive(Default)]
struct Told {
    holds: bool,
    /// How often that has changed.
    changes: u64,
}

impl Assumed {
    /// Whether anything is.
    pub fn is_anything(&self) -> bool {
        self.keys.holds || self.no_nulls.holds
    }

    /// How entries are found: by all keys that tables of any worker suit, or by hash where none suits its keys. Nothing where keys are no integers.
    pub fn keys(&self) -> Option<KeysFound> {
        self.tables.iter().copied().reduce(together)
    }

    /// Takes in what a task of a worker has met. Where that changes what is assumed, what is to be told of it.
    pub fn takes_in(&mut self, worker: usize, met: &Met) -> Option<[Option<What>; 2]> {
        let keys = met.keys.map(|found| {
            if self.tables.len() <= worker {
                self.tables.resize(worker + 1, KeysFound::ByHash);
            }
            self.tables[worker] = found;
            let keys = self.keys().unwrap_or(found);
            self.keys.takes_in(Specialisation::DenseKeys, keys != KeysFound::ByHash, || assumption(keys))
        });
        let no_nulls = met.without_nulls.map(|without| {
            self.no_nulls.takes_in(Specialisation::NoNulls, without, || without.then(|| NO_NULLS.to_owned()))
        });
        let (keys, no_nulls) = (keys.unwrap_or_default(), no_nulls.unwrap_or_default());
        (keys.0 || no_nulls.0).then_some([keys.1, no_nulls.1])
    }
}

/// How two tables of one pipeline find entries.
fn together(one: KeysFound, other: KeysFound) -> KeysFound {
    match (one, other) {
        (KeysFound::ByHash, found) | (found, KeysFound::ByHash) => found,
        (KeysFound::Between { first, last }, KeysFound::Between { first: other_first, last: other_last }) => {
            KeysFound::Between { first: first.min(other_first), last: last.max(other_last) }
        }
        (KeysFound::Among { combinations }, KeysFound::Among { combinations: others }) => {
            KeysFound::Among { combinations: combinations.max(others) }
        }
        // One pipeline has one kind of keys.
        (found, _) => found,
    }
}

impl Told {
    /// Whether that has changed, and what happened then: blocks and slices that differ are told of less and less often.
    fn takes_in(
        &mut self,
        specialisation: Specialisation,
        holds: bool,
        words: impl FnOnce() -> Option<String>,
    ) -> (bool, Option<What>) {
        if holds == self.holds {
            return (false, None);
        }
        self.holds = holds;
        self.changes += 1;
        let what = || match words() {
            Some(assumption) => What::Assumed { specialisation, assumption },
            None => What::Broken { specialisation },
        };
        // Two in a row, so that what is told last of it holding or not comes behind its contrary.
        let is_told = self.changes.is_power_of_two() || (self.changes - 1).is_power_of_two();
        (true, is_told.then(what))
    }
}

/// Whether the next task's loops check for NULL even where a block has none.
pub(super) fn checks_nulls(options: AdaptOptions, is_drawn: impl FnOnce() -> bool) -> bool {
    match (options.permissions.of(Specialisation::NoNulls), options.adapt) {
        (Permission::Pin, _) | (Permission::Auto, Adapt::On) => false,
        (Permission::Auto, Adapt::Random { .. }) => is_drawn(),
        (Permission::Forbid, _) | (Permission::Auto, Adapt::Off | Adapt::Profile) => true,
    }
}

/// What is assumed of keys, in words; nothing where they are found by hash.
pub(super) fn assumption(keys: KeysFound) -> Option<String> {
    match keys {
        KeysFound::Between { first, last } => Some(format!("keys lie between {first} and {last}")),
        KeysFound::Among { combinations } => Some(format!("keys are among {combinations} combinations of values")),
        KeysFound::ByHash => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Permissions;
    use super::*;

    #[test]
    fn nulls_are_told_apart_from_keys_and_only_where_they_change() {
        let mut assumed = Assumed::default();
        let met = |without_nulls| Met { without_nulls, ..Met::default() };
        let told = |told: Option<[Option<What>; 2]>| (told.is_some(), told.into_iter().flatten().flatten().next());
        assert_eq!(told(assumed.takes_in(0, &met(None))), (false, None));
        assert_eq!(told(assumed.takes_in(0, &met(Some(false)))), (false, None));
        let (has_changed, what) = told(assumed.takes_in(0, &met(Some(true))));
        assert!(has_changed && assumed.is_anything());
        assert!(matches!(what, Some(What::Assumed { specialisation: Specialisation::NoNulls, .. })), "{what:?}");
        // A task that read no such column says nothing of it.
        assert_eq!(told(assumed.takes_in(0, &met(None))), (false, None));
        let broken = What::Broken { specialisation: Specialisation::NoNulls };
        assert_eq!(told(assumed.takes_in(0, &met(Some(false)))), (true, Some(broken)));
        assert!(!assumed.is_anything());
    }

    #[test]
    fn workers_whose_tables_differ_assume_one_thing() {
        let mut assumed = Assumed::default();
        let between = |first, last| KeysFound::Between { first, last };
        let mut meets = |worker, keys| {
            let told = assumed.takes_in(worker, &Met { keys: Some(keys), ..Met::default() });
            (told.into_iter().flatten().flatten().next(), assumed.keys())
        };
        let (told, _) = meets(1, between(20, 30));
        assert!(matches!(told, Some(What::Assumed { specialisation: Specialisation::DenseKeys, .. })), "{told:?}");
        // Another worker's first table does not suit its keys yet, and then others.
        assert_eq!(meets(0, KeysFound::ByHash), (None, Some(between(20, 30))));
        assert_eq!(meets(0, between(-5, 22)), (None, Some(between(-5, 30))));
        assert_eq!(meets(1, KeysFound::ByHash), (None, Some(between(-5, 22))));
        let broken = What::Broken { specialisation: Specialisation::DenseKeys };
        assert_eq!(meets(0, KeysFound::ByHash), (Some(broken), Some(KeysFound::ByHash)));
    }

    #[test]
    fn loops_check_for_nulls_where_nothing_adapts_or_they_must() {
        let with = |adapt, no_nulls| {
            let permissions = Permissions::default().with(Specialisation::NoNulls, no_nulls);
            let options = AdaptOptions { adapt, permissions, ..AdaptOptions::default() };
            checks_nulls(options, || unreachable!("no chance"))
        };
        for adapt in [Adapt::On, Adapt::Off, Adapt::Profile] {
            assert_eq!(with(adapt, Permission::Auto), adapt != Adapt::On);
            assert!(with(adapt, Permission::Forbid) && !with(adapt, Permission::Pin));
        }
        let drawn = |is_drawn: bool| {
            checks_nulls(AdaptOptions { adapt: Adapt::Random { seed: 1 }, ..AdaptOptions::default() }, || is_drawn)
        };
        assert!(drawn(true) && !drawn(false));
    }
}
