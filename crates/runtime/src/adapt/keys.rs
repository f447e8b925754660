//! How tables find the entries of keys, as it is told: they decide that themselves.

use pelton_state::profile::KeysFound;

use super::Specialisation;
use super::story::What;

/// What was told of them.
#[derive(Default)]
pub(super) struct Keys {
    /// Whether the last table has entries where keys say.
    pub are_dense: bool,
    /// How often that has changed.
    changes: u64,
}

impl Keys {
    /// Takes in how a task has found entries. Whether that has changed, and what happened then: slices that differ are told of less and less often.
    pub fn takes_in(&mut self, keys: KeysFound) -> (bool, Option<What>) {
        let are_dense = keys != KeysFound::ByHash;
        if are_dense == self.are_dense {
            return (false, None);
        }
        self.are_dense = are_dense;
        self.changes += 1;
        let specialisation = Specialisation::DenseKeys;
        let what = match assumption(keys) {
            Some(assumption) => What::Assumed { specialisation, assumption },
            None => What::Broken { specialisation },
        };
        (true, self.changes.is_power_of_two().then_some(what))
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
