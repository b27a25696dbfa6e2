"""The model that category 3 of the digits is made against: a softmax regression on pixels, in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from cosight.arrays import FloatArray
from cosight.benchmarks.building import Unfit
from cosight.stimuli.images import Bytes

__all__ = ["EPS", "LinearClassifier", "fitted", "fooled"]

EPS = tuple(step / 255 for step in (4, 8, 12, 16, 24, 32, 40, 48, 64))
"""Sizes of change that are tried, smallest first, in units of pixels in [0, 1]."""

_RIDGE = 1e-3  # of the squared weights, beside the mean loss: enough to keep them small
_STEPS = 100
_DECIMALS = 3  # weights are rounded, so that the last bit of a sum does not decide a sign


@dataclass(frozen=True, slots=True, eq=False)
class LinearClassifier:
    """Logits are pixels in [0, 1] times `weights` (pixels, classes) plus `offset`."""

    weights: FloatArray
    offset: FloatArray

    def logits(self, images: FloatArray) -> FloatArray:
        """(n, pixels) to (n, classes)."""
        return np.asarray(images @ self.weights + self.offset)

    def answer(self, image: Bytes) -> int:
        """The class of one image."""
        return int(self.logits(image.reshape(1, -1) / 255).argmax())

    def gradient(self, image: Bytes, label: int) -> FloatArray:
        """Of the cross-entropy with respect to the image's pixels, in its shape."""
        share = softmax(self.logits(image.reshape(1, -1) / 255)[0])
        share[label] -= 1
        return np.asarray((self.weights @ share).reshape(image.shape))


def fitted(images: FloatArray, labels: Sequence[int], classes: int) -> LinearClassifier:
    """Weights of small mean cross-entropy with a small ridge; images are (n, pixels) in [0, 1].

    Descent with Nesterov's momentum from zero, so many steps: the same everywhere, and fast where an optimiser's
    threads would wait for each other.
    """
    hot = np.eye(classes, dtype=np.float32)[list(labels)]
    middle = images.mean(axis=0)
    centred = np.column_stack([images - middle, np.ones(len(images))]).astype(np.float32)  # last: the offset
    # The loss bends by half the data's spread at most (Boehning 1992).
    step = np.float32(1 / (0.5 * _largest(centred) + 2 * _RIDGE))
    weights: NDArray[np.float32] = np.zeros((centred.shape[1], classes), np.float32)
    ahead = weights
    for number in range(_STEPS):
        off = (softmax(centred @ ahead, axis=1) - hot) / np.float32(len(images))
        before, weights = weights, np.asarray(ahead - step * (centred.T @ off + 2 * _RIDGE * ahead), np.float32)
        ahead = weights + np.float32(number / (number + 3)) * (weights - before)
    rounded = np.asarray(np.round(weights.astype(np.float64), _DECIMALS), np.float64)
    return LinearClassifier(rounded[:-1], np.round(rounded[-1] - middle @ rounded[:-1], _DECIMALS))


def _largest(data: NDArray[np.float32]) -> float:
    """The largest eigenvalue of the data's mean square, by power iteration, a little above."""
    direction = np.ones(data.shape[1])
    for _ in range(20):
        direction = data.T @ (data @ (direction / np.linalg.norm(direction))) / len(data)
    return 1.05 * float(np.linalg.norm(direction))


def fooled(model: LinearClassifier, image: Bytes, label: int) -> tuple[Bytes, float]:
    """The image after one step along the gradient's sign, and the smallest of `EPS` whose 8-bit image is mistaken."""
    if model.answer(image) != label:
        raise Unfit("the clean image is mistaken already")
    step = np.sign(model.gradient(image, label))
    for eps in EPS:
        attacked = np.rint(np.clip(image + 255 * eps * step, 0, 255)).astype(np.uint8)
        if model.answer(attacked) != label:
            return attacked, eps
    raise Unfit("no eps fools")
