//! What is wrong with a statement, where, and what would be right.

pub(crate) mod diagnose;

pub(crate) mod locate;

pub(crate) mod rephrase;

pub(crate) mod source_locations;

use std::fmt;

use datafusion_common::DataFusionError;

pub use pelton_data::spelling::closest;
use sqlparser::tokenizer::{Location, Span};

/// A place in a script: lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Line of the script.
    pub line: u64,
    /// Character of the line.
    pub column: u64,
}

impl Place {
    /// The place a syntax-tree node starts at, or `None` for a node that was not written by the user.
    pub fn of(span: Span) -> Option<Place> {
        Place::at(span.start)
    }

    /// The place of a token, or `None` for the empty location.
    pub fn at(location: Location) -> Option<Place> {
        (location.line > 0).then_some(Place { line: location.line, column: location.column })
    }
}

/// What kind of mistake a [`PlanError`] reports. All of them are the user's to mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanErrorKind {
    /// The text is no statement.
    Syntax,
    /// The statement is sound Flink SQL, and Pelton does not do it yet.
    Unsupported,
    /// The statement does not fit the catalogue, its types or itself.
    Invalid,
}

/// Why a statement was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PlanError {
    /// What kind of mistake it is.
    pub kind: PlanErrorKind,
    /// What is wrong, naming the construct.
    pub message: String,
    /// Where in the whole script; `None` where the statement was not written as text.
    pub place: Option<Place>,
    /// What would be right.
    pub hint: Option<String>,
}

impl PlanError {
    /// The text at `place` is no statement.
    pub fn syntax(place: Option<Place>, message: impl Into<String>) -> PlanError {
        PlanError { kind: PlanErrorKind::Syntax, message: message.into(), place, hint: None }
    }

    /// `construct` is not supported yet; `instead` says what to write.
    pub fn unsupported(place: Option<Place>, construct: impl fmt::Display, instead: impl Into<String>) -> PlanError {
        PlanError {
            kind: PlanErrorKind::Unsupported,
            message: format!("{construct} is not supported yet"),
            place,
            hint: Some(instead.into()),
        }
    }

    /// The statement does not fit the catalogue, its types or itself.
    pub fn invalid(place: Option<Place>, message: impl Into<String>) -> PlanError {
        PlanError { kind: PlanErrorKind::Invalid, message: message.into(), place, hint: None }
    }

    /// Adds what would be right.
    pub fn with_hint(mut self, hint: impl Into<String>) -> PlanError {
        self.hint = Some(hint.into());
        self
    }

    /// Line of the script, or 0 where the statement was not written as text.
    pub fn line(&self) -> u64 {
        self.place.map_or(0, |place| place.line)
    }

    /// Column of the line, or 0 where the statement was not written as text.
    pub fn column(&self) -> u64 {
        self.place.map_or(0, |place| place.column)
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "line {}, column {}: ", place.line, place.column)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// Carries our own error through DataFusion's planner.
pub(crate) fn external(error: PlanError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Gives our own error a place, where it has none.
pub(crate) fn at(error: DataFusionError, place: Option<Place>) -> DataFusionError {
    let DataFusionError::External(inner) = error else { return error };
    match inner.downcast::<PlanError>() {
        Ok(own) => external(PlanError { place: own.place.or(place), ..*own }),
        Err(other) => DataFusionError::External(other),
    }
}

/// The place of what DataFusion says the span of.
pub(crate) fn place_of(span: Option<datafusion_common::Span>) -> Option<Place> {
    let start = span?.start;
    (start.line > 0).then_some(Place { line: start.line, column: start.column })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_place_message_and_hint() {
        let error = PlanError::unsupported(Some(Place { line: 3, column: 8 }), "HOP", "use TUMBLE");
        assert_eq!(error.to_string(), "line 3, column 8: HOP is not supported yet; use TUMBLE");
        assert_eq!(PlanError::invalid(None, "no table t").to_string(), "no table t");
    }
}
