"""Small pictures of what was shown, for reports: stimuli made on the way are stored nowhere else."""

from __future__ import annotations

from pathlib import Path

from PIL import Image as Pillow

from cosight.files import atomic_write
from cosight.stimuli.images import Bytes, to_rgb

__all__ = ["keep_thumbnail", "thumbnail_file"]

_SIDE = 128  # pixels of the longer side


def thumbnail_file(folder: Path, stimulus: str) -> Path:
    """Where a stimulus' thumbnail is; folders of two letters, so that none holds too many."""
    return folder / stimulus[:2] / f"{stimulus}.jpeg"


def keep_thumbnail(folder: Path, stimulus: str, pixels: Bytes) -> None:
    """Write it, if it is not there."""
    path = thumbnail_file(folder, stimulus)
    if path.exists():
        return
    picture = Pillow.fromarray(to_rgb(pixels))
    picture.thumbnail((_SIDE, _SIDE), Pillow.Resampling.BILINEAR)
    with atomic_write(path) as draft:
        picture.save(draft, format="JPEG", quality=85)
