//! What happens to a query's code, followed from outside.

use std::sync::Arc;

use pelton::arrow::array::{AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use pelton::arrow::compute::cast;
use pelton::{AdaptationEvents, AdaptationKind, Outcome, Session};

const ROWS: i64 = 256;

/// A query of which chance changes the code, over as many batches as are given.
fn query_of_batches(batches: i64, mut after_each: impl FnMut(&mut AdaptationEvents)) -> AdaptationEvents {
    let session = Session::new();
    for (key, value) in [("pelton.tier", "auto"), ("pelton.adapt", "random"), ("pelton.workers", "1")] {
        session.set(key, value).unwrap();
    }
    let source = session.push_table("t", "a BIGINT NOT NULL, b BIGINT NOT NULL").unwrap();
    let mut query = session.sql("SELECT a FROM t WHERE a >= 0 AND b >= 0").unwrap();
    let mut events = query.adaptation_events();
    for _ in 0..batches {
        let column = || Arc::new(Int64Array::from_iter_values(0..ROWS));
        source.push_blocking(RecordBatch::try_new(source.schema().clone(), vec![column(), column()]).unwrap()).unwrap();
        query.next_batch().unwrap().expect("all rows pass");
        after_each(&mut events);
    }
    drop(source);
    query.wait().unwrap();
    events
}

#[test]
fn events_come_as_they_happen_and_each_once() {
    let mut numbers = Vec::new();
    let mut follow = |events: &mut AdaptationEvents| {
        let coming = events.inspect(|event| assert_eq!(event.pipeline, "pipeline 0: t → rows"));
        numbers.extend(coming.map(|event| (event.number, event.kind)));
    };
    let mut events = query_of_batches(300, &mut follow);
    follow(&mut events);
    assert_eq!(events.missed(), 0);
    assert!(numbers.iter().map(|(number, _)| *number).eq(0..numbers.len() as u64), "{numbers:?}");
    let drawn = numbers.iter().filter(|(_, kind)| *kind == AdaptationKind::Drawn).count();
    assert!(drawn > 20, "{numbers:?}");
}

#[test]
fn events_that_nobody_asked_for_are_counted() {
    let mut events = query_of_batches(1_500, |_| {});
    let kept: Vec<u64> = events.by_ref().map(|event| event.number).collect();
    assert_eq!(kept.len(), AdaptationEvents::RETAINED_MAX);
    assert!(events.missed() > 0);
    assert!(kept.into_iter().eq(events.missed()..events.missed() + AdaptationEvents::RETAINED_MAX as u64));
}

/// What `EXPLAIN ANALYZE QUERY` says of a query: what happened, and the figures.
fn analyzed(session: &Session, number: usize) -> Result<[String; 2], String> {
    let statement = session.prepare(&format!("EXPLAIN ANALYZE VERBOSE QUERY {number}")).unwrap().remove(0);
    let outcome = session.execute(&statement).map_err(|error| error.to_string())?;
    let Outcome::Rows(plan) = outcome else { panic!("EXPLAIN shows rows") };
    let lines: Vec<&str> = plan.column(0).as_string_view().iter().map(|line| line.unwrap()).collect();
    let text = lines.join("\n");
    let (happened, figures) = text.split_once("\n\n== figures ==\n").expect("there are figures");
    Ok([happened.strip_prefix("== adaptation ==\n").unwrap().to_owned(), figures.to_owned()])
}

#[test]
fn a_query_tells_what_became_of_its_code_while_it_runs_and_behind_its_end() {
    let session = Session::new();
    for (key, value) in [("pelton.tier", "compile"), ("pelton.workers", "1"), ("pelton.adapt.fetch-ahead", "forbid")] {
        session.set(key, value).unwrap();
    }
    let source =
        session.push_table("t", "k BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts").unwrap();
    let window = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)";
    let mut query =
        session.sql(&format!("SELECT k, COUNT(*) AS n FROM {window} GROUP BY window_start, window_end, k")).unwrap();
    let mut second = 0;
    let mut push = |keys: &[i64]| {
        second += 1;
        let times = TimestampMillisecondArray::from(vec![second * 1_000; keys.len()]);
        let times = cast(&times, source.schema().field(1).data_type()).unwrap();
        let keys = Arc::new(Int64Array::from(keys.to_vec()));
        source.push_blocking(RecordBatch::try_new(source.schema().clone(), vec![keys, times]).unwrap()).unwrap();
    };
    push(&[7, 9, 8]);
    push(&[9, 7]);
    assert_eq!(query.next_batch().unwrap().unwrap().num_rows(), 3);
    let [happened, figures] = analyzed(&session, 1).unwrap();
    assert_eq!(
        happened,
        "pipeline 0: t → window 0: specialised\n  variant 0 runs: compiled, generic\n  variant 0 runs on: dense-keys, as keys lie between 7 and 9"
    );
    let begins = |text: &str| figures.lines().any(|line| line.trim_start().starts_with(text));
    assert!(begins("pipeline 0: t → window 0: 5 rows in 2 blocks"), "{figures}");
    assert!(begins("variant 0 (compiled, generic): made in ") && begins("at 0."), "{figures}");
    assert!(figures.contains("; 5 rows in ") && figures.contains("; 0 guards failed"), "{figures}");

    // While it goes on its keys come to lie far apart.
    push(&[7, 1 << 40]);
    push(&[7]);
    while query.next_batch().unwrap().unwrap().num_rows() < 2 {}
    let [happened, figures] = analyzed(&session, 1).unwrap();
    assert!(happened.contains("variant 0 runs on without dense-keys: that does not hold"), "{happened}");
    assert!(figures.contains("; 1 guards failed"), "{figures}");
    drop(source);
    query.wait().unwrap();
    let [at_the_end, _] = analyzed(&session, 1).unwrap();
    assert!(at_the_end.contains("without dense-keys: that does not hold"), "it is known behind its end: {at_the_end}");
    let error = analyzed(&session, 9).unwrap_err();
    assert!(error.starts_with("query 9 is not known: queries are numbered from 1, the last one is 1,"), "{error}");
}
