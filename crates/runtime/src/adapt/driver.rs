//! Which variant of a pipeline's code runs next, when rows are profiled, and what follows from it.

use std::sync::Arc;
use std::time::Duration;

use pelton_state::kernel::{Kernel, Tier};
use pelton_state::profile::PredicateOrder;

use super::assumed::{Assumed, checks_nulls};
use super::orders::{Orders, STEADY_PROFILES};
use super::samples::Samples;
use super::sampling::{PROFILE_ROWS, Sampling};
use super::story::{self, Stage, Stories, VARIANTS_MAX, What};
use super::trial::{Trial, Verdict};
use super::{Adapt, AdaptOptions, Permission, Pick, Ran, Sample, Specialisation, predicate_order};

/// Attempts wait for twice as many profiles each time they fail, up to two to this power.
const WAIT_DOUBLINGS_MAX: u32 = 12;

/// What rows cost is measured so many times from one profile to the next,
const COST_SAMPLES: usize = 8;

/// and where the median is so many times what it was when the code was chosen, in as many profiles in a row, the data has changed: one may be noise of the machine.
const REGRESSED: f64 = 1.5;
const REGRESSED_PROFILES: u32 = 2;

/// A row must cost so many nanoseconds more than it did: where it costs next to nothing, as of a pipeline that passes blocks on, other code is no help.
const REGRESSED_NANOS: f64 = 0.1;

/// What is known of one pipeline's code.
pub(super) struct Driver {
    options: AdaptOptions,
    /// As far as their code is kept, generic code first: compiled once there is such code, and then interpreted code is one of the others.
    variants: Vec<Variant>,
    /// Which of them runs.
    current: usize,
    /// Rows that the pipeline has computed,
    rows: u64,
    /// and when it last did, since the run began. It stands still where costs are made up.
    now_ns: u64,
    next_id: u64,
    trial: Option<Trial>,
    sampling: Sampling,
    waiting: [Backoff; Specialisation::ALL.len()],
    /// Changes of the data that costs tell of: those that come soon one after the other are answered less and less.
    regressions: Backoff,
    orders: Orders,
    cost: Cost,
    assumed: Assumed,
    /// The state of a generator of random numbers.
    random: u64,
    stories: Stories,
}

struct Variant {
    id: u64,
    /// What it specialises; generic code nothing.
    specialisation: Option<Specialisation>,
    kernel: Arc<dyn Kernel>,
    preparation: Duration,
}

impl Variant {
    /// Whether it is the generic code of a tier.
    fn is_generic(&self) -> bool {
        matches!(self.specialisation, None | Some(Specialisation::Tier))
    }
}

/// When the next attempt at a specialisation may be made.
#[derive(Clone, Copy, Default)]
struct Backoff {
    failures: u32,
    /// At this number of profiles.
    until: u64,
    /// When the code changed last.
    changed_at: u64,
}

/// What rows cost with the present code.
#[derive(Default)]
struct Cost {
    /// Nanoseconds a row when it was chosen, or what they are next, where the data has changed since: infinitely many until then. Not known of code that was
    /// never compared.
    chosen: Option<f64>,
    /// Since the last profile.
    samples: Samples,
    /// Profiles in a row with rows that cost much more than that.
    slow_profiles: u32,
}

impl Cost {
    /// Whether samples must not have what others took of the core in them: until what code costs is known, and where it seems to cost more. Else it does
    /// that they cost no more, and to ask the system what a thread has computed takes microseconds.
    fn is_in_doubt(&self) -> bool {
        self.slow_profiles > 0 || self.chosen.is_none_or(f64::is_infinite)
    }
}

impl Driver {
    pub fn new(kernel: Arc<dyn Kernel>, preparation: Duration, options: AdaptOptions, stories: Stories) -> Driver {
        let random = match options.adapt {
            Adapt::Random { seed } => seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            Adapt::On | Adapt::Off | Adapt::Profile => 1,
        };
        let mut driver = Driver {
            options,
            variants: Vec::new(),
            current: 0,
            rows: 0,
            now_ns: 0,
            next_id: 0,
            trial: None,
            sampling: Sampling::new(),
            waiting: Default::default(),
            regressions: Backoff::default(),
            orders: Orders::default(),
            cost: Cost::default(),
            assumed: Assumed::default(),
            random,
            stories,
        };
        driver.replace(kernel, preparation);
        driver
    }

