use std::collections::{BTreeMap, HashSet};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, TimestampMillisecondType};

use crate::testing::{refusal, rows, table, wanting};

const COUNT: u64 = 200_000;

fn of<'a>(options: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&[("connector", "hdes")], options].concat()
}

fn generated(options: &[(&str, &str)]) -> RecordBatch {
    let count = COUNT.to_string();
    rows(&table(&of(&[&[("rows", count.as_str())], options].concat()), 16_384))
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> &'a [i64] {
    batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().values()
}

/// Mean, standard deviation, and the share of values within one deviation of the mean.
fn moments(values: impl Iterator<Item = i64> + Clone) -> (f64, f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<i64>() as f64 / count;
    let deviation = (values.clone().map(|value| (value as f64 - mean).powi(2)).sum::<f64>() / count).sqrt();
    let near = values.filter(|&value| (value as f64 - mean).abs() <= deviation).count();
    (mean, deviation, near as f64 / count)
}

#[track_caller]
fn assert_normal(values: impl Iterator<Item = i64> + Clone, mean: f64, deviation: f64) {
    let (found_mean, found_deviation, near) = moments(values);
    // Five standard errors of the mean, and of the deviation.
    let error = deviation / (COUNT as f64).sqrt();
    assert!((found_mean - mean).abs() < 5.0 * error + 1.0, "the mean is {found_mean}");
    assert!((found_deviation - deviation).abs() < 5.0 * error, "the deviation is {found_deviation}");
    assert!((near - 0.683).abs() < 0.015, "{near} of the values are near the mean");
}

#[test]
fn two_streams_share_as_many_values_as_is_asked_for() {
    let values =
        |options: &[(&str, &str)]| -> HashSet<i64> { column(&generated(options), "value").iter().copied().collect() };
    let basic = [values(&[]), values(&[("stream", "2")])];
    assert_eq!(basic.each_ref().map(HashSet::len), [10_001; 2]);
    assert_eq!(basic[0].intersection(&basic[1]).collect::<Vec<_>>(), [&1]);
    assert_eq!(basic[0].iter().max(), Some(&19_999));
    let shared = [("own-values", "50"), ("shared-values", "100")];
    let many = ["1", "2"].map(|stream| values(&[&[("stream", stream)], &shared[..]].concat()));
    assert_eq!(many.each_ref().map(HashSet::len), [150; 2]);
    let mut common: Vec<i64> = many[0].intersection(&many[1]).copied().collect();
    common.sort_unstable();
    assert_eq!(common, (1..=100).collect::<Vec<_>>());
}

#[test]
fn values_come_in_turn_or_at_random() {
    let counts = |options: &[(&str, &str)]| {
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        let options = [&[("own-values", "39")], options].concat();
        column(&generated(&options), "value").iter().for_each(|&value| *counts.entry(value).or_default() += 1);
        counts
    };
    let cyclic = counts(&[]);
    assert!(cyclic.len() == 40 && cyclic.values().all(|&count| count == COUNT / 40));
    let random = [counts(&[("values", "random")]), counts(&[("values", "random"), ("stream", "2")])];
    assert_ne!(random[0][&1], random[1][&1]);
    for counts in random {
        // Five standard deviations of a binomial count.
        assert!(counts.len() == 40 && counts.values().all(|&count| count.abs_diff(COUNT / 40) < 350), "{counts:?}");
    }
}

#[test]
fn bids_and_auctions_are_distributed_as_in_nexmark_light() {
    let bids = generated(&[("table", "bid")]);
    assert!(column(&bids, "id").iter().copied().eq(0..COUNT as i64));
    // Auctions before number 100,000 may be cut off at 0.
    let ages = column(&bids, "auction").iter().zip(0..).map(|(auction, row)| row - auction).skip(COUNT as usize / 2);
    let (mean, deviation, near) = moments(ages);
    assert!((mean - 50_000.0).abs() < 250.0 && (deviation - 15_000.0).abs() < 200.0 && (near - 0.683).abs() < 0.015);
    assert!(column(&bids, "auction").iter().all(|&auction| auction >= 0));
    assert_normal(column(&bids, "bidder").iter().copied(), 50_000.0, 15_000.0);
    assert_normal(column(&bids, "price").iter().copied(), 5_000.0, 1_500.0);
    let auctions = generated(&[("table", "auction")]);
    assert!(column(&auctions, "id").iter().copied().eq(0..COUNT as i64));
    assert_normal(column(&auctions, "reserve").iter().copied(), 5_000.0, 1_500.0);
    for (name, all) in [("quantity", 1..100), ("category", 0..20)] {
        let found: HashSet<i64> = column(&auctions, name).iter().copied().collect();
        assert_eq!(found, all.collect(), "{name}");
    }
}

#[test]
fn bids_and_auctions_have_the_same_times() {
    let times = |name| {
        let batch = generated(&[("table", name), ("rows-per-second", "100000"), ("pace", "flat-out")]);
        batch.column_by_name("dateTime").unwrap().as_primitive::<TimestampMillisecondType>().values().to_vec()
    };
    let bids = times("bid");
    assert_eq!(bids, times("auction"));
    assert_eq!((bids[99] - bids[0], bids[100] - bids[0]), (0, 1));
}

#[test]
fn chunks_and_wanted_columns_do_not_matter() {
    for name in ["events", "bid", "auction"] {
        let options = of(&[("table", name), ("rows", "500")]);
        let whole = rows(&table(&options, 1_000));
        assert_eq!(rows(&table(&options, 7)), whole);
        for (index, field) in whole.schema().fields().iter().enumerate() {
            let alone = rows(&wanting(table(&options, 64), &[field.name()]));
            assert_eq!(alone.column(0), whole.column(index), "{name}.{}", field.name());
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |options: &[(&str, &str)]| refusal(&table(&of(options), 1));
    assert_eq!(
        refused(&[("table", "bid"), ("stream", "2")]),
        "option 'stream' has no effect on this table; leave it out"
    );
    assert_eq!(refused(&[("own-values", "3000000000")]), "option 'own-values' must be at most 2147483648");
    assert_eq!(refused(&[("stream", "0")]), "option 'stream' must be a whole number of at least 1, not '0'");
}
