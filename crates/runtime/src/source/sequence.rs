//! The sequencer of a source: puts decoded chunks back in order and stamps their blocks with watermarks.

use std::time::Duration;

use arrow::array::Array;
use pelton_data::block::{Provenance, ticks};
use pelton_data::time::{WATERMARK_MAX, WATERMARK_MIN, slice_start};
use pelton_data::{Block, Micros, Stamp, TimeColumn};

use crate::checkpoint::{PartitionSnapshot, SourceSnapshot, StreamSnapshot};
use crate::graph::SourceTime;
use crate::operators::inputs::{Arrival, time_of};
use crate::source::{LeftOut, Ready};
use crate::state::reorder::Reorder;

/// Of a source, so much time is between two blocks that mark latency, in nanoseconds.
const MARKER_INTERVAL_NS: u64 = 50_000_000;

/// A chunk's blocks, not yet stamped.
pub(crate) struct DecodedChunk {
    pub partition: usize,
    /// Its blocks; no batches are left.
    pub ready: Ready,
    /// When its bytes were read, in nanoseconds of the engine's clock.
    pub ingested_ns: u64,
    /// The clock when they were read, for processing time.
    pub ingested_micros: Micros,
    /// How far time has come with it, where the source tells.
    pub watermark: Option<Micros>,
    pub left_out: LeftOut,
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
    not_before_ns: u64,
    /// … unless there was another event outside than when it was asked.
    asked_at: u64,
    /// Since when it has had nothing whenever it was asked.
    quiet_since_ns: Option<u64>,
    /// For so long that it does not hold time back, until it has a block.
    pub is_idle: bool,
}

/// What the sequencer of one source remembers.
pub(crate) struct Sequencer<Error> {
    time: SourceTime,
    idle_timeout_ns: Option<u64>,
    pub partitions: Vec<Partition>,
    watermark: Micros,
    pub chunks: Reorder<Result<DecodedChunk, Error>>,
    /// When the chunk was read whose last block was a marker, if there was one.
    marked_ns: Option<u64>,
    next_sequence: u64,
    rows: u64,
    leap: Option<Leap>,
}

/// A row that moved the watermark of its partition far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leap {
    /// Its event time, in microseconds.
    pub event_time: Micros,
    /// The watermark before the rows that it was read with, or, where there was none, that of the first of them,
    pub from: Micros,
    /// and behind it.
    pub to: Micros,
    /// Where the row was read from, where that is known.
    pub provenance: Option<Provenance>,
}

impl Leap {
    fn length(&self) -> Micros {
        self.to.saturating_sub(self.from)
    }
}

impl Partition {
    /// One that has delivered nothing yet, and whose rows must be in time for this watermark.
    fn at(watermark: Micros) -> Partition {
        Partition {
            watermark,
            ended: false,
            chunks_outstanding: 0,
            not_before_ns: 0,
            asked_at: 0,
            quiet_since_ns: None,
            is_idle: false,
        }
    }

    /// How far time has come: it no longer holds the others back when all of it has been sequenced.
    fn arrival(&self) -> Arrival {
        let watermark = if self.ended && self.chunks_outstanding == 0 { WATERMARK_MAX } else { self.watermark };
        Arrival { watermark, is_idle: self.is_idle }
    }
}

impl<Error> Sequencer<Error> {
    /// Partitions are idle after `idle_timeout`, where there is one.
    pub fn new(time: SourceTime, partitions: usize, idle_timeout: Option<Duration>) -> Sequencer<Error> {
        Sequencer {
            time,
            idle_timeout_ns: idle_timeout.map(|timeout| timeout.as_nanos() as u64),
            partitions: vec![Partition::at(WATERMARK_MIN); partitions],
            watermark: WATERMARK_MIN,
            chunks: Reorder::default(),
            marked_ns: None,
            next_sequence: 0,
            rows: 0,
            leap: None,
        }
    }

