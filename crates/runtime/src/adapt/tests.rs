//! The driver against code and data that are made up: what a task costs is what the test says.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use pelton_state::count::RowCounter;
use pelton_state::kernel::KernelError;
use pelton_state::profile::{KeysFound, Met, Predicate, PredicateOrder};
use pelton_state::table::Table;

use super::story::{Stage, What};
use super::*;

/// Rows of a task.
const ROWS: u64 = 65_536;

/// So many tasks have one character each time, where data flips.
const FLIPS: [u32; 12] = [3, 10, 30, 60, 100, 144, 156, 160, 200, 300, 1_000, 5_000];

/// Code with two predicates, of which one leaves few rows: the first where the data is even, the second where it is odd.
struct Code {
    tier: Tier,
    predicates: Arc<[Predicate]>,
    order: PredicateOrder,
    data: Arc<AtomicUsize>,
    /// Whether it asks for memory ahead; nothing where it cannot.
    ahead: Option<bool>,
}

impl Code {
    fn kernel(data: &Arc<AtomicUsize>, ahead: Option<bool>) -> Arc<dyn Kernel> {
        let predicate =
            |text: &str| Predicate { text: text.into(), is_primitive: true, word_ns: 6.0, row_ns: 1.0, row_bytes: 8.0 };
        let predicates: Arc<[Predicate]> = [predicate("a"), predicate("b")].into();
        let tier = Tier::Compiled;
        Arc::new(Code { tier, order: PredicateOrder::planned(&predicates), predicates, data: data.clone(), ahead })
    }

    /// Code without predicates.
    fn of_tier(tier: Tier) -> Arc<dyn Kernel> {
        let (predicates, data) = (Arc::default(), Arc::default());
        Arc::new(Code { tier, order: PredicateOrder::planned(&[]), predicates, data, ahead: None })
    }

    /// Code without predicates that can ask for memory ahead.
    fn that_fetches(ahead: bool) -> Arc<dyn Kernel> {
        let (predicates, data) = (Arc::default(), Arc::default());
        let order = PredicateOrder::planned(&[]);
        Arc::new(Code { tier: Tier::Compiled, order, predicates, data, ahead: Some(ahead) })
    }
}

type Batches = Vec<RecordBatch>;

impl Kernel for Code {
    fn tier(&self) -> Tier {
        self.tier
    }

    fn aggregate(&self, _: KernelInput<'_>, _: &Lookups, _: &mut Table, _: &mut Scratch) -> Result<(), KernelError> {
        unreachable!("tasks are made up")
    }

    fn count(&self, _: KernelInput<'_>, _: &Lookups, _: &mut RowCounter, _: &mut Scratch) -> Result<(), KernelError> {
        unreachable!("tasks are made up")
    }

    fn emit(&self, _: &[KernelInput<'_>], _: &Lookups, _: &mut Batches, _: &mut Scratch) -> Result<(), KernelError> {
        unreachable!("tasks are made up")
    }

    fn predicates(&self) -> &[Predicate] {
        &self.predicates
    }

    fn order(&self) -> PredicateOrder {
        self.order.clone()
    }

    fn reordered(&self, order: &PredicateOrder) -> Option<Arc<dyn Kernel>> {
        let (predicates, data) = (self.predicates.clone(), self.data.clone());
        Some(Arc::new(Code { tier: self.tier, predicates, order: order.clone(), data, ahead: self.ahead }))
    }

    fn fetches_ahead(&self) -> bool {
        self.ahead.unwrap_or(false)
    }

    fn fetching(&self, ahead: bool) -> Option<Arc<dyn Kernel>> {
        self.ahead.filter(|&present| present != ahead)?;
        let (predicates, order, data) = (self.predicates.clone(), self.order.clone(), self.data.clone());
        Some(Arc::new(Code { tier: self.tier, predicates, order, data, ahead: Some(ahead) }))
    }

    fn profile(&self, input: KernelInput<'_>, _: &Lookups, profile: &mut Profile, _: &mut Scratch) {
        let words = input.range().len() / 64;
        profile.rows += 64 * words as u64;
        let (few, many) = (vec![1; words], vec![u64::MAX; words]);
        let masks = if self.data.load(Ordering::SeqCst).is_multiple_of(2) { [few, many] } else { [many, few] };
        profile.primitives.add(&vec![u64::MAX; words], &masks);
    }
}

/// A run that is made up.
struct MadeUp {
    slot: KernelSlot,
    data: Arc<AtomicUsize>,
    blocks: Vec<(u64, Block)>,
    now_ns: u64,
    noise: u64,
    met: Met,
    /// Tasks of which it must be known what they cost.
    measured: usize,
}

impl MadeUp {
    fn new(options: AdaptOptions) -> MadeUp {
        let data = Arc::default();
        MadeUp::of(Code::kernel(&data, None), data, options)
    }

