"""Connections to an engine in this process."""

from __future__ import annotations

import atexit
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Union

from . import _native
from ._builder import Table
from ._expressions import Expr, call
from ._functions import Aggregate, declared_aggregate, declared_function, declared_table_function
from ._jobs import Job
from ._libraries import arrow_data
from ._query import Query, Rows
from ._scan import Variables, caller, variables_of
from ._streams import Reader, Stream
from ._types import Columns, Duration, column_list, micros, watermark

if TYPE_CHECKING:
    from ._served import ServedSession

_open: "weakref.WeakSet[Connection]" = weakref.WeakSet()


class Connection:
    """A session of an engine, with its tables, functions, settings and jobs: made by :func:`connect`.

    Names, views and settings are as in SQL. An engine in this process ends with the last of its connections; :meth:`cursor` makes another one of the same engine, for another thread.

    With an engine that `pelton serve` runs, rows travel to it and back. Its connection is busy while the rows of a query are read: for another query make a :meth:`cursor`.

    >>> con = pelton.connect()
    >>> con.execute("CREATE TABLE numbers (i INT) WITH ('connector' = 'datagen', 'number-of-rows' = '5')")
    >>> con.sql("SELECT COUNT(*) FROM numbers").fetchall()
    [(5,)]
    """

    def __init__(self, session: Union[_native.Session, ServedSession], has_engine: bool = False) -> None:
        self._native = session
        #: Whether it has made the engine.
        self._has_engine = has_engine
        _open.add(self)

    def cursor(self) -> "Connection":
        """Another session of the same engine.

        >>> con = pelton.connect()
        >>> stream = con.stream("numbers", {"i": int})
        >>> con.cursor().table("numbers").explain() != ""
        True
        """
        return Connection(self._native.another())

    def sql(self, script: str) -> Union[Query, Job, None]:
        """Executes statements, and returns the query that the last of them is while it runs, or the job where it is an INSERT.

        A table that does not exist may be a variable of the caller: a DataFrame of pandas or Polars, a table of pyarrow, or anything else with Arrow data. Inserts before
        the last statement are waited for.

        >>> import pandas
        >>> trades = pandas.DataFrame({"symbol": ["A", "B", "A"], "volume": [1, 2, 3]})
        >>> pelton.connect().sql("SELECT symbol, SUM(volume) AS volume FROM trades GROUP BY symbol ORDER BY symbol").fetchall()
        [('A', 4), ('B', 2)]
        """
        return self._sql(script, depth=2)

    def _sql(self, script: str, depth: int) -> Union[Query, Job, None]:
        return self._last(script, variables_of(caller(depth)))

    def _sql_in(self, script: str, variables: Mapping[str, Any]) -> Union[Query, Job, None]:
        """As :meth:`sql`, with these variables."""
        return self._last(script, lambda name: arrow_data(variables.get(name)))

    def _last(self, script: str, variable: Variables) -> Union[Query, Job, None]:
        outcome = None
        for outcome in self._outcomes(script, variable):
            pass
        return self._result(outcome)

    def _result(self, outcome: Any) -> Union[Query, Job, None]:
        """What a statement has led to, as the user gets it."""
        if isinstance(outcome, _native.Batch):
            return Query(Rows(outcome))
        if not _runs(outcome):
            return None
        if outcome.is_insert:
            return Job(outcome.detach(), self)
        return Query(outcome, self._native.time_zone, self)

    def _run_text(self, statement: str) -> Any:
        """Executes a statement that was put together by calls."""
        return self._result(self._native.execute(self._native.prepare(statement)[0]))

    def _explain_text(self, statement: str) -> str:
        return self._native.explain(self._native.prepare(statement)[0]) or ""

    def execute(self, script: str) -> None:
        """Executes statements, and waits for the inserts among them. Rows of queries are dropped.

        >>> con = pelton.connect()
        >>> con.execute("SET 'pelton.workers' = '1'; CREATE TABLE hole (a INT) WITH ('connector' = 'blackhole'); INSERT INTO hole VALUES (1)")
        >>> con.jobs()[0].state
        'FINISHED'
        """
        self._execute(script, depth=2)

    def _execute(self, script: str, depth: int) -> None:
        for outcome in self._outcomes(script, variables_of(caller(depth))):
            if _runs(outcome):
                _wait(outcome)

    def _outcomes(self, script: str, variable: Variables) -> Any:
        """What each statement leads to; inserts before the last statement have ended."""
        statements = self._native.prepare(script)
        for number, statement in enumerate(statements, 1):
            outcome = self._with_variables(variable, lambda: self._native.execute(statement))
            if _runs(outcome) and number < len(statements):
                _wait(outcome)
            yield outcome

    def _with_variables(self, variable: Variables, call: Any) -> Any:
        """Calls something that plans. Where a table is missing, a variable of the program is it, for this call."""
        registered: List[str] = []
        try:
            while True:
                try:
                    return call()
                except _native.Error as error:
                    name = error.unknown_table
                    data = None if name is None or name in registered else variable(name)
                    if name is None or data is None:
                        raise
                    self._native.register(name, data, None, 0)
                    registered.append(name)
        finally:
            # A query that runs has the rows by itself, and another value may have the name by the next call.
            for name in registered:
                self._native.unregister(name)

    def explain(self, statement: str) -> str:
        """The plan of a query or an insert, its pipelines and what its code computes, as EXPLAIN prints it.

        >>> print(pelton.connect().explain("SELECT 1 AS one").splitlines()[0])
        == logical plan ==
        """
        return self._explain(statement, depth=2)

    def _explain(self, statement: str, depth: int) -> str:
        variable = variables_of(caller(depth))
        statements = self._native.prepare(statement)
        if len(statements) != 1:
            raise _native.Error(f"one statement is explained, not {len(statements)}")
        return self._with_variables(variable, lambda: self._native.explain(statements[0])) or ""

    def set(self, key: str, value: object) -> None:
        """Changes a setting, as SET does.

        >>> con = pelton.connect()
        >>> con.set("table.dml-sync", True)
        >>> con.setting("table.dml-sync")
        'true'
        """
        self._native.set(key, str(value).lower() if isinstance(value, bool) else str(value))

    def setting(self, key: str) -> Optional[str]:
        """The value that a setting was set to; None where it has its default."""
        return self._native.setting(key)

    def table(self, name: str) -> Table:
        """Begins a query over a table or view, to be extended by calls: see :class:`Table`.

        >>> numbers = pelton.connect().register("numbers", {"i": [1, 2, 3]})
        >>> numbers.filter(pelton.col("i") > 1).select("i").fetchall()
        [(2,), (3,)]
        """
        table = Table._of(self, name)
        try:
            self._native.check(table.sql(), None)
        except _native.Error:
            data = variables_of(caller(1))(name)
            if data is None:
                raise
            return self.register(name, data)
        return table

    def call(self, function: str, *arguments: Any) -> Expr:
        """A call of any function of SQL by its name, for queries that are put together by calls. A string is the name of a column.

        >>> con = pelton.connect()
        >>> words = con.register("words", {"word": ["a", "b"]})
        >>> words.select(con.call("UPPER", "word").alias("loud")).fetchall()
        [('A',), ('B',)]
        """
        return call(function, arguments)

    def register(self, name: str, data: Any, event_time: Optional[str] = None, delay: Duration = 0) -> Table:
        """Makes Arrow data, a DataFrame or a dict of lists a temporary table, which queries read any number of times without copying it.

        ``event_time`` is the column that windows are cut by, and ``delay`` how much later than others a row may come. Without one, it is the only column that is a time, if
        there is just one, with a delay of five seconds, as in a file.

        >>> con = pelton.connect()
        >>> table = con.register("numbers", {"i": [1, 2, 3]})
        >>> con.sql("SELECT SUM(i) FROM numbers").fetchone()
        (6,)
        """
        found = arrow_data(data)
        if found is None and isinstance(data, dict):
            import pyarrow

            found = pyarrow.table(data)
        if found is None:
            raise _native.Error(f"{type(data).__name__} has no Arrow data: register a DataFrame, Arrow data or a dict of lists")
        self._native.register(name, found, event_time, micros(delay))
        return Table._of(self, name)

    def stream(self, name: str, columns: Columns, event_time: Optional[str] = None, delay: Duration = 0) -> Stream:
        """Makes a table that the program fills with :meth:`Stream.push`. Queries over it run until it is closed.

        >>> con = pelton.connect()
        >>> trades = con.stream("trades", {"symbol": str, "volume": int, "ts": "TIMESTAMP(3)"}, event_time="ts", delay="1 s")
        >>> query = con.sql("SELECT symbol, volume FROM trades WHERE volume > 10")
        >>> trades.push([{"symbol": "A", "volume": 20}, {"symbol": "B", "volume": 5}])
        >>> trades.close()
        >>> query.fetchall()
        [('A', 20)]
        """
        declared = column_list(columns)
        if event_time is not None:
            declared += watermark(event_time, micros(delay))
        return Stream(self, name, self._native.push_table(name, declared))

    def reader(self, name: str, columns: Columns) -> Reader:
        """Makes a table whose rows the program reads: those that one query inserts into it.

        >>> con = pelton.connect()
        >>> doubled = con.reader("doubled", {"a": "INT NOT NULL"})
        >>> job = con.sql("INSERT INTO doubled SELECT a * 2 FROM (VALUES (1), (2)) AS t (a)")
        >>> doubled.fetchall()
        [(2,), (4,)]
        """
        return Reader(self._native.pull_table(name, column_list(columns)))

    def create_function(
        self,
        name: str,
        function: Any,
        arguments: Optional[List[Any]] = None,
        returns: Any = None,
        by_row: bool = False,
    ) -> None:
        """Makes a function of Python one of SQL. Types are those of its annotations unless they are given.

        It gets an array of pyarrow for each argument (:class:`Array` where pyarrow is not installed), with a value for each row of a block, and returns an array or a list of as many values; with
        ``by_row`` it gets and returns Python objects, and is called for each row. Its result must depend on its arguments only.

        >>> import pyarrow.compute
        >>> con = pelton.connect()
        >>> con.create_function("twice", lambda numbers: pyarrow.compute.multiply(numbers, 2), [int], int)
        >>> con.sql("SELECT twice(a) FROM (VALUES (1), (2)) AS t (a)").fetchall()
        [(2,), (4,)]
        """
        signature = declared_function(name, function, arguments, returns)
        self._native.create_function(name, function, signature, by_row)

    def create_aggregate(
        self,
        name: str,
        class_: Aggregate,
        arguments: Optional[List[Any]] = None,
        returns: Any = None,
        by_row: bool = False,
    ) -> None:
        """Makes a class of Python an aggregate function of SQL, for windows and all other groups.

        An instance is the state of a group: ``accumulate`` gets an array for each argument, or with ``by_row`` the values of a row, and ``finish`` returns the result. With ``combine(other)`` windows
        are computed slice by slice, and with ``subtract(other)`` too, they slide; without, the rows of a window are kept until it closes.

        >>> class Longest:
        ...     def __init__(self):
        ...         self.word = ""
        ...     def accumulate(self, word: str) -> None:
        ...         self.word = max(self.word, word, key=len)
        ...     def combine(self, other):
        ...         self.accumulate(other.word)
        ...     def finish(self) -> str:
        ...         return self.word
        >>> con = pelton.connect()
        >>> con.create_aggregate("longest", Longest, by_row=True)
        >>> con.sql("SELECT longest(word) FROM (VALUES ('to'), ('question'), ('be')) AS t (word)").fetchone()
        ('question',)
        """
        signature = declared_aggregate(name, class_, arguments, returns)
        self._native.create_aggregate(name, class_, signature, by_row)

    def create_table_function(
        self,
        name: str,
        function: Any,
        arguments: Optional[List[Any]] = None,
        returns: Optional[Columns] = None,
        by_row: bool = False,
    ) -> None:
        """Makes a function of Python a table function, which makes any number of rows of each: ``CROSS JOIN LATERAL TABLE(name(…))``, and ``flat_map``.

        With ``by_row`` it returns the rows of each row, as tuples, or as values where ``returns`` has one column. Else it gets arrays, and returns a tuple: the numbers of the rows, from 0 and in
        ascending order, that the rows were made of, and an array for each column.

        >>> con = pelton.connect()
        >>> con.create_table_function("words", lambda line: line.split(), [str], {"word": str}, by_row=True)
        >>> con.sql("SELECT word FROM (VALUES ('to be')) AS t (line) CROSS JOIN LATERAL TABLE(words(line))").fetchall()
        [('to',), ('be',)]
        """
        signature = declared_table_function(name, function, arguments, returns)
        self._native.create_table_function(name, function, signature, by_row)

    def jobs(self) -> List[Job]:
        """The jobs that run, and the last that have ended."""
        return [Job(job, self) for job in self._native.jobs()]

    def job(self, name: str) -> Optional[Job]:
        """The last job of a name."""
        named = [job for job in self.jobs() if job.name == name]
        return named[-1] if named else None

    def progress(self) -> Dict[str, Any]:
        """Memory that the states of all queries of the engine take."""
        return {"state_bytes": self._native.state_bytes()}

    def close(self) -> None:
        """Ends the queries of this connection; where it has made the engine, those of other connections and jobs as well."""
        self._native.close(self._has_engine)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        address = getattr(self._native, "address", "an engine in this process")
        return f"<pelton.Connection to {address}>"


def _runs(outcome: Any) -> bool:
    """Whether it is a query or an insert."""
    return hasattr(outcome, "is_insert")


def _wait(outcome: Any) -> None:
    if outcome.is_insert:
        outcome.wait()
    else:
        while outcome.next_batch() is not None:
            pass


def _close_all() -> None:
    # Workers that call Python functions have to end before the interpreter does.
    for connection in list(_open):
        try:
            connection.close()
        except _native.Error:
            # That of a process which forked this one.
            pass


atexit.register(_close_all)
