//! Rows that are alive to the entries of the rows that they looked up.

use pelton_data::abi::Status;
use pelton_state::join_index::UNMATCHED;
use pelton_state::kernel::{KernelError, Scratch};
use pelton_state::table::{Entries, LookupKeys, Table};

use super::aggregate::BATCH;
use super::call::Call;
use super::integer_keys::list_keys;
use super::loops::Loop;
use crate::interpret::aggregate::find_entries;
use crate::interpret::rows::{gather, matched_rows};

/// How a pipeline adds rows to a table where the row that a lookup found says which group a row belongs to.
pub(crate) struct ByLookup {
    /// Which looked-up rows have which entries.
    pub(crate) keys: LookupKeys,
    /// Which lookup of the pipeline.
    pub(crate) lookup: usize,
    /// Lists what is looked up, where the loop over rows does the lookup itself: it is the pipeline's last step then, and left out.
    pub(crate) probe_keys: Option<Loop>,
    /// Changes accumulators.
    pub(crate) update: Loop,
}

impl ByLookup {
    /// Adds all rows of a call.
    ///
    /// # Errors
    /// Where an expression fails.
    pub(crate) fn run(&self, call: &Call<'_>, table: &mut Table, scratch: &mut Scratch) -> Result<(), KernelError> {
        if call.count == 0 {
            return Ok(());
        }
        let bound = call.bind(&self.update)?;
        let mut position = 0;
        loop {
            let mut frame = call.frame(&bound, position, call.count);
            frame.dense_base = self.keys.index.dense().map_or(0, |(base, _)| base);
            frame.dense_length = self.keys.length() as u64;
            frame.lookup_entries = table.lookup_entries(&self.keys).as_ptr();
            // SAFETY: there is an address for each number and one for rows that found none. Those that are not zero are of
            // entries with the layout that the updates were planned for, which stay where they are during the call.
            let status = unsafe { call.run(&self.update, &bound, &mut frame)? };
            if status == Status::Done {
                return Ok(());
            }
            position = frame.position as usize;
            let numbers = self.numbers(call, scratch, position, (position + BATCH).min(call.count))?;
            self.find(table, scratch, numbers);
        }
    }

    /// The numbers of the rows that the positions `start..end` looked up.
    fn numbers(
        &self,
        call: &Call<'_>,
        scratch: &mut Scratch,
        start: usize,
        end: usize,
    ) -> Result<Vec<u32>, KernelError> {
        let length = self.keys.length() as u32;
        let Some(keys) = &self.probe_keys else {
            return Ok(call.matches[self.lookup][start..end].iter().map(|&row| row.min(length)).collect());
        };
        let (base, index) = self.keys.index.dense().expect("the loop was made for a dense index");
        let bound = call.bind(keys)?;
        list_keys(call, keys, &bound, scratch, start, end)?;
        let validity = scratch.spare[0].iter().map(|&valid| valid == 1).chain(std::iter::repeat(true));
        let keys = scratch.integers.iter().zip(validity);
        let place = |(&key, valid): (&i64, bool)| {
            let place = key.wrapping_sub(base) as u64;
            if valid && place < index.len() as u64 { place as u32 } else { length }
        };
        Ok(keys.map(place).collect())
    }

    /// Finds those entries of the numbers that are not known.
    fn find(&self, table: &mut Table, scratch: &mut Scratch, mut numbers: Vec<u32>) {
        table.discard_unknown(&self.keys, &mut numbers);
        let row = |number: u32| match (&self.probe_keys, self.keys.index.dense()) {
            (Some(_), Some((_, rows))) => rows.get(number as usize).copied().unwrap_or(UNMATCHED),
            _ if number as usize == self.keys.length() => UNMATCHED,
            _ => number,
        };
        if !self.keys.keep_unmatched {
            numbers.retain(|&number| row(number) != UNMATCHED);
        }
        if numbers.is_empty() {
            return;
        }
        let rows = matched_rows(numbers.iter().map(|&number| row(number)).collect());
        let columns = self.keys.columns.iter();
        let keys: Vec<_> = columns.map(|&column| gather(self.keys.index.columns().column(column), &rows)).collect();
        let Entries::Each(entries) = find_entries(table, &keys, scratch) else { unreachable!("the table has keys") };
        table.keep_lookup_entries(&self.keys, &numbers, entries);
    }
}
