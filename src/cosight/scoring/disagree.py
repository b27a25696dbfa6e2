"""`cosight disagree`: on which images do a model and people differ most?"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cosight.arrays import FloatArray, IntArray
from cosight.errors import InvalidInput
from cosight.measures.answers import NO_ANSWER
from cosight.measures.distance import distance_items
from cosight.registry import split_names
from cosight.scoring.arguments import ScoreSource, trial_sources
from cosight.scoring.compare import only_models
from cosight.statistics.gold_labels import gold_of, read_manifests
from cosight.statistics.outputs import Outputs
from cosight.statistics.rows import PEOPLE, SIMULATED, save_rows, settings_of
from cosight.trials.formats import read
from cosight.trials.join import AlignedTrials, align, with_manifest
from cosight.trials.manifest import is_stimulus_set
from cosight.trials.spaces import LabelSpace
from cosight.trials.summary import overlap_notices

__all__ = ["Disagreement", "Disagreements", "ModelDifference", "disagree"]

_MEASURE = "hellinger"
_DECIMALS = 12  # of a difference: others are rounding errors, which would hide ties
_LABELS = pl.List(pl.Struct({"label": pl.String, "number": pl.Float64}))
_POLARS_TYPES: dict[str, Any] = {
    "observer": pl.String, "against": pl.String, "experiment": pl.String, "condition": pl.String, "image": pl.String,
    "stimulus": pl.String, "truth": pl.String, "difference": pl.Float64, "agreement": pl.Float64,
    "response": pl.String, "probabilities": _LABELS, "people": _LABELS, "n": pl.Int64,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """What one model and people answer to one image, and how far apart that is.

    Attributes:
        observer: The model.
        against: Whose answers it is compared with: people, simulated people, gold or simulated gold.
        experiment: The experiment of the image.
        condition: Its condition.
        image: Its name.
        stimulus: Its digest; None where only the name is known.
        truth: Its true class; None where unknown.
        difference: Hellinger distance of the two label distributions: 0 the same, 1 no label in common.
        agreement: Fraction of people who gave the model's answer.
        response: The model's answer; None where it has only probabilities.
        probabilities: The model's label distribution, the most probable label first; None where it gave an answer only.
        people: People's answers, the commonest first: how many gave each, or which fraction where only that is known.
        n: Number of people who answered; 0 for gold labels without counts.
    """

    observer: str
    against: str
    experiment: str
    condition: str | None
    image: str | None
    stimulus: str | None
    truth: str | None
    difference: float
    agreement: float
    response: str | None
    probabilities: tuple[tuple[str, float], ...] | None
    people: tuple[tuple[str, float], ...]
    n: int

    def record(self) -> dict[str, Any]:
        """Return the row as JSON stores it: labels and their numbers as objects."""
        values = {column.name: getattr(self, column.name) for column in fields(self)}
        shares = None if self.probabilities is None else dict(self.probabilities)
        return {**values, "probabilities": shares, "people": dict(self.people)}


@dataclass(frozen=True, slots=True)
class ModelDifference:
    """How far a model is from people over all images."""

    observer: str
    mean: float  # of the differences
    images: int
    against_majority: int  # images on which its answer is not people's commonest


@dataclass(frozen=True, slots=True)
class Disagreements:
    """Images on which models and people differ, the largest difference first.

    Attributes:
        rows: One row per model and image.
        total: How many rows there are in all; `rows` has the first of them.
        models: The mean over all images of each model, the closest first.
        settings: What is needed to reproduce it.
        notices: For the reader.
    """

    rows: tuple[Disagreement, ...]
    total: int
    models: tuple[ModelDifference, ...]
    settings: dict[str, Any]
    notices: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """Say how far the models are from people on average."""
        people, first, last = self.rows[0].against, self.models[0], self.models[-1]
        text = (
            f"{first.observer} differs from {people} by {first.mean:.3f} on average over {first.images} images "
            f"(Hellinger distance, 0 to 1); on {first.against_majority} of them its answer is not the commonest one of "
            f"{people}."
        )
        if len(self.models) == 1:
            return text
        farthest = f"Of {len(self.models)} models it differs least, {last.observer} most: by {last.mean:.3f} on average"
        return f"{text} {farthest} over {last.images} images."

    def to_json(self) -> str:
        """Return the rows as a JSON list of objects."""
        return json.dumps([row.record() for row in self.rows], indent=1, allow_nan=False, ensure_ascii=False)

    def save(self, path: str | Path, *, file_format: str | None = None) -> None:
        """Write the rows to a .json, .csv or .parquet file; JSON and Parquet keep the settings and notices with them.

        Args:
            path: The file, which is written atomically.
            file_format: json, csv or parquet (default: by the suffix of the file).
        """
        save_rows(self, {"settings": self.settings, "notices": self.notices}, Path(path), file_format)

    def to_csv(self) -> str:
        """Return the rows as CSV with a header; labels and their numbers are written `label=number;...`."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([column.name for column in fields(Disagreement)])
        for row in self.rows:
            values = [getattr(row, column.name) for column in fields(row)]
            writer.writerow([_csv_value(value) for value in values])
        return out.getvalue()

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars DataFrame; labels and their numbers are lists."""
        records = []
        for row in self.rows:
            lists = {
                name: None if pairs is None else [{"label": label, "number": float(number)} for label, number in pairs]
                for name, pairs in (("probabilities", row.probabilities), ("people", row.people))
            }
            records.append({**row.record(), **lists})
        return pl.DataFrame(records, schema=_POLARS_TYPES, orient="row")


def disagree(
    *sources: ScoreSource,
    only: str | Sequence[str] | None = None,
    top: int | None = None,
    labels: str | LabelSpace | None = None,
    role: str | Sequence[str] = ("test",),
    gamma: float = 0.5,
) -> Disagreements:
    """Find the images on which models and people differ most.

    The difference on an image is the Hellinger distance between the distribution of people's answers and the model's
    label distribution: its probabilities, with its abstention where the label space has `abstain`; an answer without
    probabilities has probability 1. Its mean over images is the `hellinger` of `score`. Images that the model or
    people did not answer are left out. Of equal differences, those on which people agree most come first.

    People are the human observers among the sources; without any, simulated people; without those, the gold labels of
    a run's or set's manifest.

    Args:
        *sources: Trial files, folders of trial files, runs, or samples (sample:NAME), of models and of people; a
            stimulus set adds its gold labels. In Python also trials, the run that `evaluate` returned, and DataFrames.
        only: Comma-separated names of the models to compare with people (default: all).
        top: Number of rows to return (default: all).
        labels: Label space: a name (`cosight list label-spaces`) or comma-separated class names.
        role: Comma-separated roles of the trials to use: test, repeat, distractor, gold, check, warmup or all
            (default: first showings of test stimuli).
        gamma: An observer whose abstention exceeds this has abstained.

    Returns:
        One row per model and image, the largest difference first, and the mean of each model.

    Raises:
        InvalidInput: An argument is wrong, or models and people have no images in common.
        UnknownName: No model or label space has this name.

    >>> found = disagree("sample:edges", only=["model:resnet50"], top=3)
    >>> found.rows[0].response, found.rows[0].people[0]
    ('knife', ('airplane', 10))
    """
    if top is not None and top < 1:
        raise InvalidInput(f"--top must be 1 or more, got {top}")
    paths, roles = trial_sources(sources), split_names(role) or ()
    trials = only_models(read(*(source for source in paths if not is_stimulus_set(source)), labels=labels), only)
    notices: list[str] = []
    manifest = read_manifests(paths, trials.space, notices)
    if manifest is not None:
        trials = with_manifest(trials, manifest)
    table = align(trials, gamma=gamma, roles=roles).with_notices(*notices)
    table = table.with_notices(*overlap_notices(table))
    outputs = Outputs.of(table, trials)
    stimuli = _Stimuli.of(table)
    against, counts, shares = _answers_of_people(table, manifest, stimuli)
    models, found = [], []
    for observer in np.flatnonzero(~table.people).tolist():
        given = stimuli.mean(outputs.distributions(observer, np.arange(table.columns.height)))
        shown = np.flatnonzero(~np.isnan(given).any(axis=1) & ~np.isnan(shares).any(axis=1))
        if not len(shown):
            continue
        difference = distance_items[_MEASURE](shares[shown], given[shown]).round(_DECIMALS)
        answer = table.answers.response[observer, stimuli.first[shown]]
        own = np.where(answer >= 0, np.take_along_axis(shares[shown], np.maximum(answer, 0)[:, None], 1)[:, 0], 0.0)
        apart = int((own < shares[shown].max(axis=1)).sum())
        models.append(ModelDifference(table.observers[observer], float(difference.mean()), len(shown), apart))
        found.append((observer, shown, difference, own, given[shown]))
    if not found:
        raise InvalidInput(_nothing_shared(table, against))
    order = _largest_first(table, found, shares)[:top]
    rows = []
    for model, position in order:
        observer, shown, difference, own, given = found[model]
        stimulus, column = int(shown[position]), int(stimuli.first[shown[position]])
        facts = table.columns.row(column, named=True)
        code = int(table.answers.response[observer, column])
        has_shares = not np.isnan(outputs.class_probabilities(observer, np.array([column]))).any()
        rows.append(
            Disagreement(
                observer=table.observers[observer],
                against=against,
                experiment=facts["experiment"],
                condition=facts["condition"],
                image=facts["image"],
                stimulus=facts["stimulus"],
                truth=facts["truth"],
                difference=float(difference[position]),
                agreement=float(own[position]),
                response=table.labels[code] if code > NO_ANSWER else None,
                probabilities=_largest_labels(given[position], table.labels) if has_shares else None,
                people=_largest_labels(counts[stimulus] if counts[stimulus].any() else shares[stimulus], table.labels),
                n=int(counts[stimulus].sum()),
            )
        )
    return Disagreements(
        tuple(rows),
        sum(len(item[1]) for item in found),
        tuple(sorted(models, key=lambda model: (model.mean, model.observer))),
        settings_of(
            command="disagree", only=split_names(only) or [], role=roles, gamma=gamma, labels=list(table.labels)
        ),
        table.notices,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Stimuli:
    """The stimuli of a table, each with one or more presentations, which are columns."""

    first: IntArray  # (stimuli,): the column of the first presentation
    index: IntArray  # (columns,): the stimulus of each column

    @classmethod
    def of(cls, table: AlignedTrials) -> _Stimuli:
        first, index = np.unique(table.columns["key"].to_numpy(), return_index=True, return_inverse=True)[1:]
        return cls(first.astype(np.int64), index.astype(np.int64))

    def sum(self, columns: FloatArray) -> FloatArray:
        """Return the sum over the presentations of each stimulus; nan counts as 0."""
        total = np.zeros((len(self.first), columns.shape[1]))
        np.add.at(total, self.index, np.nan_to_num(columns))
        return total

    def mean(self, columns: FloatArray) -> FloatArray:
        """Return the mean over the presentations of each stimulus that are not nan; nan where all are."""
        known = np.bincount(self.index, weights=~np.isnan(columns).any(axis=1), minlength=len(self.first))
        return np.where(known[:, None] > 0, self.sum(columns) / np.maximum(known, 1)[:, None], np.nan)


def _answers_of_people(
    table: AlignedTrials, manifest: pl.DataFrame | None, stimuli: _Stimuli
) -> tuple[str, FloatArray, FloatArray]:
    """Return who the people are, how many of them gave each label, and which fraction; (stimuli, labels)."""
    people = table.people & ~table.simulated
    against = PEOPLE if people.any() else SIMULATED
    people = people if people.any() else table.simulated
    if people.any():
        response = table.answers.response[people]
        given = np.stack([(response == code).sum(axis=0) for code in range(len(table.labels))], axis=1)
        counts = stimuli.sum(given.astype(np.float64))
        total = counts.sum(axis=1, keepdims=True)
        return against, counts, np.where(total > 0, counts / np.maximum(total, 1), np.nan)
    gold = gold_of(table, manifest)
    if not gold.known.any():
        raise InvalidInput(
            "models are compared with people, got neither people nor gold labels; add trials of people, or a stimulus "
            "set with gold labels"
        )
    return gold.name, gold.counts[stimuli.first].astype(np.float64), gold.distributions[stimuli.first]


def _largest_first(
    table: AlignedTrials, found: Sequence[tuple[int, IntArray, FloatArray, FloatArray, FloatArray]], shares: FloatArray
) -> list[tuple[int, int]]:
    """Return (model, image) as indices of `found` and of its arrays, the largest difference first.

    Of equal differences, those on which people agree most come first, then in order of models and images.
    """
    model = np.concatenate([np.full(len(item[1]), index) for index, item in enumerate(found)])
    position = np.concatenate([np.arange(len(item[1])) for item in found])
    difference = np.concatenate([item[2] for item in found])
    consensus = np.concatenate([shares[item[1]].max(axis=1) for item in found])
    order = np.lexsort((position, model, -consensus, -difference))
    return list(zip(model[order].tolist(), position[order].tolist(), strict=True))


def _nothing_shared(table: AlignedTrials, against: str) -> str:
    if not table.models:
        return "models are compared with people, got no model; add trials of a model"
    reason = "; ".join(notice for notice in table.notices if "match people's" in notice)
    return f"models and {against} must have answered the same images, got none; {reason or 'see `cosight trials show`'}"


def _largest_labels(numbers: FloatArray, labels: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Return the labels that have a number above 0, the largest first; whole numbers as such."""
    order = np.argsort(-numbers, kind="stable")
    return tuple((labels[i], _plain(float(numbers[i]))) for i in order.tolist() if numbers[i] > 0)


def _plain(number: float) -> float:
    return int(number) if number.is_integer() else number


def _csv_value(value: Any) -> Any:
    if value is None:
        return ""
    return ";".join(f"{label}={number:g}" for label, number in value) if isinstance(value, tuple) else value
