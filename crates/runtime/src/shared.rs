//! What the workers of a run share.

use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use pelton_data::time::WATERMARK_MIN;

use crate::clock::Clock;
use crate::data_passing::Link;
use crate::graph::{Graph, NodeRef, OperatorNode, PipelineNode, SinkNode, SourceNode};
use crate::memory::budget::{Account, InputCharge};
use crate::operators::state::OperatorState;
use crate::operators::{Start, StatefulOperator};
use crate::options::RunOptions;
use crate::output::outlet::Outlet;
use crate::scheduler::crew::Crew;
use crate::scheduler::threads::OperatorThreads;
use crate::scheduler::wake::Waker;
use crate::source::Source;
use crate::state::{State, Stop, TargetState};
use crate::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

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
    /// Those that its rows, or what they become, come to.
    pub operators: Vec<usize>,
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
    /// By operator, the largest of [`Source::began_behind`]; one that has gone on from a snapshot has what was true of it then.
    pub began_behind: Vec<AtomicI64>,
    pub crew: Arc<Crew>,
    /// Those of its operators, once a policy wants that they have some.
    pub threads: OnceLock<OperatorThreads>,
    pub ended: Ended,
    /// By operator, memory for its next snapshot.
    pub recycled: Mutex<Vec<Vec<u8>>>,
    /// With `state`: something of a checkpoint can go on.
    pub awaited: Condvar,
    /// When; the largest number before.
    pub ended_ns: AtomicU64,
}

/// Whether all is done and let go of.
#[derive(Default)]
pub(crate) struct Ended {
    has_ended: Mutex<bool>,
    condition: Condvar,
}

impl Ended {
    pub fn wait(&self) {
        let has_ended = self.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.condition.wait_while(has_ended, |has_ended| !*has_ended).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for so long at most, and returns whether it has ended.
    pub fn wait_for(&self, timeout: Duration) -> bool {
        let has_ended = self.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.condition.wait_timeout_while(has_ended, timeout, |has_ended| !*has_ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub fn is_set(&self) -> bool {
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
        let has_nothing_left = state.failure.is_some() || matches!(state.stop, Stop::No | Stop::EndInputs);
        drop(state);
        if has_nothing_left {
            self.let_go_of_state();
        }
        // Dropping the sinks tells whoever reads from them that nothing more comes, and the sources whoever feeds them.
        self.sinks.iter().for_each(|sink| drop(sink.lock().unwrap_or_else(PoisonError::into_inner).take()));
        self.sources.iter().for_each(|source| drop(source.lock().unwrap_or_else(PoisonError::into_inner).take()));
        self.crew.leave(self);
        self.ended.set();
        let _state = self.unchanged_state();
        self.awaited.notify_all();
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

impl Shared {
    pub fn new(mut graph: Graph, options: RunOptions, crew: Arc<Crew>) -> Shared {
        let waiting = InputCharge::new(options.budget.clone(), options.unread.clone());
        let operators = start_operators(&mut graph, options.workers);
        let mut state = State::new(&graph, operators, options.late.clone(), options.clock.nanos(), waiting);
        state.passing = options.data_passing.queues(&graph);
        state.holds_ends = options.holds_ends;
        let parts = graph.operators.iter().map(|operator| operator.0.accounts(options.workers));
        let account = Account::new(options.budget.clone(), parts.chain(graph.sinks.iter().map(|_| 1)));
        let fed = (0..graph.sources.len()).map(|source| graph.operators_fed_by(source)).collect::<Vec<_>>();
        let (sources, fixed_sources): (Vec<_>, Vec<_>) = graph.sources.into_iter().zip(fed).map(split_source).unzip();
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
            began_behind: graph.operators.iter().map(|_| AtomicI64::new(WATERMARK_MIN)).collect(),
            options,
            crew,
            threads: OnceLock::new(),
            ended: Ended::default(),
            recycled: Mutex::new(vec![Vec::new(); graph.operators.len()]),
            awaited: Condvar::new(),
            ended_ns: AtomicU64::new(u64::MAX),
            graph: Fixed {
                sources: fixed_sources,
                pipelines: graph.pipelines,
                operators: graph.operators,
                sinks: fixed_sinks,
            },
        }
    }
}

impl Shared {
    /// An operator.
    pub fn operator(&self, index: usize) -> &dyn StatefulOperator {
        self.graph.operators[index].0.as_ref()
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

/// Prepares the operators of a graph for so many workers.
fn start_operators(graph: &mut Graph, workers: usize) -> Vec<OperatorState> {
    let starts: Vec<Start> =
        (0..graph.operators.len()).map(|index| Start { index, workers, ports: graph.ports(index) }).collect();
    let controls: Vec<_> =
        graph.operators.iter_mut().zip(&starts).map(|(operator, start)| operator.0.start(start)).collect();
    let states = controls.into_iter().zip(&starts);
    states.map(|(control, start)| OperatorState::new(graph, start.index, start.ports, control)).collect()
}

fn split_source((node, operators): (SourceNode, Vec<usize>)) -> (Mutex<Option<Box<dyn Source>>>, FixedSource) {
    (Mutex::new(Some(node.source)), FixedSource { name: node.name, schema: node.schema, time: node.time, operators })
}

fn split_sink(node: SinkNode) -> (Mutex<Option<Outlet>>, FixedSink) {
    (Mutex::new(Some(Outlet::new(node.sink, node.arrangement))), FixedSink { name: node.name })
}

impl Shared {
    /// Says that a task has made others possible before it is done: of these operators.
    pub fn progressed(&self, nodes: impl Iterator<Item = NodeRef>) {
        let Some(threads) = self.threads.get().filter(|_| self.crew.has_threads()) else {
            return self.waker.progressed();
        };
        self.waker.returned();
        let operators: Vec<usize> = nodes.map(|node| self.unchanged_state().statistics.index(node)).collect();
        threads.wake(&operators);
    }
}
