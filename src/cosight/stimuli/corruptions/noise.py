"""Noise drawn independently for every pixel and channel."""

from __future__ import annotations

import numpy as np

from cosight.stimuli.corruptions.severities import BOTH, IMAGENET_C, corruptions
from cosight.stimuli.images import Floats
from cosight.stimuli.kinds import declare, settings_from, steps_up_to

__all__ = ["gaussian_noise", "impulse_noise", "shot_noise", "speckle_noise"]

# Severity 1..5 of ImageNet-C, 6..10 of VisAlign (Lee et al. 2023), on an image in [0, 1].
_GAUSSIAN_SD = (0.08, 0.12, 0.18, 0.26, 0.38, 0.5, 0.72, 1.0, 2.0, 3.0)
_SHOT_PHOTONS = (60, 25, 12, 5, 3, 1, 0.5, 0.3, 0.1, 0.01)  # expected count of a white pixel
_IMPULSE_AMOUNT = (0.03, 0.06, 0.09, 0.17, 0.27, 0.35, 0.5, 0.62, 0.78, 0.9)
_SPECKLE_SD = (0.15, 0.2, 0.35, 0.45, 0.6)


@declare(
    corruptions,
    "gaussian_noise",
    steps=steps_up_to(10),
    citation=BOTH,
    settings=settings_from("sd", _GAUSSIAN_SD),
)
def gaussian_noise(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Add white noise of the same standard deviation everywhere."""
    noise = rng.standard_normal(image.shape, dtype=np.float32)
    noise *= _GAUSSIAN_SD[step]
    noise += image
    return noise


@declare(
    corruptions,
    "shot_noise",
    steps=steps_up_to(10),
    citation=BOTH,
    settings=settings_from("photons", _SHOT_PHOTONS),
)
def shot_noise(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Replace each value by a Poisson count of photons: the fewer photons, the more noise."""
    photons = _SHOT_PHOTONS[step]
    return np.multiply(rng.poisson(image * np.float32(photons)), np.float32(1 / photons), dtype=np.float32)


@declare(
    corruptions,
    "impulse_noise",
    steps=steps_up_to(10),
    citation=BOTH,
    settings=settings_from("amount", _IMPULSE_AMOUNT),
)
def impulse_noise(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Set some values to black or white (salt and pepper), each with the same probability."""
    amount = np.float32(_IMPULSE_AMOUNT[step])
    draws = rng.random(image.shape, dtype=np.float32)
    image *= draws >= amount
    image += draws < amount / 2
    return image


@declare(
    corruptions,
    "speckle_noise",
    steps=steps_up_to(5),
    citation=IMAGENET_C,
    settings=settings_from("sd", _SPECKLE_SD),
)
def speckle_noise(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Add white noise in proportion to brightness."""
    noise = rng.standard_normal(image.shape, dtype=np.float32)
    noise *= _SPECKLE_SD[step]
    noise += 1
    noise *= image
    return noise
