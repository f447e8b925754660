//! What the user allows.

use super::Specialisation;

/// Whether a specialisation may be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Permission {
    /// Where it pays.
    #[default]
    Auto,
    /// Wherever the profile suggests it: nothing is measured, and nothing undone.
    Pin,
    /// Never.
    Forbid,
}

/// Which specialisations may be chosen: each where it pays, unless told otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Permissions([Permission; Specialisation::ALL.len()]);

impl Permissions {
    /// The same for all.
    pub fn all(permission: Permission) -> Permissions {
        Permissions([permission; Specialisation::ALL.len()])
    }

    /// That of one.
    pub fn of(&self, specialisation: Specialisation) -> Permission {
        self.0[specialisation as usize]
    }

    /// Changes that of one.
    pub fn set(&mut self, specialisation: Specialisation, permission: Permission) {
        self.0[specialisation as usize] = permission;
    }

    /// The same but for one.
    pub fn with(mut self, specialisation: Specialisation, permission: Permission) -> Permissions {
        self.set(specialisation, permission);
        self
    }
}
