//! Checkpoints in a store that fails: what is there is whole, and what was there stays.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use pelton_runtime::checkpoint::OperatorSnapshot;

use super::*;

/// A store in memory, of which so many further writes succeed. One that fails leaves nothing, or, where it is torn, a part under a name that nobody reads.
#[derive(Default)]
struct Failing {
    values: Mutex<BTreeMap<String, Vec<u8>>>,
    writes_left: Mutex<Option<usize>>,
    written: Mutex<Vec<String>>,
}

impl CheckpointStore for Failing {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if let Some(left) = self.writes_left.lock().unwrap().as_mut() {
            *left = left.checked_sub(1).ok_or_else(|| io::Error::other("the disk is full"))?;
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

    fn remove(&self, name: &str) -> io::Result<()> {
        self.values.lock().unwrap().remove(name);
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
        let written = checkpoints.write(&run(&[&large, *state]), TAKEN, 0).unwrap();
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
        checkpoints.write(&run(&[b"a", b"b"]), TAKEN, 0).unwrap();
        *store.writes_left.lock().unwrap() = Some(writes);
        let written = checkpoints.write(&run(&[b"c", b"d"]), TAKEN, 0);
        // Two pieces and a manifest.
        assert_eq!(written.is_ok(), writes >= 3);
        let found = open(&store).load(&RestoreFrom::Latest).unwrap().unwrap();
        assert_eq!(found.id, if writes >= 3 { 2 } else { 1 }, "after {writes} writes");
        // There is room again.
        *store.writes_left.lock().unwrap() = None;
        let next = checkpoints.write(&run(&[b"e", b"d"]), TAKEN, 0).unwrap();
        let found = open(&store).load(&RestoreFrom::Latest).unwrap().unwrap();
        assert_eq!((found.id, &found.run.operators[0].state[..]), (next.id, &b"e"[..]));
    }
}

#[test]
fn a_piece_that_is_gone_or_changed_is_told_by_its_name() {
    let store = Arc::new(Failing::default());
    open(&store).write(&run(&[b"state"]), TAKEN, 0).unwrap();
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
    checkpoints.write(&run(&[b"0"]), (CheckpointKind::Savepoint, JobStage::Stopped), 0).unwrap();
    for state in [b"1", b"2", b"3"] {
        checkpoints.write(&run(&[state]), TAKEN, 0).unwrap();
    }
    let state = |from| open(&store).load(&from).map(|found| found.map(|found| found.run.operators[0].state.clone()));
    assert_eq!(state(RestoreFrom::Id(1)), Ok(Some(b"0".to_vec())));
    assert_eq!(state(RestoreFrom::Id(3)), Ok(Some(b"2".to_vec())));
    assert_eq!(state(RestoreFrom::LatestBehind { before: 3, altered_at: 0 }), Ok(Some(b"3".to_vec())));
    assert_eq!(state(RestoreFrom::LatestBehind { before: 4, altered_at: 0 }), Ok(None));
    let missing = state(RestoreFrom::Id(2)).unwrap_err().to_string();
    assert_eq!(missing, "store: has no checkpoint 2 of the job 'job'; there are: 1, 3, 4");
}
