"""Public data sets by name: where they are, how large, under which licence; download them or copy them from a mirror.

`data_sets` is the registry, `get` brings a set into a folder. A mirror is a folder that looks like what `get` writes:
one folder per set. It is named by `--mirror` or by the environment variable `COSIGHT_MIRROR`, and asked first. An
interrupted download is resumed; a file becomes visible only when it is complete and its checksum is right.

>>> data_sets["model-vs-human"].folder
'model-vs-human'
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit

import httpx

from cosight.errors import InvalidInput, first_line
from cosight.files import DRAFT_SUFFIX, atomic_write, disk_errors, lock_folder
from cosight.progress import Progress, report_progress
from cosight.registry import Registry

__all__ = ["Archive", "DataSet", "Download", "Fetched", "data_folder", "data_sets", "folder_digest", "get"]

MIRROR_VARIABLE = "COSIGHT_MIRROR"
_TIMEOUT = 30.0  # seconds without an answer


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
    by_hand: str = ""  # what to do where it cannot be downloaded; {folder} is the set's folder
    use: str = ""  # a command that reads it; {folder} is the set's folder

    @property
    def is_downloadable(self) -> bool:
        """Whether all its files have an address."""
        return bool(self.downloads) and all(download.url is not None for download in self.downloads)


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


data_sets: Registry[DataSet] = Registry("data-set", listed=False)


def data_folder() -> Path:
    """Return the folder of the user in which sets are stored unless `--out` names another."""
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
    force: bool = False,
    progress: Progress | bool | None = None,
) -> Fetched:
    """Bring a public data set into a folder: from a mirror where it is there, else by download.

    Args:
        name: Name of the set (`cosight data list`).
        out: Folder in which the set's folder is made (default: the user's data folder).
        mirror: Folder with one folder per set, asked before the network (default: COSIGHT_MIRROR).
        force: Get the set again even if it is there.
        progress: True for a progress bar (default: in notebooks and at the prompt), False for none, or a function
            that is called with the bytes done, the bytes in all (0 where unknown) and the file.

    Returns:
        Where the set is, and whether its checksum was right.

    Raises:
        UnknownName: No set has this name.
        InvalidInput: There is no connection, the file is not at its address, its checksum is wrong, or the set cannot
            be downloaded; the message says what to do.
    """
    data_set = data_sets[name]
    folder = Path(out if out is not None else data_folder()).expanduser() / data_set.folder
    record = folder / f".{data_set.name}.json"  # written last: the set is complete
    if record.is_file() and not force:
        return _present(data_set, folder, record)
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
    with _unless_empty(folder), lock_folder(folder), report_progress(progress) as report:
        if source is not None:
            verified = _copy(data_set, source, folder, notices, report)
        else:
            verified = _download_all(data_set, folder, report)
        files = list(_files_below(folder))
        size = sum(path.stat().st_size for path in files)
        origin = str(source) if source is not None else data_set.page
        with atomic_write(record) as draft:
            facts = {"name": data_set.name, "source": origin, "verified": verified}
            draft.write_text(json.dumps(facts) + "\n", encoding="utf-8")
    return Fetched(data_set, folder, len(files), size, verified, origin, tuple(notices))


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
    files = list(_files_below(folder))
    try:
        verified = json.loads(record.read_text(encoding="utf-8"))["verified"] is True
    except (ValueError, KeyError, TypeError):
        verified = False
    return Fetched(data_set, folder, len(files), sum(path.stat().st_size for path in files), verified, "present")


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, hidden ones left out, in a fixed order."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def folder_digest(folder: Path, files: Iterable[Path]) -> str:
    """Return the sha256 of the names and contents of files.

    Args:
        folder: The names are relative to this folder.
        files: The files, in any order.
    """
    lines = [f"{_sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in files]
    return hashlib.sha256("".join(sorted(lines, key=lambda line: line[66:])).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# ---- from a mirror


def _copy(data_set: DataSet, source: Path, folder: Path, notices: list[str], progress: Progress | None) -> bool:
    """Copy a set from a mirror; return whether everything in it is what was published."""
    files = list(_files_below(source))
    if not files:
        raise InvalidInput(f"the mirror's folder {source} is empty; fill it or name another mirror with --mirror")
    verified = bool(data_set.downloads)
    if not verified:
        notices.append(f"no checksum of {data_set.name} is known")
    for download in data_set.downloads:
        kept = _downloaded(download, source, files)
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
        elif (_sha256(kept[0]) if download.archive is None else folder_digest(source, kept)) != digest:
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


def _downloaded(download: Download, folder: Path, files: Iterable[Path]) -> list[Path]:
    """Return the files of a set that come from one download."""
    if download.archive is None:
        return [path for path in files if path == folder / download.path]
    places = [folder / place for place in download.archive.folders.values()]
    return [path for path in files if any(place == path or place in path.parents for place in places)]


# ---- by download


def _download_all(data_set: DataSet, folder: Path, progress: Progress | None) -> bool:
    """Download and unpack a set; return whether all checksums are known, and so were right."""
    parts = folder / f".{data_set.name}-download"  # kept after a failure, to resume
    try:
        with httpx.Client(follow_redirects=True, timeout=_TIMEOUT) as client:
            for download in data_set.downloads:
                if _is_complete(download, folder):
                    continue  # of an interrupted call
                part = parts / download.path
                _download(client, download, part, data_set.page, progress)
                if download.archive is not None:
                    _unpack(part, download.archive, folder)
                else:
                    part.replace(folder / download.path)
        shutil.rmtree(parts, ignore_errors=True)
    finally:
        if parts.is_dir() and not any(path.is_file() for path in parts.rglob("*")):
            shutil.rmtree(parts)
    return all(download.sha256 is not None or download.archive is not None for download in data_set.downloads)


def _is_complete(download: Download, folder: Path) -> bool:
    """Return whether the files of a download are in the set's folder, and are those that were published."""
    files = _downloaded(download, folder, _files_below(folder))
    if download.archive is not None:
        return len(files) == download.archive.files and folder_digest(folder, files) == download.archive.digest
    return bool(files) and _sha256(files[0]) == download.sha256


