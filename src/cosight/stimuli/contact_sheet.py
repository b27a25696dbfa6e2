"""Contact sheets: one picture of a set, one row per kind, one column per step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.stimuli.images import Bytes
from cosight.stimuli.sets import StimulusSet

__all__ = ["SheetRow", "check_sheet", "contact_sheet", "sheet_format", "sheet_rows", "write_sheet"]

_GAP = 4  # pixels
_TEXT_SIZE = 14
_FORMATS = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg"}


@dataclass(frozen=True, slots=True)
class SheetRow:
    """One row of a sheet: its name, of one or more lines, and the caption and pixels of each picture."""

    name: str
    pictures: Sequence[tuple[str, Bytes]]


def contact_sheet(rows: Sequence[SheetRow], *, side: int = 128) -> Bytes:
    """Draw the rows as one RGB picture, every image fitted into a square of `side` pixels."""
    if not rows or not any(row.pictures for row in rows):
        raise InvalidInput("a contact sheet needs at least one picture, got none")
    font = ImageFont.load_default(_TEXT_SIZE)
    margin = int(max(font.getlength(line) for row in rows for line in row.name.split("\n"))) + 2 * _GAP
    columns = max(len(row.pictures) for row in rows)
    pitch = side + _TEXT_SIZE + 3 * _GAP
    sheet = Pillow.new("RGB", (margin + columns * (side + _GAP), _GAP + len(rows) * pitch), "white")
    pen = ImageDraw.Draw(sheet)
    for line, row in enumerate(rows):
        top = _GAP + line * pitch
        pen.text((_GAP, top + side / 2), row.name, fill="black", font=font, anchor="lm")
        for column, (caption, image) in enumerate(row.pictures):
            left = margin + column * (side + _GAP)
            picture = Pillow.fromarray(image).convert("RGB")
            scale = side / max(picture.size)
            size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
            method = Pillow.Resampling.BICUBIC if scale < 1 else Pillow.Resampling.NEAREST
            sheet.paste(picture.resize(size, method), (left + (side - size[0]) // 2, top + (side - size[1]) // 2))
            text = caption
            while len(text) > 1 and font.getlength(text) > side:
                text = text[:-1]
            pen.text((left + side / 2, top + side + _GAP), text, fill="black", font=font, anchor="ma")
    return np.asarray(sheet)


def sheet_rows(stimuli: StimulusSet, *, pictures: int = 10) -> list[SheetRow]:
    """Choose what a set's sheet shows: its first source at every step of every kind.

    In a set without levels these are the first stimuli of every kind.
    """
    frame = stimuli.frame
    if not frame["level"].null_count():
        frame = frame.filter(pl.col("parent") == pl.col("parent").sort_by("image", "file").first())
        frame = frame.sort("file").unique(["kind", "condition", "level"], keep="first")  # a source may be in it twice
    rows = []
    for (name,), part in frame.sort("kind", "level", "file").group_by("kind", maintain_order=True):
        captioned = []
        for row in part.head(pictures).iter_rows(named=True):
            level = "" if row["level"] is None else str(row["level"])
            caption = str(row["condition"]) if row["condition"] != row["kind"] else level
            captioned.append((caption, stimuli.pixels(row["file"])))
        rows.append(SheetRow(str(name or ""), captioned))
    return rows


def check_sheet(path: Path, *, outside: Iterable[Path], force: bool, option: str = "--sheet") -> None:
    """Raise InvalidInput unless a sheet can be written to `path`, before the images that it shows are made.

    Args:
        path: The file.
        outside: Folders of images, which it must not be in.
        force: Whether to replace a file that exists.
        option: The option that named the file, for messages.
    """
    sheet_format(path)
    for folder in outside:
        if path.resolve().is_relative_to(folder.resolve()):
            raise InvalidInput(f"{option} must be outside the image folder {folder}, got {path}; choose another path")
    if path.is_dir():
        raise InvalidInput(f"{option} must be a file, got the folder {path}")
    if path.exists() and not force:
        raise InvalidInput(f"{path} exists and is not overwritten; --force replaces it, or choose another {option}")


def sheet_format(path: Path) -> str:
    """Return the file format that follows from the suffix of a sheet."""
    if path.suffix.lower() not in _FORMATS:
        raise InvalidInput(f"a sheet is a .png or .jpg file, got {path}")
    return _FORMATS[path.suffix.lower()]


def write_sheet(stimuli: StimulusSet, path: Path) -> None:
    """Write the contact sheet of a set, atomically."""
    picture = Pillow.fromarray(contact_sheet(sheet_rows(stimuli)))
    with atomic_write(path) as draft:
        picture.save(draft, sheet_format(path))
