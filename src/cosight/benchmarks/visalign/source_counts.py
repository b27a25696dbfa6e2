"""Check before the first image is made whether the sources of a VisAlign set suffice for its counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cosight.benchmarks.visalign.categories import Counts
from cosight.errors import InvalidInput

__all__ = ["Supply", "check_supply", "fit_counts"]


@dataclass(frozen=True, slots=True)
class Supply:
    """The images that a builder's sources allow.

    Attributes:
        splits: The evaluation splits that are built.
        class_sizes: Number of photos of each class.
        available: Returns how many images of each category a split can have if this many photos are to train on.
        distractors: How many distractors there can be.
        lacking: What a category, or `distractors`, has no source for at all: the option to give.
    """

    splits: Sequence[str]
    class_sizes: Sequence[int]
    available: Callable[[str, int], Mapping[int, int]]
    distractors: int
    lacking: Mapping[int | str, str]

    @property
    def most_training(self) -> int:
        """The most training images, as evenly over the classes as possible."""
        return _most_even(self.class_sizes)

    @property
    def fair_training(self) -> int:
        """The most training images that leave half of the photos of each class to the evaluation splits."""
        return _most_even([size // 2 for size in self.class_sizes])


def check_supply(counts: Counts, supply: Supply) -> None:
    """Raise if the sources do not suffice, with everything that is short and counts that would fit.

    Args:
        counts: The requested counts.
        supply: What there is.

    Raises:
        InvalidInput: The sources do not suffice.
    """
    short = []
    if counts.train > supply.most_training:
        short.append(f"train={counts.train}, {supply.most_training} at most")
    train = counts.train if counts.train <= supply.most_training else supply.fair_training
    for number, option in supply.lacking.items():
        wanted = counts.distractors if number == "distractors" else counts.categories.get(int(number), 0)
        if wanted:
            short.append(f"{number}={wanted}, none without {option}")
    for split in supply.splits:
        available = supply.available(split, train)
        for number, wanted in counts.of_split(split).items():
            if wanted > available[number] and number not in supply.lacking:
                short.append(f"{number}={wanted} in {split}, {available[number]} available")
    if counts.distractors > supply.distractors and "distractors" not in supply.lacking:
        short.append(f"distractors={counts.distractors}, {supply.distractors} available")
    if not short:
        return
    try:
        advice = f"--counts fit, or --counts {fit_counts(counts, supply).text}, would fit"
    except InvalidInput:
        advice = "add sources"
    raise InvalidInput(f"the sources do not suffice for the counts: {'; '.join(short)}; {advice}")


def fit_counts(counts: Counts, supply: Supply) -> Counts:
    """Return the counts, lowered to what the sources allow. At most half of the photos of a class are to train on.

    Args:
        counts: The most images of each kind.
        supply: What there is.

    Raises:
        InvalidInput: No category has a source, or the requested calibration split is too small for those that have.
    """
    train = min(counts.train, supply.fair_training)
    available = {split: supply.available(split, train) for split in supply.splits}
    # A calibration split of its own size need not be as large as the test split.
    alike = [split for split in supply.splits if split != "calibration" or counts.calibration is None]
    categories = {
        number: 0 if number in supply.lacking else min(wanted, *(available[split][number] for split in alike))
        for number, wanted in counts.categories.items()
    }
    if "calibration" in available:
        categories = {number: count if available["calibration"][number] else 0 for number, count in categories.items()}
    if not any(categories.values()):
        raise InvalidInput("no category has sources, got too few photos for the splits; add photos")
    fitted = replace(
        counts,
        categories=categories,
        train=train,
        distractors=min(counts.distractors, supply.distractors),
    )
    while fitted.calibration is not None and any(
        count > available["calibration"][number] for number, count in fitted.of_split("calibration").items()
    ):
        fitted = replace(fitted, calibration=fitted.calibration - 1)
    return fitted


def _most_even(sizes: Sequence[int]) -> int:
    """Return how many can be taken if classes take turns, in order, until one has no more."""
    least = min(sizes, default=0)
    return least * len(sizes) + next((index for index, size in enumerate(sizes) if size == least), 0)
