//! Joins of two tables that several queries have: from the second query on, they run once for all.
//!
//! A query that is the only one with its join runs it itself. Those that are added while it runs read the pairs of a run that belongs to none of them, through an exchange like
//! that of a table; it ends with the last of them. Each query sees the pairs of windows that began behind all rows that were read before it was added, as it would alone.

use std::any::Any;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use futures_core::Stream;
use pelton_data::Micros;
use pelton_data::block::ticks;
use pelton_data::time::WATERMARK_MIN;
use pelton_plan::parse::TableDefinition;
use pelton_plan::pipeline::{Program, SourceUse};
use pelton_plan::shared_join::SharedJoin;
use pelton_runtime::budget::Budget;
use pelton_runtime::exchange::{Bell, Exchange, OnLag, Seen, Subscriber, SubscriberState, WeakExchange};
use pelton_runtime::run::{RunHandle, WeakRunHandle};
use pelton_runtime::source::{Read, Ready, Rows, Source, SourceError, read_as_chunk};
use pelton_runtime::wake::Waker;

use crate::error::Error;
use crate::query::Query;
use crate::settings::Reading;
use crate::wrapped_source::WrappedSource;

/// Batches of pairs that are handed on at once at most.
const BATCHES_AT_ONCE_MAX: usize = 16;

/// How long to wait for pairs at most. The run wakes who waits when there are some.
const PAIRS_WAIT: Duration = Duration::from_millis(100);

/// The joins of an engine's queries. Clones are the same ones.
#[derive(Clone, Default)]
pub(crate) struct SharedJoins(Arc<Mutex<Vec<Alike>>>);

/// Joins that make the same pairs.
struct Alike {
    join: SharedJoin,
    inputs: Inputs,
    /// Queries that run it themselves.
    alone: Vec<Weak<RunsAlone>>,
    producers: Vec<Weak<JoinProducer>>,
}

/// What a join reads: equal where it reads the same rows.
pub(crate) struct Inputs {
    pub tables: [InputTable; 2],
    pub reading: Reading,
}

/// A table that is joined.
pub(crate) struct InputTable {
    pub definition: TableDefinition,
    /// Where the program itself pushes its rows.
    pub pushed: Option<Weak<dyn Any + Send + Sync>>,
}

/// Who reads pairs.
pub(crate) struct PairsReader<'a> {
    /// The query, for people.
    pub name: &'a str,
    pub on_lag: OnLag,
    pub waker: &'a Waker,
}

/// A query that runs its join itself, as long as it is held.
pub(crate) struct RunsAlone;

/// A join that runs for several queries, as long as one of them holds it.
pub(crate) struct JoinProducer {
    join: Arc<SharedJoin>,
    /// Locked while the run is started.
    production: Mutex<Production>,
}

/// What makes the pairs, as long as it lasts.
#[derive(Default)]
struct Production {
    exchange: WeakExchange,
    run: Option<WeakRunHandle>,
}

/// A join that runs for several queries.
pub(crate) struct JoinState {
    pub name: String,
    pub run: RunHandle,
    /// Those that read its pairs.
    pub subscribers: Vec<SubscriberState>,
}

impl PartialEq for Inputs {
    fn eq(&self, other: &Inputs) -> bool {
        let is_same = |(one, other): (&InputTable, &InputTable)| {
            let is_same_push = match (&one.pushed, &other.pushed) {
                (Some(one), Some(other)) => std::ptr::addr_eq(one.as_ptr(), other.as_ptr()),
                (one, other) => one.is_none() && other.is_none(),
            };
            is_same_push && one.definition == other.definition
        };
        self.reading == other.reading && self.tables.iter().zip(&other.tables).all(is_same)
    }
}

impl Alike {
    fn is_of(&self, join: &SharedJoin, inputs: &Inputs) -> bool {
        self.join.is_alike(join) && self.inputs == *inputs
    }

    fn running(&self) -> Vec<Arc<JoinProducer>> {
        self.producers.iter().filter_map(Weak::upgrade).collect()
    }
}

