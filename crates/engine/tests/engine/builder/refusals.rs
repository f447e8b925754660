//! What cannot be put together, and what is said then.

use std::sync::Arc;

use pelton::arrow::datatypes::Field;

use super::*;

#[test]
fn refusals_name_what_is_wrong_and_what_would_be_right() -> Result<(), Error> {
    let session = session();
    let endless = || session.table("endless").unwrap();
    let bid = || session.table("bid").unwrap();
    let person = || session.table("person").unwrap();
    for (query, expected) in [
        (
            endless().select([col("pric")]),
            ".select(…): there is no column pric; did you mean price? (names are case sensitive)",
        ),
        (endless().filter(col("x").gt(lit(1))), ".filter(…): there is no column x; there are id, price"),
        (
            endless().filter(col("price")),
            ".filter(…): WHERE and HAVING need a condition, and 'endless.price' is a BIGINT; compare it with something",
        ),
        (endless().filter(col("price").gt(lit(true))), ".filter(…): there is no BIGINT > BOOLEAN; CAST one of the two"),
        (
            endless().select([sum(col("price"))]),
            ".select(…): sum(price) is an aggregate; compute it with aggregate, and name the column that it gives here",
        ),
        (
            endless().aggregate([col("price")]),
            ".aggregate(…): price aggregates nothing; group by it, or aggregate it with count, sum, avg, min or max",
        ),
        (
            endless().aggregate([sum(col("price"))]),
            "an aggregation without a window over an unbounded table is not supported yet; cut the rows into windows first: window(TimeWindow::tumble(time_column, size))",
        ),
        (
            bid().group_by([col("channel")]).aggregate([count_all().alias("n")])?.select([col("price")]),
            ".select(…): there is no column price; there are channel, n",
        ),
        (
            bid().join(person(), JoinKind::Inner, col("bidder").eq(col("id"))).unwrap().select([col("dateTime")]),
            ".select(…): several columns are called dateTime; write table.dateTime, with the name or alias of its table",
        ),
        (
            endless().join(endless().alias("e").unwrap(), JoinKind::Inner, col("endless.id").eq(col("e.id"))),
            "a join of two unbounded tables is not supported yet; join rows of the same window, or rows near each other in time, as in AND a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts + INTERVAL '1' HOUR; or join a stream with a bounded table, which is loaded when the query starts",
        ),
        (
            bid().union_all(endless()),
            ".union_all(…): the parts of a UNION ALL have different numbers of columns; select as many columns as the first part does",
        ),
        (
            bid().select([session.call("UPPER", [col("channel"), col("price")])?]),
            ".select(…): the arguments of UPPER do not fit: function UPPER expects 1 arguments but received 2",
        ),
    ] {
        assert_eq!(refusal(query), expected);
    }
    assert_eq!(
        session.call("UPER", [col("channel")]).unwrap_err().to_string(),
        "there is no function UPER; did you mean UPPER?"
    );
    let other = Session::new();
    let _words = other.push_table("words", "word STRING")?;
    assert!(matches!(bid().union_all(other.table("words")?), Err(Error::Usage(_))));
    Ok(())
}

#[test]
fn refusals_of_windows_name_what_is_wrong_and_what_would_be_right() -> Result<(), Error> {
    let session = session();
    let endless = session.table("endless")?;
    let bid = || session.table("bid").unwrap();
    for (query, expected) in [
        (
            endless.window(seconds(1)),
            "there is no column dateTime to cut windows by; declare WATERMARK FOR column AS column - INTERVAL '5' SECOND, or a column AS PROCTIME(), in CREATE TABLE",
        ),
        (
            bid().window(TimeWindow::tumble("price", Duration::from_secs(1))),
            "price is not a time attribute, and windows are cut by time attributes only; the time attribute is dateTime",
        ),
        (
            bid().window(TimeWindow::tumble("dateTime", Duration::from_micros(1))),
            "the size of a window must be a positive number of milliseconds, not 1 us",
        ),
        (
            bid().window(TimeWindow::hop("dateTime", Duration::ZERO, Duration::from_secs(1))),
            "the slide of a window must be a positive number of milliseconds, not 0 s",
        ),
        (
            bid().window(TimeWindow::cumulate("dateTime", Duration::from_micros(500), Duration::from_secs(1))),
            "the step of a window must be a positive number of milliseconds, not 500 us",
        ),
        (
            bid().window(TimeWindow::cumulate("dateTime", Duration::from_secs(2), Duration::from_secs(5))),
            "the size of a cumulative window must be a multiple of its step 2 s, not 5 s",
        ),
        (
            bid().window(TimeWindow::session("dateTime", Duration::ZERO)),
            "the gap of a window must be a positive number of milliseconds, not 0 s",
        ),
        (
            bid().window(TimeWindow::session("dateTime", Duration::from_secs(1)).offset(Duration::from_secs(1))),
            "sessions have no offset",
        ),
        (
            bid().window(TimeWindow::session("dateTime", Duration::from_secs(1)).partition_by(["actor"])),
            "there is no column actor to partition by; there are auction, bidder, price, channel, url, dateTime, extra",
        ),
        (
            bid().window(seconds(1).partition_by(["auction"])),
            "only sessions are partitioned; group other windows by their keys",
        ),
        (
            bid().window(seconds(1).offset(Duration::from_secs(1))),
            "the offset of a window must be whole milliseconds and shorter than its size 1 s, not 1 s",
        ),
    ] {
        assert_eq!(refusal(query), format!(".window(…): {expected}"));
    }
    Ok(())
}

#[test]
fn casts_of_nested_values_are_refused() -> Result<(), Error> {
    let session = session();
    let view = session.prepare("CREATE VIEW arrays AS SELECT ARRAY[price] AS a FROM bid")?.remove(0);
    session.execute(&view)?;
    let to = |element: DataType| DataType::List(Arc::new(Field::new_list_field(element, true)));
    let cast_to = |element: DataType| session.table("arrays")?.select([cast(col("a"), to(element)).alias("b")]);
    assert_eq!(
        refusal(cast_to(DataType::Decimal128(5, 2))),
        ".select(…): there is no CAST of ARRAY<BIGINT NOT NULL> to ARRAY<DECIMAL(5, 2)>; write ARRAY[…], MAP[…] or ROW(…)"
    );
    // The type that the value has, but for NULLs.
    assert!(cast_to(DataType::Int64)?.explain().is_ok());
    Ok(())
}
