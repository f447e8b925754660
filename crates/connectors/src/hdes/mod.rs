//! The streams of HDES: basic events, which two streams share few values of, and the bids and auctions of NexmarkLight.
//!
//! | table | columns |
//! |---|---|
//! | `events` | `value BIGINT`, `event_time TIMESTAMP(3)` |
//! | `bid` | `id`, `auction`, `bidder`, `price`: BIGINT; `dateTime TIMESTAMP(3)` |
//! | `auction` | `id`, `quantity`, `category`, `reserve`: BIGINT; `dateTime TIMESTAMP(3)` |
//!
//! Bids and auctions have the same rate. A bid's auction is about 50,000 auctions older than the newest, so that both are in one window
//! where the window has many more rows than that.
//!
//! [`crate::options::table`] lists the options.

use std::ops::Range;
use std::time::Duration;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use pelton_data::Micros;
use pelton_runtime::source::Source;

use crate::generated::{
    BASE_TIME_DEFAULT_MS, EventTimes, GeneratedSource, Generator, Pace, batch_schema, match_columns, numbers,
    positive_or_default, times,
};
use crate::options::Options;
use crate::random::{Divisor, Stream};
use crate::{ConnectorError, TableRequest};

/// Streams, and values of a stream, are at most so many: their product is a BIGINT.
const COUNT_MAX: u64 = 1 << 31;

/// Of NexmarkLight: quantities are at least 1 and less than this, and there are so many categories.
const QUANTITY_END: u32 = 100;
const CATEGORIES: u32 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Events,
    Bid,
    Auction,
}

const TABLES: &[(&str, Table)] = &[("events", Table::Events), ("bid", Table::Bid), ("auction", Table::Auction)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Time,
    /// Of an event.
    Value,
    /// Of a bid or an auction: its number.
    Id,
    /// Of a bid.
    Auction,
    /// Of a bid.
    Bidder,
    /// Of a bid.
    Price,
    /// Of an auction.
    Quantity,
    /// Of an auction.
    Category,
    /// Of an auction.
    Reserve,
}

const NUMBER: DataType = DataType::Int64;
const TIME: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

impl Table {
    fn of(options: &Options) -> Result<Table, ConnectorError> {
        Ok(options.choice("table", TABLES)?.unwrap_or(Table::Events))
    }

    fn columns(self) -> &'static [(&'static str, DataType, Column)] {
        match self {
            Table::Events => &[("value", NUMBER, Column::Value), ("event_time", TIME, Column::Time)],
            Table::Bid => &[
                ("id", NUMBER, Column::Id),
                ("auction", NUMBER, Column::Auction),
                ("bidder", NUMBER, Column::Bidder),
                ("price", NUMBER, Column::Price),
                ("dateTime", TIME, Column::Time),
            ],
            Table::Auction => &[
                ("id", NUMBER, Column::Id),
                ("quantity", NUMBER, Column::Quantity),
                ("category", NUMBER, Column::Category),
                ("reserve", NUMBER, Column::Reserve),
                ("dateTime", TIME, Column::Time),
            ],
        }
    }

    fn schema(self) -> Schema {
        let field = |(name, data_type, _): &(&str, DataType, Column)| Field::new(*name, data_type.clone(), false);
        Schema::new(self.columns().iter().map(field).collect::<Vec<_>>())
    }
}

/// The columns of the table that the options name.
pub(crate) fn declared_schema(options: &Options) -> Result<Schema, ConnectorError> {
    Ok(Table::of(options)?.schema())
}

/// Whether the options give the table an end.
pub(crate) fn is_bounded(options: &Options) -> bool {
    options.text("rows").is_some()
}

/// Opens one of the tables.
pub(crate) fn open_source(request: &TableRequest, options: &Options) -> Result<Box<dyn Source>, ConnectorError> {
    let table = Table::of(options)?;
    let times = EventTimes::of(options, BASE_TIME_DEFAULT_MS)?;
    let pacer = Pace::of(options, Pace::FlatOut)?.pacer(options, times.per_second(), Duration::from_secs(1))?;
    let rows = options.number("rows")?;
    let seed = options.number("seed")?.unwrap_or(request.seed);
    let values = match table {
        // Asked for here, they would pass for options of bids and auctions.
        Table::Bid | Table::Auction => None,
        Table::Events => Some(Values::of(options, seed)?),
    };
    let offered = table.schema();
    let matched = match_columns(request, &offered)?;
    let schema = batch_schema(request, &offered, &matched);
    let stream = |name| Stream::new(seed, name);
    let hdes = Hdes {
        columns: matched.iter().map(|&column| table.columns()[column].2).collect(),
        times,
        values,
        bids: Bids {
            age: Normal::new(stream("bid.auction"), 50_000, 15_000),
            bidder: Normal::new(stream("bid.bidder"), 50_000, 15_000),
            price: Normal::new(stream("bid.price"), 5_000, 1_500),
        },
        auctions: Auctions {
            quantity: stream("auction.quantity"),
            category: stream("auction.category"),
            reserve: Normal::new(stream("auction.reserve"), 5_000, 1_500),
        },
    };
    Ok(Box::new(GeneratedSource::new(hdes, schema, rows, request.block_rows, pacer)))
}

