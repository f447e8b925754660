//! What a pipeline knows of orders of its predicates: how many rows pass as long as the data stays as it is, which orders were tried on it, and which
//! estimates what was measured bears out.
//!
//! Whether columns come from memory or from the cache decides which order is best, and nothing tells: both estimates are asked, and whose gains were closer to
//! those measured comes first.

use pelton_state::profile::{Joint, Predicate, PredicateOrder, Profile};

use super::predicate_order::{Estimate, Source};

/// Data has stayed as it was for so many profiles where a change of it is no flapping.
pub(super) const STEADY_PROFILES: u64 = 16;

/// Counts are halved when they are of so many rows: what changes slowly is followed.
const COUNTED_ROWS_MAX: u64 = 1 << 16;

/// A share of rows has changed where it differs by so many standard deviations, and so many rows of a profile.
const DEVIATIONS_MIN: f64 = 5.0;
const ROWS_MIN: f64 = 3.0;

/// An order that was no better is tried again behind so many profiles, twice as many for each attempt that has failed.
const FORGOTTEN_PROFILES: u64 = 16;

/// The estimate that was further from what was measured is asked as well, as long as it was by no more than this share of the time. Errors are forgotten by this
/// share with each profile, so that it is asked again some time.
const ERROR_EXCUSED: f64 = 0.1;
const ERROR_FORGOTTEN: f64 = 1.0 / 64.0;

#[derive(Default)]
pub(super) struct Orders {
    counts: Profile,
    /// Profiles since the data has changed.
    profiles: u64,
    /// Orders that were no better on this data, and until which profile that counts.
    failed: Vec<(PredicateOrder, u64)>,
    /// How far gains were from those measured, by [`Source`]: more recent ones count for more.
    errors: [f64; 2],
}

impl Orders {
    /// Takes in a profile. Whether it shows that data has changed which had stayed as it was for long. One that shows a change counts for nothing more: it may have
    /// begun before that, and only the next one is of the new data alone.
    pub fn takes_in(&mut self, profile: &Profile) -> bool {
        let has_changed = self.profiles > 0
            && (differ(&self.counts.primitives, &profile.primitives) || differ(&self.counts.loops, &profile.loops));
        if has_changed {
            let was_steady = self.profiles >= STEADY_PROFILES;
            self.forget();
            return was_steady;
        }
        self.profiles += 1;
        self.errors = self.errors.map(|error| error * (1.0 - ERROR_FORGOTTEN));
        self.counts.rows += profile.rows;
        add(&mut self.counts.primitives, &profile.primitives);
        add(&mut self.counts.loops, &profile.loops);
        if self.counts.rows >= COUNTED_ROWS_MAX {
            self.counts.rows /= 2;
            halve(&mut self.counts.primitives);
            halve(&mut self.counts.loops);
        }
        false
    }

    /// How many rows pass as the data is.
    pub fn counts(&self) -> &Profile {
        &self.counts
    }

    /// Begins anew, as if nothing were known of the data.
    pub fn forget(&mut self) {
        *self = Orders { errors: self.errors, ..Orders::default() };
    }

    /// An order that should take less time than `present`, at this number of all profiles. `lists_rows` says whether rows that are left are listed in any
    /// case, `is_measured` whether the order will be: of what is not, only one estimate says which is best.
    pub fn better(
        &mut self,
        (predicates, lists_rows): (&[Predicate], bool),
        present: &PredicateOrder,
        is_measured: bool,
        now: u64,
    ) -> Option<PredicateOrder> {
        if self.counts.rows == 0 {
            return None;
        }
        self.failed.retain(|(_, until)| *until > now);
        let mut sources = Source::ALL;
        sources.sort_by(|one, other| self.error(*one).total_cmp(&self.error(*other)));
        let excused = self.error(sources[0]) + ERROR_EXCUSED;
        let asked = &sources[..if is_measured { sources.len() } else { 1 }];
        let asked = asked.iter().copied().filter(|source| self.error(*source) <= excused);
        let mut estimates = asked.map(|source| Estimate { predicates, profile: &self.counts, source, lists_rows });
        estimates.find_map(|estimate| estimate.better(present, self.failed.iter().map(|(order, _)| order)))
    }

