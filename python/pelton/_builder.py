"""Queries that are put together by calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Sequence, Tuple

from . import _native
from ._expressions import Expr, Window, argument, sorted_by
from ._jobs import Job
from ._query import ROWS_SHOWN_MAX, Batch, Query

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ._connection import Connection


def _natives(expressions: Sequence[Any], named: Any) -> List[_native.Expression]:
    all_of_them = [argument(expression) for expression in expressions]
    all_of_them += [argument(expression).alias(name) for name, expression in named.items()]
    return [expression._native for expression in all_of_them]


class Table:
    """A query under construction: each call is a clause, and the query is planned as the same in SQL would be. It runs when its rows are read.

    >>> con = pelton.connect()
    >>> trades = con.register("trades", {"symbol": ["A", "B", "A"], "price": [11.0, 9.0, 12.0], "volume": [1, 2, 3]})
    >>> big = trades.filter(pelton.col("price") > 10).group_by("symbol").agg(volume=pelton.sum("volume"))
    >>> big.fetchall()
    [('A', 4)]
    """

    def __init__(self, connection: "Connection", native: _native.QueryBuilder) -> None:
        self._connection = connection
        self._native = native

    def _then(self, native: _native.QueryBuilder) -> "Table":
        return Table(self._connection, native)

    def filter(self, condition: Expr) -> "Table":
        """Keeps the rows for which a condition is true: WHERE, and behind ``agg`` HAVING."""
        return self._then(self._native.filter(argument(condition)._native))

    def select(self, *columns: Any, **named: Any) -> "Table":
        """Projects to columns and expressions: SELECT. ``name=expression`` names one."""
        return self._then(self._native.select(_natives(columns, named)))

    def distinct(self) -> "Table":
        """Removes duplicate rows: SELECT DISTINCT."""
        return self._then(self._native.distinct())

    def window(self, window: Window) -> "Table":
        """Assigns rows to windows, which adds the columns ``window_start``, ``window_end`` and, where they are of time, ``window_time``."""
        return self._then(self._native.window(window._native))

    def group_by(self, *keys: Any) -> "GroupedTable":
        """Groups rows by keys, for ``agg``. Rows of windows are grouped by window as well."""
        return GroupedTable(self._connection, self._native.group_by(_natives(keys, {})))

    def agg(self, *aggregates: Any, **named: Any) -> "Table":
        """Aggregates all rows, or all of each window."""
        return self.group_by().agg(*aggregates, **named)

    def top(self, rows: int, order_by: Any, partition_by: Sequence[Any] = ()) -> "Table":
        """The first rows of each window and key in an order, with their number as ``row_number``."""
        order = order_by if isinstance(order_by, list) else [order_by]
        return self._then(self._native.top(rows, sorted_by(order), _natives(partition_by, {})))

    def join(self, other: "Table", on: Expr, how: str = "inner") -> "Table":
        """Joins with another table: JOIN … ON. ``how`` is inner, left, right or full."""
        return self._then(self._native.join(other._native, how, on._native))

    def flat_map(
        self, function: str, *arguments: Any, alias: str = "t", columns: Sequence[str] = (), keep_unmatched: bool = False
    ) -> "Table":
        """Replaces each row by those that a table function makes of it: CROSS JOIN LATERAL TABLE(…), and with ``keep_unmatched`` LEFT JOIN."""
        call = self._connection._native.call_table(function, _natives(arguments, {}))
        return self._flat_map(call, alias, columns, keep_unmatched)

    def unnest(self, collection: Any, alias: str = "t", columns: Sequence[str] = (), keep_unmatched: bool = False) -> "Table":
        """Replaces each row by the elements of a collection: CROSS JOIN UNNEST(…)."""
        call = _native.TableCall.unnest(argument(collection)._native)
        return self._flat_map(call, alias, columns, keep_unmatched)

    def _flat_map(self, call: _native.TableCall, alias: str, columns: Sequence[str], keep_unmatched: bool) -> "Table":
        named = call.named(alias, list(columns))
        return self._then(self._native.flat_map(named.keep_unmatched() if keep_unmatched else named))

    def union_all(self, other: "Table") -> "Table":
        """The rows of both: UNION ALL."""
        return self._then(self._native.union_all(other._native))

    def order_by(self, *keys: Any) -> "Table":
        """Sorts rows: ORDER BY. A key is a column, an expression, or made by :func:`asc` or :func:`desc`."""
        return self._then(self._native.order_by(sorted_by(keys)))

    def limit(self, rows: Optional[int], offset: int = 0) -> "Table":
        """The first rows: LIMIT, OFFSET."""
        return self._then(self._native.limit(offset, rows))

    def alias(self, name: str) -> "Table":
        """The table under another name: AS."""
        return self._then(self._native.alias(name))

    def explain(self) -> str:
        """The plan, as EXPLAIN prints it."""
        return self._native.explain()

    def run(self) -> Query:
        """Starts the query."""
        return Query(self._native.run(), self._connection._native.time_zone, self._connection)

    def insert_into(self, table: str) -> Job:
        """Inserts the rows into a table, as a job."""
        return Job(self._native.insert_into(table).detach(), self._connection)

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.run())

    def fetchall(self) -> List[Tuple[Any, ...]]:
        """As :meth:`Query.fetchall`."""
        return self.run().fetchall()

    def fetchone(self) -> Optional[Tuple[Any, ...]]:
        """As :meth:`Query.fetchone`."""
        return self.run().fetchone()

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


class GroupedTable:
    """A query with keys that has no aggregates yet."""

    def __init__(self, connection: "Connection", native: _native.GroupedQueryBuilder) -> None:
        self._connection = connection
        self._native = native

    def agg(self, *aggregates: Any, **named: Any) -> Table:
        """Aggregates each group. ``name=aggregate`` names one."""
        return Table(self._connection, self._native.aggregate(_natives(aggregates, named)))
