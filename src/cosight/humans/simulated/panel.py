"""A simulated panel: what people might answer to corrupted digits, until real people have been asked.

This is a model of people, not people. Its numbers were set by eye from a sheet of the corruptions, before any
classifier was run on them, and everything made with it is called simulated.

A person names the digit with a probability that falls with severity as a logistic function; the midpoint is that of
the corruption, moved by how hard the image is and how good the person's eyes are. Who does not see the digit refuses or
guesses one that looks like it. Now and then a person answers anything at all.
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

__all__ = ["CONFUSIONS", "MIDPOINTS", "PANEL", "Panel", "simulated_trials"]

PANEL = 134  # Lee et al. 2023: valid answers an image

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
# What a digit is taken for, likeliest first; the k-th has a weight of 1 / k.
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
    """The whole model, every number with a default that stays as it is."""

    people: int = PANEL  # how many simulated persons answer each image
    seed: int = 0  # of the persons and of their answers
    slope: float = 1.5  # logits a step of severity, at the midpoint
    person_sd: float = 0.7  # how persons differ, in steps of severity
    image_sd: float = 0.5  # how images of one kind and severity differ, in the same steps
    guesses: float = 0.3  # share of those who do not see the digit and yet name one
    lapse: float = 0.02  # share of answers given at random among all
    midpoints: Mapping[str, float] = field(default_factory=lambda: dict(MIDPOINTS))
    confusions: Mapping[str, str] = field(default_factory=lambda: dict(CONFUSIONS))

    def __post_init__(self) -> None:
        if self.people < 1 or self.slope <= 0 or min(self.person_sd, self.image_sd) < 0:
            raise InvalidInput("a panel has people, a slope above 0 and spreads of 0 or more; see Panel")
        if not (0 <= self.guesses <= 1 and 0 <= self.lapse <= 1):
            raise InvalidInput(f"guesses and lapse must lie in [0, 1], got {self.guesses:g} and {self.lapse:g}")

    @property
    def space(self) -> LabelSpace:
        """Ten digits and to refuse."""
        return label_spaces["digits-11"]

    def distribution(self, kind: str, severity: int, digit: str, ease: FloatArray | float = 0.0) -> FloatArray:
        """Probabilities of the 11 answers, last axis; `ease` moves the midpoint, by person and image.

        >>> Panel().distribution("fog", 1, "3").round(2)[3]
        np.float64(0.98)
        """
        if kind not in self.midpoints:
            raise InvalidInput(f"the panel knows {', '.join(self.midpoints)}, got {kind!r}")
        if severity not in range(1, 11):
            raise InvalidInput(f"severity must be 1 to 10, got {severity}")
        seen = expit(self.slope * (self.midpoints[kind] + np.asarray(ease, np.float64) - severity))[..., None]
        own, instead = np.array(self.space.one_hot(digit)), self._instead(digit)
        return self._with_lapses(seen * own + (1 - seen) * instead)

    def _instead(self, digit: str) -> FloatArray:
        """What is answered by those who do not see the digit."""
        likely = self.confusions[digit]
        weights = {other: 1 / rank for rank, other in enumerate(likely, start=1)}
        shares = np.array([weights.get(answer, 0.0) for answer in self.space.answers])
        shares *= self.guesses / shares.sum()
        shares[self.space.answers.index(ABSTAIN)] += 1 - self.guesses
        return shares

    def _with_lapses(self, shares: FloatArray) -> FloatArray:
        return (1 - self.lapse) * shares + self.lapse / len(self.space.answers)

    def eyes(self) -> FloatArray:
        """How much better than the midpoint each person sees, in steps of severity."""
        return self.person_sd * stimulus_rng("panel", "eyes", "persons", self.seed).standard_normal(self.people)

    def answers(self, stimulus: str, kind: str, severity: int, digit: str) -> IntArray:
        """Each person's answer (its place among the 11) to a corrupted digit of this identity."""
        rng = stimulus_rng(stimulus, "panel", "uncertain", self.seed)
        ease = self.eyes() + self.image_sd * rng.standard_normal()
        return _chosen(self.distribution(kind, severity, digit, ease), rng)

    def sure_answers(self, stimulus: str, answer: str) -> IntArray:
        """Each person's answer to an image that is clear to all: right but for lapses."""
        rng = stimulus_rng(stimulus, "panel", "sure", self.seed)
        shares = self._with_lapses(np.array(self.space.one_hot(answer)))
        return _chosen(np.repeat(shares[None], self.people, axis=0), rng)

    def counts(self, stimulus: str, kind: str, severity: int, digit: str) -> list[int]:
        """How many of the panel gave each answer to a corrupted digit."""
        given = self.answers(stimulus, kind, severity, digit)
        return [int(count) for count in np.bincount(given, minlength=len(self.space.answers))]


def _chosen(shares: FloatArray, rng: np.random.Generator) -> IntArray:
    """One answer a row; the first rows do not depend on how many there are."""
    drawn = rng.random(len(shares))
    return np.asarray((drawn[:, None] >= shares.cumsum(axis=1)[:, :-1]).sum(axis=1), np.int64)


def simulated_trials(stimuli: StimulusSet, panel: Panel, *, persons: int = 10) -> Trials:
    """Trials of the panel's first persons on every stimulus of a built digits set that has a category.

    Their answers to Uncertain images are among those that made the gold counts, where the panel is the set's.
    """
    if not 1 <= persons <= panel.people:
        raise InvalidInput(f"persons must be 1 to the panel's {panel.people}, got {persons}")
    shown = stimuli.frame.filter(pl.col("category").is_not_null())
    given = np.array([_row_answers(row, panel)[:persons] for row in shown.iter_rows(named=True)]).reshape(-1, persons)
    kept = shown.select("experiment", "stimulus", "image", "condition", "level", "truth")
    tables = [
        kept.with_columns(
            observer=pl.lit(f"simulated:person-{person + 1:02d}"),
            kind=pl.lit("simulated"),
            response=pl.Series([panel.space.answers[code] for code in given[:, person]], dtype=pl.String),
            trial=pl.int_range(1, pl.len() + 1),
        )
        for person in range(persons)
    ]
    return make_trials(pl.concat(tables), source="the simulated panel", space=panel.space)


def _row_answers(row: Mapping[str, object], panel: Panel) -> IntArray:
    stimulus, truth = str(row["stimulus"]), str(row["truth"])
    if row["group"] == "uncertain":
        return panel.answers(stimulus, str(row["kind"]), int(str(row["level"])), truth)
    return panel.sure_answers(stimulus, truth)
