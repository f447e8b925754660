"""Rows on their way from and to an engine that `pelton serve` runs: Arrow data, by COPY. The classes do what those of the native module do for an engine in this process."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Deque, Dict, List, NoReturn, Optional, Tuple

from . import _native
from ._postgres import CANCELLED, Client, Failure

#: Batches that are taken at once where more have come.
BATCHES_MAX = 16

#: How a statement is sent whose rows are to come as Arrow data.
COPY, TO_CLIENT, FROM_CLIENT = "COPY (", "TO STDOUT (FORMAT arrow)", "FROM STDIN (FORMAT arrow)"


def until_ready(client: Client) -> None:
    """Takes messages until the server is ready. Raises its error."""
    failure = None
    while True:
        kind, body = client.receive()
        if kind == b"E":
            failure = Failure(body)
        elif kind == b"Z":
            if failure is not None:
                raise failure
            return


def begin_copy(client: Client, statement: str, answer: bytes) -> None:
    """Sends a COPY statement, and awaits the answer that rows may come or go."""
    client.send(statement)
    while True:
        kind, body = client.receive()
        if kind == answer:
            return
        if kind == b"E":
            failure = Failure(body)
            until_ready(client)
            raise failure.error()


def end_copy(client: Client, writer: _native.ArrowWriter) -> None:
    """Says that no more rows come, and awaits that the server has taken them."""
    client.put_data(writer.finish())
    client.put(b"c", b"")
    client.flush()
    try:
        until_ready(client)
    except Failure as failure:
        raise failure.error() from None


class CopiedRows:
    """Rows that the server sends, as they come."""

    is_insert = False

    def __init__(self, client: Client, statement: Optional[_native.Statement] = None) -> None:
        self._client = client
        self._statement = statement
        self._reader = _native.ArrowReader()
        self._batches: Deque[_native.Batch] = deque()
        self._failure: Optional[Failure] = None
        self._is_stopped = False
        self.has_ended = False
        while self._reader.empty is None and not self.has_ended:
            self._take()
        if self._reader.empty is None:
            self._raise()
        self._empty: Any = self._reader.empty

    @property
    def columns(self) -> List[Tuple[str, str]]:
        return self._empty.columns

    def _take(self) -> None:
        """Takes a message."""
        kind, body = self._client.receive()
        if kind == b"d":
            self._batches.extend(self._reader.read(body))
        elif kind == b"E":
            self._failure = Failure(body)
        elif kind == b"Z":
            self.has_ended = True

    def _raise(self) -> None:
        """Raises the error of the server, once."""
        failure, self._failure = self._failure, None
        if failure is not None and not (self._is_stopped and failure.code == CANCELLED):
            raise failure.error(self._statement, len(COPY))

    def _next(self) -> Optional[_native.Batch]:
        """Rows that have come. An error comes behind them."""
        if self._batches:
            return self._batches.popleft()
        self._raise()
        return None

    def next_batch(self) -> Optional[_native.Batch]:
        try:
            while not self.has_ended and not self._batches:
                self._take()
        except KeyboardInterrupt:
            self.close()
            raise
        return self._next()

    def try_next_batch(self) -> Optional[_native.Batch]:
        while not self.has_ended and len(self._batches) < BATCHES_MAX and self._client.has_message():
            self._take()
        return self._next()

    def poll_batch(self, wake: Callable[[], None]) -> Tuple[bool, Optional[_native.Batch]]:
        import asyncio

        batch = self.try_next_batch()
        if batch is not None or self.has_ended:
            return True, batch
        loop, socket = asyncio.get_running_loop(), self._client.socket

        def come() -> None:
            loop.remove_reader(socket)
            wake()

        loop.add_reader(socket, come)
        return False, None

    def stream(self, ahead: List[_native.Batch], requested_schema: object) -> object:
        batches = [*ahead, *iter(self.next_batch, None)]
        return _native.Batch.stream_of(batches or [self._empty], requested_schema)

    def schema_capsule(self) -> object:
        return self._empty.__arrow_c_schema__()

    def stop(self) -> None:
        if not self.has_ended:
            self._is_stopped = True
            self._client.cancel()

    def close(self) -> None:
        if not self._client.is_own:
            return
        if not self.has_ended:
            self._client.cancel()
            while not self.has_ended:
                self._take()
                self._batches.clear()
        # What was cancelled has failed for no other reason.
        self._batches.clear()
        self._failure = None

    def __del__(self) -> None:
        # The connection goes on without the rows that nobody reads any more.
        try:
            self.close()
        except (AttributeError, OSError, _native.Error):
            pass

    def progress(self) -> Dict[str, Any]:
        raise _native.Error("a server does not tell the progress of one query: SHOW QUERIES VERBOSE and SHOW PROGRESS list those of all")

    def adaptation_events(self) -> NoReturn:
        raise _native.Error("a server does not send adaptation events: EXPLAIN ANALYZE QUERY … VERBOSE shows them")


class ServedReader(CopiedRows):
    """Reads the rows that a query inserts: has a connection of its own."""

    def close(self) -> None:
        self.has_ended = True
        self._batches.clear()
        if self._client.is_own:
            self._client.close()


class ServedStream:
    """Passes rows to the queries that read the table: has a connection of its own."""

    def __init__(self, client: Client, columns: str) -> None:
        self._client = client
        self._writer: Optional[_native.ArrowWriter] = _native.ArrowWriter(columns)
        self.columns = self._writer.columns

    def _open(self) -> _native.ArrowWriter:
        if self._writer is None:
            raise _native.Error("the stream is closed: nothing more can be pushed")
        return self._writer

    def batches(self, rows: Any) -> List[_native.Batch]:
        return self._open().batches(rows)

    def push(self, batch: _native.Batch) -> None:
        self._check()
        self._client.put_data(self._open().write(batch))
        while not self._client.flush(until_message=True):
            self._check()

    def try_push(self, batch: _native.Batch) -> bool:
        self._check()
        if not self._client.try_flush():
            return False
        self._client.put_data(self._open().write(batch))
        self._client.try_flush()
        return True

    def _check(self) -> None:
        """Raises what the server has against the rows."""
        while self._writer is not None and self._client.has_message():
            kind, body = self._client.receive()
            if kind == b"E":
                self._writer = None
                self._client.close()
                raise Failure(body).error()

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is None or not self._client.is_own:
            return
        try:
            end_copy(self._client, writer)
        finally:
            self._client.close()
