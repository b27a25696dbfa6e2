"""What stimulus manifests say of each stimulus: gold labels, group, original class and category.

Gold labels are people's label distributions: fractions (`gold`) or numbers of answers (`gold_counts`), over the classes
of the label space and perhaps `abstain`. Manifests come from run folders, which keep a copy, and from stimulus sets.
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
from cosight.statistics.rows import GOLD, SIMULATED_GOLD
from cosight.trials.join import AlignedTrials, StimulusGroup, link_groups, manifest_rows
from cosight.trials.manifest import (
    is_stimulus_set,
    manifest_folders,
    manifest_frame,
    manifest_space,
    order_gold,
    read_manifest,
)
from cosight.trials.parquet import OBSERVERS_FILE, read_space
from cosight.trials.spaces import ABSTAIN, LabelSpace
from cosight.trials.table import PEOPLE, Trials

__all__ = ["CATEGORY", "Gold", "category_groups", "gold_of", "read_manifests", "with_people"]

CATEGORY = "category"  # key of the groups of `category_groups`
_FACTS = ("image", "group", "original", "category", "gold", "gold_counts", "parameters")
_NOT_SCORED = ("train", "calibration")
_TOLERANCE = 1e-3  # between a gold distribution and the counts behind it: published distributions are rounded


@dataclass(frozen=True, slots=True, eq=False)
class Gold:
    """What is known of each column of a table besides its truth."""

    distributions: FloatArray  # (columns, labels): people's label distributions, nan where unknown
    counts: IntArray  # (columns, labels): the answers behind them, 0 where only the distribution is known
    group: NDArray[np.str_]  # (columns,): must-act, must-abstain, uncertain
    original: IntArray  # (columns,): code of the class a picture was made from, -1 for none of the classes
    category: IntArray  # (columns,): -1 for none
    simulated: BoolArray  # (columns,): where the distribution is that of simulated people
    listed: BoolArray  # (columns,): which stimuli a manifest has

    @property
    def known(self) -> BoolArray:
        """The columns that have a gold label."""
        return np.asarray(~np.isnan(self.distributions).any(axis=1))

    @property
    def name(self) -> str:
        """The name in score rows, which says so where any label is simulated."""
        return SIMULATED_GOLD if (self.simulated & self.known).any() else GOLD


def read_manifests(
    sources: Iterable[object],
    space: LabelSpace | None = None,
    notices: list[str] | None = None,
    *,
    without: Sequence[str] = (),
) -> pl.DataFrame | None:
    """Read the manifests of the runs and stimulus sets among `sources`, without training and calibration stimuli.

    Two manifests may share stimuli if they have the same labels.

    Args:
        sources: Paths and other sources of trials. A folder without a manifest is searched for runs that have one.
        space: The label space to order gold labels by; None leaves them as they are. Those of a set that names no label
            space are taken to be in this order, those of a run in the order of its trials.
        notices: Where to append what a reader should know.
        without: Columns that are not needed: they are null, which takes no memory.

    Returns:
        One row per stimulus, or None where no source has a manifest.

    Raises:
        InvalidInput: Two manifests have different labels for one stimulus, or gold labels are about other classes.
    """
    parts = []
    for folder in manifest_folders(sources):
        part, facts = read_manifest(folder, without=without)
        if space is not None:
            own = manifest_space(facts) or _run_space(folder)
            part = order_gold(part, own, space)
            if own is None and notices is not None and (part["gold"].count() or part["gold_counts"].count()):
                notices.append(
                    f"{folder} does not name the classes of its gold labels, taken to be in the order {space.in_words}"
                )
        parts.append(part)
    if not parts:
        return None
    rows = pl.concat(parts, how="diagonal_relaxed") if len(parts) > 1 else parts[0]
    if rows["split"].count():
        rows = rows.filter(~pl.col("split").is_in(_NOT_SCORED).fill_null(False))
    digest = pl.col("stimulus").is_not_null()
    if not rows["stimulus"].has_nulls():
        return _drop_repeats(rows, ["stimulus", "image"])
    return pl.concat(
        [
            _drop_repeats(rows.filter(digest), ["stimulus", "image"]),
            _drop_repeats(rows.filter(~digest), ["experiment", "condition", "image"]),
        ]
    )


def _run_space(folder: Path) -> LabelSpace | None:
    """Return the label space of a run's trials; None for another folder."""
    tables = sorted((folder / "trials").rglob("*.parquet")) if not is_stimulus_set(folder) else []
    spaces = (read_space(path) for path in tables if path.name != OBSERVERS_FILE)
    return next(spaces, None)


