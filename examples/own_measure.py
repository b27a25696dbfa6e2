"""Add a measure of your own, with intervals, ceilings and ranks.

`same_answer` is the fraction of stimuli to which two observers give the same answer, right or wrong. The function is
the definition. The pair form computes it for all pairs and for all resamples at once; the rest needs no code.
"""

from dataclasses import dataclass

import numpy as np

import cosight
from cosight.measures import PairForm, common_trials, declare, pair_forms


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often two observers give the same answer."""

    value: float


@declare(
    "same_answer",
    summary="Fraction of stimuli to which two observers give the same answer, right or wrong.",
    low=0,
    high=1,
    direction="higher",
    symmetric=True,
    needs=("responses",),
    citation="this example",
    share=True,
)
def same_answer(a, b):
    """Return the fraction of equal answers.

    >>> same_answer(["cat", "dog"], ["cat", "cow"]).value
    0.5
    """
    return Agreement(float(np.mean(np.asarray(a) == np.asarray(b))))


def same(answers, pairs):
    """Where both saw the stimulus, and where they gave the same answer; (pairs, stimuli) each."""
    a, b = answers.response[pairs[:, 0]], answers.response[pairs[:, 1]]
    seen = answers.shown[pairs[:, 0]] & answers.shown[pairs[:, 1]]
    return seen, seen & (a == b) & (a >= 0)


def matrix(answers):
    """The measure of all pairs, (observers, observers)."""
    every = np.indices((answers.observers, answers.observers)).reshape(2, -1).T
    seen, equal = same(answers, every)
    return (equal.sum(1) / seen.sum(1)).reshape(answers.observers, -1)


def resampled(answers, weights, pairs):
    """The measure in every resample, (pairs, resamples). A weight says how often a stimulus was drawn."""
    seen, equal = same(answers, pairs)
    return (equal @ weights.T) / (seen @ weights.T)


pair_forms.add("same_answer", PairForm(matrix, resampled, common_trials, "no common trials"))

print(cosight.compare("sample:edges", measure="same_answer", resamples=200))
