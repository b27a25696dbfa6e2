"""The study's web application: the page, what it asks for, and the experimenter's page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cosight.errors import InvalidInput
from cosight.humans.database.store import Store
from cosight.humans.refusals import Refused
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Pool
from cosight.humans.web import admin, sessions
from cosight.humans.web.requests import HANDLERS, Shell
from cosight.humans.web.server_context import ServerContext

__all__ = ["application", "static_files"]

_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
_FRAMES = {"mturk": "https://*.mturk.com"}  # MTurk shows a study inside its own page; nobody else may
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors "
)


def application(study: Study, pool: Pool, store: Store, *, admin_token: str, static: Mapping[str, bytes]) -> Starlette:
    """The application that serves `study`, and closes `store` when it stops.

    `static` are the files of the built page by their paths (`static_files`).
    """
    desk = ServerContext(study, pool, store, admin_token=admin_token, static=static)

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        app.state.live = admin.Live(desk)
        yield
        desk.close()

    app = Starlette(
        routes=[
            Route("/", partial(_file, "index.html")),
            Route("/admin", partial(_file, "admin.html")),
            Route("/static/{name:path}", _static),
            *sessions.routes(),
            *admin.routes(),
        ],
        middleware=[Middleware(Shell, headers=_headers(study))],
        exception_handlers=dict(HANDLERS),
        lifespan=life,
    )
    app.state.desk = desk
    return app


def _headers(study: Study) -> dict[str, str]:
    return {
        "Content-Security-Policy": _POLICY + _FRAMES.get(study.participants.platform, "'none'"),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }


def static_files() -> dict[str, bytes]:
    """The built page, all of it in memory: no path of a request ever reaches the disk."""
    folder = Path(__file__).with_name("static")
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    if "index.html" not in files:
        raise InvalidInput(
            "the page that participants see is not built; run `npm ci && npm run build` in web/, or `make`"
        )
    return files


async def _static(request: Request) -> Response:
    return await _file(request.path_params["name"], request)


async def _file(name: str, request: Request) -> Response:
    data = request.app.state.desk.static.get(name)
    if data is None:
        raise Refused(404, "there is nothing here")
    return Response(data, media_type=_TYPES.get(Path(name).suffix, "application/octet-stream"))
