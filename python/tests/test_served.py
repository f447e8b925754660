"""What is special about an engine that another process serves. What is the same is tested beside engines in this process, by the fixture `any_con`."""

import asyncio
import os
import signal
import threading

import pandas as pd
import pyarrow as pa
import pytest

import pelton
from conftest import start_server
from test_processes import resident_kib, run

ENDLESS = "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100000', 'fields.i.kind' = 'random')"


@pytest.fixture
def served_con(served):
    with pelton.connect(served) as connection:
        yield connection


def test_results_are_those_of_an_engine_in_the_process(served_con, con):
    sql = """SELECT a, s, a * 2 AS twice, CAST(a AS DECIMAL(20, 3)) AS d, MAP[s, ARRAY[a]] AS m, CAST('2024-03-01 09:30:00' AS TIMESTAMP_LTZ(0)) AS z, 1 AS a
             FROM (VALUES (1, 'x'), (2, 'y')) AS t (a, s)"""
    served, own = served_con.sql(sql), con.sql(sql)
    assert served.columns == own.columns
    assert pa.schema(served) == pa.schema(own)
    assert served.fetchall() == own.fetchall()
    for read in (lambda query: query.arrow(), lambda query: pa.table(query), lambda query: pa.table(list(map(pa.record_batch, query))[0])):
        assert read(served_con.sql("SELECT 1 AS a, 'x' AS s")).equals(read(con.sql("SELECT 1 AS a, 'x' AS s")))
    assert served_con.sql("SELECT 1 AS i WHERE 1 = 0").arrow().num_rows == 0
    assert served_con.sql("SHOW TABLES").fetchall() == []
    assert served_con.sql("SET 'pelton.workers' = '1'") is None
    assert "<pelton.Connection to 127.0.0.1:" in repr(served_con)


def test_settings_are_those_of_the_server(served, served_con):
    served_con.set("table.local-time-zone", "America/St_Johns")
    assert served_con.setting("table.local-time-zone") == "America/St_Johns"
    assert served_con.setting("pelton.seed") is None
    assert pelton.connect(served, pelton__workers=2).setting("pelton.workers") == "2"


def test_text_is_shown_by_the_clocks_of_the_session(served_con, capsys):
    served_con.set("table.local-time-zone", "Europe/Berlin")
    served_con.sql("SELECT TO_TIMESTAMP_LTZ(0, 3) AS t").show()
    assert "1970-01-01 01:00:00.000" in capsys.readouterr().out


def test_errors_have_places(served_con):
    for script, place in [
        ("SHOW TABLES;\nSELECT a,\n  b FROM (VALUES (1)) AS t (a)", (3, 3)),
        ("SHOW TABLES; SELECT a, b FROM (VALUES (1)) AS t (a)", (1, 24)),
    ]:
        with pytest.raises(pelton.Error) as raised:
            served_con.sql(script)
        assert (raised.value.line, raised.value.column) == place
        assert str(raised.value).startswith(f"line {place[0]}, column {place[1]}: there is no column b")
    with pytest.raises(pelton.Error, match="xpected an expression"):
        served_con.sql("SELECT FROM WHERE")
    with pytest.raises(pelton.Error) as raised:
        served_con.sql("SELECT nothing FROM nowhere")
    assert raised.value.hint == "SHOW TABLES lists what there is"
    # The connection goes on.
    assert served_con.sql("SELECT 1").fetchone() == (1,)


def test_a_failing_query_gives_its_rows_first(served_con, tmp_path):
    (tmp_path / "n.csv").write_text("1\n2\nx\n")
    served_con.execute(f"CREATE TABLE n (i INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/n.csv', 'format' = 'csv')")
    with pytest.raises(pelton.Error, match="row 3, column 'i': 'x' is not a"):
        served_con.sql("SELECT i FROM n").fetchall()
    assert served_con.sql("SELECT 1").fetchone() == (1,)


