//! A query put together by calls instead of written as text: how many bids each channel gets in every ten seconds of a
//! generated stream, and how dear they are. `cargo run --release -p pelton --example builder`

use std::time::Duration;

use pelton::arrow::util::display::array_value_to_string;
use pelton::builder::{TimeWindow, avg, col, count_all, lit, max};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let session = pelton::Session::new();
    for statement in session.prepare(
        "CREATE TABLE bid (WATERMARK FOR dateTime AS dateTime - INTERVAL '1' SECOND)
         WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows' = '300000', 'pace' = 'flat-out')",
    )? {
        session.execute(&statement)?;
    }
    let lower = session.call("LOWER", [col("channel")])?;
    let query = session
        .table("bid")?
        .filter(col("price").gt(lit(100_i64)))?
        .window(TimeWindow::tumble("dateTime", Duration::from_secs(10)))?
        .group_by([lower.alias("channel")])
        .aggregate([count_all().alias("bids"), avg(col("price")).alias("mean"), max(col("price")).alias("highest")])?
        .filter(col("bids").gt(lit(1_000_i64)))?
        .select([col("window_start"), col("channel"), col("bids"), col("mean"), col("highest")])?
        .order_by([col("window_start").sort(true, true), col("bids").sort(false, false)])?;
    println!("{}", query.explain()?);
    for batch in query.run()?.collect()? {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row));
            println!("{}", values.collect::<Result<Vec<_>, _>>()?.join("  "));
        }
    }
    Ok(())
}
