//! The Yahoo streaming benchmark: a third of the events pass, and are counted or summed by campaign in tumbling windows.

use std::ops::Range;

use pelton_data::{Block, Micros};

use super::select::{self, CHUNK_ROWS, Selection};
use super::{event_types, integers, windows};

/// Columns of Grizzly's variant, as indices into the blocks: SUM(value) by campaign.
#[derive(Debug, Clone, Copy)]
pub struct SumColumns {
    /// What happened.
    pub event_type: usize,
    /// The key.
    pub campaign: usize,
    /// What is summed.
    pub value: usize,
}

/// Columns of LightSaber's variant, as indices into the blocks: COUNT(*) and MAX(time) by the advertisement's campaign.
#[derive(Debug, Clone, Copy)]
pub struct CountColumns {
    /// What happened.
    pub event_type: usize,
    /// Looked up to find the campaign.
    pub ad: usize,
    /// Event time.
    pub time: usize,
}

/// One window's groups: for each key its values, in order of the keys.
pub type Window<V> = (Micros, Vec<(i64, V)>);

/// Sums by campaign over tumbling windows of events in order of time. Campaigns lie in `campaigns`.
///
/// # Panics
/// Where a campaign of a passing event lies outside.
pub fn sums(blocks: &[Block], columns: SumColumns, campaigns: Range<i64>, window: Micros) -> Vec<Window<i64>> {
    let groups = usize::try_from(campaigns.end - campaigns.start).expect("a range of keys");
    let mut open: Option<(Micros, Vec<Sum>)> = None;
    let mut closed = Vec::new();
    for block in blocks {
        let (types, view) = event_types(block, columns.event_type);
        let (keys, values) = (integers(block, columns.campaign), integers(block, columns.value));
        windows(block, window, |start, rows| {
            if open.as_ref().is_none_or(|(open, _)| *open != start) {
                close_sums(open.take(), campaigns.start, &mut closed);
                open = Some((start, vec![Sum::default(); groups]));
            }
            let table = &mut open.as_mut().expect("opened above").1;
            add_sums(&types[rows.clone()], view, &keys[rows.clone()], &values[rows], campaigns.start, table);
        });
    }
    close_sums(open, campaigns.start, &mut closed);
    closed
}

#[derive(Clone, Copy, Default)]
struct Sum {
    sum: i64,
    present: bool,
}

fn add_sums(types: &[u8], view: u8, keys: &[i64], values: &[i64], base: i64, table: &mut [Sum]) {
    let mut selection: Selection = [0; CHUNK_ROWS + 16];
    let chunks = types.chunks(CHUNK_ROWS).zip(keys.chunks(CHUNK_ROWS)).zip(values.chunks(CHUNK_ROWS));
    for ((types, keys), values) in chunks {
        assert!(types.len() == keys.len() && types.len() == values.len());
        let count = select::equal(types, view, &mut selection);
        for &row in &selection[..count] {
            // SAFETY: the selection holds positions in `types`, which is as long as the other columns.
            let (key, value) = unsafe { (*keys.get_unchecked(row as usize), *values.get_unchecked(row as usize)) };
            let group = &mut table[(key - base) as usize];
            group.sum = group.sum.wrapping_add(value);
            group.present = true;
        }
    }
}

fn close_sums(open: Option<(Micros, Vec<Sum>)>, base: i64, closed: &mut Vec<Window<i64>>) {
    if let Some((start, table)) = open {
        let groups = table.iter().zip(base..).filter(|(group, _)| group.present);
        closed.push((start, groups.map(|(group, key)| (key, group.sum)).collect()));
    }
}

/// Counts and latest times by campaign over tumbling windows of events in order of time. `campaign_of[ad - ads.start]` is an ad's
/// campaign.
///
/// # Panics
/// Where an advertisement of a passing event lies outside.
pub fn counts(
    blocks: &[Block],
    columns: CountColumns,
    ads: Range<i64>,
    campaign_of: &[i64],
    window: Micros,
) -> Vec<Window<(u64, i64)>> {
    let mut campaigns: Vec<i64> = campaign_of.to_vec();
    campaigns.sort_unstable();
    campaigns.dedup();
    let group_of: Vec<u32> =
        campaign_of.iter().map(|campaign| campaigns.binary_search(campaign).expect("one of them") as u32).collect();
    let mut open: Option<(Micros, Vec<Count>)> = None;
    let mut closed = Vec::new();
    for block in blocks {
        let (types, view) = event_types(block, columns.event_type);
        let (ad_column, times) = (integers(block, columns.ad), integers(block, columns.time));
        windows(block, window, |start, rows| {
            if open.as_ref().is_none_or(|(open, _)| *open != start) {
                close_counts(open.take(), &campaigns, &mut closed);
                open = Some((start, vec![Count::default(); campaigns.len()]));
            }
            let table = &mut open.as_mut().expect("opened above").1;
            let lookup = Lookup { base: ads.start, group_of: &group_of, shift: block.time_shift_ticks() };
            add_counts(&types[rows.clone()], view, &ad_column[rows.clone()], &times[rows], &lookup, table);
        });
    }
    close_counts(open, &campaigns, &mut closed);
    closed
}

