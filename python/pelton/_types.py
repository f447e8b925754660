"""Types of SQL, of Python's annotations and of pyarrow."""

from __future__ import annotations

import datetime
import decimal
import sys
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
    is_union = origin is Union or (sys.version_info >= (3, 10) and origin is __import__("types").UnionType)
    if is_union:
        kinds = [argument for argument in arguments if argument is not type(None)]
        if len(kinds) == 1:
            return sql_type(kinds[0])
    if origin in (list, typing.get_origin(List[int])) and len(arguments) == 1:
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
    types = pa.types
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
    if types.is_string(declared) or types.is_large_string(declared) or declared == pa.string_view():
        return "STRING"
    if types.is_binary(declared) or types.is_large_binary(declared) or declared == pa.binary_view():
        return "BYTES"
    if types.is_decimal(declared):
        return f"DECIMAL({declared.precision}, {declared.scale})"
    if types.is_timestamp(declared):
        digits = {"s": 0, "ms": 3, "us": 6, "ns": 6}[declared.unit]
        return f"TIMESTAMP_LTZ({digits})" if declared.tz else f"TIMESTAMP({digits})"
    if types.is_list(declared) or types.is_large_list(declared):
        return f"ARRAY<{sql_type(declared.value_type)}>"
    if types.is_map(declared):
        return f"MAP<{sql_type(declared.key_type)}, {sql_type(declared.item_type)}>"
    if types.is_struct(declared):
        return "ROW<" + ", ".join(f"{quoted(field.name)} {sql_type(field.type)}" for field in declared) + ">"
    return None


def quoted(name: str) -> str:
    """A name as SQL has it where it is no plain word."""
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
