//! Auctions.

use std::hint::select_unpredictable;
use std::sync::Arc;

use arrow::array::ArrayRef;

use super::text::padding;
use super::timeline::Kind;
use super::{FIRST_ID, HOT_GROUP, World};
use crate::generated::{numbers, times};
use crate::random::Stream;

/// A column of `auction`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuctionColumn {
    Id,
    ItemName,
    Description,
    InitialBid,
    Reserve,
    DateTime,
    Expires,
    Seller,
    Category,
    Extra,
}

/// What of an auction counts towards its average size besides its strings: six numbers of eight bytes.
const FIXED_BYTES: u32 = 48;

/// Characters of an item's name and description, less than.
const ITEM_NAME: u32 = 20;
const DESCRIPTION: u32 = 100;

/// Categories, and the first.
const CATEGORIES: u32 = 5;
const FIRST_CATEGORY: i64 = 10;

/// Draws auctions.
#[derive(Debug)]
pub(super) struct Auctions {
    item_name: Stream,
    description: Stream,
    initial_bid: Stream,
    reserve: Stream,
    expires: Stream,
    seller: Stream,
    category: Stream,
    extra: Stream,
}

impl Auctions {
    pub(super) fn new(seed: u64) -> Auctions {
        Auctions {
            item_name: Stream::new(seed, "auction.itemName"),
            description: Stream::new(seed, "auction.description"),
            initial_bid: Stream::new(seed, "auction.initialBid"),
            reserve: Stream::new(seed, "auction.reserve"),
            expires: Stream::new(seed, "auction.expires"),
            seller: Stream::new(seed, "auction.seller"),
            category: Stream::new(seed, "auction.category"),
            extra: Stream::new(seed, "auction.extra"),
        }
    }

    /// One column of the auctions `events`.
    pub(super) fn column(&self, column: AuctionColumn, events: &[u64], world: &World) -> ArrayRef {
        let e = events.iter().copied();
        let item_name = |e| world.text.sentence(self.item_name.at(e), ITEM_NAME);
        let description = |e| world.text.sentence(self.description.at(e), DESCRIPTION);
        let initial_bid = |e| world.prices.at(self.initial_bid.at(e));
        match column {
            AuctionColumn::Id => numbers(e.map(|e| (FIRST_ID + world.timeline.last_auction(e)) as i64)),
            AuctionColumn::ItemName => Arc::new(world.text.prose().strings(e.map(item_name))),
            AuctionColumn::Description => Arc::new(world.text.prose().strings(e.map(description))),
            AuctionColumn::InitialBid => numbers(e.map(initial_bid)),
            AuctionColumn::Reserve => numbers(e.map(|e| initial_bid(e) + world.prices.at(self.reserve.at(e)))),
            AuctionColumn::DateTime => times(e.map(|e| world.timeline.times.at_ms(e))),
            AuctionColumn::Expires => times(e.map(|e| self.expires(e, world))),
            AuctionColumn::Seller => numbers(e.map(|e| self.seller(e, world) as i64)),
            AuctionColumn::Category => {
                numbers(e.map(|e| FIRST_CATEGORY + i64::from(self.category.at(e).below(CATEGORIES))))
            }
            AuctionColumn::Extra => {
                let range = |e| {
                    let size = FIXED_BYTES + item_name(e).len() as u32 + description(e).len() as u32;
                    padding(self.extra.at(e), size, world.ratios.auction_bytes)
                };
                Arc::new(world.text.letters().strings(e.map(range)))
            }
        }
    }

    /// On average, an auction ends when as many others have been opened as are in flight.
    #[inline(always)]
    fn expires(&self, e: u64, world: &World) -> i64 {
        let events_ahead = u64::from(world.ratios.in_flight_auctions) * world.timeline.epoch_events()
            / world.timeline.share(Kind::Auction);
        let opened_ms = world.timeline.times.at_ms(e);
        let horizon_ms = world.timeline.times.at_ms(e + events_ahead) - opened_ms;
        let length_ms = self.expires.at(e).below_wide((2 * horizon_ms).max(1) as u64);
        opened_ms + 1 + length_ms as i64
    }

    /// Three quarters of the auctions are opened by the first of the newest hundred people.
    #[inline(always)]
    fn seller(&self, e: u64, world: &World) -> u64 {
        let draw = self.seller.at(e);
        let last = world.timeline.last_person(e);
        let hot = last / HOT_GROUP * HOT_GROUP;
        let cold = world.ratios.active_person(draw, last);
        FIRST_ID + select_unpredictable(draw.below(world.ratios.hot_sellers) > 0, hot, cold)
    }
}