    /// Makes this the generic code. Of what there was only the generic code of another tier is remembered.
    pub fn replace(&mut self, kernel: Arc<dyn Kernel>, preparation: Duration) {
        let tier = kernel.tier();
        let before = self.variants.drain(..).next().filter(|before| before.kernel.tier() != tier);
        self.trial = None;
        (self.waiting, self.regressions, self.orders, self.cost) = Default::default();
        self.current = self.add(kernel, preparation, None, String::new());
        self.variants.extend(before.map(|before| Variant { specialisation: Some(Specialisation::Tier), ..before }));
        self.restart_sampling(true);
        self.happened(self.current, What::Generic { tier });
    }

    pub fn tier(&self) -> (Tier, Duration) {
        let variant = &self.variants[self.current];
        (variant.kernel.tier(), variant.preparation)
    }

    pub fn pick(&mut self) -> Pick {
        if let Adapt::Random { .. } = self.options.adapt {
            self.change_at_random();
        }
        let tried = self.trial.as_mut().and_then(|trial| trial.next().then_some(trial.challenger));
        let running = tried.unwrap_or(self.current);
        let Variant { id, kernel, .. } = &self.variants[running];
        let (id, kernel) = (*id, kernel.clone());
        let is_cost_due = self.is_cost_due();
        let is_measured = self.trial.is_some() || is_cost_due && self.cost.is_in_doubt();
        let checks_nulls = checks_nulls(self.options, || self.below(2) == 0);
        Pick { kernel, id, sample: self.sample(), is_cost_due, is_measured, checks_nulls }
    }

    pub fn ran(&mut self, pick: Pick, ran: &Ran) {
        let told = self.assumed.takes_in(ran.worker, &ran.met);
        self.stories.write().ran(pick.id, ran, self.assumed.keys());
        self.sampling.ran(ran.rows);
        if self.options.costs.is_none() {
            self.now_ns = ran.at_ns;
        }
        // Of a trial that has begun meanwhile, nothing is decided by the clock.
        let by_clock = || (pick.is_cost_due && self.trial.is_none()).then_some(ran.busy_ns);
        if let Some(cost_ns) = ran.cost_ns.or_else(by_clock) {
            let made_up = self.options.costs.map(|costs| costs.nanos_per_row(&*pick.kernel, self.rows) * ran.rows);
            self.measured(pick.id, ran.rows, made_up.unwrap_or(cost_ns));
        }
        self.rows += ran.rows;
        self.tell(told);
        let is_over = match pick.sample {
            Some(sample) => self.sampling.put_back(sample),
            // Where there is nothing to count, rows that pass are the profile.
            None => self.sampling.has_come_to(PROFILE_ROWS, self.now_ns) && self.learns() && !self.counts(),
        };
        if is_over {
            self.profiled();
        }
    }

    /// A profile to be continued, and where in a block, where that is due.
    fn sample(&mut self) -> Option<Sample> {
        if !self.counts() {
            return None;
        }
        let (profile, first) = self.sampling.sample(self.now_ns)?;
        Some(Sample { kernel: self.variants[0].kernel.clone(), profile, first })
    }

    /// Whether anything could be learnt.
    fn learns(&self) -> bool {
        Specialisation::ALL.iter().any(|&one| self.learns_of(one))
    }

    /// Whether anything could be learnt of one specialisation.
    fn learns_of(&self, specialisation: Specialisation) -> bool {
        matches!(self.options.adapt, Adapt::On | Adapt::Profile)
            && self.may(specialisation) != Permission::Forbid
            && match specialisation {
                Specialisation::PredicateOrder => self.variants[0].kernel.predicates().len() > 1,
                Specialisation::Tier => self.other_tier().is_some(),
                Specialisation::DenseKeys | Specialisation::NoNulls => false,
                Specialisation::FetchAhead => self.fetching().is_some(),
            }
    }