    /// Interpreted code, and compiled code from the first row on.
    fn of_two_tiers(options: AdaptOptions) -> MadeUp {
        let run = MadeUp::of(Code::of_tier(Tier::Interpreted), Arc::default(), options);
        run.slot.store(Code::of_tier(Tier::Compiled), Duration::ZERO);
        run
    }

    fn of(kernel: Arc<dyn Kernel>, data: Arc<AtomicUsize>, options: AdaptOptions) -> MadeUp {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![0; 8192]));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).expect("one column");
        let block = Block::new(batch, None).expect("a block may have so many rows");
        let slot = KernelSlot::new(kernel, Arc::default(), Duration::ZERO, options);
        MadeUp { slot, data, blocks: vec![(0, block)], now_ns: 0, noise: 1, met: Met::default(), measured: 0 }
    }

    /// Runs a task, of which a row costs so many nanoseconds with the order of the predicates that it has, give or take a tenth.
    fn task(&mut self, cost: impl Fn(&[usize]) -> f64) -> f64 {
        self.task_of(|kernel| cost(&kernel.order().tested))
    }

    /// The same by tier.
    fn tasks_of_tiers(&mut self, count: usize, interpreted: f64, compiled: f64) -> f64 {
        let cost = |kernel: &dyn Kernel| if kernel.tier() == Tier::Interpreted { interpreted } else { compiled };
        (0..count).map(|_| self.task_of(cost)).sum()
    }

    /// The same by whether the code asks for memory ahead.
    fn tasks_of_fetching(&mut self, count: usize, ahead: f64, not: f64) -> f64 {
        (0..count).map(|_| self.task_of(|kernel| if kernel.fetches_ahead() { ahead } else { not })).sum()
    }

    fn task_of(&mut self, cost: impl Fn(&dyn Kernel) -> f64) -> f64 {
        let mut pick = self.slot.pick();
        pick.sample(&self.blocks, &Lookups::default(), &mut Scratch::default());
        self.noise = self.noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = (self.noise >> 40) as f64 / f64::from(1 << 24);
        let busy_ns = ROWS as f64 * cost(pick.kernel.as_ref()) * (0.9 + 0.2 * noise);
        self.now_ns += busy_ns as u64;
        self.measured += usize::from(pick.is_measured);
        let cost_ns = pick.is_measured.then_some(busy_ns as u64);
        self.slot.ran(
            pick,
            &Ran {
                worker: 0,
                rows: ROWS,
                blocks: 1,
                busy_ns: busy_ns as u64,
                cost_ns,
                misses: None,
                at_ns: self.now_ns,
                met: self.met,
            },
        );
        busy_ns
    }

    /// Where the predicate that leaves few rows goes first a row takes one nanosecond, otherwise three.
    fn task_of_data(&mut self) -> f64 {
        let data = self.data.load(Ordering::SeqCst);
        self.task(|tested| if tested[0] == data % 2 { 1.0 } else { 3.0 })
    }

    /// Runs so many tasks, as [`MadeUp::task`], and returns what they have taken.
    fn tasks(&mut self, count: usize, cost: impl Fn(&[usize]) -> f64) -> f64 {
        (0..count).map(|_| self.task(&cost)).sum()
    }

    /// The same as [`MadeUp::task_of_data`].
    fn tasks_of_data(&mut self, count: usize) -> f64 {
        (0..count).map(|_| self.task_of_data()).sum()
    }

    fn count(&self, is: impl Fn(&What) -> bool) -> usize {
        self.slot.story().events.iter().filter(|event| is(&event.what)).count()
    }
}

fn is_tried(what: &What) -> bool {
    matches!(what, What::Tried { .. })
}

