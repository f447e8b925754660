//! What leaves an operator that puts rows in order by itself: stamped anew, behind what left before.

use std::sync::Arc;

use arrow::array::RecordBatch;
use pelton_data::time::WATERMARK_MIN;
use pelton_data::{Micros, Origin, Stamp, TimeColumn};

use crate::checkpoint::StreamSnapshot;
use crate::graph::{Graph, StreamRef};
use crate::state::State;
use crate::state::consumers::Consumers;

/// Rows, and a time that they are not behind: their newest one, or the end of the last of their windows.
pub(crate) type Timed = (RecordBatch, Micros);

/// The stream of rows that leave an operator.
pub(crate) struct Results {
    pub consumers: Arc<Consumers>,
    /// Rows that have left.
    pub rows: u64,
    /// When the input was read that moved the watermark last.
    pub ingested_ns: u64,
    /// The newest event time that has come.
    event_time: Micros,
    /// The first block that marks latency and has not been passed on as such.
    pub marker: Option<Marker>,
    time_column: Option<TimeColumn>,
    next_sequence: u64,
}

/// What marks latency, on its way through an operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marker {
    origin: Origin,
    /// How far time had come with it: it passes on behind the rows that were due then.
    until: Micros,
}

impl Results {
    /// None yet. Rows will have their times there.
    pub fn new(graph: &Graph, stream: StreamRef, time_column: Option<TimeColumn>) -> Results {
        Results {
            consumers: Consumers::of(graph, stream),
            rows: 0,
            ingested_ns: 0,
            event_time: WATERMARK_MIN,
            marker: None,
            time_column,
            next_sequence: 0,
        }
    }

    /// What its blocks are numbered up to.
    pub fn stream(&self) -> StreamSnapshot {
        StreamSnapshot { blocks: self.next_sequence, rows: self.rows }
    }

    /// Goes on where it was at a cut.
    pub fn restore(&mut self, stream: &StreamSnapshot) {
        (self.next_sequence, self.rows) = (stream.blocks, stream.rows);
    }

    /// Notes that an input moved the watermark, which is there now, or did not.
    pub fn note_input(&mut self, has_moved: bool, stamp: &Stamp, until: Micros) {
        if has_moved && stamp.ingested_ns > 0 {
            self.ingested_ns = stamp.ingested_ns;
        }
        self.event_time = self.event_time.max(stamp.event_time);
        if stamp.is_marker {
            self.marker.get_or_insert(Marker { origin: stamp.origin(), until });
        }
    }

    fn next_stamp(&mut self) -> Stamp {
        self.next_sequence += 1;
        let (sequence, rows_before, ingested_ns) = (self.next_sequence - 1, self.rows, self.ingested_ns);
        Stamp { sequence, rows_before, ingested_ns, ..Stamp::default() }
    }
}

impl State {
    /// Passes results on: they come in the order of their times, so that none of their rows is ever late downstream.
    ///
    /// Each has a time that its rows' are not behind; where that is not known, or is ahead of all that has come, they are as old as what has come last.
    pub fn deliver_results(&mut self, operator: usize, batches: Vec<Timed>) {
        for (batch, newest) in batches {
            let results = &mut self.operators[operator].results;
            let event_time = results.event_time.min(newest);
            let stamp = Stamp { watermark_delay: Micros::MAX, event_time, ..results.next_stamp() };
            results.rows += batch.num_rows() as u64;
            let time_column = results.time_column;
            self.deliver_batch(StreamRef::Operator(operator), batch, time_column, stamp);
        }
    }

    /// Says to those that read results how far time has come with them, and whether no more come for now. What marks latency goes with it, where all that
    /// was due before it has been passed on: up to there, or everything, where the operator is at rest.
    pub fn punctuate_results(&mut self, operator: usize, watermark: Micros, is_idle: bool, passed: Option<Micros>) {
        let stream = StreamRef::Operator(operator);
        let results = &mut self.operators[operator].results;
        let is_its_turn = |marker: &mut Marker| passed.is_none_or(|passed| marker.until <= passed);
        let marker = results.marker.take_if(is_its_turn).map(|marker| marker.origin);
        let consumers = results.consumers.clone();
        if !consumers.operators.is_empty() {
            let (ingested_ns, event_time) = (results.ingested_ns, results.event_time);
            let origin = marker.unwrap_or(Origin { ingested_ns, event_time });
            let stamp = Stamp { watermark, is_idle, is_marker: marker.is_some(), ..results.next_stamp() };
            let stamp = Stamp { ingested_ns: origin.ingested_ns, event_time: origin.event_time, ..stamp };
            return consumers.operators.iter().for_each(|&subscriber| self.state_handed_on(subscriber, &stamp));
        }
        if !consumers.pipelines.is_empty() {
            let ingested_ns = results.ingested_ns.max(marker.map_or(0, |origin| origin.ingested_ns));
            let event_time = marker.map_or(WATERMARK_MIN, |origin| origin.event_time);
            let stamp = Stamp { watermark, is_idle, is_marker: marker.is_some(), ..results.next_stamp() };
            self.deliver_punctuation(stream, Stamp { ingested_ns, event_time, ..stamp });
        }
        for &sink in &consumers.sinks {
            let node = &mut self.sinks[sink];
            if node.follows_time {
                (node.untold, node.unflushed) = (Some(watermark), true);
            }
        }
        if let Some(origin) = marker {
            self.mark_sinks(stream, origin);
        }
    }
}
