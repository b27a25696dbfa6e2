"""Arguments that `compare` and `score` share: sources of trials, and numbers that are checked before the trials."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import polars as pl

from cosight.arrays import fraction, whole_number
from cosight.errors import InvalidInput
from cosight.trials.formats import read
from cosight.trials.table import Trials

__all__ = ["StoredRun", "TrialSource", "check_numbers", "trial_sources"]


class StoredRun(Protocol):
    """A finished run, as `evaluate` returns it."""

    @property
    def folder(self) -> Path:
        """The run's folder."""
        ...


TrialSource: TypeAlias = str | Path | Trials | StoredRun | pl.DataFrame


def trial_sources(sources: Iterable[TrialSource | Any]) -> list[str | Path | Trials]:
    """Return sources as paths and trials: the folder of a run, the trials of a DataFrame.

    Args:
        sources: Paths, samples (`sample:NAME`), trials, runs, and DataFrames of polars or pandas.

    >>> trial_sources(["sample:edges"])
    ['sample:edges']
    """
    return [_trial_source(source) for source in sources]


def _trial_source(source: Any) -> str | Path | Trials:
    if isinstance(source, str | Path | Trials):
        return source
    if isinstance(folder := getattr(source, "folder", None), Path):
        return folder
    return read(source)


def check_numbers(*, resamples: int, confidence: float, gamma: float, seed: int) -> None:
    """Raise for a number that is out of its range.

    Args:
        resamples: Number of bootstrap resamples, 1 or more.
        confidence: Confidence level of the intervals, between 0 and 1.
        gamma: Threshold of abstention, 0 to 1.
        seed: Seed, 0 or more.

    Raises:
        InvalidInput: The message has the range and the value.
    """
    if resamples < 1:
        raise InvalidInput(f"--resamples must be 1 or more, got {resamples}; 1000 is usual")
    fraction(confidence, name="--confidence", ends=False)
    fraction(gamma, name="--gamma")
    whole_number(seed, name="--seed")
