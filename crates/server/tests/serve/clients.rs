//! A driver for Rust: both protocols, parameters, streams, cancel requests and errors.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_core::Stream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::{ErrorPosition, SqlState};
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, NoTls, SimpleQueryMessage};

use crate::program::{PATIENCE, Server};

/// A table that never ends.
const ENDLESS: &str = "CREATE TABLE endless (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000',
     'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '1000000000')";

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A client, and what the server tells it beside its results.
async fn connect(server: &Server) -> (Client, UnboundedReceiver<String>) {
    let (client, notices, _) = connect_loosely(server).await;
    (client, notices)
}

/// The same with the task that holds the connection.
async fn connect_loosely(server: &Server) -> (Client, UnboundedReceiver<String>, JoinHandle<()>) {
    let config = format!("host=127.0.0.1 port={} user=test", server.port);
    let (client, mut connection) = tokio_postgres::connect(&config, NoTls).await.expect("the server takes clients");
    let (sender, notices) = unbounded_channel();
    let task = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notice(notice) = message {
                // The test may look at none.
                let _ = sender.send(format!("{}: {}", notice.severity(), notice.message()));
            }
        }
    });
    (client, notices, task)
}

/// Runs a test with a server and a client. The server ends with the test, also where that fails.
fn with_client<F: Future<Output = ()>>(test: impl FnOnce(Client, Arc<Server>) -> F) {
    let server = Arc::new(Server::start(&[]));
    runtime().block_on(async {
        let (client, _) = connect(&server).await;
        timeout(PATIENCE, test(client, server.clone())).await.expect("the test does not end");
    });
}

/// The rows of statements in the simple protocol; NULL is `None`.
async fn simple(client: &Client, text: &str) -> Vec<Vec<Option<String>>> {
    let messages = client.simple_query(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect()),
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}

fn texts(rows: &[&[&str]]) -> Vec<Vec<Option<String>>> {
    rows.iter().map(|row| row.iter().map(|value| Some((*value).to_owned())).collect()).collect()
}

#[test]
fn statements_of_a_text_are_executed_in_order() {
    with_client(|client, _| async move {
        let rows = simple(&client, "CREATE VIEW v AS SELECT 1 AS a; SELECT a, 'x' AS b FROM v; ; SELECT 2 AS c").await;
        assert_eq!(rows, texts(&[&["1", "x"], &["2"]]));
        assert_eq!(simple(&client, "SHOW VIEWS").await, texts(&[&["v"]]));
        assert_eq!(simple(&client, "-- nothing").await, texts(&[]));
        let error = client.simple_query("SELECT 1 AS a; SELECT b FROM v; SELECT 3 AS c").await.unwrap_err();
        assert_eq!(error.as_db_error().unwrap().position(), Some(&ErrorPosition::Original(23)));
    });
}

#[test]
fn values_have_the_types_of_postgres() {
    let query =
        "SELECT TRUE AS b, CAST(1 AS SMALLINT) AS i2, 2 AS i4, CAST(3 AS BIGINT) AS i8, CAST(0.5 AS FLOAT) AS f4,
                        CAST('Infinity' AS DOUBLE) AS f8, CAST('12.50' AS DECIMAL(10, 2)) AS n, 'é' AS t, X'00ff' AS by,
                        DATE '2024-02-29' AS d, TIMESTAMP '2024-02-29 01:02:03.5' AS ts,
                        TO_TIMESTAMP_LTZ(1500, 3) AS tz, ARRAY[1, 2] AS a, ROW(1, 'x') AS r, MAP['k', 1] AS m,
                        CAST(NULL AS INT) AS nothing";
    with_client(|client, _| async move {
        let expected = [
            "t",
            "1",
            "2",
            "3",
            "0.5",
            "Infinity",
            "12.50",
            "é",
            "\\x00ff",
            "2024-02-29",
            "2024-02-29 01:02:03.5",
            "1970-01-01 00:00:01.5+00",
            "{1,2}",
            r#"{"EXPR$0":1,"EXPR$1":"x"}"#,
            r#"{"k":1}"#,
        ];
        let rows = simple(&client, query).await;
        assert_eq!(rows[0][..15], texts(&[&expected])[0]);
        assert_eq!(rows[0][15], None);

        let row = client.query_one(query, &[]).await.unwrap();
        let types: Vec<Type> = row.columns().iter().map(|column| column.type_().clone()).collect();
        let expected = [
            Type::BOOL,
            Type::INT2,
            Type::INT4,
            Type::INT8,
            Type::FLOAT4,
            Type::FLOAT8,
            Type::NUMERIC,
            Type::TEXT,
            Type::BYTEA,
            Type::DATE,
            Type::TIMESTAMP,
            Type::TIMESTAMPTZ,
            Type::INT4_ARRAY,
            Type::JSON,
            Type::JSON,
            Type::INT4,
        ];
        assert_eq!(types, expected);
        let integers: (bool, i16, i32, i64) = (row.get(0), row.get(1), row.get(2), row.get(3));
        assert_eq!(integers, (true, 1, 2, 3));
        assert_eq!((row.get::<_, f32>(4), row.get::<_, f64>(5)), (0.5, f64::INFINITY));
        assert_eq!((row.get::<_, &str>(7), row.get::<_, &[u8]>(8)), ("é", [0, 255].as_slice()));
        let epoch = SystemTime::UNIX_EPOCH;
        assert_eq!(row.get::<_, SystemTime>(10), epoch + Duration::from_millis(1_709_168_523_500));
        assert_eq!(row.get::<_, SystemTime>(11), epoch + Duration::from_millis(1_500));
        assert_eq!((row.get::<_, Vec<i32>>(12), row.get::<_, Option<i32>>(15)), (vec![1, 2], None));
    });
}

