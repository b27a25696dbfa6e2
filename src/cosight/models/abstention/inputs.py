"""Checks that the abstention functions share: features, logits, members and labels of training images."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, IntArray, finite
from cosight.errors import InvalidInput

__all__ = ["checked_features", "checked_labels", "checked_logits", "checked_members", "class_count"]


def checked_features(features: ArrayLike | None, *, who: str, dimensions: int | None = None) -> FloatArray:
    """Features (n, dimensions) of `who`'s images, as float64."""
    if features is None:
        raise InvalidInput(f"{who} needs features, got none; load the model with features=True")
    table = finite(features, name="features", ndim=2)
    if table.shape[1] == 0 or dimensions not in (None, table.shape[1]):
        wanted = "at least one dimension" if dimensions is None else f"the {dimensions} dimensions it was fitted to"
        raise InvalidInput(f"{who} needs features with {wanted}, got shape {table.shape}; take them from one layer")
    return table


def checked_logits(logits: ArrayLike | None, *, who: str, classes: int | None = None) -> FloatArray:
    """Logits (n, classes) of `who`'s images, as float64."""
    if logits is None:
        raise InvalidInput(f"{who} needs logits, got none; take them from the model's answers")
    return _with_classes(finite(logits, name="logits", ndim=2), who, classes)


def checked_members(logits: ArrayLike | None, *, who: str) -> FloatArray:
    """Logits (members, n, classes) of several networks or passes, as float64."""
    if logits is None:
        raise InvalidInput(f"{who} needs logits of each member, got none; stack their answers")
    table = finite(logits, name="logits of members", ndim=3)
    if not len(table):
        raise InvalidInput(f"{who} needs one member or more, got none")
    return _with_classes(table, who, None)


def _with_classes(table: FloatArray, who: str, classes: int | None) -> FloatArray:
    if table.shape[-1] < 2 or classes not in (None, table.shape[-1]):
        wanted = "two classes or more" if classes is None else f"the {classes} classes it was fitted to"
        raise InvalidInput(f"{who} needs logits of {wanted}, got shape {table.shape}")
    return table


def class_count(logits: ArrayLike | None, labels: ArrayLike | None, *, who: str) -> int:
    """How many classes there are: as many as the logits have or, without logits, as the labels reach."""
    if logits is not None:
        return int(checked_logits(logits, who=who).shape[1])
    truth = np.asarray(labels)
    return int(truth.max(initial=0)) + 1 if np.issubdtype(truth.dtype, np.integer) else 0


def checked_labels(labels: ArrayLike | None, *, rows: int, classes: int, who: str, least: int) -> IntArray:
    """The training images' classes, 0 to `classes` - 1, one a row, each on `least` rows or more."""
    if labels is None:
        raise InvalidInput(f"{who} needs the labels of its training images, got none")
    truth = np.asarray(labels)
    if truth.shape != (rows,) or not np.issubdtype(truth.dtype, np.integer):
        raise InvalidInput(f"{who} needs {rows} whole numbers as labels, got {truth.dtype} of shape {truth.shape}")
    if truth.size == 0 or truth.min() < 0 or truth.max() >= classes:
        got = f"{truth.min()} to {truth.max()}" if truth.size else "none"
        raise InvalidInput(f"labels of {who} must be classes, 0 to {classes - 1}, got {got}")
    counts = np.bincount(truth.astype(np.int64), minlength=classes)
    if counts.min() < least:
        few = int(counts.argmin())
        raise InvalidInput(
            f"{who} needs {least} training images or more of every class, got {counts[few]} of class {few}; "
            "add some or leave the class out"
        )
    return truth.astype(np.int64)
