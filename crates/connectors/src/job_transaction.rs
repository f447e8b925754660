//! The transaction in which a job writes rows exactly once, where a system has transactions that only the process commits that began them.
//!
//! It decides whether a checkpoint counts: the job commits it when the checkpoint is written, and a job that goes on asks what has become of it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pelton_runtime::sink::SinkError;

use crate::error::ConnectorError;

/// Whether the transaction of a checkpoint was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// Its rows are visible.
    Committed,
    /// Its rows never will be.
    Aborted,
    /// That cannot be found out, and why.
    Unknown(String),
}

/// What a connector does with its transactions, of which there is one at a time. It is a trait because jobs know them in programs without the connector as well.
pub trait Transaction: Any + Send + Sync {
    /// See [`JobTransaction::table`].
    fn table(&self) -> &str;

    /// See [`JobTransaction::fence`].
    ///
    /// # Errors
    /// As there.
    fn fence(&self) -> Result<(), ConnectorError>;

    /// See [`JobTransaction::outcome`].
    ///
    /// # Errors
    /// As there.
    fn outcome(&self, prepared: &str) -> Result<TransactionOutcome, ConnectorError>;

    /// See [`JobTransaction::begin`].
    ///
    /// # Errors
    /// As there.
    fn begin(&self, checkpoint: u64) -> Result<(), ConnectorError>;

    /// See [`JobTransaction::prepared`].
    fn prepared(&self) -> Option<String>;

    /// See [`JobTransaction::commit`].
    ///
    /// # Errors
    /// As there.
    fn commit(&self, checkpoint: u64, is_over: &dyn Fn() -> bool) -> Result<(), SinkError>;

    /// See [`JobTransaction::reopen`].
    fn reopen(&self);
}

/// The transaction of a job, as soon as one of its sinks has it. Clones are the same one.
#[derive(Clone, Default)]
pub struct JobTransaction(Arc<Mutex<Option<Arc<dyn Transaction>>>>);

impl fmt::Debug for JobTransaction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("JobTransaction").field(&self.table()).finish()
    }
}

impl JobTransaction {
    fn slot(&self) -> MutexGuard<'_, Option<Arc<dyn Transaction>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Option<Arc<dyn Transaction>> {
        self.slot().clone()
    }

    /// That of a sink: the first one opens it, and others check that they fit.
    ///
    /// # Errors
    /// As these.
    ///
    /// # Panics
    /// Where the sinks have transactions of different connectors.
    pub fn join<T: Transaction>(
        &self,
        open: impl FnOnce() -> Result<T, ConnectorError>,
        check: impl FnOnce(&T) -> Result<(), ConnectorError>,
    ) -> Result<Arc<T>, ConnectorError> {
        let mut slot = self.slot();
        if let Some(known) = slot.clone() {
            let known: Arc<dyn Any + Send + Sync> = known;
            let known = known.downcast::<T>().expect("one connector has transactions");
            return check(&known).map(|()| known);
        }
        let transaction = Arc::new(open()?);
        *slot = Some(transaction.clone());
        Ok(transaction)
    }

    /// The first table that is written in the transaction; `None` where there is none.
    pub fn table(&self) -> Option<String> {
        self.get().map(|transaction| transaction.table().to_owned())
    }

    /// Ends what an earlier run of the job may still be writing: its transaction is committed or aborted afterwards, and no other run can commit any more.
    ///
    /// # Errors
    /// [`ConnectorError`] where the system does not answer, or refuses.
    pub fn fence(&self) -> Result<(), ConnectorError> {
        self.get().map_or(Ok(()), |transaction| transaction.fence())
    }

    /// What has become of the transaction of a checkpoint of an earlier run, behind [`JobTransaction::fence`].
    ///
    /// # Errors
    /// [`ConnectorError`] where the system does not answer.
    pub fn outcome(&self, prepared: &str) -> Result<TransactionOutcome, ConnectorError> {
        match self.get() {
            Some(transaction) => transaction.outcome(prepared),
            None => Ok(TransactionOutcome::Unknown("the job writes no table in transactions any more".to_owned())),
        }
    }

    /// Begins the transactions of a run that goes on behind a checkpoint, before its first row.
    ///
    /// # Errors
    /// [`ConnectorError`] where the system does not answer, or refuses.
    pub fn begin(&self, checkpoint: u64) -> Result<(), ConnectorError> {
        self.get().map_or(Ok(()), |transaction| transaction.begin(checkpoint))
    }

    /// What a checkpoint has to remember of the transaction that was prepared at its cut, for [`JobTransaction::outcome`]; `None` where there is nothing to commit.
    pub fn prepared(&self) -> Option<String> {
        self.get().and_then(|transaction| transaction.prepared())
    }

    /// Commits what was prepared, once the checkpoint is written. Tries again until it is over.
    ///
    /// # Errors
    /// [`SinkError`]: the transaction is aborted, or it is not known whether it was committed.
    pub fn commit(&self, checkpoint: u64, is_over: &dyn Fn() -> bool) -> Result<(), SinkError> {
        self.get().map_or(Ok(()), |transaction| transaction.commit(checkpoint, is_over))
    }

    /// Goes on with a transaction that was prepared, because its checkpoint could not be written: the next one commits it.
    pub fn reopen(&self) {
        if let Some(transaction) = self.get() {
            transaction.reopen();
        }
    }
}
