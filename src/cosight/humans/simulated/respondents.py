"""Who sits a study in people's place: a simulated panel, or a model whose answers are known.

The panel is a model of people, with numbers set by eye:

* classify, timed   Uncertain images of a digits set: the psychometric panel of that set, each participant with eyes of
                    their own. Other images of such a set: the truth, but for lapses. Other sets: an answer drawn from
                    the gold label, else the truth but for lapses
* 2afc, cluster     the option nearest to the query in a picture of 16 x 16 grey values (root mean square), each look
                    with an error of a tenth: of two pictures that are the same the distance is nought
* curate            keeps nine of ten images, whatever they show, and names the reasons equally often
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.humans.simulated.panel import Panel
from cosight.humans.simulated.sight import Sight
from cosight.humans.study.pool import Item, PictureSlot
from cosight.humans.study.trial_types import PANEL, Respondent
from cosight.stimuli.kinds import stimulus_rng
from cosight.trials.spaces import LabelSpace

__all__ = [
    "PanelChances",
    "SimulatedObserver",
    "answering_model",
    "comparing_model",
    "panel_chances",
    "panel_observer",
]

_KEPT = 0.9  # of the images, by a simulated curator
_SIDE = 16  # pixels of the picture that distances are taken in
_LOOK = 0.1  # standard deviation of the logarithm of a distance, from look to look
_NODES = 21  # of the Gauss-Hermite rule over persons; more change the tenth digit


@dataclass(frozen=True, slots=True)
class SimulatedObserver:
    """Who sits a study: `name` is what they say they are; `person` gives each participant their own ways."""

    name: str
    person: Callable[[np.random.Generator], Respondent]


@dataclass(frozen=True, slots=True)
class PanelChances:
    """The chances of each answer to each image of a study, as the simulated panel has them."""

    sight: Sight
    space: LabelSpace
    panel: Panel
    on_digits: bool  # whether the set is one whose Uncertain images the panel is about

    def of(self, stimulus: str, eyes: float) -> FloatArray:
        """Of a person who sees `eyes` steps of severity further than the mean."""
        row = self.sight.rows[stimulus]
        if self.on_digits and row["group"] == "uncertain":
            ease = eyes + self._image_ease(stimulus)
            return self.panel.distribution(row["kind"], row["level"], row["truth"], ease)
        if row["gold"] is not None and not self.on_digits:
            return np.array(row["gold"])
        return self._sure(row["truth"])

    def expected(self, stimulus: str) -> FloatArray:
        """Of a person drawn at random: the mean over all eyes there are, by Gauss-Hermite quadrature."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        each = np.array([self.of(stimulus, self.panel.person_sd * node) for node in nodes])
        return np.asarray(weights @ each / weights.sum())

    def _image_ease(self, stimulus: str) -> float:
        """How easy the image is for all: the first draw behind the panel's own answers to it (`Panel.answers`)."""
        rng = stimulus_rng(stimulus, "panel", "uncertain", self.panel.seed)
        return self.panel.image_sd * float(rng.standard_normal())

    def _sure(self, truth: str) -> FloatArray:
        """The truth but for lapses; who may not say so guesses."""
        lapse = self.panel.lapse if truth in self.space.answers else 1.0
        right = np.array([float(answer == truth) for answer in self.space.answers])
        return (1 - lapse) * right + lapse / len(right)


def panel_chances(sight: Sight) -> PanelChances:
    """The panel of the study's set, if it has one, else one with the usual lapses; refused where it knows nothing."""
    space = sight.study.space
    if space is None:
        raise InvalidInput(f"the panel names classes, got a study of type {sight.study.type}")
    told: Mapping[str, Any] = sight.facts.get("settings", {}).get("simulated panel", {})
    panel = Panel(**told)
    on_digits = bool(told) and space.answers == panel.space.answers
    blank = [row for row in sight.rows.values() if row["truth"] is None and (on_digits or row["gold"] is None)]
    if blank:
        raise InvalidInput(
            f"the simulated panel needs the gold label or the truth of every image, {blank[0]['path']} has neither; "
            "name a model with --observer, or add them to the set"
        )
    return PanelChances(sight, space, panel, on_digits)


def panel_observer(sight: Sight) -> SimulatedObserver:
    """Simulated people for a study of any type."""
    options = sight.study.kind.options
    if "labels" in options:
        return SimulatedObserver(PANEL, partial(_panelist, panel_chances(sight)))
    if "curate" in options:
        reasons = len(sight.study.reasons)
        chances = [_KEPT, *[(1 - _KEPT) / reasons] * reasons]
        return SimulatedObserver(PANEL, lambda rng: Respondent(probabilities=lambda item: chances))
    return SimulatedObserver(PANEL, partial(_looking, _Pictures({})))


def _panelist(chances: PanelChances, rng: np.random.Generator) -> Respondent:
    eyes = chances.panel.person_sd * float(rng.standard_normal())
    return Respondent(probabilities=lambda item: chances.of(item.item, eyes).tolist())


def _looking(pictures: _Pictures, rng: np.random.Generator) -> Respondent:
    def distance(a: PictureSlot, b: PictureSlot) -> float:
        return pictures.distance(a, b) * float(np.exp(_LOOK * rng.standard_normal()))

    return Respondent(distance=distance)


@dataclass(frozen=True, slots=True)
class _Pictures:
    """Small grey pictures, each read once."""

    known: dict[str, FloatArray]

    def distance(self, a: PictureSlot, b: PictureSlot) -> float:
        """Root mean square of the differences."""
        apart = self._of(a) - self._of(b)
        return float(np.sqrt(np.mean(apart * apart)))

    def _of(self, slot: PictureSlot) -> FloatArray:
        if slot.stimulus not in self.known:
            self.known[slot.stimulus] = _small(slot.file)
        return self.known[slot.stimulus]


def _small(file: Path) -> FloatArray:
    import cv2

    from cosight.stimuli.images import as_floats, read_image, to_rgb

    grey = cv2.cvtColor(as_floats(to_rgb(read_image(file))), cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.resize(grey, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA), np.float64)


def answering_model(name: str, space: LabelSpace, answers: Mapping[str, str]) -> SimulatedObserver:
    """A model that gives the same answer to a stimulus whenever it is asked."""

    def chances(item: Item) -> list[float]:
        return [float(answer == answers[item.item]) for answer in space.answers]

    return SimulatedObserver(name, lambda rng: Respondent(probabilities=chances))


def comparing_model(name: str, features: Mapping[str, FloatArray]) -> SimulatedObserver:
    """A model to which those stimuli are alike whose features are near each other (Euclid)."""

    def distance(a: PictureSlot, b: PictureSlot) -> float:
        return float(np.linalg.norm(features[a.stimulus] - features[b.stimulus]))

    return SimulatedObserver(name, lambda rng: Respondent(distance=distance))
