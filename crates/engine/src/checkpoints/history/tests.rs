//! Checkpoints in a store that fails: what is there is whole, and what was there stays. Those with a transaction count as soon as that is committed.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use pelton_connectors::TransactionOutcome;
use pelton_runtime::checkpoint::OperatorSnapshot;
use pelton_runtime::sink::SinkError;

use super::*;
use crate::error::Error;

/// A store in memory, of which so many further writes succeed. One that fails leaves nothing, or all, where its answer is lost.
#[derive(Default)]
struct Failing {
    values: Mutex<BTreeMap<String, Vec<u8>>>,
    writes_left: Mutex<Option<usize>>,
    written: Mutex<Vec<String>>,
    loses_answers: Mutex<bool>,
}

impl CheckpointStore for Failing {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if let Some(left) = self.writes_left.lock().unwrap().as_mut() {
            let Some(less) = left.checked_sub(1) else {
                if *self.loses_answers.lock().unwrap() {
                    self.values.lock().unwrap().insert(name.to_owned(), bytes.to_owned());
                }
                return Err(io::Error::other("the disk is full"));
            };
            *left = less;
        }
        self.values.lock().unwrap().insert(name.to_owned(), bytes.to_owned());
        self.written.lock().unwrap().push(name.to_owned());
        Ok(())
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        self.values.lock().unwrap().get(name).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.values.lock().unwrap().keys().cloned().collect())
    }

    fn remove(&self, names: &[String]) -> io::Result<()> {
        names.iter().for_each(|name| drop(self.values.lock().unwrap().remove(name)));
        Ok(())
    }

    fn place(&self) -> String {
        "store".to_owned()
    }
}

fn run(states: &[&[u8]]) -> RunSnapshot {
    let operator = |(number, state): (usize, &&[u8])| OperatorSnapshot {
        name: number.to_string(),
        state: state.to_vec(),
        stream: Default::default(),
        late_rows: 0,
        began_behind: pelton_data::time::WATERMARK_MIN,
    };
    RunSnapshot { operators: states.iter().enumerate().map(operator).collect(), ..RunSnapshot::default() }
}

fn open(store: &Arc<Failing>) -> Checkpoints {
    Checkpoints::open(store.clone(), "job", "INSERT INTO t SELECT 1", 2).unwrap()
}

const TAKEN: (CheckpointKind, JobStage) = (CheckpointKind::Checkpoint, JobStage::Running);