impl SharedJoins {
    fn all(&self) -> MutexGuard<'_, Vec<Alike>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain_mut(|alike| {
            alike.alone.retain(|query| query.strong_count() > 0);
            alike.producers.retain(|producer| producer.strong_count() > 0);
            !alike.alone.is_empty() || !alike.producers.is_empty()
        });
        all
    }

    /// Whether a query runs that has the join.
    pub fn has_alike(&self, join: &SharedJoin, inputs: &Inputs) -> bool {
        self.all().iter().any(|alike| alike.is_of(join, inputs))
    }

    /// Who makes the pairs for a query, where another one runs that has the join.
    pub fn producer(&self, join: &SharedJoin, inputs: &Inputs) -> Option<Arc<JoinProducer>> {
        let mut all = self.all();
        let alike = all.iter_mut().find(|alike| alike.is_of(join, inputs))?;
        let running = alike.running();
        if let Some(found) = running.iter().find(|producer| producer.join.covers(join)) {
            return Some(found.clone());
        }
        // Queries that are added later read the widest.
        let wide = running.iter().fold(join.clone(), |join, producer| join.with(&producer.join));
        let producer = Arc::new(JoinProducer { join: Arc::new(wide), production: Mutex::default() });
        alike.producers.push(Arc::downgrade(&producer));
        Some(producer)
    }

    /// Notes a query that runs its join itself as long as what is returned is held.
    pub fn run_alone(&self, join: &SharedJoin, inputs: Inputs) -> Arc<RunsAlone> {
        let query = Arc::new(RunsAlone);
        let mut all = self.all();
        match all.iter_mut().find(|alike| alike.is_of(join, &inputs)) {
            Some(alike) => alike.alone.push(Arc::downgrade(&query)),
            None => {
                let alone = vec![Arc::downgrade(&query)];
                all.push(Alike { join: join.clone(), inputs, alone, producers: Vec::new() });
            }
        }
        query
    }

    /// The joins that run.
    pub fn states(&self) -> Vec<JoinState> {
        let running: Vec<_> = self.all().iter().flat_map(Alike::running).collect();
        let state = |producer: &Arc<JoinProducer>| {
            // One that is being started has no queries yet.
            let production = producer.production.try_lock().ok()?;
            let (exchange, run) = (production.exchange.upgrade()?, production.run.as_ref()?.upgrade()?);
            Some(JoinState { name: producer.join.name(), run, subscribers: exchange.subscribers() })
        };
        running.iter().filter_map(state).collect()
    }
}

impl JoinProducer {
    /// What it makes.
    pub fn join(&self) -> &Arc<SharedJoin> {
        &self.join
    }

    /// The pairs of windows that begin from now on. `start` starts a program where the join does not run yet, and `exchanges` has what is read of its tables then.
    ///
    /// # Errors
    /// That of `start`.
    pub fn subscribe(
        self: &Arc<Self>,
        used: &SourceUse,
        reader: &PairsReader<'_>,
        budget: &Budget,
        start: impl FnOnce(&str, Program) -> Result<Query, Error>,
        exchanges: impl FnOnce(&SharedJoin) -> Vec<Exchange>,
    ) -> Result<Box<dyn Source>, Error> {
        let mut production = self.production.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match production.exchange.upgrade() {
            Some(found) => found,
            None => {
                let (bell, name) = (Bell::default(), self.join.name());
                let query = start(&name, self.join.producer())?;
                production.run = Some(query.weak());
                let (query, waker) = (Some(query), bell.waker());
                let pairs = Pairs { name, query, waker, watermark: None, ended: None };
                Exchange::new(&used.table, Box::new(pairs), (&used.columns, None), bell, budget.clone())
            }
        };
        production.exchange = found.downgrade();
        let lease: Box<dyn Any + Send> = Box::new(self.clone());
        let source = found.subscribe(Subscriber {
            name: reader.name.to_owned(),
            waker: reader.waker.clone(),
            columns: used.columns.clone(),
            schema: used.schema.clone(),
            on_lag: reader.on_lag,
            member: None,
            lease: Some(lease),
        });
        // Rows that are read from now on make pairs that are read from it.
        let seen = exchanges(&self.join).iter().map(Exchange::seen).collect();
        Ok(beginning_behind(source, &self.join, seen))
    }
}