#[test]
fn what_pays_is_kept_and_follows_the_data() {
    let mut run = MadeUp::new(AdaptOptions::default());
    assert_eq!(run.slot.story().stage, Stage::Instrumented);
    run.data.store(1, Ordering::SeqCst);
    run.tasks_of_data(200);
    let story = run.slot.story();
    assert_eq!(story.stage, Stage::Specialised);
    let current = story.variants.iter().find(|variant| variant.is_current).expect("some variant runs");
    assert!(current.assumption.starts_with("over blocks b (passes 1.6 %)"), "{}", current.assumption);
    assert!(current.gain.is_some_and(|gain| (0.5..0.8).contains(&gain)), "{:?}", current.gain);
    assert_eq!(run.count(|what| matches!(what, What::Kept { .. })), 1);
    // Not sampled more than one row in a thousand, and a little: the present order is the best.
    run.data.store(2, Ordering::SeqCst);
    let spent = run.tasks_of_data(1_000);
    // The data is looked at often enough: nearly all tasks run the better order.
    assert!(spent < 1.3 * 1_000.0 * ROWS as f64, "{spent}");
    assert_eq!(run.slot.pick().kernel.order().tested[0], 0);
}

#[test]
fn what_does_not_pay_is_undone_and_tried_less_and_less() {
    let mut run = MadeUp::new(AdaptOptions::default());
    run.data.store(1, Ordering::SeqCst);
    run.tasks(20_000, |_| 1.0);
    let (tried, undone) = (run.count(is_tried), run.count(|what| matches!(what, What::Undone { .. })));
    // Some 320 profiles, and waits of 2, 4, 8 …
    assert!((3..=9).contains(&tried), "tried {tried} times");
    assert!(tried - undone <= 1);
    assert_eq!(run.slot.story().variants.iter().find(|variant| variant.is_current).map(|variant| variant.id), Some(0));
}

#[test]
fn what_did_not_pay_says_nothing_of_other_data() {
    let mut run = MadeUp::new(AdaptOptions::default());
    // The second predicate over the rows left takes as long: that is tried less and less.
    run.tasks_of_data(20_000);
    let undone = run.count(|what| matches!(what, What::Undone { .. }));
    assert!((3..=9).contains(&undone), "undone {undone} times");
    run.data.store(1, Ordering::SeqCst);
    let spent = run.tasks_of_data(1_000);
    assert!(spent < 1.3 * 1_000.0 * ROWS as f64, "{spent}");
    assert_eq!(run.slot.pick().kernel.order().tested[0], 1);
}

#[test]
fn slower_code_runs_for_three_tasks_only() {
    let mut run = MadeUp::new(AdaptOptions::default());
    run.data.store(1, Ordering::SeqCst);
    run.tasks(60, |tested| if tested[0] == 0 { 1.0 } else { 50.0 });
    let story = run.slot.story();
    assert_eq!(story.variants.iter().filter(|variant| variant.id > 0).map(|variant| variant.blocks).sum::<u64>(), 3);
}

#[test]
fn data_that_flips_costs_little_more_than_the_best_code_that_stays() {
    // Two thirds of the tasks have one character: code that suits these takes 5/3 of a nanosecond a row.
    for tasks_per_flip in FLIPS {
        let mut run = MadeUp::new(AdaptOptions::default());
        let tasks = 30_000;
        let spent: f64 = (0..tasks)
            .map(|task| {
                run.data.store(usize::from(task / tasks_per_flip % 3 == 0), Ordering::SeqCst);
                run.task_of_data()
            })
            .sum();
        let best_fixed = f64::from(tasks) * ROWS as f64 * 5.0 / 3.0;
        assert!(
            spent < 1.2 * best_fixed,
            "{tasks_per_flip} tasks a flip: {:.2} times the best fixed code",
            spent / best_fixed
        );
    }
}

/// Nothing but what rows cost tells that they have changed: of two or three parts of the time one has the other character.
fn costs_flip(what: &str, new: impl Fn() -> MadeUp, task: impl Fn(&mut MadeUp, bool) -> f64) {
    for (parts, tasks_per_flip) in [2, 3].into_iter().flat_map(|parts| FLIPS.map(|flip| (parts, flip))) {
        let mut run = new();
        let tasks = 30_000;
        let spent: f64 = (0..tasks).map(|number| task(&mut run, number / tasks_per_flip % parts == 0)).sum();
        // What costs one nanosecond a row most of the time, and three else.
        let best_fixed = f64::from(tasks) * ROWS as f64 * (1.0 + 2.0 / f64::from(parts));
        assert!(
            spent < 1.2 * best_fixed,
            "{what}, {parts} parts, {tasks_per_flip} tasks a flip: {:.2} times the best fixed code",
            spent / best_fixed
        );
    }
}

