"""The pictures of a site: a small WebP file per image, and a copy of the original where they are not too large."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.processes import core_count, run_in_workers
from cosight.reports.site.answers import AnswerSet, Picture
from cosight.runs.folder import RUN
from cosight.runs.run_record import read_record
from cosight.trials.choices import option_names
from cosight.trials.manifest import is_stimulus_set, manifest_folders, read_manifest

if TYPE_CHECKING:
    from cosight.stimuli.sets import StimulusSet

__all__ = ["Images", "picture_files", "write_contact_sheet", "write_pictures"]

Images = Literal["auto", "originals", "thumbnails", "none"]
_SIDE = 128  # pixels of a thumbnail's longer side
_QUALITY = 75
_MOST_BYTES = 50_000_000  # of originals that `auto` copies
_FEW = 64  # pictures that are not worth starting processes for
_FOLDERS = "thumbnails", "images"


@dataclass(frozen=True, slots=True)
class _Job:
    """One picture to write."""

    source: Path
    thumbnail: Path
    original: Path | None


def picture_files(answers: AnswerSet) -> dict[int, list[tuple[Path, str]]]:
    """Return the image files of every stimulus of a set of answers that has some, by column.

    Files are looked for in the stimulus sets among the sources, and in those that runs were evaluated on. A stimulus
    has one file; a task has those of its query and its options, each with its name in the answers.
    """
    frames = []
    for folder in manifest_folders(answers.sources):
        root = _image_root(folder)
        frame = read_manifest(folder)[0]
        if root is not None and frame["file"].count():
            paths = [None if file is None else str(root / file) for file in frame["file"]]
            frames.append(frame.select("stimulus", "image", "experiment", "condition", "level").with_columns(
                path=pl.Series(paths, dtype=pl.String)))  # fmt: skip
    if not frames:
        return {}
    known = pl.concat(frames).drop_nulls("path")
    by_digest = dict(known.drop_nulls("stimulus").select("stimulus", "path").iter_rows())
    name = ("experiment", "condition", "level", "image")
    by_name = {row[:4]: row[4] for row in known.drop_nulls("image").select(*name, "path").iter_rows()}
    found: dict[int, list[tuple[str, str]]] = {}
    columns = answers.table.columns.select("stimulus", *name)
    for column, (stimulus, *about) in enumerate(columns.iter_rows()):
        path = by_digest.get(stimulus) or by_name.get(tuple(about))
        if path is not None:
            found[column] = [(path, "")]
    found |= _task_files(answers, by_digest)
    exists = {path: Path(path).is_file() for pictures in found.values() for path, _ in pictures}
    return {column: [(Path(path), text) for path, text in pictures]
            for column, pictures in found.items() if all(exists[path] for path, _ in pictures)}  # fmt: skip


def _task_files(answers: AnswerSet, files: Mapping[str, str]) -> dict[int, list[tuple[str, str]]]:
    """Return the files of query and options of every task, by column; `files` has those of stimuli by digest."""
    rows = answers.table.rows.max(axis=0)  # a trial of each column
    trials = answers.trials.frame.select("extra", "truth")[rows].with_row_index("column")
    tasks = {}
    for column, extra, target in trials.filter(pl.col("extra").str.contains('"query"', literal=True)).iter_rows():
        facts = json.loads(extra)
        shown = {facts["query"]: "query", **option_names(facts.get("options", ()), target)}
        if all(stimulus in files for stimulus in shown):
            tasks[column] = [(files[stimulus], text) for stimulus, text in shown.items()]
    return tasks


def write_contact_sheet(path: Path, answers: AnswerSet, write: Callable[[StimulusSet, Path], None]) -> bool:
    """Write the contact sheet of the stimulus set among the sources of some answers; return whether there is one."""
    from cosight.stimuli.sets import read_set

    for folder in filter(is_stimulus_set, manifest_folders(answers.sources)):
        try:
            write(read_set(folder), path)
        except (InvalidInput, OSError):  # a set of something else, or without its images
            continue
        return True
    return False


def _image_root(folder: Path) -> Path | None:
    """Return the folder that the files of a manifest are relative to; None where a run's images were not stored."""
    if not (folder / RUN).is_file():
        return folder
    try:
        arguments = read_record(folder).arguments
    except InvalidInput:
        return None
    on = arguments["passed"].get("on")
    root = Path(arguments["folder"]) / str(on)
    return root if on is not None and root.is_dir() else None


