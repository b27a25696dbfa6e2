"""Six measures of all pairs of models, from error consistency to representations, compared with a loop over pairs.

The loop calls the function of one pair for every pair and measure. It is timed on some pairs, and `against` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from time import process_time

import numpy as np
from numpy.typing import NDArray

from cosight.measures import (
    class_level_error_similarity,
    class_level_error_similarity_matrix,
    error_consistency,
    error_consistency_matrix,
    linear_cka,
    linear_cka_matrix,
    misclassification_agreement,
    misclassification_agreement_matrix,
    soc_matrix,
    softmax_output_consistency,
    softmax_output_consistency_on_errors,
)
from cosight.measures.answers import Answers
from perf.lines import Line, study
from tests.measures.simulated import pairs_of

__all__ = ["FULL", "Size", "all_pairs", "lines", "models", "pair_loop"]


@dataclass(frozen=True, slots=True)
class Size:
    """How much work; the limit holds for FULL."""

    models: int
    trials: int
    width: int  # of the features
    sampled_pairs: int  # that the loop is timed on


FULL = Size(60, 10_000, 512, 8)


@dataclass(frozen=True, slots=True, eq=False)
class Models:
    """Answers, probabilities and features of so many models."""

    answers: Answers
    probabilities: NDArray[np.float32]  # (models, trials, classes)
    features: list[NDArray[np.float32]]  # (trials, width) each


def models(size: Size) -> Models:
    """Models whose probabilities fit their answers, and whose features share a quarter of their dimensions."""
    rng = np.random.default_rng(0)
    answers = study(size.models, size.trials)
    logits = rng.normal(size=(size.models, size.trials, answers.classes)).astype(np.float32)
    np.put_along_axis(logits, answers.response[:, :, None].astype(np.int64), logits.max() + 1, axis=2)
    probabilities = np.exp(logits)
    probabilities /= probabilities.sum(axis=2, keepdims=True)
    shared = rng.normal(size=(size.trials, size.width // 4)).astype(np.float32)
    features = []
    for _ in range(size.models):
        own = rng.normal(size=(size.trials, size.width - shared.shape[1])).astype(np.float32)
        features.append(np.concatenate([shared, own], axis=1))
    return Models(answers, probabilities, features)


def all_pairs(data: Models) -> dict[str, NDArray[np.float64]]:
    """Compute the matrix (models, models) of each measure."""
    correct = data.answers.correct
    return {
        "ec": error_consistency_matrix(correct),
        "ma": misclassification_agreement_matrix(data.answers),
        "cles": class_level_error_similarity_matrix(data.answers),
        "soc": soc_matrix(data.probabilities),
        "soce": soc_matrix(data.probabilities, correct),
        "cka": linear_cka_matrix(data.features),
    }


def pair_loop(data: Models, pairs: NDArray[np.int64]) -> dict[str, list[float]]:
    """Compute the measures pair by pair."""
    answers, correct, truth = data.answers, data.answers.correct, data.answers.truth
    classes = list(range(answers.classes))
    found: dict[str, list[float]] = {name: [] for name in ("ec", "ma", "cles", "soc", "soce", "cka")}
    for i, j in pairs.tolist():
        a, b = answers.response[i], answers.response[j]
        p, q = data.probabilities[i], data.probabilities[j]
        found["ec"].append(error_consistency(correct[i], correct[j]).value)
        found["ma"].append(misclassification_agreement(a, b, truth).value)
        found["cles"].append(class_level_error_similarity(a, b, truth, classes=classes).value)
        found["soc"].append(softmax_output_consistency(p, q).value)
        found["soce"].append(softmax_output_consistency_on_errors(p, q, correct[i], correct[j]).value)
        found["cka"].append(linear_cka(data.features[i], data.features[j]).value)
    return found


def lines(size: Size) -> Iterator[Line]:
    """The line about all six measures."""
    data, pairs = models(size), pairs_of(size.models)
    chosen = pairs[:: max(1, len(pairs) // size.sampled_pairs)][: size.sampled_pairs]
    ours = _seconds(partial(all_pairs, data))
    theirs = _seconds(partial(pair_loop, data, chosen)) * len(pairs) / len(chosen)
    name = f"EC, MA, CLES, SOC, SOCE and CKA of all pairs, {size.models} models x {size.trials:,}"
    against = f"the function of each measure pair by pair, {len(chosen)} of {len(pairs):,} pairs timed"
    yield Line(f"{name}, {size.width} features", against, ours, theirs, 3, faster=True)


def _seconds(function: partial[object]) -> float:
    start = process_time()  # both sides have one thread and wait for nothing
    function()
    return process_time() - start
