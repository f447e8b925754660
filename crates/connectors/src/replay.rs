//! Any bounded source again and again, from memory: so that measurements are of the engine and not of decoding.
//!
//! The input is decoded once, when the table is opened, into blocks of exactly the engine's size (the last one may be
//! shorter). Each pass hands out the same blocks, later in event time: no row is copied. Several partitions (files) are first
//! merged by event time.
//!
//! [`crate::options::table`] lists the options.
//!
//! A pass begins one tick of the event-time column after the end of the one before: the shift is the largest event time
//! less the smallest, plus one tick. For times 1 to n that is n, as in LightSaber's harness. A larger shift leaves a gap; a
//! smaller one would make rows late and is refused.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use arrow::array::{Int64Array, RecordBatch};
use arrow::compute::{BatchCoalescer, interleave_record_batch};
use pelton_data::batch_buffer::BatchBuffer;
use pelton_data::block::ticks;
use pelton_data::{Block, Micros, TimeColumn};
use pelton_runtime::budget::Held;
use pelton_runtime::source::{Decoded, LeftOut, Read, Ready, Rows, Source, SourceError, read_as_chunk};

use crate::generated::{Pace, positive};
use crate::options::{Options, parse_memory_size};
use crate::pace::{Overload, Pacer, Release};
use crate::{ConnectorError, TableRequest};

/// Options that only a replay has.
const OPTIONS: [&str; 6] =
    ["replay", "replay.passes", "replay.duration", "replay.shift", "replay.memory-max", "replay.chunk-blocks"];

/// Blocks handed out at once where so many are due, unless it is said how many. They are there already, so that none waits for another, and what handing out costs is
/// shared. More where they are taken so fast that the next are asked for sooner than in such an interval, and fewer where later.
const BLOCKS_PER_CHUNK: RangeInclusive<usize> = 8..=64;
const CHUNK_INTERVAL: RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_micros(400);

/// What is asked of a replay.
#[derive(Debug, Clone)]
pub(crate) struct Replay {
    passes: Option<u64>,
    duration: Option<Duration>,
    shift: Option<Duration>,
    memory_bytes_max: u64,
    chunk_blocks: Option<usize>,
    rows_per_second: Option<u64>,
    overload: Overload,
}

impl Replay {
    /// The replay that the options ask for, if any. `generated` input has a pace of its own.
    ///
    /// # Errors
    /// Where the options make no sense.
    pub(crate) fn of(options: &Options, generated: bool) -> Result<Option<Replay>, ConnectorError> {
        if options.choice("replay", &[("memory", ())])?.is_none() {
            return match OPTIONS.into_iter().find(|&name| options.text(name).is_some()) {
                Some(name) => Err(ConnectorError::option(name, "needs 'replay' = 'memory'")),
                None => Ok(None),
            };
        }
        let paced = !generated || Pace::of(options, Pace::FlatOut)? == Pace::RealTime;
        let rows_per_second = positive(options, "rows-per-second")?.filter(|_| paced);
        Ok(Some(Replay {
            passes: positive(options, "replay.passes")?,
            duration: options.duration("replay.duration")?,
            shift: options.duration("replay.shift")?,
            memory_bytes_max: options.or_default(
                "replay.memory-max",
                options.memory_size("replay.memory-max")?,
                parse_memory_size,
            ),
            chunk_blocks: positive(options, "replay.chunk-blocks")?.map(|blocks| blocks as usize),
            rows_per_second,
            overload: Overload::of(options, rows_per_second.is_some())?,
        }))
    }

    /// Whether the replay ends.
    pub(crate) fn is_bounded(&self) -> bool {
        self.passes.is_some() || self.duration.is_some()
    }

    /// Makes the options of a replay known where the replayed input's own options are read.
    pub(crate) fn acknowledge(options: &Options) {
        OPTIONS.into_iter().for_each(|name| {
            options.text(name);
        });
        options.text("rows-per-second");
    }
}

/// Blocks in memory, handed out again and again.
#[derive(Debug)]
pub(crate) struct ReplaySource {
    name: String,
    blocks: Vec<Block>,
    rows_per_pass: u64,
    shift: Micros,
    passes: Option<u64>,
    duration: Option<Duration>,
    started: Option<Instant>,
    /// When it was read last,
    read: Option<Instant>,
    /// how many blocks it hands out at most,
    chunk_blocks: usize,
    /// and how few and how many these may be.
    blocks_per_chunk: RangeInclusive<usize>,
    pacer: Option<Pacer>,
    /// What was not told yet: it is, once, with the next rows.
    left_out: LeftOut,
    pass: u64,
    /// The block to hand out next, and the first of its rows that has not been.
    next: (usize, usize),
    /// Rows handed out so far, for the pacer.
    rows: u64,
    /// The memory of the blocks.
    _held: Held,
}

