//! Whole runs, with workers, those who feed them and those who read, in many orders of all that they do to what they share: locks, atomics, channels and
//! sleep are shuttle's model, which runs one thread at a time and chooses at each call which one goes on. Where rows are lost, doubled or out of order, or
//! somebody waits for ever, it prints the schedule, which `shuttle::replay` runs again.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMicrosecondArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int64Type};
use pelton_data::aggregate::{Accumulator, KeyColumn};
use pelton_data::arrangement::Arrangement;
use pelton_data::window::{Combination, Emission, Window};
use pelton_data::{Micros, TimeColumn};
use pelton_state::count::RowCounter;
use pelton_state::join::Lookups;
use pelton_state::kernel::{Kernel, KernelError, KernelInput, Scratch, Tier};
use pelton_state::layout::EntryLayout;
use pelton_state::table::Table;
use pelton_state::window::Contents;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

use super::*;
use crate::adapt::{AdaptOptions, KernelSlot};
use crate::clock::Hands;
use crate::data_passing::DataPassing;
use crate::graph::{
    Graph, OperatorNode, PipelineNode, PipelineTarget, SinkNode, SourceNode, SourceTime, StreamRef, WindowNode,
    WindowStore,
};
use crate::memory::budget::Unread;
use crate::output::sink::{Sink, SinkError};
use crate::run::{Run, RunOptions};
use crate::source::{Read, Ready, Source, SourceError};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Schedules of each kind that are tried of each run.
const SCHEDULES: usize = 200;

/// So often a schedule of the second kind holds the foremost thread up, at moments of its choice: most races need two or three.
const HELD_UP: usize = 3;

/// Windows are so many microseconds long.
const WINDOW: Micros = 4;

/// Batches that wait for the reader.
const BATCHES_WAITING_MAX: usize = 1;

fn check(test: fn()) {
    check_with(RandomScheduler::new(SCHEDULES), test);
    check_with(PctScheduler::new(HELD_UP, SCHEDULES), test);
}

fn check_with(scheduler: impl Scheduler + 'static, test: fn()) {
    let mut config = Config::new();
    // As long as those of threads.
    config.stack_size = 2 << 20;
    Runner::new(scheduler, config).run(test);
}

/// Rows on their way from a thread to a source, or from a sink to a thread.
#[derive(Default)]
struct Passage {
    rows: Mutex<(VecDeque<RecordBatch>, bool)>,
    changed: Condvar,
}

impl Passage {
    fn rows(&self) -> MutexGuard<'_, (VecDeque<RecordBatch>, bool)> {
        self.rows.lock().unwrap()
    }

    fn push(&self, batch: RecordBatch) {
        self.rows().0.push_back(batch);
        self.changed.notify_one();
    }

    fn end(&self) {
        self.rows().1 = true;
        self.changed.notify_one();
    }

    /// Waits for the next, or the end.
    fn next(&self) -> Option<RecordBatch> {
        let mut rows = self.rows();
        while rows.0.is_empty() && !rows.1 {
            rows = self.changed.wait(rows).unwrap();
        }
        rows.0.pop_front()
    }
}

/// Has what a thread brings.
struct Fed(Arc<Passage>);

impl Source for Fed {
    fn partitions(&self) -> usize {
        1
    }

    fn read(&mut self, _: usize) -> Result<Read, SourceError> {
        unreachable!("rows are there that need no decoding")
    }

    fn read_ready(&mut self, _: usize, ready: &mut Ready) -> Result<Option<Read>, SourceError> {
        let mut rows = self.0.rows();
        ready.batches.extend(rows.0.pop_front());
        let read = if rows.1 { Read::End } else { Read::Wait(Duration::from_secs(1)) };
        Ok(ready.batches.is_empty().then_some(read))
    }
}

/// Gives them to a thread, which takes its time.
struct Given {
    passage: Arc<Passage>,
    unread: Unread,
}

impl Sink for Given {
    fn is_ready(&self) -> bool {
        let has_room = || self.passage.rows().0.len() < BATCHES_WAITING_MAX;
        has_room() || {
            self.unread.await_reader();
            has_room()
        }
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        self.unread.add(rows);
        self.passage.push(rows.clone());
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.passage.end();
        Ok(())
    }
}

