//! Brokers that are away, and messages that do not fit.

use pelton::Session;
use pelton_testkit::kafka_broker::{Broker, Sent, broker, shown};

use crate::{all, create, definition, execute, next, send, topic};

const BOUNDED: &str = "'scan.bounded.mode' = 'latest-offset'";

#[test]
fn a_message_that_does_not_fit_is_named_or_left_out() {
    let Some(broker) = broker() else { return };
    let topic = topic(broker, 1);
    let good = r#"{"a": 1}"#;
    send(broker, &topic, 0, &[good, r#"{"a": "one"}"#, "{", good, r#"{"a": 2} {"a": 3}"#, r#"{"a": 4}"#]);
    let session = Session::new();
    create(
        &session,
        broker,
        "a INT, part INT METADATA FROM 'partition' VIRTUAL, o BIGINT METADATA FROM 'offset' VIRTUAL",
        &topic,
        &format!("'format' = 'json', {BOUNDED}"),
    );
    let error = session.sql("SELECT a FROM t").unwrap().collect().unwrap_err().to_string();
    let place = format!("topic '{topic}', partition 0, offset");
    assert_eq!(error, format!("table 't': {place} 1, column 'a': 'one' is not an INT"));
    execute(&session, "DROP TABLE t");
    create(
        &session,
        broker,
        "a INT, o BIGINT METADATA FROM 'offset' VIRTUAL",
        &topic,
        &format!("'format' = 'json', 'on-error' = 'skip', {BOUNDED}"),
    );
    assert_eq!(all(&session, "SELECT o, a FROM t"), ["0 | 1", "3 | 1", "5 | 4"]);
    let summary = session.sql("SELECT a FROM t").unwrap().wait().unwrap();
    let errors = &summary.sources[0].left_out.skipped_errors;
    assert_eq!(
        *errors,
        [
            format!("{place} 1, column 'a': 'one' is not an INT"),
            format!(
                "{place} 2, column 'a': '{{' is not a valid JSON object: a name in double quotes is expected at character 2"
            ),
            format!("{place} 4, column 'a': '{{\"a\": 2}} {{\"a\": 3}}' has 2 rows, and a message is one row"),
        ]
    );
}

#[test]
fn messages_that_do_not_fit_go_to_a_topic_of_their_own() {
    let Some(broker) = broker() else { return };
    let (from, letters) = (topic(broker, 1), topic(broker, 1));
    send(broker, &from, 0, &["1", "one", "2"]);
    let session = Session::new();
    execute(
        &session,
        &definition("letters", broker, "place STRING, position BIGINT, row STRING", &letters, "'format' = 'csv'"),
    );
    let options = format!("'format' = 'csv', 'on-error' = 'skip', 'on-error.dead-letter-table' = 'letters', {BOUNDED}");
    create(&session, broker, "a INT", &from, &options);
    assert_eq!(all(&session, "SELECT a FROM t"), ["1", "2"]);
    let place = format!("topic '{from}', partition 0");
    crate::until(|| broker.read(&letters).iter().map(shown).eq([format!("0|-|\"{place}\",1,one")]));
}

#[test]
fn a_quote_that_is_not_closed_spoils_one_message_only() {
    let Some(broker) = broker() else { return };
    let topic = topic(broker, 1);
    send(broker, &topic, 0, &["1,a", "2,\"b", "3,c", "4,\"d\"", "5,e\n6,f"]);
    let session = Session::new();
    create(&session, broker, "a INT, b STRING", &topic, &format!("'format' = 'csv', 'on-error' = 'skip', {BOUNDED}"));
    let rows = all(&session, "SELECT a, b FROM t");
    assert_eq!(
        (rows.len(), rows[0].as_str(), &rows[rows.len() - 2..]),
        (3, "1 | a", ["3 | c".to_owned(), "4 | d".to_owned()].as_slice())
    );
}

#[test]
fn what_is_not_there_is_looked_for_and_then_named() {
    let Some(broker) = broker() else { return };
    let session = Session::new();
    create(
        &session,
        broker,
        "a INT",
        "nothing-there",
        &format!("'format' = 'csv', 'connect.retries-max' = '1', {BOUNDED}"),
    );
    let error = session.sql("SELECT a FROM t").unwrap().collect().unwrap_err().to_string();
    assert_eq!(
        error,
        "table 't': topic 'nothing-there': there is no topic 'nothing-there'; it was tried 2 times, as 'connect.retries-max' says"
    );
    // One that comes meanwhile is found.
    execute(&session, "DROP TABLE t");
    let later = "comes-later";
    create(
        &session,
        broker,
        "a INT",
        later,
        "'format' = 'csv', 'connect.retries-max' = '1000', 'connect.backoff-max' = '50 ms'",
    );
    let mut query = session.sql("SELECT a FROM t").unwrap();
    assert!(query.try_next_batch().unwrap().is_none());
    broker.create_topic(later, 1);
    send(broker, later, 0, &["1"]);
    assert_eq!(next(&mut query, 1), ["1"]);
    drop(query);
    // Messages that are no longer there are missed by nobody without a word.
    execute(&session, "DROP TABLE t");
    let offsets = "'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:0,offset:77'";
    execute(&session, &definition("t", broker, "a INT", later, &format!("'format' = 'csv', {offsets}")));
    let error = session.sql("SELECT a FROM t").unwrap().collect().unwrap_err().to_string();
    assert!(error.contains("the messages from offset 77 on are no longer there"), "{error}");
}

#[test]
fn a_broker_that_goes_and_comes_again_is_waited_for() {
    // Its own: others would miss it.
    let Some(_) = broker() else { return };
    let broker = Broker::start().unwrap();
    let topic = topic(&broker, 1);
    let out = crate::topic(&broker, 1);
    send(&broker, &topic, 0, &["1"]);
    let session = Session::new();
    create(&session, &broker, "a INT", &topic, "'format' = 'csv', 'connect.retries-max' = '1000'");
    execute(&session, &definition("u", &broker, "a INT", &out, "'format' = 'csv'"));
    let mut query = session.sql("SELECT a FROM t").unwrap();
    let job = session.sql("INSERT INTO u SELECT a + 1 FROM t").unwrap();
    assert_eq!(next(&mut query, 1), ["1"]);
    broker.kill();
    let session_job = job.job().unwrap();
    crate::until(|| session_job.trouble().is_some());
    let trouble = session_job.trouble().unwrap();
    assert!(trouble.starts_with("table 't'") || trouble.starts_with("table 'u'"), "{trouble}");
    broker.resume();
    broker.send(&topic, [Sent::new(0, "2")]);
    assert_eq!(next(&mut query, 1), ["2"]);
    crate::until(|| broker.read(&out).len() == 2);
    crate::until(|| session_job.trouble().is_none());
    drop(job);
}
