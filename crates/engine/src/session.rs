//! Sessions: where statements are executed.

mod alter;
mod create_tables;
mod definitions;
mod describe;
mod jobs;
mod register;
mod sharing;
mod start;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field};
use datafusion_expr::Expr;
use pelton_plan::Catalog;
use pelton_plan::parse::{OptionPlace, Statement};
use pelton_plan::query::builder::{self, RelationBuilder, TableCall};
use pelton_plan::query::{LOCAL_TIME_ZONE, Planned, plan_statements};
use pelton_runtime::checkpoint::RunSnapshot;
use pelton_runtime::clock::Clock;
use pelton_runtime::pool::Pool;

use crate::builder::QueryBuilder;
use crate::display::{Zone, plan_rows, text_rows};
use crate::engine::{Engine, SessionId};
use crate::error::Error;
use crate::function::{AggregateFunction, OutputRows};
use crate::query::{Query, QueryControl};
use crate::scalar_function::scalar_function;
use crate::settings::{CHECKPOINT_INTERVAL, Settings, is_of_engine, user_settings};
use crate::statement::{Outcome, Prepared};
use crate::table_function::table_function;
use crate::{analyze, flink_options, table};

/// Executes statements against the tables, views and functions of an [`Engine`], and has settings and temporary tables and views of its own.
///
/// Clones refer to the same session. Queries go on to run when their session is dropped.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    engine: Engine,
    id: SessionId,
    own: Mutex<Own>,
}

/// What a session has of its own, behind its lock, which is taken before that of the engine.
struct Own {
    /// Temporary tables and views, the tables that stand for files in queries, and settings.
    catalog: Catalog,
}

impl Engine {
    /// A new session of this engine.
    ///
    /// ```
    /// let engine = pelton::Engine::new();
    /// let [first, second] = [engine.session(), engine.session()];
    /// let numbers = first.push_table("numbers", "i BIGINT")?;
    /// second.sql("SELECT i FROM numbers")?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn session(&self) -> Session {
        let (id, catalog) = {
            let mut known = self.known();
            (known.next_session(), known.catalog.of_session())
        };
        Session(Arc::new(Inner { engine: self.clone(), id, own: Mutex::new(Own { catalog }) }))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.0.id).finish()
    }
}

