"""Queries that are put together by calls are planned as SQL is."""

import datetime as dt
import decimal

import pyarrow as pa
import pytest

import pelton
from pelton import asc, col, count, desc, lit


@pytest.fixture
def con(any_con):
    """All of this holds for engines of both kinds."""
    return any_con


@pytest.fixture
def trades(con):
    start = dt.datetime(2024, 1, 1)
    return con.register(
        "trades",
        {
            "symbol": ["A", "B", "A", "C", None] * 20,
            "price": [float(i % 13) for i in range(100)],
            "volume": list(range(100)),
            "ts": pa.array([start + dt.timedelta(seconds=i) for i in range(100)], pa.timestamp("ms")),
        },
        event_time="ts",
    )


PAIRS = [
    (
        lambda t: t.filter(col("price") > 10).window(pelton.tumble("ts", "10 s")).group_by("symbol").agg(total=pelton.sum("volume")),
        "SELECT window_start, window_end, symbol, SUM(volume) AS total FROM TUMBLE((SELECT * FROM trades WHERE price > 10), DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, window_end, symbol",
    ),
    (
        lambda t: t.window(pelton.hop("ts", "5 s", "20 s")).agg(count().alias("n")),
        "SELECT window_start, window_end, COUNT(*) AS n FROM HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND) GROUP BY window_start, window_end",
    ),
    (
        lambda t: t.window(pelton.cumulate("ts", "10 s", dt.timedelta(minutes=1))).agg(n=count()),
        "SELECT window_start, window_end, COUNT(*) AS n FROM CUMULATE(TABLE trades, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE) GROUP BY window_start, window_end",
    ),
    (
        lambda t: t.window(pelton.session("ts", "3 s", ["symbol"])).group_by("symbol").agg(n=count()),
        "SELECT window_start, window_end, symbol, COUNT(*) AS n FROM SESSION(TABLE trades PARTITION BY symbol, DESCRIPTOR(ts), INTERVAL '3' SECOND) GROUP BY window_start, window_end, symbol",
    ),
    (
        lambda t: t.select("symbol", twice=col("price") * 2 + 1, big=(col("volume") >= 10) & ~(col("symbol") == "A")),
        "SELECT symbol, price * 2 + 1 AS twice, volume >= 10 AND NOT symbol = 'A' AS big FROM trades",
    ),
    (
        lambda t: t.filter(col("symbol").is_in(["A", "B"]) | col("symbol").is_null()).filter(col("volume").between(5, 50)).select("volume"),
        "SELECT volume FROM (SELECT * FROM trades WHERE symbol IN ('A', 'B') OR symbol IS NULL) WHERE volume BETWEEN 5 AND 50",
    ),
    (
        lambda t: t.group_by("symbol").agg(n=count("symbol").distinct(), low=pelton.min("price"), high=pelton.max("price"), mean=pelton.avg("price"), few=count().filter(col("volume") < 5)),
        "SELECT symbol, COUNT(DISTINCT symbol) AS n, MIN(price) AS low, MAX(price) AS high, AVG(price) AS mean, COUNT(*) FILTER (WHERE volume < 5) AS few FROM trades GROUP BY symbol",
    ),
    (
        lambda t: t.filter(col("symbol").like("A%")).select(text=col("volume").cast(str)),
        "SELECT CAST(volume AS STRING) AS text FROM trades WHERE symbol LIKE 'A%'",
    ),
    (
        lambda t: t.select("ts", recent=pelton.sum("volume").over("ts", rows=3)),
        "SELECT ts, SUM(volume) OVER (ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS recent FROM trades",
    ),
    (lambda t: t.select("symbol").distinct(), "SELECT DISTINCT symbol FROM trades"),
    (
        lambda t: t.select("ts", near=pelton.count().over("ts", ["symbol"], range="10 s")),
        "SELECT ts, COUNT(*) OVER (PARTITION BY symbol ORDER BY ts RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW) AS near FROM trades",
    ),
    (
        lambda t: t.window(pelton.tumble("ts", "30 s", offset="10 s")).group_by("window_start").agg(n=count()),
        "SELECT window_end, window_start, COUNT(*) AS n FROM TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '10' SECOND) GROUP BY window_start, window_end",
    ),
    (
        lambda t: t.group_by((col("volume") % 3).alias("third")).agg(n=count()).filter(col("n") > 33).select("third"),
        "SELECT volume % 3 AS third FROM trades GROUP BY volume % 3 HAVING COUNT(*) > 33",
    ),
    (
        lambda t: t.window(pelton.tumble_rows(4, ["symbol"])).group_by("symbol").agg(total=pelton.sum("volume")),
        "SELECT window_start, window_end, symbol, SUM(volume) AS total FROM TUMBLE_ROWS(TABLE trades PARTITION BY symbol, 4) GROUP BY window_start, window_end, symbol",
    ),
    (
        lambda t: t.filter(col("volume") < 10).window(pelton.hop_rows(2, 4)).agg(total=pelton.sum("volume")),
        "SELECT window_start, window_end, SUM(volume) AS total FROM HOP_ROWS((SELECT * FROM trades WHERE volume < 10), 2, 4) GROUP BY window_start, window_end",
    ),
    (
        lambda t: t.filter(col("volume") > 90).join(t.alias("b"), col("trades.volume") == col("b.volume")).filter(col("b.price") > 3).select(col("trades.volume"), other=col("b.price")),
        "SELECT t.volume, b.price AS other FROM (SELECT * FROM trades WHERE volume > 90) AS t JOIN trades AS b ON t.volume = b.volume WHERE b.price > 3",
    ),
    (
        lambda t: t.alias("a").join(t.filter(col("volume") > 95).alias("b"), col("a.volume") == col("b.volume"), how="left").select(col("a.volume"), other=col("b.volume")),
        "SELECT a.volume, b.volume AS other FROM trades AS a LEFT JOIN (SELECT * FROM trades WHERE volume > 95) AS b ON a.volume = b.volume",
    ),
    (
        lambda t: t.window(pelton.tumble("ts", "10 s")).alias("a").join(t.window(pelton.tumble("ts", "10 s")).alias("b"), col("a.volume") == col("b.volume")).select(col("a.volume"), end=col("b.window_end")),
        "SELECT a.volume, b.window_end AS `end` FROM TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '10' SECOND) AS a JOIN TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '10' SECOND) AS b"
        " ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.volume = b.volume",
    ),
    (
        lambda t: t.select("symbol", half=-(1 - col("volume") / 2), kind=lit("it's")).limit(None, offset=95),
        "SELECT symbol, -(1 - volume / 2) AS half, 'it''s' AS kind FROM trades OFFSET 95",
    ),
    (
        lambda t: t.order_by(asc("symbol", nulls_first=False), desc("volume")).limit(5).select("symbol", "volume"),
        "SELECT symbol, volume FROM (SELECT * FROM trades ORDER BY symbol ASC NULLS LAST, volume DESC LIMIT 5)",
    ),
    (
        lambda t: t.order_by(desc("volume")).limit(3, offset=1).select("volume"),
        "SELECT volume FROM (SELECT * FROM trades ORDER BY volume DESC LIMIT 3 OFFSET 1)",
    ),
    (
        lambda t: t.select("volume").union_all(t.select("volume")),
        "SELECT volume FROM trades UNION ALL SELECT volume FROM trades",
    ),
    (
        lambda t: t.alias("a").join(t.alias("b"), (col("a.symbol") == col("b.symbol")) & (col("a.volume") == col("b.volume"))).select(col("a.volume")),
        "SELECT a.volume FROM trades AS a JOIN trades AS b ON a.symbol = b.symbol AND a.volume = b.volume",
    ),
]


