"""How spread is the softmax? SP (one network), Deep Ensemble (several) and the prediction of several as one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.measures.distance import entropy
from cosight.models.abstention.inputs import checked_logits, checked_members

__all__ = ["DeepEnsemble", "SoftmaxProbability", "member_entropy", "member_prediction", "softmax"]


def softmax(logits: FloatArray) -> FloatArray:
    """Probabilities over the last axis; the input is not checked.

    >>> softmax(np.array([0.0, 0.0]))
    array([0.5, 0.5])
    """
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: FloatArray = powers / powers.sum(axis=-1, keepdims=True)
    return shares


@dataclass(frozen=True, slots=True)
class SoftmaxProbability:
    """SP: the entropy of the softmax over the classes, in nats. It learns nothing from training images.

    Source: Lee et al. 2023, section 5.1.

    >>> SoftmaxProbability().strangeness(None, [[0.0, 0.0], [9.0, -9.0]]).round(6)
    array([0.693147, 0.      ])
    """

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> SoftmaxProbability:
        """Itself."""
        return self

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Entropy (n,) of the softmax of logits (n, classes)."""
        return entropy(softmax(checked_logits(logits, who="sp")))


def member_entropy(logits: ArrayLike | None, *, who: str) -> FloatArray:
    """Mean over members of the entropy of each one's softmax: (members, n, classes) -> (n,), in nats.

    It sees how unsure the members are, not whether they agree: members sure of different classes give 0.
    """
    found: FloatArray = entropy(softmax(checked_members(logits, who=who))).mean(axis=0)
    return found


def member_prediction(logits: ArrayLike) -> FloatArray:
    """The members' answer as one: the mean of their softmaxes, (members, n, classes) -> (n, classes).

    >>> member_prediction([[[50.0, 0.0]], [[0.0, 50.0]]])
    array([[0.5, 0.5]])
    """
    shares: FloatArray = softmax(checked_members(logits, who="a prediction of members")).mean(axis=0)
    return shares


@dataclass(frozen=True, slots=True)
class DeepEnsemble:
    """Deep Ensemble: the mean over members, trained alike from different seeds, of the entropy of each one's softmax.

    Source: Lakshminarayanan et al. 2017; Lee et al. 2023, section 5.1 (five members).
    """

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> DeepEnsemble:
        """Itself."""
        return self

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Mean entropy (n,) of logits (members, n, classes)."""
        found = member_entropy(logits, who="deep-ensemble")
        if (members := len(np.asarray(logits))) < 2:
            raise InvalidInput(f"deep-ensemble needs two members or more, got {members}; use sp for one")
        return found
