//! Whole runs of the merge, in one thread, in random orders of all that can happen.

use std::collections::VecDeque;
use std::time::Duration;

use arrow::array::RecordBatch;
use pelton_data::arrangement::Arrangement;
use pelton_state::count::RowCounter;
use pelton_state::join::Lookups;
use pelton_state::kernel::{Kernel, Scratch, Tier};
use pelton_state::table::Table;
use proptest::prelude::*;

use super::*;
use crate::adapt::{AdaptOptions, KernelSlot};
use crate::clock::{Clock, Hands};
use crate::graph::{Graph, PipelineNode, PipelineTarget, SinkNode, SourceNode, SourceTime, StreamRef};
use crate::run::{Run, RunHandle, RunOptions};
use crate::scheduler::policy::PolicyName;
use crate::scheduler::pool::{ManualWorkers, Pool};
use crate::testing::{self, Fed, FedSource, Written};

/// Steps after which a run that does nothing more has ended.
const STEPS_MAX: usize = 100_000;

type Rows = Vec<(Micros, i64)>;

/// Passes rows on.
struct Same;

impl Kernel for Same {
    fn tier(&self) -> Tier {
        Tier::Compiled
    }

    fn aggregate(&self, _: KernelInput<'_>, _: &Lookups, _: &mut Table, _: &mut Scratch) -> Result<(), KernelError> {
        unreachable!("rows are emitted")
    }

    fn count(&self, _: KernelInput<'_>, _: &Lookups, _: &mut RowCounter, _: &mut Scratch) -> Result<(), KernelError> {
        unreachable!("rows are emitted")
    }

    fn emit(
        &self,
        inputs: &[KernelInput<'_>],
        _: &Lookups,
        output: &mut Vec<RecordBatch>,
        _: &mut Scratch,
    ) -> Result<(), KernelError> {
        output.extend(inputs.iter().map(|input| input.block.to_record_batch()));
        Ok(())
    }
}

/// Two streams on their way into one.
struct Running {
    /// Until it has ended.
    run: Option<Run>,
    workers: ManualWorkers,
    hands: Arc<Hands>,
    fed: [Fed; 2],
    kept: Arc<Mutex<Rows>>,
}

impl Running {
    fn start(workers: usize, policy: PolicyName) -> Running {
        let hands = Arc::new(Hands::default());
        let (pool, workers) = Pool::manual(workers, Clock::Manual(hands.clone()));
        pool.set_policy(policy);
        let fed = [testing::fed(1), testing::fed(1)];
        let kept = Arc::<Mutex<Rows>>::default();
        let options = RunOptions { block_rows: 4, ..pool.run_options() };
        let run = Run::start(graph(&fed, kept.clone()), options, &pool);
        Running { run: Some(run), workers, hands, fed, kept }
    }

    /// Does something, as this number says.
    fn step(&mut self, chance: usize) {
        self.hands.advance(Duration::from_micros(chance as u64 % 50));
        if chance.is_multiple_of(7) {
            self.handle().renew(0).expect("it can be made anew at any time");
        }
        let worker = chance % self.workers.count();
        self.workers.step(worker);
    }

    /// Works until nothing has happened for a while.
    fn rest(&mut self) {
        (0..1_000).for_each(|step| self.step(step));
    }

    fn handle(&self) -> RunHandle {
        self.run.as_ref().expect("it has not ended").handle()
    }

