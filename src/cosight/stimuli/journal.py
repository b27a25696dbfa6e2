"""The memory of a set in the making: a journal while it goes on, `jobs.parquet` and the manifest when it is done."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import atomic_write, remove_drafts
from cosight.stimuli.sets import read_set
from cosight.trials.manifest import MANIFEST, manifest_frame, write_manifest

if TYPE_CHECKING:
    from cosight.stimuli.generate import StimulusJob, Unit

__all__ = ["JOBS", "Journal", "SetRecord", "is_started", "open_journal", "stored_settings"]

JOBS = "jobs.parquet"
_JOURNAL = "journal.jsonl"
_JOB_SCHEMA = {"job": pl.String, "stamp": pl.String, "outcome": pl.String, "reason": pl.String, "versions": pl.String}


def is_started(out: Path) -> bool:
    """Whether the folder has anything that an interrupted run left."""
    return (out / MANIFEST).exists() or (out / _JOURNAL).exists()


def stored_settings(out: Path) -> Mapping[str, Any] | None:
    """The settings of the set in the folder, finished or not; None where nothing has been begun."""
    if (out / MANIFEST).exists():
        return dict(read_set(out).facts["settings"])
    return next((line["settings"] for line in _lines(out / _JOURNAL) if _begins(line)), None)


@dataclass(slots=True)
class SetRecord:
    """Everything done so far: manifest rows by job, and jobs that came to nothing with the reason."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    lost: dict[str, tuple[str, str]] = field(default_factory=dict)  # job -> (outcome, reason)
    stamps: dict[str, str] = field(default_factory=dict)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)  # job -> what made it
    made_with: dict[str, str] = field(default_factory=dict)  # what makes the jobs that are added now
    unwritten: bool = False  # whether the journal knows jobs that the manifest does not
    listed: list[dict[str, Any]] = field(default_factory=list)  # manifest rows that no job made

    @classmethod
    def read(cls, out: Path, root: Path) -> SetRecord:
        """What the folder remembers: the finished set, then the journal of runs since. Images are below `root`."""
        record = cls()
        if (out / MANIFEST).exists():
            record._read_finished(out)
        begun = False
        for line in _lines(out / _JOURNAL):
            if _begins(line):
                begun, record.made_with = True, line["versions"]
            elif begun and (line["row"] is None or _as_long(root / line["row"]["file"], line["size"])):
                record.add(line)
                record.unwritten = True
        return record

    def _read_finished(self, out: Path) -> None:
        finished = read_set(out)
        manifest = {row["file"]: row for row in finished.frame.iter_rows(named=True)}
        for job, stamp, outcome, reason, made_with in _read_jobs(out / JOBS).iter_rows():
            self.stamps[job] = stamp
            self.versions[job] = json.loads(made_with)
            if outcome in ("dropped", "skipped"):
                self.lost[job] = (outcome, reason)
            elif outcome in manifest:  # a job that was done is recorded with its file
                self.rows[job] = manifest.pop(outcome)
        self.listed = list(manifest.values())

    def add(self, line: Mapping[str, Any]) -> None:
        """Note what a journal line tells of a job."""
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

    def _check_job(self, job: StimulusJob, unit: Unit) -> None:
        if self.stamps[job.file] != unit.stamp:
            raise InvalidInput(f"{unit.name} has changed since {job.file} was made from it; name another output folder")
        for name, value in job.facts.items():
            if (there := self.rows[job.file].get(name)) != value:
                raise InvalidInput(
                    f"{job.file} is there with {name} {there!r}, got {value!r}; use the same options or another folder"
                )

    def todo(self, unit: Unit, root: Path, *, retry: bool) -> tuple[StimulusJob, ...]:
        """Jobs not done; a source that was skipped is tried again when it is to stop us, or when it has changed."""

        def known(job: StimulusJob) -> bool:
            if job.file in self.rows:
                return bool((root / self.rows[job.file]["file"]).exists())
            outcome, _ = self.lost.get(job.file, ("", ""))
            same = self.stamps.get(job.file) == unit.failure_stamp
            return outcome != "" and same and not (outcome == "skipped" and retry)

        return tuple(job for job in unit.jobs if not known(job))

    def write(self, out: Path, root: Path, settings: Mapping[str, Any]) -> None:
        """Write `jobs.parquet` and the manifest, in the order of the jobs' names; the order of work leaves no trace."""
        jobs = sorted({*self.rows, *self.lost})
        made_with = [json.dumps(self.versions[job], sort_keys=True) for job in jobs]
        columns = {
            "job": jobs,
            "stamp": [self.stamps[job] for job in jobs],
            "outcome": [self.rows[job]["file"] if job in self.rows else self.lost[job][0] for job in jobs],
            "reason": [None if job in self.rows else self.lost[job][1] for job in jobs],
            "versions": made_with,
        }
        with atomic_write(out / JOBS) as draft:
            pl.DataFrame(columns, schema=_JOB_SCHEMA).write_parquet(draft, compression="zstd")
        rows = [*(self.rows[job] for job in jobs if job in self.rows), *self.listed]
        every = [json.loads(text) for text in sorted(set(made_with))]
        write_manifest(out, manifest_frame(rows), {"settings": settings, "versions": every})
        remove_drafts(out)
        if root != out:
            remove_drafts(root / "images")


def _read_jobs(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path, glob=False).select(list(_JOB_SCHEMA))
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"{path} is not a record of jobs that can be read; name another output folder") from error


def _as_long(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size == size


class Journal:
    """Lines of JSON: one when a run begins, then one a job when its unit is done and its image on disk."""

    def __init__(self, file: IO[str], path: Path) -> None:
        self._file = file
        self._path = path
        self.idle = path.stat().st_size == 0  # whether it tells of no job

    def begin(self, settings: Mapping[str, Any], made_with: Mapping[str, str]) -> None:
        """Say what the lines that follow are made with."""
        if self._path.stat().st_size:
            self._file.write("\n")  # a killed run may have left half a line
        self.write({"settings": settings, "versions": made_with})

    def write(self, line: Mapping[str, Any]) -> None:
        """Add a line."""
        self.idle &= "job" not in line
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._file.flush()

    def end(self) -> None:
        """Everything is in the manifest now."""
        self._path.unlink()


@contextmanager
def open_journal(out: Path, root: Path) -> Iterator[Journal]:
    """The journal of an output folder, which the caller has locked; images are below `root`."""
    path = out / _JOURNAL
    with path.open("a", encoding="utf-8") as file:
        journal = Journal(file, path)
        try:
            yield journal
        finally:
            # a run that came to nothing binds no other
            if journal.idle and ((out / MANIFEST).exists() or not (root / "images").exists()):
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
