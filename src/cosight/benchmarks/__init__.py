"""Benchmarks: one registry, one entry per benchmark, and a module or folder with everything particular to it.

`cosight list benchmarks`, `cosight build`, `cosight evaluate --on` and `cosight score --on` read the registry. Another
package adds a benchmark through the entry point group `cosight.benchmarks`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosight.benchmarks.cifar10h import CIFAR_10H
from cosight.benchmarks.digits import DIGITS
from cosight.benchmarks.entry import AlteredPhotos, Benchmark, BuildResult, Progress
from cosight.benchmarks.imagenet_c import IMAGENET_C
from cosight.benchmarks.laion_c import LAION_C
from cosight.benchmarks.visalign import VISALIGN
from cosight.errors import InvalidInput
from cosight.registry import Registry

if TYPE_CHECKING:
    from cosight.trials import Trials

__all__ = ["AlteredPhotos", "Benchmark", "BuildResult", "Progress", "benchmarks", "build", "get_builder"]

benchmarks: Registry[Benchmark] = Registry("benchmark")
for _entry in (VISALIGN, DIGITS, LAION_C, IMAGENET_C, CIFAR_10H):
    benchmarks.add(_entry.name, _entry)


def build(
    name: str,
    /,
    *arguments: Any,
    humans: str | Path | None = None,
    sheet: str | Path | None = None,
    **options: Any,
) -> BuildResult:
    """Build the stimulus set of a benchmark; an unfinished set is resumed.

    Args:
        name: A benchmark that can be built (`cosight list benchmarks`).
        arguments: What its builder takes, `out` among them.
        humans: Trials of people: their answers become gold labels, of Uncertain images where the set has groups.
        sheet: Also write a contact sheet to this file (.png, .jpg).
        options: What its builder takes by keyword, such as `seed` or `workers`.

    Returns:
        The set, its distractors and its closed test set where it has them.

    Raises:
        UnknownName: There is no such benchmark.
        InvalidInput: It is not built, or the builder refuses its sources.

    >>> build("laion-c", "out")
    Traceback (most recent call last):
    cosight.errors.InvalidInput: laion-c is made of photos while models are evaluated, so there is nothing to build;
    run `cosight evaluate MODEL --on laion-c --source PHOTOS`
    """
    entry = benchmarks[name]
    builder = get_builder(entry)
    call = signature(builder).bind(*arguments, **options)
    out = Path(call.arguments["out"])
    if call.arguments.get("seed", 0) < 0:
        raise InvalidInput(f"--seed must be 0 or more, got {call.arguments['seed']}")
    _check_sheet(sheet, out)
    people = None if humans is None else _read_people(humans)
    built = builder(*call.args, **call.kwargs)
    if people is not None:
        built = replace(built, notices=(*built.notices, *_put_answers(people, out, call.arguments.get("closed"))))
    if sheet is not None:
        from cosight.stimuli.contact_sheet import write_sheet
        from cosight.stimuli.sets import read_set

        (entry.sheet or write_sheet)(read_set(out), Path(sheet))
    return built


def get_builder(entry: Benchmark) -> Callable[..., BuildResult]:
    """The function that builds a benchmark's set; refused for one that is made while models are evaluated."""
    if entry.build is None:
        raise InvalidInput(
            f"{entry.name} is made of photos while models are evaluated, so there is nothing to build; "
            f"run `{entry.usage}`"
        )
    return entry.build


def _check_sheet(sheet: str | Path | None, out: Path) -> None:
    """Refuse a bad file name before anything is made."""
    from cosight.stimuli.contact_sheet import sheet_format

    if sheet is None:
        return
    sheet_format(Path(sheet))
    if Path(sheet).resolve().is_relative_to((out / "images").resolve()):
        raise InvalidInput(
            f"--sheet must be outside the image folder {out / 'images'}, got {sheet}; choose another path"
        )


def _read_people(humans: str | Path) -> Trials:
    """Read people's trials before anything is built."""
    from cosight.trials import read
    from cosight.trials.table import select_roles

    return select_roles(read(humans))


def _put_answers(people: Trials, out: Path, closed: Path | None) -> tuple[str, ...]:
    """Make people's answers the gold labels of the set, and of the closed test set where they answered some of it."""
    from cosight.stimuli.sets import write_gold_labels
    from cosight.trials.manifest import read_manifest

    images = write_gold_labels(out, people)
    which = "Uncertain images" if read_manifest(out)[0]["group"].is_not_null().any() else "images"
    if closed is not None and people.frame["stimulus"].is_in(read_manifest(closed)[0]["stimulus"].to_list()).any():
        images += write_gold_labels(closed, people)
    return (*people.notices, f"gold labels of {images} {which} are people's")
