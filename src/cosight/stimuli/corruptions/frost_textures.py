"""Textures for frost: six panes of ice grown by this module, or a folder of photos.

A crystal is a spine with side branches on both sides, and each of these carries barbs: the feather of window frost.
Every line is drawn in steps of less than a pixel and ends at the first pixel that belongs to another crystal.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.stimuli.compiled import compiled
from cosight.stimuli.images import IMAGE_SUFFIXES, Bytes, Floats, digest, read_image, to_rgb

__all__ = ["FrostTextures", "Growth", "grow_crystals", "load_textures", "procedural_textures"]

_SHAPE = (700, 1000)
_STRIDE = 0.8  # pixels between two points of a line
_TAPER = 0.65  # fraction of its brightness that a line loses towards its tip


@dataclass(frozen=True, slots=True)
class FrostTextures:
    """RGB pictures of ice, at least one; equal when their pixels are."""

    images: tuple[Bytes, ...] = field(compare=False, repr=False)
    digest: str

    @staticmethod
    def of(images: tuple[Bytes, ...]) -> FrostTextures:
        """Return textures with these pixels."""
        joined = hashlib.sha256("".join(map(digest, images)).encode())
        return FrostTextures(images, joined.hexdigest())


def load_textures(folder: Path) -> FrostTextures:
    """Read the textures for frost from a folder of pictures, in the order of their names.

    Grey pictures become RGB; hidden files are left out. The rules are those of source images. (ImageNet-C's own
    textures have an alpha channel, which is opaque.)

    Args:
        folder: The folder.

    Returns:
        The textures.

    Raises:
        InvalidInput: If the folder does not exist or has no picture, or if a picture cannot be used.

    >>> from cosight.stimuli import encode
    >>> Path("ice").mkdir()
    >>> _ = Path("ice/pane.png").write_bytes(encode(np.full((40, 60), 200, np.uint8), "png"))
    >>> load_textures(Path("ice")).images[0].shape
    (40, 60, 3)
    """
    if not folder.is_dir():
        raise InvalidInput(
            f"frost textures are a folder of pictures, got {folder}; name an existing folder "
            "(`cosight data get imagenet-c-frost`)"
        )
    files = sorted(
        file for file in folder.iterdir() if file.suffix.lower() in IMAGE_SUFFIXES and not file.name.startswith(".")
    )
    if not files:
        raise InvalidInput(f"a folder of frost textures contains pictures, {folder} has none; name another")
    return FrostTextures.of(tuple(to_rgb(read_image(file)) for file in files))


class Growth(NamedTuple):
    """How crystals grow."""

    branch_angle: float  # degrees between the spine and its side branches
    branch_spacing: float  # pixels between two branches
    branch_length: float  # the longest, as a fraction of the spine
    barb_spacing: float  # pixels between two barbs
    barb_length: float  # the longest, as a fraction of the branch
    curl: float  # radians per pixel


@dataclass(frozen=True, slots=True)
class _Pane:
    """One look of frost. Colours are RGB of bare glass, of thin ice and of thick ice."""

    seed: int
    colours: tuple[tuple[int, int, int], ...]
    crystals: int
    length: tuple[float, float]  # pixels, shortest and longest; long ones are rare
    from_edges: float  # fraction of the crystals that grow inwards from the edges
    growth: Growth
    haze: tuple[float, float]  # thin ice everywhere: minimum, and how much it varies
    fill: int = 6000  # small crystals in the space between the large ones
    arms: int = 1
    lines: float = 0.9
    body: float = 1.1
    relief: float = 1.2
    grain: float = 0.16


_PANES = (
    # big ferns from the rim over dark teal glass
    _Pane(
        seed=1,
        colours=((10, 18, 22), (78, 112, 120), (208, 232, 234)),
        crystals=420,
        length=(50, 420),
        from_edges=0.4,
        growth=Growth(38, 6, 0.42, 4, 0.3, 0.002),
        haze=(0.0, 0.75),
    ),
    # many small feathers on slate
    _Pane(
        seed=2,
        colours=((30, 38, 50), (118, 130, 144), (250, 252, 254)),
        crystals=2600,
        length=(16, 90),
        from_edges=0.0,
        growth=Growth(52, 4, 0.45, 3, 0.35, 0.006),
        haze=(0.05, 0.8),
        arms=2,
        lines=1.2,
    ),
    # white needles, nearly opaque
    _Pane(
        seed=3,
        colours=((132, 134, 142), (206, 210, 218), (252, 253, 254)),
        crystals=2200,
        length=(40, 260),
        from_edges=0.1,
        growth=Growth(13, 5, 0.5, 4, 0.3, 0.003),
        haze=(0.35, 0.6),
        body=0.8,
    ),
    # stars of six on grey
    _Pane(
        seed=4,
        colours=((60, 70, 80), (138, 153, 166), (244, 248, 252)),
        crystals=500,
        length=(12, 70),
        from_edges=0.0,
        growth=Growth(60, 4, 0.4, 3, 0.4, 0.002),
        haze=(0.3, 0.6),
        arms=6,
        grain=0.24,
        fill=9000,
    ),
    # sheets of blue ice
    _Pane(
        seed=5,
        colours=((14, 62, 98), (66, 148, 176), (204, 228, 230)),
        crystals=520,
        length=(60, 380),
        from_edges=0.3,
        growth=Growth(24, 7, 0.5, 5, 0.25, 0.006),
        haze=(0.1, 0.9),
        lines=0.6,
    ),
    # pale plumes that curl up from below
    _Pane(
        seed=6,
        colours=((166, 178, 194), (210, 218, 228), (252, 253, 254)),
        crystals=700,
        length=(40, 360),
        from_edges=0.6,
        growth=Growth(45, 5, 0.35, 3.5, 0.35, 0.012),
        haze=(0.0, 0.7),
    ),
)


@lru_cache(maxsize=1)
def procedural_textures() -> FrostTextures:
    """Return the six panes of frost that cosight draws itself, always the same. They are drawn once per process.

    Returns:
        The textures, 1000 x 700 pixels each.

    >>> [pane.shape for pane in procedural_textures().images][0]
    (700, 1000, 3)
    """
    return FrostTextures.of(tuple(map(_render_pane, _PANES)))


def _render_pane(pane: _Pane) -> Bytes:
    rng = np.random.default_rng(pane.seed)
    clouds = _draw_clouds(rng)
    ice = grow_crystals(_SHAPE, _draw_seeds(pane, clouds, rng), pane.growth, rng)
    body = cv2.GaussianBlur(ice, (0, 0), 2.5)
    surface = cv2.GaussianBlur(ice, (0, 0), 1.2)
    slopes = cv2.Sobel(surface, cv2.CV_32F, 1, 0) + cv2.Sobel(surface, cv2.CV_32F, 0, 1)
    relief = slopes * np.float32(0.35)  # light falls from the upper left
    minimum, variation = pane.haze
    thickness = minimum + variation * clouds + pane.lines * ice + pane.body * body + pane.relief * relief
    noise = rng.standard_normal(_SHAPE, dtype=np.float32)  # crystals too small to draw: noise of one pixel and of two
    grains = noise + 2 * cv2.GaussianBlur(noise[::-1], (0, 0), 1.2)
    thickness += pane.grain * grains * (0.35 + body)
    levels = np.linspace(0, 1, 256)  # colours are linear between bare glass, thin ice and thick ice
    ramp = np.array([np.interp(levels, (0, 0.5, 1), channel) for channel in zip(*pane.colours, strict=True)]).T
    pixels: Bytes = np.rint(ramp).astype(np.uint8)[np.clip(thickness / 2 * 255, 0, 255).astype(np.uint8)]
    return pixels


def _draw_clouds(rng: np.random.Generator) -> Floats:
    """Draw slow changes of thickness, in [0, 1]."""
    total = np.zeros(_SHAPE, dtype=np.float32)
    for cells in (3, 6, 12, 24, 48, 96):
        coarse = rng.random((cells, cells * 3 // 2), dtype=np.float32)
        total += cv2.resize(coarse, _SHAPE[::-1], interpolation=cv2.INTER_CUBIC) * np.float32(cells**-0.8)
    scaled: Floats = (total - total.min()) / (total.max() - total.min())
    return scaled


def _draw_seeds(pane: _Pane, clouds: Floats, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw rows for `grow_crystals`, the longest first: small crystals fill the space that large ones leave."""
    height, width = _SHAPE
    short, long = pane.length
    count = pane.crystals + pane.fill
    x, y, angle = rng.random((3, count)) * np.array([[width - 2], [height - 2], [2 * np.pi]])
    lengths = np.sort(short * (long / short) ** (rng.random(count) ** 2))[::-1]
    lengths[pane.crystals :] = rng.uniform(5, max(short / 2, 12), pane.fill)
    moved = np.flatnonzero(rng.random(pane.crystals) < pane.from_edges)  # to one of the four edges, pointing inwards
    edge = rng.integers(4, size=len(moved))
    x[moved] = np.choose(edge, [1, width - 3, x[moved], x[moved]])
    y[moved] = np.choose(edge, [y[moved], y[moved], 1, height - 3])
    angle[moved] = np.choose(edge, [0, np.pi, np.pi / 2, -np.pi / 2]) + rng.normal(0, 0.6, len(moved))
    brightness = rng.uniform(0.35, 0.75, count) + 0.4 * clouds[y.astype(int), x.astype(int)]
    brightness[pane.crystals :] *= 0.4
    rows = np.column_stack([x, y, angle, lengths, np.minimum(brightness, 1), np.arange(1, count + 1)])
    arms = np.repeat(rows, pane.arms, axis=0)
    arms[:, 2] += np.tile(np.arange(pane.arms) * 2 * np.pi / pane.arms, count)
    return arms