impl ReplaySource {
    /// Decodes a bounded input to its end.
    ///
    /// # Errors
    /// Where it cannot be decoded or is too large, or the shift does not fit it.
    pub(crate) fn load(
        mut input: Box<dyn Source>,
        request: &TableRequest,
        replay: Replay,
    ) -> Result<ReplaySource, ConnectorError> {
        let failed = |problem: &dyn std::fmt::Display| ConnectorError::place(&request.name, problem);
        let mut loaded = Loaded {
            partitions: Vec::new(),
            bytes: 0,
            bytes_max: replay.memory_bytes_max,
            held: request.host.budget.held(),
            left_out: LeftOut::default(),
        };
        for partition in 0..input.partitions() {
            loaded.partition(input.as_mut(), partition).map_err(|error| failed(&error))?;
        }
        let batches = match request.event_time {
            Some(time) if loaded.partitions.len() > 1 => {
                // Until they are merged they are there twice.
                loaded.charge(2 * loaded.bytes).map_err(|error| failed(&error))?;
                merged(&loaded.partitions, time, request.block_rows)
            }
            _ => recut(std::mem::take(&mut loaded.partitions).into_iter().flatten().collect(), request.block_rows),
        };
        let Loaded { held, left_out, .. } = loaded.with_merged().map_err(|error| failed(&error))?;
        let blocks: Vec<Block> = batches
            .and_then(|batches| batches.into_iter().map(|batch| Block::new(batch, request.event_time)).collect())
            .map_err(|error| failed(&error))?;
        let blocks_per_chunk = replay.chunk_blocks.map_or(BLOCKS_PER_CHUNK, |blocks| blocks..=blocks);
        Ok(ReplaySource {
            name: request.name.clone(),
            shift: shift(&blocks, request.event_time, replay.shift)?,
            rows_per_pass: blocks.iter().map(|block| block.rows() as u64).sum(),
            blocks,
            passes: replay.passes,
            duration: replay.duration,
            started: None,
            read: None,
            chunk_blocks: *blocks_per_chunk.start(),
            blocks_per_chunk,
            pacer: replay.rows_per_second.map(|rows| Pacer::new(rows, Duration::from_secs(1), replay.overload)),
            left_out,
            _held: held,
            pass: 0,
            next: (0, 0),
            rows: 0,
        })
    }

    /// Whether the time is over, if there is one.
    fn is_over(&mut self, now: Instant) -> bool {
        let started = *self.started.get_or_insert(now);
        self.duration.is_some_and(|duration| now - started >= duration)
    }

    /// Hands out more blocks at once, or fewer, by how soon it is asked for more.
    fn suit_chunks(&mut self, now: Instant) {
        let Some(before) = self.read.replace(now) else { return };
        let interval = now - before;
        if interval < *CHUNK_INTERVAL.start() {
            self.chunk_blocks = (self.chunk_blocks * 2).min(*self.blocks_per_chunk.end());
        } else if interval > *CHUNK_INTERVAL.end() {
            self.chunk_blocks = (self.chunk_blocks / 2).max(*self.blocks_per_chunk.start());
        }
    }

    /// Hands out a block, or as many of its rows as are due.
    fn next(&mut self) -> Result<Next, SourceError> {
        if self.blocks.is_empty() || self.passes.is_some_and(|passes| self.pass >= passes) {
            return Ok(Next::End);
        }
        let left = self.passes.map_or(u64::MAX, |passes| passes.saturating_mul(self.rows_per_pass) - self.rows);
        let release =
            self.pacer.as_mut().map_or(Ok(Release { dropped: 0, rows: left }), |pacer| pacer.release(self.rows, left));
        let Release { dropped, rows } = match release {
            Ok(release) => release,
            Err(wait) => return Ok(Next::Wait(wait)),
        };
        self.drop_rows(dropped);
        let first = self.next.1;
        let block = self.blocks[self.next.0].clone();
        let rows = (block.rows() - first).min(usize::try_from(rows).unwrap_or(usize::MAX));
        let shift = self.shift_of_pass(&block)?;
        self.advance(rows);
        Ok(Next::Rows(BlockRows { block, first, rows, shift }))
    }

