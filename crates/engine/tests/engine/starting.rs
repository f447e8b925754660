//! Threads that use a session while another one starts a query: tables that a query joins with are pipes, which are loaded when a test writes to them.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use pelton::arrow::array::{Int64Array, RecordBatch};
use pelton::arrow::datatypes::DataType;
use pelton::{Error, Outcome, PushSource, Query, Session};

use crate::shown::{rows, shown};

/// What takes longer than this waits for something that never comes.
const GUARD: Duration = Duration::from_secs(20);

/// What another thread computes, once it has.
struct Background<T>(Receiver<T>);

impl<T: Send + 'static> Background<T> {
    fn of(work: impl FnOnce() -> T + Send + 'static) -> Background<T> {
        let (done, result) = mpsc::channel();
        std::thread::spawn(move || drop(done.send(work())));
        Background(result)
    }

    fn result(self) -> T {
        self.0.recv_timeout(GUARD).expect("it does not wait, and does not panic")
    }
}

/// Does this in another thread, which must not wait.
fn at_once<T: Send + 'static>(session: &Session, work: impl FnOnce(&Session) -> T + Send + 'static) -> T {
    let session = session.clone();
    Background::of(move || work(&session)).result()
}

fn starts(session: &Session, sql: &'static str) -> Background<Result<Query, Error>> {
    let session = session.clone();
    Background::of(move || session.sql(sql))
}

