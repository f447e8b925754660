//! What stands between an output's rows and its sink: an order, and how many of the rows are wanted.

mod sorter;

use std::time::Duration;

use arrow::array::RecordBatch;
use pelton_data::Micros;
use pelton_data::arrangement::Arrangement;

use crate::checkpoint::SinkSnapshot;
use crate::output::sink::{Sink, SinkError};
use sorter::{Merged, Sorter};

/// A sink behind its arrangement.
pub(crate) struct Outlet {
    sink: Box<dyn Sink>,
    /// Rows that wait for their order,
    sorter: Option<Sorter>,
    /// and that leave in it.
    sorted: Option<Merged>,
    offset: usize,
    rows_left: Option<usize>,
}

impl Outlet {
    pub fn new(sink: Box<dyn Sink>, arrangement: Arrangement) -> Outlet {
        let Arrangement { order, offset, rows_max } = arrangement;
        let wanted = rows_max.map(|rows_max| rows_max.saturating_add(offset));
        let sorter = order.map(|order| Sorter::new(order, wanted));
        Outlet { sink, sorter, sorted: None, offset, rows_left: rows_max }
    }

    /// Whether the sink takes rows now.
    pub fn is_ready(&self) -> bool {
        self.sink.is_ready()
    }

    /// Whether the sink can be ended now.
    pub fn is_settled(&self) -> bool {
        self.sink.is_settled()
    }

    /// Whether no further row changes what is written.
    pub fn is_satisfied(&self) -> bool {
        self.rows_left == Some(0)
    }

    /// What the rows take that wait for their order, where there is one.
    pub fn bytes_sorted(&self) -> Option<usize> {
        self.sorter.as_ref().map(Sorter::bytes)
    }

    /// Whether rows wait in it for their order.
    pub fn is_sorting(&self) -> bool {
        self.bytes_sorted().is_some_and(|bytes| bytes > 0)
    }

    /// Has another sink take the rows from now on, and returns the one that did before.
    pub fn replace_sink(&mut self, sink: Box<dyn Sink>) -> Box<dyn Sink> {
        std::mem::replace(&mut self.sink, sink)
    }

    /// The sink, of an output that has ended for itself.
    pub fn into_sink(self) -> Box<dyn Sink> {
        self.sink
    }

    /// Takes rows. Returns how many went on to the sink.
    pub fn write(&mut self, rows: RecordBatch) -> Result<usize, SinkError> {
        match &mut self.sorter {
            Some(sorter) => sorter.take(&rows).map(|()| 0),
            None => self.pass_on(rows),
        }
    }

    /// See [`Sink::flush`].
    pub fn flush(&mut self) -> Result<(), SinkError> {
        self.sink.flush()
    }

    /// See [`Sink::flush_again`].
    pub fn flush_again(&self) -> Option<Duration> {
        self.sink.flush_again()
    }

    /// See [`Sink::advance`].
    pub fn advance(&mut self, watermark: Micros) {
        self.sink.advance(watermark);
    }

    /// See [`Sink::unprepared`].
    pub fn unprepared(&self) -> Option<String> {
        self.sink.unprepared()
    }

    /// What it is at a cut, when all rows before that have been written.
    pub fn snapshot(&mut self, name: String, is_last: bool) -> Result<SinkSnapshot, SinkError> {
        let prepared = if is_last { self.sink.prepare_end()? } else { self.sink.prepare()? };
        Ok(SinkSnapshot { name, rows: 0, offset: self.offset, rows_left: self.rows_left, prepared })
    }

    /// See [`Sink::commit`].
    pub fn commit(&mut self, prepared: &str) -> Result<(), SinkError> {
        self.sink.commit(prepared)
    }

    /// Goes on from a cut, as far as sinks do not share anything.
    pub fn restore(&mut self, snapshot: &SinkSnapshot) -> Result<(), SinkError> {
        (self.offset, self.rows_left) = (snapshot.offset, snapshot.rows_left);
        snapshot.prepared.as_ref().map_or(Ok(()), |prepared| self.sink.commit(prepared))
    }

    /// See [`Sink::recover`].
    pub fn recover(&mut self) -> Result<(), SinkError> {
        self.sink.recover()
    }

    /// Passes the next of the rows that were put in order on to the sink, which must be ready. Returns how many; `None` when there are no more.
    pub fn pass_sorted(&mut self) -> Result<Option<usize>, SinkError> {
        if let Some(sorter) = self.sorter.take() {
            self.sorted = sorter.finish();
        }
        let part = self.sorted.as_mut().filter(|_| self.rows_left != Some(0)).map(Merged::next);
        match part.transpose()?.flatten() {
            Some(rows) => self.pass_on(rows).map(Some),
            None => {
                self.sorted = None;
                Ok(None)
            }
        }
    }

    /// Ends the output, when all that was put in order has been passed on.
    pub fn finish(&mut self) -> Result<(), SinkError> {
        self.sink.finish()
    }

    fn pass_on(&mut self, rows: RecordBatch) -> Result<usize, SinkError> {
        let skipped = self.offset.min(rows.num_rows());
        self.offset -= skipped;
        let rest = rows.num_rows() - skipped;
        let count = self.rows_left.map_or(rest, |left| left.min(rest));
        self.rows_left = self.rows_left.map(|left| left - count);
        if count == rows.num_rows() && count > 0 {
            self.sink.take(rows)?;
        } else if count > 0 {
            self.sink.take(rows.slice(skipped, count))?;
        }
        Ok(count)
    }
}
