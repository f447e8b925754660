//! A run: one graph, from its start to its end.

use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::Duration;

use pelton_data::BLOCK_ROWS_DEFAULT;
use pelton_data::spelling::is_file;
use pelton_state::kernel::KernelError;

use crate::budget::{Account, Budget, Held, Unread, Waiting};
use crate::choose::{HeldBackBy, held_back_by};
use crate::clock::Clock;
use crate::events::{DataPassing, Link};
use crate::graph::{Graph, NodeRef, OperatorNode, PipelineNode, SinkNode, SourceNode};
use crate::late::LateLog;
use crate::operators::control::OperatorState;
use crate::operators::{Holding, Start};
use crate::outlet::Outlet;
use crate::pool::{Crew, Pool};
use crate::progress::{LatencyProgress, LoadProgress, PipelineProgress, Progress, SinkProgress, SourceProgress};
use crate::sink::SinkError;
use crate::source::{Source, SourceError};
use crate::state::{SinkState, State, Stop, TargetState};
use crate::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};
use crate::threads::OperatorThreads;
use crate::wake::Waker;

/// How a graph is to be run.
#[derive(Debug)]
pub struct RunOptions {
    /// Threads that do the work: those of the pool.
    pub workers: usize,
    /// Rows of a block, at most [`pelton_data::BLOCK_ROWS_MAX`].
    pub block_rows: usize,
    /// What tells the time.
    pub clock: Clock,
    /// What connectors wake the workers with.
    pub waker: Waker,
    /// Keeps late rows.
    pub late: LateLog,
    /// What its state is charged to.
    pub budget: Budget,
    /// What is charged already of what it reads: tables that it joins with.
    pub held: Vec<Held>,
    /// What of its results nobody has read yet.
    pub unread: Unread,
    /// What its streams pass.
    pub data_passing: DataPassing,
}

impl RunOptions {
    /// For a run that a pool works on.
    pub fn new(pool: &Pool) -> RunOptions {
        RunOptions {
            workers: pool.workers(),
            block_rows: BLOCK_ROWS_DEFAULT,
            clock: pool.clock().clone(),
            waker: pool.waker(),
            late: LateLog::new(),
            budget: Budget::default(),
            held: Vec::new(),
            unread: Unread::default(),
            data_passing: DataPassing::default(),
        }
    }
}

/// A table's name before what is said of it. Of a file that stands in the place of a table the error names the path itself.
fn named(table: &str) -> String {
    if is_file(table) { String::new() } else { format!("table '{table}': ") }
}

/// Why a run stopped before its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// An input. The user's error or the environment's.
    #[error("{}{error}", named(.table))]
    Source {
        /// Which.
        table: String,
        /// What happened.
        error: Box<SourceError>,
    },
    /// A computation. The user's error.
    #[error("{error} (in {pipeline})")]
    Kernel {
        /// Which pipeline or window.
        pipeline: String,
        /// What happened.
        error: KernelError,
    },
    /// An output. The environment's error.
    #[error("{sink}: {error}")]
    Sink {
        /// Which.
        sink: String,
        /// What happened.
        error: SinkError,
    },
    /// A broken invariant: ours.
    #[error("internal error: {0}")]
    Internal(String),
}

/// The parts of a graph that do not change while it runs.
pub(crate) struct Fixed {
    pub sources: Vec<FixedSource>,
    pub pipelines: Vec<PipelineNode>,
    pub operators: Vec<OperatorNode>,
    pub sinks: Vec<FixedSink>,
}

pub(crate) struct FixedSource {
    pub name: String,
    pub schema: arrow::datatypes::SchemaRef,
    pub time: crate::graph::SourceTime,
}

pub(crate) struct FixedSink {
    pub name: String,
}

