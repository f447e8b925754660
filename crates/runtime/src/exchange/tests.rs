use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};

use super::subscription::read_together;
use super::*;
use crate::source::{Decoded, Position, Read, Ready};
use crate::testing::{Fed, FedSource, fed};
use crate::wake::Rest;

fn schema(columns: &[usize]) -> SchemaRef {
    let fields = columns.iter().map(|column| Field::new(format!("c{column}"), DataType::Int64, false));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// A row: column `c` has the value `10 * row + c`.
fn row(columns: &[usize], row: i64) -> RecordBatch {
    let values = columns.iter().map(|&column| Arc::new(Int64Array::from(vec![10 * row + column as i64])) as _);
    RecordBatch::try_new(schema(columns), values.collect()).unwrap()
}

fn subscriber(columns: &[usize], on_lag: OnLag) -> Subscriber {
    Subscriber {
        name: format!("{columns:?}"),
        waker: Waker::new(Rest::new(1)),
        columns: columns.to_vec(),
        schema: schema(columns),
        on_lag,
        member: None,
        lease: None,
    }
}

/// The rows of one read, or how it ended.
fn read(source: &mut dyn Source, partition: usize) -> Result<Vec<Vec<i64>>, String> {
    let mut ready = Ready::default();
    let batches = match source.read_ready(partition, &mut ready).map_err(|error| error.to_string())? {
        None => ready.batches,
        Some(Read::Chunk(chunk)) => chunk().map_err(|error| error.to_string())?.rows.into_batches(),
        Some(Read::Wait(_)) => return Err("wait".to_owned()),
        Some(Read::End) => return Err("end".to_owned()),
    };
    Ok(batches.iter().map(values).collect())
}

fn values(batch: &RecordBatch) -> Vec<i64> {
    batch.columns().iter().flat_map(|column| column.as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn exchange(partitions: usize) -> (Exchange, Fed) {
    let fed = fed(partitions);
    let source = Box::new(FedSource(fed.clone()));
    let time = TimeColumn::new(1, &DataType::Int64);
    (Exchange::new("t", source, (&[0, 1, 2], time), Bell::default(), Budget::default()), fed)
}

fn feed(fed: &Fed, partition: usize, number: i64) {
    fed.lock().unwrap().0[partition].push_back(row(&[0, 1, 2], number));
}

fn waits() -> Result<Vec<Vec<i64>>, String> {
    Err("wait".to_owned())
}

#[test]
fn each_subscriber_has_the_rows_that_are_read_after_it_came() {
    let (exchange, fed) = exchange(2);
    let mut all = exchange.subscribe(subscriber(&[0, 1, 2], OnLag::Wait));
    feed(&fed, 0, 1);
    assert_eq!(read(&mut *all, 0), Ok(vec![vec![10, 11, 12]]));
    let mut some = exchange.subscribe(subscriber(&[2, 0], OnLag::Wait));
    assert_eq!((read(&mut *some, 0), read(&mut *some, 1)), (waits(), waits()));
    feed(&fed, 0, 2);
    feed(&fed, 1, 3);
    // Whoever asks first reads for both.
    assert_eq!(read(&mut *some, 0), Ok(vec![vec![22, 20]]));
    assert_eq!(read(&mut *all, 1), Ok(vec![vec![30, 31, 32]]));
    assert_eq!(read(&mut *all, 0), Ok(vec![vec![20, 21, 22]]));
    assert_eq!(read(&mut *some, 1), Ok(vec![vec![32, 30]]));
    assert_eq!((read(&mut *some, 0), read(&mut *all, 1)), (waits(), waits()));
    let states = exchange.subscribers();
    let states: Vec<_> =
        states.iter().map(|state| (&*state.name, state.columns, state.chunks_waiting, state.group.is_some())).collect();
    assert_eq!(states, [("[0, 1, 2]", 3, 0, false), ("[2, 0]", 2, 0, false)]);
    drop(all);
    // Its slot is used again, and what waited for it is gone.
    feed(&fed, 0, 4);
    assert_eq!(read(&mut *some, 0), Ok(vec![vec![42, 40]]));
    let mut next = exchange.subscribe(subscriber(&[1], OnLag::Wait));
    assert_eq!(read(&mut *next, 0), waits());
    fed.lock().unwrap().1 = true;
    feed(&fed, 1, 5);
    assert_eq!(read(&mut *next, 1), Ok(vec![vec![51]]));
    assert_eq!(read(&mut *next, 1), Err("end".to_owned()));
    // An end comes behind what waits.
    assert_eq!(read(&mut *some, 1), Ok(vec![vec![52, 50]]));
    assert_eq!(read(&mut *some, 1), Err("end".to_owned()));
    let found = exchange.downgrade();
    drop((exchange, some));
    assert!(found.upgrade().is_some());
    drop(next);
    assert!(found.upgrade().is_none());
}

#[test]
fn others_wait_for_a_subscriber_or_it_fails() {
    let (exchange, fed) = exchange(1);
    let mut fast = exchange.subscribe(subscriber(&[0], OnLag::Wait));
    let mut slow = exchange.subscribe(subscriber(&[0], OnLag::Wait));
    let count = CHUNKS_WAITING_MAX as i64;
    (0..2 * count + 2).for_each(|number| feed(&fed, 0, number));
    for number in 0..count {
        assert_eq!(read(&mut *fast, 0), Ok(vec![vec![10 * number]]));
    }
    assert_eq!(read(&mut *fast, 0), waits());
    assert_eq!(exchange.subscribers()[1].chunks_waiting, CHUNKS_WAITING_MAX);
    assert_eq!(read(&mut *slow, 0), Ok(vec![vec![0]]));
    assert_eq!(read(&mut *fast, 0), Ok(vec![vec![10 * count]]));
    assert_eq!(read(&mut *fast, 0), waits());
    drop(slow);
    let mut failing = exchange.subscribe(subscriber(&[0], OnLag::Fail));
    for number in count + 1..2 * count + 2 {
        assert_eq!(read(&mut *fast, 0), Ok(vec![vec![10 * number]]));
    }
    let error = read(&mut *failing, 0).unwrap_err();
    assert!(error.contains("fell more than 16 chunks") && error.contains("'pelton.sharing.on-lag'"), "{error}");
}

#[test]
fn a_chunk_waits_where_memory_is_short() {
    let (fed, budget) = (fed(1), Budget::default());
    budget.limit(1);
    let source = Box::new(FedSource(fed.clone()));
    let exchange = Exchange::new("t", source, (&[0, 1, 2], None), Bell::default(), budget);
    let mut fast = exchange.subscribe(subscriber(&[0], OnLag::Wait));
    let mut other = exchange.subscribe(subscriber(&[0], OnLag::Fail));
    (1..4).for_each(|number| feed(&fed, 0, number));
    assert_eq!((read(&mut *fast, 0), read(&mut *fast, 0)), (Ok(vec![vec![10]]), waits()));
    assert_eq!((read(&mut *other, 0), read(&mut *fast, 0)), (Ok(vec![vec![10]]), Ok(vec![vec![20]])));
}

/// Counts how often its rows are decoded, and can be put anywhere.
struct Numbers {
    columns: Vec<usize>,
    next: u64,
    decoded: Arc<AtomicUsize>,
}

impl Source for Numbers {
    fn partitions(&self) -> usize {
        1
    }

    fn read(&mut self, _partition: usize) -> Result<Read, SourceError> {
        let (number, columns, decoded) = (self.next as i64, self.columns.clone(), self.decoded.clone());
        self.next += 1;
        Ok(Read::Chunk(Box::new(move || {
            decoded.fetch_add(1, Ordering::Relaxed);
            match number {
                3 => Err(SourceError::Input { place: "t".to_owned(), problem: "is broken".to_owned() }),
                4 => panic!("row 4"),
                _ => Ok(Decoded::batch(row(&columns, number))),
            }
        })))
    }

    fn position(&self, _partition: usize) -> Option<Position> {
        Some(Position::of_row(self.next))
    }

    fn seek(&mut self, _partition: usize, position: Position) {
        self.next = position.row;
    }
}

#[test]
fn a_chunk_is_decoded_once_and_fails_for_all() {
    let decoded = Arc::new(AtomicUsize::new(0));
    let source = Numbers { columns: vec![0, 1], next: 0, decoded: decoded.clone() };
    let exchange = Exchange::new("t", Box::new(source), (&[0, 1], None), Bell::default(), Budget::default());
    let mut subscribers: Vec<_> =
        [[0, 1], [1, 0], [0, 1]].iter().map(|columns| exchange.subscribe(subscriber(columns, OnLag::Wait))).collect();
    let mut rows = |number: usize| -> Vec<_> {
        subscribers
            .iter_mut()
            .map(|source| read(&mut **source, 0).map(|rows| rows[0][0] - 10 * number as i64))
            .collect()
    };
    for number in 0..3 {
        assert_eq!(rows(number), [Ok(0), Ok(1), Ok(0)]);
    }
    assert_eq!(decoded.load(Ordering::Relaxed), 3);
    assert_eq!(rows(3), vec![Err("t: is broken".to_owned()); 3]);
    assert_eq!(decoded.load(Ordering::Relaxed), 4);
    // One that panics does so for whoever decodes it; the others are told.
    let [one, two, _] = &mut subscribers[..] else { panic!("there are three") };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read(&mut **one, 0))).is_err());
    let error = read(&mut **two, 0).unwrap_err();
    assert!(error.contains("a query that shares the table has panicked"), "{error}");
    assert_eq!(read(&mut **one, 0), Ok(vec![vec![50, 51]]));
}

