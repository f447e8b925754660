//! What is queued, in progress and finished: everything that the scheduler's lock guards.

pub(crate) mod consumers;

pub(crate) mod deliver;

pub(crate) mod finished;

pub(crate) mod queue;

pub(crate) mod reorder;

pub(crate) mod results;

pub(crate) mod streams;

pub(crate) mod waiting;

use std::sync::Arc;

use arrow::array::RecordBatch;
use pelton_data::time::{WATERMARK_MAX, WATERMARK_MIN};
use pelton_data::{Block, Micros, Origin, TimeColumn};

use crate::data_passing::Passing;
use crate::error::RunError;
use crate::graph::{Alignment, Graph, PipelineTarget, StreamRef};
use crate::late::{LateLog, TooLate};
use crate::memory::budget::InputCharge;
use crate::operators::state::OperatorState;
use crate::output::latency::Latencies;
use crate::scheduler::buffers::SpareLists;
use crate::scheduler::dispatch::next::Next;
use crate::scheduler::fairness::Regions;
use crate::scheduler::load::{Load, Mark, Rates};
use crate::scheduler::statistics::GraphStatistics;
use crate::source::sequence::{DecodedChunk, Sequencer};
use crate::source::{LeftOut, Ready};
use crate::state::consumers::Consumers;
use crate::state::finished::Finished;
use crate::state::queue::Queue;
use crate::state::reorder::Reorder;
use crate::state::streams::PassedOn;

/// Lists that are kept of a source.
const EMPTIED_MAX: usize = 16;

/// How a run is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// By itself, with its inputs.
    No,
    /// Nothing more is read; what was read is processed.
    Drain,
    /// The same, and inputs end as if they had no more rows: time goes to its end, and open windows are reported.
    EndInputs,
    /// At once.
    Abort,
}

pub(crate) struct State {
    pub sources: Vec<SourceState>,
    pub pipelines: Vec<PipelineState>,
    pub operators: Vec<OperatorState>,
    pub sinks: Vec<SinkState>,
    /// What passes event by event to pipelines and, behind these, to sinks: nothing unless that is wanted.
    pub passing: Vec<Passing>,
    pub late: LateLog,
    pub stop: Stop,
    /// Sources are not read, so that a cut comes.
    pub is_held: bool,
    /// A cut is being taken: no task begins.
    pub is_being_cut: bool,
    /// Outputs that have all of their rows wait before they end.
    pub holds_ends: bool,
    pub failure: Option<RunError>,
    /// Tasks that workers are on.
    pub tasks_running: usize,
    /// Somebody was told that all is done.
    pub finished: bool,
    /// All nodes, as policies see them.
    pub statistics: GraphStatistics,
    pub regions: Regions,
    pub load: Load,
    pub rates: Rates,
    /// When what is known of them is to be computed anew.
    pub epoch_end_ns: u64,
    /// What rows that wait take of the budget.
    pub waiting: InputCharge,
    pub emptied: SpareLists,
    /// What marks latency among the batches in front of a sink: no rows.
    pub no_rows: RecordBatch,
    /// What there is to do, if nothing has changed since it was looked for.
    pub next: Option<Next>,
    /// GraphStatistics that could run when that was looked for, where they have threads of their own.
    pub can_run: Vec<usize>,
    /// How often a worker was given something to do,
    pub decisions: u64,
    /// how long it took to choose it, among all runs,
    pub deciding_ns: u64,
    /// how long other workers kept runs from being looked at meanwhile,
    pub waited_ns: u64,
    /// and how long it took to wake others.
    pub waking_ns: u64,
}

