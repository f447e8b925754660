//! A whole engine in one thread, moved by a seed: any order of tasks, sources that stall, readers that are slow, memory that is refused, queries
//! that fail, are stopped, or come while others run, and code that changes: interpreted, compiled at any moment, or drawn by chance.
//!
//! Whatever happens, no row is lost, doubled or out of order, a query fails for the reasons that it has, all of them end, and memory is given back.
//! Workers have no threads ([`ManualWorkers`]) and time stands still unless the seed turns the clock, so that a seed does the same again.
//!
//! In reading order: [`kinds`] (what queries ask), [`functions`] (those that fail), [`feed`] (the rows), [`model`] (what must come of them).

mod feed;

mod functions;

mod kinds;

mod model;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use pelton::clock::{Clock, Hands};
use pelton::pool::{ManualWorkers, Pool};
use pelton::{Query, Session};
use pelton_runtime::policy::PolicyName;

use feed::{Feed, Row};
use kinds::{KINDS, Kind};
use model::Expected;

/// Moves of a simulation before it comes to its end.
const MOVES_MAX: usize = 600;

/// Moves that coming to an end takes at most: more is taken for a livelock.
const LAST_MOVES_MAX: usize = 100_000;

/// Random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) % bound as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// A query, what it has read, and what it has shown.
struct Client {
    kind: Kind,
    query: Option<Query>,
    feeds: Vec<Feed>,
    shown: Vec<Vec<i64>>,
    /// How seldom it reads its results.
    laziness: usize,
    has_limit: bool,
    was_stopped: bool,
    failure: Option<String>,
    /// Rows that came too late for it, as it says.
    late: u64,
    /// What became of its code.
    story: Vec<String>,
}

struct World {
    dice: Dice,
    hands: Arc<Hands>,
    workers: ManualWorkers,
    session: Session,
    clients: Vec<Client>,
}

/// Does what the seed says. Returns what each query has shown, and what became of its code: the same whenever the seed is the same.
///
/// # Errors
/// What went wrong.
///
/// # Panics
/// Where the engine does, or refuses what is right.
pub fn simulate(seed: u64) -> Result<Vec<String>, String> {
    let mut world = World::new(seed);
    let clients_max = 1 + world.dice.below(4);
    let moves = world.dice.below(MOVES_MAX);
    for _ in 0..moves {
        if world.clients.len() < clients_max && world.dice.one_in(20) {
            world.begin();
        }
        world.do_anything()?;
    }
    while world.clients.len() < clients_max {
        world.begin();
    }
    world.come_to_an_end()?;
    for (index, client) in world.clients.iter().enumerate() {
        client.check().map_err(|problem| format!("query {index}, {:?}: {problem}", client.kind))?;
    }
    let told = world.clients.iter().flat_map(Client::told).collect();
    world.clients.clear();
    match (world.session.state_bytes(), world.session.waiting_bytes()) {
        (0, 0) => Ok(told),
        (state, waiting) => {
            Err(format!("{state} bytes of state and {waiting} of rows are charged when all queries are gone"))
        }
    }
}

impl World {
    fn new(seed: u64) -> World {
        let mut dice = Dice(seed);
        let hands = Arc::new(Hands::default());
        let (pool, workers) = Pool::manual(1 + dice.below(3), Clock::Manual(hands.clone()));
        let session = Session::with_pool(pool);
        functions::register(&session);
        let set = |key: &str, value: &str| session.set(key, value).expect("it is a setting");
        set("pelton.block-rows", dice.pick(&["1", "2", "7", "4096"]));
        set("pelton.data-passing", if dice.one_in(4) { "queues" } else { "blocks" });
        let policies: Vec<PolicyName> = PolicyName::all().collect();
        set("pelton.policy", if dice.one_in(2) { "random" } else { dice.pick(&policies).name() });
        World { dice, hands, workers, session, clients: Vec::new() }
    }

