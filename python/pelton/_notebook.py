"""Notebooks: the magic ``%%pelton`` and the live view."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Deque, List, Optional

from ._native import Error
from ._text import html_table, text_table

if TYPE_CHECKING:
    from ._query import Query

#: Seconds between two updates of a live view.
UPDATE_S = 0.5

#: How long a live view sleeps when no rows are there, in seconds.
SLEEP_S = 0.02

Row = List[Optional[str]]


def load_ipython_extension(ipython: Any) -> None:
    """Adds ``%%pelton`` to a notebook, by ``%load_ext pelton``. The cell's statements run on the connection that the process shares; ``%%pelton name`` makes a variable of the query.

    A query that does not end is shown live: ``%%pelton --live``.
    """

    def pelton(line: str, cell: Optional[str] = None) -> Any:
        from . import Query, default_connection

        options = line.split()
        is_live = "--live" in options
        names = [option for option in options if not option.startswith("--")]
        script = cell if cell is not None else line
        connection = default_connection()
        outcome = connection._sql_in(script, ipython.user_ns)
        if names and cell is not None:
            ipython.user_ns[names[0]] = outcome
            return None
        if is_live and isinstance(outcome, Query):
            outcome.live()
            return None
        return outcome

    ipython.register_magic_function(pelton, "cell", "pelton")


class _Display:
    """Something on a screen that is replaced: in a notebook in place, elsewhere printed once at the end."""

    def __init__(self) -> None:
        self._handle: Any = None
        try:
            from IPython import get_ipython
            from IPython.display import HTML, display

            if get_ipython() is not None:
                self._html = HTML
                self._handle = display(HTML(""), display_id=True)
        except ImportError:
            pass

    @property
    def is_notebook(self) -> bool:
        return self._handle is not None

    def update(self, content: str) -> None:
        self._handle.update(self._html(content))


def live(query: "Query", seconds: Optional[float], rows_max: int) -> None:
    """Shows a query while it runs, until it ends, so many seconds are over, or the user interrupts it."""
    screen = _Display()
    newest: Deque[Row] = deque(maxlen=rows_max)
    begun = shown_at = time.monotonic()
    rows_read = 0
    try:
        while seconds is None or time.monotonic() - begun < seconds:
            batch = query._ahead.popleft() if query._ahead else query._native.try_next_batch()
            if batch is None:
                if query.has_ended:
                    batch = query._native.next_batch()
                if batch is None and query.has_ended:
                    break
                if batch is None:
                    time.sleep(SLEEP_S)
            if batch is not None:
                rows_read += batch.num_rows
                tail = batch.slice(max(0, batch.num_rows - rows_max), rows_max)
                newest.extend(tail.text(query._time_zone))
            if screen.is_notebook and time.monotonic() - shown_at >= UPDATE_S:
                shown_at = time.monotonic()
                screen.update(_live_html(query, list(newest), rows_read))
    except KeyboardInterrupt:
        query.close()
    if screen.is_notebook:
        screen.update(_live_html(query, list(newest), rows_read))
    else:
        print(_figures(query, rows_read))
        print(text_table(query.columns, list(newest)))


def _live_html(query: "Query", newest: List[Row], rows_read: int) -> str:
    import html

    state = "has ended" if query.has_ended else "runs"
    figures = html.escape(_figures(query, rows_read))
    return f"<p>The query {state}: {figures}</p>" + html_table(query.columns, newest, has_more=False)


def _figures(query: "Query", rows_read: int) -> str:
    try:
        progress = query.progress()
    except Error:
        # A server does not tell it.
        return f"{rows_read:,} rows out"
    parts = [f"{progress['rows_in']:,} rows in", f"{rows_read:,} rows out", f"{progress['rows_in_per_s']:,.0f} rows/s"]
    latency_s = progress["latency_s_p99"]
    if latency_s is not None:
        parts.append(f"p99 latency {latency_s * 1_000:,.2f} ms")
    if progress["late_rows"]:
        parts.append(f"{progress['late_rows']:,} late rows")
    return ", ".join(parts)