pub(crate) struct SourceState {
    pub name: String,
    pub schema: arrow::datatypes::SchemaRef,
    pub sequencer: Sequencer<RunError>,
    /// A worker is inside `Source::read`.
    pub reading: bool,
    /// Its stream has ended.
    pub ended: bool,
    pub consumers: Arc<Consumers>,
    pub rows: u64,
    pub bytes: u64,
    pub rates: Rates,
    /// What the blocks of its last chunk took, once there was one.
    pub chunk_bytes: Option<usize>,
    pub left_out: LeftOut,
    /// Processing time only: when to say next that time has passed,
    pub tick_ns: u64,
    /// and how far it had when that was said last.
    pub told: Micros,
    /// When it was read last.
    pub asked_ns: u64,
    /// Lists that its blocks were in, for the next ones: so many at most, and those that tasks have taken.
    pub emptied: Vec<Ready>,
    pub alignment: Option<Alignment>,
}

pub(crate) struct PipelineState {
    /// Where its blocks come from, and what that is called.
    pub input: StreamRef,
    pub input_name: String,
    /// Blocks no worker has taken yet, with their positions.
    pub queue: Queue<(u64, Block)>,
    pub order: Reorder<Result<Finished, RunError>>,
    pub input_ended: bool,
    pub ended: bool,
    pub target: TargetState,
    /// Of its stream, where pipelines read it.
    pub passed_on: PassedOn,
    pub consumers: Arc<Consumers>,
    /// Rows that each of the blocks computed last became, about.
    pub output_rows_per_block: usize,
    /// Slices that each of them went into, about.
    pub slices_per_block: usize,
    pub rows: u64,
    /// Rows that became of them; all rows, where these go into windows.
    pub rows_out: u64,
    pub blocks: u64,
    pub busy_ns: u64,
}

/// Where a pipeline's results go.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TargetState {
    Stream {
        /// Whether only sinks read it: then a batch may hold rows of several blocks.
        is_output: bool,
        /// The event times of its rows, where it has some.
        time: Option<TimeColumn>,
    },
    Operator {
        operator: usize,
        /// Which of its ports this pipeline feeds.
        port: usize,
    },
}

impl TargetState {
    /// Whether it is a port of this operator.
    pub fn feeds(self, fed: usize) -> bool {
        matches!(self, TargetState::Operator { operator, .. } if operator == fed)
    }
}

pub(crate) struct SinkState {
    pub name: String,
    /// See [`crate::output::sink::Sink::remarks`].
    pub remarks: Vec<String>,
    pub queue: Queue<(RecordBatch, Origin)>,
    /// Batches that pass event by event, and have not arrived as a whole.
    pub passing: usize,
    /// A worker is inside the sink.
    pub writing: bool,
    /// The sink had no room at this count of outside events: it is asked again when there was another.
    pub blocked_at: Option<u64>,
    pub open_inputs: usize,
    /// It has all rows that it wants.
    pub closed: bool,
    /// Rows were written since the last flush.
    pub unflushed: bool,
    /// See [`crate::output::sink::Sink::follows_time`].
    pub follows_time: bool,
    /// How far time has come, where it follows that and has not been told.
    pub untold: Option<Micros>,
    /// It is flushed then, also where none were.
    pub flush_ns: Option<u64>,
    /// All of its rows have been written, and it has not ended because [`State::holds_ends`].
    pub at_end: bool,
    pub ended: bool,
    pub rows: u64,
    pub results: Latencies,
    /// The same of what marks latency where no rows come.
    pub marks: Latencies,
}

