//! Pipelines that read pipelines, in front of windows: in one thread, in random orders of all that can happen.

use std::collections::VecDeque;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Int64Type};
use pelton_data::aggregate::{Accumulator, KeyColumn};
use pelton_data::arrangement::Arrangement;
use pelton_data::window::{Combination, Emission, Window};
use pelton_state::count::RowCounter;
use pelton_state::join::Lookups;
use pelton_state::kernel::{Kernel, Scratch, Tier};
use pelton_state::layout::EntryLayout;
use pelton_state::table::Table;
use pelton_state::window::Contents;
use proptest::prelude::*;

use super::*;
use crate::adapt::{AdaptOptions, KernelSlot};
use crate::clock::{Clock, Hands};
use crate::graph::{
    Graph, OperatorNode, PipelineNode, PipelineTarget, SinkNode, SourceNode, SourceTime, WindowNode, WindowStore,
};
use crate::run::{Run, RunOptions};
use crate::scheduler::policy::PolicyName;
use crate::scheduler::pool::{ManualWorkers, Pool};
use crate::sync::Mutex;
use crate::testing::{self, Fed, FedSource, Written};

/// Windows are so many microseconds long.
const WINDOW: Micros = 10;

/// Steps after which a run that does nothing more has ended.
const STEPS_MAX: usize = 100_000;

/// Numbers, and their times or the ends of their windows.
type Rows = Vec<(i64, Micros)>;

/// What a sink is given.
fn numbers_and_ends(batch: &RecordBatch) -> Rows {
    let column = |index: usize| batch.column(index).as_primitive::<Int64Type>().values().iter().copied();
    column(0).zip(column(1)).collect()
}

/// Keeps the multiples of a number.
struct Multiples(i64);

impl Multiples {
    fn kept(&self, input: &KernelInput<'_>) -> RecordBatch {
        let batch = input.block.to_record_batch();
        let numbers = batch.column(0).as_primitive::<Int64Type>();
        let is_in = |row: usize| {
            input.range().contains(&row) && input.mask.is_none_or(|mask| mask[row / 64] >> (row % 64) & 1 == 1)
        };
        let kept = (0..batch.num_rows()).map(|row| Some(is_in(row) && numbers.value(row) % self.0 == 0));
        filter_record_batch(&batch, &kept.collect()).expect("there is one for each row")
    }
}

impl Kernel for Multiples {
    fn tier(&self) -> Tier {
        Tier::Compiled
    }

    fn aggregate(
        &self,
        input: KernelInput<'_>,
        _: &Lookups,
        table: &mut Table,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let kept = self.kept(&input);
        if kept.num_rows() > 0 {
            let extent = |keys: &[i64]| (*keys.iter().min().unwrap(), *keys.iter().max().unwrap());
            table.find_or_insert_rows(&[kept.column(0).clone()], extent, scratch);
        }
        Ok(())
    }

    fn count(&self, _: KernelInput<'_>, _: &Lookups, _: &mut RowCounter, _: &mut Scratch) -> Result<(), KernelError> {
        unreachable!("no windows count the rows of each key")
    }

    fn emit(
        &self,
        inputs: &[KernelInput<'_>],
        _: &Lookups,
        output: &mut Vec<RecordBatch>,
        _: &mut Scratch,
    ) -> Result<(), KernelError> {
        output.extend(inputs.iter().map(|input| self.kept(input)));
        Ok(())
    }
}

fn batch(rows: &[(i64, Micros)]) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.1)));
    RecordBatch::try_from_iter([("v", numbers), ("at", times)]).expect("columns are as long as each other")
}

fn time_column() -> TimeColumn {
    TimeColumn::new(1, batch(&[]).schema().field(1).data_type()).expect("it is a timestamp")
}

/// Which numbers each window has, and when it ends.
fn read_out(contents: Contents<'_>) -> Result<Option<RecordBatch>, KernelError> {
    let Contents::Groups(groups) = contents else { unreachable!("groups are kept") };
    let keys = groups.table.key_array(0, groups.entries);
    let ends = groups.windows.iter().flat_map(|window| std::iter::repeat_n(window.end, window.groups));
    let ends: ArrayRef = Arc::new(Int64Array::from_iter_values(ends));
    Ok(Some(RecordBatch::try_from_iter([("v", keys), ("end", ends)]).unwrap()))
}

/// The windows that all sources end in.
fn windows() -> WindowNode {
    let key = KeyColumn { data_type: DataType::Int64, nullable: false };
    WindowNode {
        name: "window".to_owned(),
        window: Window::Tumbling { size: WINDOW, offset: 0 },
        combination: Combination::Single,
        emission: Emission::default(),
        session_slots: None,
        layout: EntryLayout::new(&[key], &[Accumulator::counting_rows()]),
        has_bounds: true,
        ranker: None,
        read_out: Box::new(read_out),
        read_all: None,
        schema: batch(&[]).schema(),
        time_column: None,
        store: WindowStore::default(),
        put_together_from: None,
        shared_by: Vec::new(),
    }
}

