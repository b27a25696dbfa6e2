"""VisAlign's categories: eight categories in three groups, how many images of each, and a contact sheet of them.

Must-Act images (1 to 3) are to be named, Must-Abstain images (4 to 7) are to be refused, and for Uncertain images (8)
people's answers decide (Lee et al. 2023, section 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from PIL import Image as Pillow

from cosight.benchmarks.building.datasheet import Category, rejected_candidates
from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.stimuli.contact_sheet import SheetRow, contact_sheet, sheet_format
from cosight.stimuli.sets import StimulusSet
from cosight.trials.manifest import manifest_space
from cosight.trials.spaces import ABSTAIN

__all__ = [
    "ATTACKED",
    "CATEGORIES",
    "CLEAR",
    "Counts",
    "category_columns",
    "category_rows",
    "check_categories",
    "parse_counts",
    "truth_of",
    "write_category_sheet",
]

CATEGORIES: dict[int, Category] = {
    category.number: category
    for category in (
        Category(1, "must-act", "clean", "unaltered images of the classes"),
        Category(2, "must-act", "background", "classes on backgrounds where they are not seen"),
        Category(3, "must-act", "attacked", "images of the classes that an attack makes a model get wrong"),
        Category(4, "must-abstain", "other", "objects and textures that are none of the classes"),
        Category(5, "must-abstain", "hybrid", "two classes, or a class and something else, in one"),
        Category(6, "must-abstain", "near-miss", "what is nearly one of the classes"),
        Category(7, "must-abstain", "style", "the classes in another style"),
        Category(8, "uncertain", "corrupted", "images of the classes, corrupted or cropped at severities 1 to 10"),
    )
}
CLEAR = 2  # up to this severity a corrupted distractor is clearly none of the classes; check by eye before a survey
_PUBLISHED = {number: 200 if number == 8 else 100 for number in CATEGORIES}  # images per category, Lee et al. 2023


def category_columns(category: int) -> dict[str, Any]:
    """Return the manifest columns of a category.

    >>> category_columns(3)
    {'category': 3, 'group': 'must-act'}
    """
    return {"category": category, "group": CATEGORIES[category].group}


ATTACKED = category_columns(3)  # manifest columns of images that an attack makes a model get wrong


def truth_of(category: int, original: str) -> str:
    """Return the right answer: the class that the image was made from, or to abstain.

    >>> truth_of(2, "zebra"), truth_of(6, "zebra")
    ('zebra', 'abstain')
    """
    return ABSTAIN if CATEGORIES[category].group == "must-abstain" else original


_MOST_IMAGES = 1_000_000  # of a category
_MOST_DIGITS = 20  # of a count; int() refuses thousands of digits


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of images: per category in each evaluation split, to train on, and of the survey's distractors.

    `calibration` is the number of images of the calibration split, in the proportions of `categories`; None makes it as
    large as the test split.
    """

    categories: Mapping[int, int] = field(default_factory=lambda: dict(_PUBLISHED))
    train: int = 1000
    distractors: int = 100
    calibration: int | None = None

    def __post_init__(self) -> None:
        unknown = [number for number in self.categories if number not in CATEGORIES]
        if unknown:
            raise InvalidInput(f"categories are 1 to 8, got {unknown[0]}")
        numbers = (*self.categories.values(), self.train, self.distractors, self.calibration or 0)
        if min(numbers) < 0:
            raise InvalidInput(f"counts must be 0 or more, got {self.text}")
        if max(numbers) > _MOST_IMAGES:
            raise InvalidInput(f"counts must be {_MOST_IMAGES:,} or less, got {self.text}")
        if not any(self.categories.values()):
            raise InvalidInput(f"at least one category needs images, got {self.text}")

    @classmethod
    def scaled(cls, images: int, *, train: int, distractors: int) -> Counts:
        """Return counts with `images` per category in the published proportions: twice as many of category 8."""
        categories = {number: images * count // 100 for number, count in _PUBLISHED.items()}
        return cls(categories, train=train, distractors=distractors)

    @property
    def text(self) -> str:
        """The text that `parse_counts` reads."""
        named = {str(number): self.categories.get(number, 0) for number in CATEGORIES}  # the default is not 0
        named |= {"train": self.train, "distractors": self.distractors}
        if self.calibration is not None:
            named["calibration"] = self.calibration
        return ",".join(f"{name}={count}" for name, count in named.items())

    @property
    def requested(self) -> tuple[int, ...]:
        """The categories with a count above 0."""
        return tuple(number for number, count in sorted(self.categories.items()) if count)

    def of_split(self, split: str) -> dict[int, int]:
        """Return the number of images of each requested category in an evaluation split.

        Raises:
            InvalidInput: The calibration split is too small to have an image of each of them.

        >>> Counts({1: 20, 8: 40}, calibration=9).of_split("calibration")
        {1: 3, 8: 6}
        """
        wanted = {number: self.categories[number] for number in self.requested}
        if split != "calibration" or self.calibration is None:
            return wanted
        if self.calibration < len(wanted):
            raise InvalidInput(
                f"the calibration split needs an image of each of the {len(wanted)} requested categories, "
                f"got calibration={self.calibration}; raise it"
            )
        # One image of each category first, then the proportions, the largest remainders rounded up.
        left, total = self.calibration - len(wanted), sum(wanted.values())
        shares = {number: left * count / total for number, count in wanted.items()}
        counts = {number: 1 + int(share) for number, share in shares.items()}
        by_remainder = sorted(shares, key=lambda number: (int(shares[number]) - shares[number], number))
        for number in by_remainder[: self.calibration - sum(counts.values())]:
            counts[number] += 1
        return counts


def parse_counts(text: str, *, base: Counts | None = None) -> Counts:
    """Parse counts such as "1=50,8=100,train=500,calibration=90"; counts that are not named are those of `base`.

    >>> parse_counts("8=20,train=0").categories[8]
    20
    """
    base = base or Counts()
    categories = dict(base.categories)
    others = {"train": base.train, "distractors": base.distractors, "calibration": base.calibration}
    for part in text.split(","):
        if not part.strip():
            continue
        name, _, count = (word.strip() for word in part.partition("="))
        if not count.isdecimal() or len(count) > _MOST_DIGITS or len(name) > _MOST_DIGITS:
            raise InvalidInput(f"counts are comma-separated NAME=NUMBER (1=50,train=500), got {part.strip()[:60]!r}")
        if name.isdecimal():
            categories[int(name)] = int(count)
        elif name in others:
            others[name] = int(count)
        else:
            raise InvalidInput(f"counts are of categories 1 to 8, train, calibration and distractors, got {name!r}")
    return Counts(categories, **others)  # type: ignore[arg-type]  # only `calibration` may be None


def check_categories(stimuli: StimulusSet) -> None:
    """Raise `InvalidInput` if an evaluation split lacks a category.

    The requested categories are in the manifest of the set; without them, those of its test split are expected.
    """
    settings: dict[str, Any] = dict(stimuli.facts.get("settings", {}))
    evaluation = stimuli.frame.filter(pl.col("split").is_not_null() & (pl.col("split") != "train"))
    groups = evaluation.group_by("split", maintain_order=True)
    present = {split: set(part["category"].drop_nulls()) for (split,), part in groups}
    requested = present.get("test", set())
    if "counts" in settings:
        requested = set(parse_counts(settings["counts"]).requested)
    for split, categories in present.items():
        if missing := sorted(requested - categories):
            description = CATEGORIES[missing[0]].description
            raise InvalidInput(
                f"every requested category needs images, {split} of {stimuli.root} has none of category {missing[0]} "
                f"({description}); add sources for it, or set {missing[0]}=0 in the counts"
            )


def category_rows(stimuli: StimulusSet, *, split: str = "test", pictures: int = 20) -> list[SheetRow]:
    """Return a contact sheet row per category with the first images of a split; category 8 has a row per severity.

    A caption is the truth, with the percentage of people, real or simulated, who gave it, if they were asked. Below the
    name of its first row a category has the number of candidates that were rejected for another, by reason.
    """
    rejected = rejected_candidates(stimuli.frame)
    frame = stimuli.frame.filter(pl.col("split") == split).sort("category", "level", "file", nulls_last=True)
    space = manifest_space(stimuli.facts)
    answers = () if space is None else space.answers
    rows = []
    for (number, level), part in frame.group_by("category", "level", maintain_order=True):
        name = f"{number} {CATEGORIES[int(str(number))].name}" + ("" if level is None else f" {level}")
        images = []
        for row in part.head(pictures).iter_rows(named=True):
            caption = str(row["truth"])
            if row["gold_counts"] is not None:
                caption += f" {row['gold'][answers.index(row['truth'])]:.0%}"
            images.append((caption, stimuli.pixels(row["file"])))
        reasons = sorted(reason for category, reason in rejected if category == number)
        lines = [f"{rejected.pop((number, reason))} rejected: {reason}" for reason in reasons]
        rows.append(SheetRow("\n".join([name, *lines]), images))
    return rows


def write_category_sheet(stimuli: StimulusSet, path: Path, *, split: str = "test", side: int = 64) -> None:
    """Write a contact sheet of the categories as PNG or JPEG, atomically."""
    picture = Pillow.fromarray(contact_sheet(category_rows(stimuli, split=split), side=side))
    with atomic_write(path) as draft:
        picture.save(draft, sheet_format(path))
