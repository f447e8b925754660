//! The Yahoo streaming benchmark: views, clicks and purchases of advertisements, as three papers have it.
//!
//! | | `grizzly` | `lightsaber` | `enjima` |
//! |---|---|---|---|
//! | `user_id`, `page_id` | BIGINT, random | the same | the same |
//! | `campaign_id` | BIGINT, uniform in 0 to `campaigns` - 1 | – | – |
//! | `ad_id` | – | BIGINT, 0 to `ads` - 1 | BIGINT, 1 to `ads` |
//! | `ad_type` | STRING: banner, modal, sponsored-search, mail, mobile | TINYINT, 0 to 4 | the same |
//! | `event_type` | STRING: view, click, purchase | TINYINT: 0, 1, 2 | the same |
//! | `event_time` | TIMESTAMP(3) | the same | the same |
//! | `ip` | INT, random | the same | the same |
//! | `value` | BIGINT, uniform in 0 to 99 | – | – |
//!
//! The papers' records have 16-byte identities, strings or 8-byte numbers for the types, and padding. Identities of eight
//! bytes and types of one keep every query's meaning; columns need no padding. Grizzly sums without saying what: `value`.
//! Strings are delivered as dictionary codes of one byte.
//!
//! [`crate::options::table`] lists the options.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, DictionaryArray, Int8Array, Int32Array, StringViewArray, UInt8Array};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use pelton_runtime::source::Source;

use crate::generated::{
    BASE_TIME_DEFAULT_MS, EventTimes, GeneratedSource, Generator, Pace, batch_schema, match_columns, numbers, positive,
    times,
};
use crate::options::Options;
use crate::random::{Divisor, Stream};
use crate::{ConnectorError, TableRequest};

const EVENT_TYPES: [&str; 3] = ["view", "click", "purchase"];

const AD_TYPES: [&str; 5] = ["banner", "modal", "sponsored-search", "mail", "mobile"];

/// Campaigns that are joined have identities from 1 to this.
const CAMPAIGN_ID_MAX: u64 = 1_000_000;

/// Advertisements of a campaign, unless the options say otherwise.
const ADS_PER_CAMPAIGN: u64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Grizzly,
    LightSaber,
    Enjima,
}

const VARIANTS: &[(&str, Variant)] =
    &[("grizzly", Variant::Grizzly), ("lightsaber", Variant::LightSaber), ("enjima", Variant::Enjima)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Events,
    Ads,
}

const TABLES: &[(&str, Table)] = &[("events", Table::Events), ("ads", Table::Ads)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    UserId,
    PageId,
    CampaignId,
    AdId,
    AdType,
    EventType,
    EventTime,
    Ip,
    Value,
    /// Of the table of advertisements.
    ListedAd,
    /// Of the table of advertisements.
    ListedCampaign,
}

/// Which table, and of which variant.
fn table(options: &Options) -> Result<(Variant, Table), ConnectorError> {
    let variant = options.choice("variant", VARIANTS)?.unwrap_or(Variant::Grizzly);
    let table = options.choice("table", TABLES)?.unwrap_or(Table::Events);
    if (variant, table) == (Variant::Grizzly, Table::Ads) {
        let problem = "'ads' needs 'variant' = 'lightsaber' or 'enjima': grizzly's events hold their campaign";
        return Err(ConnectorError::option("table", problem));
    }
    Ok((variant, table))
}

fn columns(variant: Variant, table: Table) -> Vec<(Field, Column)> {
    let named = variant == Variant::Grizzly;
    let number = || DataType::Int64;
    let kind = || match named {
        true => DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8View)),
        false => DataType::Int8,
    };
    let columns = match table {
        Table::Ads => {
            vec![("ad_id", number(), Column::ListedAd), ("campaign_id", number(), Column::ListedCampaign)]
        }
        Table::Events => {
            let advertisement = match named {
                true => ("campaign_id", number(), Column::CampaignId),
                false => ("ad_id", number(), Column::AdId),
            };
            let mut columns = vec![
                ("user_id", number(), Column::UserId),
                ("page_id", number(), Column::PageId),
                advertisement,
                ("ad_type", kind(), Column::AdType),
                ("event_type", kind(), Column::EventType),
                ("event_time", DataType::Timestamp(TimeUnit::Millisecond, None), Column::EventTime),
                ("ip", DataType::Int32, Column::Ip),
            ];
            columns.extend(named.then(|| ("value", number(), Column::Value)));
            columns
        }
    };
    columns.into_iter().map(|(name, data_type, column)| (Field::new(name, data_type, false), column)).collect()
}

