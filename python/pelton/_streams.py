"""Tables that a program fills and reads."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, AsyncIterator, Deque, Iterator, List, Optional, Tuple, Union

from . import _native
from ._expressions import Expr, Window
from ._libraries import arrow_data
from ._query import Batch, _polled

if TYPE_CHECKING:
    from ._builder import GroupedTable, Table
    from ._connection import Connection
    from ._served_rows import ServedReader, ServedStream

#: How long a push that awaits room sleeps at first and at most, in seconds.
SLEEP_S_MIN = 0.000_5
SLEEP_S_MAX = 0.02


class Stream:
    """A table that the program fills: made by :meth:`Connection.stream`.

    >>> con = pelton.connect()
    >>> numbers = con.stream("numbers", {"i": int})
    >>> query = numbers.filter(pelton.col("i") > 1).select("i").run()
    >>> with numbers:
    ...     numbers.push([(1,), (2,), (3,)])
    >>> query.fetchall()
    [(2,), (3,)]
    """

    def __init__(self, connection: "Connection", name: str, native: Union[_native.PushTable, ServedStream]) -> None:
        self._connection = connection
        self._native = native
        #: Its name in SQL.
        self.name = name

    @property
    def columns(self) -> List[Tuple[str, str]]:
        """Names and SQL types of the columns."""
        return self._native.columns

    def _batches(self, rows: Any) -> List[_native.Batch]:
        if isinstance(rows, Batch):
            return self._native.batches(rows._native)
        if isinstance(rows, dict):
            # One row.
            rows = [rows]
        found = arrow_data(rows)
        return self._native.batches(rows if found is None else found)

    def push(self, rows: Any) -> None:
        """Passes rows to the queries that read the table: tuples, dicts, a DataFrame, or Arrow data, which is not copied. Waits while the queries have enough to do.

        Raises :class:`Error` where no query reads the table any more: the rows were not taken.
        """
        for batch in self._batches(rows):
            self._native.push(batch)

    async def push_async(self, rows: Any) -> None:
        """As :meth:`push`, for coroutines."""
        import asyncio

        for batch in self._batches(rows):
            sleep_s = SLEEP_S_MIN
            while not self._native.try_push(batch):
                await asyncio.sleep(sleep_s)
                sleep_s = min(2 * sleep_s, SLEEP_S_MAX)

    def try_push(self, rows: Any) -> bool:
        """As :meth:`push` where there is room at once; says whether the rows were taken. They must be one batch."""
        batches = self._batches(rows)
        if len(batches) != 1:
            raise _native.Error(f"try_push takes one batch of rows, not {len(batches)}")
        return self._native.try_push(batches[0])

    def close(self) -> None:
        """Ends the stream: windows that are open are reported, and queries end."""
        self._native.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def table(self) -> "Table":
        """Begins a query over the stream."""
        return self._connection.table(self.name)

    def filter(self, condition: Expr) -> "Table":
        """As :meth:`Table.filter`."""
        return self.table().filter(condition)

    def select(self, *columns: Any, **named: Any) -> "Table":
        """As :meth:`Table.select`."""
        return self.table().select(*columns, **named)

    def window(self, window: Window) -> "Table":
        """As :meth:`Table.window`."""
        return self.table().window(window)

    def group_by(self, *keys: Any) -> "GroupedTable":
        """As :meth:`Table.group_by`."""
        return self.table().group_by(*keys)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        return f"<pelton.Stream {self.name}: {columns}>"


class Reader:
    """Reads the rows that a query inserts into a table: made by :meth:`Connection.reader`."""

    def __init__(self, native: Union[_native.PullTable, ServedReader]) -> None:
        self._native = native
        self._rows: Deque[Tuple[Any, ...]] = deque()

    @property
    def columns(self) -> List[Tuple[str, str]]:
        """Names and SQL types of the columns."""
        return self._native.columns

    def __iter__(self) -> Iterator[Batch]:
        while True:
            batch = self._native.next_batch()
            if batch is None:
                return
            yield Batch(batch)

    async def __aiter__(self) -> AsyncIterator[Batch]:
        async for batch in _polled(self._native):
            yield Batch(batch)

    def pull(self) -> Optional[Batch]:
        """The next rows, or None when the query that inserts has ended. Waits for them, also for a query."""
        batch = self._native.next_batch()
        return None if batch is None else Batch(batch)

    def fetchall(self) -> List[Tuple[Any, ...]]:
        """All rows, as tuples of Python objects."""
        return [row for batch in self for row in batch.rows()]

    def close(self) -> None:
        """Reads no more. The query that inserts fails where rows are lost."""
        self._native.close()
