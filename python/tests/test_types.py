"""Types both ways, against pyarrow."""

import datetime as dt
import decimal

import pyarrow as pa
import pytest

import pelton

UTC = dt.timezone.utc


@pytest.fixture
def con(any_con):
    """All of this holds for engines of both kinds."""
    return any_con

# SQL type, a value as a literal of SQL, the same in Python, the type of pyarrow.
TYPES = [
    ("BOOLEAN", "TRUE", True, pa.bool_()),
    ("TINYINT", "CAST(-128 AS TINYINT)", -128, pa.int8()),
    ("SMALLINT", "CAST(32767 AS SMALLINT)", 32767, pa.int16()),
    ("INT", "2147483647", 2147483647, pa.int32()),
    ("BIGINT", "9223372036854775807", 9223372036854775807, pa.int64()),
    ("FLOAT", "CAST(0.5 AS FLOAT)", 0.5, pa.float32()),
    ("DOUBLE", "CAST(0.1 AS DOUBLE)", 0.1, pa.float64()),
    ("DECIMAL(10, 2)", "CAST(-12.50 AS DECIMAL(10, 2))", decimal.Decimal("-12.50"), pa.decimal128(10, 2)),
    (
        "DECIMAL(38, 0)",
        "CAST('12345678901234567890123456789012345678' AS DECIMAL(38, 0))",
        decimal.Decimal("12345678901234567890123456789012345678"),
        pa.decimal128(38, 0),
    ),
    ("STRING", "'wörds'", "wörds", pa.string()),
    ("BYTES", "CAST('ab' AS BYTES)", b"ab", pa.binary()),
    ("DATE", "DATE '2024-02-29'", dt.date(2024, 2, 29), pa.date32()),
    ("TIMESTAMP(0)", "CAST('2024-03-01 09:30:00' AS TIMESTAMP(0))", dt.datetime(2024, 3, 1, 9, 30), pa.timestamp("s")),
    (
        "TIMESTAMP(3)",
        "CAST('1969-12-31 23:59:59.999' AS TIMESTAMP(3))",
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_000),
        pa.timestamp("ms"),
    ),
    (
        "TIMESTAMP(6)",
        "CAST('2024-03-01 09:30:00.123456' AS TIMESTAMP(6))",
        dt.datetime(2024, 3, 1, 9, 30, 0, 123_456),
        pa.timestamp("us"),
    ),
    ("ARRAY<INT>", "ARRAY[1, 2]", [1, 2], pa.list_(pa.int32())),
    ("MAP<STRING, INT>", "MAP['a', 1]", {"a": 1}, pa.map_(pa.string(), pa.int32())),
    (
        "MAP<STRING, ARRAY<DECIMAL(4, 1)>>",
        "MAP['a', ARRAY[CAST(1.5 AS DECIMAL(4, 1)), CAST(NULL AS DECIMAL(4, 1))]]",
        {"a": [decimal.Decimal("1.5"), None]},
        pa.map_(pa.string(), pa.list_(pa.decimal128(4, 1))),
    ),
    ("ARRAY<ARRAY<DATE>>", "ARRAY[ARRAY[DATE '2024-02-29'], ARRAY[DATE '1969-12-31']]", [[dt.date(2024, 2, 29)], [dt.date(1969, 12, 31)]], pa.list_(pa.list_(pa.date32()))),
    (
        "TIMESTAMP_LTZ(3)",
        "CAST('2024-03-01 09:30:00.123' AS TIMESTAMP_LTZ(3))",
        dt.datetime(2024, 3, 1, 9, 30, 0, 123_000, tzinfo=UTC),
        pa.timestamp("ms", "UTC"),
    ),
    (
        "ROW<a INT, b STRING>",
        None,
        {"a": 1, "b": "x"},
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
    ),
]
IDS = [sql_type for sql_type, *_ in TYPES]


