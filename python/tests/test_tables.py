"""Tables of the program: variables, registered data, streams and readers."""

import datetime as dt
import threading

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pelton

@pytest.fixture
def con(any_con):
    """All of this holds for engines of both kinds."""
    return any_con


module_frame = pd.DataFrame({"i": [10, 20]})


def test_variables_are_tables(con):
    frame = pd.DataFrame({"i": [1, 2]})
    polars, lazy = pl.DataFrame({"i": [3]}), pl.LazyFrame({"i": [4]})
    arrow, batch = pa.table({"i": [5]}), pa.record_batch({"i": [6]})
    reader = pa.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches())
    for name, expected in [("frame", 3), ("polars", 3), ("lazy", 4), ("arrow", 5), ("batch", 6), ("reader", 5), ("module_frame", 30)]:
        assert con.sql(f"SELECT SUM(i) FROM {name}").fetchone() == (expected,), name
    del frame, polars, lazy, batch


def test_a_variable_is_what_it_is_now(con):
    frame = pd.DataFrame({"i": [1]})
    assert con.sql("SELECT i FROM frame").fetchall() == [(1,)]
    frame = pd.DataFrame({"s": ["x"]})
    assert con.sql("SELECT s FROM frame").fetchall() == [("x",)]
    del frame
    with pytest.raises(pelton.Error, match="there is no table or view frame"):
        con.sql("SELECT s FROM frame")


def test_variables_of_callers_are_seen(con):
    frame = pd.DataFrame({"i": [1]})

    def inner():
        return con.sql("SELECT i FROM frame").fetchall()

    assert inner() == [(1,)]
    del frame


def test_several_variables_are_joined_with_a_file(con, tmp_path):
    (tmp_path / "trades.csv").write_text("symbol,volume\nA,1\nB,2\nA,3\n")
    names = pa.table({"symbol": ["A", "B"], "name": ["Apple", "Banana"]})
    weights = pd.DataFrame({"symbol": ["A", "B"], "weight": [10, 100]})
    rows = con.sql(
        f"""SELECT name, SUM(volume * weight) FROM '{tmp_path}/trades.csv' AS trades
            JOIN names ON trades.symbol = names.symbol JOIN weights ON trades.symbol = weights.symbol
            GROUP BY name ORDER BY name"""
    ).fetchall()
    assert rows == [("Apple", 40), ("Banana", 200)]
    assert "names" in con.explain("SELECT * FROM names")
    assert con.sql("SHOW TABLES").fetchall() == []
    del names, weights


def test_tables_hide_variables(con):
    frame = pd.DataFrame({"i": [1]})
    con.register("frame", pa.table({"i": [2]}))
    assert con.sql("SELECT i FROM frame").fetchall() == [(2,)]
    del frame


def test_event_time_of_registered_rows(con):
    ticks = pa.table({
        "ts": pa.array([dt.datetime(2024, 1, 1, 0, 0, second) for second in (1, 3, 12, 2, 25)], pa.timestamp("ms")),
        "other": pa.array([dt.datetime(2024, 1, 1)] * 5, pa.timestamp("ms")),
        "v": [1, 2, 4, 8, 16],
    })
    sums = "SELECT SUM(v) FROM TUMBLE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, window_end"
    con.register("ticks", ticks, event_time="ts", delay="20 s")
    assert con.sql(sums).fetchall() == [(11,), (4,), (16,)]
    con.register("ticks", ticks, event_time="ts")
    assert con.sql(sums).fetchall() == [(3,), (4,), (16,)], "a row is late"
    with pytest.raises(pelton.Error, match="names nothing, which is no column"):
        con.register("ticks", ticks, event_time="nothing")
    with pytest.raises(pelton.Error, match="the event-time column v is BIGINT"):
        con.register("ticks", ticks, event_time="v")
    # The only time of a table is its event time.
    con.register("ticks", ticks.drop_columns(["other"]))
    assert con.sql(sums).fetchall() == [(11,), (4,), (16,)]


def test_registered_rows_are_final(con):
    con.register("t", {"i": [1]})
    with pytest.raises(pelton.Error, match="table 't' has registered rows, and no query inserts into it"):
        con.sql("INSERT INTO t VALUES (1)")
    with pytest.raises(pelton.Error, match="has no Arrow data"):
        con.register("t", 5)
    con.execute("DROP TEMPORARY TABLE t")
    con.register("empty", pa.table({"i": pa.array([], pa.int64())}))
    assert con.sql("SELECT COUNT(*) FROM empty").fetchall() == [(0,)]