#[test]
fn costs_that_flip_are_little_more_than_those_of_the_best_code_that_stays() {
    let tiers = || MadeUp::of_two_tiers(AdaptOptions::default());
    costs_flip("tiers", tiers, |run, is_flipped| match is_flipped {
        true => run.tasks_of_tiers(1, 1.0, 3.0),
        false => run.tasks_of_tiers(1, 3.0, 1.0),
    });
    let fetching = || MadeUp::of(Code::that_fetches(false), Arc::default(), AdaptOptions::default());
    costs_flip("fetching ahead", fetching, |run, is_flipped| match is_flipped {
        true => run.tasks_of_fetching(1, 1.0, 3.0),
        false => run.tasks_of_fetching(1, 3.0, 1.0),
    });
}

#[test]
fn a_regression_is_a_change_in_the_data() {
    // The profile says as before, but rows cost five times as much: generic code is better now. Of next to nothing that is none.
    for (nanos, has_regressed) in [(1.0, true), (0.02, false)] {
        let mut run = MadeUp::new(AdaptOptions::default());
        run.data.store(1, Ordering::SeqCst);
        run.tasks(200, |tested| nanos * if tested[0] == 0 { 3.0 } else { 1.0 });
        run.tasks(400, |tested| nanos * if tested[0] == 0 { 2.0 } else { 5.0 });
        assert_eq!(run.count(|what| matches!(what, What::Regressed { .. })) >= 1, has_regressed);
        assert_eq!(run.slot.story().variants[0].is_current, has_regressed);
    }
}

#[test]
fn what_disturbs_some_tasks_is_no_regression() {
    let mut run = MadeUp::new(AdaptOptions::default());
    run.data.store(1, Ordering::SeqCst);
    run.tasks_of_data(200);
    // Of ten tasks two take a hundred times as long: in the mean rows cost twenty times as much.
    let tasks = Cell::new(0);
    run.tasks(2_000, |tested| {
        tasks.set(tasks.get() + 1);
        let disturbed = if tasks.get() * 7 % 10 < 2 { 100.0 } else { 1.0 };
        disturbed * if tested[0] == 1 { 1.0 } else { 3.0 }
    });
    assert_eq!(run.count(|what| matches!(what, What::Regressed { .. })), 0);
}

#[test]
fn what_code_costs_is_measured_for_few_tasks() {
    let adapted = |adapt| {
        let mut run = MadeUp::new(AdaptOptions { adapt, ..AdaptOptions::default() });
        run.data.store(1, Ordering::SeqCst);
        run.tasks_of_data(200);
        let before = run.measured;
        run.tasks_of_data(640);
        (run.measured - before, run)
    };
    assert_eq!(adapted(Adapt::Off).0, 0);
    let (measured, mut run) = adapted(Adapt::On);
    assert_eq!(measured, 0, "by the clock rows cost what they did");
    // By the clock they cost more: of 48 tasks six, an eighth of a profile lies between two.
    let before = run.measured;
    while run.measured == before {
        run.tasks(1, |_| 2.0);
    }
    run.tasks(47, |_| 2.0);
    assert_eq!(run.measured - before, 6);
}

#[test]
fn settings_pin_and_forbid() {
    let with = |adapt, predicate_order| {
        let permissions = Permissions::default().with(Specialisation::PredicateOrder, predicate_order);
        let mut run = MadeUp::new(AdaptOptions { adapt, permissions, ..AdaptOptions::default() });
        run.data.store(1, Ordering::SeqCst);
        // Pinned, it stays though it costs more.
        run.tasks(300, |tested| if tested[0] == 0 { 1.0 } else { 2.0 });
        run.slot.story()
    };
    let pinned = with(Adapt::On, Permission::Pin);
    assert_eq!((pinned.stage, pinned.events.len()), (Stage::Specialised, 2));
    assert!(matches!(pinned.events[1].what, What::Pinned { .. }));
    for (adapt, permission) in
        [(Adapt::On, Permission::Forbid), (Adapt::Off, Permission::Auto), (Adapt::Off, Permission::Pin)]
    {
        let story = with(adapt, permission);
        assert_eq!((story.stage, story.events.len()), (Stage::Generic, 1));
    }
}

