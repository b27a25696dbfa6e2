"""Which photos of a folder a LAION-C set is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import polars as pl

from cosight.arrays import whole_number
from cosight.benchmarks.altering import check_every_class
from cosight.benchmarks.building.source_photos import read_photos
from cosight.errors import InvalidInput
from cosight.stimuli.sets import StimulusSet, sample_per_class, with_classes
from cosight.trials.spaces import label_spaces

__all__ = ["select_photos"]

_NAMED = 3  # names that a message lists


def select_photos(
    source: Path, *, labels: str, per_class: int | None = None, files: Path | None = None, seed: int = 0
) -> tuple[StimulusSet, list[str]]:
    """Return the photos to distort, with their superclass as truth, and what the user should know about them.

    Args:
        source: Folder of photos in folders of classes of the label space, or of the finer space its classes consist of.
        labels: Name of the label space.
        per_class: Photos per class, drawn by a hash of their names; all of them by default.
        files: Text file with one photo per line, as a path below `source` or as a file name. Empty lines and lines
            that begin with # are ignored.
        seed: Seed of the drawing.

    Returns:
        The photos, and notices.

    Raises:
        InvalidInput: If a folder is no class, a class has too few photos, or a photo that is named does not exist.
    """
    if per_class is not None:
        per_class = whole_number(per_class, name="--per-class", least=1)
    space = label_spaces[labels]
    read = read_photos(source).stimuli
    if read.frame["truth"].null_count() == len(read):
        raise InvalidInput(
            f"photos must be in folders of {space.name} ({space.in_words}) or of {space.members_of}, {source} has no "
            "such folder; make one per class"
        )
    photos, left_out = with_classes(read if files is None else _keep_files(read, files), space)
    notices = []
    if left_out:
        notices.append(f"left out: {left_out} of {len(read)} photos, whose classes belong to none of {space.name}")
    check_every_class(photos, space, least=per_class or 1)
    if per_class is not None:
        photos = sample_per_class(photos, per_class, seed=seed)
    notices.append(f"{len(photos)} photos of {len(space.classes)} superclasses")
    return photos, notices


def _keep_files(photos: StimulusSet, path: Path) -> StimulusSet:
    """Return the photos that a list names."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidInput(f"cannot read {path}: {reason}; --files is a text file with one photo per line") from error
    wanted = list(dict.fromkeys(line.replace("\\", "/") for line in lines if line and not line.startswith("#")))
    if not wanted:
        raise InvalidInput(f"--files must name photos, {path} names none; write one file name per line")
    by_name: dict[str, list[str]] = {}
    for file in photos.frame["file"]:
        by_name.setdefault(file, []).append(file)
        by_name.setdefault(PurePosixPath(file).name, []).append(file)
    _refuse(f"{path} names photos that {photos.root} does not have", [n for n in wanted if n not in by_name])
    several = [name for name in wanted if len(set(by_name[name])) > 1]
    _refuse(f"{path} names photos that several folders of {photos.root} have; write FOLDER/NAME", several)
    kept = {by_name[name][0] for name in wanted}
    return replace(photos, frame=photos.frame.filter(pl.col("file").is_in(sorted(kept))))


def _refuse(reason: str, names: Sequence[str]) -> None:
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        raise InvalidInput(f"{reason}: {', '.join(names[:_NAMED])}{more}")
