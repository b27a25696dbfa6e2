"""Making a stimulus set: jobs spread over processes, every image written whole, a journal to go on from.

A recipe says what there is to make; this module makes it. In the output folder:

* `images/`            the stimuli
* `stimuli.parquet`    the manifest, written when everything is done
* `jobs.parquet`       what became of each job, and the digest of the file it was made from
* `journal.jsonl`      while a run is going, or after one was killed: the jobs done so far

To resume is to run again: jobs found in `jobs.parquet` or the journal are not done twice.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import polars as pl

from cosight.errors import CosightError, InvalidInput
from cosight.stimuli.images import Bytes, FileFormat, decode, digest, encode
from cosight.stimuli.sets import MANIFEST, StimulusSet, as_frame, read_set, versions, write_manifest
from cosight.trials.files import new_file

try:
    import fcntl
except ImportError:  # Windows: two runs into one folder are not told apart there
    fcntl = None  # type: ignore[assignment]

__all__ = ["Job", "Made", "OnError", "Outcome", "Recipe", "Unit", "make_set"]

OnError = Literal["stop", "skip"]
Progress = Callable[[int, int, str], None]
_JOBS = "jobs.parquet"
_JOURNAL = "journal.jsonl"
_BESIDE = ("tiles", "spectrum.npy")  # what a recipe may have put there before the first image is made
_JOB_SCHEMA = {"job": pl.String, "stamp": pl.String, "outcome": pl.String, "reason": pl.String}


@dataclass(frozen=True, slots=True)
class Job:
    """One stimulus to make; `file` is its name below `images/` without the ending, `facts` go into the manifest."""

    file: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unit:
    """Jobs done together because they share a source. `stamp` is a digest of the file(s) they are made from."""

    name: str
    stamp: str
    jobs: tuple[Job, ...]
    payload: Any = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a recipe made of a job: pixels and further facts, or the reason why nothing is kept."""

    job: Job
    pixels: Bytes | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None


class Recipe(Protocol):
    """What there is to make. It is sent to the worker processes, so it can be pickled."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What all stimuli of a set have in common, as JSON; another value in the same folder is refused."""
        ...

    def units(self) -> Sequence[Unit]:
        """All the work, in any order."""
        ...

    def make(self, unit: Unit, jobs: Sequence[Job]) -> Iterable[Outcome]:
        """Do these jobs of the unit, one outcome each."""
        ...


@dataclass(frozen=True, slots=True)
class Made:
    """The set, and how it came about: `new` stimuli, `present` ones, jobs not kept, sources that could not be used."""

    stimuli: StimulusSet
    new: int
    present: int
    dropped: Mapping[str, str]
    skipped: Mapping[str, str]


def make_set(
    recipe: Recipe,
    out: Path,
    *,
    format: FileFormat = "png",  # noqa: A002 (the option's name)
    workers: int | None = None,
    on_error: OnError = "stop",
    progress: Progress | None = None,
) -> Made:
    """Make what is not there yet and write the manifest; the bytes do not depend on `workers` or on interruptions.

    With `on_error="stop"` the first source that cannot be used raises, with "skip" it is left out and named in the
    result. What was made before an error stays and is found again.
    """
    settings = {**recipe.settings, "format": format}
    _check_folder(out, settings)
    units = recipe.units()
    out.mkdir(parents=True, exist_ok=True)
    with _journal(out) as journal:
        record = _Record.read(out)
        record.check_same(units)
        journal.begin(settings)
        pending = [(unit, todo) for unit in units if (todo := record.todo(unit, retry=on_error == "stop"))]
        total = sum(len(todo) for _, todo in pending)
        before, done = len(record.rows), 0
        for lines in _results(recipe, out, pending, format, _worker_count(workers, len(pending)), on_error):
            for line in lines:
                record.add(line)
                journal.write(line)
            done += len(lines)
            if progress:
                progress(done, total, "making")
        if pending or not (out / MANIFEST).exists():
            record.write(out, settings)
        journal.end()
    return record.made(read_set(out), units, before)


