//! Rows that were read and wait: how many they are, and how large.

use pelton_data::Micros;
use pelton_data::time::{WATERMARK_MAX, WATERMARK_MIN};

use crate::graph::{NodeRef, StreamRef};
use crate::scheduler::fairness::Region;
use crate::scheduler::load::Mark;
use crate::state::{SinkState, SourceState, State};

impl State {
    /// Rows that were read and wait for a worker, or for those in front of them.
    pub fn rows_waiting(&self) -> u64 {
        let blocks = self.pipelines.iter().map(|node| node.queue.rows());
        let taken = self.operators.iter().map(|node| node.queue.rows());
        let written = self.sinks.iter().map(|node| node.queue.rows());
        let passing = self.passing.iter().map(|node| node.waiting().0);
        blocks.chain(taken).chain(written).chain(passing).sum()
    }

    /// Bytes of these rows, as [`pelton_data::Block::memory_bytes`] counts them.
    pub fn bytes_waiting(&self) -> usize {
        self.bytes_in_front_of(|_| true)
    }

    /// Bytes of rows that wait in a region, with what is being decoded there.
    pub fn bytes_in(&self, region: &Region) -> usize {
        let decoding = region.sources.iter().map(|&source| self.sources[source].bytes_decoding());
        self.bytes_in_front_of(|node| region.has_operator[self.statistics.index(node)]) + decoding.sum::<usize>()
    }

    /// Bytes of rows that wait in front of some of the operators.
    fn bytes_in_front_of(&self, is_meant: impl Fn(NodeRef) -> bool) -> usize {
        let blocks =
            self.pipelines.iter().enumerate().map(|(index, node)| (NodeRef::Pipeline(index), node.queue.bytes()));
        let taken =
            self.operators.iter().enumerate().map(|(index, node)| (NodeRef::Operator(index), node.queue.bytes()));
        let written = self.sinks.iter().enumerate().map(|(index, node)| (NodeRef::Sink(index), node.queue.bytes()));
        let passing = self.passing.iter().map(|node| (node.to, node.bytes()));
        let waiting = blocks.chain(taken).chain(written).chain(passing);
        waiting.filter(|(node, _)| is_meant(*node)).map(|(_, bytes)| bytes).sum()
    }

    /// Rows that wait in front of an operator, and their bytes; of an output those as well that nobody has read. What an operator has taken is in its state.
    pub fn waiting_at(&self, at: NodeRef) -> (u64, usize) {
        let passing = self.passing.iter().find(|node| node.to == at);
        let (rows, bytes) = passing.map_or((0, 0), |node| (node.waiting().0, node.bytes()));
        let (queued, queued_bytes) = match at {
            NodeRef::Source(_) => (0, 0),
            NodeRef::Pipeline(index) => (self.pipelines[index].queue.rows(), self.pipelines[index].queue.bytes()),
            NodeRef::Operator(index) => (self.operators[index].queue.rows(), self.operators[index].queue.bytes()),
            NodeRef::Sink(index) => {
                let (queue, unread) = (&self.sinks[index].queue, self.waiting.unread());
                (queue.rows() + unread.rows(), queue.bytes() + unread.bytes())
            }
        };
        (rows + queued, bytes + queued_bytes)
    }

    /// How far the time of sources has come, of the one that is furthest.
    pub fn sources_time(&self) -> Micros {
        let times = self.sources.iter().map(|node| node.sequencer.watermark().max(node.told));
        times.max().unwrap_or(WATERMARK_MIN)
    }

    /// The time at which rows may leave next that wait for the clock's time of a source, if any do.
    pub fn time_due(&self, source: usize) -> Option<Micros> {
        let due = |&operator: &usize| self.operators[operator].time_due();
        self.statistics.by_clock(source).iter().filter_map(due).min()
    }

    /// Bytes that what is being decoded comes to, about.
    pub fn bytes_decoding(&self) -> usize {
        self.sources.iter().map(SourceState::bytes_decoding).sum()
    }
}

impl State {
    /// How far event time has come in all streams that feed a sink.
    pub fn watermark_of_sink(&self, sink: usize) -> Micros {
        let sources = (0..self.sources.len()).map(StreamRef::Source);
        let pipelines = (0..self.pipelines.len()).map(StreamRef::Pipeline);
        let operators = (0..self.operators.len()).map(StreamRef::Operator);
        let feeding =
            sources.chain(pipelines).chain(operators).filter(|&stream| self.consumers(stream).sinks.contains(&sink));
        feeding.map(|stream| self.watermark_behind(stream)).min().unwrap_or(WATERMARK_MAX)
    }

    fn watermark_behind(&self, stream: StreamRef) -> Micros {
        match stream {
            StreamRef::Source(index) if self.sources[index].sequencer.has_ended() => WATERMARK_MAX,
            StreamRef::Source(index) => self.sources[index].sequencer.watermark().max(self.sources[index].told),
            StreamRef::Pipeline(index) => self.watermark_behind(self.pipelines[index].input),
            StreamRef::Operator(index) => self.operators[index].inputs.watermark(),
        }
    }
}

impl SourceState {
    /// Rows that have come until now.
    pub fn mark(&self, now_ns: u64) -> Mark {
        Mark { at_ns: now_ns, rows_in: self.rows, ..Mark::default() }
    }

    /// Whether something is being decoded, and nothing has been that would tell how much it comes to.
    pub fn has_unknown_chunk(&self) -> bool {
        self.chunk_bytes.is_none() && self.sequencer.chunks.outstanding() > 0
    }

    /// Bytes that chunks come to which are being decoded, if they are as large as the last one.
    fn bytes_decoding(&self) -> usize {
        self.chunk_bytes.unwrap_or_default() * self.sequencer.chunks.outstanding()
    }
}

impl SinkState {
    /// Whether no row comes any more, or none is wanted.
    pub fn must_end(&self) -> bool {
        self.closed || self.open_inputs == 0 && self.passing == 0
    }

    /// Whether it is to be flushed now.
    pub fn must_flush(&self, now_ns: u64) -> bool {
        self.unflushed || self.flush_ns.is_some_and(|at| at <= now_ns)
    }

    /// Whether it is to be ended now.
    pub fn wants_end(&self, holds_ends: bool) -> bool {
        self.must_end() && !(holds_ends && self.at_end)
    }

    /// Batches that wait for it.
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.passing
    }

    /// Takes no row from now on.
    pub fn close(&mut self) {
        self.closed = true;
        self.queue.clear();
    }
}