/// What the workers of a run share.
pub(crate) struct Shared {
    pub graph: Fixed,
    pub targets: Vec<TargetState>,
    /// In the order of [`State::passing`].
    pub links: Vec<Link>,
    /// Until the run has ended.
    pub sources: Vec<Mutex<Option<Box<dyn Source>>>>,
    /// Until the run has ended.
    pub sinks: Vec<Mutex<Option<Outlet>>>,
    /// Of the operators, and behind them the sinks.
    pub account: Account,
    pub state: Mutex<State>,
    pub waker: Waker,
    pub clock: Clock,
    pub options: RunOptions,
    pub started_ns: u64,
    pub crew: Arc<Crew>,
    /// Those of its operators, once a policy wants that they have some.
    pub threads: OnceLock<OperatorThreads>,
    ended: Ended,
    /// When; the largest number before.
    ended_ns: AtomicU64,
}

/// Whether all is done and let go of.
#[derive(Default)]
struct Ended {
    has_ended: Mutex<bool>,
    condition: Condvar,
}

impl Ended {
    fn wait(&self) {
        let has_ended = self.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.condition.wait_while(has_ended, |has_ended| !*has_ended).unwrap_or_else(PoisonError::into_inner));
    }

    fn is_set(&self) -> bool {
        *self.has_ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self) {
        *self.has_ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.condition.notify_all();
    }
}

impl Fixed {
    /// The operator that hands its state on to this one, or itself.
    pub fn handed_on_from(&self, operator: usize) -> usize {
        self.operators.iter().position(|node| node.0.subscribers().contains(&operator)).unwrap_or(operator)
    }
}

impl Shared {
    /// Lets go of what connectors hold, when nothing is left to do: once, by whoever was told so.
    pub fn finish(&self) {
        self.ended_ns.store(self.clock.nanos(), Ordering::SeqCst);
        let state = self.state();
        let has_nothing_left = state.failure.is_some() || state.stop == Stop::No;
        drop(state);
        if has_nothing_left {
            self.let_go_of_state();
        }
        // Dropping the sinks tells whoever reads from them that nothing more comes, and the sources whoever feeds them.
        self.sinks.iter().for_each(|sink| drop(sink.lock().unwrap_or_else(PoisonError::into_inner).take()));
        self.sources.iter().for_each(|source| drop(source.lock().unwrap_or_else(PoisonError::into_inner).take()));
        self.crew.leave(self);
        self.ended.set();
        self.threads.get().into_iter().for_each(OperatorThreads::wake_all);
    }

    /// Nobody asks a run what its operators hold that has failed, or come to the end of its inputs; others may need the memory.
    fn let_go_of_state(&self) {
        self.graph.operators.iter().for_each(|operator| operator.0.clear());
        self.account.give_back();
    }

    pub fn has_ended(&self) -> bool {
        self.ended.is_set()
    }

    /// By which number an operator that remembers something has it charged.
    ///
    /// # Panics
    /// Where it is one that remembers nothing.
    pub fn accounted(&self, node: NodeRef) -> usize {
        match node {
            NodeRef::Operator(index) => index,
            NodeRef::Sink(index) => self.graph.operators.len() + index,
            NodeRef::Source(_) | NodeRef::Pipeline(_) => unreachable!("{node:?} remembers nothing"),
        }
    }

    /// For whoever changes something: what there is to do must be looked for anew.
    pub fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.unchanged_state();
        state.next = None;
        state
    }

    /// For whoever looks for something to do, or takes what was found.
    pub fn unchanged_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A graph in execution. Dropping it stops it.
pub struct Run {
    shared: Arc<Shared>,
    /// Its threads are there as long as the run is.
    _pool: Pool,
}

/// Watches and stops a run from elsewhere.
#[derive(Clone)]
pub struct RunHandle(pub(crate) Arc<Shared>);

/// Finds a run again as long as somebody has it.
#[derive(Clone)]
pub struct WeakRunHandle(Weak<Shared>);

impl WeakRunHandle {
    /// The run, if somebody still has it.
    pub fn upgrade(&self) -> Option<RunHandle> {
        self.0.upgrade().map(RunHandle)
    }
}

impl Run {
    /// Hands a graph to the workers of a pool; the options are made for it.
    pub fn start(graph: Graph, options: RunOptions, pool: &Pool) -> Run {
        let shared = Arc::new(Shared::new(graph, options, pool.crew().clone()));
        pool.crew().take(shared.clone());
        Run { shared, _pool: pool.clone() }
    }