    /// Whether rows are looked at for it.
    fn counts(&self) -> bool {
        self.learns_of(Specialisation::PredicateOrder)
    }

    fn may(&self, specialisation: Specialisation) -> Permission {
        self.options.permissions.of(specialisation)
    }

    /// Generic code of the tier that does not run.
    fn other_tier(&self) -> Option<usize> {
        let present = self.variants[self.current].kernel.tier();
        self.variants.iter().position(|variant| variant.is_generic() && variant.kernel.tier() != present)
    }

    fn restart_sampling(&mut self, is_dense: bool) {
        self.sampling.restart(is_dense, self.now_ns);
        self.stands();
    }

    /// Tells what a task has met that changes what is assumed.
    fn tell(&self, met: Option<[Option<What>; 2]>) {
        let Some(told) = met else { return };
        told.into_iter().flatten().for_each(|what| self.happened(self.current, what));
        self.stands();
    }

    /// Whether it is time to measure again what rows cost, for what comes later to be compared with what was chosen.
    fn is_cost_due(&self) -> bool {
        let Cost { chosen, samples, .. } = &self.cost;
        let taken = samples.nanos_per_row().len();
        let profiled = PROFILE_ROWS * taken as u64 / COST_SAMPLES as u64;
        chosen.is_some() && taken < COST_SAMPLES && self.sampling.has_come_to(profiled, self.now_ns)
    }

    /// Takes in what a task has cost.
    fn measured(&mut self, id: u64, rows: u64, cost_ns: u64) {
        let Some(variant) = self.variants.iter().position(|variant| variant.id == id) else { return };
        if variant == self.current && self.is_cost_due() {
            self.cost.samples.add(rows, cost_ns);
        }
        let Some(trial) = &mut self.trial else { return };
        if variant == self.current || variant == trial.challenger {
            trial.add(variant == trial.challenger, rows, cost_ns);
        }
        if let Some(verdict) = trial.verdict() {
            let (challenger, tried) = (trial.challenger, trial.specialisation);
            self.trial = None;
            self.decide(challenger, tried, verdict);
        }
    }

    fn decide(&mut self, challenger: usize, tried: Option<Specialisation>, verdict: Verdict) {
        let Verdict { is_better, gain, nanos_per_row } = verdict;
        self.compared(challenger, verdict);
        self.cost = Cost { chosen: Some(nanos_per_row), ..Cost::default() };
        let profiles = tried.map_or(0, |tried| self.waiting[tried as usize].decided(is_better, self.sampling.profiles));
        if is_better {
            self.current = challenger;
        }
        self.happened(challenger, if is_better { What::Kept { gain } } else { What::Undone { gain, profiles } });
        self.restart_sampling(false);
    }

    /// Takes in what two orders of predicates have cost, if it was these that differed.
    fn compared(&mut self, challenger: usize, Verdict { is_better, gain, .. }: Verdict) {
        let [present, tried] = [self.current, challenger].map(|variant| self.variants[variant].kernel.clone());
        let orders = [present.order(), tried.order()];
        if orders[0] != orders[1] && present.tier() == tried.tier() {
            let worse = &orders[usize::from(!is_better)];
            let failures = self.waiting[Specialisation::PredicateOrder as usize].failures;
            let worse = (worse, failures, self.sampling.profiles);
            self.orders.measured((present.predicates(), present.lists_rows()), [&orders[0], &orders[1]], gain, worse);
        }
    }

