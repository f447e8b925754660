//! In which order predicates are tested, and which of them over whole blocks and which over the rows that are left.
//!
//! Over whole blocks 64 rows are tested at a time, and runs of 64 of which none is left are passed over; listed rows are tested one by one.
//! What either takes with the rows that a set of predicates leaves follows from the counts of a [`Profile`], which know how predicates
//! depend on each other. The best order is found by the sets that begin it (Held and Karp's way to the shortest tour).

use pelton_state::profile::{Joint, PREDICATES_MAX, Predicate, PredicateOrder, Profile};

/// What a run of 64 rows takes of which none is left, in nanoseconds, about.
const PASSED_OVER_NS: f64 = 0.4;

/// What listing the rows that are left takes, for each run of 64 rows and each row that is left, in nanoseconds, about.
const LIST_WORD_NS: f64 = 0.6;
const LIST_ROW_NS: f64 = 0.4;

/// Another order must do so much less to be worth a try, and so much less again for each attempt that has failed: the estimate was wrong by more.
const LESS: f64 = 0.95;
const LESS_AFTER_FAILURE: f64 = 0.9;

/// An order that takes clearly less time than `present`, if the profile knows one, after so many `failures` in a row.
pub(super) fn better(
    predicates: &[Predicate],
    profile: &Profile,
    present: &PredicateOrder,
    failures: u32,
) -> Option<PredicateOrder> {
    let order = best(predicates, profile);
    let less = LESS * LESS_AFTER_FAILURE.powf(failures.into());
    (cost_ns(predicates, profile, &order) < less * cost_ns(predicates, profile, present)).then_some(order)
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

fn best(predicates: &[Predicate], profile: &Profile) -> PredicateOrder {
    let (primitives, loops) = predicates.split_at(primitives(predicates));
    let (mut tested, over_blocks) = best_primitives(primitives, &profile.primitives);
    tested.extend(best_loops(loops, &profile.loops).into_iter().map(|number| primitives.len() + number));
    PredicateOrder { tested, over_blocks }
}

/// How many predicates the counts are of.
fn counted(predicates: &[Predicate], joint: &Joint) -> usize {
    let counted = predicates.len().min(PREDICATES_MAX);
    if joint.rows.len() == 1 << counted { counted } else { 0 }
}

fn best_primitives(predicates: &[Predicate], joint: &Joint) -> (Vec<usize>, usize) {
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
                let listing = if is_listed && !was_listed { listing_ns(joint, set) } else { 0.0 };
                let own = primitive_ns(&predicates[number], joint, set, is_listed);
                let cost_ns = ways[set][usize::from(was_listed)].cost_ns + listing + own;
                let way = &mut ways[set | 1 << number][usize::from(is_listed)];
                if cost_ns < way.cost_ns {
                    *way = Beginning { cost_ns, last: number, was_listed };
                }
            }
        }
    }
    let mut is_listed = counted > 0 && ways[all][1].cost_ns < ways[all][0].cost_ns + listing_ns(joint, all);
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

/// What an order takes for all rows of the profile, as far as they were counted.
fn cost_ns(predicates: &[Predicate], profile: &Profile, order: &PredicateOrder) -> f64 {
    let (primitives, loops) = predicates.split_at(primitives(predicates));
    let (own, other) = order.tested.split_at(primitives.len());
    let (joint, counted_here) = (&profile.primitives, counted(primitives, &profile.primitives));
    let (mut cost_ns, mut set) = (0.0, 0);
    for (place, &number) in own.iter().enumerate().filter(|(_, number)| **number < counted_here) {
        let is_listed = place >= order.over_blocks;
        if place == order.over_blocks {
            cost_ns += listing_ns(joint, set);
        }
        cost_ns += primitive_ns(&primitives[number], joint, set, is_listed);
        set |= 1 << number;
    }
    if order.over_blocks == primitives.len() && counted_here > 0 {
        cost_ns += listing_ns(joint, set);
    }
    let (joint, counted_here) = (&profile.loops, counted(loops, &profile.loops));
    set = 0;
    for number in other.iter().map(|number| number - primitives.len()).filter(|&number| number < counted_here) {
        cost_ns += joint.rows[set] as f64 * loops[number].row_ns;
        set |= 1 << number;
    }
    cost_ns
}

