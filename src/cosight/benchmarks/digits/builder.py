"""The embedded benchmark: VisAlign's eight categories on handwritten digits, made from what comes with cosight."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from cosight.benchmarks.building import CLOSED, Drawn, SetSlot, built
from cosight.benchmarks.building.datasheet import Origin
from cosight.benchmarks.building.split_sources import Pool
from cosight.benchmarks.digits.ink import about_digits, handwriting
from cosight.benchmarks.digits.linear import LinearClassifier, fitted
from cosight.benchmarks.digits.pictures import clean_digit, corrupted_picture, drawn
from cosight.benchmarks.digits.sketches import (
    Sketch,
    digit_pools,
    distractor_sketches,
    sketches,
    training_sketches,
)
from cosight.benchmarks.entry import Built, Progress
from cosight.benchmarks.visalign.categories import CATEGORIES, Counts, check_categories, truth_of
from cosight.errors import InvalidInput
from cosight.humans.simulated.panel import Panel
from cosight.stimuli.images import Bytes, digest
from cosight.stimuli.kinds import stimulus_seed
from cosight.trials.spaces import ABSTAIN, label_spaces

__all__ = ["CLEAR", "DigitDistractors", "Digits", "build_digits", "digits_builder"]

CLEAR = 2  # up to this severity a corrupted letter is still plainly no digit
_EXPERIMENT = "digits"
_SPACE = label_spaces["digits-11"]
_PACKAGES = ("matplotlib",)  # where the fonts are from
_GOLD = (
    "Must-Act and Must-Abstain images: by construction. Only handwritten strokes count as digits, as only photos count "
    "as animals in VisAlign: for a printed, outlined or dotted digit the right answer is to abstain.",
    "Uncertain images: a **simulated** panel, not people. The manifest's settings hold its parameters, which were set "
    "by eye before any model was run. A study's answers replace it.",
)


@dataclass(frozen=True, slots=True)
class Digits:
    """The digits benchmark; `digits_builder` makes one. `model` is what category 3 is made against."""

    counts: Counts
    seed: int
    panel: Panel
    model: LinearClassifier | None
    closed_seed: int | None = None  # of the closed test set, which is then made in place of the others

    @property
    def experiment(self) -> str:
        """digits."""
        return _EXPERIMENT

    @property
    def settings(self) -> Mapping[str, Any]:
        """Labels, counts, seed and the simulated panel behind the gold labels of category 8."""
        told = {"labels": _SPACE.name, "counts": self.counts.words, "seed": self.seed}
        return {**told, "simulated panel": asdict(self.panel)}

    @property
    def packages(self) -> tuple[str, ...]:
        """Where the fonts are from."""
        return _PACKAGES

    @property
    def folders(self) -> tuple[Path, ...]:
        """None."""
        return ()

    @property
    def drawing_seed(self) -> int:
        """The seed of everything random but the division of sources among splits."""
        return self.seed if self.closed_seed is None else self.closed_seed

    def closed(self, seed: int) -> Digits:
        """The builder of the closed test set. The digits are divided by `self.seed`, everything else follows `seed`."""
        return replace(self, closed_seed=seed, panel=replace(self.panel, seed=seed))

    def slots(self) -> list[SetSlot]:
        """The training images, then every category of every split; or those of the closed test set."""
        pools, stamp = digit_pools(train=self.counts.train, seed=self.seed), _stamp()
        slots: list[SetSlot] = []
        if self.closed_seed is None:
            train = training_sketches(pools["train"], seed=self.seed)
            slots = [SetSlot("train", None, number, (sketch,), stamp) for number, sketch in enumerate(train)]
        for split in ("calibration", "test") if self.closed_seed is None else (CLOSED,):
            for category in self.counts.asked:
                count, group = self.counts.categories[category], CATEGORIES[category].group
                pool = self._named_rightly(pools[split]) if category == 3 else pools[split]
                rows = sketches(category, pool, count, split=split, seed=self.drawing_seed)
                slots += [SetSlot(split, category, number, row, stamp, group) for number, row in enumerate(rows)]
        return slots

    def _named_rightly(self, pool: Pool) -> Pool:
        """The digits that the attacked model gets right: the others have nothing to fool it with."""
        if self.model is None:
            return pool
        right = self.model.answer
        return {digit: [n for n in own if right(clean_digit(int(n))) == int(digit)] for digit, own in pool.items()}

    def draw(self, slot: SetSlot, candidate: Sketch) -> Drawn:
        """The picture of a sketch, with its truth and its gold label."""
        parent = digest(clean_digit(candidate.digits[0])) if candidate.digits else None
        attempt = f"{slot.place}/{candidate.attempt}"
        seed = stimulus_seed(parent or slot.place, candidate.kind, attempt, self.drawing_seed)
        category = slot.category or 1  # what is trained on is clean
        pixels, parameters = drawn(category, candidate, np.random.default_rng(seed), self.model)
        truth = truth_of(category, candidate.original or "")
        gold = self._gold(candidate, pixels, truth) if category == 8 else {"gold": _SPACE.one_hot(truth)}
        told = {**parameters, "gold": "simulated"} if category == 8 else parameters
        shows = CATEGORIES[6].word if category == 6 else candidate.kind  # letters are in 4 too
        facts = {"condition": shows, "kind": candidate.kind, "level": candidate.severity, "truth": truth}
        facts |= {"original": candidate.original, "parent": parent, "seed": seed}
        return Drawn(pixels, {**facts, **gold, "parameters": json.dumps(told, sort_keys=True)})

    def _gold(self, sketch: Sketch, pixels: Bytes, truth: str) -> dict[str, Any]:
        """What the simulated panel answers."""
        counts = self.panel.counts(digest(pixels), sketch.corruption, sketch.severity or 1, truth)
        return {"gold": [count / self.panel.people for count in counts], "gold_counts": counts}


@dataclass(frozen=True, slots=True)
class DigitDistractors:
    """The survey's distractors: letters, shapes and textures, corrupted; `clear` ones must always be refused."""

    count: int
    seed: int

    @property
    def experiment(self) -> str:
        """digits."""
        return _EXPERIMENT

    @property
    def settings(self) -> Mapping[str, Any]:
        """Labels, count and seed."""
        return {"labels": _SPACE.name, "distractors": self.count, "seed": self.seed}

    @property
    def packages(self) -> tuple[str, ...]:
        """Where the fonts are from."""
        return _PACKAGES

    @property
    def folders(self) -> tuple[Path, ...]:
        """None."""
        return ()

    def slots(self) -> list[SetSlot]:
        """One picture of category 4, one corruption and one severity each."""
        rows = enumerate(distractor_sketches(self.count, seed=self.seed))
        return [SetSlot(None, 4, number, row, _stamp(), CATEGORIES[4].group) for number, row in rows]

    def draw(self, slot: SetSlot, candidate: Sketch) -> Drawn:
        """The picture, corrupted. A crop is never clear: it may show the part that a digit has too."""
        seed = stimulus_seed(slot.place, candidate.kind, candidate.detail, self.seed)
        rng = np.random.default_rng(seed)
        clean, shown = drawn(4, candidate, rng)
        clear = (candidate.severity or 1) <= CLEAR and candidate.corruption != "cropping"
        facts = {"condition": candidate.corruption, "kind": candidate.corruption, "level": candidate.severity}
        told = {"parameters": json.dumps({**shown, "clear": clear}, sort_keys=True, ensure_ascii=False)}
        gold = {"truth": ABSTAIN, "gold": _SPACE.one_hot(ABSTAIN)}
        return Drawn(
            corrupted_picture(clean, candidate, rng), {**facts, **gold, **told, "seed": seed, "parent": digest(clean)}
        )