#[test]
fn a_source_gets_more_columns_where_it_is() {
    let decoded = Arc::new(AtomicUsize::new(0));
    let open = |columns: &[usize]| Numbers { columns: columns.to_vec(), next: 0, decoded: decoded.clone() };
    let exchange = Exchange::new("t", Box::new(open(&[1])), (&[1], None), Bell::default(), Budget::default());
    let mut one = exchange.subscribe(subscriber(&[1], OnLag::Wait));
    assert_eq!(read(&mut *one, 0), Ok(vec![vec![1]]));
    let widened = exchange.widen(&[2, 1], |columns| {
        assert_eq!(columns, [1, 2]);
        Ok::<_, String>(Box::new(open(columns)) as Box<dyn Source>)
    });
    assert_eq!(widened, Ok(()));
    let mut two = exchange.subscribe(subscriber(&[2, 1], OnLag::Wait));
    assert_eq!(read(&mut *two, 0), Ok(vec![vec![12, 11]]));
    assert_eq!(read(&mut *one, 0), Ok(vec![vec![11]]));
    assert_eq!(exchange.widen(&[2], |_| Err("it has it already")), Ok(()));
    assert_eq!(exchange.widen(&[0], |_| Err("is gone")), Err("is gone"));
    assert_eq!(read(&mut *one, 0), Ok(vec![vec![21]]));
}

