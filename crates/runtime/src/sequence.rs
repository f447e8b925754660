//! The sequencer of a source: puts decoded chunks back in order and stamps their blocks with watermarks.

use arrow::array::RecordBatch;
use pelton_data::time::{WATERMARK_MAX, WATERMARK_MIN, slice_start};
use pelton_data::{Block, Micros, Stamp};

use crate::graph::SourceTime;
use crate::order::Reorder;
use crate::source::RejectedRow;

/// A chunk's blocks, not yet stamped.
pub(crate) struct DecodedChunk {
    pub partition: usize,
    pub blocks: Vec<Block>,
    /// When its bytes were read, in nanoseconds of the engine's clock.
    pub ingested_ns: u64,
    /// The clock when they were read, for processing time.
    pub ingested_micros: Micros,
    pub rejected: Vec<RejectedRow>,
    pub rejected_count: u64,
}

/// One partition of a source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Partition {
    pub watermark: Micros,
    /// Nothing more can be read.
    pub ended: bool,
    /// Chunks that were read and are not sequenced yet.
    chunks_outstanding: u64,
    /// Not to be read before this instant of the engine's clock.
    pub not_before_ns: u64,
    /// … unless there was another event outside than when it was asked.
    pub asked_at: u64,
}

/// What the sequencer of one source remembers.
pub(crate) struct Sequencer<Error> {
    time: SourceTime,
    pub partitions: Vec<Partition>,
    pub chunks: Reorder<Result<DecodedChunk, Error>>,
    next_sequence: u64,
    rows: u64,
}

impl Partition {
    /// How far time has come: it no longer holds the others back when all of it has been sequenced.
    fn held_time(&self) -> Micros {
        if self.ended && self.chunks_outstanding == 0 { WATERMARK_MAX } else { self.watermark }
    }
}

impl<Error> Sequencer<Error> {
    pub fn new(time: SourceTime, partitions: usize) -> Sequencer<Error> {
        let partition =
            Partition { watermark: WATERMARK_MIN, ended: false, chunks_outstanding: 0, not_before_ns: 0, asked_at: 0 };
        Sequencer {
            time,
            partitions: vec![partition; partitions],
            chunks: Reorder::default(),
            next_sequence: 0,
            rows: 0,
        }
    }

    /// The partition to read next: of those that may be read now, the one whose watermark is furthest behind.
    ///
    /// So several files are read in the order of their event times, and windows close as early as they can.
    pub fn partition_to_read(&self, outside: u64, now_ns: u64) -> Option<usize> {
        let readable = self
            .partitions
            .iter()
            .enumerate()
            .filter(|(_, p)| !p.ended && (p.not_before_ns <= now_ns || p.asked_at != outside));
        readable.min_by_key(|(index, p)| (p.watermark, *index)).map(|(index, _)| index)
    }

    /// When the first partition that waits may be read again.
    pub fn wait_until_ns(&self) -> Option<u64> {
        self.partitions.iter().filter(|p| !p.ended).map(|p| p.not_before_ns).min()
    }

    /// Whether every partition has ended and every chunk has been sequenced.
    pub fn has_ended(&self) -> bool {
        self.partitions.iter().all(|p| p.ended) && self.chunks.outstanding() == 0
    }

    /// The watermark over all partitions.
    pub fn watermark(&self) -> Micros {
        self.partitions.iter().map(Partition::held_time).min().unwrap_or(WATERMARK_MAX)
    }

    /// The partition whose time is furthest behind; none where all have ended.
    pub fn partition_behind(&self) -> Option<usize> {
        let held = self.partitions.iter().map(Partition::held_time).enumerate();
        let behind = held.filter(|(_, time)| *time != WATERMARK_MAX).min_by_key(|&(index, time)| (time, index));
        behind.map(|(index, _)| index)
    }

    /// The position of a chunk that was read from a partition, for [`Sequencer::chunks`] and [`Sequencer::stamp`].
    pub fn hand_out(&mut self, partition: usize) -> u64 {
        self.partitions[partition].chunks_outstanding += 1;
        self.chunks.hand_out()
    }

