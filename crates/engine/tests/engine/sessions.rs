//! Several sessions of one engine: what they share, and what each has of its own.

use std::sync::Arc;

use pelton::arrow::array::{Int64Array, RecordBatch};
use pelton::{Engine, Error, Outcome, PushSource, Session};

use crate::shown::{rows, shown};

fn execute(session: &Session, script: &str) -> Result<(), Error> {
    session.prepare(script)?.iter().try_for_each(|statement| session.execute(statement).map(drop))
}

fn selected(session: &Session, query: &str) -> Result<Vec<String>, Error> {
    Ok(rows(&session.sql(query)?.collect()?))
}

fn push(source: &PushSource, values: impl IntoIterator<Item = i64>) {
    let values = Arc::new(Int64Array::from_iter_values(values));
    source.push_blocking(RecordBatch::try_new(source.schema().clone(), vec![values]).unwrap()).unwrap();
}

fn set_value(session: &Session, key: &str) -> String {
    let settings = shown(session, "SET", ["key", "value"]);
    settings.into_iter().find(|[known, _]| known == key).map(|[_, value]| value).unwrap()
}

#[test]
fn permanent_names_are_seen_by_all_sessions_at_once() -> Result<(), Error> {
    let engine = Engine::new();
    let [first, second] = [engine.session(), engine.session()];
    execute(&first, "CREATE VIEW v AS SELECT a FROM (VALUES (1), (2)) AS t (a)")?;
    assert_eq!(selected(&second, "SELECT a FROM v")?, ["1", "2"]);
    let error = execute(&second, "CREATE VIEW v AS SELECT 1 AS a").unwrap_err().to_string();
    assert!(error.contains("the view v exists already"), "{error}");
    execute(&second, "DROP VIEW v")?;
    assert!(selected(&first, "SELECT a FROM v").is_err());
    // A session that is gone leaves them.
    execute(&first, "CREATE VIEW w AS SELECT 3 AS a")?;
    drop(first);
    assert_eq!(selected(&engine.session(), "SELECT a FROM w")?, ["3"]);
    Ok(())
}

#[test]
fn temporary_names_and_settings_are_those_of_a_session() -> Result<(), Error> {
    let engine = Engine::new();
    let [first, second] = [engine.session(), engine.session()];
    execute(
        &first,
        "CREATE VIEW v AS SELECT 1 AS a; CREATE TEMPORARY VIEW v AS SELECT 2 AS a; CREATE TEMPORARY VIEW t AS SELECT a FROM v",
    )?;
    assert_eq!(
        (selected(&first, "SELECT a FROM t")?, selected(&second, "SELECT a FROM v")?),
        (vec!["2".into()], vec!["1".into()])
    );
    let error = selected(&second, "SELECT a FROM t").unwrap_err().to_string();
    assert!(error.contains("there is no table or view t"), "{error}");
    first.set("table.local-time-zone", "Europe/Berlin")?;
    execute(&first, "SET 'pelton.block-rows' = '7'")?;
    assert_eq!((first.time_zone().to_string(), second.time_zone().to_string()), ("Europe/Berlin".into(), "UTC".into()));
    assert_eq!([&first, &second].map(|session| set_value(session, "pelton.block-rows")), ["7", "(default)"]);
    // A clone is the same session.
    assert_eq!(set_value(&first.clone(), "pelton.block-rows"), "7");
    Ok(())
}

#[test]
fn settings_of_the_engine_are_those_of_all_sessions() -> Result<(), Error> {
    let engine = Engine::new();
    let [first, second] = [engine.session(), engine.session()];
    execute(&first, "SET 'pelton.memory' = '64 mb'; SET 'pelton.workers' = '1'; SET 'pelton.seed' = '7'; RESET")?;
    for session in [&first, &second, &engine.session()] {
        let values = ["pelton.memory", "pelton.workers", "pelton.seed"].map(|key| set_value(session, key));
        assert_eq!(values, ["64 mb", "1", "(default)"]);
    }
    execute(&second, "RESET 'pelton.memory'")?;
    assert_eq!(set_value(&first, "pelton.memory"), "(default)");
    Ok(())
}

#[test]
fn queries_of_all_sessions_are_shown_and_those_of_one_are_told_apart() -> Result<(), Error> {
    let engine = Engine::new();
    let [first, second] = [engine.session(), engine.session()];
    let sources = ["a", "b"].map(|name| first.push_table(name, "i BIGINT NOT NULL").unwrap());
    let queries = [first.sql("SELECT i FROM a")?, second.sql("SELECT i FROM b")?];
    let both = [["1: result".to_owned()], ["2: result".to_owned()]];
    for session in [&first, &second] {
        assert_eq!(shown(session, "SHOW QUERIES VERBOSE", ["query"]), both);
        assert_eq!(session.queries().len(), 1);
    }
    assert_eq!(engine.queries().len(), 2);
    // What one session started, another one may look at.
    let explained = first.prepare("EXPLAIN ANALYZE QUERY 2")?;
    assert!(matches!(first.execute(&explained[0])?, Outcome::Rows(_)));
    second.queries().iter().for_each(pelton::query::QueryControl::drain);
    let [kept, ended] = queries;
    assert!(ended.collect()?.is_empty());
    let [source, _other] = sources;
    push(&source, [7]);
    drop(source);
    assert_eq!(rows(&kept.collect()?), ["7"]);
    Ok(())
}

#[test]
fn a_query_outlives_its_session() -> Result<(), Error> {
    let engine = Engine::new();
    let session = engine.session();
    let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    execute(&session, "CREATE TEMPORARY VIEW next AS SELECT i + 1 AS i FROM numbers")?;
    let query = session.sql("SELECT i FROM next")?;
    drop(session);
    push(&numbers, [1, 2]);
    drop(numbers);
    assert_eq!(rows(&query.collect()?), ["2", "3"]);
    Ok(())
}

#[test]
fn a_temporary_table_hides_one_of_the_program() -> Result<(), Error> {
    let engine = Engine::new();
    let [first, second] = [engine.session(), engine.session()];
    let numbers = first.push_table("numbers", "i BIGINT NOT NULL")?;
    let hidden =
        "CREATE TEMPORARY TABLE numbers (i BIGINT NOT NULL) WITH ('connector' = 'datagen', 'number-of-rows' = '1',
        'fields.i.kind' = 'sequence', 'fields.i.start' = '5', 'fields.i.end' = '5')";
    execute(&first, hidden)?;
    assert_eq!(selected(&first, "SELECT i FROM numbers")?, ["5"]);
    let query = second.sql("SELECT i FROM numbers")?;
    execute(&first, "DROP TEMPORARY TABLE numbers")?;
    push(&numbers, [7]);
    drop(numbers);
    assert_eq!(rows(&query.collect()?), ["7"]);
    Ok(())
}

#[test]
fn a_view_over_a_file_is_read_in_other_sessions() -> Result<(), Error> {
    let path = std::env::temp_dir().join(format!("pelton-sessions-{}.csv", std::process::id()));
    std::fs::write(&path, "a,b\n1,x\n2,y\n").unwrap();
    let engine = Engine::new();
    let view = format!("CREATE VIEW v AS SELECT a FROM '{}' WHERE b = 'y'", path.display());
    execute(&engine.session(), &view)?;
    let read = selected(&engine.session(), "SELECT a FROM v");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read?, ["2"]);
    Ok(())
}
