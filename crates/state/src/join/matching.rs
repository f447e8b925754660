//! What a kind of join makes of the pairs that match.

use arrow::array::ArrayRef;
use pelton_data::join::{JoinKind, Side};

use super::UNMATCHED;
use super::bucket::Bucket;
use super::index::Matches;

/// Pairs of one piece. Their columns, which conditions read, stay in the second-level cache.
const PAIRS_MAX: usize = 1 << 14;

/// Candidates of each row that are tested first where one match decides. Each round tests so many times as many as the one before.
const CANDIDATES_FIRST: usize = 8;
const CANDIDATES_GROWTH: usize = 4;

/// Keeps those of the pairs that match: rows, and for each the row of the bucket.
pub type Retain<'a, E> = &'a mut dyn FnMut(&mut Vec<u32>, &mut Vec<u32>) -> Result<(), E>;

impl Bucket {
    /// Joins so many rows, which are the left side, to the rows of the bucket. Candidates are rows with equal values in `keys`, those for which `retain` keeps the
    /// pair match; it gets pairs in pieces. Where pairs leave, it gets all in the order of rows and then of candidates; where one match decides, candidates of
    /// all rows that have none yet, round by round. `out_rows` and `out_matches` get what leaves in the order of rows and then of candidates; a row
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
        let keeps_unmatched = kind.keeps_unmatched(Side::Left);
        out_rows.clear();
        out_matches.clear();
        let mut found = Vec::new();
        if !kind.has_pairs() {
            self.find(keys, None, rows, &mut found);
            let firsts = self.first_matches(&found, retain)?;
            let leaves = |first: u32| (first == UNMATCHED) == (kind == JoinKind::Anti);
            for (row, first) in firsts.into_iter().enumerate().filter(|(_, first)| leaves(*first)) {
                out_rows.push(row as u32);
                out_matches.push(first);
            }
            return Ok(());
        }
        let Some(retain) = retain else {
            self.probe(keys, None, rows, keeps_unmatched, out_rows, out_matches);
            return Ok(());
        };
        self.find(keys, None, rows, &mut found);
        let joined = Joined { keeps_unmatched, rows: out_rows, matches: out_matches, row_next: 0 };
        let mut pieces = Pieces { retain, joined, rows: Vec::new(), matches: Vec::new() };
        for (row, matches) in found.iter().enumerate() {
            pieces.add(row as u32, self.rows_of(matches))?;
        }
        pieces.flush()?;
        pieces.joined.pass_rows_before(rows as u32);
        Ok(())
    }

    /// For each row its first match, or [`UNMATCHED`].
    fn first_matches<E>(&self, found: &[Matches], retain: Option<Retain<'_, E>>) -> Result<Vec<u32>, E> {
        let first = |matches| self.rows_of(matches).first().copied().unwrap_or(UNMATCHED);
        let Some(retain) = retain else { return Ok(found.iter().map(first).collect()) };
        let mut firsts = vec![UNMATCHED; found.len()];
        let (mut rows, mut matches) = (Vec::new(), Vec::new());
        let mut test = |firsts: &mut [u32], rows: &mut Vec<u32>, matches: &mut Vec<u32>| {
            retain(rows, matches)?;
            for (row, matched) in rows.drain(..).zip(matches.drain(..)) {
                let first = &mut firsts[row as usize];
                *first = if *first == UNMATCHED { matched } else { *first };
            }
            Ok(())
        };
        let mut pending: Vec<u32> = (0..found.len() as u32).collect();
        let (mut start, mut count) = (0, CANDIDATES_FIRST);
        loop {
            let has_more = |row: usize| firsts[row] == UNMATCHED && self.rows_of(&found[row]).len() > start;
            pending.retain(|&row| has_more(row as usize));
            if pending.is_empty() {
                return Ok(firsts);
            }
            for &row in &pending {
                let candidates = &self.rows_of(&found[row as usize])[start..];
                let candidates = &candidates[..candidates.len().min(count)];
                if rows.len() + candidates.len() > PAIRS_MAX {
                    test(&mut firsts, &mut rows, &mut matches)?;
                }
                rows.extend(std::iter::repeat_n(row, candidates.len()));
                matches.extend_from_slice(candidates);
            }
            test(&mut firsts, &mut rows, &mut matches)?;
            (start, count) = (start + count, (count * CANDIDATES_GROWTH).min(PAIRS_MAX));
        }
    }
}

/// Candidate pairs that are yet to be tested.
struct Pieces<'a, E> {
    retain: Retain<'a, E>,
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
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), E> {
        (self.retain)(&mut self.rows, &mut self.matches)?;
        for (row, matched) in self.rows.drain(..).zip(self.matches.drain(..)) {
            self.joined.add(row, matched);
        }
        Ok(())
    }
}

/// The pairs that leave.
struct Joined<'a> {
    keeps_unmatched: bool,
    rows: &'a mut Vec<u32>,
    matches: &'a mut Vec<u32>,
    /// Rows before this one are done with, or the one right before has a match.
    row_next: u32,
}

impl Joined<'_> {
    /// Adds a pair that matches.
    fn add(&mut self, row: u32, matched: u32) {
        self.pass_rows_before(row);
        self.row_next = row + 1;
        self.rows.push(row);
        self.matches.push(matched);
    }

    /// Adds the rows before this one that have no match, where these leave.
    fn pass_rows_before(&mut self, row: u32) {
        if self.keeps_unmatched {
            let unmatched = self.row_next..row;
            self.matches.extend(unmatched.clone().map(|_| UNMATCHED));
            self.rows.extend(unmatched);
        }
    }
}