def test_a_connection_is_busy_while_rows_are_read(served_con):
    served_con.execute(ENDLESS)
    frame = pd.DataFrame({"i": [1]})
    query = served_con.sql("SELECT i FROM n")
    assert len(query.fetchmany(100)) == 100
    for call in [lambda: served_con.sql("SELECT 1"), lambda: served_con.register("frame", frame), lambda: served_con.set("pelton.workers", 1)]:
        with pytest.raises(pelton.Error, match=r"busy with the rows of a query: .* or make a cursor\(\)"):
            call()
    assert served_con.cursor().sql("SELECT 1").fetchone() == (1,)
    # Jobs and streams have connections of their own.
    assert served_con.jobs() == []
    served_con.stream("s", {"i": int}).close()
    query.close()
    assert served_con.sql("SELECT i FROM frame").fetchone() == (1,)
    del frame


def test_threads_take_turns(served_con):
    failures = []

    def work(number):
        try:
            for _ in range(20):
                served_con.setting("pelton.workers")
                served_con.register(f"t{number}", {"i": [number]})
                # Another thread may be reading rows just now.
                own = served_con.cursor()
                assert own.sql(f"SELECT {number} AS i").fetchall() == [(number,)]
                own.close()
        except pelton.Error as error:
            if "busy" not in str(error):
                failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)
    assert served_con.sql("SELECT 4").fetchone() == (4,)


def test_a_stopped_query_ends_without_an_error(served_con):
    served_con.execute(ENDLESS)
    query = served_con.sql("SELECT i FROM n")
    query.fetchmany(10)
    query.stop()
    query.fetchall()
    assert query.has_ended and served_con.sql("SELECT 2").fetchone() == (2,)


@pytest.mark.parametrize("read", [lambda query: query.fetchall(), lambda query: query.arrow(), lambda query: query.show()])
def test_an_interrupt_ends_a_query(served_con, read):
    silent = served_con.stream("silent", {"i": int})
    query = served_con.sql("SELECT i FROM silent")
    timer = threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        read(query)
    timer.join()
    assert query.has_ended and served_con.sql("SELECT 3").fetchone() == (3,)
    silent.close()


def test_an_interrupt_ends_a_push_that_waits(served_con):
    stream = served_con.stream("t", {"i": int})
    query = served_con.sql("SELECT i FROM t")
    batch = pa.table({"i": range(100_000)})
    timer = threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    pushed = 0
    with pytest.raises(KeyboardInterrupt):
        while True:
            stream.push(batch)
            pushed += 1
    timer.join()
    # No message is in pieces: the rows that were taken come, and those of the push that was interrupted.
    reading = threading.Thread(target=stream.close)
    reading.start()
    assert sum(batch.num_rows for batch in query) == (pushed + 1) * 100_000
    reading.join(20)


def test_coroutines(served_con):
    served_con.execute(ENDLESS)

    async def run():
        rows = 0
        async for batch in served_con.sql("SELECT i FROM n LIMIT 5000"):
            rows += batch.num_rows
        stream = served_con.stream("s", {"i": int})
        query = served_con.sql("SELECT i FROM s")

        async def push():
            for number in range(200):
                await stream.push_async([(number,)] * 1_000)
            stream.close()

        task = asyncio.create_task(push())
        rows += sum([batch.num_rows async for batch in query])
        await task
        return rows

    assert asyncio.run(asyncio.wait_for(run(), 60)) == 205_000


def test_a_stream_learns_that_its_queries_have_ended(served_con):
    stream = served_con.stream("t", {"i": int})
    query = served_con.sql("SELECT i FROM t")
    stream.push([(1,)])
    assert query.fetchone() == (1,)
    query.close()
    with pytest.raises(pelton.Error, match="the last query that read this table has ended"):
        for _ in range(100_000):
            stream.push([(2,)] * 100)
    with pytest.raises(pelton.Error, match="the stream is closed"):
        stream.push([(3,)])


