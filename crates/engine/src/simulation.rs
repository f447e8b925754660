//! What a simulation puts in the place of the world outside, for the project's own tests: the disk, and the systems that tables are in.

use pelton_runtime::sink::Sink;
use pelton_runtime::source::Source;

pub use pelton_connectors::{ConnectorError, Disk, DiskFile, Host, JobTransaction, Transaction, TransactionOutcome};

/// A table of a system outside that the program itself has made: [`crate::Session::provide_table`].
pub trait ProvidedTable: Send + Sync {
    /// Opens it for reading these of its columns, which are in ascending order.
    ///
    /// # Errors
    /// Where it cannot be opened.
    fn source(&self, columns: &[usize], host: Host) -> Result<Box<dyn Source>, ConnectorError>;

    /// Opens it for writing.
    ///
    /// # Errors
    /// Where it cannot be opened.
    fn sink(&self, host: Host) -> Result<Box<dyn Sink>, ConnectorError>;
}