def test_rows_in_many_batches(con):
    batches = [pa.record_batch({"i": pa.array(range(start, start + length), pa.int64())}) for start, length in [(0, 1), (1, 0), (1, 70_000), (70_001, 3)]]
    con.register("t", pa.Table.from_batches(batches))
    assert con.sql("SELECT COUNT(*), SUM(i), MAX(i) FROM t").fetchall() == [(70_004, 70_003 * 70_004 // 2, 70_003)]


def test_streams_take_rows_of_all_kinds(con):
    stream = con.stream("t", {"i": "INT", "s": str})
    query = con.sql("SELECT i, s FROM t")
    stream.push((1, "a") for _ in range(1))
    stream.push({"i": 2, "s": "b"})
    stream.push(pd.DataFrame({"s": ["c"], "i": [3]}))
    stream.push(pl.DataFrame({"i": [4], "s": ["d"]}))
    stream.push(pa.table({"i": pa.array([5], pa.int64()), "s": ["e"]}))
    stream.push(next(iter(con.cursor().sql("SELECT 6 AS i, 'f' AS s"))))
    stream.close()
    assert query.fetchall() == [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e"), (6, "f")]
    with pytest.raises(pelton.Error, match="the stream is closed"):
        stream.push((7, "g"))


def test_a_number_that_does_not_fit_a_column_is_refused(con):
    stream = con.stream("t", {"i": "INT"})
    with pytest.raises(pelton.Error, match="column i"):
        stream.push(pa.table({"i": [1 << 40]}))


def test_windows_of_a_stream(con):
    trades = con.stream("trades", {"symbol": str, "price": float, "volume": int, "ts": "TIMESTAMP(3)"}, event_time="ts", delay="1 s")
    query = (
        trades.filter(pelton.col("price") > 10)
        .window(pelton.tumble("ts", "10 s"))
        .group_by("symbol")
        .agg(volume=pelton.sum("volume"))
        .select("symbol", "volume")
        .run()
    )
    at = dt.datetime(2024, 1, 1)
    with trades:
        trades.push([("A", 11.0, 1, at), ("A", 9.0, 2, at), ("B", 12.0, 4, at + dt.timedelta(seconds=5))])
        trades.push([("A", 12.0, 8, at + dt.timedelta(seconds=12))])
        # The first window ends with the row a second behind it.
        assert sorted(query.fetchmany(2)) == [("A", 1), ("B", 4)]
    assert query.fetchall() == [("A", 8)]


def test_backpressure_blocks_and_ends(con):
    stream = con.stream("t", {"i": int})
    query = con.sql("SELECT i FROM t")
    pushed = []

    def push():
        try:
            while True:
                stream.push([(len(pushed),)])
                pushed.append(1)
        except pelton.Error as error:
            pushed.append(str(error))

    pusher = threading.Thread(target=push)
    pusher.start()
    assert query.fetchmany(5_000)[-1] == (4_999,)
    query.close()
    pusher.join(20)
    assert "the last query that read this table has ended" in pushed[-1]


def test_try_push_says_whether_there_was_room(con):
    stream = con.stream("t", {"i": int})
    batch = pa.table({"i": range(100_000)})
    taken = sum(stream.try_push(batch) for _ in range(100))
    assert 0 < taken < 100


def test_a_stream_may_begin_again(con):
    for number in range(3):
        stream = con.stream("t", {"i": int})
        with pytest.raises(pelton.Error, match="'t'|table t|t exists"):
            con.stream("t", {"i": int})
        query = con.sql("SELECT i FROM t")
        with stream:
            stream.push((number,) for _ in range(1))
        assert query.fetchall() == [(number,)]
        reader = con.reader("out", {"i": int})
        con.execute("INSERT INTO out SELECT 1") if number == 0 else None
        reader.close()


def test_tables_of_the_program_are_there_for_all_sessions(con):
    stream = con.stream("t", {"i": int})
    other = con.cursor()
    query = other.table("t").filter(pelton.col("i") > 1).run()
    with stream:
        stream.push([(1,), (2,)])
    assert query.fetchall() == [(2,)]
    con.register("mine", {"i": [1]})
    with pytest.raises(pelton.Error, match="there is no table or view mine"):
        other.sql("SELECT i FROM mine")


def test_readers(con):
    reader = con.reader("out", {"i": "BIGINT NOT NULL"})
    numbers = con.stream("numbers", {"i": "BIGINT NOT NULL"})
    job = con.sql("INSERT INTO out SELECT i * 2 FROM numbers")
    numbers.push([(1,), (2,)])
    assert reader.pull().rows() == [(2,), (4,)]
    numbers.push([(3,)])
    numbers.close()
    assert reader.fetchall() == [(6,)] and reader.pull() is None
    assert job.wait()


def test_a_callback_gets_each_batch(con):
    con.register("t", {"i": list(range(1_000))})
    rows = []
    con.sql("SELECT i FROM t").call(lambda batch: rows.extend(batch.rows()))
    assert len(rows) == 1_000

    def fails(batch):
        raise ValueError("no more")

    query = con.sql("SELECT i FROM t")
    with pytest.raises(ValueError, match="no more"):
        query.call(fails)
