"""Connections that wait too long are closed, requests with two lengths are refused, and the log stays short."""

from __future__ import annotations

import io
import logging
import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient
from uvicorn import Config, Server

from cosight.humans.database.store import Store
from cosight.humans.study.design import read_study
from cosight.humans.study.pool import load_pool
from cosight.humans.web import connections
from cosight.humans.web.connections import BoundedLogHandler, Capacity, StudyProtocol
from cosight.humans.web.server import make_application

from .conftest import ADMIN, STATIC, make_study, open_study

LENGTH = 20_000_000  # bytes of a response that no kernel buffers


async def read_all(request):
    await request.body()
    return Response(b"read")


async def send_much(request):
    return Response(bytes(LENGTH))


@contextmanager
def serving(app):
    """The port on which a thread of this process serves `app`."""
    options = {"http": StudyProtocol, "log_config": None, "log_level": "warning", "timeout_keep_alive": 1}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(Config(app, **options))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def port(monkeypatch):
    """A server whose requests must be complete after .3 s, with room for three connections."""
    monkeypatch.setattr(connections, "_REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(connections, "raise_file_limit", lambda: Capacity(connections=3, batch=4))
    app = Starlette(routes=[Route("/", read_all, methods=["GET", "POST"]), Route("/much", send_much)])
    with serving(app) as port:
        yield port


def connect(port, data=b""):
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(data)
    return connection


def is_answered(connection):
    """Whether a request on this connection is answered."""
    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    received = b""
    while not received.endswith(b"read"):
        part = connection.recv(1000)
        if not part:
            return False
        received += part
    return received.startswith(b"HTTP/1.1 200")


def is_closed(connection):
    """Wait for the end of the connection; nothing was sent before."""
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("part", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"])
def test_a_request_that_is_never_completed_is_closed(port, part):
    with connect(port, part) as connection:
        start = time.monotonic()
        assert is_closed(connection)
        assert time.monotonic() - start < 10


def test_a_request_that_trickles_has_no_more_time(port):
    with connect(port, b"GET / HTTP/1.1\r\nX: ") as connection:
        start = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() < start + 20:
                connection.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() < start + 10


def test_a_connection_is_kept_for_the_next_request_but_not_for_half_of_it(port):
    with connect(port) as connection:
        assert is_answered(connection)
        assert is_answered(connection)
        connection.sendall(b"GET / HT")
        assert is_closed(connection)


def test_a_client_that_does_not_read_is_closed(port):
    with connect(port, b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n") as connection:
        time.sleep(1.5)
        received = 0
        with suppress(ConnectionResetError):
            while part := connection.recv(1_000_000):
                received += len(part)
        assert received < LENGTH


def test_the_oldest_request_that_is_not_complete_makes_room(port, monkeypatch):
    monkeypatch.setattr(connections, "_REQUEST_SECONDS", 60.0)
    with connect(port) as kept:
        assert is_answered(kept)
        half_open = [connect(port, b"GET / HT") for _ in range(3)]
        assert is_closed(half_open[0])
        assert is_answered(kept)
        for connection in half_open:
            connection.close()


def test_a_request_with_two_lengths_is_refused_and_nothing_after_it_is_read(tmp_path):
    """Content-Length and Transfer-Encoding: a proxy may take what follows for somebody else's request."""
    head = b"POST /api/sessions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    lengths = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    study = read_study(make_study(tmp_path, "classify"))
    app = make_application(study, load_pool(study), Store.open(study), admin_token=ADMIN, static=STATIC)
    with serving(app) as port, connect(port, head + lengths + b"0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n") as here:
        received = b""
        with suppress(ConnectionResetError):
            while part := here.recv(10_000):
                received += part
    assert received.startswith(b"HTTP/1.1 400")
    assert b"connection: close" in received.lower()
    assert b"a body has either Content-Length or Transfer-Encoding" in received
    assert received.count(b"HTTP/1.1") == 1


def test_a_full_server_asks_to_come_back(tmp_path):
    with open_study(make_study(tmp_path, "classify")) as here:
        full = make_application(here.study, here.pool, here.store, admin_token=ADMIN, static=STATIC, max_requests=0)
        refused = TestClient(full).get("/")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")


def test_the_capacity_follows_the_limit_on_files():
    assert Capacity.of_files(20_000) == Capacity(connections=10_000, batch=64)
    for files in (64, 256, 1024, 4096, 20_000):
        capacity = Capacity.of_files(files)
        assert capacity.connections + 4 * capacity.batch < max(files, 64)
        assert files < 256 or capacity.connections > 20 * capacity.batch


def test_equal_messages_are_counted(monkeypatch):
    stream, clock = io.StringIO(), [0.0]
    monkeypatch.setattr(connections.time, "monotonic", lambda: clock[0])
    handler = BoundedLogHandler(stream)
    log = logging.Logger("one")
    log.addHandler(handler)
    for _ in range(1000):
        log.warning("the disk is full")
    clock[0] = 61.0
    log.warning("the disk is full")
    lines = [line.split(" ", 2)[2] for line in stream.getvalue().splitlines()]
    assert lines == ["the disk is full", "999 more times: the disk is full", "the disk is full"]
    for index in range(10_000):
        log.warning("refused %d %s", index, "x" * 1000)
    log.removeHandler(handler)
    handler.close()
    assert stream.getvalue().splitlines()[-1].endswith(" more times: other messages")
    assert len(stream.getvalue()) < 200_000
