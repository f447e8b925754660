"""Connections to an engine that `pelton serve` runs, by the protocol of Postgres."""

from __future__ import annotations

import datetime
import decimal
import select
import socket
import struct
import time
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

from . import _native
from ._query import Query

CONNECT_S_MAX = 10.0

#: Rows of a batch at most, where more have come.
BATCH_ROWS_MAX = 8_192

READ_BYTES = 1 << 16

#: How long an interrupt waits at most for a connection that waits, in seconds.
SIGNAL_DELAY_S_MAX = 0.1

#: How often a job is asked whether it has ended, in seconds.
POLL_S = 0.05

PROTOCOL = 196_608
CANCEL_REQUEST = 80_877_102

Message = Tuple[bytes, bytes]


class _Client:
    """A connection of the protocol."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise _native.Error(f"'{address}' is no address: write host:port, such as 127.0.0.1:5433")
        self.place = (host.strip("[]"), int(port))
        try:
            self._socket = socket.create_connection(self.place, CONNECT_S_MAX)
        except OSError as error:
            raise _native.Error(f"{address}: {error}; is 'pelton serve' running there?") from None
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._incoming = bytearray()
        self._key = b""
        parameters = b"user\0pelton\0application_name\0python\0\0"
        self._socket.sendall(struct.pack("!II", len(parameters) + 8, PROTOCOL) + parameters)
        self._start()

    def _start(self) -> None:
        while True:
            kind, body = self.receive()
            if kind == b"K":
                self._key = body
            elif kind == b"E":
                raise _error(body, None)
            elif kind == b"R" and body != b"\0\0\0\0":
                raise _native.Error("the server asks for a password")
            elif kind == b"Z":
                return

    def send(self, statement: str) -> None:
        text = statement.encode() + b"\0"
        self._socket.sendall(b"Q" + struct.pack("!I", len(text) + 4) + text)

    def has_message(self) -> bool:
        """Whether a message is there, without waiting."""
        while self._length() is None:
            if not select.select([self._socket], [], [], 0)[0]:
                return False
            self._read()
        return True

    def receive(self) -> Message:
        """Waits for a message."""
        while True:
            length = self._length()
            if length is not None:
                kind, body = bytes(self._incoming[:1]), bytes(self._incoming[5 : length + 1])
                del self._incoming[: length + 1]
                return kind, body
            self._read()

    def _length(self) -> Optional[int]:
        if len(self._incoming) < 5:
            return None
        (length,) = struct.unpack_from("!I", self._incoming, 1)
        return length if len(self._incoming) > length else None

    def _read(self) -> None:
        # A signal may come to another thread, and is handled between two waits.
        while not select.select([self._socket], [], [], SIGNAL_DELAY_S_MAX)[0]:
            pass
        read = self._socket.recv(READ_BYTES)
        if not read:
            raise _native.Error("the server has closed the connection")
        self._incoming += read

    @property
    def socket(self) -> socket.socket:
        return self._socket

    def cancel(self) -> None:
        """Asks the server to end the statement."""
        with socket.create_connection(self.place, CONNECT_S_MAX) as asking:
            asking.sendall(struct.pack("!II", 16, CANCEL_REQUEST) + self._key)
            # The server closes the connection when it has done so: the next statement is not meant.
            asking.recv(1)

    def close(self) -> None:
        self._socket.close()


def _error(body: bytes, statement: Optional[_native.Statement]) -> _native.Error:
    fields = _fields(body)
    hint = fields.get("H")
    message = fields.get("M", "") + (f"; {hint}" if hint else "")
    line = column = None
    if statement is not None and fields.get("P", "").isdigit():
        before = statement.text[: int(fields["P"]) - 1]
        line = statement.line + before.count("\n")
        column = len(before) - before.rfind("\n")
    error = _native.Error(message if line is None else f"line {line}, column {column}: {message}")
    error.line, error.column, error.hint, error.unknown_table = line, column, hint, None
    return error


def _fields(body: bytes) -> Dict[str, str]:
    parts = body.rstrip(b"\0").split(b"\0")
    return {part[:1].decode(): part[1:].decode() for part in parts if part}


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def _instant(text: str) -> datetime.datetime:
    sign = max(text.rfind("+"), text.rfind("-", 11))
    clocks, offset = text[:sign], text[sign:]
    parts = [int(part) for part in offset[1:].split(":")] + [0, 0]
    ahead = datetime.timedelta(hours=parts[0], minutes=parts[1], seconds=parts[2])
    ahead = -ahead if offset[0] == "-" else ahead
    return (_timestamp(clocks) - ahead).replace(tzinfo=datetime.timezone.utc)


def _timestamp(text: str) -> datetime.datetime:
    whole, _, fraction = text.partition(".")
    time_of_day = datetime.datetime.strptime(whole, "%Y-%m-%d %H:%M:%S")
    return time_of_day.replace(microsecond=int(fraction.ljust(6, "0")[:6]) if fraction else 0)


Parser = Callable[[str], Any]

#: Types of the protocol by their numbers: SQL's, and how their text is read.
_TYPES: Dict[int, Tuple[str, Parser]] = {
    16: ("BOOLEAN", lambda text: text == "t"),
    17: ("BYTES", _bytes),
    20: ("BIGINT", int),
    21: ("SMALLINT", int),
    23: ("INT", int),
    25: ("STRING", str),
    114: ("STRING", str),
    700: ("FLOAT", float),
    701: ("DOUBLE", float),
    1082: ("DATE", datetime.date.fromisoformat),
    1114: ("TIMESTAMP(6)", _timestamp),
    1184: ("TIMESTAMP_LTZ(6)", _instant),
}

NUMERIC = 1_700

#: Types of arrays, and of their elements.
_ARRAYS = {
    1000: 16,
    1001: 17,
    1005: 21,
    1007: 23,
    1009: 25,
    1016: 20,
    1021: 700,
    1022: 701,
    1115: 1114,
    1182: 1082,
    1185: 1184,
    1231: NUMERIC,
}


def _type(oid: int, modifier: int) -> Tuple[str, Parser]:
    if oid == NUMERIC:
        digits = (modifier - 4) >> 16, (modifier - 4) & 0xFFFF
        precision, scale = digits if modifier >= 4 else (38, 9)
        return f"DECIMAL({precision}, {scale})", decimal.Decimal
    if oid in _ARRAYS:
        kind, parse = _type(_ARRAYS[oid], modifier)
        return f"ARRAY<{kind}>", lambda text: [None if part is None else parse(part) for part in _elements(text)]
    return _TYPES.get(oid, ("STRING", str))


def _elements(text: str) -> Iterator[Optional[str]]:
    """The elements of an array of one dimension: `{1,NULL,"a, b"}`."""
    at = 1
    while at < len(text) - 1:
        if text[at] == '"':
            parts = []
            at += 1
            while text[at] != '"':
                at += text[at] == "\\"
                parts.append(text[at])
                at += 1
            yield "".join(parts)
            at += 2
        else:
            end = text.find(",", at)
            end = len(text) - 1 if end < 0 else end
            yield None if text[at:end] == "NULL" else text[at:end]
            at = end + 1


class _Result:
    """The rows of a statement as they come: what a query reads."""

    is_insert = False

    def __init__(self, client: _Client, statement: _native.Statement, description: bytes) -> None:
        self._client = client
        self._statement = statement
        self.columns: List[Tuple[str, str]] = []
        self._parsers: List[Parser] = []
        self.has_ended = False
        (count,) = struct.unpack_from("!H", description)
        at = 2
        for _ in range(count):
            end = description.index(b"\0", at)
            oid, _size, modifier = struct.unpack_from("!IhI", description, end + 7)
            kind, parse = _type(oid, modifier if modifier < 1 << 31 else -1)
            self.columns.append((description[at:end].decode(), kind))
            self._parsers.append(parse)
            at = end + 19
        self._declared = ", ".join(
            "`" + name.replace("`", "``") + f"{'' if number == 0 else '_' + str(number)}` {kind}"
            for number, (name, kind) in _numbered(self.columns)
        )
        self._rows: List[Tuple[Any, ...]] = []
        self._failure: Optional[_native.Error] = None

    def _row(self, body: bytes) -> Tuple[Any, ...]:
        at, values = 2, []
        for parse in self._parsers:
            (length,) = struct.unpack_from("!i", body, at)
            at += 4
            values.append(None if length < 0 else parse(body[at : at + length].decode()))
            at += max(length, 0)
        return tuple(values)

    def _take(self) -> None:
        """Takes a message."""
        kind, body = self._client.receive()
        if kind == b"D":
            self._rows.append(self._row(body))
        elif kind == b"E":
            self._failure = _error(body, self._statement)
        elif kind == b"Z":
            self.has_ended = True

    def _batch(self) -> Optional[_native.Batch]:
        if not self._rows:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            return None
        rows, self._rows = self._rows, []
        return _native.Batch.of_rows(rows, self._declared)

    def next_batch(self) -> Optional[_native.Batch]:
        try:
            while not self.has_ended and not self._rows:
                self._take()
            return self.try_next_batch()
        except KeyboardInterrupt:
            self.close()
            raise

    def try_next_batch(self) -> Optional[_native.Batch]:
        while not self.has_ended and len(self._rows) < BATCH_ROWS_MAX and self._client.has_message():
            self._take()
        return self._batch()

    def poll_batch(self, wake: Callable[[], None]) -> Tuple[bool, Optional[_native.Batch]]:
        import asyncio

        batch = self.try_next_batch()
        if batch is not None or self.has_ended:
            return True, batch
        loop, socket_ = asyncio.get_running_loop(), self._client.socket

        def come() -> None:
            loop.remove_reader(socket_)
            wake()

        loop.add_reader(socket_, come)
        return False, None

    def stream(self, ahead: List[_native.Batch], requested_schema: object) -> object:
        batches = [*ahead, *iter(self.next_batch, None)]
        batches = batches or [_native.Batch.of_rows([], self._declared)]
        return _native.Batch.stream_of(batches, requested_schema)

    def schema_capsule(self) -> object:
        return _native.Batch.of_rows([], self._declared).__arrow_c_schema__()

    def stop(self) -> None:
        if not self.has_ended:
            self._client.cancel()

    def close(self) -> None:
        if not self.has_ended:
            self._client.cancel()
            while not self.has_ended:
                self._take()
        # What was cancelled has failed for no other reason.
        self._rows, self._failure = [], None

    def __del__(self) -> None:
        # The connection goes on without the rows that nobody reads any more.
        try:
            self.close()
        except (_native.Error, OSError):
            pass

    def progress(self) -> Dict[str, Any]:
        raise _native.Error("a served query tells its progress by SHOW QUERIES and SHOW PROGRESS")

    def adaptation_events(self) -> Any:
        raise _native.Error("a served query tells its adaptation events by EXPLAIN ANALYZE QUERY … VERBOSE")


def _numbered(columns: List[Tuple[str, str]]) -> Iterator[Tuple[int, Tuple[str, str]]]:
    """Columns, with a number where another one before has the name."""
    seen: Dict[str, int] = {}
    for name, kind in columns:
        yield seen.get(name, 0), (name, kind)
        seen[name] = seen.get(name, 0) + 1


class ServedJob:
    """An insert that the server runs under a name."""

    def __init__(self, connection: "ServedConnection", number: str, name: str) -> None:
        self._connection = connection
        #: Its number.
        self.id = int(number)
        #: Its name.
        self.name = name

    def _described(self) -> Dict[str, Optional[str]]:
        query = self._connection.sql(f"DESCRIBE JOB {self.id}")
        names = query.column_names
        return dict(zip(names, query.fetchall()[-1]))

    @property
    def state(self) -> Optional[str]:
        """RUNNING, FINISHED, FAILED or STOPPED."""
        return self._described().get("status")

    @property
    def error(self) -> Optional[str]:
        """Why it failed."""
        return self._described().get("error") or None

    def stop(self, drain: bool = False) -> None:
        """As :meth:`Job.stop`."""
        self._connection.execute(f"STOP JOB {self.id}" + (" WITH DRAIN" if drain else ""))

    def wait(self, timeout: Optional[float] = None) -> bool:
        """As :meth:`Job.wait`."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.state == "RUNNING":
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(POLL_S)
        if self.state == "FAILED":
            raise _native.Error(self.error or "the job has failed")
        return True

    def __repr__(self) -> str:
        return f"<pelton.ServedJob {self.name}>"