#[test]
fn profiling_alone_goes_on_and_changes_nothing() {
    let run = MadeUp::new(AdaptOptions { adapt: Adapt::Profile, ..AdaptOptions::default() });
    run.data.store(1, Ordering::SeqCst);
    // One row in 64, then in 128 is due, 512 of each task of 65,536 at least, long after the first profile as well.
    for _ in 0..1_000 {
        let mut pick = run.slot.pick();
        assert!(pick.sample.is_some());
        pick.sample(&run.blocks, &Lookups::default(), &mut Scratch::default());
        let ran = Ran { rows: ROWS, blocks: 1, busy_ns: ROWS, cost_ns: Some(ROWS), ..Ran::default() };
        run.slot.ran(pick, &ran);
    }
    let story = run.slot.story();
    assert_eq!((story.stage, story.events.len(), story.variants.len()), (Stage::Instrumented, 1, 1));
}

#[test]
fn the_faster_tier_runs_and_another_when_that_has_changed() {
    let mut run = MadeUp::of_two_tiers(AdaptOptions::default());
    assert_eq!(run.slot.tier().0, Tier::Compiled);
    let spent = run.tasks_of_tiers(1_000, 1.0, 1.2);
    assert_eq!((run.slot.tier().0, run.slot.story().stage), (Tier::Interpreted, Stage::Specialised));
    assert!(spent < 1.02 * 1_000.0 * ROWS as f64, "{spent}");
    let spent = run.tasks_of_tiers(1_000, 4.0, 1.2);
    assert_eq!((run.slot.tier().0, run.slot.story().stage), (Tier::Compiled, Stage::Generic));
    assert!(spent < 1.5 * 1_200.0 * ROWS as f64, "{spent}");
    assert!(run.count(|what| matches!(what, What::Regressed { .. })) >= 1);
}

#[test]
fn a_tier_that_is_no_faster_is_tried_less_and_less() {
    let mut run = MadeUp::of_two_tiers(AdaptOptions::default());
    let spent = run.tasks_of_tiers(20_000, 1.02, 1.0);
    assert_eq!(run.slot.tier().0, Tier::Compiled);
    assert!((3..=9).contains(&run.count(is_tried)), "tried {} times", run.count(is_tried));
    assert!(spent < 1.002 * 20_000.0 * ROWS as f64, "{spent}");
}

#[test]
fn settings_pin_and_forbid_tiers() {
    let with = |adapt, tier| {
        let permissions = Permissions::default().with(Specialisation::Tier, tier);
        let mut run = MadeUp::of_two_tiers(AdaptOptions { adapt, permissions, ..AdaptOptions::default() });
        run.tasks_of_tiers(300, 2.0, 1.0);
        (run.slot.tier().0, run.slot.story().events.len())
    };
    // Pinned, it stays though it costs more.
    assert_eq!(with(Adapt::On, Permission::Pin), (Tier::Interpreted, 3));
    assert_eq!(with(Adapt::On, Permission::Forbid), (Tier::Compiled, 2));
    assert_eq!(with(Adapt::Off, Permission::Pin), (Tier::Compiled, 2));
}

#[test]
fn memory_is_asked_for_ahead_where_that_pays_and_as_long_as_it_does() {
    let mut run = MadeUp::of(Code::that_fetches(false), Arc::default(), AdaptOptions::default());
    assert_eq!(run.slot.story().stage, Stage::Generic);
    let spent = run.tasks_of_fetching(20_000, 1.0, 1.4);
    assert!(spent < 1.02 * 20_000.0 * ROWS as f64, "{spent}");
    assert!(run.slot.pick().kernel.fetches_ahead());
    // What comes from the cache costs less either way: no row costs more than before, and what does not ask is tried again all the same.
    run.tasks_of_fetching(200_000, 0.6, 0.5);
    assert!(!run.slot.pick().kernel.fetches_ahead());
    let tried = run.count(is_tried);
    let spent = run.tasks_of_fetching(20_000, 0.6, 0.5);
    assert!(spent < 1.01 * 0.5 * 20_000.0 * ROWS as f64, "{spent}");
    assert!(run.count(is_tried) - tried <= 6, "tried {} times", run.count(is_tried) - tried);
    assert_eq!(run.slot.story().variants.len(), 2);
}