/// A source on its way into windows.
struct Way {
    partitions: usize,
    delay: Micros,
    idle_timeout: Option<Duration>,
    /// Which numbers each pipeline keeps: each reads the one before it, and the last feeds the windows.
    multiples: Vec<i64>,
}

struct Running {
    /// Until it has ended.
    run: Option<Run>,
    workers: ManualWorkers,
    hands: Arc<Hands>,
    fed: Vec<Fed>,
    written: Arc<Mutex<Rows>>,
}

impl Running {
    fn start(ways: &[Way], workers: usize, block_rows: usize, policy: PolicyName) -> Running {
        let hands = Arc::new(Hands::default());
        let (pool, workers) = Pool::manual(workers, Clock::Manual(hands.clone()));
        pool.set_policy(policy);
        let fed: Vec<Fed> = ways.iter().map(|way| testing::fed(way.partitions)).collect();
        let written = Arc::<Mutex<Rows>>::default();
        let options = RunOptions { block_rows, ..pool.run_options() };
        let run = Run::start(graph(ways, &fed, written.clone()), options, &pool);
        Running { run: Some(run), workers, hands, fed, written }
    }

    fn feed(&self, source: usize, partition: usize, rows: &[(i64, Micros)]) {
        self.fed[source].lock().unwrap().0[partition].push_back(batch(rows));
    }

    fn step(&mut self, chance: usize) {
        self.hands.advance(Duration::from_micros(chance as u64 % 50));
        let worker = chance % self.workers.count();
        self.workers.step(worker);
    }

    /// Works until nothing has happened for a while.
    fn rest(&mut self) -> Rows {
        (0..1_000).for_each(|step| self.step(step));
        self.written.lock().unwrap().clone()
    }

    fn end(mut self) -> Rows {
        self.fed.iter().for_each(|fed| fed.lock().unwrap().1 = true);
        let handle = self.run.as_ref().expect("it has not ended").handle();
        let ended = (0..STEPS_MAX).any(|step| {
            self.step(step);
            handle.has_ended()
        });
        assert!(ended, "the run ends");
        self.rest();
        self.run.take().expect("it has not ended").wait().expect("nothing fails");
        let mut written = std::mem::take(&mut *self.written.lock().unwrap());
        written.sort_unstable();
        written
    }
}

impl Drop for Running {
    /// Stops the run: who drops it would wait for workers that nobody moves.
    fn drop(&mut self) {
        if let Some(run) = &self.run {
            run.handle().abort();
            self.rest();
        }
    }
}

fn graph(ways: &[Way], fed: &[Fed], written: Arc<Mutex<Rows>>) -> Graph {
    let schema = batch(&[]).schema();
    let sources = ways.iter().zip(fed).enumerate().map(|(index, (way, fed))| SourceNode {
        name: format!("source {index}"),
        source: Box::new(FedSource(fed.clone())),
        schema: schema.clone(),
        time: SourceTime::Event { column: time_column(), delay: way.delay, ahead_max: None },
        idle_timeout: way.idle_timeout,
        alignment: None,
    });
    let mut pipelines = Vec::new();
    for (port, way) in ways.iter().enumerate() {
        let mut input = StreamRef::Source(port);
        for (number, &multiple) in way.multiples.iter().enumerate() {
            let kernel: Arc<dyn Kernel> = Arc::new(Multiples(multiple));
            let is_last = number + 1 == way.multiples.len();
            pipelines.push(PipelineNode {
                name: format!("pipeline {}", pipelines.len()),
                input,
                kernel: Arc::new(KernelSlot::new(kernel, Arc::default(), Duration::ZERO, AdaptOptions::default())),
                target: match is_last {
                    true => PipelineTarget::Operator { operator: 0, port },
                    false => PipelineTarget::Stream { schema: schema.clone(), time: Some(time_column()) },
                },
            });
            input = StreamRef::Pipeline(pipelines.len() - 1);
        }
    }
    let inputs = vec![StreamRef::Operator(0)];
    let sink = Box::new(Written { rows: written, read: numbers_and_ends });
    Graph {
        sources: sources.collect(),
        pipelines,
        operators: vec![OperatorNode::from(windows())],
        sinks: vec![SinkNode { name: "sink".to_owned(), inputs, arrangement: Arrangement::default(), sink }],
    }
}

fn way(multiples: &[i64], idle_timeout: Option<Duration>) -> Way {
    Way { partitions: 1, delay: 0, idle_timeout, multiples: multiples.to_vec() }
}

fn default_policy() -> PolicyName {
    PolicyName::named("adaptive").expect("it is the default")
}

