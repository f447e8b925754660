//! Sessions: where statements are executed.

pub(crate) mod own_tables;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use datafusion_expr::Expr;
use pelton_plan::Catalog;
use pelton_plan::parse::Statement;
use pelton_plan::query::builder::{self, RelationBuilder};
use pelton_plan::query::{Planned, check_computed_columns, check_view, plan_statements};
use pelton_runtime::budget::Budget;
use pelton_runtime::clock::Clock;
use pelton_runtime::late::LateLog;
use pelton_runtime::pool::Pool;
use pelton_runtime::progress::Progress;
use pelton_runtime::run::{RunHandle, WeakRunHandle};

use crate::builder::QueryBuilder;
use crate::display::{shown_rows, text_rows};
use crate::error::Error;
use crate::execute::{Surroundings, output_name, start};
use crate::explain::explain;
use crate::function::{AggregateFunction, scalar_function};
use crate::query::{NamedStories, Query, QueryControl};
use crate::settings::{Settings, all_settings};
use crate::statement::{Outcome, Prepared};
use crate::{analyze, emission, flink_options, late, operators, running, table, waiting};
use own_tables::OwnTables;

/// A catalogue of tables, views and functions with settings, in which statements are executed.
///
/// Clones refer to the same session.
#[derive(Clone, Default)]
pub struct Session(Arc<Mutex<Known>>);

struct Known {
    catalog: Catalog,
    own_tables: OwnTables,
    clock: Clock,
    /// The threads that run queries, once there was one.
    pool: Option<Pool>,
    late: LateLog,
    /// What the state of all queries is charged to.
    budget: Budget,
    /// Queries that may still run, and the last that have ended.
    queries: VecDeque<Started>,
    queries_started: usize,
}

/// A query that was started.
struct Started {
    /// Counted from 1.
    number: usize,
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

impl Session {
    /// An empty session.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// session.set("pelton.workers", "1")?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn new() -> Session {
        Session::default()
    }

