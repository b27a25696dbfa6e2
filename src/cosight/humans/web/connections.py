"""Connections that cannot lock participants out: deadlines, a bound that follows the limit on open files, a short log.

A connection waits while it has no complete request. It is closed when it waits too long, or when the server has no
room and it has waited longest: first those that never completed a request, then those kept alive between two requests.
A request that is complete is always answered.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

__all__ = ["BoundedLogHandler", "Capacity", "StudyProtocol", "log_briefly", "raise_file_limit"]

_REQUEST_SECONDS = 15.0  # until head and body of a request must be complete, and between two looks at a slow reader
_MAX_CONNECTIONS = 10_000  # some 100 MB of memory
_MAX_BATCH = 64  # connections that are accepted one after the other, some 6 ms in which no request is answered
_RESERVED_FILES = 96  # descriptors of the database, image files, the listener and the standard streams
_FILE_LIMIT = 20_000  # descriptors: more than _MAX_CONNECTIONS need
_OTHER_FILE_LIMIT = 10_240  # the most that macOS grants
_LOG_PERIOD = 60.0  # seconds in which equal messages are counted, not repeated
_LOG_LINES = 20  # different messages per period
_LOG_LENGTH = 4000  # characters of a message with its traceback


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many connections a process holds, and how many it accepts at once."""

    connections: int
    batch: int

    @classmethod
    def of_files(cls, files: int) -> Capacity:
        """Return the capacity with a limit of `files` open files.

        The event loop accepts up to four batches before it reads from, or closes, the first connection. So there is
        room for many batches: a connection must not be closed for newer ones before its request was read.

        >>> Capacity.of_files(1024)
        Capacity(connections=812, batch=29)
        """
        batch = max(1, min(_MAX_BATCH, (files - _RESERVED_FILES) // 32))
        return cls(max(1, min(_MAX_CONNECTIONS, files - _RESERVED_FILES - 4 * batch)), batch)


def raise_file_limit() -> Capacity:
    """Raise the soft limit on open files towards the hard one, and return the capacity that it allows."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return Capacity.of_files(_FILE_LIMIT)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (_FILE_LIMIT, _OTHER_FILE_LIMIT):
        wanted = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            continue
        soft = wanted
    return Capacity.of_files(_FILE_LIMIT if soft == resource.RLIM_INFINITY else soft)


@dataclass(slots=True)
class _Waiting:
    """The connections of a server that have no complete request, each in the order in which they began to wait."""

    capacity: Capacity
    new: dict[StudyProtocol, None] = field(default_factory=dict)
    kept_alive: dict[StudyProtocol, None] = field(default_factory=dict)


_servers: WeakKeyDictionary[ServerState, _Waiting] = WeakKeyDictionary()


class StudyProtocol(H11Protocol):
    """HTTP/1.1 with a deadline for each request and a bound on connections."""

    _deadline: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None
    _waiting: _Waiting

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; where there is no room, close the one that has waited longest."""
        super().connection_made(transport)
        state = self.server_state
        if state not in _servers:
            _servers[state] = _Waiting(raise_file_limit())
        self._waiting = _servers[state]
        self._waiting.new[self] = None
        self._deadline = self.loop.call_later(_REQUEST_SECONDS, self._close)
        if len(self.connections) > self._waiting.capacity.connections:
            others = self._waiting.new if len(self._waiting.new) > 1 else self._waiting.kept_alive
            if others:
                next(iter(others))._close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        self._stop_stall()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop_waiting()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(_REQUEST_SECONDS, self._close)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._stop_waiting()
        if not self.transport.is_closing():
            self._waiting.kept_alive[self] = None
        super().on_response_complete()
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):  # the next request was there already
            self._stop_waiting()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that was kept alive."""
        self._close()

    def pause_writing(self) -> None:
        """Watch a client that reads more slowly than the server writes."""
        super().pause_writing()
        self._stall = self.loop.call_later(_REQUEST_SECONDS, self._check_stall, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Stop watching."""
        self._stop_stall()
        super().resume_writing()

    def _check_stall(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left >= before:
            self.transport.abort()
        else:
            self._stall = self.loop.call_later(_REQUEST_SECONDS, self._check_stall, left)

    def _stop_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _stop_waiting(self) -> None:
        self._waiting.new.pop(self, None)
        self._waiting.kept_alive.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        """Close the connection now: a client that does not read must not hold its descriptor."""
        self._stop_waiting()
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()


@dataclass(slots=True)
class _Count:
    since: float
    suppressed: int = 0


class BoundedLogHandler(logging.StreamHandler[Any]):
    """Write each message once per minute, with the number of times that it was not repeated.

    Clients choose what is refused, so the number of different messages per minute is bounded as well.
    """

    def __init__(self, stream: Any = None) -> None:
        super().__init__(stream)
        self.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        self._counts: dict[str, _Count] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write or count a message."""
        now = time.monotonic()
        self._write_counts(before=now - _LOG_PERIOD)
        error = f": {record.exc_info[1]!r}" if record.exc_info else ""
        message = f"{record.getMessage()}{error}"[:_LOG_LENGTH]
        if message not in self._counts and len(self._counts) >= _LOG_LINES:
            message = "other messages"
        if message in self._counts:
            self._counts[message].suppressed += 1
        else:
            self._counts[message] = _Count(now)
            super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the message with its traceback; a long one is cut."""
        text = super().format(record)
        return text if len(text) <= _LOG_LENGTH else f"{text[: _LOG_LENGTH // 2]}\n...\n{text[-_LOG_LENGTH // 2 :]}"

    def close(self) -> None:
        """Write what was counted since the last message."""
        self._write_counts(before=float("inf"))
        super().close()

    def _write_counts(self, *, before: float) -> None:
        for message in [message for message, count in self._counts.items() if count.since <= before]:
            count = self._counts.pop(message)
            if count.suppressed:
                text = f"{count.suppressed} more times: {message}"
                super().emit(logging.LogRecord("cosight.study", logging.WARNING, "", 0, text, None, None))


def log_briefly() -> None:
    """Send what goes wrong with requests to standard error, without repetitions."""
    handler: logging.Handler | None = None
    for name in ("cosight.study", "uvicorn.error", "asyncio"):
        log = logging.getLogger(name)
        if not any(isinstance(one, BoundedLogHandler) for one in log.handlers):
            handler = handler or BoundedLogHandler()
            log.addHandler(handler)
            log.propagate = False
