"""The protocol of Postgres, as far as a client of `pelton serve` needs it."""

from __future__ import annotations

import os
import select
import socket
import struct
from typing import Dict, Optional, Tuple

from . import _native

CONNECT_S_MAX = 10.0

READ_BYTES = 1 << 18

#: Bytes of rows in one message, at most.
DATA_BYTES_MAX = 1 << 20

#: How long an interrupt waits at most for a connection that waits, in seconds.
SIGNAL_DELAY_S_MAX = 0.1

PROTOCOL = 196_608
CANCEL_REQUEST = 80_877_102

#: The code of the error of a statement that was cancelled, and of one that is sound and not possible.
CANCELLED = "57014"
UNSUPPORTED = "0A000"

#: Its kind, and what it says.
Message = Tuple[bytes, bytes]


class Failure(Exception):
    """An error of the server."""

    def __init__(self, body: bytes) -> None:
        fields = fields_of(body)
        self.code = fields.get("C", "")
        self.message = fields.get("M", "")
        self.hint = fields.get("H")
        #: The character of what was sent, from 1, if it is of one.
        self.position = int(fields["P"]) if fields.get("P", "").isdigit() else None
        super().__init__(self.message)

    def error(self, statement: Optional[_native.Statement] = None, offset: int = 0) -> _native.Error:
        """The exception for the user, with its place in the script of a statement, which began behind so many characters of what was sent."""
        place = None
        if statement is not None and self.position is not None:
            before = statement.text[: max(0, self.position - 1 - offset)]
            lines = before.count("\n")
            column = len(before) - before.rfind("\n") + (0 if lines else statement.column - 1)
            place = (statement.line + lines, column)
        return _native.served_error(self.message, self.hint, place)


def fields_of(body: bytes) -> Dict[str, str]:
    """The fields of an error or a notice by their letters."""
    parts = body.rstrip(b"\0").split(b"\0")
    return {part[:1].decode(): part[1:].decode() for part in parts if part}


class Client:
    """A connection to a server. It reads and writes whole messages, and an interrupt leaves none of them in pieces."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise _native.Error(f"'{address}' is no address: write host:port, such as 127.0.0.1:5433")
        self._place = (host.strip("[]"), int(port))
        try:
            self.socket = socket.create_connection(self._place, CONNECT_S_MAX)
        except OSError as error:
            raise _native.Error(f"{address}: {error}; is 'pelton serve' running there?") from None
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self._process = os.getpid()
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._key = b""
        #: Parameters of the session that the server tells of, such as TimeZone.
        self.parameters: Dict[str, str] = {}
        self._start()

    def _start(self) -> None:
        parameters = b"user\0pelton\0application_name\0python\0\0"
        self._outgoing += struct.pack("!II", len(parameters) + 8, PROTOCOL) + parameters
        self.flush()
        while True:
            kind, body = self.receive()
            if kind == b"K":
                self._key = body
            elif kind == b"E":
                raise Failure(body).error()
            elif kind == b"R" and body != b"\0\0\0\0":
                raise _native.Error("the server asks for a password")
            elif kind == b"Z":
                return

    @property
    def is_own(self) -> bool:
        """Whether this process has connected, and is not a fork of the one that has."""
        return self._process == os.getpid()

    def send(self, statement: str) -> None:
        """Sends a statement."""
        if not self.is_own:
            raise _native.Error("the connection belongs to the process that forked this one: connect again")
        self.put(b"Q", statement.encode() + b"\0")
        self.flush()

    def put(self, kind: bytes, body: bytes) -> None:
        """Adds a message, which is sent by :meth:`flush` or :meth:`try_flush`."""
        self._outgoing += kind + struct.pack("!I", len(body) + 4)
        self._outgoing += body

    def put_data(self, data: bytes) -> None:
        """Adds rows."""
        for start in range(0, len(data), DATA_BYTES_MAX):
            self.put(b"d", data[start : start + DATA_BYTES_MAX])

    def flush(self, until_message: bool = False) -> bool:
        """Sends what was added, or, if that is asked for, what the server takes before it says something. Whether that is all."""
        while not self.try_flush():
            # A signal may come to another thread, and is handled between two waits.
            select.select([self.socket] if until_message else [], [self.socket], [], SIGNAL_DELAY_S_MAX)
            if until_message and self.has_message():
                return False
        return True

    def try_flush(self) -> bool:
        """Sends as much as there is room for. Whether that is all."""
        while self._outgoing:
            try:
                sent = self.socket.send(self._outgoing)
            except BlockingIOError:
                return False
            except OSError as error:
                raise _native.Error(f"the server has closed the connection: {error}") from None
            del self._outgoing[:sent]
        return True

    def has_message(self) -> bool:
        """Whether a message is there, without waiting."""
        while self._length() is None:
            if not self._try_read():
                return False
        return True

    def receive(self) -> Message:
        """Waits for a message."""
        while not self.has_message():
            select.select([self.socket], [], [], SIGNAL_DELAY_S_MAX)
        length = self._length() or 0
        with memoryview(self._incoming) as incoming:
            kind, body = bytes(incoming[:1]), bytes(incoming[5 : length + 1])
        del self._incoming[: length + 1]
        if kind == b"S":
            name, value = body.split(b"\0")[:2]
            self.parameters[name.decode()] = value.decode()
        return kind, body

    def _length(self) -> Optional[int]:
        """The length of the message that comes first, where all of it is there."""
        if len(self._incoming) < 5:
            return None
        (length,) = struct.unpack_from("!I", self._incoming, 1)
        return length if len(self._incoming) > length else None

    def _try_read(self) -> bool:
        try:
            read = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            raise _native.Error(f"the server has closed the connection: {error}") from None
        if not read:
            raise _native.Error("the server has closed the connection")
        self._incoming += read
        return True

    def cancel(self) -> None:
        """Asks the server to end the statement."""
        with socket.create_connection(self._place, CONNECT_S_MAX) as asking:
            asking.sendall(struct.pack("!II", 16, CANCEL_REQUEST) + self._key)
            # The server closes the connection when it has done so: the next statement is not meant.
            asking.recv(1)

    def close(self) -> None:
        """Ends the connection."""
        self.socket.close()
