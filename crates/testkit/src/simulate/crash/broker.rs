//! A broker in memory: topics of partitions, and transactions, as far as a job that writes exactly once needs them.
//!
//! As with a real one, the transaction of a process that has died is aborted by the next producer of its name, unless it had been committed, which may take effect later than
//! it is told. A marker that is written with the rows says which transaction was committed last.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Flaw;
use super::power::{Power, failure};

/// A row.
pub(super) type Values = Vec<i64>;

/// A broker. Clones are the same one.
#[derive(Clone)]
pub(super) struct Broker {
    pub power: Power,
    pub flaw: Flaw,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The partitions of each topic: rows, and the numbers of their transactions.
    topics: BTreeMap<String, Vec<Vec<(usize, Values)>>>,
    transactions: Vec<Transaction>,
    producers: BTreeMap<String, Producer>,
    outcomes: Vec<String>,
}

struct Transaction {
    stage: Stage,
    /// The marker in it.
    marker: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// It will be committed.
    Committing,
    Committed,
    Aborted,
}

/// The producers of one name, of which only the last one counts.
#[derive(Default)]
struct Producer {
    epoch: u64,
    transaction: Option<usize>,
    marker: String,
}

/// A producer that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub name: String,
    epoch: u64,
}

impl State {
    /// Its transaction takes its effect, or is aborted where none was asked for.
    fn settle(&mut self, name: &str) {
        let producer = self.producers.entry(name.to_owned()).or_default();
        let Some(number) = producer.transaction.take() else { return };
        let transaction = &mut self.transactions[number];
        match transaction.stage {
            Stage::Open => transaction.stage = Stage::Aborted,
            Stage::Committing => {
                transaction.stage = Stage::Committed;
                producer.marker = transaction.marker.clone().unwrap_or_default();
            }
            Stage::Committed | Stage::Aborted => {}
        }
    }

    /// The transaction of a producer that counts still.
    fn transaction(&mut self, session: &Session) -> io::Result<usize> {
        let producer = &self.producers[&session.name];
        match producer.transaction {
            Some(transaction) if producer.epoch == session.epoch => Ok(transaction),
            _ => Err(io::Error::other("another producer has begun with the same name")),
        }
    }
}

impl Broker {
    /// With topics of so many partitions.
    pub fn new(power: &Power, flaw: Flaw, topics: impl Iterator<Item = (String, usize)>) -> Broker {
        let topics = topics.map(|(name, partitions)| (name, vec![Vec::new(); partitions])).collect();
        let state = State { topics, ..State::default() };
        Broker { power: power.clone(), flaw, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows of committed transactions in each partition of a topic.
    pub fn committed(&self, topic: &str) -> Vec<Vec<Values>> {
        let state = self.state();
        let is_visible =
            |transaction: usize| matches!(state.transactions[transaction].stage, Stage::Committing | Stage::Committed);
        let rows = |partition: &Vec<(usize, Values)>| {
            partition.iter().filter(|(transaction, _)| is_visible(*transaction)).map(|(_, row)| row.clone()).collect()
        };
        state.topics[topic].iter().map(rows).collect()
    }

    /// What jobs were told of transactions of processes that had died.
    pub fn outcomes(&self) -> Vec<String> {
        self.state().outcomes.clone()
    }

    pub fn note_outcome(&self, outcome: &str) {
        self.state().outcomes.push(format!("a transaction {outcome} before the process died"));
    }

    /// Begins a producer. Those of the same name before it cannot do anything any more.
    pub fn init(&self, name: &str) -> io::Result<Session> {
        let outcome = self.power.outcome();
        let mut state = self.state();
        if outcome.has_effect() {
            match self.flaw {
                // Whoever has died goes on.
                Flaw::TransactionsAreNotFenced => {
                    if let Some(number) = state.producers.get(name).and_then(|producer| producer.transaction) {
                        state.transactions[number].stage = Stage::Committing;
                    }
                    state.settle(name);
                }
                _ => state.settle(name),
            }
            state.producers.entry(name.to_owned()).or_default().epoch += 1;
        }
        let epoch = state.producers.get(name).map_or(0, |producer| producer.epoch);
        outcome.told(Session { name: name.to_owned(), epoch })
    }

    /// Begins a transaction.
    pub fn begin(&self, session: &Session) -> io::Result<()> {
        let outcome = self.power.outcome();
        if outcome.has_effect() {
            let mut state = self.state();
            state.settle(&session.name);
            let number = state.transactions.len();
            state.transactions.push(Transaction { stage: Stage::Open, marker: None });
            let producer = state.producers.get_mut(&session.name).expect("it has begun");
            assert_eq!(producer.epoch, session.epoch, "one job runs at a time");
            producer.transaction = Some(number);
        }
        outcome.told(())
    }

    /// Writes rows in a transaction, each with its partition.
    pub fn write(&self, session: &Session, topic: &str, rows: Vec<(usize, Values)>) -> io::Result<()> {
        let outcome = self.power.outcome();
        // What fails may have written the first of them.
        let count = if outcome.has_effect() { rows.len() } else { self.power.below(rows.len() + 1) };
        if !self.power.is_off() || outcome.has_effect() {
            let mut state = self.state();
            let transaction = state.transaction(session)?;
            let partitions = state.topics.get_mut(topic).expect("it is there");
            rows.into_iter().take(count).for_each(|(partition, row)| partitions[partition].push((transaction, row)));
        }
        outcome.told(())
    }

    /// Commits a transaction with a marker. It may take its effect later, and asking again is harmless.
    pub fn commit(&self, session: &Session, marker: &str) -> io::Result<()> {
        if self.power.is_off() {
            return Err(failure());
        }
        let outcome = self.power.outcome();
        if outcome.has_effect() {
            let mut state = self.state();
            let number = state.transaction(session)?;
            let transaction = &mut state.transactions[number];
            transaction.marker = Some(marker.to_owned());
            if transaction.stage == Stage::Open {
                transaction.stage = Stage::Committing;
            }
        }
        outcome.told(())
    }

    /// Aborts the transaction of a producer that ends.
    pub fn abort(&self, session: &Session) {
        if self.power.outcome().has_effect() {
            let mut state = self.state();
            if state.producers[&session.name].epoch == session.epoch {
                state.settle(&session.name);
            }
        }
    }

    /// The marker of the transaction that was committed last.
    pub fn marker(&self, name: &str) -> io::Result<String> {
        self.power.reads()?;
        Ok(self.state().producers.get(name).map(|producer| producer.marker.clone()).unwrap_or_default())
    }
}
