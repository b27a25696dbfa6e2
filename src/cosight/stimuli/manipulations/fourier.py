"""Manipulations of an image's Fourier transform: phases scrambled, amplitudes replaced by a mean spectrum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.stimuli.images import Floats, Image, as_floats, check_image
from cosight.stimuli.kinds import declare, settings_from
from cosight.stimuli.manipulations.conditions import CITATION, manipulations, restore_channels, to_grey

__all__ = ["Spectrum", "mean_spectrum", "phase_scrambling", "power_equalisation", "read_spectrum"]

_DEGREES = (0, 30, 60, 90, 120, 150, 180)
_TOLERANCE = 1e-6  # relative: spectra summed in another order, or stored as float32, are still spectra
# A frequency below this amplitude, per square root of the pixel count, is float32's rounding error and has no phase;
# that of 8-bit quantisation is a thousand times larger.
_MIN_AMPLITUDE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Amplitudes of grey images in [0, 1], with the mean (frequency zero) in the centre, as after `numpy.fft.fftshift`.

    The layout is that of the published file (224 x 224), which has "power" in its name but contains amplitudes.
    """

    amplitudes: NDArray[np.float64]  # (height, width), read-only

    def __post_init__(self) -> None:
        """Check that these can be the amplitudes of images, and store a copy."""
        amplitudes = np.array(self.amplitudes, dtype=np.float64, order="C")
        _check_amplitudes(amplitudes)
        amplitudes.flags.writeable = False
        object.__setattr__(self, "amplitudes", amplitudes)

    def __repr__(self) -> str:
        """Return the size and the beginning of the digest."""
        return f"Spectrum({_size(self.amplitudes)}, {self.digest[:12]})"

    @property
    def digest(self) -> str:
        """Identity: sha256 of its size and numbers, in hexadecimal."""
        head = "x".join(map(str, self.amplitudes.shape)) + "\n"
        numbers = self.amplitudes.astype("<f8", copy=False)
        return hashlib.sha256(head.encode() + numbers.tobytes()).hexdigest()

    def half(self) -> NDArray[np.float64]:
        """Return the (height, width // 2 + 1) amplitudes of a real transform, frequency zero first."""
        columns = self.amplitudes.shape[1] // 2 + 1
        return np.fft.ifftshift(self.amplitudes)[:, :columns]

    def save(self, path: Path) -> None:
        """Write a .npy file atomically; `read_spectrum` reads it."""
        with atomic_write(path) as draft, draft.open("wb") as file:
            np.save(file, self.amplitudes)


