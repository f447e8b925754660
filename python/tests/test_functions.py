"""Functions of Python in SQL."""

import datetime as dt
import decimal
from typing import Dict, List, Optional

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pelton


@pytest.fixture
def numbers(con):
    con.register("numbers", {"i": list(range(100_000)), "s": [str(i % 7) for i in range(100_000)]})
    return con


def test_arrays_of_all_libraries(numbers):
    functions = {
        "of_pyarrow": lambda i: pc.add(i, 1),
        "of_numpy": lambda i: np.asarray(i) + 1,
        "of_polars": lambda i: pl.Series(pl.from_arrow(i)) + 1,
        "of_lists": lambda i: [value + 1 for value in i.to_pylist()],
        "of_chunks": lambda i: pa.chunked_array([pc.add(i, 1)]),
    }
    for name, function in functions.items():
        numbers.create_function(name, function, [int], int)
        assert numbers.sql(f"SELECT SUM({name}(i)) FROM numbers").fetchone() == (5_000_050_000,), name


def test_strings_come_as_strings(numbers):
    numbers.create_function("loud", lambda s: pc.utf8_upper(pc.binary_join_element_wise("x", s, "")), [str], str)
    assert numbers.sql("SELECT loud(s) FROM numbers LIMIT 1").fetchone() == ("X0",)


def test_nested_strings_come_as_strings(con):
    con.register("t", {"words": [["a", "b"], None, []], "part": [{"s": "x"}] * 3})
    con.create_function("joined", lambda words: pc.binary_join(words, "-"), [List[str]], str)
    con.create_function("inside", lambda part: pc.utf8_upper(pc.struct_field(part, "s")), ["ROW<s STRING>"], str)
    assert con.sql("SELECT joined(words), inside(part) FROM t").fetchall() == [("a-b", "X"), (None, "X"), ("", "X")]


def test_annotations_are_types(con):
    def describe(
        a: int, b: float, c: str, d: bool, e: bytes, f: dt.date, g: dt.datetime, h: decimal.Decimal, i: List[int], j: Dict[str, int], k: Optional[int]
    ) -> str:
        return " ".join(type(value).__name__ for value in (a, b, c, d, e, f, g, h, i, j, k))

    con.create_function("describe", describe, by_row=True)
    con.register("lists", pa.table({"i": [[1]], "j": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}))
    row = con.sql(
        """SELECT describe(1, CAST(2 AS DOUBLE), 'c', TRUE, CAST('e' AS BYTES), DATE '2024-01-01', TIMESTAMP '2024-01-01 00:00:00',
                  CAST(1.5 AS DECIMAL(38, 9)), i, j, CAST(NULL AS BIGINT)) FROM lists"""
    ).fetchone()
    assert row == ("int float str bool bytes date datetime Decimal list dict NoneType",)


def test_decorators():
    @pelton.function(by_row=True)
    def twice_of_test(i: int) -> int:
        return 2 * i

    assert twice_of_test(2) == 4
    assert pelton.sql("SELECT twice_of_test(3)").fetchone() == (6,)


def test_missing_types_are_named(con):
    for function, message in [
        (lambda i: i, "the argument i of f has no type"),
        (len, "the argument obj of f has no type"),
    ]:
        with pytest.raises(pelton.Error, match=message):
            con.create_function("f", function)
    with pytest.raises(pelton.Error, match="the type that f returns is not known"):
        con.create_function("f", lambda i: i, [int])
    with pytest.raises(pelton.Error, match="there is no SQL type for"):
        con.create_function("f", lambda i: i, [object], int)


def test_an_exception_is_an_error_with_its_traceback_and_row(con):
    def reciprocal(i: int) -> float:
        return 1 / i

    con.create_function("reciprocal", reciprocal, by_row=True)
    con.register("t", {"i": [1, 2, 0, 4]})
    with pytest.raises(pelton.Error) as raised:
        con.sql("SELECT reciprocal(i) FROM t").fetchall()
    message = str(raised.value)
    assert "ZeroDivisionError: division by zero" in message
    assert "return 1 / i" in message and "test_functions.py" in message
    assert "(0,)" in message
    # Another query is not affected, nor is another one of the same function.
    assert con.sql("SELECT reciprocal(i) FROM t WHERE i = 4").fetchall() == [(0.25,)]


def test_an_exception_of_arrays(con):
    con.create_function("broken", lambda i: pc.divide(i, 0), [int], int)
    con.register("t", {"i": [5]})
    with pytest.raises(pelton.Error, match="ArrowInvalid: divide by zero"):
        con.sql("SELECT broken(i) FROM t").fetchall()


RESULTS = [
    (lambda i: pa.array([1]), "must return 3 values of type BIGINT, not 1"),
    (lambda i: ["x"] * len(i), "'x' is not BIGINT"),
    (lambda i: 5, "it must return an Arrow array"),
    (lambda i: pa.array(["x"] * len(i)), "'x' is not a valid BIGINT in F"),
]


@pytest.mark.parametrize("function, message", RESULTS)
def test_results_that_do_not_fit(con, function, message):
    con.create_function("f", function, [int], int)
    con.register("t", {"i": [1, 2, 3]})
    with pytest.raises(pelton.Error, match=message):
        con.sql("SELECT f(i) FROM t").fetchall()