def _download(client: httpx.Client, download: Download, part: Path, page: str, progress: Progress | None) -> None:
    """Download to `part`, or what is missing of it, and check size and checksum."""
    part.parent.mkdir(parents=True, exist_ok=True)
    tag = part.with_name(part.name + ".etag")  # of the file that the part belongs to
    try:
        _transfer(client, download, part, tag, page, progress)
    except httpx.TransportError as error:
        host = urlsplit(download.url or "").netloc
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            raise InvalidInput(
                f"no connection to {host} ({first_line(error, most=60)}); check the network, or name a mirror folder "
                f"with --mirror or {MIRROR_VARIABLE}"
            ) from error
        present = part.stat().st_size if part.is_file() else 0
        raise InvalidInput(
            f"the connection to {host} was lost after {present:,} bytes of {download.path} "
            f"({first_line(error, most=60)}); run the same command again to resume"
        ) from error
    size = part.stat().st_size
    problem = ""
    if download.size is not None and size != download.size:
        problem = f"wrong size, {size:,} bytes instead of {download.size:,}"
    elif download.sha256 is not None and (got := _sha256(part)) != download.sha256:
        problem = f"wrong checksum, sha256 {got[:12]}... instead of {download.sha256[:12]}..."
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
    elif present and download.sha256 is not None:
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


def _unpack(path: Path, archive: Archive, folder: Path) -> None:
    """Unpack what is kept of an archive into the set's folder and remove it; nothing is kept of any other archive."""
    draft = folder / f".unpacked{DRAFT_SUFFIX}"
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with disk_errors(folder):
            for name, stream in _members(path):
                target = _place_in(draft, name, archive)
                if target is not None:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("wb") as out:
                        shutil.copyfileobj(stream, out)
        files = [file for file in draft.rglob("*") if file.is_file()]
        if len(files) != archive.files or folder_digest(draft, files) != archive.digest:
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


def _place_in(draft: Path, name: PurePosixPath, archive: Archive) -> Path | None:
    """Return where a file of an archive goes; None where it is not kept."""
    inner = PurePosixPath(*name.parts[1:])  # below the archive's top folder
    if name.is_absolute() or ".." in name.parts:
        return None
    for source, place in archive.folders.items():
        if inner == PurePosixPath(source):
            return draft / place
        if inner.is_relative_to(source):
            return draft / place / inner.relative_to(source)
    return None


# ---- the sets