def _check_amplitudes(amplitudes: NDArray[np.float64]) -> None:
    if amplitudes.ndim != 2 or amplitudes.size == 0:
        raise InvalidInput(f"a spectrum is (height, width), got shape {amplitudes.shape}; give that of grey images")
    if not (np.isfinite(amplitudes).all() and amplitudes.min() >= 0):
        raise InvalidInput("amplitudes are finite and not negative, got others; take the magnitudes of the transform")
    height, width = amplitudes.shape
    mean = amplitudes[height // 2, width // 2] / amplitudes.size
    # No frequency of an image without negative values has more amplitude than its mean.
    if amplitudes.max() > mean * amplitudes.size * (1 + _TOLERANCE):
        raise InvalidInput("frequency zero is the largest and in the centre, got another; apply numpy.fft.fftshift")
    if mean > 1 + _TOLERANCE:
        raise InvalidInput(f"amplitudes are those of grey values in [0, 1], got a mean of {mean:.3g}; divide by 255")
    mirrored = np.roll(amplitudes[::-1, ::-1], (1 - height % 2, 1 - width % 2), axis=(0, 1))
    if np.abs(amplitudes - mirrored).max() > _TOLERANCE * amplitudes.max():
        raise InvalidInput("amplitudes of images are equal at f and -f, these are not; give the full plane, shifted")


def _size(plane: NDArray[np.float64]) -> str:
    return f"{plane.shape[1]} x {plane.shape[0]}"


def mean_spectrum(images: Iterable[Image]) -> Spectrum:
    """Compute the mean of the images' amplitude spectra, with one image in memory at a time.

    Args:
        images: Images of one size. Another order changes the numbers by rounding errors, and so the digest.

    Returns:
        The mean spectrum.

    Raises:
        InvalidInput: If there are no images, or if they differ in size.

    >>> mean_spectrum([np.full((32, 32), 0.5)])
    Spectrum(32 x 32, 6870d015f6e5)
    """
    total: NDArray[np.float64] | None = None
    count = 0
    for count, image in enumerate(images, start=1):
        grey = to_grey(as_floats(check_image(image)))
        amplitudes = np.abs(scipy.fft.fft2(grey.astype(np.float64)))
        if total is not None and total.shape != amplitudes.shape:
            sizes = f"{_size(amplitudes)} at image {count} after {_size(total)}"
            raise InvalidInput(f"images of one spectrum have one size, got {sizes}; resize or crop them first")
        total = amplitudes if total is None else np.add(total, amplitudes, out=total)
    if total is None:
        raise InvalidInput("a mean spectrum needs at least one image, got none; give a folder with images")
    return Spectrum(np.fft.fftshift(total / count))


def read_spectrum(path: Path) -> Spectrum:
    """Read a spectrum from a .npy file.

    Args:
        path: Written by `Spectrum.save`, or the published mean_power_spectrum_grey.npy.

    Returns:
        The spectrum.

    Raises:
        InvalidInput: If the file is not an array of amplitudes.

    >>> mean_spectrum([np.full((32, 32), 0.5)]).save(Path("mean.npy"))
    >>> read_spectrum(Path("mean.npy"))
    Spectrum(32 x 32, 6870d015f6e5)
    """
    with path.open("rb") as file:
        try:
            numbers = np.lib.format.read_array(file, allow_pickle=False)
        except (ValueError, EOFError, MemoryError) as error:
            raise InvalidInput(f"a spectrum is a .npy file of numbers, {path} is not; compute it again") from error
    if not np.issubdtype(numbers.dtype, np.floating):
        raise InvalidInput(f"a spectrum has floating-point amplitudes, {path} has {numbers.dtype}; compute it again")
    try:
        return Spectrum(numbers)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


@declare(
    manipulations,
    "phase-scrambling",
    steps=tuple(map(str, _DEGREES)),
    settings=settings_from("width_degrees", _DEGREES),
    citation=CITATION,
)
def phase_scrambling(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Grey, phases shifted by draws from U(-width, width) degrees.

    As in the released code, and in the pictures made with it: an amplitude is multiplied by |cos((s - t) / 2)| of two
    such shifts, where the paper intends to keep it, and its phase moves by (s + t) / 2. The mean does not change, nor
    do the row and the column of the highest frequency of an even side. The reason: the released code subtracts the
    shifts of one half plane from the other in reading order, not mirrored, and takes the real part of the image. The
    result is, at every frequency, the mean of two unit phasors with independent shifts.
    """
    grey = to_grey(image)
    wave = np.fft.fftshift(scipy.fft.fft2(grey.astype(np.float64)))
    paired = wave[(grey.shape[0] + 1) % 2 :, (grey.shape[1] + 1) % 2 :]  # without the highest frequency of an even side
    width = np.deg2rad(_DEGREES[step])
    phasors = np.exp(1j * rng.uniform(-width, width, paired.size // 2))
    half = (phasors + phasors[::-1]) / 2
    paired *= np.concatenate([half, [1], half[::-1].conj()]).reshape(paired.shape)
    return restore_channels(scipy.fft.ifft2(np.fft.ifftshift(wave)).real, image)


def _power_settings(step: int, spectrum: Spectrum | None = None) -> Mapping[str, Any]:
    return {"equalised": step == 1, "spectrum": spectrum.digest if step and spectrum else None}


@declare(
    manipulations,
    "power-equalisation",
    steps=("0", "pow"),
    settings=_power_settings,
    citation=CITATION,
    random=False,
    options=frozenset({"spectrum"}),
)
def power_equalisation(image: Floats, step: int, _rng: None, *, spectrum: Spectrum | None = None) -> Floats:
    """Grey, with its own phases and the amplitudes of the mean spectrum (the mean grey too).

    A spectrum is not resampled to the image's size: its high frequencies would be invented.
    """
    grey = to_grey(image)
    if step == 0:
        return restore_channels(grey, image)
    if spectrum is None:
        solution = "give mean_spectrum(images) of the set or read_spectrum(path)"
        raise InvalidInput(f"power-equalisation pow needs a mean spectrum, got None; {solution}")
    if spectrum.amplitudes.shape != grey.shape:
        sizes = f"{grey.shape[1]} x {grey.shape[0]} and {_size(spectrum.amplitudes)}"
        raise InvalidInput(f"image and spectrum must have one size, got {sizes}; resize the image, or make a spectrum")
    wave = scipy.fft.rfft2(grey.astype(np.float64))
    amplitudes = np.abs(wave)
    has_phase = amplitudes > _MIN_AMPLITUDE * np.sqrt(grey.size)
    phases = np.divide(wave, amplitudes, out=np.ones_like(wave), where=has_phase)
    return restore_channels(scipy.fft.irfft2(phases * spectrum.half(), s=grey.shape), image)