/// What is read of it, in turn.
struct Scripted(VecDeque<Result<Read, SourceError>>);

impl Source for Scripted {
    fn partitions(&self) -> usize {
        1
    }

    fn read(&mut self, _partition: usize) -> Result<Read, SourceError> {
        self.0.pop_front().expect("no more is read than there is")
    }
}

fn failure(problem: &str) -> SourceError {
    SourceError::Input { place: "here".to_owned(), problem: problem.to_owned() }
}

#[test]
fn chunks_are_read_as_one_until_there_are_none_or_enough() {
    let chunk = |value: i64| -> Chunk {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        let rows = RecordBatch::try_from_iter([("v", column)]).unwrap();
        Box::new(move || Ok(Decoded::batch(rows)))
    };
    let values_of = |chunk: Chunk| {
        let batches = chunk()?.rows.into_batches();
        Ok::<_, SourceError>(batches.iter().flat_map(values).collect::<Vec<_>>())
    };
    let next = |value| Ok(Read::Chunk(chunk(value)));
    let mut source = Scripted(VecDeque::from([next(2), next(3), next(4), Ok(Read::End), Err(failure("read"))]));
    let (all, behind) = read_together(&mut source, 0, chunk(1), 3);
    assert!(values_of(all) == Ok(vec![1, 2, 3]) && behind.is_none());
    let (all, behind) = read_together(&mut source, 0, chunk(5), 2);
    assert!(values_of(all) == Ok(vec![5, 4]) && behind.is_none());
    let (all, behind) = read_together(&mut source, 0, chunk(6), 3);
    assert!(values_of(all) == Ok(vec![6]) && matches!(behind, Some(Ok(Read::End))));
    let failing: Chunk = Box::new(|| Err(failure("decoded")));
    let (all, behind) = read_together(&mut source, 0, failing, 3);
    assert!(values_of(all) == Err(failure("decoded")) && matches!(behind, Some(Err(_))));
}
