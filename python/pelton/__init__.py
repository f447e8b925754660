"""SQL over streams, inside your process.

A query reads files, tables of connectors, DataFrames and Arrow data of your program, and streams that it feeds:

>>> import pelton
>>> pelton.sql("SELECT a, a * 2 AS twice FROM (VALUES (1), (2)) AS t (a)").fetchall()
[(1, 2), (2, 4)]

`connect` makes an engine of its own, or opens a connection to `pelton serve`. The functions of this module that are also methods of a connection use one that the process shares.
"""

from __future__ import annotations

import os as _os
from typing import Optional, Union

from ._connection import Connection
from ._expressions import (
    Expr,
    Window,
    asc,
    avg,
    col,
    count,
    cumulate,
    desc,
    hop,
    lit,
    max,
    min,
    session,
    sum,
    tumble,
    tumble_rows,
    hop_rows,
)
from ._builder import GroupedTable, Table
from ._functions import aggregate, function, table_function
from ._jobs import AdaptationEvent, AdaptationEvents, Job
from ._native import VERSION as __version__
from ._native import Array, Error
from ._native import Session as _Session
from ._notebook import load_ipython_extension
from ._query import Batch, Query
from ._streams import Reader, Stream

__all__ = [
    "AdaptationEvent",
    "AdaptationEvents",
    "Array",
    "Batch",
    "Connection",
    "Error",
    "Expr",
    "GroupedTable",
    "Job",
    "Query",
    "Reader",
    "Stream",
    "Table",
    "Window",
    "aggregate",
    "asc",
    "avg",
    "col",
    "connect",
    "count",
    "cumulate",
    "default_connection",
    "desc",
    "execute",
    "explain",
    "function",
    "hop",
    "hop_rows",
    "lit",
    "load_ipython_extension",
    "max",
    "min",
    "session",
    "sql",
    "sum",
    "table_function",
    "tumble",
    "tumble_rows",
]

_default: Optional[Connection] = None


def connect(address: Optional[str] = None, **settings: object) -> Connection:
    """A new engine in this process, or, with an address, a connection to one that `pelton serve` runs.

    Settings are those of ``SET``; a dot is written as two underscores, as names of Python have none.

    >>> con = pelton.connect(pelton__workers=1)
    >>> con.setting("pelton.workers")
    '1'
    """
    if address is None:
        connection = Connection(_Session(), has_engine=True)
    else:
        # Loaded where it is needed: it takes as long as the rest of the package.
        from ._served import ServedSession

        connection = Connection(ServedSession(address))
    for key, value in settings.items():
        connection.set(key.replace("__", "."), value)
    return connection


def default_connection() -> Connection:
    """The connection that the functions of this module use. It is made when it is first used."""
    global _default
    if _default is None:
        _default = connect()
    return _default


def sql(script: str) -> Union[Query, Job, None]:
    """Executes statements, and returns the query, or the job, that the last of them is: :meth:`Connection.sql`.

    >>> pelton.sql("SELECT 1 AS one").fetchone()
    (1,)
    """
    return default_connection()._sql(script, depth=2)


def execute(script: str) -> None:
    """Executes statements, and waits for the inserts among them: :meth:`Connection.execute`.

    >>> pelton.execute("CREATE TEMPORARY VIEW two AS SELECT a FROM (VALUES (1), (2)) AS t (a)")
    >>> pelton.sql("SELECT COUNT(*) FROM two").fetchone()
    (2,)
    >>> pelton.execute("DROP TEMPORARY VIEW two")
    """
    default_connection()._execute(script, depth=2)


def explain(statement: str) -> str:
    """The plan of a query: :meth:`Connection.explain`.

    >>> "pipeline" in pelton.explain("SELECT 1 AS one")
    True
    """
    return default_connection()._explain(statement, depth=2)


def _forget_default() -> None:
    # A forked process has no threads of its parent's engine.
    global _default
    _default = None


if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_forget_default)
