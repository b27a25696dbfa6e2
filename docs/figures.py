"""Draw the contact sheets of the docs from a photo that scikit-learn ships (flower.jpg, vultilion, CC BY 2.0).

`python docs/figures.py` writes them. Tiles of the distortions are cut-outs of scikit-learn's two photos.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import cv2
import numpy as np
from PIL import Image as Pillow
from sklearn.datasets import load_sample_images

from cosight.stimuli import alteration, build_tiles, preparation
from cosight.stimuli.alterations import FAMILIES
from cosight.stimuli.composition import PLAIN_BACKGROUNDS, foreground_mask, paste, plain_background
from cosight.stimuli.composition.renditions import NEEDS_MASK, RENDITIONS, render
from cosight.stimuli.contact_sheet import SheetRow, contact_sheet
from cosight.stimuli.images import Bytes

FOLDER = Path(__file__).parent / "images"
QUALITY = 80


def main() -> None:
    """Write all sheets."""
    temple, flower = load_sample_images().images
    with tempfile.TemporaryDirectory() as folder:
        tiles = build_tiles(cut_outs([temple, flower], 600), Path(folder) / "tiles")
        write("corruptions", rows("corrupt", preparation("256x256")(square(flower)), {}), side=80)
        write("distortions", rows("distort", preparation("256/224")(square(flower)), {"tiles": tiles}), side=160)
    write("composition", composition_rows(square(flower)), side=160)


def square(photo: Bytes) -> Bytes:
    side = min(photo.shape[:2])
    left = (photo.shape[1] - side) // 2
    return np.ascontiguousarray(photo[:side, left : left + side])


def cut_outs(photos: list[Bytes], count: int) -> list[Bytes]:
    rng = np.random.default_rng(0)
    found = []
    for index in range(count):
        photo, side = photos[index % 2], int(rng.integers(40, 200))
        top, left = (int(rng.integers(0, size - side)) for size in photo.shape[:2])
        hue = cv2.cvtColor(np.ascontiguousarray(photo[top : top + side, left : left + side]), cv2.COLOR_RGB2HSV)
        hue[:, :, 0] = (hue[:, :, 0] + rng.integers(0, 180)) % 180  # more colours than two photos have
        found.append(cv2.cvtColor(hue, cv2.COLOR_HSV2RGB))
    return found


def rows(verb: str, photo: Bytes, options: dict[str, object]) -> list[SheetRow]:
    family = FAMILIES[verb]
    return [
        SheetRow(
            name,
            [(step, alteration(name, **{family.step_name: step, **options}).apply(photo, 0)) for step in kind.steps],
        )
        for name, kind in sorted(family.kinds.items())
    ]


def composition_rows(photo: Bytes) -> list[SheetRow]:
    mask = foreground_mask(photo).mask
    scenes, styles = [], []
    for index, name in enumerate(PLAIN_BACKGROUNDS):
        rng = np.random.default_rng(index)
        background = plain_background(name, height=224, width=224, rng=rng)
        scenes.append((name, paste(photo, mask, background, rng=rng)))
    for style in RENDITIONS:
        rng = np.random.default_rng(0)
        styles.append((style, render(photo, style, rng=rng, mask=mask if style in NEEDS_MASK else None)))
    return [SheetRow("2 background", scenes), SheetRow("7 style", styles)]


def write(name: str, sheet: list[SheetRow], *, side: int) -> None:
    FOLDER.mkdir(exist_ok=True)
    Pillow.fromarray(contact_sheet(sheet, side=side)).save(FOLDER / f"{name}.jpg", quality=QUALITY)
    print(FOLDER / f"{name}.jpg")


if __name__ == "__main__":
    main()
