"""Jobs and adaptation events."""

from __future__ import annotations

import datetime
from typing import Any, Dict, Iterator, NamedTuple, Optional


class Job:
    """An insert that the engine runs under a name, with or without its session.

    >>> con = pelton.connect()
    >>> con.execute("CREATE TABLE hole (a INT) WITH ('connector' = 'blackhole')")
    >>> job = con.sql("INSERT INTO hole VALUES (1), (2)")
    >>> job.wait()
    True
    >>> job.name, job.state
    ('insert_into_hole', 'FINISHED')
    """

    def __init__(self, native: Any, connection: Any) -> None:
        self._native = native
        #: Keeps the engine, which ends its jobs when it ends.
        self._connection = connection

    @property
    def id(self) -> int:
        """Its number."""
        return self._native.id

    @property
    def name(self) -> str:
        """Its name."""
        return self._native.name

    @property
    def statement(self) -> str:
        """The text of the statement."""
        return self._native.statement

    @property
    def state(self) -> str:
        """RUNNING, FINISHED, FAILED, STOPPED or ALTERED."""
        return self._native.state

    @property
    def error(self) -> Optional[str]:
        """Why it failed."""
        return self._native.error

    @property
    def started_at(self) -> datetime.datetime:
        """When it was started."""
        return _instant(self._native.started_at)

    @property
    def ended_at(self) -> Optional[datetime.datetime]:
        """When it ended."""
        ended_at = self._native.ended_at
        return None if ended_at is None else _instant(ended_at)

    def progress(self) -> Dict[str, Any]:
        """As :meth:`Query.progress`."""
        return self._native.progress()

    def stop(self, drain: bool = False) -> None:
        """Ends it behind the rows that it has read. With ``drain`` as if its inputs had ended: windows that are open are reported."""
        self._native.stop(drain)

    def abort(self) -> None:
        """Ends it now. Rows that were read and not written are dropped."""
        self._native.abort()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits for its end, for so many seconds at most, and says whether it has ended. Raises :class:`Error` where it failed."""
        return self._native.wait(timeout)

    def __repr__(self) -> str:
        return f"<pelton.Job {self.name}: {self.state}>"


class AdaptationEvent(NamedTuple):
    """A change of the code of a pipeline."""

    #: The pipeline's name.
    pipeline: str
    #: Number among the events of the pipeline, from 0.
    number: int
    #: Seconds since the query began.
    at_s: float
    #: Rows that the pipeline had processed.
    rows: int
    #: Number of the variant of the code.
    variant: int
    #: started, tried, kept, undone, pinned, assumed, broken or regressed.
    kind: str
    #: What the variant is specialised for; None for generic code.
    specialisation: Optional[str]
    #: The event in a sentence.
    summary: str
    #: Figures that go with it.
    figures: Optional[str]


class AdaptationEvents(Iterator[AdaptationEvent]):
    """Iterator over the adaptation events of a query. One that has nothing more goes on when it is asked again."""

    def __init__(self, native: Any) -> None:
        self._native = native

    @property
    def missed(self) -> int:
        """Events that were no longer retained when they were asked for."""
        return self._native.missed

    def __next__(self) -> AdaptationEvent:
        event = self._native.next()
        if event is None:
            raise StopIteration
        return AdaptationEvent(**event)


def _instant(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