@pytest.mark.parametrize("sql_type, literal, value, arrow_type", TYPES, ids=IDS)
def test_values_of_queries(con, sql_type, literal, value, arrow_type):
    if literal is None:
        # The parts of a ROW of SQL's text have no names.
        literal, value = "ROW(1, 'x')", {"EXPR$0": 1, "EXPR$1": "x"}
    # There is no NULL of a MAP or a ROW in SQL's text.
    has_null = not (pa.types.is_map(arrow_type) or pa.types.is_struct(arrow_type))
    null = f"CAST(NULL AS {sql_type})" if has_null else literal
    query = con.sql(f"SELECT {literal} AS v, {null} AS n")
    assert query.fetchall() == [(value, None if has_null else value)]


@pytest.mark.parametrize("sql_type, literal, value, arrow_type", TYPES, ids=IDS)
def test_values_of_rows(con, sql_type, literal, value, arrow_type):
    stream = con.stream("t", {"v": sql_type})
    query = con.sql("SELECT v FROM t")
    stream.push([(value,), (None,)])
    stream.push([{"v": value}, {}])
    stream.close()
    assert query.fetchall() == [(value,), (None,), (value,), (None,)]


@pytest.mark.parametrize("sql_type, literal, value, arrow_type", TYPES, ids=IDS)
def test_values_of_registered_tables(con, sql_type, literal, value, arrow_type):
    data = list(value.items()) if pa.types.is_map(arrow_type) else value
    table = pa.table({"v": pa.array([data, None, data], arrow_type)})
    con.register("t", table)
    query = con.sql("SELECT v FROM t")
    assert query.columns[0][1].replace("`", "") == sql_type
    assert query.fetchall() == [(value,), (None,), (value,)]
    # A part of an array begins at any of its bits.
    con.register("part", table.slice(1))
    assert con.sql("SELECT v FROM part").fetchall() == [(None,), (value,)]


@pytest.mark.parametrize("sql_type, literal, value, arrow_type", TYPES, ids=IDS)
def test_values_pass_without_a_change(con, sql_type, literal, value, arrow_type):
    data = list(value.items()) if pa.types.is_map(arrow_type) else value
    table = pa.table({"v": pa.array([data, None] * 10_000, arrow_type)})
    con.register("t", table)
    assert con.sql("SELECT v FROM t").arrow().column("v").to_pylist() == table.column("v").to_pylist()


def test_instants(con):
    noon = dt.datetime(2024, 7, 1, 12, tzinfo=UTC)
    berlin = noon.astimezone(dt.timezone(dt.timedelta(hours=2)))
    stream = con.stream("t", {"at": "TIMESTAMP_LTZ(3)"})
    query = con.sql("SELECT at FROM t")
    stream.push([(noon,), (berlin,)])
    stream.close()
    rows = query.fetchall()
    assert rows == [(noon,), (noon,)]
    assert rows[0][0].tzinfo == UTC
    con.register("zoned", pa.table({"at": pa.array([noon], pa.timestamp("ms", "Europe/Berlin"))}))
    assert con.sql("SELECT at FROM zoned").fetchall() == [(noon,)]
    con.set("table.local-time-zone", "Europe/Berlin")
    assert con.sql("SELECT CAST(at AS STRING) FROM zoned").fetchall() == [("2024-07-01 14:00:00.000",)]


WIDENED = [
    (pa.uint8(), 255, 255, "SMALLINT"),
    (pa.uint16(), 65535, 65535, "INT"),
    (pa.uint32(), 4294967295, 4294967295, "BIGINT"),
    (pa.uint64(), 18446744073709551615, decimal.Decimal(18446744073709551615), "DECIMAL(20, 0)"),
    (pa.large_string(), "x", "x", "STRING"),
    (pa.string_view(), "x", "x", "STRING"),
    (pa.large_binary(), b"x", b"x", "BYTES"),
    (pa.binary(2), b"xy", b"xy", "BYTES"),
    (pa.date64(), dt.date(2024, 1, 1), dt.date(2024, 1, 1), "DATE"),
    (pa.timestamp("ns"), dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1), "TIMESTAMP(6)"),
    (pa.large_list(pa.int32()), [1], [1], "ARRAY<INT>"),
    (pa.list_(pa.int32(), 2), [1, 2], [1, 2], "ARRAY<INT>"),
    (pa.dictionary(pa.int32(), pa.string()), "x", "x", "STRING"),
    (pa.null(), None, None, "STRING"),
    (pa.decimal256(20, 2), decimal.Decimal("1.50"), decimal.Decimal("1.50"), "DECIMAL(20, 2)"),
    (pa.float16(), 0.5, 0.5, "FLOAT"),
]


