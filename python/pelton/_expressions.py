"""Expressions over columns, for queries that are put together by calls."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

from . import _native
from ._types import Duration, micros, sql_type


class Expr:
    """An expression over the columns of a query. Operators and methods make others of it.

    Strings beside an operator are values; strings that are arguments of calls are names of columns.

    >>> (pelton.col("price") * 2 > 10) & (pelton.col("symbol") == "A")
    <pelton.Expr price * Int64(2) > Int64(10) AND symbol = Utf8("A")>
    """

    __slots__ = ("_native",)
    # Equality makes an expression, so that there is nothing to hash by.
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, native: _native.Expression) -> None:
        self._native = native

    def _binary(self, operator: str, other: Any) -> "Expr":
        return Expr(self._native.binary(operator, value(other)._native))

    def _reversed(self, operator: str, other: Any) -> "Expr":
        return Expr(value(other)._native.binary(operator, self._native))

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
        return Expr(self._native.negation())

    def __neg__(self) -> "Expr":
        return Expr(self._native.negative())

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value: write & for AND, | for OR and ~ for NOT, with parentheses around comparisons")

    def alias(self, name: str) -> "Expr":
        """The expression under a name: AS."""
        return Expr(self._native.alias(name))

    def cast(self, to: Any) -> "Expr":
        """CAST to a type: of SQL, of Python or of pyarrow."""
        return Expr(self._native.cast(sql_type(to)))

    def is_null(self) -> "Expr":
        """IS NULL."""
        return Expr(self._native.is_null(False))

    def is_not_null(self) -> "Expr":
        """IS NOT NULL."""
        return Expr(self._native.is_null(True))

    def is_in(self, values: Sequence[Any]) -> "Expr":
        """IN."""
        return Expr(self._native.is_in([value(part)._native for part in values]))

    def between(self, low: Any, high: Any) -> "Expr":
        """BETWEEN."""
        return Expr(self._native.between(value(low)._native, value(high)._native))

    def like(self, pattern: Any) -> "Expr":
        """LIKE."""
        return self._binary("LIKE", pattern)

    def distinct(self) -> "Expr":
        """An aggregate of distinct values: COUNT(DISTINCT …)."""
        return Expr(self._native.distinct())

    def filter(self, condition: "Expr") -> "Expr":
        """An aggregate of the rows for which a condition holds: FILTER (WHERE …)."""
        return Expr(self._native.filter(condition._native))

    def over(
        self,
        order_by: Union[str, "Expr"],
        partition_by: Sequence[Union[str, "Expr"]] = (),
        rows: Optional[int] = None,
        range: Optional[Duration] = None,
    ) -> "Expr":
        """An aggregate OVER each row and the rows before it: so many rows, or as long a time; else all."""
        keys = [argument(key)._native for key in partition_by]
        length = None if range is None else micros(range)
        return Expr(self._native.over(argument(order_by)._native, keys, rows, length))

    def __repr__(self) -> str:
        return f"<pelton.Expr {self._native.text()}>"


def col(name: str) -> Expr:
    """A column by its name, which is case sensitive. ``table.column`` is that of a table or alias."""
    return Expr(_native.column(name))


def lit(literal: Any) -> Expr:
    """A value: a number, a string, a date or time, a decimal, True, False or None."""
    return Expr(_native.literal(literal))


def value(operand: Any) -> Expr:
    """An operand: an expression as it is, anything else as a value."""
    return operand if isinstance(operand, Expr) else lit(operand)


def argument(operand: Any) -> Expr:
    """An argument of a call: a string is the name of a column."""
    return col(operand) if isinstance(operand, str) else value(operand)


def _aggregate(name: str, operand: Any) -> Expr:
    return Expr(_native.Expression.aggregate(name, None if operand is None else argument(operand)._native))


def sum(operand: Any) -> Expr:
    """SUM."""
    return _aggregate("sum", operand)


def avg(operand: Any) -> Expr:
    """AVG."""
    return _aggregate("avg", operand)


def min(operand: Any) -> Expr:
    """MIN."""
    return _aggregate("min", operand)


def max(operand: Any) -> Expr:
    """MAX."""
    return _aggregate("max", operand)


def count(operand: Any = None) -> Expr:
    """COUNT of values that are not NULL, or of all rows."""
    return _aggregate("count", operand)


#: An expression to order by, whether it is ascending, and whether its NULLs come first.
Sorted = Tuple[Expr, bool, bool]


def asc(operand: Any, nulls_first: bool = True) -> Sorted:
    """Ascending, as an argument of ``order_by`` and ``top``."""
    return argument(operand), True, nulls_first


def desc(operand: Any, nulls_first: bool = False) -> Sorted:
    """Descending, as an argument of ``order_by`` and ``top``."""
    return argument(operand), False, nulls_first


def sorted_by(keys: Sequence[Any]) -> List[Tuple[_native.Expression, bool, bool]]:
    """Keys to order by; those without a direction are ascending."""
    pairs = [key if isinstance(key, tuple) else asc(key) for key in keys]
    return [(key._native, is_ascending, nulls_first) for key, is_ascending, nulls_first in pairs]


class Window:
    """How rows are assigned to windows: made by :func:`tumble`, :func:`hop`, :func:`cumulate`, :func:`session`, :func:`tumble_rows` and :func:`hop_rows`."""

    __slots__ = ("_native",)

    def __init__(self, native: _native.Window) -> None:
        self._native = native


def tumble(time: str, size: Duration, offset: Duration = 0) -> Window:
    """Windows of a length, one behind the other: TUMBLE. A length is a timedelta, seconds, or text such as '10 s'."""
    return Window(_native.Window.tumble(time, micros(size), micros(offset)))


def hop(time: str, slide: Duration, size: Duration, offset: Duration = 0) -> Window:
    """Windows of a length that begin at each slide: HOP."""
    return Window(_native.Window.hop(time, micros(slide), micros(size), micros(offset)))


def cumulate(time: str, step: Duration, size: Duration, offset: Duration = 0) -> Window:
    """Windows that grow by a step until they have their length: CUMULATE."""
    return Window(_native.Window.cumulate(time, micros(step), micros(size), micros(offset)))


def session(time: str, gap: Duration, partition_by: Sequence[str] = ()) -> Window:
    """Windows that end where no row comes for as long as a gap: SESSION."""
    return Window(_native.Window.session(time, micros(gap), list(partition_by)))


def tumble_rows(size: int, partition_by: Sequence[str] = ()) -> Window:
    """Windows of so many rows: TUMBLE_ROWS."""
    return Window(_native.Window.rows(size, size, list(partition_by)))


def hop_rows(slide: int, size: int, partition_by: Sequence[str] = ()) -> Window:
    """Windows of so many rows that begin at each slide: HOP_ROWS."""
    return Window(_native.Window.rows(slide, size, list(partition_by)))
