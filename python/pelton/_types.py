"""Types of SQL, of Python's annotations and of pyarrow."""

from __future__ import annotations

import datetime
import decimal
import sys
import types
import typing
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._native import Error

_NAMES: Dict[Any, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "STRING",
    bytes: "BYTES",
    decimal.Decimal: "DECIMAL(38, 9)",
    datetime.date: "DATE",
    datetime.datetime: "TIMESTAMP(6)",
}

#: Columns: a list as in CREATE TABLE, or names with types.
Columns = Union[str, Mapping[str, Any], Sequence[Tuple[str, Any]], Any]


def sql_type(declared: Any) -> str:
    """The SQL type that a type is declared with: its name, a type of Python or of pyarrow, or an annotation.

    >>> sql_type(int), sql_type("DECIMAL(10, 2)"), sql_type(List[float])
    ('BIGINT', 'DECIMAL(10, 2)', 'ARRAY<DOUBLE>')
    """
    if isinstance(declared, str):
        return declared
    if declared in _NAMES:
        return _NAMES[declared]
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    # `int | None` is one of `types`, which Python 3.9 has not.
    if origin is Union or origin is getattr(types, "UnionType", Union):
        kinds = [argument for argument in arguments if argument is not type(None)]
        if len(kinds) == 1:
            return sql_type(kinds[0])
    if origin is list and len(arguments) == 1:
        return f"ARRAY<{sql_type(arguments[0])}>"
    if origin is dict and len(arguments) == 2:
        return f"MAP<{sql_type(arguments[0])}, {sql_type(arguments[1])}>"
    of_arrow = _of_arrow(declared)
    if of_arrow is not None:
        return of_arrow
    raise Error(f"there is no SQL type for {declared!r}: use int, float, str, bool, bytes, a date or time, list[…], dict[…, …], or the name of a SQL type")


def _of_arrow(declared: Any) -> Optional[str]:
    pa = sys.modules.get("pyarrow")
    if pa is None or not isinstance(declared, pa.DataType):
        return None
    plain = {
        pa.bool_(): "BOOLEAN",
        pa.int8(): "TINYINT",
        pa.int16(): "SMALLINT",
        pa.int32(): "INT",
        pa.int64(): "BIGINT",
        pa.float32(): "FLOAT",
        pa.float64(): "DOUBLE",
        pa.date32(): "DATE",
    }
    if declared in plain:
        return plain[declared]
    if pa.types.is_string(declared) or pa.types.is_large_string(declared) or declared == pa.string_view():
        return "STRING"
    if pa.types.is_binary(declared) or pa.types.is_large_binary(declared) or declared == pa.binary_view():
        return "BYTES"
    if pa.types.is_decimal(declared):
        return f"DECIMAL({declared.precision}, {declared.scale})"
    if pa.types.is_timestamp(declared):
        digits = {"s": 0, "ms": 3, "us": 6, "ns": 6}[declared.unit]
        return f"TIMESTAMP_LTZ({digits})" if declared.tz else f"TIMESTAMP({digits})"
    if pa.types.is_list(declared) or pa.types.is_large_list(declared):
        return f"ARRAY<{sql_type(declared.value_type)}>"
    if pa.types.is_map(declared):
        return f"MAP<{sql_type(declared.key_type)}, {sql_type(declared.item_type)}>"
    if pa.types.is_struct(declared):
        return "ROW<" + ", ".join(f"{quoted(field.name)} {sql_type(field.type)}" for field in declared) + ">"
    return None


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return "`" + name.replace("`", "``") + "`"


def column_list(columns: Columns) -> str:
    """Columns as a list in CREATE TABLE.

    >>> column_list({"symbol": str, "price": "DOUBLE NOT NULL"})
    '`symbol` STRING, `price` DOUBLE NOT NULL'
    """
    if isinstance(columns, str):
        return columns
    pa = sys.modules.get("pyarrow")
    if pa is not None and isinstance(columns, pa.Schema):
        pairs = [(field.name, sql_type(field.type) + ("" if field.nullable else " NOT NULL")) for field in columns]
    else:
        pairs = list(columns.items()) if isinstance(columns, Mapping) else list(columns)
    return ", ".join(f"{quoted(name)} {sql_type(kind)}" for name, kind in pairs)


def positional(types: Sequence[Any]) -> str:
    """Types without names as columns."""
    return ", ".join(f"`_{index}` {sql_type(kind)}" for index, kind in enumerate(types))


#: Units of intervals, in microseconds.
_INTERVALS = {"DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}


def interval(length_us: int) -> str:
    """A length of time as SQL has it.

    >>> interval(10_000_000), interval(7_200_000_000), interval(1_500_000)
    ("INTERVAL '10' SECOND", "INTERVAL '2' HOUR", "INTERVAL '1.500000' SECOND")
    """
    for unit, unit_us in _INTERVALS.items():
        if length_us % unit_us == 0 and length_us != 0:
            return f"INTERVAL '{length_us // unit_us}' {unit}"
    sign = "-" if length_us < 0 else ""
    seconds, rest_us = divmod(abs(length_us), 1_000_000)
    return f"INTERVAL '{sign}{seconds}{f'.{rest_us:06}' if rest_us else ''}' SECOND"


def watermark(event_time: str, delay_us: int) -> str:
    """The event time of a table, as it is declared behind its columns."""
    delay = "" if delay_us == 0 else f" - {interval(delay_us)}"
    return f", WATERMARK FOR {quoted(event_time)} AS {quoted(event_time)}{delay}"


_UNITS = {
    "us": 1,
    "µs": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "sec": 1_000_000,
    "second": 1_000_000,
    "min": 60_000_000,
    "m": 60_000_000,
    "minute": 60_000_000,
    "h": 3_600_000_000,
    "hour": 3_600_000_000,
    "d": 86_400_000_000,
    "day": 86_400_000_000,
}

Duration = Union[str, int, float, datetime.timedelta]


def micros(duration: Duration) -> int:
    """A length of time in microseconds: a timedelta, seconds, or text such as '10 s', '5 min' and '1 day'.

    >>> micros("10 s"), micros(0.5), micros(datetime.timedelta(minutes=1))
    (10000000, 500000, 60000000)
    """
    if isinstance(duration, datetime.timedelta):
        length = duration // datetime.timedelta(microseconds=1)
    elif isinstance(duration, (int, float)):
        length = round(duration * 1_000_000)
    else:
        text = duration.strip()
        digits = len(text) - len(text.lstrip("0123456789."))
        unit = text[digits:].strip().lower()
        unit = unit if unit in _UNITS else unit.rstrip("s")
        try:
            length = round(float(text[:digits]) * _UNITS[unit])
        except (KeyError, ValueError):
            raise Error(f"'{duration}' is no length of time: write a number and a unit, as in '10 s', '500 ms', '5 min', '1 h' or '1 day'") from None
    if length < 0:
        raise Error(f"{duration!r} is a negative length of time")
    return length
