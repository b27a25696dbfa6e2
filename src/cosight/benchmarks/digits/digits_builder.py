"""Builders of the digits benchmark: VisAlign's eight categories on handwritten digits, and the survey's distractors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cosight.benchmarks.building import CLOSED, SetSlot, SlotImage, build_set
from cosight.benchmarks.building.datasheet import SourceDescription
from cosight.benchmarks.digits.candidates import (
    DigitCandidate,
    corrupt_image,
    digit_pools,
    distractor_candidates,
    draw_candidate,
    plan_category,
    render_digit,
    training_candidates,
)
from cosight.benchmarks.digits.drawing import digits_attribution, stored_digits
from cosight.benchmarks.digits.linear_attack import LinearClassifier, fit_linear_classifier
from cosight.benchmarks.entry import BuildResult, Progress
from cosight.benchmarks.visalign.categories import CATEGORIES, CLEAR, Counts, check_categories, truth_of
from cosight.errors import InvalidInput
from cosight.humans.simulated.panel import Panel
from cosight.stimuli.images import digest
from cosight.stimuli.kinds import stimulus_seed
from cosight.trials.spaces import ABSTAIN, label_spaces

__all__ = ["DigitDistractorsBuilder", "DigitsBuilder", "build_digits", "make_digits_builder"]

_SPACE = label_spaces["digits-11"]
_GOLD = (
    "Must-Act and Must-Abstain images: by construction. Only handwritten strokes count as digits, as only photos count "
    "as animals in VisAlign: for a printed, outlined or dotted digit the right answer is to abstain.",
    "Uncertain images: a **simulated** panel, not people. The manifest's settings hold its parameters, which were set "
    "by eye before any model was run. A study's answers replace it.",
)


@dataclass(frozen=True, slots=True)
class DigitsBuilder:
    """Builder of the digits benchmark; `make_digits_builder` makes one. Category 3 attacks `model`."""

    counts: Counts
    seed: int
    panel: Panel
    model: LinearClassifier | None
    closed_seed: int | None = None  # seed of the closed test set; if set, only that is built

    experiment: ClassVar[str] = "digits"
    packages: ClassVar[tuple[str, ...]] = ("matplotlib",)  # has the fonts
    folders: ClassVar[tuple[Path, ...]] = ()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Labels, counts, seed and the simulated panel behind the gold labels of category 8."""
        settings = {"labels": _SPACE.name, "counts": self.counts.text, "seed": self.seed}
        return {**settings, "simulated panel": asdict(self.panel)}

    @property
    def drawing_seed(self) -> int:
        """The seed of everything random but the division of sources among splits."""
        return self.seed if self.closed_seed is None else self.closed_seed

    def closed(self, seed: int) -> DigitsBuilder:
        """Return the builder of the closed test set: digits divided by `self.seed`, everything else by `seed`."""
        return replace(self, closed_seed=seed, panel=replace(self.panel, seed=seed))

    def slots(self) -> list[SetSlot]:
        """Return the training slots, then every category of every split; or those of the closed test set."""
        pools, stamp = digit_pools(train=self.counts.train, seed=self.seed), _digits_stamp()
        slots: list[SetSlot] = []
        if self.closed_seed is None:
            train = training_candidates(pools["train"], seed=self.seed)
            slots = [SetSlot("train", None, number, (candidate,), stamp) for number, candidate in enumerate(train)]
        for split in ("calibration", "test") if self.closed_seed is None else (CLOSED,):
            for category, count in self.counts.of_split(split).items():
                pool = pools[split]
                if category == 3 and self.model is not None:
                    # An attack needs a digit that the model gets right.
                    pool = {
                        digit: [n for n in indices if self.model.answer(render_digit(int(n))) == int(digit)]
                        for digit, indices in pool.items()
                    }
                group = CATEGORIES[category].group
                rows = plan_category(category, pool, count, split=split, seed=self.drawing_seed)
                slots += [SetSlot(split, category, number, row, stamp, group) for number, row in enumerate(rows)]
        return slots

    def draw(self, slot: SetSlot, candidate: DigitCandidate) -> SlotImage:
        """Draw a candidate; its gold label is its truth, in category 8 the answers of the simulated panel."""
        parent = digest(render_digit(candidate.digits[0])) if candidate.digits else None
        attempt = f"{slot.file}/{candidate.attempt}"
        seed = stimulus_seed(parent or slot.file, candidate.kind, attempt, self.drawing_seed)
        category = slot.category or 1  # training images are clean
        pixels, parameters = draw_candidate(category, candidate, np.random.default_rng(seed), self.model)
        truth = truth_of(category, candidate.original or "")
        facts: dict[str, Any] = {
            "condition": CATEGORIES[6].name if category == 6 else candidate.kind,  # category 4 has letters too
            "kind": candidate.kind,
            "level": candidate.severity,
            "truth": truth,
            "original": candidate.original,
            "parent": parent,
            "seed": seed,
            "gold": _SPACE.one_hot(truth),
        }
        if category == 8:
            counts = self.panel.counts(digest(pixels), candidate.corruption, candidate.severity or 1, truth)
            facts |= {"gold": [count / self.panel.people for count in counts], "gold_counts": counts}
            parameters["gold"] = "simulated"
        return SlotImage(pixels, {**facts, "parameters": json.dumps(parameters, sort_keys=True)})


