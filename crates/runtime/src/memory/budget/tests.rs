use super::*;

const ADVICE: &str = FEWER_GROUPS;

fn account(budget: &Budget) -> Account {
    Account::new(budget.clone(), [2, 1].into_iter())
}

#[test]
fn runs_share_a_budget_and_give_back_what_they_had() {
    let budget = Budget::default();
    budget.limit(4 << 20);
    let (one, of_other) = (account(&budget), budget.for_query(usize::MAX));
    let other = account(&of_other);
    one.set(0, 1, 2 << 20, ADVICE).unwrap();
    other.set(1, 0, 1 << 20, ADVICE).unwrap();
    assert_eq!((budget.bytes(), budget.query_bytes(), of_other.query_bytes()), (3 << 20, 2 << 20, 1 << 20));
    let error = other.set(1, 0, (1 << 20) + 512, ADVICE).unwrap_err();
    assert_eq!(
        error.to_string(),
        "its state takes 1.0 MiB, and that of all queries 3.0005 MiB, more than the 3 MiB for it of 'pelton.memory' = '4 MiB': \
         SET a larger size, or have fewer groups or rows in open windows"
    );
    assert_eq!(Beyond { bytes: (3 << 20) + 1, bytes_max: 3 << 20 }.to_string(), "3.000001 MiB");
    assert_eq!(Beyond { bytes: (64 << 30) + (9 << 20), bytes_max: 64 << 30 }.to_string(), "64.01 GiB");
    assert_eq!(Beyond { bytes: 2, bytes_max: 1 }.to_string(), "2 bytes");
    assert_eq!(Bytes(1).to_string(), "1 byte");
    assert_eq!(Beyond { bytes: 7 << 20, bytes_max: 3 << 20 }.to_string(), "7 MiB");
    // It fails alone: what it did not get others may have.
    one.set(0, 1, (2 << 20) - 1, ADVICE).unwrap();
    one.set(1, 0, 1, ADVICE).unwrap();
    other.give_back();
    assert_eq!((budget.bytes(), of_other.query_bytes()), (2 << 20, 0));
    drop(one);
    assert_eq!((budget.bytes(), budget.query_bytes()), (0, 0));
}

#[test]
fn what_waits_takes_room_from_the_runs_that_have_something_waiting() {
    let budget = Budget::default();
    budget.limit(4000);
    let account = account(&budget);
    account.set(0, 0, 3000, ADVICE).unwrap();
    let [mut one, mut other] = [(); 2].map(|()| InputCharge::new(budget.clone(), Unread::new(budget.clone())));
    one.set(700);
    other.set(200);
    assert!(one.has_room() && other.has_room(), "900 of 1000 bytes wait");
    one.set(800);
    assert!(!one.has_room() && !other.has_room());
    other.set(0);
    assert!(one.has_room());
    one.set(1000);
    assert!(!one.has_room() && other.has_room(), "whoever has nothing may read");
    // Another limit is one for all from then on.
    budget.limit(4004);
    assert!(one.has_room());
    account.set(0, 0, 3003, ADVICE).unwrap();
    assert!(account.set(0, 0, 3004, ADVICE).is_err());
    drop(one);
    assert_eq!(budget.waiting_bytes(), 0);
}

#[test]
fn results_that_nobody_has_read_take_room() {
    let budget = Budget::default();
    budget.limit(4000);
    let unread = Unread::new(budget.clone());
    let waiting = InputCharge::new(budget.clone(), unread.clone());
    let words: arrow::array::ArrayRef =
        Arc::new(arrow::array::StringViewArray::from(vec!["x".repeat(600), "y".repeat(600)]));
    let results = RecordBatch::try_from_iter([("s", words)]).unwrap();
    assert!(waiting.has_room_or_awaits());
    unread.add(&results);
    assert!(unread.bytes() >= 1232 && unread.rows() == 2);
    assert!(!waiting.has_room_or_awaits());
    assert!(unread.read(&results), "it waits for that");
    assert!(waiting.has_room_or_awaits());
    unread.add(&results);
    assert!(!unread.read(&results), "nobody waits");
    unread.add(&results);
    drop((unread, waiting));
    assert_eq!(budget.waiting_bytes(), 0);
}

#[test]
fn an_operator_has_a_limit_of_its_own_over_all_its_parts() {
    let account = account(&Budget::default().for_query(1000));
    account.set(0, 0, 600, ADVICE).unwrap();
    account.set(1, 0, 900, ADVICE).unwrap();
    let error = account.set(0, 1, 401, ADVICE).unwrap_err().to_string();
    assert!(
        error.starts_with("its state takes 1001 bytes, more than 'pelton.memory.operator' = '1000 bytes'"),
        "{error}"
    );
}

#[test]
fn what_may_be_taken_is_what_neither_limit_forbids() {
    let budget = Budget::default();
    let accounts = [usize::MAX, 500].map(|of_operator| Account::new(budget.for_query(of_operator), [2].into_iter()));
    let allowed = || accounts.each_ref().map(|account| account.allowed(0));
    assert_eq!(allowed(), [usize::MAX, 500]);
    budget.limit(1_000);
    accounts[0].charge_now(0, 1, 300).unwrap();
    assert_eq!(allowed(), [450, 450]);
    accounts[1].charge_now(0, 0, 200).unwrap();
    assert_eq!(allowed(), [250, 250]);
    accounts[1].charge_now(0, 1, 200).unwrap();
    assert_eq!(allowed(), [50, 50]);
    let error = accounts[1].charge_now(0, 1, 301).unwrap_err().to_string();
    assert!(error.contains("'pelton.memory.operator' = '500 bytes' allows"), "{error}");
    budget.limit(100);
    assert_eq!(allowed(), [0, 0]);
}

#[test]
fn what_takes_long_to_measure_is_measured_seldom() {
    use std::time::Duration;

    let hands = Arc::new(crate::clock::Hands::default());
    let clock = Clock::Manual(hands.clone());
    let budget = Budget::default();
    let account = account(&budget);
    let measured = |bytes| {
        hands.advance(Duration::from_micros(1));
        bytes
    };
    // That it takes so long is believed the second time.
    for bytes in [5, 10] {
        hands.advance(Duration::from_micros(50));
        account.charge(0, 0, &clock, || measured(bytes)).unwrap();
        assert_eq!(budget.bytes(), bytes);
    }
    hands.advance(Duration::from_micros(99));
    account.charge(0, 0, &clock, || unreachable!("it is not time yet")).unwrap();
    hands.advance(Duration::from_micros(1));
    account.charge(0, 0, &clock, || measured(20)).unwrap();
    assert_eq!(budget.bytes(), 20);
    // Whoever measured had lost its core.
    hands.advance(Duration::from_micros(100));
    let interrupted = || {
        hands.advance(Duration::from_millis(20));
        30
    };
    account.charge(0, 0, &clock, interrupted).unwrap();
    hands.advance(Duration::from_micros(200));
    account.charge(0, 0, &clock, || measured(40)).unwrap();
    assert_eq!(budget.bytes(), 40);
}

#[test]
fn workers_may_charge_one_part_at_the_same_time() {
    let budget = Budget::default();
    let account = account(&budget);
    std::thread::scope(|scope| {
        for worker in 1..=2 {
            let account = &account;
            scope.spawn(move || {
                for round in 0..20_000 {
                    account.charge_now(0, 0, round % 3 * worker).unwrap();
                }
            });
        }
    });
    account.charge_now(0, 0, 5).unwrap();
    assert_eq!(budget.bytes(), 5);
    drop(account);
    assert_eq!(budget.bytes(), 0);
}
