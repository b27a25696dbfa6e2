"""The parametric manipulations of model-vs-human, for which people's answers exist (Geirhos et al. 2018).

Kinds have the names of the experiments, steps the experiments' condition names, in order of strength. All but `colour`
and `false-colour` produce grey images, in the undistorted condition too; they keep the input's shape.
"""

from __future__ import annotations

import numpy as np

from cosight.stimuli.images import Image
from cosight.stimuli.kinds import apply_kind
from cosight.stimuli.manipulations import appearance as _appearance  # noqa: F401 (importing registers its kinds)
from cosight.stimuli.manipulations.conditions import condition_step, manipulations
from cosight.stimuli.manipulations.fourier import Spectrum, mean_spectrum, read_spectrum

__all__ = [
    "Spectrum",
    "condition_step",
    "manipulate",
    "manipulations",
    "mean_spectrum",
    "read_spectrum",
]


def manipulate(
    image: Image,
    kind: str,
    *,
    condition: str | float,
    rng: np.random.Generator | None = None,
    spectrum: Spectrum | None = None,
) -> Image:
    """Return the image as people saw it in a condition of an experiment; the input is not changed.

    Args:
        image: (height, width, 3) RGB or (height, width) grey; uint8, or floating point in [0, 1].
        kind: Name of the experiment (`cosight list manipulations`).
        condition: One of its conditions. Numbers are compared as numbers ("3" = "3.0"), names without regard to case.
        rng: Generator for uniform-noise and phase-scrambling.
        spectrum: Amplitudes for power-equalisation (`mean_spectrum`, `read_spectrum`).

    Returns:
        The manipulated image, with the shape and dtype of the input.

    Raises:
        InvalidInput: If an argument is out of range or missing.
        UnknownName: If there is no such manipulation.

    >>> photo = np.full((32, 32, 3), (200, 100, 50), np.uint8)
    >>> manipulate(photo, "contrast", condition="c10")[0, 0].tolist()
    [127, 127, 127]
    """
    entry = manipulations[kind]
    return apply_kind(entry, image, condition_step(entry, condition), rng, {"spectrum": spectrum})