    /// How much later than at first this pass is.
    fn shift_of_pass(&self, block: &Block) -> Result<Micros, SourceError> {
        let shift = i64::try_from(self.pass).ok().and_then(|pass| pass.checked_mul(self.shift));
        let latest = block.time_range().map_or(0, |range| range.max);
        shift.filter(|shift| shift.checked_add(latest).is_some()).ok_or_else(|| SourceError::Input {
            place: self.name.clone(),
            problem: format!("after {} passes event time no longer fits 64 bits of microseconds", self.pass),
        })
    }

    /// Leaves rows out that were not read in time.
    fn drop_rows(&mut self, rows: u64) {
        self.left_out.dropped_count += rows;
        let mut left = rows;
        while left > 0 {
            let of_block = (self.blocks[self.next.0].rows() - self.next.1) as u64;
            self.advance(of_block.min(left) as usize);
            left -= of_block.min(left);
        }
    }

    fn advance(&mut self, rows: usize) {
        self.rows += rows as u64;
        self.next.1 += rows;
        if self.next.1 == self.blocks[self.next.0].rows() {
            self.next = (self.next.0 + 1, 0);
        }
        if self.next.0 == self.blocks.len() {
            self.next = (0, 0);
            self.pass += 1;
        }
    }
}

impl Source for ReplaySource {
    fn partitions(&self) -> usize {
        1
    }

    fn read(&mut self, partition: usize) -> Result<Read, SourceError> {
        read_as_chunk(self, partition)
    }

    fn read_ready(&mut self, _partition: usize, ready: &mut Ready) -> Result<Option<Read>, SourceError> {
        let now = Instant::now();
        if self.is_over(now) {
            return Ok(Some(Read::End));
        }
        self.suit_chunks(now);
        let mut parts = Vec::new();
        while ready.blocks.len() + parts.len() < self.chunk_blocks {
            match self.next() {
                // What is to be cut is, by whoever decodes, and all that is behind it.
                Ok(Next::Rows(part)) if part.is_cut() || !parts.is_empty() => parts.push(part),
                Ok(Next::Rows(part)) => ready.blocks.push(part.into_block()),
                Ok(Next::Wait(wait)) if ready.blocks.len() + parts.len() > 0 => {
                    ready.wait = Some(wait);
                    break;
                }
                // What stands behind the rows taken so far is found again next time.
                _ if ready.blocks.len() + parts.len() > 0 => break,
                Ok(Next::Wait(wait)) => return Ok(Some(Read::Wait(wait))),
                Ok(Next::End) => return Ok(Some(Read::End)),
                Err(error) => return Err(error),
            }
        }
        if parts.is_empty() && self.left_out == LeftOut::default() {
            return Ok(None);
        }
        let (left_out, mut blocks) = (std::mem::take(&mut self.left_out), std::mem::take(&mut ready.blocks));
        Ok(Some(Read::Chunk(Box::new(move || {
            blocks.extend(parts.into_iter().map(BlockRows::into_block));
            Ok(Decoded { rows: Rows::Blocks(blocks), left_out, provenance: None })
        }))))
    }
}

/// What a replay hands out next.
enum Next {
    Rows(BlockRows),
    Wait(Duration),
    End,
}

/// Some rows of a block, and how much later they are than in it.
struct BlockRows {
    block: Block,
    first: usize,
    rows: usize,
    shift: Micros,
}

impl BlockRows {
    fn is_cut(&self) -> bool {
        self.rows < self.block.rows()
    }

    /// Only a paced replay needs fewer rows than all.
    fn into_block(self) -> Block {
        let BlockRows { block, first, rows, shift } = self;
        let is_cut = rows < block.rows();
        let block = if is_cut { block.slice(first, rows) } else { block };
        block.shifted(shift)
    }
}

/// How much later each pass is than the one before, in microseconds.
fn shift(blocks: &[Block], time: Option<TimeColumn>, asked: Option<Duration>) -> Result<Micros, ConnectorError> {
    let Some(time) = time else { return Ok(0) };
    let ranges = || blocks.iter().filter_map(Block::time_range);
    let (Some(min), Some(max)) = (ranges().map(|range| range.min).min(), ranges().map(|range| range.max).max()) else {
        return Ok(0);
    };
    let tick = time.micros_per_tick;
    let least = i128::from(max) - i128::from(min) + i128::from(tick);
    let shift = asked.map_or(least, |asked| asked.as_micros() as i128);
    if shift < least || shift % i128::from(tick) != 0 {
        let problem = format!("must be at least what a pass spans, {least} µs, and whole ticks of {tick} µs");
        return Err(ConnectorError::option("replay.shift", problem));
    }
    Micros::try_from(shift).map_err(|_| ConnectorError::option("replay.shift", "must fit 64 bits of microseconds"))
}

