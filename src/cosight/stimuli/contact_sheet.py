"""Contact sheets: kinds down, steps across, one picture to look at."""

from __future__ import annotations

from collections.abc import Sequence
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

__all__ = ["SheetRow", "contact_sheet", "sheet_format", "sheet_rows", "write_sheet"]

_GAP = 4
_TEXT = 14


@dataclass(frozen=True, slots=True)
class SheetRow:
    """One line of a sheet: its name and the pictures, each with the words below it."""

    name: str
    pictures: Sequence[tuple[str, Bytes]]


def contact_sheet(rows: Sequence[SheetRow], *, side: int = 128) -> Bytes:
    """The rows as one RGB picture, every image fitted into a square of `side` pixels."""
    if not rows or not any(row.pictures for row in rows):
        raise InvalidInput("a contact sheet needs at least one picture, got none")
    font = ImageFont.load_default(_TEXT)
    margin = int(max(font.getlength(row.name) for row in rows)) + 2 * _GAP
    columns = max(len(row.pictures) for row in rows)
    pitch = side + _TEXT + 3 * _GAP
    sheet = Pillow.new("RGB", (margin + columns * (side + _GAP), _GAP + len(rows) * pitch), "white")
    pen = ImageDraw.Draw(sheet)
    for line, row in enumerate(rows):
        top = _GAP + line * pitch
        pen.text((_GAP, top + side / 2), row.name, fill="black", font=font, anchor="lm")
        for column, (words, image) in enumerate(row.pictures):
            left = margin + column * (side + _GAP)
            small = _fitted(image, side)
            sheet.paste(small, (left + (side - small.width) // 2, top + (side - small.height) // 2))
            pen.text(
                (left + side / 2, top + side + _GAP), _cut(words, font, side), fill="black", font=font, anchor="ma"
            )
    return np.asarray(sheet)


def _fitted(image: Bytes, side: int) -> Pillow.Image:
    picture = Pillow.fromarray(image).convert("RGB")
    scale = side / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    return picture.resize(size, Pillow.Resampling.BICUBIC if scale < 1 else Pillow.Resampling.NEAREST)


def _cut(words: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: int) -> str:
    while len(words) > 1 and font.getlength(words) > width:
        words = words[:-1]
    return words


def sheet_rows(stimuli: StimulusSet, *, pictures: int = 10) -> list[SheetRow]:
    """Rows for a set: its first source at every step of every kind; without levels, the first stimuli of every kind."""
    frame = stimuli.frame
    if not frame["level"].null_count():
        frame = frame.filter(pl.col("parent") == pl.col("parent").sort_by("image", "file").first())
        frame = frame.sort("file").unique(["kind", "condition", "level"], keep="first")  # a source may be there twice
    rows = []
    for (name,), part in frame.sort("kind", "level", "file").group_by("kind", maintain_order=True):
        shown = part.head(pictures).select("file", "condition", "level", "kind").iter_rows(named=True)
        rows.append(SheetRow(str(name or ""), [(_words(row), stimuli.pixels(row["file"])) for row in shown]))
    return rows


def _words(row: dict[str, object]) -> str:
    if row["condition"] != row["kind"]:
        return str(row["condition"])
    return "" if row["level"] is None else str(row["level"])


def sheet_format(path: Path) -> str:
    """The format that the ending of a sheet's name asks for."""
    formats = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg"}
    if path.suffix.lower() not in formats:
        raise InvalidInput(f"a sheet is a .png or .jpg file, got {path}")
    return formats[path.suffix.lower()]


def write_sheet(stimuli: StimulusSet, path: Path) -> None:
    """Write a set's contact sheet, whole or not at all."""
    picture = Pillow.fromarray(contact_sheet(sheet_rows(stimuli)))
    with atomic_write(path) as draft:
        picture.save(draft, sheet_format(path))
