//! A whole engine in one thread, moved by a seed: any order of tasks, sources that stall, readers that are slow, memory that is refused, queries
//! that fail, are stopped, or come while others run, and code that changes: interpreted, compiled at any moment, or drawn by chance.
//!
//! Whatever happens, no row is lost, doubled or out of order, a query fails for the reasons that it has, all of them end, and memory is given back.
//! Workers have no threads ([`ManualWorkers`]) and time stands still unless the seed turns the clock, so that a seed does the same again.
//!
//! In [`crash`] a job dies and goes on.
//!
//! In reading order: [`kinds`] (what queries ask), [`functions`] (those that fail), [`feed`] (the rows), [`client`] (who reads what comes of them),
//! [`model`] (what must).

mod client;

pub mod crash;

mod feed;

mod functions;

mod kinds;

mod model;

use std::sync::Arc;
use std::time::Duration;

use pelton::{PullSink, Session};
use pelton_runtime::clock::{Clock, Hands};
use pelton_runtime::policy::PolicyName;
use pelton_runtime::pool::{ManualWorkers, Pool};

use client::{Client, From, Output};
use feed::Feed;
use kinds::{KINDS, Kind};

/// Moves of a simulation before it comes to its end.
const MOVES_MAX: usize = 600;

/// Moves that coming to an end takes at most: more is taken for a livelock.
const LAST_MOVES_MAX: usize = 100_000;

/// More than queries of a simulation need.
const NO_LIMIT: &str = "1 gb";

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

struct World {
    dice: Dice,
    hands: Arc<Hands>,
    workers: ManualWorkers,
    session: Session,
    /// What all queries may take is little.
    is_limited: bool,
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
        World { dice, hands, workers, session, is_limited: false, clients: Vec::new() }
    }

    /// Begins a query.
    fn begin(&mut self) {
        let number = self.clients.len();
        let kind = self.dice.pick(&KINDS);
        let has_limit = self.dice.one_in(8);
        let limit = if has_limit { self.a_limit() } else { NO_LIMIT.to_owned() };
        let code = [
            ("pelton.memory.operator", limit.as_str()),
            ("pelton.tier", self.dice.pick(&["interpret", "interpret", "compile", "auto"])),
            ("pelton.windows", self.dice.pick(&["slices", "slices", "slices", "apart", "buckets"])),
            ("pelton.adapt", self.dice.pick(&["random", "random", "on", "off"])),
            ("pelton.seed", &self.dice.below(1_000).to_string()),
        ];
        for (key, value) in code {
            self.session.set(key, value).expect("it is a setting");
        }
        let feeds: Vec<Feed> = (0..kind.tables()).map(|table| self.feed(&format!("t{number}_{table}"), kind)).collect();
        if let Some(statement) = kind.setup(number, feeds[0].rows.len()) {
            let prepared = self.session.prepare(&statement).expect("it is a statement");
            self.session.execute(&prepared[0]).expect("the table is right");
        }
        let (sql, outputs) = self.outputs(kind, number);
        let query = self.session.sql(&sql).expect("the query is right");
        let has_limit = has_limit || self.is_limited;
        self.clients.push(Client::new(kind, query, feeds, outputs, has_limit));
    }

    /// A query, or inserts of its parts, and where their rows are read.
    fn outputs(&mut self, kind: Kind, number: usize) -> (String, Vec<Output>) {
        let selects = kind.selects(number);
        if !self.dice.one_in(3) {
            return (selects.join(" UNION ALL "), vec![self.output(From::Result)]);
        }
        let table = |part: usize| format!("o{number}_{part}");
        let insert = |(part, select): (usize, &String)| format!("INSERT INTO {} {select};", table(part));
        let inserts: Vec<String> = selects.iter().enumerate().map(insert).collect();
        let sink = |part: usize| self.session.pull_table(&table(part), &kind.columns()).expect("the table is right");
        let sinks: Vec<PullSink> = (0..inserts.len()).map(sink).collect();
        let outputs = sinks.into_iter().map(|sink| self.output(From::Table(sink))).collect();
        (format!("EXECUTE STATEMENT SET BEGIN {} END", inserts.concat()), outputs)
    }

    fn output(&mut self, from: From) -> Output {
        Output { laziness: self.dice.pick(&[1, 4, 50]), from }
    }

    fn a_limit(&mut self) -> String {
        format!("{} kb", 1 << self.dice.below(12))
    }

    /// Has all queries have so much memory from now on: those that run may be refused what they ask for next.
    fn limit(&mut self, limit: &str) {
        self.session.set("pelton.memory", limit).expect("it is a setting");
        self.is_limited = limit != NO_LIMIT;
        let running = self.clients.iter_mut().filter(|client| client.query.is_some());
        running.for_each(|client| client.mishaps.has_limit |= self.is_limited);
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
            (15..25, Some(client)) => {
                let client = &mut self.clients[client];
                let output = self.dice.below(client.outputs.len());
                if self.dice.one_in(client.outputs[output].laziness) {
                    client.read(output)?;
                }
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
                    client.mishaps.was_stopped = true;
                    if self.dice.one_in(2) { query.control().abort() } else { query.control().drain() }
                }
            }
            (30..33, _) => {
                self.workers.step_background();
            }
            (33, _) => {
                let limit = if self.dice.one_in(3) { self.a_limit() } else { NO_LIMIT.to_owned() };
                self.limit(&limit);
            }
            (34, Some(client)) if self.dice.one_in(8) => {
                let output = self.dice.below(self.clients[client].outputs.len());
                self.clients[client].leave(output);
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

    /// Lets everything happen that can, in any order, and nothing else: no time passes, but for those who wait for room. Half of the time what all may take stays
    /// as little as it is.
    fn come_to_an_end(&mut self) -> Result<(), String> {
        if self.dice.one_in(2) {
            self.limit(NO_LIMIT);
        }
        let mut waited = 0;
        for _ in 0..LAST_MOVES_MAX {
            let mut happened = self.workers.step_background();
            let first = self.dice.below(self.workers.count());
            for worker in 0..self.workers.count() {
                happened |= self.workers.step((first + worker) % self.workers.count());
            }
            for client in &mut self.clients {
                for feed in &mut client.feeds {
                    happened |= feed.push(&mut self.dice);
                }
                for output in 0..client.outputs.len() {
                    happened |= client.read(output)?;
                }
            }
            if happened {
                waited = 0;
            } else if self.is_limited && waited < 3 {
                // Who is held back by the limit looks again now and then.
                waited += 1;
                self.hands.advance(Duration::from_millis(10));
            } else {
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