    /// Stamps the blocks of the next chunk in order.
    pub fn stamp(&mut self, chunk: &mut DecodedChunk) {
        for block in &mut chunk.blocks {
            let before = self.partitions[chunk.partition].watermark;
            let (reached, delay) = match self.time {
                SourceTime::None => (WATERMARK_MIN, 0),
                SourceTime::Event { delay, .. } => {
                    (block.time_range().map_or(WATERMARK_MIN, |range| range.max.saturating_sub(delay)), delay)
                }
                // Rows have whole milliseconds.
                SourceTime::Processing => (slice_start(chunk.ingested_micros, 1_000, 0), 0),
            };
            let partition = &mut self.partitions[chunk.partition];
            partition.watermark = before.max(reached);
            let watermark = self.watermark();
            block.stamp = Stamp {
                sequence: self.next_sequence,
                rows_before: self.rows,
                watermark_before: before,
                watermark_delay: delay,
                watermark,
                ingested_ns: chunk.ingested_ns,
            };
            self.next_sequence += 1;
            self.rows += block.rows() as u64;
        }
        // Only now: until its last block is stamped, a partition that has ended holds time back.
        self.partitions[chunk.partition].chunks_outstanding -= 1;
    }

    /// A stamp for a block without rows that says how far time has come.
    pub fn punctuation(&mut self, watermark: Micros, now_ns: u64) -> Stamp {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        Stamp {
            sequence,
            rows_before: self.rows,
            watermark_before: watermark,
            watermark_delay: 0,
            watermark,
            ingested_ns: now_ns,
        }
    }
}

/// Cuts a decoded batch into blocks of at most `block_rows` rows. Columns are shared, not copied.
pub(crate) fn cut(batch: RecordBatch, block_rows: usize) -> impl Iterator<Item = RecordBatch> {
    let starts = (0..batch.num_rows()).step_by(block_rows);
    starts.map(move |start| batch.slice(start, block_rows.min(batch.num_rows() - start)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, TimestampMicrosecondArray};
    use pelton_data::TimeColumn;

    use super::*;

    fn chunk(partition: usize, times: &[i64]) -> DecodedChunk {
        let block = |&time: &i64| {
            let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![time]));
            let time_column = TimeColumn::new(0, times.data_type());
            let batch = RecordBatch::try_from_iter(vec![("ts", times)]).unwrap();
            Block::new(batch, time_column).unwrap()
        };
        let blocks = times.iter().map(block).collect();
        DecodedChunk { partition, blocks, ingested_ns: 0, ingested_micros: 0, rejected: Vec::new(), rejected_count: 0 }
    }

    #[test]
    fn a_partition_that_has_ended_holds_time_back_until_its_last_chunk() {
        let column = chunk(0, &[0]).blocks[0].time_column().unwrap();
        let mut sequencer: Sequencer<()> = Sequencer::new(SourceTime::Event { column, delay: 0 }, 2);
        let watermarks = |sequencer: &mut Sequencer<()>, partition: usize, times: &[i64]| {
            let mut chunk = chunk(partition, times);
            sequencer.stamp(&mut chunk);
            chunk.blocks.iter().map(|block| block.stamp.watermark).collect::<Vec<_>>()
        };
        for partition in [0, 1, 0, 1, 1] {
            sequencer.hand_out(partition);
        }
        assert_eq!(watermarks(&mut sequencer, 0, &[10]), [WATERMARK_MIN]);
        sequencer.partitions[0].ended = true;
        assert_eq!(watermarks(&mut sequencer, 1, &[30, 40]), [10, 10]);
        assert_eq!(watermarks(&mut sequencer, 0, &[20, 25]), [20, 25]);
        assert_eq!(watermarks(&mut sequencer, 1, &[50]), [50]);
        assert_eq!(watermarks(&mut sequencer, 1, &[60, 55]), [60, 60]);
    }
}
