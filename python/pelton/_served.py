"""Sessions and jobs of an engine that `pelton serve` runs. The classes do what those of the native module do for an engine in this process."""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
import weakref
from typing import Any, Callable, Dict, Iterator, List, NoReturn, Optional, Tuple

from . import _native
from ._expressions import text_literal
from ._postgres import UNSUPPORTED, Client, Failure, fields_of
from ._served_rows import COPY, FROM_CLIENT, TO_CLIENT, CopiedRows, ServedReader, ServedStream, begin_copy, end_copy, until_ready
from ._types import quoted, watermark

#: How often a job is asked whether it has ended, in seconds.
POLL_S = 0.05

#: How the server begins to tell of the job that an INSERT is.
JOB_BEGINS, JOB_ENDS = "job '", "' runs; "


class ServedJob:
    """An insert that the server runs under a name."""

    def __init__(self, session: "ServedSession", described: Dict[str, str]) -> None:
        #: A connection that no query is busy with.
        self._session = session
        self._described = described
        self.id = int(described["job id"])
        self.name = described["job name"]
        self.statement = described["statement"]

    def _now(self) -> Dict[str, str]:
        names, rows = self._session.shown(f"DESCRIBE JOB {self.id}")
        return dict(zip(names, rows[0]))

    @property
    def state(self) -> str:
        return self._now()["status"]

    @property
    def error(self) -> Optional[str]:
        return self._now()["error"] or None

    @property
    def started_at(self) -> float:
        return _seconds(self._described["start time"])

    @property
    def ended_at(self) -> Optional[float]:
        text = self._now()["end time"]
        return _seconds(text) if text else None

    def progress(self) -> Dict[str, Any]:
        now = self._now()
        return {name: int(now[name.replace("_", " ")]) for name in ("rows_in", "rows_out", "state_bytes")}

    def stop(self, with_drain: bool) -> None:
        self._session.shown(f"STOP JOB {self.id}" + (" WITH DRAIN" if with_drain else ""))

    def abort(self) -> None:
        # The second STOP JOB ends a job at once that is being stopped.
        first = Client(self._session.address)
        first.send(f"STOP JOB {self.id}")
        try:
            self._session.shown(f"STOP JOB {self.id}")
        except _native.Error:
            # It may have ended before it was asked again.
            if self.state == "RUNNING":
                raise
        finally:
            first.close()

    def wait(self, timeout_s: Optional[float] = None) -> bool:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            now = self._now()
            if now["status"] != "RUNNING":
                break
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(POLL_S)
        if now["status"] == "FAILED":
            raise _native.Error(now["error"] or "the job has failed")
        return True


class ServedInsert:
    """An insert that was started: a job, which is waited for or left to the server."""

    is_insert = True

    def __init__(self, job: ServedJob) -> None:
        self._job = job

    def detach(self) -> ServedJob:
        return self._job

    def wait(self) -> None:
        try:
            self._job.wait()
        except KeyboardInterrupt:
            self._job.stop(False)
            raise


def _seconds(text: str) -> float:
    """Seconds since 1970 of a time in UTC."""
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc).timestamp()