    /// Begins a query.
    fn begin(&mut self) {
        let number = self.clients.len();
        let kind = self.dice.pick(&KINDS);
        let has_limit = self.dice.one_in(6);
        let limit = if has_limit { format!("{} kb", 1 << self.dice.below(12)) } else { "1 gb".to_owned() };
        let setting = self.dice.pick(&["pelton.memory", "pelton.memory.operator"]);
        let code = [
            (setting, limit.as_str()),
            ("pelton.tier", self.dice.pick(&["interpret", "interpret", "compile", "auto"])),
            ("pelton.windows", self.dice.pick(&["slices", "slices", "slices", "apart", "buckets"])),
            ("pelton.adapt", self.dice.pick(&["random", "random", "on", "off"])),
            ("pelton.seed", &self.dice.below(1_000).to_string()),
        ];
        for (key, value) in code {
            self.session.set(key, value).expect("it is a setting");
        }
        let feeds: Vec<Feed> = (0..kind.tables()).map(|table| self.feed(&format!("t{number}_{table}"), kind)).collect();
        let query = self.session.sql(&kind.sql(number, feeds[0].rows.len())).expect("the query is right");
        self.session.set(setting, "1 gb").expect("it is a setting");
        self.clients.push(Client {
            kind,
            query: Some(query),
            feeds,
            shown: Vec::new(),
            laziness: self.dice.pick(&[1, 4, 50]),
            has_limit,
            was_stopped: false,
            failure: None,
            late: 0,
            story: Vec::new(),
        });
    }

    fn feed(&mut self, name: &str, kind: Kind) -> Feed {
        match kind.is_bounded() {
            true => Feed::generated(&mut self.dice),
            false => Feed::new(&self.session, name, kind, &mut self.dice),
        }
    }

    fn do_anything(&mut self) -> Result<(), String> {
        let client = match self.clients.len() {
            0 => None,
            count => Some(self.dice.below(count)),
        };
        match (self.dice.below(100), client) {
            (0..15, Some(client)) => {
                self.push(client);
            }
            (15..25, Some(client)) if self.dice.one_in(self.clients[client].laziness) => {
                self.clients[client].read()?;
            }
            (25..28, _) => self.hands.advance(Duration::from_micros(self.dice.pick(&[1, 900, 5_000_000]))),
            (28, _) => {
                let policies: Vec<PolicyName> = PolicyName::all().collect();
                let policy = self.dice.pick(&policies).name();
                self.session.set("pelton.policy", policy).expect("it is a policy");
            }
            (29, Some(client)) if self.dice.one_in(8) => {
                let client = &mut self.clients[client];
                if let Some(query) = &client.query {
                    client.was_stopped = true;
                    if self.dice.one_in(2) { query.control().abort() } else { query.control().drain() }
                }
            }
            (30..33, _) => {
                self.workers.step_aside();
            }
            _ => {
                let worker = self.dice.below(self.workers.count());
                self.workers.step(worker);
            }
        }
        Ok(())
    }

    /// Pushes some rows, or ends a table. Returns whether it could.
    fn push(&mut self, client: usize) -> bool {
        let feeds = &mut self.clients[client].feeds;
        let feed = self.dice.below(feeds.len());
        feeds[feed].push(&mut self.dice)
    }

    /// Lets everything happen that can, in any order, and nothing else: no time passes.
    fn come_to_an_end(&mut self) -> Result<(), String> {
        for _ in 0..LAST_MOVES_MAX {
            let mut happened = self.workers.step_aside();
            let first = self.dice.below(self.workers.count());
            for worker in 0..self.workers.count() {
                happened |= self.workers.step((first + worker) % self.workers.count());
            }
            for client in &mut self.clients {
                for feed in &mut client.feeds {
                    happened |= feed.push(&mut self.dice);
                }
                happened |= client.read()?;
            }
            if !happened {
                let stuck = |client: &Client| client.query.is_some();
                return match self.clients.iter().position(stuck) {
                    None => Ok(()),
                    Some(client) => Err(format!("query {client} waits for ever")),
                };
            }
        }
        Err("the engine does not come to rest".to_owned())
    }
}

/// Whoever drops a query waits until workers are done with it, which nobody would move.
impl Drop for World {
    fn drop(&mut self) {
        self.clients.iter().filter_map(|client| client.query.as_ref()).for_each(|query| query.control().abort());
        while (0..self.workers.count()).any(|worker| self.workers.step(worker)) {}
    }
}

