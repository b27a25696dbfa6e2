"""`cosight demo people`: the people and networks of a sample that ships with the package, compared in seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cosight.files import atomic_write
from cosight.scoring.compare import compare
from cosight.statistics.rows import Scores
from cosight.trials.samples import samples

__all__ = ["PEOPLE_FILE", "SAMPLE", "demo_people"]

SAMPLE = samples["cue-conflict"]
PEOPLE_FILE = "people.json"  # every score row
_MEASURES = ("accuracy", "error_consistency")


def demo_people(folder: Path, *, seed: int, resamples: int, progress: Callable[[int, int, str], None] | None) -> Scores:
    """Compare the networks of a sample with its people, and write every number as JSON.

    Args:
        folder: Output folder.
        seed: Seed of everything random.
        resamples: Bootstrap resamples.
        progress: Called with groups done, groups in all, and the group's name.
    """
    scores = compare(SAMPLE.reference, measure=_MEASURES, resamples=resamples, seed=seed, progress=progress)
    with atomic_write(folder / PEOPLE_FILE) as draft:
        draft.write_text(scores.to_json(), encoding="utf-8")
    return scores
