"""Making a stimulus set: jobs spread over processes, every image written whole, a journal to go on from.

A recipe says what there is to make; this module makes it. In the output folder:

* `images/`            the stimuli
* `stimuli.parquet`    the manifest, written when everything is done
* `jobs.parquet`       what became of each job, the digest of the file it was made from, which versions made it
* `journal.jsonl`      while a run is going, or after one was killed: the jobs done so far

To resume is to run again: jobs found in `jobs.parquet` or the journal are not done twice.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import polars as pl

from cosight.errors import CosightError, InvalidInput
from cosight.stimuli.images import Bytes, FileFormat, decode, digest, encode
from cosight.stimuli.sets import MANIFEST, StimulusSet, as_frame, read_set, versions, write_manifest
from cosight.trials.files import DRAFT, new_file

try:
    import fcntl
except ImportError:  # Windows: two runs into one folder are not told apart there
    fcntl = None  # type: ignore[assignment]

__all__ = ["Job", "Made", "OnError", "Outcome", "Recipe", "Unit", "begun", "check_output", "make_set"]

OnError = Literal["stop", "skip"]
Progress = Callable[[int, int, str], None]
_JOBS = "jobs.parquet"
_JOURNAL = "journal.jsonl"
_PORTION = 20  # jobs of a unit that are done and noted together; its source is read again for the next
_BESIDE = ("tiles", "spectrum.npy")  # what a recipe may have put there before the first image is made
_JOB_SCHEMA = {"job": pl.String, "stamp": pl.String, "outcome": pl.String, "reason": pl.String, "versions": pl.Int64}


@dataclass(frozen=True, slots=True)
class Job:
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
    jobs: tuple[Job, ...]
    payload: Any = None
    retry: str = ""

    @property
    def stamp_when_lost(self) -> str:
        """What is noted with a job that came to nothing."""
        return f"{self.stamp} {self.retry}".strip()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a recipe made of a job: pixels and further facts, or the reason why nothing is kept, or what went wrong."""

    job: Job
    pixels: Bytes | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None
    error: CosightError | None = None


class Recipe(Protocol):
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

    def make(self, unit: Unit, jobs: Sequence[Job]) -> Iterable[Outcome]:
        """Do these jobs of the unit, one outcome each; an error raised here is that of all jobs not yet told."""
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
    workers: int = 1,
    on_error: OnError = "stop",
    progress: Progress | None = None,
) -> Made:
    """Make what is not there yet and write the manifest; the bytes do not depend on `workers` or on interruptions.

    With `workers` above 1 that many processes are started anew, so a script needs its `if __name__ == "__main__":`.

    With `on_error="stop"` the first source that cannot be used raises, with "skip" it is left out and named in the
    result. What was made before an error stays and is found again.
    """
    settings = {**recipe.settings, "format": format}
    check_output(out, outside=recipe.folders)
    _check_settings(out, settings)
    units = recipe.units()
    out.mkdir(parents=True, exist_ok=True)
    with _journal(out) as journal:
        record = _Record.read(out)
        record.check_same(units)
        record.made_with = versions(recipe.packages)
        journal.begin(settings, record.made_with)
        pending = [(unit, todo) for unit in units if (todo := record.todo(unit, out, retry=on_error == "stop"))]
        total = sum(len(todo) for _, todo in pending)
        already = {job.file for unit in units for job in unit.jobs} - {job.file for _, jobs in pending for job in jobs}
        done = 0
        for lines in _results(recipe, out, pending, format, _worker_count(workers, len(pending)), on_error):
            for line in lines:
                record.add(line)
                journal.write(line)
            done += len(lines)
            if progress:
                progress(done, total, "making")
        if pending or record.unwritten or not (out / MANIFEST).exists():
            record.write(out, settings)
        journal.end()
    return record.made(read_set(out), units, already)


def check_output(out: Path, *, outside: Iterable[Path] = ()) -> None:
    """The output folder is new, empty, or holds a set that was made here, finished or not; and no source lies in it."""
    for folder in outside:
        if out.resolve().is_relative_to(folder.resolve()):
            raise InvalidInput(f"the output must lie outside the source {folder}, got {out}; name another folder")
    if not out.exists():
        return
    if not out.is_dir():
        raise InvalidInput(f"the output is a folder, got the file {out}; name another")
    if (out / MANIFEST).exists():
        if "settings" not in read_set(out).facts or not (out / _JOBS).exists():
            raise InvalidInput(f"{out} holds a set that cannot be gone on with ({_JOBS} is not its own); name another")
    elif not begun(out) and any(p.name not in _BESIDE and p.name[0] != "." for p in out.iterdir()):
        raise InvalidInput(f"the output folder must be new, empty or a set to go on with, got {out}; name another")