#[test]
fn pieces_that_are_there_are_not_written_again_and_those_of_no_checkpoint_go() {
    let store = Arc::new(Failing::default());
    let mut checkpoints = open(&store);
    let large = vec![7; PIECE_BYTES_MAX + 1];
    for (number, state) in [b"one", b"two", b"two"].iter().enumerate() {
        let written = checkpoints.write(&run(&[&large, *state]), TAKEN, 0, None).unwrap();
        assert_eq!((written.id, written.state_bytes), (number as u64 + 1, PIECE_BYTES_MAX as u64 + 4));
    }
    let states = store.written.lock().unwrap().iter().filter(|name| name.starts_with("state-")).count();
    assert_eq!(states, 2 + 1 + 1, "the large state has two pieces");
    let names = store.list().unwrap();
    assert_eq!(names.iter().filter(|name| name.ends_with(".json")).count(), 2, "{names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("state-")).count(), 3, "the piece 'one' is gone");
    let found = open(&store).load(&RestoreFrom::Latest).unwrap().unwrap();
    assert_eq!((found.id, &found.run.operators[1].state[..]), (3, &b"two"[..]));
    assert_eq!(found.run.operators[0].state, large);
}

#[test]
fn wherever_writing_fails_the_checkpoint_before_it_is_there() {
    for writes in 0..4 {
        let store = Arc::new(Failing::default());
        let mut checkpoints = open(&store);
        checkpoints.write(&run(&[b"a", b"b"]), TAKEN, 0, None).unwrap();
        *store.writes_left.lock().unwrap() = Some(writes);
        let written = checkpoints.write(&run(&[b"c", b"d"]), TAKEN, 0, None);
        // Two pieces and a manifest.
        assert_eq!(written.is_ok(), writes >= 3);
        let found = open(&store).load(&RestoreFrom::Latest).unwrap().unwrap();
        assert_eq!(found.id, if writes >= 3 { 2 } else { 1 }, "after {writes} writes");
        // There is room again.
        *store.writes_left.lock().unwrap() = None;
        let next = checkpoints.write(&run(&[b"e", b"d"]), TAKEN, 0, None).unwrap();
        let found = open(&store).load(&RestoreFrom::Latest).unwrap().unwrap();
        assert_eq!((found.id, &found.run.operators[0].state[..]), (next.id, &b"e"[..]));
    }
}

#[test]
fn what_failed_and_is_there_all_the_same_is_not_the_latest() {
    let store = Arc::new(Failing::default());
    let mut checkpoints = open(&store);
    *store.loses_answers.lock().unwrap() = true;
    // A piece.
    *store.writes_left.lock().unwrap() = Some(1);
    let savepoint = (CheckpointKind::Savepoint, JobStage::Running);
    assert!(matches!(checkpoints.write(&run(&[b"a"]), savepoint, 0, None), Err(Undone::Unwritten(_))));
    assert_eq!(open(&store).load(&RestoreFrom::Latest).unwrap().unwrap().run.operators[0].state, b"a");
    *store.writes_left.lock().unwrap() = None;
    checkpoints.write(&run(&[b"b"]), TAKEN, 0, None).unwrap();
    assert_eq!(open(&store).load(&RestoreFrom::Latest).unwrap().unwrap().run.operators[0].state, b"b");
}

#[test]
fn a_piece_that_is_gone_or_changed_is_told_by_its_name() {
    let store = Arc::new(Failing::default());
    open(&store).write(&run(&[b"state"]), TAKEN, 0, None).unwrap();
    let name = store.list().unwrap().into_iter().find(|name| name.starts_with("state-")).unwrap();
    let problem = || open(&store).load(&RestoreFrom::Latest).unwrap_err().to_string();
    store.values.lock().unwrap().insert(name.clone(), b"stat".to_vec());
    let expected = "does not have the hash that its name tells: it was changed or cut off";
    assert_eq!(problem(), format!("store/{name}: {expected}"));
    store.values.lock().unwrap().remove(&name);
    assert!(problem().starts_with(&format!("store/{name}: ")), "{}", problem());
}

#[test]
fn savepoints_stay_and_numbers_find_checkpoints() {
    let store = Arc::new(Failing::default());
    let mut checkpoints = open(&store);
    checkpoints.write(&run(&[b"0"]), (CheckpointKind::Savepoint, JobStage::Stopped), 0, None).unwrap();
    for state in [b"1", b"2", b"3"] {
        checkpoints.write(&run(&[state]), TAKEN, 0, None).unwrap();
    }
    let state = |from| open(&store).load(&from).map(|found| found.map(|found| found.run.operators[0].state.clone()));
    assert_eq!(state(RestoreFrom::Id(1)), Ok(Some(b"0".to_vec())));
    assert_eq!(state(RestoreFrom::Id(3)), Ok(Some(b"2".to_vec())));
    assert_eq!(state(RestoreFrom::LatestBehind { before: 3, altered_at: 0 }), Ok(Some(b"3".to_vec())));
    assert_eq!(state(RestoreFrom::LatestBehind { before: 4, altered_at: 0 }), Ok(None));
    let missing = state(RestoreFrom::Id(2)).unwrap_err().to_string();
    assert_eq!(missing, "store: has no checkpoint 2 of the job 'job'; there are: 1, 3, 4");
}

/// What a broker does when it is asked to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Commits,
    /// The transaction was aborted.
    Refuses,
    /// The answer is lost.
    CommitsSilently,
}

/// A broker that has the rows 1, 2 and so on of a job, each of which comes before one checkpoint, and the marker of its transactions.
struct Broker {
    answer: Answer,
    visible: Vec<u8>,
    open: Vec<u8>,
    marker: String,
    transactions: usize,
}

impl Broker {
    fn commit(&mut self, own: String) -> Result<(), SinkError> {
        let failed = || Err(SinkError { place: "broker".to_owned(), problem: "away".to_owned() });
        if self.answer == Answer::Refuses {
            self.open.clear();
            return failed();
        }
        self.visible.append(&mut self.open);
        self.marker = own;
        if self.answer == Answer::Commits { Ok(()) } else { failed() }
    }

    /// What is called after the present transaction and the one before it.
    fn prepared(&self) -> String {
        format!("{} {}", self.marker, self.transactions)
    }

    fn outcome(&self, prepared: &str) -> TransactionOutcome {
        match prepared.split_once(' ') {
            Some((_, own)) if own == self.marker => TransactionOutcome::Committed,
            Some((before, _)) if before == self.marker => TransactionOutcome::Aborted,
            _ => TransactionOutcome::Unknown("the marker is gone".to_owned()),
        }
    }

    /// Another run of the job: the open transaction is aborted, the job goes on from the latest checkpoint, and begins with a marker.
    fn restart(&mut self, store: &Arc<Failing>) -> Result<(Checkpoints, u8), Error> {
        *store.writes_left.lock().unwrap() = None;
        self.open.clear();
        let mut checkpoints = open(store);
        checkpoints.resolve(Some(&RestoreFrom::Latest), |prepared| Ok(self.outcome(prepared)))?;
        let found = checkpoints.load(&RestoreFrom::Latest)?;
        self.transactions += 1;
        self.marker = self.transactions.to_string();
        Ok((checkpoints, found.map_or(0, |found| found.run.operators[0].state[0])))
    }