@pytest.mark.parametrize("arrow_type, value, expected, sql_type", WIDENED, ids=[str(case[0]) for case in WIDENED])
def test_other_types_of_arrow(con, arrow_type, value, expected, sql_type):
    if arrow_type == pa.float16():
        value = __import__("numpy").float16(value)
    con.register("t", pa.table({"v": pa.array([value, None], arrow_type)}))
    query = con.sql("SELECT v FROM t")
    assert query.columns == [("v", sql_type)]
    assert query.fetchall() == [(expected,), (None,)]


REFUSED = [
    (pa.array([1], pa.time64("us")), "column v: a table has no columns of type Time64"),
    (pa.array([1], pa.duration("s")), "cast it to a number of seconds"),
    (pa.array([1], pa.timestamp("ns")), "a time has 1 nanoseconds behind its microseconds"),
]


@pytest.mark.parametrize("values, message", REFUSED)
def test_types_that_no_table_has(con, values, message):
    with pytest.raises(pelton.Error, match=message):
        con.register("t", pa.table({"v": values}))


MISFITS = [
    ("INT", "x", "column v, row 2: 'x' is not INT"),
    ("INT", 1 << 40, "is not INT"),
    ("INT", True, "True is not INT"),
    ("BOOLEAN", 1, "1 is not BOOLEAN"),
    ("STRING", 1, "1 is not STRING"),
    ("BYTES", "x", "'x' is not BYTES"),
    ("DECIMAL(4, 2)", "1.234", "is not DECIMAL"),
    ("DECIMAL(4, 2)", float("nan"), "is not DECIMAL"),
    ("DECIMAL(4, 2)", 100, "too large|too big|precision"),
    ("DATE", "2024-01-01", "is not DATE"),
    ("TIMESTAMP(3)", dt.datetime(2024, 1, 1, tzinfo=UTC), "is not TIMESTAMP"),
    ("TIMESTAMP_LTZ(3)", dt.datetime(2024, 1, 1), "is not TIMESTAMP_LTZ"),
    ("ARRAY<INT>", "12", "is not ARRAY"),
    ("INT NOT NULL", None, "column v, row 2: NULL, and the column is NOT NULL"),
]


@pytest.mark.parametrize("sql_type, value, message", MISFITS)
def test_rows_that_do_not_fit(con, sql_type, value, message):
    good = {"INT": 1, "BOOLEAN": True, "STRING": "a", "BYTES": b"a", "DECIMAL(4, 2)": 1, "INT NOT NULL": 1}.get(sql_type)
    stream = con.stream("t", {"v": sql_type})
    with pytest.raises(pelton.Error, match=message):
        stream.push([(good,), (value,)])


def test_rows_of_other_shapes(con):
    stream = con.stream("t", {"a": int, "b": str})
    for rows, message in [
        ([(1, "x"), (1,)], "row 2: .*a row has 2 values, not 1"),
        ([{"a": 1, "c": 2}], "row 1: .*there is no column c; there are a, b"),
        (["ab"], "a row is a tuple, a list or a dict"),
        (pa.table({"a": [1]}), "the rows have no column b"),
        (pa.table({"a": [1], "b": ["x"], "c": [1]}), "the table has no column c"),
    ]:
        with pytest.raises(pelton.Error, match=message):
            stream.push(rows)


def test_libraries_agree(con):
    import pandas as pd
    import polars as pl

    frame = pd.DataFrame({"i": [1, 2, None], "s": ["a", None, "c"], "t": pd.to_datetime(["2024-01-01", None, "2024-01-03"])})
    polars = pl.from_pandas(frame)
    rows = con.sql("SELECT i, s, t FROM frame").fetchall()
    assert rows == con.sql("SELECT i, s, t FROM polars").fetchall()
    assert con.sql("SELECT i, s FROM frame").pl().rows() == [(1.0, "a"), (2.0, None), (None, "c")]
    back = con.sql("SELECT i, s, t FROM polars").df()
    assert back["s"].fillna("none").tolist() == ["a", "none", "c"] and back["t"][0] == pd.Timestamp("2024-01-01")
