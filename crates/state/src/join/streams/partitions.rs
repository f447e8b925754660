//! The rows of a large window, divided by their keys before they are joined: rows without a match are left out where the range of their keys says so, and the
//! others become partitions, each of which is joined by itself.

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use pelton_data::join::JoinSpec;

use super::window_pairs::Pass;
use crate::join::partition::{KeyedRows, Partitioning};
use crate::layout::is_integer;

/// Of fewer rows the ranges of keys are not looked at.
const RANGED_ROWS_MIN: usize = 1 << 10;

/// The index of fewer rows stays in the second-level cache, or nearly.
const PARTITIONED_ROWS_MIN: usize = 1 << 18;

/// Rows of a partition, about: its index and its columns stay in the second-level cache.
const PARTITION_ROWS: usize = 1 << 15;

/// An integer key whose range has at most so many keys for each row is divided by ranges.
const KEYS_PER_ROW_MAX: u64 = 8;

/// The rows of both sides of a pass, and how they are divided.
struct Sides {
    own: Vec<RecordBatch>,
    others: Vec<RecordBatch>,
    partitioning: Option<Partitioning>,
}

impl Pass {
    /// The same rows in one or more passes, none of which has more than it needs to.
    ///
    /// # Errors
    /// Where Arrow cannot put rows together.
    pub fn divided(mut self, spec: &JoinSpec) -> Result<VecDeque<Pass>, ArrowError> {
        let sides = [self.probing, self.probing.other()].map(|side| &spec.sides[side.port()]);
        let others_rows = self.slices.iter().map(|(_, slice)| slice.rows()).sum::<usize>();
        if self.others_are_needed || self.has_reported() || sides[0].keys.is_empty() || others_rows < RANGED_ROWS_MIN {
            return Ok(VecDeque::from([self]));
        }
        let own: Vec<RecordBatch> = self.rows.drain(..).map(|rows| rows.rows).collect();
        let others = self.slices.drain(..).flat_map(|(_, slice)| slice.batches.to_vec()).collect();
        let types: Vec<DataType> =
            sides[1].keys.iter().map(|&key| sides[1].schema.field(key).data_type().clone()).collect();
        let Sides { own, others, partitioning } = match (&types[..], &sides[0].keys[..], &sides[1].keys[..]) {
            ([key_type], &[own_key], &[other_key]) if is_integer(key_type) => {
                Sides::of_integers([(own, own_key), (others, other_key)], self.leaving.unmatched)?
            }
            _ => {
                let is_large = others_rows >= PARTITIONED_ROWS_MIN;
                let partitioning = is_large.then(|| Partitioning::of_packed(&types, others_rows / PARTITION_ROWS));
                Sides { own, others, partitioning }
            }
        };
        let Some(partitioning) = partitioning else { return Ok(VecDeque::from([self.with_rows(own, others)])) };
        let own = partitioning.divide(&own, &sides[0].schema, &sides[0].keys)?;
        let others = partitioning.divide(&others, &sides[1].schema, &sides[1].keys)?;
        Ok(own.into_iter().zip(others).map(|(own, others)| self.with_rows(vec![own], vec![others])).collect())
    }
}

impl Sides {
    /// Those rows of both sides, each with its key column, that are between keys of the other side; own rows all where unmatched ones leave.
    fn of_integers(
        [(own, own_key), (others, other_key)]: [(Vec<RecordBatch>, usize); 2],
        keeps_unmatched: bool,
    ) -> Result<Sides, ArrowError> {
        let keyed = |rows: Vec<RecordBatch>, key: usize| {
            rows.into_iter().map(|rows| KeyedRows::new(rows, key)).collect::<Vec<_>>()
        };
        let mut own = keyed(own, own_key);
        let others = KeyedRows::within(keyed(others, other_key), other_key, KeyedRows::extent(&own))?;
        let extent = KeyedRows::extent(&others);
        if !keeps_unmatched {
            own = KeyedRows::within(own, own_key, extent)?;
        }
        let count = others.iter().map(|keyed| keyed.rows.num_rows()).sum::<usize>();
        let are_clustered = || KeyedRows::are_clustered(&own, own_key) && KeyedRows::are_clustered(&others, other_key);
        let partitioning = match extent {
            Some((first, last)) if count >= PARTITIONED_ROWS_MIN && !are_clustered() => {
                let are_dense = last.abs_diff(first) <= count as u64 * KEYS_PER_ROW_MAX;
                Some(match are_dense {
                    true => Partitioning::of_ranges((first, last), count / PARTITION_ROWS),
                    false => Partitioning::of_integers(count / PARTITION_ROWS),
                })
            }
            _ => None,
        };
        let rows = |keyed: Vec<KeyedRows>| keyed.into_iter().map(|keyed| keyed.rows).collect();
        Ok(Sides { own: rows(own), others: rows(others), partitioning })
    }
}

#[cfg(test)]
mod tests;