impl State {
    /// Of a run that begins then, whose operators these are.
    pub fn new(
        graph: &Graph,
        operators: Vec<OperatorState>,
        late: LateLog,
        now_ns: u64,
        waiting: InputCharge,
    ) -> State {
        let pipelines = graph.pipelines.iter().enumerate().map(|(index, node)| {
            let target = match node.target {
                PipelineTarget::Stream { time, .. } => {
                    let consumers = Consumers::of(graph, StreamRef::Pipeline(index));
                    TargetState::Stream { is_output: consumers.pipelines.is_empty(), time }
                }
                PipelineTarget::Operator { operator, port } => TargetState::Operator { operator, port },
            };
            PipelineState {
                input: node.input,
                input_name: name_of(graph, node.input),
                queue: Queue::default(),
                order: Reorder::default(),
                input_ended: false,
                ended: false,
                target,
                passed_on: PassedOn::default(),
                consumers: Consumers::of(graph, StreamRef::Pipeline(index)),
                // Not known: one block shows it.
                output_rows_per_block: usize::MAX,
                slices_per_block: 0,
                rows: 0,
                rows_out: 0,
                blocks: 0,
                busy_ns: 0,
            }
        });
        let pipelines = pipelines.collect();
        let statistics = GraphStatistics::of(graph);
        State {
            sources: (0..graph.sources.len()).map(|index| SourceState::new(graph, index, now_ns)).collect(),
            pipelines,
            operators,
            sinks: graph.sinks.iter().map(SinkState::new).collect(),
            passing: Vec::new(),
            late,
            stop: Stop::No,
            is_held: false,
            is_being_cut: false,
            holds_ends: false,
            failure: None,
            tasks_running: 0,
            finished: false,
            regions: Regions::of(&statistics, graph.sources.len()),
            statistics,
            load: Load::new(),
            rates: Rates::new(now_ns),
            epoch_end_ns: 0,
            waiting,
            emptied: SpareLists::default(),
            no_rows: RecordBatch::new_empty(Arc::new(arrow::datatypes::Schema::empty())),
            next: None,
            can_run: Vec::new(),
            decisions: 0,
            deciding_ns: 0,
            waited_ns: 0,
            waking_ns: 0,
        }
    }

    /// Nothing is left to do.
    pub fn has_ended(&self) -> bool {
        self.tasks_running == 0 && self.must_stop() && !self.must_write()
    }

    /// Learns from what was done since the last epoch.
    pub fn begin_epoch(&mut self, now_ns: u64) {
        for (index, node) in self.statistics.nodes().enumerate() {
            let (rows_in, rows_out) = self.rows_of(node);
            let done = &mut self.statistics.all[index].done;
            (done.rows_in, done.rows_out) = (rows_in, rows_out);
        }
        self.statistics.measure();
        self.load.adapt();
        self.rates.mark(self.mark(now_ns));
        self.sources.iter_mut().for_each(|node| node.rates.mark(node.mark(now_ns)));
    }

    /// What has been done until now.
    pub fn mark(&self, now_ns: u64) -> Mark {
        Mark {
            at_ns: now_ns,
            rows_in: self.sources.iter().map(|node| node.rows).sum(),
            rows_out: self.sinks.iter().map(|node| node.rows).sum(),
            busy_ns: self.statistics.all.iter().map(|operator| operator.done.busy_ns).sum(),
        }
    }

    /// What it does in a second: rows that come, rows that leave, and nanoseconds of workers.
    pub fn rates_a_second(&self, now_ns: u64) -> [f64; 3] {
        self.rates.a_second(self.mark(now_ns), self.ran_ns())
    }

    /// Rows that come from a source in a second.
    pub fn source_rows_a_second(&self, node: &SourceState, now_ns: u64) -> f64 {
        node.rates.a_second(node.mark(now_ns), self.ran_ns())[0]
    }

    /// When a worker has done something for it last.
    fn ran_ns(&self) -> u64 {
        self.statistics.all.iter().map(|operator| operator.last_run_ns).max().unwrap_or_default()
    }

    /// Whether nothing is left to do; says so once.
    pub fn must_finish(&mut self) -> bool {
        self.has_ended() && !std::mem::replace(&mut self.finished, true)
    }

    /// Whether the run has failed, and results of the input before the error still wait for their sinks.
    pub fn must_write(&self) -> bool {
        let waits = |node: &SinkState| !node.ended && (node.waiting() > 0 || node.unflushed);
        self.failure.is_some() && self.stop != Stop::Abort && self.sinks.iter().any(waits)
    }

    /// Whether no task but writing is of any use: the outputs have ended, though inputs may not have.
    pub fn must_stop(&self) -> bool {
        self.failure.is_some() || self.stop == Stop::Abort || self.sinks.iter().all(|sink| sink.ended)
    }

