"""What is stored about a set that is being generated: the journal, then `jobs.parquet` and the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import atomic_write, disk_errors, remove_drafts
from cosight.stimuli.sets import JOURNAL, read_set
from cosight.trials.manifest import MANIFEST, manifest_frame, write_manifest

__all__ = ["JOBS", "Journal", "SetRecord", "is_started", "open_journal", "stored_settings"]

JOBS = "jobs.parquet"
_JOB_SCHEMA = {"job": pl.String, "stamp": pl.String, "outcome": pl.String, "reason": pl.String, "versions": pl.String}


def is_started(out: Path) -> bool:
    """Return whether the folder has a set, finished or not."""
    return (out / MANIFEST).exists() or (out / JOURNAL).exists()


def stored_settings(out: Path) -> Mapping[str, Any] | None:
    """Return the settings of the set in the folder, finished or not; None if there is no set."""
    if (out / MANIFEST).exists():
        return dict(read_set(out).facts["settings"])
    return next((line["settings"] for line in _read_lines(out / JOURNAL) if _is_header(line)), None)


@dataclass(slots=True)
class SetRecord:
    """The jobs done so far.

    Attributes:
        rows: Manifest row of each finished job.
        failures: Outcome ("dropped" or "skipped") and reason of each failed job.
        stamps: Stamp of the source of each job.
        versions: Package versions that each job was done with.
        current_versions: Package versions of the jobs that are added now.
        has_unwritten: Whether the journal has jobs that the manifest does not have.
        other_rows: Manifest rows that belong to no job.
    """

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, tuple[str, str]] = field(default_factory=dict)
    stamps: dict[str, str] = field(default_factory=dict)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    current_versions: dict[str, str] = field(default_factory=dict)
    has_unwritten: bool = False
    other_rows: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, out: Path, image_root: Path) -> SetRecord:
        """Read the record of a folder: the finished set, then the journal of later runs.

        A job whose image below `image_root` is missing or incomplete is left out.
        """
        record = cls()
        if (out / MANIFEST).exists():
            manifest = {row["file"]: row for row in read_set(out).frame.iter_rows(named=True)}
            for job, stamp, outcome, reason, versions in _read_jobs(out / JOBS).iter_rows():
                record.stamps[job] = stamp
                record.versions[job] = json.loads(versions)
                if outcome in ("dropped", "skipped"):
                    record.failures[job] = (outcome, reason)
                elif outcome in manifest:  # the outcome of a finished job is its file
                    record.rows[job] = manifest.pop(outcome)
            record.other_rows = list(manifest.values())
        has_header = False
        for line in _read_lines(out / JOURNAL):
            if _is_header(line):
                has_header, record.current_versions = True, line["versions"]
            elif has_header and (line["row"] is None or _has_size(image_root / line["row"]["file"], line["size"])):
                record.add(line)
                record.has_unwritten = True
        return record

    def add(self, line: Mapping[str, Any]) -> None:
        """Add the job of a journal line."""
        self.stamps[line["job"]] = line["stamp"]
        self.versions[line["job"]] = self.current_versions
        if line["row"] is None:
            self.failures[line["job"]] = (line["outcome"], line["reason"])
        else:
            self.failures.pop(line["job"], None)
            self.rows[line["job"]] = line["row"]

    def write(self, out: Path, image_root: Path, settings: Mapping[str, Any]) -> None:
        """Write `jobs.parquet` and the manifest, sorted by job, so that they do not depend on the order of work."""
        jobs = sorted({*self.rows, *self.failures})
        versions = [json.dumps(self.versions[job], sort_keys=True) for job in jobs]
        columns = {
            "job": jobs,
            "stamp": [self.stamps[job] for job in jobs],
            "outcome": [self.rows[job]["file"] if job in self.rows else self.failures[job][0] for job in jobs],
            "reason": [None if job in self.rows else self.failures[job][1] for job in jobs],
            "versions": versions,
        }
        with atomic_write(out / JOBS) as draft:
            pl.DataFrame(columns, schema=_JOB_SCHEMA).write_parquet(draft, compression="zstd")
        rows = [*(self.rows[job] for job in jobs if job in self.rows), *self.other_rows]
        all_versions = [json.loads(text) for text in sorted(set(versions))]
        write_manifest(out, manifest_frame(rows), {"settings": settings, "versions": all_versions})
        remove_drafts(out)
        if image_root != out:
            remove_drafts(image_root / "images")


def _read_jobs(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path, glob=False).select(list(_JOB_SCHEMA))
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"cannot read the job table {path}; choose another output folder") from error


def _has_size(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size == size


class Journal:
    """A file of JSON lines: a header for each run, then one line per job, written after its image."""

    def __init__(self, file: IO[str], path: Path) -> None:
        self._file = file
        self._path = path
        self.is_empty = path.stat().st_size == 0  # whether it has no job

    def begin(self, settings: Mapping[str, Any], versions: Mapping[str, str]) -> None:
        """Write the header of a run."""
        if self._path.stat().st_size:
            self._file.write("\n")  # a killed run may have left half a line
        self.write({"settings": settings, "versions": versions})

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line."""
        self.is_empty &= "job" not in line
        with disk_errors(self._path):
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()

    def end(self) -> None:
        """Remove the journal: the manifest has everything now."""
        self._path.unlink()


@contextmanager
def open_journal(out: Path, image_root: Path) -> Iterator[Journal]:
    """Open the journal of an output folder, which the caller has locked.

    The journal of a run that made nothing is removed, so that its settings do not bind the next run.
    """
    path = out / JOURNAL
    file = path.open("a", encoding="utf-8")
    try:
        journal = Journal(file, path)
        try:
            yield journal
        finally:
            if journal.is_empty and ((out / MANIFEST).exists() or not (image_root / "images").exists()):
                path.unlink(missing_ok=True)
    finally:
        with disk_errors(path):  # tries again to write what a full disk refused
            file.close()


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the headers and job lines of a journal; half a line, left by a killed run, is ignored."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                continue
            if isinstance(line, dict) and (_is_header(line) or {"job", "stamp", "row"} <= line.keys()):
                yield line


def _is_header(line: Mapping[str, Any]) -> bool:
    return isinstance(line.get("settings"), dict) and "versions" in line
