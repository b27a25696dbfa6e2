"""Simulated studies of a planned size: does `compare` deliver what `plan` promises?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

import cosight
from cosight.measures.answers import Answers
from cosight.trials import LabelSpace, Trials, make_trials
from tests.measures.simulated import LURES, Population, answer, observers, population_mean

__all__ = ["MODELS", "POPULATION", "Delivered", "deliver", "simulate", "trials_of", "true_difference"]

POPULATION = Population(0.75)
MODELS = observers([0.75, 0.7], shared=0.5, follow=0.3)
MODELS.shared[:] = 0.6, 0.35  # the first errs more where people err
MODELS.follow[:] = 0.5, 0.2  # and more as they do
SPACE = LabelSpace("simulated", tuple(f"class-{i:02d}" for i in range(len(LURES))))
_NAMES = {"ec": "error_consistency", "ma": "misclassification_agreement"}


def true_difference(measure: str) -> float:
    """How much closer to the population the first model is than the second."""
    first, second = (population_mean(measure, POPULATION, model=MODELS.of(np.array([i]))) for i in (0, 1))
    return first - second


def trials_of(answers: Answers) -> Trials:
    """Answers of people and, last, of the two models as trials."""
    people = answers.observers - 2
    names = [*(f"human:{person:03d}" for person in range(people)), "model:a", "model:b"]
    classes = pl.Series(SPACE.classes)
    shared = pl.DataFrame({"image": [f"{i:05d}.png" for i in range(answers.stimuli)], "truth": classes[answers.truth]})
    frames = [
        shared.with_columns(
            classes[row].alias("response"),
            observer=pl.lit(name),
            kind=pl.lit(name.split(":")[0]),
            experiment=pl.lit("one"),
        )
        for name, row in zip(names, answers.response, strict=True)
    ]
    return make_trials(pl.concat(frames), space=SPACE)


def simulate(people: int, stimuli: int, rng: np.random.Generator) -> Trials:
    """A study with so many new people, and the two models."""
    return trials_of(answer(POPULATION.draw(people, rng).with_(MODELS), stimuli, rng))


@dataclass(frozen=True, slots=True)
class Delivered:
    """What simulated studies came to."""

    power: float  # share of studies that find the difference
    width: float  # mean width of the interval of the mean over people and models


def deliver(
    measure: str, *, people: int, stimuli: int, studies: int, resamples: int = 1000, seed: int = 0
) -> Delivered:
    """Run `compare` on studies of one size."""
    found, widths = [], []
    for study in range(studies):
        trials = simulate(people, stimuli, np.random.default_rng((seed, study)))
        scores = cosight.compare(trials, measure=[measure], pairs="human-model", resamples=resamples, seed=study)
        rows = {(row.observer, row.statistic): row for row in scores.rows if row.measure == _NAMES[measure]}
        difference = rows["model:a", "difference"]
        mean = rows["models", "value"]
        found.append(difference.p <= 0.05 and difference.value > 0)
        widths.append(mean.high - mean.low)
    return Delivered(float(np.mean(found)), float(np.mean(widths)))
