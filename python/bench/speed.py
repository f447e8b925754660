"""What the package takes, beside the Rust API, DuckDB and Polars in the same run.

    python bench/speed.py [--rows N] [--copies N] [DATA]

Needs a release build (`maturin develop --release`), pyarrow, pandas, polars and duckdb. Each figure is the best of several runs, which alternate. DATA is the folder with the public data sets; they
are repeated so many times. Small numbers try the script with a debug build.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import pelton

RUNS = 7
STREAM_BATCH_ROWS = 10_000


def best(**cases):
    """The least seconds of each case, which take turns."""
    least = dict.fromkeys(cases, float("inf"))
    for _ in range(RUNS):
        for name, case in cases.items():
            begun = time.perf_counter()
            case()
            least[name] = min(least[name], time.perf_counter() - begun)
    return least


def line(what, figure, target):
    print(f"| {what} | {figure} | {target} |", flush=True)


def start():
    """From the start of the interpreter's `import` to a first result."""
    script = "import time; t = time.perf_counter(); import pelton; pelton.sql('SELECT 1').fetchall(); print(time.perf_counter() - t)"
    seconds = min(float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout) for _ in range(RUNS))
    line("`import pelton` to first result", f"{seconds * 1e3:.0f} ms", "≤ 100 ms")


def aggregate(rows):
    """Arrow in, an aggregate, Arrow out: against the same query by the Rust API, which reads all rows of the result as well."""
    rng = np.random.default_rng(1)
    table = pa.table({"k": rng.integers(0, 1_000, rows), "v": rng.integers(0, 1_000_000, rows)})
    sql = "SELECT k, SUM(v) AS total FROM t GROUP BY k"
    con = pelton.connect()
    con.register("t", table)
    native = con._native
    (statement,) = native.prepare(sql)
    frame = pl.from_arrow(table)
    duck = duckdb.connect()
    duck.register("t", table)
    seconds = best(
        pelton=lambda: con.sql(sql).arrow(),
        rust=lambda: native.count_rows(statement),
        duckdb=lambda: duck.sql(sql).fetch_arrow_table(),
        polars=lambda: frame.group_by("k").agg(pl.col("v").sum()).to_arrow(),
    )
    figures = ", ".join(f"{name} {rows / value / 1e6:.0f} M rows/s" for name, value in seconds.items())
    line("Arrow in, aggregate, Arrow out", f"{seconds['rust'] / seconds['pelton']:.2f} of the Rust API ({figures})", "≥ 0.95")


def iterate(rows):
    """Batches of a stream, and what one costs: those of a table, and those that another thread pushes."""
    con = pelton.connect()
    table = pa.table({name: np.arange(rows) for name in "abcd"})
    batches = pa.Table.from_batches(table.to_batches(STREAM_BATCH_ROWS))
    con.register("t", batches)
    con.set("pelton.block-rows", STREAM_BATCH_ROWS)
    counted = {}

    def read(name, query):
        counted[name] = sum(1 for _ in query)

    def pushed():
        stream = con.stream("s", pa.schema([pa.field(name, pa.int64()) for name in "abcd"]))
        query = con.sql("SELECT a, b, c, d FROM s")

        def push():
            with stream:
                stream.push(batches)

        pusher = threading.Thread(target=push)
        pusher.start()
        read("pushed", query)
        pusher.join()

    seconds = best(table=lambda: read("table", con.sql("SELECT a, b, c, d FROM t")), pushed=pushed)
    for name, what in [("table", "iterating a table of 10 k-row batches"), ("pushed", "iterating a stream of 10 k-row batches")]:
        taken, number = seconds[name], counted[name]
        figures = f"{table.nbytes / taken / 1e9:.1f} GB/s, {taken / number * 1e6:.1f} µs a batch of {rows // number} rows"
        line(what, figures, "≥ 1 GB/s, ≤ 20 µs")


def function(rows):
    """A function over arrays, against the same function on the arrays."""
    con = pelton.connect()
    values = pa.array(np.random.default_rng(2).random(rows))
    con.register("t", pa.table({"v": values}))

    def wave(v):
        return pc.add(pc.sin(v), pc.multiply(pc.cos(v), pc.exp(v)))

    con.create_function("wave", wave, [float], float)
    seconds = best(pelton=lambda: con.sql("SELECT wave(v) AS w FROM t").arrow(), direct=lambda: wave(values))
    ratio = seconds["pelton"] / seconds["direct"]
    line(f"vectorised function over {rows / 1e6:g} M rows", f"{ratio:.2f} × of calling it on the arrays ({seconds['pelton'] * 1e3:.0f} ms)", "≤ 1.1 ×")


