"""Mean amplitude spectrum of a set of images: what power equalisation gives to each of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.stimuli.images import Image, as_floats, check_image
from cosight.stimuli.manipulations.grey import grey_of

__all__ = ["Spectrum", "mean_spectrum", "read_spectrum"]

_SLACK = 1e-6  # relative: spectra summed in another order, or kept as float32, are still spectra


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Amplitudes of grey images in [0, 1], the mean (frequency zero) in the centre, as `numpy.fft.fftshift` puts it.

    The layout is that of the published file (224 x 224), which carries "power" in its name but holds amplitudes.
    """

    amplitudes: NDArray[np.float64]  # (height, width), read-only

    def __post_init__(self) -> None:
        """Refuse what cannot be the amplitudes of images, keep a copy of the rest."""
        amplitudes = np.array(self.amplitudes, dtype=np.float64, order="C")
        _check(amplitudes)
        amplitudes.flags.writeable = False
        object.__setattr__(self, "amplitudes", amplitudes)

    def __repr__(self) -> str:
        """Size and the beginning of the digest."""
        return f"Spectrum({self.amplitudes.shape[1]} x {self.amplitudes.shape[0]}, {self.digest[:12]})"

    @property
    def digest(self) -> str:
        """Identity: sha256 of its size and numbers, in hexadecimal."""
        head = "x".join(map(str, self.amplitudes.shape)) + "\n"
        numbers = self.amplitudes.astype("<f8", copy=False)
        return hashlib.sha256(head.encode() + numbers.tobytes()).hexdigest()

    def half(self) -> NDArray[np.float64]:
        """The (height, width // 2 + 1) amplitudes that a real transform keeps, frequency zero first."""
        columns = self.amplitudes.shape[1] // 2 + 1
        return np.fft.ifftshift(self.amplitudes)[:, :columns]

    def save(self, path: Path) -> None:
        """Write a .npy file, whole or not at all; `read_spectrum` reads it."""
        with atomic_write(path) as draft, draft.open("wb") as file:
            np.save(file, self.amplitudes)


def mean_spectrum(images: Iterable[Image]) -> Spectrum:
    """Mean of the images' amplitude spectra, one image in memory at a time.

    The same images in another order give the same numbers up to rounding, so another digest: keep the order.
    """
    total: NDArray[np.float64] | None = None
    count = 0
    for count, image in enumerate(images, start=1):
        amplitudes = _amplitudes(image)
        if total is not None and total.shape != amplitudes.shape:
            sizes = f"{_size(amplitudes)} at image {count} after {_size(total)}"
            raise InvalidInput(f"images of one spectrum have one size, got {sizes}; resize or crop them first")
        total = amplitudes if total is None else np.add(total, amplitudes, out=total)
    if total is None:
        raise InvalidInput("a mean spectrum needs at least one image, got none; give a folder with images")
    return Spectrum(np.fft.fftshift(total / count))


def read_spectrum(path: Path) -> Spectrum:
    """A spectrum from a .npy file: saved by `Spectrum.save`, or the published mean_power_spectrum_grey.npy."""
    with path.open("rb") as file:
        try:
            numbers = np.lib.format.read_array(file, allow_pickle=False)
        except (ValueError, EOFError, MemoryError) as error:
            raise InvalidInput(f"a spectrum is a .npy file of numbers, {path} is not; make it anew") from error
    if not np.issubdtype(numbers.dtype, np.floating):
        raise InvalidInput(f"a spectrum holds floating-point amplitudes, {path} holds {numbers.dtype}; make it anew")
    try:
        return Spectrum(numbers)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def _amplitudes(image: Image) -> NDArray[np.float64]:
    grey = grey_of(as_floats(check_image(image)))
    return np.abs(scipy.fft.fft2(grey.astype(np.float64)))


def _check(amplitudes: NDArray[np.float64]) -> None:
    if amplitudes.ndim != 2 or amplitudes.size == 0:
        raise InvalidInput(f"a spectrum is (height, width), got shape {amplitudes.shape}; give that of grey images")
    if not (np.isfinite(amplitudes).all() and amplitudes.min() >= 0):
        raise InvalidInput("amplitudes are finite and not negative, got others; take the magnitudes of the transform")
    height, width = amplitudes.shape
    mean = amplitudes[height // 2, width // 2] / amplitudes.size
    # No frequency of an image without negative values has more amplitude than its mean.
    if amplitudes.max() > mean * amplitudes.size * (1 + _SLACK):
        raise InvalidInput("frequency zero is the largest and in the centre, got another; apply numpy.fft.fftshift")
    if mean > 1 + _SLACK:
        raise InvalidInput(f"amplitudes are those of grey values in [0, 1], got a mean of {mean:.3g}; divide by 255")
    mirrored = np.roll(amplitudes[::-1, ::-1], (1 - height % 2, 1 - width % 2), axis=(0, 1))
    if np.abs(amplitudes - mirrored).max() > _SLACK * amplitudes.max():
        raise InvalidInput("amplitudes of images are alike at f and -f, these are not; give the whole plane, shifted")


def _size(plane: NDArray[np.float64]) -> str:
    return f"{plane.shape[1]} x {plane.shape[0]}"