    fn end(mut self) -> Rows {
        self.fed.iter().for_each(|fed| fed.lock().unwrap().1 = true);
        let ended = (0..STEPS_MAX).any(|step| {
            self.step(step);
            self.handle().has_ended()
        });
        assert!(ended, "the run ends");
        self.rest();
        self.run.take().expect("it has not ended").wait().expect("nothing fails");
        std::mem::take(&mut *self.kept.lock().unwrap())
    }
}

impl Drop for Running {
    /// Stops the run: who drops it would wait for workers that nobody moves.
    fn drop(&mut self) {
        if self.run.is_some() {
            self.handle().abort();
            self.rest();
        }
    }
}

fn graph(fed: &[Fed; 2], kept: Arc<Mutex<Rows>>) -> Graph {
    let schema = batch(&[]).schema();
    let column = TimeColumn::new(1, schema.field(1).data_type()).expect("it is a timestamp");
    let sources = fed.iter().enumerate().map(|(index, fed)| SourceNode {
        name: format!("source {index}"),
        source: Box::new(FedSource(fed.clone())),
        schema: schema.clone(),
        time: SourceTime::Event { column, delay: 0, ahead_max: None },
        idle_timeout: None,
        alignment: None,
    });
    let pipelines = (0..fed.len()).map(|index| PipelineNode {
        name: format!("pipeline {index}"),
        input: StreamRef::Source(index),
        kernel: Arc::new(KernelSlot::new(Arc::new(Same), Arc::default(), Duration::ZERO, AdaptOptions::default())),
        target: PipelineTarget::Operator { operator: 0, port: index },
    });
    let sink = Box::new(Written { rows: kept, read: |batch| rows(batch).collect() });
    let inputs = vec![StreamRef::Operator(0)];
    Graph {
        sources: sources.collect(),
        pipelines: pipelines.collect(),
        operators: vec![node()],
        sinks: vec![SinkNode { name: "sink".to_owned(), inputs, arrangement: Arrangement::default(), sink }],
    }
}

/// The source is read next whose event time is furthest behind, not the one that has delivered fewest rows: a stream of which ten times as much time passes
/// with each row gets no further ahead than the chunks that are decoded at once.
#[test]
fn sources_are_read_by_least_event_time() {
    let policy = PolicyName::named("adaptive").expect("it is the default");
    let mut running = Running::start(1, policy);
    let sparse = 10;
    let rows = |number: i64, step: i64| batch(&[(number * step, number)]);
    running.fed[0].lock().unwrap().0[0].extend((0..1_000).map(|number| rows(number, 1)));
    running.fed[1].lock().unwrap().0[0].extend((0..100).map(|number| rows(number, sparse)));
    let has_come = |running: &Running| {
        let sources = running.handle().progress().sources;
        [0, 1].map(|source: usize| (sources[source].rows, sources[source].watermark))
    };
    let mut ahead_max = 0;
    while running.kept.lock().unwrap().len() < 1_000 {
        running.step(1);
        let [(dense_rows, dense), (sparse_rows, other)] = has_come(&running);
        if dense_rows > 0 && sparse_rows > 0 {
            ahead_max = ahead_max.max((dense - other).abs());
        }
    }
    assert!(ahead_max <= 4 * sparse, "{ahead_max} µs");
    assert_eq!(running.end().len(), 1_100);
}

/// The rows of two streams, each in the order of its times: which stream a row is of, and how much time lies before it.
fn streams() -> impl Strategy<Value = Vec<(usize, Micros)>> {
    prop::collection::vec((0..2_usize, 0..5_i64), 0..40)
}

/// Their rows, by stream.
fn timed(steps: &[(usize, Micros)]) -> [Rows; 2] {
    let (mut rows, mut now) = ([Rows::new(), Rows::new()], [0; 2]);
    for (number, (stream, more)) in steps.iter().enumerate() {
        now[*stream] += more;
        rows[*stream].push((now[*stream], number as i64));
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Rows leave in the order of their times, each once, under all policies and with any number of workers, while the state is made anew from
    /// snapshots; and a run that goes on from a snapshot of another leaves what that one did not.
    #[test]
    fn streams_are_merged_in_event_time_order(
        steps in streams(),
        workers in 1..4_usize,
        policy in 0..PolicyName::all().count(),
        batch_rows in 1..6_usize,
        chances in prop::collection::vec(any::<u16>(), 64),
        (stops, restored_workers) in (any::<bool>(), 1..4_usize),
    ) {
        let policy = PolicyName::all().nth(policy).expect("there are as many");
        // Threads of their own are no simulation.
        prop_assume!(policy.name() != "threads");
        let streams = timed(&steps);
        let mut expected: Rows = streams.concat();
        expected.sort_unstable();
        let mut batches = streams.each_ref().map(|rows| rows.chunks(batch_rows).map(batch).collect::<VecDeque<_>>());
        let mut running = Running::start(workers, policy);
        let mut found = Rows::new();
        for (number, chance) in chances.iter().copied().map(usize::from).enumerate() {
            if stops && number == chances.len() / 2 {
                running.rest();
                let snapshot = running.handle().snapshot(0).expect("it is at rest");
                found = std::mem::take(&mut *running.kept.lock().unwrap());
                running = Running::start(restored_workers, policy);
                running.handle().restore(0, &snapshot).expect("it is a snapshot");
            }
            if let Some(batch) = batches[chance % 2].pop_front() {
                running.fed[chance % 2].lock().unwrap().0[0].push_back(batch);
            }
            running.step(chance);
        }
        for (fed, batches) in running.fed.iter().zip(&mut batches) {
            fed.lock().unwrap().0[0].append(batches);
        }
        found.extend(running.end());
        let times: Vec<Micros> = found.iter().map(|row| row.0).collect();
        prop_assert!(times.is_sorted(), "{found:?}");
        found.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}