    /// Something to watch and stop the run with, which may outlive it.
    pub fn handle(&self) -> RunHandle {
        RunHandle(self.shared.clone())
    }

    /// Waits until the run has ended.
    ///
    /// # Errors
    /// The first error in the order of the input, where the run failed.
    pub fn wait(self) -> Result<Progress, RunError> {
        self.shared.ended.wait();
        let handle = self.handle();
        match handle.failure() {
            Some(error) => Err(error),
            None => Ok(handle.progress()),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.shared.ended.is_set() {
            self.handle().stop_with(Stop::Abort);
            self.shared.ended.wait();
        }
    }
}

impl RunHandle {
    /// Reads nothing more, processes what was read, and ends. Windows that are still open are not reported.
    pub fn drain(&self) {
        self.stop_with(Stop::Drain);
    }

    /// Ends at once.
    pub fn abort(&self) {
        self.stop_with(Stop::Abort);
    }

    fn stop_with(&self, stop: Stop) {
        let mut state = self.0.state();
        if state.stop != Stop::Abort {
            state.stop = stop;
        }
        for source in 0..state.sources.len() {
            state.end_source_if_done(source);
        }
        // Where no worker is on it, none need be waited for: all may be busy with other runs.
        let must_finish = state.must_finish();
        drop(state);
        if must_finish {
            self.0.finish();
        }
        self.0.waker.wake();
    }

    /// The same, without keeping what the run holds.
    pub fn downgrade(&self) -> WeakRunHandle {
        WeakRunHandle(Arc::downgrade(&self.0))
    }

    /// Whether nothing is left to do.
    pub fn has_ended(&self) -> bool {
        self.0.state().has_ended()
    }

    /// The error that stopped the run, if one did.
    pub fn failure(&self) -> Option<RunError> {
        self.0.state().failure.clone()
    }

    /// What has been done so far.
    pub fn progress(&self) -> Progress {
        self.0.progress()
    }
}

impl Shared {
    fn new(mut graph: Graph, options: RunOptions, crew: Arc<Crew>) -> Shared {
        let waiting = Waiting::new(options.budget.clone(), options.unread.clone());
        let operators = start_operators(&mut graph, options.workers);
        let mut state = State::new(&graph, operators, options.late.clone(), options.clock.nanos(), waiting);
        state.passing = options.data_passing.queues(&graph);
        let parts = graph.operators.iter().map(|operator| operator.0.accounts(options.workers));
        let account = Account::new(options.budget.clone(), parts.chain(graph.sinks.iter().map(|_| 1)));
        let (sources, fixed_sources): (Vec<_>, Vec<_>) = graph.sources.into_iter().map(split_source).unzip();
        let (sinks, fixed_sinks): (Vec<_>, Vec<_>) = graph.sinks.into_iter().map(split_sink).unzip();
        Shared {
            targets: state.pipelines.iter().map(|pipeline| pipeline.target).collect(),
            links: state.passing.iter().map(Link::new).collect(),
            sources,
            sinks,
            account,
            state: Mutex::new(state),
            waker: options.waker.clone(),
            clock: options.clock.clone(),
            started_ns: options.clock.nanos(),
            options,
            crew,
            threads: OnceLock::new(),
            ended: Ended::default(),
            ended_ns: AtomicU64::new(u64::MAX),
            graph: Fixed {
                sources: fixed_sources,
                pipelines: graph.pipelines,
                operators: graph.operators,
                sinks: fixed_sinks,
            },
        }
    }

