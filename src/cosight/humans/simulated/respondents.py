"""Simulated participants: a panel of simulated people, or a model whose answers are known.

They recognise a picture by the digest of its pixels among those of the study's own sets (`StudyPictures`): the server
tells them no more than it tells anybody.

The panel is a model of people, with numbers set by eye:

* classify, timed   Uncertain images of a digits set: the psychometric panel of that set, with a random acuity per
                    participant. Other images of such a set: the truth, except for lapses. Other sets: an answer drawn
                    from the gold label, else the truth except for lapses
* 2afc, cluster     the option nearest to the query in 16 x 16 grey values (root mean square), with a random error of a
                    tenth per comparison; identical pictures have distance zero
* curate            keeps nine of ten images, whatever they show, and names the reasons equally often
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.humans.simulated.panel import Panel
from cosight.humans.study.design import Study
from cosight.humans.study.pool import Item, PictureSlot, Row, load_pool, read_sources
from cosight.humans.study.trial_types import PANEL, Respondent, TrialContext
from cosight.stimuli.images import decode, digest
from cosight.stimuli.kinds import stimulus_rng
from cosight.stimuli.sets import read_set
from cosight.trials.manifest import manifest_space
from cosight.trials.spaces import LabelSpace

__all__ = [
    "PanelProbabilities",
    "PictureBytes",
    "SimulatedObserver",
    "StudyPictures",
    "classifier_observer",
    "panel_observer",
    "panel_probabilities",
    "read_pictures",
    "similarity_observer",
]

PictureBytes = Mapping[str, bytes | Sequence[bytes]]
"""Pictures of a trial as the server sent them, by slot: image; query, left, right; columns, rows."""

_KEEP = 0.9  # probability that a simulated curator keeps an image
_SIDE = 16  # pixels of the pictures that are compared
_COMPARISON_SD = 0.1  # of the logarithm of a distance, from comparison to comparison
_NODES = 21  # of the Gauss-Hermite rule over persons; more change the tenth digit


@dataclass(frozen=True, slots=True)
class StudyPictures:
    """Every picture that a study can show, by digest, with the rows of its manifests."""

    study: Study
    files: Mapping[str, Path]
    rows: Mapping[str, Row]
    facts: Mapping[str, Any]  # of the set's manifest

    def recognise(self, pictures: PictureBytes) -> TrialContext:
        """Return the question that these pictures pose. It depends on the pictures alone: checks look like tests."""
        slots: list[PictureSlot] = []
        for name, content in pictures.items():
            if isinstance(content, bytes):
                slots.append(self._make_slot(name, content))
            else:
                singular = name.removesuffix("s")
                slots += [self._make_slot(f"{singular}-{n}", data) for n, data in enumerate(content, start=1)]
        item = Item(slots[0].stimulus, "test", tuple(slots))
        return TrialContext(item, tuple(range(len(slots))), self.study.space, self.study.reasons)

    def _make_slot(self, name: str, data: bytes) -> PictureSlot:
        stimulus = digest(decode(data, name="a picture of the study"))
        if stimulus not in self.files:
            raise InvalidInput(
                f"the server shows a picture that is not in the sets of {self.study.name}; simulate the study that is "
                "served there"
            )
        return PictureSlot(name, stimulus, self.files[stimulus])


def read_pictures(study: Study) -> StudyPictures:
    """Read everything that `study` can show."""
    files = {slot.stimulus: slot.file for item in load_pool(study).items.values() for slot in item.slots}
    rows = {row["path"]: row for row in read_sources(study).rows}
    return StudyPictures(
        study, files, {stimulus: rows[file] for stimulus, file in files.items()}, read_set(study.set).facts
    )


@dataclass(frozen=True, slots=True)
class SimulatedObserver:
    """A kind of simulated participant: the name they report, and a function that makes each of them."""

    name: str
    person: Callable[[np.random.Generator], Respondent]


@dataclass(frozen=True, slots=True)
class PanelProbabilities:
    """The simulated panel's probabilities of each answer to each image of a study."""

    pictures: StudyPictures
    space: LabelSpace
    panel: Panel
    on_digits: bool  # whether the panel models the Uncertain images of this set

    def of(self, stimulus: str, acuity: float) -> FloatArray:
        """Return the probabilities of a person whose acuity is this many steps of severity above the mean."""
        row = self.pictures.rows[stimulus]
        if self.on_digits and row["group"] == "uncertain":
            # how easy the image is for all: the first draw behind the panel's own answers to it (`Panel.answers`)
            rng = stimulus_rng(stimulus, "panel", "uncertain", self.panel.seed)
            ease = acuity + self.panel.image_sd * float(rng.standard_normal())
            return self.panel.distribution(row["kind"], row["level"], row["truth"], ease)
        if row["gold"] is not None and not self.on_digits:
            return np.array(row["gold"])
        # the truth except for lapses; where the truth is not an allowed answer, a random one
        answers = self.space.answers
        lapse = self.panel.lapse if row["truth"] in answers else 1.0
        right = np.array([float(answer == row["truth"]) for answer in answers])
        return (1 - lapse) * right + lapse / len(right)

    def expected(self, stimulus: str) -> FloatArray:
        """Return the probabilities of a random person: the mean over acuities, by Gauss-Hermite quadrature."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        each = np.array([self.of(stimulus, self.panel.person_sd * node) for node in nodes])
        return np.asarray(weights @ each / weights.sum())


def panel_probabilities(pictures: StudyPictures) -> PanelProbabilities:
    """Return the panel recorded in the study's set, or the default one.

    Raises InvalidInput for images without truth and gold label, which the panel cannot answer.
    """
    space = pictures.study.space
    if space is None:
        raise InvalidInput(f"the panel answers with classes, got a study of type {pictures.study.type}")
    settings: Mapping[str, Any] = pictures.facts.get("settings", {}).get("simulated panel", {})
    panel = Panel(**settings)
    on_digits = bool(settings) and space.answers == panel.space.answers
    own = manifest_space(pictures.facts)
    if own is not None and not on_digits and any(row["gold"] is not None for row in pictures.rows.values()):
        order = space.order_in(own)
        pictures = replace(pictures, rows={name: _with_order(row, order) for name, row in pictures.rows.items()})
    unlabelled = [row for row in pictures.rows.values() if row["truth"] is None and (on_digits or row["gold"] is None)]
    if unlabelled:
        raise InvalidInput(
            f"the simulated panel needs the gold label or the truth of every image, {unlabelled[0]['path']} has "
            "neither; add them to the set, or simulate a model with --observer"
        )
    return PanelProbabilities(pictures, space, panel, on_digits)


def _with_order(row: Row, order: Sequence[int]) -> Row:
    """Return a manifest row with its gold label in this order of classes; a value for `abstain` stays the last."""
    gold = row["gold"]
    return row if gold is None else {**row, "gold": [*(gold[index] for index in order), *gold[len(order) :]]}


def panel_observer(pictures: StudyPictures) -> SimulatedObserver:
    """Return simulated people for a study of any type."""
    options = pictures.study.kind.options
    if "labels" in options:
        panel = panel_probabilities(pictures)

        def make_panelist(rng: np.random.Generator) -> Respondent:
            acuity = panel.panel.person_sd * float(rng.standard_normal())
            return Respondent(probabilities=lambda item: panel.of(item.item, acuity).tolist())

        return SimulatedObserver(PANEL, make_panelist)
    if "curate" in options:
        reasons = len(pictures.study.reasons)
        probabilities = [_KEEP, *[(1 - _KEEP) / reasons] * reasons]
        return SimulatedObserver(PANEL, lambda rng: Respondent(probabilities=lambda item: probabilities))
    return SimulatedObserver(PANEL, partial(_make_comparer, {}))


def _make_comparer(thumbnails: dict[str, FloatArray], rng: np.random.Generator) -> Respondent:
    """Return a person who compares small grey pictures; `thumbnails` caches them for all persons."""

    def thumbnail(slot: PictureSlot) -> FloatArray:
        if slot.stimulus not in thumbnails:
            thumbnails[slot.stimulus] = _read_thumbnail(slot.file)
        return thumbnails[slot.stimulus]

    def distance(a: PictureSlot, b: PictureSlot) -> float:
        difference = thumbnail(a) - thumbnail(b)
        rms = float(np.sqrt(np.mean(difference * difference)))
        return rms * float(np.exp(_COMPARISON_SD * rng.standard_normal()))

    return Respondent(distance=distance)


def _read_thumbnail(file: Path) -> FloatArray:
    import cv2

    from cosight.stimuli.images import as_floats, read_image, to_rgb

    grey = cv2.cvtColor(as_floats(to_rgb(read_image(file))), cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.resize(grey, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA), np.float64)


def classifier_observer(name: str, space: LabelSpace, answers: Mapping[str, str]) -> SimulatedObserver:
    """Return a model that always gives the same answer to a stimulus."""

    def probabilities(item: Item) -> list[float]:
        return [float(answer == answers[item.item]) for answer in space.answers]

    return SimulatedObserver(name, lambda rng: Respondent(probabilities=probabilities))


def similarity_observer(name: str, features: Mapping[str, FloatArray]) -> SimulatedObserver:
    """Return a model that compares stimuli by the Euclidean distance of their features."""

    def distance(a: PictureSlot, b: PictureSlot) -> float:
        return float(np.linalg.norm(features[a.stimulus] - features[b.stimulus]))

    return SimulatedObserver(name, lambda rng: Respondent(distance=distance))
