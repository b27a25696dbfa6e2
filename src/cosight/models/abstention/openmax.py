"""OpenMax: the probability of a class that was not in the training set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.models.abstention.base import check_labels, check_logits
from cosight.models.abstention.distances import class_means
from cosight.models.abstention.entropy import softmax

__all__ = ["FittedOpenMax", "OpenMax", "Tail", "fit_tail"]

# Distances are shifted so that the lowest of a tail is at this value before a Weibull distribution that begins at 0 is
# fitted: `translate_amount` of libMR, which Bendale & Boult used.
_SHIFT = 10_000.0
_FEWEST = 3  # images per class; two are always equally far from their mean, so they have no distribution


@dataclass(frozen=True, slots=True)
class Tail:
    """Weibull distribution of high distances: its shape, its log scale relative to the shift, its lowest distance."""

    lowest: float
    shape: float
    log_scale: float

    def below(self, distances: FloatArray) -> FloatArray:
        """Compute the cumulative distribution function at each distance."""
        # distances are not negative, so none is further below the tail than the shift
        logs = np.log1p(np.maximum((distances - self.lowest) / _SHIFT, -1 + np.finfo(np.float64).eps))
        probabilities: FloatArray = -np.expm1(-np.exp(np.minimum(self.shape * (logs - self.log_scale), 700)))
        return probabilities


def fit_tail(distances: FloatArray, *, size: int) -> Tail:
    """Fit a Weibull distribution to the `size` highest distances (all, if there are fewer) by maximum likelihood.

    Its shape solves sum(x^c log x) / sum(x^c) - 1 / c = mean(log x) (Rinne 2008, The Weibull distribution).
    """
    tail = np.sort(distances)[-size:]
    lowest = float(tail[0])
    logs = np.log1p((tail - lowest) / _SHIFT)
    top = float(logs[-1])
    if not top > 0:
        raise InvalidInput(f"openmax needs distances that differ, got {len(tail)} of {lowest:g}")

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
    """Mean logits of each class (classes, classes), the tail of each class, and the weight of each rank (classes,)."""

    means: FloatArray
    tails: tuple[Tail, ...]
    weights: FloatArray

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Compute the probability (n,) of the unknown class."""
        table = check_logits(logits, who="openmax", classes=len(self.means))
        ranks = (-table).argsort(axis=1, kind="stable").argsort(axis=1)
        outside = np.stack(  # (n, classes) in [0, 1]
            [
                tail.below(np.linalg.norm(table - mean, axis=1))
                for tail, mean in zip(self.tails, self.means, strict=True)
            ],
            axis=1,
        )
        removed = table * self.weights[ranks] * outside  # what each class loses to the unknown class
        revised = np.column_stack([removed.sum(axis=1), table - removed])
        unknown: FloatArray = softmax(revised)[:, 0]
        return unknown


@dataclass(frozen=True, slots=True)
class OpenMax:
    """OpenMax: move logits from each class to an unknown class, the more the further the image is from the class.

    Each class has the mean logits of its correctly classified training images and a Weibull distribution of the `tail`
    highest Euclidean distances to it. The logits of the `alpha` highest classes are multiplied by 1 - weight * w, where
    w is that distribution's cumulative probability at the image's distance and weight falls with the rank,
    (alpha + 1 - rank) / alpha; what they lose is the unknown class's logit. Strangeness is its softmax probability.
    Source: Bendale & Boult 2016, Algorithms 1 and 2, with the weights of their code (as printed, weights are lower by
    1 / alpha and w is 1 minus ours, which would revise the most typical image most).

    Args:
        tail: Number of distances per class that the distribution is fitted to.
        alpha: Number of classes revised; None for all.

    Raises:
        InvalidInput: A setting is out of range.

    >>> logits = [[4.0, 0.0], [5.0, 0.0], [7.0, 0.0], [0.0, 4.0], [0.0, 5.0], [0.0, 7.0]]
    >>> OpenMax().fit(None, logits, [0, 0, 0, 1, 1, 1]).strangeness(None, [[90.0, 90.0]])
    array([1.])
    """

    tail: int = 20
    alpha: int | None = None

    def __post_init__(self) -> None:
        if self.tail < _FEWEST:
            raise InvalidInput(f"tail must be {_FEWEST} or more, got {self.tail}; 20 is the default")
        if self.alpha is not None and self.alpha < 1:
            raise InvalidInput(f"alpha must be 1 or more, got {self.alpha}; leave it out for all classes")

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> FittedOpenMax:
        """Fit to logits (N, classes) and labels (N,), at least three correctly classified images per class."""
        table = check_logits(logits, who="openmax")
        classes = table.shape[1]
        truth = check_labels(labels, rows=len(table), classes=classes, who="openmax", least=_FEWEST)
        alpha = classes if self.alpha is None else self.alpha
        if alpha > classes:
            raise InvalidInput(f"alpha must be at most the number of classes, {classes}, got {alpha}; leave it out")
        correct = table.argmax(axis=1) == truth
        table, truth = table[correct], truth[correct]
        counts = np.bincount(truth, minlength=classes)
        if counts.min() < _FEWEST:
            rarest = int(counts.argmin())
            raise InvalidInput(
                f"openmax needs at least {_FEWEST} correctly classified training images per class, "
                f"got {counts[rarest]} of class {rarest}; train longer or leave the class out"
            )
        means = class_means(table, truth)
        distances = np.linalg.norm(table - means[truth], axis=1)
        tails = tuple(fit_tail(distances[truth == index], size=self.tail) for index in range(classes))
        weights: FloatArray = np.maximum(alpha - np.arange(classes), 0) / alpha
        return FittedOpenMax(means, tails, weights)
