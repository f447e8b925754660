//! A job that dies again and again, moved by a seed: the process is killed or the machine loses power between any two operations of the world outside, also while the job is
//! being restored; writes are torn and lost, operations fail, and commits take effect whose answer is lost. Each time the job goes on from its latest checkpoint, with other
//! workers and blocks.
//!
//! Whatever happens, what has been committed at the end is what a run without faults commits: each row once, and in order.
//!
//! In reading order: [`power`] (when things fail), [`disk`] (where checkpoints are), [`broker`] (where rows go), [`topic`] (how a job writes there), [`output`] (all that it writes), [`input`] (where rows come
//! from). What is asked, and what must come of it, is that of the simulation without crashes.

mod power;

mod disk;

mod broker;

mod topic;

mod output;

mod input;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pelton::job::{Job, JobState};
use pelton::{Engine, Session};
use pelton_runtime::clock::{Clock, Hands};
use pelton_runtime::policy::PolicyName;
use pelton_runtime::pool::{ManualWorkers, Pool};

use super::Dice;
use super::client::compare;
use super::feed::Row;
use super::kinds::Kind;
use super::model::Expected;
use broker::{Broker, Values};
use disk::SimulatedDisk;
use input::Input;
use output::Output;
use power::Power;

/// A promise that the world outside breaks: then the simulation must find something wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// It keeps all of them.
    None,
    /// Names of files are not durable when their directory was synchronized.
    NamesAreNotSynchronized,
    /// Bytes are not durable when their file was synchronized.
    BytesAreNotSynchronized,
    /// Transactions are committed before the checkpoint is written.
    CommitsComeEarly,
    /// The transaction of a process that has died is committed.
    TransactionsAreNotFenced,
    /// It is forgotten that a transaction was committed.
    OutcomesAreForgotten,
}

/// What is asked.
const KINDS: [Kind; 17] = [
    Kind::Quotients,
    Kind::Union,
    Kind::Windows,
    Kind::WindowsOfWindows,
    Kind::WindowsOfUnion,
    Kind::Hops,
    Kind::SharedWindows,
    Kind::Distinct,
    Kind::Sessions,
    Kind::RowsOfKeys,
    Kind::Rows,
    Kind::FirstRows,
    Kind::FirstGroups,
    Kind::Over,
    Kind::OverTime,
    Kind::JoinedWindows,
    Kind::JoinedTimes,
];

/// Times that a job dies at most.
const DEATHS_MAX: usize = 6;

/// Operations of the world outside until a process dies: often so few that its job has not begun.
const OPERATIONS_MAX: [usize; 4] = [8, 40, 40, 160];

/// Operations of the world outside that fail at most.
const FAILURES_MAX: usize = 6;

/// Moves of a run that come by chance. What follows is what brings it to its end.
const MOVES_MAX: usize = 400;

/// Moves that coming to an end takes at most: more is taken for a livelock.
const LAST_MOVES_MAX: usize = 20_000;

/// What is there while processes come and go.
struct World {
    dice: Dice,
    power: Power,
    disk: SimulatedDisk,
    broker: Broker,
    kind: Kind,
    inputs: Vec<Arc<Input>>,
    outputs: Vec<Output>,
    statement: String,
    /// How windows are computed, on which the state depends.
    windows: &'static str,
    /// Since 1970.
    now: Duration,
    deaths_left: usize,
    told: Vec<String>,
}

/// A process.
struct Process {
    hands: Arc<Hands>,
    workers: ManualWorkers,
    session: Session,
    job: Option<Job>,
}

/// What becomes of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Its job has come to the end of its input.
    Finished,
    /// It was stopped, has failed for a reason that it has, or has died.
    Again,
}

/// Does what the seed says. Returns what was committed, and what happened before: the same whenever the seed is the same.
///
/// # Errors
/// What went wrong.
///
/// # Panics
/// Where the engine does.
pub fn simulate_crashes(seed: u64, flaw: Flaw) -> Result<Vec<String>, String> {
    let mut world = World::new(seed, flaw);
    let committed = world.come_to_an_end().map_err(|problem| format!("{problem}; it {}", world.told.join(", ")))?;
    world.told.extend(committed);
    Ok(world.told)
}

