//! A sink that takes rows and forgets them: for measuring everything else.

use arrow::array::RecordBatch;
use pelton_runtime::sink::{Sink, SinkError};

/// Forgets rows. The engine counts the rows that leave through each output; nothing is left for this sink to count.
pub(crate) struct Blackhole;

impl Sink for Blackhole {
    fn write(&mut self, _rows: &RecordBatch) -> Result<(), SinkError> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}