def ordered(rows):
    return sorted(rows, key=repr)


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_calls_are_as_sql(con, trades, number):
    build, sql = PAIRS[number]
    built = build(trades)
    assert ordered(built.fetchall()) == ordered(con.sql(sql).fetchall())
    assert "pipeline" in built.explain()
    # What it says it is, it is.
    assert ordered(con.sql(built.sql()).fetchall()) == ordered(con.sql(sql).fetchall())


def test_top(con, trades):
    rows = trades.window(pelton.tumble("ts", "50 s")).top(1, desc("volume"), ["symbol"]).select("symbol", "volume").fetchall()
    assert ordered(rows) == ordered([("A", 47), ("B", 46), ("C", 48), (None, 49), ("A", 97), ("B", 96), ("C", 98), (None, 99)])


def test_unnest(con):
    lists = con.register("lists", {"k": ["a", "b"], "v": [[1, 2], []]})
    assert lists.unnest("v", columns=["item"]).select("k", "item").fetchall() == [("a", 1), ("a", 2)]
    kept = lists.unnest("v", columns=["item"], keep_unmatched=True).select("k", "item").fetchall()
    assert kept == [("a", 1), ("a", 2), ("b", None)]


def test_inserts(con, trades):
    con.execute("CREATE TABLE hole (volume BIGINT) WITH ('connector' = 'blackhole')")
    job = trades.select("volume").insert_into("hole")
    assert job.wait() and job.state == "FINISHED"


