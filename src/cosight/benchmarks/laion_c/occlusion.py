"""How much of the object stickers and geometric shapes cover (Li et al. 2025, Table 8), where masks of it exist."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cosight.benchmarks.laion_c.published import OCCLUSION
from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.stimuli.alterations import Alterations
from cosight.stimuli.composition.masks import check_mask, mask_path, read_mask
from cosight.stimuli.images import as_bytes
from cosight.stimuli.sets import read_source

__all__ = ["OCCLUSION_FILE", "Occlusion", "object_occlusion", "occlusion_notices", "write_occlusion"]

OCCLUSION_FILE = "occlusion.csv"


@dataclass(frozen=True, slots=True)
class Occlusion:
    """The share of the object in one photo that one distortion covers at one level."""

    image: str
    condition: str
    level: int
    share: float


def object_occlusion(recipe: Alterations) -> Iterator[Occlusion]:
    """Compute which share of the object in each photo with a mask is covered by stickers and by shapes.

    What covers the object is opaque, so its pixels are the same on a black and on a white image; all others differ.
    The mask of NAME.jpg is NAME.mask.png next to it (white is the object).

    Args:
        recipe: How the stimuli are made.

    Yields:
        One share per photo with a mask, distortion and level.

    Raises:
        InvalidInput: If a mask has another size than its photo, or no object in the part of the photo that is used.
    """
    overlays = [how for how in recipe.alterations if how.kind in OCCLUSION]
    for row in recipe.sources.frame.iter_rows(named=True):
        path = recipe.sources.path(row["file"])
        mask = read_mask(path)
        if mask is None:
            continue
        photo = read_source(recipe.sources, row["file"], recipe.prepare)
        try:
            whole = as_bytes(check_mask(mask, photo.pixels.shape).astype(np.float32))
            is_object = check_mask(recipe.prepare(whole) if recipe.prepare else whole, photo.ready.shape)
        except InvalidInput as error:
            raise InvalidInput(f"{mask_path(path)}: {error}") from error
        blank = np.zeros((*is_object.shape, 3), np.uint8)
        for how in overlays:
            on_black, on_white = (
                how(image, np.random.default_rng(how.seed_of(photo.digest, recipe.seed)), own=photo.digest)
                for image in (blank, ~blank)
            )
            covered = (on_black == on_white).all(axis=2)
            yield Occlusion(row["image"], how.kind, how.level, float(covered[is_object].mean()))


def write_occlusion(rows: Sequence[Occlusion], out: Path) -> None:
    """Write one line per photo, distortion and level to `occlusion.csv` in the set's folder."""
    with atomic_write(out / OCCLUSION_FILE) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["image", "condition", "level", "share"])
        writer.writerows([row.image, row.condition, row.level, f"{row.share:.6f}"] for row in rows)


def occlusion_notices(rows: Sequence[Occlusion]) -> list[str]:
    """Return the mean share of the object that is covered, by distortion and level, with the published ones."""
    notices = []
    for kind, published in OCCLUSION.items():
        shares = [[row.share for row in rows if (row.condition, row.level) == (kind, level)] for level in range(1, 6)]
        if all(shares):
            ours = " ".join(f"{np.mean(part):.1%}" for part in shares)
            theirs = " ".join(f"{share:.1%}" for share in published)
            notices.append(
                f"{kind} cover {ours} of the object at levels 1 to 5, mean over {len(shares[0])} masks (published, "
                f"Table 8: {theirs})"
            )
    return notices