    /// Adds the partitions that a source has found since. They hold time back where it is, until they have rows or are idle.
    pub fn grow(&mut self, partitions: usize) {
        if partitions > self.partitions.len() {
            self.partitions.resize(partitions, Partition::at(self.watermark));
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

    /// What its blocks are numbered up to.
    pub fn stream(&self) -> StreamSnapshot {
        StreamSnapshot { blocks: self.next_sequence, rows: self.rows }
    }

    /// Goes on where it was at a cut, before anything is read: its partitions as they were then, if they were there.
    pub fn restore(&mut self, snapshot: &SourceSnapshot, partitions: &[Option<&PartitionSnapshot>]) {
        self.watermark = snapshot.watermark;
        (self.next_sequence, self.rows) = (snapshot.stream.blocks, snapshot.stream.rows);
        for (partition, known) in self.partitions.iter_mut().zip(partitions) {
            match known {
                Some(known) => {
                    (partition.watermark, partition.ended) = (known.watermark, known.has_ended);
                    partition.is_idle = known.is_idle;
                }
                // Time does not go back for what has appeared since.
                None => partition.watermark = snapshot.watermark,
            }
        }
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
        self.watermark
    }

    /// How far its event time has come, of the partition that is furthest behind; none where rows have no event time, or no partition is open.
    pub fn event_time(&self) -> Option<Micros> {
        let SourceTime::Event { .. } = self.time else { return None };
        self.partition_behind().map(|partition| self.partitions[partition].watermark)
    }

    /// Computes the watermark anew. Returns whether it has moved.
    pub fn advance(&mut self) -> bool {
        let before = self.watermark;
        self.watermark = time_of(self.partitions.iter().map(Partition::arrival), before);
        self.watermark > before
    }

    /// Whether something may still come, but nothing does for now.
    pub fn is_idle(&self) -> bool {
        !self.has_ended() && self.partitions.iter().all(|p| p.is_idle || p.ended) && self.chunks.outstanding() == 0
    }

    /// The partition whose time is furthest behind, of those that are not idle if there are any; none where all have ended.
    pub fn partition_behind(&self) -> Option<usize> {
        let arrivals = self.partitions.iter().map(Partition::arrival).enumerate();
        let open = arrivals.filter(|(_, arrival)| arrival.watermark != WATERMARK_MAX);
        let behind = open.min_by_key(|&(index, arrival)| (arrival.is_idle, arrival.watermark, index));
        behind.map(|(index, _)| index)
    }

    /// Notes that a partition had nothing when it was asked, at this count of outside events: it is asked again after `wait`, or when it
    /// would be idle. Returns whether it is idle from now on.
    ///
    /// A partition that is not asked, for want of room, is never idle: it may have rows.
    pub fn wait(&mut self, partition: usize, asked_at: u64, now_ns: u64, wait: Duration) -> bool {
        let partition = &mut self.partitions[partition];
        partition.asked_at = asked_at;
        partition.not_before_ns = now_ns + wait.as_nanos() as u64;
        // One that is idle still, but has delivered something, will not be.
        let is_idle = partition.is_idle && partition.chunks_outstanding == 0;
        let Some(timeout_ns) = self.idle_timeout_ns.filter(|_| !is_idle) else { return false };
        let idle_at_ns = partition.quiet_since_ns.get_or_insert(now_ns).saturating_add(timeout_ns);
        if now_ns < idle_at_ns {
            partition.not_before_ns = partition.not_before_ns.min(idle_at_ns);
            return false;
        }
        // What it delivered last may still be decoded; then it is asked again.
        if partition.chunks_outstanding > 0 {
            return false;
        }
        partition.is_idle = true;
        true
    }

    /// The position of a chunk that was read from a partition, for [`Sequencer::chunks`] and [`Sequencer::stamp`].
    pub fn hand_out(&mut self, partition: usize) -> u64 {
        self.partitions[partition].chunks_outstanding += 1;
        self.partitions[partition].quiet_since_ns = None;
        self.chunks.hand_out()
    }

    /// Stamps the blocks of the next chunk in order. Returns whether time has come further behind it than its blocks tell.
    pub fn stamp(&mut self, chunk: &mut DecodedChunk) -> bool {
        let partition = &mut self.partitions[chunk.partition];
        if partition.is_idle && !chunk.ready.blocks.is_empty() {
            // Others may have moved time on beyond what it had come to: that is what its rows must be in time for.
            partition.is_idle = false;
            partition.watermark = partition.watermark.max(self.watermark);
        }
        for block in &mut chunk.ready.blocks {
            let before = self.partitions[chunk.partition].watermark;
            let (event_time, reached, delay) = match self.time {
                SourceTime::None => (WATERMARK_MIN, WATERMARK_MIN, 0),
                SourceTime::Noted { column } => {
                    let known = block.time_range().map(|range| range.max);
                    (known.or_else(|| last_time(block, column)).unwrap_or(WATERMARK_MIN), WATERMARK_MIN, 0)
                }
                // Only what the source itself tells moves the watermark.
                SourceTime::Event { delay: Micros::MAX, .. } => {
                    let newest = block.time_range().map_or(WATERMARK_MIN, |range| range.max);
                    (newest, WATERMARK_MIN, Micros::MAX)
                }
                SourceTime::Event { delay, ahead_max, .. } => {
                    let newest = block.time_range().map_or(WATERMARK_MIN, |range| range.max);
                    let limit =
                        ahead_max.map_or(WATERMARK_MAX, |ahead_max| chunk.ingested_micros.saturating_add(ahead_max));
                    // None of its rows is behind any other's watermark, and none makes one.
                    match block.time_range().is_some_and(|range| range.min > limit) {
                        true => (newest, WATERMARK_MIN, Micros::MAX),
                        false => (newest, newest.saturating_sub(delay), delay),
                    }
                }
                // Rows have whole milliseconds.
                SourceTime::Processing => (WATERMARK_MIN, slice_start(chunk.ingested_micros, 1_000, 0), 0),
            };
            if reached > before && matches!(self.time, SourceTime::Event { .. }) {
                self.note_leap(block, (before, reached), delay);
            }
            let partition = &mut self.partitions[chunk.partition];
            partition.watermark = before.max(reached);
            self.advance();
            block.stamp = Stamp {
                sequence: self.next_sequence,
                rows_before: self.rows,
                watermark_before: before,
                watermark_delay: delay,
                watermark: self.watermark,
                ingested_ns: chunk.ingested_ns,
                event_time,
                is_idle: false,
                is_marker: false,
            };
            self.next_sequence += 1;
            self.rows += block.rows() as u64;
        }
        let is_due = self.marked_ns.is_none_or(|at| chunk.ingested_ns.saturating_sub(at) >= MARKER_INTERVAL_NS);
        if let Some(last) = chunk.ready.blocks.last_mut().filter(|_| is_due) {
            last.stamp.is_marker = true;
            self.marked_ns = Some(chunk.ingested_ns);
        }
        // Only now: until its last block is stamped, a partition that has ended holds time back.
        self.partitions[chunk.partition].chunks_outstanding -= 1;
        chunk.watermark.is_some_and(|watermark| self.tell(chunk.partition, watermark))
    }

    /// Notes how far the time of a partition has come. Returns whether that moves the watermark.
    fn tell(&mut self, partition: usize, watermark: Micros) -> bool {
        let partition = &mut self.partitions[partition];
        partition.watermark = partition.watermark.max(watermark);
        partition.is_idle = false;
        self.advance()
    }

    /// Notes the row of a block that moves its partition's watermark further than any before did at once. Only the block with the longest leap is looked at
    /// row by row.
    fn note_leap(&mut self, block: &Block, (before, reached): (Micros, Micros), delay: Micros) {
        let (Some(time), Some(ticks)) = (block.time_column(), block.raw_ticks()) else { return };
        let micros = |tick: i64| (tick + block.time_shift_ticks()) * time.micros_per_tick;
        // The first rows of all move it from nowhere.
        let before = if before == WATERMARK_MIN { micros(ticks[0]).saturating_sub(delay) } else { before };
        let length = reached.saturating_sub(before);
        if self.leap.as_ref().is_some_and(|leap| leap.length() >= length) || length <= 0 {
            return;
        }
        let newest = reached.saturating_add(delay);
        let Some(row) = ticks.iter().position(|&tick| micros(tick) == newest) else { return };
        let provenance = block.provenance.as_ref().map(|provenance| provenance.from_row(row));
        self.leap = Some(Leap { event_time: newest, from: before, to: reached, provenance });
    }

    /// The longest leap of a partition's watermark that one row made, or a block with it.
    pub fn leap(&self) -> Option<&Leap> {
        self.leap.as_ref()
    }

    /// A stamp for a block without rows that says how far time has come.
    pub fn punctuation(&mut self, watermark: Micros, now_ns: u64) -> Stamp {
        let is_idle = self.is_idle();
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        Stamp {
            sequence,
            rows_before: self.rows,
            watermark_before: watermark,
            watermark_delay: 0,
            watermark,
            ingested_ns: now_ns,
            event_time: WATERMARK_MIN,
            is_idle,
            is_marker: false,
        }
    }
}

/// The time of a block's last row, where it has one: nobody has looked at those of the others.
fn last_time(block: &Block, time: TimeColumn) -> Option<Micros> {
    let column = &block.raw_columns()[time.index];
    let last = column.len().checked_sub(1).filter(|&last| column.is_valid(last))?;
    ticks(column).value(last).checked_mul(time.micros_per_tick)
}

/// Cuts so many rows into parts of at most `block_rows`: the first row of each, and how many it has.
pub(crate) fn cut(rows: usize, block_rows: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).step_by(block_rows).map(move |first| (first, block_rows.min(rows - first)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};

    use super::*;

    fn chunk(partition: usize, times: &[i64]) -> DecodedChunk {
        let block = |&time: &i64| {
            let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![time]));
            let time_column = TimeColumn::new(0, times.data_type());
            let batch = RecordBatch::try_from_iter(vec![("ts", times)]).unwrap();
            Block::new(batch, time_column).unwrap()
        };
        let blocks = times.iter().map(block).collect();
        let ready = Ready { blocks, ..Ready::default() };
        DecodedChunk {
            partition,
            ready,
            ingested_ns: 0,
            ingested_micros: 0,
            watermark: None,
            left_out: LeftOut::default(),
        }
    }

