//! What a source connector implements.
//!
//! Reading is split in two, so that decoding runs on all workers: [`Source::read`] is called by one worker at a time
//! and only takes bytes (or numbers of events to generate) off the input; the [`Chunk`] it returns is decoded by
//! whichever worker is free, beside its neighbours. The sequencer puts decoded chunks back into order.

pub(crate) mod sequence;

use std::borrow::Cow;
use std::time::Duration;

use arrow::array::RecordBatch;
use pelton_data::{Block, Micros, Provenance};
use serde::{Deserialize, Serialize};

/// One input of a query.
pub trait Source: Send {
    /// Partitions of the input, each with an order of its own: files of a directory, for example. At least 1. Constant, unless [`Source::may_grow`]: then it is asked
    /// again after each read, and never falls.
    fn partitions(&self) -> usize;

    /// Whether partitions may be added while the source is read.
    fn may_grow(&self) -> bool {
        false
    }

    /// Takes the next chunk of a partition. Never called again for a partition that has ended.
    ///
    /// # Errors
    /// [`SourceError`] where the input cannot be read. The query stops.
    fn read(&mut self, partition: usize) -> Result<Read, SourceError>;

    /// As [`Source::read`], where rows may be there that need no decoding: they go into `ready`, which is empty, and `None` is returned.
    ///
    /// # Errors
    /// As [`Source::read`].
    fn read_ready(&mut self, partition: usize, _ready: &mut Ready) -> Result<Option<Read>, SourceError> {
        self.read(partition).map(Some)
    }

    /// The largest event time of rows that were read for others before this one began, where it began within a stream: windows that had begun by then lack rows.
    /// Known when it has been read from once.
    fn began_behind(&self) -> Option<Micros> {
        None
    }

    /// The largest event time of all rows of a partition before its position, where the position tells: it need not be read from the rows then. The least time before the
    /// first row.
    fn times_before(&self, _partition: usize) -> Option<Micros> {
        None
    }

    /// The watermark of a partition behind what was read last, which was of it, where the source itself tells: then no later row is behind it.
    fn watermark(&self, _partition: usize) -> Option<Micros> {
        None
    }

    /// What a partition is called, here and in a later run: the path of a file, for example.
    fn partition_name(&self, partition: usize) -> Cow<'_, str> {
        Cow::Owned(partition.to_string())
    }

    /// How far a partition has been read; `None` where the source cannot be put there again.
    fn position(&self, _partition: usize) -> Option<Position> {
        None
    }

    /// The names of what was read to its end and is no partition any more: a later run leaves it out, see [`Source::resume`].
    fn completed(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether a later process can read on from its positions. Those of others mean something to sources of the same process that are open at the same time.
    fn has_lasting_positions(&self) -> bool {
        true
    }

    /// Learns that a checkpoint is complete in which each partition was at a position: others may be told how far the input has been read.
    fn commit(&mut self, _positions: &[Option<Position>]) {}

    /// Goes on at a position of a partition of the same input, from which another source may come that reads other columns of it. Called before anything is read, and only
    /// where [`Source::position`] has one.
    fn seek(&mut self, _partition: usize, _position: Position) {
        unreachable!("a source without positions is not put anywhere");
    }

    /// Goes on with a partition of an earlier run of the same input: at a position, or behind its end where there is none. Called before anything is read. Says whether
    /// the partition is there; a source that does not know yet says so, and fails when it does.
    fn resume(&mut self, name: &str, position: Option<Position>) -> bool {
        let found = (0..self.partitions()).find(|&partition| self.partition_name(partition) == name);
        match (found, position) {
            (Some(partition), Some(position)) => {
                self.seek(partition, position);
                true
            }
            (found, position) => found.is_some() || position.is_none(),
        }
    }
}

/// As [`Source::read`], of a source that has rows which need no decoding.
///
/// # Errors
/// As [`Source::read`].
pub fn read_as_chunk(source: &mut impl Source, partition: usize) -> Result<Read, SourceError> {
    let mut ready = Ready::default();
    let read = source.read_ready(partition, &mut ready)?;
    Ok(read.unwrap_or_else(|| Read::Chunk(ready.into_chunk())))
}

/// How far a partition has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    /// The number of the next row, from 0; of lines of text, of the next line, from 1; in a log, its offset.
    pub row: u64,
    /// Of a file, the number of bytes before it, of what is compressed behind decompression. Otherwise 0.
    pub byte: u64,
    /// Of a log whose end was found when reading began, the row before which it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
}

