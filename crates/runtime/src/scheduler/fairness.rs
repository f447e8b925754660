//! Who is served in turn: the runs of a pool, and in a run its regions. A worker stays with one for an epoch, by itself where there are enough of them,
//! and goes on to the one that has been served least.

use crate::scheduler::policy::Rank;
use crate::scheduler::statistics::GraphStatistics;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How long workers have served something, and how many do.
#[derive(Debug, Default)]
pub(crate) struct Service {
    /// Time that workers have spent on it, and more where others were served while it had nothing to do.
    served_ns: AtomicU64,
    /// How many do so now: when they are done they look for what is to be done next themselves.
    serving: AtomicUsize,
}

/// Where a task stands: the least goes first. See [`Service::order`].
pub(crate) type Order = (Rank, u64, bool, u64);

impl Service {
    /// How long it has been served.
    pub fn ns(&self) -> u64 {
        self.served_ns.load(Ordering::Relaxed)
    }

    /// Whether any worker is on it.
    pub fn is_under_way(&self) -> bool {
        self.serving.load(Ordering::Relaxed) > 0
    }

    /// Says that a worker is on it no more, and has spent so much time on it.
    pub fn end(&self, more_ns: u64) {
        self.serving.fetch_sub(1, Ordering::Relaxed);
        self.served_ns.fetch_add(more_ns, Ordering::Relaxed);
    }

    /// Where a task of it stands that has this rank: of those of one rank, those of what has been served for fewest epochs go first, of these those of what a
    /// worker was on last.
    fn order(&self, rank: Rank, is_last: bool, epoch_ns: u64) -> Order {
        let served_ns = self.ns();
        (rank, served_ns / epoch_ns, !is_last, served_ns)
    }
}

/// What has been served for so many epochs less than others, and has something to do, goes before all, where the policy is fair: of what it has queued a dear
/// query may take a second, and meanwhile others would do nothing but what has waited for too long, task by task.
const LAG_EPOCHS_MAX: u64 = 4;

/// How long those that were chosen so far had been served, in whole epochs: as far as the turn has come.
#[derive(Debug, Default)]
pub(crate) struct FairShare(AtomicU64);

impl FairShare {
    /// Says that something is to be served that had nothing to do for a while, or is new: for an epoch it goes before all, where the policy is fair.
    pub fn enter(&self, service: &Service, epoch_ns: u64) {
        let least_ns = self.0.load(Ordering::Relaxed).saturating_sub((LAG_EPOCHS_MAX + 1) * epoch_ns);
        service.served_ns.fetch_max(least_ns, Ordering::Relaxed);
    }

    /// Where a task of this rank stands, by the service of what it belongs to, and by whether that is what a worker was on last.
    pub fn order(&self, service: &Service, rank: Rank, is_last: bool, epoch_ns: u64, is_fair: bool) -> Order {
        let lags = is_fair && service.ns() + LAG_EPOCHS_MAX * epoch_ns < self.0.load(Ordering::Relaxed);
        service.order(if lags { Rank::LAGGING } else { rank }, is_last, epoch_ns)
    }

    /// Says that a worker is on something until [`Service::end`]. What had nothing to do for a while does not make up for it at the others' cost.
    pub fn begin(&self, service: &Service, epoch_ns: u64) {
        service.serving.fetch_add(1, Ordering::Relaxed);
        self.0.fetch_max(service.ns() / epoch_ns * epoch_ns, Ordering::Relaxed);
        self.enter(service, epoch_ns);
    }
}

/// Sources and what is downstream of them up to the outputs, apart from all whose rows never meet theirs before an output: nothing there waits for the
/// others' time.
#[derive(Debug, Default)]
pub(crate) struct Region {
    pub sources: Vec<usize>,
    /// For each operator of the run whether it is here, or an output that takes rows from here.
    pub has_operator: Vec<bool>,
    pub service: Service,
}

/// The regions of a run.
#[derive(Debug)]
pub(crate) struct Regions {
    pub all: Vec<Region>,
    /// For each operator where it is; an output is nowhere, and nothing is where there is one region only.
    of_operators: Vec<Option<usize>>,
    turns: FairShare,
}

impl Regions {
    /// Of operators the first of which are so many sources.
    pub fn of(operators: &GraphStatistics, sources: usize) -> Regions {
        let downstream = |operator: usize| operators.all[operator].downstream();
        let is_output = |operator: &usize| downstream(*operator).is_empty();
        // The least operator of each one's region, as far as it is known.
        let mut least: Vec<usize> = (0..operators.all.len()).collect();
        let mut has_changed = true;
        while std::mem::take(&mut has_changed) {
            for operator in 0..least.len() {
                for &fed in downstream(operator).iter().filter(|fed| !is_output(fed)) {
                    let both = least[operator].min(least[fed]);
                    has_changed |= least[operator] != least[fed];
                    (least[operator], least[fed]) = (both, both);
                }
            }
        }
        let mut all: Vec<Region> = Vec::new();
        let mut numbers = vec![None; least.len()];
        for source in 0..sources {
            let region = *numbers[least[source]].get_or_insert_with(|| {
                all.push(Region::default());
                all.len() - 1
            });
            all[region].sources.push(source);
        }
        all.iter_mut().for_each(|region| region.has_operator = vec![false; least.len()]);
        for operator in (0..least.len()).filter(|operator| !is_output(operator)) {
            if let Some(region) = numbers[least[operator]] {
                let here = std::iter::once(operator).chain(downstream(operator).iter().copied());
                here.for_each(|here| all[region].has_operator[here] = true);
            }
        }
        let is_in_one = |operator: &usize| all.len() > 1 && !is_output(operator);
        let of_operators = (0..least.len()).map(|operator| numbers[least[operator]].filter(|_| is_in_one(&operator)));
        let of_operators = of_operators.collect();
        Regions { of_operators, all, turns: FairShare::default() }
    }

