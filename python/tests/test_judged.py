"""Results are those of the Rust API, and DuckDB's."""

import csv
import io
import pathlib
import re
import subprocess
import sys

import pytest

import pelton
from conftest import DATA, ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.sql"))

GENERATED = [path for path in EXAMPLES if not re.search(r"^-- data:", path.read_text(), re.MULTILINE)]

ON_REAL_DATA = [path for path in EXAMPLES if path not in GENERATED]


def as_csv(value):
    """A value as the program writes it: times without zeros behind them."""
    return re.sub(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d*[1-9])?)\.?0*$", r"\1", value or "")


def rows_of(script):
    """The rows of a script's last statement as text, and their columns."""
    with pelton.connect() as con:
        query = con.sql(script)
        return query.column_names, [[as_csv(value) for value in row] for batch in query for row in batch._native.text("UTC")]


@pytest.mark.parametrize("path", GENERATED, ids=[path.stem for path in GENERATED])
def test_examples_are_as_the_program_has_them(path, program, tmp_path, monkeypatch):
    # Some write files, and would read those of the other run as well.
    of_program, of_python = tmp_path / "program", tmp_path / "python"
    of_program.mkdir()
    of_python.mkdir()
    monkeypatch.chdir(of_python)
    command = [program, "run", "--format", "csv", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=of_program)
    if done.returncode != 0 or not done.stdout:
        pytest.skip("the program runs this example with data only")
    names, *expected = csv.reader(io.StringIO(done.stdout))
    columns, rows = rows_of(path.read_text())
    assert columns == names
    rows, expected = sorted(rows), sorted([as_csv(value) for value in row] for row in expected)
    # What pytest says of the difference between long lists takes minutes.
    differing = [pair for pair in zip(rows, expected) if pair[0] != pair[1]][:5]
    assert (len(rows), differing) == (len(expected), [])


@pytest.mark.skipif(not DATA.is_dir(), reason="there is no real data beside the workspace")
@pytest.mark.parametrize("example", ON_REAL_DATA, ids=[path.stem for path in ON_REAL_DATA])
def test_duckdb_agrees_on_real_data(example, tmp_path_factory, monkeypatch):
    judge = ROOT / "crates" / "xtask" / "judge.py"
    folder = tmp_path_factory.getbasetemp() / "judge"
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)

    def ask(action, *more):
        subprocess.run([sys.executable, judge, action, example, DATA, *more], check=True)

    ask("prepare")
    columns, rows = rows_of(example.read_text())
    result = pathlib.Path(f"{example.stem}.csv")
    with result.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    ask("compare", result)
