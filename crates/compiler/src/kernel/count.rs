//! Rows that are alive to windows that count the rows of each key.

use pelton_state::count::RowCounter;
use pelton_state::kernel::{KernelError, Scratch};
use pelton_state::table::Entries;

use super::aggregate::{Aggregation, Arguments, BATCH};
use super::call::Call;

impl Aggregation {
    /// Adds the rows of a call, of which there is at least one: batch by batch, their keys are found, rows counted there, and accumulators changed.
    ///
    /// # Errors
    /// Where an expression fails.
    pub(crate) fn run_counted(
        &self,
        call: &Call<'_>,
        arguments: &Arguments,
        counter: &mut RowCounter,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let bound = self.bind_listed(call)?;
        for start in (0..call.count).step_by(BATCH) {
            let end = (start + BATCH).min(call.count);
            self.find_groups(call, arguments.keys(), start..end, counter.keys(), scratch)?;
            counter.place(&mut scratch.entries);
            let entries = &scratch.entries;
            self.update_others(call, counter.values(), Entries::Each(entries), arguments.others(), start, end - start);
            self.update_listed(call, bound.as_deref(), counter.values(), entries, start)?;
            counter.rows_added();
        }
        scratch.met.keys = counter.keys().keys_found();
        Ok(())
    }
}