    /// Takes in by which share rows took less time with an order than with `present`, and which of both is used no more, after so many failures.
    pub fn measured(
        &mut self,
        (predicates, lists_rows): (&[Predicate], bool),
        [present, order]: [&PredicateOrder; 2],
        gain: f64,
        (worse, failures, now): (&PredicateOrder, u32, u64),
    ) {
        // Where nothing is known of the data, nothing was estimated.
        for source in Source::ALL.into_iter().filter(|_| self.counts.rows > 0) {
            let estimate = Estimate { predicates, profile: &self.counts, source, lists_rows };
            let error = (estimate.gain(present, order).max(-1.0) - gain.max(-1.0)).abs();
            let known = &mut self.errors[source as usize];
            *known = (*known + error) / 2.0;
        }
        self.failed.retain(|(order, _)| order != worse);
        self.failed.push((worse.clone(), now + (FORGOTTEN_PROFILES << failures)));
    }

    fn error(&self, source: Source) -> f64 {
        self.errors[source as usize]
    }
}

/// Whether two samples show that rows pass sets of predicates differently.
fn differ(known: &Joint, found: &Joint) -> bool {
    let (Some(&known_all), Some(&found_all)) = (known.rows.first(), found.rows.first()) else { return false };
    if known_all == 0 || found_all == 0 {
        return false;
    }
    let (known_all, found_all) = (known_all as f64, found_all as f64);
    known.rows.iter().zip(&found.rows).any(|(&known, &found)| {
        let share = (known + found) as f64 / (known_all + found_all);
        let deviation = (share * (1.0 - share) * (1.0 / known_all + 1.0 / found_all)).sqrt();
        (known as f64 / known_all - found as f64 / found_all).abs() > DEVIATIONS_MIN * deviation + ROWS_MIN / found_all
    })
}

fn add(counts: &mut Joint, others: &Joint) {
    for (counts, others) in [(&mut counts.rows, &others.rows), (&mut counts.words, &others.words)] {
        counts.resize(others.len().max(counts.len()), 0);
        counts.iter_mut().zip(others).for_each(|(count, other)| *count += other);
    }
}

