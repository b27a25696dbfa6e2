"""The pictures of a site: a small WebP file per stimulus, and a copy of the original where they are not too large."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.processes import core_count, run_in_workers
from cosight.reports.site.answers import AnswerSet
from cosight.runs.folder import RUN
from cosight.runs.run_record import read_record
from cosight.trials.manifest import manifest_folders, read_manifest

__all__ = ["Images", "picture_files", "write_pictures"]

Images = Literal["auto", "originals", "thumbnails", "none"]
_SIDE = 128  # pixels of a thumbnail's longer side
_QUALITY = 75
_MOST_BYTES = 200_000_000  # of originals that `auto` copies
_FEW = 64  # pictures that are not worth starting processes for
_FOLDERS = "thumbnails", "images"


@dataclass(frozen=True, slots=True)
class _Job:
    """One picture to write."""

    source: Path
    thumbnail: Path
    original: Path | None


def picture_files(answers: AnswerSet) -> dict[int, Path]:
    """Return the image file of every stimulus of a set of answers that has one, by column.

    Files are looked for in the stimulus sets among the sources, and in those that runs were evaluated on.
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
    found = {}
    columns = answers.table.columns.select("stimulus", *name)
    for column, (stimulus, *about) in enumerate(columns.iter_rows()):
        path = by_digest.get(stimulus) or by_name.get(tuple(about))
        if path is not None and Path(path).is_file():
            found[column] = Path(path)
    return found


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
) -> tuple[list[dict[int, tuple[str, str | None]]], list[str]]:
    """Write thumbnails and originals of all stimuli that have a file. Those that exist are kept.

    Args:
        out: Folder of the site.
        answers: The sets of answers.
        images: Which to write; `auto` copies originals up to 200 MB in all.
        progress: Called with pictures done, pictures in all, and a description.

    Returns:
        For each set, the thumbnail and the original of each column, relative to `out`; and notices.
    """
    files = [{} if images == "none" else picture_files(group) for group in answers]
    notices = []
    size = sum(path.stat().st_size for path in {path for group in files for path in group.values()})
    copies = images == "originals" or (images == "auto" and size <= _MOST_BYTES)
    if images == "auto" and not copies:
        notices.append(
            f"the original images take {size / 1e6:.0f} MB, so only thumbnails are in the report; --images originals "
            "copies them"
        )
    jobs: dict[Path, _Job] = {}
    found: list[dict[int, tuple[str, str | None]]] = []
    for number, group in enumerate(files):
        pictures: dict[int, tuple[str, str | None]] = {}
        for column, path in group.items():
            stem = f"{number}/{column // 1000}/{column:06d}"
            thumbnail = f"{_FOLDERS[0]}/{stem}.webp"
            original = f"{_FOLDERS[1]}/{stem}{path.suffix.lower()}" if copies else None
            pictures[column] = (thumbnail, original)
            jobs[out / thumbnail] = _Job(path, out / thumbnail, None if original is None else out / original)
        found.append(pictures)
    for folder in (out / name for name in _FOLDERS):
        wanted = {path for job in jobs.values() for path in (job.thumbnail, job.original)}
        for path in folder.rglob("*"):
            if path.is_file() and path not in wanted:
                path.unlink()
    todo = [job for job in jobs.values() if not _is_current(job)]
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
    for group, pictures in zip(files, found, strict=True):
        for column in [column for column, path in group.items() if path in failed]:
            del pictures[column]
    return found, notices


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
