"""Logits and features that a run stores with its trials: `features/OBSERVER.safetensors`, one row per stimulus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from cosight.errors import InvalidInput, first_line
from cosight.extras import require
from cosight.files import file_name

__all__ = ["arrays_file", "read_arrays"]


def arrays_file(run: Path, observer: str) -> Path:
    """Return the file of a finished observer's logits and features; it need not exist."""
    return run / "features" / f"{file_name(observer)}.safetensors"


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of an observer by name: logits, features, strangeness scores.

    Raises:
        InvalidInput: The file is not one of arrays.
        MissingExtra: safetensors is not installed.
    """
    require("safetensors", by="reading stored features")
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise InvalidInput(f"cannot read {path}: {first_line(error)}; remove it and run the model again") from error
