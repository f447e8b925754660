//! What generating a row costs, in nanoseconds on one core, for the columns that benchmarks want.
//!
//! `cargo run --release -p pelton-connectors --example generator_rates`

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use pelton_connectors::{TableRequest, declared, open_source};
use pelton_data::BLOCK_ROWS_DEFAULT;
use pelton_runtime::source::Read;

/// Connector, options and wanted columns, separated by blanks; no columns means all.
const CASES: &[(&str, &str, &str)] = &[
    ("nexmark", "table=bid", "dateTime"),
    ("nexmark", "table=bid", "price"),
    ("nexmark", "table=bid", "auction"),
    ("nexmark", "table=bid", "bidder"),
    ("nexmark", "table=bid", "channel"),
    ("nexmark", "table=bid", "url"),
    ("nexmark", "table=bid", "extra"),
    ("nexmark", "table=bid", "auction price dateTime"),
    ("nexmark", "table=bid disorder=50", "auction price dateTime"),
    ("nexmark", "table=bid", ""),
    ("nexmark", "table=auction", ""),
    ("nexmark", "table=person", ""),
    ("nexmark", "table=events", "event_type dateTime bid_auction bid_price"),
    ("nexmark", "table=events", ""),
    ("hdes", "values=random", ""),
    ("hdes", "table=bid", ""),
    ("hdes", "table=auction", ""),
    ("ysb", "variant=grizzly event-types=shuffled", "campaign_id event_type event_time value"),
    ("ysb", "variant=lightsaber event-types=shuffled", "ad_id event_type event_time"),
    ("ysb", "variant=enjima", ""),
];

/// Enough for the clock, which moves in steps of a few milliseconds.
const ROWS: usize = 600 * BLOCK_ROWS_DEFAULT;

fn main() {
    for &(connector, options, columns) in CASES {
        let request = request(connector, options, columns);
        let mut runs: Vec<f64> = (0..5).map(|_| nanoseconds_per_row(&request)).collect();
        runs.sort_by(f64::total_cmp);
        println!("{:8.2} ns/row  {:6.1} M rows/s  {connector} {options}: {columns}", runs[2], 1e3 / runs[2]);
    }
}

fn request(connector: &str, options: &str, columns: &str) -> TableRequest {
    let mut map = BTreeMap::from([("connector".to_string(), connector.to_string())]);
    map.extend(options.split_whitespace().filter_map(|option| {
        let (name, value) = option.split_once('=')?;
        Some((name.to_string(), value.to_string()))
    }));
    map.insert("rows".into(), ROWS.to_string());
    let schema = declared(&map).expect("the options are right").expect("generators declare their columns").schema;
    let names: Vec<&str> = columns.split_whitespace().collect();
    let wanted = |column: &usize| names.is_empty() || names.contains(&schema.field(*column).name().as_str());
    TableRequest {
        name: connector.into(),
        columns: (0..schema.fields().len()).filter(wanted).collect(),
        schema: Arc::new(schema),
        metadata: BTreeMap::new(),
        partition_keys: Vec::new(),
        lengths: BTreeMap::new(),
        options: map,
        event_time: None,
        block_rows: BLOCK_ROWS_DEFAULT,
        seed: 1,
        strict_values: false,
        host: Default::default(),
    }
}

fn nanoseconds_per_row(request: &TableRequest) -> f64 {
    let mut source = open_source(request).expect("the request is right");
    let mut first = true;
    let mut started = on_processor_ns();
    let mut rows = 0;
    while let Read::Chunk(chunk) = source.read(0).expect("generators do not fail") {
        let batches = chunk().expect("generators do not fail").rows.into_batches();
        if std::mem::take(&mut first) {
            // The first chunk makes the words and pools that all others share.
            started = on_processor_ns();
        } else {
            rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        }
    }
    (on_processor_ns() - started) as f64 / rows as f64
}

/// How long this thread has been on a processor: what others take does not count.
fn on_processor_ns() -> u64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").expect("measured on Linux");
    times.split(' ').next().and_then(|time| time.parse().ok()).expect("the first number is nanoseconds")
}