fn offered(variant: Variant, table: Table) -> Schema {
    Schema::new(columns(variant, table).into_iter().map(|(field, _)| field).collect::<Vec<_>>())
}

/// The columns of the table that the options name, as they are delivered.
pub(crate) fn declared_schema(options: &Options) -> Result<Schema, ConnectorError> {
    let (variant, table) = table(options)?;
    Ok(offered(variant, table))
}

/// Whether the rows have a pace of their own: the events do, the list of advertisements does not.
pub(crate) fn has_pace(options: &Options) -> Result<bool, ConnectorError> {
    Ok(table(options)?.1 == Table::Events)
}

/// Whether the options give the table an end.
pub(crate) fn is_bounded(options: &Options) -> Result<bool, ConnectorError> {
    Ok(options.text("rows").is_some() || table(options)?.1 == Table::Ads)
}

/// Opens the events or the advertisements.
pub(crate) fn open_source(request: &TableRequest, options: &Options) -> Result<Box<dyn Source>, ConnectorError> {
    let (variant, table) = table(options)?;
    let offered = offered(variant, table);
    let matched = match_columns(request, &offered)?;
    let schema = batch_schema(request, &offered, &matched);
    let all = columns(variant, table);
    let wanted = matched.iter().map(|&column| all[column].1).collect();
    let seed = options.number("seed")?.unwrap_or(request.seed);
    let ads = Ads::of(variant, seed, options)?;
    let (rows, pacer, times, shuffled) = match table {
        // Times, order and pace are the events' alone: asked for here, they would pass for options of the list.
        Table::Ads => (Some(ads.count.get()), None, None, false),
        Table::Events => {
            let shuffled = options.choice("event-types", &[("sequential", false), ("shuffled", true)])?;
            let times = EventTimes::of(options, BASE_TIME_DEFAULT_MS)?;
            let pacer = Pace::of(options, Pace::FlatOut)?.pacer(options, times.per_second(), Duration::from_secs(1))?;
            (options.number("rows")?, pacer, Some(times), shuffled.unwrap_or(false))
        }
    };
    let stream = |name| Stream::new(seed, name);
    let events = Ysb {
        variant,
        columns: wanted,
        ads,
        times,
        shuffled,
        user: stream("user_id"),
        page: stream("page_id"),
        advertisement: stream("advertisement"),
        ad_type: stream("ad_type"),
        event_type: stream("event_type"),
        ip: stream("ip"),
        value: stream("value"),
        ad_types: Arc::new(StringViewArray::from_iter_values(AD_TYPES)),
        event_types: Arc::new(StringViewArray::from_iter_values(EVENT_TYPES)),
    };
    Ok(Box::new(GeneratedSource::new(events, schema, rows, request.block_rows, pacer)))
}

/// Advertisements and campaigns.
#[derive(Debug, Clone, Copy)]
struct Ads {
    campaigns: u64,
    count: Divisor,
    first_id: u64,
    /// Campaign number `n` has the identity `1 + (n * step + start) mod` [`CAMPAIGN_ID_MAX`].
    step: u64,
    start: u64,
}

impl Ads {
    fn of(variant: Variant, seed: u64, options: &Options) -> Result<Ads, ConnectorError> {
        let (campaigns_default, campaigns_max) = match variant {
            Variant::Grizzly => (10_000, u64::from(u32::MAX)),
            Variant::LightSaber | Variant::Enjima => (100, CAMPAIGN_ID_MAX),
        };
        let campaigns = positive(options, "campaigns")?.unwrap_or(campaigns_default);
        if campaigns > campaigns_max {
            return Err(ConnectorError::option("campaigns", format!("must be at most {campaigns_max}")));
        }
        // Grizzly's events have no advertisements to count.
        let ads_asked = if variant == Variant::Grizzly { None } else { positive(options, "ads")? };
        let ads = ads_asked.unwrap_or(campaigns * ADS_PER_CAMPAIGN);
        if ads < campaigns || ads > 1 << 40 {
            let problem = format!("must be at least the number of campaigns, {campaigns}, and at most {}", 1u64 << 40);
            return Err(ConnectorError::option("ads", problem));
        }
        let identities = Stream::new(seed, "campaign identities");
        let tens = identities.at(0).below_wide(CAMPAIGN_ID_MAX / 10) * 10;
        Ok(Ads {
            campaigns,
            count: Divisor::new(ads),
            first_id: u64::from(variant == Variant::Enjima),
            // Ending in 1, 3, 7 or 9 it shares no factor with the modulus, so that all identities differ.
            step: tens + [1, 3, 7, 9][identities.at(1).below(4) as usize],
            start: identities.at(2).below_wide(CAMPAIGN_ID_MAX),
        })
    }

