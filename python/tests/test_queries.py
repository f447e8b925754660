"""Queries: reading, ending, errors, interrupts, coroutines."""

import asyncio
import gc
import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

import pelton

ENDLESS = "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100000', 'fields.i.kind' = 'random')"


def test_rows_one_by_one(con):
    query = con.sql("SELECT a FROM (VALUES (1), (2), (3), (4)) AS t (a)")
    assert query.fetchone() == (1,)
    assert query.fetchmany(2) == [(2,), (3,)]
    assert query.fetchall() == [(4,)]
    assert query.fetchone() is None and query.fetchall() == []


def test_fetched_rows_and_batches_do_not_mix(con):
    query = con.sql("SELECT a FROM (VALUES (1), (2)) AS t (a)")
    query.fetchone()
    with pytest.raises(pelton.Error, match="one by one"):
        next(iter(query))
    with pytest.raises(pelton.Error, match="one by one"):
        pa.table(query)

    async def read():
        return [batch async for batch in query]

    with pytest.raises(pelton.Error, match="one by one"):
        asyncio.run(read())
    assert query.fetchall() == [(2,)]


def test_show_leaves_the_other_rows(con, capsys):
    query = con.sql("SELECT a, CAST(NULL AS STRING) AS s FROM (VALUES (1), (20), (3)) AS t (a)")
    query.show(2)
    assert capsys.readouterr().out == " a  s\n──  ────\n 1  NULL\n20  NULL\n"
    assert query.fetchall() == [(3, None)]


def test_rows_of_statements_that_show(con, capsys):
    con.execute("CREATE TABLE hole (a INT) WITH ('connector' = 'blackhole')")
    assert con.sql("SHOW TABLES").fetchall() == [("hole",)]
    assert pa.table(con.sql("SHOW TABLES")).num_rows == 1
    assert con.sql("SET 'pelton.workers' = '1'") is None
    for read in (lambda query: query.progress(), lambda query: query.adaptation_events()):
        with pytest.raises(pelton.Error, match="the statement is done"):
            read(con.sql("SHOW TABLES"))
    shown = con.sql("SHOW TABLES")
    assert pa.schema(shown).names == ["table name"]
    shown.live()
    assert capsys.readouterr().out == "1 rows out\ntable name\n──────────\nhole\n"
    assert pa.table(shown).num_rows == 0


def test_all_errors_have_their_attributes(con):
    with pytest.raises(pelton.Error) as raised:
        pelton.col("")
    error = raised.value
    assert (error.line, error.column, error.hint, error.unknown_table) == (None, None, None, None)


def test_errors_have_places(con):
    with pytest.raises(pelton.Error) as raised:
        con.sql("SELECT a,\n  b FROM (VALUES (1)) AS t (a)")
    assert (raised.value.line, raised.value.column) == (2, 3)
    assert "there is no column b" in str(raised.value)
    with pytest.raises(pelton.Error) as raised:
        con.sql("SELECT nothing FROM nowhere")
    assert raised.value.unknown_table == "nowhere"
    assert raised.value.hint == "SHOW TABLES lists what there is"


def test_a_failing_query_gives_its_rows_first(con, tmp_path):
    (tmp_path / "n.csv").write_text("1\n2\nx\n")
    con.execute(
        f"CREATE TABLE n (i INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/n.csv', 'format' = 'csv')"
    )
    with pytest.raises(pelton.Error, match="row 3, column 'i': 'x' is not a"):
        con.sql("SELECT i FROM n").fetchall()


def test_an_endless_query_is_read_and_closed(con):
    con.execute(ENDLESS)
    with con.sql("SELECT i FROM n") as query:
        rows = 0
        for batch in query:
            rows += batch.num_rows
            if rows > 1_000:
                break
    assert query.has_ended
    stopped = con.sql("SELECT i FROM n")
    stopped.stop()
    stopped.fetchall()
    assert stopped.has_ended


@pytest.fixture
def interrupt():
    """Interrupts the test in a moment, as Ctrl-C does."""
    timer = threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,))
    yield timer.start
    timer.join()


def awaited(condition):
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize("read", [lambda query: query.fetchall(), lambda query: list(query), lambda query: query.show(), lambda query: query.arrow(), lambda query: query.pl()])
def test_an_interrupt_ends_a_query(con, interrupt, read):
    silent = con.stream("silent", {"i": int})
    query = con.sql("SELECT i FROM silent")
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        read(query)
    assert awaited(lambda: query.has_ended)
    silent.close()


