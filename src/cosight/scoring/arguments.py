"""Arguments that `compare` and `score` share: sources of trials, and numbers that are checked before the trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from cosight.arrays import fraction, whole_number
from cosight.errors import InvalidInput
from cosight.registry import split_names
from cosight.trials.formats import TrialSource

__all__ = ["ScoreSource", "StoredRun", "check_numbers", "grouping_of", "trial_sources"]


class StoredRun(Protocol):
    """A finished run, as `evaluate` returns it."""

    @property
    def folder(self) -> Path:
        """The run's folder."""
        ...


ScoreSource: TypeAlias = TrialSource | StoredRun


def trial_sources(sources: Iterable[ScoreSource]) -> list[TrialSource]:
    """Return sources as `read` takes them: a run is its folder.

    Args:
        sources: Paths, samples (`sample:NAME`), trials, DataFrames and runs.

    >>> trial_sources(["sample:edges"])
    ['sample:edges']
    """
    paths: list[TrialSource] = []
    for source in sources:
        folder = getattr(source, "folder", None)
        paths.append(folder if isinstance(folder, Path) else source)  # type: ignore[arg-type]
    return paths


def grouping_of(by: str | Sequence[str] | None, default: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the columns to group by; `none` pools all trials, also where a preset groups them.

    Args:
        by: Columns, or one comma-separated text.
        default: Columns if none are given.

    >>> grouping_of("experiment,condition"), grouping_of("none", ["experiment"]), grouping_of(None, ["experiment"])
    (('experiment', 'condition'), (), ('experiment',))
    """
    names = default if by is None else split_names(by) or ()
    return () if list(names) == ["none"] else tuple(names)


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