_GITHUB = "https://codeload.github.com"
_RAW = "https://raw.githubusercontent.com"
_COMMITS = {  # the states whose files the digests are of
    "bethgelab/model-vs-human": "79ed7cd1d9ac3a114e71b6638f0a98bdd627316c",
    "wichmann-lab/error-consistency": "eb53bdb5d8e48166c56b9201842b19e8259506c5",
    "rgeirhos/texture-vs-shape": "ccd0c01d42c0a8a834e90ec141e7f24fa915dc23",
    "rgeirhos/generalisation-humans-DNNs": "0b88343536ec21acc2d635c0e325f827111e149a",
    "jcpeterson/cifar-10h": "48da312b193b82e6939ec20f23d1f09cbdd849c8",
    "hendrycks/robustness": "8190fe329f5f072a06e3a2aea02bb5dda69aed9f",
}
_EXPERIMENTS = (
    *("colour", "contrast", "cue-conflict", "edge", "eidolonI", "eidolonII", "eidolonIII", "false-colour", "high-pass"),
    *("low-pass", "phase-scrambling", "power-equalisation", "rotation", "silhouette", "sketch", "stylized"),
    "uniform-noise",
)
_FROST = {  # name: (bytes, sha256)
    "frost1.png": (1199930, "ff9f907860bd7a835d459e32f9d588062b7f61ee267343cc7222b56753a14755"),
    "frost2.png": (299002, "fe211a89b336999c207a852ce05818d4545d0b57c5beadd824b4cc9d9a9b6137"),
    "frost3.png": (299002, "2d0d50b4a9bb213f38b024ef7768731bb83cc08d2f26b5766bbc167cdfa0e504"),
    "frost4.jpg": (36734, "3f8b91ca1a9fa7167b09e773da53f5ae60d0a1fd88f02a783f6e328a72887f6e"),
    "frost5.jpg": (155150, "5fc6a19df4a429ba68abdcc8f8a4278d4c9f81c9ccafd2c92ab0c8cf8992ebd2"),
    "frost6.jpg": (90185, "1f92b2f48408748085b68dd81d816ef239f42cef3029c25d041fcb6760fb4f25"),
}


def _repository(name: str, folders: Mapping[str, str], files: int, digest: str) -> Download:
    """Return the download of folders of a repository on GitHub, packed by GitHub (so without a checksum of its own)."""
    commit = _COMMITS[name]
    return Download(f"{_GITHUB}/{name}/tar.gz/{commit}", f"{commit}.tar.gz", archive=Archive(folders, files, digest))


def _repository_file(name: str, file: str, size: int, sha256: str) -> Download:
    """Return the download of one file of a repository on GitHub."""
    return Download(f"{_RAW}/{name}/{_COMMITS[name]}/{file}", file.rsplit("/", 1)[-1], size, sha256)