#[derive(Clone, Copy)]
struct Count {
    count: u64,
    latest: i64,
}

impl Default for Count {
    fn default() -> Count {
        Count { count: 0, latest: i64::MIN }
    }
}

struct Lookup<'a> {
    base: i64,
    group_of: &'a [u32],
    shift: i64,
}

fn add_counts(types: &[u8], view: u8, ads: &[i64], times: &[i64], lookup: &Lookup<'_>, table: &mut [Count]) {
    let mut selection: Selection = [0; CHUNK_ROWS + 16];
    let chunks = types.chunks(CHUNK_ROWS).zip(ads.chunks(CHUNK_ROWS)).zip(times.chunks(CHUNK_ROWS));
    for ((types, ads), times) in chunks {
        assert!(types.len() == ads.len() && types.len() == times.len());
        let count = select::equal(types, view, &mut selection);
        for &row in &selection[..count] {
            // SAFETY: the selection holds positions in `types`, which is as long as the other columns.
            let (ad, time) = unsafe { (*ads.get_unchecked(row as usize), *times.get_unchecked(row as usize)) };
            let group = &mut table[lookup.group_of[(ad - lookup.base) as usize] as usize];
            group.count += 1;
            group.latest = group.latest.max(time + lookup.shift);
        }
    }
}

fn close_counts(open: Option<(Micros, Vec<Count>)>, campaigns: &[i64], closed: &mut Vec<Window<(u64, i64)>>) {
    if let Some((start, table)) = open {
        let groups = table.iter().zip(campaigns).filter(|(group, _)| group.count > 0);
        closed.push((start, groups.map(|(group, campaign)| (*campaign, (group.count, group.latest))).collect()));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow::array::{
        Array, ArrayRef, DictionaryArray, Int8Array, Int64Array, RecordBatch, StringViewArray,
        TimestampMillisecondArray, UInt8Array,
    };
    use pelton_data::TimeColumn;

    use super::*;

    const ROWS: i64 = 5000;

    fn mixed(row: i64) -> i64 {
        (row.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) as u64 >> 33) as i64
    }

    /// Event type (`view` is code 1, or number 0), key 100..150, time in milliseconds; 700 rows a block, 10 ms a row.
    fn blocks(numbered: bool) -> Vec<Block> {
        let block = |first: i64| {
            let rows = first..(first + 700).min(ROWS);
            let words: ArrayRef = Arc::new(StringViewArray::from(vec!["click", "view", "purchase"]));
            let types = UInt8Array::from_iter_values(rows.clone().map(|row| (mixed(row) % 3) as u8));
            let types: ArrayRef = match numbered {
                true => Arc::new(Int8Array::from_iter_values(types.values().iter().map(|code| (*code as i8 + 2) % 3))),
                false => Arc::new(DictionaryArray::new(types, words)),
            };
            let keys: ArrayRef =
                Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| 100 + mixed(row + 9999) % 50)));
            let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values(rows.map(|row| row * 10)));
            let time = TimeColumn::new(2, times.data_type());
            let batch =
                RecordBatch::try_from_iter(vec![("event_type", types), ("key", keys), ("time", times)]).unwrap();
            Block::new(batch, time).unwrap().shifted(1_000_000)
        };
        (0..ROWS).step_by(700).map(block).collect()
    }

    fn passing() -> impl Iterator<Item = (i64, i64, i64)> {
        (0..ROWS)
            .filter(|row| mixed(*row) % 3 == 1)
            .map(|row| (row * 10 + 1000, 100 + mixed(row + 9999) % 50, row * 10))
    }

    #[test]
    fn sums_by_campaign() {
        let mut expected: BTreeMap<Micros, BTreeMap<i64, i64>> = BTreeMap::new();
        for (time, key, raw) in passing() {
            *expected.entry(time / 10_000 * 10_000_000).or_default().entry(key).or_default() += raw;
        }
        let columns = SumColumns { event_type: 0, campaign: 1, value: 2 };
        let found = sums(&blocks(false), columns, 100..150, 10_000_000);
        assert_eq!(found.len(), 6);
        assert_eq!(found, expected.into_iter().map(|(w, g)| (w, g.into_iter().collect())).collect::<Vec<_>>());
    }

    #[test]
    fn counts_and_latest_times_by_looked_up_campaign() {
        let campaign_of: Vec<i64> = (0..50).map(|ad| 7 + ad % 5 * 11).collect();
        let mut expected: BTreeMap<Micros, BTreeMap<i64, (u64, i64)>> = BTreeMap::new();
        for (time, ad, _) in passing() {
            let campaign = campaign_of[(ad - 100) as usize];
            let group =
                expected.entry(time / 10_000 * 10_000_000).or_default().entry(campaign).or_insert((0, i64::MIN));
            *group = (group.0 + 1, group.1.max(time));
        }
        let columns = CountColumns { event_type: 0, ad: 1, time: 2 };
        let found = counts(&blocks(true), columns, 100..150, &campaign_of, 10_000_000);
        assert_eq!(found, expected.into_iter().map(|(w, g)| (w, g.into_iter().collect())).collect::<Vec<_>>());
    }
}
