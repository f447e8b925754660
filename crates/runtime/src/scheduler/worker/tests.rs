//! What workers do next, and when they end.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use pelton_data::arrangement::Arrangement;

use super::*;
use crate::clock::{Clock, Hands};
use crate::graph::{Graph, SinkNode, SourceNode, SourceTime, StreamRef};
use crate::output::sink::{Sink, SinkError};
use crate::run::Run;
use crate::scheduler::policy::EPOCH_NS;
use crate::scheduler::pool::Pool;
use crate::source::{Read, Ready, Source, SourceError};

/// A run that writes the rows of a source, if there is one.
fn run_of(source: Option<SourceNode>, sink: Box<dyn Sink>, pool: &Pool) -> Run {
    let inputs = source.iter().map(|_| StreamRef::Source(0)).collect();
    let (name, arrangement) = ("nowhere".to_owned(), Arrangement::default());
    let sinks = vec![SinkNode { name, inputs, arrangement, sink }];
    let sources = source.into_iter().collect();
    let graph = Graph { sources, pipelines: Vec::new(), operators: Vec::new(), sinks };
    Run::start(graph, pool.run_options(), pool)
}

#[test]
fn a_run_in_which_nothing_happens_for_an_epoch_is_left_out_until_something_does() {
    let (pool, _) = Pool::manual(1, Clock::Manual(Arc::new(Hands::default())));
    let runs = [(); 3].map(|()| run_of(None, Box::new(Each(|| {})), &pool));
    let [first, second, third] = runs.each_ref().map(|run| run.handle().0);
    let mut worker = PoolWorker::new(pool.crew().clone(), 0);
    let finds = |run: &Shared, rank, until_ns| run.waker.found(run.waker.seen(), rank, until_ns);
    finds(&first, Rank::NONE, u64::MAX);
    finds(&second, Rank::from_bits(5), u64::MAX);
    finds(&third, Rank::NONE, 10 * EPOCH_NS);
    let mut awake_at = |epoch: u64| {
        worker.know_runs(epoch * EPOCH_NS);
        worker.awake.clone()
    };
    assert_eq!(awake_at(1), [0, 1, 2], "it has been quiet for no epoch");
    assert_eq!(awake_at(2), [1, 2], "the others have a task, or one later");
    second.waker.returned();
    assert_eq!(awake_at(3), [1, 2], "it was not dormant");
    first.waker.wake();
    assert_eq!(awake_at(3), [0, 1, 2]);
    finds(&first, Rank::NONE, u64::MAX);
    pool.crew().served.begin(first.waker.service(), EPOCH_NS);
    assert_eq!([4, 5].map(&mut awake_at), [[0, 1, 2]; 2], "a worker is on it");
    first.waker.service().end(1);
    assert_eq!(awake_at(6), [0, 1, 2]);
    assert_eq!(awake_at(7), [1, 2]);
    let fourth = run_of(None, Box::new(Each(|| {})), &pool);
    assert_eq!(awake_at(7), [1, 2, 3], "a run comes");
    first.waker.returned();
    finds(&first, Rank::NONE, 1_000 * EPOCH_NS);
    assert_eq!([8, 9].map(&mut awake_at), [vec![0, 1, 2, 3], vec![1, 2, 3]]);
    assert_eq!(pool.crew().rest.dormant_until_ns(), 1_000 * EPOCH_NS);
    assert_eq!([999, 1_000].map(&mut awake_at), [vec![1, 2, 3], vec![0, 1, 2, 3]], "there is something to do");
    drop(fourth);
}

/// Does this with each batch.
struct Each<F>(F);