for _entry in (
    DataSet(
        "model-vs-human",
        "Trials of people, 17 experiments, 85,120 trials",
        "model-vs-human",
        8_221_891,
        "CC BY 4.0 (cue-conflict, edge, silhouette), MIT (sketch), ImageNet's terms (others)",
        "Geirhos et al. 2021, Partial success in closing the gap between human and machine vision (NeurIPS)",
        "https://github.com/bethgelab/model-vs-human",
        (
            _repository(
                "bethgelab/model-vs-human",
                {f"raw-data/{name}": name for name in _EXPERIMENTS},
                90,
                "e21477cd7e14ef54d2fb36fc4bdb764eb90f582fdf80a92ddf64f1a3fc13d0de",
            ),
        ),
        use="cosight compare {folder}/cue-conflict --measure ec",
    ),
    DataSet(
        "error-consistency",
        "Trials of 10 people and 25 CNNs on cue-conflict, edges and silhouettes",
        "error-consistency",
        3_719_564,
        "CC BY 4.0",
        "Geirhos, Meding, Wichmann 2020, Beyond accuracy (NeurIPS)",
        "https://github.com/wichmann-lab/error-consistency",
        (
            _repository(
                "wichmann-lab/error-consistency",
                {f"raw-data/texture-shape_{name}": name for name in ("cue-conflict", "edges", "silhouettes")},
                105,
                "36a51c035d8425b07e3214d0b19044e99278cc0133f77fd3e31b71299891a7fc",
            ),
        ),
        use="cosight compare {folder} --measure ec --by experiment",
    ),
    DataSet(
        "texture-vs-shape",
        "Images of cue-conflict (1,280), edges and silhouettes (160 each)",
        "texture-vs-shape",
        138_029_091,
        "CC BY 4.0",
        "Geirhos et al. 2019, ImageNet-trained CNNs are biased towards texture (ICLR)",
        "https://github.com/rgeirhos/texture-vs-shape",
        (
            _repository(
                "rgeirhos/texture-vs-shape",
                {
                    "stimuli/style-transfer-preprocessed-512": "cue-conflict",
                    "stimuli/edges": "edges",
                    "stimuli/filled-silhouettes": "filled-silhouettes",
                },
                1600,
                "f672006c5b9d4fd8ef7aa61391c170a556c3c58e452aedef85440e0f69b65ed6",
            ),
        ),
        use="cosight evaluate timm:resnet50 --on {folder}/cue-conflict --out runs/resnet50",
    ),
    DataSet(
        "cifar-10h",
        "CIFAR-10's test images, with about 51 people's answers to each",
        "cifar10",
        31_530_128,
        "CC BY-NC-SA 4.0 (CIFAR-10: none stated)",
        "Peterson et al. 2019, Human uncertainty makes classification more robust (ICCV); Krizhevsky 2009",
        "https://github.com/jcpeterson/cifar-10h",
        (
            Download(
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                "cifar-10-binary.tar.gz",
                170_052_171,
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                Archive(
                    {"test_batch.bin": "test_batch.bin"},
                    1,
                    "4853df626e09e8cbcf44af62dc2c271e2a81af6d72e83322cd845fabc5c18203",
                ),
            ),
            _repository_file(
                "jcpeterson/cifar-10h",
                "data/cifar10h-counts.npy",
                800_128,
                "9b36b4550349af56c79083356312eb4af856cc5fd3caf1f669d40b9d0bbb69ff",
            ),
        ),
        use="cosight build cifar-10h {folder} sets/cifar-10h",
    ),
    DataSet(
        "visalign",
        "VisAlign's open test set, 900 images",
        "visalign",
        0,
        "MIT, as its paper says",
        "Lee et al. 2023, VisAlign (NeurIPS)",
        "https://huggingface.co/datasets/jiyounglee0523/VisAlign",
        by_hand="run hf download jiyounglee0523/VisAlign --repo-type dataset --local-dir {folder} (pip install "
        "huggingface_hub), then cosight build visalign OUT --public {folder}",
        use="cosight build visalign sets/visalign --public {folder}",
    ),
    DataSet(
        "laion-c",
        "LAION-C: 131,040 images, six distortions at five levels",
        "laion-c",
        0,
        "CC BY-NC 4.0, as its paper says",
        "Li et al. 2025, LAION-C (ICML)",
        "https://zenodo.org/records/14051887",
        by_hand="download the files of https://zenodo.org/records/14051887 in a browser, compare them with the MD5 "
        "checksums on that page (cosight knows none), and unpack them, so that {folder}/mosaic/intensity_level_1/... "
        "exist",
        use="cosight evaluate timm:resnet50 --on {folder} --out runs/laion-c",
    ),
    DataSet(
        "imagenet-c-frost",
        "The six photos of frost that ImageNet-C puts over images",
        "imagenet-c-frost",
        2_080_003,
        "Apache 2.0",
        "Hendrycks, Dietterich 2019, Benchmarking neural network robustness (ICLR)",
        "https://github.com/hendrycks/robustness",
        tuple(
            _repository_file("hendrycks/robustness", f"ImageNet-C/create_c/{name}", *facts)
            for name, facts in _FROST.items()
        ),
        use="cosight stimuli corrupt PHOTOS OUT --kind frost --textures {folder}",
    ),
    DataSet(
        "mean-power-spectrum",
        "Mean amplitude spectrum of grey images, for power equalisation",
        "mean-power-spectrum",
        401_488,
        "CC BY 4.0",
        "Geirhos et al. 2018, Generalisation in humans and deep neural networks (NeurIPS)",
        "https://github.com/rgeirhos/generalisation-humans-DNNs",
        (
            _repository_file(
                "rgeirhos/generalisation-humans-DNNs",
                "code/mean_power_spectrum_grey.npy",
                401_488,
                "e174b43499e15bb9be6dc798efd5a8565abd064feaf58f2f5e269e4795b4170c",
            ),
        ),
        use="cosight stimuli manipulate PHOTOS OUT --kind power-equalisation --spectrum "
        "{folder}/mean_power_spectrum_grey.npy",
    ),
    DataSet(
        "lpips-weights",
        "AlexNet's convolutions and LPIPS v0.1's heads in one file",
        "weights/lpips",
        9_884_624,
        "BSD-2-Clause",
        "Zhang et al. 2018, The unreasonable effectiveness of deep features (CVPR)",
        "https://github.com/richzhang/PerceptualSimilarity",
        (
            Download(
                None,
                "alexnet-lpips.safetensors",
                9_884_624,
                "06ceceabdd9bacb3cb39e31590a02ec27257aa369f125a7e6f30ad683197116f",
            ),
        ),
        by_hand="it is published in no such file; name a mirror with weights/lpips/alexnet-lpips.safetensors in it "
        "(--mirror DIR)",
    ),
):
    data_sets.add(_entry.name, _entry)
