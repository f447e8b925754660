//! Rows that are alive to the entries of the rows that they looked up.

use pelton_data::abi::Status;
use pelton_state::join::{Lookups, UNMATCHED, gather};
use pelton_state::kernel::{KernelError, Scratch};
use pelton_state::table::{Entries, LookupKeys, Numbering, Table};

use super::aggregate::BATCH;
use super::call::Call;
use super::integer_keys::list_keys;
use super::loops::Loop;
use crate::interpret::aggregate::find_entries;

/// How a pipeline adds rows to a table where the row that a lookup found says which group a row belongs to.
pub(crate) struct ByLookup {
    /// The columns of the looked-up table that are the key, in the order of the key columns.
    pub(crate) columns: Vec<usize>,
    /// What numbers looked-up rows.
    pub(crate) numbering: Numbering,
    /// Whether rows that found none have a group.
    pub(crate) keep_unmatched: bool,
    /// Which lookup of the pipeline.
    pub(crate) lookup: usize,
    /// Lists what is looked up, where the loop over rows does the lookup itself: it is the pipeline's last step then, and left out.
    pub(crate) probe_keys: Option<Loop>,
    /// Changes accumulators.
    pub(crate) update: Loop,
}

impl ByLookup {
    /// Which looked-up rows have which entries; `None` where the table has another shape than the loop is for. `tables` says which of the program's tables
    /// each lookup reads.
    pub(crate) fn keys<'a>(&'a self, tables: &[Option<usize>], lookups: &'a Lookups) -> Option<LookupKeys<'a>> {
        let ByLookup { columns, numbering, keep_unmatched, .. } = self;
        let bucket = lookups.bucket(tables[self.lookup]?);
        let is_of_shape = *numbering == Numbering::Row || bucket.dense().is_some();
        is_of_shape.then_some(LookupKeys { bucket, columns, numbering: *numbering, keep_unmatched: *keep_unmatched })
    }

    /// Adds all rows of a call.
    ///
    /// # Errors
    /// Where an expression fails.
    pub(crate) fn run(
        &self,
        call: &Call<'_>,
        keys: &LookupKeys<'_>,
        table: &mut Table,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        if call.count == 0 {
            return Ok(());
        }
        let bound = call.bind(&self.update)?;
        let mut position = 0;
        loop {
            let mut frame = call.frame(&bound, position, call.count);
            frame.dense_base = keys.bucket.dense().map_or(0, |places| places.base);
            frame.dense_length = keys.length() as u64;
            frame.lookup_entries = table.lookup_entries(keys).as_ptr();
            // SAFETY: there is an address for each number and one for rows that found none. Those that are not zero are of
            // entries with the layout that the updates were planned for, which stay where they are during the call.
            let status = unsafe { call.run(&self.update, &bound, &mut frame)? };
            if status == Status::Done {
                return Ok(());
            }
            position = frame.position as usize;
            let numbers = self.numbers(call, keys, scratch, position, (position + BATCH).min(call.count))?;
            self.find(table, keys, scratch, numbers);
        }
    }

    /// The numbers of the rows that the positions `start..end` looked up.
    fn numbers(
        &self,
        call: &Call<'_>,
        keys: &LookupKeys<'_>,
        scratch: &mut Scratch,
        start: usize,
        end: usize,
    ) -> Result<Vec<u32>, KernelError> {
        let length = keys.length() as u32;
        let Some(code) = &self.probe_keys else {
            return Ok(call.matches[self.lookup][start..end].iter().map(|&row| row.min(length)).collect());
        };
        let places = keys.bucket.dense().expect("the loop was made for a dense index");
        let bound = call.bind(code)?;
        list_keys(call, code, &bound, scratch, start, end)?;
        let validity = scratch.spare[0].iter().map(|&valid| valid == 1).chain(std::iter::repeat(true));
        let keys = scratch.integers.iter().zip(validity);
        let place =
            |(&key, valid): (&i64, bool)| places.place(key).filter(|_| valid).map_or(length, |place| place as u32);
        Ok(keys.map(place).collect())
    }

    /// Finds those entries of the numbers that are not known.
    fn find(&self, table: &mut Table, keys: &LookupKeys<'_>, scratch: &mut Scratch, mut numbers: Vec<u32>) {
        table.discard_unknown(keys, &mut numbers);
        let row = |number: u32| match (&self.probe_keys, keys.bucket.dense()) {
            (Some(_), Some(places)) => places.row(number as usize),
            _ if number as usize == keys.length() => UNMATCHED,
            _ => number,
        };
        if !self.keep_unmatched {
            numbers.retain(|&number| row(number) != UNMATCHED);
        }
        if numbers.is_empty() {
            return;
        }
        let rows: Vec<u32> = numbers.iter().map(|&number| row(number)).collect();
        let columns = self.columns.iter().map(|&column| gather(keys.bucket.columns().column(column), &rows));
        let columns: Vec<_> = columns.collect();
        let Entries::Each(entries) = find_entries(table, &columns, scratch) else { unreachable!("the table has keys") };
        table.keep_lookup_entries(keys, &numbers, entries);
    }
}
