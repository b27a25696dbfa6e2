"""Curated lists: which source images people looked at and rejected, so that a builder leaves them out.

A list is a CSV file with the columns `stimulus` (the image's digest) and `kept` (true or false); others, like `file`,
are for its readers. `cosight study export --curated` writes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from cosight.errors import InvalidInput

__all__ = ["Curated", "read_curated"]

_KEPT = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Curated:
    """Rejected images: their digests, and what their lists call them."""

    rejected: Mapping[str, str] = field(default_factory=dict)

    def not_in(self, found: Iterable[str]) -> tuple[str, ...]:
        """Names of rejected images whose digests are not among those `found`."""
        there = set(found)
        return tuple(name for digest, name in self.rejected.items() if digest not in there)


def read_curated(paths: Sequence[Path]) -> Curated:
    """The images that any of these lists rejects."""
    rejected: dict[str, str] = {}
    for path in paths:
        frame = _read(path)
        names = frame["file"] if "file" in frame.columns else frame["stimulus"]
        for number, (stimulus, kept, name) in enumerate(zip(frame["stimulus"], frame["kept"], names, strict=True)):
            if (kept or "").lower() not in _KEPT or not stimulus:
                line = number + 2  # after the header, from 1
                raise InvalidInput(
                    f"{path}, line {line}: an image has a digest and kept is true or false, got {kept!r}"
                )
            if not _KEPT[kept.lower()]:
                rejected.setdefault(stimulus, name or stimulus)
    return Curated(rejected)


def _read(path: Path) -> pl.DataFrame:
    if not path.is_file():
        raise InvalidInput(f"a curated list is a CSV file, got {path}; write one with cosight study export --curated")
    try:
        frame = pl.read_csv(path, infer_schema=False, glob=False)
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"{path} is not a CSV file that can be read: {error}") from error
    for name in ("stimulus", "kept"):
        if name not in frame.columns:
            raise InvalidInput(f"a curated list has the column {name!r}, {path} has {', '.join(frame.columns)}")
    return frame