    /// Keeps a decoded chunk, and queues all chunks whose turn it is.
    pub fn chunk_decoded(&mut self, source: usize, position: u64, chunk: Result<DecodedChunk, RunError>) {
        self.sources[source].sequencer.chunks.finish(position, 1, chunk);
        while let Some(chunk) = self.sources[source].sequencer.chunks.release() {
            match chunk {
                Ok(mut chunk) => {
                    let node = &mut self.sources[source];
                    let has_told_time = node.sequencer.stamp(&mut chunk);
                    node.rows += chunk.left_out.merged_count;
                    node.left_out.add(chunk.left_out);
                    node.chunk_bytes = Some(chunk.ready.blocks.iter().map(Block::memory_bytes).sum());
                    for block in &chunk.ready.blocks {
                        node.rows += block.rows() as u64;
                        node.bytes += block.bytes() as u64;
                    }
                    self.deliver(StreamRef::Source(source), &mut chunk.ready.blocks);
                    if has_told_time {
                        let watermark = self.sources[source].sequencer.watermark();
                        self.punctuate(source, watermark, chunk.ingested_ns);
                    }
                    let emptied = &mut self.sources[source].emptied;
                    if emptied.len() < EMPTIED_MAX {
                        emptied.push(chunk.ready);
                    }
                }
                Err(error) => {
                    self.sources[source].sequencer.chunks.close();
                    return self.fail(error);
                }
            }
        }
        self.end_source_if_done(source);
    }

    /// Ends a source's stream where all of it has been queued.
    pub fn end_source_if_done(&mut self, source: usize) {
        let node = &mut self.sources[source];
        let is_stopping = matches!(self.stop, Stop::Drain | Stop::EndInputs);
        let drained = is_stopping && !node.reading && node.sequencer.chunks.outstanding() == 0;
        if node.ended || !(drained || node.sequencer.has_ended()) {
            return;
        }
        node.ended = true;
        if node.sequencer.has_ended() || self.stop == Stop::EndInputs {
            // What its end completes has waited since the source said so.
            let asked_ns = node.asked_ns;
            self.punctuate(source, WATERMARK_MAX, asked_ns);
        }
        self.end_stream(StreamRef::Source(source));
    }

    /// Says downstream how far a source's time has come, where a partition has become idle or ended.
    pub fn partition_stopped(&mut self, source: usize, now_ns: u64) {
        let sequencer = &mut self.sources[source].sequencer;
        if !sequencer.has_ended() && (sequencer.advance() || sequencer.is_idle()) {
            let watermark = sequencer.watermark();
            self.punctuate(source, watermark, now_ns);
        }
    }

    /// Says downstream that a source's time has come so far.
    pub fn punctuate(&mut self, source: usize, watermark: Micros, now_ns: u64) {
        let node = &mut self.sources[source];
        node.told = watermark;
        let stamp = node.sequencer.punctuation(watermark, now_ns);
        let block = Block::punctuation(node.schema.clone(), stamp);
        self.deliver_one(StreamRef::Source(source), block);
    }

    /// Keeps the result of so many blocks from a position on, and passes on all results whose turn it is.
    pub fn blocks_finished(
        &mut self,
        pipeline: usize,
        (position, count): (u64, usize),
        result: Result<Finished, RunError>,
    ) {
        let mut next = self.pipelines[pipeline].order.pass(position, count, result);
        while let Some(result) = next {
            match result {
                Ok(finished) => self.pass_on(pipeline, finished),
                Err(error) => {
                    self.pipelines[pipeline].order.close();
                    return self.fail(error);
                }
            }
            next = self.pipelines[pipeline].order.release();
        }
        self.end_pipeline_if_done(pipeline);
    }