#[test]
fn an_attempt_counts_for_what_it_was_made_for() {
    let data = Arc::default();
    let mut run = MadeUp::of(Code::kernel(&data, Some(false)), data, AdaptOptions::default());
    run.data.store(1, Ordering::SeqCst);
    // Both pay. What tests predicates in the better order and does not fetch ahead was made for the order, and is tried again for the fetching.
    let cost = |kernel: &dyn Kernel| {
        let by_order = if kernel.order().tested[0] == 1 { 1.0 } else { 3.0 };
        if kernel.fetches_ahead() { 0.7 * by_order } else { by_order }
    };
    let spent: f64 = (0..20_000).map(|_| run.task_of(cost)).sum();
    assert!(spent < 1.02 * 0.7 * 20_000.0 * ROWS as f64, "{spent}");
    assert!((2..=12).contains(&run.count(is_tried)), "tried {} times", run.count(is_tried));
    // So the order still follows the data.
    run.data.store(2, Ordering::SeqCst);
    let cost = |kernel: &dyn Kernel| if kernel.order().tested[0] == 0 { 1.0 } else { 1.3 };
    for _ in 0..1_000 {
        run.task_of(cost);
    }
    assert_eq!(run.slot.pick().kernel.order().tested[0], 0);
}

#[test]
fn settings_pin_and_forbid_fetching_ahead() {
    let with = |adapt, fetch_ahead| {
        let permissions = Permissions::default().with(Specialisation::FetchAhead, fetch_ahead);
        let options = AdaptOptions { adapt, permissions, ..AdaptOptions::default() };
        let mut run = MadeUp::of(Code::that_fetches(false), Arc::default(), options);
        run.tasks_of_fetching(300, 2.0, 1.0);
        (run.slot.pick().kernel.fetches_ahead(), run.slot.story().events.len())
    };
    // Pinned, it stays though it costs more.
    assert_eq!(with(Adapt::On, Permission::Pin), (true, 2));
    assert_eq!(with(Adapt::On, Permission::Forbid), (false, 1));
    assert_eq!(with(Adapt::Off, Permission::Pin), (false, 1));
    // It goes with any order of predicates.
    let (data, pin) = (Arc::default(), Permission::Pin);
    let permissions =
        Permissions::default().with(Specialisation::FetchAhead, pin).with(Specialisation::PredicateOrder, pin);
    let options = AdaptOptions { permissions, ..AdaptOptions::default() };
    let mut run = MadeUp::of(Code::kernel(&data, Some(false)), data, options);
    run.data.store(1, Ordering::SeqCst);
    run.tasks(300, |_| 1.0);
    let kernel = run.slot.pick().kernel;
    assert_eq!((kernel.order().tested[0], kernel.fetches_ahead()), (1, true));
}

#[test]
fn how_keys_are_found_is_told_less_and_less_often() {
    let mut run = MadeUp::of_two_tiers(AdaptOptions { adapt: Adapt::Off, ..AdaptOptions::default() });
    run.tasks_of_tiers(1, 1.0, 1.0);
    let changes = |run: &MadeUp| run.count(|what| matches!(what, What::Assumed { .. } | What::Broken { .. }));
    assert_eq!((changes(&run), run.slot.story().stage), (0, Stage::Generic));
    for number in 0..64 {
        let keys = if number % 2 == 0 { KeysFound::Between { first: 1, last: 9 } } else { KeysFound::ByHash };
        run.met = Met { guards_failed: 1, keys: Some(keys), without_nulls: None };
        run.tasks_of_tiers(3, 1.0, 1.0);
        let stage = if number % 2 == 0 { Stage::Specialised } else { Stage::Generic };
        assert_eq!(run.slot.story().stage, stage);
    }
    // The first, the second and third, the fourth and fifth, the eighth and ninth …
    assert_eq!(changes(&run), 12);
    assert_eq!(run.slot.story().variants.iter().map(|variant| variant.guards_failed).sum::<u64>(), 3 * 64);
}

