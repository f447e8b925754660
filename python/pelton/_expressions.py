"""Expressions over columns, for queries that are put together by calls."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from typing import Any, List, Optional, Sequence, Tuple, Union

from ._native import Error
from ._types import Duration, interval, micros, quoted, sql_type


class Expr:
    """An expression over the columns of a query, as SQL. Operators and methods make others of it.

    Strings beside an operator are values; strings that are arguments of calls are names of columns.

    >>> (pelton.col("price") * 2 > 10) & (pelton.col("symbol") == "A")
    <pelton.Expr ((`price` * 2) > 10) AND (`symbol` = 'A')>
    """

    __slots__ = ("_sql", "_name", "_is_named", "_is_operand", "_is_column", "_aggregate")
    # Equality makes an expression, so that there is nothing to hash by.
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        sql: str,
        name: Optional[str] = None,
        is_named: bool = False,
        is_operand: bool = False,
        is_column: bool = False,
        aggregate: Optional[Tuple[str, List[str]]] = None,
    ) -> None:
        #: The expression, without a name.
        self._sql = sql
        #: What the column is called that it makes, if that is known, and whether AS says so.
        self._name = name
        self._is_named = is_named
        #: Whether it needs no parentheses beside an operator.
        self._is_operand = is_operand
        #: Whether it is a column by itself.
        self._is_column = is_column
        #: The function and the arguments of a call, which may be an aggregate.
        self._aggregate = aggregate

    @property
    def _operand(self) -> str:
        return self._sql if self._is_operand else f"({self._sql})"

    @property
    def _selected(self) -> str:
        """The expression with its name, as in a SELECT list."""
        return f"{self._sql} AS {quoted(self._name)}" if self._is_named and self._name is not None else self._sql

    def _binary(self, operator: str, other: Any) -> "Expr":
        return Expr(f"{self._operand} {operator} {value(other)._operand}")

    def _reversed(self, operator: str, other: Any) -> "Expr":
        return Expr(f"{value(other)._operand} {operator} {self._operand}")

    def __add__(self, other: Any) -> "Expr":
        return self._binary("+", other)

    def __radd__(self, other: Any) -> "Expr":
        return self._reversed("+", other)

    def __sub__(self, other: Any) -> "Expr":
        return self._binary("-", other)

    def __rsub__(self, other: Any) -> "Expr":
        return self._reversed("-", other)

    def __mul__(self, other: Any) -> "Expr":
        return self._binary("*", other)

    def __rmul__(self, other: Any) -> "Expr":
        return self._reversed("*", other)

    def __truediv__(self, other: Any) -> "Expr":
        return self._binary("/", other)

    def __rtruediv__(self, other: Any) -> "Expr":
        return self._reversed("/", other)

    def __mod__(self, other: Any) -> "Expr":
        return self._binary("%", other)

    def __rmod__(self, other: Any) -> "Expr":
        return self._reversed("%", other)

    def __eq__(self, other: Any) -> "Expr":  # type: ignore[override]
        return self._binary("=", other)

    def __ne__(self, other: Any) -> "Expr":  # type: ignore[override]
        return self._binary("<>", other)

    def __lt__(self, other: Any) -> "Expr":
        return self._binary("<", other)

    def __le__(self, other: Any) -> "Expr":
        return self._binary("<=", other)

    def __gt__(self, other: Any) -> "Expr":
        return self._binary(">", other)

    def __ge__(self, other: Any) -> "Expr":
        return self._binary(">=", other)

    def __and__(self, other: Any) -> "Expr":
        return self._binary("AND", other)

    def __or__(self, other: Any) -> "Expr":
        return self._binary("OR", other)

    def __invert__(self) -> "Expr":
        return Expr(f"NOT {self._operand}")

    def __neg__(self) -> "Expr":
        return Expr(f"- {self._operand}")

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value: write & for AND, | for OR and ~ for NOT, with parentheses around comparisons")

    def alias(self, name: str) -> "Expr":
        """The expression under a name: AS."""
        return Expr(self._sql, name, True, self._is_operand, self._is_column, self._aggregate)

    def cast(self, to: Any) -> "Expr":
        """CAST to a type: of SQL, of Python or of pyarrow."""
        return Expr(f"CAST({self._sql} AS {sql_type(to)})", is_operand=True)

    def is_null(self) -> "Expr":
        """IS NULL."""
        return Expr(f"{self._operand} IS NULL")

    def is_not_null(self) -> "Expr":
        """IS NOT NULL."""
        return Expr(f"{self._operand} IS NOT NULL")

    def is_in(self, values: Sequence[Any]) -> "Expr":
        """IN."""
        return Expr(f"{self._operand} IN ({_list(value(part) for part in values)})")

    def between(self, low: Any, high: Any) -> "Expr":
        """BETWEEN."""
        return Expr(f"{self._operand} BETWEEN {value(low)._operand} AND {value(high)._operand}")

    def like(self, pattern: Any) -> "Expr":
        """LIKE."""
        return self._binary("LIKE", pattern)

    def distinct(self) -> "Expr":
        """An aggregate of distinct values: COUNT(DISTINCT …)."""
        function, arguments = self._call("distinct")
        passed = f"DISTINCT {', '.join(arguments)}"
        return Expr(f"{function}({passed})", self._name, self._is_named, is_operand=True, aggregate=(function, [passed]))

    def filter(self, condition: "Expr") -> "Expr":
        """An aggregate of the rows for which a condition holds: FILTER (WHERE …)."""
        call = self._call("filter")
        sql = f"{self._sql} FILTER (WHERE {argument(condition)._sql})"
        return Expr(sql, self._name, self._is_named, is_operand=True, aggregate=call)

    def _call(self, method: str) -> Tuple[str, List[str]]:
        if self._aggregate is None:
            raise Error(f".{method}(…): {self._sql} is no call of an aggregate function")
        return self._aggregate

    def over(
        self,
        order_by: Union[str, "Expr"],
        partition_by: Sequence[Union[str, "Expr"]] = (),
        rows: Optional[int] = None,
        range: Optional[Duration] = None,
    ) -> "Expr":
        """An aggregate OVER each row and the rows before it: so many rows, or as long a time; else all."""
        if rows is not None and range is not None:
            raise Error(".over(…): preceding rows are counted by rows=…, or reach back in time by range=…: not both")
        keys = f"PARTITION BY {_list(argument(key) for key in partition_by)} " if partition_by else ""
        if rows is not None:
            frame = f"ROWS BETWEEN {int(rows)} PRECEDING"
        elif range is not None:
            frame = f"RANGE BETWEEN {interval(micros(range))} PRECEDING"
        else:
            frame = "RANGE BETWEEN UNBOUNDED PRECEDING"
        window = f"{keys}ORDER BY {argument(order_by)._sql} {frame} AND CURRENT ROW"
        return Expr(f"{self._sql} OVER ({window})", self._name, self._is_named, is_operand=True)

    def __repr__(self) -> str:
        return f"<pelton.Expr {self._selected}>"


def _list(expressions: Any) -> str:
    return ", ".join(expression._sql for expression in expressions)


#: A name in double quotes, or one that goes on to the next dot.
_NAME = re.compile(r'"((?:[^"]|"")*)"|([^."]+)')


def col(name: str) -> Expr:
    """A column by its name, which is case sensitive. ``table.column`` is that of a table or alias; a name that has a dot itself is put in double quotes.

    >>> pelton.col("trades.price"), pelton.col('"a.b"')
    (<pelton.Expr `trades`.`price`>, <pelton.Expr `a.b`>)
    """
    parts: List[str] = []
    at = 0
    while at <= len(name):
        found = _NAME.match(name, at)
        if found is None or name[found.end() : found.end() + 1] not in ("", "."):
            raise Error(f"{name!r} is no name of a column: write column or table.column, and names with other signs in double quotes")
        parts.append(found[2] if found[1] is None else found[1].replace('""', '"'))
        at = found.end() + 1
    return Expr(".".join(map(quoted, parts)), parts[-1], is_operand=True, is_column=True)


def lit(literal: Any) -> Expr:
    """A value: a number, a string, a date or time, a length of time, a decimal, True, False or None.

    >>> lit(1), lit("it's"), lit(datetime.timedelta(seconds=90))
    (<pelton.Expr 1>, <pelton.Expr 'it''s'>, <pelton.Expr INTERVAL '90' SECOND>)
    """
    sql = _literal(literal)
    return Expr(sql, is_operand=not sql.startswith("-"))


def _literal(literal: Any) -> str:
    if literal is None:
        return "NULL"
    if isinstance(literal, bool):
        return str(literal).upper()
    if isinstance(literal, int):
        return str(int(literal))
    if isinstance(literal, float):
        special = "NaN" if math.isnan(literal) else "Infinity" if literal > 0 else "-Infinity"
        return f"CAST({float(literal)!r} AS DOUBLE)" if math.isfinite(literal) else f"CAST('{special}' AS DOUBLE)"
    if isinstance(literal, str):
        return text_literal(literal)
    if isinstance(literal, (bytes, bytearray)):
        return f"X'{literal.hex()}'"
    if isinstance(literal, decimal.Decimal) and literal.is_finite():
        text = f"{literal:f}"
        whole, _, fraction = text.lstrip("-").partition(".")
        return f"CAST('{text}' AS DECIMAL({len(whole.lstrip('0') + fraction) or 1}, {len(fraction)}))"
    if isinstance(literal, datetime.datetime):
        if literal.tzinfo is None:
            return f"TIMESTAMP '{literal.isoformat(' ')}'"
        instant = literal.astimezone(datetime.timezone.utc)
        return f"CAST('{instant:%Y-%m-%d %H:%M:%S.%f}Z' AS TIMESTAMP_LTZ(6))"
    if isinstance(literal, datetime.date):
        return f"DATE '{literal.isoformat()}'"
    if isinstance(literal, datetime.timedelta):
        return interval(literal // datetime.timedelta(microseconds=1))
    raise Error(f"there is no literal of {type(literal)}: use a number, a string, bytes, a date or time, a timedelta, a Decimal, True, False or None")


def text_literal(text: str) -> str:
    """A string as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def value(operand: Any) -> Expr:
    """An operand: an expression as it is, anything else as a value."""
    return operand if isinstance(operand, Expr) else lit(operand)


