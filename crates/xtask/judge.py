"""What `cargo xtask judge` asks of Python: to lay out the real data, and to compare an example's rows with DuckDB's.

    judge.py prepare EXAMPLE.sql RAW             puts the data that the example names into ./data
    judge.py compare EXAMPLE.sql RAW RESULT.csv  exits with an error where the rows differ
"""

import gzip
import inspect
import math
import pathlib
import re
import shutil
import sys
import zipfile

import duckdb

SHOWN_MAX = 10
RELATIVE_TOLERANCE = 1e-9


def copy(raw: pathlib.Path, laid_out: pathlib.Path) -> None:
    """A file that can be replaced by a later layout, whoever may write the raw one."""
    laid_out.unlink(missing_ok=True)
    shutil.copyfile(raw, laid_out)


def equity_ticks_2013(raw: pathlib.Path, data: pathlib.Path) -> None:
    """All trades in one file and all quotes in another, in order of time; the raw files are one a symbol and day, which only their names tell."""
    symbol = "upper(regexp_extract(filename, '_([a-z]+)_', 1))"
    time = "strptime(regexp_extract(filename, '(\\d{8})_', 1), '%Y%m%d') + to_milliseconds(column0::BIGINT)"
    for kind in ["trade", "quote"]:
        (data / kind).mkdir(exist_ok=True)
        for path in sorted((raw / "zips").glob(f"*_{kind}.zip")):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(data / kind)
    duckdb.sql(
        f"""
        COPY (
            SELECT
                {symbol} AS symbol,
                strftime({time}, '%Y-%m-%d %H:%M:%S.%g') AS ts,
                column1 AS price,
                column2 AS volume,
                column3 AS exchange
            FROM read_csv('{data}/trade/*.csv', header = false, filename = true)
            ORDER BY ts
        ) TO '{data}/trades.csv' (HEADER)
        """
    )
    duckdb.sql(
        f"""
        COPY (
            SELECT
                {symbol} AS symbol,
                ({time})::TIMESTAMP_MS AS ts,
                column1::BIGINT AS bid,
                column2::BIGINT AS bid_size,
                column3::BIGINT AS ask,
                column4::BIGINT AS ask_size
            FROM read_csv('{data}/quote/*.csv', header = false, filename = true, all_varchar = true)
            ORDER BY ts
        ) TO '{data}/quotes.parquet'
        """
    )
    for kind in ["trade", "quote"]:
        shutil.rmtree(data / kind)


def google_cluster_task_events(raw: pathlib.Path, data: pathlib.Path) -> None:
    copy(raw / "google-cluster-data.txt", data / "task_events.txt")


def debs2014_smart_grid(raw: pathlib.Path, data: pathlib.Path) -> None:
    copy(raw / "smartgrid-data.txt", data / "smart_grid.txt")


def linear_road_lightsaber(raw: pathlib.Path, data: pathlib.Path) -> None:
    copy(raw / "lrb-data-small-ht.txt", data / "reports.txt")


def linear_road_driver_sample(raw: pathlib.Path, data: pathlib.Path) -> None:
    copy(raw / "as_logged_20000.csv", data / "reports_as_logged.csv")
    copy(raw / "lr_0_323s_sorted.csv", data / "reports_sorted.csv")


def wikipedia_edits_2015(raw: pathlib.Path, data: pathlib.Path) -> None:
    """Without the few edits that somebody has given other days."""
    with gzip.open(raw / "wikiticker-2015-09-12-sampled.json.gz", "rb") as edits, open(data / "edits.json", "wb") as kept:
        kept.writelines(edit for edit in edits if b'"time":"2015-09-12T' in edit)


def apache_access_log(raw: pathlib.Path, data: pathlib.Path) -> None:
    copy(raw / "apache_logs.gz", data / "access.log.gz")


def nyc_taxi_2013(raw: pathlib.Path, data: pathlib.Path) -> None:
    copy(raw / "debs2015_first_10k.csv", data / "trips.csv")


LAYOUTS = [
    equity_ticks_2013,
    google_cluster_task_events,
    debs2014_smart_grid,
    linear_road_lightsaber,
    linear_road_driver_sample,
    wikipedia_edits_2015,
    apache_access_log,
    nyc_taxi_2013,
]


def prepare(example: pathlib.Path, raw: pathlib.Path) -> None:
    name = re.search(r"^-- data: (\w+)$", example.read_text(), re.MULTILINE).group(1)
    layout = next(layout for layout in LAYOUTS if layout.__name__ == name)
    data = pathlib.Path("data")
    ready = data / f"{name}.ready"
    version = inspect.getsource(layout)
    if ready.exists() and ready.read_text() == version:
        return
    data.mkdir(exist_ok=True)
    layout(raw / name, data)
    ready.write_text(version)


def compare(example: pathlib.Path, result: pathlib.Path) -> None:
    oracle = duckdb.sql((example.parent / "judge" / example.name).read_text())
    columns = {name: str(kind) for name, kind in zip(oracle.columns, oracle.types)}
    theirs = ordered(oracle.fetchall())
    ours = duckdb.read_csv(str(result), header=True, columns=columns)
    header = result.read_text().split("\n", 1)[0]
    if header != ",".join(oracle.columns):
        sys.exit(f"{example.name}: columns {header}, DuckDB has {','.join(oracle.columns)}")
    ours = ordered(last_rows(example, oracle.columns, ours.fetchall()))
    differences = [(mine, other) for mine, other in zip(ours, theirs) if not same(mine, other)]
    for mine, other in differences[:SHOWN_MAX]:
        print(f"{example.name}: ours {mine}\n{example.name}: DuckDB's {other}")
    if differences or len(ours) != len(theirs):
        sys.exit(f"{example.name}: {len(ours)} rows, DuckDB has {len(theirs)}; {len(differences)} differ")
    if not ours:
        sys.exit(f"{example.name}: no rows, which proves nothing")


def last_rows(example: pathlib.Path, columns: list[str], rows: list[tuple]) -> list[tuple]:
    """Of windows that are reported again, what an example says is judged: the last row of each group."""
    judged = re.search(r"^-- judged: the last row of each (.+)$", example.read_text(), re.MULTILINE)
    if not judged:
        return rows
    keys = [columns.index(name) for name in judged.group(1).split(", ")]
    last = {tuple(row[key] for key in keys): row for row in rows}
    if len(last) == len(rows):
        sys.exit(f"{example.name}: no window was reported again, which proves nothing")
    return list(last.values())


def ordered(rows: list[tuple]) -> list[tuple]:
    """By everything but floating-point values, which may differ in their last digits."""
    return sorted(rows, key=lambda row: [(value is None, str(value)) for value in row if not isinstance(value, float)])


def same(mine: tuple, other: tuple) -> bool:
    return all(
        math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(mine, other)
    )


if __name__ == "__main__":
    action, example, raw, *rest = sys.argv[1:]
    if action == "prepare":
        prepare(pathlib.Path(example), pathlib.Path(raw))
    else:
        compare(pathlib.Path(example), pathlib.Path(rest[0]))
