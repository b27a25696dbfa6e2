"""The engine `ray`: actors on a Ray cluster hold the model, and shards are handed out as they get free.

The driver alone writes. An actor that dies is replaced and its shards are handed out again, so that each is in the run
once whatever happens. Images, weights and modules must be found under the same paths on every node.
"""

from __future__ import annotations

import logging
import os
import platform
import socket
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cosight.errors import InvalidInput
from cosight.runs.execution import ExecutionOptions, ShardAnswers
from cosight.runs.model_references import ModelReference
from cosight.runs.observers import Observer
from cosight.runs.run_plan import RunPlan, Shard

__all__ = ["RayEngine"]

_IN_FLIGHT = 2  # shards an actor: one it answers, one that waits for it; more would only take memory
_PATIENCE = 3  # deaths of actors at one shard, or of all of them in a row, that are taken for bad luck no more
_KNOCK = 5.0  # seconds in which a cluster's address must accept a connection; Ray itself tries for minutes
_WAY_OUT = "start one with `ray start --head`, or use --engine local (a token, RAY_AUTH_TOKEN, may be missing too)"
_SAME_FILES = "than where the run was started; give every node the same files and packages"


@dataclass(frozen=True, slots=True)
class RayEngine:
    """The Ray cluster that this process is connected to, else the one at RAY_ADDRESS, else the one on this machine."""

    def answers(
        self, who: Observer, invitation: ModelReference, plan: RunPlan, shards: Sequence[Shard], way: ExecutionOptions
    ) -> Iterator[ShardAnswers]:
        """Each shard once, in the order that they are finished in; `way.loaders` is the number of actors."""
        if invitation.line is None:
            raise InvalidInput(
                f"Ray's workers load models by their line, got {who.name} itself; "
                "name it as python:package.module:function, or use --engine local"
            )
        if not shards:
            return
        threads = way.threads or 1
        its_way = replace(way, threads=threads, loaders=1)
        brief = _Brief(who.name, dict(who.identity), invitation, its_way, Path.cwd(), tuple(sys.path))
        with _connected() as ray:
            places = _places(ray, threads)
            crew = _Crew(ray, _hiring(ray, brief, plan), deque(shards))
            yield from crew.answers(min(way.loaders or places, len(shards)))