    /// A session with this clock for processing time and idle timeouts. A test may advance the clock
    /// itself. (The pace of generated rows follows the machine's clock.)
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use pelton::clock::{Clock, Hands};
    /// let hands = Arc::new(Hands::default());
    /// let session = pelton::Session::with_clock(Clock::Manual(hands.clone()));
    /// let ticks = session.push_table("ticks", "i BIGINT NOT NULL, at AS PROCTIME()")?;
    /// let query = session.sql(
    ///     "SELECT window_start, COUNT(*) AS n FROM TUMBLE(TABLE ticks, DESCRIPTOR(at), INTERVAL '1' HOUR)
    ///      GROUP BY window_start, window_end",
    /// )?;
    /// hands.advance(Duration::from_hours(1));
    /// # drop(ticks);
    /// # query.collect()?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn with_clock(clock: Clock) -> Session {
        Session(Arc::new(Mutex::new(Known { clock, ..Known::default() })))
    }

    /// A session whose queries run on the workers of this pool, which may be shared with other sessions, or be driven by a test
    /// ([`Pool::manual`]); changing `pelton.workers` gives the session its own pool.
    ///
    /// ```
    /// use pelton::clock::Clock;
    /// use pelton::pool::Pool;
    /// let pool = Pool::new(1, Clock::system());
    /// let (one, other) = (pelton::Session::with_pool(pool.clone()), pelton::Session::with_pool(pool));
    /// one.sql("SELECT 1")?.collect()?;
    /// other.sql("SELECT 2")?.collect()?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn with_pool(pool: Pool) -> Session {
        let mut known = Known { clock: pool.clock().clone(), ..Known::default() };
        known.catalog.set("pelton.workers", pool.workers().to_string());
        known.pool = Some(pool);
        Session(Arc::new(Mutex::new(known)))
    }

    /// State size of all queries in bytes, as last measured.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// session.sql("SELECT a, COUNT(*) FROM (VALUES (1), (2)) AS t (a) GROUP BY a")?.collect()?;
    /// assert_eq!(session.state_bytes(), 0, "what has ended has no state");
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn state_bytes(&self) -> usize {
        self.known().budget.bytes()
    }

    /// Bytes of buffered rows in all queries.
    pub fn waiting_bytes(&self) -> usize {
        self.known().budget.waiting_bytes()
    }

    /// Parses a script without executing it.
    ///
    /// # Errors
    /// [`Error::Plan`] with the line and column of a syntax error.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let statements = session.prepare("SHOW TABLES; SHOW VIEWS")?;
    /// assert_eq!(statements.len(), 2);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn prepare(&self, script: &str) -> Result<Vec<Prepared>, Error> {
        Ok(pelton_plan::parse(script)?.into_iter().map(Prepared).collect())
    }

    /// Executes one statement. A query or insert continues to run after this returns.
    ///
    /// # Errors
    /// [`Error`] with the problem, its place, and a hint.
    ///
    /// ```
    /// use pelton::{Outcome, Session};
    /// let session = Session::new();
    /// for statement in session.prepare("SHOW TABLES")? {
    ///     if let Outcome::Rows(rows) = session.execute(&statement)? {
    ///         assert_eq!(rows.num_rows(), 0);
    ///     }
    /// }
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn execute(&self, statement: &Prepared) -> Result<Outcome, Error> {
        self.known().define_files(statement)?;
        self.execute_statement(&statement.0.statement)
    }

    /// The output of `EXPLAIN` for a query or an insert, as text. Other statements are executed, and return `None`.
    ///
    /// # Errors
    /// As [`Session::execute`].
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT")?;
    /// let statements = session.prepare("SELECT i FROM numbers WHERE i > 1")?;
    /// assert!(session.explain(&statements[0])?.is_some_and(|text| text.contains("pipeline")));
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn explain(&self, statement: &Prepared) -> Result<Option<String>, Error> {
        self.known().define_files(statement)?;
        let statement = match &statement.0.statement {
            Statement::Explain(explained) => explained.as_ref(),
            Statement::Analyze { statement, is_verbose } => return self.analyze(statement, *is_verbose).map(Some),
            other => other,
        };
        if let Statement::Insert(_) | Statement::StatementSet(_) | Statement::Query(_) = statement {
            let known = self.known();
            return known.explain(&plan_statements(&known.catalog, &[statement])?).map(Some);
        }
        self.execute_statement(statement).map(|_| None)
    }

    /// Executes a script whose last statement is a query or an insert, and returns that query while it runs. Earlier inserts run to their end first.
    ///
    /// # Errors
    /// As [`Session::execute`]; [`Error::Usage`] where the last statement is no query.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let query = session.sql(
    ///     "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '5', 'pace' = 'flat-out',
    ///                                      'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '5');
    ///      SELECT i * 2 AS twice FROM n WHERE i > 3",
    /// )?;
    /// let rows: usize = query.collect()?.iter().map(|batch| batch.num_rows()).sum();
    /// assert_eq!(rows, 2);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn sql(&self, script: &str) -> Result<Query, Error> {
        let mut statements = self.prepare(script)?;
        let no_query = || Error::Usage("the script does not end in a query or an insert".to_owned());
        let last = statements.pop().ok_or_else(no_query)?;
        for statement in &statements {
            if let Outcome::Running(query) = self.execute(statement)? {
                query.wait()?;
            }
        }
        match self.execute(&last)? {
            Outcome::Running(query) => Ok(query),
            Outcome::Done | Outcome::Noted(_) | Outcome::Rows(_) => Err(no_query()),
        }
    }

    /// The running queries, including those that a statement waits for; `None` while another thread starts a query, which may take as long as
    /// loading the tables that it joins with.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT")?;
    /// let query = session.sql("SELECT i FROM numbers")?;
    /// for query in session.queries().expect("nothing is started") {
    ///     query.drain();
    /// }
    /// assert!(query.collect()?.is_empty());
    /// # drop(numbers);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn queries(&self) -> Option<Vec<QueryControl>> {
        let known = match self.0.try_lock() {
            Ok(known) => known,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(known.queries.iter().filter_map(Started::running).map(QueryControl::of).collect())
    }

    /// Changes a setting, as `SET 'key' = 'value'` does.
    ///
    /// # Errors
    /// [`Error::Setting`] where the setting does not exist, or the value is invalid.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// session.set("pelton.workers", "2")?;
    /// let error = session.set("pelton.wrokers", "2").unwrap_err();
    /// assert!(error.to_string().contains("pelton.workers"), "{error}");
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn set(&self, key: &str, value: &str) -> Result<(), Error> {
        let mut known = self.known();
        Settings::check(&known.catalog, key, value, None)?;
        if flink_options::note(key).is_some() {
            return Ok(());
        }
        known.catalog.set(key, value);
        known.follow_settings();
        Ok(())
    }

    /// Registers a scalar function. `body` gets one array for each argument and returns one of the same length, and of the
    /// type `returns`; without arguments, one of length 1. The result for a row must depend only on that row's arguments: for constants it
    /// is computed once, when the query is planned.
    ///
    /// An error that `body` returns fails the query, with the text, the call and the values of the first row that causes it. So does an
    /// array of another length or type, and a panic; other queries are not affected.
    ///
    /// Function names are not case sensitive. A function replaces one that was registered under the same name, and hides
    /// a built-in one, in queries planned from then on; if `name` is part of SQL's syntax, such as `CASE`, no query can call it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pelton::arrow::{array::{AsArray, Int64Array}, datatypes::{DataType, Int64Type}};
    /// let session = pelton::Session::new();
    /// session.register_function("twice", vec![DataType::Int64], DataType::Int64, |arguments| {
    ///     let numbers = arguments[0].as_primitive::<Int64Type>();
    ///     Ok(Arc::new(numbers.iter().map(|n| n.map(|n| n * 2)).collect::<Int64Array>()))
    /// });
    /// # let numbers = session.push_table("numbers", "i BIGINT")?;
    /// let query = session.sql("SELECT twice(i) AS doubled FROM numbers")?;
    /// # drop(numbers);
    /// # query.collect()?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn register_function<F>(&self, name: &str, arguments: Vec<DataType>, returns: DataType, body: F)
    where
        F: Fn(&[ArrayRef]) -> Result<ArrayRef, String> + Send + Sync + 'static,
    {
        self.known().catalog.add_function(scalar_function(name, arguments, returns, body));
    }

    /// Registers an aggregate function, for windows of every kind and all other aggregations.
    ///
    /// See [`AggregateFunction`] for its abilities.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pelton::arrow::{array::{Array, ArrayRef, AsArray, Int64Array}, datatypes::{DataType, Int64Type}};
    /// use pelton::function::AggregateFunction;
    ///
    /// let values = |states: &[&i64]| Ok(Arc::new(states.iter().map(|&&state| state).collect::<Int64Array>()) as ArrayRef);
    /// let total = AggregateFunction::new("total", vec![DataType::Int64], DataType::Int64, || 0, |state, arguments| {
    ///     *state += arguments[0].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
    ///     Ok(())
    /// }, values);
    /// let session = pelton::Session::new();
    /// session.register_aggregate(total);
    /// let rows = session.sql("SELECT TOTAL(i) AS total FROM (VALUES (1), (2)) AS t (i)")?.collect()?;
    /// assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().value(0), 3);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn register_aggregate<S: Send + Sync + 'static>(&self, function: AggregateFunction<S>) {
        self.known().catalog.add_aggregate(function.planned());
    }

    /// Begins a query over a table or view, to be extended by methods of [`QueryBuilder`].
    ///
    /// # Errors
    /// [`Error::Plan`] where none has that name.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// let query = session.table("numbers")?;
    /// assert!(session.table("Numbers").is_err_and(|error| error.to_string().contains("did you mean numbers?")));
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn table(&self, name: &str) -> Result<QueryBuilder, Error> {
        let relation = RelationBuilder::table(&self.known().catalog, name)?;
        Ok(QueryBuilder::new(self.clone(), relation))
    }

    /// A call of a function by its SQL name: a built-in scalar or aggregate function, or one of [`Session::register_function`] or
    /// [`Session::register_aggregate`].
    ///
    /// # Errors
    /// [`Error::Plan`] where none has that name.
    ///
    /// ```
    /// use pelton::builder::col;
    /// let session = pelton::Session::new();
    /// let words = session.push_table("words", "word STRING")?;
    /// let loud = session.table("words")?.select([session.call("UPPER", [col("word")])?.alias("loud")])?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn call(&self, function: &str, arguments: impl IntoIterator<Item = Expr>) -> Result<Expr, Error> {
        Ok(builder::call(&self.known().catalog, function, arguments.into_iter().collect())?)
    }

    pub(crate) fn plan_built(&self, relation: &RelationBuilder, into: Option<&str>) -> Result<Planned, Error> {
        Ok(relation.plan(&self.known().catalog, into)?)
    }

    pub(crate) fn explain_built(&self, relation: &RelationBuilder, into: Option<&str>) -> Result<String, Error> {
        let known = self.known();
        known.explain(&relation.plan(&known.catalog, into)?)
    }

    pub(crate) fn start_built(&self, relation: &RelationBuilder, into: Option<&str>) -> Result<Query, Error> {
        let mut known = self.known();
        let planned = relation.plan(&known.catalog, into)?;
        known.start(planned)
    }

    pub(crate) fn is_same(&self, other: &Session) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a query, an insert or a statement set to its end, drops its rows, and says what it cost, or what became of its code.
    fn analyze(&self, statement: &Statement, is_verbose: bool) -> Result<String, Error> {
        let query = {
            let mut known = self.known();
            let planned = plan_statements(&known.catalog, &[statement])?;
            known.start(planned)?
        };
        analyze::to_its_end(query, is_verbose)
    }

    fn execute_statement(&self, statement: &Statement) -> Result<Outcome, Error> {
        if let Statement::Analyze { statement, is_verbose } = statement {
            return self.analyze(statement, *is_verbose).map(|text| Outcome::Rows(plan_rows(&text)));
        }
        let mut known = self.known();
        let known = &mut *known;
        match statement {
            Statement::CreateTable(definition) => {
                let table = table::define(definition.clone())?;
                check_computed_columns(&known.catalog, &table)?;
                known.catalog.add_table(table)?;
            }
            Statement::CreateView(definition) => {
                check_view(&known.catalog, definition)?;
                known.catalog.add_view(definition.clone())?;
            }
            Statement::DropTable(dropped) => {
                known.catalog.drop_table(dropped)?;
                known.own_tables.remove(&dropped.target.name);
            }
            Statement::DropView(dropped) => known.catalog.drop_view(dropped)?,
            Statement::Set { key, value, place } => {
                Settings::check(&known.catalog, key, value, Some(*place))?;
                if let Some(note) = flink_options::note(key) {
                    return Ok(Outcome::Noted(note));
                }
                known.catalog.set(key, value);
                known.follow_settings();
            }
            Statement::Reset { key, place } => {
                if let Some(key) = key {
                    Settings::check_key(key, *place)?;
                }
                known.catalog.reset(key.as_deref());
                known.follow_settings();
            }
            Statement::Use => {}
            Statement::Insert(_) | Statement::StatementSet(_) | Statement::Query(_) => {
                let planned = plan_statements(&known.catalog, &[statement])?;
                return known.start(planned).map(Outcome::Running);
            }
            Statement::Explain(explained) => {
                let planned = plan_statements(&known.catalog, &[explained.as_ref()])?;
                return Ok(Outcome::Rows(plan_rows(&known.explain(&planned)?)));
            }
            Statement::AnalyzeQuery { number, is_verbose } => {
                return Ok(Outcome::Rows(plan_rows(&known.analyzed(*number, *is_verbose)?)));
            }
            Statement::ShowProgress { is_verbose } => return Ok(Outcome::Rows(known.progress(*is_verbose))),
            Statement::ShowQueries { is_verbose } => return Ok(Outcome::Rows(known.running(*is_verbose))),
            Statement::ShowOperators { is_verbose } => return Ok(Outcome::Rows(known.operators(*is_verbose))),
            shown => return show(&known.catalog, shown).map(Outcome::Rows),
        }
        Ok(Outcome::Done)
    }
}

