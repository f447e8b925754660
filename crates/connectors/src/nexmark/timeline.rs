//! Which event has which number, time, kind and identity.
//!
//! Events come in epochs: first the epoch's people, then its auctions, then its bids. An event's identity `e` fixes its
//! kind, its time and all its values; disorder changes only the order in which identities come.

use std::ops::Range;

use crate::ConnectorError;
use crate::generated::{BASE_TIME_DEFAULT_MS, EventTimes, positive_or_default};
use crate::options::Options;
use crate::random::Divisor;

/// What an event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Somebody registers.
    Person = 0,
    /// Somebody offers something.
    Auction = 1,
    /// Somebody bids for it.
    Bid = 2,
}

/// Steps of this many identities, modulo the group, make the disorder.
const DISORDER_STEP: u64 = 953;

/// Finding a row walks through one group: 100,000 steps cost less than generating a block.
const DISORDER_MAX: u64 = 100_000;

/// The order, times and kinds of events.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeline {
    /// Event time.
    pub(super) times: EventTimes,
    /// Events of each kind in an epoch, in the order of [`Kind`].
    shares: [u64; 3],
    epoch: Divisor,
    /// Events in a group that is shuffled; 1 for order.
    disorder: Divisor,
}

impl Timeline {
    pub(super) fn of(options: &Options) -> Result<Timeline, ConnectorError> {
        let shares = [
            positive_or_default(options, "person.proportion")?,
            positive_or_default(options, "auction.proportion")?,
            positive_or_default(options, "bid.proportion")?,
        ];
        if shares.iter().any(|&share| share > 1 << 20) {
            return Err(ConnectorError::option("bid.proportion", "and the other proportions must be at most 1048576"));
        }
        let disorder = positive_or_default(options, "disorder")?;
        if disorder > DISORDER_MAX || disorder.is_multiple_of(DISORDER_STEP) {
            let problem = format!("must be at most {DISORDER_MAX} and no multiple of {DISORDER_STEP}");
            return Err(ConnectorError::option("disorder", problem));
        }
        Ok(Timeline {
            times: EventTimes::of(options, BASE_TIME_DEFAULT_MS)?,
            shares,
            epoch: Divisor::new(shares.iter().sum()),
            disorder: Divisor::new(disorder),
        })
    }

    /// Events of all kinds in an epoch.
    pub(super) fn epoch_events(&self) -> u64 {
        self.epoch.get()
    }

    /// Events of `kind` in an epoch.
    pub(super) fn share(&self, kind: Kind) -> u64 {
        self.shares[kind as usize]
    }

    /// Where the events of `kind` begin in an epoch.
    fn first(&self, kind: Kind) -> u64 {
        self.shares[..kind as usize].iter().sum()
    }

    /// The kind of event `e`.
    #[inline(always)]
    pub(super) fn kind(&self, e: u64) -> Kind {
        let offset = self.epoch.remainder(e);
        if offset < self.shares[0] {
            Kind::Person
        } else if offset < self.shares[0] + self.shares[1] {
            Kind::Auction
        } else {
            Kind::Bid
        }
    }

    /// How many people have registered before or with event `e`, less one.
    #[inline(always)]
    pub(super) fn last_person(&self, e: u64) -> u64 {
        let epoch = self.epoch.quotient(e);
        let offset = e - epoch * self.epoch.get();
        epoch * self.shares[0] + offset.min(self.shares[0] - 1)
    }

    /// How many auctions have been opened before or with event `e`, an auction or a bid, less one.
    #[inline(always)]
    pub(super) fn last_auction(&self, e: u64) -> u64 {
        let epoch = self.epoch.quotient(e);
        let offset = e - epoch * self.epoch.get() - self.shares[0];
        epoch * self.shares[1] + offset.min(self.shares[1] - 1)
    }

    /// How many events of `kind` there are among those before `e`.
    pub(super) fn count_before(&self, kind: Kind, e: u64) -> u64 {
        let epoch = self.epoch.quotient(e);
        let offset = e - epoch * self.epoch.get();
        epoch * self.share(kind) + offset.saturating_sub(self.first(kind)).min(self.share(kind))
    }

    /// How many events of `kind` are among the first `events`, as they come.
    pub(super) fn count_in_first(&self, kind: Kind, events: u64) -> u64 {
        let group = events - self.disorder.remainder(events);
        let rest = self.group(group).take((events - group) as usize);
        self.count_before(kind, group) + rest.filter(|&e| self.kind(e) == kind).count() as u64
    }

