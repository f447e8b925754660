//! In which order predicates are tested, and which of them over whole blocks and which over the rows that are left.
//!
//! Over whole blocks 64 rows are tested at a time, and runs of 64 of which none is left are passed over; listed rows are tested one by one.
//! What either takes with the rows that a set of predicates leaves follows from the counts of a [`Profile`], which know how predicates
//! depend on each other. The best order is found by the sets that begin it (Held and Karp's way to the shortest tour).

use pelton_state::profile::{Joint, PREDICATES_MAX, Predicate, PredicateOrder, Profile};

/// Where columns come from, which decides what reading them takes. Nothing tells but what code turns out to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Cache,
    Memory,
}

impl Source {
    pub const ALL: [Source; 2] = [Source::Cache, Source::Memory];
}

/// What a run of 64 rows takes of which none is left, in nanoseconds, about.
const PASSED_OVER_NS: f64 = 0.4;

/// What listing the rows that are left takes, for each run of 64 rows and each row that is left, in nanoseconds, about.
const LIST_WORD_NS: f64 = 0.6;
const LIST_ROW_NS: f64 = 0.4;

/// How long a line of memory is waited for where all are read one after the other, in nanoseconds, about: most are read ahead.
const LINE_NS: f64 = 4.0;

/// The same of the lines of runs between which others are passed over, and of those of listed rows. It is never more than all lines would take, which are
/// read ahead then, where rows are listed for too few of them and too late.
const LINE_OF_RUN_NS: f64 = 18.0;
const LINE_OF_LISTED_NS: f64 = 32.0;
const LISTED_PER_LINE: f64 = 1.5;

/// The share of computing, or of waiting where that is less, that is not done at the same time.
const NOT_AT_ONCE: f64 = 0.1;

/// Bytes of a line, which are as many as the rows of a run: a run has as many lines as a row has bytes.
const LINE_BYTES: f64 = 64.0;

/// Another order must do so much less to be worth a try.
const LESS: f64 = 0.95;

/// Of orders of some predicates what they take for the rows of a profile, where columns come from a source.
pub(super) struct Estimate<'a> {
    pub predicates: &'a [Predicate],
    pub profile: &'a Profile,
    pub source: Source,
    /// Whether rows that are left are listed in any case.
    pub lists_rows: bool,
}

impl Estimate<'_> {
    /// The order that takes least time, if that is clearly less than `present` takes and each of those that were `tried` and found no better.
    pub fn better<'o>(
        &self,
        present: &PredicateOrder,
        tried: impl Iterator<Item = &'o PredicateOrder>,
    ) -> Option<PredicateOrder> {
        let order = self.best();
        let least = tried.map(|order| self.cost_ns(order)).fold(self.cost_ns(present), f64::min);
        (self.cost_ns(&order) < LESS * least).then_some(order)
    }

    /// By which share an order takes less time than `present`.
    pub fn gain(&self, present: &PredicateOrder, order: &PredicateOrder) -> f64 {
        let before_ns = self.cost_ns(present);
        if before_ns > 0.0 { 1.0 - self.cost_ns(order) / before_ns } else { 0.0 }
    }
}

/// What an order assumes, in words: the predicates as they are tested, with the share of rows that pass each of them.
pub(super) fn words(predicates: &[Predicate], profile: &Profile, order: &PredicateOrder) -> String {
    let primitives = primitives(predicates);
    let word = |&number: &usize| {
        let share = match number.checked_sub(primitives) {
            None => profile.primitives.share(number),
            Some(loop_number) => profile.loops.share(loop_number),
        };
        let passes = share.map_or_else(|| "not counted".to_owned(), |share| format!("passes {}", percent(share)));
        format!("{} ({passes})", predicates[number].text)
    };
    let (over_blocks, left) = order.tested.split_at(order.over_blocks);
    let list = |numbers: &[usize]| numbers.iter().map(word).collect::<Vec<_>>().join(", then ");
    match (over_blocks, left) {
        (over_blocks, []) => format!("over blocks {}", list(over_blocks)),
        ([], left) => list(left),
        (over_blocks, left) => format!("over blocks {}, then over the rows left {}", list(over_blocks), list(left)),
    }
}

