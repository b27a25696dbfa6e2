"""`cosight study serve`: a study on a port, by one process or several."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cosight.errors import InvalidInput
from cosight.humans.database.store import Store
from cosight.humans.study.design import read_study
from cosight.humans.study.pool import pool_of
from cosight.humans.web.admin import admin_token
from cosight.humans.web.server import application, static_files

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["Addresses", "serve"]

_PATIENCE = 60  # seconds that a connection stays open between two answers
_GRACE = 10  # seconds that requests have to end after Ctrl-C
_WAITING = 2048  # connections that may wait to be taken: a crowd comes at once


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a study is served."""

    participants: str
    experimenter: str


@dataclass(frozen=True, slots=True)
class _Opened:
    """A study and its database; each server process opens them for itself."""

    folder: Path
    url: str | None

    def __call__(self) -> Starlette:
        study = read_study(self.folder)
        static = static_files()
        pool, store = pool_of(study), Store.open(study, self.url)
        _log_refusals()
        return application(study, pool, store, admin_token=admin_token(self.folder), static=static)


def serve(
    folder: Path,
    *,
    url: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    processes: int = 1,
    announce: Callable[[Addresses], None],
) -> None:
    """Serve the study in `folder` until Ctrl-C; `announce` is told the addresses when the port is taken."""
    opened = _Opened(folder, url)
    app = opened()  # whatever is wrong with the study is told before the port is taken
    with closing(app.state.desk) as desk:
        _check_shared(desk.store, processes)
        with _bound(host, port) as listening:
            announce(_addresses(listening, host, desk.admin_token))
            _run(app if processes == 1 else opened, listening, processes)


def _run(app: Starlette | _Opened, listening: socket.socket, processes: int) -> None:
    from uvicorn import Config, Server
    from uvicorn.supervisors import Multiprocess

    config = Config(
        app,
        factory=processes > 1,
        workers=processes,
        access_log=False,  # it would have addresses
        server_header=False,
        proxy_headers=False,  # they too
        log_level="warning",
        lifespan="on",
        timeout_keep_alive=_PATIENCE,
        timeout_graceful_shutdown=_GRACE,
    )
    if processes == 1:
        Server(config).run([listening])
    else:
        Multiprocess(config, [listening]).run()


def _check_shared(store: Store, processes: int) -> None:
    if processes > 1 and not store.shared:
        raise InvalidInput(
            f"several processes need PostgreSQL, got processes = {processes} on SQLite; name a database with --db"
        )


def _bound(host: str, port: int) -> socket.socket:
    try:
        listening = socket.create_server((host, port), backlog=_WAITING, family=_family(host), reuse_port=False)
        # taken over by its connections: head and body of a response would wait 40 ms for each other's acknowledgement
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"{host}:{port} cannot be served: {reason}; choose another --port or --host") from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _addresses(listening: socket.socket, host: str, token: str) -> Addresses:
    shown = f"[{host}]" if ":" in host else host
    root = f"http://{shown}:{listening.getsockname()[1]}/"
    return Addresses(root, f"{root}admin#token={token}")  # a fragment is never sent


def _log_refusals() -> None:
    """Refused requests go to standard error, with the time."""
    log = logging.getLogger("cosight.study")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        log.addHandler(handler)
        log.propagate = False
