"""Write files and folders atomically, lock a folder, and identify files and package versions."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from platform import python_version
from typing import Any

from filelock import FileLock, Timeout

from cosight.errors import CosightError, InvalidInput, first_line, similar_names

__all__ = [
    "DISK_FULL",
    "DRAFT_SUFFIX",
    "LOCK_FILE",
    "MISSING_FILE",
    "atomic_folder",
    "atomic_write",
    "disk_errors",
    "file_name",
    "file_stamp",
    "is_locked",
    "lock_folder",
    "nearest_path",
    "package_versions",
    "read_json",
    "remove_drafts",
    "wait_for_lock",
]

DRAFT_SUFFIX = ".cosight-draft"  # ends the names of unfinished files and folders
LOCK_FILE = ".lock"
MISSING_FILE = "missing"  # the stamp of a file that does not exist
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of an OSError
_MOST_ENTRIES = 10_000  # of a folder that a misspelled name is looked for in
_LONGEST = 120  # characters of an observer's name in a file name
_LOCK_SECONDS = 1.0  # `is_locked` in another process holds the lock for a moment


def nearest_path(path: str | Path, *, otherwise: str = "check the path") -> str:
    """Return the hint that ends the message about a path that does not exist.

    Args:
        path: The path. The first of its parts that does not exist is compared with what is there.
        otherwise: The hint when nothing there has a similar name.

    Returns:
        "did you mean PATH?", or the other hint.

    >>> nearest_path("no-such-file")
    'check the path'
    """
    parts = Path(path).parts
    for index, part in enumerate(parts):
        folder = Path(*parts[:index])
        if os.path.lexists(folder / part):
            continue
        try:
            known = [entry.name for entry in islice(folder.iterdir(), _MOST_ENTRIES)]
        except OSError:
            break
        for name in similar_names(part, sorted(known), most=1):
            return f"did you mean {Path(folder, name, *parts[index + 1 :])}?"
        break
    return otherwise


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Report an error while `path` is written as an OSError with its name.

    polars, safetensors and numpy wrap the operating system's error in one of their own, or drop its number.
    """
    try:
        yield
    except CosightError:
        raise
    except OSError as error:
        if error.errno is None and re.search(r"requested and \d+ written", str(error)):  # numpy
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        is_about_draft = error.filename is None or DRAFT_SUFFIX in str(error.filename)
        if error.errno is not None and is_about_draft:
            error.filename = str(path)
        raise
    except Exception as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


@contextmanager
def atomic_write(path: Path, *, durable: bool = False, private: bool = False) -> Iterator[Path]:
    """Yield a draft path that replaces `path` when the block ends without an error.

    Args:
        path: The file to write. Its folder is created.
        durable: Whether to flush the file to disk before it replaces the old one, so that a power failure leaves either
            the old or the new file.
        private: Whether only the owner may read the file, as personal data need.

    Yields:
        The path of an empty draft in the same folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=DRAFT_SUFFIX)  # short, however long the name
    os.close(handle)
    draft = Path(name)
    try:
        with disk_errors(path):  # report the file, not its draft
            yield draft
            draft.chmod(0o600 if private else 0o644)  # mkstemp creates files that only their owner can read
            if durable:
                with draft.open("rb+") as file:
                    os.fsync(file.fileno())
            draft.replace(path)
            if durable and hasattr(os, "O_DIRECTORY"):  # not on Windows
                folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a draft folder that becomes `path` when the block ends without an error.

    Raises:
        InvalidInput: If `path` exists and is not an empty folder.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InvalidInput(f"the output folder must be new or empty, got {path}; name another or remove it first")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=path.parent, prefix=".", suffix=DRAFT_SUFFIX))
    try:
        with disk_errors(path):
            yield draft
        draft.chmod(0o755)
        if path.exists():
            path.rmdir()
        draft.replace(path)
    finally:
        if draft.exists():
            shutil.rmtree(draft)


def remove_drafts(folder: Path) -> None:
    """Remove what killed processes left half written below a folder."""
    for path in list(folder.rglob(f".*{DRAFT_SUFFIX}")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create a folder and keep other processes out of it while the block runs.

    A killed process releases its lock. The lock file stays, except in a folder that the block leaves empty.

    Raises:
        InvalidInput: If another process holds the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(folder / LOCK_FILE, mode=0o644).acquire(timeout=_LOCK_SECONDS)
    except Timeout as error:
        raise InvalidInput(f"another process is writing to {folder}; wait for it or choose another folder") from error
    with lock:
        try:
            yield
        finally:
            if [path.name for path in folder.iterdir()] == [LOCK_FILE]:
                (folder / LOCK_FILE).unlink()


@contextmanager
def wait_for_lock(path: Path) -> Iterator[None]:
    """Let other processes that use the lock file `path` wait while the block runs; the file is removed at the end.

    One of them may get the lock after the block has failed, so each checks what is still to be done.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path, mode=0o644):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def is_locked(folder: Path) -> bool:
    """Whether a process works in the folder (`lock_folder`)."""
    if not (folder / LOCK_FILE).exists():
        return False
    try:
        with FileLock(folder / LOCK_FILE).acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # a folder that may only be read
        return False


def file_stamp(path: Path) -> str:
    """Return the sha256 of a file's bytes, `MISSING_FILE` if there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else MISSING_FILE


def file_name(observer: str) -> str:
    """Return an observer's name as part of a file name, the same on every system; never with a dot at the start.

    >>> file_name("timm:resnet50.a1_in1k")
    'timm-resnet50.a1_in1k'
    """
    plain = re.sub(r"[^A-Za-z0-9._+=@#,-]|^\.", "-", observer)
    is_unique = plain == observer.replace(":", "-", 1) and 0 < len(plain) <= _LONGEST
    return plain if is_unique else f"{plain[:_LONGEST]}-{hashlib.sha256(observer.encode()).hexdigest()[:8]}"


def read_json(path: Path, *, hint: str = "correct it or remove it") -> Any:
    """Read a JSON file; a byte order mark at its start is ignored.

    Args:
        path: The file.
        hint: What to do about a file that is not JSON; ends the error message.

    Raises:
        InvalidInput: The content is not UTF-8 or not JSON, or has text that cannot be printed.
        OSError: The file cannot be read.
    """
    try:
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
        json.dumps(content, ensure_ascii=False).encode()  # raises for half of a surrogate pair
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not a valid JSON file: {first_line(error)}; {hint}") from error
    return content


def package_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python and of installed packages; "not installed" for the others."""
    versions = {"python": python_version()}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return versions
