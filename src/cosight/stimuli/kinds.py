"""A kind is one way to change an image, at several steps of strength. Corruptions, distortions and manipulations are
registries of kinds; this module is what they share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cosight.errors import InvalidInput
from cosight.registry import Registry
from cosight.stimuli.images import Bytes, Floats, Image, as_bytes, as_floats, check_image, restore_dtype

__all__ = ["Kind", "alter", "declare", "steps_up_to", "stimulus_rng", "stimulus_seed"]

Apply = Callable[..., Floats | Bytes]
"""(image, step, rng, **options) -> image of the same shape. The image is the function's own to write to."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to change an image.

    `steps` names the strengths in order ("1" .. "10", or conditions such as "c05"); `apply` gets the step's index from
    0. A kernel with `eight_bit` works on uint8, any other on float32 in [0, 1] (its result may leave that range and is
    clipped). `settings(step, **options)` are the numbers behind a step, for the manifest; `options` names the keyword
    options that `apply` and `settings` take. `grows` lists the steps (from 0) over which strength grows: all by
    default. `steady` holds the option values under which a random kind draws nothing.
    """

    name: str
    steps: tuple[str, ...]
    apply: Apply
    settings: Callable[..., Mapping[str, Any]]
    summary: str
    citation: str
    random: bool = True
    eight_bit: bool = False
    options: frozenset[str] = frozenset()
    grows: tuple[int, ...] | None = None
    steady: Mapping[str, Any] = field(default_factory=dict)

    def step(self, name: str, *, word: str) -> int:
        """Index of a step by its name; `word` is what the caller calls steps (severity, level, condition)."""
        if name not in self.steps:
            names = f"1 to {len(self.steps)}" if self.steps == steps_up_to(len(self.steps)) else ", ".join(self.steps)
            raise InvalidInput(f"{word} of {self.name} must be {names}, got {name}")
        return self.steps.index(name)


def steps_up_to(count: int) -> tuple[str, ...]:
    """Names of steps that are numbers from 1."""
    return tuple(map(str, range(1, count + 1)))


def declare(registry: Registry[Kind], name: str, **facts: Any) -> Callable[[Apply], Apply]:
    """Register the decorated kernel as a kind; its docstring's first line is the summary."""

    def add(apply: Apply) -> Apply:
        summary = (apply.__doc__ or "").strip().splitlines()[0]
        registry.add(name, Kind(name=name, apply=apply, summary=summary, **facts))
        return apply

    return add


def alter(kind: Kind, image: Image, step: int, rng: np.random.Generator | None, options: Mapping[str, Any]) -> Image:
    """Apply `kind` at the step with this index; the result has the input's shape and dtype, the input is left alone."""
    array = check_image(image)
    drawn = kind.random and not any(options.get(name) == value for name, value in kind.steady.items())
    if drawn and rng is None:
        raise InvalidInput(f"{kind.name} is random and needs rng, got None; give numpy.random.default_rng(SEED)")
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise InvalidInput(f"rng must be a numpy.random.Generator, got {type(rng).__name__}; see default_rng")
    known = {name: value for name, value in options.items() if name in kind.options}
    work = as_bytes(array) if kind.eight_bit else as_floats(array)
    return restore_dtype(kind.apply(work, step, rng, **known), array)


def stimulus_seed(source: str, kind: str, step: str, seed: int) -> int:
    """The seed of one stimulus: from what it is made of, so neither order nor company changes it.

    >>> stimulus_seed("ab", "fog", "7", 0) == stimulus_seed("ab", "fog", "7", 0) != stimulus_seed("ab", "fog", "8", 0)
    True
    """
    made_of: Sequence[str] = (source, kind, step, str(seed))
    return int.from_bytes(hashlib.sha256("/".join(made_of).encode()).digest()[:8], "big") >> 1  # 63 bits: a Parquet int


def stimulus_rng(source: str, kind: str, step: str, seed: int) -> np.random.Generator:
    """The generator that draws one stimulus."""
    return np.random.default_rng(stimulus_seed(source, kind, step, seed))
