"""What a public data set is: its files, where they are, and their checksums."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cosight.registry import Registry

__all__ = [
    "MIRROR_VARIABLE",
    "Archive",
    "DataSet",
    "Download",
    "checksum_of",
    "data_sets",
    "files_below",
    "files_of",
    "folder_digest",
]

MIRROR_VARIABLE = "COSIGHT_MIRROR"


@dataclass(frozen=True, slots=True)
class Archive:
    """What of a downloaded archive is kept."""

    folders: Mapping[str, str]  # path in the archive, below its top folder -> path in the set's folder
    files: int  # number of files that are kept
    digest: str  # `folder_digest` of these files


@dataclass(frozen=True, slots=True)
class Download:
    """A file to download, and where it goes."""

    url: str | None  # None: only a mirror has it
    path: str  # in the set's folder; for an archive the name of the file while it is downloaded
    size: int | None = None  # bytes; None: not known
    sha256: str | None = None  # None: not known
    archive: Archive | None = None
    md5: str | None = None  # of a file that Zenodo lists
    kept: str = ""  # pattern of what is kept of such an archive: a path in the set's folder, below any folders


@dataclass(frozen=True, slots=True)
class DataSet:
    """A public data set."""

    name: str
    summary: str
    folder: str  # where it is below `--out` and in a mirror
    size: int  # bytes on disk, roughly
    licence: str
    citation: str
    page: str  # where its authors describe it
    downloads: tuple[Download, ...] = ()
    record: str = ""  # address of the list of archives of a record at Zenodo, in place of downloads
    kept: str = ""  # pattern of what is kept of these archives (`Download.kept`)
    by_hand: str = ""  # what to do where it cannot be downloaded; {folder} is the set's folder
    use: str = ""  # a command that reads it; {folder} is the set's folder

    @property
    def is_downloadable(self) -> bool:
        """Whether all its files have an address."""
        return bool(self.record or self.downloads) and all(download.url is not None for download in self.downloads)


data_sets: Registry[DataSet] = Registry("data-set", listed=False)


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, hidden ones left out, in a fixed order."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def folder_digest(folder: Path, files: Iterable[Path]) -> str:
    """Return the sha256 of the names and contents of files.

    Args:
        folder: The names are relative to this folder.
        files: The files, in any order.

    Returns:
        64 hexadecimal digits.

    >>> folder_digest(Path("."), [])[:8]
    'e3b0c442'
    """
    lines = [f"{checksum_of(path)}  {path.relative_to(folder).as_posix()}\n" for path in files]
    return hashlib.sha256("".join(sorted(lines, key=lambda line: line[66:])).encode()).hexdigest()


def checksum_of(path: Path, kind: str = "sha256") -> str:
    """Return the checksum of a file; `kind` is an algorithm of hashlib."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def files_of(download: Download, folder: Path, files: Iterable[Path]) -> list[Path]:
    """Return the files of a set that come from one download."""
    if download.archive is None:
        return [path for path in files if path == folder / download.path]
    places = [folder / place for place in download.archive.folders.values()]
    return [path for path in files if any(place == path or place in path.parents for place in places)]
