//! What is wrong with a statement, where, and what would be right.

use std::fmt;

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

/// The candidate that `name` was most likely meant to be: one that differs in case only, or else the closest by
/// edits, when they are at most a third of the name's letters.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if candidate.eq_ignore_ascii_case(name) {
            return Some(candidate);
        }
        let edits = edit_distance(&name.to_lowercase(), &candidate.to_lowercase());
        let close_enough = 3 * edits <= name.chars().count();
        if close_enough && best.is_none_or(|(least, _)| edits < least) {
            best = Some((edits, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Letters inserted, deleted, replaced, or swapped with their neighbour.
fn edit_distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for i in 1..=left.len() {
        let mut row = vec![i];
        for j in 1..=right.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut edits = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            let swapped = i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
            if swapped {
                edits = edits.min(rows[i - 2][j - 2] + 1);
            }
            row.push(edits);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
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

    #[test]
    fn closest_prefers_case_then_edits() {
        assert_eq!(closest("bid", ["Bids", "Bid", "bidder"]), Some("Bid"));
        assert_eq!(closest("pirce", ["prize", "price"]), Some("price"));
        assert_eq!(closest("b", ["a"]), None);
        assert_eq!(closest("auctoin_id", ["auction_id", "bidder_id"]), Some("auction_id"));
        assert_eq!(closest("conector", ["connector", "path"]), Some("connector"));
        assert_eq!(closest("zzz", ["connector"]), None);
    }
}
