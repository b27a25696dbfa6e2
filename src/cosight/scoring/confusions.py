"""Comparison of observers from their confusion matrices alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.measures import pair_forms
from cosight.measures.arithmetic import BLOCK, blocks, divide
from cosight.measures.draws import jackknife
from cosight.statistics.blocks import Block, Key, finite_resampled, make_block, rows_of
from cosight.statistics.resampling import random_stream
from cosight.statistics.rows import Scores, check_names, settings_of
from cosight.trials.confusion_tables import ConfusionTable, is_confusion_table, read_confusion_tables
from cosight.trials.formats import TrialSource

__all__ = ["compare_confusions"]

_DEFAULT = ("accuracy", "class_level_error_similarity")
_NOTICE = (
    "confusion matrices: for the intervals, answers are resampled for every observer by itself; answers are taken to "
    "be independent of each other"
)


def compare_confusions(
    sources: Sequence[TrialSource],
    *,
    measure: Sequence[str] | None,
    resamples: int,
    confidence: float,
    seed: int,
    **about_trials: object,
) -> Scores:
    """Compare every two observers by their confusion matrices.

    Args:
        sources: One CSV file per observer, named as the observer.
        measure: Registered names of measures (default: accuracy and CLES).
        resamples: Number of bootstrap resamples behind each interval.
        confidence: Confidence level of the intervals.
        seed: Seed of everything random.
        **about_trials: Options that only trials have. None of them may be set.

    Returns:
        A row per observer and accuracy, and a row per pair and measure.

    Raises:
        InvalidInput: There are fewer than two files, a source is something else, a file is wrong, or a measure or
            option needs trials.

    >>> _ = Path("person.csv").write_text("truth,cat,dog,cow\\ncat,9,1,0\\ndog,2,8,0\\ncow,0,1,9\\n")
    >>> _ = Path("model.csv").write_text("truth,cat,dog,cow\\ncat,6,4,0\\ndog,1,7,2\\ncow,3,1,6\\n")
    >>> files = [Path("person.csv"), Path("model.csv")]
    >>> compare_confusions(files, measure=None, resamples=100, confidence=0.95, seed=0).rows[-1].measure
    'class_level_error_similarity'
    """
    for option, value in about_trials.items():
        if value:
            flag = option.replace("_", "-")
            raise InvalidInput(f"--{flag} is about trials, and confusion matrices have none; leave it out")
    others = [source for source in sources if not is_confusion_table(source)]
    if others:
        other = others[0] if isinstance(others[0], str | Path) else type(others[0]).__name__
        raise InvalidInput(f"confusion matrices are compared with each other only, got {other} as well; leave it out")
    paths = [Path(str(source)) for source in sources]
    names = _DEFAULT if measure is None else tuple(measure)
    for name in names:
        if name != "accuracy" and (name not in pair_forms or pair_forms[name].from_confusions is None):
            able = ", ".join(["accuracy", *(known for known, form in pair_forms.items() if form.from_confusions)])
            raise InvalidInput(
                f"a confusion matrix does not say who answered what on which image, so that {name} needs trials; "
                f"from confusion matrices there are {able}"
            )
    tables = read_confusion_tables(paths)
    if len(tables) < 2:
        raise InvalidInput(f"comparing needs the confusion matrices of two observers, got only {paths[0]}; add another")
    check_names([table.observer for table in tables])
    rows = [
        row
        for name in names
        for row in rows_of(_block(tables, name, resamples, seed), confidence=confidence, seed=seed)
    ]
    settings = settings_of(
        command="compare", source="confusion matrices", measure=list(names), by=[], pairs="all", resamples=resamples,
        confidence=confidence, seed=seed, labels=list(tables[0].classes),
    )  # fmt: skip
    return Scores(tuple(rows), settings, (_NOTICE,))


def _block(tables: Sequence[ConfusionTable], name: str, resamples: int, seed: int) -> Block:
    counts = np.stack([table.counts for table in tables])  # (observers, classes, classes + 1)
    answers = counts.sum(axis=(1, 2))
    if name == "accuracy":
        keys = [Key(table.observer, None, name) for table in tables]
        numbers = np.arange(len(tables))[:, None]  # the observers of each number
    else:
        numbers = np.array(list(combinations(range(len(tables)), 2)))
        keys = [Key(tables[a].observer, tables[b].observer, name) for a, b in numbers]

    def compute(sample: FloatArray, numbers: NDArray[np.int64]) -> FloatArray:
        """Compute numbers (numbers, samples) from counts (observers, samples, classes, classes + 1)."""
        if name == "accuracy":
            return divide(np.trace(sample, axis1=2, axis2=3), sample.sum(axis=(2, 3)))[numbers[:, 0]]
        form = pair_forms[name].from_confusions
        assert form is not None  # checked by `compare_confusions`
        return form(sample[..., :-1], numbers)

    values = compute(counts[:, None], numbers)[:, 0]
    resampled = np.repeat(values[:, None], resamples, axis=1)
    for observer, table in enumerate(tables):
        concerned = (numbers == observer).any(axis=1)
        cells = np.flatnonzero(counts[observer])
        stream = random_stream(seed, "confusion matrix", table.observer)
        left_out = jackknife(counts[observer].ravel()[cells], resamples, stream)
        replicates = np.empty((int(concerned.sum()), len(left_out.weights)))
        for part in blocks(len(left_out.weights), counts.size, most=BLOCK // 8):
            weights = left_out.weights[part]
            sample = np.repeat(counts[:, None], len(weights), axis=1)
            sample[observer].reshape(len(weights), -1)[:, cells] = weights
            replicates[:, part] = compute(sample, numbers[concerned])
        resampled[concerned] += left_out.deviations(replicates)
    resampled = finite_resampled(values, resampled)
    if name == "accuracy":
        return make_block((), keys, values, resampled, answers)
    errors = answers - np.trace(counts, axis1=1, axis2=2) - counts[..., -1].sum(axis=1)
    return make_block(
        (),
        keys,
        values,
        resampled,
        errors[numbers].sum(axis=1),
        notes=[f"undefined: {pair_forms[name].undefined}" if np.isnan(value) else "" for value in values],
        flags=[("undefined",) if np.isnan(value) else () for value in values],
        clusters=answers[numbers].min(axis=1),
    )
