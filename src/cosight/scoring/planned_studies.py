"""Intervals of studies that are planned: studies of that size are simulated and scored by the engine of `compare`.

A pilot gives the variance between people, between stimuli, and of single answers. Studies drawn with these variances
go through the same resampling, means and intervals as real ones, so a plan promises what `compare` delivers, whatever
the engine does. One call simulates many studies: every simulated model is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import polars as pl
from scipy.optimize import brentq
from scipy.special import ndtr

from cosight.arrays import FloatArray
from cosight.measures.answers import Answers
from cosight.measures.arithmetic import Pairs, Weights
from cosight.measures.declarations import PairForm
from cosight.measures.study_size import VarianceParts
from cosight.statistics.blocks import Block, join_blocks, rows_of
from cosight.statistics.contrasts import difference_rows
from cosight.statistics.pair_scores import pair_blocks, pairs_of
from cosight.statistics.resampling import ENOUGH_PEOPLE, Draw, draw_resamples
from cosight.statistics.rows import PEOPLE, Row
from cosight.trials.join import align, stimulus_groups
from cosight.trials.spaces import LabelSpace
from cosight.trials.table import make_trials

__all__ = ["PlannedStudy", "study_for_difference", "study_for_width"]

_MOST_TRIALS = 1_000_000  # that are considered
_STEPS = 8  # to find the number of trials; three or four are usual
_STUDIES = tuple(f"model:{study:03d}" for study in range(160))  # of one size; 40 put power off by .012
_STIMULI = 400  # at most in a simulated study; of more, each stands for several and varies less
_RESAMPLES = 1000  # the default of `compare`
_SPACE = LabelSpace("simulated", ("a", "b"))
_MEASURE = "error_consistency"  # any measure of pairs that has percentile intervals
_NOBODY = "model:none"  # the model that others differ from


@dataclass(frozen=True)
class PlannedStudy:
    """A study in which `people` people answer the same `trials` trials, and the variances of one number of it.

    Attributes:
        parts: Variances of one person's and trial's contribution, from a pilot. Negative ones count as zero.
        people: Number of people. Fewer than can be resampled are taken as the only people of interest.
        trials: Number of trials.
    """

    parts: VarianceParts
    people: int
    trials: int

    @classmethod
    def longest(cls, parts: VarianceParts, people: int) -> PlannedStudy:
        """Return the study with the most trials that are considered."""
        return cls(parts, people, _MOST_TRIALS)

    @property
    def variances(self) -> tuple[float, float]:
        """The variance that more trials do not reduce, and that of one trial."""
        between_people, stimuli, rest = self._parts
        of_people = between_people / self.people if self.people >= ENOUGH_PEOPLE else 0.0
        return of_people, stimuli + rest / self.people

    @property
    def standard_error(self) -> float:
        """The root of v_people / P + v_stimuli / n + v_rest / (P n): how much the number varies between studies."""
        of_people, of_trials = self.variances
        return math.sqrt(of_people + of_trials / self.trials)

    @property
    def _parts(self) -> tuple[float, float, float]:
        return max(self.parts.people, 0.0), max(self.parts.stimuli, 0.0), max(self.parts.rest, 0.0)

    @cached_property
    def _scored(self) -> Block:
        """What `compare` computes of the simulated studies, each the values of one model with people."""
        stimuli = min(self.trials, _STIMULI)
        draw, normal, scale = _draw_of(self.people, stimuli), _noise(self.people, stimuli), stimuli / self.trials
        sds = np.sqrt(np.array(self._parts) * [1, scale, scale])
        tables = sds[0] * normal[0] + sds[1] * normal[1] + sds[2] * normal[2]  # (studies, people, stimuli)
        values = dict(zip(_STUDIES, tables, strict=True))
        values[_NOBODY] = np.zeros(tables.shape[1:])
        pairs = pairs_of(np.array([name.startswith("human") for name in draw.names]), "human-model")
        return join_blocks(pair_blocks(draw, pairs, {_MEASURE: _linear_form(draw, values)}, 0.95))

    def relative_widths(self) -> FloatArray:
        """Return the half-widths of the mean's 95 % interval in simulated studies, in standard errors."""
        rows = rows_of(self._scored, confidence=0.95, seed=0)
        of_studies = [r for r in rows if r.statistic == "value" and r.against == PEOPLE and r.observer in _STUDIES]
        return _half_widths(of_studies) / self.standard_error

    def relative_widths_of_difference(self) -> FloatArray:
        """Return the half-widths of a difference's 95 % interval in simulated studies, in standard errors."""
        rows = [
            row
            for study in _STUDIES
            for row in difference_rows(self._scored, _MEASURE, {study, _NOBODY}, confidence=0.95, seed=0)
        ]
        return _half_widths(rows) / self.standard_error

    @property
    def width(self) -> float:
        """Mean width of the 95 % interval of the mean over people."""
        return 2 * float(self.relative_widths().mean()) * self.standard_error

    def power(self, difference: float) -> float:
        """Return the probability that the 95 % interval of a true difference of two models leaves out 0."""
        return _power(difference / self.standard_error, self.relative_widths_of_difference())


