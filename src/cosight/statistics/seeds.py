"""Observers that differ only in their seed (`MODEL@SEED#FUNCTION`): the mean and standard deviation over seeds."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from cosight.statistics.blocks import Block, Key, join_blocks, make_block, merge_flags

__all__ = ["ObserverName", "display_name", "observer_name", "with_seed_means"]

_SEEDED = re.compile(r"^(?P<model>.+)@(?P<seed>\d+)(?:\.(?:safetensors|pth?|onnx))?$")  # weights may be named after it
_ENSEMBLE = "ensemble:"


@dataclass(frozen=True, slots=True)
class ObserverName:
    """The parts of an observer's name."""

    model: str
    seed: int | None
    function: str | None  # the abstention function
    members: int = 1  # more for an ensemble of one model under several seeds

    @property
    def line(self) -> str:
        """The name without its seed, which observers that differ only in their seed share.

        >>> ObserverName("timm:vit", 45, "knn").line
        'timm:vit#knn'
        """
        return self.title if self.function is None else f"{self.title}#{self.function}"

    @property
    def title(self) -> str:
        """The model, and the number of its members where there are several.

        >>> ObserverName("timm:vit", None, "sp", members=5).title
        '5 x timm:vit'
        """
        return self.model if self.members == 1 else f"{self.members} x {self.model}"


def observer_name(text: str) -> ObserverName:
    """Split an observer's name into its parts. An ensemble of one model under several seeds is one observer.

    >>> observer_name("timm:vit@45#knn")
    ObserverName(model='timm:vit', seed=45, function='knn', members=1)
    >>> observer_name("ensemble:vit@45+vit@46#deep-ensemble")
    ObserverName(model='vit', seed=None, function='deep-ensemble', members=2)
    """
    head, _, tail = text.rpartition("#")
    model, function = (head, tail) if head else (text, None)
    if model.startswith(_ENSEMBLE):
        members = [_SEEDED.match(member.strip("[]")) for member in model.removeprefix(_ENSEMBLE).split("+")]
        models = {match["model"] if match else None for match in members}
        only = models.pop() if len(models) == 1 else None
        return ObserverName(only or model, None, function, len(members) if only else 1)
    seeded = _SEEDED.match(model)
    if seeded is None:
        return ObserverName(model, None, function)
    return ObserverName(seeded["model"], int(seeded["seed"]), function)


def display_name(observer: str) -> str:
    """Return an observer's name for tables and texts: an ensemble of one model under several seeds is called so.

    >>> display_name("ensemble:vit@45+vit@46#sp"), display_name("vit@45#sp")
    ('2 x vit#sp', 'vit@45#sp')
    """
    name = observer_name(observer)
    return observer if name.members == 1 else name.line


def with_seed_means(block: Block) -> Block:
    """Return the block with the mean and standard deviation (n - 1) over seeds of each number that several seeds have.

    Both are computed resample by resample, so that their intervals are over stimuli, for these seeds. Where the name
    without a seed is an observer of its own, there is no mean.
    """
    by_line: dict[Key, list[int]] = {}
    for i, key in enumerate(block.keys):
        name = observer_name(key.observer)
        if name.seed is not None and key.statistic == "value":
            by_line.setdefault(key._replace(observer=name.line), []).append(i)
    existing, means = set(block.keys), []
    for key, index in by_line.items():
        if len(index) < 2 or key in existing:
            continue
        values, resampled = block.values[index], block.resampled[index]
        with np.errstate(invalid="ignore"):  # infinity minus infinity
            sd, resampled_sd = values.std(ddof=1), resampled.std(axis=0, ddof=1)
        means.append(
            make_block(
                block.group,
                (key, key._replace(statistic="sd")),
                np.array([values.mean(), sd]),
                np.stack([resampled.mean(axis=0), resampled_sd]),
                np.full(2, block.n[index].min()),
                notes=(f"mean of {len(index)} seeds", f"of {len(index)} seeds"),
                flags=(merge_flags(*(block.flags[k] for k in index)),) * 2,
                clusters=np.full(2, block.clusters[index].min()),
            )
        )
    return join_blocks([block, *means])