    fn pass_on(&mut self, pipeline: usize, mut finished: Finished) {
        for TooLate { operator, count, rows: (rows, each) } in finished.late.drain(..) {
            let node = &mut self.operators[operator];
            node.late_rows += count;
            self.late.keep(&node.name, &self.pipelines[pipeline].input_name, (Some(rows), each));
        }
        match self.pipelines[pipeline].target {
            TargetState::Stream { is_output: false, .. } => self.pass_stream_on(pipeline, finished),
            TargetState::Stream { is_output: true, .. } => {
                let (stream, mut has_rows) = (StreamRef::Pipeline(pipeline), false);
                for batch in finished.output.into_batches() {
                    has_rows |= batch.num_rows() > 0;
                    self.deliver_batch(stream, batch, None, finished.stamp);
                }
                if finished.stamp.is_marker && !has_rows {
                    self.mark_sinks(stream, finished.stamp.origin());
                }
            }
            TargetState::Operator { operator, port } => {
                self.operators[operator].late_rows += finished.late_rows;
                let is_last = self.is_drained(pipeline);
                self.block_taken(operator, port, finished, is_last);
            }
        }
    }

    fn end_pipeline_if_done(&mut self, pipeline: usize) {
        let node = &mut self.pipelines[pipeline];
        if node.ended || !node.input_ended || node.order.outstanding() > 0 {
            return;
        }
        node.ended = true;
        match node.target {
            TargetState::Stream { .. } => self.end_stream(StreamRef::Pipeline(pipeline)),
            TargetState::Operator { operator, port } => {
                self.operators[operator].inputs.end(port);
                self.end_operator_if_done(operator);
            }
        }
    }

    pub fn end_stream(&mut self, stream: StreamRef) {
        let consumers = self.consumers(stream).clone();
        for &pipeline in &consumers.pipelines {
            self.pipelines[pipeline].input_ended = true;
            self.end_pipeline_if_done(pipeline);
        }
        consumers.operators.iter().for_each(|&operator| self.end_subscriber(operator));
        for &sink in &consumers.sinks {
            self.sinks[sink].open_inputs -= 1;
        }
    }

    pub fn consumers(&self, stream: StreamRef) -> &Arc<Consumers> {
        match stream {
            StreamRef::Source(index) => &self.sources[index].consumers,
            StreamRef::Pipeline(index) => &self.pipelines[index].consumers,
            StreamRef::Operator(index) => &self.operators[index].results.consumers,
        }
    }

    /// Keeps the first error. Results are released in order, so it is the same one whoever computed it.
    pub fn fail(&mut self, error: RunError) {
        self.failure.get_or_insert(error);
    }
}

/// What people call a stream.
fn name_of(graph: &Graph, stream: StreamRef) -> String {
    match stream {
        StreamRef::Source(source) => graph.sources[source].name.clone(),
        StreamRef::Pipeline(pipeline) => graph.pipelines[pipeline].name.clone(),
        StreamRef::Operator(operator) => graph.operators[operator].0.name().to_owned(),
    }
}

impl SourceState {
    fn new(graph: &Graph, index: usize, now_ns: u64) -> SourceState {
        let node = &graph.sources[index];
        SourceState {
            name: node.name.clone(),
            schema: node.schema.clone(),
            sequencer: Sequencer::new(node.time, node.source.partitions(), node.idle_timeout),
            reading: false,
            ended: false,
            consumers: Consumers::of(graph, StreamRef::Source(index)),
            rows: 0,
            bytes: 0,
            rates: Rates::new(now_ns),
            chunk_bytes: None,
            left_out: LeftOut::default(),
            tick_ns: 0,
            told: WATERMARK_MIN,
            asked_ns: 0,
            emptied: Vec::new(),
            alignment: node.alignment.clone(),
        }
    }
}

impl SinkState {
    fn new(node: &crate::graph::SinkNode) -> SinkState {
        SinkState {
            name: node.name.clone(),
            remarks: node.sink.remarks(),
            queue: Queue::default(),
            passing: 0,
            writing: false,
            blocked_at: None,
            open_inputs: node.inputs.len(),
            closed: node.arrangement.rows_max == Some(0),
            unflushed: false,
            follows_time: node.sink.follows_time(),
            untold: None,
            flush_ns: None,
            at_end: false,
            ended: false,
            rows: 0,
            results: Latencies::default(),
            marks: Latencies::default(),
        }
    }
}