    /// The identity of the campaign that advertisement number `ad` belongs to.
    fn campaign_id(&self, ad: u64) -> u64 {
        let campaign = self.count.quotient(ad * self.campaigns);
        1 + (campaign * self.step + self.start) % CAMPAIGN_ID_MAX
    }
}

/// Generates the wanted columns of one table.
#[derive(Debug)]
struct Ysb {
    variant: Variant,
    columns: Vec<Column>,
    ads: Ads,
    /// `None` for the list of advertisements.
    times: Option<EventTimes>,
    shuffled: bool,
    user: Stream,
    page: Stream,
    advertisement: Stream,
    ad_type: Stream,
    event_type: Stream,
    ip: Stream,
    value: Stream,
    ad_types: ArrayRef,
    event_types: ArrayRef,
}

impl Ysb {
    fn column(&self, column: Column, rows: Range<u64>) -> ArrayRef {
        let identities = |stream: Stream, rows: Range<u64>| numbers(rows.map(|row| (stream.at(row).0 >> 1) as i64));
        let first_ad = self.ads.first_id as i64;
        match column {
            Column::UserId => identities(self.user, rows),
            Column::PageId => identities(self.page, rows),
            Column::CampaignId => {
                let campaigns = self.ads.campaigns as u32;
                numbers(rows.map(|row| i64::from(self.advertisement.at(row).below(campaigns))))
            }
            Column::AdId if self.shuffled => {
                let ads = self.ads.count.get();
                numbers(rows.map(|row| self.advertisement.at(row).below_wide(ads) as i64 + first_ad))
            }
            Column::AdId => numbers(rows.map(|row| self.ads.count.remainder(row) as i64 + first_ad)),
            Column::AdType => self.kinds::<{ AD_TYPES.len() as u32 }>(self.ad_type, &self.ad_types, rows),
            Column::EventType => self.kinds::<{ EVENT_TYPES.len() as u32 }>(self.event_type, &self.event_types, rows),
            Column::EventTime => {
                let event_times = self.times.expect("only events have this column, and they have times");
                times(rows.map(|row| event_times.at_ms(row)))
            }
            Column::Ip => Arc::new(Int32Array::from_iter_values(rows.map(|row| self.ip.at(row).0 as i32))),
            Column::Value => numbers(rows.map(|row| i64::from(self.value.at(row).below(100)))),
            Column::ListedAd => numbers(rows.map(|ad| ad as i64 + first_ad)),
            Column::ListedCampaign => numbers(rows.map(|ad| self.ads.campaign_id(ad) as i64)),
        }
    }

    /// One of `COUNT` kinds for each row: its name for Grizzly, else its number.
    fn kinds<const COUNT: u32>(&self, stream: Stream, names: &ArrayRef, rows: Range<u64>) -> ArrayRef {
        let kinds: Vec<u8> = match self.shuffled {
            true => rows.map(|row| stream.at(row).below(COUNT) as u8).collect(),
            false => rows.map(|row| (row % u64::from(COUNT)) as u8).collect(),
        };
        match self.variant {
            Variant::Grizzly => Arc::new(DictionaryArray::new(UInt8Array::from(kinds), names.clone())),
            Variant::LightSaber | Variant::Enjima => {
                Arc::new(Int8Array::from_iter_values(kinds.into_iter().map(|kind| kind as i8)))
            }
        }
    }
}

impl Generator for Ysb {
    fn columns(&self, rows: Range<u64>) -> Vec<ArrayRef> {
        self.columns.iter().map(|&column| self.column(column, rows.clone())).collect()
    }
}

#[cfg(test)]
mod tests;