def _escaped(name: str) -> str:
    return name.replace("'", "''")


class ServedConnection:
    """A session of an engine that `pelton serve` runs: made by ``pelton.connect("host:port")``.

    It has the methods of :class:`Connection` that the server can do. What needs memory or code of the program, :meth:`Connection.register`, :meth:`Connection.stream`, functions of Python and queries
    that are put together by calls, raises :class:`Error`. While the rows of a query are read the connection is busy: :meth:`cursor` makes another one.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._client = _Client(address)
        self._parser = _native.Session()
        #: What is being read, as long as somebody has it.
        self._running: Callable[[], Optional[_Result]] = lambda: None
        self._job: Optional[str] = None

    def cursor(self) -> "ServedConnection":
        """Another session of the same server."""
        return ServedConnection(self._address)

    def sql(self, script: str) -> Any:
        """As :meth:`Connection.sql`, without variables of the program as tables."""
        outcome: Union[_Result, None] = None
        self._job = None
        for statement in self._parser.prepare(script):
            while outcome is not None and outcome.next_batch() is not None:
                pass
            self._job = None
            outcome = self._run(statement)
        if outcome is not None:
            return Query(outcome)
        return None if self._job is None else self.job(self._job)

    def execute(self, script: str) -> None:
        """As :meth:`Connection.execute`: inserts are waited for."""
        for statement in self._parser.prepare(script):
            self._job = None
            outcome = self._run(statement)
            while outcome is not None and outcome.next_batch() is not None:
                pass
            job = None if self._job is None else self.job(self._job)
            if job is not None:
                job.wait()

    def _run(self, statement: _native.Statement) -> Optional[_Result]:
        """Executes a statement. One that has rows goes on to run."""
        running = self._running()
        if running is not None and not running.has_ended:
            raise _native.Error("the connection is busy with the rows of a query: read them all, close the query, or make a cursor()")
        self._client.send(statement.text)
        failure: Optional[_native.Error] = None
        while True:
            kind, body = self._client.receive()
            if kind == b"T":
                result = _Result(self._client, statement, body)
                self._running = weakref.ref(result)
                return result
            if kind == b"N":
                self._note(_fields(body).get("M", ""))
            elif kind == b"E":
                failure = _error(body, statement)
            elif kind == b"Z":
                if failure is not None:
                    raise failure
                return None

    def _note(self, message: str) -> None:
        # An insert is answered with the name of its job.
        begin, end = "job '", "' runs; "
        if message.startswith(begin) and end in message:
            self._job = message[len(begin) : message.index(end)]

    def explain(self, statement: str) -> str:
        """As :meth:`Connection.explain`."""
        return "\n".join(row[0] for row in self.sql(f"EXPLAIN {statement}").fetchall())

    def set(self, key: str, value: object) -> None:
        """As :meth:`Connection.set`."""
        text = str(value).lower() if isinstance(value, bool) else str(value)
        self.execute(f"SET '{_escaped(key)}' = '{_escaped(text)}'")

    def setting(self, key: str) -> Optional[str]:
        """As :meth:`Connection.setting`."""
        values = {row[0]: row[1] for row in self.sql("SET").fetchall()}
        value = values.get(key)
        return None if value == "(default)" else value

    def jobs(self) -> List[ServedJob]:
        """As :meth:`Connection.jobs`."""
        query = self.sql("SHOW JOBS")
        number, name = (query.column_names.index(column) for column in ("job id", "job name"))
        return [ServedJob(self, row[number], row[name]) for row in query.fetchall()]

    def job(self, name: str) -> Optional[ServedJob]:
        """As :meth:`Connection.job`."""
        named = [job for job in self.jobs() if job.name == name]
        return named[-1] if named else None

    def close(self) -> None:
        """Ends the connection and its queries. Jobs go on."""
        self._client.close()

    def __getattr__(self, name: str) -> Any:
        from ._connection import Connection

        if not name.startswith("_") and hasattr(Connection, name):
            raise _native.Error(f"a connection to a server has no {name}(): connect() without an address makes an engine in this process, which has")
        raise AttributeError(name)

    def __enter__(self) -> "ServedConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<pelton.ServedConnection to {self._address}>"
