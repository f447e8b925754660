//! Rows of a call are joined to those that they look up, and to those that table functions make of them.

use arrow::array::ArrayRef;
use pelton_data::join::JoinKind;
use pelton_state::join::matching::Retain;
use pelton_state::join::{Bucket, DensePlaces};
use pelton_state::kernel::KernelError;

use super::call::{Call, outputs};
use super::loops::Loop;
use crate::interpret::flat_map::FlatMap;
use crate::lower::ask::FAR_BYTES_MIN;
use crate::lower::function::Effect;

/// Whether a loop with [`Effect::Probe`] finds rows in places like these.
pub(super) fn finds_in(code: &Loop, places: &DensePlaces<'_>) -> bool {
    matches!(code.effect, Effect::Probe { is_in_order, .. } if is_in_order == places.rows.is_none())
}

impl<'a> Call<'a> {
    /// Joins rows to the rows that a loop with [`Effect::Probe`] finds by the places of their keys.
    ///
    /// # Errors
    /// Where a key has no value.
    pub(crate) fn probe(
        &mut self,
        code: &Loop,
        places: DensePlaces<'_>,
        mut survivors: Vec<u32>,
    ) -> Result<Vec<u32>, KernelError> {
        let bound = self.bind(code)?;
        survivors.clear();
        survivors.reserve(self.count);
        let mut matches = self.spare.get_mut().found.pop().unwrap_or_default();
        matches.clear();
        matches.reserve(self.count);
        let pointers = outputs([(matches.as_mut_ptr().cast(), std::ptr::null_mut())]);
        let mut frame = self.frame(&bound, 0, self.count);
        let index = places.rows.unwrap_or(&[]);
        frame.table = index.as_ptr().cast_mut().cast();
        frame.dense_base = places.base;
        frame.dense_length = places.length as u64;
        frame.survivors = survivors.as_mut_ptr();
        frame.outputs = pointers.as_ptr();
        let Effect::Probe { by_position, .. } = code.effect else { unreachable!("the loop finds rows") };
        assert!(finds_in(code, &places), "the loop is made for places like these");
        // SAFETY: there is room for as many survivors and matches as there are positions; the loop only reads the index, which is
        // there where it needs one.
        unsafe {
            match size_of_val(index) > FAR_BYTES_MIN {
                true => self.run_asking(code, &bound, &mut frame)?,
                false => self.run(code, &bound, &mut frame)?,
            }
        };
        // SAFETY: the loop wrote this many of each, at most `count`.
        unsafe {
            survivors.set_len(frame.survivor_count as usize);
            matches.set_len(frame.survivor_count as usize);
        }
        drop(bound);
        let spare = self.replace_rows(survivors, by_position);
        self.matches.push(matches);
        Ok(spare)
    }

    /// Joins rows to those that a bucket has for their keys, and that meet conditions.
    ///
    /// # Errors
    /// Where a condition has no value.
    pub(crate) fn look_up(
        &mut self,
        (bucket, keys): (&Bucket, &[ArrayRef]),
        kind: JoinKind,
        conditions: &[Loop],
        mut survivors: Vec<u32>,
    ) -> Result<Vec<u32>, KernelError> {
        let mut matches = self.spare.get_mut().found.pop().unwrap_or_default();
        let mut retain = |positions: &mut _, matches: &mut _| self.retain_pairs(conditions, positions, matches);
        let retain: Option<Retain<'_, _>> = (!conditions.is_empty()).then_some(&mut retain);
        bucket.join((keys, self.count), kind, retain, &mut survivors, &mut matches)?;
        let spare = self.keep_positions(survivors);
        self.matches.push(matches);
        Ok(spare)
    }

    /// Joins rows to those that a table function makes of them.
    ///
    /// # Errors
    /// Where the function refuses a row.
    pub(super) fn flat_map(&mut self, flat_map: &FlatMap) -> Result<Vec<u32>, KernelError> {
        let made = flat_map.call(&mut self.rows())?;
        let spare = self.keep_positions(made.positions);
        self.made.push((self.matches.len(), made.columns));
        self.matches.push(made.matches);
        Ok(spare)
    }

    /// Keeps those of the pairs of positions and looked-up rows for which loops with [`Effect::Keep`] keep the position of the pair.
    fn retain_pairs(
        &self,
        conditions: &[Loop],
        positions: &mut Vec<u32>,
        matches: &mut Vec<u32>,
    ) -> Result<(), KernelError> {
        let mut pairs = self.pairs(positions, matches);
        let mut kept = Vec::new();
        for condition in conditions {
            if pairs.count == 0 {
                break;
            }
            pairs.list_kept(condition, &mut kept)?;
            for numbers in [&mut *positions, &mut *matches] {
                kept.iter().enumerate().for_each(|(to, &from)| numbers[to] = numbers[from as usize]);
                numbers.truncate(kept.len());
            }
            kept = pairs.keep_positions(kept);
        }
        Ok(())
    }

    /// The rows at these positions, joined to rows of the table of the next lookup.
    fn pairs(&self, positions: &[u32], matches: &[u32]) -> Call<'a> {
        let rows = positions.iter().map(|&position| self.row(position as usize) as u32).collect();
        let mut pairs = Call::of_rows(self.shared, self.lookups, self.block, rows, Box::default());
        let earlier = self.matches.iter();
        let earlier = earlier.map(|rows| positions.iter().map(|&position| rows[position as usize]).collect());
        pairs.matches = earlier.chain([matches.to_vec()]).collect();
        pairs.made = self.made.clone();
        pairs.checks_nulls = self.checks_nulls;
        pairs
    }
}