def _check_folder(out: Path, settings: Mapping[str, Any]) -> None:
    """The output folder is new, or holds a set made with the same settings, finished or not."""
    if not out.exists():
        return
    if not out.is_dir():
        raise InvalidInput(f"the output is a folder, got the file {out}; name another")
    theirs: Mapping[str, Any] | None = None
    if (out / MANIFEST).exists():
        theirs = read_set(out).facts.get("settings")
    elif (out / _JOURNAL).exists():
        theirs = next(_lines(out / _JOURNAL), {}).get("settings")
    elif any(p.name not in _BESIDE and not p.name.startswith(".") for p in out.iterdir()):
        raise InvalidInput(f"the output folder must be new, empty or a set to go on with, got {out}; name another")
    if theirs is None:
        return
    for name in sorted(theirs.keys() | settings.keys()):
        if theirs.get(name) != settings.get(name):
            raise InvalidInput(
                f"{out} was made with {name} {theirs.get(name)!r}, got {settings.get(name)!r}; "
                "use the same or name another folder"
            )


@dataclass(slots=True)
class _Record:
    """Everything done so far: manifest rows by job, and jobs that came to nothing with the reason."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    lost: dict[str, tuple[str, str]] = field(default_factory=dict)  # job -> (outcome, reason)
    stamps: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, out: Path) -> _Record:
        record = cls()
        if (out / _JOBS).exists() and (out / MANIFEST).exists():
            jobs = pl.read_parquet(out / _JOBS)
            manifest = {row["file"]: row for row in read_set(out).frame.iter_rows(named=True)}
            for job, stamp, outcome, reason in jobs.iter_rows():
                record.stamps[job] = stamp
                if outcome in ("dropped", "skipped"):
                    record.lost[job] = (outcome, reason)
                elif outcome in manifest and (out / outcome).exists():  # a job done is recorded with its file
                    record.rows[job] = manifest[outcome]
        for line in _lines(out / _JOURNAL):
            if "job" in line and (line.get("row") is None or _as_long(out / line["row"]["file"], line["size"])):
                record.add(line)
        return record

    def add(self, line: Mapping[str, Any]) -> None:
        self.stamps[line["job"]] = line["stamp"]
        if line["row"] is None:
            self.lost[line["job"]] = (line["outcome"], line["reason"])
        else:
            self.lost.pop(line["job"], None)
            self.rows[line["job"]] = line["row"]

    def check_same(self, units: Iterable[Unit]) -> None:
        """What is there must be what would be made now."""
        for unit in units:
            for job in unit.jobs:
                if job.file in self.rows:
                    self._check_job(job, unit)

    def _check_job(self, job: Job, unit: Unit) -> None:
        if self.stamps[job.file] != unit.stamp:
            raise InvalidInput(f"{unit.name} has changed since {job.file} was made from it; name another output folder")
        for name, value in job.facts.items():
            if (there := self.rows[job.file].get(name)) != value:
                raise InvalidInput(
                    f"{job.file} is there with {name} {there!r}, got {value!r}; use the same options or another folder"
                )

    def todo(self, unit: Unit, *, retry: bool) -> tuple[Job, ...]:
        """Jobs not done; a source that was skipped is tried again when it is to stop us, or when it has changed."""

        def known(job: Job) -> bool:
            if job.file in self.rows:
                return True
            outcome, _ = self.lost.get(job.file, ("", ""))
            return outcome != "" and self.stamps[job.file] == unit.stamp and not (outcome == "skipped" and retry)

        return tuple(job for job in unit.jobs if not known(job))

    def write(self, out: Path, settings: Mapping[str, Any]) -> None:
        jobs = sorted({*self.rows, *self.lost})
        columns = {
            "job": jobs,
            "stamp": [self.stamps[job] for job in jobs],
            "outcome": [self.rows[job]["file"] if job in self.rows else self.lost[job][0] for job in jobs],
            "reason": [None if job in self.rows else self.lost[job][1] for job in jobs],
        }
        with new_file(out / _JOBS) as draft:
            pl.DataFrame(columns, schema=_JOB_SCHEMA).write_parquet(draft, compression="zstd")
        rows = [self.rows[job] for job in jobs if job in self.rows]
        write_manifest(out, as_frame(rows), {"settings": settings, "versions": versions()})
        for draft in [*out.glob(".*"), *(out / "images").rglob(".*")]:  # left by a process killed while writing
            shutil.rmtree(draft) if draft.is_dir() else draft.unlink(missing_ok=True)

    def made(self, stimuli: StimulusSet, units: Sequence[Unit], before: int) -> Made:
        asked = {job.file: unit.name for unit in units for job in unit.jobs}
        lost = {job: self.lost[job] for job in asked if job in self.lost}
        new = len(self.rows) - before
        return Made(
            stimuli=stimuli,
            new=new,
            present=sum(job in self.rows for job in asked) - new,
            dropped={job: reason for job, (outcome, reason) in lost.items() if outcome == "dropped"},
            skipped={asked[job]: reason for job, (outcome, reason) in lost.items() if outcome == "skipped"},
        )


def _as_long(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size == size


class _Journal:
    """Lines of JSON, one a job, written as soon as the job's image is on disk."""

    def __init__(self, file: IO[str], path: Path) -> None:
        self._file = file
        self._path = path

    def begin(self, settings: Mapping[str, Any]) -> None:
        if self._path.stat().st_size == 0:
            self.write({"settings": settings})
        else:
            self._file.write("\n")  # a killed run may have left half a line

    def write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._file.flush()

    def end(self) -> None:
        self._path.unlink()