impl<F: FnMut() + Send> Sink for Each<F> {
    fn write(&mut self, _: &RecordBatch) -> Result<(), SinkError> {
        (self.0)();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn a_worker_leaves_a_query_when_another_goes_first() {
    let (pool, _) = Pool::manual(1, Clock::Manual(Arc::new(Hands::default())));
    let runs = [(); 2].map(|()| run_of(None, Box::new(Each(|| {})), &pool));
    let [first, second] = runs.each_ref().map(|run| run.handle().0);
    let mut worker = PoolWorker::new(pool.crew().clone(), 0);
    worker.know_runs(0);
    worker.last = Some(first.waker.clone());
    let rank = Rank::from_bits(5);
    let offers = |rank, until_ns| second.waker.found(second.waker.seen(), rank, until_ns);
    let goes_first = |rank, now_ns| worker.goes_first(&first, rank, now_ns);

    offers(rank, u64::MAX);
    assert_eq!(goes_first(rank, 0), Some((true, u64::MAX)), "a worker stays with a query");
    assert_eq!(goes_first(rank, EPOCH_NS), None, "all are looked at once in an epoch");
    offers(Rank::from_bits(4), u64::MAX);
    assert_eq!(goes_first(rank, 0), None, "the other is more urgent");
    assert_eq!(goes_first(Rank::from_bits(3), 0), Some((true, u64::MAX)), "it is less urgent");
    offers(rank, u64::MAX);
    let served = &pool.crew().served;
    let serve_for_an_epoch = |waker: &Waker| {
        served.begin(waker.service(), EPOCH_NS);
        waker.service().end(EPOCH_NS);
    };
    serve_for_an_epoch(&first.waker);
    assert_eq!(goes_first(rank, 0), None, "the other has been served for fewer epochs");
    serve_for_an_epoch(&second.waker);
    assert_eq!(goes_first(rank, 0), Some((true, u64::MAX)), "both have been served alike");
    offers(Rank::NONE, 70);
    assert_eq!(goes_first(rank, 0), Some((false, 70)), "the other has nothing until then");
    assert_eq!(goes_first(rank, 70), None, "nobody knows what the other has");
    served.begin(second.waker.service(), EPOCH_NS);
    assert_eq!(goes_first(rank, 70), Some((false, u64::MAX)), "another worker is on it, and knows");
}

/// Has one batch, and says with it that nothing more is there, or does not say so.
struct OneBatch {
    asked: Arc<AtomicUsize>,
    says_so: bool,
}

impl Source for OneBatch {
    fn partitions(&self) -> usize {
        1
    }

    fn read(&mut self, _: usize) -> Result<Read, SourceError> {
        unreachable!("rows are there that need no decoding")
    }

    fn read_ready(&mut self, _: usize, ready: &mut Ready) -> Result<Option<Read>, SourceError> {
        const WAIT: Duration = Duration::from_secs(1);
        if self.asked.fetch_add(1, Ordering::Relaxed) > 0 {
            return Ok(Some(Read::Wait(WAIT)));
        }
        ready.batches.push(batch());
        ready.wait = self.says_so.then_some(WAIT);
        Ok(None)
    }
}

fn node_of(source: Box<dyn Source>) -> SourceNode {
    let (name, schema) = ("t".to_owned(), batch().schema());
    SourceNode { name, source, schema, time: SourceTime::None, idle_timeout: None, alignment: None }
}

fn batch() -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    RecordBatch::try_from_iter([("v", values)]).unwrap()
}

#[test]
fn an_input_that_says_that_nothing_more_is_there_is_not_asked_in_vain() {
    for (says_so, asked_at_once) in [(true, 1), (false, 2)] {
        let (pool, mut workers) = Pool::manual(1, Clock::Manual(Arc::new(Hands::default())));
        let asked = Arc::new(AtomicUsize::new(0));
        let source = Box::new(OneBatch { asked: asked.clone(), says_so });
        let run = run_of(Some(node_of(source)), Box::new(Each(|| {})), &pool);
        let mut asked_until_asleep = || {
            while workers.step(0) {}
            asked.load(Ordering::Relaxed)
        };
        assert_eq!(asked_until_asleep(), asked_at_once);
        assert_eq!(run.handle().progress().sources[0].rows, 1);
        run.handle().0.waker.wake();
        assert_eq!(asked_until_asleep(), asked_at_once + 1, "something may be there");
    }
}

/// Has so many batches.
struct Batches(usize);

impl Source for Batches {
    fn partitions(&self) -> usize {
        1
    }

    fn read(&mut self, _: usize) -> Result<Read, SourceError> {
        Ok(Read::End)
    }

    fn read_ready(&mut self, _: usize, ready: &mut Ready) -> Result<Option<Read>, SourceError> {
        ready.batches.extend((0..std::mem::take(&mut self.0)).map(|_| batch()));
        Ok(ready.batches.is_empty().then_some(Read::End))
    }
}

#[test]
fn a_slow_sink_keeps_a_worker_for_no_longer_than_a_task_may_take() {
    let hands = Arc::new(Hands::default());
    let (pool, mut workers) = Pool::manual(1, Clock::Manual(hands.clone()));
    let written = Arc::new(AtomicUsize::new(0));
    let counted = written.clone();
    let slow = Each(move || {
        hands.advance(Duration::from_millis(1));
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let run = run_of(Some(node_of(Box::new(Batches(6)))), Box::new(slow), &pool);
    let mut in_a_task = Vec::new();
    while workers.step(0) {
        in_a_task.push(written.swap(0, Ordering::Relaxed));
    }
    in_a_task.retain(|written| *written > 0);
    assert_eq!(in_a_task, [2, 2, 2], "a task has two milliseconds");
    assert!(run.handle().has_ended());
}

#[test]
fn threads_end_with_the_last_who_has_them() {
    let pool = Pool::new(2, Clock::system());
    let crew = Arc::downgrade(pool.crew());
    let other = pool.clone();
    drop(pool);
    assert!(crew.upgrade().is_some());
    drop(other);
    assert!(crew.upgrade().is_none(), "each thread holds what they share");
}

#[test]
fn a_panic_of_a_worker_fails_the_runs_instead_of_leaving_them() {
    let pool = Pool::new(1, Clock::system());
    let endless = || node_of(Box::new(OneBatch { asked: Arc::default(), says_so: true }));
    let runs = [(); 2].map(|()| run_of(Some(endless()), Box::new(Each(|| {})), &pool));
    let mut worker = PoolWorker::new(pool.crew().clone(), 0);
    // It had just taken a task of one of them.
    let one = runs[0].handle().0;
    one.state().tasks_running += 1;
    worker.taken_of.set(Arc::as_ptr(&one).addr());
    worker.fail_runs(&"an index is out of bounds");
    for run in runs {
        let failure = run.wait().expect_err("it has no end of its own");
        assert_eq!(failure, RunError::Internal("an index is out of bounds".to_owned()));
    }
}