/// A folder that is removed with its files.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("pelton-starting-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A table of names whose file is a pipe.
    fn pipe(&self, session: &Session, name: &str) -> Pipe {
        let pipe = Pipe { name: name.to_owned(), path: self.0.join(name) };
        pipe.make();
        execute(session, &pipe.definition()).unwrap();
        pipe
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

struct Pipe {
    name: String,
    path: PathBuf,
}

impl Pipe {
    fn make(&self) {
        assert!(Command::new("mkfifo").arg(&self.path).status().unwrap().success());
    }

    /// Puts another pipe in its place, for whoever opens it from now on.
    fn renew(&self) {
        std::fs::remove_file(&self.path).unwrap();
        self.make();
    }

    fn definition(&self) -> String {
        format!(
            "CREATE TABLE {} (id BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv')",
            self.name,
            self.path.display()
        )
    }

    /// The end to write to. The table is being loaded when there is one.
    fn writer(&self) -> File {
        let path = self.path.clone();
        Background::of(move || OpenOptions::new().write(true).open(path).unwrap()).result()
    }
}

/// Ends the loading of a table with these rows.
fn load(mut writer: File, rows: &str) {
    writer.write_all(rows.as_bytes()).unwrap();
}

fn execute(session: &Session, statement: &str) -> Result<Outcome, Error> {
    session.execute(&session.prepare(statement)?[0])
}

fn failed(query: Background<Result<Query, Error>>) -> String {
    match query.result() {
        Ok(_) => panic!("the query starts"),
        Err(error) => error.to_string(),
    }
}

fn pushed(session: &Session, name: &str) -> PushSource {
    session.push_table(name, "id BIGINT NOT NULL").unwrap()
}

fn push(source: &PushSource, ids: impl IntoIterator<Item = i64>) {
    let ids = Arc::new(Int64Array::from_iter_values(ids));
    source.push_blocking(RecordBatch::try_new(source.schema().clone(), vec![ids]).unwrap()).unwrap();
}

/// Their numbers and outputs.
fn queries(session: &Session) -> Vec<[String; 1]> {
    shown(session, "SHOW QUERIES VERBOSE", ["query"])
}

const JOIN: &str = "SELECT s.id, p.name FROM s JOIN p ON s.id = p.id";

#[test]
fn a_session_can_be_used_while_a_joined_table_is_loaded() {
    let (session, folder) = (Session::new(), Folder::new("used"));
    let (pipe, source) = (folder.pipe(&session, "p"), pushed(&session, "s"));
    let query = starts(&session, JOIN);
    let writer = pipe.writer();
    assert!(at_once(&session, queries).is_empty(), "it is not a query yet");
    assert!(at_once(&session, Session::queries).is_empty());
    at_once(&session, |session| execute(session, "SET 'pelton.block-rows' = '7'").map(drop)).unwrap();
    at_once(&session, |session| execute(session, "RESET 'pelton.block-rows'").map(drop)).unwrap();
    let counted =
        at_once(&session, |session| session.sql("SELECT COUNT(*) FROM (VALUES (1), (2)) AS t (a)")?.collect());
    assert_eq!(rows(&counted.unwrap()), ["2"]);
    let table = "CREATE TABLE hole (a BIGINT) WITH ('connector' = 'blackhole')";
    at_once(&session, move |session| execute(session, table).map(drop)).unwrap();
    at_once(&session, |session| execute(session, "CREATE VIEW v AS SELECT id + 1 AS next FROM s").map(drop)).unwrap();
    let tables = at_once(&session, |session| shown(session, "SHOW TABLES", ["table name"]));
    assert_eq!(tables, [["hole"], ["p"], ["s"], ["v"]].map(|[name]| [name.to_owned()]));
    let plan = at_once(&session, |session| execute(session, &format!("EXPLAIN {JOIN}")));
    assert!(matches!(plan, Ok(Outcome::Rows(_))));
    at_once(&session, |session| session.table("v")?.explain()).unwrap();
    let mut other = at_once(&session, |session| (pushed(session, "t"), session.sql("SELECT id FROM t").unwrap()));
    push(&other.0, [5]);
    assert_eq!(rows(&[other.1.next_batch().unwrap().unwrap()]), ["5"]);

    load(writer, "1,one\n2,two\n");
    let query = query.result().unwrap();
    // Queries are numbered as they began.
    assert_eq!(queries(&session), [["1: result"], ["3: result"]].map(|[name]| [name.to_owned()]));
    push(&source, 1..4);
    drop(source);
    assert_eq!(rows(&query.collect().unwrap()), ["1 | one", "2 | two"]);
}

#[test]
fn a_table_that_is_dropped_while_it_is_loaded_is_no_table() {
    let (session, folder) = (Session::new(), Folder::new("dropped"));
    let (pipe, source) = (folder.pipe(&session, "p"), pushed(&session, "s"));
    let query = starts(&session, JOIN);
    let writer = pipe.writer();
    at_once(&session, |session| execute(session, "DROP TABLE p").map(drop)).unwrap();
    load(writer, "1,one\n");
    let while_it_is_loaded = failed(query);
    let before = failed(starts(&session, JOIN));
    assert_eq!(while_it_is_loaded, before);
    assert!(before.contains("there is no table or view p"), "{before}");
    // It has taken neither rows nor a number.
    let other = session.sql("SELECT id FROM s").unwrap();
    assert_eq!(queries(&session), [["1: result".to_owned()]]);
    push(&source, [7]);
    drop(source);
    assert_eq!(rows(&other.collect().unwrap()), ["7"]);
}

#[test]
fn a_table_that_is_replaced_while_another_one_is_loaded_is_read_as_it_is_then() {
    let (session, folder) = (Session::new(), Folder::new("replaced"));
    let (pipe, old) = (folder.pipe(&session, "p"), pushed(&session, "s"));
    let query = starts(&session, JOIN);
    let writer = pipe.writer();
    at_once(&session, |session| execute(session, "DROP TABLE s").map(drop)).unwrap();
    let new = at_once(&session, |session| pushed(session, "s"));
    pipe.renew();
    load(writer, "1,one\n");
    // It is planned again, and loads the table again.
    load(pipe.writer(), "1,uno\n2,due\n");
    let query = query.result().unwrap();
    assert!(old.try_push(RecordBatch::new_empty(old.schema().clone())).is_err(), "it is gone");
    push(&new, [2, 1]);
    drop(new);
    assert_eq!(rows(&query.collect().unwrap()), ["1 | uno", "2 | due"]);
}

#[test]
fn a_view_that_is_dropped_while_its_tables_are_loaded_was_there() {
    let (session, folder) = (Session::new(), Folder::new("view"));
    let (pipe, source) = (folder.pipe(&session, "p"), pushed(&session, "s"));
    execute(&session, &format!("CREATE VIEW v AS {JOIN}")).unwrap();
    let query = starts(&session, "SELECT name FROM v WHERE id > 1");
    let writer = pipe.writer();
    at_once(&session, |session| execute(session, "DROP VIEW v").map(drop)).unwrap();
    load(writer, "1,one\n2,two\n");
    let query = query.result().unwrap();
    push(&source, [1, 2]);
    drop(source);
    assert_eq!(rows(&query.collect().unwrap()), ["two"]);
}

#[test]
fn no_output_is_made_where_a_table_was_dropped_meanwhile() {
    let (session, folder) = (Session::new(), Folder::new("outputs"));
    let (pipe, _source) = (folder.pipe(&session, "p"), pushed(&session, "s"));
    let [kept, dropped] = ["kept", "dropped"].map(|name| {
        let path = folder.0.join(name);
        let definition = format!(
            "CREATE TABLE {name} (id BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv')",
            path.display()
        );
        execute(&session, &definition).unwrap();
        path
    });
    let set = "EXECUTE STATEMENT SET BEGIN
        INSERT INTO kept SELECT s.id, p.name FROM s JOIN p ON s.id = p.id;
        INSERT INTO dropped SELECT s.id, p.name FROM s JOIN p ON s.id = p.id;
        END";
    let query = starts(&session, set);
    let writer = pipe.writer();
    at_once(&session, |session| execute(session, "DROP TABLE dropped").map(drop)).unwrap();
    load(writer, "1,one\n");
    let error = failed(query);
    assert_eq!(error, failed(starts(&session, set)));
    assert!(error.contains("there is no table or view dropped"), "{error}");
    assert!(!kept.exists() && !dropped.exists());
}

#[test]
fn a_query_reads_a_pushed_table_from_when_it_starts() {
    let (session, folder) = (Session::new(), Folder::new("taken"));
    let [p, q] = ["p", "q"].map(|name| folder.pipe(&session, name));
    let source = pushed(&session, "s");
    let mut out = session.pull_table("out", "id BIGINT, name STRING").unwrap();
    let slow = starts(&session, "INSERT INTO out SELECT s.id, p.name FROM s JOIN p ON s.id = p.id");
    let fast = starts(&session, "SELECT s.id, q.name FROM s JOIN q ON s.id = q.id");
    let [slow_writer, fast_writer] = [p.writer(), q.writer()];
    load(fast_writer, "1,one\n");
    let mut fast = fast.result().unwrap();
    push(&source, [1]);
    assert_eq!(rows(&[fast.next_batch().unwrap().unwrap()]), ["1 | one"]);
    load(slow_writer, "1,uno\n");
    let slow = slow.result().unwrap();
    push(&source, [1]);
    drop(source);
    assert_eq!(rows(&fast.collect().unwrap()), ["1 | one"]);
    assert_eq!(rows(&[out.next_batch().unwrap()]), ["1 | uno"]);
    assert!(out.next_batch().is_none());
    slow.wait().unwrap();
}

#[test]
fn what_cannot_be_loaded_leaves_nothing_behind() {
    let (session, folder) = (Session::new(), Folder::new("failed"));
    let (pipe, source) = (folder.pipe(&session, "p"), pushed(&session, "s"));
    let query = starts(&session, JOIN);
    load(pipe.writer(), "1,one\n2\n");
    let error = failed(query);
    assert!(error.contains("row 2"), "{error}");
    assert_eq!((session.state_bytes(), session.waiting_bytes()), (0, 0));
    let other = session.sql("SELECT id FROM s").unwrap();
    assert_eq!(queries(&session), [["1: result".to_owned()]]);
    drop(source);
    other.wait().unwrap();
}

#[test]
fn the_first_of_two_definitions_of_a_name_holds() {
    let (session, folder) = (Session::new(), Folder::new("names"));
    let (pipe, _source) = (folder.pipe(&session, "p"), pushed(&session, "s"));
    let query = starts(&session, JOIN);
    let writer = pipe.writer();
    // The name of a table that is being loaded is taken.
    let definition = pipe.definition();
    let error = at_once(&session, move |session| execute(session, &definition).map(drop)).unwrap_err().to_string();
    assert!(error.contains("the table p exists already"), "{error}");
    let definitions = [(); 4].map(|()| {
        let session = session.clone();
        Background::of(move || execute(&session, "CREATE VIEW one AS SELECT id FROM s").is_ok())
    });
    assert_eq!(definitions.into_iter().map(Background::result).filter(|&is_ok| is_ok).count(), 1);
    load(writer, "1,one\n");
    query.result().unwrap();
}

/// A function that is computed when a query is planned, and changes the session then.
fn when_planned(session: &Session, change: impl Fn(&Session) + Send + Sync + 'static) -> Arc<AtomicUsize> {
    let calls = Arc::new(AtomicUsize::new(0));
    let (counted, changed) = (calls.clone(), session.clone());
    session.register_function("planned", vec![DataType::Int64], DataType::Int64, move |arguments| {
        counted.fetch_add(1, Ordering::SeqCst);
        change(&changed);
        Ok(arguments[0].clone())
    });
    calls
}

#[test]
fn a_query_whose_tables_change_whenever_it_is_planned_is_given_up() {
    let session = Session::new();
    let table = "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')";
    execute(&session, table).unwrap();
    let calls = when_planned(&session, move |session| {
        execute(session, "DROP TABLE n").unwrap();
        execute(session, table).unwrap();
    });
    let error = failed(starts(&session, "SELECT i + planned(CAST(1 AS BIGINT)) AS i FROM n"));
    assert_eq!(
        error,
        "tables of the query were dropped or replaced each of the 8 times that it was planned: start it again"
    );
    assert!(calls.load(Ordering::SeqCst) >= 8);
}

#[test]
fn a_table_that_is_not_read_may_change_while_a_query_is_planned() {
    let session = Session::new();
    let other = "CREATE TABLE other (i BIGINT) WITH ('connector' = 'blackhole')";
    when_planned(&session, move |session| {
        execute(session, "DROP TABLE IF EXISTS other").unwrap();
        execute(session, other).unwrap();
        session.set("pelton.block-rows", "7").unwrap();
    });
    let query =
        starts(&session, "SELECT a + planned(CAST(1 AS BIGINT)) AS a FROM (VALUES (CAST(2 AS BIGINT))) AS t (a)");
    assert_eq!(rows(&query.result().unwrap().collect().unwrap()), ["3"]);
}

#[test]
fn a_query_reads_one_of_the_tables_that_others_drop_and_create() {
    let session = Session::new();
    let definitions = [3, 5].map(|count| {
        format!(
            "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{count}', 'pace' = 'flat-out')"
        )
    });
    let changes = definitions.map(|definition| {
        let session = session.clone();
        Background::of(move || {
            for _ in 0..100 {
                // The other thread may have been faster.
                drop((execute(&session, "DROP TABLE n"), execute(&session, &definition)));
            }
        })
    });
    let readers = [(); 2].map(|()| {
        let session = session.clone();
        Background::of(move || {
            for _ in 0..50 {
                match session.sql("SELECT COUNT(*) FROM n").and_then(Query::collect) {
                    Ok(counted) => assert!(["3", "5"].contains(&rows(&counted)[0].as_str()), "{counted:?}"),
                    Err(Error::Plan(error)) => assert!(error.to_string().contains("no table or view n"), "{error}"),
                    Err(error) => assert!(error.to_string().contains("dropped or replaced each"), "{error}"),
                }
            }
        })
    });
    changes.into_iter().chain(readers).for_each(Background::result);
    assert!(queries(&session).is_empty());
}
