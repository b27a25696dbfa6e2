"""A simulated panel: a model of people's answers to corrupted digits, until real people have answered.

Its numbers were set by eye from a sheet of the corruptions, before any classifier was run on them, and everything made
with it is called simulated.

A person names the digit with a probability that falls with severity as a logistic function; the midpoint is that of
the corruption, shifted by the difficulty of the image and the acuity of the person. A person who does not see the digit
abstains or guesses one that looks similar. A small fraction of answers is random (lapses).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from scipy.special import expit

from cosight.arrays import FloatArray, IntArray
from cosight.errors import InvalidInput
from cosight.stimuli.kinds import stimulus_rng
from cosight.stimuli.sets import StimulusSet
from cosight.trials.spaces import ABSTAIN, LabelSpace, label_spaces
from cosight.trials.table import Trials, make_trials

__all__ = ["CONFUSIONS", "MIDPOINTS", "PANEL_SIZE", "Panel", "simulated_trials"]

PANEL_SIZE = 134  # Lee et al. 2023: valid answers per image

# The severity at which half the panel still names the digit, by eye.
MIDPOINTS: Mapping[str, float] = {
    "gaussian_noise": 7.0,
    "shot_noise": 6.0,
    "impulse_noise": 6.8,
    "glass_blur": 9.0,
    "defocus_blur": 8.5,
    "motion_blur": 9.5,
    "zoom_blur": 9.5,
    "fog": 6.5,
    "frost": 9.0,
    "snow": 9.0,
    "contrast": 8.5,
    "brightness": 10.0,
    "jpeg_compression": 10.5,
    "pixelate": 5.5,
    "elastic_transform": 9.6,
    "cropping": 3.8,
}
# Digits that each digit is mistaken for, likeliest first; the k-th has a weight of 1 / k.
CONFUSIONS: Mapping[str, str] = {
    "0": "698",
    "1": "74",
    "2": "731",
    "3": "859",
    "4": "917",
    "5": "368",
    "6": "058",
    "7": "192",
    "8": "396",
    "9": "473",
}


@dataclass(frozen=True, slots=True)
class Panel:
    """The parameters of the model. The defaults never change."""

    people: int = PANEL_SIZE  # number of simulated persons who answer each image
    seed: int = 0  # of persons and answers
    slope: float = 1.5  # logits per step of severity
    person_sd: float = 0.7  # between persons, in steps of severity
    image_sd: float = 0.5  # between images of one kind and severity, in steps of severity
    guesses: float = 0.3  # probability of naming a digit without seeing it
    lapse: float = 0.02  # probability of a random answer
    midpoints: Mapping[str, float] = field(default_factory=lambda: dict(MIDPOINTS))
    confusions: Mapping[str, str] = field(default_factory=lambda: dict(CONFUSIONS))

    def __post_init__(self) -> None:
        if self.people < 1 or self.slope <= 0 or min(self.person_sd, self.image_sd) < 0:
            raise InvalidInput(
                f"people must be 1 or more, slope above 0, person_sd and image_sd 0 or more, got {self.people}, "
                f"{self.slope:g}, {self.person_sd:g} and {self.image_sd:g}"
            )
        if not (0 <= self.guesses <= 1 and 0 <= self.lapse <= 1):
            raise InvalidInput(f"guesses and lapse must lie in [0, 1], got {self.guesses:g} and {self.lapse:g}")

    @property
    def space(self) -> LabelSpace:
        """Return the label space: ten digits and abstain."""
        return label_spaces["digits-11"]

    def distribution(self, kind: str, severity: int, digit: str, ease: FloatArray | float = 0.0) -> FloatArray:
        """Return the probabilities of the 11 answers, last axis; `ease` shifts the midpoint, by person and image.

        >>> Panel().distribution("fog", 1, "3").round(2)[3]
        np.float64(0.98)
        """
        if kind not in self.midpoints:
            raise InvalidInput(f"the corruption must be one of {', '.join(self.midpoints)}, got {kind!r}")
        if severity not in range(1, 11):
            raise InvalidInput(f"severity must be 1 to 10, got {severity}")
        seen = expit(self.slope * (self.midpoints[kind] + np.asarray(ease, np.float64) - severity))[..., None]
        right = np.array(self.space.one_hot(digit))
        weights = {other: 1 / rank for rank, other in enumerate(self.confusions[digit], start=1)}
        unseen = np.array([weights.get(answer, 0.0) for answer in self.space.answers])
        unseen *= self.guesses / unseen.sum()
        unseen[self.space.answers.index(ABSTAIN)] += 1 - self.guesses
        return self._with_lapses(seen * right + (1 - seen) * unseen)

    def _with_lapses(self, probabilities: FloatArray) -> FloatArray:
        return (1 - self.lapse) * probabilities + self.lapse / len(self.space.answers)

    def acuities(self) -> FloatArray:
        """Return the shift of each person's midpoint, in steps of severity."""
        return self.person_sd * stimulus_rng("panel", "eyes", "persons", self.seed).standard_normal(self.people)

    def answers(self, stimulus: str, kind: str, severity: int, digit: str) -> IntArray:
        """Return each person's answer (its index among the 11) to a corrupted digit of this identity."""
        rng = stimulus_rng(stimulus, "panel", "uncertain", self.seed)
        ease = self.acuities() + self.image_sd * rng.standard_normal()
        return _draw_answers(self.distribution(kind, severity, digit, ease), rng)

    def sure_answers(self, stimulus: str, answer: str) -> IntArray:
        """Return each person's answer to an image that is clear to all: right except for lapses."""
        rng = stimulus_rng(stimulus, "panel", "sure", self.seed)
        probabilities = self._with_lapses(np.array(self.space.one_hot(answer)))
        return _draw_answers(np.repeat(probabilities[None], self.people, axis=0), rng)

    def counts(self, stimulus: str, kind: str, severity: int, digit: str) -> list[int]:
        """Return the number of persons who gave each answer to a corrupted digit."""
        answers = self.answers(stimulus, kind, severity, digit)
        return [int(count) for count in np.bincount(answers, minlength=len(self.space.answers))]


