"""Download the files of a set: resumed where interrupted, compared with their checksums, and unpacked."""

from __future__ import annotations

import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit

import httpx

from cosight.data.entry import MIRROR_VARIABLE, DataSet, Download, checksum_of, files_below, files_of, folder_digest
from cosight.errors import InvalidInput, first_line
from cosight.files import DRAFT_SUFFIX, disk_errors
from cosight.progress import Progress

__all__ = ["download_all"]

_TIMEOUT = 30.0  # seconds without an answer


def download_all(data_set: DataSet, folder: Path, progress: Progress | None) -> bool:
    """Download and unpack a set; return whether all checksums are known, and so were right."""
    parts = folder / f".{data_set.name}-download"  # kept after a failure, to resume
    try:
        with httpx.Client(follow_redirects=True, timeout=_TIMEOUT) as client:
            downloads = _listed(client, data_set) if data_set.record else data_set.downloads
            for download in downloads:
                part = parts / download.path
                unpacked = part.with_name(part.name + ".unpacked")
                if unpacked.is_file() or _is_complete(download, folder):
                    continue  # of an interrupted call
                _download(client, download, part, data_set.page, progress)
                if download.archive is None and not download.kept:
                    part.replace(folder / download.path)
                else:
                    _unpack(part, download, folder)
                    unpacked.touch()
        shutil.rmtree(parts, ignore_errors=True)
    finally:
        if parts.is_dir() and not any(path.is_file() for path in parts.rglob("*")):
            shutil.rmtree(parts)
    return all(download.sha256 or download.md5 or download.archive for download in downloads)


