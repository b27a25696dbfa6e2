"""Phases scrambled, amplitudes made equal: the two halves of an image's Fourier transform."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.stimuli.images import Floats
from cosight.stimuli.kinds import declare
from cosight.stimuli.manipulations.conditions import CITATION, manipulations
from cosight.stimuli.manipulations.grey import grey_of, with_channels_of
from cosight.stimuli.manipulations.spectrum import Spectrum

__all__ = ["phase_scrambling", "power_equalisation"]

_DEGREES = (0, 30, 60, 90, 120, 150, 180)
# A frequency below this amplitude, per square root of the pixel count, is float32's rounding and has no phase of its
# own; that of 8-bit quantisation is a thousand times larger.
_SILENT = 1e-6


def _phase_factors(shape: tuple[int, ...], width: float, rng: np.random.Generator) -> NDArray[np.complex128]:
    """What the shifted spectrum is multiplied by, without the highest frequency of an even side: odd rows and columns.

    The released code subtracts the shifts of one half plane from the other in reading order, not mirrored, and takes
    the real part of the image. What remains is, at every frequency, the mean of two unit phasors of independent shifts.
    """
    rows, columns = (side - (side + 1) % 2 for side in shape)
    shifts = rng.uniform(-width, width, rows * columns // 2)
    turns = np.exp(1j * shifts)
    half = (turns + turns[::-1]) / 2
    return np.concatenate([half, [1], half[::-1].conj()]).reshape(rows, columns)


def _phase_settings(step: int) -> Mapping[str, Any]:
    return {"width_degrees": _DEGREES[step]}


@declare(
    manipulations,
    "phase-scrambling",
    steps=tuple(map(str, _DEGREES)),
    settings=_phase_settings,
    citation=CITATION,
)
def phase_scrambling(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Grey, phases shifted by draws from U(-width, width) degrees.

    As in the released code, and in the pictures made with it: an amplitude is multiplied by |cos((s - t) / 2)| of two
    such shifts, where the paper means it to be kept, and its phase moves by (s + t) / 2. The mean stays, and so does
    the row and the column of the highest frequency of an even side.
    """
    grey = grey_of(image)
    wave = np.fft.fftshift(scipy.fft.fft2(grey.astype(np.float64)))
    paired = wave[(grey.shape[0] + 1) % 2 :, (grey.shape[1] + 1) % 2 :]
    paired *= _phase_factors(grey.shape, np.deg2rad(_DEGREES[step]), rng)
    return with_channels_of(image, scipy.fft.ifft2(np.fft.ifftshift(wave)).real)


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
    """Grey, phases kept, amplitudes those of the mean spectrum (the mean grey too)."""
    grey = grey_of(image)
    if step == 0:
        return with_channels_of(image, grey)
    half = _fitting(spectrum, grey.shape).half()
    wave = scipy.fft.rfft2(grey.astype(np.float64))
    loud = np.abs(wave)
    heard = loud > _SILENT * np.sqrt(grey.size)
    phase = np.divide(wave, loud, out=np.ones_like(wave), where=heard)
    return with_channels_of(image, scipy.fft.irfft2(phase * half, s=grey.shape))


def _fitting(spectrum: Spectrum | None, shape: tuple[int, ...]) -> Spectrum:
    """The spectrum, if there is one of this size. A spectrum is not resampled: its high end would be invented."""
    if spectrum is None:
        way_out = "give mean_spectrum(images) of the set or read_spectrum(path)"
        raise InvalidInput(f"power-equalisation pow needs a mean spectrum, got None; {way_out}")
    if spectrum.amplitudes.shape != shape:
        height, width = spectrum.amplitudes.shape
        sizes = f"{shape[1]} x {shape[0]} and {width} x {height}"
        raise InvalidInput(f"image and spectrum must have one size, got {sizes}; resize the image, or make a spectrum")
    return spectrum