def digits_builder(*, counts: Counts | None = None, seed: int = 0, panel: Panel | None = None) -> Digits:
    """The builder of the digits benchmark, its classifier for category 3 fitted to the training digits."""
    asked = counts or Counts()
    model = _attacked_model(asked, seed) if 3 in asked.asked else None
    return Digits(asked, seed, panel or Panel(seed=seed), model)


def build_digits(
    out: Path,
    *,
    counts: Counts | None = None,
    seed: int = 0,
    closed: Path | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> Built:
    """Make the digits benchmark in `out`, with its distractors and datasheet; an unfinished set there is resumed."""
    builder = digits_builder(counts=counts, seed=seed)
    distractors = DigitDistractors(builder.counts.distractors, seed)
    about = about_digits()
    origins = (
        Origin(about["title"], "digits", about["licence"], f"{about['authors']}. {about['source']}"),
        Origin(
            "DejaVu fonts", "letters, shapes, printed digits", "Bitstream Vera and public domain", "with matplotlib"
        ),
    )
    return built(
        builder,
        out,
        distractors=distractors if distractors.count else None,
        title="Handwritten digits in VisAlign's eight categories",
        origins=origins,
        gold=_GOLD,
        categories=CATEGORIES,
        check=check_categories,
        closed=closed,
        workers=workers,
        progress=progress,
    )


def _attacked_model(counts: Counts, seed: int) -> LinearClassifier:
    own = training_sketches(digit_pools(train=counts.train, seed=seed)["train"], seed=seed)
    labels = [int(sketch.original or 0) for sketch in own]
    if len(set(labels)) < len(_SPACE.classes):
        raise InvalidInput(
            f"category 3 attacks a classifier of all ten digits, got {counts.train} training images; "
            "count train=100 or more, or 3=0"
        )
    images = np.stack([clean_digit(sketch.digits[0]) for sketch in own]).reshape(len(own), -1) / 255
    return fitted(images, labels, len(_SPACE.classes))


def _stamp() -> str:
    return sha256(handwriting().cells.tobytes()).hexdigest()
