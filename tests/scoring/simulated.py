"""Simulated studies of two models and several people, scored by `cosight.compare`: differences and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.special import ndtri

import cosight
from cosight.arrays import FloatArray
from cosight.measures.answers import Answers
from cosight.measures.declarations import measures as registered
from cosight.measures.declarations import pair_forms
from cosight.statistics.rows import Row
from cosight.trials import LabelSpace, Trials, make_trials
from tests.measures.simulated import (
    LURES,
    Case,
    Crowd,
    CueConflict,
    Population,
    answer,
    class_similarity,
    observers,
    true_agreement,
    true_consistency,
)

__all__ = ["ALIKE", "UNEQUAL", "UNLIKE", "Contrast", "contrasts", "cue_conflict_case", "models_of"]

_SPACE = LabelSpace("sixteen", tuple(f"class {code:02d}" for code in range(len(LURES))))
_TRUE = {"ec": true_consistency, "ma": true_agreement}


def models_of(
    accuracy: tuple[float, float], shared: tuple[float, float], follow: tuple[float, float], habits: tuple[int, int]
) -> Crowd:
    """Two models; those with the same number in `habits` confuse the same classes."""
    habit = [(class_similarity(len(LURES), np.random.default_rng(seed)) + LURES) / 2 for seed in habits]
    return Crowd(np.array(accuracy), np.array(shared), np.array(follow), np.stack(habit))


ALIKE = models_of((0.7, 0.7), (0.3, 0.3), (0.2, 0.2), (5, 5))
UNEQUAL = models_of((0.73, 0.31), (0.3, 0.3), (0.2, 0.2), (5, 5))  # the same confusions, other accuracies
UNLIKE = models_of((0.73, 0.6), (0.4, 0.3), (0.3, 0.1), (5, 6))


@dataclass(frozen=True, slots=True)
class Contrast:
    """How the differences of two models and their ranks did in many studies, for one measure."""

    truth: float
    share: float  # of the intervals that hold the true difference
    positive: float  # of the studies with p < .05
    wideness: float  # mean width over that of a normal interval made from the spread of the differences
    certain: float  # of the studies in which the first model's rank has no doubt
    rank: float  # of the studies whose interval of the rank holds the first model's true rank (any, of models alike)


def contrasts(
    models: Crowd,
    measures: Sequence[str],
    *,
    people: int,
    stimuli: int,
    studies: int,
    accuracy: float = 0.75,
    resamples: int = 300,
    cles_truth: float | None = None,
    seed: int = 0,
) -> dict[str, Contrast]:
    """Run a study many times, with new people and images.

    The true difference of CLES is `cles_truth`; without it, the mean over the studies, since it depends on their size.
    """
    population = Population(accuracy)
    found: dict[str, list[tuple[float, ...]]] = {measure: [] for measure in measures}
    for study in range(studies):
        rows = _study(models, population, people, stimuli, [seed, study], measures, resamples).rows
        for measure in measures:
            name = cosight.measures.measures.name_of(measure)
            [difference] = [row for row in rows if row.measure == name and row.statistic == "difference"]
            rank = next(row for row in rows if row.measure == name and row.statistic == "rank")
            numbers = (difference.value, difference.low, difference.high, difference.p, rank.low, rank.high)
            found[measure].append(tuple(np.nan if number is None else number for number in numbers))
    summaries = {}
    for measure, numbers_of_studies in found.items():
        value, low, high, p, rank_low, rank_high = np.array(numbers_of_studies).T
        if measure in _TRUE:
            everyone = population.draw(2000, np.random.default_rng(7), evenly=True).with_(models)
            with_people: FloatArray = _TRUE[measure](everyone)[-2:, :-2].mean(axis=1)
            truth = float(with_people[0] - with_people[1])
        else:
            truth = float(np.nanmean(value)) if cles_truth is None else cles_truth
        true_rank = 1 if truth > 0 else 2
        summaries[measure] = Contrast(
            truth=truth,
            share=float(((low <= truth) & (truth <= high)).mean()),
            positive=float((p < 0.05).mean()),
            wideness=float(np.nanmean(high - low) / (2 * ndtri(0.975) * np.nanstd(value, ddof=1))),
            certain=float((rank_low == rank_high).mean()),
            rank=float(((rank_low <= true_rank) & (true_rank <= rank_high)).mean()) if truth else 1.0,
        )
    return summaries


def _study(
    models: Crowd,
    population: Population,
    people: int,
    stimuli: int,
    study: list[int],
    measures: Sequence[str],
    resamples: int,
) -> cosight.Scores:
    rng = np.random.default_rng([people, stimuli, *study])
    table = answer(population.draw(people, rng).with_(models), stimuli, rng)
    trials = _trials(table, people, [f"{index}.png" for index in range(stimuli)])
    return cosight.compare(trials, measure=list(measures), pairs="human-model", resamples=resamples, seed=study[1])


def _trials(table: Answers, people: int, images: Sequence[str], experiment: str = "simulated") -> Trials:
    """Answers of so many people and, for the rest, of models as trials."""
    names = np.array(_SPACE.classes)
    kinds = ["human"] * people + ["model"] * (table.observers - people)
    observers = [f"{kind}:{index:02d}" for index, kind in enumerate(kinds)]
    frame = pl.DataFrame(
        {
            "observer": np.repeat(observers, table.stimuli),
            "kind": np.repeat(kinds, table.stimuli),
            "experiment": experiment,
            "image": np.tile(images, table.observers),
            "truth": np.tile(names[table.truth], table.observers),
            "response": names[table.response].ravel(),
        }
    )
    return make_trials(frame, space=_SPACE)


def cue_conflict_case(
    measure: str, accuracy: tuple[float, float], follow: float, pictures: CueConflict, *, studies: int = 2000
) -> Case:
    """Two models meet images of new shape pictures and textures; the true CLES is its mean over `studies` studies."""
    crowd = observers(accuracy, shared=0.5, follow=follow)
    form = pair_forms[registered.name_of(measure)]

    def study(rng: np.random.Generator) -> Row:
        table, shape, texture = pictures.answer(crowd, rng)
        images = [f"shape{s}-texture{t}.png" for s, t in zip(shape, texture, strict=True)]
        trials = _trials(table, 0, images, "cue-conflict")
        scores = cosight.compare(trials, measure=measure, resamples=400, seed=int(rng.integers(1 << 30)))
        return next(row for row in scores.rows if row.statistic == "value" and row.observer == "model:00")

    def truth() -> float:
        tables = (pictures.answer(crowd, np.random.default_rng([1, s]))[0] for s in range(studies))
        return float(np.mean([form.matrix(table)[0, 1] for table in tables]))

    counts = (16 * pictures.shapes, 16 * pictures.textures, 256 * pictures.images)
    of = f"{counts[0]} shapes, {counts[1]} textures, {counts[2]} images"
    return Case(f"{measure.upper()}, accuracies {accuracy[0]:g} and {accuracy[1]:g}, {of}", study, truth)