def study_for_width(parts: VarianceParts, *, people: int, width: float) -> PlannedStudy | None:
    """Return the study with the fewest trials whose mean over people has an interval of this width; None if none has.

    Args:
        parts: Variances from a pilot.
        people: Number of people.
        width: Width of the 95 % interval, end to end.
    """
    return _fewest_trials(parts, people, lambda study: width / 2 / float(study.relative_widths().mean()))


def study_for_difference(parts: VarianceParts, *, people: int, difference: float, power: float) -> PlannedStudy | None:
    """Return the study with the fewest trials that finds a difference of two models with this power; None if none does.

    Args:
        parts: Variances of the difference, from a pilot.
        people: Number of people.
        difference: The true difference.
        power: Probability that the 95 % interval leaves out 0.
    """

    def standard_error(study: PlannedStudy) -> float:
        limits = study.relative_widths_of_difference()
        if _power(0.0, limits) >= power:
            return math.inf  # chance alone finds it as often
        return difference / float(brentq(lambda x: _power(x, limits) - power, 0, 100))

    return _fewest_trials(parts, people, standard_error)


def _power(difference: float, limits: FloatArray) -> float:
    """Compute the mean probability to exceed the limits; everything in standard errors."""
    return float((ndtr(difference - limits) + ndtr(-difference - limits)).mean())


def _fewest_trials(parts: VarianceParts, people: int, needed: Callable[[PlannedStudy], float]) -> PlannedStudy | None:
    """Find the fewest trials with which the standard error is as small as needed.

    Args:
        parts: Variances from a pilot.
        people: Number of people.
        needed: The standard error needed, given how wide intervals are in a study. It hardly changes with the trials.
    """
    study = PlannedStudy.longest(parts, people)
    for _ in range(_STEPS):
        of_people, of_trials = study.variances
        room = needed(study) ** 2 - of_people
        if room <= of_trials / _MOST_TRIALS:
            return None
        trials = max(2, math.ceil(of_trials / room))
        if abs(trials - study.trials) <= trials / 500:
            break
        study = PlannedStudy(parts, people, trials)
    return study


def _half_widths(rows: Sequence[Row]) -> FloatArray:
    return np.array([(row.high - row.low) / 2 for row in rows if row.low is not None and row.high is not None])


@lru_cache(maxsize=4)
def _draw_of(people: int, stimuli: int) -> Draw:
    """Draw the resamples of a study, as `compare` does. The answers themselves are not read."""
    observers = [*(f"human:{person:03d}" for person in range(people)), *_STUDIES, _NOBODY]
    images = pl.DataFrame({"image": [f"{stimulus:05d}.png" for stimulus in range(stimuli)]})
    frame = images.join(pl.DataFrame({"observer": observers}), how="cross").with_columns(
        kind=pl.col("observer").str.split(":").list.first(),
        experiment=pl.lit("planned"),
        truth=pl.lit("a"),
        response=pl.lit("a"),
    )
    table = align(make_trials(frame, space=_SPACE))
    return draw_resamples(table, stimulus_groups(table, ())[0], resamples=_RESAMPLES, seed=0, merge=False)


@lru_cache(maxsize=4)
def _noise(people: int, stimuli: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw the standard normal effects of people, stimuli and single answers in every study, always the same."""
    rng = np.random.default_rng(0)
    return (
        rng.standard_normal((len(_STUDIES), people, 1)),
        rng.standard_normal((len(_STUDIES), 1, stimuli)),
        rng.standard_normal((len(_STUDIES), people, stimuli)),
    )


def _linear_form(draw: Draw, values: Mapping[str, FloatArray]) -> PairForm:
    """Return the form of a measure that is a mean over trials: of each model's `values` (people, stimuli)."""
    row_of = {name: row for row, name in enumerate(name for name in draw.names if name not in values)}

    def tables(pairs: Pairs) -> FloatArray:
        return np.stack([values[draw.names[model]][row_of[draw.names[person]]] for model, person in pairs])

    def matrix(answers: Answers) -> FloatArray:
        means = np.zeros((answers.observers, answers.observers))
        people = [draw.names.index(name) for name in row_of]
        for row, name in enumerate(draw.names):
            if name in values:
                means[row, people] = values[name].mean(axis=1)
        return means

    def resampled(answers: Answers, weights: Weights, pairs: Pairs) -> FloatArray:
        means: FloatArray = tables(pairs) @ weights.T / weights.sum(axis=1)
        return means

    def count(answers: Answers, pairs: Pairs) -> FloatArray:
        return np.full(len(pairs), float(answers.stimuli))

    return PairForm(matrix, resampled, count, "")
