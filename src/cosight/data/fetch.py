"""Bring a public data set into a folder, from a mirror or by download."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from cosight.data.download import download_all
from cosight.data.entry import MIRROR_VARIABLE, DataSet, checksum_of, data_sets, files_below, files_of, folder_digest
from cosight.errors import InvalidInput
from cosight.files import atomic_write, lock_folder
from cosight.progress import Progress, report_progress

__all__ = ["Fetched", "data_folder", "get"]


@dataclass(frozen=True, slots=True)
class Fetched:
    """A set that is now in a folder."""

    data_set: DataSet
    folder: Path
    files: int
    size: int  # bytes
    verified: bool  # whether every file has the checksum of the published set
    source: str  # an address, a mirror, or "present"
    notices: tuple[str, ...] = field(default=())
    sha256: str | None = None  # of the names and contents of its files, where no checksum of the published set is known


def data_folder() -> Path:
    """Return the folder of the user in which sets are stored unless `--out` names another.

    Returns:
        A folder that need not exist yet.

    >>> data_folder().name
    'cosight'
    """
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "cosight"


def get(
    name: str,
    *,
    out: str | Path | None = None,
    mirror: str | Path | None = None,
    sha256: str | None = None,
    force: bool = False,
    progress: Progress | bool | None = None,
) -> Fetched:
    """Bring a public data set into a folder: from a mirror where it is there, else by download.

    Args:
        name: Name of the set (`cosight data list`).
        out: Folder in which the set's folder is made (default: the user's data folder).
        mirror: Folder with one folder per set, asked before the network (default: COSIGHT_MIRROR).
        sha256: Checksum that the set must have, as `data get` printed it for a copy that you trust.
        force: Get the set again even if it is there.
        progress: True for a progress bar (default: in notebooks and at the prompt), False for none, or a function
            that is called with the bytes done, the bytes in all (0 where unknown) and the file.

    Returns:
        Where the set is, and whether its checksum was right.

    Raises:
        UnknownName: No set has this name.
        InvalidInput: There is no connection, the file is not at its address, its checksum is wrong, or the set cannot
            be downloaded; the message says what to do.

    >>> get("laion-c", out="nowhere", mirror="nowhere")
    Traceback (most recent call last):
    cosight.errors.InvalidInput: the mirror must be a folder that exists, got nowhere; correct --mirror or
    COSIGHT_MIRROR
    """
    data_set = data_sets[name]
    folder = Path(out if out is not None else data_folder()).expanduser() / data_set.folder
    record = folder / f".{data_set.name}.json"  # written last: the set is complete
    if record.is_file() and not force:
        present = _present(data_set, folder, record)
        return present if sha256 is None else replace(present, verified=_has_checksum(folder, sha256), sha256=sha256)
    chosen = mirror if mirror is not None else os.environ.get(MIRROR_VARIABLE)
    notices: list[str] = []
    source = None
    if chosen:
        source = Path(chosen).expanduser() / data_set.folder
        if not Path(chosen).expanduser().is_dir():
            raise InvalidInput(
                f"the mirror must be a folder that exists, got {chosen}; correct --mirror or {MIRROR_VARIABLE}"
            )
        if not source.is_dir():
            notices.append(f"the mirror {chosen} has no folder {data_set.folder}")
            source = None
    if source is None and not data_set.is_downloadable:
        steps = data_set.by_hand.format(folder=folder)
        raise InvalidInput("; ".join([*notices, f"{data_set.name} cannot be downloaded by cosight: {steps}"]))
    pinned = source is not None and sha256 is not None and _has_checksum(source, sha256)
    with _unless_empty(folder), lock_folder(folder), report_progress(progress) as report:
        if source is not None:
            verified = _copy(data_set, source, folder, notices, report) or pinned
            notices = [] if pinned else notices
        else:
            verified = download_all(data_set, folder, report)
            verified = verified if sha256 is None else _has_checksum(folder, sha256)
        files = list(files_below(folder))
        size = sum(path.stat().st_size for path in files)
        origin = str(source) if source is not None else data_set.page
        own = sha256 if verified else folder_digest(folder, files)
        with atomic_write(record) as draft:
            facts = {"name": data_set.name, "source": origin, "verified": verified, "sha256": own}
            draft.write_text(json.dumps(facts) + "\n", encoding="utf-8")
    return Fetched(data_set, folder, len(files), size, verified, origin, tuple(notices), own)


def _has_checksum(folder: Path, sha256: str) -> bool:
    """Return True where the names and contents of the files of a folder have this checksum; raise where they do not."""
    got = folder_digest(folder, files_below(folder))
    if got != sha256.lower():
        raise InvalidInput(f"{folder} must have the checksum of --sha256, {sha256}, got {got}; get the files again")
    return True


@contextmanager
def _unless_empty(folder: Path) -> Iterator[None]:
    """Remove the folder where the block fails and leaves nothing in it."""
    try:
        yield
    except BaseException:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        raise


def _present(data_set: DataSet, folder: Path, record: Path) -> Fetched:
    files = list(files_below(folder))
    try:
        facts = json.loads(record.read_text(encoding="utf-8"))
        verified, sha256 = facts["verified"] is True, facts.get("sha256")
    except (ValueError, KeyError, TypeError, AttributeError):
        verified, sha256 = False, None
    size = sum(path.stat().st_size for path in files)
    return Fetched(data_set, folder, len(files), size, verified, "present", sha256=sha256)


def _copy(data_set: DataSet, source: Path, folder: Path, notices: list[str], progress: Progress | None) -> bool:
    """Copy a set from a mirror; return whether everything in it is what was published."""
    files = list(files_below(source))
    if not files:
        raise InvalidInput(f"the mirror's folder {source} is empty; fill it or name another mirror with --mirror")
    verified = bool(data_set.downloads)
    if not verified:
        notices.append(f"no checksum of {data_set.name} is known")
    for download in data_set.downloads:
        kept = files_of(download, source, files)
        expected = 1 if download.archive is None else download.archive.files
        digest = download.sha256 if download.archive is None else download.archive.digest
        if len(kept) < expected:
            place = download.path if download.archive is None else ", ".join(download.archive.folders.values())
            lacks = f"no {place}" if expected == 1 else f"{len(kept)} of {expected} files of {data_set.name}"
            notices.append(f"the mirror has {lacks}")
            verified = False
        elif digest is None:
            notices.append(f"no checksum of {download.path} is known")
            verified = False
        elif (checksum_of(kept[0]) if download.archive is None else folder_digest(source, kept)) != digest:
            what = kept[0] if download.archive is None else source
            raise InvalidInput(f"{what}: its checksum is not that of the published set; repair the mirror")
    total = sum(path.stat().st_size for path in files)
    done = 0
    for path in files:
        target = folder / path.relative_to(source)
        with atomic_write(target) as draft:
            shutil.copyfile(path, draft)
        done += path.stat().st_size
        if progress is not None:
            progress(done, total, path.name)
    return verified
