"""Processes and threads, and what stays of them."""

import os
import resource
import subprocess
import sys
import textwrap
import threading

import pyarrow as pa
import pytest


def run(script, timeout=60):
    """Runs a script in a process of its own."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout, done.stderr


def test_a_process_ends_with_queries_that_run():
    code, out, err = run(
        """
        import pelton, time
        def slow(i: int) -> int:
            time.sleep(0.000_1)
            return i
        con = pelton.connect()
        con.create_function("slow", slow, by_row=True)
        con.execute("CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'fields.i.kind' = 'random');"
                    "CREATE TABLE hole (i BIGINT) WITH ('connector' = 'blackhole')")
        job = con.sql("INSERT INTO hole SELECT slow(i) FROM n")
        query = con.sql("SELECT slow(i) FROM n")
        query.fetchone()
        print("done")
        """
    )
    assert (code, out, err) == (0, "done\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_process_connects_again():
    code, out, err = run(
        """
        import os, warnings, pelton
        warnings.simplefilter("ignore")
        pelton.execute("SET 'pelton.workers' = '2'")
        con = pelton.connect()
        query = con.sql("SELECT 1 AS one")
        stream = con.stream("t", {"i": int})
        child = os.fork()
        if child == 0:
            for call in (query.fetchall, lambda: con.sql("SELECT 1"), lambda: stream.push((1,))):
                try:
                    call()
                    print("no error", flush=True)
                except pelton.Error as error:
                    assert "connect again" in str(error), error
            del query, stream, con
            print(pelton.sql("SELECT 2 AS two").fetchall(), pelton.connect().sql("SELECT 3 AS three").fetchall(), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(query.fetchall(), pelton.sql("SELECT 4").fetchall())
        """
    )
    assert (code, out) == (0, "[(2,)] [(3,)]\n[(1,)] [(4,)]\n"), err


def test_processes_of_multiprocessing():
    code, out, err = run(
        """
        import concurrent.futures, multiprocessing, pelton
        def count(n):
            return pelton.sql(f"SELECT COUNT(*) FROM (VALUES (1), ({n})) AS t (a)").fetchone()[0]
        if __name__ == "__main__":
            pelton.sql("SELECT 1").fetchall()
            with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
                print(sum(pool.map(count, range(4))))
        """
    )
    assert (code, out) == (0, "8\n"), err


def test_threads_share_an_engine(con):
    con.register("t", {"i": list(range(10_000))})
    con.create_function("half", lambda i: i // 2, [int], int, by_row=True)
    failures = []

    def work(number):
        try:
            # Temporary tables and variables are a session's.
            own = con.cursor()
            mine = pa.table({"i": [number]})
            for _ in range(10):
                assert own.sql("SELECT i, half(i) FROM mine").fetchall() == [(number, number // 2)]
                assert con.sql("SELECT SUM(half(i)) FROM t").fetchone() == (24_995_000,)
            del mine
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures and not any(thread.is_alive() for thread in threads)


def resident_kib():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() // 1024


#: Memory that may be the allocator's own, and not rows or objects that were forgotten: far less than what 10^6 batches would take.
GROWTH_KIB_MAX = 40_000


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is measured by /proc")
def test_a_million_batches_leave_no_memory(con):
    stream = con.stream("t", {"i": int, "s": str})
    batch = next(iter(con.sql("SELECT CAST(1 AS BIGINT) AS i, 'a string that is longer than a view' AS s")))
    query = con.sql("SELECT i, s FROM t")
    batches_pushed = 1_000_000

    def push():
        for _ in range(batches_pushed):
            stream.push(batch)
        stream.close()

    pusher = threading.Thread(target=push)
    pusher.start()
    rows, early = 0, None
    for got in query:
        got.to_pydict()
        rows += got.num_rows
        if early is None and rows > batches_pushed // 5:
            early = resident_kib()
    pusher.join()
    assert rows == batches_pushed
    assert resident_kib() - early < GROWTH_KIB_MAX


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is measured by /proc")
def test_functions_and_queries_leave_no_memory(con):
    con.register("t", {"i": list(range(1_000))})
    early = None
    for number in range(300):
        con.create_function("f", lambda i: i, [int], int)
        con.sql("SELECT f(i) FROM t").arrow()
        variable = pa.table({"i": list(range(1_000))})
        con.sql("SELECT COUNT(*) FROM variable").fetchall()
        if number == 100:
            early = resident_kib()
    del variable
    assert resident_kib() - early < GROWTH_KIB_MAX
