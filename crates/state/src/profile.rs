//! What code says of the rows it sees, and how it may be made to suit them.
//!
//! A kernel's predicates may be tested in any order where none of them fails for any row. Which order is best depends on
//! which rows pass which of them together: that is what a [`Profile`] counts, over a sample of rows.

/// Predicates that are counted together: there are two to this power of sets of them. Those behind stay where they are.
pub const PREDICATES_MAX: usize = 8;

/// A predicate that fails for no row, and so may be tested before or behind others.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicate {
    /// As planned, for people.
    pub text: String,
    /// Whether a primitive tests it, 64 rows at a time or one by one; otherwise a loop does, one by one. All primitives go before all loops.
    pub is_primitive: bool,
    /// What 64 rows side by side take, in nanoseconds, about. Of primitives only.
    pub word_ns: f64,
    /// What a row takes where rows are listed, in nanoseconds, about.
    pub row_ns: f64,
    /// Bytes of a row's value in the column, about. Of primitives only.
    pub row_bytes: f64,
}

/// In which order a kernel tests its predicates.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PredicateOrder {
    /// Their numbers, in the order in which they are tested: primitives, then loops.
    pub tested: Vec<usize>,
    /// So many are tested over whole blocks, the others over the rows that are left. At least one where there are primitives, and no loop.
    pub over_blocks: usize,
}

impl PredicateOrder {
    /// The order in which predicates were planned, primitives over whole blocks.
    pub fn planned(predicates: &[Predicate]) -> PredicateOrder {
        let over_blocks = predicates.iter().filter(|predicate| predicate.is_primitive).count();
        PredicateOrder { tested: (0..predicates.len()).collect(), over_blocks }
    }

    /// Whether it is an order of these predicates.
    pub fn is_of(&self, predicates: &[Predicate]) -> bool {
        let primitives = predicates.iter().filter(|predicate| predicate.is_primitive).count();
        let mut sorted = self.tested.clone();
        sorted.sort_unstable();
        sorted.iter().copied().eq(0..predicates.len())
            && self.tested[..primitives].iter().all(|&number| predicates[number].is_primitive)
            && (primitives.min(1)..=primitives).contains(&self.over_blocks)
    }
}

/// How entries of integer keys are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeysFound {
    /// By their distance from the first: so far they lie between these two, both inclusive.
    Between {
        /// The least.
        first: i64,
        /// The greatest.
        last: i64,
    },
    /// By the values of several columns, of which there are so many combinations at most.
    Among {
        /// How many.
        combinations: u64,
    },
    /// By hash.
    ByHash,
}

/// What calls of a kernel have met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Met {
    /// Rows that did not fit what is assumed of keys: code left there, and went on at the same row when the table had been made to fit.
    pub guards_failed: u64,
    /// How the last table found entries, where keys are integers.
    pub keys: Option<KeysFound>,
    /// Whether all blocks ran without checks for NULL, where loops read columns that may hold one.
    pub without_nulls: Option<bool>,
}

/// How many rows pass which predicates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Rows looked at.
    pub rows: u64,
    /// The first primitives, over all rows.
    pub primitives: Joint,
    /// The first loops, over the rows that all primitives leave.
    pub loops: Joint,
}

/// For each set of predicates (bit `i` is the `i`-th), how often all of them hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Joint {
    /// Rows for which all do.
    pub rows: Vec<u64>,
    /// Runs of 64 rows in which all do for some row.
    pub words: Vec<u64>,
}

impl Joint {
    /// Counts the rows of `within` (bits of rows, 64 a word) by the predicates' masks, of which there are at most [`PREDICATES_MAX`], as many at each call.
    ///
    /// # Panics
    /// Where a mask is shorter than `within`.
    pub fn add(&mut self, within: &[u64], masks: &[Vec<u64>]) {
        let sets = 1 << masks.len();
        self.rows.resize(sets, 0);
        self.words.resize(sets, 0);
        let mut all = [0; 1 << PREDICATES_MAX];
        // A sample is a small part of its block: most words have no rows.
        for (word, &bits) in within.iter().enumerate().filter(|(_, bits)| **bits != 0) {
            all[0] = bits;
            for set in 0..sets {
                if set > 0 {
                    // The same set without its first predicate is a smaller number.
                    all[set] = all[set & (set - 1)] & masks[set.trailing_zeros() as usize][word];
                }
                self.rows[set] += u64::from(all[set].count_ones());
                self.words[set] += u64::from(all[set] != 0);
            }
        }
    }

    /// The share of rows that a predicate lets pass, between 0 and 1; `None` where there were no rows, or it was not counted.
    pub fn share(&self, predicate: usize) -> Option<f64> {
        let rows = *self.rows.first().filter(|&&rows| rows > 0)?;
        self.rows.get(1_usize.checked_shl(predicate as u32)?).map(|&passed| passed as f64 / rows as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_words_are_counted_by_sets_of_predicates() {
        let mut joint = Joint::default();
        joint.add(&[0b1111, 0b1], &[vec![0b0011, 0], vec![0b0110, 1]]);
        joint.add(&[0b1], &[vec![1], vec![1]]);
        assert_eq!(joint.rows, [6, 3, 4, 2]);
        assert_eq!(joint.words, [3, 2, 3, 2]);
        assert_eq!(joint.share(0), Some(0.5));
        assert_eq!(joint.share(2), None);
        assert_eq!(Joint::default().share(0), None);
    }

    #[test]
    fn an_order_is_one_of_all_predicates_with_loops_behind() {
        let predicate =
            |is_primitive| Predicate { text: String::new(), is_primitive, word_ns: 1.0, row_ns: 1.0, row_bytes: 8.0 };
        let predicates = [predicate(true), predicate(true), predicate(false)];
        let order = |tested: &[usize], over_blocks| PredicateOrder { tested: tested.to_vec(), over_blocks };
        assert_eq!(PredicateOrder::planned(&predicates), order(&[0, 1, 2], 2));
        assert!(order(&[1, 0, 2], 1).is_of(&predicates));
        assert!(!order(&[1, 0, 2], 0).is_of(&predicates));
        assert!(!order(&[1, 0, 2], 3).is_of(&predicates));
        assert!(!order(&[1, 2, 0], 2).is_of(&predicates));
        assert!(!order(&[1, 1, 2], 2).is_of(&predicates));
        assert!(order(&[0], 0).is_of(&predicates[2..]));
    }
}
