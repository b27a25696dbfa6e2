"""Textures: grounds that a digit can stand on, and pictures that are no digit at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from cosight.benchmarks.digits.ink import SIDE
from cosight.stimuli.images import Floats

__all__ = ["TEXTURES", "texture"]


def texture(name: str, rng: np.random.Generator) -> Floats:
    """One of `TEXTURES`, (32, 32), from 0 to 1 with both ends reached.

    >>> float(texture("stripes", np.random.default_rng(0)).max())
    1.0
    """
    values = _DRAWN[name](rng)
    low, high = values.min(), values.max()
    return np.asarray((values - low) / (high - low), np.float32)


def _plane(rng: np.random.Generator, *, period: tuple[float, float]) -> tuple[Floats, Floats]:
    """Two coordinates at right angles in units of a drawn period, turned and shifted at random."""
    turn, shift = rng.uniform(0, np.pi), rng.uniform(0, 1, 2)
    y, x = np.mgrid[:SIDE, :SIDE] / rng.uniform(*period)
    along = np.cos(turn) * x + np.sin(turn) * y + shift[0]
    across = np.cos(turn) * y - np.sin(turn) * x + shift[1]
    return along.astype(np.float32), across.astype(np.float32)


def _stripes(rng: np.random.Generator) -> Any:
    return np.sin(2 * np.pi * _plane(rng, period=(5, 9))[0])


def _checks(rng: np.random.Generator) -> Any:
    along, across = _plane(rng, period=(8, 13))
    return np.tanh(4 * np.sin(2 * np.pi * along) * np.sin(2 * np.pi * across))


def _dots(rng: np.random.Generator) -> Any:
    along, across = _plane(rng, period=(5, 8))
    return np.tanh(3 * (np.cos(2 * np.pi * along) + np.cos(2 * np.pi * across) - 0.9))


def _waves(rng: np.random.Generator) -> Any:
    along, across = _plane(rng, period=(6, 10))
    return np.sin(2 * np.pi * (along + 0.35 * np.sin(2 * np.pi * across / 2)))


def _grain(rng: np.random.Generator) -> Floats:
    return rng.uniform(0, 1, (SIDE, SIDE)).astype(np.float32)


def _clouds(rng: np.random.Generator) -> Floats:
    noise = rng.standard_normal((SIDE, SIDE)).astype(np.float32)
    return np.asarray(cv2.GaussianBlur(noise, (0, 0), rng.uniform(2, 3.5)), np.float32)


_DRAWN: dict[str, Callable[[np.random.Generator], Any]] = {
    "stripes": _stripes,
    "checks": _checks,
    "dots": _dots,
    "waves": _waves,
    "grain": _grain,
    "clouds": _clouds,
}
TEXTURES = tuple(_DRAWN)