def write_pictures(
    out: Path, answers: list[AnswerSet], *, images: Images, progress: Callable[[int, int, str], None] | None = None
) -> tuple[list[dict[int, list[Picture]]], list[str]]:
    """Write thumbnails and originals of all images of stimuli. Those that exist are kept.

    Args:
        out: Folder of the site.
        answers: The sets of answers.
        images: Which to write; `auto` copies originals if all of them together have at most 50 MB.
        progress: Called with pictures done, pictures in all, and a description.

    Returns:
        For each set, the pictures of each column, relative to `out`; and notices.
    """
    files = [{} if images == "none" else picture_files(group) for group in answers]
    notices = []
    sources = dict.fromkeys(path for group in files for shown in group.values() for path, _ in shown)
    size = sum(path.stat().st_size for path in sources)
    copies = images == "originals" or (images == "auto" and size <= _MOST_BYTES)
    if images == "auto" and not copies:
        notices.append(
            f"the original images take {size / 1e6:.0f} MB, so only thumbnails are in the report; --images originals "
            "copies them"
        )
    written: dict[Path, tuple[str, str | None]] = {}
    for number, path in enumerate(sources):
        stem = f"{number // 1000}/{number:06d}"
        written[path] = (f"{_FOLDERS[0]}/{stem}.webp", f"{_FOLDERS[1]}/{stem}{path.suffix.lower()}" if copies else None)
    jobs = [
        _Job(path, out / thumbnail, None if original is None else out / original)
        for path, (thumbnail, original) in written.items()
    ]
    wanted = {path for job in jobs for path in (job.thumbnail, job.original)}
    for path in (path for name in _FOLDERS for path in (out / name).rglob("*")):
        if path.is_file() and path not in wanted:
            path.unlink()
    todo = [job for job in jobs if not _is_current(job)]
    workers = 1 if len(todo) <= _FEW else core_count()
    failed = set()
    portions = [todo[start : start + _FEW] for start in range(0, len(todo), _FEW)]
    for done, broken in enumerate(run_in_workers(_write, portions, workers=workers), start=1):
        failed |= set(broken)
        if progress:
            progress(min(done * _FEW, len(todo)), len(todo), "pictures")
    if failed:
        names = ", ".join(path.name for path in sorted(failed)[:3])
        notices.append(f"{len(failed)} images cannot be decoded and are not shown: {names}")
    shown = [
        {column: [(*written[path], text) for path, text in pictures] for column, pictures in group.items()
         if not any(path in failed for path, _ in pictures)}
        for group in files
    ]  # fmt: skip
    return shown, notices


def _is_current(job: _Job) -> bool:
    stamp = job.source.stat().st_mtime
    return all(path is None or (path.is_file() and path.stat().st_mtime >= stamp)
               for path in (job.thumbnail, job.original))  # fmt: skip


def _write(jobs: list[_Job]) -> list[Path]:
    """Write pictures; return the sources that cannot be decoded."""
    from PIL import Image

    from cosight.stimuli.images import decode

    broken = []
    for job in jobs:
        try:
            picture = Image.fromarray(decode(job.source.read_bytes(), name=str(job.source)))
        except (InvalidInput, OSError):
            broken.append(job.source)
            continue
        picture.thumbnail((_SIDE, _SIDE))
        with atomic_write(job.thumbnail) as draft:
            picture.convert("RGB").save(draft, format="WEBP", quality=_QUALITY, method=2)
        if job.original is not None:
            with atomic_write(job.original) as draft:
                shutil.copyfile(job.source, draft)
    return broken
