"""Jobs, settings, progress, adaptation events."""

import pytest

import pelton


def test_jobs(any_con):
    con = any_con
    numbers = con.stream("numbers", {"i": int})
    con.execute("CREATE TABLE hole (i BIGINT) WITH ('connector' = 'blackhole')")
    con.set("pipeline.name", "count")
    job = con.sql("INSERT INTO hole SELECT i FROM numbers")
    assert (job.name, job.state, job.ended_at) == ("count", "RUNNING", None)
    assert not job.wait(timeout=0.05)
    numbers.push([(1,), (2,)])
    assert con.cursor().job("count").id == job.id
    job.stop(drain=True)
    assert job.wait(10) and job.state == "STOPPED"
    assert job.started_at <= job.ended_at
    assert con.job("other") is None
    assert "INSERT INTO hole" in job.statement


def test_failed_jobs(con):
    con.execute("CREATE TABLE hole (i BIGINT) WITH ('connector' = 'blackhole')")

    def fails(i: int) -> int:
        raise ValueError("of a job")

    con.create_function("fails", fails, by_row=True)
    con.register("t", {"i": [1]})
    job = con.sql("INSERT INTO hole SELECT fails(i) FROM t")
    with pytest.raises(pelton.Error, match="ValueError: of a job"):
        job.wait()
    assert job.state == "FAILED" and "of a job" in job.error
    with pytest.raises(pelton.Error, match="of a job"):
        con.execute("INSERT INTO hole SELECT fails(i) FROM t")


def test_a_job_is_aborted(any_con):
    numbers = any_con.stream("numbers", {"i": int})
    any_con.execute("CREATE TABLE hole (i BIGINT) WITH ('connector' = 'blackhole')")
    job = any_con.sql("INSERT INTO hole SELECT i FROM numbers")
    job.abort()
    assert job.wait(20) and job.state == "STOPPED"
    assert {"rows_in", "rows_out", "state_bytes"} <= set(job.progress())
    numbers.close()


def test_a_job_of_a_table_that_cannot_be_read_fails(any_con, tmp_path):
    (tmp_path / "n.csv").write_text("1\nx\n")
    any_con.execute(
        f"""CREATE TABLE n (i INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/n.csv', 'format' = 'csv');
            CREATE TABLE hole (i INT) WITH ('connector' = 'blackhole')"""
    )
    job = any_con.sql("INSERT INTO hole SELECT i FROM n")
    with pytest.raises(pelton.Error, match="row 2, column 'i'"):
        job.wait()
    assert job.state == "FAILED" and "row 2" in job.error
    with pytest.raises(pelton.Error, match="row 2, column 'i'"):
        any_con.execute("INSERT INTO hole SELECT i FROM n")


def test_settings(any_con):
    con = any_con
    assert con.setting("pelton.workers") is None
    con.set("pelton.workers", 2)
    assert con.cursor().setting("pelton.workers") == "2"
    with pytest.raises(pelton.Error, match="pelton.workers"):
        con.set("pelton.wrokers", 2)
    con.set("table.dml-sync", True)
    assert con.setting("table.dml-sync") == "true"
    assert pelton.connect(pelton__memory="1 gb").setting("pelton.memory") == "1 gb"


def test_progress(con):
    con.register("t", {"i": list(range(1_000))})
    query = con.sql("SELECT i FROM t WHERE i < 10")
    query.fetchall()
    progress = query.progress()
    assert (progress["rows_in"], progress["rows_out"], progress["late_rows"]) == (1_000, 10, 0)
    assert progress["sources"][0]["name"] == "t"


def test_adaptation_events(con):
    con.set("pelton.tier", "compile")
    numbers = con.stream("numbers", {"i": int})
    query = con.sql("SELECT i FROM numbers")
    events = query.adaptation_events()
    first = next(events)
    assert (first.kind, first.number, first.pipeline) == ("started", 0, "pipeline 0: numbers → rows")
    # Nothing more has happened yet; it may be asked again.
    assert list(events) == [] and list(events) == [] and events.missed == 0
    numbers.close()
    query.fetchall()