fn listing_ns(joint: &Joint, set: usize) -> f64 {
    joint.words[0] as f64 * LIST_WORD_NS + joint.rows[set] as f64 * LIST_ROW_NS
}

fn primitive_ns(predicate: &Predicate, joint: &Joint, set: usize, is_listed: bool) -> f64 {
    if is_listed {
        return joint.rows[set] as f64 * predicate.row_ns;
    }
    let (left, all) = (joint.words[set] as f64, joint.words[0] as f64);
    left * predicate.word_ns + (all - left) * PASSED_OVER_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predicate(text: &str, is_primitive: bool, row_ns: f64) -> Predicate {
        Predicate { text: text.into(), is_primitive, word_ns: 6.4, row_ns }
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

    #[test]
    fn what_leaves_few_rows_goes_first_and_the_rest_looks_at_these() {
        let predicates = [predicate("a", true, 1.0), predicate("b", true, 1.0), predicate("c", true, 1.0)];
        let profile = profile(&[2, 3, 500], &[]);
        let present = PredicateOrder::planned(&predicates);
        let order = better(&predicates, &profile, &present, 0).unwrap();
        assert_eq!((order.tested[0], order.over_blocks), (2, 1));
        assert!(order.is_of(&predicates));
        let text = words(&predicates, &profile, &order);
        assert!(text.starts_with("over blocks c (passes 0.2 %), then over the rows left "), "{text}");
        assert_eq!(better(&predicates, &profile, &order, 0), None);
        // What has failed must promise more.
        assert_eq!(better(&predicates, &profile, &present, 30), None);
    }

    #[test]
    fn what_passes_nearly_all_rows_stays_over_blocks() {
        let predicates = [predicate("a", true, 1.0), predicate("b", true, 1.0)];
        let profile = profile(&[1, 1], &[]);
        assert_eq!(better(&predicates, &profile, &PredicateOrder::planned(&predicates), 0), None);
    }

    #[test]
    fn loops_go_by_what_they_cost_and_leave() {
        let predicates = [predicate("a", true, 1.0), predicate("dear", false, 30.0), predicate("cheap", false, 2.0)];
        let profile = profile(&[1], &[3, 2]);
        let order = better(&predicates, &profile, &PredicateOrder::planned(&predicates), 0).unwrap();
        assert_eq!(order, PredicateOrder { tested: vec![0, 2, 1], over_blocks: 1 });
    }

    #[test]
    fn the_estimate_is_of_the_order_found() {
        // Of all orders none is estimated to take less than the one that is called best.
        let predicates: Vec<_> =
            (0..4).map(|number| predicate(&number.to_string(), true, 1.0 + number as f64)).collect();
        let profile = profile(&[7, 5, 90, 2], &[]);
        let least = cost_ns(&predicates, &profile, &best(&predicates, &profile));
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
        for tested in orders {
            for over_blocks in 1..=4 {
                let order = PredicateOrder { tested: tested.clone(), over_blocks };
                assert!(least <= cost_ns(&predicates, &profile, &order) + 1e-9, "{order:?}");
            }
        }
    }

    #[test]
    fn predicates_that_were_not_counted_stay_behind() {
        let predicates: Vec<_> = (0..10).map(|number| predicate(&number.to_string(), true, 1.0)).collect();
        let order = best(&predicates, &profile(&[2, 3, 2, 3, 2, 3, 500, 2], &[]));
        assert_eq!(order.tested[0], 6);
        assert_eq!(order.tested[8..], [8, 9]);
        assert!(order.is_of(&predicates));
        // Nothing is known: nothing changes.
        assert_eq!(best(&predicates, &Profile::default()), PredicateOrder::planned(&predicates));
        assert!(words(&predicates, &Profile::default(), &order).contains("not counted"));
    }
}
