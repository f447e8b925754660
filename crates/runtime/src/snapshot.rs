//! Snapshots of a run's operators.
//!
//! A checkpoint has the snapshots of all operators at a cut ([`crate::checkpoint`]). Here tests ask for one operator's, and let it go on with state that is made anew, or that
//! another run had.

pub use pelton_state::snapshot::SnapshotError;

use crate::run::RunHandle;

impl RunHandle {
    /// The operators that have state: `Graph::operators[i]`.
    pub fn stateful_operators(&self) -> std::ops::Range<usize> {
        0..self.0.graph.operators.len()
    }

    /// The state of an operator as bytes.
    ///
    /// # Errors
    /// Where the operator is at something that must be done first, or a function of the program's own has states without a form.
    pub fn snapshot(&self, operator: usize) -> Result<Vec<u8>, SnapshotError> {
        self.0.operator(operator).snapshot(Vec::new())
    }

    /// Gives an operator the state that another run of the same graph had, on any number of workers. What it has is forgotten.
    ///
    /// # Errors
    /// Where the bytes are not such a state: then it keeps what it has.
    pub fn restore(&self, operator: usize, bytes: &[u8]) -> Result<(), SnapshotError> {
        let restored = self.0.operator(operator).restore(bytes)?;
        self.0.state().operator_restored(operator, restored);
        Ok(())
    }

    /// Makes the state of an operator anew, from its snapshot, while the run goes on.
    ///
    /// # Errors
    /// As [`RunHandle::snapshot`].
    pub fn renew(&self, operator: usize) -> Result<(), SnapshotError> {
        self.0.operator(operator).renew()
    }
}
