//! Nexmark: people, auctions and bids of an auction house.
//!
//! The stream is that of the reference's generator, with these choices: it depends on `seed`, so that two runs are equal;
//! bidders' identities have the first person's added once; the hot bidder is the person after the hot seller; long strings are
//! cut from a pool of 1 MiB of random characters, so that they cost next to nothing to make.
//!
//! [`crate::options::table`] lists the options.

mod timeline;

mod price;

mod text;

mod person;

mod auction;

mod bid;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int32Array, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use pelton_runtime::source::Source;

use crate::generated::{GeneratedSource, Generator, Pace, batch_schema, match_columns, positive_or_default, times};
use crate::options::Options;
use crate::random::Draw;
use crate::{ConnectorError, TableRequest};
use auction::{AuctionColumn, Auctions};
use bid::{BidColumn, Bids};
use person::{People, PersonColumn};
use price::Prices;
use text::{RECORD_BYTES_MAX, Text};
use timeline::{Kind, Timeline};

/// Identity of the first person and of the first auction.
const FIRST_ID: u64 = 1_000;

/// The hot person and the hot auction change when so many have come.
const HOT_GROUP: u64 = 100;

/// References reach so many people or auctions ahead of those that exist.
const LEAD: u32 = 10;

/// How likely events refer to which others, and how large they are.
#[derive(Debug, Clone, Copy)]
struct Ratios {
    hot_auctions: u32,
    hot_bidders: u32,
    hot_sellers: u32,
    active_people: u32,
    in_flight_auctions: u32,
    person_bytes: u32,
    auction_bytes: u32,
    bid_bytes: u32,
}

impl Ratios {
    fn of(options: &Options) -> Result<Ratios, ConnectorError> {
        let number = |name, max: u64| match positive_or_default(options, name)? {
            number if number > max => Err(ConnectorError::option(name, format!("must be at most {max}"))),
            number => Ok(number as u32),
        };
        Ok(Ratios {
            hot_auctions: number("bid.hot-ratio.auctions", 1 << 16)?,
            hot_bidders: number("bid.hot-ratio.bidders", 1 << 16)?,
            hot_sellers: number("auction.hot-ratio.sellers", 1 << 16)?,
            active_people: number("active-people", 1 << 24)?,
            in_flight_auctions: number("in-flight-auctions", 1 << 24)?,
            person_bytes: number("person.avg-size", RECORD_BYTES_MAX)?,
            auction_bytes: number("auction.avg-size", RECORD_BYTES_MAX)?,
            bid_bytes: number("bid.avg-size", RECORD_BYTES_MAX)?,
        })
    }

    /// One of the newest people, or of the next to come, where `last` people have come before.
    #[inline(always)]
    fn active_person(&self, draw: Draw, last: u64) -> u64 {
        let active = (last + 1).min(u64::from(self.active_people));
        last + 1 - active + u64::from(draw.low_below(active as u32 + LEAD))
    }
}

/// What the values of all events depend on.
#[derive(Debug)]
struct World {
    timeline: Timeline,
    ratios: Ratios,
    prices: Prices,
    text: Text,
}

/// Which rows a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Of(Kind),
    Events,
}

const TABLES: &[(&str, Table)] = &[
    ("person", Table::Of(Kind::Person)),
    ("auction", Table::Of(Kind::Auction)),
    ("bid", Table::Of(Kind::Bid)),
    ("events", Table::Events),
];

/// Where the values of a column come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    EventType,
    DateTime,
    Person(PersonColumn),
    Auction(AuctionColumn),
    Bid(BidColumn),
}

const NUMBER: DataType = DataType::Int64;
const TEXT: DataType = DataType::Utf8View;
const TIME: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

const PERSON: &[(&str, DataType, Column)] = &[
    ("id", NUMBER, Column::Person(PersonColumn::Id)),
    ("name", TEXT, Column::Person(PersonColumn::Name)),
    ("emailAddress", TEXT, Column::Person(PersonColumn::EmailAddress)),
    ("creditCard", TEXT, Column::Person(PersonColumn::CreditCard)),
    ("city", TEXT, Column::Person(PersonColumn::City)),
    ("state", TEXT, Column::Person(PersonColumn::State)),
    ("dateTime", TIME, Column::Person(PersonColumn::DateTime)),
    ("extra", TEXT, Column::Person(PersonColumn::Extra)),
];