    /// Draws conclusions from a complete profile.
    fn profiled(&mut self) {
        let profile = self.sampling.take_complete();
        if self.options.adapt == Adapt::Profile {
            return self.restart_sampling(true);
        }
        // Rows from before a change and behind it say nothing of either: another profile is taken as soon as there may be one.
        let has_changed = self.orders.takes_in(&profile);
        self.restart_sampling(has_changed);
        if has_changed {
            let waiting = &mut self.waiting[Specialisation::PredicateOrder as usize];
            *waiting = Backoff { changed_at: waiting.changed_at, ..Backoff::default() };
            self.cost = Cost { chosen: self.cost.chosen.map(|_| f64::INFINITY), ..Cost::default() };
            // What a trial has measured is of both data.
            self.trial = self.trial.take().map(|trial| Trial::new(trial.challenger, trial.specialisation));
        }
        if self.has_regressed() || self.trial.is_some() || has_changed {
            return;
        }
        let present = self.variants[self.current].specialisation;
        let pinned = present.filter(|&present| self.may(present) == Permission::Pin);
        // What is pinned waits for nothing that is measured.
        let mut in_turn = Specialisation::ALL;
        in_turn.sort_by_key(|one| self.may(*one) != Permission::Pin);
        for specialisation in in_turn {
            let is_due = self.sampling.profiles >= self.waiting[specialisation as usize].until;
            let is_allowed = self.may(specialisation) != Permission::Forbid;
            if !is_due || !is_allowed || pinned.is_some_and(|pinned| excludes(pinned, specialisation)) {
                continue;
            }
            let found = match specialisation {
                Specialisation::PredicateOrder => self.better_order(),
                Specialisation::Tier => self.untried_tier(),
                Specialisation::DenseKeys | Specialisation::NoNulls => None,
                Specialisation::FetchAhead => self.untried_fetching(),
            };
            if let Some((variant, assumption)) = found {
                return self.suggest(variant, specialisation, assumption);
            }
        }
    }

    /// Runs a variant, beside the present one if that is to be measured.
    fn suggest(&mut self, variant: usize, specialisation: Specialisation, assumption: String) {
        let specialisation_of = self.variants[variant].specialisation;
        if self.may(specialisation) == Permission::Pin {
            self.current = variant;
            return self.happened(variant, What::Pinned { specialisation: specialisation_of, assumption });
        }
        self.trial = Some(Trial::new(variant, Some(specialisation)));
        self.happened(variant, What::Tried { specialisation: specialisation_of, assumption });
    }

    /// A variant with a better order than the present code, by what is known of the data, and what it assumes.
    fn better_order(&mut self) -> Option<(usize, String)> {
        let predicates = self.variants[0].kernel.predicates();
        let current = &self.variants[self.current];
        let present = match current.specialisation {
            Some(Specialisation::PredicateOrder | Specialisation::FetchAhead) => current.kernel.order(),
            // What is interpreted tests predicates as planned, too.
            Some(Specialisation::Tier | Specialisation::DenseKeys | Specialisation::NoNulls) | None => {
                PredicateOrder::planned(predicates)
            }
        };
        let lists_rows = self.variants[0].kernel.lists_rows();
        let is_measured = self.may(Specialisation::PredicateOrder) != Permission::Pin;
        let order = self.orders.better((predicates, lists_rows), &present, is_measured, self.sampling.profiles)?;
        let assumption = predicate_order::words(predicates, self.orders.counts(), &order);
        Some((self.ordered(&order, &assumption)?, assumption))
    }

    /// The code of the other tier, which only measuring can compare. Compiled code is never pinned: it is what runs without.
    fn untried_tier(&self) -> Option<(usize, String)> {
        let other = self.other_tier()?;
        let tier = self.variants[other].kernel.tier();
        let is_wanted = self.may(Specialisation::Tier) == Permission::Auto || tier == Tier::Interpreted;
        is_wanted.then(|| (other, format!("{tier} code may take less time")))
    }

    /// The present code that asks for memory ahead, or does not, which only measuring can compare. What does not is never pinned.
    fn untried_fetching(&mut self) -> Option<(usize, String)> {
        let kernel = self.fetching()?;
        let (ahead, assumption) = match kernel.fetches_ahead() {
            true => (true, "columns may come from memory"),
            false => (false, "columns may be in the cache"),
        };
        let order = match kernel.order() == self.variants[0].kernel.order() {
            true => String::new(),
            false => format!(", predicates in the order of variant {}", self.variants[self.current].id),
        };
        let assumption = format!("{assumption}{order}");
        let is_wanted = ahead || self.may(Specialisation::FetchAhead) == Permission::Auto;
        let variant = is_wanted.then(|| self.known_or_made(kernel, Specialisation::FetchAhead, &assumption))?;
        Some((variant, assumption))
    }

