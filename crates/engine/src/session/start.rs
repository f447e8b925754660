//! Starts queries. They are planned, loaded and compiled with a snapshot of what session and engine know, so that other threads can use both meanwhile.

use std::sync::Arc;

use pelton_connectors::Conditions;
use pelton_plan::pipeline::{Output, OutputTarget, Program};
use pelton_plan::query::Planned;
use pelton_plan::{Catalog, PlanError};
use pelton_runtime::budget::Budget;
use pelton_runtime::checkpoint::RunSnapshot;
use pelton_runtime::late::LateLog;
use pelton_runtime::pool::Pool;

use super::Session;
use crate::checkpoints::coordinator::Ended;
use crate::checkpoints::job::{Checkpointed, Restored};
use crate::checkpoints::restore_from::RestoreFrom;
use crate::emission;
use crate::engine::journal::JobRecord;
use crate::engine::{Engine, Known, SessionId};
use crate::error::Error;
use crate::execute::{self, Surroundings, Unstarted};
use crate::explain::explain;
use crate::job::{Job, JobDescription};
use crate::program_tables::ProgramTables;
use crate::query::Query;
use crate::running_program::RunningProgram;
use crate::settings::Settings;
use crate::shared_sources::SharedSources;
use crate::waiting::query_name;

/// How often a query is planned again because other threads drop or replace its tables while it is being started.
const ATTEMPTS_MAX: usize = 8;

/// The catalogue of a session laid over that of its engine, and the tables of the program itself, as they are at one instant.
pub(super) struct Snapshot {
    pub catalog: Arc<Catalog>,
    pub program_tables: Arc<ProgramTables>,
    shared_sources: SharedSources,
}

impl Snapshot {
    /// What `EXPLAIN` says of a query.
    pub fn explain(&self, plan: impl FnOnce(&Catalog) -> Result<Planned, PlanError>) -> Result<String, Error> {
        let tables = (&*self.program_tables, &self.shared_sources);
        explain(&plan(&self.catalog)?, &Settings::of(&self.catalog), &self.catalog, tables)
    }

    /// Whether none of these tables was dropped or replaced since.
    fn holds(&self, now: &Catalog, mut tables: impl Iterator<Item = impl AsRef<str>>) -> bool {
        tables.all(|table| now.has_still(table.as_ref(), &self.catalog))
    }
}

/// What a query goes on from.
#[derive(Clone, Copy)]
pub(super) enum Origin<'a> {
    /// Nothing, or the checkpoint that settings name.
    None,
    /// A run of the same program at a cut.
    Snapshot(&'a RunSnapshot),
    /// A job that runs, of another program.
    Running(&'a Job, &'a RunningProgram),
    /// The last checkpoint of a job, of another program or the same.
    Stopped(&'a StoppedJob<'a>),
}

/// A job that has been stopped so that another query goes on from its last checkpoint, under its name.
pub(super) struct StoppedJob<'a> {
    pub job: &'a Job,
    /// The number of that.
    pub checkpoint: u64,
}

impl Origin<'_> {
    /// Those of the session, but for what a job keeps that goes on.
    fn settings(&self, settings: Settings) -> Settings {
        match self {
            Origin::None | Origin::Snapshot(_) => settings,
            Origin::Running(..) => Settings { checkpoint_directory: None, restore_from: None, ..settings },
            Origin::Stopped(StoppedJob { job, checkpoint }) => Settings {
                job_name: Some(job.name().to_owned()),
                restore_from: Some(RestoreFrom::LatestBehind { before: 0, altered_at: *checkpoint }),
                checkpoint_directory: job.settings().checkpoint_directory.clone(),
                checkpoint_interval: job.settings().checkpoint_interval,
                checkpoints_retained: job.settings().checkpoints_retained,
                ..settings
            },
        }
    }
}

impl Session {
    pub(super) fn snapshot(&self) -> Snapshot {
        let own = self.own();
        let (base, program_tables, shared_sources) = {
            let known = self.engine().known();
            (known.catalog.clone(), known.program_tables.clone(), known.shared_sources.clone())
        };
        // A temporary table hides one of the program.
        let program_tables = program_tables.without(own.catalog.names());
        Snapshot { catalog: Arc::new(own.catalog.over(base)), program_tables, shared_sources }
    }

    /// Plans and starts a query, which takes as long as loading the tables that it joins with.
    ///
    /// Its tables are those that there are when these are loaded, and those of the program itself the ones that it has when the query starts:
    /// where one was dropped or replaced meanwhile, the query is planned again. It goes on from a snapshot, where there is one.
    pub(super) fn start(
        &self,
        statement: &str,
        plan: impl Fn(&Catalog) -> Result<Planned, PlanError>,
        from: Option<&RunSnapshot>,
    ) -> Result<Query, Error> {
        self.start_at(statement, plan, from.map_or(Origin::None, Origin::Snapshot))
    }

