"""The study's server: the web application, and serving it on a port by one process or several.

`serve_in_background` runs it in a process of its own: `python -m cosight.humans.web.server STUDY PORT` reads the
database's URL from its standard input (JSON, or null: it may hold a password, which a command line must not), prints
one line of JSON, the address or an error, and serves until its standard input is closed, so it ends with its parent.
"""

from __future__ import annotations

import gc
import json
import multiprocessing.connection
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cosight.errors import CosightError, InvalidInput
from cosight.humans.database.assign_trials import fill_loads
from cosight.humans.database.store import RequestError, SteadyClock, Store
from cosight.humans.study.design import Study, read_study
from cosight.humans.study.pool import Pool, load_pool
from cosight.humans.study.verify_images import verify_images
from cosight.humans.web import admin, sessions
from cosight.humans.web.connections import StudyProtocol, log_briefly, raise_file_limit
from cosight.humans.web.server_context import HANDLERS, ResponseMiddleware, ServerContext, get_context

__all__ = ["Addresses", "make_application", "serve", "serve_in_background", "static_files"]

_MEDIA_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action {platform}; frame-ancestors {platform}"
)
# addresses to listen on that stand for all, with an address elsewhere (RFC 5737, RFC 3849: for documentation)
_EVERY_ADDRESS = {"0.0.0.0": "192.0.2.1", "::": "2001:db8::1"}
_KEEP_ALIVE = 5  # seconds that a connection stays open between two requests: a browser holds six
_MAX_REQUESTS = 4000  # that wait for the disk at the same time
_MAX_ARRIVING = 2048  # connections that wait to be accepted: a crowd arrives at once
_SHUTDOWN = 10  # seconds that requests have to end after Ctrl-C
_STOP_TIMEOUT = 30  # seconds that a background server has to end


