"""What every request uses: the study and its database, authentication, reading bodies, and error responses."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import sqlalchemy as sa
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cosight.errors import CosightError, InvalidInput
from cosight.humans.database.assign_trials import TRIAL
from cosight.humans.database.participants import find_by_token
from cosight.humans.database.progress import image_names
from cosight.humans.database.schema import error_reason, showings, studies
from cosight.humans.database.store import RequestError, Store
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Pool, arrange_slots
from cosight.humans.web.served_images import ServedImage, ServedImages

__all__ = [
    "HANDLERS",
    "MAX_BODY",
    "NO_STORE",
    "ResponseMiddleware",
    "ServerContext",
    "bearer_token",
    "get_context",
    "image_address",
    "read_body",
]

T = TypeVar("T")
MAX_BODY = 64 * 1024  # bytes of a request's body
NO_STORE = {"Cache-Control": "no-store"}
_MAX_DEPTH = 6  # levels of JSON; an answer has two
_READERS = 8  # threads that read the database and the disk
_RETRY_AFTER = "2"  # seconds
_CACHED_TOKENS = 10_000  # tokens whose participant is known without a query
_SERVER_ERROR = "something went wrong on the server; try again"
_log = logging.getLogger("cosight.study")


def image_address(trial: str, position: int) -> str:
    """Return the address of a picture of a trial. Trials have random names, another one for each showing."""
    return f"/images/{trial}{position:02d}"


class ServerContext:
    """The study, its items, database and caches; one per server process."""

    def __init__(
        self, study: Study, pool: Pool, store: Store, *, admin_token: str, static: Mapping[str, bytes]
    ) -> None:
        self.study, self.pool, self.store = study, pool, store
        self.admin_token = admin_token
        self.static = static
        self.image_names = image_names(pool)
        self.examples = self._example_addresses()
        self._images = ServedImages()
        self._threads = ThreadPoolExecutor(_READERS, thread_name_prefix="cosight-reader")
        self._numbers: OrderedDict[str, int] = OrderedDict()
        self._written: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()

    def _example_addresses(self) -> dict[str, Path]:
        """Return the images of the instructions by their addresses, the same in every process; names would tell."""
        query = sa.select(studies.c.secret).where(studies.c.study == self.study.name)
        secret = bytes.fromhex(self.store.read(lambda connection: connection.execute(query).scalar_one()))
        return {
            hmac.new(secret, str(index).encode(), hashlib.sha256).hexdigest(): self.study.root / example.image
            for index, example in enumerate(self.study.examples)
        }

    def close(self) -> None:
        """Stop the threads and close the database."""
        self._threads.shutdown()
        self.store.close()

    async def run_in_thread(self, function: Callable[[], T]) -> T:
        """Return the result of `function` without blocking other requests."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    async def read(self, query: Callable[[sa.Connection], T]) -> T:
        """Return the result of a query of the database."""
        return await self.run_in_thread(lambda: self.store.read(query))

    async def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Return the result of `work` (`Store.write_alone`) once it is on the disk."""
        return await self._wait_for(self.store.write_alone(work))

    async def write_batched(self, entry: Any, write: Callable[[sa.Connection, list[Any]], list[T | Exception]]) -> T:
        """Return the result of an entry (`Store.write_batched`) once it is on the disk."""
        return await self._wait_for(self.store.write_batched(entry, write))

    async def _wait_for(self, future: Future[T]) -> T:
        """Return the result of a write. A client that disconnects does not cancel it."""
        waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        future.add_done_callback(partial(self._wake, waiter))
        return await waiter

    def _wake(self, waiter: asyncio.Future[Any], future: Future[Any]) -> None:
        """Wake the event loop from the thread that writes, once for all answers of a transaction."""
        self._written.append((waiter, future))
        loop = waiter.get_loop()
        if len(self._written) == 1 and not loop.is_closed():  # otherwise `_deliver` runs until there is nothing left
            loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        while self._written:
            waiter, future = self._written.popleft()
            if waiter.done():
                continue  # the client has gone
            if error := future.exception():
                waiter.set_exception(error)
            else:
                waiter.set_result(future.result())

    async def authenticate(self, request: Request) -> int:
        """Return the number of the participant whose token a request has. Raises RequestError for unknown tokens."""
        token = bearer_token(request)
        number = self._numbers.get(token)
        if number is None:
            number = await self.read(lambda connection: find_by_token(connection, self.study, token))
        if number is None:
            raise RequestError(401, "unknown token; start a new session")
        self._numbers[token] = number
        self._numbers.move_to_end(token)
        if len(self._numbers) > _CACHED_TOKENS:
            self._numbers.popitem(last=False)
        return number

    def load_image(self, name: str) -> ServedImage | None:
        """Return the image at an address, None for addresses that no participant was given."""
        if name in self.examples:
            return self._images.load(name, self.examples[name])
        trial, position = name[:-2], name[-2:]
        if not TRIAL.fullmatch(trial) or not (position.isascii() and position.isdigit()):
            return None
        c = showings.c
        query = sa.select(c.item, c.arrangement).where(c.trial == trial, c.study == self.study.name)
        row = self.store.read(lambda connection: connection.execute(query).first())
        slots = arrange_slots(self.pool.items[row.item], tuple(json.loads(row.arrangement))) if row else ()
        if int(position) >= len(slots):
            return None
        slot = slots[int(position)]
        return self._images.load(slot.stimulus, slot.file, digest=slot.stimulus)


def get_context(request: Request) -> ServerContext:
    """Return the context of the application that a request is for."""
    context: ServerContext = request.app.state.context
    return context


def bearer_token(request: Request) -> str:
    """Return the token in a request's Authorization header."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise RequestError(401, "this needs a token")
    return token


