"""Generate a stimulus set from a recipe, in worker processes, so that an interrupted run can be resumed.

A recipe (`SetRecipe`) lists units of work; each unit has the jobs that share a source. In the output folder:

* `images/`            the stimuli, each written atomically
* `stimuli.parquet`    the manifest, written at the end
* `jobs.parquet`       the result of each job, the stamp of its source, the versions it was made with
* `journal.jsonl`      only in an unfinished set: the jobs done since the manifest was written

To resume a set, generate it again: jobs in `jobs.parquet` or in the journal are not repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from cosight.arrays import whole_number
from cosight.errors import CosightError, InvalidInput
from cosight.files import atomic_write, lock_folder, package_versions
from cosight.processes import MOST_WORKERS, run_in_workers
from cosight.progress import Progress
from cosight.stimuli.images import Bytes, FileFormat, decode, digest, encode
from cosight.stimuli.journal import JOBS, SetRecord, is_started, open_journal, stored_settings
from cosight.stimuli.sets import PIXEL_PACKAGES, StimulusSet, read_set
from cosight.trials.manifest import MANIFEST

__all__ = [
    "GeneratedSet",
    "OnError",
    "Outcome",
    "SetRecipe",
    "StimulusJob",
    "Unit",
    "check_output",
    "generate_set",
]

OnError = Literal["stop", "skip"]
_JOBS_PER_TASK = 20  # jobs of one unit that a worker does and reports together; the source is read once per task
_RESOURCES = ("tiles", "spectrum.npy", "resources.json")  # may be in the output folder before the first image


@dataclass(frozen=True, slots=True)
class StimulusJob:
    """One stimulus to make.

    Attributes:
        file: Its path below `images/`, without a suffix. It identifies the job.
        facts: Manifest columns that are known beforehand.
    """

    file: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unit:
    """Jobs that are done together because they share a source.

    Attributes:
        name: What error messages call the source, usually its path.
        stamp: Digest of the file or files that the stimuli are made from. A finished job with another stamp is refused.
        jobs: The jobs.
        payload: Whatever the recipe needs to do them.
        retry: Digest of everything else a failed job depends on; a failed job is repeated when it or `stamp` differs.
        together: Whether all its jobs are done in one task, because one computation makes them all.
    """

    name: str
    stamp: str
    jobs: tuple[StimulusJob, ...]
    payload: Any = None
    retry: str = ""
    together: bool = False

    @property
    def failure_stamp(self) -> str:
        """The stamp that is recorded with a failed job."""
        return f"{self.stamp} {self.retry}".strip()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a job: pixels and further manifest columns, or the reason for dropping it, or an error."""

    job: StimulusJob
    pixels: Bytes | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None
    error: CosightError | None = None