class Spread:
    """How far values are apart."""

    def __init__(self):
        self.low = self.high = None

    def accumulate(self, values):
        bounds = pc.min_max(values).as_py()
        if bounds["min"] is not None:
            self.low = bounds["min"] if self.low is None else min(self.low, bounds["min"])
            self.high = bounds["max"] if self.high is None else max(self.high, bounds["max"])

    def finish(self):
        return None if self.low is None else self.high - self.low


class CombinedSpread(Spread):
    def combine(self, other):
        if other.low is not None:
            self.low = other.low if self.low is None else min(self.low, other.low)
            self.high = other.high if self.high is None else max(self.high, other.high)


class Total:
    def __init__(self):
        self.total = 0

    def accumulate(self, i: int):
        self.total += i

    def combine(self, other):
        self.total += other.total

    def subtract(self, other):
        self.total -= other.total

    def finish(self) -> int:
        return self.total


@pytest.mark.parametrize("class_", [Spread, CombinedSpread])
def test_aggregates(numbers, class_):
    numbers.create_aggregate("spread", class_, [int], int)
    rows = numbers.sql("SELECT s, spread(i), MAX(i) - MIN(i) FROM numbers GROUP BY s").fetchall()
    assert len(rows) == 7 and all(row[1] == row[2] for row in rows)
    assert numbers.sql("SELECT spread(i) FROM numbers WHERE i < 0").fetchall() == [(None,)]


def test_aggregates_of_sliding_windows(con):
    start = dt.datetime(2024, 1, 1)
    con.register(
        "t",
        {"ts": pa.array([start + dt.timedelta(seconds=i) for i in range(100)], pa.timestamp("ms")), "i": list(range(100))},
        event_time="ts",
    )
    con.create_aggregate("total", Total, by_row=True)
    rows = con.sql(
        """SELECT total(i), SUM(i) FROM HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)
           GROUP BY window_start, window_end"""
    ).fetchall()
    assert len(rows) > 20 and all(own == built_in for own, built_in in rows)


def test_errors_of_aggregates(con):
    class Broken(Total):
        def finish(self) -> int:
            raise ValueError("no result")

    class Unmade(Total):
        def __init__(self):
            raise ValueError("no state")

    con.register("t", {"i": [1]})
    for class_, message in [(Broken, "ValueError: no result"), (Unmade, "ValueError: no state")]:
        con.create_aggregate("broken", class_, by_row=True)
        with pytest.raises(pelton.Error, match=message):
            con.sql("SELECT broken(i) FROM t").fetchall()
    with pytest.raises(pelton.Error, match="the aggregate f has no method accumulate"):
        con.create_aggregate("f", object, [int], int)


def test_table_functions(con):
    con.register("t", {"line": ["to be", "", "or not"]})
    con.create_table_function("words", lambda line: [(word, len(word)) for word in line.split()], [str], {"word": str, "length": int}, by_row=True)
    expected = [("to", 2), ("be", 2), ("or", 2), ("not", 3)]
    sql = "SELECT word, length FROM t CROSS JOIN LATERAL TABLE(words(line))"
    assert con.sql(sql).fetchall() == expected
    assert con.table("t").flat_map("words", "line").select("word", "length").fetchall() == expected

    def by_arrays(lines):
        lists = pc.split_pattern(lines, " ")
        return pc.list_parent_indices(lists), pc.list_flatten(lists), pc.utf8_length(pc.list_flatten(lists))

    con.create_table_function("words", by_arrays, [str], {"word": str, "length": int})
    assert con.sql(sql + " WHERE length > 0").fetchall() == expected
    with pytest.raises(pelton.Error, match="ValueError: no rows"):

        def fails(line):
            raise ValueError("no rows")

        con.create_table_function("words", fails, [str], {"word": str}, by_row=True)
        con.sql("SELECT word FROM t CROSS JOIN LATERAL TABLE(words(line))").fetchall()


def test_rows_of_another_width(con):
    con.register("t", {"i": [1]})
    con.create_table_function("pairs", lambda i: [(1, 2, 3)], [int], {"a": int, "b": int}, by_row=True)
    with pytest.raises(pelton.Error, match="it must return rows of 2 values"):
        con.sql("SELECT a FROM t CROSS JOIN LATERAL TABLE(pairs(i))").fetchall()
    con.create_table_function("pairs", lambda i: i, [int], {"a": int, "b": int})
    with pytest.raises(pelton.Error, match="it must return a tuple|not 0"):
        con.sql("SELECT a FROM t CROSS JOIN LATERAL TABLE(pairs(i))").fetchall()


def test_without_pyarrow_functions_get_arrays_of_the_package(con, monkeypatch):
    seen = []

    def plus_one(i):
        seen.append((type(i), i.type, len(i)))
        return [value + 1 for value in i.to_pylist()]

    con.register("t", {"i": [1, 2]})
    con.create_function("plus_one", plus_one, [int], int)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert con.sql("SELECT plus_one(i) FROM t").fetchall() == [(2,), (3,)]
    assert seen[0] == (pelton.Array, "BIGINT", 2)
    with pytest.raises(ImportError, match="needs pyarrow: pip install pyarrow"):
        con.sql("SELECT i FROM t").arrow()
