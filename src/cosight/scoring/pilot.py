"""What a pilot study tells a plan: values, the influence of each stimulus on them, and their variances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cosight.arrays import BoolArray, FloatArray
from cosight.errors import InvalidInput
from cosight.measures.answers import Answers
from cosight.measures.power import kappa_influence, misclassification_influence
from cosight.measures.study_size import VarianceParts, variance_parts
from cosight.trials.join import AlignedTrials

__all__ = [
    "ACCURACY",
    "EC",
    "MA",
    "PilotPairs",
    "difference_influences",
    "difference_parts",
    "estimate_pairs",
    "mean_accuracy",
    "observer_indices",
    "people_and_models",
]

ACCURACY, EC, MA = "accuracy", "error_consistency", "misclassification_agreement"  # measures with a known influence


@dataclass(frozen=True, slots=True, eq=False)
class _Estimate:
    """A measure of one or two observers in the pilot, and what each stimulus contributes to its error."""

    value: float
    influence: FloatArray  # (stimuli,), mean 0; 0 for stimuli that were not met
    met: int  # stimuli that were

    @classmethod
    def of(cls, value: float, influence: FloatArray, met: BoolArray) -> _Estimate:
        """Return the estimate of the stimuli met, with their influences scaled to the number of all stimuli."""
        scaled = np.full(len(met), math.nan if math.isnan(value) else 0.0)
        scaled[met] = influence * (len(met) / max(int(met.sum()), 1))
        return cls(value, scaled, int(met.sum()))

    @property
    def variance(self) -> float:
        """Of one stimulus that was met; nan with fewer than two."""
        scale = self.met / len(self.influence)
        return float(np.sum((self.influence * scale) ** 2)) / (self.met - 1) if self.met > 1 else math.nan


@dataclass(frozen=True, slots=True, eq=False)
class PilotPairs:
    """The pairs of a pilot for which a measure is defined."""

    pairs: list[tuple[int, int]]
    values: list[float]
    variances: list[float]  # of one stimulus
    jointly_wrong: list[float]  # fraction of the trials that both observers met
    totals: dict[int, FloatArray]  # by the first observer: value plus influence (stimuli,), summed over the second

    @property
    def sd(self) -> float:
        """Standard deviation of one stimulus, for a typical pair."""
        return math.sqrt(float(np.mean(self.variances)))

    @property
    def sd_of_mean(self) -> float:
        """Standard deviation of one stimulus, for the mean over the pairs."""
        return float(np.std(sum(self.totals.values(), np.zeros(1)) / len(self.pairs), ddof=1))

    @property
    def by_first(self) -> FloatArray:
        """The mean over the second observers for each first observer, (first observers, stimuli)."""
        counts = [sum(pair[0] == first for pair in self.pairs) for first in self.totals]
        return np.stack([total / count for total, count in zip(self.totals.values(), counts, strict=True)])

    def side(self, which: int) -> list[int]:
        """Return the first (0) or the second (1) observers."""
        return sorted({pair[which] for pair in self.pairs})


def observer_indices(pilot: AlignedTrials, names: Sequence[str]) -> list[int]:
    """Return the indices of the observers called `names`."""
    for name in names:
        if name not in pilot.observers:
            known = ", ".join(pilot.observers[:8]) + (", ..." if len(pilot.observers) > 8 else "")
            raise InvalidInput(f"observers must be in the pilot, got {name!r}; it has {known}")
    if len(set(names)) < len(names):
        raise InvalidInput(f"observers must differ, got {', '.join(names)}")
    return [pilot.observers.index(name) for name in names]


def people_and_models(pilot: AlignedTrials) -> tuple[list[int], list[int]]:
    """Return the indices of people and of models; simulated people only where there are no others."""
    real = pilot.people & ~pilot.simulated
    people = real if real.any() else pilot.people
    return np.flatnonzero(people).tolist(), np.flatnonzero(~pilot.people).tolist()


def estimate_pairs(measure: str, answers: Answers, pairs: Sequence[tuple[int, int]]) -> PilotPairs:
    """Estimate a measure of every pair; pairs for which it is undefined are left out.

    Influences are kept as sums, because those of every pair would not fit into memory for many models and stimuli.
    """
    estimates = PilotPairs([], [], [], [], {})
    for i, j in pairs:
        estimate = _estimate_pair(measure, answers, i, j)
        if math.isnan(estimate.variance):
            continue
        estimates.pairs.append((i, j))
        estimates.values.append(estimate.value)
        estimates.variances.append(estimate.variance)
        estimates.jointly_wrong.append(np.count_nonzero(answers.wrong[i] & answers.wrong[j]) / estimate.met)
        estimates.totals[i] = estimates.totals.get(i, 0.0) + estimate.value + estimate.influence
    return estimates


def mean_accuracy(pilot: AlignedTrials, observers: Sequence[int]) -> float:
    """Return the mean over observers of their accuracy."""
    index = list(observers)
    if pilot.simulated[index].any() and (pilot.people & ~pilot.simulated)[index].any():
        raise InvalidInput("simulated and real people must not share a mean, got both; name only one kind")
    accuracies = [_estimate_accuracy(pilot.answers, i).value for i in index]
    if not accuracies or np.isnan(accuracies).any():
        raise InvalidInput("a pilot must have trials with a known truth for each observer, got none; give --accuracy")
    return float(np.mean(accuracies))


def difference_influences(
    measure: str, answers: Answers, people: Sequence[int], models: Sequence[int]
) -> tuple[FloatArray, list[int]]:
    """Compute the influence of each stimulus on each model's value, mean over people.

    Returns:
        The influences, (models, stimuli), and the people for whom the measure is defined with every model; none for
        accuracy, which is not about people.
    """
    if measure == ACCURACY:
        return np.stack([_estimate_accuracy(answers, i).influence for i in models]), []
    total, used = np.zeros((len(models), answers.stimuli)), []
    for person in people:
        influence = np.stack([_estimate_pair(measure, answers, person, model).influence for model in models])
        if not np.isnan(influence).any():
            total += influence
            used.append(person)
    if not used:
        raise InvalidInput(f"a pilot must define {measure} of each model with some person, got none; give --sd instead")
    return total / len(used), used


def difference_parts(
    measure: str, answers: Answers, people: Sequence[int], models: Sequence[int]
) -> VarianceParts | None:
    """Estimate the variance parts of the difference of two models with people, mean over the pairs of models.

    Args:
        measure: EC or MA.
        answers: The pilot's answers.
        people: People for whom the measure is defined with every model.
        models: Two models or more.

    Returns:
        The parts; None with fewer than two people, and where an observer has not met every stimulus.
    """
    if len(people) < 2 or not answers.of([*people, *models]).shown.all():
        return None

    def table(model: int) -> FloatArray:
        estimates = [_estimate_pair(measure, answers, person, model) for person in people]
        return np.stack([estimate.value + estimate.influence for estimate in estimates])

    # the mean over pairs of models of what is quadratic in their difference: twice the variance among models
    mean = sum((table(model) for model in models), np.zeros(1)) / len(models)
    parts = [variance_parts(table(model) - mean) for model in models]
    sums = (sum(getattr(part, name) for part in parts) for name in ("people", "stimuli", "rest"))
    return VarianceParts(0.0, *(2 * total / (len(models) - 1) for total in sums))


def _estimate_pair(measure: str, answers: Answers, i: int, j: int) -> _Estimate:
    two = answers.of([i, j])
    met = np.asarray(two.shown.all(axis=0))
    found = misclassification_influence(two) if measure == MA else kappa_influence(*two.correct[:, met])
    return _Estimate.of(found.value, found.items, met)


def _estimate_accuracy(answers: Answers, i: int) -> _Estimate:
    met, correct = answers.shown[i], answers.correct[i].astype(np.float64)
    accuracy = float(correct[met].mean()) if met.any() else math.nan
    return _Estimate.of(accuracy, correct[met] - accuracy, met)
