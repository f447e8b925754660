//! The real data sets that lie beside the repository, each read once.

mod support;

use std::path::{Path, PathBuf};

use arrow::array::{Array, AsArray};
use arrow::compute::sum;
use arrow::datatypes::Float64Type;
use pelton_connectors::declared;
use support::{options, read, request, schema};

/// The file of a data set, or `None`, which the test's output then says.
fn data(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let places = [root.join("../shared/data"), root.join("data")];
    let found = places.iter().map(|place| place.join(name)).find(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: ../shared/data/{name} is not there");
    }
    found
}

/// Rows of a data set as a table of these columns.
fn check(name: &str, columns: &str, pairs: &[&str], rows: usize) {
    let Some(path) = data(name) else { return };
    let request = request(schema(columns), options(path.to_str().unwrap(), pairs));
    let table = read(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(table.rows.num_rows(), rows, "{name}");
}

#[test]
fn rows_are_those_that_the_descriptions_say() {
    let blanks = ["format=csv", "csv.delimiter-run=true"];
    let taxi = "vendor_id STRING, rate_code INT, passenger_count INT, trip_time_in_secs INT, trip_distance DOUBLE, \
        payment_type STRING, fare_amount DECIMAL(10,2)";
    check("nyc_taxi_2013/taxi-fare-train.csv", taxi, &["csv.header=true"], 100_000);
    check("nyc_taxi_2013/taxi-fare-test.csv", taxi, &["csv.header=true"], 100_000);
    check(
        "google_cluster_task_events/google-cluster-data.txt",
        "timestamp BIGINT, job BIGINT, task BIGINT, machine BIGINT, \
        event INT, user INT, category INT, priority INT, cpu FLOAT, ram FLOAT, disk FLOAT, constraints INT",
        &blanks,
        16_385,
    );
    check(
        "debs2014_smart_grid/smartgrid-data.txt",
        "timestamp BIGINT, value FLOAT, property INT, plug INT, household INT, \
        house INT",
        &blanks,
        33_628,
    );
    check(
        "apache_access_log/apache_logs.gz",
        "line STRING NOT NULL",
        &["format=csv", "csv.field-delimiter=\u{1}", "csv.disable-quote-character=true"],
        10_000,
    );
    check(
        "github_events_2021/2021-07-21-few-hours.json.gz",
        "id BIGINT NOT NULL, type STRING NOT NULL, public BOOLEAN, \
        created_at TIMESTAMP_LTZ(3) NOT NULL",
        &[],
        800,
    );
    check(
        "wikipedia_edits_2015/wikiticker-2015-09-12-sampled.json.gz",
        "time TIMESTAMP_LTZ(3) NOT NULL, channel STRING NOT NULL, \
        cityName STRING, isRobot BOOLEAN, metroCode INT, page STRING, delta BIGINT",
        &[],
        39_244,
    );
    let linear_road = [
        "type", "time", "vid", "speed", "xway", "lane", "dir", "seg", "pos", "qid", "sinit", "send", "dow", "tod",
        "day",
    ];
    let linear_road = linear_road.map(|name| format!("{name} INT NOT NULL")).join(", ");
    check("linear_road_driver_sample/lr_0_323s_sorted.csv", &linear_road, &[], 20_368);
    let mut machine = "ts TIMESTAMP_LTZ(6) NOT NULL, message BIGINT".to_string();
    (0..54).for_each(|column| machine += &format!(", c{column} INT"));
    check("debs2012_manufacturing/DEBS2012-small.txt", &machine, &["format=csv", "csv.field-delimiter=\\t"], 17_000);
    check(
        "nyc_taxi_2013/debs2015_first_10k.csv",
        "medallion STRING, hack STRING, pickup TIMESTAMP(0), dropoff TIMESTAMP(0), secs INT, \
        distance DOUBLE, x1 DOUBLE, y1 DOUBLE, x2 DOUBLE, y2 DOUBLE, payment STRING, fare DECIMAL(10,2), surcharge DECIMAL(10,2), \
        tax DECIMAL(10,2), tip DECIMAL(10,2), tolls DECIMAL(10,2), total DECIMAL(10,2)",
        &[],
        10_004,
    );
}

#[test]
fn linear_road_is_separated_by_runs_of_tabs() {
    let columns = "timestamp BIGINT, vehicle INT, speed FLOAT, highway INT, lane INT, direction INT, position INT";
    let Some(directory) = data("linear_road_lightsaber") else { return };
    let file = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "txt")).unwrap();
    let pairs = ["format=csv", "csv.delimiter-run=true", "csv.field-delimiter=\\t"];
    let table = read(&request(schema(columns), options(file.to_str().unwrap(), &pairs))).unwrap();
    assert_eq!(table.rows.num_rows(), 16_384);
}

#[test]
fn columns_and_values_of_taxi_trips_are_inferred() {
    let Some(path) = data("nyc_taxi_2013/yellow_tripdata_2013-01_first999.csv") else { return };
    let options = options(path.to_str().unwrap(), &["csv.header=true"]);
    let schema = declared(&options).unwrap().unwrap().schema;
    let found = read(&request(schema.clone(), options)).unwrap().rows;
    assert_eq!(found.num_rows(), 997);
    let of = |name: &str| pelton_data::column::sql_name(schema.field_with_name(name).unwrap().data_type());
    assert_eq!(of("pickup_datetime"), "TIMESTAMP(3)");
    assert_eq!(of("passenger_count"), "BIGINT");
    let fares = found.column_by_name("fare_amount").unwrap();
    assert_eq!(fares.null_count(), 0);
    assert!(sum(fares.as_primitive::<Float64Type>()).unwrap() > 997.0 * 2.5);
    let vendors = found.column_by_name("vendor_id").unwrap();
    assert_eq!(vendors.as_string_view().iter().filter(|vendor| *vendor == Some("VTS")).count(), 874);
}
