"""Renditions: photos redrawn as line drawings, silhouettes, cartoons, stipples, posters and embroidery.

They stand in for VisAlign's category 7, the classes in other styles than photos (Lee et al. 2023, section 3.2), where
no collection of drawings is at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cosight.errors import InvalidInput, did_you_mean
from cosight.stimuli.composition.masks import Mask, check_mask
from cosight.stimuli.images import Bytes, Floats, Image, as_bytes, check_image, to_rgb

__all__ = ["NEEDS_MASK", "RENDITIONS", "render"]

_WORK_SIDE = 512  # shorter side while rendering, so that strokes have the same size on every photo
_INK = (25, 25, 35)
_CELL = 4  # pixels: at most one dot of a stipple in each
_BELOW = np.array([3, 5, 1]) / 16  # of the error that goes to the next row


def render(image: Image, style: str, *, rng: np.random.Generator, mask: Image | None = None) -> Bytes:
    """Redraw a photo in another style.

    Args:
        image: The photo.
        style: One of `RENDITIONS`.
        rng: Generator of dots, stitches and colours.
        mask: Mask of the object. With one, the object is drawn without its surroundings; a silhouette needs one.

    Returns:
        RGB pixels of the photo's size.

    Raises:
        InvalidInput: There is no such style, or a silhouette has no mask.

    >>> photo = np.full((64, 64, 3), 200, np.uint8)
    >>> render(photo, "poster", rng=np.random.default_rng(0)).shape
    (64, 64, 3)
    """
    if style not in RENDITIONS:
        raise InvalidInput(f"no rendition is called {style!r}; {did_you_mean(style, RENDITIONS)}")
    if mask is None and style in NEEDS_MASK:
        raise InvalidInput(f"a {style} needs the mask of its object, got None; see foreground_mask")
    pixels = to_rgb(as_bytes(check_image(image)))
    height, width = pixels.shape[:2]
    inside: Mask = np.ones((height, width), bool) if mask is None else check_mask(mask, pixels.shape)
    scale = _WORK_SIDE / min(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    work = np.asarray(cv2.resize(pixels, size, interpolation=method), np.uint8)
    area = np.asarray(cv2.resize(inside.astype(np.float32), size) > 0.5)
    drawn = RENDITIONS[style](work, area, rng)
    return np.asarray(
        cv2.resize(drawn, (width, height), interpolation=cv2.INTER_AREA if scale > 1 else cv2.INTER_CUBIC)
    )


def _line_drawing(pixels: Bytes, mask: Mask, rng: np.random.Generator) -> Bytes:
    """Draw dark lines where a smoothed photo has edges (difference of Gaussians), on paper."""
    grey = cv2.cvtColor(_smooth(pixels, 2), cv2.COLOR_RGB2GRAY).astype(np.float32)
    fine, coarse = (cv2.GaussianBlur(grey, (0, 0), sd) for sd in (1.4, 2.6))
    response = fine - 0.98 * coarse - 0.02 * 128  # below 0 on the dark side of an edge
    lines = np.clip(-response / 6, 0, 1) ** 0.8
    lines[~mask] = 0
    lines = np.maximum(lines, _outline(mask, 2))
    return _ink_on_paper(lines, rng)


def _silhouette(pixels: Bytes, mask: Mask, rng: np.random.Generator) -> Bytes:
    """Fill the outline of the object with ink, in the middle of the paper."""
    x, y, width, height = cv2.boundingRect(mask.astype(np.uint8))
    scale = 0.7 * min(mask.shape) / max(width, height)
    middle = np.array(mask.shape[::-1]) / 2
    shift = middle - scale * np.array([x + width / 2, y + height / 2])
    matrix = np.column_stack([scale * np.eye(2), shift])
    moved = cv2.warpAffine(mask.astype(np.float32), matrix, mask.shape[::-1], flags=cv2.INTER_LINEAR)
    return _ink_on_paper(cv2.GaussianBlur(moved, (0, 0), 1.0), rng)


def _cartoon(pixels: Bytes, mask: Mask, rng: np.random.Generator) -> Bytes:
    """Fill flat, lively colours, with black contours around them."""
    flat = _quantise(_smooth(pixels, 4), 10)
    colour = cv2.cvtColor(flat, cv2.COLOR_RGB2HSV).astype(np.float32)
    colour[:, :, 1] = np.clip(colour[:, :, 1] * 1.5 + 12, 0, 255)
    colour[:, :, 2] = np.clip(colour[:, :, 2] * 1.1 + 10, 0, 255)
    picture = cv2.cvtColor(colour.astype(np.uint8), cv2.COLOR_HSV2RGB).astype(np.float32)
    grey = cv2.cvtColor(_smooth(pixels, 3), cv2.COLOR_RGB2GRAY)
    thin = cv2.Canny(grey, 45, 110).astype(np.float32) / 255
    lines = np.maximum(cv2.dilate(thin, np.ones((3, 3), np.uint8)), _outline(mask, 3))
    edges = np.asarray(cv2.GaussianBlur(lines, (0, 0), 0.8))[:, :, None]
    return _on_paper(picture * (1 - edges), mask | (edges[:, :, 0] > 0.3), rng)


def _stipple(pixels: Bytes, mask: Mask, rng: np.random.Generator) -> Bytes:
    """Draw ink dots, the denser the darker the photo: its tones as Floyd and Steinberg (1976) spread them, jittered."""
    grey = cv2.createCLAHE(2.0, (4, 4)).apply(cv2.cvtColor(_smooth(pixels, 2), cv2.COLOR_RGB2GRAY))
    low, high = np.percentile(grey[mask] if mask.any() else grey, (2, 98))
    dark = np.clip((high - grey.astype(np.float32)) / max(high - low, 1), 0, 1) ** 1.3
    dark[~mask] = 0
    height, width = dark.shape
    rows, columns = -(-height // _CELL), -(-width // _CELL)
    tone = np.pad(cv2.resize(dark, (columns, rows), interpolation=cv2.INTER_AREA).astype(np.float64), ((0, 1), (1, 1)))
    jitter = rng.uniform(-0.6, 0.6, (rows, columns, 2))
    dots = np.zeros((height, width), np.float32)
    for row in range(rows):
        for column in range(1, columns + 1):
            value = tone[row, column]
            error = value - (value > 0.5)
            tone[row, column + 1] += error * 7 / 16
            tone[row + 1, column - 1 : column + 2] += error * _BELOW
            if value > 0.5:
                y = (row + 0.5) * _CELL + jitter[row, column - 1, 0]
                x = (column - 0.5) * _CELL + jitter[row, column - 1, 1]
                cv2.circle(dots, (round(16 * x), round(16 * y)), round(16 * 0.62 * _CELL), 1.0, -1, cv2.LINE_AA, 4)
    return _ink_on_paper(np.clip(dots, 0, 1), rng)


def _poster(pixels: Bytes, mask: Mask, rng: np.random.Generator) -> Bytes:
    """Print the tones of the photo in four flat inks of a drawn hue, on a ground of the opposite hue."""
    grey = cv2.cvtColor(_smooth(pixels, 3), cv2.COLOR_RGB2GRAY)
    inside = grey[mask] if mask.any() else grey.ravel()
    steps = np.digitize(grey, np.quantile(inside, (0.25, 0.5, 0.75)))
    hue = int(rng.integers(0, 180))
    inks = [(hue, 230, 50), (hue, 240, 140), ((hue + 15) % 180, 200, 215), ((hue + 30) % 180, 90, 250)]
    ground = ((hue + 90) % 180, 110, 240)
    colours = cv2.cvtColor(np.array([[*inks, ground]], np.uint8), cv2.COLOR_HSV2RGB)[0]
    return np.asarray(colours[np.where(mask, steps, len(inks))])


def _embroidery(pixels: Bytes, mask: Mask, rng: np.random.Generator) -> Bytes:
    """Lay short stitches of thread on linen, along the structure of the photo."""
    flat = _quantise(_smooth(pixels, 3), 14)
    grey = cv2.GaussianBlur(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), (0, 0), 4).astype(np.float32)
    angle = np.arctan2(cv2.Sobel(grey, cv2.CV_32F, 0, 1), cv2.Sobel(grey, cv2.CV_32F, 1, 0)) + np.pi / 2
    height, width = mask.shape
    weave = 8 * np.sin(np.arange(width) * np.pi / 2)[None, :] + 8 * np.sin(np.arange(height) * np.pi / 2)[:, None]
    cloth = np.repeat((weave + rng.normal(0, 5, mask.shape))[:, :, None], 3, axis=2) + np.array((226, 217, 198))
    picture: Bytes = np.clip(cloth, 0, 255).astype(np.uint8)
    step, reach = 5, 7.0
    ys, xs = (part.ravel() for part in np.mgrid[step // 2 : height : step, step // 2 : width : step])
    order = rng.permutation(len(ys))
    shades = rng.uniform(-26, 26, len(ys))
    for index in order[mask[ys[order], xs[order]]]:
        y, x = int(ys[index]), int(xs[index])
        turn = float(angle[y, x])
        dx, dy = reach * np.cos(turn), reach * np.sin(turn)
        start, end = ((round(16 * (x + sign * dx)), round(16 * (y + sign * dy))) for sign in (-1, 1))
        colour = np.clip(flat[y, x].astype(np.float64) + shades[index], 0, 255)
        cv2.line(picture, start, end, (0.55 * colour).tolist(), 5, cv2.LINE_AA, 4)
        cv2.line(picture, start, end, colour.tolist(), 3, cv2.LINE_AA, 4)
    return picture


RENDITIONS: dict[str, Callable[[Bytes, Mask, np.random.Generator], Bytes]] = {
    "line drawing": _line_drawing,
    "silhouette": _silhouette,
    "cartoon": _cartoon,
    "stipple": _stipple,
    "poster": _poster,
    "embroidery": _embroidery,
}
"""Functions of (RGB pixels, mask, generator) by the name of the style."""
NEEDS_MASK = ("silhouette",)
"""Styles that show nothing without the mask of the object."""


def _smooth(pixels: Bytes, rounds: int) -> Bytes:
    """Remove texture and keep edges."""
    for _ in range(rounds):
        pixels = np.asarray(cv2.bilateralFilter(pixels, 9, 40, 7))
    return pixels


def _quantise(pixels: Bytes, colours: int) -> Bytes:
    """Reduce a photo to a few colours (k-means in Lab on a small copy; the same photo gives the same colours)."""
    lab = cv2.cvtColor(pixels, cv2.COLOR_RGB2LAB)
    sample = cv2.resize(lab, (96, 96), interpolation=cv2.INTER_AREA).reshape(-1, 3).astype(np.float32)
    cv2.setRNGSeed(0)  # k-means draws from OpenCV's own generator
    criteria = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 20, 0.5)
    _, _, centres = cv2.kmeans(sample, colours, None, criteria, 2, cv2.KMEANS_PP_CENTERS)  # type: ignore[call-overload]
    distances = np.stack([((lab.astype(np.float32) - centre) ** 2).sum(axis=2) for centre in centres])
    nearest = np.asarray(np.clip(np.rint(centres), 0, 255), np.uint8)[distances.argmin(axis=0)]
    return np.asarray(cv2.cvtColor(nearest, cv2.COLOR_LAB2RGB))


def _outline(mask: Mask, width: int) -> Floats:
    """Return the outline of a mask; where the mask ends with the picture there is none."""
    inside = mask.astype(np.uint8)
    edge = cv2.morphologyEx(inside, cv2.MORPH_GRADIENT, np.ones((width, width), np.uint8))
    return np.asarray(edge, np.float32)


def _paper(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    grain = cv2.GaussianBlur(rng.normal(0, 6, shape[:2]), (0, 0), 1.0)[:, :, None]
    return np.asarray(np.array((247, 244, 236)) + grain, np.float32)


def _on_paper(picture: NDArray[Any], where: Mask, rng: np.random.Generator) -> Bytes:
    paper = _paper(picture.shape, rng)
    return np.clip(np.rint(np.where(where[:, :, None], picture, paper)), 0, 255).astype(np.uint8)


def _ink_on_paper(ink: NDArray[Any], rng: np.random.Generator) -> Bytes:
    paper = _paper(ink.shape, rng)
    drawn = np.asarray(paper + ink[:, :, None] * (np.array(_INK, np.float32) - paper), np.float32)
    return np.clip(np.rint(drawn), 0, 255).astype(np.uint8)
