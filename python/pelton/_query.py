"""Queries and their rows."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, AsyncIterator, Deque, Dict, Iterator, List, Optional, Tuple

from . import _native
from ._jobs import AdaptationEvents
from ._libraries import arrow_table, pandas_frame, polars_frame
from ._text import html_table, text_table

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

#: Rows that are shown of a result.
ROWS_SHOWN_MAX = 20

#: Rows that a notebook reads of a result to show it.
ROWS_READ_TO_SHOW_MAX = 1_000


class Batch:
    """Some rows of a result, as Arrow columns.

    Any library that knows Arrow's PyCapsule interface takes it without a copy: ``pyarrow.record_batch(batch)``, ``polars.DataFrame(batch)``.

    >>> batch = next(iter(pelton.sql("SELECT a, a > 1 AS large FROM (VALUES (1), (2)) AS t (a)")))
    >>> batch.num_rows, batch.column_names
    (2, ['a', 'large'])
    >>> batch.to_pydict()
    {'a': [1, 2], 'large': [False, True]}
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.Batch) -> None:
        self._native = native

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        return self._native.num_rows

    @property
    def column_names(self) -> List[str]:
        """The names of its columns."""
        return [name for name, _ in self._native.columns]

    @property
    def nbytes(self) -> int:
        """Bytes of memory that its columns take."""
        return self._native.nbytes

    def column(self, name: str) -> _native.Array:
        """The column of a name."""
        names = self.column_names
        if name not in names:
            raise KeyError(f"there is no column {name}; there are {', '.join(names)}")
        return self._native.column(names.index(name))

    def rows(self) -> List[Tuple[Any, ...]]:
        """The rows as tuples of Python objects."""
        return self._native.rows()

    def to_pydict(self) -> Dict[str, List[Any]]:
        """The columns as lists of Python objects."""
        return self._native.to_pydict()

    def arrow(self) -> "pyarrow.Table":
        """The rows as a table of pyarrow."""
        return arrow_table(self)

    def df(self) -> "pandas.DataFrame":
        """The rows as a DataFrame of pandas."""
        return pandas_frame(self)

    def pl(self) -> "polars.DataFrame":
        """The rows as a DataFrame of Polars."""
        return polars_frame(self)

    def __len__(self) -> int:
        return self._native.num_rows

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self._native.columns)
        return f"<pelton.Batch of {self.num_rows} rows: {columns}>"

    def __arrow_c_array__(self, requested_schema: object = None) -> Tuple[object, object]:
        return self._native.__arrow_c_array__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()