    /// The events with these numbers, in the order in which they come.
    pub(super) fn events(&self, numbers: Range<u64>) -> Vec<u64> {
        if self.disorder.get() == 1 {
            return numbers.collect();
        }
        let adjusted = |number: u64| {
            let within = self.disorder.remainder(number);
            number - within + self.disorder.remainder(within * DISORDER_STEP)
        };
        numbers.map(adjusted).collect()
    }

    /// The events of `kind`, of which these are the numbers among their kind, in the order in which they come.
    pub(super) fn events_of_kind(&self, kind: Kind, rows: Range<u64>) -> Vec<u64> {
        let (share, first) = (self.share(kind), self.first(kind));
        let count = (rows.end - rows.start) as usize;
        let (mut epoch, mut within) = (rows.start / share, rows.start % share);
        if self.disorder.get() > 1 {
            // Groups are runs of identities, so the row comes within the group in which its kind reaches its number.
            let ordered = epoch * self.epoch.get() + first + within;
            let group = ordered - self.disorder.remainder(ordered);
            let skipped = rows.start - self.count_before(kind, group);
            let groups = (0u64..).flat_map(|later| self.group(group + later * self.disorder.get()));
            return groups.filter(|&e| self.kind(e) == kind).skip(skipped as usize).take(count).collect();
        }
        let mut events = Vec::with_capacity(count);
        while events.len() < count {
            let run = (share - within).min((count - events.len()) as u64);
            let start = epoch * self.epoch.get() + first + within;
            events.extend(start..start + run);
            (epoch, within) = (epoch + 1, 0);
        }
        events
    }

    /// The events of the group that begins at `start`, in the order in which they come.
    fn group(&self, start: u64) -> impl Iterator<Item = u64> + use<> {
        let size = self.disorder.get();
        let step = DISORDER_STEP % size;
        let mut within = 0;
        (0..size).map(move |_| {
            let e = start + within;
            within += step;
            within -= if within >= size { size } else { 0 };
            e
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn timeline(options: &[(&str, &str)]) -> Timeline {
        let map: BTreeMap<String, String> =
            options.iter().map(|&(name, value)| (name.to_string(), value.to_string())).collect();
        Timeline::of(&Options::new(&map)).unwrap()
    }

    #[test]
    fn an_epoch_is_a_person_three_auctions_and_46_bids() {
        let timeline = timeline(&[]);
        let kinds: Vec<Kind> = (100..150).map(|e| timeline.kind(e)).collect();
        assert_eq!(kinds[0], Kind::Person);
        assert_eq!(kinds[1..4], [Kind::Auction; 3]);
        assert_eq!(kinds[4..], [Kind::Bid; 46]);
        assert_eq!([100, 101, 149, 150].map(|e| timeline.last_person(e)), [2, 2, 2, 3]);
        assert_eq!([101, 102, 103, 104, 149].map(|e| timeline.last_auction(e)), [6, 7, 8, 8, 8]);
    }

    #[test]
    fn rows_of_a_kind_are_found_whatever_the_order_and_the_proportions() {
        let proportions: [&[(&str, &str)]; 2] =
            [&[], &[("person.proportion", "2"), ("auction.proportion", "5"), ("bid.proportion", "3")]];
        for disorder in ["1", "7", "50", "64", "1000"] {
            for proportions in proportions {
                let timeline = timeline(&[proportions, &[("disorder", disorder)]].concat());
                let events = timeline.events(0..5_000);
                for kind in [Kind::Person, Kind::Auction, Kind::Bid] {
                    let of_kind: Vec<u64> = events.iter().copied().filter(|&e| timeline.kind(e) == kind).collect();
                    assert_eq!(timeline.count_in_first(kind, 5_000), of_kind.len() as u64);
                    for (start, end) in [(0, 3), (1, 48), (47, of_kind.len()), (60, 61)] {
                        let rows = timeline.events_of_kind(kind, start as u64..end as u64);
                        assert_eq!(rows, of_kind[start..end], "{kind:?} {disorder}");
                    }
                }
            }
        }
    }

    #[test]
    fn disorder_shuffles_within_groups_and_no_further() {
        let timeline = timeline(&[("disorder", "64")]);
        let events = timeline.events(0..6_400);
        assert_ne!(events, (0..6_400).collect::<Vec<_>>());
        for (group, members) in events.chunks(64).enumerate() {
            let mut sorted = members.to_vec();
            sorted.sort_unstable();
            let start = group as u64 * 64;
            assert_eq!(sorted, (start..start + 64).collect::<Vec<_>>());
        }
        let map = BTreeMap::from([("disorder".to_string(), "1906".to_string())]);
        let refused = Timeline::of(&Options::new(&map)).unwrap_err().to_string();
        assert_eq!(refused, "option 'disorder' must be at most 100000 and no multiple of 953");
    }
}