def make_application(
    study: Study,
    pool: Pool,
    store: Store,
    *,
    admin_token: str,
    static: Mapping[str, bytes],
    max_requests: int = _MAX_REQUESTS,
) -> Starlette:
    """Return the application that serves `study`; it closes `store` when it stops.

    `static` are the files of the built page by their paths (`static_files`). `max_requests` are answered at the same
    time; others are asked to come back.
    """
    context = ServerContext(study, pool, store, admin_token=admin_token, static=static)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.monitor = admin.QualityMonitor(context)
        yield
        context.close()

    platform = "'none'"
    if study.participants.platform == "mturk":  # it shows a study in its own page and takes results; nobody else may
        platform = " ".join(dict.fromkeys(["https://*.mturk.com", *study.participants.mturk_hosts]))
    headers = {
        "Content-Security-Policy": _POLICY.format(platform=platform),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
    app = Starlette(
        routes=[
            *sessions.routes(),
            *admin.routes(),
            Route("/", partial(_get_file, name="index.html")),
            Route("/admin", partial(_get_file, name="admin.html")),
            Route("/static/{name:path}", _get_file),
        ],
        middleware=[Middleware(ResponseMiddleware, headers=headers, max_requests=max_requests)],
        exception_handlers=dict(HANDLERS),
        lifespan=lifespan,
    )
    app.state.context = context
    return app


def static_files() -> dict[str, bytes]:
    """Read the built page into memory: no path of a request ever reaches the disk."""
    folder = Path(__file__).with_name("static")
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    if "index.html" not in files:
        raise InvalidInput("the participants' page is not built; run `npm ci && npm run build` in web/, or `make`")
    return files


async def _get_file(request: Request, name: str | None = None) -> Response:
    name = name or request.path_params["name"]
    data = get_context(request).static.get(name)
    if data is None:
        raise RequestError(404, "there is nothing here")
    return Response(data, media_type=_MEDIA_TYPES.get(Path(name).suffix, "application/octet-stream"))


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of a study's pages."""

    participants: str
    experimenter: str


@dataclass(frozen=True, slots=True)
class _ApplicationFactory:
    """Opens a study and its database; each server process does so for itself."""

    folder: Path
    url: str | None
    clock: SteadyClock = field(default_factory=SteadyClock)

    def __call__(self) -> Starlette:
        _end_with_parent()
        study = read_study(self.folder)
        static = static_files()
        pool = load_pool(study)
        verify_images(pool, self.folder)
        store = Store.open(study, self.url, clock=self.clock)
        store.write_alone(partial(fill_loads, study=study, pool=pool, simulated=False)).result()
        log_briefly()
        app = make_application(
            study,
            pool,
            store,
            admin_token=admin.admin_token(self.folder),
            static=static,
            max_requests=min(_MAX_REQUESTS, raise_file_limit().connections),
        )
        gc.collect()
        gc.freeze()  # the study stays: looking through all of it takes a tenth of a second, in which nobody is answered
        return app


def _end_with_parent() -> None:
    """End this process, if it is one of several, when the process that started it ends, however that happens."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=wait, daemon=True).start()


def serve(
    folder: Path,
    *,
    url: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    processes: int = 1,
    announce: Callable[[Addresses], None],
) -> None:
    """Serve the study in `folder` until Ctrl-C.

    Args:
        folder: The study's folder.
        url: The database; None: `answers.sqlite` in the folder.
        host: The address to listen on; 0.0.0.0 or :: for all of this machine.
        port: The port; 0: a free one.
        processes: Number of server processes; several need PostgreSQL.
        announce: Called with the addresses once the port is bound.

    Raises:
        InvalidInput: The study, its database or the port cannot be used.
    """
    from uvicorn import Config, Server
    from uvicorn.supervisors import Multiprocess

    factory = _ApplicationFactory(folder, url)
    app = factory()  # mistakes in the study are reported before the port is bound
    context: ServerContext = app.state.context
    with closing(context):
        if processes > 1 and not context.store.shared:
            raise InvalidInput(
                f"several processes need PostgreSQL, got processes = {processes} on SQLite; name a database with --db"
            )
        with _bind(host, port) as listener:
            announce(_make_addresses(listener, host, context.admin_token))
            config = Config(
                app if processes == 1 else factory,
                factory=processes > 1,
                workers=processes,
                access_log=False,  # it would have addresses
                server_header=False,
                proxy_headers=False,  # they too
                log_level="warning",
                log_config=None,  # `log_briefly` writes it
                lifespan="on",
                http=StudyProtocol,
                backlog=raise_file_limit().batch,
                callback_notify=_RestoreBacklog(listener),
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=_SHUTDOWN,
            )
            if processes == 1:
                Server(config).run([listener])
            else:
                Multiprocess(config, [listener]).run()


@dataclass(frozen=True, slots=True)
class _RestoreBacklog:
    """Lets a crowd wait to be accepted: asyncio takes its `backlog` for this as well as for its batches."""

    listener: socket.socket

    async def __call__(self) -> None:
        self.listener.listen(_MAX_ARRIVING)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), backlog=_MAX_ARRIVING, family=family, reuse_port=False)
        # inherited by connections: head and body of a response would wait 40 ms for each other's acknowledgement
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"cannot listen on {host}:{port}: {reason}; choose another --port or --host") from error


def _make_addresses(listener: socket.socket, host: str, token: str) -> Addresses:
    if host in _EVERY_ADDRESS:  # nobody can open that: give one that other computers reach
        host = _own_address(listener.family, _EVERY_ADDRESS[host])
    url_host = f"[{host}]" if ":" in host else host
    root = f"http://{url_host}:{listener.getsockname()[1]}/"
    return Addresses(root, f"{root}admin#token={token}")  # browsers never send the fragment


def _own_address(family: socket.AddressFamily, elsewhere: str) -> str:
    """Return this machine's address in its network: the one from which it would reach `elsewhere`, else its name."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect((elsewhere, 9))  # of a datagram socket: chooses the route and sends nothing
        return str(probe.getsockname()[0])
    return socket.gethostname()


@contextmanager
def serve_in_background(folder: Path, *, url: str | None = None, port: int = 0) -> Iterator[str]:
    """Serve the study in `folder` on a loopback port (0: a free one) in another process while the block runs.

    Yields the participants' address. Raises InvalidInput where `serve` does.
    """
    command = [sys.executable, "-m", "cosight.humans.web.server", str(folder), str(port)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C goes to this process alone, which stops the server at the end
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(BrokenPipeError):  # it has ended: its error comes next
            process.stdin.write(json.dumps(url) + "\n")
            process.stdin.flush()
        line = process.stdout.readline()
        message = json.loads(line or '{"error": "the server ended before it started; its own messages are above"}')
        if "error" in message:
            raise InvalidInput(message["error"])
        yield str(message["address"])
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()  # every answer that was acknowledged is on the disk
            process.wait()


def _main(folder: str, port: str) -> None:
    """Serve a study for `serve_in_background`."""

    def report(**message: str) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def end_with_parent() -> None:
        sys.stdin.read()  # returns when the parent closes the pipe or ends
        os.kill(os.getpid(), signal.SIGTERM)

    url = json.loads(sys.stdin.readline())
    Thread(target=end_with_parent, daemon=True).start()
    try:
        serve(Path(folder), url=url, port=int(port), announce=lambda found: report(address=found.participants))
    except CosightError as error:
        report(error=str(error))


if __name__ == "__main__":
    _main(*sys.argv[1:])
