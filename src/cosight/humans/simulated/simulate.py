"""Simulated participants sit a study over HTTP, from the link to the completion code, and say that they are simulated.

They arrive one after the other, in order, and then answer side by side: on a new study the same seed gives the same
answers, however fast the machine is.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cosight.errors import InvalidInput
from cosight.humans.simulated.respondents import SimulatedObserver
from cosight.humans.simulated.sight import Sight
from cosight.humans.study.trial_types import Respondent

if TYPE_CHECKING:
    import httpx

__all__ = ["Progress", "Sat", "person_rng", "simulate"]

Progress = Callable[[int, int, str], None]
_AT_ONCE = 32  # participants who sit the study at the same time; each has one request under way
_PATIENCE = 30.0  # seconds until a request counts as lost
_MEDIAN, _SPREAD = 1.0, 0.35  # seconds an answer takes, log-normal, by eye: one in forty takes more than two
_NO_MORE = 423  # the study is paused, or has all that it needs


@dataclass(frozen=True, slots=True)
class Sat:
    """How many sat the study to the end, what they answered, and whether it was full before all had come."""

    participants: int
    answers: int
    full: bool


def person_rng(seed: int, place: int) -> np.random.Generator:
    """What decides all that is left to chance in the participant at `place` (from 0) of a crowd."""
    return np.random.default_rng([seed, place])


def simulate(
    sight: Sight,
    url: str,
    observer: SimulatedObserver,
    *,
    participants: int,
    seed: int = 0,
    progress: Progress | None = None,
) -> Sat:
    """Have up to `participants` sit the study that is served at `url`. Another crowd needs another seed."""
    import httpx

    crowd = _Crowd(sight, observer, participants, seed, progress, iter(range(participants)))
    try:
        asyncio.run(_sit(crowd, url))
    except ExceptionGroup as errors:
        error = errors.exceptions[0]
        if isinstance(error, (httpx.HTTPError, httpx.InvalidURL)):
            reason = str(error) or type(error).__name__
            raise InvalidInput(f"{url} does not answer ({reason}); start it with `cosight study serve`") from error
        raise error from None
    return Sat(crowd.finished, crowd.answers, crowd.full)


@dataclass(slots=True)
class _Crowd:
    """Those who sit the study, and how far they are."""

    sight: Sight
    observer: SimulatedObserver
    participants: int
    seed: int
    progress: Progress | None
    places: Iterator[int]  # of those who are still to come
    finished: int = 0
    answers: int = 0
    full: bool = False


async def _sit(crowd: _Crowd, url: str) -> None:
    """Everybody, `_AT_ONCE` at a time."""
    door, trust = asyncio.Lock(), ssl.create_default_context()
    async with asyncio.TaskGroup() as group:
        for _ in range(min(_AT_ONCE, crowd.participants)):
            group.create_task(_one_after_the_other(crowd, url, door, trust))


async def _one_after_the_other(crowd: _Crowd, url: str, door: asyncio.Lock, trust: ssl.SSLContext) -> None:
    """Let the next one in when the last one is done, until nobody is left or the study is full.

    They share a connection. A client for all of them would look through all connections at every request.
    """
    import httpx

    # the study is on this machine or in the same room: no proxy stands between
    async with httpx.AsyncClient(base_url=url, timeout=_PATIENCE, verify=trust, trust_env=False) as client:
        while visitor := await _next(crowd, client, door):
            await visitor.sit(crowd)
            crowd.finished += 1
            if crowd.progress:
                crowd.progress(crowd.finished, crowd.participants, "simulated participants")


async def _next(crowd: _Crowd, client: httpx.AsyncClient, door: asyncio.Lock) -> _Visitor | None:
    """Who comes next; one at a time, because numbers and images are given in the order of arrival."""
    async with door:
        place = next(crowd.places, None)
        return None if place is None or crowd.full else await _arrived(crowd, client, place)


async def _arrived(crowd: _Crowd, client: httpx.AsyncClient, place: int) -> _Visitor | None:
    """A participant with their first trials; None where the study is full."""
    begun = await client.post("/api/sessions", json={"platform": {}, "simulated": crowd.observer.name})
    crowd.full = begun.status_code == _NO_MORE
    if crowd.full:
        return None
    rng = person_rng(crowd.seed, place)
    visitor = _Visitor(client, _content(begun)["token"], crowd.observer.person(rng), rng)
    if crowd.sight.study.participants.consent:
        await visitor.post("/api/session/consent", {"agreed": True})
    visitor.trials = await visitor.open_trials()
    return visitor


@dataclass(slots=True)
class _Visitor:
    """One participant and what they have to answer."""

    client: httpx.AsyncClient
    token: str
    who: Respondent
    rng: np.random.Generator
    trials: list[dict[str, Any]] | None = None

    async def sit(self, crowd: _Crowd) -> None:
        """Answer until nothing is left, then ask for the completion code."""
        while self.trials:
            for trial in self.trials:
                await self.answer(crowd.sight, trial)
                crowd.answers += 1
            self.trials = await self.open_trials()
        await self.post("/api/finish", {})

    async def open_trials(self) -> list[dict[str, Any]]:
        """What is left to answer."""
        found = _content(await self.client.get("/api/trials", headers=self._headers()))
        return list(found["trials"])

    async def answer(self, sight: Sight, trial: Mapping[str, Any]) -> None:
        """Look, and say what is seen; in a timed study nothing, where that takes too long."""
        asked = sight.asked({place: await self._seen(at) for place, at in trial["images"].items()})
        response = sight.study.kind.simulate(asked, self.who, self.rng)
        rt = float(_MEDIAN * np.exp(_SPREAD * self.rng.standard_normal()))
        late = sight.study.timing is not None and rt > sight.study.timing.response
        told = {"response": None if late else response, "rt": None if late else rt}
        told |= {"shown": None, "input": None}  # nothing was painted, nothing pressed
        await self.post("/api/answers", {"trial": trial["trial"], **told})

    async def _seen(self, at: str | list[str]) -> bytes | list[bytes]:
        if isinstance(at, list):
            return [await self._picture(one) for one in at]
        return await self._picture(at)

    async def _picture(self, address: str) -> bytes:
        found = await self.client.get(address)
        return found.raise_for_status().content

    async def post(self, path: str, body: Mapping[str, Any]) -> None:
        """Tell the server something that it must take."""
        _content(await self.client.post(path, json=body, headers=self._headers()))

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


def _content(response: httpx.Response) -> dict[str, Any]:
    """What the server says; a refusal is passed on in its own words."""
    found: dict[str, Any] = response.json() if "json" in response.headers.get("content-type", "") else {}
    if response.is_success:
        return found
    reason = found.get("error", f"status {response.status_code}")
    raise InvalidInput(f"{response.request.method} {response.request.url.path} was refused: {reason}")
