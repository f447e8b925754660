//! All interleavings of those who sleep and those who wake them.

use super::*;
use loom::sync::atomic::{AtomicBool, AtomicI64};

/// Looks at what there is to do in the run, tells all where that is nothing, and wakes another worker where there is more than one takes.
fn finds_work(rest: &Rest, waker: &Waker, looking: &Mutex<()>, work: &AtomicBool) -> bool {
    let seen = waker.seen();
    let guard = looking.lock().unwrap();
    let has_work = work.load(Ordering::SeqCst);
    if has_work {
        drop(guard);
        rest.wake();
    } else {
        waker.found(seen, Rank::NONE, u64::MAX);
    }
    has_work
}

/// Looks for work in one run as a worker of a pool does. A lost wake-up would sleep for ever here, which loom reports as a deadlock.
fn work_until_done(rest: &Rest, waker: &Waker, looking: &Mutex<()>, work: &AtomicBool) {
    loop {
        let seen = rest.seen();
        if waker.known(0).is_none() {
            if finds_work(rest, waker, looking, work) {
                return;
            }
            continue;
        }
        rest.sleep(seen, 0, u64::MAX);
    }
}

/// All interleavings; of more than two threads, those in which at most two are interrupted: of the others there are too many.
fn race(workers: usize) {
    race_of(workers, work_until_done);
}

fn race_of(workers: usize, work_in: fn(&Rest, &Waker, &Mutex<()>, &AtomicBool)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = (workers > 1).then_some(2);
    model.check(move || {
        let rest = Rest::new(1);
        let waker = Waker::new(rest.clone());
        let (work, looking) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(())));
        let others: Vec<_> = (1..workers)
            .map(|_| {
                let (rest, waker, work, looking) = (rest.clone(), waker.clone(), work.clone(), looking.clone());
                thread::spawn(move || work_in(&rest, &waker, &looking, &work))
            })
            .collect();
        let producer = {
            let (waker, work) = (waker.clone(), work.clone());
            thread::spawn(move || {
                work.store(true, Ordering::SeqCst);
                waker.wake();
            })
        };
        work_in(&rest, &waker, &looking, &work);
        producer.join().unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// As [`work_until_done`], of a worker that leaves the run out while that is dormant.
fn work_beside_dormant(rest: &Rest, waker: &Waker, looking: &Mutex<()>, work: &AtomicBool) {
    let (mut awakenings, mut is_awake) = (rest.awakenings(), !waker.is_dormant());
    loop {
        let seen = rest.seen();
        let now = rest.awakenings();
        if now != awakenings {
            (awakenings, is_awake) = (now, !waker.is_dormant());
        }
        if !is_awake {
            rest.sleep(seen, 0, u64::MAX);
            continue;
        }
        if waker.known(0).is_none() && finds_work(rest, waker, looking, work) {
            return;
        }
        is_awake = !waker.falls_dormant(0);
    }
}

#[test]
fn an_event_awakens_a_dormant_run_for_all() {
    for workers in [1, 2] {
        race_of(workers, work_beside_dormant);
    }
}

#[test]
fn no_wake_up_is_lost() {
    race(1);
}

#[test]
fn a_run_in_which_one_worker_found_nothing_is_not_lost_on_another() {
    race(2);
}

/// As a worker does that spins before it sleeps, beside one that sleeps at once.
#[test]
fn an_event_is_not_lost_on_one_that_stops_spinning() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let (rest, work) = (Rest::new(1), Arc::new(AtomicBool::new(false)));
        let sleeper = {
            let (rest, work) = (rest.clone(), work.clone());
            thread::spawn(move || {
                while !work.load(Ordering::SeqCst) {
                    let seen = rest.seen();
                    if !work.load(Ordering::SeqCst) {
                        rest.sleep(seen, 0, u64::MAX);
                    }
                }
                // It may have been woken in the other one's place.
                rest.wake();
            })
        };
        let producer = {
            let (rest, work) = (rest.clone(), work.clone());
            thread::spawn(move || {
                work.store(true, Ordering::SeqCst);
                rest.wake();
            })
        };
        loop {
            let seen = rest.seen();
            if work.load(Ordering::SeqCst) {
                // There is something for the other one as well.
                rest.wake();
                break;
            }
            if !rest.spin(seen, 0, u64::MAX) {
                rest.sleep(seen, 0, u64::MAX);
            }
        }
        sleeper.join().unwrap();
        producer.join().unwrap();
    });
}

#[test]
fn an_event_of_one_run_is_not_lost_in_the_quiet_of_another() {
    loom::model(|| {
        let rest = Rest::new(1);
        let wakers = [Waker::new(rest.clone()), Waker::new(rest.clone())];
        let work = Arc::new(AtomicBool::new(false));
        let producer = {
            let (waker, work) = (wakers[1].clone(), work.clone());
            thread::spawn(move || {
                work.store(true, Ordering::SeqCst);
                waker.wake();
            })
        };
        'work: loop {
            let seen = rest.seen();
            for (run, waker) in wakers.iter().enumerate() {
                if waker.known(0).is_none() {
                    let seen = waker.seen();
                    if run == 1 && work.load(Ordering::SeqCst) {
                        break 'work;
                    }
                    waker.found(seen, Rank::NONE, u64::MAX);
                }
            }
            rest.sleep(seen, 0, u64::MAX);
        }
        producer.join().unwrap();
    });
}

/// As a sink without room: it is asked again only when the count of events from outside is another one.
#[test]
fn room_that_is_made_is_not_lost_on_a_sink_that_had_none() {
    loom::model(|| {
        let rest = Rest::new(1);
        let (waker, room) = (Waker::new(rest.clone()), Arc::new(AtomicBool::new(false)));
        // It had none a moment ago, and something else has happened since.
        let mut blocked_at = Some(waker.seen().outside);
        waker.returned();
        let reader = {
            let (waker, room) = (waker.clone(), room.clone());
            thread::spawn(move || {
                room.store(true, Ordering::SeqCst);
                waker.wake();
            })
        };
        loop {
            let seen = rest.seen();
            if waker.known(0).is_none() {
                let seen = waker.seen();
                if blocked_at != Some(seen.outside) {
                    if room.load(Ordering::SeqCst) {
                        break;
                    }
                    blocked_at = Some(seen.outside);
                }
                waker.found(seen, Rank::NONE, u64::MAX);
                continue;
            }
            rest.sleep(seen, 0, u64::MAX);
        }
        reader.join().unwrap();
    });
}

/// As results are read, or bytes of a pipe come, while a run looks for room, or for them: what changes is in no order with anything else.
#[test]
fn a_change_that_somebody_waits_for_is_seen_or_told_of() {
    loom::model(|| {
        let (waiting, awaited) = (Arc::new(AtomicI64::new(2)), Arc::new(Awaited::default()));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let (waiting, awaited) = (waiting.clone(), awaited.clone());
                thread::spawn(move || {
                    waiting.fetch_sub(1, Ordering::Relaxed);
                    awaited.must_tell()
                })
            })
            .collect();
        let is_there = || waiting.load(Ordering::Relaxed) == 0;
        let found = is_there() || {
            awaited.ask();
            is_there()
        };
        let told = others.into_iter().map(|other| other.join().unwrap()).filter(|told| *told).count();
        assert!(found || told > 0, "it waits for ever");
        assert!(told <= 1, "it is told once");
    });
}