const AUCTION: &[(&str, DataType, Column)] = &[
    ("id", NUMBER, Column::Auction(AuctionColumn::Id)),
    ("itemName", TEXT, Column::Auction(AuctionColumn::ItemName)),
    ("description", TEXT, Column::Auction(AuctionColumn::Description)),
    ("initialBid", NUMBER, Column::Auction(AuctionColumn::InitialBid)),
    ("reserve", NUMBER, Column::Auction(AuctionColumn::Reserve)),
    ("dateTime", TIME, Column::Auction(AuctionColumn::DateTime)),
    ("expires", TIME, Column::Auction(AuctionColumn::Expires)),
    ("seller", NUMBER, Column::Auction(AuctionColumn::Seller)),
    ("category", NUMBER, Column::Auction(AuctionColumn::Category)),
    ("extra", TEXT, Column::Auction(AuctionColumn::Extra)),
];

const BID: &[(&str, DataType, Column)] = &[
    ("auction", NUMBER, Column::Bid(BidColumn::Auction)),
    ("bidder", NUMBER, Column::Bid(BidColumn::Bidder)),
    ("price", NUMBER, Column::Bid(BidColumn::Price)),
    ("channel", TEXT, Column::Bid(BidColumn::Channel)),
    ("url", TEXT, Column::Bid(BidColumn::Url)),
    ("dateTime", TIME, Column::Bid(BidColumn::DateTime)),
    ("extra", TEXT, Column::Bid(BidColumn::Extra)),
];

impl Table {
    fn of(options: &Options) -> Result<Table, ConnectorError> {
        Ok(options.choice("table", TABLES)?.unwrap_or(Table::Of(Kind::Bid)))
    }

    fn columns(self) -> Vec<(Field, Column)> {
        let of_kind = |kind| match kind {
            Kind::Person => ("person", PERSON),
            Kind::Auction => ("auction", AUCTION),
            Kind::Bid => ("bid", BID),
        };
        let field = |name: &str, data_type: &DataType, nullable| Field::new(name, data_type.clone(), nullable);
        match self {
            Table::Of(kind) => of_kind(kind)
                .1
                .iter()
                .map(|(name, data_type, column)| (field(name, data_type, false), *column))
                .collect(),
            Table::Events => {
                let mut columns = vec![
                    (field("event_type", &DataType::Int32, false), Column::EventType),
                    (field("dateTime", &TIME, false), Column::DateTime),
                ];
                for (prefix, of_kind) in [Kind::Person, Kind::Auction, Kind::Bid].map(of_kind) {
                    columns.extend(of_kind.iter().map(|(name, data_type, column)| {
                        (field(&format!("{prefix}_{name}"), data_type, true), *column)
                    }));
                }
                columns
            }
        }
    }

    fn schema(self) -> Schema {
        Schema::new(self.columns().into_iter().map(|(field, _)| field).collect::<Vec<_>>())
    }
}

/// The columns of the table that the options name.
pub(crate) fn declared_schema(options: &Options) -> Result<Schema, ConnectorError> {
    Ok(Table::of(options)?.schema())
}

/// Whether the options give the table an end.
pub(crate) fn is_bounded(options: &Options) -> bool {
    options.text("rows").is_some() || options.text("number-of-events").is_some()
}

