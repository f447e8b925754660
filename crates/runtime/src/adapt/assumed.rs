//! What is assumed without being tried, as it is told: tables decide by themselves how they find entries, and blocks say whether they have NULLs.

use pelton_state::profile::{KeysFound, Met};

use super::story::What;
use super::{Adapt, AdaptOptions, Permission, Specialisation};

/// What is assumed where loops do without checks for NULL.
const NO_NULLS: &str = "columns that may hold NULLs have none";

/// What is assumed by now.
#[derive(Default)]
pub(super) struct Assumed {
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

    /// Takes in what a task has met. Where that changes what is assumed, what is to be told of it.
    pub fn takes_in(&mut self, met: &Met) -> Option<[Option<What>; 2]> {
        let keys = met
            .keys
            .map(|keys| self.keys.takes_in(Specialisation::DenseKeys, keys != KeysFound::ByHash, || assumption(keys)));
        let no_nulls = met.without_nulls.map(|without| {
            self.no_nulls.takes_in(Specialisation::NoNulls, without, || without.then(|| NO_NULLS.to_owned()))
        });
        let (keys, no_nulls) = (keys.unwrap_or_default(), no_nulls.unwrap_or_default());
        (keys.0 || no_nulls.0).then_some([keys.1, no_nulls.1])
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
        assert_eq!(told(assumed.takes_in(&met(None))), (false, None));
        assert_eq!(told(assumed.takes_in(&met(Some(false)))), (false, None));
        let (has_changed, what) = told(assumed.takes_in(&met(Some(true))));
        assert!(has_changed && assumed.is_anything());
        assert!(matches!(what, Some(What::Assumed { specialisation: Specialisation::NoNulls, .. })), "{what:?}");
        // A task that read no such column says nothing of it.
        assert_eq!(told(assumed.takes_in(&met(None))), (false, None));
        let broken = What::Broken { specialisation: Specialisation::NoNulls };
        assert_eq!(told(assumed.takes_in(&met(Some(false)))), (true, Some(broken)));
        assert!(!assumed.is_anything());
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
