//! Bids.

use std::hint::select_unpredictable;
use std::sync::Arc;

use arrow::array::ArrayRef;

use super::text::{CHANNELS, CHANNELS_HOT, padding};
use super::{FIRST_ID, HOT_GROUP, LEAD, World};
use crate::generated::{numbers, times};
use crate::random::{Draw, Stream};

/// A column of `bid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BidColumn {
    Auction,
    Bidder,
    Price,
    Channel,
    Url,
    DateTime,
    Extra,
}

/// What of a bid counts towards its average size: four numbers of eight bytes.
const FIXED_BYTES: u32 = 32;

/// Draws bids.
#[derive(Debug)]
pub(super) struct Bids {
    auction: Stream,
    bidder: Stream,
    price: Stream,
    channel: Stream,
    extra: Stream,
}

impl Bids {
    pub(super) fn new(seed: u64) -> Bids {
        Bids {
            auction: Stream::new(seed, "bid.auction"),
            bidder: Stream::new(seed, "bid.bidder"),
            price: Stream::new(seed, "bid.price"),
            channel: Stream::new(seed, "bid.channel"),
            extra: Stream::new(seed, "bid.extra"),
        }
    }

    /// One column of the bids `events`.
    pub(super) fn column(&self, column: BidColumn, events: &[u64], world: &World) -> ArrayRef {
        let e = events.iter().copied();
        match column {
            BidColumn::Auction => numbers(e.map(|e| self.auction(e, world) as i64)),
            BidColumn::Bidder => numbers(e.map(|e| self.bidder(e, world) as i64)),
            BidColumn::Price => numbers(e.map(|e| world.prices.at(self.price.at(e)))),
            BidColumn::Channel => world.text.channels().column(e.map(|e| channel(self.channel.at(e)))),
            BidColumn::Url => world.text.addresses().column(e.map(|e| channel(self.channel.at(e)))),
            BidColumn::DateTime => times(e.map(|e| world.timeline.times.at_ms(e))),
            BidColumn::Extra => {
                let range = |e| padding(self.extra.at(e), FIXED_BYTES, world.ratios.bid_bytes);
                Arc::new(world.text.letters().strings(e.map(range)))
            }
        }
    }

    /// Half of the bids go to the first of the newest hundred auctions, the others to one that is or soon will be open.
    #[inline(always)]
    fn auction(&self, e: u64, world: &World) -> u64 {
        let draw = self.auction.at(e);
        let last = world.timeline.last_auction(e);
        let hot = last / HOT_GROUP * HOT_GROUP;
        let oldest = last.saturating_sub(u64::from(world.ratios.in_flight_auctions));
        let cold = oldest + u64::from(draw.low_below((last - oldest) as u32 + 1 + LEAD));
        FIRST_ID + select_unpredictable(draw.below(world.ratios.hot_auctions) > 0, hot, cold)
    }

    /// Three quarters of the bids come from the second of the newest hundred people: the first is the hot seller.
    #[inline(always)]
    fn bidder(&self, e: u64, world: &World) -> u64 {
        let draw = self.bidder.at(e);
        let last = world.timeline.last_person(e);
        let hot = last / HOT_GROUP * HOT_GROUP + 1;
        let cold = world.ratios.active_person(draw, last);
        FIRST_ID + select_unpredictable(draw.below(world.ratios.hot_bidders) > 0, hot, cold)
    }
}

/// Half of the bids come through one of the hot channels.
#[inline(always)]
fn channel(draw: Draw) -> u32 {
    let hot_channels = CHANNELS_HOT.len() as u32;
    // Two hot or cold choices for each hot channel: the choice and, where it is a hot one, which.
    let choice = draw.below(2 * hot_channels);
    select_unpredictable(choice < hot_channels, choice, hot_channels + draw.low_below(CHANNELS))
}