    /// Writes a row, and takes a checkpoint behind it.
    fn take(&mut self, checkpoints: &mut Checkpoints, row: u8) -> Result<Written, Undone> {
        self.transactions += 1;
        self.open.push(row);
        let (prepared, own) = (self.prepared(), self.transactions.to_string());
        let broker = std::cell::RefCell::new(self);
        let commit = |_| broker.borrow_mut().commit(own.clone());
        checkpoints.write(&run(&[&[row]]), TAKEN, 0, Some(Transaction { prepared, commit: &commit }))
    }
}

fn broker(answer: Answer) -> Broker {
    Broker { answer, visible: Vec::new(), open: Vec::new(), marker: "none".to_owned(), transactions: 0 }
}

#[test]
fn wherever_a_checkpoint_fails_a_job_goes_on_behind_its_visible_rows() {
    for answer in [Answer::Commits, Answer::Refuses, Answer::CommitsSilently] {
        // A piece, a pending manifest and a complete one.
        for writes in 0..=3 {
            let (store, mut broker) = (Arc::new(Failing::default()), broker(Answer::Commits));
            let (mut checkpoints, row) = broker.restart(&store).unwrap();
            assert_eq!(row, 0);
            broker.take(&mut checkpoints, 1).unwrap();
            *store.writes_left.lock().unwrap() = Some(writes);
            broker.answer = answer;
            let taken = broker.take(&mut checkpoints, 2);
            let is_as_expected = match (writes, answer) {
                (0 | 1, _) => matches!(taken, Err(Undone::Unwritten(_))),
                (_, Answer::Refuses | Answer::CommitsSilently) => matches!(taken, Err(Undone::Uncommitted(_))),
                (2, Answer::Commits) => matches!(taken, Err(Undone::Incomplete(_))),
                (_, Answer::Commits) => taken.is_ok(),
            };
            assert!(is_as_expected, "{answer:?} after {writes} writes: {taken:?}");
            let (_, row) = broker.restart(&store).unwrap();
            assert_eq!(broker.visible, (1..=row).collect::<Vec<_>>(), "{answer:?} after {writes} writes");
            assert_eq!(row == 2, writes >= 2 && answer != Answer::Refuses);
            let names = store.list().unwrap();
            assert!(!names.iter().any(|name| name.starts_with("pending-")), "{names:?}");
        }
    }
}

#[test]
fn whatever_fails_again_and_again_each_row_is_visible_once() {
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for _ in 0..300 {
        let (store, mut broker) = (Arc::new(Failing::default()), broker(Answer::Commits));
        let (mut checkpoints, mut row) = broker.restart(&store).unwrap();
        for _ in 0..40 {
            *store.writes_left.lock().unwrap() = Some(next(8) as usize).filter(|writes| *writes < 5);
            broker.answer =
                [Answer::Commits, Answer::Commits, Answer::Refuses, Answer::CommitsSilently][next(4) as usize];
            row += 1;
            let taken = broker.take(&mut checkpoints, row);
            if matches!(taken, Err(Undone::Uncommitted(_))) || next(3) == 0 {
                (checkpoints, row) = broker.restart(&store).unwrap();
                assert_eq!(broker.visible, (1..=row).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn a_transaction_of_which_nothing_is_known_is_asked_for() {
    let (store, mut broker) = (Arc::new(Failing::default()), broker(Answer::Commits));
    let (mut checkpoints, _) = broker.restart(&store).unwrap();
    broker.take(&mut checkpoints, 1).unwrap();
    broker.answer = Answer::CommitsSilently;
    assert!(broker.take(&mut checkpoints, 2).is_err());
    broker.marker = "of another run".to_owned();
    let problem = broker.restart(&store).err().unwrap().to_string();
    let expected = "checkpoint store/pending-checkpoint-0000000002.json: was written, and whether its transaction was committed is not known: the marker is gone. \
                    Look whether its rows are there: if they are, go on from 2, and if not, from the one before it ('execution.state-recovery.path', or --restore with a number)";
    assert_eq!(problem, expected);
    // Nothing is lost by asking. Whoever names it takes it as committed; whoever names another one, as aborted.
    let resolve = |from: &RestoreFrom| {
        let copy = Arc::new(Failing { values: Mutex::new(store.values.lock().unwrap().clone()), ..Failing::default() });
        let mut checkpoints = open(&copy);
        checkpoints.resolve(Some(from), |prepared| Ok(broker.outcome(prepared))).unwrap();
        (checkpoints.load(from).unwrap().unwrap().run.operators[0].state[0], checkpoints.has_pending().unwrap())
    };
    assert_eq!(resolve(&RestoreFrom::Id(2)), (2, false));
    assert_eq!(resolve(&RestoreFrom::Id(1)), (1, false));
}
