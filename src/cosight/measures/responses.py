"""The responses of one observer: accuracy, shape bias, how evenly it uses the classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, correctness, same_length
from cosight.measures.answers import NOT_SHOWN, Answers, CodeArray, common_trials, encode
from cosight.measures.arithmetic import BLOCK, Pairs, Weights, blocks, divide, mean_or_nan, summed
from cosight.measures.declarations import PairForm, SoloForm, declare, pair_forms, solo_forms

__all__ = [
    "Accuracy",
    "AccuracyDifference",
    "AnswerShare",
    "Entropy",
    "ShapeBias",
    "accuracy",
    "accuracy_difference",
    "answer_share",
    "response_entropy",
    "shape_bias",
    "shape_choices",
]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The fraction of trials answered correctly."""

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
    share=True,
)
def accuracy(response: ArrayLike, truth: ArrayLike) -> Accuracy:
    """Compute the fraction of trials answered with the truth; a missing answer counts as wrong.

    Args:
        response: The answered class, one per trial; None, nan, "" and "na" are no answer.
        truth: The true class, one per trial.

    Returns:
        The accuracy and its items; nan without trials.

    Raises:
        InvalidInput: If a truth is missing, or the lengths differ.

    >>> accuracy(["cat", "dog", None], ["cat", "cat", "cat"]).value
    0.3333333333333333
    """
    right = encode(response, truth=truth, names=("response",)).correct[0].astype(np.float64)
    return Accuracy(mean_or_nan(right), right, len(right))


@dataclass(frozen=True, slots=True)
class AnswerShare:
    """The share of one answer among the answers to one class."""

    value: float
    items: FloatArray  # 1 or 0 for each answer to the class
    n: int


@declare(
    "answer_share",
    summary="The share of one answer among an observer's answers to one class: a cell of the confusion matrix.",
    low=0,
    high=1,
    direction="neither",
    symmetric=None,
    needs=("responses", "truth"),
    citation="Geirhos et al. 2018, whose confusion matrices have these shares",
    share=True,
)
def answer_share(response: ArrayLike, truth: ArrayLike, *, shown: Any = None, answer: Any = None) -> AnswerShare:
    """Compute the share of one answer among the answers to one class; missing answers are left out.

    Args:
        response: The answered class, one per trial; None, nan, "" and "na" are no answer.
        truth: The true class, one per trial.
        shown: The true class to look at (default: that of the first trial).
        answer: The answer to count (default: the class that was shown).

    Returns:
        The share and its items; nan where the class has no answer.

    Raises:
        InvalidInput: If a truth is missing, or the lengths differ.

    >>> answer_share(["cat", "dog", "dog"], ["cat", "cat", "dog"], shown="cat", answer="dog").value
    0.5
    """
    truths, responses = np.asarray(truth), np.asarray(response)
    coded = encode(responses, truth=truths, names=("response",))
    shown = truths[0] if shown is None and len(truths) else shown
    answer = shown if answer is None else answer
    asked = (coded.response[0] >= 0) & (truths == shown)
    given = (responses[asked] == answer).astype(np.float64)
    return AnswerShare(mean_or_nan(given), given, len(given))


@dataclass(frozen=True, slots=True)
class AccuracyDifference:
    """Accuracy of one observer minus that of another on the same trials."""

    value: float
    items: FloatArray  # 1, 0 or -1 for each trial
    n: int


@declare(
    "accuracy_difference",
    summary="Accuracy of the first observer minus that of the second, on common trials.",
    low=-1,
    high=1,
    direction="neither",
    symmetric=False,
    needs=("correctness",),
    citation="Geirhos et al. 2021, arXiv:2106.07411",
    aliases=("accdiff",),
)
def accuracy_difference(a_correct: ArrayLike, b_correct: ArrayLike) -> AccuracyDifference:
    """Compute pA - pB over common trials; swapping the observers swaps the sign.

    Args:
        a_correct: Whether the first observer was right, one value per trial.
        b_correct: The same for the second observer, in the same order.

    Returns:
        The difference and its items; nan without trials.

    Raises:
        InvalidInput: If a value is not true/false or 0/1, or the lengths differ.

    >>> accuracy_difference([1, 1, 0, 1], [1, 0, 0, 0]).value
    0.5
    """
    a, b = correctness(a_correct, name="a_correct"), correctness(b_correct, name="b_correct")
    n = same_length(a_correct=a, b_correct=b)
    items = a.astype(np.float64) - b
    return AccuracyDifference(mean_or_nan(items), items, n)


