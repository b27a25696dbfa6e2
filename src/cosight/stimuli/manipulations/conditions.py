"""The registry of manipulations, and the one call that applies them."""

from __future__ import annotations

from math import isnan

import numpy as np

from cosight.registry import Registry
from cosight.stimuli.images import Image
from cosight.stimuli.kinds import Kind, apply_kind
from cosight.stimuli.manipulations.spectrum import Spectrum

__all__ = ["CITATION", "condition_step", "manipulate", "manipulations"]

CITATION = "Geirhos et al. 2018"

manipulations: Registry[Kind] = Registry("manipulation")


def manipulate(
    image: Image,
    kind: str,
    *,
    condition: str | float,
    rng: np.random.Generator | None = None,
    spectrum: Spectrum | None = None,
) -> Image:
    """The image as people saw it in this condition of the experiment `kind`; same shape and dtype.

    Conditions compare as numbers where they are numbers ("3" = "3.0"), and whatever their case. `rng` is needed by
    uniform-noise and phase-scrambling, `spectrum` (see `mean_spectrum`, `read_spectrum`) by power-equalisation.

    >>> photo = np.full((32, 32, 3), (200, 100, 50), np.uint8)
    >>> manipulate(photo, "contrast", condition="c10")[0, 0].tolist()
    [127, 127, 127]
    """
    entry = manipulations[kind]
    return apply_kind(entry, image, condition_step(entry, condition), rng, {"spectrum": spectrum})


def condition_step(kind: Kind, condition: str | float) -> int:
    """Index of a condition among the steps of `kind`.

    >>> condition_step(manipulations["uniform-noise"], "0.9") == condition_step(manipulations["uniform-noise"], 0.90)
    True
    """
    wanted = _same(str(condition))
    found = [name for name in kind.steps if _same(name) == wanted]
    return kind.step(found[0] if found else str(condition), word="condition")


def _same(name: str) -> str | float:
    """What two spellings of one condition share; trial files have "0.90" and "0.9", "true" and "True"."""
    try:
        number = float(name)
    except ValueError:
        return name.strip().casefold()
    return name if isnan(number) else number
