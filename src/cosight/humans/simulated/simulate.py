"""Simulated participants take part in a study over HTTP, from the link to the completion code.

They start one after the other, in order, and then answer concurrently: on a new study the same seed gives the same
answers, however fast the machine is. They report that they are simulated.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cosight.errors import InvalidInput
from cosight.humans.simulated.respondents import SimulatedObserver, StudyPictures
from cosight.humans.study.trial_types import Respondent
from cosight.progress import Progress

if TYPE_CHECKING:
    import httpx

__all__ = ["STUDY_FULL", "Progress", "SimulationResult", "participant_rng", "simulate"]

STUDY_FULL = 423  # the HTTP status of a study that is paused or complete
_CONCURRENT = 32  # participants at the same time; each has one request under way
_TIMEOUT = 30.0  # seconds until a request counts as lost
_RT_MEDIAN, _RT_SD = 1.0, 0.35  # response time in seconds, log-normal, by eye: one in forty takes more than two


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The number of participants who finished and of their answers, and whether the study was full before all had."""

    participants: int
    answers: int
    full: bool
    observer: str = ""  # the simulated people, or the model


def participant_rng(seed: int, index: int) -> np.random.Generator:
    """Return the random generator of the participant with this index (from 0)."""
    return np.random.default_rng([seed, index])


def simulate(
    pictures: StudyPictures,
    url: str,
    observer: SimulatedObserver,
    *,
    participants: int,
    seed: int = 0,
    progress: Progress | None = None,
) -> SimulationResult:
    """Have up to `participants` take part in the study that is served at `url`.

    Args:
        pictures: The pictures of the study.
        url: The participants' address.
        observer: The kind of simulated participants.
        participants: Their number; fewer where the study is full before.
        seed: Seed of all their random choices. Use another one for further participants.
        progress: Called with the number of finished participants, their total and what is counted.

    Raises:
        InvalidInput: The server does not answer, or refuses a request.
    """
    import httpx

    simulation = _Simulation(pictures, observer, participants, seed, progress, iter(range(participants)))
    try:
        asyncio.run(simulation.run(url))
    except ExceptionGroup as errors:
        error = errors.exceptions[0]
        if isinstance(error, (httpx.HTTPError, httpx.InvalidURL)):
            reason = str(error) or type(error).__name__
            raise InvalidInput(f"{url} does not answer ({reason}); start it with `cosight study serve`") from error
        raise error from None
    return SimulationResult(simulation.finished, simulation.answers, simulation.full)


@dataclass(slots=True)
class _Simulation:
    pictures: StudyPictures
    observer: SimulatedObserver
    participants: int
    seed: int
    progress: Progress | None
    indices: Iterator[int]  # of the participants who have not started
    finished: int = 0
    answers: int = 0
    full: bool = False

    async def run(self, url: str) -> None:
        lock, tls = asyncio.Lock(), ssl.create_default_context()
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_CONCURRENT, self.participants)):
                group.create_task(self._run_sequence(url, lock, tls))

    async def _run_sequence(self, url: str, lock: asyncio.Lock, tls: ssl.SSLContext) -> None:
        """Run one participant after the other until none is left or the study is full.

        They share a connection. A client for all sequences would search all connections at every request.
        """
        import httpx

        # the study is on this machine or in the local network: use no proxy
        async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT, verify=tls, trust_env=False) as client:
            while True:
                async with lock:  # numbers and images are assigned in the order of arrival
                    index = next(self.indices, None)
                    session = None if index is None or self.full else await self._start(client, index)
                if session is None:
                    return
                await self._answer_all(session)
                self.finished += 1
                if self.progress:
                    self.progress(self.finished, self.participants, "simulated participants")

    async def _start(self, client: httpx.AsyncClient, index: int) -> _Session | None:
        """Return a participant with their first trials; None where the study is full."""
        response = await client.post("/api/sessions", json={"platform": {}, "simulated": self.observer.name})
        self.full = response.status_code == STUDY_FULL
        if self.full:
            return None
        rng = participant_rng(self.seed, index)
        session = _Session(client, _read_json(response)["token"], self.observer.person(rng), rng)
        if self.pictures.study.participants.consent:
            await session.post("/api/session/consent", {"agreed": True})
        for question in self.pictures.study.participants.screening:
            await session.post("/api/session/screening", {"question": question, "eligible": True})
        session.trials = await session.get_trials()
        return session

    async def _answer_all(self, session: _Session) -> None:
        while session.trials:
            for trial in session.trials:
                await session.answer(self.pictures, trial)
                self.answers += 1
            session.trials = await session.get_trials()
        await session.post("/api/finish", {})


@dataclass(slots=True)
class _Session:
    """One participant and their unanswered trials."""

    client: httpx.AsyncClient
    token: str
    respondent: Respondent
    rng: np.random.Generator
    trials: list[dict[str, Any]] | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    async def get_trials(self) -> list[dict[str, Any]]:
        content = _read_json(await self.client.get("/api/trials", headers=self.headers))
        return list(content["trials"])

    async def post(self, path: str, body: Mapping[str, Any]) -> None:
        _read_json(await self.client.post(path, json=body, headers=self.headers))

    async def answer(self, pictures: StudyPictures, trial: Mapping[str, Any]) -> None:
        """Answer a trial; in a timed study not at all, where that takes too long."""
        images: dict[str, bytes | list[bytes]] = {}
        for name, address in trial["images"].items():
            is_list = isinstance(address, list)
            images[name] = [await self.get_image(one) for one in address] if is_list else await self.get_image(address)
        study = pictures.study
        response = study.kind.simulate(pictures.recognise(images), self.respondent, self.rng)
        rt = float(_RT_MEDIAN * np.exp(_RT_SD * self.rng.standard_normal()))
        late = study.timing is not None and rt > study.timing.response
        body = {
            "trial": trial["trial"],
            "response": None if late else response,
            "rt": None if late else rt,
            "shown": None,  # nothing was painted
            "input": None,  # nothing was pressed
        }
        await self.post("/api/answers", body)

    async def get_image(self, address: str) -> bytes:
        response = await self.client.get(address)
        return response.raise_for_status().content


def _read_json(response: httpx.Response) -> dict[str, Any]:
    """Return the content of a response. Raises InvalidInput with the server's message for a refusal."""
    content: dict[str, Any] = response.json() if "json" in response.headers.get("content-type", "") else {}
    if response.is_success:
        return content
    reason = content.get("error", f"status {response.status_code}")
    raise InvalidInput(f"{response.request.method} {response.request.url.path} was refused: {reason}")