@contextmanager
def _connected() -> Iterator[Any]:
    """Ray, connected to a cluster; a connection that was there before stays."""
    ray = _ray()
    if ray.is_initialized():
        yield ray
        return
    address = os.environ.get("RAY_ADDRESS") or "auto"
    try:
        _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        where = "" if address == "auto" else f" at {address}"
        raise InvalidInput(f"there is no Ray cluster{where} to work on ({_first_line(error)}); {_WAY_OUT}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InvalidInput("the engine ray needs Ray; pip install 'cosight[ray]', or use --engine local") from error
    return ray


def _knock(address: str) -> None:
    """Whether anyone is at `host:port`; addresses without a port are left to Ray."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    if parts.port is not None:
        socket.create_connection((parts.hostname or "", parts.port), timeout=_KNOCK).close()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def _places(ray: Any, threads: int) -> int:
    """How many actors with so many threads the cluster has room for."""
    cores = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    places = sum(count // threads for count in cores)
    if not places:
        most = max(cores, default=0)
        raise InvalidInput(f"--threads must be at most the CPUs of a Ray node, {most} here, got {threads}")
    return places


@dataclass(frozen=True, slots=True)
class _Brief:
    """What an actor must know besides the plan."""

    observer: str
    identity: Mapping[str, Any]
    invitation: ModelReference
    way: ExecutionOptions
    folder: Path  # the driver's current one, which relative paths start from
    modules: tuple[str, ...]  # the driver's `sys.path`


def _hiring(ray: Any, brief: _Brief, plan: RunPlan) -> Callable[[], Any]:
    """What makes a new actor; the plan is sent to the cluster once, without what it has cached."""
    sent = ray.put(replace(plan))
    actor = ray.remote(num_cpus=brief.way.threads)(_Actor)
    return lambda: actor.remote(brief, sent)


class _Actor:
    """A process of the cluster that holds the model."""

    def __init__(self, brief: _Brief, plan: RunPlan) -> None:
        self.brief, self.plan = brief, plan

    def get_ready(self) -> None:
        """Load the model. Not when the actor is made: Ray reports errors there as a death."""
        if self.brief.folder.is_dir():
            os.chdir(self.brief.folder)
        sys.path += [entry for entry in self.brief.modules if entry not in sys.path]  # last, so that they hide nothing
        if not self.plan.shown.folder.is_dir():
            raise InvalidInput(
                f"images must be in the same folder on every node, {platform.node()} has no {self.plan.shown.folder}"
            )
        _ = self._who

    def answer(self, shard: Shard) -> ShardAnswers:
        """What the engine `local` would do."""
        from cosight.runs.engines import Local  # lists the engine of this module, so it cannot come first

        (given,) = Local().answers(self._who, self.brief.invitation, self.plan, [shard], self.brief.way)
        return given

    @cached_property
    def _who(self) -> Observer:
        """The driver's participant as it is here; another one under its name would go unnoticed."""
        brief = self.brief
        for who in brief.invitation.accepted(self.plan, threads=brief.way.threads):
            if who.name == brief.observer:
                other = [key for key, value in brief.identity.items() if who.identity.get(key) != value]
                if other:
                    raise InvalidInput(f"{who.name} has other {other[0]} on {platform.node()} {_SAME_FILES}")
                return who
        raise InvalidInput(f"{brief.observer} is not in {brief.invitation.line} on {platform.node()} {_SAME_FILES}")


@dataclass(slots=True)
class _Crew:
    """The actors of a participant: who is ready, what each was given, and the shards that nobody has."""

    ray: Any
    hire: Callable[[], Any]
    waiting: deque[Shard]
    ready: list[Any] = field(default_factory=list)
    given: dict[Any, tuple[Any, Shard | None]] = field(default_factory=dict)  # result to come -> actor, shard (or load)
    deaths: Counter[Shard] = field(default_factory=Counter)  # while at it
    in_a_row: int = 0  # deaths since a shard was finished

    def answers(self, count: int) -> Iterator[ShardAnswers]:
        """Answers to all shards by `count` actors; they are gone afterwards."""
        left = len(self.waiting)
        try:
            for _ in range(count):
                self._hire()
            while left:
                self._hand_out()
                answer = self._next(count)
                if answer is not None:
                    left -= 1
                    yield answer
        finally:
            for actor in {*self.ready, *(actor for actor, _ in self.given.values())}:
                self.ray.kill(actor)

    def _hire(self) -> None:
        """A new actor. It gets shards when it is ready: it may wait long for a place in the cluster."""
        actor = self.hire()
        self.given[actor.get_ready.remote()] = actor, None

    def _hand_out(self) -> None:
        """Everyone gets a shard before anyone gets a second."""
        for most in range(_IN_FLIGHT):
            for actor in self.ready:
                if self.waiting and len(self._of(actor)) <= most:
                    shard = self.waiting.popleft()
                    self.given[actor.answer.remote(shard)] = actor, shard

    def _of(self, actor: Any) -> list[Any]:
        """Results that an actor owes, the one that it is at first."""
        return [result for result, (other, _) in self.given.items() if other is actor]

    def _next(self, count: int) -> ShardAnswers | None:
        """The next answer; None where an actor got ready or died instead. What its work raises is raised here."""
        from ray.exceptions import RayError, RayTaskError

        (result,), _ = self.ray.wait([*self.given])
        actor, shard = self.given[result]
        try:
            answer: ShardAnswers | None = self.ray.get(result)
        except RayTaskError as error:
            raise error.cause or error from None
        except RayError as error:  # of Ray's own: the process or its node is gone, or the result with it
            self._replace(actor, _first_line(error), count)
            return None
        del self.given[result]
        if shard is None:
            self.ready.append(actor)
        else:
            self.in_a_row = 0
        return answer

    def _replace(self, actor: Any, reason: str, count: int) -> None:
        """Hand what the actor had to others, after all else: a shard that kills should be the last."""
        lost = [self.given.pop(result)[1] for result in self._of(actor)]
        self.waiting += [shard for shard in lost if shard is not None]
        self.ready = [other for other in self.ready if other is not actor]
        self.ray.kill(actor)  # where it was only out of reach
        self._count(lost[0], reason, count)
        self._hire()

    def _count(self, shard: Shard | None, reason: str, count: int) -> None:
        """Bear a death at this shard (or while loading), or give up."""
        self.in_a_row += 1
        self.deaths.update([] if shard is None else [shard])
        if self.in_a_row < _PATIENCE * count and (shard is None or self.deaths[shard] < _PATIENCE):
            return
        rows = None if shard is None else shard.rows
        doing = "loading the model" if rows is None else f"answering images {rows.start} to {rows.stop - 1}"
        raise InvalidInput(
            f"Ray workers died again and again, the last while {doing} ({reason}); "
            "what is answered is kept; resume with fewer --workers or --engine local"
        )