/// What has been decoded so far.
#[derive(Debug)]
struct Loaded {
    partitions: Vec<Vec<RecordBatch>>,
    bytes: usize,
    bytes_max: u64,
    /// What the query is charged for it.
    held: Held,
    left_out: LeftOut,
}

impl Loaded {
    /// Charges the query so many bytes.
    fn charge(&mut self, bytes: usize) -> Result<(), SourceError> {
        let charged = self.held.set(bytes, "replay fewer rows or columns");
        charged.map_err(|error| SourceError::Input { place: "replay".into(), problem: error.to_string() })
    }

    /// The same, when its batches are no more needed.
    fn with_merged(mut self) -> Result<Loaded, SourceError> {
        self.partitions.clear();
        self.charge(self.bytes)?;
        Ok(self)
    }

    fn partition(&mut self, input: &mut dyn Source, partition: usize) -> Result<(), SourceError> {
        let mut kept = BatchBuffer::default();
        let before = self.bytes;
        loop {
            let chunk = match input.read(partition)? {
                Read::Chunk(chunk) => chunk,
                Read::Wait(wait) => {
                    std::thread::sleep(wait);
                    continue;
                }
                Read::End => break,
            };
            let decoded = chunk()?;
            self.left_out.add(decoded.left_out);
            for batch in decoded.rows.into_batches() {
                kept.push(batch);
                self.bytes = before + kept.bytes();
                if self.bytes as u64 > self.bytes_max {
                    let problem = format!("takes more than the {} bytes of 'replay.memory-max'", self.bytes_max);
                    return Err(SourceError::Input { place: "replay".into(), problem });
                }
                self.charge(self.bytes)?;
            }
        }
        self.partitions.push(kept.into_batches());
        Ok(())
    }
}

type Batches = Result<Vec<RecordBatch>, arrow::error::ArrowError>;

/// The same rows in batches of exactly `block_rows`, but for the last.
fn recut(batches: Vec<RecordBatch>, block_rows: usize) -> Batches {
    let is_cut = |(index, batch): (usize, &RecordBatch)| {
        batch.num_rows() == block_rows || index + 1 == batches.len() && (1..block_rows).contains(&batch.num_rows())
    };
    if batches.iter().enumerate().all(is_cut) {
        return Ok(batches);
    }
    let mut coalescer = BatchCoalescer::new(batches[0].schema(), block_rows);
    let mut cut = Vec::new();
    for batch in batches {
        coalescer.push_batch(batch)?;
        cut.extend(std::iter::from_fn(|| coalescer.next_completed_batch()));
    }
    coalescer.finish_buffered_batch()?;
    cut.extend(coalescer.next_completed_batch());
    Ok(cut)
}

/// The rows of all partitions in batches of `block_rows`, always taking next the row of the partition whose next row is
/// earliest: rows of a partition keep their order, and partitions in order come out in order.
fn merged(partitions: &[Vec<RecordBatch>], time: TimeColumn, block_rows: usize) -> Batches {
    let starts: Vec<usize> = partitions
        .iter()
        .scan(0, |start, partition| Some(std::mem::replace(start, *start + partition.len())))
        .collect();
    let batches: Vec<&RecordBatch> = partitions.iter().flatten().collect();
    let times: Vec<Int64Array> = batches.iter().map(|batch| ticks(batch.column(time.index))).collect();
    // Of each partition the next row: its time, its batch and its place there.
    let next = |partition: usize, mut batch: usize, mut row: usize| {
        let end = starts[partition] + partitions[partition].len();
        while batch < end && row == times[batch].len() {
            (batch, row) = (batch + 1, 0);
        }
        (batch < end).then(|| Reverse((times[batch].value(row), partition, batch, row)))
    };
    let mut heads: BinaryHeap<_> = (0..partitions.len()).filter_map(|p| next(p, starts[p], 0)).collect();
    let mut merged = Vec::new();
    let mut places = Vec::with_capacity(block_rows);
    while let Some(Reverse((_, partition, batch, row))) = heads.pop() {
        places.push((batch, row));
        heads.extend(next(partition, batch, row + 1));
        if places.len() == block_rows || heads.is_empty() {
            merged.push(interleave_record_batch(&batches, &places)?);
            places.clear();
        }
    }
    Ok(merged)
}

#[cfg(test)]
mod tests;