class SetRecipe(Protocol):
    """The work behind a set. Recipes are sent to worker processes, so they can be pickled."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What all stimuli have in common, as JSON. A set with other settings is not resumed."""
        ...

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages besides `PIXEL_PACKAGES` whose version may change a pixel."""
        ...

    @property
    def folders(self) -> tuple[Path, ...]:
        """Source folders. The output must be outside them."""
        ...

    def units(self) -> Sequence[Unit]:
        """All units, in any order."""
        ...

    def make(self, unit: Unit, jobs: Sequence[StimulusJob]) -> Iterable[Outcome]:
        """Yield one outcome for each of these jobs of the unit.

        An error raised here is recorded for all jobs without an outcome.
        """
        ...


@dataclass(frozen=True, slots=True)
class GeneratedSet:
    """A generated set.

    Attributes:
        stimuli: The set.
        new: Number of stimuli made by this run.
        present: Number of stimuli that an earlier run had made.
        dropped: Reason for each job that the recipe dropped, by the job's file.
        skipped: Reason for each source that could not be used, by the unit's name.
    """

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
    """Make the stimuli that do not exist yet, then write the manifest.

    The bytes do not depend on `workers` or on interruptions.

    Args:
        recipe: What to make, for example `Alterations`.
        out: Output folder. An unfinished set there is resumed.
        images: Folder for the image files, if not `out`: the images can then be published without their labels.
        format: File format of the images.
        workers: Number of processes. With more than one, a script needs its `if __name__ == "__main__":`.
        on_error: What happens when a source cannot be used: "stop" raises the error, "skip" leaves the source out and
            names it in the result. Stimuli made before an error are kept.
        progress: Called with the number of finished jobs, the number of all jobs and a label.

    Returns:
        The set, and how many of its stimuli are new.

    Raises:
        InvalidInput: If `out` belongs to something else, the set in it has other settings, a source has changed since
            it was used, or (with "stop") a source cannot be used.

    >>> import numpy as np
    >>> from cosight.stimuli import Alterations, alteration
    >>> Path("photos").mkdir()
    >>> _ = Path("photos/grey.png").write_bytes(encode(np.full((32, 32), 90, np.uint8), "png"))
    >>> recipe = Alterations(read_set("photos"), (alteration("contrast", severity=3),))
    >>> generate_set(recipe, Path("low-contrast")).new
    1
    """
    image_root = out if images is None else images
    settings = {**recipe.settings, "format": format}
    whole_number(settings.get("seed", 0), name="--seed")
    whole_number(workers, name="--workers", least=1, most=MOST_WORKERS)
    check_output(out, outside=recipe.folders)
    for name, value in (stored_settings(out) or {}).items():
        if settings.get(name) != value:
            raise InvalidInput(
                f"{out} was made with {name} {value!r}, got {settings.get(name)!r}; use the same or choose another "
                "output folder"
            )
    units = recipe.units()
    with lock_folder(out), open_journal(out, image_root) as journal:
        record = SetRecord.read(out, image_root)
        _check_unchanged(record, units)
        record.current_versions = package_versions((*PIXEL_PACKAGES, *recipe.packages))
        journal.begin(settings, record.current_versions)
        pending = [(unit, _jobs_to_do(record, unit, image_root, retry_skipped=on_error == "stop")) for unit in units]
        tasks = [
            (unit, jobs[start : start + size])
            for unit, jobs in pending
            for size in [max(len(jobs), 1) if unit.together else _JOBS_PER_TASK]
            for start in range(0, len(jobs), size)
        ]
        run = partial(_run_jobs, recipe=recipe, image_root=image_root, format=format, on_error=on_error)
        done, total = 0, sum(len(jobs) for _, jobs in pending)
        processes = min(workers, max(len(tasks), 1))
        for lines in run_in_workers(run, tasks, workers=processes, initializer=_use_one_opencv_thread):
            for line in lines:
                record.add(line)
                journal.write(line)
            done += len(lines)
            if progress:
                progress(done, total, "generating")
        if tasks or record.has_unwritten or not (out / MANIFEST).exists():
            record.write(out, image_root, settings)
        journal.end()
    sources = {job.file: unit.name for unit in units for job in unit.jobs}
    made_now = {job.file for _, jobs in pending for job in jobs}
    failures = {job: record.failures[job] for job in sources if job in record.failures}
    return GeneratedSet(
        stimuli=replace(read_set(out), root=image_root),
        new=sum(job in record.rows and job in made_now for job in sources),
        present=sum(job in record.rows and job not in made_now for job in sources),
        dropped={job: reason for job, (outcome, reason) in failures.items() if outcome == "dropped"},
        skipped={sources[job]: reason for job, (outcome, reason) in failures.items() if outcome == "skipped"},
    )


def check_output(out: Path, *, outside: Iterable[Path] = ()) -> None:
    """Check that a set can be written to a folder.

    Raises:
        InvalidInput: If the folder is neither new nor empty nor a generated set, finished or not, or if it contains
            or is inside one of the folders `outside`.
    """
    resolved = out.resolve()
    for folder in (folder.resolve() for folder in outside):
        if resolved.is_relative_to(folder) or folder.is_relative_to(resolved):
            raise InvalidInput(f"the output must be outside the source {folder}, got {out}; choose another folder")
    if not out.exists():
        return
    if not out.is_dir():
        raise InvalidInput(f"the output is a folder, got the file {out}; choose another name")
    if (out / MANIFEST).exists():
        if "settings" not in read_set(out).facts or not (out / JOBS).exists():
            raise InvalidInput(f"cannot resume {out}: {JOBS} belongs to another set; choose another output folder")
    elif not is_started(out) and any(p.name not in _RESOURCES and p.name[0] != "." for p in out.iterdir()):
        raise InvalidInput(f"the output folder must be new, empty or an unfinished set, got {out}; choose another")


def _check_unchanged(record: SetRecord, units: Iterable[Unit]) -> None:
    """Raise if a finished job would be done differently now."""
    finished = [(unit, job) for unit in units for job in unit.jobs if job.file in record.rows]
    for unit, job in finished:
        if record.stamps[job.file] != unit.stamp:
            raise InvalidInput(
                f"{unit.name} has changed since {job.file} was made from it; choose another output folder"
            )
        for name, value in job.facts.items():
            if (stored := record.rows[job.file].get(name)) != value:
                raise InvalidInput(
                    f"{job.file} exists with {name} {stored!r}, got {value!r}; use the same options or choose another "
                    "output folder"
                )


def _jobs_to_do(record: SetRecord, unit: Unit, image_root: Path, *, retry_skipped: bool) -> tuple[StimulusJob, ...]:
    """Return the jobs that are not done, whose image is missing, or that failed and may succeed now."""

    def is_done(job: StimulusJob) -> bool:
        if job.file in record.rows:
            return bool((image_root / record.rows[job.file]["file"]).exists())
        if job.file not in record.failures or record.stamps[job.file] != unit.failure_stamp:
            return False
        return not (retry_skipped and record.failures[job.file][0] == "skipped")

    return tuple(job for job in unit.jobs if not is_done(job))


def _run_jobs(
    task: tuple[Unit, Sequence[StimulusJob]],
    *,
    recipe: SetRecipe,
    image_root: Path,
    format: FileFormat,  # noqa: A002 (the option's name)
    on_error: OnError,
) -> list[dict[str, Any]]:
    """Make and write the images of these jobs; return one journal line per job."""
    unit, jobs = task
    lines: list[dict[str, Any]] = []

    def report_failure(job: StimulusJob, outcome: str, reason: str) -> None:
        stamp = unit.failure_stamp
        lines.append({"job": job.file, "stamp": stamp, "row": None, "outcome": outcome, "reason": reason})

    try:
        for outcome in recipe.make(unit, jobs):
            job = outcome.job
            if outcome.error is not None:
                if on_error == "stop":
                    raise outcome.error
                report_failure(job, "skipped", str(outcome.error))
            elif outcome.pixels is None:
                report_failure(job, "dropped", outcome.reason or "")
            else:
                data = encode(outcome.pixels, format)
                file = f"images/{job.file}.{format}"
                with atomic_write(image_root / file) as draft:
                    draft.write_bytes(data)
                stored_pixels = outcome.pixels if format == "png" else decode(data)
                row = {**job.facts, **outcome.facts, "stimulus": digest(stored_pixels), "file": file}
                lines.append({"job": job.file, "stamp": unit.stamp, "row": row, "size": len(data)})
    except CosightError as error:
        if on_error == "stop":
            raise
        reported = {line["job"] for line in lines}
        for job in jobs:
            if job.file not in reported:
                report_failure(job, "skipped", str(error))
    return lines


def _use_one_opencv_thread() -> None:
    import cv2

    cv2.setNumThreads(1)  # the worker processes share the cores