    #[test]
    fn a_partition_that_is_added_holds_time_back_where_it_is() {
        let column = chunk(0, &[0]).ready.blocks[0].time_column().unwrap();
        let time = SourceTime::Event { column, delay: 0, ahead_max: None };
        let mut sequencer: Sequencer<()> = Sequencer::new(time, 1, None);
        for partition in [0, 0, 1] {
            sequencer.grow(partition + 1);
            sequencer.hand_out(partition);
        }
        let mut stamp = |partition: usize, times: &[i64]| {
            let mut chunk = chunk(partition, times);
            sequencer.stamp(&mut chunk);
            chunk.ready.blocks.last().unwrap().stamp.watermark
        };
        // The second partition was added before time had come anywhere.
        assert_eq!(stamp(0, &[10]), WATERMARK_MIN);
        assert_eq!(stamp(1, &[4]), 4);
        sequencer.grow(3);
        sequencer.hand_out(1);
        sequencer.hand_out(2);
        let mut stamp = |partition: usize, times: &[i64]| {
            let mut chunk = chunk(partition, times);
            sequencer.stamp(&mut chunk);
            chunk.ready.blocks.last().unwrap().stamp.watermark
        };
        // The third one was added when it had come to 4.
        assert_eq!(stamp(1, &[20]), 4);
        assert_eq!(stamp(2, &[15]), 10);
    }

