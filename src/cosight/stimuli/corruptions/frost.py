"""Textures for frost: six panes of ice that we grow ourselves, or a folder of photos."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.stimuli.corruptions.crystals import grow
from cosight.stimuli.images import IMAGE_SUFFIXES, Bytes, Floats, digest, read_image

__all__ = ["FrostTextures", "load_textures", "procedural_textures"]

_SHAPE = (700, 1000)


@dataclass(frozen=True, slots=True)
class FrostTextures:
    """RGB pictures of ice, at least one; equal when their pixels are."""

    images: tuple[Bytes, ...] = field(compare=False, repr=False)
    digest: str

    @staticmethod
    def of(images: tuple[Bytes, ...]) -> FrostTextures:
        """Textures from pixels."""
        joined = hashlib.sha256("".join(map(digest, images)).encode())
        return FrostTextures(images, joined.hexdigest())


def load_textures(folder: Path) -> FrostTextures:
    """Every picture of a folder, in the order of their names; hidden files are left out, grey ones made RGB.

    A picture is refused as a source would be: ImageNet-C's own have an alpha channel, but an opaque one.
    """
    if not folder.is_dir():
        raise InvalidInput(f"frost textures are a folder of pictures, got {folder}; name one that exists")
    names = (
        file for file in folder.iterdir() if file.suffix.lower() in IMAGE_SUFFIXES and not file.name.startswith(".")
    )
    files = sorted(names)
    if not files:
        raise InvalidInput(f"a folder of frost textures holds pictures, {folder} has none; name another")
    return FrostTextures.of(tuple(map(_read_colours, files)))


def _read_colours(file: Path) -> Bytes:
    pixels = read_image(file)
    return pixels if pixels.ndim == 3 else cv2.cvtColor(pixels, cv2.COLOR_GRAY2RGB)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class _Pane:
    """One look of frost. Colours are RGB of the bare glass, of thin ice and of thick ice."""

    seed: int
    colours: tuple[tuple[int, int, int], ...]
    crystals: int
    length: tuple[float, float]  # pixels, shortest and longest; long ones are rare
    from_edges: float  # share of the crystals that grow inwards from the rim
    habit: tuple[float, ...]  # as in crystals.grow; the angle in degrees
    haze: tuple[float, float]  # of thin ice everywhere: least, and how much it varies
    fill: int = 6000  # small crystals in what is left between the large ones
    arms: int = 1
    lines: float = 0.9
    body: float = 1.1
    relief: float = 1.2
    grain: float = 0.16


_PANES = (
    # big ferns from the rim over dark teal glass
    _Pane(
        1,
        ((10, 18, 22), (78, 112, 120), (208, 232, 234)),
        420,
        (50, 420),
        0.4,
        (38, 6, 0.42, 4, 0.3, 0.002),
        haze=(0.0, 0.75),
    ),
    # many small feathers on slate
    _Pane(
        2,
        ((30, 38, 50), (118, 130, 144), (250, 252, 254)),
        2600,
        (16, 90),
        0.0,
        (52, 4, 0.45, 3, 0.35, 0.006),
        haze=(0.05, 0.8),
        arms=2,
        lines=1.2,
    ),
    # white needles, nearly opaque
    _Pane(
        3,
        ((132, 134, 142), (206, 210, 218), (252, 253, 254)),
        2200,
        (40, 260),
        0.1,
        (13, 5, 0.5, 4, 0.3, 0.003),
        haze=(0.35, 0.6),
        body=0.8,
    ),
    # stars of six on grey
    _Pane(
        4,
        ((60, 70, 80), (138, 153, 166), (244, 248, 252)),
        500,
        (12, 70),
        0.0,
        (60, 4, 0.4, 3, 0.4, 0.002),
        haze=(0.3, 0.6),
        arms=6,
        grain=0.24,
        fill=9000,
    ),
    # sheets of blue ice
    _Pane(
        5,
        ((14, 62, 98), (66, 148, 176), (204, 228, 230)),
        520,
        (60, 380),
        0.3,
        (24, 7, 0.5, 5, 0.25, 0.006),
        haze=(0.1, 0.9),
        lines=0.6,
    ),
    # pale plumes that curl up from below
    _Pane(
        6,
        ((166, 178, 194), (210, 218, 228), (252, 253, 254)),
        700,
        (40, 360),
        0.6,
        (45, 5, 0.35, 3.5, 0.35, 0.012),
        haze=(0.0, 0.7),
    ),
)


@lru_cache(maxsize=1)
def procedural_textures() -> FrostTextures:
    """Six panes of frost, 1000 x 700, always the same; grown once a process."""
    return FrostTextures.of(tuple(map(_pane, _PANES)))


def _pane(pane: _Pane) -> Bytes:
    rng = np.random.default_rng(pane.seed)
    habit = np.array([np.radians(pane.habit[0]), *pane.habit[1:]])
    clouds = _clouds(rng)
    ice = grow(_SHAPE, _seeds(pane, clouds, rng), habit=habit, rng=rng)
    body = cv2.GaussianBlur(ice, (0, 0), 2.5)
    least, more = pane.haze
    thickness = least + more * clouds + pane.lines * ice + pane.body * body + pane.relief * _relief(ice)
    thickness += pane.grain * _grains(rng) * (0.35 + body)
    return _coloured(thickness / 2, pane.colours)


def _seeds(pane: _Pane, clouds: Floats, rng: np.random.Generator) -> NDArray[np.float64]:
    """Rows for `grow`, the longest first: small crystals fill what large ones leave."""
    height, width = _SHAPE
    short, long = pane.length
    count = pane.crystals + pane.fill
    x, y, angle = rng.random((3, count)) * np.array([[width - 2], [height - 2], [2 * np.pi]])
    lengths = np.sort(short * (long / short) ** (rng.random(count) ** 2))[::-1]
    lengths[pane.crystals :] = rng.uniform(5, max(short / 2, 12), pane.fill)
    _from_rim(x, y, angle, np.flatnonzero(rng.random(pane.crystals) < pane.from_edges), rng)
    light = rng.uniform(0.35, 0.75, count) + 0.4 * clouds[y.astype(int), x.astype(int)]
    light[pane.crystals :] *= 0.4
    rows = np.column_stack([x, y, angle, lengths, np.minimum(light, 1), np.arange(1, count + 1)])
    every = np.repeat(rows, pane.arms, axis=0)
    every[:, 2] += np.tile(np.arange(pane.arms) * 2 * np.pi / pane.arms, count)
    return every


def _from_rim(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    angle: NDArray[np.float64],
    which: NDArray[np.intp],
    rng: np.random.Generator,
) -> None:
    """Move these crystals to one of the four sides, pointing inwards."""
    height, width = _SHAPE
    side = rng.integers(4, size=len(which))
    x[which] = np.choose(side, [1, width - 3, x[which], x[which]])
    y[which] = np.choose(side, [y[which], y[which], 1, height - 3])
    angle[which] = np.choose(side, [0, np.pi, np.pi / 2, -np.pi / 2]) + rng.normal(0, 0.6, len(which))


def _clouds(rng: np.random.Generator) -> Floats:
    """Slow changes of thickness, in [0, 1]."""
    total = np.zeros(_SHAPE, dtype=np.float32)
    for cells in (3, 6, 12, 24, 48, 96):
        coarse = rng.random((cells, cells * 3 // 2), dtype=np.float32)
        total += cv2.resize(coarse, _SHAPE[::-1], interpolation=cv2.INTER_CUBIC) * np.float32(cells**-0.8)
    scaled: Floats = (total - total.min()) / (total.max() - total.min())
    return scaled


def _grains(rng: np.random.Generator) -> Floats:
    """Small crystals too fine to draw: noise of a pixel and of two."""
    noise = rng.standard_normal(_SHAPE, dtype=np.float32)
    return noise + 2 * cv2.GaussianBlur(noise[::-1], (0, 0), 1.2)


def _relief(ice: Floats) -> Floats:
    """Light that falls from the upper left on the ice's surface."""
    surface = cv2.GaussianBlur(ice, (0, 0), 1.2)
    across, down = cv2.Sobel(surface, cv2.CV_32F, 1, 0), cv2.Sobel(surface, cv2.CV_32F, 0, 1)
    return (across + down) * np.float32(0.35)


def _coloured(thickness: Floats, colours: tuple[tuple[int, int, int], ...]) -> Bytes:
    """From bare glass over thin to thick ice, linear between."""
    levels = np.linspace(0, 1, 256)
    ramp = np.array([np.interp(levels, (0, 0.5, 1), channel) for channel in zip(*colours, strict=True)]).T
    index = np.clip(thickness * 255, 0, 255).astype(np.uint8)
    coloured: Bytes = np.rint(ramp).astype(np.uint8)[index]
    return coloured
