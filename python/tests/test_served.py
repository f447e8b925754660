"""The same methods on an engine that another process serves."""

import asyncio
import datetime as dt
import decimal
import signal
import threading

import pytest

import pelton

UTC = dt.timezone.utc


@pytest.fixture
def served_con(served):
    with pelton.connect(served) as connection:
        yield connection


def test_rows(served_con):
    sql = "SELECT a, s, a * 2 AS twice FROM (VALUES (1, 'x'), (2, CAST(NULL AS STRING))) AS t (a, s)"
    expected = [(1, "x", 2), (2, None, 4)]
    assert served_con.sql(sql).fetchall() == expected
    assert served_con.sql(sql).columns == [("a", "INT"), ("s", "STRING"), ("twice", "INT")]
    assert [row for batch in served_con.sql(sql) for row in batch.rows()] == expected
    assert served_con.sql(sql).df()["twice"].tolist() == [2, 4]
    assert served_con.sql(sql).pl().rows() == expected
    assert served_con.sql("SHOW TABLES").fetchall() == []
    assert served_con.sql("SELECT 1 AS i WHERE 1 = 0").arrow().num_rows == 0


VALUES = [
    ("TRUE", True),
    ("CAST(7 AS TINYINT)", 7),
    ("CAST(8 AS SMALLINT)", 8),
    ("9", 9),
    ("CAST(10 AS BIGINT)", 10),
    ("CAST(0.5 AS FLOAT)", 0.5),
    ("CAST(0.1 AS DOUBLE)", 0.1),
    ("CAST(-12.50 AS DECIMAL(10, 2))", decimal.Decimal("-12.50")),
    ("'wörds'", "wörds"),
    ("CAST('ab' AS BYTES)", b"ab"),
    ("DATE '2024-02-29'", dt.date(2024, 2, 29)),
    ("CAST('2024-03-01 09:30:00.123' AS TIMESTAMP(3))", dt.datetime(2024, 3, 1, 9, 30, 0, 123_000)),
    ("CAST('2024-03-01 09:30:00' AS TIMESTAMP_LTZ(3))", dt.datetime(2024, 3, 1, 9, 30, tzinfo=UTC)),
    ("ARRAY[1, 2]", [1, 2]),
    ("ARRAY['a, b', 'c\"d', 'NULL', '']", ["a, b", 'c"d', "NULL", ""]),
    ("ARRAY[CAST(1.5 AS DECIMAL(3, 1))]", [decimal.Decimal("1.5")]),
    ("MAP['a', 1]", '{"a":1}'),
]


@pytest.mark.parametrize("literal, value", VALUES, ids=[literal for literal, _ in VALUES])
def test_types(served_con, literal, value):
    assert served_con.sql(f"SELECT {literal} AS v").fetchall() == [(value,)]


def test_instants_are_the_same_in_all_zones(served_con):
    served_con.set("table.local-time-zone", "America/St_Johns")
    assert served_con.sql("SELECT TO_TIMESTAMP_LTZ(0, 3) AS t").fetchall() == [(dt.datetime(1970, 1, 1, tzinfo=UTC),)]
    assert served_con.setting("table.local-time-zone") == "America/St_Johns"
    assert served_con.setting("pelton.seed") is None


def test_columns_of_one_name(served_con):
    assert served_con.sql("SELECT 1 AS a, 2 AS a").fetchall() == [(1, 2)]


def test_errors_have_places(served_con):
    with pytest.raises(pelton.Error) as raised:
        served_con.sql("SHOW TABLES;\nSELECT a,\n  b FROM (VALUES (1)) AS t (a)")
    assert (raised.value.line, raised.value.column) == (3, 3)
    assert "there is no column b" in str(raised.value)
    with pytest.raises(pelton.Error, match="Expected an expression"):
        served_con.sql("SELECT FROM WHERE")
    # The connection goes on.
    assert served_con.sql("SELECT 1").fetchone() == (1,)


ENDLESS = "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100000', 'fields.i.kind' = 'random')"


def test_an_endless_query_is_closed(served_con):
    served_con.execute(ENDLESS)
    query = served_con.sql("SELECT i FROM n")
    assert len(query.fetchmany(100)) == 100
    with pytest.raises(pelton.Error, match="busy with the rows of a query"):
        served_con.sql("SELECT 1")
    assert served_con.cursor().sql("SELECT 1").fetchone() == (1,)
    query.close()
    assert served_con.sql("SELECT 2").fetchone() == (2,)


def test_an_interrupt_ends_a_query(served_con):
    served_con.execute("CREATE TABLE slow (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1', 'fields.i.kind' = 'random')")
    query = served_con.sql("SELECT i FROM slow WHERE i IS NULL")
    timer = threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        query.fetchall()
    timer.join()
    assert served_con.sql("SELECT 3").fetchone() == (3,)


def test_coroutines(served_con):
    served_con.execute(ENDLESS)

    async def run():
        rows = 0
        async for batch in served_con.sql("SELECT i FROM n LIMIT 5000"):
            rows += batch.num_rows
        return rows

    assert asyncio.run(asyncio.wait_for(run(), 60)) == 5_000


def test_jobs(served_con):
    served_con.execute(ENDLESS + "; CREATE TABLE hole (i BIGINT) WITH ('connector' = 'blackhole')")
    job = served_con.sql("INSERT INTO hole SELECT i FROM n")
    assert (job.name, job.state) == ("insert_into_hole", "RUNNING")
    assert not job.wait(timeout=0.1)
    job.stop()
    assert job.wait(10) and job.state == "STOPPED"
    assert served_con.job("insert_into_hole").state == "STOPPED"
    served_con.execute("INSERT INTO hole VALUES (1), (2)")
    assert [job.state for job in served_con.jobs()] == ["STOPPED", "FINISHED"]


def test_what_is_not_served_says_so(served_con):
    for call in [lambda: served_con.stream("t", {"i": int}), lambda: served_con.table("t"), lambda: served_con.sql("SELECT 1").progress()]:
        with pytest.raises(pelton.Error, match="a connection to a server has no|a served query"):
            call()
    with pytest.raises(AttributeError):
        served_con.nothing
    with pytest.raises(pelton.Error, match="is no address"):
        pelton.connect("nowhere")
    with pytest.raises(pelton.Error, match="is 'pelton serve' running there"):
        pelton.connect("127.0.0.1:1")


def test_explain(served_con):
    assert served_con.explain("SELECT 1 AS one").startswith("== logical plan ==")