def _draw_answers(probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    """Draw one answer per row; the first rows do not depend on the number of rows."""
    uniform = rng.random(len(probabilities))
    return np.asarray((uniform[:, None] >= probabilities.cumsum(axis=1)[:, :-1]).sum(axis=1), np.int64)


def simulated_trials(stimuli: StimulusSet, panel: Panel, *, persons: int = 10) -> Trials:
    """Return trials of the panel's first persons on every stimulus of a digits set that has a category.

    If the panel is that of the set, their answers to Uncertain images are among those that made the gold counts.
    """
    if not 1 <= persons <= panel.people:
        raise InvalidInput(f"persons must be 1 to the panel's {panel.people}, got {persons}")
    answers = panel.space.answers
    rows = stimuli.frame.filter(pl.col("category").is_not_null())
    codes = np.empty((rows.height, persons), np.int64)
    for index, row in enumerate(rows.iter_rows(named=True)):
        if row["group"] == "uncertain":
            drawn = panel.answers(row["stimulus"], row["kind"], row["level"], row["truth"])
        else:
            drawn = panel.sure_answers(row["stimulus"], row["truth"])
        codes[index] = drawn[:persons]
    columns = rows.select("experiment", "stimulus", "image", "condition", "level", "truth")
    tables = [
        columns.with_columns(
            observer=pl.lit(f"simulated:person-{person + 1:02d}"),
            kind=pl.lit("simulated"),
            response=pl.Series([answers[code] for code in codes[:, person]], dtype=pl.String),
            trial=pl.int_range(1, pl.len() + 1),
        )
        for person in range(persons)
    ]
    return make_trials(pl.concat(tables), source="the simulated panel", space=panel.space)
