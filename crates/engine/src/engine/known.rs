//! What an engine knows: its catalogue, its queries and what they share.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use pelton_data::Micros;
use pelton_plan::Catalog;
use pelton_runtime::budget::Budget;
use pelton_runtime::clock::Clock;
use pelton_runtime::late::LateLog;
use pelton_runtime::pool::Pool;
use pelton_runtime::progress::Progress;
use pelton_runtime::run::{RunHandle, WeakRunHandle};

use crate::display::shown_rows;
use crate::error::Error;
use crate::job::{self, ENDED_JOBS_MAX, Job, JobDescription, JobState};
use crate::program_tables::ProgramTables;
use crate::query::{NamedStories, Query};
use crate::settings::Settings;
use crate::shared_sources::SharedSources;
use crate::{analyze, late, operators, running, waiting};

/// What an engine knows, behind its lock.
pub(crate) struct Known {
    /// Copied on write, as are the tables: a statement works with what it found when it began.
    pub catalog: Arc<Catalog>,
    pub program_tables: Arc<ProgramTables>,
    clock: Clock,
    /// The threads that run queries, once there was one.
    pub pool: Option<Pool>,
    pub late: LateLog,
    /// Tables that queries read together.
    pub shared_sources: SharedSources,
    /// What the state of all queries is charged to.
    pub budget: Budget,
    /// Queries that may still run, and the last that have ended.
    queries: VecDeque<Started>,
    /// Inserts that may still run, and the last that have ended.
    jobs: VecDeque<Job>,
    /// The number of the last query.
    pub queries_started: usize,
    sessions_opened: u64,
}

/// Tells the sessions of an engine apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionId(u64);

/// A query that was started.
pub(crate) struct Started {
    /// Counted from 1.
    number: usize,
    /// The session that started it.
    session: SessionId,
    run: WeakRunHandle,
    stories: Vec<NamedStories>,
}

impl Started {
    /// Its run, as long as that has not ended.
    fn running(&self) -> Option<RunHandle> {
        self.run.upgrade().filter(|run| !run.has_ended())
    }
}

/// Queries that have ended and of which is still known what became of their code.
const ENDED_QUERIES_MAX: usize = 32;

impl Known {
    pub fn new(clock: Clock) -> Known {
        let mut catalog = Catalog::default();
        catalog.add_system_table(late::TABLE.clone());
        Known {
            catalog: Arc::new(catalog),
            program_tables: Arc::default(),
            clock,
            pool: None,
            late: LateLog::new(),
            shared_sources: SharedSources::default(),
            budget: Budget::default(),
            queries: VecDeque::new(),
            jobs: VecDeque::new(),
            queries_started: 0,
            sessions_opened: 0,
        }
    }

    /// The catalogue, to be changed: statements that have a snapshot of it keep that.
    pub fn catalog_mut(&mut self) -> &mut Catalog {
        Arc::make_mut(&mut self.catalog)
    }

    /// The number of a session that is opened.
    pub fn next_session(&mut self) -> SessionId {
        self.sessions_opened += 1;
        SessionId(self.sessions_opened)
    }

    /// The queries that run: all, or those of a session, which jobs are not that are detached from it.
    pub fn running_queries(&self, session: Option<SessionId>) -> Vec<RunHandle> {
        let is_detached = |number| {
            let job = self.jobs.binary_search_by_key(&number, Job::id);
            job.is_ok_and(|job| self.jobs[job].is_detached())
        };
        let is_of = |query: &Started, session| query.session == session && !is_detached(query.number);
        let queries = self.queries.iter().filter(|query| session.is_none_or(|session| is_of(query, session)));
        queries.filter_map(Started::running).collect()
    }

    /// Forgets a table or view, and lets go of whoever fills it.
    pub fn remove(&mut self, name: &str) {
        self.catalog_mut().remove(name);
        self.program_tables_mut().remove(name);
    }

    /// The tables of the program itself, to be changed.
    pub fn program_tables_mut(&mut self) -> &mut ProgramTables {
        Arc::make_mut(&mut self.program_tables)
    }

    /// Adds a query that was just started, and forgets some that have ended.
    pub fn register(&mut self, number: usize, session: SessionId, query: &Query) {
        let mut ended = self.queries.iter().filter(|query| query.running().is_none()).count();
        self.queries.retain(|query| {
            let is_kept = ended < ENDED_QUERIES_MAX || query.running().is_some();
            ended -= usize::from(!is_kept);
            is_kept
        });
        // One with a higher number may have been started in less time.
        let place = self.queries.partition_point(|query| query.number < number);
        let started = Started { number, session, run: query.weak(), stories: query.stories().to_vec() };
        self.queries.insert(place, started);
    }

    /// All jobs, the oldest first.
    pub fn jobs(&self) -> impl DoubleEndedIterator<Item = &Job> {
        self.jobs.iter()
    }

