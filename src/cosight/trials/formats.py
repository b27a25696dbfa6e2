"""The registry of trial formats: what a file must look like, how it is read and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cosight.registry import Registry
from cosight.trials.spaces import LabelSpace
from cosight.trials.table import Trials

__all__ = ["Format", "Reader", "formats"]


class Reader(Protocol):
    """Reads files of one format, all at once; `space` is the label space where the user declared it."""

    def __call__(self, paths: Sequence[Path], space: LabelSpace | None = None) -> Trials:
        """Trials of these files."""
        ...


@dataclass(frozen=True, slots=True)
class Format:
    """One way to keep trials on disk."""

    name: str
    summary: str
    recognises: Callable[[Path, bytes], bool]  # a file and its first bytes
    read: Reader
    write: Callable[[Trials, Path], None]  # to a file or folder, whole or not at all
    suffix: str  # what a file to be written ends in; "" for a folder
    keeps: frozenset[str]  # the columns of a trial that survive writing and reading


formats: Registry[Format] = Registry("format")