impl Session {
    /// A session of an engine of its own.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// session.set("pelton.workers", "1")?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn new() -> Session {
        Engine::new().session()
    }

    /// A session with this clock for processing time and idle timeouts, for the project's own tests. (The pace of
    /// generated rows follows the machine's clock.)
    #[doc(hidden)]
    pub fn with_clock(clock: Clock) -> Session {
        Engine::with_clock(clock).session()
    }

    /// A session whose queries run on the workers of this pool, which other sessions may share and a test may drive
    /// ([`Pool::manual`]), for the project's own tests; changing `pelton.workers` gives the session's engine its own pool.
    #[doc(hidden)]
    pub fn with_pool(pool: Pool) -> Session {
        Engine::with_pool(pool).session()
    }

    /// The engine, which other sessions may share.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT")?;
    /// let other = session.engine().session();
    /// assert!(other.table("numbers").is_ok());
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// State size of all queries of the engine in bytes, as last measured.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// session.sql("SELECT a, COUNT(*) FROM (VALUES (1), (2)) AS t (a) GROUP BY a")?.collect()?;
    /// assert_eq!(session.state_bytes(), 0, "what has ended has no state");
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn state_bytes(&self) -> usize {
        self.engine().state_bytes()
    }

    /// Bytes of buffered rows in all queries of the engine.
    pub fn waiting_bytes(&self) -> usize {
        self.engine().waiting_bytes()
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
        self.define_files(statement)?;
        let outcome = self.execute_statement(statement)?;
        self.note_change(statement)?;
        Ok(outcome)
    }

    /// Notes what a statement has changed of an engine that outlives its process.
    fn note_change(&self, prepared: &Prepared) -> Result<(), Error> {
        let Some(journal) = self.engine().journal() else { return Ok(()) };
        match &prepared.0.statement {
            Statement::CreateTable(table) if !table.temporary => journal.relation_made(&table.name, prepared.text()),
            Statement::CreateView(view) if !view.temporary => journal.relation_made(&view.name, prepared.text()),
            Statement::Drop(_) => journal.relations_dropped(&self.engine().known().catalog.clone()),
            Statement::Set { key, value, .. } if is_of_engine(key) => journal.setting_changed(key, Some(value)),
            Statement::Reset { key: Some(key), .. } if is_of_engine(key) => journal.setting_changed(key, None),
            _ => Ok(()),
        }
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
        self.define_files(statement)?;
        let explained = match &statement.0.statement {
            Statement::Explain(explained) => explained.as_ref(),
            Statement::Analyze { statement: analyzed, is_verbose } => {
                return self.analyze(statement.text(), analyzed, *is_verbose).map(Some);
            }
            other => other,
        };
        if let Statement::Insert(_) | Statement::StatementSet(_) | Statement::Query(_) = explained {
            return self.snapshot().explain(|catalog| plan_statements(catalog, &[explained])).map(Some);
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

    /// Starts a query that goes on from what a run of it was at a cut. For the project's own tests of cuts.
    #[doc(hidden)]
    pub fn sql_from(&self, statement: &str, snapshot: &RunSnapshot) -> Result<Query, Error> {
        let prepared = self.prepare(statement)?.pop();
        let prepared = prepared.ok_or_else(|| Error::Usage("there is no statement".to_owned()))?;
        self.start(statement, |catalog| plan_statements(catalog, &[&prepared.0.statement]), Some(snapshot))
    }

    /// The running queries of this session, including those that a statement waits for. A query that another thread starts is among them once the tables that it joins
    /// with are loaded.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT")?;
    /// let query = session.sql("SELECT i FROM numbers")?;
    /// for query in session.queries() {
    ///     query.drain();
    /// }
    /// assert!(query.collect()?.is_empty());
    /// # drop(numbers);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn queries(&self) -> Vec<QueryControl> {
        let running = self.engine().known().running_queries(Some(self.0.id));
        running.into_iter().map(QueryControl::of).collect()
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
        self.set_at(key, value, None).map(drop)
    }

    /// The value that a setting of the session or its engine was set to; `None` where it has its default.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// session.set("table.dml-sync", "true")?;
    /// assert_eq!(session.setting("table.dml-sync").as_deref(), Some("true"));
    /// assert_eq!(session.setting("pelton.seed"), None);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn setting(&self, key: &str) -> Option<String> {
        self.snapshot().catalog.setting(key).map(str::to_owned)
    }

    /// Changes a setting of the session or its engine; returns a note where that has no effect, as of options of Flink that have no meaning here.
    fn set_at(&self, key: &str, value: &str, place: Option<OptionPlace>) -> Result<Option<String>, Error> {
        let (mut own, mut known) = (self.own(), self.engine().known());
        Settings::check(&own.catalog.over(known.catalog.clone()), key, value, place)?;
        if let Some(note) = flink_options::note(key) {
            return Ok(Some(note));
        }
        if is_of_engine(key) {
            known.catalog_mut().set(key, value);
            known.follow_settings();
        } else {
            own.catalog.set(key, value);
        }
        let settings = Settings::of(&own.catalog.over(known.catalog.clone()));
        let lacks_directory = settings.checkpoint_interval.is_some() && settings.checkpoint_directory.is_none();
        Ok((key == CHECKPOINT_INTERVAL && lacks_directory).then(|| {
            format!("'{CHECKPOINT_INTERVAL}' has no effect until 'execution.checkpointing.dir' names a directory")
        }))
    }

    /// Takes back a setting, or all of the session.
    fn reset(&self, key: Option<&str>) {
        let (mut own, mut known) = (self.own(), self.engine().known());
        if key.is_some_and(is_of_engine) {
            known.catalog_mut().reset(key);
            known.follow_settings();
        } else {
            own.catalog.reset(key);
        }
    }

    /// Registers a scalar function of the engine. `body` gets one array for each argument and returns one of the same length, and of the
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
        self.engine().known().catalog_mut().add_function(scalar_function(name, arguments, returns, body));
    }

    /// Registers an aggregate function of the engine, for windows of every kind and all other aggregations.
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
        self.engine().known().catalog_mut().add_aggregate(function.planned());
    }

    /// Registers a table function of the engine, which makes any number of rows of each: `… CROSS JOIN LATERAL TABLE(words(line)) AS t (word)`.
    ///
    /// It gets one array for each argument, cast to these types, with a value for each row of a block, NULLs included. It returns its rows with the number of the
    /// row that each was made of, from 0, in ascending order. A function without arguments is called as for one row. Errors stop the query, and are
    /// shown to the user with the place of the row.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pelton::arrow::{array::{AsArray, StringViewArray}, datatypes::{DataType, Field}};
    /// use pelton::function::OutputRows;
    /// let session = pelton::Session::new();
    /// let returns = vec![Field::new("word", DataType::Utf8View, false)];
    /// session.register_table_function("words", vec![DataType::Utf8View], returns, |arguments| {
    ///     let lines = arguments[0].as_string_view().iter().zip(0..);
    ///     let words = lines.flat_map(|(line, row)| line.unwrap_or("").split_whitespace().map(move |word| (row, word)));
    ///     let (input_rows, words): (Vec<u32>, Vec<&str>) = words.unzip();
    ///     Ok(OutputRows { input_rows, columns: vec![Arc::new(StringViewArray::from(words))] })
    /// });
    /// let query = session.sql("SELECT line, word FROM (VALUES ('to be'), ('or not')) AS t (line) CROSS JOIN LATERAL TABLE(words(line))")?;
    /// assert_eq!(query.collect()?.iter().map(|rows| rows.num_rows()).sum::<usize>(), 4);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn register_table_function<F>(&self, name: &str, arguments: Vec<DataType>, returns: Vec<Field>, body: F)
    where
        F: Fn(&[ArrayRef]) -> Result<OutputRows, String> + Send + Sync + 'static,
    {
        self.engine().known().catalog_mut().add_table_function(table_function(name, Some(arguments), returns, body));
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
        let relation = RelationBuilder::table(&self.snapshot().catalog, name)?;
        Ok(QueryBuilder::new(self.clone(), relation))
    }

    /// The session's time zone, as `SET 'table.local-time-zone'` has it.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// assert_eq!(session.time_zone().to_string(), "UTC");
    /// session.set("table.local-time-zone", "Europe/Berlin")?;
    /// assert_eq!(session.time_zone().to_string(), "Europe/Berlin");
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn time_zone(&self) -> Zone {
        let own = self.own();
        let name = own.catalog.setting(LOCAL_TIME_ZONE).unwrap_or("UTC");
        Zone::named(name).expect("SET takes zones only")
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
        Ok(builder::call(&self.snapshot().catalog, function, arguments.into_iter().collect())?)
    }

    /// A call of a table function by its SQL name, for [`QueryBuilder::flat_map`]: a built-in one, or one of [`Session::register_table_function`].
    ///
    /// # Errors
    /// [`Error::Plan`] where none has that name.
    ///
    /// ```
    /// use pelton::builder::{col, lit};
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// let series = session.call_table("GENERATE_SERIES", [lit(1_i64), col("i")])?.named("s", ["n"]);
    /// let query = session.table("numbers")?.flat_map(series)?;
    /// # query.run()?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn call_table(&self, function: &str, arguments: impl IntoIterator<Item = Expr>) -> Result<TableCall, Error> {
        Ok(TableCall::by_name(&self.snapshot().catalog, function, arguments)?)
    }

    pub(crate) fn plan_built(&self, relation: &RelationBuilder, into: Option<&str>) -> Result<Planned, Error> {
        Ok(relation.plan(&self.snapshot().catalog, into)?)
    }

    pub(crate) fn explain_built(&self, relation: &RelationBuilder, into: Option<&str>) -> Result<String, Error> {
        self.snapshot().explain(|catalog| relation.plan(catalog, into))
    }

    pub(crate) fn start_built(&self, relation: &RelationBuilder, into: Option<&str>) -> Result<Query, Error> {
        self.start("", |catalog| relation.plan(catalog, into), None)
    }

    pub(crate) fn is_same(&self, other: &Session) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn id(&self) -> SessionId {
        self.0.id
    }

    /// Locks what the session has of its own. As under the engine's lock, nothing that may wait is done under this one.
    fn own(&self) -> MutexGuard<'_, Own> {
        self.0.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Defines the tables that stand for the files in a statement.
    fn define_files(&self, statement: &Prepared) -> Result<(), Error> {
        for file in &statement.0.files {
            let table = table::of_file(file)?;
            self.own().catalog.add_file(Arc::new(table));
        }
        Ok(())
    }

    /// Runs a query, an insert or a statement set to its end, drops its rows, and says what it cost, or what became of its code.
    fn analyze(&self, text: &str, statement: &Statement, is_verbose: bool) -> Result<String, Error> {
        let query = self.start(text, |catalog| plan_statements(catalog, &[statement]), None)?;
        analyze::to_its_end(query, is_verbose)
    }

    fn execute_statement(&self, prepared: &Prepared) -> Result<Outcome, Error> {
        let statement = &prepared.0.statement;
        match statement {
            Statement::CreateTable(definition) => self.create_table(definition)?,
            Statement::CreateView(definition) => self.create_view(definition)?,
            Statement::Drop(dropped) => return self.drop_relation(dropped),
            Statement::Set { key, value, place } => {
                return Ok(self.set_at(key, value, Some(*place))?.map_or(Outcome::Done, Outcome::Noted));
            }
            Statement::Reset { key, place } => {
                if let Some(key) = key {
                    Settings::check_key(key, *place)?;
                }
                self.reset(key.as_deref());
            }
            Statement::Use => {}
            Statement::Insert(_) | Statement::StatementSet(_) | Statement::Query(_) => {
                return self
                    .start(prepared.text(), |catalog| plan_statements(catalog, &[statement]), None)
                    .map(Outcome::Running);
            }
            Statement::Explain(explained) => {
                let text = self.snapshot().explain(|catalog| plan_statements(catalog, &[explained.as_ref()]))?;
                return Ok(Outcome::Rows(plan_rows(&text)));
            }
            Statement::Analyze { statement: analyzed, is_verbose } => {
                return self
                    .analyze(prepared.text(), analyzed, *is_verbose)
                    .map(|text| Outcome::Rows(plan_rows(&text)));
            }
            Statement::AnalyzeQuery { number, is_verbose } => {
                return Ok(Outcome::Rows(plan_rows(&self.engine().known().analyzed(*number, *is_verbose)?)));
            }
            Statement::ShowSharing => return Ok(Outcome::Rows(self.show_sharing())),
            Statement::ShowJobs { is_verbose } => return Ok(Outcome::Rows(self.show_jobs(*is_verbose))),
            Statement::DescribeJob(job) => return self.describe_job(job).map(Outcome::Rows),
            Statement::StopJob { job, with_savepoint, with_drain } => {
                return self.stop_job(job, (*with_savepoint, *with_drain));
            }
            Statement::AlterJob { job, statement, text } => {
                return self.alter_job(job, statement, text).map(Outcome::Rows);
            }
            Statement::ShowProgress { is_verbose } => {
                return Ok(Outcome::Rows(self.engine().known().progress(*is_verbose)));
            }
            Statement::ShowQueries { is_verbose } => {
                return Ok(Outcome::Rows(self.engine().known().running(*is_verbose)));
            }
            Statement::ShowOperators { is_verbose } => {
                return Ok(Outcome::Rows(self.engine().known().operators(*is_verbose)));
            }
            shown => return show(&self.snapshot().catalog, shown).map(Outcome::Rows),
        }
        Ok(Outcome::Done)
    }
}

impl Default for Session {
    fn default() -> Session {
        Session::new()
    }
}

fn show(catalog: &Catalog, statement: &Statement) -> Result<RecordBatch, Error> {
    if matches!(statement, Statement::ShowSettings) {
        let value = |key: &str| catalog.setting(key).unwrap_or("(default)").to_owned();
        let rows =
            user_settings().map(|setting| vec![setting.key.to_owned(), value(setting.key), setting.takes.to_owned()]);
        return Ok(text_rows(&["key", "value", "takes"], rows));
    }
    match pelton_plan::show::show(catalog, statement)? {
        Some(listing) => Ok(text_rows(&listing.columns, listing.rows.into_iter())),
        None => unreachable!("{statement:?} is executed, not shown"),
    }
}
