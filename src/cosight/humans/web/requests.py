"""What every request passes: who asks, what they sent, and how a refusal is told and logged."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, NoReturn, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cosight.errors import CosightError, InvalidInput
from cosight.humans.refusals import Refused

__all__ = ["HANDLERS", "LARGEST", "Shell", "bearer", "body_of", "written"]

T = TypeVar("T")
LARGEST = 64 * 1024  # bytes of a request's body
_DEEPEST = 6  # levels of JSON; an answer has two
_log = logging.getLogger("cosight.study")


def bearer(request: Request) -> str:
    """The token that a request shows."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Refused(401, "this needs a token")
    return token


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object in a request's body; refused as soon as it is too long."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "a body is JSON; send it as application/json")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            raise Refused(413, f"a body has at most {LARGEST} bytes")
    try:
        found = json.loads(body, parse_constant=_refuse_constant)
        json.dumps(found, ensure_ascii=False).encode()  # half a character, which JSON can spell, no table can hold
    except (ValueError, RecursionError) as error:
        raise InvalidInput("the body is not JSON that can be read") from error
    if not isinstance(found, dict) or _depth(found) > _DEEPEST:
        raise InvalidInput(f"the body is a JSON object, at most {_DEEPEST} levels deep")
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _depth(value: Any) -> int:
    """How deep lists and objects go, counted without recursion."""
    level, depth = [value], 0
    while level := [one for one in level if isinstance(one, (list, dict))]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


async def written(future: Future[T]) -> T:
    """What a write returns once it is on the disk. Who closes the connection meanwhile does not undo it."""
    return await asyncio.shield(asyncio.wrap_future(future))


class Shell:
    """What is around every request: the headers that all responses have, and a plain answer when something breaks."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str]) -> None:
        self._app = app
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        started = False

        async def with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                given = {name for name, _ in message["headers"]}
                more = [(name, value) for name, value in self._headers if name not in given]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        try:
            await self._app(scope, receive, with_headers)
        except Exception:
            _log.exception("a request failed")
            if not started:
                broken = JSONResponse({"error": "something went wrong on the server; try again"}, 500)
                await broken(scope, receive, with_headers)


def _refusal(request: Request, status: int, why: str) -> Response:
    """The answer to a request that is refused; the log has no address, no token and no path that was made up."""
    route = getattr(request.scope.get("route"), "path", "an unknown path")
    _log.warning("refused %s %s: %d, %s", request.method, route, status, why)
    headers = {"Cache-Control": "no-store"} | ({"Connection": "close"} if status == 413 else {})  # do not read the rest
    return JSONResponse({"error": why}, status, headers=headers)


async def _on_refused(request: Request, error: Exception) -> Response:
    return _refusal(request, getattr(error, "status", 400), str(error))


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _refusal(request, error.status_code, "there is nothing here" if error.status_code == 404 else error.detail)


HANDLERS: Mapping[Any, Any] = {CosightError: _on_refused, HTTPException: _on_http}
