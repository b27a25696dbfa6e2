"""Engines: who does the work of a run. The plan, the shards and what is written are the same for all.

* `local`   this process: one model at a time, images read in threads beside it
* `ray`     actors on a Ray cluster, each with the model; a shard is handed out when one is free (extra `ray`)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from cosight.registry import Registry
from cosight.runs.execution import ExecutionOptions, ShardAnswers, answer_shards
from cosight.runs.model_references import ModelReference
from cosight.runs.observers import Observer
from cosight.runs.ray_engine import RayEngine
from cosight.runs.run_plan import RunPlan, Shard

__all__ = ["Engine", "Local", "compute_threads", "engines"]


class Engine(Protocol):
    """Does the shards of one participant, in any order, each once."""

    def answers(
        self, who: Observer, invitation: ModelReference, plan: RunPlan, shards: Sequence[Shard], way: ExecutionOptions
    ) -> Iterator[ShardAnswers]:
        """Answers to each of these shards; the invitation lets others have the participant too."""
        ...


@dataclass(frozen=True, slots=True)
class Local:
    """This process."""

    def answers(
        self, who: Observer, invitation: ModelReference, plan: RunPlan, shards: Sequence[Shard], way: ExecutionOptions
    ) -> Iterator[ShardAnswers]:
        """One shard after the other."""
        with compute_threads(way.threads):
            yield from answer_shards(who, plan, shards, way)


@contextmanager
def compute_threads(count: int | None) -> Iterator[None]:
    """torch computes with so many threads inside, as before afterwards."""
    torch = sys.modules.get("torch")  # models that did without it so far have their own say
    if count is None or torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


engines: Registry[type[Engine]] = Registry("engine", listed=False)
engines.add("local", Local)
engines.add("ray", RayEngine)
