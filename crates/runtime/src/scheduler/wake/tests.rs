use super::*;

#[test]
fn an_event_between_looking_and_sleeping_is_not_slept_through() {
    let rest = Rest::new(1);
    let seen = rest.seen();
    Waker::new(rest.clone()).wake();
    rest.sleep(seen, 0, u64::MAX);
}

#[test]
fn who_spins_sees_what_happens_and_stops_in_time() {
    let rest = Rest::new(1);
    rest.set_spin(Duration::from_millis(2));
    let began = Instant::now();
    assert!(!rest.spin(rest.seen(), 0, u64::MAX) && began.elapsed() >= Duration::from_millis(2));
    rest.set_spin(Duration::from_hours(1));
    let seen = rest.seen();
    assert!(!rest.spin(seen, 5, 5 + 1_000), "there is something to do then");
    rest.wake();
    assert!(rest.spin(seen, 0, u64::MAX));
    let seen = rest.seen();
    rest.set_spin(Duration::ZERO);
    assert!(rest.seen() != seen, "who spins is told that it is to spin for another time");
    assert!(!rest.spin(rest.seen(), 0, u64::MAX), "it sleeps at once, and does not then");
}

#[test]
fn half_of_those_who_do_not_sleep_watch_and_one_always() {
    let rest = Rest::new(4);
    let may_watch = [(); 3].map(|()| rest.becomes_watcher());
    assert_eq!(may_watch, [true, true, false]);
    rest.0.watchers.store(0, Ordering::SeqCst);
    for _ in 0..4 {
        assert!(rest.falls_asleep(rest.seen(), u64::MAX).is_some());
    }
    assert!(rest.becomes_watcher() && !rest.becomes_watcher(), "one may, whoever sleeps");
    rest.set_spin(Duration::from_millis(1));
    let began = Instant::now();
    assert!(!rest.spin(rest.seen(), 0, u64::MAX) && began.elapsed() >= Duration::from_millis(1));
    rest.0.watchers.store(0, Ordering::SeqCst);
    let began = Instant::now();
    assert!(!rest.spin(rest.seen(), 0, u64::MAX) && began.elapsed() >= SPINS_OF_WATCHER * Duration::from_millis(1));
    assert_eq!(rest.0.watchers.load(Ordering::SeqCst), 0);
}

#[test]
fn a_worker_that_spins_in_vain_nearly_always_stops_doing_so_and_begins_again() {
    let mut patience = Patience::new();
    let mut after = |was_short: bool| {
        patience.learn(was_short);
        patience.spins()
    };
    let in_vain = [false; PATIENCE_MAX as usize].map(&mut after);
    assert_eq!(in_vain.iter().filter(|spins| **spins).count(), PATIENCE_MAX as usize - 1);
    assert!(!after(false) && after(true) && after(false) && !after(false));
    assert!([true, true].map(&mut after) == [true; 2]);
    assert!([false, false, true].repeat(10).into_iter().all(&mut after), "every third time is often enough");
}

#[test]
fn nobody_is_woken_while_another_spins() {
    let rest = Rest::new(1);
    let ticket = rest.falls_asleep(rest.seen(), u64::MAX).unwrap();
    rest.0.spinners.fetch_add(1, Ordering::SeqCst);
    rest.wake();
    assert!(!rest.wakes_up(ticket, 0));
    rest.0.spinners.fetch_sub(1, Ordering::SeqCst);
    rest.wake();
    assert!(rest.wakes_up(ticket, 0));
}

#[test]
fn who_went_to_bed_last_is_woken_first() {
    let rest = Rest::new(1);
    let [first, last] = [(); 2].map(|()| rest.falls_asleep(rest.seen(), u64::MAX).unwrap());
    rest.wake();
    assert!(!rest.wakes_up(first, 0) && rest.wakes_up(last, 0));
    rest.wake();
    assert!(rest.wakes_up(first, 0));
}

#[test]
fn what_was_found_holds_until_something_happens_or_its_time_has_come() {
    let waker = Waker::new(Rest::new(1));
    assert_eq!(waker.known(0), None, "nobody has looked");
    waker.found(waker.seen(), Rank::NONE, 10);
    assert_eq!((waker.known(9), waker.known(10)), (Some((Rank::NONE, 10)), None));
    let seen = waker.seen();
    waker.returned();
    waker.found(seen, Rank::NONE, 20);
    assert_eq!(waker.known(9), None, "something has happened meanwhile");
}
