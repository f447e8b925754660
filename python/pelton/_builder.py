"""Queries that are put together by calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from . import _native
from ._expressions import Expr, Window, argument, call, sorted_by
from ._jobs import Job
from ._query import ROWS_SHOWN_MAX, Batch, Query
from ._types import quoted

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ._connection import Connection

#: Columns of windows that rows are grouped by.
BOUNDS = ("window_start", "window_end")

JOINS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}


class _Select(NamedTuple):
    """A SELECT statement that has only some of its clauses yet. A clause that would stand before one that is there makes a subquery of it."""

    #: What follows FROM.
    source: str
    #: The table or alias that the source is; None where it is none, or joined.
    name: Optional[str] = None
    #: Whether the source has no name that AS gives it, and none by joining.
    is_plain: bool = True
    #: Whether the source is of several tables.
    is_joined: bool = False
    where: Tuple[str, ...] = ()
    columns: Optional[str] = None
    is_distinct: bool = False
    group_by: str = ""
    order_by: str = ""
    limit: str = ""
    #: The qualifier of the columns of windows that rows were assigned to and not grouped by, such as '' or '`a`.'; None where there are none.
    bounds: Optional[str] = None

    @property
    def sql(self) -> str:
        text = f"SELECT {'DISTINCT ' if self.is_distinct else ''}{self.columns or '*'} FROM {self.source}"
        if self.where:
            text += " WHERE " + " AND ".join(self.where)
        return text + self.group_by + self.order_by + self.limit

    @property
    def is_source(self) -> bool:
        """Whether it has nothing but a FROM clause."""
        return self.is_filtered and not self.where

    @property
    def is_filtered(self) -> bool:
        """Whether it has nothing but a FROM and a WHERE clause."""
        return not (self.columns or self.is_distinct or self.group_by or self.order_by or self.limit)

    def as_source(self) -> "_Select":
        """The same with a FROM clause alone. Columns keep the table's name where they have one."""
        if self.is_source:
            return self
        if self.is_filtered and self.name is not None:
            return self.named(self.name)
        return _Select(f"({self.sql})", bounds=None if self.bounds is None else "")

    def named(self, name: str) -> "_Select":
        """The same as a table of this name."""
        source = self.source if self.is_source and self.is_plain else f"({self.sql})"
        bounds = None if self.bounds is None else quoted(name) + "."
        return _Select(f"{source} AS {quoted(name)}", name, is_plain=False, bounds=bounds)

    def as_filtered(self) -> "_Select":
        """The same with a FROM and a WHERE clause at most."""
        return self if self.is_filtered else self.as_source()

    def as_left_side(self, is_kept_whole: bool) -> "_Select":
        """The same as the left side of a join, with a FROM clause alone. Where that adds no other rows of this side, and there are several tables in it, they are filtered
        behind the join, which comes to the same, so that they keep their names."""
        return self if self.is_joined and self.is_filtered and is_kept_whole else self.as_source()

    def joined(self, source: str) -> "_Select":
        """The same with other tables beside its own."""
        return _Select(source, is_plain=False, is_joined=True, where=self.where, bounds=self.bounds)

    def bound_columns(self) -> List[str]:
        return [] if self.bounds is None else [self.bounds + quoted(name) for name in BOUNDS]


def _expressions(expressions: Sequence[Any], named: Any = None) -> List[Expr]:
    return [argument(expression) for expression in expressions] + [
        argument(expression).alias(name) for name, expression in (named or {}).items()
    ]


def _columns(expressions: Sequence[Expr]) -> str:
    return ", ".join(expression._selected for expression in expressions)


