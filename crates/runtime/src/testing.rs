//! Ends of graphs whose workers a test moves: a source that the test feeds, and a sink that it reads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;

use crate::output::sink::{Sink, SinkError};
use crate::source::{Read, Ready, Source, SourceError};
use crate::sync::Mutex;

/// What has come for each partition of a source, and whether nothing more will.
pub(crate) type Fed = Arc<Mutex<(Vec<VecDeque<RecordBatch>>, bool)>>;

/// Nothing has come yet for so many partitions.
pub(crate) fn fed(partitions: usize) -> Fed {
    Arc::new(Mutex::new((vec![VecDeque::new(); partitions], false)))
}

pub(crate) struct FedSource(pub Fed);

impl Source for FedSource {
    fn partitions(&self) -> usize {
        self.0.lock().unwrap().0.len()
    }

    fn read(&mut self, _: usize) -> Result<Read, SourceError> {
        unreachable!("rows are there that need no decoding")
    }

    fn read_ready(&mut self, partition: usize, ready: &mut Ready) -> Result<Option<Read>, SourceError> {
        let mut fed = self.0.lock().unwrap();
        ready.batches.extend(fed.0[partition].pop_front());
        let read = if fed.1 { Read::End } else { Read::Wait(Duration::from_micros(10)) };
        Ok(ready.batches.is_empty().then_some(read))
    }
}

/// Rows that have been written, as `read` reads each batch.
pub(crate) struct Written<Row> {
    pub rows: Arc<Mutex<Vec<Row>>>,
    pub read: fn(&RecordBatch) -> Vec<Row>,
}

impl<Row: Send> Sink for Written<Row> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), SinkError> {
        self.rows.lock().unwrap().extend((self.read)(batch));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}
