"""`cosight demo`: real people and networks first, then the digits benchmark, and a report about both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from cosight.demos.people import PEOPLE_FILE, demo_people
from cosight.demos.report import write_demo_report
from cosight.demos.size import REPORT, STIMULI, Size
from cosight.errors import InvalidInput
from cosight.extras import require
from cosight.progress import Progress, report_progress
from cosight.statistics.rows import Scores

if TYPE_CHECKING:
    from cosight.demos.digits import DigitsResult

__all__ = ["Demo", "Part", "demo"]

Part = Literal["people", "digits"]
_FULL_SIZE = Size()
_DIGITS_NEED = ("cv2", "numba", "torch", "timm", "safetensors", "matplotlib")


@dataclass(frozen=True, slots=True)
class Demo:
    """The results of a demo.

    Attributes:
        folder: The output folder.
        people: Real people and networks compared; None where only `digits` ran.
        digits: Scores on the digits benchmark; None where only `people` ran.
        page: The first page of the report, an HTML file.
    """

    folder: Path
    people: Scores | None
    digits: DigitsResult | None
    page: Path


def demo(
    part: Part | None = None,
    *,
    out: str | Path = "demo-run",
    seed: int = 0,
    size: Size = _FULL_SIZE,
    processes: int | None = None,
    progress: Progress | bool | None = None,
) -> Demo:
    """Run the whole job on what ships with the package, and write a report about it.

    First the people and networks of a sample are compared, in seconds. Then the digits benchmark is built, and small
    networks are trained, evaluated, scored and compared with simulated people, in minutes. Networks are trained in
    processes, so a script must call it below `if __name__ == "__main__":`.

    Args:
        part: Run only the real people and networks (`people`), or only the digits benchmark (`digits`).
        out: Output folder. An unfinished demo there is resumed.
        seed: Seed of everything random.
        size: Size of the digits part.
        processes: Number of worker processes (default: one per core). Does not change the output.
        progress: True for a progress bar (default: in notebooks and at the prompt), False for none, or a function
            that is called with steps done, steps in all, and a description.

    Returns:
        The scores and the report.

    Raises:
        InvalidInput: `part` is neither of the two, or `out` has other content.
        MissingExtra: The digits part needs packages that are not installed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = demo("people", out=folder, size=Size(resamples=20))
    ...     result.page.name
    'index.html'
    """
    if part not in (None, *get_args(Part)):
        raise InvalidInput(f"the parts of the demo are {' and '.join(get_args(Part))}, got {part!r}")
    folder = Path(out)
    if (
        folder.is_dir()
        and any(folder.iterdir())
        and not any((folder / name).exists() for name in (STIMULI, PEOPLE_FILE))
    ):
        raise InvalidInput(f"--out must be a new or empty folder, or an unfinished demo, got {folder}; choose another")
    if part != "people":
        require(*_DIGITS_NEED, by="cosight demo digits", extra="demo")
    people = digits = None
    with report_progress(progress) as report:
        if part != "digits":
            people = demo_people(folder, seed=seed, resamples=size.resamples, progress=report)
        if part != "people":
            from cosight.demos.digits import demo_digits  # needs torch

            digits = demo_digits(folder, seed=seed, size=size, processes=processes, progress=report)
    page = write_demo_report(folder, folder / REPORT, people, digits, seed=seed)
    return Demo(folder, people, digits, page)