class Query:
    """A running query, whose rows are read once.

    A query runs as its rows are read: a slow reader slows it down, and holds no more rows than a buffer has. A query that is closed or forgotten ends.

    >>> query = pelton.sql("SELECT a FROM (VALUES (1), (2), (3)) AS t (a)")
    >>> query.fetchone()
    (1,)
    >>> query.fetchall()
    [(2,), (3,)]
    """

    def __init__(self, native: Any, time_zone: str = "UTC", connection: Any = None) -> None:
        self._native = native
        #: Keeps the connection, which ends its queries before the process ends.
        self._connection = connection
        self._time_zone = time_zone
        #: Batches that were read to be shown, and not by the user yet.
        self._ahead: Deque[_native.Batch] = deque()
        self._rows: Deque[Tuple[Any, ...]] = deque()

    @property
    def columns(self) -> List[Tuple[str, str]]:
        """Names and SQL types of the columns."""
        return self._native.columns

    @property
    def column_names(self) -> List[str]:
        """Names of the columns."""
        return [name for name, _ in self.columns]

    @property
    def has_ended(self) -> bool:
        """Whether the query has ended. Rows may still be there to be read."""
        return self._native.has_ended

    def _check_not_fetched(self) -> None:
        if self._rows:
            raise _native.Error("rows of a batch have been fetched one by one: read the others with fetchone, fetchmany or fetchall")

    def _next(self) -> Optional[_native.Batch]:
        self._check_not_fetched()
        return self._ahead.popleft() if self._ahead else self._native.next_batch()

    def __iter__(self) -> Iterator[Batch]:
        """The rows as they come, batch by batch."""
        while True:
            batch = self._next()
            if batch is None:
                return
            yield Batch(batch)

    async def __aiter__(self) -> AsyncIterator[Batch]:
        """The rows as they come, for ``async for``. Other tasks of the loop go on meanwhile."""
        self._check_not_fetched()
        while self._ahead:
            yield Batch(self._ahead.popleft())
        async for batch in _polled(self._native):
            yield Batch(batch)

    def fetchone(self) -> Optional[Tuple[Any, ...]]:
        """The next row, or None behind the last."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> List[Tuple[Any, ...]]:
        """As many of the next rows, or fewer where the query ends."""
        while len(self._rows) < size:
            batch = self._ahead.popleft() if self._ahead else self._native.next_batch()
            if batch is None:
                break
            self._rows.extend(batch.rows())
        return [self._rows.popleft() for _ in range(min(size, len(self._rows)))]

    def fetchall(self) -> List[Tuple[Any, ...]]:
        """All rows that are left, as tuples of Python objects. The query must end.

        NULL is None; DECIMAL is ``decimal.Decimal``; TIMESTAMP a datetime, and TIMESTAMP_LTZ one in UTC; ARRAY is a list, ROW and MAP are dicts.
        """
        rows = list(self._rows)
        self._rows.clear()
        while True:
            batch = self._next()
            if batch is None:
                return rows
            rows.extend(batch.rows())

    def arrow(self) -> "pyarrow.Table":
        """All rows that are left as a table of pyarrow.

        >>> pelton.sql("SELECT 'x' AS s, 1 AS i").arrow().schema.names
        ['s', 'i']
        """
        return arrow_table(_Collected(self))

    def df(self) -> "pandas.DataFrame":
        """All rows that are left as a DataFrame of pandas.

        >>> pelton.sql("SELECT a FROM (VALUES (1), (2)) AS t (a)").df()["a"].tolist()
        [1, 2]
        """
        return pandas_frame(_Collected(self))

    def pl(self) -> "polars.DataFrame":
        """All rows that are left as a DataFrame of Polars.

        >>> pelton.sql("SELECT a FROM (VALUES (1), (2)) AS t (a)").pl().height
        2
        """
        return polars_frame(_Collected(self))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's C stream: other libraries read the rows as they come, without a copy."""
        self._check_not_fetched()
        ahead = list(self._ahead)
        self._ahead.clear()
        return self._native.stream(ahead, requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._native.schema_capsule()

    def show(self, rows: int = ROWS_SHOWN_MAX) -> None:
        """Prints the next rows as a table.

        >>> pelton.sql("SELECT a, 'x' AS b FROM (VALUES (1), (2)) AS t (a)").show()
        a  b
        ─  ─
        1  x
        2  x
        """
        shown: List[List[Optional[str]]] = []
        while len(shown) < rows:
            batch = self._next()
            if batch is None:
                break
            left = rows - len(shown)
            shown.extend(batch.slice(0, left).text(self._time_zone))
            if batch.num_rows > left:
                self._ahead.appendleft(batch.slice(left, batch.num_rows - left))
        print(text_table(self.columns, shown))

    def call(self, function: Any) -> None:
        """Calls a function with each batch of rows, until the query ends.

        >>> seen = []
        >>> pelton.sql("SELECT a FROM (VALUES (1), (2)) AS t (a)").call(lambda batch: seen.extend(batch.rows()))
        >>> seen
        [(1,), (2,)]
        """
        for batch in self:
            function(batch)

    def stop(self) -> None:
        """Ends the query behind the rows that it has read: these come, and then no more. Windows that are open are not reported."""
        self._native.stop()

    def close(self) -> None:
        """Ends the query now. Rows that have not been read are dropped."""
        self._native.close()

    def progress(self) -> Dict[str, Any]:
        """What the query has done so far: rows, rates, latencies, state, sources and operators.

        >>> query = pelton.sql("SELECT a FROM (VALUES (1), (2)) AS t (a)")
        >>> rows = query.fetchall()
        >>> query.progress()["rows_in"]
        2
        """
        return self._native.progress()

    def adaptation_events(self) -> AdaptationEvents:
        """What happens to the machine code of the query, as an iterator that goes on when it is asked again.

        >>> con = pelton.connect(pelton__tier="compile")
        >>> query = con.sql("SELECT a FROM (VALUES (1), (2)) AS t (a)")
        >>> next(query.adaptation_events()).kind
        'started'
        """
        return AdaptationEvents(self._native.adaptation_events())

    def live(self, seconds: Optional[float] = None, rows: int = 10) -> None:
        """Shows the query while it runs, in a notebook in place: rows a second, latency and the newest rows. An interrupt ends the query."""
        from ._notebook import live

        live(self, seconds, rows)

    def _read_ahead(self, rows_max: int) -> Tuple[List[List[Optional[str]]], bool]:
        """Rows to be shown, which stay there to be read, and whether these are all."""
        shown: List[List[Optional[str]]] = []
        for batch in self._ahead:
            shown.extend(batch.text(self._time_zone))
        while len(shown) < rows_max:
            batch = self._native.next_batch()
            if batch is None:
                return shown, True
            self._ahead.append(batch)
            shown.extend(batch.text(self._time_zone))
        return shown, False

    def _repr_html_(self) -> str:
        shown, are_all = self._read_ahead(ROWS_SHOWN_MAX + 1)
        return html_table(self.columns, shown[:ROWS_SHOWN_MAX], has_more=not are_all or len(shown) > ROWS_SHOWN_MAX)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        return f"<pelton.Query {'that has ended' if self.has_ended else 'that runs'}: {columns}>"

    def __enter__(self) -> "Query":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Collected:
    """All rows of a query that are left, as Arrow data. While they come an interrupt is one, and no error of the library that reads them."""

    def __init__(self, query: Query) -> None:
        self._native = query._native
        self._batches: List[_native.Batch] = list(iter(query._next, None))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._native.stream(self._batches, requested_schema)


class Rows:
    """Rows that are there, such as those of SHOW: what a query reads."""

    def __init__(self, batch: _native.Batch) -> None:
        self._empty = batch.slice(0, 0)
        self._batch: Optional[_native.Batch] = batch
        self.columns = batch.columns
        self.has_ended = True

    def next_batch(self) -> Optional[_native.Batch]:
        batch, self._batch = self._batch, None
        return batch

    try_next_batch = next_batch

    def poll_batch(self, _wake: object) -> Tuple[bool, Optional[_native.Batch]]:
        return True, self.next_batch()

    def stream(self, ahead: List[_native.Batch], requested_schema: object) -> object:
        batches = [*ahead, *iter(self.next_batch, None)]
        return _native.Batch.stream_of(batches or [self._empty], requested_schema)

    def schema_capsule(self) -> object:
        return self._empty.__arrow_c_schema__()

    def stop(self) -> None:
        self._batch = None

    close = stop

    def progress(self) -> Dict[str, Any]:
        raise _native.Error("the statement is done: only queries have progress")

    def adaptation_events(self) -> Any:
        raise _native.Error("the statement is done: only queries have code that adapts")


async def _polled(native: Any) -> AsyncIterator[_native.Batch]:
    """The batches of what tells an event loop when there are more."""
    # Loaded where it is needed: it takes longer than all of the package.
    import asyncio

    loop = asyncio.get_running_loop()
    has_come = asyncio.Event()

    def wake() -> None:
        try:
            loop.call_soon_threadsafe(has_come.set)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            pass

    while True:
        has_come.clear()
        is_ready, batch = native.poll_batch(wake)
        if not is_ready:
            await has_come.wait()
        elif batch is None:
            return
        else:
            yield batch
            # Other tasks have their turn also where rows are always there.
            await asyncio.sleep(0)
