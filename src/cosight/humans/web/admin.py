"""The experimenter's requests: progress, pause, export. All of them need the token in the file `admin-token`."""

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
from cosight.humans.database.progress import read_image_counts, read_summary
from cosight.humans.database.store import RequestError
from cosight.humans.database.study_trials import study_trials
from cosight.humans.web.server_context import NO_STORE, ServerContext, bearer_token, get_context

__all__ = ["ADMIN_TOKEN", "QualityMonitor", "admin_token", "routes"]

ADMIN_TOKEN = "admin-token"
_IMAGES = 100  # whose answers one response has
_MAX_DIGITS = 9  # of the number of an image
_MIN_SECONDS = 5.0  # between two assessments
_MAX_LOAD = 20  # and at least this many times as long as an assessment takes: a twentieth of one core


def admin_token(folder: Path) -> str:
    """Return the experimenter's token of a study, created the first time; only the folder's owner can read it."""
    file = folder / ADMIN_TOKEN
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        stored = file.read_bytes().strip()
        if not stored.isascii() or not stored:  # no header could hold it
            raise InvalidInput(
                f"{file} must hold the experimenter's token, got none; remove it to create one"
            ) from None
        return stored.decode("ascii")
    with os.fdopen(handle, "w", encoding="ascii") as new:
        token = secrets.token_urlsafe(24)
        new.write(token + "\n")
    return token


@dataclass(frozen=True, slots=True)
class _Assessment:
    """Agreement and excluded participants at a time."""

    at: float
    seconds: float
    agreement: list[dict[str, Any]]
    flagged: list[dict[str, Any]]


class QualityMonitor:
    """Agreement and excluded participants, recomputed from time to time in a thread beside the requests."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._last: _Assessment | None = None
        self._lock = asyncio.Lock()

    async def latest(self) -> _Assessment:
        """Return the last assessment, or a new one if that is too old."""
        async with self._lock:
            last = self._last
            if last is None or time.monotonic() - last.at > max(_MIN_SECONDS, _MAX_LOAD * last.seconds):
                last = self._last = await self._context.run_in_thread(self._assess)
            return last

    def _assess(self) -> _Assessment:
        from cosight.humans.results.quality import assess

        start = time.monotonic()
        trials = study_trials(self._context.study, self._context.pool, self._context.store)
        if not len(trials):
            return _Assessment(start, 0.0, [], [])
        quality = assess(trials)
        agreement = [asdict(row) for row in quality.agreement]
        flagged = [{"participant": one.participant, "reasons": list(one.reasons)} for one in quality.flagged]
        return _Assessment(time.monotonic(), time.monotonic() - start, agreement, flagged)


def _authenticate(request: Request) -> ServerContext:
    """Return the context if the request has the experimenter's token."""
    context = get_context(request)
    if not hmac.compare_digest(bearer_token(request).encode(), context.admin_token.encode()):
        raise RequestError(401, "this is not the experimenter's token")
    return context


async def get_state(request: Request) -> Response:
    """Return progress, agreement and excluded participants."""
    context = _authenticate(request)
    start = time.monotonic()
    progress = await context.read(partial(read_summary, study=context.study, pool=context.pool))
    assessment = await request.app.state.monitor.latest()
    state = {
        "study": {"name": context.study.name, "type": context.study.type},
        "simulated": progress.simulated,
        "paused": progress.paused,
        "participants": asdict(progress.participants),
        "answers": {"given": progress.given, "wanted": progress.wanted},
        "counts": [asdict(count) for count in progress.counts],
        "agreement": assessment.agreement,
        "flagged": assessment.flagged,
        "seconds": round(time.monotonic() - start, 3),
    }
    return JSONResponse(state, headers=NO_STORE)


async def get_images(request: Request) -> Response:
    """Return the answers of some images: all of a large set would be megabytes, every few seconds."""
    context = _authenticate(request)
    first = request.query_params.get("first", "0")
    if not (first.isascii() and first.isdigit() and len(first) <= _MAX_DIGITS):
        raise InvalidInput("first is the number of an image, from 0")
    names = context.image_names
    read = partial(read_image_counts, study=context.study, names=names, first=int(first), count=_IMAGES)
    images = [asdict(image) for image in await context.read(read)]
    return JSONResponse({"first": int(first), "total": len(names), "images": images}, headers=NO_STORE)


async def _post_paused(request: Request, *, paused: bool) -> Response:
    context = _authenticate(request)
    await context.write(partial(set_paused, study=context.study, paused=paused))
    return JSONResponse({}, headers=NO_STORE)


async def get_export(request: Request) -> Response:
    """Return the trial table as a Parquet file."""
    context = _authenticate(request)
    data = await context.run_in_thread(partial(_export_parquet, context))
    disposition = f'attachment; filename="{context.study.name}.parquet"'  # a study's name has no quotes
    headers = {**NO_STORE, "Content-Disposition": disposition}
    return Response(data, media_type="application/vnd.apache.parquet", headers=headers)


def _export_parquet(context: ServerContext) -> bytes:
    """Return the trial table without excluded participants, as `cosight study export` writes it."""
    from cosight.humans.results.quality import assess
    from cosight.trials.parquet import write_table

    trials = study_trials(context.study, context.pool, context.store)
    if not len(trials):
        raise RequestError(409, "nobody has answered yet")
    kept = assess(trials, resamples=None).kept
    if not len(kept):
        raise RequestError(409, "every participant is excluded; `cosight study export --all` writes their answers")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trials.parquet"
        write_table(kept, file)
        return file.read_bytes()


def routes() -> list[Route]:
    """Return the routes of the experimenter's requests."""
    return [
        Route("/api/admin/state", get_state),
        Route("/api/admin/images", get_images),
        Route("/api/admin/pause", partial(_post_paused, paused=True), methods=["POST"]),
        Route("/api/admin/resume", partial(_post_paused, paused=False), methods=["POST"]),
        Route("/api/admin/export", get_export),
    ]
