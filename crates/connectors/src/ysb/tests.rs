use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int8Type, Int64Type, TimestampMillisecondType, UInt8Type};

use super::*;
use crate::testing::{refusal, rows, table, wanting};

fn of<'a>(options: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&[("connector", "ysb")], options].concat()
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> &'a [i64] {
    batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().values()
}

fn windows(batch: &RecordBatch) -> Vec<i64> {
    let times = batch.column_by_name("event_time").unwrap().as_primitive::<TimestampMillisecondType>();
    times.values().iter().map(|time| time / 10_000).collect()
}

#[test]
fn joined_counts_have_their_closed_form() {
    for (variant, first) in [("lightsaber", 0), ("enjima", 1)] {
        let ads = rows(&table(&of(&[("variant", variant), ("table", "ads")]), 64));
        assert!(column(&ads, "ad_id").iter().copied().eq(first..1_000 + first));
        let campaign_of: HashMap<i64, i64> =
            column(&ads, "ad_id").iter().copied().zip(column(&ads, "campaign_id").iter().copied()).collect();
        let mut ads_of: BTreeMap<i64, usize> = BTreeMap::new();
        campaign_of.values().for_each(|&campaign| *ads_of.entry(campaign).or_default() += 1);
        assert!(ads_of.len() == 100 && ads_of.values().all(|&ads| ads == 10));
        assert!(ads_of.keys().all(|campaign| (1..=1_000_000).contains(campaign)));

        // 300,000 rows at 10,000 a second: three windows.
        let events = rows(&table(&of(&[("variant", variant), ("rows", "300000")]), 16_384));
        let kinds = events.column_by_name("event_type").unwrap().as_primitive::<Int8Type>().values();
        let windows = windows(&events);
        let mut counts: BTreeMap<(i64, i64), u64> = BTreeMap::new();
        for row in (0..windows.len()).filter(|&row| kinds[row] == 0) {
            *counts.entry((windows[row], campaign_of[&column(&events, "ad_id")[row]])).or_default() += 1;
        }
        // A view of an ad is one row of 3,000: a multiple of three that leaves the ad's number modulo 1,000.
        let views_before = |row: u64, ad: u64| (row + 2_999 - (ad + 1_000 * ((3 - ad % 3) % 3))) / 3_000;
        let mut closed: BTreeMap<(i64, i64), u64> = BTreeMap::new();
        for (window, start) in (windows[0]..windows[0] + 3).zip([0, 100_000, 200_000]) {
            for (&ad, &campaign) in &campaign_of {
                let ad = (ad - first) as u64;
                let views = views_before(start + 100_000, ad) - views_before(start, ad);
                *closed.entry((window, campaign)).or_default() += views;
            }
        }
        assert_eq!(counts, closed);
    }
}

#[test]
fn grizzly_events_name_their_types_in_one_byte() {
    for (order, tolerance) in [("sequential", 1.0), ("shuffled", 900.0)] {
        let events = rows(&table(&of(&[("rows", "90000"), ("event-types", order)]), 16_384));
        let kinds = events.column_by_name("event_type").unwrap().as_dictionary::<UInt8Type>();
        let names = kinds.downcast_dict::<StringViewArray>().unwrap();
        for name in EVENT_TYPES {
            let count = names.into_iter().filter(|&kind| kind == Some(name)).count();
            assert!((count as f64 - 30_000.0).abs() < tolerance, "{name}: {count}");
        }
        let campaigns: HashSet<_> = column(&events, "campaign_id").iter().collect();
        assert!(campaigns.len() > 9_900 && campaigns.iter().all(|id| (0..10_000).contains(*id)));
    }
}

#[test]
fn chunks_and_wanted_columns_do_not_matter() {
    for variant in ["grizzly", "lightsaber", "enjima"] {
        for order in ["sequential", "shuffled"] {
            let options = of(&[("variant", variant), ("rows", "500"), ("event-types", order)]);
            let whole = rows(&table(&options, 1_000));
            assert_eq!(rows(&table(&options, 7)), whole);
            for (index, field) in whole.schema().fields().iter().enumerate() {
                let alone = rows(&wanting(table(&options, 64), &[field.name()]));
                assert_eq!(alone.column(0), whole.column(index), "{}", field.name());
            }
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let request = |options: &[(&str, &str)]| table(&of(options), 1);
    let ads = refusal(&request(&[("table", "ads"), ("variant", "enjima"), ("rows", "5")]));
    assert_eq!(ads, "option 'rows' has no effect on this table; leave it out");
    let campaigns = refusal(&request(&[("variant", "enjima"), ("campaigns", "2000000")]));
    assert_eq!(campaigns, "option 'campaigns' must be at most 1000000");
    let mut request = request(&[]);
    request.options.insert("table".into(), "ads".into());
    assert_eq!(
        refusal(&request),
        "option 'table' 'ads' needs 'variant' = 'lightsaber' or 'enjima': grizzly's events hold their campaign"
    );
}