def grow_crystals(
    shape: tuple[int, int], seeds: NDArray[np.float64], growth: Growth, rng: np.random.Generator
) -> Floats:
    """Return the brightness of the lines of ice, in [0, 1].

    Args:
        shape: Height and width of the pane.
        seeds: Rows of (x, y, angle, length, brightness, crystal). Arms of one crystal have the same number, from 1, and
            do not block each other.
        growth: How crystals branch and curl.
        rng: Draws angles, lengths and spacings.
    """
    ice = np.zeros(shape, dtype=np.float32)
    owner = np.zeros(shape, dtype=np.int32)
    draws = rng.random(1 << 16)  # used again from the start when all are used
    radians = Growth(float(np.radians(growth.branch_angle)), *map(float, growth[1:]))
    _grow_all(ice, owner, seeds, radians, draws)
    return ice


@compiled()
def _grow_all(ice, owner, seeds, growth, draws):  # type: ignore[no-untyped-def]
    used = 0
    for i in range(len(seeds)):
        x, y, angle, length, brightness, crystal = seeds[i]
        curl = growth.curl * (2 * draws[used % draws.size] - 1)
        used = _grow_spine(ice, owner, int(crystal), x, y, angle, length, brightness, curl, growth, draws, used + 1)


@compiled()
def _grow_spine(ice, owner, crystal, x, y, angle, length, brightness, curl, growth, draws, used):  # type: ignore[no-untyped-def]
    """Draw a spine and, at each interval, a pair of branches, which are longest a third of the way up."""
    grown = _draw_line(ice, owner, crystal, x, y, angle, curl, length, brightness)
    along = growth.branch_spacing
    while along < grown:
        fraction = along / length
        longest = growth.branch_length * length * min(fraction * 3, 1.0) * (1 - fraction) ** 0.7
        bend = curl * along / 2
        from_x, from_y = x + along * np.cos(angle + bend), y + along * np.sin(angle + bend)
        for side in (-1, 1):
            draw = draws[used % draws.size]
            used += 1
            turn = angle + curl * along + side * growth.branch_angle * (0.9 + 0.2 * draw)
            branch = longest * (0.35 + 0.8 * draws[used % draws.size])
            used += 1
            dimmed = brightness * (0.35 + 0.65 * draw)
            used = _grow_branch(ice, owner, crystal, from_x, from_y, turn, branch, dimmed, growth, draws, used)
        along += growth.branch_spacing * (0.6 + 0.8 * draws[used % draws.size])
        used += 1
    return used