fn percent(share: f64) -> String {
    if share < 0.1 { format!("{:.1} %", share * 100.0) } else { format!("{:.0} %", share * 100.0) }
}

fn primitives(predicates: &[Predicate]) -> usize {
    predicates.iter().filter(|predicate| predicate.is_primitive).count()
}

/// One way to begin an order.
#[derive(Clone, Copy)]
struct Beginning {
    cost_ns: f64,
    /// The predicate tested last, and whether rows were listed before it.
    last: usize,
    was_listed: bool,
}

const UNKNOWN: Beginning = Beginning { cost_ns: f64::INFINITY, last: usize::MAX, was_listed: false };

impl Estimate<'_> {
    fn best(&self) -> PredicateOrder {
        let Estimate { predicates, profile, .. } = self;
        let (primitives, loops) = predicates.split_at(primitives(predicates));
        let (mut tested, over_blocks) = self.best_primitives(primitives);
        tested.extend(best_loops(loops, &profile.loops).into_iter().map(|number| primitives.len() + number));
        PredicateOrder { tested, over_blocks }
    }

    fn best_primitives(&self, predicates: &[Predicate]) -> (Vec<usize>, usize) {
        let joint = &self.profile.primitives;
        let counted = counted(predicates, joint);
        let all = (1 << counted) - 1;
        // By the set tested so far, over blocks and listed.
        let mut ways = vec![[UNKNOWN; 2]; all + 1];
        ways[0][0].cost_ns = 0.0;
        for set in 0..all {
            for number in (0..counted).filter(|number| set >> number & 1 == 0) {
                for (was_listed, is_listed) in [(false, false), (false, true), (true, true)] {
                    if is_listed && set == 0 {
                        continue;
                    }
                    let listing = if is_listed && !was_listed { self.listing_ns(set) } else { 0.0 };
                    let own = self.primitive_ns(&predicates[number], set, is_listed);
                    let cost_ns = ways[set][usize::from(was_listed)].cost_ns + listing + own;
                    let way = &mut ways[set | 1 << number][usize::from(is_listed)];
                    if cost_ns < way.cost_ns {
                        *way = Beginning { cost_ns, last: number, was_listed };
                    }
                }
            }
        }
        let mut is_listed = counted > 0 && ways[all][1].cost_ns < ways[all][0].cost_ns + self.last_listing_ns(all);
        let (mut tested, mut over_blocks, mut set) = (Vec::new(), predicates.len(), all);
        while set != 0 {
            let Beginning { last, was_listed, .. } = ways[set][usize::from(is_listed)];
            tested.push(last);
            set ^= 1 << last;
            if is_listed && !was_listed {
                over_blocks = set.count_ones() as usize;
            }
            is_listed &= was_listed;
        }
        tested.reverse();
        tested.extend(counted..predicates.len());
        (tested, over_blocks)
    }

    /// What an order takes for all rows of the profile, as far as they were counted.
    fn cost_ns(&self, order: &PredicateOrder) -> f64 {
        let Estimate { predicates, profile, .. } = self;
        let (primitives, loops) = predicates.split_at(primitives(predicates));
        let (own, other) = order.tested.split_at(primitives.len());
        let counted_here = counted(primitives, &profile.primitives);
        let (mut cost_ns, mut set) = (0.0, 0);
        for (place, &number) in own.iter().enumerate().filter(|(_, number)| **number < counted_here) {
            let is_listed = place >= order.over_blocks;
            if place == order.over_blocks {
                cost_ns += self.listing_ns(set);
            }
            cost_ns += self.primitive_ns(&primitives[number], set, is_listed);
            set |= 1 << number;
        }
        if order.over_blocks == primitives.len() && counted_here > 0 {
            cost_ns += self.last_listing_ns(set);
        }
        let (joint, counted_here) = (&profile.loops, counted(loops, &profile.loops));
        set = 0;
        for number in other.iter().map(|number| number - primitives.len()).filter(|&number| number < counted_here) {
            cost_ns += joint.rows[set] as f64 * loops[number].row_ns;
            set |= 1 << number;
        }
        cost_ns
    }

    /// What listing the rows takes that a set of predicates leaves.
    fn listing_ns(&self, set: usize) -> f64 {
        let joint = &self.profile.primitives;
        joint.words[0] as f64 * LIST_WORD_NS + joint.rows[set] as f64 * LIST_ROW_NS
    }

    /// The same where all predicates were tested over blocks.
    fn last_listing_ns(&self, set: usize) -> f64 {
        if self.lists_rows { self.listing_ns(set) } else { 0.0 }
    }

    /// What a predicate takes for the rows that a set of others leaves.
    fn primitive_ns(&self, predicate: &Predicate, set: usize, is_listed: bool) -> f64 {
        let joint = &self.profile.primitives;
        let (rows, left, all) = (joint.rows[set] as f64, joint.words[set] as f64, joint.words[0] as f64);
        let all_lines_ns = all * predicate.row_bytes * LINE_NS;
        let (computing_ns, reading_ns) = if is_listed {
            let lines_ns = lines_of_rows(predicate, rows, left) * LINE_OF_LISTED_NS;
            (rows * predicate.row_ns, lines_ns.min(LISTED_PER_LINE * all_lines_ns))
        } else {
            let lines_ns = left * predicate.row_bytes * LINE_OF_RUN_NS;
            (left * predicate.word_ns + (all - left) * PASSED_OVER_NS, lines_ns.min(all_lines_ns))
        };
        match self.source {
            Source::Cache => computing_ns,
            // What is there is computed while the next lines come, for the most part.
            Source::Memory => computing_ns.max(reading_ns) + NOT_AT_ONCE * computing_ns.min(reading_ns),
        }
    }
}