    /// As [`Session::start`], where something else may be what the query goes on from.
    pub(super) fn start_at(
        &self,
        statement: &str,
        plan: impl Fn(&Catalog) -> Result<Planned, PlanError>,
        from: Origin<'_>,
    ) -> Result<Query, Error> {
        for _ in 0..ATTEMPTS_MAX {
            if let Some(query) = self.try_start(statement, &plan, from)? {
                return Ok(query);
            }
        }
        Err(Error::Usage(format!(
            "tables of the query were dropped or replaced each of the {ATTEMPTS_MAX} times that it was planned: start it again"
        )))
    }

    /// `None` where a table was dropped or replaced meanwhile.
    fn try_start(
        &self,
        statement: &str,
        plan: impl Fn(&Catalog) -> Result<Planned, PlanError>,
        from: Origin<'_>,
    ) -> Result<Option<Query>, Error> {
        let snapshot = self.snapshot();
        let program = plan(&snapshot.catalog)?.program;
        let settings = from.settings(Settings::of(&snapshot.catalog));
        emission::check(&program, &settings)?;
        let entry = Entry::of(self, &program, &settings);
        let surroundings = entry.surroundings(&snapshot, &settings, from);
        let (tables, written) = (tables_of(&program), written_tables(&program));
        let job_name = |known: &Known| {
            // Rows of a SELECT are read from its query.
            let is_insert = !written.is_empty();
            if let Origin::Running(job, _) = from {
                return Ok(Some(job.name().to_owned()));
            }
            is_insert.then(|| known.job_name(settings.job_name.as_deref(), &written, entry.number)).transpose()
        };
        let name = job_name(&self.engine().known())?;
        let found = |name| Checkpointed::of(name, statement, (&settings, self.engine().disk()));
        let mut checkpointed = name.as_deref().map(found).transpose()?.flatten();
        let record = self.record(statement, &snapshot, &tables, (&settings, checkpointed.as_ref()));
        let opening = Surroundings { checkpointed: checkpointed.as_ref(), ..surroundings };
        let Some(unstarted) = self.opened(program, &opening, (&snapshot, &tables))? else { return Ok(None) };
        checkpointed.as_mut().map_or(Ok(()), Checkpointed::begin_transactions)?;
        let restored = checkpointed.as_ref().and_then(Checkpointed::restored).or(surroundings.restored);
        let surroundings = Surroundings { checkpointed: checkpointed.as_ref(), restored, ..surroundings };
        let (own, known) = (self.own(), self.engine().known());
        // A table was dropped meanwhile, or another job took the name.
        let mut of_program = tables.iter().filter(|table| snapshot.program_tables.has(table));
        if !snapshot.holds(&own.catalog.over(known.catalog.clone()), &mut of_program) || job_name(&known)? != name {
            return Ok(None);
        }
        let assembled = unstarted.assemble(&surroundings)?;
        let (mut query, mut known) = match from {
            // The cut of that job takes as long as its sinks do. Its name is its own until then.
            Origin::Running(..) => {
                drop((own, known));
                (assembled.start(&surroundings)?, self.engine().known())
            }
            Origin::None | Origin::Snapshot(_) | Origin::Stopped(_) => (assembled.start(&surroundings)?, known),
        };
        let pool = surroundings.pool.clone();
        let ended = self.forgetting(name.as_deref());
        let watched = checkpointed.map(|job| job.watch(&pool, (query.run_handle(), query.parts()), ended));
        let checkpoints = watched.transpose()?;
        known.register(entry.number, entry.session, &query);
        if let Some(name) = name {
            let tables = tables.iter().filter_map(|table| snapshot.catalog.declared(table).cloned()).collect();
            let (id, statement, started) = (entry.number, statement.to_owned(), known.now());
            let journal = record.as_ref().and_then(|_| self.engine().journal().cloned());
            let (conditions, settings) = (entry.conditions.clone(), settings.clone());
            let description =
                JobDescription { id, name, statement, tables, settings, started, conditions, checkpoints, journal };
            known.register_job(&mut query, description, pool);
        }
        drop(known);
        entry.keep();
        if let (Some(journal), Some(record)) = (self.engine().journal(), record) {
            journal.job_started(&record)?;
        }
        Ok(Some(query))
    }

    /// Prepares a program and opens its tables; `None` where one was dropped or replaced meanwhile.
    fn opened(
        &self,
        program: Program,
        surroundings: &Surroundings<'_>,
        tables: (&Snapshot, &[String]),
    ) -> Result<Option<Unstarted>, Error> {
        let mut unstarted = execute::prepare(program, surroundings)?;
        // Before files are made.
        if !self.checks_tables(&unstarted, surroundings, tables)? {
            return Ok(None);
        }
        unstarted.open(surroundings)?;
        Ok(Some(unstarted))
    }

