//! What of a statement means something else, or nothing, to Flink.

use std::collections::BTreeMap;

use crate::errors::{Place, PlanError};

/// What of a statement means something else, or nothing, to Flink: each thing once, with the first place where it stands.
#[derive(Debug, Clone, Default)]
pub struct Notes(BTreeMap<String, Option<Place>>);

impl Notes {
    /// Adds one, which stands at this place, where that is known.
    pub fn add(&mut self, place: Option<Place>, note: impl Into<String>) {
        let first = self.0.entry(note.into()).or_default();
        *first = first.iter().copied().chain(place).min();
    }

    /// Adds others.
    pub fn append(&mut self, others: Notes) {
        others.0.into_iter().for_each(|(note, place)| self.add(place, note));
    }

    /// One line each, with places as errors have them: in the order of the text, and behind them those without a place.
    pub(crate) fn lines(self) -> Vec<String> {
        let mut notes: Vec<(String, Option<Place>)> = self.0.into_iter().collect();
        notes.sort_by_key(|(_, place)| (place.is_none(), *place));
        notes.into_iter().map(|(note, place)| PlanError::invalid(place, note).to_string()).collect()
    }
}