    /// What runs, if it asked for memory ahead, or did not.
    fn fetching(&self) -> Option<Arc<dyn Kernel>> {
        let present = &self.variants[self.current].kernel;
        present.fetching(!present.fetches_ahead())
    }

    /// Whether rows cost much more than when the code was chosen. Then generic code is tried again, and what is known of the data forgotten.
    fn has_regressed(&mut self) -> bool {
        let nanos_per_row = self.cost.samples.take_median();
        let slow_profiles = std::mem::take(&mut self.cost.slow_profiles);
        if self.cost.chosen == Some(f64::INFINITY) {
            self.cost.chosen = Some(nanos_per_row).filter(|&nanos| nanos > 0.0).or(self.cost.chosen);
        }
        let limit = |chosen: f64| (REGRESSED * chosen).max(chosen + REGRESSED_NANOS);
        let is_slow = |&chosen: &f64| chosen > 0.0 && nanos_per_row > limit(chosen);
        let Some(chosen) = self.cost.chosen.filter(is_slow) else { return false };
        self.cost.slow_profiles = slow_profiles + 1;
        if self.cost.slow_profiles < REGRESSED_PROFILES {
            return false;
        }
        let Some(was_steady) = self.regressions.regressed(self.sampling.profiles) else { return false };
        // What it costs now is what the next change is compared with.
        self.cost = Cost { chosen: Some(nanos_per_row), ..Cost::default() };
        self.happened(self.current, What::Regressed { factor: nanos_per_row / chosen });
        if was_steady {
            self.waiting = self.waiting.map(|waiting| Backoff { changed_at: waiting.changed_at, ..Backoff::default() });
        }
        self.orders.forget();
        self.restart_sampling(true);
        let is_free = self.variants[self.current].specialisation.is_some_and(|what| self.may(what) == Permission::Auto);
        if is_free && self.trial.is_none() {
            // Generic code is tried again in the place of what runs.
            self.trial = Some(Trial::new(0, self.variants[self.current].specialisation));
            self.happened(0, What::Tried { specialisation: None, assumption: String::new() });
        }
        true
    }

    /// The variant with this order, which is made if there is none. It asks for memory ahead if what runs does.
    fn ordered(&mut self, order: &PredicateOrder, assumption: &str) -> Option<usize> {
        let present = &self.variants[self.current].kernel;
        let compiled = if present.tier() == Tier::Compiled { present } else { &self.variants[0].kernel };
        let kernel = compiled.reordered(order)?;
        let ahead = if kernel.fetches_ahead() { ", columns asked for ahead" } else { "" };
        Some(self.known_or_made(kernel, Specialisation::PredicateOrder, &format!("{assumption}{ahead}")))
    }

    /// The variant that runs this code, which is made if there is none.
    fn known_or_made(&mut self, kernel: Arc<dyn Kernel>, specialisation: Specialisation, assumption: &str) -> usize {
        let is_same = |known: &Variant| {
            let known = &known.kernel;
            (known.tier(), known.fetches_ahead()) == (kernel.tier(), kernel.fetches_ahead())
                && known.order() == kernel.order()
        };
        if let Some(known) = self.variants.iter().position(is_same) {
            return known;
        }
        if self.variants.len() == VARIANTS_MAX {
            // No trial runs now.
            let is_spare = |&index: &usize| index != self.current && !self.variants[index].is_generic();
            let oldest = (1..VARIANTS_MAX).find(is_spare).expect("all but three suit the data");
            self.variants.remove(oldest);
            self.current -= usize::from(self.current > oldest);
        }
        self.add(kernel, Duration::ZERO, Some(specialisation), assumption.to_owned())
    }

    fn add(
        &mut self,
        kernel: Arc<dyn Kernel>,
        preparation: Duration,
        specialisation: Option<Specialisation>,
        assumption: String,
    ) -> usize {
        let id = self.next_id;
        self.next_id += 1;
        let made = story::Variant::new(id, kernel.tier(), specialisation, assumption);
        self.stories.write().made(story::Variant { preparation, ..made });
        self.variants.push(Variant { id, specialisation, kernel, preparation });
        self.variants.len() - 1
    }