/// The windows of source 1 wait for the time of source 0, all of whose rows a pipeline leaves out.
#[test]
fn time_passes_where_no_row_is_left() {
    let mut running = Running::start(&[way(&[1_000, 1], None), way(&[1], None)], 2, 4, default_policy());
    running.feed(1, 0, &[(1, 5), (2, 25)]);
    assert_eq!(running.rest(), [], "the other source may have rows");
    running.feed(0, 0, &[(7, 30)]);
    assert_eq!(running.rest(), [(1, 10)]);
    assert_eq!(running.end(), [(1, 10), (2, 30)]);
}

/// Where source 0 has nothing for a while, its pipelines say so to the windows, and hold them back again when it has rows.
#[test]
fn idleness_passes_through_pipelines() {
    let timeout = Duration::from_millis(5);
    let mut running = Running::start(&[way(&[1_000, 1, 1], Some(timeout)), way(&[1], None)], 2, 4, default_policy());
    running.feed(0, 0, &[(7, 3)]);
    running.feed(1, 0, &[(1, 5), (2, 25)]);
    (0..1_000).for_each(|_| running.step(49));
    assert_eq!(running.rest(), [(1, 10)]);
    running.feed(0, 0, &[(7, 26)]);
    running.rest();
    assert_eq!(running.end(), [(1, 10), (2, 30)]);
}

/// The rows of two partitions, by how much later than the one before in its partition each is.
fn steps() -> impl Strategy<Value = Vec<(usize, Micros)>> {
    prop::collection::vec((0..2_usize, -9..12_i64), 0..60)
}

/// Which numbers are in which windows: those that are kept, and not late by the rows before them in their partition.
fn expected(partitions: &[Rows; 2], delay: Micros, multiple: i64) -> Rows {
    let mut expected = Rows::new();
    for rows in partitions {
        let mut watermark = WATERMARK_MIN;
        for (number, time) in rows {
            let end = time.div_euclid(WINDOW) * WINDOW + WINDOW;
            if end > watermark && number % multiple == 0 {
                expected.push((*number, end));
            }
            watermark = watermark.max(time - delay);
        }
    }
    expected.sort_unstable();
    expected
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Rows are late by all rows before them in their partition, also by those that a pipeline leaves out: however blocks are cut, pipelines follow
    /// each other, and workers share them.
    #[test]
    fn rows_are_late_by_those_that_are_left_out(
        steps in steps(),
        delay in 0..8_i64,
        multiples in prop::sample::select(vec![vec![3], vec![3, 1], vec![1, 3], vec![3, 1, 1]]),
        (workers, block_rows, batch_rows) in (1..4_usize, 1..9_usize, 1..9_usize),
        policy in 0..PolicyName::all().count(),
        chances in prop::collection::vec(any::<u16>(), 64),
    ) {
        let policy = PolicyName::all().nth(policy).expect("there are as many");
        // Threads of their own are no simulation.
        prop_assume!(policy.name() != "threads");
        let (mut partitions, mut now): ([Rows; 2], [Micros; 2]) = Default::default();
        for (number, (partition, more)) in steps.iter().enumerate() {
            now[*partition] += more;
            partitions[*partition].push((number as i64, now[*partition]));
        }
        let ways = [Way { partitions: 2, delay, idle_timeout: None, multiples }];
        let mut running = Running::start(&ways, workers, block_rows, policy);
        let mut batches = partitions.each_ref().map(|rows| rows.chunks(batch_rows).collect::<VecDeque<_>>());
        for chance in chances.into_iter().map(usize::from) {
            if let Some(rows) = batches[chance % 2].pop_front() {
                running.feed(0, chance % 2, rows);
            }
            running.step(chance);
        }
        for (partition, batches) in batches.into_iter().enumerate() {
            batches.into_iter().for_each(|rows| running.feed(0, partition, rows));
        }
        prop_assert_eq!(running.end(), expected(&partitions, delay, 3));
    }

    /// The watermark of a row's span judges windows of the row as the one does that the rows before it had reached.
    #[test]
    fn spans_judge_rows_as_those_before_them_do(
        times in prop::collection::vec(0..40_i64, 1..30),
        before in -5..40_i64,
        delay in -3..9_i64,
    ) {
        let rows: Rows = times.iter().map(|time| (0, *time)).collect();
        let mut block = Block::new(batch(&rows), Some(time_column())).unwrap();
        (block.stamp.watermark_before, block.stamp.watermark_delay) = (before, delay);
        let (mut watermark, mut row) = (before, 0);
        for span in spans(&block) {
            prop_assert_eq!(span.first, row);
            for time in &times[span.first..span.end] {
                prop_assert!((time + 1..time + 60).all(|end| (end <= span.watermark) == (end <= watermark)));
                watermark = watermark.max(time - delay);
            }
            row = span.end;
        }
        prop_assert_eq!(row, times.len());
    }
}
