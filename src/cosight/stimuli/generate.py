"""Generate a stimulus set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import cv2

from cosight.errors import CosightError, InvalidInput
from cosight.files import atomic_write, lock_folder, package_versions
from cosight.processes import run_in_workers
from cosight.stimuli.images import Bytes, FileFormat, decode, digest, encode
from cosight.stimuli.journal import JOBS, Journal, SetRecord, is_started, open_journal, stored_settings
from cosight.stimuli.sets import PIXEL_PACKAGES, StimulusSet, read_set
from cosight.trials.manifest import MANIFEST

__all__ = [
    "GeneratedSet",
    "JobRunner",
    "OnError",
    "Outcome",
    "SetRecipe",
    "StimulusJob",
    "Unit",
    "check_output",
    "generate_set",
    "results",
]


@dataclass(frozen=True, slots=True)
class StimulusJob:
    """One stimulus to make; `file` is its name below `images/` without the ending, `facts` go into the manifest."""

    file: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unit:
    """Jobs done together because they share a source. `stamp` is a digest of the file(s) they are made from.

    A job that came to nothing is tried again when the stamp has changed, or `retry`: what it also depended on.
    """

    name: str
    stamp: str
    jobs: tuple[StimulusJob, ...]
    payload: Any = None
    retry: str = ""

    @property
    def failure_stamp(self) -> str:
        """What is noted with a job that came to nothing."""
        return f"{self.stamp} {self.retry}".strip()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a recipe made of a job: pixels and further facts, or the reason why nothing is kept, or what went wrong."""

    job: StimulusJob
    pixels: Bytes | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None
    error: CosightError | None = None


class SetRecipe(Protocol):
    """What there is to make. It is sent to the worker processes, so it can be pickled."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What all stimuli of a set have in common, as JSON; another value in the same folder is refused."""
        ...

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages besides the usual ones whose versions may change a pixel."""
        ...

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders that are read; the output must lie outside them."""
        ...

    def units(self) -> Sequence[Unit]:
        """All the work, in any order."""
        ...

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterable[Outcome]:
        """Do these jobs of the unit, one outcome each; an error raised here is that of all jobs not yet told."""
        ...


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
    with lock_folder(out), open_journal(out, root) as journal:
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
    elif not is_started(out) and any(p.name not in _BESIDE and p.name[0] != "." for p in out.iterdir()):
        raise InvalidInput(f"the output folder must be new, empty or an unfinished set, got {out}; choose another")


def _check_settings(out: Path, settings: Mapping[str, Any]) -> None:
    for name, value in (stored_settings(out) or {}).items():
        if settings.get(name) != value:
            raise InvalidInput(
                f"{out} was made with {name} {value!r}, got {settings.get(name)!r}; use the same or name another folder"
            )


OnError = Literal["stop", "skip"]
Pending = Sequence[tuple[Unit, tuple[StimulusJob, ...]]]
_PORTION = 20  # jobs of a unit that are done and noted together; its source is read again for the next


def results(task: JobRunner, pending: Pending, *, workers: int) -> Iterator[list[dict[str, Any]]]:
    """Journal lines of the pending work, a portion of a unit at a time, in the order they finish."""
    portions = [
        (unit, jobs[start : start + _PORTION]) for unit, jobs in pending for start in range(0, len(jobs), _PORTION)
    ]
    count = min(workers, max(len(portions), 1))
    return run_in_workers(task, portions, workers=count, initializer=_one_opencv_thread)


@dataclass(frozen=True, slots=True)
class JobRunner:
    """What a worker does with a unit: make, encode, write, and say so in journal lines."""

    recipe: SetRecipe
    out: Path
    format: FileFormat
    on_error: OnError

    def __call__(self, portion: tuple[Unit, Sequence[StimulusJob]]) -> list[dict[str, Any]]:
        """Do these jobs of the unit; one journal line each."""
        unit, jobs = portion
        lines: list[dict[str, Any]] = []
        try:
            for outcome in self.recipe.make(unit, jobs):
                if outcome.error is not None and self.on_error == "stop":
                    raise outcome.error
                lines.append(self._kept(outcome, unit))
        except CosightError as error:
            if self.on_error == "stop":
                raise
            told = {line["job"] for line in lines}
            lines += [self._lost(job, unit, "skipped", str(error)) for job in jobs if job.file not in told]
        return lines

    def _lost(self, job: StimulusJob, unit: Unit, outcome: str, reason: str) -> dict[str, Any]:
        return {"job": job.file, "stamp": unit.failure_stamp, "row": None, "outcome": outcome, "reason": reason}

    def _kept(self, outcome: Outcome, unit: Unit) -> dict[str, Any]:
        job = outcome.job
        if outcome.error is not None:
            return self._lost(job, unit, "skipped", str(outcome.error))
        if outcome.pixels is None:
            return self._lost(job, unit, "dropped", outcome.reason or "")
        data = encode(outcome.pixels, self.format)
        shown = outcome.pixels if self.format == "png" else decode(data)
        file = f"images/{job.file}.{self.format}"
        with atomic_write(self.out / file) as draft:
            draft.write_bytes(data)
        row = {**job.facts, **outcome.facts, "stimulus": digest(shown), "file": file}
        return {"job": job.file, "stamp": unit.stamp, "row": row, "size": len(data)}


def _one_opencv_thread() -> None:
    cv2.setNumThreads(1)  # the processes share the cores among themselves