    /// Whether the tables of a query are those that it was planned with, and no other query has those of the program. One of these that is dropped looks as if another
    /// query had taken it: both are checked under one lock.
    fn checks_tables(
        &self,
        unstarted: &Unstarted,
        surroundings: &Surroundings<'_>,
        (snapshot, tables): (&Snapshot, &[String]),
    ) -> Result<bool, Error> {
        let (own, known) = (self.own(), self.engine().known());
        if !snapshot.holds(&own.catalog.over(known.catalog.clone()), tables.iter()) {
            return Ok(false);
        }
        unstarted.check_program_tables(surroundings)?;
        Ok(true)
    }

    /// What an engine that outlives its process keeps of a job; `None` of what cannot be started again: its statement was built by calls, or it needs tables of the session or
    /// of the program.
    fn record(
        &self,
        statement: &str,
        snapshot: &Snapshot,
        tables: &[String],
        (settings, checkpointed): (&Settings, Option<&Checkpointed>),
    ) -> Option<JobRecord> {
        self.engine().journal()?;
        let job = checkpointed?;
        let is_kept = |table: &String| !snapshot.catalog.is_temporary(table) && !snapshot.program_tables.has(table);
        if statement.is_empty() || !tables.iter().all(is_kept) {
            return None;
        }
        let own = self.own();
        let set = own.catalog.settings().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let (checkpoints_before, altered_at) = match settings.restore_from {
            None => (job.checkpoints.last_id(), 0),
            Some(RestoreFrom::LatestBehind { before, altered_at }) => (before, altered_at),
            Some(RestoreFrom::Latest | RestoreFrom::Id(_)) => (0, 0),
        };
        let (name, statement) = (job.name.to_string(), statement.to_owned());
        Some(JobRecord { name, statement, settings: set.collect(), checkpoints_before, altered_at })
    }

    /// What is done when a job has ended for good.
    fn forgetting(&self, name: Option<&str>) -> Ended {
        let (journal, name) = (self.engine().journal().cloned(), name.map(str::to_owned));
        Box::new(move || {
            if let (Some(journal), Some(name)) = (journal, name) {
                // Otherwise it is started again from its end, and ends again.
                let _ = journal.job_ended(&name);
            }
        })
    }
}

/// The number of a query that is being started, which is free again if it does not start, and what it shares with the engine's other queries.
struct Entry<'a> {
    engine: &'a Engine,
    session: SessionId,
    number: usize,
    name: String,
    is_used: bool,
    pool: Pool,
    late: LateLog,
    shared_sources: SharedSources,
    budget: Budget,
    conditions: Conditions,
}

impl Entry<'_> {
    fn of<'a>(session: &'a Session, program: &Program, settings: &Settings) -> Entry<'a> {
        let engine = session.engine();
        let mut known = engine.known();
        known.queries_started += 1;
        let number = known.queries_started;
        let name = query_name(number, program.outputs.iter().map(Output::name));
        let late = known.late.of_query(&name);
        Entry {
            engine,
            session: session.id(),
            number,
            name,
            is_used: false,
            pool: known.pool(settings.workers),
            late,
            shared_sources: known.shared_sources.clone(),
            budget: known.budget.clone(),
            conditions: Conditions::default(),
        }
    }

    /// What the query is started against: without checkpoints, and from a snapshot of the program where there is one.
    fn surroundings<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        settings: &'a Settings,
        from: Origin<'a>,
    ) -> Surroundings<'a> {
        let predecessor = match from {
            Origin::Running(_, program) => Some(program),
            Origin::None | Origin::Snapshot(_) | Origin::Stopped(_) => None,
        };
        let restored = match from {
            Origin::Snapshot(run) => Some(Restored { place: "of the program", run, parts: None, is_altered: false }),
            Origin::None | Origin::Running(..) | Origin::Stopped(_) => None,
        };
        Surroundings {
            name: &self.name,
            catalog: &snapshot.catalog,
            program_tables: &snapshot.program_tables,
            settings,
            pool: predecessor.map_or(&self.pool, |program| &program.pool),
            late: &self.late,
            shared_sources: &self.shared_sources,
            budget: &self.budget,
            conditions: &self.conditions,
            checkpointed: None,
            restored,
            predecessor,
            tells_time: false,
        }
    }

    fn keep(mut self) {
        self.is_used = true;
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if self.is_used {
            return;
        }
        let mut known = self.engine.known();
        if known.queries_started == self.number {
            known.queries_started -= 1;
        }
    }
}

/// The names of the tables that a program reads, joins with or writes.
fn tables_of(program: &Program) -> Vec<String> {
    let read = program.sources.iter().filter(|source| source.rows.is_none()).map(|source| source.table.clone());
    let joined = program.lookups.iter().flat_map(|lookup| tables_of(&lookup.program));
    read.chain(written_tables(program)).chain(joined).collect()
}

/// The names of the tables that a program writes, each once.
fn written_tables(program: &Program) -> Vec<String> {
    let mut written: Vec<String> = Vec::new();
    for output in &program.outputs {
        match &output.target {
            OutputTarget::Table(name) if !written.contains(name) => written.push(name.clone()),
            OutputTarget::Table(_) | OutputTarget::Result => {}
        }
    }
    written
}
