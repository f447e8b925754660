//! A topic that a job writes exactly once: the sink, and the transaction of the job. They do what those of Kafka do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use arrow::array::RecordBatch;
use pelton::simulation::{ConnectorError, Host, JobTransaction, ProvidedTable, Transaction, TransactionOutcome};
use pelton_runtime::sink::{Sink, SinkError};
use pelton_runtime::source::Source;

use super::super::client::values_of;
use super::Flaw;
use super::broker::{Broker, Session, Values};

/// The name of the job's producer.
const PRODUCER: &str = "job";

/// How often a commit is tried.
const COMMIT_ATTEMPTS_MAX: usize = 3;

/// A topic.
pub(super) struct Topic {
    pub name: String,
    pub partitions: usize,
    pub broker: Broker,
}

impl Topic {
    /// The partition that a row is written to.
    pub fn partition_of(row: &Values, partitions: usize) -> usize {
        row.iter().fold(0i64, |sum, value| sum.wrapping_mul(31).wrapping_add(*value)).rem_euclid(partitions as i64)
            as usize
    }
}

impl ProvidedTable for Topic {
    fn source(&self, _: &[usize], _: Host) -> Result<Box<dyn Source>, ConnectorError> {
        unreachable!("it is written")
    }

    fn sink(&self, host: Host) -> Result<Box<dyn Sink>, ConnectorError> {
        let job = host.committed_by.expect("it has checkpoints");
        let open = || Ok(TopicTransaction::new(&self.broker, &self.name, host.waker));
        let transaction = JobTransaction::join(&job.transaction, open, |_| Ok(()))?;
        Ok(Box::new(TopicSink { topic: self.name.clone(), partitions: self.partitions, transaction }))
    }
}

/// The transactions of a job, one after the other.
struct TopicTransaction {
    broker: Broker,
    table: String,
    waker: Option<Waker>,
    progress: Mutex<Progress>,
}

struct Progress {
    session: Option<Session>,
    stage: Stage,
    /// The present transaction of this run.
    number: u64,
    /// The marker that was committed last.
    marker: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Closed,
    Open,
    Prepared,
}

impl Progress {
    fn session(&self) -> &Session {
        self.session.as_ref().expect("it was fenced")
    }

    /// What the present transaction is called.
    fn name(&self) -> String {
        format!("{:?}.{}", self.session(), self.number)
    }

    fn committed(&mut self, name: String) {
        (self.stage, self.number, self.marker) = (Stage::Closed, self.number + 1, name);
    }
}

impl TopicTransaction {
    fn new(broker: &Broker, table: &str, waker: Option<Waker>) -> TopicTransaction {
        let progress = Progress { session: None, stage: Stage::Closed, number: 0, marker: String::new() };
        TopicTransaction { broker: broker.clone(), table: table.to_owned(), waker, progress: Mutex::new(progress) }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows can be written again.
    fn wake(&self) {
        self.waker.iter().for_each(Waker::wake_by_ref);
    }

    /// Commits the present transaction, after some attempts if need be.
    fn end(&self, progress: &mut Progress) -> Result<(), std::io::Error> {
        let name = progress.name();
        let mut tried = Ok(());
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            tried = self.broker.commit(progress.session(), &name);
            if tried.is_ok() {
                progress.committed(name);
                break;
            }
        }
        tried
    }

    fn open_for_rows(&self) -> Result<Session, std::io::Error> {
        let mut progress = self.progress();
        assert_ne!(progress.stage, Stage::Prepared, "no rows are taken until the checkpoint is complete");
        if progress.stage == Stage::Closed {
            self.broker.begin(progress.session())?;
            progress.stage = Stage::Open;
        }
        Ok(progress.session().clone())
    }

    fn stage(&self) -> Stage {
        self.progress().stage
    }
}

fn refused(error: std::io::Error) -> ConnectorError {
    ConnectorError::Place { place: PRODUCER.to_owned(), problem: error.to_string() }
}

fn failed(problem: impl ToString) -> SinkError {
    SinkError { place: PRODUCER.to_owned(), problem: problem.to_string() }
}

impl Transaction for TopicTransaction {
    fn table(&self) -> &str {
        &self.table
    }

    fn fence(&self) -> Result<(), ConnectorError> {
        let session = self.broker.init(PRODUCER).map_err(refused)?;
        self.progress().session = Some(session);
        Ok(())
    }

    fn outcome(&self, prepared: &str) -> Result<TransactionOutcome, ConnectorError> {
        let marker = self.broker.marker(PRODUCER).map_err(refused)?;
        let (own, before) = prepared.split_once('|').expect("it was prepared here");
        if marker != own && marker != before {
            return Ok(TransactionOutcome::Unknown(format!("the marker is {marker}")));
        }
        if marker == before || self.broker.flaw == Flaw::OutcomesAreForgotten {
            self.broker.note_outcome("was not committed");
            return Ok(TransactionOutcome::Aborted);
        }
        self.broker.note_outcome("was committed");
        Ok(TransactionOutcome::Committed)
    }

    fn begin(&self, _: u64) -> Result<(), ConnectorError> {
        let mut progress = self.progress();
        self.broker.begin(progress.session()).and_then(|()| self.end(&mut progress)).map_err(refused)
    }

    fn prepared(&self) -> Option<String> {
        let progress = self.progress();
        if progress.stage != Stage::Prepared {
            return None;
        }
        if self.broker.flaw == Flaw::CommitsComeEarly {
            // What comes of it is found out later.
            let _ = self.broker.commit(progress.session(), &progress.name());
        }
        Some(format!("{}|{}", progress.name(), progress.marker))
    }

    fn commit(&self, _: u64, _: &dyn Fn() -> bool) -> Result<(), SinkError> {
        self.end(&mut self.progress()).map_err(failed)?;
        self.wake();
        Ok(())
    }

    fn reopen(&self) {
        let mut progress = self.progress();
        if progress.stage == Stage::Prepared {
            progress.stage = Stage::Open;
            drop(progress);
            self.wake();
        }
    }
}

impl Drop for TopicTransaction {
    fn drop(&mut self) {
        let progress = self.progress();
        if let Some(session) = progress.session.as_ref().filter(|_| progress.stage != Stage::Closed) {
            self.broker.abort(session);
        }
    }
}

struct TopicSink {
    topic: String,
    partitions: usize,
    transaction: Arc<TopicTransaction>,
}

impl Sink for TopicSink {
    fn is_ready(&self) -> bool {
        self.transaction.stage() != Stage::Prepared
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        let session = self.transaction.open_for_rows().map_err(failed)?;
        let rows = values_of(rows).map_err(failed)?;
        let rows = rows.into_iter().map(|row| (Topic::partition_of(&row, self.partitions), row)).collect();
        self.transaction.broker.write(&session, &self.topic, rows).map_err(failed)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn prepare(&mut self) -> Result<Option<String>, SinkError> {
        let mut progress = self.transaction.progress();
        if progress.stage == Stage::Open {
            progress.stage = Stage::Prepared;
        }
        Ok(None)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        match self.transaction.stage() {
            Stage::Closed => Ok(()),
            Stage::Open | Stage::Prepared => Err(failed("rows were written behind the last checkpoint")),
        }
    }
}