/// Opens one of the tables.
pub(crate) fn open_source(request: &TableRequest, options: &Options) -> Result<Box<dyn Source>, ConnectorError> {
    let table = Table::of(options)?;
    let timeline = Timeline::of(options)?;
    let ratios = Ratios::of(options)?;
    let rows = rows(table, &timeline, options)?;
    let pace = Pace::of(options, Pace::FlatOut)?;
    let seed = options.number("seed")?.unwrap_or(request.seed);
    let offered = table.schema();
    let matched = match_columns(request, &offered)?;
    let all = table.columns();
    let nexmark = Nexmark {
        world: World { timeline, ratios, prices: Prices::new(), text: Text::new(seed) },
        table,
        columns: matched.iter().map(|&column| all[column].1).collect(),
        people: People::new(seed),
        auctions: Auctions::new(seed),
        bids: Bids::new(seed),
    };
    // Rows of one kind are a share of the events, whose rate is given.
    let share = match table {
        Table::Of(kind) => timeline.share(kind),
        Table::Events => timeline.epoch_events(),
    };
    let per = Duration::from_secs(timeline.epoch_events());
    let pacer = pace.pacer(options, timeline.times.per_second() * share, per)?;
    let schema = batch_schema(request, &offered, &matched);
    Ok(Box::new(GeneratedSource::new(nexmark, schema, rows, request.block_rows, pacer)))
}

/// How many rows the table has, where it ends.
fn rows(table: Table, timeline: &Timeline, options: &Options) -> Result<Option<u64>, ConnectorError> {
    let rows: Option<u64> = options.number("rows")?;
    let events: Option<u64> = options.number("number-of-events")?;
    let rows_of_events = events.map(|events| match table {
        Table::Of(kind) => timeline.count_in_first(kind, events),
        Table::Events => events,
    });
    match (rows, rows_of_events) {
        (Some(_), Some(_)) => Err(ConnectorError::option("rows", "and 'number-of-events' exclude each other")),
        (rows, rows_of_events) => Ok(rows.or(rows_of_events)),
    }
}

/// Generates the wanted columns of one table.
#[derive(Debug)]
struct Nexmark {
    world: World,
    table: Table,
    columns: Vec<Column>,
    people: People,
    auctions: Auctions,
    bids: Bids,
}

impl Generator for Nexmark {
    fn columns(&self, rows: Range<u64>) -> Vec<ArrayRef> {
        match self.table {
            Table::Of(kind) => {
                let events = self.world.timeline.events_of_kind(kind, rows);
                self.columns.iter().map(|&column| self.column(column, &events)).collect()
            }
            Table::Events => {
                let union = Union::new(self.world.timeline.events(rows), &self.world.timeline);
                self.columns.iter().map(|&column| self.union_column(column, &union)).collect()
            }
        }
    }
}

impl Nexmark {
    /// A column of events that all have it.
    fn column(&self, column: Column, events: &[u64]) -> ArrayRef {
        let timeline = &self.world.timeline;
        let e = events.iter().copied();
        match column {
            Column::EventType => Arc::new(Int32Array::from_iter_values(e.map(|e| timeline.kind(e) as i32))),
            Column::DateTime => times(e.map(|e| timeline.times.at_ms(e))),
            Column::Person(column) => self.people.column(column, events, &self.world),
            Column::Auction(column) => self.auctions.column(column, events, &self.world),
            Column::Bid(column) => self.bids.column(column, events, &self.world),
        }
    }

    /// A column of events of which some have it.
    fn union_column(&self, column: Column, union: &Union) -> ArrayRef {
        let kind = match column {
            Column::EventType | Column::DateTime => return self.column(column, &union.events),
            Column::Person(_) => Kind::Person,
            Column::Auction(_) => Kind::Auction,
            Column::Bid(_) => Kind::Bid,
        };
        let (events, places) = &union.of_kind[kind as usize];
        let dense = self.column(column, events);
        take(&dense, places, None).expect("places are numbered within their kind")
    }
}

/// Events of all kinds, and for each kind its events and where they stand among all.
struct Union {
    events: Vec<u64>,
    of_kind: [(Vec<u64>, UInt32Array); 3],
}

impl Union {
    fn new(events: Vec<u64>, timeline: &Timeline) -> Union {
        let of_kind = [Kind::Person, Kind::Auction, Kind::Bid].map(|kind| {
            let mut own = Vec::new();
            let place = |&e: &u64| {
                (timeline.kind(e) == kind).then(|| {
                    own.push(e);
                    own.len() as u32 - 1
                })
            };
            let places = events.iter().map(place).collect();
            (own, places)
        });
        Union { events, of_kind }
    }
}

#[cfg(test)]
mod tests;
