//! What a kind of join makes of the pairs that match.

use arrow::array::ArrayRef;
use pelton_data::join::{JoinKind, Side};

use super::UNMATCHED;
use super::bucket::Bucket;

/// Pairs of one piece. Their columns, which conditions read, stay in the second-level cache.
const PAIRS_MAX: usize = 1 << 14;

/// Keeps those of the pairs that match: rows, and for each the row of the bucket.
pub type Retain<'a, E> = &'a mut dyn FnMut(&mut Vec<u32>, &mut Vec<u32>) -> Result<(), E>;

impl Bucket {
    /// Joins so many rows, which are the left side, to the rows of the bucket. Candidates are rows with equal values in `keys`, those for which `retain` keeps the
    /// pair match; it gets pairs in pieces, in the order of rows and then of candidates. `out_rows` and `out_matches` get the pairs that leave in this order; a row
    /// that leaves without a match has [`UNMATCHED`]. For [`JoinKind::Semi`] a row leaves with its first match. Both vectors are replaced.
    ///
    /// # Errors
    /// Those of `retain`.
    ///
    /// # Panics
    /// As [`Bucket::probe`].
    pub fn join<'a, E>(
        &self,
        (keys, rows): (&[ArrayRef], usize),
        kind: JoinKind,
        retain: Option<Retain<'a, E>>,
        out_rows: &'a mut Vec<u32>,
        out_matches: &'a mut Vec<u32>,
    ) -> Result<(), E> {
        if retain.is_none() && kind.has_pairs() {
            self.probe(keys, None, rows, kind.keeps_unmatched(Side::Left), out_rows, out_matches);
            return Ok(());
        }
        out_rows.clear();
        out_matches.clear();
        let mut found = Vec::new();
        self.find(keys, None, rows, &mut found);
        // Where all candidates match, the first decides.
        let candidates_max = if retain.is_some() { usize::MAX } else { 1 };
        let joined = Joined { kind, rows: out_rows, matches: out_matches, row_next: 0 };
        let mut pieces = Pieces { retain, joined, rows: Vec::new(), matches: Vec::new() };
        for (row, matches) in found.iter().enumerate() {
            let candidates = self.rows_of(matches);
            pieces.add(row as u32, &candidates[..candidates.len().min(candidates_max)])?;
        }
        pieces.flush()?;
        pieces.joined.pass_rows_before(rows as u32);
        Ok(())
    }
}

/// Candidate pairs that are yet to be tested.
struct Pieces<'a, E> {
    retain: Option<Retain<'a, E>>,
    joined: Joined<'a>,
    rows: Vec<u32>,
    matches: Vec<u32>,
}

impl<E> Pieces<'_, E> {
    /// Adds the candidates of a row.
    fn add(&mut self, row: u32, mut candidates: &[u32]) -> Result<(), E> {
        while !candidates.is_empty() {
            let (now, later) = candidates.split_at(candidates.len().min(PAIRS_MAX - self.rows.len()));
            self.rows.extend(std::iter::repeat_n(row, now.len()));
            self.matches.extend_from_slice(now);
            candidates = later;
            if self.rows.len() == PAIRS_MAX {
                self.flush()?;
                if !self.joined.kind.has_pairs() && self.joined.row_next > row {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), E> {
        if let Some(retain) = &mut self.retain {
            retain(&mut self.rows, &mut self.matches)?;
        }
        for (row, matched) in self.rows.drain(..).zip(self.matches.drain(..)) {
            self.joined.add(row, matched);
        }
        Ok(())
    }
}

/// The rows that leave.
struct Joined<'a> {
    kind: JoinKind,
    rows: &'a mut Vec<u32>,
    matches: &'a mut Vec<u32>,
    /// Rows before this one are done with, or the one right before has a match.
    row_next: u32,
}

impl Joined<'_> {
    /// Adds a pair that matches.
    fn add(&mut self, row: u32, matched: u32) {
        let is_first = row >= self.row_next;
        self.pass_rows_before(row);
        self.row_next = row + 1;
        let leaves = match self.kind {
            JoinKind::Semi => is_first,
            JoinKind::Anti => false,
            JoinKind::Inner | JoinKind::Left | JoinKind::Right | JoinKind::Full => true,
        };
        if leaves {
            self.rows.push(row);
            self.matches.push(matched);
        }
    }

    /// Adds the rows before this one that have no match, where these leave.
    fn pass_rows_before(&mut self, row: u32) {
        if self.kind.keeps_unmatched(Side::Left) {
            let unmatched = self.row_next..row;
            self.matches.extend(unmatched.clone().map(|_| UNMATCHED));
            self.rows.extend(unmatched);
        }
    }
}