def test_variables_are_sent_and_forgotten(served_con):
    frame = pd.DataFrame({"i": range(100_000), "s": ["a", None] * 50_000})
    assert served_con.sql("SELECT COUNT(*), SUM(i), COUNT(s) FROM frame").fetchall() == [(100_000, 4_999_950_000, 50_000)]
    assert "frame" in served_con.explain("SELECT i FROM frame")
    assert served_con.sql("SHOW TABLES").fetchall() == []
    frame = pd.DataFrame({"i": [7]})
    assert served_con.table("frame").select("i").fetchall() == [(7,)]
    del frame


def test_what_a_server_cannot_do_says_so(served_con):
    for call, message in [
        (lambda: served_con.create_function("f", lambda i: i, [int], int), "functions of Python run in the process of the engine"),
        (lambda: served_con.create_table_function("f", lambda i: i, [int], {"i": int}), "functions of Python run in the process of the engine"),
        (lambda: served_con.create_aggregate("f", Total, [int], int), "functions of Python run in the process of the engine"),
        (lambda: served_con.sql("SELECT 1").progress(), "SHOW QUERIES VERBOSE"),
        (lambda: served_con.sql("SELECT 1").adaptation_events(), "EXPLAIN ANALYZE QUERY"),
        (lambda: pelton.connect("nowhere"), "is no address"),
        (lambda: pelton.connect("127.0.0.1:1"), "is 'pelton serve' running there"),
    ]:
        with pytest.raises(pelton.Error, match=message):
            call()
    with pytest.raises(AttributeError):
        served_con.nothing


class Total:
    """An aggregate."""

    def accumulate(self, i):
        pass

    def finish(self):
        return 0


def test_a_server_that_has_gone_is_an_error(program):
    server, address = start_server(program)
    con = pelton.connect(address)
    stream = con.stream("t", {"i": int})
    query = con.sql("SELECT i FROM t")
    server.kill()
    server.wait(30)
    for call in (query.fetchall, lambda: con.cursor().sql("SELECT 1"), lambda: [stream.push([(1,)]) for _ in range(100)]):
        with pytest.raises(pelton.Error, match="has closed the connection|is 'pelton serve' running there|busy"):
            call()
    server.stdout.close()


def test_the_live_view_without_progress(served_con, capsys):
    served_con.register("t", {"i": list(range(100))})
    served_con.sql("SELECT i FROM t").live(rows=2)
    out = capsys.readouterr().out
    assert out.startswith("100 rows out\n") and out.endswith("\n98\n99\n")


def test_explain(served_con):
    assert served_con.explain("SELECT 1 AS one").startswith("== logical plan ==")
    assert served_con.progress() == {"state_bytes": 0}


def test_a_thousand_queries_are_opened_and_dropped(served_con):
    served_con.execute(ENDLESS)
    early = None
    for number in range(1_000):
        query = served_con.sql("SELECT i FROM n" if number % 2 else "SELECT 1 AS i")
        if number % 3 == 0:
            query.fetchone()
        del query
        if number == 300 and os.path.exists("/proc/self/statm"):
            early = resident_kib()
    running = served_con.cursor()
    deadline = 200
    while running.sql("SHOW QUERIES").fetchall() and deadline:
        deadline -= 1
    assert deadline
    assert early is None or resident_kib() - early < 20_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_process_connects_again(served):
    code, out, err = run(
        f"""
        import os, warnings, pelton
        warnings.simplefilter("ignore")
        con = pelton.connect("{served}")
        stream = con.stream("t", {{"i": int}})
        query = con.sql("SELECT i FROM t")
        child = os.fork()
        if child == 0:
            try:
                con.cursor().sql("SELECT 1").fetchall()
                con.jobs()
                con.sql("SELECT 1")
                print("no error", flush=True)
            except pelton.Error as error:
                assert "busy" in str(error) or "connect again" in str(error), error
            del query, stream, con
            print(pelton.connect("{served}").sql("SELECT 2 AS two").fetchall(), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        with stream:
            stream.push((1,) for _ in range(3))
        print(query.fetchall())
        """
    )
    assert (code, out) == (0, "[(2,)]\n[(1,), (1,), (1,)]\n"), err