/// Passes rows on, or adds them to the groups of their numbers.
struct Code;

impl Kernel for Code {
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
        let is_chosen = |row: &usize| input.mask.is_none_or(|mask| mask[row / 64] >> (row % 64) & 1 == 1);
        let rows = UInt32Array::from_iter_values(input.range().filter(is_chosen).map(|row| row as u32));
        if !rows.is_empty() {
            let keys = take(input.block.column(0).as_ref(), &rows, None).expect("rows are the block's");
            let extent = |keys: &[i64]| (*keys.iter().min().unwrap(), *keys.iter().max().unwrap());
            table.find_or_insert_rows(&[keys], extent, scratch);
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
        output.extend(inputs.iter().map(|input| input.block.to_record_batch().slice(input.first, input.range().len())));
        Ok(())
    }
}

/// Rows of these numbers, whose times they are.
fn batch(numbers: std::ops::Range<i64>) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.clone()));
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(numbers));
    RecordBatch::try_from_iter([("v", values), ("at", times)]).unwrap()
}

fn numbers(batches: &[RecordBatch]) -> Vec<i64> {
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// Which numbers each window has, and when it ends.
fn read_out(contents: Contents<'_>) -> Result<Option<RecordBatch>, KernelError> {
    let Contents::Groups(groups) = contents else { unreachable!("groups are kept") };
    let keys = groups.table.key_array(0, groups.entries);
    let ends = groups.windows.iter().flat_map(|window| std::iter::repeat_n(window.end, window.groups));
    let ends: ArrayRef = Arc::new(Int64Array::from_iter_values(ends));
    Ok(Some(RecordBatch::try_from_iter([("v", keys), ("end", ends)]).unwrap()))
}

/// A pipeline, and where a window is asked for one behind it.
fn graph(source: Box<dyn Source>, sink: Box<dyn Sink>, has_window: bool) -> Graph {
    let schema = batch(0..1).schema();
    let column = TimeColumn::new(1, schema.field(1).data_type()).expect("it is a timestamp");
    let time = SourceTime::Event { column, delay: 0, ahead_max: None };
    let target = if has_window {
        PipelineTarget::Operator { operator: 0, port: 0 }
    } else {
        PipelineTarget::Stream { schema: schema.clone(), time: None }
    };
    let kernel = Arc::new(KernelSlot::new(Arc::new(Code), Arc::default(), Duration::ZERO, AdaptOptions::default()));
    let layout =
        EntryLayout::new(&[KeyColumn { data_type: DataType::Int64, nullable: false }], &[Accumulator::counting_rows()]);
    let window = has_window.then(|| WindowNode {
        name: "w".to_owned(),
        window: Window::Tumbling { size: WINDOW, offset: 0 },
        combination: Combination::Single,
        emission: Emission::default(),
        session_slots: None,
        layout,
        has_bounds: true,
        ranker: None,
        read_out: Box::new(read_out),
        read_all: None,
        schema: schema.clone(),
        time_column: None,
        store: WindowStore::default(),
        put_together_from: None,
        shared_by: Vec::new(),
    });
    let inputs = vec![if has_window { StreamRef::Operator(0) } else { StreamRef::Pipeline(0) }];
    Graph {
        sources: vec![SourceNode { name: "t".to_owned(), source, schema, time, idle_timeout: None, alignment: None }],
        pipelines: vec![PipelineNode { name: "p".to_owned(), input: StreamRef::Source(0), kernel, target }],
        operators: window.into_iter().map(OperatorNode::from).collect(),
        sinks: vec![SinkNode { name: "s".to_owned(), inputs, arrangement: Arrangement::default(), sink }],
    }
}

/// A run, with what it is fed by and read from.
struct Running {
    run: Run,
    input: Arc<Passage>,
    output: Arc<Passage>,
    unread: Unread,
    waker: Waker,
}

impl Running {
    fn start(pool: &Pool, has_window: bool, data_passing: DataPassing) -> Running {
        let (input, output) = (Arc::<Passage>::default(), Arc::<Passage>::default());
        let options = RunOptions { block_rows: 2, data_passing, ..pool.run_options() };
        let (unread, waker) = (options.unread.clone(), options.waker.clone());
        let sink = Given { passage: output.clone(), unread: unread.clone() };
        let graph = graph(Box::new(Fed(input.clone())), Box::new(sink), has_window);
        Running { run: Run::start(graph, options, pool), input, output, unread, waker }
    }

    /// Brings batches of three rows, from a thread of its own, while time passes.
    fn feed(&self, batches: i64, hands: &Arc<Hands>) -> thread::JoinHandle<()> {
        let (input, waker, hands) = (self.input.clone(), self.waker.clone(), hands.clone());
        thread::spawn(move || {
            for number in 0..batches {
                input.push(batch(3 * number..3 * number + 3));
                waker.wake();
                hands.advance(Duration::from_millis(1));
            }
            input.end();
            waker.wake();
        })
    }

    /// Reads until the end.
    fn read(&self) -> Vec<RecordBatch> {
        let mut read = Vec::new();
        while let Some(batch) = self.output.next() {
            if self.unread.read(&batch) {
                self.waker.wake();
            }
            read.push(batch);
        }
        read
    }
}

/// So many workers, whose clock is in somebody's hands.
fn pool(workers: usize, policy: &str) -> (Pool, Arc<Hands>) {
    let hands = Arc::new(Hands::default());
    let pool = Pool::new(workers, Clock::Manual(hands.clone()));
    pool.set_policy(PolicyName::named(policy).expect("it is one of them"));
    (pool, hands)
}

/// Rows of a stream leave as they came, whoever computes which of its blocks.
fn stream(policy: &str, data_passing: DataPassing) {
    let (pool, hands) = pool(2, policy);
    let running = Running::start(&pool, false, data_passing);
    let feeder = running.feed(3, &hands);
    assert_eq!(numbers(&running.read()), Vec::from_iter(0..9));
    feeder.join().unwrap();
    assert_eq!(running.run.wait().expect("nothing fails").sources[0].rows, 9);
}

#[test]
fn blocks_leave_in_their_order() {
    check(|| stream("adaptive", DataPassing::Blocks));
}

#[test]
fn events_leave_in_their_order() {
    check(|| stream("adaptive", DataPassing::Queues));
}

#[test]
fn blocks_pass_from_thread_to_thread() {
    check(|| stream("threads", DataPassing::Blocks));
}

#[test]
fn events_pass_from_thread_to_thread() {
    check(|| stream("threads", DataPassing::Queues));
}

/// What several workers have of a slice is in its window, once.
#[test]
fn windows_have_their_rows() {
    check(|| {
        let (pool, hands) = pool(2, "adaptive");
        let running = Running::start(&pool, true, DataPassing::Blocks);
        let feeder = running.feed(4, &hands);
        let read = running.read();
        let ends: Vec<i64> =
            read.iter().flat_map(|batch| batch.column(1).as_primitive::<Int64Type>().values().to_vec()).collect();
        assert!(ends.is_sorted(), "{ends:?}");
        let mut rows: Vec<(i64, i64)> = ends.into_iter().zip(numbers(&read)).collect();
        rows.sort_unstable();
        assert_eq!(rows, Vec::from_iter((0..12).map(|number| (number / WINDOW * WINDOW + WINDOW, number))));
        feeder.join().unwrap();
        assert!(running.run.wait().is_ok());
    });
}

/// What waits in front of the outputs leaves, and the rest is not read.
#[test]
fn a_run_that_is_drained_or_aborted_ends() {
    check(|| {
        let (pool, hands) = pool(2, "adaptive");
        let runs = [(); 2].map(|()| Running::start(&pool, false, DataPassing::Blocks));
        let feeders = runs.each_ref().map(|running| running.feed(2, &hands));
        let [drained, aborted] = runs;
        let (drain, abort) = (drained.run.handle(), aborted.run.handle());
        let stopper = thread::spawn(move || {
            drain.drain();
            abort.abort();
        });
        let read = numbers(&drained.read());
        assert_eq!(read, Vec::from_iter(0..read.len() as i64));
        assert!(drained.run.wait().is_ok());
        assert!(aborted.run.wait().is_ok());
        stopper.join().unwrap();
        feeders.into_iter().for_each(|feeder| feeder.join().unwrap());
    });
}
