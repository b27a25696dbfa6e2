"""Benchmarks: one registry, one entry per benchmark, and a module or folder with everything particular to it.

`cosight list benchmarks`, `cosight build`, `cosight evaluate --on` and `cosight score --on` read the registry. Another
package adds a benchmark through the entry point group `cosight.benchmarks`.

* `entry`, `table_layout`   what an entry declares
* `building`, `altering`    what builders share; the recipe of benchmarks that alter photos
* the others                one module or folder per benchmark
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

from cosight.arrays import whole_number
from cosight.benchmarks.cifar10h import CIFAR_10H
from cosight.benchmarks.digits import DIGITS
from cosight.benchmarks.entry import AlteredPhotos, Benchmark, BuildResult, PairComparison, ReportChart, ReportSection
from cosight.benchmarks.error_alignment import ERROR_ALIGNMENT
from cosight.benchmarks.imagenet_c import IMAGENET_C
from cosight.benchmarks.laion_c import LAION_C
from cosight.benchmarks.representation import REPRESENTATION
from cosight.benchmarks.table_layout import TableLayout
from cosight.benchmarks.visalign import VISALIGN
from cosight.errors import InvalidInput
from cosight.processes import MOST_WORKERS
from cosight.progress import Progress, report_progress
from cosight.registry import Registry

__all__ = [
    "AlteredPhotos",
    "Benchmark",
    "BuildResult",
    "PairComparison",
    "Progress",
    "ReportChart",
    "ReportSection",
    "TableLayout",
    "benchmarks",
    "build",
    "get_builder",
]

benchmarks: Registry[Benchmark] = Registry("benchmark")
for _entry in (VISALIGN, DIGITS, LAION_C, IMAGENET_C, CIFAR_10H, ERROR_ALIGNMENT, REPRESENTATION):
    benchmarks.add(_entry.name, _entry)


def build(
    name: str,
    /,
    *arguments: Any,
    humans: str | Path | None = None,
    sheet: str | Path | None = None,
    force: bool = False,
    progress: Progress | bool | None = None,
    **options: Any,
) -> BuildResult:
    """Build the stimulus set of a benchmark; an unfinished set is resumed.

    Args:
        name: A benchmark that can be built (`cosight list benchmarks`).
        arguments: Positional arguments of its builder, `out` among them.
        humans: Trials of people: their answers become gold labels, of Uncertain images where the set has groups.
        sheet: Also write a contact sheet to this file (.png, .jpg).
        force: Replace an existing contact sheet.
        progress: True for a progress bar (default: in notebooks and at the prompt), False for none, or a function
            that is called with parts done, parts in all, and a description.
        options: Keyword arguments of its builder, such as `seed` or `workers`.

    Returns:
        The set, and its distractors and closed test set if it has them.

    Raises:
        UnknownName: If there is no such benchmark.
        InvalidInput: If the benchmark cannot be built, or the builder refuses its sources.

    >>> build("imagenet-c", "out")
    Traceback (most recent call last):
    cosight.errors.InvalidInput: imagenet-c is made of photos while models are evaluated, so there is nothing to build;
    run `cosight evaluate MODEL --on imagenet-c --source PHOTOS`
    """
    entry = benchmarks[name]
    builder = get_builder(entry)
    call = signature(builder).bind(*arguments, **options)
    out = Path(call.arguments["out"])
    # Whatever can be checked is checked before anything is built.
    whole_number(call.arguments.get("seed", 0), name="--seed")
    if call.arguments.get("workers") is not None:
        whole_number(call.arguments["workers"], name="--workers", least=1, most=MOST_WORKERS)
    if sheet is not None:
        from cosight.stimuli.contact_sheet import check_sheet

        check_sheet(Path(sheet), outside=[out / "images"], force=force)
    people = None
    if humans is not None:
        from cosight.trials import read
        from cosight.trials.table import select_roles

        people = select_roles(read(humans))
    with report_progress(progress) as report:
        if "progress" in signature(builder).parameters:
            call.arguments["progress"] = report
        result = builder(*call.args, **call.kwargs)
    if people is not None:
        from cosight.stimuli.sets import write_gold_labels
        from cosight.trials.manifest import read_manifest

        images = write_gold_labels(out, people)
        which = "Uncertain images" if read_manifest(out)[0]["group"].is_not_null().any() else "images"
        closed = call.arguments.get("closed")
        if closed is not None and people.frame["stimulus"].is_in(read_manifest(closed)[0]["stimulus"].to_list()).any():
            images += write_gold_labels(closed, people)
        notices = (*people.notices, f"gold labels of {images} {which} are people's")
        result = replace(result, notices=(*result.notices, *notices))
    if sheet is not None:
        from cosight.stimuli.contact_sheet import write_sheet
        from cosight.stimuli.sets import read_set

        (entry.sheet or write_sheet)(read_set(out), Path(sheet))
    return result


def get_builder(entry: Benchmark) -> Callable[..., BuildResult]:
    """Return the function that builds the set of a benchmark.

    Args:
        entry: The benchmark.

    Returns:
        Its `build` function.

    Raises:
        InvalidInput: If the benchmark has none, because its images are made while models are evaluated.

    >>> get_builder(benchmarks["digits"]).__module__
    'cosight.benchmarks.digits'
    """
    if entry.comparison is not None:
        raise InvalidInput(f"{entry.name} compares any trials, so there is nothing to build; run `{entry.usage}`")
    if entry.build is None:
        raise InvalidInput(
            f"{entry.name} is made of photos while models are evaluated, so there is nothing to build; "
            f"run `{entry.usage}`"
        )
    return entry.build