    fn happened(&self, variant: usize, what: What) {
        self.stories.write().happened(self.variants[variant].id, what);
        self.stands();
    }

    fn stands(&self) {
        let stage = match (&self.trial, self.current) {
            (Some(_), _) => Stage::Instrumented,
            (None, 0) if self.sampling.is_dense() && (self.counts() || self.learns_of(Specialisation::Tier)) => {
                Stage::Instrumented
            }
            (None, 0) if !self.assumed.is_anything() => Stage::Generic,
            (None, _) => Stage::Specialised,
        };
        self.stories.write().stands(self.variants[self.current].id, stage);
    }

    /// Goes over to another variant in one of four cases, but to none that is forbidden.
    fn change_at_random(&mut self) {
        let is_only = self.variants.len() < 2 && self.variants[0].kernel.predicates().len() < 2;
        if is_only && self.fetching().is_none() || self.below(4) != 0 {
            return;
        }
        let before = self.variants[self.current].id;
        let may = |what| self.may(what) != Permission::Forbid;
        let [may_order, may_interpret, may_fetch] =
            [Specialisation::PredicateOrder, Specialisation::Tier, Specialisation::FetchAhead].map(may);
        let interpreted = self.variants.iter().position(|variant| variant.specialisation == Some(Specialisation::Tier));
        self.current = match interpreted.filter(|_| may_interpret && self.below(2) == 0) {
            Some(interpreted) => interpreted,
            None if may_order => self.ordered_at_random(),
            None => 0,
        };
        if may_fetch
            && self.below(2) == 0
            && let Some(kernel) = self.fetching()
        {
            self.current = self.known_or_made(kernel, Specialisation::FetchAhead, "chance wants it");
        }
        let Variant { id, specialisation, .. } = self.variants[self.current];
        if id != before {
            self.happened(self.current, What::Drawn { specialisation });
        }
    }

    /// A variant with any order.
    fn ordered_at_random(&mut self) -> usize {
        let mut order = PredicateOrder::planned(self.variants[0].kernel.predicates());
        // All primitives are planned to go over blocks.
        let primitives = order.over_blocks;
        let (front, back) = order.tested.split_at_mut(primitives);
        for part in [front, back] {
            for end in (1..part.len()).rev() {
                let other = self.below(end + 1);
                part.swap(end, other);
            }
        }
        order.over_blocks = if primitives > 0 { 1 + self.below(primitives) } else { 0 };
        self.ordered(&order, "chance wants it").unwrap_or(0)
    }

    /// A random number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as usize % end
    }
}

/// Whether code that was made for one specialisation cannot be for another. Interpreted code is for no other; what fetches ahead may test predicates in any
/// order.
fn excludes(one: Specialisation, other: Specialisation) -> bool {
    one != other && (one == Specialisation::Tier || other == Specialisation::Tier)
}

impl Backoff {
    /// Notes that an attempt was made, and returns how many profiles the next one waits for.
    fn decided(&mut self, is_better: bool, profiles: u64) -> u64 {
        let is_steady = profiles - self.changed_at >= STEADY_PROFILES;
        if is_better {
            self.changed_at = profiles;
        }
        self.wait(is_better && is_steady, profiles)
    }

    /// Notes that rows cost much more than before. If that is to be answered, whether they had cost as much for long.
    fn regressed(&mut self, profiles: u64) -> Option<bool> {
        let was_steady = profiles - std::mem::replace(&mut self.changed_at, profiles) >= STEADY_PROFILES;
        if !was_steady && profiles < self.until {
            return None;
        }
        self.wait(was_steady, profiles);
        Some(was_steady)
    }

    /// Waits for one profile where failures are forgotten, and otherwise for twice as many as before. Returns for how many.
    fn wait(&mut self, forgets: bool, profiles: u64) -> u64 {
        self.failures = if forgets { 0 } else { (self.failures + 1).min(WAIT_DOUBLINGS_MAX) };
        let wait = 1 << self.failures;
        self.until = profiles + wait;
        wait
    }
}