    /// Whether there are more than one.
    pub fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// Where an operator is, if it is anywhere.
    pub fn region(&self, operator: usize) -> Option<usize> {
        self.of_operators[operator]
    }

    /// Where a task of this rank stands in a region. See [`FairShare::order`].
    pub fn order(&self, region: usize, rank: Rank, is_last: bool, epoch_ns: u64, is_fair: bool) -> Order {
        self.turns.order(&self.all[region].service, rank, is_last, epoch_ns, is_fair)
    }

    /// Says that a worker is on an operator.
    pub fn begin(&self, operator: usize, epoch_ns: u64) {
        if let Some(region) = self.region(operator) {
            self.turns.begin(&self.all[region].service, epoch_ns);
        }
    }

    /// Says that it is no more, and has spent so much time on it.
    pub fn end(&self, operator: usize, more_ns: u64) {
        if let Some(region) = self.region(operator) {
            self.all[region].service.end(more_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::policy::EPOCH_NS;
    use crate::scheduler::statistics::NodeStatistics;

    fn serve(turns: &FairShare, service: &Service, time_ns: u64) {
        turns.begin(service, EPOCH_NS);
        service.end(time_ns);
    }

    #[test]
    fn a_worker_stays_with_what_it_was_on_for_an_epoch() {
        let (turns, [first, second]) = (FairShare::default(), [(); 2].map(|()| Service::default()));
        let rank = Rank::from_bits(5);
        serve(&turns, &first, 10);
        assert!(second.order(rank, false, EPOCH_NS) < first.order(rank, false, EPOCH_NS), "it has been served least");
        assert!(first.order(rank, true, EPOCH_NS) < second.order(rank, false, EPOCH_NS), "the worker was on it last");
        assert!(
            second.order(Rank::from_bits(4), false, EPOCH_NS) < first.order(rank, true, EPOCH_NS),
            "the policy is asked first"
        );
        serve(&turns, &first, EPOCH_NS);
        assert!(second.order(rank, false, EPOCH_NS) < first.order(rank, true, EPOCH_NS), "for long enough");
    }

    #[test]
    fn what_lags_behind_goes_first_for_an_epoch() {
        let (turns, [dear, light]) = (FairShare::default(), [(); 2].map(|()| Service::default()));
        let goes_first = |rank_of_light: u64, is_fair: bool| {
            let order = |service, rank| turns.order(service, Rank::from_bits(rank), false, EPOCH_NS, is_fair);
            order(&light, rank_of_light) < order(&dear, 5)
        };
        serve(&turns, &dear, LAG_EPOCHS_MAX * EPOCH_NS);
        serve(&turns, &dear, EPOCH_NS);
        assert!(!goes_first(6, true), "it lags no more than it may");
        serve(&turns, &dear, 10);
        assert!(goes_first(6, true) && !goes_first(6, false));
        // What had nothing to do does not make up for all of it.
        serve(&turns, &dear, 100 * EPOCH_NS);
        serve(&turns, &dear, 0);
        serve(&turns, &light, EPOCH_NS - 1);
        assert!(goes_first(6, true));
        serve(&turns, &light, 1);
        assert!(!goes_first(6, true) && goes_first(4, true), "it has caught up");
    }

    #[test]
    fn rows_that_meet_before_an_output_are_in_one_region() {
        // Three sources, of which the first and the last feed one window, and all an output.
        let [window, output] = [6, 7];
        let downstream =
            [vec![3], vec![4], vec![5], vec![window], vec![output], vec![window], vec![output], Vec::new()];
        let regions = |downstream: &[Vec<usize>]| {
            let operators = downstream.iter().cloned().map(NodeStatistics::new).collect();
            Regions::of(&GraphStatistics::new(operators), 3)
        };
        let apart = regions(&downstream);
        let sources: Vec<&[usize]> = apart.all.iter().map(|region| region.sources.as_slice()).collect();
        assert_eq!(sources, [&[0, 2][..], &[1]]);
        let of_operators = [0, 1, 0, 0, 1, 0, 0].map(Some).into_iter().chain([None]);
        assert_eq!((0..8).map(|operator| apart.region(operator)).collect::<Vec<_>>(), of_operators.collect::<Vec<_>>());
        let mut downstream = downstream;
        downstream[4] = vec![window, output];
        let together = regions(&downstream);
        assert!(!together.are_several() && (0..8).all(|operator| together.region(operator).is_none()));
    }
}