#[test]
fn what_is_assumed_of_keys_is_told_as_it_is_by_now() {
    let mut run = MadeUp::of_two_tiers(AdaptOptions { adapt: Adapt::Off, ..AdaptOptions::default() });
    let mut found = |keys| {
        run.met.keys = Some(keys);
        run.tasks_of_tiers(1, 1.0, 1.0);
        run.slot.story().keys_since()
    };
    assert_eq!(found(KeysFound::Between { first: -500, last: -484 }), None);
    let since = found(KeysFound::Between { first: -500, last: 1499 });
    assert_eq!(since.as_deref(), Some("by now keys lie between -500 and 1499"));
    let among = |combinations| KeysFound::Among { combinations };
    for keys in [KeysFound::ByHash, among(30), KeysFound::ByHash, among(30)] {
        assert_eq!(found(keys), None);
    }
    // This change and the next are not told.
    assert_eq!(found(KeysFound::ByHash).as_deref(), Some("by now keys are found by hash"));
    assert_eq!(found(among(30)), None);
    assert_eq!(found(among(31)).as_deref(), Some("by now keys are among 31 combinations of values"));
    let [suited, by_hash] = run.slot.story().by_keys.map(|spent| spent.rows);
    assert_eq!((suited, by_hash > 0), (2 * by_hash, true), "six tasks and three");
}

#[test]
fn what_others_took_is_no_cost_of_a_variant() {
    let mut run = MadeUp::of_two_tiers(AdaptOptions::default());
    run.tasks_of_tiers(300, 1.0, 4.0);
    let story = run.slot.story();
    let computed = |variant: usize| story.variants[variant].computed_nanos_per_row().unwrap_or_default();
    assert!((computed(0) - 1.0).abs() < 0.1 && (computed(1) - 4.0).abs() < 0.4, "{story:?}");
    assert!(story.variants.iter().all(|variant| variant.measured_rows < variant.rows), "{story:?}");
}

#[test]
fn chance_changes_tiers_and_says_so() {
    let run = MadeUp::of_two_tiers(AdaptOptions { adapt: Adapt::Random { seed: 3 }, ..AdaptOptions::default() });
    let tiers: Vec<_> = (0..200).map(|_| run.slot.pick().kernel.tier()).collect();
    let interpreted = tiers.iter().filter(|tier| **tier == Tier::Interpreted).count();
    assert!((50..150).contains(&interpreted), "{interpreted} of 200 tasks");
    let changes = tiers.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let told = run.count(|what| matches!(what, What::Drawn { .. }));
    assert_eq!(told, changes + usize::from(tiers[0] != Tier::Compiled));
}

#[test]
fn chance_tries_all_orders_and_repeats_itself() {
    let orders = |seed| {
        let run = MadeUp::new(AdaptOptions { adapt: Adapt::Random { seed }, ..AdaptOptions::default() });
        (0..200).map(|_| run.slot.pick().kernel.order()).collect::<Vec<_>>()
    };
    let different: std::collections::HashSet<_> = orders(3).into_iter().collect();
    assert_eq!(different.len(), 4);
    assert_eq!(orders(3), orders(3));
    assert_ne!(orders(3), orders(4));
}

#[test]
fn chance_tries_nothing_that_is_forbidden() {
    let drawn = |permission| {
        let (adapt, permissions) = (Adapt::Random { seed: 3 }, Permissions::all(permission));
        let options = AdaptOptions { adapt, permissions, ..AdaptOptions::default() };
        let data = Arc::default();
        let run = MadeUp::of(Code::of_tier(Tier::Interpreted), Arc::clone(&data), options);
        run.slot.store(Code::kernel(&data, Some(false)), Duration::ZERO);
        let picks = (0..200).map(|_| run.slot.pick().kernel);
        picks
            .filter(|kernel| {
                kernel.tier() == Tier::Interpreted || kernel.fetches_ahead() || kernel.order().tested[0] == 1
            })
            .count()
    };
    assert_eq!(drawn(Permission::Forbid), 0);
    assert!(drawn(Permission::Auto) > 100);
}

#[test]
fn what_is_kept_of_the_story_is_limited() {
    let mut written = Stories::default();
    for number in 0..2 * story::EVENTS_MAX as u64 {
        written.write().happened(0, What::Kept { gain: 0.5 });
        assert_eq!(written.read().events.back().map(|event| event.number), Some(number));
    }
    written = written.clone();
    assert_eq!(written.read().events.len(), story::EVENTS_MAX);
    assert_eq!(written.read().events[0].number, story::EVENTS_MAX as u64);
}