async def read_body(request: Request) -> dict[str, Any]:
    """Return the JSON object in a request's body. Raises as soon as it is too long."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError(415, "a body is JSON; send it as application/json")
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY:
                raise RequestError(413, f"a body has at most {MAX_BODY} bytes")
    except ClientDisconnect as error:
        raise RequestError(400, "the connection was closed before the body was complete") from error
    try:
        content = json.loads(body, parse_constant=_reject_constant)
        json.dumps(content, ensure_ascii=False).encode()  # lone surrogates, which JSON can spell, cannot be stored
    except (ValueError, RecursionError) as error:
        raise InvalidInput("the body is not JSON that can be read") from error
    if not isinstance(content, dict) or _depth(content) > _MAX_DEPTH:
        raise InvalidInput(f"the body is a JSON object, at most {_MAX_DEPTH} levels deep")
    return content


def _reject_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _depth(value: Any) -> int:
    """Return how deep lists and objects are nested, without recursion."""
    level, depth = [value], 0
    while level := [one for one in level if isinstance(one, (list, dict))]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


class ResponseMiddleware:
    """Add the headers that all responses have, refuse what cannot be answered, and report unexpected errors."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str], max_requests: int) -> None:
        self._app = app
        self._max_requests = max_requests
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        self._requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                present = {name for name, _ in message["headers"]}
                missing = [(name, value) for name, value in self._headers if name not in present]
                message["headers"] = [*message["headers"], *missing]
            await send(message)

        self._requests += 1
        try:
            await (self._refusal(scope) or self._app)(scope, receive, send_with_headers)
        except Exception:
            _log.exception("a request failed")
            if not started:
                response = JSONResponse({"error": _SERVER_ERROR}, 500)
                await response(scope, receive, send_with_headers)
        finally:
            self._requests -= 1

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the response to a request that is refused whatever it asks for."""
        if scope["type"] != "http":
            return None
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            # a proxy may see another end of the body, and the rest would be somebody else's request
            status, error, headers = 400, "a body has either Content-Length or Transfer-Encoding", NO_STORE
        elif self._requests > self._max_requests:
            status, error, headers = 503, "the server is full; try again", {**NO_STORE, "Retry-After": _RETRY_AFTER}
        else:
            return None
        _log.warning("refused a request: %d, %s", status, error)
        return JSONResponse({"error": error}, status, headers={**headers, "Connection": "close"})


def _error_response(request: Request, status: int, reason: str, *, retry_after: int | None = None) -> Response:
    """Log and return a refusal; the log has no address, no token and no path that a client made up.

    A reason on the server's side may name its files: it is for the log alone, and the page tries again. Who waits asks
    again every `retry_after` seconds, which would fill the log.
    """
    route = getattr(request.scope.get("route"), "path", "an unknown path")
    if retry_after is None:
        _log.warning("refused %s %s: %d, %s", request.method, route, status, reason)
    headers = NO_STORE | ({"Connection": "close"} if status == 413 else {})  # do not read the rest
    if retry_after is not None:
        headers |= {"Retry-After": str(retry_after)}
    return JSONResponse({"error": _SERVER_ERROR if status >= 500 else reason}, status, headers=headers)


async def _handle_error(request: Request, error: Exception) -> Response:
    retry_after = getattr(error, "retry_after", None)
    return _error_response(request, getattr(error, "status", 400), str(error), retry_after=retry_after)


async def _handle_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reason = "there is nothing here" if error.status_code == 404 else error.detail
    return _error_response(request, error.status_code, reason)


async def _handle_database_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, sa.exc.SQLAlchemyError)
    return _error_response(request, 503, f"the database failed: {error_reason(error)}")


HANDLERS: Mapping[Any, Any] = {
    CosightError: _handle_error,
    HTTPException: _handle_http_error,
    sa.exc.SQLAlchemyError: _handle_database_error,
}