#[test]
fn parameters_are_values_of_their_types() {
    with_client(|client, _| async move {
        let statement = client.prepare("SELECT CAST($1 AS BIGINT) + 1 AS a, $2 AS b, $2 AS c").await.unwrap();
        assert_eq!(statement.params(), [Type::INT8, Type::TEXT]);
        for (number, text) in [(1_i64, "it's"), (-5, "; DROP TABLE t")] {
            let row = client.query_one(&statement, &[&number, &text]).await.unwrap();
            let found: (i64, &str, &str) = (row.get(0), row.get(1), row.get(2));
            assert_eq!(found, (number + 1, text, text));
        }
        let null = client.query_one(&statement, &[&None::<i64>, &None::<&str>]).await.unwrap();
        assert_eq!((null.get::<_, Option<i64>>(0), null.get::<_, Option<&str>>(1)), (None, None));

        let types = [Type::BOOL, Type::FLOAT8, Type::TIMESTAMP, Type::BYTEA, Type::INT8];
        let query = "SELECT $1 AS a, $2 AS b, $3 AS c, $4 AS d FROM (VALUES (1), (2), (3)) AS t (i) LIMIT $5";
        let statement = client.prepare_typed(query, &types).await.unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_001);
        let bytes = [0_u8, 39].as_slice();
        let rows = client.query(&statement, &[&true, &1.5_f64, &time, &bytes, &2_i64]).await.unwrap();
        let found: Vec<(bool, f64, SystemTime, &[u8])> =
            rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
        assert_eq!(found, vec![(true, 1.5, time, bytes); 2]);
    });
}

#[test]
fn errors_say_what_is_wrong_where() {
    with_client(|client, _| async move {
        let error = client.simple_query("SELECT a,\n  nope FROM (VALUES (1)) AS t (a)").await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.message(), "there is no column nope");
        assert_eq!(
            (error.code(), error.position()),
            (&SqlState::SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION, Some(&ErrorPosition::Original(13)))
        );

        // Behind a parameter whose literal is longer than it.
        let error = client.prepare("SELECT CAST($1 AS BIGINT), nope FROM (VALUES (1)) AS t (a)").await.unwrap_err();
        assert_eq!(error.as_db_error().unwrap().position(), Some(&ErrorPosition::Original(28)));

        let error = client.simple_query("SELEC 1").await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::SYNTAX_ERROR));
        let error = client.simple_query("SELECT * FROM pg_catalog.pg_class").await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
        assert!(error.as_db_error().unwrap().hint().unwrap().contains("SHOW TABLES"));
        let error = client.simple_query("SET work_mem = 1").await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::UNDEFINED_OBJECT));
        // The connection goes on.
        assert_eq!(simple(&client, "SELECT 1 AS a").await, texts(&[&["1"]]));
        assert_eq!(client.query_one("SELECT 2 AS a", &[]).await.unwrap().get::<_, i32>(0), 2);
    });
}

#[test]
fn transactions_are_accepted_with_a_notice() {
    let server = Server::start(&[]);
    runtime().block_on(async {
        let (mut client, mut notices) = connect(&server).await;
        let transaction = client.transaction().await.unwrap();
        assert_eq!(
            notices.recv().await.unwrap(),
            "NOTICE: there are no transactions: each statement takes effect at once"
        );
        // Some rows at a time.
        let query = "SELECT i FROM (VALUES (1), (2), (3), (4), (5)) AS t (i)";
        let portal = transaction.bind(query, &[]).await.unwrap();
        for expected in [vec![1, 2], vec![3, 4], vec![5], vec![]] {
            let rows = transaction.query_portal(&portal, 2).await.unwrap();
            assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), expected);
        }
        transaction.commit().await.unwrap();
    });
}