@contextmanager
def _journal(out: Path) -> Iterator[_Journal]:
    path = out / _JOURNAL
    with path.open("a", encoding="utf-8") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InvalidInput(f"another run is writing to {out}; wait for it or name another folder") from error
        try:
            yield _Journal(file, path)
        finally:
            if path.exists() and path.stat().st_size == 0:  # nothing was begun
                path.unlink()


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a journal; half a line, left by a run that was killed, is passed over."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                continue
            if isinstance(line, dict):
                yield line


def _worker_count(workers: int | None, units: int) -> int:
    if workers is not None and workers < 1:
        raise InvalidInput(f"workers must be at least 1, got {workers}")
    return max(1, min(workers or os.cpu_count() or 1, units))


def _results(
    recipe: Recipe,
    out: Path,
    pending: Sequence[tuple[Unit, tuple[Job, ...]]],
    format: FileFormat,  # noqa: A002
    workers: int,
    on_error: OnError,
) -> Iterator[list[dict[str, Any]]]:
    """Journal lines of the pending work, unit by unit, in the order they finish."""
    task = _Task(recipe, out, format, on_error)
    if workers == 1:
        yield from (task(unit, jobs) for unit, jobs in pending)
        return
    context = multiprocessing.get_context("spawn")  # polars' threads do not survive a fork
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(task,))
    try:
        yield from _as_they_finish(pool, pending, ahead=4 * workers)
    finally:
        pool.shutdown(cancel_futures=True)


def _as_they_finish(
    pool: ProcessPoolExecutor, pending: Sequence[tuple[Unit, tuple[Job, ...]]], *, ahead: int
) -> Iterator[list[dict[str, Any]]]:
    """Few units are handed out at a time, so that memory does not grow with their number."""
    waiting: set[Future[list[dict[str, Any]]]] = set()
    queue = iter(pending)
    while True:
        for unit, jobs in queue:
            waiting.add(pool.submit(_in_worker, unit, jobs))
            if len(waiting) >= ahead:
                break
        if not waiting:
            return
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()


@dataclass(frozen=True, slots=True)
class _Task:
    """What a worker does with a unit: make, encode, write, and say so in journal lines."""

    recipe: Recipe
    out: Path
    format: FileFormat
    on_error: OnError

    def __call__(self, unit: Unit, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        try:
            return [self._kept(outcome, unit) for outcome in self.recipe.make(unit, jobs)]
        except CosightError as error:
            if self.on_error == "stop":
                raise
            base = {"stamp": unit.stamp, "row": None, "outcome": "skipped", "reason": str(error)}
            return [{"job": job.file, **base} for job in jobs]

    def _kept(self, outcome: Outcome, unit: Unit) -> dict[str, Any]:
        job = outcome.job
        if outcome.pixels is None:
            reason = outcome.reason or ""
            return {"job": job.file, "stamp": unit.stamp, "row": None, "outcome": "dropped", "reason": reason}
        data = encode(outcome.pixels, self.format)
        shown = outcome.pixels if self.format == "png" else decode(data)
        file = f"images/{job.file}.{self.format}"
        with new_file(self.out / file) as draft:
            draft.write_bytes(data)
        row = {**job.facts, **outcome.facts, "stimulus": digest(shown), "file": file}
        return {"job": job.file, "stamp": unit.stamp, "row": row, "size": len(data)}


_task: _Task  # the worker process' own


def _start_worker(task: _Task) -> None:
    global _task
    _task = task
    import cv2

    cv2.setNumThreads(1)  # the processes share the cores among themselves
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _in_worker(unit: Unit, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    return _task(unit, jobs)
