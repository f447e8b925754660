//! Table functions, joins in windows, and aggregations over the rows of two sides.

use std::sync::Arc;

use pelton::arrow::array::{AsArray, Int64Array};
use pelton::arrow::datatypes::{Field, Int64Type};
use pelton::builder::{ExprFunctionExt, TableCall, table_call};
use pelton::function::OutputRows;

use super::*;

const STREAMS: &str = "
    CREATE TABLE sold (WATERMARK FOR dateTime AS dateTime)
        WITH ('connector' = 'nexmark', 'table' = 'auction', 'rows' = '9200', 'pace' = 'flat-out');
    CREATE TABLE joined (WATERMARK FOR dateTime AS dateTime)
        WITH ('connector' = 'nexmark', 'table' = 'person', 'rows' = '9200', 'pace' = 'flat-out');
    CREATE VIEW tagged AS SELECT bidder, ARRAY[channel, 'any'] AS tags FROM bid";

fn streams() -> Session {
    let session = session();
    for statement in session.prepare(STREAMS).unwrap() {
        session.execute(&statement).unwrap();
    }
    session
}

#[test]
fn table_functions_are_those_of_sql() -> Result<(), Error> {
    let session = streams();
    check(
        &session,
        &session
            .table("tagged")?
            .flat_map(TableCall::unnest_with_ordinality(col("tags")).named("t", ["tag", "n"]))?
            .filter(col("n").eq(lit(1)))?
            .select([col("bidder"), col("tag")])?,
        "SELECT bidder, tag FROM tagged CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, n) WHERE n = 1",
    );
    let series = session.call_table("generate_series", [lit(1), col("bidder") - lit(1_000)])?.named("s", ["n"]);
    check(
        &session,
        &session
            .table("dear")?
            .flat_map(series.keep_unmatched())?
            .select([col("bidder"), col("n")])?
            .limit(0, Some(50))?,
        "SELECT bidder, n FROM dear LEFT JOIN LATERAL TABLE(GENERATE_SERIES(1, bidder - 1000)) AS s (n) ON TRUE LIMIT 50",
    );
    Ok(())
}

#[test]
fn closures_make_rows() -> Result<(), Error> {
    let session = session();
    let twice = table_call([col("price")], vec![Field::new("part", DataType::Int64, false)], |arguments| {
        let prices = arguments[0].as_primitive::<Int64Type>();
        let parts =
            prices.values().iter().zip(0..).flat_map(|(price, row)| [(row, price / 2), (row, price - price / 2)]);
        let (input_rows, parts): (Vec<u32>, Vec<i64>) = parts.unzip();
        Ok(OutputRows { input_rows, columns: vec![Arc::new(Int64Array::from(parts))] })
    });
    let halves =
        session.table("bid")?.flat_map(twice)?.aggregate([sum(col("part")).alias("p"), count_all().alias("n")])?;
    let whole = session.sql("SELECT SUM(price) AS p, COUNT(*) * 2 AS n FROM bid")?.collect()?;
    assert_eq!(rows(&halves.run()?.collect()?), rows(&whole));
    Ok(())
}

#[test]
fn rows_of_windows_are_joined_by_window() -> Result<(), Error> {
    let session = streams();
    let sold = || session.table("sold")?.window(seconds(1))?.alias("s");
    let joined = || session.table("joined")?.window(seconds(1))?.alias("p");
    for (kind, sql) in [(JoinKind::Inner, "JOIN"), (JoinKind::Left, "LEFT JOIN"), (JoinKind::Full, "FULL JOIN")] {
        let built = sold()?.join(joined()?, kind, col("seller").eq(col("p.id")))?;
        let built = built.select([col("s.id").alias("auction"), col("p.name")])?;
        let text = format!(
            "SELECT s.id AS auction, p.name
             FROM TUMBLE(TABLE sold, DESCRIPTOR(dateTime), INTERVAL '1' SECOND) AS s
             {sql} TUMBLE(TABLE joined, DESCRIPTOR(dateTime), INTERVAL '1' SECOND) AS p
             ON s.seller = p.id AND s.window_start = p.window_start AND s.window_end = p.window_end"
        );
        let (mut mine, mut theirs) = (rows(&built.run()?.collect()?), rows(&session.sql(&text)?.collect()?));
        mine.sort();
        theirs.sort();
        assert!(!theirs.is_empty() && mine == theirs, "{kind:?}");
    }
    let unnamed =
        sold()?.join(session.table("joined")?.window(seconds(1))?, JoinKind::Inner, col("seller").eq(col("joined.id")));
    assert_eq!(
        refusal(unnamed),
        ".join(…): both sides are cut into windows, and their windows need names that tell them apart; name both sides behind window(…), as in alias(\"a\") and alias(\"b\")"
    );
    Ok(())
}

#[test]
fn both_sides_of_a_co_group_are_aggregated_together() -> Result<(), Error> {
    let session = streams();
    let (sold, joined) = (session.table("sold")?.window(seconds(2))?, session.table("joined")?.window(seconds(2))?);
    let of_people = count_all().filter(col("side").eq(lit("right"))).build().unwrap().alias("people");
    let both = sold.clone().co_group(joined, [(col("seller").alias("who"), col("id"))])?;
    let both = both.aggregate([count(col("itemName")).alias("items"), min(col("name")).alias("name"), of_people])?;
    let expected = "
        SELECT window_start, window_end, who, COUNT(item) AS items, MIN(name) AS name, COUNT(*) FILTER (WHERE side = 'right') AS people
        FROM TUMBLE((SELECT dateTime, seller AS who, itemName AS item, CAST(NULL AS STRING) AS name, 'left' AS side FROM sold
                     UNION ALL SELECT dateTime, id, CAST(NULL AS STRING), name, 'right' FROM joined), DESCRIPTOR(dateTime), INTERVAL '2' SECOND)
        GROUP BY window_start, window_end, who";
    let (mut mine, mut theirs) = (rows(&both.run()?.collect()?), rows(&session.sql(expected)?.collect()?));
    mine.sort();
    theirs.sort();
    assert!(theirs.len() > 100);
    assert_eq!(mine, theirs);
    let one_sided = sold.co_group(session.table("joined")?, [(col("seller"), col("id"))]);
    let Err(Error::Plan(error)) = one_sided else { panic!("one side has no windows") };
    assert_eq!(
        error.to_string(),
        ".co_group(…): one side is cut into windows, and the other is not; call window(…) on both"
    );
    Ok(())
}

#[test]
fn calls_that_cannot_be_are_refused() -> Result<(), Error> {
    let session = streams();
    let tagged = || session.table("tagged").unwrap();
    assert_eq!(
        refusal(tagged().flat_map(TableCall::unnest(col("bidder")))),
        ".flat_map(…): UNNEST takes an ARRAY or a MAP, and this is of type BIGINT; write UNNEST(array) AS t (element), or UNNEST(map) AS t (key, value)"
    );
    assert_eq!(
        refusal(tagged().flat_map(TableCall::unnest(col("tags")).named("t", ["a", "b"]))),
        ".flat_map(…): UNNEST has 1 columns, and 2 names are given; name all of them, or none"
    );
    assert_eq!(
        refusal(tagged().flat_map(TableCall::unnest(col("tag")))),
        ".flat_map(…): there is no column tag; did you mean tags? (names are case sensitive)"
    );
    assert!(session.call_table("nope", []).is_err_and(|error| error.to_string().contains("no table function nope")));
    Ok(())
}