impl Position {
    /// In front of a row that is found by its number.
    pub fn of_row(row: u64) -> Position {
        Position { row, ..Position::default() }
    }
}

/// Rows that need no decoding, and of which none was left out: batches, or blocks as in [`Rows::Blocks`].
#[derive(Debug, Default)]
pub struct Ready {
    /// In order. The runtime cuts them into blocks.
    pub batches: Vec<RecordBatch>,
    /// In order, where there are no batches.
    pub blocks: Vec<Block>,
    /// Where nothing more is there now: when to ask again, unless the source's waker is called before. As good as a [`Read::Wait`] behind the rows.
    pub wait: Option<Duration>,
}

impl Ready {
    /// The same rows as a chunk, for who has asked for one.
    pub fn into_chunk(self) -> Chunk {
        let rows = if self.batches.is_empty() { Rows::Blocks(self.blocks) } else { Rows::Batches(self.batches) };
        Box::new(|| Ok(Decoded { rows, left_out: LeftOut::default(), provenance: None }))
    }
}

/// What [`Source::read`] found.
pub enum Read {
    /// Rows to decode, at most a few blocks' worth.
    Chunk(Chunk),
    /// Nothing now; ask again after this long, or earlier when the source's waker is called.
    Wait(Duration),
    /// The partition has ended.
    End,
}

/// Undecoded rows: a closure that decodes them on any worker.
pub type Chunk = Box<dyn FnOnce() -> Result<Decoded, SourceError> + Send>;

/// Decoded rows of a chunk, in order.
#[derive(Debug)]
pub struct Decoded {
    /// The rows, with exactly the columns the source was asked for, in that order.
    pub rows: Rows,
    /// What of the input is not among them.
    pub left_out: LeftOut,
    /// Where they are in the input, where they lie one behind the other there.
    pub provenance: Option<Provenance>,
}

impl Decoded {
    /// Rows of which none is left out.
    pub fn batch(batch: RecordBatch) -> Decoded {
        Decoded { rows: Rows::Batches(vec![batch]), left_out: LeftOut::default(), provenance: None }
    }
}

/// What of an input is not among its rows, and is counted instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Rows that could not be decoded and were skipped, as `'on-error' = 'skip'` asks.
    pub rejected: Undecoded,
    /// Values that could not be decoded, and are NULL in rows that are there, as `'csv.ignore-parse-errors' = 'true'` asks.
    pub nulled: Undecoded,
    /// Rows that were not read in time, and dropped, as `'on-overload' = 'drop'` asks.
    pub dropped_count: u64,
    /// Rows that are added up in others: these stand for all.
    pub merged_count: u64,
    /// Columns that no row has.
    pub absent: Absent,
}

/// Columns of a table that are in none of the rows of an input, and are NULL in all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Absent {
    /// Rows that were looked at.
    pub rows: u64,
    /// The columns.
    pub columns: Vec<AbsentColumn>,
    /// Files or other origins of the rows: the first, and whether there are others.
    pub place: String,
    /// Whether rows of other places were looked at too.
    pub has_other_places: bool,
}

/// A column that is in none of the rows of an input, or a field of a ROW that is in none of its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbsentColumn {
    /// Its name; of a field of a ROW, how it is reached: `order.items[…].price`.
    pub name: String,
    /// Whether it is a field of a ROW.
    pub is_field: bool,
    /// Rows that were looked at, or values of the ROW: none where these were all NULL.
    pub rows: u64,
    /// What the rows have instead: "did you mean 'price'?". Empty where that is not known.
    pub hint: String,
}

impl Absent {
    /// Adds rows: only columns that are in none of all rows remain.
    fn add(&mut self, later: Absent) {
        if self.rows == 0 {
            *self = later;
        } else if later.rows > 0 {
            self.columns.retain_mut(|column| {
                let Some(other) = later.columns.iter().find(|other| other.name == column.name) else { return false };
                if column.rows == 0 {
                    column.hint.clone_from(&other.hint);
                }
                column.rows += other.rows;
                true
            });
            self.rows += later.rows;
            self.has_other_places |= later.has_other_places || later.place != self.place;
        }
    }
}

impl LeftOut {
    /// Nothing yet, of rows of which all that are rejected are kept, if `keeps_all`.
    pub fn of_rows(keeps_all: bool) -> LeftOut {
        LeftOut { rejected: Undecoded { keeps_all, ..Undecoded::default() }, ..LeftOut::default() }
    }