    #[test]
    fn a_source_that_tells_how_far_time_has_come_moves_it_behind_its_rows_and_without_any() {
        let column = chunk(0, &[0]).ready.blocks[0].time_column().unwrap();
        let time = SourceTime::Event { column, delay: Micros::MAX, ahead_max: None };
        let mut sequencer: Sequencer<()> = Sequencer::new(time, 1, None);
        let mut stamp = |times: &[i64], watermark: Option<Micros>| {
            sequencer.hand_out(0);
            let mut chunk = DecodedChunk { watermark, ..chunk(0, times) };
            let has_told = sequencer.stamp(&mut chunk);
            let stamps = chunk.ready.blocks.iter().map(|block| block.stamp);
            let before = stamps.map(|stamp| (stamp.watermark_before, stamp.watermark)).collect::<Vec<_>>();
            (before, has_told, sequencer.watermark())
        };
        let none = (WATERMARK_MIN, WATERMARK_MIN);
        assert_eq!(stamp(&[10, 20], None), (vec![none, none], false, WATERMARK_MIN), "rows do not move it");
        assert_eq!(stamp(&[15], Some(30)), (vec![none], true, 30), "a row is judged by what was told before");
        assert_eq!(stamp(&[], Some(40)), (vec![], true, 40));
        assert_eq!(stamp(&[35], Some(40)), (vec![(40, 40)], false, 40));
    }