impl World {
    fn new(seed: u64, flaw: Flaw) -> World {
        let mut dice = Dice(seed);
        let kind = dice.pick(&KINDS);
        let power = Power::new(dice.below(1 << 30) as u64, dice.below(FAILURES_MAX + 1));
        let inputs = (0..kind.tables()).map(|_| Arc::new(Input::new(kind, &mut dice))).collect();
        let selects = kind.selects(0);
        let selects = if dice.one_in(2) { vec![selects.join(" UNION ALL ")] } else { selects };
        let topics: Vec<(String, usize)> =
            (0..selects.len()).map(|part| (format!("o{part}"), 1 + dice.below(3))).collect();
        let broker = Broker::new(&power, flaw, topics.iter().cloned());
        let output = |(name, partitions)| Output::new(name, partitions, &broker, &mut dice);
        let outputs: Vec<Output> = topics.into_iter().map(output).collect();
        let shown: Vec<&str> = outputs.iter().map(Output::kind).collect();
        let inserts = selects.iter().zip(&outputs);
        let inserts: Vec<String> =
            inserts.map(|(select, output)| format!("INSERT INTO {} {select};", output.name())).collect();
        let statement = match inserts.as_slice() {
            [insert] => insert.clone(),
            _ => format!("EXECUTE STATEMENT SET BEGIN {} END", inserts.concat()),
        };
        World {
            disk: SimulatedDisk::new(&power, flaw),
            deaths_left: dice.below(DEATHS_MAX + 1),
            told: vec![format!("asks for {kind:?} into {}", shown.join(" and "))],
            windows: dice.pick(&["slices", "slices", "slices", "apart"]),
            now: Duration::ZERO,
            dice,
            power,
            broker,
            kind,
            inputs,
            outputs,
            statement,
        }
    }

    /// Has one process after the other until the job has finished. Returns what it has committed.
    fn come_to_an_end(&mut self) -> Result<Vec<String>, String> {
        while self.live()? != End::Finished {}
        if self.dice.one_in(2) {
            // What is done is done for good.
            self.disk.lose_power(&mut self.dice);
            self.deaths_left = 0;
            while self.live()? != End::Finished {}
        }
        self.check()
    }

    fn tell(&mut self, what: impl Into<String>) {
        self.told.push(what.into());
    }

    /// The life of a process.
    fn live(&mut self) -> Result<End, String> {
        // It may die at once, or while it is restored.
        let operations_max = self.dice.pick(&OPERATIONS_MAX);
        let operations = (self.deaths_left > 0).then(|| 1 + self.dice.below(operations_max));
        self.power.switch_on(operations);
        let mut process = self.begin();
        let end = match self.start_job(&mut process) {
            Ok(()) => self.run(&mut process),
            Err(error) => self.blamed(&error.to_string()),
        };
        self.now = Duration::from_nanos(Clock::Manual(process.hands.clone()).nanos());
        let has_died = self.power.is_off();
        self.power.switch_off();
        drop(process);
        if has_died {
            self.deaths_left -= 1;
            match self.dice.one_in(2) {
                true => {
                    self.tell("loses power");
                    self.disk.lose_power(&mut self.dice);
                }
                false => self.tell("is killed"),
            }
        }
        end
    }

    /// Whether an error is one that the simulation has caused.
    fn blamed(&mut self, error: &str) -> Result<End, String> {
        if !self.power.has_failed() {
            return Err(format!("{:?} fails: {error}", self.kind));
        }
        if !self.power.is_off() {
            self.tell("fails");
        }
        Ok(End::Again)
    }

    /// An engine with the tables of the world.
    fn begin(&mut self) -> Process {
        let hands = Arc::new(Hands::default());
        hands.advance(self.now);
        let (pool, workers) = Pool::manual(1 + self.dice.below(3), Clock::Manual(hands.clone()));
        let session = Engine::simulated(pool, Arc::new(self.disk.clone())).session();
        let policies: Vec<PolicyName> = PolicyName::all().collect();
        let policy = if self.dice.one_in(2) { "random" } else { self.dice.pick(&policies).name() };
        let settings = [
            ("pelton.block-rows", self.dice.pick(&["1", "2", "7", "4096"])),
            ("pelton.policy", policy),
            ("pelton.tier", self.dice.pick(&["interpret", "interpret", "interpret", "interpret", "auto"])),
            ("pelton.windows", self.windows),
            ("pelton.adapt", self.dice.pick(&["random", "off"])),
            ("pelton.seed", &self.dice.below(1_000).to_string()),
            ("execution.checkpointing.dir", "/checkpoints"),
            ("execution.checkpointing.interval", self.dice.pick(&["1 ms", "10 ms", "1 s"])),
            ("execution.checkpointing.num-retained", self.dice.pick(&["1", "3"])),
            ("execution.state-recovery.path", "latest"),
            ("pipeline.name", "job"),
        ];
        for (key, value) in settings {
            session.set(key, value).expect("it is a setting");
        }
        for (number, input) in self.inputs.iter().enumerate() {
            let table = session.provide_table(&format!("t0_{number}"), &input.columns, input.clone());
            table.expect("the table is right");
        }
        for output in &self.outputs {
            output.declare(&session, self.kind).expect("the table is right");
        }
        Process { hands, workers, session, job: None }
    }

