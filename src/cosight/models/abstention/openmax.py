"""OpenMax: how much of the answer belongs to a class that training never showed?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from cosight.arrays import FloatArray, IntArray
from cosight.errors import InvalidInput
from cosight.models.abstention.inputs import checked_labels, checked_logits
from cosight.models.abstention.mahalanobis import class_means
from cosight.models.abstention.softmax import softmax

__all__ = ["FittedOpenMax", "OpenMax", "Tail", "fit_tail"]

_NAME = "openmax"
# Distances are moved so that the lowest of a tail stands here before a Weibull distribution that begins at 0 is fitted:
# `translate_amount` of libMR, which Bendale & Boult used.
_SHIFT = 10_000.0
_FEWEST = 3  # two images are always equally far from their mean: no distribution


@dataclass(frozen=True, slots=True)
class Tail:
    """A Weibull distribution of high distances: shape, and log_scale relative to the shift; `lowest` of the tail."""

    lowest: float
    shape: float
    log_scale: float

    def below(self, distances: FloatArray) -> FloatArray:
        """The share of the distribution below each distance, in [0, 1]."""
        # further below the tail than the shift is further than any distance can be: they are not negative
        logs = np.log1p(np.maximum((distances - self.lowest) / _SHIFT, -1 + np.finfo(np.float64).eps))
        shares: FloatArray = -np.expm1(-np.exp(np.minimum(self.shape * (logs - self.log_scale), 700)))
        return shares


def fit_tail(distances: FloatArray, *, size: int) -> Tail:
    """The Weibull distribution most likely to give the `size` highest distances (all, where there are fewer).

    Its shape solves sum(x^c log x) / sum(x^c) - 1 / c = mean(log x) (Rinne 2008, The Weibull distribution).
    """
    tail = np.sort(distances)[-size:]
    lowest = float(tail[0])
    logs = np.log1p((tail - lowest) / _SHIFT)
    top = float(logs[-1])
    if not top > 0:
        raise InvalidInput(f"{_NAME} needs distances that differ, got {len(tail)} of {lowest:g}")

    def slope(shape: float) -> float:
        powers = np.exp(shape * (logs - top))
        return float(powers @ logs / powers.sum() - 1 / shape - logs.mean())

    low = high = 1 / top  # here the slope is at most -mean < 0; with the shape it rises to top - mean > 0
    while slope(high) <= 0:
        high *= 2
    shape = float(brentq(slope, low, high, rtol=1e-12))
    return Tail(lowest, shape, top + float(np.log(np.exp(shape * (logs - top)).mean())) / shape)


@dataclass(frozen=True, slots=True, eq=False)
class FittedOpenMax:
    """The mean logits of each class (classes, classes), its tail, and how much each rank is revised (classes,)."""

    means: FloatArray
    tails: tuple[Tail, ...]
    weights: FloatArray

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Probability (n,) of the unknown class."""
        given = checked_logits(logits, who=_NAME, classes=len(self.means))
        ranks = (-given).argsort(axis=1, kind="stable").argsort(axis=1)
        taken = given * self.weights[ranks] * self._outside(given)  # what each class loses to the unknown
        revised = np.column_stack([taken.sum(axis=1), given - taken])
        unknown: FloatArray = softmax(revised)[:, 0]
        return unknown

    def _outside(self, given: FloatArray) -> FloatArray:
        """How far (n, classes), in [0, 1], an image is outside each class."""
        columns = [
            tail.below(np.linalg.norm(given - mean, axis=1)) for tail, mean in zip(self.tails, self.means, strict=True)
        ]
        return np.stack(columns, axis=1)


@dataclass(frozen=True, slots=True)
class OpenMax:
    """OpenMax: classes lose logits to an unknown one, the more the further an image is from what they look like.

    Each class has the mean of the logits of its correctly classified training images and a Weibull distribution of the
    `tail` highest Euclidean distances to it. The logits of the `alpha` highest classes (None: all) are multiplied by
    1 - weight * share, where share is how much of that distribution lies below the image's distance and weight falls
    with the rank, (alpha + 1 - rank) / alpha; what they lose is the unknown class's logit. Strangeness is its softmax.
    Source: Bendale & Boult 2016, Algorithms 1 and 2, with the weights of their code (printed, weights are lower by
    1 / alpha and the share is 1 less ours, which would revise the typical image most).
    """

    tail: int = 20
    alpha: int | None = None

    def __post_init__(self) -> None:
        if self.tail < _FEWEST:
            raise InvalidInput(f"tail must be {_FEWEST} or more, got {self.tail}; 20 is the usual number")
        if self.alpha is not None and self.alpha < 1:
            raise InvalidInput(f"alpha must be 1 or more, got {self.alpha}; leave it out for all classes")

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> FittedOpenMax:
        """Learn from logits (N, classes) and labels (N,), three correctly classified images or more of every class."""
        given = checked_logits(logits, who=_NAME)
        classes = given.shape[1]
        truth = checked_labels(labels, rows=len(given), classes=classes, who=_NAME, least=_FEWEST)
        right = given.argmax(axis=1) == truth
        given, truth = given[right], _still_enough(truth[right], classes)
        means = class_means(given, truth)
        distances = np.linalg.norm(given - means[truth], axis=1)
        tails = tuple(fit_tail(distances[truth == index], size=self.tail) for index in range(classes))
        return FittedOpenMax(means, tails, self._weights(classes))

    def _weights(self, classes: int) -> FloatArray:
        alpha = classes if self.alpha is None else self.alpha
        if alpha > classes:
            raise InvalidInput(f"alpha must be at most the number of classes, {classes}, got {alpha}; leave it out")
        weights: FloatArray = np.maximum(alpha - np.arange(classes), 0) / alpha
        return weights


def _still_enough(truth: IntArray, classes: int) -> IntArray:
    counts = np.bincount(truth, minlength=classes)
    if counts.min() < _FEWEST:
        few = int(counts.argmin())
        raise InvalidInput(
            f"{_NAME} needs {_FEWEST} correctly classified training images or more of every class, "
            f"got {counts[few]} of class {few}; train longer or leave the class out"
        )
    return truth