impl Client {
    /// Reads a batch, or that the query has ended. Returns whether there was any news.
    fn read(&mut self) -> Result<bool, String> {
        let Some(query) = &mut self.query else { return Ok(false) };
        match query.try_next_batch() {
            Ok(Some(batch)) => {
                let columns = batch.columns().iter().map(|column| cast(column, &DataType::Int64));
                let columns: Vec<_> = columns.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
                let value =
                    |row: usize| columns.iter().map(|column| column.as_primitive::<Int64Type>().value(row)).collect();
                self.shown.extend((0..batch.num_rows()).map(value));
                return Ok(true);
            }
            Ok(None) if !query.control().has_ended() => return Ok(false),
            Ok(None) => {}
            Err(_) if !query.control().has_ended() => return Ok(false),
            Err(error) => self.failure = Some(error.to_string()),
        }
        let progress = query.progress();
        self.late = progress.late_rows();
        for pipeline in progress.pipelines {
            self.story.push(format!("{}, {}", pipeline.name, pipeline.tier));
            self.story
                .extend(pipeline.story.events.iter().map(|event| format!("row {}: {}", event.rows, event.summary())));
        }
        self.query = None;
        Ok(true)
    }

    fn told(&self) -> Vec<String> {
        let rows = self.shown.iter().map(|row| format!("{row:?}"));
        self.failure.iter().cloned().chain(rows).chain(self.story.iter().cloned()).collect()
    }

    fn check(&self) -> Result<(), String> {
        let is_whole = match &self.failure {
            None => !self.was_stopped,
            Some(failure) if self.has_limit && failure.contains("its state takes") => false,
            Some(failure) if self.has_bad_row() && failure.contains(self.kind.failure()) => false,
            Some(failure) => return Err(format!("fails: {failure}")),
        };
        if is_whole && self.has_bad_row() {
            return Err("has a row that it must fail for and does not fail".to_owned());
        }
        let tables: Vec<&[Row]> = self.feeds.iter().map(|feed| feed.rows.as_slice()).collect();
        if self.was_stopped && self.kind == Kind::Sorted {
            return self.check_sorted(tables[0]);
        }
        let late = self.kind.late(&tables) as u64;
        if is_whole && self.late != late {
            return Err(format!("says that {} rows come too late, and {late} do", self.late));
        }
        let expected = self.kind.expected(&tables);
        let Some(lane) = self.kind.lane() else { return compare(&self.shown, &expected, is_whole) };
        let rows = self.shown.iter().chain(expected.iter().flatten());
        let lanes: BTreeSet<i64> = rows.map(|row| row[lane]).collect();
        lanes.into_iter().try_for_each(|value| {
            let shown: Vec<Vec<i64>> = self.shown.iter().filter(|row| row[lane] == value).cloned().collect();
            let expected: Expected = expected.iter().filter(|alike| alike[0][lane] == value).cloned().collect();
            compare(&shown, &expected, is_whole)
        })
    }

    /// Whoever has rows put in order and reads no more gets those that were read in their order.
    fn check_sorted(&self, rows: &[Row]) -> Result<(), String> {
        let are_of = |read: usize| compare(&self.shown, &self.kind.expected(&[&rows[..read]]), false).is_ok();
        match (0..=rows.len()).any(are_of) {
            true => Ok(()),
            false => Err(format!("{:?} come, whichever rows were read", self.shown)),
        }
    }

    fn has_bad_row(&self) -> bool {
        self.feeds.iter().flat_map(|feed| &feed.rows).any(|row| self.kind.fails_for(row))
    }
}

/// Whether all has come that must, or the first of it.
fn compare(shown: &[Vec<i64>], expected: &Expected, is_whole: bool) -> Result<(), String> {
    let mut left = shown;
    for alike in expected {
        let (now, later) = left.split_at(alike.len().min(left.len()));
        let mut missing = alike.clone();
        for row in now {
            let Some(index) = missing.iter().position(|other| other == row) else {
                return Err(format!("{row:?} comes where one of {missing:?} must"));
            };
            missing.swap_remove(index);
        }
        if !missing.is_empty() && is_whole {
            return Err(format!("{missing:?} does not come"));
        }
        left = later;
    }
    left.first().map_or(Ok(()), |row| Err(format!("{row:?} comes when all has come")))
}
