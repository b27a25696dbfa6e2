"""Folders of the demo, and how large its digits part is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ARCHITECTURES", "REPORT", "STIMULI", "Size"]

STIMULI, REPORT = "digits", "report"  # folders of the stimulus set and of the report

# The five architectures of Lee et al. 2023, small; the slowest first, so that the processes end together. Rates and
# epochs were tuned on handwritten digits (docs/guides/training.md).
ARCHITECTURES: Mapping[str, Mapping[str, Any]] = {
    "swin-small": {"rate": 2e-3, "epochs": 8},
    "densenet-small": {"rate": 2e-3, "epochs": 8},
    "convnext-small": {"rate": 2e-3, "epochs": 8},
    "vit-small": {"rate": 1e-3, "epochs": 10},
    "mixer-small": {"rate": 2e-3, "epochs": 8},
}


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the demo.

    Attributes:
        images: Images per category in each of the splits test and calibration; twice as many Uncertain ones.
        train: Training images.
        architectures: Architectures to train.
        seeds: Seeds per architecture.
        epochs: Epochs; None for each architecture's own number.
        persons: Persons of the simulated panel that the networks' errors are compared with.
        resamples: Bootstrap resamples.
    """

    images: int = 30
    train: int = 600
    architectures: tuple[str, ...] = tuple(ARCHITECTURES)
    seeds: tuple[int, ...] = (45, 46, 47, 48, 49)
    epochs: int | None = None
    persons: int = 10
    resamples: int = 1000
