"""The engine `ray`: actors on a Ray cluster load the model and answer shards.

Only the driver writes files. An actor that dies is replaced and its shards are assigned again, so each shard is in the
run exactly once. Images, weights and modules must have the same paths on every node.
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
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from cosight.devices import check_placement
from cosight.errors import InvalidInput, first_line

if TYPE_CHECKING:
    from cosight.runs.execution import ExecutionOptions, ShardAnswers
    from cosight.runs.observers import ModelReference, Observer
    from cosight.runs.run_plan import RunPlan, Shard

__all__ = ["RayEngine"]

_IN_FLIGHT = 2  # shards per actor: one that it answers and one that waits; more would only use memory
_MOST_DEATHS = 3  # of actors at one shard, or per actor without an answer in between
_CONNECT_SECONDS = 5.0  # in which the cluster's address must accept a connection; Ray itself tries for minutes
_NO_CLUSTER = "start one with `ray start --head`, or use --engine local (a token, RAY_AUTH_TOKEN, may be missing too)"
_SAME_FILES = "than where the run was started; give every node the same files and packages"


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Runs on the Ray cluster that this process is connected to, the one at RAY_ADDRESS, or the one on this machine.

    Each actor chooses its device on its own node. On CUDA it gets a card of its own from Ray.
    """

    in_this_process: ClassVar[bool] = False

    def answers(
        self,
        observer: Observer,
        reference: ModelReference,
        plan: RunPlan,
        shards: Sequence[Shard],
        options: ExecutionOptions,
    ) -> Iterator[ShardAnswers]:
        """Yield each shard once, in the order they are finished; `options.loaders` is the number of actors."""
        if reference.spec is None:
            raise InvalidInput(
                f"Ray workers load models by name, got the model {observer.name} itself; "
                "name it as python:package.module:function, or use --engine local"
            )
        if ":" in options.device:
            raise InvalidInput(
                f"Ray gives every worker a card of its own, got --device {options.device}; use --device cuda"
            )
        if not shards:
            return
        threads = options.threads or 1
        task = _ActorTask(
            observer.name,
            dict(observer.identity),
            reference,
            replace(options, threads=threads, loaders=1),
            Path.cwd(),
            tuple(sys.path),
        )
        with _connect() as ray:
            nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            cores_by_node, cards_by_node = ([int(node.get(name, 0)) for node in nodes] for name in ("CPU", "GPU"))
            if options.device == "cuda" and not any(cards_by_node):
                raise InvalidInput("--device cuda is not available: no node of the Ray cluster has a GPU; use cpu")
            on_cards = options.device == "cuda" or (options.device == "auto" and any(cards_by_node))
            most_actors = sum(
                min(cores // threads, cards) if on_cards else cores // threads
                for cores, cards in zip(cores_by_node, cards_by_node, strict=True)
            )
            if not most_actors:
                largest = max(cores_by_node, default=0)
                raise InvalidInput(f"--threads must be at most the CPUs of a Ray node, {largest} here, got {threads}")
            shared_plan = ray.put(replace(plan))  # sent to the cluster once, without its cached properties
            actor_class = ray.remote(num_cpus=threads, num_gpus=int(on_cards))(_Actor)
            pool = _ActorPool(ray, lambda: actor_class.remote(task, shared_plan), deque(shards))
            yield from pool.answers(min(options.loaders or most_actors, len(shards)))


@contextmanager
def _connect() -> Iterator[Any]:
    """Yield Ray, connected to a cluster; an existing connection is used and stays open."""
    try:
        import ray
    except ImportError as error:
        raise InvalidInput("the engine ray needs Ray; pip install 'cosight[ray]', or use --engine local") from error
    if ray.is_initialized():
        yield ray
        return
    address = os.environ.get("RAY_ADDRESS") or "auto"
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        if parts.port is not None:  # fail early where nothing listens
            socket.create_connection((parts.hostname or "", parts.port), timeout=_CONNECT_SECONDS).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        where = "" if address == "auto" else f" at {address}"
        raise InvalidInput(f"there is no Ray cluster{where} ({first_line(error)}); {_NO_CLUSTER}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


@dataclass(frozen=True, slots=True)
class _ActorTask:
    """What an actor needs besides the plan."""

    observer: str
    identity: Mapping[str, Any]
    reference: ModelReference
    options: ExecutionOptions
    folder: Path  # current folder of the driver, which relative paths start from
    module_paths: tuple[str, ...]  # `sys.path` of the driver


class _Actor:
    """A process of the cluster that has loaded the model."""

    def __init__(self, task: _ActorTask, plan: RunPlan) -> None:
        self.task, self.plan = task, plan

    def get_ready(self) -> None:
        """Load the model. Not in `__init__`, where Ray reports an error as the death of the actor."""
        if self.task.folder.is_dir():
            os.chdir(self.task.folder)
        sys.path += [path for path in self.task.module_paths if path not in sys.path]  # last, so they hide nothing
        if not self.plan.stimuli.folder.is_dir():
            raise InvalidInput(
                f"images must be in the same folder on every node, {platform.node()} has no {self.plan.stimuli.folder}"
            )
        check_placement(self.task.options.device, self.plan.precision)
        _ = self._observer

    def answer(self, shard: Shard) -> ShardAnswers:
        """Answer a shard as the engine `local` does."""
        from cosight.runs.execution import LocalEngine  # imports this module, so it cannot be imported at the top

        (answers,) = LocalEngine().answers(self._observer, self.task.reference, self.plan, [shard], self.task.options)
        return answers

    @cached_property
    def _observer(self) -> Observer:
        """The driver's observer, loaded here; raises when it differs from the driver's."""
        task = self.task
        for observer in task.reference.observers(self.plan, threads=task.options.threads, device=task.options.device):
            if observer.name == task.observer:
                different = [key for key, value in task.identity.items() if observer.identity.get(key) != value]
                if different:
                    raise InvalidInput(f"{observer.name} has other {different[0]} on {platform.node()} {_SAME_FILES}")
                return observer
        raise InvalidInput(f"{task.observer} is not in {task.reference.spec} on {platform.node()} {_SAME_FILES}")


@dataclass(slots=True)
class _ActorPool:
    """The actors of an observer: which are ready, what each of them does, and the shards that are not assigned."""

    ray: Any
    start_actor: Callable[[], Any]
    unassigned: deque[Shard]
    ready: list[Any] = field(default_factory=list)
    pending: dict[Any, tuple[Any, Shard | None]] = field(default_factory=dict)  # result -> actor, shard (None: loading)
    deaths: Counter[Shard] = field(default_factory=Counter)  # while an actor answered the shard
    deaths_in_a_row: int = 0  # since the last answer

    def answers(self, count: int) -> Iterator[ShardAnswers]:
        """Yield the answers to all shards by `count` actors, which are stopped afterwards."""
        remaining = len(self.unassigned)
        try:
            for _ in range(count):
                self._add_actor()
            while remaining:
                self._assign_shards()
                answer = self._wait_for_answer(count)
                if answer is not None:
                    remaining -= 1
                    yield answer
        finally:
            for actor in {*self.ready, *(actor for actor, _ in self.pending.values())}:
                self.ray.kill(actor)

    def _add_actor(self) -> None:
        """Start an actor. It gets shards when it is ready: it may wait long until the cluster has free cores."""
        actor = self.start_actor()
        self.pending[actor.get_ready.remote()] = actor, None

    def _assign_shards(self) -> None:
        """Give every actor a shard before any actor gets a second one."""
        for in_flight in range(_IN_FLIGHT):
            for actor in self.ready:
                if self.unassigned and len(self._results_of(actor)) <= in_flight:
                    shard = self.unassigned.popleft()
                    self.pending[actor.answer.remote(shard)] = actor, shard

    def _results_of(self, actor: Any) -> list[Any]:
        """Return the pending results of an actor, the one that it is working on first."""
        return [result for result, (other, _) in self.pending.items() if other is actor]

    def _wait_for_answer(self, count: int) -> ShardAnswers | None:
        """Return the next answer; None where an actor became ready or died. Errors of an actor's work are raised."""
        from ray.exceptions import RayError, RayTaskError

        (result,), _ = self.ray.wait([*self.pending])
        actor, shard = self.pending[result]
        try:
            answer: ShardAnswers | None = self.ray.get(result)
        except RayTaskError as error:
            raise error.cause or error from None
        except RayError as error:  # the process or its node is gone, or the result with it
            self._replace_actor(actor, first_line(error), count)
            return None
        del self.pending[result]
        if shard is None:
            self.ready.append(actor)
        else:
            self.deaths_in_a_row = 0
        return answer

    def _replace_actor(self, actor: Any, reason: str, count: int) -> None:
        """Put the shards of a dead actor at the end, so that one that kills actors is last; start another actor."""
        shards = [self.pending.pop(result)[1] for result in self._results_of(actor)]
        self.unassigned += [shard for shard in shards if shard is not None]
        self.ready = [other for other in self.ready if other is not actor]
        self.ray.kill(actor)  # it may only be unreachable
        killer = shards[0]
        self.deaths_in_a_row += 1
        self.deaths.update([] if killer is None else [killer])
        too_many_at_shard = killer is not None and self.deaths[killer] >= _MOST_DEATHS
        if self.deaths_in_a_row >= _MOST_DEATHS * count or too_many_at_shard:
            work = "loading the model"
            if killer is not None:
                work = f"answering images {killer.rows.start} to {killer.rows.stop - 1}"
            raise InvalidInput(
                f"Ray workers died again and again, the last while {work} ({reason}); "
                "what is answered is kept; resume with fewer --workers or --engine local"
            )
        self._add_actor()