class Table:
    """A query under construction: each call is a clause, and the query is planned as the same in SQL is. It runs when its rows are read.

    >>> con = pelton.connect()
    >>> trades = con.register("trades", {"symbol": ["A", "B", "A"], "price": [11.0, 9.0, 12.0], "volume": [1, 2, 3]})
    >>> big = trades.filter(pelton.col("price") > 10).group_by("symbol").agg(volume=pelton.sum("volume"))
    >>> big.fetchall()
    [('A', 4)]
    >>> print(big.sql())
    SELECT `symbol`, SUM(`volume`) AS `volume` FROM `trades` WHERE (`price` > 10) GROUP BY `symbol`
    """

    def __init__(self, connection: "Connection", select: _Select) -> None:
        self._connection = connection
        self._select = select

    @staticmethod
    def _of(connection: "Connection", name: str) -> "Table":
        """The table or view of a name."""
        return Table(connection, _Select(quoted(name), name))

    def _then(self, method: str, select: _Select) -> "Table":
        self._connection._native.check(select.sql, method)
        return Table(self._connection, select)

    def filter(self, condition: Expr) -> "Table":
        """Keeps the rows for which a condition is true: WHERE, and behind ``agg`` HAVING."""
        rows = self._select.as_filtered()
        return self._then("filter", rows._replace(where=(*rows.where, argument(condition)._operand)))

    def select(self, *columns: Any, **named: Any) -> "Table":
        """Projects to columns and expressions: SELECT. ``name=expression`` names one."""
        rows, chosen = self._select.as_filtered(), _expressions(columns, named)
        if not chosen:
            raise _native.Error(".select(…): there are no columns to select")
        has_bounds = {*BOUNDS} <= {expression._name for expression in chosen}
        bounds = "" if rows.bounds is not None and has_bounds else None
        return self._then("select", rows._replace(columns=_columns(chosen), bounds=bounds))

    def distinct(self) -> "Table":
        """Removes duplicate rows: SELECT DISTINCT."""
        rows = self._select.as_source() if self._select.order_by or self._select.limit else self._select
        return self._then("distinct", rows._replace(is_distinct=True, bounds=None))

    def window(self, window: Window) -> "Table":
        """Assigns rows to windows, which adds the columns ``window_start``, ``window_end`` and, where they are of time, ``window_time``."""
        rows = self._select
        table = f"TABLE {rows.source}" if rows.is_source and rows.is_plain and rows.name is not None else f"({rows.sql})"
        return self._then("window", _Select(window.of(table), bounds=""))

    def group_by(self, *keys: Any) -> "GroupedTable":
        """Groups rows by keys, for ``agg``. Rows of windows are grouped by window as well."""
        return GroupedTable(self, _expressions(keys))

    def agg(self, *aggregates: Any, **named: Any) -> "Table":
        """Aggregates all rows, or all of each window."""
        return self.group_by().agg(*aggregates, **named)

    def top(self, rows: int, order_by: Any, partition_by: Sequence[Any] = ()) -> "Table":
        """The first rows of each window and key in an order, with their number as ``row_number``."""
        source = self._select.as_filtered()
        bounds = source.bound_columns() or [quoted(name) for name in BOUNDS]
        partition = ", ".join([*bounds, *(key._sql for key in _expressions(partition_by))])
        order = sorted_by(order_by if isinstance(order_by, list) else [order_by])
        numbered = source._replace(columns=f"*, ROW_NUMBER() OVER (PARTITION BY {partition} ORDER BY {order}) AS `row_number`")
        return self._then("top", _Select(f"({numbered.sql})", where=(f"(`row_number` <= {int(rows)})",), bounds=""))

    def join(self, other: "Table", on: Expr, how: str = "inner") -> "Table":
        """Joins with another table: JOIN … ON. ``how`` is inner, left, right or full. Rows that are both in windows match in the same window only."""
        self._check_connection("join", other)
        if how not in JOINS:
            raise _native.Error(f"there is no join '{how}': it is {', '.join(JOINS)}")
        left, right = self._select.as_left_side(is_kept_whole=how in ("inner", "left")), other._select.as_source()
        conditions = [f"{first} = {second}" for first, second in zip(left.bound_columns(), right.bound_columns())]
        if conditions and ("" in (left.bounds, right.bounds) or left.bounds == right.bounds):
            raise _native.Error(
                ".join(…): both sides are cut into windows, and their windows need names that tell them apart; "
                'name both sides behind window(…), as in alias("a") and alias("b")'
            )
        of_right = f"({right.source})" if right.is_joined else right.source
        joined = f"{left.source} {JOINS[how]} {of_right} ON {' AND '.join([*conditions, argument(on)._operand])}"
        return self._then("join", left.joined(joined)._replace(bounds=right.bounds if left.bounds is None else left.bounds))

    def flat_map(
        self, function: str, *arguments: Any, alias: str = "t", columns: Sequence[str] = (), keep_unmatched: bool = False
    ) -> "Table":
        """Replaces each row by those that a table function makes of it: CROSS JOIN LATERAL TABLE(…), and with ``keep_unmatched`` LEFT JOIN."""
        called = f"LATERAL TABLE({call(function, arguments)._sql})"
        return self._flat_map("flat_map", called, alias, columns, keep_unmatched)

    def unnest(self, collection: Any, alias: str = "t", columns: Sequence[str] = (), keep_unmatched: bool = False) -> "Table":
        """Replaces each row by the elements of a collection: CROSS JOIN UNNEST(…)."""
        called = f"UNNEST({argument(collection)._sql})"
        return self._flat_map("unnest", called, alias, columns, keep_unmatched)

    def _flat_map(self, method: str, called: str, alias: str, columns: Sequence[str], keep_unmatched: bool) -> "Table":
        rows = self._select.as_left_side(is_kept_whole=True)
        named = f"{called} AS {quoted(alias)}" + (f" ({', '.join(map(quoted, columns))})" if columns else "")
        joined = f"{rows.source} LEFT JOIN {named} ON TRUE" if keep_unmatched else f"{rows.source} CROSS JOIN {named}"
        return self._then(method, rows.joined(joined))

    def union_all(self, other: "Table") -> "Table":
        """The rows of both: UNION ALL. Columns are matched by position."""
        self._check_connection("union_all", other)
        sides = [
            f"({table._select.sql})" if table._select.order_by or table._select.limit else table._select.sql for table in (self, other)
        ]
        bounds = None if self._select.bounds is None else ""
        return self._then("union_all", _Select(f"({' UNION ALL '.join(sides)})", bounds=bounds))

    def order_by(self, *keys: Any) -> "Table":
        """Sorts rows: ORDER BY. A key is a column, an expression, or made by :func:`asc` or :func:`desc`."""
        rows = self._select.as_filtered()
        return self._then("order_by", rows._replace(order_by=f" ORDER BY {sorted_by(keys)}", bounds=None))

    def limit(self, rows: Optional[int], offset: int = 0) -> "Table":
        """The first rows: LIMIT, OFFSET."""
        limited = self._select.as_source() if self._select.limit else self._select
        limit = ("" if rows is None else f" LIMIT {int(rows)}") + (f" OFFSET {int(offset)}" if offset else "")
        return self._then("limit", limited._replace(limit=limit, bounds=None))

    def alias(self, name: str) -> "Table":
        """The table under another name: AS."""
        return self._then("alias", self._select.named(name))

    def _check_connection(self, method: str, other: "Table") -> None:
        if other._connection is not self._connection:
            raise _native.Error(
                f".{method}(…): the two queries belong to different connections: begin both with the table method of one"
            )

    def sql(self) -> str:
        """The query as text: what it is planned from, and what places in errors refer to."""
        return self._select.sql

    def explain(self) -> str:
        """The plan, as EXPLAIN prints it."""
        return self._connection._explain_text(self.sql())

    def run(self) -> Query:
        """Starts the query."""
        return self._connection._run_text(self.sql())

    def insert_into(self, table: str) -> Job:
        """Inserts the rows into a table, as a job."""
        return self._connection._run_text(f"INSERT INTO {quoted(table)} {self.sql()}")

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.run())

    def fetchall(self) -> List[Tuple[Any, ...]]:
        """As :meth:`Query.fetchall`."""
        return self.run().fetchall()

    def fetchone(self) -> Optional[Tuple[Any, ...]]:
        """As :meth:`Query.fetchone`."""
        with self.run() as query:
            return query.fetchone()

    def arrow(self) -> "pyarrow.Table":
        """As :meth:`Query.arrow`."""
        return self.run().arrow()

    def df(self) -> "pandas.DataFrame":
        """As :meth:`Query.df`."""
        return self.run().df()

    def pl(self) -> "polars.DataFrame":
        """As :meth:`Query.pl`."""
        return self.run().pl()

    def show(self, rows: int = ROWS_SHOWN_MAX) -> None:
        """As :meth:`Query.show`."""
        with self.run() as query:
            query.show(rows)

    def __repr__(self) -> str:
        return f"<pelton.Table {self.sql()}>"


class GroupedTable:
    """A query with keys that has no aggregates yet."""

    def __init__(self, table: Table, keys: List[Expr]) -> None:
        self._table = table
        self._keys = keys

    def agg(self, *aggregates: Any, **named: Any) -> Table:
        """Aggregates each group. ``name=aggregate`` names one."""
        rows = self._table._select.as_filtered()
        names = {key._name for key in self._keys}
        bounds = [Expr(column) for column, name in zip(rows.bound_columns(), BOUNDS) if name not in names]
        keys, computed = [*bounds, *self._keys], _expressions(aggregates, named)
        plain = [expression for expression in computed if expression._is_column]
        if plain:
            raise _native.Error(
                f".agg(…): {plain[0]._name} aggregates nothing: group by it, or aggregate it with count, sum, avg, min or max"
            )
        grouped = f" GROUP BY {', '.join(key._sql for key in keys)}" if keys else ""
        return self._table._then(
            "agg", rows._replace(columns=_columns([*keys, *computed]), group_by=grouped, bounds=None)
        )
