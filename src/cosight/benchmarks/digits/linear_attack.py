"""Attack a softmax regression on pixels (in numpy): category 3 of the digits benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from cosight.arrays import FloatArray
from cosight.benchmarks.building import UnusableCandidate
from cosight.stimuli.images import Bytes

__all__ = ["EPS", "LinearClassifier", "attack", "fit_linear_classifier"]

EPS = tuple(step / 255 for step in (4, 8, 12, 16, 24, 32, 40, 48, 64))
"""Step sizes of the attack, smallest first, for pixels in [0, 1]."""

_RIDGE = 1e-3  # weight of the squared weights in the loss
_STEPS = 100
_DECIMALS = 3  # of the weights: rounded, so that the last bit of a sum does not decide a sign


@dataclass(frozen=True, slots=True, eq=False)
class LinearClassifier:
    """A linear classifier: logits are pixels in [0, 1] times `weights` (pixels, classes) plus `offset`."""

    weights: FloatArray
    offset: FloatArray

    def logits(self, images: FloatArray) -> FloatArray:
        """Return the logits (n, classes) of flattened images (n, pixels)."""
        return np.asarray(images @ self.weights + self.offset)

    def answer(self, image: Bytes) -> int:
        """Return the class of one image."""
        return int(self.logits(image.reshape(1, -1) / 255).argmax())

    def gradient(self, image: Bytes, label: int) -> FloatArray:
        """Return the gradient of the cross-entropy with respect to the pixels, in the shape of the image."""
        residual = softmax(self.logits(image.reshape(1, -1) / 255)[0])
        residual[label] -= 1
        return np.asarray((self.weights @ residual).reshape(image.shape))


def fit_linear_classifier(images: FloatArray, labels: Sequence[int], classes: int) -> LinearClassifier:
    """Minimise the mean cross-entropy plus a small ridge penalty; images are (n, pixels) in [0, 1].

    A fixed number of steps of Nesterov's accelerated gradient descent from zero: the same result everywhere, and faster
    than an optimiser whose threads wait for each other.
    """
    one_hot = np.eye(classes, dtype=np.float32)[list(labels)]
    mean = images.mean(axis=0)
    data = np.column_stack([images - mean, np.ones(len(images))]).astype(np.float32)  # the last column is the offset
    direction = np.ones(data.shape[1])
    for _ in range(20):  # power iteration: the largest eigenvalue of data.T @ data / n
        direction = data.T @ (data @ (direction / np.linalg.norm(direction))) / len(data)
    largest = 1.05 * float(np.linalg.norm(direction))
    # The Hessian is at most half of data.T @ data / n (Boehning 1992).
    step = np.float32(1 / (0.5 * largest + 2 * _RIDGE))
    weights: NDArray[np.float32] = np.zeros((data.shape[1], classes), np.float32)
    lookahead = weights
    for number in range(_STEPS):
        residual = (softmax(data @ lookahead, axis=1) - one_hot) / np.float32(len(images))
        gradient = data.T @ residual + 2 * _RIDGE * lookahead
        previous, weights = weights, np.asarray(lookahead - step * gradient, np.float32)
        lookahead = weights + np.float32(number / (number + 3)) * (weights - previous)
    rounded = np.asarray(np.round(weights.astype(np.float64), _DECIMALS), np.float64)
    return LinearClassifier(rounded[:-1], np.round(rounded[-1] - mean @ rounded[:-1], _DECIMALS))


def attack(model: LinearClassifier, image: Bytes, label: int) -> tuple[Bytes, float]:
    """Attack an image with one step along the sign of the gradient (FGSM).

    Returns:
        The 8-bit image that the model gets wrong, and the smallest of `EPS` that achieves it.

    Raises:
        UnusableCandidate: The model gets the clean image wrong, or no step size changes its answer.
    """
    if model.answer(image) != label:
        raise UnusableCandidate("the model gets the clean image wrong")
    direction = np.sign(model.gradient(image, label))
    for eps in EPS:
        attacked = np.rint(np.clip(image + 255 * eps * direction, 0, 255)).astype(np.uint8)
        if model.answer(attacked) != label:
            return attacked, eps
    raise UnusableCandidate("no eps changes the answer of the model")
