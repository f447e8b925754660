//! An input with positions: partitions of rows that are known from the seed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pelton::Session;
use pelton::simulation::{ConnectorError, Host, ProvidedTable};
use pelton_runtime::sink::Sink;
use pelton_runtime::source::{Decoded, Position, Read, Source, SourceError};

use super::super::Dice;
use super::super::feed::{self, Row};
use super::super::kinds::Kind;

/// Rows of a chunk at most.
const CHUNK_ROWS_MAX: usize = 12;

/// Rows that are not there yet come after so long.
const WAIT: Duration = Duration::from_micros(700);

/// An input.
pub(super) struct Input {
    /// The columns of its table.
    pub columns: String,
    schema: SchemaRef,
    partitions: Arc<Vec<Vec<Row>>>,
    /// For the chunks of sources.
    dice: Mutex<Dice>,
    /// How far each partition was told to have been read for good.
    committed: Arc<Mutex<Vec<u64>>>,
}

impl Input {
    pub fn new(kind: Kind, dice: &mut Dice) -> Input {
        let lag_ms = dice.pick(&[0, feed::LAG_MS]);
        let count = if kind.needs_one_partition() { 1 } else { 1 + dice.below(3) };
        let mut partitions: Vec<Vec<Row>> = (0..count).map(|_| feed::rows(kind, lag_ms, dice)).collect();
        for (number, row) in partitions.iter_mut().flatten().enumerate() {
            // Nothing else fails than what this is about.
            (row.i, row.d) = (number as i64, row.d.max(1));
        }
        let columns = feed::columns(lag_ms);
        Input {
            schema: Session::columns(&columns).expect("they are right"),
            columns,
            committed: Arc::new(Mutex::new(vec![0; count])),
            partitions: Arc::new(partitions),
            dice: Mutex::new(Dice(dice.below(1 << 30) as u64)),
        }
    }

    /// All rows, partition by partition.
    pub fn rows(&self) -> Vec<Row> {
        self.partitions.iter().flatten().copied().collect()
    }
}

impl ProvidedTable for Input {
    fn source(&self, columns: &[usize], _: Host) -> Result<Box<dyn Source>, ConnectorError> {
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Box::new(InputSource {
            schema: self.schema.clone(),
            columns: columns.to_vec(),
            partitions: self.partitions.clone(),
            read: vec![0; self.partitions.len()],
            dice: Dice(dice.below(1 << 30) as u64),
            committed: self.committed.clone(),
        }))
    }

    fn sink(&self, _: Host) -> Result<Box<dyn Sink>, ConnectorError> {
        unreachable!("it is read")
    }
}

struct InputSource {
    schema: SchemaRef,
    columns: Vec<usize>,
    partitions: Arc<Vec<Vec<Row>>>,
    read: Vec<usize>,
    dice: Dice,
    committed: Arc<Mutex<Vec<u64>>>,
}

impl Source for InputSource {
    fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Rows come in other chunks each time.
    fn read(&mut self, partition: usize) -> Result<Read, SourceError> {
        let (rows, begin) = (&self.partitions[partition], self.read[partition]);
        if self.dice.one_in(6) {
            return Ok(Read::Wait(WAIT));
        }
        if begin == rows.len() {
            return Ok(Read::End);
        }
        let end = rows.len().min(begin + 1 + self.dice.below(CHUNK_ROWS_MAX));
        self.read[partition] = end;
        let batch: RecordBatch = feed::batch(&self.schema, &rows[begin..end]);
        let batch = batch.project(&self.columns).expect("it has these columns");
        Ok(Read::Chunk(Box::new(move || Ok(Decoded::batch(batch)))))
    }

    fn position(&self, partition: usize) -> Option<Position> {
        Some(Position::of_row(self.read[partition] as u64))
    }

    fn seek(&mut self, partition: usize, position: Position) {
        let committed = self.committed.lock().unwrap_or_else(PoisonError::into_inner)[partition];
        assert!(position.row >= committed, "rows are asked for again that it was told to forget");
        self.read[partition] = position.row as usize;
    }

    fn commit(&mut self, positions: &[Option<Position>]) {
        let mut committed = self.committed.lock().unwrap_or_else(PoisonError::into_inner);
        for (committed, position) in committed.iter_mut().zip(positions) {
            *committed = position.expect("it has positions").row.max(*committed);
        }
    }
}
