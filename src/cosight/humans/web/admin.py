"""The experimenter's requests: how the study goes, pause, export. All of them need the token in `admin-token`."""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cosight.errors import InvalidInput
from cosight.humans.database.participants import set_paused
from cosight.humans.database.progress import progress
from cosight.humans.database.study_trials import study_trials
from cosight.humans.refusals import Refused
from cosight.humans.web.requests import bearer, written
from cosight.humans.web.server_context import ServerContext

__all__ = ["ADMIN_TOKEN", "Live", "admin_token", "routes"]

ADMIN_TOKEN = "admin-token"
_EVERY = 5.0  # seconds at least between two looks at the answers
_SHARE = 20  # and at least this many times as long as a look takes: a twentieth of one core
_NO_STORE = {"Cache-Control": "no-store"}


def admin_token(folder: Path) -> str:
    """The experimenter's token of a study, made the first time; only the owner of the folder can read it."""
    file = folder / ADMIN_TOKEN
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _kept_token(file)
    with os.fdopen(handle, "w", encoding="ascii") as new:
        token = secrets.token_urlsafe(24)
        new.write(token + "\n")
    return token


def _kept_token(file: Path) -> str:
    token = file.read_bytes().strip()
    if not token.isascii() or not token:  # nobody could show it
        raise InvalidInput(f"{file} must hold the experimenter's token, got none; remove it, and a new one is made")
    return token.decode("ascii")


@dataclass(frozen=True, slots=True)
class _Look:
    """What the answers were worth when they were last looked at."""

    at: float
    seconds: float
    agreement: list[dict[str, Any]]
    flagged: list[dict[str, Any]]


class Live:
    """Agreement and flagged participants, computed now and then and beside the requests."""

    def __init__(self, desk: ServerContext) -> None:
        self._desk = desk
        self._last: _Look | None = None
        self._busy = asyncio.Lock()

    async def look(self) -> _Look:
        """The last look, or a new one where that is long ago."""
        async with self._busy:
            last = self._last
            if last is None or time.monotonic() - last.at > max(_EVERY, _SHARE * last.seconds):
                last = self._last = await self._desk.in_thread(self._now)
            return last

    def _now(self) -> _Look:
        from cosight.humans.results.quality import assess

        begun = time.monotonic()
        trials = study_trials(self._desk.study, self._desk.pool, self._desk.store)
        if not len(trials):
            return _Look(begun, 0.0, [], [])
        quality = assess(trials)
        agreement = [asdict(row) for row in quality.agreement]
        flagged = [{"participant": one.participant, "reasons": list(one.reasons)} for one in quality.flagged]
        return _Look(time.monotonic(), time.monotonic() - begun, agreement, flagged)


def _experimenter(request: Request) -> ServerContext:
    """The desk, if the request shows the experimenter's token."""
    desk: ServerContext = request.app.state.desk
    if not hmac.compare_digest(bearer(request).encode(), desk.admin_token.encode()):
        raise Refused(401, "this is not the experimenter's token")
    return desk


async def _state(request: Request) -> Response:
    desk = _experimenter(request)
    begun = time.monotonic()
    now = await desk.read(partial(progress, study=desk.study, pool=desk.pool))
    look = await request.app.state.live.look()
    state = {
        "study": {"name": desk.study.name, "type": desk.study.type},
        "simulated": now.simulated,
        "paused": now.paused,
        "participants": asdict(now.participants),
        "answers": {"given": now.given, "wanted": now.wanted},
        "images": [asdict(image) for image in now.images],
        "agreement": look.agreement,
        "flagged": look.flagged,
        "seconds": round(time.monotonic() - begun, 3),
    }
    return JSONResponse(state, headers=_NO_STORE)


async def _pause(request: Request) -> Response:
    return await _set_paused(request, True)


async def _resume(request: Request) -> Response:
    return await _set_paused(request, False)


async def _set_paused(request: Request, paused: bool) -> Response:
    desk = _experimenter(request)
    await written(desk.store.change(partial(set_paused, study=desk.study, paused=paused)))
    return JSONResponse({}, headers=_NO_STORE)


async def _export(request: Request) -> Response:
    desk = _experimenter(request)
    data = await desk.in_thread(partial(_parquet, desk))
    name = f'attachment; filename="{desk.study.name}.parquet"'  # a study's name has no quotes
    headers = {**_NO_STORE, "Content-Disposition": name}
    return Response(data, media_type="application/vnd.apache.parquet", headers=headers)


def _parquet(desk: ServerContext) -> bytes:
    """The trial table as a file, without excluded participants, as `cosight study export` writes it."""
    from cosight.humans.results.quality import assess
    from cosight.trials.parquet import write_table

    trials = study_trials(desk.study, desk.pool, desk.store)
    if not len(trials):
        raise Refused(409, "nobody has answered yet")
    kept = assess(trials, resamples=None).kept
    if not len(kept):
        raise Refused(409, "every participant is excluded; `cosight study export --all` writes their answers")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trials.parquet"
        write_table(kept, file)
        return file.read_bytes()


def routes() -> list[Route]:
    """What the experimenter can ask for."""
    return [
        Route("/api/admin/state", _state),
        Route("/api/admin/pause", _pause, methods=["POST"]),
        Route("/api/admin/resume", _resume, methods=["POST"]),
        Route("/api/admin/export", _export),
    ]
