"""`cosight demo digits`: build the digits benchmark, train and evaluate networks in processes, score them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from cosight.benchmarks.digits.digits_builder import build_digits
from cosight.benchmarks.visalign.categories import Counts
from cosight.benchmarks.visalign.results_table import FUNCTIONS
from cosight.demos.report import CLEAN, LETTER
from cosight.demos.size import ARCHITECTURES, STIMULI, Size
from cosight.files import atomic_write
from cosight.humans.simulated.panel import Panel, simulated_trials
from cosight.models.model_spec import ensemble_of
from cosight.processes import core_count, worker_pool
from cosight.runs.evaluate import evaluate
from cosight.scoring.compare import compare
from cosight.scoring.score import score
from cosight.statistics.rows import Scores
from cosight.statistics.score_forms import ABSTENTION
from cosight.stimuli.sets import StimulusSet
from cosight.training import Recipe, train
from cosight.trials import Trials, read, write
from cosight.trials.spaces import ABSTAIN
from cosight.trials.table import concat

__all__ = ["DigitsResult", "demo_digits"]

Progress = Callable[[int, int, str], None]
_BATCH = 128  # images of 32 x 32: for such small networks a call costs more than its arithmetic


@dataclass(frozen=True, slots=True)
class DigitsResult:
    """Scores of the networks on the digits benchmark.

    Attributes:
        benchmark: VisAlign's table on digits.
        abstention: Mean abstention of clean digits and of letters.
        comparison: Errors of one network per architecture and of the simulated panel.
        answers: What these answered to all test images.
    """

    benchmark: Scores
    abstention: Scores
    comparison: Scores
    answers: Trials


def demo_digits(
    folder: Path, *, seed: int, size: Size, processes: int | None, progress: Progress | None
) -> DigitsResult:
    """Build the digits benchmark, train, evaluate, score and compare small networks.

    Args:
        folder: Output folder. An unfinished demo there is resumed.
        seed: Seed of everything random.
        size: Size of the demo.
        processes: Number of worker processes (default: one per core). Does not change the output.
        progress: Called with steps done, steps in all, and a description.
    """
    counts = Counts.scaled(size.images, train=size.train, distractors=size.images)
    stimuli = build_digits(folder / STIMULI, counts=counts, seed=seed, progress=progress).generated.stimuli
    total = len(size.architectures) * (len(size.seeds) + 1)
    with worker_pool(processes or core_count(), initializer=_use_one_thread, one_thread=True) as pool:
        for done, step in enumerate(_train_and_evaluate(pool, folder, size), start=1):
            if progress:
                progress(done, total, step)
    return _score(folder, stimuli, size, seed, progress)


def _use_one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _train_and_evaluate(pool: ProcessPoolExecutor, folder: Path, size: Size) -> Iterator[str]:
    """Yield a description of every finished step; an architecture is evaluated when all its seeds are trained."""
    models: dict[str, dict[int, str]] = {architecture: {} for architecture in size.architectures}
    pending: dict[Future[Any], tuple[str, int | None]] = {
        pool.submit(_train, folder, architecture, seed, size.epochs): (architecture, seed)
        for architecture in size.architectures
        for seed in size.seeds
    }
    while pending:
        for future in wait(pending, return_when=FIRST_COMPLETED).done:
            architecture, seed = pending.pop(future)
            model = future.result()
            if seed is None:
                yield f"{architecture} evaluated"
                continue
            models[architecture][seed] = model
            if len(models[architecture]) == len(size.seeds):
                members = [models[architecture][each] for each in size.seeds]
                pending[pool.submit(_evaluate, folder, architecture, members)] = (architecture, None)
            yield f"{architecture} trained, seed {seed}"


def _train(folder: Path, architecture: str, seed: int, epochs: int | None) -> str:
    """Train a network and return its model spec. Digits must not be flipped."""
    settings = {**ARCHITECTURES[architecture], "batch": 32, "flip": False, "padding": 2}
    if epochs is not None:
        settings["epochs"] = epochs
    recipe = Recipe(
        data=str(folder / STIMULI), architecture=architecture, seeds=(seed,), stop=settings["epochs"], **settings
    )
    return train(recipe, out=folder / "networks", device="cpu")[0].line  # the same numbers on every machine


def _evaluate(folder: Path, architecture: str, members: Sequence[str]) -> None:
    """Evaluate the networks of an architecture and their ensemble in one run."""
    ensemble = [str(ensemble_of(members))] if len(members) > 1 else []
    evaluate(
        *members,
        *ensemble,
        on=folder / STIMULI,
        out=_run_folder(folder, architecture),
        abstain=FUNCTIONS,
        device="cpu",
        threads=1,
        batch=_BATCH,
    )


def _run_folder(folder: Path, architecture: str) -> Path:
    return folder / "runs" / architecture


def _score(folder: Path, stimuli: StimulusSet, size: Size, seed: int, progress: Progress | None) -> DigitsResult:
    """Compute every score and write it as JSON, and the trials that the comparison is made from."""
    runs = [_run_folder(folder, architecture) for architecture in size.architectures]
    options: dict[str, Any] = {"resamples": size.resamples, "seed": seed, "progress": progress}
    benchmark = score(*runs, on="digits", **options)
    clean_and_letters = pl.col("condition").is_in([CLEAN, LETTER]) & pl.col("category").is_not_null()
    abstention = score(
        _select(read(*runs), stimuli, clean_and_letters),
        stimuli.root,
        measure=[ABSTENTION],
        by=["condition"],
        **options,
    )
    test = replace(stimuli, frame=stimuli.frame.filter(pl.col("split") == "test"))
    people = simulated_trials(test, Panel(seed=seed), persons=size.persons)
    first_seeds = [f"cosight:{architecture}@{size.seeds[0]}" for architecture in size.architectures]
    networks = [read(run).only(name) for run, name in zip(runs, first_seeds, strict=True)]
    shows_digit = pl.col("truth") != ABSTAIN
    answers = concat([people, *networks])
    write(_select(answers, stimuli, shows_digit), folder / "trials.parquet", force=True)
    comparison = compare(folder / "trials.parquet", stimuli.root, **options)
    for name, scores in (("benchmark", benchmark), ("abstention", abstention), ("comparison", comparison)):
        with atomic_write(folder / f"{name}.json") as draft:
            draft.write_text(scores.to_json(), encoding="utf-8")
    return DigitsResult(benchmark, abstention, comparison, answers)


def _select(trials: Trials, stimuli: StimulusSet, condition: pl.Expr) -> Trials:
    """Return the trials on the stimuli that fulfil a condition."""
    return replace(trials, frame=trials.frame.join(stimuli.frame.filter(condition), on="stimulus", how="semi"))
