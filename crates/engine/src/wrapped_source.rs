//! A source to whose chunks something is done: all else is that of the source.

use std::borrow::Cow;

use pelton_data::Micros;
use pelton_runtime::source::{Position, Read, Source, SourceError};

/// A source, and what is done to what it reads; that is told how many partitions there are.
pub(crate) struct WrappedSource<F> {
    source: Box<dyn Source>,
    wrap: F,
    /// See [`Source::began_behind`], where that is not as the source says.
    began_behind: Option<BeganBehind>,
}

/// Finds out behind which event time a source began.
pub(crate) type BeganBehind = Box<dyn Fn() -> Option<Micros> + Send>;

impl<F: FnMut(Read, usize) -> Result<Read, SourceError> + Send> WrappedSource<F> {
    pub fn new(source: Box<dyn Source>, wrap: F) -> WrappedSource<F> {
        WrappedSource { source, wrap, began_behind: None }
    }

    /// The same as one that began behind the time that is found.
    pub fn beginning_behind(self, began_behind: BeganBehind) -> WrappedSource<F> {
        WrappedSource { began_behind: Some(began_behind), ..self }
    }
}

impl<F: FnMut(Read, usize) -> Result<Read, SourceError> + Send> Source for WrappedSource<F> {
    fn partitions(&self) -> usize {
        self.source.partitions()
    }

    fn may_grow(&self) -> bool {
        self.source.may_grow()
    }

    fn read(&mut self, partition: usize) -> Result<Read, SourceError> {
        let read = self.source.read(partition)?;
        (self.wrap)(read, self.source.partitions())
    }

    fn began_behind(&self) -> Option<Micros> {
        self.began_behind.as_ref().map_or_else(|| self.source.began_behind(), |began_behind| began_behind())
    }

    fn watermark(&self, partition: usize) -> Option<Micros> {
        self.source.watermark(partition)
    }

    fn partition_name(&self, partition: usize) -> Cow<'_, str> {
        self.source.partition_name(partition)
    }

    fn position(&self, partition: usize) -> Option<Position> {
        self.source.position(partition)
    }

    fn completed(&self) -> Vec<String> {
        self.source.completed()
    }

    fn commit(&mut self, positions: &[Option<Position>]) {
        self.source.commit(positions);
    }

    fn seek(&mut self, partition: usize, position: Position) {
        self.source.seek(partition, position);
    }

    fn resume(&mut self, name: &str, position: Option<Position>) -> bool {
        self.source.resume(name, position)
    }
}