def _listed(client: httpx.Client, data_set: DataSet) -> tuple[Download, ...]:
    """Return the archives that a record at Zenodo lists, with their checksums."""
    try:
        response = client.get(data_set.record)
    except httpx.TransportError as error:
        raise _no_connection(data_set.record, error) from error
    if response.status_code != httpx.codes.OK:
        raise InvalidInput(f"{data_set.record} cannot be read (HTTP {response.status_code}); see {data_set.page}")
    try:
        archives = tuple(
            Download(
                file["links"]["self"],
                PurePosixPath(file["key"]).name,
                file["size"],
                md5=file["checksum"].removeprefix("md5:"),
                kept=data_set.kept,
            )
            for file in response.json()["files"]
            if file["key"].endswith((".zip", ".tar", ".tar.gz", ".tgz"))
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{data_set.record} is not a list of files as Zenodo's; see {data_set.page}") from error
    if not archives:
        raise InvalidInput(f"{data_set.record} lists no archive; see {data_set.page}")
    return archives


def _no_connection(url: str, error: httpx.TransportError) -> InvalidInput:
    return InvalidInput(
        f"no connection to {urlsplit(url).netloc} ({first_line(error, most=60)}); check the network, or name a mirror "
        f"folder with --mirror or {MIRROR_VARIABLE}"
    )


def _is_complete(download: Download, folder: Path) -> bool:
    """Return whether the files of a download are in the set's folder, and are those that were published."""
    files = files_of(download, folder, files_below(folder))
    if download.archive is not None:
        return len(files) == download.archive.files and folder_digest(folder, files) == download.archive.digest
    return bool(files) and checksum_of(files[0]) == download.sha256


def _download(client: httpx.Client, download: Download, part: Path, page: str, progress: Progress | None) -> None:
    """Download to `part`, or what is missing of it, and check size and checksum."""
    part.parent.mkdir(parents=True, exist_ok=True)
    tag = part.with_name(part.name + ".etag")  # of the file that the part belongs to
    try:
        _transfer(client, download, part, tag, page, progress)
    except httpx.TransportError as error:
        host = urlsplit(download.url or "").netloc
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            raise _no_connection(str(download.url), error) from error
        present = part.stat().st_size if part.is_file() else 0
        raise InvalidInput(
            f"the connection to {host} was lost after {present:,} bytes of {download.path} "
            f"({first_line(error, most=60)}); run the same command again to resume"
        ) from error
    size = part.stat().st_size
    problem = ""
    if download.size is not None and size != download.size:
        problem = f"wrong size, {size:,} bytes instead of {download.size:,}"
    for kind, known in (("sha256", download.sha256), ("md5", download.md5)):
        if not problem and known is not None and (got := checksum_of(part, kind)) != known:
            problem = f"wrong checksum, {kind} {got[:12]}... instead of {known[:12]}..."
    tag.unlink(missing_ok=True)
    if problem:
        part.unlink()
        raise InvalidInput(f"{download.url}: {problem}; the file was removed: try again, or see {page}")


def _transfer(
    client: httpx.Client, download: Download, part: Path, tag: Path, page: str, progress: Progress | None
) -> None:
    """Write the file to `part`, or append what is missing where the server can resume."""
    present = part.stat().st_size if part.is_file() else 0
    headers = {"Accept-Encoding": "identity"}  # so that bytes on the wire are bytes of the file
    if present and tag.is_file():
        headers |= {"Range": f"bytes={present}-", "If-Range": tag.read_text(encoding="utf-8")}
    elif present and (download.sha256 or download.md5) is not None:
        headers["Range"] = f"bytes={present}-"
    with client.stream("GET", str(download.url), headers=headers) as response:
        status = response.status_code
        if status == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE and download.size == present:
            return  # only the checks were left
        if status not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
            part.unlink(missing_ok=True)
            what = "is not there" if status == httpx.codes.NOT_FOUND else "cannot be downloaded"
            raise InvalidInput(f"{download.url} {what} (HTTP {status}); see {page}")
        present = present if status == httpx.codes.PARTIAL_CONTENT else 0
        etag = response.headers.get("ETag", "")
        if etag and not etag.startswith("W/"):
            tag.write_text(etag, encoding="utf-8")
        length = response.headers.get("Content-Length", "")
        total = present + int(length) if length.isdigit() else download.size or 0
        with disk_errors(part), part.open("ab" if present else "wb") as stream:
            for chunk in response.iter_raw():
                stream.write(chunk)
                present += len(chunk)
                if progress is not None:
                    progress(present, total, download.path)


def _unpack(path: Path, download: Download, folder: Path) -> None:
    """Unpack what is kept of an archive into the set's folder and remove it; nothing is kept of any other archive."""
    archive = download.archive
    draft = folder / f".unpacked{DRAFT_SUFFIX}"
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with disk_errors(folder):
            for name, stream in _members(path):
                target = _place_in(draft, name, download)
                if target is not None:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("wb") as out:
                        shutil.copyfileobj(stream, out)
        files = [file for file in draft.rglob("*") if file.is_file()]
        if not files and archive is None:
            raise InvalidInput(f"{path.name} has no file of the published layout; unpack it yourself: {path}")
        if archive and (len(files) != archive.files or folder_digest(draft, files) != archive.digest):
            path.unlink()
            raise InvalidInput(
                f"{path.name}: wrong checksum, its {len(files)} files are not the {archive.files} of the published "
                "set; it was removed: try again"
            )
        for file in files:
            target = folder / file.relative_to(draft)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        path.unlink()
        raise InvalidInput(
            f"{path.name}: not a readable archive ({first_line(error)}); it was removed: try again"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    path.unlink()


def _members(path: Path) -> Iterator[tuple[PurePosixPath, IO[bytes]]]:
    """Yield name and content of the files in a tar or zip archive; links are left out."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as zipped:
            for info in zipped.infolist():
                if not info.is_dir():
                    with zipped.open(info) as stream:
                        yield PurePosixPath(info.filename), stream
        return
    with tarfile.open(path, "r:*") as tar:
        for member in tar:
            stream_or_none = tar.extractfile(member) if member.isfile() else None
            if stream_or_none is not None:
                yield PurePosixPath(member.name), stream_or_none


def _place_in(draft: Path, name: PurePosixPath, download: Download) -> Path | None:
    """Return where a file of an archive goes; None where it is not kept."""
    if name.is_absolute() or ".." in name.parts:
        return None
    if download.archive is None:
        kept = re.search(f"(?:^|/)({download.kept})$", name.as_posix())
        return None if kept is None else draft / kept[1]
    inner = PurePosixPath(*name.parts[1:])  # below the archive's top folder
    for source, place in download.archive.folders.items():
        if inner == PurePosixPath(source):
            return draft / place
        if inner.is_relative_to(source):
            return draft / place / inner.relative_to(source)
    return None