impl Default for Known {
    fn default() -> Known {
        let mut catalog = Catalog::default();
        catalog.add_system_table(late::TABLE.clone());
        Known {
            catalog,
            own_tables: OwnTables::default(),
            clock: Clock::default(),
            pool: None,
            late: LateLog::new(),
            budget: Budget::default(),
            queries: VecDeque::new(),
            queries_started: 0,
        }
    }
}

impl Known {
    /// Defines the tables that stand for the files in a statement.
    fn define_files(&mut self, statement: &Prepared) -> Result<(), Error> {
        for file in &statement.0.files {
            self.catalog.add_file(table::of_file(file)?);
        }
        Ok(())
    }

    fn start(&mut self, planned: Planned) -> Result<Query, Error> {
        let settings = Settings::of(&self.catalog);
        emission::check(&planned.program, &settings)?;
        let pool = self.pool(&settings);
        let Known { catalog, own_tables, budget, .. } = self;
        let outputs = planned.program.outputs.iter().map(output_name);
        let late = self.late.of_query(&waiting::query_name(self.queries_started + 1, outputs));
        let surroundings = Surroundings { catalog, own_tables, settings: &settings, pool: &pool, late: &late, budget };
        let query = start(planned.program, &surroundings)?;
        let mut ended = self.queries.iter().filter(|query| query.running().is_none()).count();
        self.queries.retain(|query| {
            let is_kept = ended < ENDED_QUERIES_MAX || query.running().is_some();
            ended -= usize::from(!is_kept);
            is_kept
        });
        self.queries_started += 1;
        let started = Started { number: self.queries_started, run: query.weak(), stories: query.stories().to_vec() };
        self.queries.push_back(started);
        Ok(query)
    }