@dataclass(frozen=True, slots=True)
class ShapeBias:
    """The fraction of shape answers among shape and texture answers to cue-conflict images."""

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
    share=True,
)
def shape_bias(response: ArrayLike, shape: ArrayLike, texture: ArrayLike) -> ShapeBias:
    """Compute shape / (shape + texture) over trials whose shape and texture classes differ.

    Args:
        response: The answered class, one per trial.
        shape: The class of each image's shape.
        texture: The class of each image's texture; trials without one are left out.

    Returns:
        The bias and the counts it is made of; nan when no such trial was answered with either cue.

    Raises:
        InvalidInput: If a shape is missing, or the lengths differ.

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
    """Return cue-conflict answers as a choice between shape (1, the truth) and texture (0).

    Any other answer is no choice, so that the accuracy of the result is the shape bias.

    Args:
        answers: Answers whose truth is the class of the shape.
        texture: Code of the texture's class, one per stimulus.

    Returns:
        Answers of two classes, of which 1 is right. A stimulus with any other answer counts as not shown.

    >>> answers = encode(["cat", "car", "dog"], truth=["cat", "cat", "cat"])  # codes: car 0, cat 1, dog 2
    >>> shape_choices(answers, np.array([0, 0, 0], dtype=np.int16)).response  # the texture is that of a car
    array([[ 1,  0, -2]], dtype=int16)
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
    probabilities: FloatArray  # (classes,) frequency of each class among the answers
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
    """Compute - sum over classes of p log2 p, p the frequency of a class among the answers.

    It is log2 C when all C classes are used equally often. Missing answers are left out.

    Args:
        response: The answered class, one per trial.
        truth: The true class, one per trial; it only says which classes exist.

    Returns:
        The entropy in bits and the frequencies; nan without answers.

    Raises:
        InvalidInput: If a truth is missing, or the lengths differ.

    >>> response_entropy(["a", "b", "a", "b"], ["a", "b", "c", "d"]).value
    1.0
    """
    coded = encode(response, truth=truth, names=("response",))
    counts = np.bincount(coded.response[0][coded.response[0] >= 0], minlength=coded.classes).astype(np.float64)
    n = int(counts.sum())
    return Entropy(float(_bits(counts)), counts / n if n else counts * np.nan, n)


def _bits(counts: FloatArray) -> FloatArray:
    """Compute the entropy in bits of counts (..., classes)."""
    n = counts.sum(axis=-1)
    p = divide(counts, np.broadcast_to(n[..., None], counts.shape))
    logs = np.log2(p, out=np.zeros_like(p), where=p > 0)
    return np.asarray(np.where(n > 0, 0.0 - (p * logs).sum(axis=-1), np.nan))


def _correct_and_shown(answers: Answers, weights: Weights) -> FloatArray:
    """Count right answers and trials; (observers, resamples, 2)."""
    parts = [np.asarray(x.astype(np.float32) @ weights.T, dtype=np.float64) for x in (answers.correct, answers.shown)]
    return np.stack(parts, axis=-1)


def _class_counts(answers: Answers, weights: Weights) -> FloatArray:
    """Count how often each class is answered; (observers, resamples, classes)."""
    row, stimulus = np.nonzero(answers.response >= 0)
    cells = row * answers.classes + answers.response[row, stimulus]
    counts = summed(cells, stimulus, np.ascontiguousarray(weights.T), answers.observers * answers.classes)
    return np.moveaxis(counts.reshape(answers.observers, answers.classes, len(weights)), 1, 2)


def _difference_resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
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


_ACCURACY_FORM = SoloForm(
    _correct_and_shown,
    lambda totals: divide(totals[..., 0], totals[..., 1]),
    lambda answers: np.count_nonzero(answers.shown, axis=1).astype(np.float64),
)
solo_forms.add("accuracy", _ACCURACY_FORM)
solo_forms.add("shape_bias", replace(_ACCURACY_FORM, choices=shape_choices))
solo_forms.add(
    "response_entropy",
    SoloForm(_class_counts, _bits, lambda answers: np.count_nonzero(answers.response >= 0, axis=1).astype(np.float64)),
)
pair_forms.add(
    "accuracy_difference", PairForm(_difference_matrix, _difference_resampled, common_trials, "no common trials")
)
