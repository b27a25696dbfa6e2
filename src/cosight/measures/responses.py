"""The responses of one observer: accuracy, shape bias, how evenly it uses the classes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, correctness, same_length
from cosight.measures.answers import NOT_SHOWN, Answers, CodeArray, common_trials, encode
from cosight.measures.arithmetic import BLOCK, Pairs, Weights, blocks, divide, summed
from cosight.measures.declarations import PairForm, SoloForm, declare, pair_forms, solo_forms

__all__ = [
    "Accuracy",
    "AccuracyDifference",
    "Entropy",
    "ShapeBias",
    "accuracy",
    "accuracy_difference",
    "response_entropy",
    "shape_bias",
    "shape_choices",
]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A share of trials."""

    value: float
    items: FloatArray  # 1 or 0 for each trial
    n: int


@declare(
    "accuracy",
    summary="The share of trials answered with the truth; a missing answer is wrong.",
    low=0,
    high=1,
    direction="higher",
    symmetric=None,
    needs=("responses", "truth"),
    citation="Geirhos et al. 2021, arXiv:2106.07411, where a missing answer is wrong too",
    aliases=("acc",),
)
def accuracy(response: ArrayLike, truth: ArrayLike) -> Accuracy:
    """The share of trials answered with the truth; a missing answer counts as wrong. nan without trials.

    >>> accuracy(["cat", "dog", None], ["cat", "cat", "cat"]).value
    0.3333333333333333
    """
    right = encode(response, truth=truth, names=("response",)).correct[0].astype(np.float64)
    return Accuracy(float(right.mean()) if len(right) else float("nan"), right, len(right))


@dataclass(frozen=True, slots=True)
class AccuracyDifference:
    """Accuracy of one observer less that of another on the same trials."""

    value: float
    items: FloatArray  # 1, 0 or -1 for each trial
    n: int


@declare(
    "accuracy_difference",
    summary="Accuracy of the first observer less that of the second, on common trials.",
    low=-1,
    high=1,
    direction="neither",
    symmetric=False,
    needs=("correctness",),
    citation="Geirhos et al. 2021, arXiv:2106.07411",
    aliases=("accdiff",),
)
def accuracy_difference(a_correct: ArrayLike, b_correct: ArrayLike) -> AccuracyDifference:
    """pA - pB over common trials: swapping the observers swaps the sign. nan without trials.

    >>> accuracy_difference([1, 1, 0, 1], [1, 0, 0, 0]).value
    0.5
    """
    a, b = correctness(a_correct, name="a_correct"), correctness(b_correct, name="b_correct")
    n = same_length(a_correct=a, b_correct=b)
    items = a.astype(np.float64) - b
    return AccuracyDifference(float(items.mean()) if n else float("nan"), items, n)


@dataclass(frozen=True, slots=True)
class ShapeBias:
    """Shape answers among shape and texture answers to cue-conflict images."""

    value: float
    shape: int
    texture: int
    n: int  # cue-conflict trials, whatever was answered


@declare(
    "shape_bias",
    summary="Shape answers as a share of shape and texture answers, on images where the two cues disagree.",
    low=0,
    high=1,
    direction="neither",
    symmetric=None,
    needs=("responses", "cues"),
    citation="Geirhos et al. 2019, arXiv:1811.12231",
)
def shape_bias(response: ArrayLike, shape: ArrayLike, texture: ArrayLike) -> ShapeBias:
    """shape / (shape + texture) over trials whose shape and texture classes differ.

    A trial without a texture is none of them. Undefined (nan) when no such trial was answered with either cue.

    >>> shape_bias(["cat", "dog", "car"], ["cat", "cat", "cat"], ["dog", "dog", "cat"]).value
    0.5
    """
    coded = encode(response, texture, truth=shape, names=("response", "texture"))
    conflict = (coded.truth != coded.response[1]) & (coded.response[1] >= 0)
    by_shape = int((coded.correct[0] & conflict).sum())
    by_texture = int(((coded.response[0] == coded.response[1]) & conflict).sum())
    total = by_shape + by_texture
    return ShapeBias(by_shape / total if total else float("nan"), by_shape, by_texture, int(conflict.sum()))


