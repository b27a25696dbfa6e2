"""Kinds: one kind is one way to change an image, at several steps of strength.

Corruptions, distortions and manipulations are registries of kinds; this module has what they share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cosight.arrays import whole_number
from cosight.errors import InvalidInput
from cosight.registry import Registry
from cosight.stimuli.images import Bytes, Floats, Image, as_bytes, as_floats, check_image, restore_dtype

__all__ = ["Kind", "apply_kind", "declare", "settings_from", "steps_up_to", "stimulus_rng", "stimulus_seed"]

Kernel = Callable[..., Floats | Bytes]
"""(image, step, rng, **options) -> image of the same shape. The kernel may write to the image."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to change an image.

    Attributes:
        name: Name in its registry.
        steps: Names of the strengths in order ("1" .. "10", or conditions such as "c05").
        apply: The kernel; it gets the index of the step, from 0.
        settings: (step, **options) -> the numbers behind a step, for the manifest.
        summary: One sentence.
        citation: Where it was published.
        random: Whether the kernel draws from `rng`.
        eight_bit: Whether the kernel works on uint8. Others work on float32 in [0, 1]; their result is clipped.
        options: Names of the keyword options of `apply` and `settings`.
        growing_steps: Steps (from 0) over which strength grows; None means all.
        deterministic_when: Option values under which a random kind draws nothing.
    """

    name: str
    steps: tuple[str, ...]
    apply: Kernel
    settings: Callable[..., Mapping[str, Any]]
    summary: str
    citation: str
    random: bool = True
    eight_bit: bool = False
    options: frozenset[str] = frozenset()
    growing_steps: tuple[int, ...] | None = None
    deterministic_when: Mapping[str, Any] = field(default_factory=dict)

    def step(self, name: str, *, word: str) -> int:
        """Return the index of a step; `word` is the caller's word for steps (severity, level, condition)."""
        if name not in self.steps:
            names = f"1 to {len(self.steps)}" if self.steps == steps_up_to(len(self.steps)) else ", ".join(self.steps)
            raise InvalidInput(f"{word} of {self.name} must be {names}, got {name}")
        return self.steps.index(name)


def steps_up_to(count: int) -> tuple[str, ...]:
    """Return the names of steps that are numbers from 1.

    >>> steps_up_to(3)
    ('1', '2', '3')
    """
    return tuple(map(str, range(1, count + 1)))


def settings_from(names: str, rows: Sequence[Any]) -> Callable[..., Mapping[str, Any]]:
    """Return the `settings` function of a kind whose constants are `rows`: one row, or one number, per step.

    >>> settings_from("radius sigma", [(10, 3), (15, 5)])(1)
    {'radius': 15, 'sigma': 5}
    """
    keys = names.split()

    def settings(step: int, **options: Any) -> Mapping[str, Any]:
        row = rows[step]
        return dict(zip(keys, row if isinstance(row, tuple) else (row,), strict=True))

    return settings


def declare(registry: Registry[Kind], name: str, **facts: Any) -> Callable[[Kernel], Kernel]:
    """Register the decorated kernel as a kind; the first line of its docstring is the summary."""

    def add(apply: Kernel) -> Kernel:
        summary = (apply.__doc__ or "").strip().splitlines()[0]
        registry.add(name, Kind(name=name, apply=apply, summary=summary, **facts))
        return apply

    return add


def apply_kind(
    kind: Kind, image: Image, step: int, rng: np.random.Generator | None, options: Mapping[str, Any]
) -> Image:
    """Apply `kind` to a copy of the image; the result has its shape and dtype.

    Args:
        kind: What to do.
        image: (height, width, 3) or (height, width); uint8, or floating point in [0, 1].
        step: Index of the step, from 0.
        rng: Needed by random kinds.
        options: Options of all kinds of the family; those that `kind` does not have are ignored.

    Raises:
        InvalidInput: If the image is not one, or if a random kind gets no generator.
    """
    array = check_image(image)
    drawn = kind.random and not any(options.get(name) == value for name, value in kind.deterministic_when.items())
    if drawn and rng is None:
        raise InvalidInput(f"{kind.name} is random and needs rng, got None; give numpy.random.default_rng(SEED)")
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise InvalidInput(f"rng must be a numpy.random.Generator, got {type(rng).__name__}; see default_rng")
    known = {name: value for name, value in options.items() if name in kind.options}
    work = as_bytes(array) if kind.eight_bit else as_floats(array)
    return restore_dtype(kind.apply(work, step, rng, **known), array)


def stimulus_seed(source: str, kind: str, step: str, seed: int) -> int:
    """Return the seed of one stimulus, derived from its source, kind, step and the set's seed.

    It depends on nothing else: neither on the order of the stimuli nor on what else is in the set.

    >>> stimulus_seed("ab", "fog", "7", 0) == stimulus_seed("ab", "fog", "7", 0) != stimulus_seed("ab", "fog", "8", 0)
    True
    """
    text = "/".join((source, kind, step, str(whole_number(seed, name="seed"))))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1  # 63 bits: a Parquet int


def stimulus_rng(source: str, kind: str, step: str, seed: int) -> np.random.Generator:
    """Return the generator that draws one stimulus."""
    return np.random.default_rng(stimulus_seed(source, kind, step, seed))