@dataclass(frozen=True, slots=True)
class DigitDistractorsBuilder:
    """Builder of the survey's distractors: corrupted letters, shapes and textures; `clear` ones must be refused."""

    count: int
    seed: int

    experiment: ClassVar[str] = "digits"
    packages: ClassVar[tuple[str, ...]] = ("matplotlib",)
    folders: ClassVar[tuple[Path, ...]] = ()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Labels, count and seed."""
        return {"labels": _SPACE.name, "distractors": self.count, "seed": self.seed}

    def slots(self) -> list[SetSlot]:
        """Return one slot per distractor: images of category 4 with one corruption and one severity."""
        rows = enumerate(distractor_candidates(self.count, seed=self.seed))
        return [SetSlot(None, 4, number, row, _digits_stamp(), CATEGORIES[4].group) for number, row in rows]

    def draw(self, slot: SetSlot, candidate: DigitCandidate) -> SlotImage:
        """Draw and corrupt a candidate. A crop is never clear: it may show a part that a digit has too."""
        seed = stimulus_seed(slot.file, candidate.kind, candidate.detail, self.seed)
        rng = np.random.default_rng(seed)
        clean, parameters = draw_candidate(4, candidate, rng)
        parameters["clear"] = (candidate.severity or 1) <= CLEAR and candidate.corruption != "cropping"
        facts = {
            "condition": candidate.corruption,
            "kind": candidate.corruption,
            "level": candidate.severity,
            "truth": ABSTAIN,
            "gold": _SPACE.one_hot(ABSTAIN),
            "parameters": json.dumps(parameters, sort_keys=True, ensure_ascii=False),
            "seed": seed,
            "parent": digest(clean),
        }
        return SlotImage(corrupt_image(clean, candidate, rng), facts)


def make_digits_builder(*, counts: Counts | None = None, seed: int = 0, panel: Panel | None = None) -> DigitsBuilder:
    """Make the builder of the digits benchmark; the classifier of category 3 is fitted to the training digits."""
    counts = counts or Counts()
    model = None
    if 3 in counts.requested:
        candidates = training_candidates(digit_pools(train=counts.train, seed=seed)["train"], seed=seed)
        labels = [int(candidate.original or 0) for candidate in candidates]
        if len(set(labels)) < len(_SPACE.classes):
            raise InvalidInput(
                f"category 3 attacks a classifier of all ten digits, got {counts.train} training images; "
                "set train=100 or more in the counts, or 3=0"
            )
        images = np.stack([render_digit(candidate.digits[0]) for candidate in candidates])
        model = fit_linear_classifier(images.reshape(len(images), -1) / 255, labels, len(_SPACE.classes))
    return DigitsBuilder(counts, seed, panel or Panel(seed=seed), model)


def build_digits(
    out: Path,
    *,
    counts: Counts | None = None,
    seed: int = 0,
    closed: Path | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> BuildResult:
    """Build the digits benchmark in `out`, with its distractors and datasheet; an unfinished set there is resumed."""
    builder = make_digits_builder(counts=counts, seed=seed)
    distractors = DigitDistractorsBuilder(builder.counts.distractors, seed)
    digits = digits_attribution()
    return build_set(
        builder,
        out,
        distractors=distractors if distractors.count else None,
        title="Handwritten digits in VisAlign's eight categories",
        sources=(
            SourceDescription(digits["title"], "digits", digits["licence"], f"{digits['authors']}. {digits['source']}"),
            SourceDescription(
                "DejaVu fonts", "letters, shapes, printed digits", "Bitstream Vera and public domain", "with matplotlib"
            ),
        ),
        gold=_GOLD,
        categories=CATEGORIES,
        check=check_categories,
        closed=closed,
        workers=workers,
        progress=progress,
    )


@cache
def _digits_stamp() -> str:
    return sha256(stored_digits().cells.tobytes()).hexdigest()
