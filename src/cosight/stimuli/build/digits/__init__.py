"""The embedded benchmark: VisAlign's eight categories on 1,797 handwritten digits that come with cosight."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cosight.stimuli.build.building import Built, built
from cosight.stimuli.build.categories import Counts
from cosight.stimuli.build.datasheet import Origin
from cosight.stimuli.build.digits.builder import DigitDistractors, digits_builder
from cosight.stimuli.build.digits.ink import about_digits

__all__ = ["build_digits"]

_GOLD = (
    "Must-Act and Must-Abstain images: by construction. Only handwritten strokes count as digits, as only photos count "
    "as animals in VisAlign: a printed, outlined or dotted digit is to be refused.",
    "Uncertain images: a **simulated** panel, not people. The manifest's settings hold its parameters, which were set "
    "by eye before any model was run. A study's answers replace it.",
)


def build_digits(
    out: Path,
    *,
    counts: Counts | None = None,
    seed: int = 0,
    closed: bool = False,
    workers: int = 1,
    progress: Callable[[int, int, str], None] | None = None,
) -> Built:
    """Make the digits benchmark in `out`, with its distractors and datasheet; run it again to go on with it."""
    builder = digits_builder(counts=counts, seed=seed, closed=closed)
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
        workers=workers,
        progress=progress,
    )
