//! What becomes of an input that has a hundred times as many rows for a while, where a row takes as long as before: what there is room for waits in the
//! engine, whoever feeds it is told that there is no more, and the query catches up as fast as it can compute. Nothing is lost, and no other query notices.

use std::time::Duration;

use pelton::arrow::array::AsArray;
use pelton::arrow::datatypes::Int64Type;
use pelton::{PushSource, Query};
use pelton_runtime::clock::Clock;

use crate::stage::{Stage, rows};

/// Rows that come at once,
const ROWS: usize = 8192;

/// and the bytes of all that one read takes.
const READ_BYTES: usize = 2 * ROWS * 8;

/// They come once in so long,
const TICK_NS: u64 = 1_000_000;

/// and are computed in as long as this.
const COST_NS: u64 = 400_000;

/// So many come in place of one in a burst,
const BURST: usize = 100;

/// which lasts for so many ticks.
const BURST_TICKS: i64 = 3;

fn table(stage: &Stage, name: &str, sql: &str) -> (PushSource, Query) {
    let source = stage.session.push_table(name, "v BIGINT NOT NULL").unwrap();
    (source, stage.session.sql(sql).unwrap())
}

/// Lets time pass until then, or for as long as what began before then takes.
fn pass(stage: &mut Stage, until_ns: u64) {
    let clock = Clock::Manual(stage.hands.clone());
    while clock.nanos() < until_ns {
        if !stage.workers.step(0) {
            stage.hands.advance(Duration::from_nanos(until_ns - clock.nanos()));
        }
    }
}

/// Results that are there.
fn values(query: &mut Query) -> Vec<i64> {
    let batches = std::iter::from_fn(|| query.try_next_batch().unwrap());
    batches.flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// What a burst does to a query with this limit: the most bytes that waited in it, how often there was no room for rows, and for how many ticks it
/// was behind.
fn burst(memory: &str) -> (usize, usize, usize) {
    let mut stage = Stage::new(|rows| COST_NS * rows / ROWS as u64);
    stage.session.set("pelton.memory", memory).unwrap();
    let (fed, mut query) = table(&stage, "fed", "SELECT v FROM fed WHERE slowly(v) >= 0");
    let (beside, mut other) = table(&stage, "beside", "SELECT v FROM beside");
    // Batches that have come and have not been taken, and that have been.
    let (mut backlog, mut pushed) = (0, 0);
    let (mut waited_most, mut refused, mut behind) = (0, 0, 0);
    let mut results = Vec::new();
    for tick in 0..2_000_i64 {
        backlog += if (10..10 + BURST_TICKS).contains(&tick) { BURST } else { 1 };
        while backlog > 0 && fed.try_push(rows(&fed, (pushed * ROWS) as i64..((pushed + 1) * ROWS) as i64)).unwrap() {
            (backlog, pushed) = (backlog - 1, pushed + 1);
        }
        refused += usize::from(backlog > 0);
        assert!(beside.try_push(rows(&beside, tick..tick + 1)).unwrap(), "the other query takes its rows");
        pass(&mut stage, (tick as u64 + 1) * TICK_NS);
        let last = values(&mut other).last().copied();
        assert!(
            last.is_some_and(|last| last >= tick - 1),
            "the other query has its result within two ticks: {last:?} of {tick}"
        );
        results.extend(values(&mut query));
        waited_most = waited_most.max(stage.session.waiting_bytes());
        let load = query.progress().load;
        if backlog > 0 || load.rows_waiting > 0 {
            behind += 1;
        } else if tick > 20 {
            break;
        }
    }
    let load = query.progress().load;
    assert_eq!((backlog, load.rows_waiting, load.held_back_by), (0, 0, None), "it has caught up");
    drop((fed, beside));
    while !(query.control().has_ended() && other.control().has_ended()) {
        while stage.workers.step(0) {}
        results.extend(values(&mut query));
    }
    assert!(results.into_iter().eq(0..(pushed * ROWS) as i64), "each row is there once, in its place");
    (waited_most, refused, behind)
}

#[test]
fn a_burst_waits_where_there_is_room_and_is_caught_up_with() {
    // What is left of a tick beside what comes in it.
    let ticks = BURST * BURST_TICKS as usize * COST_NS as usize / (TICK_NS - COST_NS) as usize;
    let burst_bytes = BURST * BURST_TICKS as usize * ROWS * 8;
    for (memory, room, is_enough) in [("1 gb", 256 << 20, true), ("2 mb", 512 << 10, false)] {
        let (waited_most, refused, behind) = burst(memory);
        assert!(waited_most <= room + READ_BYTES, "{waited_most} bytes wait with {memory}");
        // All of it waits where there is room for that, and else whoever feeds it is told that there is none.
        assert_eq!((waited_most > burst_bytes / 2, refused == 0), (is_enough, is_enough), "with {memory}");
        assert!((ticks * 9 / 10..ticks * 11 / 10).contains(&behind), "{behind} ticks behind of {ticks} with {memory}");
    }
}