def _drop_repeats(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Return the first row for each value of `keys`; raise where two rows have different labels."""
    if rows[keys[0]].n_unique() == rows.height or not rows.select(keys).is_duplicated().any():
        return rows
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
    """Return what the manifest says of each column of a table.

    Args:
        table: Aligned trials. The numbers of a gold label are in the order of its labels.
        manifest: One row per stimulus; None for no manifest. For stimuli that it does not have, the truth decides the
            group: must-abstain where it is `abstain`, else must-act.
    """
    codes = {label: code for code, label in enumerate(table.labels) if label != ABSTAIN}
    manifest = manifest_frame([]) if manifest is None else manifest
    known = manifest.select(*_FACTS, pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"))
    rows = manifest_rows(manifest, table.columns).to_frame().join(known, "row", "left", maintain_order="left")
    distributions, counts = _label_distributions(table, rows)
    truth = pl.lit(table.columns["truth"])
    by_truth = pl.when(truth == ABSTAIN).then(pl.lit("must-abstain")).otherwise(pl.lit("must-act"))
    group, original = (pl.when(pl.col(name) != "").then(pl.col(name)) for name in ("group", "original"))
    facts = rows.select(
        pl.col("category").fill_null(-1),
        group=pl.coalesce(group, by_truth),
        original=pl.coalesce(original, truth).replace_strict(codes, default=-1, return_dtype=pl.Int64),
        has_gold=pl.col("parameters").str.contains('"gold"', literal=True).fill_null(False),
        listed=pl.col("row").is_not_null(),
    )
    simulated = np.zeros(facts.height, dtype=np.bool_)
    for row in np.flatnonzero(facts["has_gold"].to_numpy()).tolist():
        simulated[row] = json.loads(rows["parameters"][row]).get("gold") == "simulated"
    names = facts["group"].unique().sort()
    return Gold(
        distributions,
        counts,
        np.array(names.to_list(), dtype=np.str_)[facts["group"].rank("dense").to_numpy() - 1],
        facts["original"].to_numpy(),
        facts["category"].to_numpy(),
        simulated,
        facts["listed"].to_numpy(),
    )


def _label_distributions(table: AlignedTrials, rows: pl.DataFrame) -> tuple[FloatArray, IntArray]:
    """Return the gold distribution and the counts of each row, over the table's labels."""
    size = (rows.height, len(table.labels))
    if not rows["gold"].count() and not rows["gold_counts"].count():  # takes no memory
        return np.broadcast_to(np.nan, size), np.broadcast_to(np.int64(0), size)
    distribution, counts = np.full(size, np.nan), np.zeros(size, dtype=np.int64)
    for index, (gold, answers, image) in enumerate(rows.select("gold", "gold_counts", "image").iter_rows()):
        name = f"gold label of {image}"
        if answers is not None:
            counts[index] = answer_counts([_over_labels(answers, table.labels, name)], name=name)[0]
            total = np.full(size[1], float(counts[index].sum()))
            distribution[index] = divide(counts[index].astype(np.float64), total)
        if gold is not None:
            stored = distributions(_over_labels(gold, table.labels, name), name=name)
            if not counts[index].any():
                distribution[index] = stored
            elif np.abs(stored - distribution[index]).max() > _TOLERANCE:
                raise InvalidInput(f"{name}: gold and gold_counts disagree; keep one of the two columns")
    return distribution, counts


def _over_labels(values: Sequence[float], labels: Sequence[str], name: str) -> list[float]:
    """Return one number per label; `abstain` gets 0 where the values have none for it."""
    if len(values) == len(labels):
        return list(values)
    if ABSTAIN in labels and len(values) == len(labels) - 1:
        return [*values, 0]
    raise InvalidInput(
        f"{name} must have {len(labels)} numbers ({', '.join(labels[:12])}), got {len(values)}; name "
        "the label space of the set with --labels"
    )


def with_people(gold: Gold, table: AlignedTrials, people: Trials) -> Gold:
    """Return the gold labels with people's own answers in place of the manifest's, where any of them answered.

    Args:
        gold: The manifest's gold labels.
        table: Aligned trials, with these people's among them.
        people: Trials of people. Answers of real people take precedence over those of simulated people.
    """
    names = people.observers.filter(pl.col("kind").is_in(PEOPLE))["observer"].to_list()
    listed = np.isin(table.observers, names)
    for observers, simulated in ((table.simulated, True), (table.people & ~table.simulated, False)):
        response = table.answers.response[listed & observers]
        counts = np.stack([(response == code).sum(axis=0) for code in range(gold.distributions.shape[1])], axis=1)
        total = counts.sum(axis=1, keepdims=True)
        answered = total > 0
        gold = replace(
            gold,
            counts=np.where(answered, counts, gold.counts),
            distributions=np.where(answered, counts / np.maximum(total, 1), gold.distributions),
            simulated=np.where(answered[:, 0], simulated, gold.simulated),
        )
    return gold


def category_groups(table: AlignedTrials, gold: Gold) -> list[StimulusGroup]:
    """Return the columns of each category, in order of the categories.

    Args:
        table: Aligned trials.
        gold: What is known of its columns.

    Raises:
        InvalidInput: No stimulus has a category.
    """
    numbers = sorted({int(number) for number in gold.category if number >= 0})
    if not numbers:
        raise InvalidInput("categories are those of a stimulus set's manifest, got none; score a run on such a set")
    groups = [StimulusGroup(((CATEGORY, str(number)),), np.flatnonzero(gold.category == number)) for number in numbers]
    return link_groups(table, groups)