def test_an_interrupt_ends_a_query_that_another_library_reads(con, interrupt):
    silent = con.stream("silent", {"i": int})
    query = con.sql("SELECT i FROM silent")
    interrupt()
    # It may tell of it as an error of its own.
    with pytest.raises((KeyboardInterrupt, pa.ArrowInvalid), match="KeyboardInterrupt|^$"):
        pa.table(query)
    assert awaited(lambda: query.has_ended)
    silent.close()


def test_an_interrupt_ends_an_insert_that_is_waited_for(con, interrupt):
    silent = con.stream("silent", {"i": int})
    con.execute("CREATE TABLE hole (i BIGINT) WITH ('connector' = 'blackhole')")
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        con.execute("INSERT INTO hole SELECT i FROM silent")
    assert con.jobs()[0].state == "STOPPED"
    silent.close()


def test_coroutines_share_a_loop(con):
    async def total(query):
        return sum([sum(batch.to_pydict()["i"]) async for batch in query])

    async def run():
        first, second = con.stream("first", {"i": int}), con.stream("second", {"i": int})
        totals = [asyncio.create_task(total(con.sql(f"SELECT i FROM {name}"))) for name in ("first", "second")]
        for number in range(100):
            await first.push_async([(number,)])
            await second.push_async([(2 * number,)])
        first.close()
        second.close()
        return await asyncio.gather(*totals)

    assert asyncio.run(asyncio.wait_for(run(), 60)) == [4_950, 9_900]


def test_a_cancelled_coroutine_leaves_the_query(con):
    silent = con.stream("silent", {"i": int})

    async def run():
        query = con.sql("SELECT i FROM silent")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(query.__aiter__().__anext__(), 0.1)
        query.close()
        assert query.has_ended

    asyncio.run(run())
    silent.close()


def test_backpressure_waits_in_coroutines(con):
    async def run():
        stream = con.stream("t", {"i": int})
        query = con.sql("SELECT i FROM t")
        pushed = []

        async def push():
            for number in range(500):
                await stream.push_async([(number,)] * 10)
                pushed.append(number)
            stream.close()

        task = asyncio.create_task(push())
        await asyncio.sleep(0.2)
        # Queues are bounded: nobody reads yet.
        assert len(pushed) < 500
        rows = sum([batch.num_rows async for batch in query])
        await task
        return rows

    assert asyncio.run(asyncio.wait_for(run(), 60)) == 5_000


def test_other_threads_run_while_one_waits(con):
    silent = con.stream("silent", {"i": int})
    query = con.sql("SELECT i FROM silent")
    reader = threading.Thread(target=query.fetchall)
    reader.start()
    # This thread has the interpreter while the other one waits.
    assert con.sql("SELECT 1").fetchall() == [(1,)]
    query.close()
    reader.join(10)
    assert not reader.is_alive()
    silent.close()


def test_asking_for_the_end_lets_workers_release_arrays(con):
    # Memory of numpy's is released with the interpreter's lock, also by a worker that holds a lock of the engine's.
    for number in range(200):
        stream = con.stream(f"numbers_{number}", {"i": int, "at": "TIMESTAMP(3)"}, event_time="at")
        query = con.sql(f"SELECT MAX(i) FROM TUMBLE(TABLE numbers_{number}, DESCRIPTOR(at), INTERVAL '1' SECOND) GROUP BY window_start, window_end")
        numbers = np.arange(20_000)
        stream.push(pa.table({"i": pa.array(numbers), "at": pa.array(numbers.astype("datetime64[ms]"))}))
        stream.close()
        while not query.has_ended:
            pass
        assert len(query.fetchall()) == 20


def test_a_thousand_queries_are_opened_and_dropped(con):
    con.execute(ENDLESS)
    threads = threading.active_count()
    for number in range(1_000):
        query = con.sql("SELECT i FROM n" if number % 2 else "SELECT 1 AS i")
        if number % 3 == 0:
            query.fetchone()
        del query
    gc.collect()
    assert con.sql("SHOW QUERIES").fetchall() == []
    assert con.progress()["state_bytes"] == 0
    assert threading.active_count() == threads


def test_arrow_streams_both_ways(con):
    numbers = pa.table({"i": range(100_000)})
    con.register("numbers", numbers)
    # What another library reads is what a query reads; and a query is Arrow data itself.
    half = con.sql("SELECT i FROM numbers WHERE MOD(i, 2) = 0")
    con.register("half", half)
    assert con.sql("SELECT COUNT(*), SUM(i) FROM half").fetchall() == [(50_000, 2_499_950_000)]
    reader = pa.RecordBatchReader.from_stream(con.sql("SELECT i FROM numbers"))
    assert reader.read_all().equals(numbers)


def test_a_requested_schema_is_followed(con):
    query = con.sql("SELECT 'x' AS s")
    assert pa.table(query, schema=pa.schema([("s", pa.large_string())])).column("s").type == pa.large_string()