/// Generates the wanted columns of one table.
#[derive(Debug)]
struct Hdes {
    columns: Vec<Column>,
    times: EventTimes,
    /// Of events.
    values: Option<Values>,
    bids: Bids,
    auctions: Auctions,
}

impl Generator for Hdes {
    fn columns(&self, rows: Range<u64>) -> Vec<ArrayRef> {
        self.columns.iter().map(|&column| self.column(column, rows.clone())).collect()
    }

    fn times_before(&self, row: u64) -> Option<Micros> {
        Some(self.times.before(row))
    }
}

impl Hdes {
    fn column(&self, column: Column, rows: Range<u64>) -> ArrayRef {
        let (bids, auctions) = (&self.bids, &self.auctions);
        match column {
            Column::Time => times(rows.map(|row| self.times.at_ms(row))),
            Column::Value => {
                let values = self.values.expect("only events have this column, and they have values");
                numbers(rows.map(|row| values.at(row)))
            }
            Column::Id => numbers(rows.map(|row| row as i64)),
            // The newest auction is that of the bid's own number, as both streams have the same rate.
            Column::Auction => numbers(rows.map(|row| (row as i64 - bids.age.at(row)).max(0))),
            Column::Bidder => numbers(rows.map(|row| bids.bidder.at(row).max(1))),
            Column::Price => numbers(rows.map(|row| bids.price.at(row).max(1))),
            Column::Quantity => {
                numbers(rows.map(|row| i64::from(1 + auctions.quantity.at(row).below(QUANTITY_END - 1))))
            }
            Column::Category => numbers(rows.map(|row| i64::from(auctions.category.at(row).below(CATEGORIES)))),
            Column::Reserve => numbers(rows.map(|row| auctions.reserve.at(row).max(1))),
        }
    }
}

#[derive(Debug)]
struct Bids {
    /// How many auctions older than the newest a bid's auction is.
    age: Normal,
    bidder: Normal,
    price: Normal,
}

#[derive(Debug)]
struct Auctions {
    quantity: Stream,
    category: Stream,
    reserve: Normal,
}

/// The values of events: first those that all streams share, from 1, then the stream's own.
#[derive(Debug, Clone, Copy)]
struct Values {
    shared: u64,
    count: Divisor,
    /// The first of the stream's own values.
    own_start: u64,
    /// What values are drawn from at random; `None` where they come one after the other, again and again.
    random: Option<Stream>,
}

impl Values {
    fn of(options: &Options, seed: u64) -> Result<Values, ConnectorError> {
        let number = |name| match positive_or_default(options, name)? {
            number if number > COUNT_MAX => Err(ConnectorError::option(name, format!("must be at most {COUNT_MAX}"))),
            number => Ok(number),
        };
        let (stream, own, shared) = (number("stream")?, number("own-values")?, number("shared-values")?);
        let is_random = options.choice("values", &[("cyclic", false), ("random", true)])?.unwrap_or(false);
        Ok(Values {
            shared,
            count: Divisor::new(shared + own),
            // Beyond the shared values, and beyond those of the streams before.
            own_start: stream * own.max(shared + 1),
            random: is_random.then(|| Stream::new(seed, &format!("events.{stream}.value"))),
        })
    }

    #[inline(always)]
    fn at(&self, row: u64) -> i64 {
        let place = match self.random {
            Some(stream) => stream.at(row).below_wide(self.count.get()),
            None => self.count.remainder(row),
        };
        let value = if place < self.shared { 1 + place } else { self.own_start + place - self.shared };
        value as i64
    }
}

/// Whole numbers whose distribution is nearly normal: sums of eight uniform numbers of 16 bits. Only exact operations are used, so
/// that all machines agree on every number.
#[derive(Debug, Clone, Copy)]
struct Normal {
    stream: Stream,
    mean: i64,
    /// The deviation divided by that of the sum, in units of 2^-40.
    factor: i64,
}

/// The mean of the sum of eight uniform numbers of 16 bits, and its standard deviation: the root of 8 (2^32 - 1) / 12.
const SUM_MEAN: i64 = 4 * 0xFFFF;
const SUM_DEVIATION: f64 = 53_509.919_921_45;

impl Normal {
    fn new(stream: Stream, mean: i64, deviation: i64) -> Normal {
        let factor = deviation as f64 / SUM_DEVIATION * (1_u64 << 40) as f64;
        Normal { stream, mean, factor: factor as i64 }
    }

    #[inline(always)]
    fn at(&self, row: u64) -> i64 {
        const EVEN: u64 = 0x0000_FFFF_0000_FFFF;
        let pairs = |bits: u64| (bits & EVEN) + (bits >> 16 & EVEN);
        // Two numbers of 32 bits, each the sum of four of 16.
        let halves = pairs(self.stream.at(2 * row).0) + pairs(self.stream.at(2 * row + 1).0);
        let sum = (halves >> 32) + (halves & 0xFFFF_FFFF);
        // Below 2^19 * 2^40.
        self.mean + (((sum as i64 - SUM_MEAN) * self.factor) >> 40)
    }
}

#[cfg(test)]
mod tests;