/// Leaves out pairs of windows that had begun when this had been read of the tables.
fn beginning_behind(source: Box<dyn Source>, join: &Arc<SharedJoin>, seen: Vec<Seen>) -> Box<dyn Source> {
    let begun = Arc::new(Begun {
        join: join.clone(),
        seen: Mutex::new(seen),
        time_max: OnceLock::new(),
        are_all_later: AtomicBool::new(false),
    });
    let first = begun.clone();
    let wrapped = WrappedSource::new(source, move |read, _| {
        let begun = begun.clone();
        Ok(match read {
            Read::Chunk(chunk) if !begun.are_all_later.load(Ordering::Relaxed) => Read::Chunk(Box::new(move || {
                let mut decoded = chunk()?;
                let batches = decoded.rows.into_batches();
                decoded.rows = Rows::Batches(batches.into_iter().map(|batch| begun.later(batch)).collect());
                Ok(decoded)
            })),
            other => other,
        })
    });
    // What is behind the join leaves out the windows that it leaves out where it has the join to itself.
    Box::new(wrapped.beginning_behind(Box::new(move || Some(first.time_max()).filter(|&time| time > WATERMARK_MIN))))
}

/// Windows that had begun when a query was added.
struct Begun {
    join: Arc<SharedJoin>,
    /// What had been read, until the largest event time of that is known.
    seen: Mutex<Vec<Seen>>,
    time_max: OnceLock<Micros>,
    /// Windows are reported in order: once one has been seen that is later, all are.
    are_all_later: AtomicBool,
}

impl Begun {
    /// The largest event time of what had been read.
    fn time_max(&self) -> Micros {
        *self.time_max.get_or_init(|| {
            let seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
            seen.into_iter().map(Seen::time_max).max().unwrap_or(WATERMARK_MIN)
        })
    }

    /// The pairs of windows that began later.
    fn later(&self, batch: RecordBatch) -> RecordBatch {
        let time_max = self.time_max();
        let time = self.join.result_time();
        let times = ticks(batch.column(time.index));
        let is_later =
            |tick: &i64| time_max == WATERMARK_MIN || self.join.began(tick * time.micros_per_tick) > time_max;
        // The first pairs of all are of the earliest window.
        if times.values().first().is_none_or(is_later) {
            self.are_all_later.fetch_or(batch.num_rows() > 0, Ordering::Relaxed);
            return batch;
        }
        let later: BooleanArray = times.values().iter().map(|tick| Some(is_later(tick))).collect();
        filter_record_batch(&batch, &later).expect("there is a bit for each row")
    }
}

/// The pairs of a join that runs for several queries.
struct Pairs {
    name: String,
    query: Option<Query>,
    waker: std::task::Waker,
    /// How far time has come with what has been read of it.
    watermark: Option<Micros>,
    /// How the run has ended, once it has.
    ended: Option<Result<(), SourceError>>,
}

impl Source for Pairs {
    fn partitions(&self) -> usize {
        1
    }

    fn read(&mut self, partition: usize) -> Result<Read, SourceError> {
        read_as_chunk(self, partition)
    }

    fn watermark(&self, _partition: usize) -> Option<Micros> {
        self.watermark
    }

    fn read_ready(&mut self, _partition: usize, ready: &mut Ready) -> Result<Option<Read>, SourceError> {
        let Pairs { name, query: Some(query), waker, watermark, ended } = self else {
            return Ok(Some(Read::End));
        };
        let mut context = Context::from_waker(waker);
        let mut must_wait = false;
        while ended.is_none() && !must_wait && ready.batches.len() < BATCHES_AT_ONCE_MAX {
            match Pin::new(&mut *query).poll_next(&mut context) {
                Poll::Ready(Some(Ok(batch))) => ready.batches.push(batch),
                Poll::Ready(Some(Err(error))) => {
                    *ended = Some(Err(SourceError::Input { place: name.clone(), problem: error.to_string() }));
                }
                Poll::Ready(None) => *ended = Some(Ok(())),
                Poll::Pending => must_wait = true,
            }
        }
        let told = query.watermark().or(*watermark);
        let has_told = std::mem::replace(watermark, told) != told;
        match ended {
            // The end is seen behind the last pairs, and how far time has come.
            _ if !ready.batches.is_empty() || has_told => Ok(None),
            Some(ended) => ended.clone().map(|()| Some(Read::End)),
            None => Ok(Some(Read::Wait(PAIRS_WAIT))),
        }
    }
}

/// A run is waited for when it is dropped, which the worker must not that has ended the last of its queries: it may be the one that ends it.
impl Drop for Pairs {
    fn drop(&mut self) {
        if let Some(query) = self.query.take() {
            query.control().abort();
            std::thread::spawn(move || drop(query));
        }
    }
}
