"""Writing files whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cosight.errors import InvalidInput

__all__ = ["DRAFT", "new_file", "new_folder"]

DRAFT = ".cosight-draft"  # how the names of unfinished files and folders end


@contextmanager
def new_file(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """A path to write to; it takes the place of `path` when the block ends without an error.

    What is `durable` is on the disk before it takes the place, so that a loss of power leaves the old or the new file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=DRAFT)  # short, however long the name
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        draft.chmod(0o644)  # mkstemp makes files only their owner can read
        if durable:
            _flush(draft)
        draft.replace(path)
        if durable:
            _flush_folder(path.parent)
    except OSError as error:  # a full disk, a folder of that name: what the reader knows is the file, not its draft
        if error.errno is not None:
            error.filename = str(path)
        raise
    finally:
        draft.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _flush_folder(path: Path) -> None:
    """A name is on the disk when its folder is."""
    if hasattr(os, "O_DIRECTORY"):  # not on Windows
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; it becomes `path` when the block ends without an error. `path` must not hold anything yet."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InvalidInput(f"the output folder must be new or empty, got {path}; name another or remove it first")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=path.parent, prefix=".", suffix=DRAFT))
    try:
        yield draft
        draft.chmod(0o755)
        if path.exists():
            path.rmdir()
        draft.replace(path)
    finally:
        if draft.exists():
            shutil.rmtree(draft)
