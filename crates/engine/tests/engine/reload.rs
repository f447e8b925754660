//! Bounded tables that are loaded again while a query joins with them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pelton::arrow::array::{AsArray, Int64Array, RecordBatch};
use pelton::{Error, PushSource, Query, Session};

/// What takes longer than this never comes.
const GUARD: Duration = Duration::from_secs(20);

/// A file that is removed at the end, and a session with a table `name` over it, which is loaded again each 20 ms, and a pushed table `n`.
struct Names {
    path: PathBuf,
    session: Session,
}

impl Names {
    fn new(test: &str, rows: &str) -> Names {
        let path = std::env::temp_dir().join(format!("pelton-reload-{test}-{}.csv", std::process::id()));
        let names = Names { path, session: Session::new() };
        names.write(rows);
        let options = format!(
            "'connector' = 'filesystem', 'path' = '{}', 'format' = 'csv', 'lookup.cache' = 'FULL', \
             'lookup.full-cache.reload-strategy' = 'PERIODIC', 'lookup.full-cache.periodic-reload.interval' = '20 ms'",
            names.path.display()
        );
        create(&names.session, &format!("name (i BIGINT, name STRING) WITH ({options})")).unwrap();
        names
    }

    /// Replaces the file at once.
    fn write(&self, rows: &str) {
        let new = self.path.with_extension("new");
        std::fs::write(&new, rows).unwrap();
        std::fs::rename(new, &self.path).unwrap();
    }
}

fn create(session: &Session, table: &str) -> Result<(), Error> {
    for statement in session.prepare(&format!("CREATE TABLE {table}"))? {
        session.execute(&statement)?;
    }
    Ok(())
}

impl Drop for Names {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn push(numbers: &PushSource, number: i64) {
    let rows = RecordBatch::try_from_iter([("i", std::sync::Arc::new(Int64Array::from(vec![number])) as _)]).unwrap();
    numbers.push_blocking(rows).unwrap();
}

/// The name that a number finds now.
fn name_of(query: &mut Query, numbers: &PushSource, number: i64) -> Option<String> {
    push(numbers, number);
    let batch = query.next_batch().unwrap().expect("the stream goes on");
    assert_eq!(batch.num_rows(), 1);
    let names = batch.column(0).as_string_view();
    names.iter().next().flatten().map(str::to_owned)
}

#[test]
fn a_joined_table_is_loaded_again_while_the_query_runs() {
    let names = Names::new("changes", "1,one\n2,two\n");
    let numbers = names.session.push_table("n", "i BIGINT").unwrap();
    let mut query = names.session.sql("SELECT name.name FROM n LEFT JOIN name ON n.i = name.i").unwrap();
    assert_eq!(name_of(&mut query, &numbers, 2).as_deref(), Some("two"));
    assert_eq!(name_of(&mut query, &numbers, 3), None);
    // Other keys, more of them, and several rows of one.
    names.write("3,three\n2,zwei\n1000000,million\n");
    let started = Instant::now();
    while name_of(&mut query, &numbers, 3).is_none() {
        assert!(started.elapsed() < GUARD, "the table is loaded again");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(name_of(&mut query, &numbers, 2).as_deref(), Some("zwei"));
    assert_eq!(name_of(&mut query, &numbers, 1_000_000).as_deref(), Some("million"));
    assert_eq!(name_of(&mut query, &numbers, 1), None);
    drop(numbers);
    assert!(query.next_batch().unwrap().is_none());
    query.wait().unwrap();
}

#[test]
fn a_table_that_cannot_be_loaded_again_ends_its_query() {
    let names = Names::new("gone", "1,one\n");
    let numbers = names.session.push_table("n", "i BIGINT").unwrap();
    let mut query = names.session.sql("SELECT name.name FROM n JOIN name ON n.i = name.i").unwrap();
    assert_eq!(name_of(&mut query, &numbers, 1).as_deref(), Some("one"));
    std::fs::remove_file(&names.path).unwrap();
    let error = query.next_batch().unwrap_err().to_string();
    assert!(error.contains("name cannot be loaded again") && error.contains("reload-gone"), "{error}");
    drop(numbers);
}

#[test]
fn options_of_reloading_need_each_other() {
    let session = Session::new();
    let refused = |options: &str| {
        let table = format!("t (i BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1', {options})");
        create(&session, &table).expect_err("the table is refused").to_string()
    };
    let error = refused("'lookup.full-cache.periodic-reload.interval' = '1 min'");
    assert!(error.contains("needs 'lookup.cache' = 'FULL' beside it"), "{error}");
    let error = refused("'lookup.cache' = 'FULL', 'lookup.full-cache.reload-strategy' = 'PERIODIC'");
    assert!(error.contains("needs 'lookup.full-cache.periodic-reload.interval' = '10 min' beside it"), "{error}");
    let error = refused("'lookup.cache' = 'PARTIAL'");
    assert!(error.contains("FULL"), "{error}");
    let names = Names::new("kept", "1,one\n");
    let numbers = names.session.push_table("n", "i BIGINT").unwrap();
    let error = names.session.sql("SELECT name.name FROM n RIGHT JOIN name ON n.i = name.i").err().unwrap().to_string();
    assert!(error.contains("cannot have this table reloaded"), "{error}");
    drop(numbers);
}