    /// The job of this name that runs, or else the last that has ended.
    pub fn job(&self, name: &str) -> Option<&Job> {
        let named = || self.jobs.iter().rev().filter(|job| job.name() == name);
        named().find(|job| job.state() == JobState::Running).or_else(|| named().next())
    }

    /// The name of a job that is being started as query `number`: the one that was set, or one that is made of the tables that it inserts into.
    ///
    /// # Errors
    /// Where another job runs under the name that was set.
    pub fn job_name(&self, set: Option<&str>, tables: &[String], number: usize) -> Result<String, Error> {
        let is_taken = |name: &str| self.job(name).is_some_and(|job| job.state() == JobState::Running);
        match set {
            Some(name) if is_taken(name) => Err(Error::Usage(format!(
                "a job '{name}' is running already: SET 'pipeline.name' to another name, or RESET 'pipeline.name' to name jobs after their tables"
            ))),
            Some(name) => Ok(name.to_owned()),
            None => {
                let name = job::default_name(tables);
                Ok(if is_taken(&name) { format!("{name}_{number}") } else { name })
            }
        }
    }

    /// Makes an insert that was just started a job, and forgets some that have ended.
    pub fn register_job(&mut self, query: &mut Query, description: JobDescription, pool: Pool) {
        let mut ended = self.jobs.iter().filter(|job| job.state() != JobState::Running).count();
        self.jobs.retain(|job| {
            let is_kept = ended < ENDED_JOBS_MAX || job.state() == JobState::Running;
            ended -= usize::from(!is_kept);
            is_kept
        });
        let place = self.jobs.partition_point(|job| job.id() < description.id);
        self.jobs.insert(place, query.name_job(description, pool));
    }

    /// The time of the engine's clock.
    pub fn now(&self) -> Micros {
        self.clock.micros()
    }

    /// So many threads that run queries. Where their number was changed, queries that run keep those they have.
    pub fn pool(&mut self, workers: usize) -> Pool {
        let pool = self.pool.take().filter(|pool| pool.workers() == workers);
        let pool = self.pool.insert(pool.unwrap_or_else(|| Pool::new(workers, self.clock.clone())));
        follow(pool, &Settings::of(&self.catalog));
        pool.clone()
    }

    /// What a setting changes for queries that run.
    pub fn follow_settings(&mut self) {
        let settings = Settings::of(&self.catalog);
        self.budget.limit(settings.memory_bytes_max);
        self.program_tables.look_again();
        if let Some(pool) = &self.pool {
            follow(pool, &settings);
            pool.look_again();
        }
    }

    /// What `EXPLAIN ANALYZE QUERY number` says.
    pub fn analyzed(&self, number: usize, is_verbose: bool) -> Result<String, Error> {
        let query = self.queries.iter().find(|query| query.number == number);
        let query = query.ok_or_else(|| {
            let last = self.queries_started;
            if last == 0 {
                return Error::Usage(format!("query {number} is not known: none has been started"));
            }
            Error::Usage(format!(
                "query {number} is not known: queries are numbered from 1, the last one is {last}, and of those that have ended the last \
                 {ENDED_QUERIES_MAX} are kept"
            ))
        })?;
        Ok(match is_verbose {
            true => analyze::text(&query.stories),
            false => analyze::pipelines(&query.stories),
        })
    }

    /// What the queries that run wait for.
    pub fn progress(&self, is_verbose: bool) -> RecordBatch {
        let rows = self.in_progress().flat_map(|(number, progress)| waiting::rows(number, &progress));
        shown_rows((&waiting::COLUMNS, &waiting::NARROW), rows, is_verbose)
    }

    /// How the queries fare that run.
    pub fn running(&self, is_verbose: bool) -> RecordBatch {
        let rows = self.in_progress().map(|(number, progress)| running::row(number, &progress));
        shown_rows((&running::COLUMNS, &running::NARROW), rows, is_verbose)
    }

    /// What their operators cost, and what waits in front of each.
    pub fn operators(&self, is_verbose: bool) -> RecordBatch {
        let rows = self.in_progress().flat_map(|(number, progress)| operators::rows(number, &progress));
        shown_rows((&operators::COLUMNS, &operators::NARROW), rows, is_verbose)
    }

    fn in_progress(&self) -> impl Iterator<Item = (usize, Progress)> {
        self.queries.iter().filter_map(|query| Some((query.number, query.running()?.progress())))
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        self.jobs.iter().for_each(Job::leave);
        self.program_tables.close();
    }
}

/// Has the threads that run queries do as they are told.
fn follow(pool: &Pool, settings: &Settings) {
    pool.set_policy(settings.policy);
    pool.set_epoch(settings.epoch);
    pool.set_spin(settings.spin);
    pool.set_pinned(settings.pin);
}
