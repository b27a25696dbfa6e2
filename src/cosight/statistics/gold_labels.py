"""What a stimulus set's manifest says of each stimulus: people's labels, the group, the original, the category.

Gold labels are people's label distributions: shares (`gold`), or how many gave each answer (`gold_counts`), over the
classes of the label space and perhaps `abstain`. Manifests are those of run folders, which keep a copy, and of
stimulus sets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.arrays import BoolArray, FloatArray, IntArray, answer_counts, distributions
from cosight.errors import InvalidInput
from cosight.measures.arithmetic import divide
from cosight.statistics.groups import GOLD, SIMULATED_GOLD
from cosight.trials.join import AlignedTrials, StimulusGroup, manifest_rows
from cosight.trials.manifest import MANIFEST, MANIFEST_SCHEMA, manifest_frame, read_manifest
from cosight.trials.spaces import ABSTAIN
from cosight.trials.table import PEOPLE, Trials

__all__ = ["CATEGORY", "Gold", "category_cells", "gold_of", "is_set", "read_manifests", "with_people"]

CATEGORY = "category"  # the key of its groups
_RUN = "run.json"
_NOT_SCORED = ("train", "calibration")
_TOLERANCE = 1e-3  # between gold shares and the counts behind them: published shares are rounded


@dataclass(frozen=True, slots=True, eq=False)
class Gold:
    """What is known of each column of a table besides its truth."""

    shares: FloatArray  # (columns, labels): people's distributions, nan where unknown
    counts: IntArray  # (columns, labels): the answers behind them, 0 where only shares are known
    group: NDArray[np.str_]  # (columns,): must-act, must-abstain, uncertain
    original: IntArray  # (columns,): code of the class a picture was made from, -1 for none of the classes
    category: IntArray  # (columns,): -1 for none
    simulated: BoolArray  # (columns,): where the shares are those of a simulated panel

    @property
    def known(self) -> BoolArray:
        """The columns that have a gold label."""
        return np.asarray(~np.isnan(self.shares).any(axis=1))

    @property
    def name(self) -> str:
        """What rows call it: nothing simulated goes without saying so."""
        return SIMULATED_GOLD if (self.simulated & self.known).any() else GOLD


def is_set(path: object) -> bool:
    """Whether this is the folder of a stimulus set with a manifest, not of a run."""
    return isinstance(path, str | Path) and (Path(path) / MANIFEST).is_file() and not (Path(path) / _RUN).is_file()


def read_manifests(sources: Iterable[object]) -> pl.DataFrame | None:
    """The manifests of the runs and stimulus sets among `sources`, without what is trained or calibrated on.

    None where there is none. Two manifests may share stimuli if they say the same of them.
    """
    paths = [Path(source) for source in sources if isinstance(source, str | Path)]
    found = [folder for path in paths for folder in _with_manifests(path)]
    if not found:
        return None
    rows = pl.concat([read_manifest(folder)[0].select(list(MANIFEST_SCHEMA)) for folder in dict.fromkeys(found)])
    rows = rows.filter(~pl.col("split").is_in(_NOT_SCORED).fill_null(False))
    return _without_repeats(rows)


def _with_manifests(path: Path) -> list[Path]:
    """The folder itself if it has a manifest, else the runs below it that have one."""
    if (path / MANIFEST).is_file():
        return [path]
    runs = sorted(path.rglob(_RUN)) if path.is_dir() else []
    return [run.parent for run in runs if (run.parent / MANIFEST).is_file()]


def _without_repeats(rows: pl.DataFrame) -> pl.DataFrame:
    """One row for each picture and name; without a digest, for each experiment, condition and image."""
    digest = pl.col("stimulus").is_not_null()
    return pl.concat(
        [
            _once(rows.filter(digest), ["stimulus", "image"]),
            _once(rows.filter(~digest), ["experiment", "condition", "image"]),
        ]
    )


def _once(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """The first row for each value of `keys`; refused where two rows have different labels."""
    labels = ("truth", "original", "group", "category", "gold", "gold_counts")
    unlabelled = pl.all_horizontal(pl.col(name).is_null() for name in labels)
    rows = rows.filter(~unlabelled | unlabelled.all().over(keys))  # of a closed test set: another manifest has labels
    texts = [pl.col(name).cast(pl.List(pl.String)).list.join(" ").alias(name) for name in ("gold", "gold_counts")]
    different = rows.with_columns(texts).unique([*keys, *labels])
    conflicts = different.filter(pl.struct(keys).is_duplicated())
    if conflicts.height:
        name = conflicts["image"][0] or conflicts["stimulus"][0]
        raise InvalidInput(f"a stimulus has one gold label and category, got two of {name}; score the runs apart")
    return rows.unique(keys, keep="first", maintain_order=True)


def gold_of(table: AlignedTrials, manifest: pl.DataFrame | None) -> Gold:
    """What the manifest says of each column; where it says nothing, the truth decides the group.

    The numbers of a gold label are in the order of the table's labels.
    """
    codes = {label: code for code, label in enumerate(table.labels) if label != ABSTAIN}
    truth = [str(label) for label in table.columns["truth"].fill_null("").to_list()]
    manifest = manifest_frame([]) if manifest is None else manifest
    places = manifest_rows(manifest, table.columns)
    rows = places.to_frame().join(manifest.with_row_index("row"), "row", "left", maintain_order="left")
    shares, counts = _labels(table, rows)
    groups = [found or _group(label) for found, label in zip(rows["group"], truth, strict=True)]
    original = [codes.get(found or label, -1) for found, label in zip(rows["original"], truth, strict=True)]
    simulated = [_is_simulated(text) for text in rows["parameters"]]
    return Gold(
        shares,
        counts,
        np.array(groups, dtype=np.str_),
        np.array(original, dtype=np.int64),
        rows["category"].fill_null(-1).to_numpy().astype(np.int64),
        np.array(simulated, dtype=np.bool_),
    )


def _is_simulated(parameters: str | None) -> bool:
    """Whether a manifest's parameters (JSON) say that the gold label is a simulated panel's."""
    return parameters is not None and '"gold"' in parameters and json.loads(parameters).get("gold") == "simulated"


def _group(truth: str) -> str:
    return "must-abstain" if truth == ABSTAIN else "must-act"


def _labels(table: AlignedTrials, rows: pl.DataFrame) -> tuple[FloatArray, IntArray]:
    """Shares and counts of each column, over the table's labels."""
    size = (rows.height, len(table.labels))
    shares, counts = np.full(size, np.nan), np.zeros(size, dtype=np.int64)
    for index, (gold, answers, image) in enumerate(rows.select("gold", "gold_counts", "image").iter_rows()):
        where = f"gold label of {image}"
        if answers is not None:
            counts[index] = answer_counts([_fitting(answers, table, where)], name=where)[0]
            shares[index] = divide(counts[index].astype(np.float64), np.full(size[1], float(counts[index].sum())))
        if gold is not None:
            given = distributions(_fitting(gold, table, where), name=where)
            if counts[index].any() and np.abs(given - shares[index]).max() > _TOLERANCE:
                raise InvalidInput(f"{where}: shares are those of its counts, got others; keep one of the two columns")
            shares[index] = shares[index] if counts[index].any() else given
    return shares, counts