def shape_choices(answers: Answers, texture: CodeArray) -> Answers:
    """Cue-conflict answers as a choice between shape (1, the truth) and texture (0); anything else is no choice.

    `answers.truth` is the shape's class and `texture` the texture's; the share right of the result is the shape bias.
    """
    conflict = (answers.truth != texture) & (answers.truth >= 0) & (texture >= 0)
    choice = np.where(answers.response == texture, 0, NOT_SHOWN)
    choice = np.where(answers.response == answers.truth, 1, choice)
    choice[:, ~conflict] = NOT_SHOWN
    return Answers(choice.astype(np.int16), np.ones(answers.stimuli, dtype=np.int16), 2)


@dataclass(frozen=True, slots=True)
class Entropy:
    """How evenly the classes are used as answers."""

    value: float  # bits
    probabilities: FloatArray  # of each class among the answers
    n: int


@declare(
    "response_entropy",
    summary="Entropy in bits of the classes an observer answers with: low when a few answers dominate.",
    low=0,
    high=float("inf"),
    direction="neither",
    symmetric=None,
    needs=("responses", "truth"),
    citation="Geirhos et al. 2018, arXiv:1808.08750",
    aliases=("entropy",),
)
def response_entropy(response: ArrayLike, truth: ArrayLike) -> Entropy:
    """- sum over classes of s log2 s, s = the class' share of the answers; log2 C when all are used alike.

    The truth only says which classes exist. Missing answers are left out. nan without answers.

    >>> response_entropy(["a", "b", "a", "b"], ["a", "b", "c", "d"]).value
    1.0
    """
    coded = encode(response, truth=truth, names=("response",))
    counts = np.bincount(coded.response[0][coded.response[0] >= 0], minlength=coded.classes).astype(np.float64)
    n = int(counts.sum())
    return Entropy(float(_bits(counts)), counts / n if n else counts * np.nan, n)


def _bits(counts: FloatArray) -> FloatArray:
    """Entropy in bits of counts (..., classes)."""
    n = counts.sum(axis=-1)
    shares = divide(counts, np.broadcast_to(n[..., None], counts.shape))
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.asarray(np.where(n > 0, 0.0 - (shares * logs).sum(axis=-1), np.nan))


def _right_and_shown(answers: Answers, weights: Weights) -> FloatArray:
    parts = [np.asarray(x.astype(np.float32) @ weights.T, dtype=np.float64) for x in (answers.correct, answers.shown)]
    return np.stack(parts, axis=-1)


def _uses(answers: Answers, weights: Weights) -> FloatArray:
    row, stimulus = np.nonzero(answers.response >= 0)
    cells = row * answers.classes + answers.response[row, stimulus]
    counts = summed(cells, stimulus, np.ascontiguousarray(weights.T), answers.observers * answers.classes)
    return np.moveaxis(counts.reshape(answers.observers, answers.classes, len(weights)), 1, 2)


def _difference(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
    right, seen, columns = answers.correct, answers.shown, np.ascontiguousarray(weights.T)
    out = np.empty((len(pairs), len(weights)))
    for part in blocks(len(pairs), answers.stimuli, most=BLOCK):
        i, j = pairs[part].T
        both = seen[i] & seen[j]
        gain = (right[i] & both).astype(np.float32) - (right[j] & both)
        out[part] = divide((gain @ columns).astype(np.float64), (both.astype(np.float32) @ columns).astype(np.float64))
    return out


def _difference_matrix(answers: Answers) -> FloatArray:
    right, seen = answers.correct.astype(np.float32), answers.shown.astype(np.float32)
    gain = (right @ seen.T).astype(np.float64)
    return divide(gain - gain.T, (seen @ seen.T).astype(np.float64))


_SHARE_RIGHT = SoloForm(
    _right_and_shown,
    lambda totals: divide(totals[..., 0], totals[..., 1]),
    lambda answers: np.count_nonzero(answers.shown, axis=1).astype(np.float64),
)
solo_forms.add("accuracy", _SHARE_RIGHT)
solo_forms.add("shape_bias", replace(_SHARE_RIGHT, choices=shape_choices))
solo_forms.add(
    "response_entropy",
    SoloForm(_uses, _bits, lambda answers: np.count_nonzero(answers.response >= 0, axis=1).astype(np.float64)),
)
pair_forms.add("accuracy_difference", PairForm(_difference_matrix, _difference, common_trials, "no common trials"))