/// How many predicates the counts are of.
fn counted(predicates: &[Predicate], joint: &Joint) -> usize {
    let counted = predicates.len().min(PREDICATES_MAX);
    if joint.rows.len() == 1 << counted { counted } else { 0 }
}

fn best_loops(predicates: &[Predicate], joint: &Joint) -> Vec<usize> {
    let counted = counted(predicates, joint);
    let all = (1 << counted) - 1;
    let mut ways = vec![UNKNOWN; all + 1];
    ways[0].cost_ns = 0.0;
    for set in 0..all {
        for number in (0..counted).filter(|number| set >> number & 1 == 0) {
            let cost_ns = ways[set].cost_ns + joint.rows[set] as f64 * predicates[number].row_ns;
            let way = &mut ways[set | 1 << number];
            if cost_ns < way.cost_ns {
                *way = Beginning { cost_ns, last: number, was_listed: true };
            }
        }
    }
    let (mut tested, mut set) = (Vec::new(), all);
    while set != 0 {
        tested.push(ways[set].last);
        set ^= 1 << ways[set].last;
    }
    tested.reverse();
    tested.extend(counted..predicates.len());
    tested
}

/// How many lines the values of rows lie in that some runs have, as if they were spread evenly over these.
fn lines_of_rows(predicate: &Predicate, rows: f64, runs: f64) -> f64 {
    if runs == 0.0 {
        return 0.0;
    }
    let is_not_read = (1.0 - rows / (LINE_BYTES * runs)).powf(LINE_BYTES / predicate.row_bytes);
    runs * predicate.row_bytes * (1.0 - is_not_read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predicate(text: &str, is_primitive: bool, row_ns: f64) -> Predicate {
        Predicate { text: text.into(), is_primitive, word_ns: 6.4, row_ns, row_bytes: 8.0 }
    }

    /// A profile of 64 × 64 rows in which predicate `i` passes every `periods[i]`-th row, shifted by `i`.
    fn profile(primitive_periods: &[usize], loop_periods: &[usize]) -> Profile {
        let words = 64;
        let mask = |(shift, period): (usize, &usize)| {
            let bit = |word: usize, bit: usize| u64::from((64 * word + bit + shift).is_multiple_of(*period)) << bit;
            (0..words).map(|word| (0..64).fold(0, |bits, at| bits | bit(word, at))).collect::<Vec<u64>>()
        };
        let mut profile = Profile { rows: 64 * 64, ..Profile::default() };
        let masks = |periods: &[usize]| periods.iter().enumerate().map(mask).collect::<Vec<_>>();
        profile.primitives.add(&vec![u64::MAX; words], &masks(primitive_periods));
        profile.loops.add(&vec![u64::MAX; words], &masks(loop_periods));
        profile
    }

    fn estimate<'a>(predicates: &'a [Predicate], profile: &'a Profile, source: Source) -> Estimate<'a> {
        Estimate { predicates, profile, source, lists_rows: true }
    }

    /// The better order than the planned one, where columns come from the cache.
    fn better_than_planned(predicates: &[Predicate], profile: &Profile) -> Option<PredicateOrder> {
        estimate(predicates, profile, Source::Cache).better(&PredicateOrder::planned(predicates), std::iter::empty())
    }

    #[test]
    fn what_leaves_few_rows_goes_first_and_the_rest_looks_at_these() {
        let predicates = [predicate("a", true, 1.0), predicate("b", true, 1.0), predicate("c", true, 1.0)];
        let profile = profile(&[2, 3, 500], &[]);
        let present = PredicateOrder::planned(&predicates);
        let order = better_than_planned(&predicates, &profile).unwrap();
        assert_eq!((order.tested[0], order.over_blocks), (2, 1));
        assert!(order.is_of(&predicates));
        let text = words(&predicates, &profile, &order);
        assert!(text.starts_with("over blocks c (passes 0.2 %), then over the rows left "), "{text}");
        let estimate = estimate(&predicates, &profile, Source::Cache);
        assert_eq!(estimate.better(&order, std::iter::empty()), None);
        assert!(estimate.gain(&present, &order) > 0.5);
        // What was tried is not suggested again, nor what should take hardly less time.
        let others = PredicateOrder { tested: vec![2, 1, 0], over_blocks: 1 };
        for tried in [&order, &others] {
            assert_eq!(estimate.better(&present, std::iter::once(tried)), None);
        }
        assert_eq!(estimate.better(&present, std::iter::once(&present)), Some(order));
    }

    /// Rows as they pass where each does with this probability, whatever the others do.
    fn independent(shares: &[f64]) -> Profile {
        let mut profile = Profile { rows: 64 << 20, ..Profile::default() };
        for set in 0..1_usize << shares.len() {
            let is_in = |(number, share): (usize, &f64)| if set >> number & 1 == 1 { *share } else { 1.0 };
            let share: f64 = shares.iter().enumerate().map(is_in).product();
            let runs = f64::from(1 << 20);
            profile.primitives.rows.push((64.0 * runs * share).round() as u64);
            profile.primitives.words.push((runs * (1.0 - (1.0 - share).powi(64))).round() as u64);
        }
        profile
    }

    #[test]
    fn lists_pay_later_where_lines_come_from_memory() {
        // Of 64 rows three are left: they lie in two or three of eight lines, which take as long as all eight do one after the other.
        let predicates: Vec<_> = (0..5).map(|number| predicate(&number.to_string(), true, 1.0)).collect();
        let over_blocks = |shares: &[f64], source| {
            let profile = independent(shares);
            let order = estimate(&predicates, &profile, source).best();
            (order.tested[0], order.over_blocks)
        };
        let shares = [0.5, 0.5, 0.5, 0.5, 0.05];
        assert_eq!(over_blocks(&shares, Source::Cache), (4, 1));
        let (first, before_list) = over_blocks(&shares, Source::Memory);
        assert!(first == 4 && before_list > 1, "{before_list}");
        // One row in a hundred and fifty: most lines are not read.
        assert_eq!(over_blocks(&[0.5, 0.5, 0.5, 0.5, 0.006], Source::Memory), (4, 1));
    }

    #[test]
    fn what_need_not_be_listed_is_listed_where_that_pays_only() {
        let predicates = [predicate("a", true, 1.0), predicate("b", true, 1.0)];
        let profile = independent(&[0.07, 0.5]);
        let best = |lists_rows| {
            Estimate { predicates: &predicates, profile: &profile, source: Source::Cache, lists_rows }.best()
        };
        // Four or five rows of a run are tested faster than all of it, but listing them takes three nanoseconds that are taken in any case, or not.
        assert_eq!((best(true).over_blocks, best(false).over_blocks), (1, 2));
    }

    #[test]
    fn rows_lie_in_as_many_lines_as_they_are_spread_over() {
        let of_bytes = |row_bytes| Predicate { row_bytes, ..predicate("a", true, 1.0) };
        // All rows of ten runs, one row of each, and no run.
        assert_eq!(lines_of_rows(&of_bytes(8.0), 640.0, 10.0), 80.0);
        let lines = lines_of_rows(&of_bytes(8.0), 10.0, 10.0);
        assert!((9.0..10.0).contains(&lines), "{lines}");
        let lines = lines_of_rows(&of_bytes(0.125), 10.0, 10.0);
        assert!((1.2..1.25).contains(&lines), "{lines}");
        assert_eq!(lines_of_rows(&of_bytes(8.0), 0.0, 0.0), 0.0);
    }

    #[test]
    fn what_passes_nearly_all_rows_stays_over_blocks() {
        let predicates = [predicate("a", true, 1.0), predicate("b", true, 1.0)];
        let profile = profile(&[1, 1], &[]);
        assert_eq!(better_than_planned(&predicates, &profile), None);
    }

    #[test]
    fn loops_go_by_what_they_cost_and_leave() {
        let predicates = [predicate("a", true, 1.0), predicate("dear", false, 30.0), predicate("cheap", false, 2.0)];
        let profile = profile(&[1], &[3, 2]);
        let order = better_than_planned(&predicates, &profile).unwrap();
        assert_eq!(order, PredicateOrder { tested: vec![0, 2, 1], over_blocks: 1 });
    }

    #[test]
    fn the_estimate_is_of_the_order_found() {
        // Of all orders none is estimated to take less than the one that is called best.
        let predicates: Vec<_> =
            (0..4).map(|number| predicate(&number.to_string(), true, 1.0 + number as f64)).collect();
        let profile = profile(&[7, 5, 90, 2], &[]);
        let mut orders = vec![vec![]];
        for _ in 0..4 {
            orders = orders
                .into_iter()
                .flat_map(|order: Vec<usize>| {
                    (0..4)
                        .filter(|number| !order.contains(number))
                        .map(|number| [order.clone(), vec![number]].concat())
                        .collect::<Vec<_>>()
                })
                .collect();
        }
        assert_eq!(orders.len(), 24);
        for (source, lists_rows) in Source::ALL.into_iter().flat_map(|source| [(source, true), (source, false)]) {
            let estimate = Estimate { predicates: &predicates, profile: &profile, source, lists_rows };
            let least = estimate.cost_ns(&estimate.best());
            for (tested, over_blocks) in orders.iter().flat_map(|tested| (1..=4).map(move |over| (tested, over))) {
                let order = PredicateOrder { tested: tested.clone(), over_blocks };
                assert!(least <= estimate.cost_ns(&order) + 1e-9, "{source:?}: {order:?}");
            }
        }
    }

    #[test]
    fn predicates_that_were_not_counted_stay_behind() {
        let predicates: Vec<_> = (0..10).map(|number| predicate(&number.to_string(), true, 1.0)).collect();
        let counts = profile(&[2, 3, 2, 3, 2, 3, 500, 2], &[]);
        let order = estimate(&predicates, &counts, Source::Cache).best();
        assert_eq!(order.tested[0], 6);
        assert_eq!(order.tested[8..], [8, 9]);
        assert!(order.is_of(&predicates));
        // Nothing is known: nothing changes.
        let nothing = Profile::default();
        assert_eq!(estimate(&predicates, &nothing, Source::Memory).best(), PredicateOrder::planned(&predicates));
        assert!(words(&predicates, &Profile::default(), &order).contains("not counted"));
    }
}