fn halve(counts: &mut Joint) {
    counts.rows.iter_mut().chain(&mut counts.words).for_each(|count| *count /= 2);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predicates() -> Vec<Predicate> {
        let predicate =
            |text: &str| Predicate { text: text.into(), is_primitive: true, word_ns: 6.0, row_ns: 1.0, row_bytes: 8.0 };
        ["a", "b", "c"].map(predicate).into()
    }

    /// Of 4096 rows as many pass the predicates as these numbers of a hundred say, whatever the others say.
    fn profile(hundredths: [u64; 3]) -> Profile {
        let mut profile = Profile { rows: 4096, ..Profile::default() };
        for set in 0..8 {
            let share: f64 = (0..3)
                .filter(|number| set >> number & 1 == 1)
                .map(|number| hundredths[number] as f64 / 100.0)
                .product();
            profile.primitives.rows.push((4096.0 * share).round() as u64);
            profile.primitives.words.push((64.0 * (1.0 - (1.0 - share).powi(64))).round() as u64);
        }
        profile
    }

    fn after(profiles: u64, hundredths: [u64; 3]) -> Orders {
        let mut orders = Orders::default();
        (0..profiles).for_each(|_| assert!(!orders.takes_in(&profile(hundredths))));
        orders
    }

    #[test]
    fn data_changes_where_more_than_chance_differs() {
        // Of 4096 rows a half is 2048 by chance give or take 32, and two in a hundred are 82 give or take 9.
        for (found, has_changed) in
            [([50, 50, 2], false), ([52, 49, 2], false), ([50, 50, 4], true), ([60, 50, 2], true)]
        {
            let mut orders = after(STEADY_PROFILES, [50, 50, 2]);
            assert_eq!(orders.takes_in(&profile(found)), has_changed, "{found:?}");
            // The profile that shows a change may be of rows before it as well.
            assert_eq!(orders.counts().rows == 0, has_changed, "{found:?}");
            assert!(!orders.takes_in(&profile(found)), "{found:?}");
            let share = orders.counts().primitives.share(0).unwrap_or_default();
            let expected = if has_changed { found[0] as f64 / 100.0 } else { 0.5 };
            assert!((share - expected).abs() < 0.01, "{share} for {found:?}");
        }
        // Data that does not stay as it is flaps, but what is known is of the newest.
        let mut orders = after(STEADY_PROFILES - 1, [50, 50, 2]);
        assert!(!orders.takes_in(&profile([26, 50, 26])));
        assert!(!orders.takes_in(&profile([2, 50, 50])));
        assert!(orders.counts().primitives.share(0).is_some_and(|share| share < 0.03));
    }

    #[test]
    fn which_rows_pass_together_is_data_as_well() {
        let mut orders = after(STEADY_PROFILES, [50, 50, 50]);
        let mut together = profile([50, 50, 50]);
        together.primitives.rows[0b011] = 2000;
        assert!(orders.takes_in(&together));
    }

    #[test]
    fn counts_follow_slowly_and_do_not_grow() {
        let mut orders = after(1_000, [50, 50, 50]);
        assert!(orders.counts().rows < COUNTED_ROWS_MAX);
        (0..200).for_each(|_| assert!(!orders.takes_in(&profile([53, 50, 50]))));
        assert!(orders.counts().primitives.share(0).is_some_and(|share| share > 0.525));
    }

    #[test]
    fn what_has_failed_waits_until_it_is_forgotten_or_the_data_changes() {
        let predicates = predicates();
        let present = PredicateOrder::planned(&predicates);
        let mut orders = after(20, [50, 50, 1]);
        let better = |orders: &mut Orders, now| orders.better((&predicates, true), &present, true, now);
        let found = better(&mut orders, 100).expect("one predicate leaves few rows");
        assert_eq!(found.tested[0], 2);
        orders.measured((&predicates, true), [&present, &found], -0.1, (&found, 1, 100));
        assert_eq!(better(&mut orders, 101), None);
        assert_eq!(better(&mut orders, 100 + 2 * FORGOTTEN_PROFILES), Some(found.clone()));
        orders.measured((&predicates, true), [&present, &found], -0.1, (&found, 1, 100));
        assert!(orders.takes_in(&profile([1, 50, 50])));
        assert_eq!(better(&mut orders, 102), None, "nothing is known of the new data");
        assert!(!orders.takes_in(&profile([1, 50, 50])));
        assert_eq!(better(&mut orders, 102).map(|order| order.tested[0]), Some(0));
    }

    #[test]
    fn the_estimate_that_is_borne_out_is_asked_first() {
        let predicates = predicates();
        let mut orders = after(20, [50, 50, 5]);
        let present = PredicateOrder { tested: vec![2, 0, 1], over_blocks: 3 };
        let better = |orders: &mut Orders, is_measured| orders.better((&predicates, false), &present, is_measured, 20);
        // Lists pay where columns come from the cache.
        let listed = better(&mut orders, true).expect("the cache is asked first");
        assert_eq!(listed.over_blocks, 1);
        let gain = |source| {
            Estimate { predicates: &predicates, profile: orders.counts(), source, lists_rows: false }
                .gain(&present, &listed)
        };
        let [of_cache, of_memory] = Source::ALL.map(gain);
        assert!(of_cache > 0.1 && of_memory < 0.0, "{of_cache} and {of_memory}");
        for _ in 0..2 {
            orders.measured((&predicates, false), [&present, &listed], of_memory, (&listed, 0, 0));
        }
        // It is not asked again, though it has been forgotten what has failed, until its errors are forgotten as well.
        assert_eq!(better(&mut orders, true), None);
        assert_eq!(better(&mut orders, false), None);
        (0..200).for_each(|_| assert!(!orders.takes_in(&profile([50, 50, 5]))));
        assert_eq!(better(&mut orders, true), Some(listed));
    }
}
