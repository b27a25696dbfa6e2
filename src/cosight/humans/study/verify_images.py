"""Check that the pictures of a study are those of its manifests, before anybody is shown them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.humans.study.pool import Pool
from cosight.processes import core_count
from cosight.stimuli.images import digest, read_image

__all__ = ["VERIFIED", "verify_images"]

VERIFIED = ".verified-images.json"
"""The file in a study's folder that holds what was verified: path -> digest and stamp of each image."""

_NAMED = 3  # changed files that the message names


def verify_images(pool: Pool, folder: Path) -> None:
    """Decode every picture and compare its pixels with the stimulus that answers to it are recorded under.

    Files that have not changed since they were last verified for the study in `folder` are not decoded again.

    Raises:
        InvalidInput: Pictures have other pixels, or cannot be read. The message names them.
    """
    expected = {str(slot.file): slot.stimulus for item in pool.items.values() for slot in item.slots}
    verified = _read_verified(folder / VERIFIED)

    def verify(file: str) -> list[Any] | None:
        """Return what to remember of a file, None if it has other pixels."""
        try:
            entry = [expected[file], *_stamp(file)]
            if verified.get(file) == entry:
                return entry
            return entry if digest(read_image(Path(file))) == expected[file] else None
        except OSError as error:
            raise InvalidInput(f"cannot read {file}: {error.strerror}; put the image back") from error

    with ThreadPoolExecutor(core_count()) as workers:  # decoding and hashing release the interpreter lock
        entries = dict(zip(expected, workers.map(verify, expected), strict=True))
    changed = [file for file, entry in entries.items() if entry is None]
    if changed:
        names = ", ".join(changed[:_NAMED]) + (" ..." if len(changed) > _NAMED else "")
        raise InvalidInput(
            f"the pixels of {len(changed)} images differ from the manifest ({names}), so answers would be recorded for "
            "other pictures than people saw; put the images back, or make the set again"
        )
    if entries != verified:
        try:
            with atomic_write(folder / VERIFIED) as draft:
                draft.write_text(json.dumps(entries), encoding="utf-8")
        except OSError:  # a folder that may only be read: verify again next time
            return


def _stamp(file: str) -> tuple[int, ...]:
    """Return what changes when a file is written, replaced or renamed, whatever its time of modification says."""
    status = Path(file).stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read_verified(file: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