class ServedSession:
    """A session of a server. While the rows of a query are read, its connection is busy."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._client = Client(address)
        #: Parses scripts.
        self._parser = _native.Session()
        #: The rows that are being read, as long as somebody has them.
        self._running: Callable[[], Optional[CopiedRows]] = lambda: None
        #: Temporary tables that nothing needs any more.
        self._forgotten: List[str] = []
        self._jobs: Optional[ServedSession] = None
        #: Held from a statement to its answer: threads take turns.
        self._turn = threading.RLock()

    def another(self) -> "ServedSession":
        return ServedSession(self.address)

    def prepare(self, script: str) -> List[_native.Statement]:
        return self._parser.prepare(script)

    @property
    def _is_busy(self) -> bool:
        running = self._running()
        return running is not None and not running.has_ended

    @contextlib.contextmanager
    def _idle_client(self) -> Iterator[Client]:
        """The connection for one statement, where no query is in its way."""
        with self._turn:
            if self._is_busy:
                raise _native.Error("the connection is busy with the rows of a query: read them all, close the query, or make a cursor()")
            forgotten, self._forgotten = self._forgotten, []
            for name in forgotten:
                self._client.send(f"DROP TEMPORARY TABLE IF EXISTS {quoted(name)}")
                until_ready(self._client)
            yield self._client

    def execute(self, statement: _native.Statement) -> Any:
        return self._execute(statement.text, statement)

    def _execute(self, text: str, statement: Optional[_native.Statement] = None) -> Any:
        """None, an insert, or the rows of a statement as they come."""
        job: Optional[str] = None
        failure: Optional[Failure] = None
        with self._idle_client() as client:
            client.send(f"{COPY}{text}\n) {TO_CLIENT}")
            while True:
                kind, body = client.receive()
                if kind == b"H":
                    rows = CopiedRows(client, statement)
                    self._running = weakref.ref(rows)
                    return rows
                if kind == b"N":
                    job = _job_name(fields_of(body).get("M", "")) or job
                elif kind == b"E":
                    failure = Failure(body)
                elif kind == b"Z":
                    break
        if failure is not None:
            raise failure.error(statement, len(COPY))
        return None if job is None else self._inserting(job)

    def _inserting(self, name: str) -> Optional[ServedInsert]:
        named = [job for job in self.jobs() if job.name == name]
        return ServedInsert(named[-1]) if named else None

    def shown(self, text: str) -> Tuple[List[str], List[Tuple[Any, ...]]]:
        """The rows of a statement that ends, and the names of their columns."""
        outcome = self._execute(text)
        if outcome is None:
            return [], []
        rows = [row for batch in iter(outcome.next_batch, None) for row in batch.rows()]
        return [name for name, _ in outcome.columns], rows

    def explain(self, statement: _native.Statement) -> str:
        _, rows = self.shown(f"EXPLAIN {statement.text}")
        return "\n".join(row[0] for row in rows)

    def check(self, query: str, call: Optional[str]) -> None:
        if self._is_busy:
            # It is found out when the query runs.
            return
        try:
            with self._idle_client() as client:
                client.send(f"DESCRIBE {query}")
                until_ready(client)
        except Failure as failure:
            if failure.code != UNSUPPORTED:
                failure.message = failure.message if call is None else f".{call}(…): {failure.message}"
                raise failure.error() from None

    def set(self, key: str, value: str) -> None:
        self.shown(f"SET {text_literal(key)} = {text_literal(value)}")

    def setting(self, key: str) -> Optional[str]:
        _, rows = self.shown("SET")
        value = {row[0]: row[1] for row in rows}.get(key)
        return None if value == "(default)" else value

    @property
    def time_zone(self) -> str:
        return self._client.parameters.get("TimeZone", "UTC")

    def push_table(self, name: str, columns: str) -> ServedStream:
        client = Client(self.address)
        begin_copy(client, f"COPY TABLE {quoted(name)} ({columns}) {FROM_CLIENT}", b"G")
        return ServedStream(client, columns)

    def pull_table(self, name: str, columns: str) -> ServedReader:
        client = Client(self.address)
        begin_copy(client, f"COPY TABLE {quoted(name)} ({columns}) {TO_CLIENT}", b"H")
        return ServedReader(client)

    def register(self, name: str, data: Any, event_time: Optional[str], delay_us: int) -> None:
        try:
            columns, batches = _native.table_rows(data)
        except _native.Error as error:
            raise _native.Error(f"table {name}: {error}") from None
        writer = _native.ArrowWriter(columns)
        if event_time is not None:
            columns += watermark(event_time, delay_us)
        with self._idle_client() as client:
            begin_copy(client, f"COPY TEMPORARY TABLE {quoted(name)} ({columns}) {FROM_CLIENT}", b"G")
            for batch in batches:
                client.put_data(writer.write(batch))
                client.flush()
            end_copy(client, writer)
        self._forgotten = [forgotten for forgotten in self._forgotten if forgotten != name]

    def unregister(self, name: str) -> None:
        # Rows of a query that reads it may be on their way.
        self._forgotten.append(name)

    def _functions(self) -> NoReturn:
        raise _native.Error("functions of Python run in the process of the engine, and this one is a server's: connect() without an address makes an engine in this process")

    def create_function(self, *_: object) -> None:
        self._functions()

    def create_aggregate(self, *_: object) -> None:
        self._functions()

    def create_table_function(self, *_: object) -> None:
        self._functions()

    def jobs(self) -> List[ServedJob]:
        if self._jobs is None:
            # One that rows of a query never keep busy.
            self._jobs = self.another()
            self._jobs.set("table.local-time-zone", "UTC")
        names, rows = self._jobs.shown("SHOW JOBS VERBOSE")
        return [ServedJob(self._jobs, dict(zip(names, row))) for row in rows]

    def close(self, _all_of_engine: bool) -> None:
        running = self._running()
        if running is not None:
            running.has_ended = True
        for session in (self, self._jobs):
            if session is not None:
                session._client.close()

    def state_bytes(self) -> int:
        names, rows = self.shown("SHOW QUERIES VERBOSE")
        return sum(int(row[names.index("state bytes")]) for row in rows)

    def __repr__(self) -> str:
        return self.address


def _job_name(notice: str) -> Optional[str]:
    if notice.startswith(JOB_BEGINS) and JOB_ENDS in notice:
        return notice[len(JOB_BEGINS) : notice.index(JOB_ENDS)]
    return None
