"""Making a stimulus set: jobs spread over processes, every image written whole, a journal to go on from.

A recipe (`recipes`) says what there is to make, `workers` do it, `record` remembers it. In the output folder:

* `images/`            the stimuli
* `stimuli.parquet`    the manifest, written when everything is done
* `jobs.parquet`       what became of each job, the digest of the file it was made from, which versions made it
* `journal.jsonl`      while a run is going, or after one was killed: the jobs done so far

To resume is to run again: jobs found in `jobs.parquet` or the journal are not done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cosight.errors import InvalidInput
from cosight.files import lock_folder, package_versions
from cosight.stimuli.images import FileFormat
from cosight.stimuli.journal import JOBS, Journal, SetRecord, begun, journal_of, settings_begun
from cosight.stimuli.set_recipe import SetRecipe, Unit
from cosight.stimuli.sets import PIXEL_PACKAGES, StimulusSet, read_set
from cosight.stimuli.workers import JobRunner, OnError, results
from cosight.trials.manifest import MANIFEST

__all__ = ["GeneratedSet", "check_output", "generate_set"]

Progress = Callable[[int, int, str], None]
_BESIDE = ("tiles", "spectrum.npy", "resources.json")  # what a recipe may have put there before the first image is made


@dataclass(frozen=True, slots=True)
class GeneratedSet:
    """The set, and how it came about: `new` stimuli, `present` ones, jobs not kept, sources that could not be used."""

    stimuli: StimulusSet
    new: int
    present: int
    dropped: Mapping[str, str]
    skipped: Mapping[str, str]


def generate_set(
    recipe: SetRecipe,
    out: Path,
    *,
    images: Path | None = None,
    format: FileFormat = "png",  # noqa: A002 (the option's name)
    workers: int = 1,
    on_error: OnError = "stop",
    progress: Progress | None = None,
) -> GeneratedSet:
    """Make what is not there yet and write the manifest; the bytes do not depend on `workers` or on interruptions.

    With `workers` above 1 that many processes are started anew, so a script needs its `if __name__ == "__main__":`.

    With `on_error="stop"` the first source that cannot be used raises, with "skip" it is left out and named in the
    result. What was made before an error stays and is found again.

    With `images`, the image files go to that folder and everything else to `out`: a set whose images may be given away
    while its labels are kept.
    """
    root = out if images is None else images
    settings = {**recipe.settings, "format": format}
    check_output(out, outside=recipe.folders)
    _check_settings(out, settings)
    units = recipe.units()
    with lock_folder(out), journal_of(out, root) as journal:
        record = SetRecord.read(out, root)
        record.check_same(units)
        record.made_with = package_versions((*PIXEL_PACKAGES, *recipe.packages))
        journal.begin(settings, record.made_with)
        pending = [(unit, todo) for unit in units if (todo := record.todo(unit, root, retry=on_error == "stop"))]
        task = JobRunner(recipe, root, format, on_error)
        _carry_out(results(task, pending, workers=workers), record, journal, progress, sum(len(j) for _, j in pending))
        if pending or record.unwritten or not (out / MANIFEST).exists():
            record.write(out, root, settings)
        journal.end()
    return _made(out, root, record, units, {job.file for _, jobs in pending for job in jobs})


def _carry_out(
    work: Iterator[list[dict[str, Any]]], record: SetRecord, journal: Journal, progress: Progress | None, total: int
) -> None:
    done = 0
    for lines in work:
        for line in lines:
            record.add(line)
            journal.write(line)
        done += len(lines)
        if progress:
            progress(done, total, "making")


def _made(out: Path, root: Path, record: SetRecord, units: Sequence[Unit], done: set[str]) -> GeneratedSet:
    asked = {job.file: unit.name for unit in units for job in unit.jobs}
    lost = {job: record.lost[job] for job in asked if job in record.lost}
    return GeneratedSet(
        stimuli=replace(read_set(out), root=root),
        new=sum(job in record.rows and job in done for job in asked),
        present=sum(job in record.rows and job not in done for job in asked),
        dropped={job: reason for job, (outcome, reason) in lost.items() if outcome == "dropped"},
        skipped={asked[job]: reason for job, (outcome, reason) in lost.items() if outcome == "skipped"},
    )


def check_output(out: Path, *, outside: Iterable[Path] = ()) -> None:
    """The output folder is new, empty, or holds a set that was made here, finished or not; and no source lies in it."""
    here = out.resolve()
    for folder in (folder.resolve() for folder in outside):
        if here.is_relative_to(folder) or folder.is_relative_to(here):
            raise InvalidInput(f"the output must lie outside the source {folder}, got {out}; name another folder")
    if not out.exists():
        return
    if not out.is_dir():
        raise InvalidInput(f"the output is a folder, got the file {out}; name another")
    if (out / MANIFEST).exists():
        if "settings" not in read_set(out).facts or not (out / JOBS).exists():
            raise InvalidInput(f"cannot resume {out}: {JOBS} belongs to another set; choose another output folder")
    elif not begun(out) and any(p.name not in _BESIDE and p.name[0] != "." for p in out.iterdir()):
        raise InvalidInput(f"the output folder must be new, empty or an unfinished set, got {out}; choose another")


def _check_settings(out: Path, settings: Mapping[str, Any]) -> None:
    for name, value in (settings_begun(out) or {}).items():
        if settings.get(name) != value:
            raise InvalidInput(
                f"{out} was made with {name} {value!r}, got {settings.get(name)!r}; use the same or name another folder"
            )
