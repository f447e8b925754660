//! What joining has found: pairs of rows, and rows that may have no match, in the order in which they leave.
//!
//! What leaves is two numbers of rows and the batches that these lie in. Its columns are put together apart from the join, while another worker goes on with that.

use std::sync::Arc;

use arrow::array::RecordBatch;
use pelton_data::join::{JoinKind, JoinSpec};

use super::rows::{NO_ROW, SideRows};
use crate::join::BucketRow;
use crate::join::streams::pairs::{Pairs, Residual};
use crate::kernel::KernelError;

/// Rows of one batch that leaves.
const BATCH_ROWS_MAX: usize = 1 << 16;

/// Pairs of rows of equal keys that match by their times. Where one has no row, the other leaves if no pair before had it.
#[derive(Debug, Default)]
pub(super) struct Found {
    lefts: Vec<u64>,
    rights: Vec<u64>,
    /// Whether a pair has no row of one side.
    has_lone: bool,
}

impl Found {
    #[inline(always)]
    pub fn push(&mut self, left: u64, right: u64) {
        self.lefts.push(left);
        self.rights.push(right);
    }

    /// Adds a row that leaves if it has had no match.
    pub fn push_lone(&mut self, left: u64, right: u64) {
        self.has_lone = true;
        self.push(left, right);
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        (self.lefts.capacity() + self.rights.capacity()) * size_of::<u64>()
    }

    /// Takes all out that leaves; `None` where nothing does.
    pub fn take(
        &mut self,
        spec: &Arc<JoinSpec>,
        residual: Option<&Residual>,
        sides: &mut [SideRows; 2],
    ) -> Result<Option<LeavingPairs>, KernelError> {
        self.choose(spec.kind, residual, sides)?;
        let [left, right] = &*sides;
        let leaving = (!self.lefts.is_empty()).then(|| LeavingPairs {
            spec: spec.clone(),
            batches: [left.batches().to_vec(), right.batches().to_vec()],
            rows: [places(left, &self.lefts), places(right, &self.rights)],
        });
        self.lefts.clear();
        self.rights.clear();
        self.has_lone = false;
        Ok(leaving)
    }

    /// Keeps what leaves.
    fn choose(
        &mut self,
        kind: JoinKind,
        residual: Option<&Residual>,
        sides: &mut [SideRows; 2],
    ) -> Result<(), KernelError> {
        if self.lefts.is_empty() || (kind == JoinKind::Inner && residual.is_none() && !self.has_lone) {
            return Ok(());
        }
        let met = residual.map(|residual| self.meet(residual, sides)).transpose()?;
        let [left, right] = sides;
        let mut end = 0;
        for at in 0..self.lefts.len() {
            let (one, other) = (self.lefts[at], self.rights[at]);
            let is_lone = one == NO_ROW || other == NO_ROW;
            let leaves = if is_lone {
                kind != JoinKind::Semi
                    && !(one != NO_ROW && left.has_matched(one))
                    && !(other != NO_ROW && right.has_matched(other))
            } else if met.as_ref().is_none_or(|met| met[at]) {
                let had_match = left.set_matched(one);
                right.set_matched(other);
                match kind {
                    JoinKind::Semi => !had_match,
                    JoinKind::Anti => false,
                    _ => true,
                }
            } else {
                false
            };
            if leaves {
                self.lefts[end] = one;
                self.rights[end] = if kind.has_pairs() { other } else { NO_ROW };
                end += 1;
            }
        }
        self.lefts.truncate(end);
        self.rights.truncate(end);
        Ok(())
    }

    /// Which pairs meet a condition. It is not asked for those without a row.
    fn meet(&self, residual: &Residual, sides: &[SideRows; 2]) -> Result<Vec<bool>, KernelError> {
        let [left, right] = sides;
        let pairs = self.lefts.iter().zip(&self.rights);
        let are_pairs: Vec<bool> = pairs.clone().map(|(&left, &right)| left != NO_ROW && right != NO_ROW).collect();
        let pairs = pairs.zip(&are_pairs).filter(|(_, is_pair)| **is_pair).map(|((&left, &right), _)| (left, right));
        let (lefts, rights): (Vec<u64>, Vec<u64>) = pairs.unzip();
        let (lefts, rights) = (places(left, &lefts), places(right, &rights));
        let met = Pairs::new(left.batches(), right.batches()).meet(residual, &lefts, &rights)?;
        let mut met = met.iter();
        Ok(are_pairs.into_iter().map(|is_pair| is_pair && met.next() == Some(true)).collect())
    }
}

/// Rows that leave a join, before they have columns.
pub struct LeavingPairs {
    spec: Arc<JoinSpec>,
    /// What the rows of each side lie in.
    batches: [Vec<RecordBatch>; 2],
    /// The row of each side that each pair has.
    rows: [Vec<BucketRow>; 2],
}

impl LeavingPairs {
    /// The rows with their columns.
    ///
    /// # Errors
    /// Where Arrow cannot put values of a type together.
    pub fn output(&self) -> Result<Vec<RecordBatch>, KernelError> {
        let [left, right] = &self.batches;
        let [lefts, rights] = &self.rows;
        let pairs = Pairs::new(left, right);
        let chunks = lefts.chunks(BATCH_ROWS_MAX).zip(rights.chunks(BATCH_ROWS_MAX));
        chunks.map(|(lefts, rights)| pairs.output(&self.spec, lefts, rights, None)).collect()
    }
}

fn places(side: &SideRows, rows: &[u64]) -> Vec<BucketRow> {
    let mut batch = 0;
    rows.iter().map(|&row| side.place(row, &mut batch)).collect()
}
