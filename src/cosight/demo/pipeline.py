"""`cosight demo`: the whole job on embedded data, offline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from cosight.benchmarks.digits.digits_builder import build_digits
from cosight.benchmarks.visalign.categories import Counts, write_category_sheet
from cosight.demo.report import STRANGE, SURE, write_demo_page
from cosight.demo.train_and_evaluate import ARCHITECTURES, Networks, trained_and_asked
from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.humans.simulated.panel import Panel, simulated_trials
from cosight.processes import core_count
from cosight.scoring.compare import compare
from cosight.scoring.score import score
from cosight.statistics.rows import Scores
from cosight.statistics.score_forms import ABSTENTION
from cosight.stimuli.sets import StimulusSet
from cosight.trials import Trials, read, write
from cosight.trials.spaces import ABSTAIN
from cosight.trials.table import concat

__all__ = ["Demo", "Size", "demo"]

Progress = Callable[[int, int, str], None]
STIMULI = "digits"  # the folder of the stimulus set


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done; smaller is quicker."""

    images: int = 30  # a category, in each of the splits test and calibration; twice as many Uncertain ones
    train: int = 600
    architectures: tuple[str, ...] = tuple(ARCHITECTURES)
    seeds: tuple[int, ...] = (45, 46, 47, 48, 49)
    epochs: int | None = None  # None: each architecture's own
    persons: int = 10  # of the simulated panel, whose errors the networks' are compared with
    resamples: int = 1000

    @property
    def counts(self) -> Counts:
        """How many images of each category."""
        return Counts.scaled(self.images, train=self.train, distractors=self.images)


@dataclass(frozen=True, slots=True)
class Demo:
    """What came out, and where it is."""

    folder: Path
    benchmark: Scores  # VisAlign's table on digits
    abstention: Scores  # mean abstention of clean digits and of letters
    comparison: Scores  # errors of a network of each architecture, and of the simulated panel
    page: Path


_WHOLE = Size()


def demo(
    out: str | Path = "demo-run",
    *,
    seed: int = 0,
    size: Size = _WHOLE,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Demo:
    """Build the digits benchmark, train small networks, ask, score and compare them, and write a page about it.

    All of it goes to the folder `out`; a demo that was interrupted goes on where it ended. In a script of one's own it
    stands below `if __name__ == "__main__":`, because networks are trained in `processes` of their own (by default as
    many as there are cores).
    """
    folder = Path(out)
    _check(folder)
    made = build_digits(folder / STIMULI, counts=size.counts, seed=seed, progress=progress).generated.stimuli
    networks = Networks(folder / STIMULI, folder, size.architectures, size.seeds, size.epochs)
    runs = trained_and_asked(networks, processes=processes or core_count(), progress=progress)
    found = _scored(folder, made, runs, size, seed, progress)
    write_category_sheet(made, folder / "report" / "categories.png", side=48)
    write_demo_page(folder / "report", found.benchmark, found.abstention, found.comparison)
    return found


def _check(folder: Path) -> None:
    """A new or empty folder, or one that a demo began."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / STIMULI).is_dir():
        raise InvalidInput(f"--out must be a new or empty folder, or an unfinished demo, got {folder}; choose another")


def _scored(
    folder: Path, stimuli: StimulusSet, runs: Sequence[Path], size: Size, seed: int, progress: Progress | None
) -> Demo:
    """Every number, kept as JSON beside the trials that the comparison is about."""
    how: dict[str, Any] = {"resamples": size.resamples, "seed": seed, "progress": progress}
    benchmark = score(*runs, on="digits", **how)
    told_apart = _only(
        read(*runs), stimuli, pl.col("condition").is_in([SURE, STRANGE]) & pl.col("category").is_not_null()
    )
    abstention = score(told_apart, measure=[ABSTENTION], by=["condition"], **how)
    write(_answers(stimuli, runs, size, seed), folder / "trials.parquet")
    comparison = compare(folder / "trials.parquet", **how)
    for name, scores in (("benchmark", benchmark), ("abstention", abstention), ("comparison", comparison)):
        with atomic_write(folder / f"{name}.json") as draft:
            draft.write_text(scores.to_json(), encoding="utf-8")
    return Demo(folder, benchmark, abstention, comparison, folder / "report" / "index.html")


def _answers(stimuli: StimulusSet, runs: Sequence[Path], size: Size, seed: int) -> Trials:
    """Answers of one network of each architecture and of some of the panel to the images that show a digit."""
    tested = replace(stimuli, frame=stimuli.frame.filter(pl.col("split") == "test"))
    people = simulated_trials(tested, Panel(seed=seed), persons=size.persons)
    first = [f"cosight:{architecture}@{size.seeds[0]}" for architecture in size.architectures]
    networks = [read(run).only(name) for run, name in zip(runs, first, strict=True)]
    return _only(concat([people, *networks]), stimuli, pl.col("truth") != ABSTAIN)


def _only(trials: Trials, stimuli: StimulusSet, which: pl.Expr) -> Trials:
    """The trials on some of the stimuli."""
    return replace(trials, frame=trials.frame.join(stimuli.frame.filter(which), on="stimulus", how="semi"))