def tumbling(what, path, columns, time_column, value, minutes):
    """Sums of windows, from a CSV file to a DataFrame."""
    declared = ", ".join(f"{name} {kind[0]}" for name, kind in columns.items())
    con = pelton.connect()
    con.execute(
        f"CREATE TABLE t ({declared}, WATERMARK FOR {time_column} AS {time_column}) "
        f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"
    )
    windows = (
        f"SELECT window_start, SUM({value}) AS total, COUNT(*) AS n "
        f"FROM TUMBLE(TABLE t, DESCRIPTOR({time_column}), INTERVAL '{minutes}' MINUTE) GROUP BY window_start, window_end"
    )
    of_duckdb = "{" + ", ".join(f"'{name}': '{kind[1]}'" for name, kind in columns.items()) + "}"
    duck = duckdb.connect()
    buckets = (
        f"SELECT time_bucket(INTERVAL '{minutes} minutes', {time_column}) AS window_start, SUM({value}) AS total, COUNT(*) AS n "
        f"FROM read_csv('{path}', header = false, columns = {of_duckdb}) GROUP BY 1"
    )
    schema = {name: kind[2] for name, kind in columns.items()}

    def by_polars():
        lazy = pl.scan_csv(path, has_header=False, schema=schema, try_parse_dates=True)
        window = pl.col(time_column).dt.truncate(f"{minutes}m")
        return lazy.group_by(window).agg(pl.col(value).sum(), pl.len()).collect().to_pandas()

    def count(frame, column):
        return int(frame[column].sum())

    rows = count(duck.sql(buckets).df(), "n")
    found = con.sql(windows).df()
    # Rows that are late in the stream are in no window of it.
    assert count(by_polars(), "len") == rows and rows - rows // 10 <= count(found, "n") <= rows
    seconds = best(pelton=lambda: con.sql(windows).df(), duckdb=lambda: duck.sql(buckets).df(), polars=by_polars)
    figures = ", ".join(f"{name} {value * 1e3:.0f} ms" for name, value in seconds.items())
    figures += "".join(f"; {seconds[other] / seconds['pelton']:.1f} × as fast as {other}" for other in ("duckdb", "polars"))
    line(f"tumbling sums over {what}, {rows / 1e6:.1f} M rows", figures, "faster than both")


def trips(data, folder, copies):
    path = folder / "trips.csv"
    text = (data / "nyc_taxi_2013" / "debs2015_first_10k.csv").read_text()
    kept = sorted((fields for fields in (row.split(",") for row in text.splitlines()) if len(fields) == 17), key=lambda fields: fields[3])
    # Each copy is a day of its own, so that times go on.
    with path.open("w") as file:
        for copy in range(2 * copies):
            day = str(np.datetime64("2013-01-01") + copy)
            file.writelines(f"{fields[0]},{day}{fields[3][10:]},{fields[5]},{fields[16]}\n" for fields in kept if fields[3].startswith("2013-01-01"))
    columns = {
        "medallion": ("STRING", "VARCHAR", pl.String),
        "at": ("TIMESTAMP(0)", "TIMESTAMP", pl.Datetime("us")),
        "distance": ("DOUBLE", "DOUBLE", pl.Float64),
        "total": ("DOUBLE", "DOUBLE", pl.Float64),
    }
    tumbling("taxi trips", path, {"medallion": columns["medallion"], "dropoff_at": columns["at"], "distance": columns["distance"], "paid": columns["total"]}, "dropoff_at", "paid", 10)


def ticks(data, folder, copies):
    path = folder / "ticks.csv"
    with zipfile.ZipFile(data / "equity_ticks_2013" / "zips" / "aig_20131007_trade.zip") as archive:
        frame = pd.read_csv(archive.open(archive.namelist()[0]), header=None, usecols=[0, 1, 2], names=["ms", "price", "volume"])
    frame = frame.sort_values("ms", kind="stable")
    with path.open("w") as file:
        for copy in range(copies):
            times = pd.Timestamp("2013-01-01") + pd.Timedelta(days=copy) + pd.to_timedelta(frame["ms"], unit="ms")
            stamped = times.dt.strftime("%Y-%m-%d %H:%M:%S.%f").str[:-3]
            file.writelines(f"{at},{price},{volume}\n" for at, price, volume in zip(stamped, frame["price"], frame["volume"]))
    columns = {
        "ts": ("TIMESTAMP(3)", "TIMESTAMP", pl.Datetime("us")),
        "price": ("BIGINT", "BIGINT", pl.Int64),
        "volume": ("BIGINT", "BIGINT", pl.Int64),
    }
    tumbling("ticks", path, columns, "ts", "volume", 1)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", nargs="?", type=pathlib.Path)
    arguments.add_argument("--rows", type=int, default=10_000_000)
    arguments.add_argument("--copies", type=int, default=100)
    given = arguments.parse_args()
    print("| what | measured | must reach |\n|---|---|---|")
    start()
    for measure in (aggregate, iterate, function):
        measure(given.rows)
    if given.data is None:
        print("without DATA, the folder with the public data sets, nothing is measured over trips and ticks", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        for measure in (trips, ticks):
            measure(given.data, pathlib.Path(folder), given.copies)


if __name__ == "__main__":
    main()
