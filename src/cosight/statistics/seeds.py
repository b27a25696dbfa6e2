"""Observers that differ only in their seed: `MODEL@SEED#FUNCTION`, and their means and spreads."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from cosight.statistics.blocks import Block, Key, block_of, joined, merged_flags

__all__ = ["ObserverName", "observer_name", "with_seed_means"]

_SEEDED = re.compile(r"^(?P<model>.+)@(?P<seed>\d+)(?:\.(?:safetensors|pth?|onnx))?$")  # weights may be named after it
_ENSEMBLE = "ensemble:"


@dataclass(frozen=True, slots=True)
class ObserverName:
    """The parts of an observer's name."""

    model: str
    seed: int | None
    function: str | None  # of abstention
    members: int = 1  # more where the observer is one model under several seeds, taken together

    @property
    def line(self) -> str:
        """The name without its seed: what observers that differ only in it have in common.

        >>> ObserverName("timm:vit", 45, "knn").line
        'timm:vit#knn'
        """
        return self.title if self.function is None else f"{self.title}#{self.function}"

    @property
    def title(self) -> str:
        """The model, and how many of it.

        >>> ObserverName("timm:vit", None, "sp", members=5).title
        '5 x timm:vit'
        """
        return self.model if self.members == 1 else f"{self.members} x {self.model}"


def observer_name(text: str) -> ObserverName:
    """Take a name apart. The seeds of an ensemble's members are not its own: together they are one observer.

    >>> observer_name("timm:vit@45#knn")
    ObserverName(model='timm:vit', seed=45, function='knn', members=1)
    >>> observer_name("ensemble:vit@45+vit@46#deep-ensemble")
    ObserverName(model='vit', seed=None, function='deep-ensemble', members=2)
    """
    head, _, tail = text.rpartition("#")
    model, function = (head, tail) if head else (text, None)
    if model.startswith(_ENSEMBLE):
        only, members = _shared(model)
        return ObserverName(only or model, None, function, members if only else 1)
    seeded = _SEEDED.match(model)
    return (
        ObserverName(seeded["model"], int(seeded["seed"]), function) if seeded else ObserverName(model, None, function)
    )


def _shared(ensemble: str) -> tuple[str | None, int]:
    """The one model that all members of an ensemble are, if so, and how many they are."""
    found = [_SEEDED.match(member.strip("[]")) for member in ensemble.removeprefix(_ENSEMBLE).split("+")]
    models = {match["model"] if match else None for match in found}
    return models.pop() if len(models) == 1 else None, len(found)


def with_seed_means(block: Block) -> Block:
    """The block with, for each number that several seeds have, their mean and their standard deviation (n - 1).

    Both are taken resample by resample, so that their intervals are about the stimuli, with these seeds.
    """
    lines: dict[Key, list[int]] = {}
    for index, key in enumerate(block.keys):
        name = observer_name(key.observer)
        if name.seed is not None and key.statistic == "value":
            lines.setdefault(key._replace(observer=name.line), []).append(index)
    taken = set(block.keys)  # where the name without a seed is an observer of its own, there is no mean
    several = {key: index for key, index in lines.items() if len(index) > 1 and key not in taken}
    return joined([block, *(_over_seeds(block, key, index) for key, index in several.items())])


def _over_seeds(block: Block, key: Key, index: list[int]) -> Block:
    values, samples = block.values[index], block.samples[index]
    with np.errstate(invalid="ignore"):  # infinite less infinite
        spread, spread_samples = values.std(ddof=1), samples.std(axis=0, ddof=1)
    note = f"{len(index)} seeds"
    return block_of(
        block.group,
        (key, key._replace(statistic="sd")),
        np.array([values.mean(), spread]),
        np.stack([samples.mean(axis=0), spread_samples]),
        np.full(2, block.n[index].min()),
        notes=(f"mean of {note}", f"of {note}"),
        flags=(merged_flags(*(block.flags[i] for i in index)),) * 2,
        clusters=np.full(2, block.clusters[index].min()),
    )