    fn start_job(&mut self, process: &mut Process) -> Result<(), pelton::Error> {
        let job = process.session.sql(&self.statement)?.detach()?;
        if let Some(id) = job.checkpoints().expect("it has them").restored_from {
            self.tell(format!("goes on from {id}"));
        }
        process.job = Some(job);
        Ok(())
    }

    /// Runs a job until it has ended, or the process has died.
    fn run(&mut self, process: &mut Process) -> Result<End, String> {
        let job = process.job.clone().expect("it was started");
        for _ in 0..self.dice.below(MOVES_MAX) {
            if self.power.is_off() {
                return Ok(End::Again);
            }
            self.do_anything(process, &job);
        }
        for _ in 0..LAST_MOVES_MAX {
            if self.power.is_off() {
                return Ok(End::Again);
            }
            match job.state() {
                JobState::Running => process.go_on(&mut self.dice),
                JobState::Finished => {
                    self.tell("finishes");
                    return Ok(End::Finished);
                }
                JobState::Failed => {
                    let error = job.error().map(|error| error.to_string());
                    return self.blamed(&error.unwrap_or_default());
                }
                JobState::Stopped | JobState::Altered => {
                    self.tell("is stopped");
                    return Ok(End::Again);
                }
            }
        }
        Err(format!("{:?} waits for ever", self.kind))
    }

    fn do_anything(&mut self, process: &mut Process, job: &Job) {
        match self.dice.below(100) {
            0..12 => drop(process.workers.step_attendants()),
            12..18 => process.hands.advance(Duration::from_micros(self.dice.pick(&[1, 400, 3_000]))),
            18..21 => drop(process.workers.step_background()),
            21 if self.dice.one_in(3) => job.savepoint().expect("it has checkpoints"),
            22 if self.dice.one_in(30) => job.stop(),
            _ => {
                let worker = self.dice.below(process.workers.count());
                process.workers.step(worker);
            }
        }
    }

    /// What was committed, if it is what must have been.
    fn check(&self) -> Result<Vec<String>, String> {
        let mut told = self.broker.outcomes();
        let rows: Vec<Vec<Row>> = self.inputs.iter().map(|input| input.rows()).collect();
        let tables: Vec<&[Row]> = rows.iter().map(Vec::as_slice).collect();
        let expected = self.kind.expected(&tables);
        for (part, output) in self.outputs.iter().enumerate() {
            let is_of_part = |row: &Values| self.outputs.len() == 1 || row[0] == part as i64;
            for (partition, shown) in output.committed(&self.disk).into_iter().enumerate() {
                let is_here = |row: &Values| is_of_part(row) && output.partition_of(row) == partition;
                let checked = self.check_partition(&shown, &rows_where(&expected, is_here));
                checked.map_err(|problem| {
                    format!("{:?}, {} of partition {partition}: {problem}", self.kind, output.name())
                })?;
                told.extend(shown.iter().map(|row| format!("{row:?}")));
            }
        }
        Ok(told)
    }

    fn check_partition(&self, shown: &[Values], expected: &Expected) -> Result<(), String> {
        let Some(lane) = self.kind.lane() else { return compare(shown, expected, true) };
        let lanes: BTreeSet<i64> = shown.iter().chain(expected.iter().flatten()).map(|row| row[lane]).collect();
        lanes.into_iter().try_for_each(|value| {
            let shown: Vec<Values> = shown.iter().filter(|row| row[lane] == value).cloned().collect();
            compare(&shown, &rows_where(expected, |row| row[lane] == value), true)
        })
    }
}

/// Those of the rows, in their order.
fn rows_where(expected: &Expected, is_wanted: impl Fn(&Values) -> bool) -> Expected {
    let alike = expected.iter().map(|alike| alike.iter().filter(|row| is_wanted(row)).cloned().collect());
    alike.filter(|alike: &Vec<Values>| !alike.is_empty()).collect()
}

impl Process {
    /// Lets everything happen once that can, and time pass.
    fn go_on(&mut self, dice: &mut Dice) {
        self.workers.step_background();
        let first = dice.below(self.workers.count());
        for worker in 0..self.workers.count() {
            self.workers.step((first + worker) % self.workers.count());
        }
        self.workers.step_attendants();
        if dice.one_in(4) {
            self.hands.advance(Duration::from_millis(1));
        }
    }
}

/// Whoever drops a job waits until workers are done with it, which nobody would move.
impl Drop for Process {
    fn drop(&mut self) {
        self.session.engine().jobs().iter().for_each(Job::suspend_at_once);
        while (0..self.workers.count()).any(|worker| self.workers.step(worker)) {}
        while self.workers.step_attendants() {}
    }
}