    fn explain(&self, planned: &Planned) -> Result<String, Error> {
        explain(planned, &Settings::of(&self.catalog), &self.catalog, &self.own_tables)
    }

    /// The threads that run queries. Where their number was changed, queries that run keep those they have.
    fn pool(&mut self, settings: &Settings) -> Pool {
        let pool = self.pool.take().filter(|pool| pool.workers() == settings.workers);
        let pool = self.pool.insert(pool.unwrap_or_else(|| Pool::new(settings.workers, self.clock.clone())));
        follow(pool, settings);
        pool.clone()
    }

    /// What a setting changes for queries that run.
    fn follow_settings(&mut self) {
        let settings = Settings::of(&self.catalog);
        self.budget.limit(settings.memory_bytes_max);
        self.own_tables.look_again();
        if let Some(pool) = &self.pool {
            follow(pool, &settings);
            pool.look_again();
        }
    }

    /// What `EXPLAIN ANALYZE QUERY number` says.
    fn analyzed(&self, number: usize, is_verbose: bool) -> Result<String, Error> {
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
    fn progress(&self, is_verbose: bool) -> RecordBatch {
        let rows = self.in_progress().flat_map(|(number, progress)| waiting::rows(number, &progress));
        shown_rows((&waiting::COLUMNS, &waiting::NARROW), rows, is_verbose)
    }

    /// How the queries fare that run.
    fn running(&self, is_verbose: bool) -> RecordBatch {
        let rows = self.in_progress().map(|(number, progress)| running::row(number, &progress));
        shown_rows((&running::COLUMNS, &running::NARROW), rows, is_verbose)
    }

    /// What their operators cost, and what waits in front of each.
    fn operators(&self, is_verbose: bool) -> RecordBatch {
        let rows = self.in_progress().flat_map(|(number, progress)| operators::rows(number, &progress));
        shown_rows((&operators::COLUMNS, &operators::NARROW), rows, is_verbose)
    }

    fn in_progress(&self) -> impl Iterator<Item = (usize, Progress)> {
        self.queries.iter().filter_map(|query| Some((query.number, query.running()?.progress())))
    }
}

/// Has the threads that run queries do as they are told.
fn follow(pool: &Pool, settings: &Settings) {
    pool.set_policy(settings.policy);
    pool.set_epoch(settings.epoch);
    pool.set_spin(settings.spin);
    pool.set_pinned(settings.pin);
}

fn show(catalog: &Catalog, statement: &Statement) -> Result<RecordBatch, Error> {
    if matches!(statement, Statement::ShowSettings) {
        let value = |key: &str| catalog.setting(key).unwrap_or("(default)").to_owned();
        let rows =
            all_settings().map(|setting| vec![setting.key.to_owned(), value(setting.key), setting.takes.to_owned()]);
        return Ok(text_rows(&["key", "value", "takes"], rows));
    }
    match pelton_plan::show::show(catalog, statement)? {
        Some(listing) => Ok(text_rows(&listing.columns, listing.rows.into_iter())),
        None => unreachable!("{statement:?} is executed, not shown"),
    }
}

fn plan_rows(text: &str) -> RecordBatch {
    text_rows(&["plan"], text.lines().map(|line| vec![line.to_owned()]))
}