#[test]
fn endless_rows_come_as_they_are_made_until_they_are_cancelled() {
    with_client(|client, _| async move {
        simple(&client, ENDLESS).await;
        for is_simple in [true, false] {
            let cancel = client.cancel_token();
            let error = if is_simple {
                let mut rows = pin!(client.simple_query_raw("SELECT i FROM endless").await.unwrap());
                let mut next = async || poll_fn(|context| Pin::new(&mut rows).poll_next(context)).await.unwrap();
                assert!(matches!(next().await.unwrap(), SimpleQueryMessage::RowDescription(_)));
                assert!(matches!(next().await.unwrap(), SimpleQueryMessage::Row(row) if row.get(0) == Some("1")));
                cancel.cancel_query(NoTls).await.unwrap();
                loop {
                    if let Err(error) = next().await {
                        break error;
                    }
                }
            } else {
                let mut rows = pin!(client.query_raw("SELECT i FROM endless", Vec::<i32>::new()).await.unwrap());
                let mut next = async || poll_fn(|context| rows.as_mut().poll_next(context)).await.unwrap();
                assert_eq!(next().await.unwrap().get::<_, i64>(0), 1);
                cancel.cancel_query(NoTls).await.unwrap();
                loop {
                    if let Err(error) = next().await {
                        break error;
                    }
                }
            };
            assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
            nothing_runs(&client).await;
        }
    });
}

#[test]
fn a_query_that_is_explained_can_be_cancelled() {
    with_client(|client, server| async move {
        simple(&client, ENDLESS).await;
        let cancel = client.cancel_token();
        let explained = client.simple_query("EXPLAIN ANALYZE SELECT i FROM endless");
        let cancelled = async {
            let (other, _) = connect(&server).await;
            while simple(&other, "SHOW QUERIES").await.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            cancel.cancel_query(NoTls).await.unwrap();
        };
        let (explained, ()) = tokio::join!(explained, cancelled);
        assert_eq!(explained.unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
        nothing_runs(&client).await;
    });
}

/// Waits until no query runs.
async fn nothing_runs(client: &Client) {
    while !simple(client, "SHOW QUERIES").await.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_client_that_goes_ends_its_query_and_no_other() {
    with_client(|client, server| async move {
        simple(&client, ENDLESS).await;
        // Nothing comes of it: only reading can tell that the client has gone.
        let (silent, _, connection) = connect_loosely(&server).await;
        tokio::spawn(async move { silent.simple_query("SELECT i FROM endless WHERE i < 0").await });
        let (other, _) = connect(&server).await;
        let mut rows = pin!(other.simple_query_raw("SELECT i FROM endless").await.unwrap());
        while simple(&client, "SHOW QUERIES").await.len() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        connection.abort();
        while simple(&client, "SHOW QUERIES").await.len() > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for _ in 0..100 {
            assert!(poll_fn(|context| rows.as_mut().poll_next(context)).await.unwrap().is_ok());
        }
    });
}

#[test]
fn clients_share_tables_and_see_the_queries_of_each_other() {
    with_client(|client, server| async move {
        let (other, _) = connect(&server).await;
        simple(&client, "CREATE VIEW shared AS SELECT 7 AS a").await;
        assert_eq!(simple(&other, "SELECT a FROM shared").await, texts(&[&["7"]]));
    });
}

#[test]
fn an_insert_goes_on_behind_its_answer_unless_it_is_waited_for() {
    let folder = std::env::temp_dir().join(format!("pelton_serve_{}", std::process::id()));
    let server = Server::start(&[]);
    runtime().block_on(async {
        let (client, mut notices) = connect(&server).await;
        let table = |name: &str| {
            let path = folder.join(name).display().to_string();
            format!(
                "CREATE TABLE {name} (i BIGINT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"
            )
        };
        simple(&client, &format!("{ENDLESS}; {}; {}", table("waited"), table("endless_copy"))).await;
        simple(&client, "SET 'table.dml-sync' = 'true'").await;
        let insert = "INSERT INTO waited SELECT CAST(a AS BIGINT) FROM (VALUES (1), (2)) AS t (a)";
        assert_eq!(client.execute(insert, &[]).await.unwrap(), 2);
        assert_eq!(simple(&client, "SELECT i FROM waited").await, texts(&[&["1"], &["2"]]));

        simple(&client, "SET 'table.dml-sync' = 'false'").await;
        assert_eq!(client.execute("INSERT INTO endless_copy SELECT i FROM endless", &[]).await.unwrap(), 0);
        let told = notices.recv().await.unwrap();
        assert!(told.starts_with("NOTICE: job 'insert_into_endless_copy' runs"), "{told}");
        drop(client);
        let (client, _) = connect(&server).await;
        let job = &simple(&client, "SHOW JOBS").await[1];
        assert_eq!((job[1].as_deref(), job[2].as_deref()), (Some("insert_into_endless_copy"), Some("RUNNING")));
    });
    // What has been read is written before the server ends.
    server.signal("-TERM");
    let (status, said) = server.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("job insert_into_endless_copy: stopped after "), "{said}");
    std::fs::remove_dir_all(folder).unwrap();
}