    /// Whether nothing was left out.
    pub fn is_empty(&self) -> bool {
        self.rejected.count == 0 && self.nulled.count == 0 && self.dropped_count == 0
    }

    /// Adds what was left out behind this.
    pub fn add(&mut self, later: LeftOut) {
        self.rejected.add(later.rejected);
        self.nulled.add(later.nulled);
        self.dropped_count += later.dropped_count;
        self.merged_count += later.merged_count;
        self.absent.add(later.absent);
    }
}

/// Rows, or values, that could not be decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Undecoded {
    /// How many.
    pub count: u64,
    /// The first of them with their rows, at most [`Undecoded::KEPT_MAX`], or all.
    pub first: Vec<RejectedRow>,
    /// Whether all are kept, for who takes them out again.
    pub keeps_all: bool,
}

impl Undecoded {
    /// How many are kept for people to look at.
    pub const KEPT_MAX: usize = 100;

    /// Counts one more.
    pub fn push(&mut self, row: impl FnOnce() -> RejectedRow) {
        self.count += 1;
        if self.keeps_all || self.first.len() < Undecoded::KEPT_MAX {
            self.first.push(row());
        }
    }

    fn add(&mut self, later: Undecoded) {
        self.count += later.count;
        let kept_max = if self.keeps_all { usize::MAX } else { Undecoded::KEPT_MAX };
        let room = kept_max.saturating_sub(self.first.len());
        self.first.extend(later.first.into_iter().take(room));
    }
}

/// The form in which a source has its rows.
#[derive(Debug)]
pub enum Rows {
    /// Any number of rows, in order; the runtime cuts them into blocks.
    Batches(Vec<RecordBatch>),
    /// Blocks kept from an earlier pass over the same input, shifted in time ([`Block::shifted`]), in order: nothing is
    /// left to compute. None may have more rows than the engine's blocks.
    Blocks(Vec<Block>),
}

impl Rows {
    /// The rows as batches, in order.
    pub fn into_batches(self) -> Vec<RecordBatch> {
        match self {
            Rows::Batches(batches) => batches,
            Rows::Blocks(blocks) => blocks.iter().map(Block::to_record_batch).collect(),
        }
    }
}

/// An input row that could not be decoded, or a value of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedRow {
    /// Which input and row, the column and its value, and what would be right.
    pub error: SourceError,
    /// The row as it came, cut at a kilobyte.
    pub row: String,
}

/// Why a source stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// A row does not fit the table. The user's error.
    #[error("{place}, row {row}, column '{column}': '{value}' {problem}")]
    Row {
        /// File or other origin.
        place: String,
        /// Row of the origin, from 1, headers and comments counted: what an editor shows.
        row: u64,
        /// Column of the table.
        column: String,
        /// The value, cut at 100 characters.
        value: String,
        /// What is wrong with it and what would be right: "is not a BIGINT".
        problem: String,
    },
    /// A message does not fit the table. The user's error.
    #[error("{place}, offset {offset}, column '{column}': '{value}' {problem}")]
    Message {
        /// Topic and partition.
        place: String,
        /// Of the message in the partition.
        offset: i64,
        /// Column of the table.
        column: String,
        /// The value, cut at 100 characters.
        value: String,
        /// What is wrong with it and what would be right.
        problem: String,
    },
    /// The input cannot be read. The environment's error.
    #[error("{place}: {problem}")]
    Input {
        /// File or other origin.
        place: String,
        /// What happened.
        problem: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent(rows: u64, place: &str, columns: &[&str]) -> Absent {
        let column = |name: &&str| AbsentColumn { name: name.to_string(), is_field: false, rows, hint: String::new() };
        Absent { rows, columns: columns.iter().map(column).collect(), place: place.to_owned(), has_other_places: false }
    }

    #[test]
    fn a_column_is_absent_where_no_row_has_it() {
        let mut all = Absent::default();
        all.add(absent(0, "none", &[]));
        all.add(absent(3, "a", &["x", "y", "z"]));
        all.add(absent(2, "a", &["z", "x"]));
        assert_eq!(all, absent(5, "a", &["x", "z"]));
        all.add(absent(0, "c", &[]));
        all.add(absent(1, "b", &["z"]));
        assert_eq!(all, Absent { has_other_places: true, ..absent(6, "a", &["z"]) });
    }
}