def _fitting(values: Sequence[float], table: AlignedTrials, where: str) -> list[float]:
    """The numbers over the table's labels; without one for `abstain`, nobody refused."""
    labels = table.labels
    if len(values) == len(labels):
        return list(values)
    if ABSTAIN in labels and len(values) == len(labels) - 1:
        return [*values, 0]
    raise InvalidInput(
        f"{where} must have {len(labels)} numbers ({', '.join(labels[:12])}), got {len(values)}; name "
        "the label space of the set with --labels"
    )


def with_people(gold: Gold, table: AlignedTrials, people: Trials) -> Gold:
    """The gold labels with people's own answers in place of what the manifest has, where any of them answered."""
    names = people.observers.filter(pl.col("kind").is_in(PEOPLE))["observer"].to_list()
    real = np.isin(table.observers, names) & table.people & ~table.simulated
    played = np.isin(table.observers, names) & table.simulated
    for rows, simulated in ((played, True), (real, False)):  # real people's answers stand above simulated ones
        gold = _answered(gold, table.answers.response[rows], simulated)
    return gold


def _answered(gold: Gold, response: NDArray[np.int16], simulated: bool) -> Gold:
    counts = np.stack([(response == code).sum(axis=0) for code in range(gold.shares.shape[1])], axis=1)
    total = counts.sum(axis=1, keepdims=True)
    some = total > 0
    return replace(
        gold,
        counts=np.where(some, counts, gold.counts),
        shares=np.where(some, counts / np.maximum(total, 1), gold.shares),
        simulated=np.where(some[:, 0], simulated, gold.simulated),
    )


def category_cells(gold: Gold) -> list[StimulusGroup]:
    """The columns of each category, in order."""
    numbers = sorted({int(number) for number in gold.category if number >= 0})
    if not numbers:
        raise InvalidInput("categories are those of a stimulus set's manifest, got none; score a run on such a set")
    return [StimulusGroup(((CATEGORY, str(number)),), np.flatnonzero(gold.category == number)) for number in numbers]
