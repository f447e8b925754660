"""Tables of Delta Lake, as another implementation reads them."""

import datetime
from decimal import Decimal

import deltalake
import pytest

import pelton


@pytest.fixture
def con():
    with pelton.connect() as connection:
        yield connection


def rows(path):
    return deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist()


def test_all_types_are_read(con, tmp_path):
    path = tmp_path / "t"
    con.execute(
        "CREATE TABLE d (b BOOLEAN, t TINYINT, s SMALLINT, i INT NOT NULL, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(10, 2), v STRING,"
        " y BYTES, da DATE, ts TIMESTAMP(3), lt TIMESTAMP_LTZ(3), a ARRAY<INT>, m MAP<STRING, BIGINT>, r ROW<x INT, z STRING>)"
        f" WITH ('connector' = 'delta', 'table-path' = '{path}')"
    )
    con.execute(
        "INSERT INTO d SELECT TRUE, CAST(1 AS TINYINT), CAST(2 AS SMALLINT), 3, CAST(4 AS BIGINT), CAST(0.5 AS FLOAT), CAST(0.25 AS DOUBLE),"
        " CAST(1.5 AS DECIMAL(10, 2)), 'ä', X'00FF', DATE '2024-02-29', TIMESTAMP '2024-02-29 01:02:03.004', TO_TIMESTAMP_LTZ(1709168523004, 3),"
        " ARRAY[1, 2], MAP['k', CAST(7 AS BIGINT)], ROW(1, 'z')"
    )
    [row] = rows(path)
    instant = datetime.datetime(2024, 2, 29, 1, 2, 3, 4000)
    assert row == {
        "b": True, "t": 1, "s": 2, "i": 3, "l": 4, "f": 0.5, "d": 0.25, "n": Decimal("1.50"), "v": "ä", "y": b"\x00\xff",
        "da": datetime.date(2024, 2, 29), "ts": instant, "lt": instant.replace(tzinfo=datetime.timezone.utc),
        "a": [1, 2], "m": [("k", 7)], "r": {"x": 1, "z": "z"},
    }


def test_partitions_and_appends(con, tmp_path):
    path = tmp_path / "t"
    table = f"(k STRING, v BIGINT) PARTITIONED BY (k) WITH ('connector' = 'delta', 'table-path' = '{path}')"
    con.execute(f"CREATE TABLE d {table}")
    con.execute("INSERT INTO d VALUES ('a', 1), ('b c/ä%', 2), (CAST(NULL AS STRING), 3)")
    con.execute("INSERT INTO d VALUES ('a', 4)")
    read = deltalake.DeltaTable(str(path))
    assert sorted(read.to_pyarrow_table().to_pylist(), key=lambda row: row["v"]) == [
        {"k": "a", "v": 1}, {"k": "b c/ä%", "v": 2}, {"k": None, "v": 3}, {"k": "a", "v": 4}
    ]
    assert len(read.to_pyarrow_table(partitions=[("k", "=", "a")])) == 2
    # Another program appends, and this one goes on behind it.
    deltalake.write_deltalake(str(path), read.to_pyarrow_table().slice(0, 1), mode="append")
    con.execute("INSERT INTO d VALUES ('z', 9)")
    assert len(rows(path)) == 6
    # What only a checkpoint of the log says counts as well.
    deltalake.DeltaTable(str(path)).create_checkpoint()
    for commit in sorted((path / "_delta_log").glob("*.json")):
        commit.unlink()
    con.execute("INSERT INTO d VALUES ('z', 10)")
    assert len(rows(path)) == 7
    for wrong, message in [
        (table.replace("v BIGINT", "v INT"), "k string, v integer"),
        (table.replace("PARTITIONED BY (k) ", ""), r"PARTITIONED BY \(k\)"),
    ]:
        con.execute(f"CREATE TABLE wrong {wrong}")
        with pytest.raises(pelton.Error, match=message):
            con.execute("INSERT INTO wrong SELECT k, CAST(1 AS INT) FROM (VALUES ('a')) AS t (k)")
        con.execute("DROP TABLE wrong")


def test_checkpoints_commit_once(tmp_path):
    path, checkpoints = tmp_path / "t", tmp_path / "checkpoints"

    def start(more):
        con = pelton.connect()
        con.execute(
            "CREATE TABLE n (i BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'datagen', 'rows-per-second' = '2000',"
            " 'number-of-rows' = '6000', 'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '6000')"
        )
        con.execute(f"CREATE TABLE d (i BIGINT) WITH ('connector' = 'delta', 'table-path' = '{path}')")
        for key, value in [("execution.checkpointing.interval", "100 ms"), ("execution.checkpointing.dir", str(checkpoints)), ("pipeline.name", "copy"), *more]:
            con.set(key, value)
        return con, con.sql("INSERT INTO d SELECT i FROM n")

    con, job = start([])
    assert not job.wait(timeout=1)
    job.abort()
    job.wait(20)
    con.close()
    committed = len(rows(path))
    assert 0 < committed < 6000
    con, job = start([("execution.state-recovery.path", "latest")])
    assert job.wait(60) and job.state == "FINISHED", job.error
    con.close()
    assert sorted(row["i"] for row in rows(path)) == list(range(1, 6001))
    assert deltalake.DeltaTable(str(path)).version() > 5