def test_literals(con):
    one = con.register("one", {"i": [1]})
    values = [
        True,
        False,
        1,
        -1,
        1 << 62,
        1.5,
        -1e300,
        5e-324,
        float("inf"),
        "x",
        "it's \"so\" \\ `here`\n",
        b"x\0'",
        dt.date(2024, 1, 1),
        dt.datetime(2024, 1, 1, 12),
        dt.datetime(1969, 12, 31, 23, 59, 59, 123_456),
        dt.datetime(2024, 7, 1, 12, 0, 0, 123_456, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        decimal.Decimal("1.50"),
        decimal.Decimal("-12345678901234567890.123456789"),
        None,
    ]
    for zone in ("UTC", "America/St_Johns"):
        con.set("table.local-time-zone", zone)
        row = one.select(**{f"v{number}": lit(value) for number, value in enumerate(values)}).fetchone()
        assert list(row) == values
    (nan,) = one.select(v=lit(float("nan"))).fetchone()
    assert nan != nan
    ahead = one.select(v=lit(dt.datetime(2024, 1, 1)) + dt.timedelta(days=1, microseconds=500_000)).fetchone()
    assert ahead == (dt.datetime(2024, 1, 2, 0, 0, 0, 500_000),)


def test_names_with_signs(con):
    table = con.register("a table", {"a.b": [1], "c`d": [2], "select": [3]})
    assert table.select('"a.b"', "c`d", "select").fetchall() == [(1, 2, 3)]
    assert table.alias("x y").select(col("x y.select")).fetchall() == [(3,)]
    assert repr(col('t."a""b"')) == '<pelton.Expr `t`.`a"b`>'
    for name in ("", "a.", '"a', 'a"b"'):
        with pytest.raises(pelton.Error, match="is no name of a column"):
            col(name)


def test_mistakes_are_named(con, trades):
    for call, message in [
        (lambda: trades.filter(col("pric") > 1), r"\.filter\(…\): there is no column pric; did you mean price\?"),
        (lambda: trades.group_by("symbol").agg("volume"), "aggregates nothing"),
        (lambda: trades.window(pelton.tumble("ts", "10 parsecs")), "'10 parsecs' is no length of time"),
        (lambda: con.table("trade"), "did you mean trades"),
        (lambda: trades.join(pelton.connect().register("t", {"i": [1]}), col("i") == 1), "different connections"),
        (lambda: trades.join(trades, col("i") == 1, how="outer"), "there is no join 'outer': it is inner, left, right, full"),
        (lambda: trades.window(pelton.tumble("ts", 1)).join(trades.window(pelton.tumble("ts", 1)), lit(True)), r"behind window\(…\)"),
        (lambda: trades.select(), "there are no columns to select"),
        (lambda: trades.select(x=col("price").distinct()), "`price` is no call of an aggregate function"),
        (lambda: trades.select(con.call("UPPPER", "symbol")), r"\.select\(…\): .*UPPPER"),
        (lambda: con.call("a b"), "'a b' is no name of a function"),
        (lambda: pelton.sum("price").over("ts", rows=1, range=1), "not both"),
        (lambda: lit(object()), "there is no literal of"),
    ]:
        with pytest.raises(pelton.Error, match=message):
            call()
    with pytest.raises(TypeError, match="write & for AND"):
        trades.filter(col("price") > 1 and col("volume") > 1)


def test_ascending_keys(con, trades):
    assert trades.order_by(asc("volume"), "symbol").limit(1).select("volume").fetchall() == [(0,)]
