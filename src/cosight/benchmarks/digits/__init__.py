"""The embedded benchmark: VisAlign's eight categories on 1,797 handwritten digits that come with cosight."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cosight.benchmarks.entry import Benchmark, BuildResult, Progress, ReportSection
from cosight.benchmarks.visalign import VISALIGN

__all__ = ["DIGITS", "build"]


def build(
    out: Annotated[Path, "Output folder. An unfinished set there is resumed."],
    *,
    counts: Annotated[str, "Images per category: 1=50,8=100,train=500,distractors=20 (default: as in VisAlign)."] = "",
    seed: Annotated[int, "Seed of everything random."] = 0,
    closed: Annotated[Path | None, "Also build a closed test set; its labels go to this folder, outside OUT."] = None,
    workers: Annotated[int, "Number of worker processes. Does not change the output."] = 1,
    progress: Progress | None = None,
) -> BuildResult:
    """Build the embedded benchmark on handwritten digits. Gold labels of its Uncertain images are simulated.

    Args:
        progress: Called with the number of finished images, the number of all images and a label.

    Returns:
        The set, its distractors and its closed test set, if they are requested.

    Raises:
        InvalidInput: If the counts cannot be met, or `out` belongs to another set.

    Examples:
        cosight build digits digits
        cosight build digits small --counts 1=10,8=20,train=60 --sheet small.png

    >>> counts = "1=2,2=0,3=0,4=0,5=0,6=0,7=0,8=0,train=0,distractors=0"
    >>> built = build(Path("digits"), counts=counts).generated
    >>> built.new, sorted(set(built.stimuli.frame["split"]))
    (4, ['calibration', 'test'])
    """
    from cosight.benchmarks.digits.digits_builder import build_digits
    from cosight.benchmarks.visalign.categories import parse_counts

    return build_digits(
        Path(out),
        counts=parse_counts(counts),
        seed=seed,
        closed=None if closed is None else Path(closed),
        workers=workers,
        progress=progress,
    )


DIGITS = Benchmark(
    name="digits",
    summary="VisAlign's eight categories on handwritten digits.",
    source="Lee et al. 2023, VisAlign; Alpaydin and Kaynak 1998, digits (UCI)",
    labels="digits-11",
    experiment="digits",
    humans="a simulated panel of 134",
    needs="nothing: the digits come with cosight",
    measures=("hellinger", "reliability_score"),
    build=build,
    sheet=VISALIGN.sheet,
    table=VISALIGN.table,
    sections={
        "table": VISALIGN.sections["table"],
        "stimuli": ReportSection(
            "What was shown",
            "Categories 1 to 3 show digits, and the right answer is the digit (Must-Act). Categories 4 to 7 show no "
            "digit, and the right answer is to abstain (Must-Abstain). Category 8 shows corrupted digits (Uncertain): "
            "the answers of a simulated panel decide.",
            VISALIGN.sections["stimuli"].charts,
        ),
    },
)
