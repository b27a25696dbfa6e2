"""`shift`: how far a stimulus set is from a reference set, for models that answered both.

Three views (Li et al. 2025, section 3.1): how many errors the models make on each set (difficulty), the Frechet
distance between their features of the two sets, and for some stimuli the reference images with the nearest features.
Everything is computed from two runs with stored features; no model is run.

The interval of a Frechet distance is that of a delete-one-group jackknife. The bootstrap does not work here: a resample
repeats images, so its covariance has fewer dimensions, and the distances of resamples are all larger than the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from PIL import Image as Pillow
from scipy.stats import t as student_t

from cosight.arrays import FloatArray, fraction, whole_number
from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.measures import frechet_distance
from cosight.progress import Progress, report_progress
from cosight.registry import split_names
from cosight.runs.execution import thumbnail_file
from cosight.runs.folder import RUN, RunFolder
from cosight.runs.run_record import read_record
from cosight.scoring.arguments import StoredRun
from cosight.scoring.score import score
from cosight.statistics.rows import GroupKey, Row, Scores, group_text, number, settings_of
from cosight.stimuli.contact_sheet import SheetRow, check_sheet, contact_sheet, sheet_format
from cosight.stimuli.images import Bytes, read_image
from cosight.trials.join import GROUPS, check_grouping
from cosight.trials.manifest import read_manifest

__all__ = ["REFERENCE", "FeatureRows", "frechet_row", "shift"]

REFERENCE = "reference"  # `against` of distances, and the value of `set` in the groups of the reference's accuracy
FRECHET = "frechet_distance"
_FEWEST_PARTS = 4
_NEIGHBOURS = 6  # reference images per row of the picture
_MOST_ROWS = 30  # of the picture


def shift(
    run: str | Path | StoredRun,
    reference: str | Path | StoredRun,
    *,
    by: str | Sequence[str] = (),
    only: str | Sequence[str] = (),
    neighbours: str | Path | None = None,
    queries: int = 1,
    parts: int = 20,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    force: bool = False,
    progress: Progress | bool | None = None,
) -> Scores:
    """Measure how far a stimulus set is from a reference set, with the features of models that answered both.

    Both runs need `evaluate(..., features=True)`, and `thumbnails=True` for `neighbours`. The Frechet distance is
    biased upwards, the more so the fewer images and the more dimensions there are: compare only distances of sets of
    about the same size, with the same model. Rows of the statistic `ceiling_split_half` are the distance between two
    random halves of the reference, so what a set without any shift would get at half its size.

    Args:
        run: Run on the set.
        reference: Run of the same models on the reference set.
        by: Comma-separated columns to group the set by: experiment, condition, level, truth.
        only: Comma-separated models (default: all that have features in both runs).
        neighbours: Also write a picture (.png, .jpg): images of the set, each with the reference images whose features
            have the smallest cosine distance, for the first model.
        queries: Images per group in that picture.
        parts: Groups of source photos behind an interval; each is left out once.
        confidence: Confidence level of the intervals.
        resamples: Number of bootstrap resamples behind the intervals of accuracy.
        seed: Seed of everything random.
        force: Replace an existing picture.
        progress: True for a progress bar (default: in notebooks and at the prompt), False for none, or a function
            that is called with distances done, distances in all, and a description.

    Returns:
        Score rows: for each model and group, `frechet_distance` against the reference, and accuracy where the true
        classes are known. Accuracy on the reference has the group set=reference.

    Raises:
        InvalidInput: A run has no features or thumbnails, or an argument is out of range.

    >>> shift("nothing", "nothing")
    Traceback (most recent call last):
    cosight.errors.InvalidInput: shift needs runs, nothing has no run.json; run `cosight evaluate ... --features` first
    """
    grouping = tuple(split_names(by) or ())
    check_grouping(grouping, GROUPS)
    whole_number(parts, name="--parts", least=_FEWEST_PARTS)
    whole_number(queries, name="--queries", least=1)
    whole_number(seed, name="--seed")
    fraction(confidence, name="--confidence", ends=False)
    picture = None if neighbours is None else Path(neighbours)
    if picture is not None:
        check_sheet(picture, outside=(), force=force, option="--neighbours")
    folders = [Path(one) if isinstance(one, (str, Path)) else one.folder for one in (run, reference)]
    shown, base = (_StoredFeatures.read(folder) for folder in folders)
    models = _common_models(shown, base, split_names(only) or ())
    groups = list(shown.groups(grouping))
    settings = {"resamples": resamples, "confidence": confidence, "seed": seed}
    rows = list(_accuracy_rows(folders, models, grouping, **settings))
    total = len(models) * (len(groups) + 1)
    with report_progress(progress) as report:
        for index, model in enumerate(models):
            x, y = shown.features(model), base.features(model)
            for step, (group, indices) in enumerate(groups):
                if report is not None:
                    report(index * (len(groups) + 1) + step, total, f"{model} {group_text(group)}".strip())
                left, right = FeatureRows(x[indices], shown.sources[indices]), FeatureRows(y, base.sources)
                rows.append(frechet_row(model, group, left, right, parts=parts, confidence=confidence, seed=seed))
            rows.append(_half_row(model, FeatureRows(y, base.sources), seed))
    if picture is not None:
        _write_neighbours(picture, shown, base, models[0], groups, queries=queries, seed=seed)
    facts = settings_of(by=list(grouping), parts=parts, **settings)
    return Scores(tuple(rows), facts, shown.notices + base.notices, dict.fromkeys(models, "model"))


@dataclass(frozen=True, slots=True, eq=False)
class FeatureRows:
    """Features of some stimuli, (n, d), and the source photo of each."""

    features: FloatArray
    sources: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class _StoredFeatures:
    """The stimuli of a run that all its models were shown, in the order of its features."""

    folder: RunFolder
    manifest: pl.DataFrame
    observers: tuple[str, ...]  # with stored features
    sources: NDArray[Any]  # digest of the photo that each stimulus was made from
    notices: tuple[str, ...] = ()

    @staticmethod
    def read(path: Path) -> _StoredFeatures:
        if not (path / RUN).is_file():
            raise InvalidInput(f"shift needs runs, {path} has no {RUN}; run `cosight evaluate ... --features` first")
        folder, record = RunFolder(path), read_record(path)
        observers = tuple(name for name in record.observers if folder.features_file(name).is_file())
        if not observers:
            raise InvalidInput(f"{path} has no features of a finished model; evaluate again with --features")
        manifest, _ = read_manifest(path)
        sources = manifest["parent"].fill_null(manifest["stimulus"]).to_numpy()
        return _StoredFeatures(folder, manifest, observers, sources).without_unread()

    def without_unread(self) -> _StoredFeatures:
        """Leave out stimuli that some model was not shown; their features are nan."""
        known = np.ones(self.manifest.height, np.bool_)
        for name in self.observers:
            known &= np.isfinite(self.folder.features(name)["features"]).all(axis=1)
        if known.all():
            return self
        note = f"{int((~known).sum())} stimuli of {self.folder.path} could not be read and are left out"
        frame = self.manifest.with_row_index("row").filter(pl.Series(known))
        return replace(self, manifest=frame, sources=self.sources[known], notices=(note,))

    def features(self, model: str) -> FloatArray:
        features = self.folder.features(model)["features"].astype(np.float64)
        return features[self.manifest["row"].to_numpy()] if "row" in self.manifest.columns else features

    def groups(self, by: tuple[str, ...]) -> Iterator[tuple[GroupKey, NDArray[np.int64]]]:
        """Yield the groups of stimuli, one for all of them without `by`."""
        indexed = self.manifest.with_row_index("index")
        if not by:
            yield (), indexed["index"].to_numpy().astype(np.int64)
            return
        for values, part in sorted(indexed.group_by(by), key=lambda pair: [str(value) for value in pair[0]]):
            group = tuple((name, str(value)) for name, value in zip(by, values, strict=True))
            yield group, np.sort(part["index"].to_numpy().astype(np.int64))

    def pixels(self, index: int) -> Bytes:
        path = thumbnail_file(self.folder.path / "thumbnails", str(self.manifest["stimulus"][index]))
        if not path.is_file():
            raise InvalidInput(f"{self.folder.path} has no thumbnails; evaluate again with --thumbnails")
        return read_image(path)


def _common_models(shown: _StoredFeatures, base: _StoredFeatures, only: Sequence[str]) -> list[str]:
    both = [name for name in shown.observers if name in base.observers]
    if not both:
        raise InvalidInput(
            f"both runs need features of the same model, {shown.folder.path} has {', '.join(shown.observers)} and "
            f"{base.folder.path} has {', '.join(base.observers)}; evaluate one model on both sets"
        )
    for name in only:
        if name not in both:
            raise InvalidInput(f"no model is called {name!r} in both runs; there are {', '.join(both)}")
    return [name for name in both if not only or name in only]


def _accuracy_rows(
    folders: Sequence[Path], models: Sequence[str], by: tuple[str, ...], **settings: Any
) -> Iterator[Row]:
    """Yield the accuracy of the models on both sets, where the true classes are known."""
    for folder, grouping, key in zip(folders, (by, ()), ((), (("set", REFERENCE),)), strict=True):
        if read_manifest(folder)[0]["truth"].drop_nulls().is_empty():
            continue
        for row in score(folder, measure="accuracy", by=grouping, progress=False, **settings).rows:
            if row.observer in models:
                yield replace(row, group=(*row.group, *key))


def frechet_row(
    model: str, group: GroupKey, left: FeatureRows, right: FeatureRows, *, parts: int, confidence: float, seed: int
) -> Row:
    """Return the Frechet distance with its jackknife interval.

    A part is left out of both sets at once, so that a photo and its altered versions stay together.
    """
    n = min(len(left.features), len(right.features))
    distance = frechet_distance(left.features, right.features).value
    sources, codes = np.unique(np.concatenate([left.sources, right.sources]).astype(str), return_inverse=True)
    count = min(parts, len(sources))
    part = np.random.default_rng(seed).permutation(len(sources))[codes] % count  # of each stimulus, set then reference
    in_left, in_right = np.split(part, [len(left.sources)])
    estimates = [
        frechet_distance(left.features[in_left != i], right.features[in_right != i]).value for i in range(count)
    ]
    low = high = None
    flags: tuple[str, ...] = ()
    if not math.isfinite(distance):
        flags = ("undefined",)
    elif count < _FEWEST_PARTS or not np.isfinite(estimates).all():
        flags = ("few_stimuli",)
    else:
        error = math.sqrt((count - 1) * float(np.var(estimates)))
        half = float(student_t.ppf((1 + confidence) / 2, count - 1)) * error
        low, high = max(0.0, distance - half), distance + half
    dimensions = left.features.shape[1]
    few = n <= dimensions
    note = f"{len(left.features)} and {len(right.features)} images, {dimensions} dimensions"
    note += "; biased upwards: fewer images than dimensions" if few else ""
    return Row(
        observer=model, against=REFERENCE, measure=FRECHET, group=group, value=number(distance), low=low, high=high,
        n=n, clusters=count, seed=seed, flags=(*flags, *(("few_trials",) if few else ())), note=note,
    )  # fmt: skip


def _half_row(model: str, reference: FeatureRows, seed: int) -> Row:
    """Return the distance between two random halves of the reference, which no shift separates."""
    sources = np.random.default_rng(seed).permutation(np.unique(reference.sources.astype(str)))
    first = np.isin(reference.sources, sources[: len(sources) // 2])
    x, y = reference.features[first], reference.features[~first]
    value = frechet_distance(x, y).value
    flags = () if math.isfinite(value) else ("undefined",)
    note = f"two halves of the reference, {len(x)} and {len(y)} images"
    return Row(
        observer=model, against=REFERENCE, measure=FRECHET, statistic="ceiling_split_half", value=number(value),
        n=min(len(x), len(y)), seed=seed, flags=flags, note=note,
    )  # fmt: skip


def _write_neighbours(
    path: Path,
    shown: _StoredFeatures,
    base: _StoredFeatures,
    model: str,
    groups: Sequence[tuple[GroupKey, NDArray[np.int64]]],
    *,
    queries: int,
    seed: int,
) -> None:
    """Write the picture of some stimuli with the reference images nearest to them, by cosine distance."""
    directions = _unit_length(base.features(model))
    features = _unit_length(shown.features(model))
    rng = np.random.default_rng(seed)
    rows = []
    for group, indices in groups:
        for query in rng.choice(indices, min(queries, len(indices)), replace=False).tolist():
            distances = 1 - directions @ features[query]
            nearest = np.argsort(distances, kind="stable")[:_NEIGHBOURS].tolist()
            title = "\n".join(value for _, value in group) or str(shown.manifest["condition"][query] or "")
            pictures = [(str(shown.manifest["truth"][query] or ""), shown.pixels(query))]
            pictures += [
                (f"{base.manifest['truth'][i] or ''} {distances[i]:.2f}".strip(), base.pixels(i)) for i in nearest
            ]
            rows.append(SheetRow(title, pictures))
    if len(rows) > _MOST_ROWS:
        raise InvalidInput(f"the picture has at most {_MOST_ROWS} rows, got {len(rows)}; use fewer groups or --queries")
    with atomic_write(path) as draft:
        Pillow.fromarray(contact_sheet(rows)).save(draft, sheet_format(path))


def _unit_length(features: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features / np.where(lengths > 0, lengths, 1.0))