    #[test]
    fn a_partition_that_has_ended_holds_time_back_until_its_last_chunk() {
        let column = chunk(0, &[0]).ready.blocks[0].time_column().unwrap();
        let mut sequencer: Sequencer<()> =
            Sequencer::new(SourceTime::Event { column, delay: 0, ahead_max: None }, 2, None);
        let watermarks = |sequencer: &mut Sequencer<()>, partition: usize, times: &[i64]| {
            let mut chunk = chunk(partition, times);
            sequencer.stamp(&mut chunk);
            chunk.ready.blocks.iter().map(|block| block.stamp.watermark).collect::<Vec<_>>()
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

    #[test]
    fn the_last_block_of_a_chunk_marks_latency_where_none_has_for_a_while() {
        let mut sequencer: Sequencer<()> = Sequencer::new(SourceTime::None, 1, None);
        let mut marks = |ingested_ns: u64, times: &[i64]| {
            sequencer.hand_out(0);
            let mut chunk = DecodedChunk { ingested_ns, ..chunk(0, times) };
            sequencer.stamp(&mut chunk);
            chunk.ready.blocks.iter().map(|block| block.stamp.is_marker).collect::<Vec<_>>()
        };
        assert!(marks(1_000, &[]).is_empty());
        assert_eq!(marks(2_000, &[1, 2]), [false, true]);
        assert_eq!(marks(2_000 + MARKER_INTERVAL_NS - 1, &[3]), [false]);
        assert_eq!(marks(2_000 + MARKER_INTERVAL_NS, &[4]), [true]);
    }

    #[test]
    fn a_partition_is_idle_when_it_has_had_nothing_for_long_enough() {
        let column = chunk(0, &[0]).ready.blocks[0].time_column().unwrap();
        let timeout = Some(Duration::from_nanos(100));
        let mut sequencer: Sequencer<()> =
            Sequencer::new(SourceTime::Event { column, delay: 0, ahead_max: None }, 2, timeout);
        let push = |sequencer: &mut Sequencer<()>, partition: usize, times: &[i64]| {
            let position = sequencer.hand_out(partition);
            let mut chunk = chunk(partition, times);
            sequencer.stamp(&mut chunk);
            sequencer.chunks.finish(position, 1, Ok(DecodedChunk { ready: Ready::default(), ..chunk }));
            sequencer.chunks.release();
            sequencer.watermark()
        };
        let wait = Duration::from_nanos(1_000);
        assert_eq!((push(&mut sequencer, 0, &[10]), push(&mut sequencer, 1, &[30])), (WATERMARK_MIN, 10));
        assert!(!sequencer.wait(0, 0, 50, wait));
        assert_eq!(sequencer.partition_to_read(0, 149), Some(1));
        assert_eq!(sequencer.partition_to_read(0, 150), Some(0), "it is asked when it may be idle");
        assert!(!sequencer.wait(0, 0, 149, wait) && sequencer.wait(0, 0, 150, wait));
        assert!(sequencer.advance());
        assert_eq!((sequencer.watermark(), sequencer.partition_behind(), sequencer.is_idle()), (30, Some(1), false));
        // When it has rows again they are late for what others have left behind, and it holds time back.
        let mut late = chunk(0, &[20, 35]);
        sequencer.hand_out(0);
        assert!(!sequencer.wait(0, 0, 200, wait), "it has something for now");
        sequencer.stamp(&mut late);
        let stamps: Vec<_> = late.ready.blocks.iter().map(|b| (b.stamp.watermark_before, b.stamp.watermark)).collect();
        assert_eq!(stamps, [(30, 30), (30, 30)]);
        assert_eq!(push(&mut sequencer, 1, &[60]), 35);
        assert_eq!(sequencer.partition_to_read(0, 299), Some(1), "it is as if it had been asked behind that");
        assert_eq!(sequencer.partition_to_read(0, 300), Some(0));
    }
}