    fn progress(&self) -> Progress {
        let until_ns = self.clock.nanos().min(self.ended_ns.load(Ordering::SeqCst));
        let elapsed = Duration::from_nanos(until_ns - self.started_ns);
        let holding: Vec<Holding> = self.graph.operators.iter().map(|operator| operator.0.holding()).collect();
        let mut state = self.state();
        let holding = holding.into_iter().enumerate();
        let now_ns = self.clock.nanos();
        let sources = state.sources.iter().map(|node| SourceProgress {
            name: node.name.clone(),
            rows: node.rows,
            rows_per_s: state.source_rows_a_second(node, now_ns),
            bytes: node.bytes,
            left_out: node.left_out.clone(),
            watermark: node.sequencer.watermark(),
            is_being_read: node.reading,
            leap: node.sequencer.leap().cloned(),
        });
        let pipelines = state.pipelines.iter().zip(&self.graph.pipelines).map(|(state, node)| {
            let (tier, preparation) = node.kernel.tier();
            PipelineProgress {
                name: node.name.clone(),
                tier,
                preparation,
                rows: state.rows,
                blocks: state.blocks,
                busy: Duration::from_nanos(state.busy_ns),
                story: node.kernel.story(),
            }
        });
        Progress {
            elapsed,
            load: self.load(&state),
            sources: sources.collect(),
            pipelines: pipelines.collect(),
            stateful: holding.map(|(operator, holding)| self.stateful_progress(&state, operator, holding)).collect(),
            operators: self.operators(&state, now_ns),
            sinks: state.sinks.iter_mut().map(|node| sink_progress(node, now_ns)).collect(),
        }
    }

    fn load(&self, state: &State) -> LoadProgress {
        let [rows_in_per_s, rows_out_per_s, busy_ns_per_s] = state.rates_a_second(self.clock.nanos());
        LoadProgress {
            rows_in_per_s,
            rows_out_per_s,
            busy_cores: busy_ns_per_s / 1e9,
            rows_waiting: state.rows_waiting() + state.waiting.unread().rows(),
            bytes_waiting: (state.bytes_waiting() + state.waiting.unread().bytes()) as u64,
            state_bytes: self.options.budget.query_bytes() as u64,
            decisions: state.decisions,
            deciding: Duration::from_nanos(state.deciding_ns),
            waiting: Duration::from_nanos(state.waited_ns),
            waking: Duration::from_nanos(state.waking_ns),
            busy: Duration::from_nanos(state.mark(0).busy_ns),
            held_back_by: held_back_by(state, self.options.workers).map(|by| match by {
                HeldBackBy::Node(node) => self.name(node).to_owned(),
                HeldBackBy::Memory => "'pelton.memory'".to_owned(),
            }),
        }
    }

    /// What people call an operator.
    pub fn name(&self, node: NodeRef) -> &str {
        match node {
            NodeRef::Source(index) => &self.graph.sources[index].name,
            NodeRef::Pipeline(index) => &self.graph.pipelines[index].name,
            NodeRef::Operator(index) => self.operator(index).name(),
            NodeRef::Sink(index) => &self.graph.sinks[index].name,
        }
    }
}

fn sink_progress(node: &mut SinkState, now_ns: u64) -> SinkProgress {
    let [results, marks] = [&mut node.results, &mut node.marks].map(|latencies| LatencyProgress::of(latencies, now_ns));
    let is_held_up = node.writing || node.blocked_at.is_some();
    let (name, remarks) = (node.name.clone(), node.remarks.clone());
    SinkProgress { name, rows: node.rows, remarks, is_held_up, results, marks }
}

/// Prepares the operators of a graph for so many workers.
fn start_operators(graph: &mut Graph, workers: usize) -> Vec<OperatorState> {
    let starts: Vec<Start> =
        (0..graph.operators.len()).map(|index| Start { index, workers, ports: graph.ports(index) }).collect();
    let controls: Vec<_> =
        graph.operators.iter_mut().zip(&starts).map(|(operator, start)| operator.0.start(start)).collect();
    let states = controls.into_iter().zip(&starts);
    states.map(|(control, start)| OperatorState::new(graph, start.index, start.ports, control)).collect()
}

fn split_source(node: SourceNode) -> (Mutex<Option<Box<dyn Source>>>, FixedSource) {
    (Mutex::new(Some(node.source)), FixedSource { name: node.name, schema: node.schema, time: node.time })
}

fn split_sink(node: SinkNode) -> (Mutex<Option<Outlet>>, FixedSink) {
    (Mutex::new(Some(Outlet::new(node.sink, node.arrangement))), FixedSink { name: node.name })
}
