//! What happens to a query's code, followed from outside.

use std::sync::Arc;

use pelton::adapt::story::{EVENTS_MAX, What};
use pelton::arrow::array::{Int64Array, RecordBatch};
use pelton::{AdaptationEvents, Session};

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
        numbers.extend(coming.map(|event| (event.event.number, event.event.what)));
    };
    let mut events = query_of_batches(300, &mut follow);
    follow(&mut events);
    assert_eq!(events.missed(), 0);
    assert!(numbers.iter().map(|(number, _)| *number).eq(0..numbers.len() as u64), "{numbers:?}");
    let drawn = numbers.iter().filter(|(_, what)| matches!(what, What::Drawn { .. })).count();
    assert!(drawn > 20, "{numbers:?}");
}

#[test]
fn events_that_nobody_asked_for_are_counted() {
    let mut events = query_of_batches(1_500, |_| {});
    let kept: Vec<u64> = events.by_ref().map(|event| event.event.number).collect();
    assert_eq!(kept.len(), EVENTS_MAX);
    assert!(events.missed() > 0);
    assert!(kept.into_iter().eq(events.missed()..events.missed() + EVENTS_MAX as u64));
}