def begun(out: Path) -> bool:
    """Whether a run has left anything in the folder to go on with."""
    return (out / MANIFEST).exists() or (out / _JOURNAL).exists()


def _check_settings(out: Path, settings: Mapping[str, Any]) -> None:
    theirs = read_set(out).facts["settings"] if (out / MANIFEST).exists() else None
    headers = (line["settings"] for line in _lines(out / _JOURNAL) if _begins(line))
    for name, value in (theirs or next(headers, settings)).items():
        if settings.get(name) != value:
            raise InvalidInput(
                f"{out} was made with {name} {value!r}, got {settings.get(name)!r}; use the same or name another folder"
            )


@dataclass(slots=True)
class _Record:
    """Everything done so far: manifest rows by job, and jobs that came to nothing with the reason."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    lost: dict[str, tuple[str, str]] = field(default_factory=dict)  # job -> (outcome, reason)
    stamps: dict[str, str] = field(default_factory=dict)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)  # job -> what made it
    made_with: dict[str, str] = field(default_factory=dict)  # what makes the jobs that are added now
    unwritten: bool = False  # whether the journal knows jobs that the manifest does not

    @classmethod
    def read(cls, out: Path) -> _Record:
        record = cls()
        if (out / MANIFEST).exists():
            record._read_finished(out)
        begun = False
        for line in _lines(out / _JOURNAL):
            if _begins(line):
                begun, record.made_with = True, line["versions"]
            elif begun and (line["row"] is None or _as_long(out / line["row"]["file"], line["size"])):
                record.add(line)
                record.unwritten = True
        return record

    def _read_finished(self, out: Path) -> None:
        finished = read_set(out)
        manifest = {row["file"]: row for row in finished.frame.iter_rows(named=True)}
        made_with = finished.facts["versions"]
        for job, stamp, outcome, reason, number in _read_jobs(out / _JOBS).iter_rows():
            self.stamps[job] = stamp
            self.versions[job] = made_with[number]
            if outcome in ("dropped", "skipped"):
                self.lost[job] = (outcome, reason)
            elif outcome in manifest:  # a job that was done is recorded with its file
                self.rows[job] = manifest[outcome]

    def add(self, line: Mapping[str, Any]) -> None:
        self.stamps[line["job"]] = line["stamp"]
        self.versions[line["job"]] = self.made_with
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

    def todo(self, unit: Unit, out: Path, *, retry: bool) -> tuple[Job, ...]:
        """Jobs not done; a source that was skipped is tried again when it is to stop us, or when it has changed."""

        def known(job: Job) -> bool:
            if job.file in self.rows:
                return bool((out / self.rows[job.file]["file"]).exists())
            outcome, _ = self.lost.get(job.file, ("", ""))
            same = self.stamps.get(job.file) == unit.stamp_when_lost
            return outcome != "" and same and not (outcome == "skipped" and retry)

        return tuple(job for job in unit.jobs if not known(job))

    def write(self, out: Path, settings: Mapping[str, Any]) -> None:
        jobs = sorted({*self.rows, *self.lost})
        kinds = sorted({json.dumps(self.versions[job], sort_keys=True) for job in jobs})
        number = {text: index for index, text in enumerate(kinds)}
        columns = {
            "job": jobs,
            "stamp": [self.stamps[job] for job in jobs],
            "outcome": [self.rows[job]["file"] if job in self.rows else self.lost[job][0] for job in jobs],
            "reason": [None if job in self.rows else self.lost[job][1] for job in jobs],
            "versions": [number[json.dumps(self.versions[job], sort_keys=True)] for job in jobs],
        }
        with new_file(out / _JOBS) as draft:
            pl.DataFrame(columns, schema=_JOB_SCHEMA).write_parquet(draft, compression="zstd")
        rows = [self.rows[job] for job in jobs if job in self.rows]
        write_manifest(out, as_frame(rows), {"settings": settings, "versions": [json.loads(text) for text in kinds]})
        for path in [*out.glob(f".*{DRAFT}"), *(out / "images").rglob(f".*{DRAFT}")]:  # a process was killed writing it
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def made(self, stimuli: StimulusSet, units: Sequence[Unit], already: set[str]) -> Made:
        asked = {job.file: unit.name for unit in units for job in unit.jobs}
        lost = {job: self.lost[job] for job in asked if job in self.lost}
        return Made(
            stimuli=stimuli,
            new=sum(job in self.rows and job not in already for job in asked),
            present=sum(job in self.rows and job in already for job in asked),
            dropped={job: reason for job, (outcome, reason) in lost.items() if outcome == "dropped"},
            skipped={asked[job]: reason for job, (outcome, reason) in lost.items() if outcome == "skipped"},
        )


def _read_jobs(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path).select(list(_JOB_SCHEMA))
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"{path} is not a record of jobs that can be read; name another output folder") from error


def _as_long(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size == size


class _Journal:
    """Lines of JSON: one when a run begins, then one a job when its unit is done and its image on disk."""

    def __init__(self, file: IO[str], path: Path) -> None:
        self._file = file
        self._path = path
        self.idle = path.stat().st_size == 0  # whether it tells of no job

    def begin(self, settings: Mapping[str, Any], made_with: Mapping[str, str]) -> None:
        if self._path.stat().st_size:
            self._file.write("\n")  # a killed run may have left half a line
        self.write({"settings": settings, "versions": made_with})

    def write(self, line: Mapping[str, Any]) -> None:
        self.idle &= "job" not in line
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
        journal = _Journal(file, path)
        try:
            yield journal
        finally:
            # a run that came to nothing binds no other
            if journal.idle and ((out / MANIFEST).exists() or not (out / "images").exists()):
                path.unlink(missing_ok=True)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a journal that begin a run or tell of a job; half a line, left by a killed run, is passed over."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                continue
            if isinstance(line, dict) and (_begins(line) or {"job", "stamp", "row"} <= line.keys()):
                yield line


def _begins(line: Mapping[str, Any]) -> bool:
    return isinstance(line.get("settings"), dict) and "versions" in line


def _worker_count(workers: int, units: int) -> int:
    if workers < 1:
        raise InvalidInput(f"workers must be at least 1, got {workers}")
    return max(1, min(workers, units))


def _results(
    recipe: Recipe,
    out: Path,
    pending: Sequence[tuple[Unit, tuple[Job, ...]]],
    format: FileFormat,  # noqa: A002
    workers: int,
    on_error: OnError,
) -> Iterator[list[dict[str, Any]]]:
    """Journal lines of the pending work, a portion of a unit at a time, in the order they finish."""
    task = _Task(recipe, out, format, on_error)
    portions = (
        (unit, jobs[start : start + _PORTION]) for unit, jobs in pending for start in range(0, len(jobs), _PORTION)
    )
    if workers == 1:
        yield from (task(unit, jobs) for unit, jobs in portions)
        return
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")  # polars' threads do not survive a fork
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(task,))
    try:
        yield from _as_they_finish(pool, portions, ahead=2 * workers)
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise InvalidInput(
                f"a process ended before its work was done (memory?), got {workers} workers; run again with fewer, "
                "what is done is kept"
            ) from error
        raise
    pool.shutdown()


def _as_they_finish(
    pool: ProcessPoolExecutor, portions: Iterable[tuple[Unit, tuple[Job, ...]]], *, ahead: int
) -> Iterator[list[dict[str, Any]]]:
    """Few portions are handed out at a time, so that memory does not grow with their number."""
    waiting: set[Future[list[dict[str, Any]]]] = set()
    queue = iter(portions)
    while True:
        for unit, jobs in queue:
            with _interrupts_ignored():  # a new process inherits it: an interrupt is the parent's to handle
                waiting.add(pool.submit(_in_worker, unit, jobs))
            if len(waiting) >= ahead:
                break
        if not waiting:
            return
        try:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        except KeyboardInterrupt:
            yield from (future.result() for future in waiting if future.done() and future.exception() is None)
            raise
        failed = [future for future in done if future.exception() is not None]
        yield from (future.result() for future in done if future not in failed)
        for future in failed:
            future.result()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # where signals cannot be set
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(frozen=True, slots=True)
class _Task:
    """What a worker does with a unit: make, encode, write, and say so in journal lines."""

    recipe: Recipe
    out: Path
    format: FileFormat
    on_error: OnError

    def __call__(self, unit: Unit, jobs: Sequence[Job]) -> list[dict[str, Any]]:
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

    def _lost(self, job: Job, unit: Unit, outcome: str, reason: str) -> dict[str, Any]:
        return {"job": job.file, "stamp": unit.stamp_when_lost, "row": None, "outcome": outcome, "reason": reason}

    def _kept(self, outcome: Outcome, unit: Unit) -> dict[str, Any]:
        job = outcome.job
        if outcome.error is not None:
            return self._lost(job, unit, "skipped", str(outcome.error))
        if outcome.pixels is None:
            return self._lost(job, unit, "dropped", outcome.reason or "")
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