@compiled()
def _grow_branch(ice, owner, crystal, x, y, angle, length, brightness, growth, draws, used):  # type: ignore[no-untyped-def]
    grown = _draw_line(ice, owner, crystal, x, y, angle, 0.0, length, brightness)
    along = growth.barb_spacing
    while along < grown:
        from_x, from_y = x + along * np.cos(angle), y + along * np.sin(angle)
        for side in (-1, 1):
            barb = growth.barb_length * length * (1 - along / length) * (0.5 + draws[used % draws.size])
            turn = angle + side * growth.branch_angle
            _draw_line(ice, owner, crystal, from_x, from_y, turn, 0.0, barb, brightness * 0.7)
            used += 1
        along += growth.barb_spacing
    return used


@compiled()
def _draw_line(ice, owner, crystal, x, y, angle, curl, length, brightness):  # type: ignore[no-untyped-def]
    """Draw until the length is reached, the pane ends or another crystal is met; return the length drawn.

    Each point lights the four pixels around it, the nearer the more; a pixel keeps its brightest value.
    """
    height, width = ice.shape
    drawn = 0.0
    while drawn < length:
        column, row = int(x), int(y)
        if x < 0 or y < 0 or column >= width - 1 or row >= height - 1:
            break
        if owner[row, column] != 0 and owner[row, column] != crystal:
            break
        owner[row, column] = crystal
        light = brightness * (1 - _TAPER * drawn / length)
        across, down = x - column, y - row
        for dy in range(2):
            for dx in range(2):
                near = (across if dx else 1 - across) * (down if dy else 1 - down)
                value = np.float32(light * min(1.0, 2 * near))
                ice[row + dy, column + dx] = max(ice[row + dy, column + dx], value)
        x += _STRIDE * np.cos(angle)
        y += _STRIDE * np.sin(angle)
        angle += curl * _STRIDE
        drawn += _STRIDE
    return drawn