def argument(operand: Any) -> Expr:
    """An argument of a call: a string is the name of a column."""
    return col(operand) if isinstance(operand, str) else value(operand)


def call(function: str, arguments: Sequence[Any]) -> Expr:
    """A call of a function by its name."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", function):
        raise Error(f"{function!r} is no name of a function")
    passed = [argument(operand)._sql for operand in arguments]
    return Expr(f"{function}({', '.join(passed)})", is_operand=True, aggregate=(function, passed))


def sum(operand: Any) -> Expr:
    """SUM."""
    return call("SUM", [operand])


def avg(operand: Any) -> Expr:
    """AVG."""
    return call("AVG", [operand])


def min(operand: Any) -> Expr:
    """MIN."""
    return call("MIN", [operand])


def max(operand: Any) -> Expr:
    """MAX."""
    return call("MAX", [operand])


def count(operand: Any = None) -> Expr:
    """COUNT of values that are not NULL, or of all rows."""
    return Expr("COUNT(*)", is_operand=True, aggregate=("COUNT", ["*"])) if operand is None else call("COUNT", [operand])


class SortKey:
    """An expression to order by, with a direction: made by :func:`asc` and :func:`desc`."""

    __slots__ = ("_sql",)

    def __init__(self, expression: Expr, is_ascending: bool, nulls_first: bool) -> None:
        direction, nulls = "ASC" if is_ascending else "DESC", "FIRST" if nulls_first else "LAST"
        self._sql = f"{expression._sql} {direction} NULLS {nulls}"


def asc(operand: Any, nulls_first: bool = True) -> SortKey:
    """Ascending, as an argument of ``order_by`` and ``top``."""
    return SortKey(argument(operand), True, nulls_first)


def desc(operand: Any, nulls_first: bool = False) -> SortKey:
    """Descending, as an argument of ``order_by`` and ``top``."""
    return SortKey(argument(operand), False, nulls_first)


def sorted_by(keys: Sequence[Any]) -> str:
    """Keys to order by; those without a direction are ascending."""
    return _list(key if isinstance(key, SortKey) else asc(key) for key in keys)


class Window:
    """How rows are assigned to windows: made by :func:`tumble`, :func:`hop`, :func:`cumulate`, :func:`session`, :func:`tumble_rows` and :func:`hop_rows`."""

    __slots__ = ("_function", "_arguments", "_keys")

    def __init__(self, function: str, arguments: List[str], partition_by: Sequence[str] = ()) -> None:
        self._function = function
        self._arguments = arguments
        self._keys = f" PARTITION BY {_list(map(argument, partition_by))}" if partition_by else ""

    def of(self, table: str) -> str:
        """The call of the window function for the rows of a table."""
        return f"{self._function}({table}{self._keys}, {', '.join(self._arguments)})"


def _of_time(function: str, time: str, *lengths: Duration, offset: Duration = 0, partition_by: Sequence[str] = ()) -> Window:
    arguments = [f"DESCRIPTOR({col(time)._sql})", *(interval(micros(length)) for length in lengths)]
    if micros(offset) != 0:
        arguments.append(interval(micros(offset)))
    return Window(function, arguments, partition_by)


def tumble(time: str, size: Duration, offset: Duration = 0) -> Window:
    """Windows of a length, one behind the other: TUMBLE. A length is a timedelta, seconds, or text such as '10 s'."""
    return _of_time("TUMBLE", time, size, offset=offset)


def hop(time: str, slide: Duration, size: Duration, offset: Duration = 0) -> Window:
    """Windows of a length that begin at each slide: HOP."""
    return _of_time("HOP", time, slide, size, offset=offset)


def cumulate(time: str, step: Duration, size: Duration, offset: Duration = 0) -> Window:
    """Windows that grow by a step until they have their length: CUMULATE."""
    return _of_time("CUMULATE", time, step, size, offset=offset)


def session(time: str, gap: Duration, partition_by: Sequence[str] = ()) -> Window:
    """Windows that end where no row comes for as long as a gap: SESSION."""
    return _of_time("SESSION", time, gap, partition_by=partition_by)


def tumble_rows(size: int, partition_by: Sequence[str] = ()) -> Window:
    """Windows of so many rows: TUMBLE_ROWS."""
    return Window("TUMBLE_ROWS", [str(int(size))], partition_by)


def hop_rows(slide: int, size: int, partition_by: Sequence[str] = ()) -> Window:
    """Windows of so many rows that begin at each slide: HOP_ROWS."""
    return Window("HOP_ROWS", [str(int(slide)), str(int(size))], partition_by)
