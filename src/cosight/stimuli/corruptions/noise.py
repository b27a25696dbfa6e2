"""Noise that is drawn for every pixel and channel by itself."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import pdtr

from cosight.stimuli.corruptions.draws import normals, uniforms
from cosight.stimuli.corruptions.severities import IMAGENET_C, VISALIGN, corruptions, settings_from
from cosight.stimuli.images import Floats
from cosight.stimuli.kinds import declare, steps_up_to

__all__ = ["gaussian_noise", "impulse_noise", "shot_noise", "speckle_noise"]

# Severity 1..5 of ImageNet-C, 6..10 of VisAlign (Lee et al. 2023), on an image in [0, 1].
_GAUSSIAN_SD = (0.08, 0.12, 0.18, 0.26, 0.38, 0.5, 0.72, 1.0, 2.0, 3.0)
_SHOT_PHOTONS = (60, 25, 12, 5, 3, 1, 0.5, 0.3, 0.1, 0.01)  # expected count of a white pixel
_IMPULSE_AMOUNT = (0.03, 0.06, 0.09, 0.17, 0.27, 0.35, 0.5, 0.62, 0.78, 0.9)
_SPECKLE_SD = (0.15, 0.2, 0.35, 0.45, 0.6)
_BOTH = f"{IMAGENET_C}; {VISALIGN}"


@declare(
    corruptions, "gaussian_noise", steps=steps_up_to(10), citation=_BOTH, settings=settings_from("sd", _GAUSSIAN_SD)
)
def gaussian_noise(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """White noise of one spread everywhere."""
    noise = normals(rng, image.shape)
    noise *= _GAUSSIAN_SD[step]
    noise += image
    return noise


@declare(
    corruptions, "shot_noise", steps=steps_up_to(10), citation=_BOTH, settings=settings_from("photons", _SHOT_PHOTONS)
)
def shot_noise(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Poisson counts of light: few photons, much noise.

    Distributions are tabulated for the 256 brightnesses of a byte; a value between two of them has a mixture of both,
    which keeps its mean.
    """
    photons = _SHOT_PHOTONS[step]
    drawn = uniforms(rng, image.shape)
    chances, starts = _poisson_tables(photons)
    counted: Floats = _counted(image.ravel(), drawn.ravel(), chances, starts, np.float32(1 / photons))
    return counted.reshape(image.shape)


@lru_cache(maxsize=16)
def _poisson_tables(photons: float) -> tuple[Floats, NDArray[np.int16]]:
    """Cumulative distributions of 256 brightnesses, and at which count to start looking for each 1/256 of chance."""
    counts = np.arange(int(np.ceil(photons)) + 1)  # whatever is above is white all the same
    chances = np.asarray(pdtr(counts, np.linspace(0, photons, 256)[:, None]), dtype=np.float32)
    chances[:, -1] = 2  # beyond any draw: the search ends here
    starts = [np.searchsorted(row, np.arange(256) / 256, side="right") for row in chances]
    return chances, np.array(starts, dtype=np.int16)


@njit(cache=True)
def _counted(values, drawn, chances, starts, scale):  # type: ignore[no-untyped-def]
    """Inverse transform, with the mixture of two neighbouring distributions as the one to invert."""
    out = np.empty_like(values)
    for i in range(values.size):
        level = values[i] * np.float32(255)
        row = min(int(level), 254)
        share = level - np.float32(row)
        count = starts[row, int(drawn[i] * np.float32(256))]  # the brighter neighbour has no fewer
        while chances[row, count] + share * (chances[row + 1, count] - chances[row, count]) <= drawn[i]:
            count += 1
        out[i] = count * scale
    return out


@declare(
    corruptions,
    "impulse_noise",
    steps=steps_up_to(10),
    citation=_BOTH,
    settings=settings_from("amount", _IMPULSE_AMOUNT),
)
def impulse_noise(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Salt and pepper: some values become black or white, as often the one as the other."""
    drawn = uniforms(rng, image.shape)
    _salted(image.ravel(), drawn.ravel(), np.float32(_IMPULSE_AMOUNT[step]))
    return image


@njit(cache=True)
def _salted(values, drawn, amount):  # type: ignore[no-untyped-def]
    half = amount / np.float32(2)
    for i in range(values.size):
        value = values[i] if drawn[i] >= amount else np.float32(0)
        values[i] = value if drawn[i] >= half else np.float32(1)


@declare(
    corruptions, "speckle_noise", steps=steps_up_to(5), citation=IMAGENET_C, settings=settings_from("sd", _SPECKLE_SD)
)
def speckle_noise(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """White noise in proportion to brightness."""
    noise = normals(rng, image.shape)
    noise *= _SPECKLE_SD[step]
    noise += 1
    noise *= image
    return noise
