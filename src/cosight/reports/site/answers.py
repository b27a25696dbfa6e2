"""Everyone's answers to every stimulus, as the browser of disagreements shows them.

A set of answers has one label space. Its shards are the index of stimuli, one shard per observer (answers, confidence,
abstention), and one per group of stimuli (names, pictures, everyone's answers, label distributions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.arrays import BoolArray, FloatArray, IntArray
from cosight.errors import InvalidInput
from cosight.measures.answers import NO_ANSWER, NOT_SHOWN
from cosight.reports.site.shards import ShardWriter, pack
from cosight.scoring.arguments import ScoreSource, trial_sources
from cosight.statistics.gold_labels import Gold, gold_of, read_manifests
from cosight.statistics.outputs import Outputs
from cosight.statistics.rows import GOLD, PEOPLE, SIMULATED, SIMULATED_GOLD, check_names
from cosight.statistics.seeds import display_name, observer_name
from cosight.trials.formats import TrialSource, read
from cosight.trials.join import AlignedTrials, align, manifest_rows, natural_key, with_manifest
from cosight.trials.manifest import is_stimulus_set, manifest_folders, manifest_space, read_manifest
from cosight.trials.spaces import LabelSpace
from cosight.trials.table import Trials

__all__ = ["GROUP_SIZE", "TIE", "AnswerSet", "Picture", "Pool", "read_answers", "write_answers"]

Picture = tuple[str, str | None, str]
"""Thumbnail and original as paths in the site, and what the picture is in a task: query, target, other 1 ..."""

GROUP_SIZE = 200  # stimuli per shard
TIE = -3  # the code of a pool without a single commonest answer
_MOST_LABELS = 6  # of a label distribution that are shown
_SMALLEST = 0.01  # probability that is shown
_TRIALS = "trials"  # folder of a set that has answers to its tasks
_UNIT = 1e-4  # of probabilities that are stored


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Several people, or gold labels, as one observer: how many gave each label, or which share; (stimuli, labels)."""

    name: str  # people, simulated people, gold, simulated gold
    shares: FloatArray  # counts of answers, or label distributions of gold labels; 0 where there is no answer
    shown: BoolArray  # which stimuli any of them was shown, or which have a gold label

    @property
    def commonest(self) -> IntArray:
        """The commonest answer to each stimulus: `TIE` where there are several, `NO_ANSWER` where there is none."""
        highest = self.shares.max(axis=1, keepdims=True)
        single = (self.shares == highest).sum(axis=1) == 1
        codes = np.where(single, self.shares.argmax(axis=1), TIE)
        return np.where(highest[:, 0] > 0, codes, np.where(self.shown, NO_ANSWER, NOT_SHOWN))


@dataclass(frozen=True, slots=True, eq=False)
class AnswerSet:
    """The answers of observers who share a label space.

    Attributes:
        title: What it is called.
        sources: The sources that it was read from.
        trials: All trials.
        table: The aligned answers.
        outputs: Probabilities and abstentions.
        manifest: What is known of the stimuli; None where no source has a manifest.
        pools: People pooled, simulated people pooled, gold labels.
    """

    title: str
    sources: tuple[TrialSource, ...]
    trials: Trials
    table: AlignedTrials
    outputs: Outputs
    manifest: pl.DataFrame | None
    pools: tuple[Pool, ...]
    manifest_row: pl.Series = field(repr=False)

    @property
    def observers(self) -> list[dict[str, Any]]:
        """Facts of each observer in the order of codes, pools last."""
        declared = {row["observer"]: row for row in self.trials.observers.iter_rows(named=True)}
        facts = []
        for index, (name, kind) in enumerate(zip(self.table.observers, self.table.kinds, strict=True)):
            own, parts = declared.get(name, {}), observer_name(name)
            shown = self.table.rows[index] >= 0
            facts.append(
                {
                    "name": name, "title": display_name(name), "kind": kind,
                    "family": own.get("family"), "architecture": own.get("architecture"),
                    "seed": parts.seed if parts.seed is not None else own.get("seed"), "function": parts.function,
                    "trials": int(shown.sum()),
                    "answered": int((self.table.answers.response[index] >= 0).sum()),
                }
            )  # fmt: skip
        for pool in self.pools:
            facts.append({"name": pool.name, "title": pool.name, "kind": "pool", "trials": int(pool.shown.sum()),
                          "answered": int((pool.commonest >= 0).sum())})  # fmt: skip
        return facts


def read_answers(
    sources: Sequence[ScoreSource], *, labels: str | LabelSpace | None, role: Sequence[str], gamma: float
) -> list[AnswerSet]:
    """Read and align the answers of all sources, one set per label space.

    Args:
        sources: Runs, trials, stimulus sets, samples.
        labels: Label space of all of them; None for that of each source.
        role: Roles of the trials to use.
        gamma: An observer whose abstention exceeds this has abstained.

    Returns:
        One set of answers per label space, in the order of the sources.

    Raises:
        InvalidInput: There are no trials, or they cannot be read.
    """
    paths = trial_sources(sources)
    sets = [source for source in paths if is_stimulus_set(source)]
    with_trials = [source for source in paths if not is_stimulus_set(source)]
    if not with_trials:  # answers of judges to the tasks of a set are in its folder
        with_trials = [folder / _TRIALS for folder in manifest_folders(sets) if (folder / _TRIALS).is_dir()]
    if not with_trials:
        raise InvalidInput("a report needs trials, got none; name a run, a trial file or a sample (sample:NAME)")
    if labels is not None or len(with_trials) == 1:
        groups = [with_trials]
    else:
        by_classes: dict[frozenset[str], list[TrialSource]] = {}
        for source in with_trials:
            space = read(source).space
            by_classes.setdefault(frozenset(space.classes) if space else frozenset(), []).append(source)
        unknown = by_classes.pop(frozenset(), [])
        groups = list(by_classes.values())
        if unknown:
            groups = [[*groups[0], *unknown], *groups[1:]] if len(groups) == 1 else [*groups, unknown]
    found = []
    for group in groups:
        trials = read(*group, labels=labels)
        fitting = [source for source in sets if len(groups) == 1 or _fits(source, trials.space)]
        found.append(_align(trials, (*group, *fitting), role=role, gamma=gamma))
    return found


def _fits(source: TrialSource, space: LabelSpace | None) -> bool:
    """Return whether the gold labels of a stimulus set may be in a label space."""
    own = manifest_space(read_manifest(manifest_folders([source])[0])[1])
    return own is None or space is None or set(own.classes) == set(space.classes)


def _align(trials: Trials, sources: tuple[TrialSource, ...], *, role: Sequence[str], gamma: float) -> AnswerSet:
    notices: list[str] = []
    manifest = read_manifests(sources, trials.space, notices)
    if manifest is not None:
        trials = with_manifest(trials, manifest)
    table = align(trials, gamma=gamma, roles=role).with_notices(*notices)
    check_names(table.observers)
    outputs = Outputs.of(table, trials)
    gold = gold_of(table, manifest)
    rows = pl.Series("row", [None] * table.columns.height, dtype=pl.UInt32)
    if manifest is not None:
        rows = manifest_rows(manifest, table.columns)
    experiments = table.columns["experiment"].drop_nulls().unique().sort().to_list()
    title = ", ".join(experiments[:3]) + (" and more" if len(experiments) > 3 else "")
    return AnswerSet(title or "trials", sources, trials, table, outputs, manifest, tuple(_pools(table, gold)), rows)


def _pools(table: AlignedTrials, gold: Gold) -> list[Pool]:
    pools = []
    for name, members in ((PEOPLE, table.people & ~table.simulated), (SIMULATED, table.simulated)):
        if members.any():
            response = table.answers.response[members]
            counts = [(response == code).sum(axis=0) for code in range(len(table.labels))]
            shown = np.asarray((table.answers.response[members] != NOT_SHOWN).any(axis=0))
            pools.append(Pool(name, np.stack(counts, axis=1).astype(np.float64), shown))
    if gold.known.any():
        shares = np.where(gold.counts.any(axis=1, keepdims=True), gold.counts, np.nan_to_num(gold.distributions))
        pools.append(Pool(gold.name, shares.astype(np.float64), np.asarray(gold.known)))
    return pools


def write_answers(
    writer: ShardWriter, index: int, answers: AnswerSet, pictures: Mapping[int, Sequence[Picture]]
) -> dict[str, Any]:
    """Write the shards of a set of answers.

    Args:
        writer: Writes the shards.
        index: Number of the set, part of the names of its shards.
        answers: The set.
        pictures: The pictures of the stimuli that have some, by column.

    Returns:
        Facts of the set for the site's first shard.
    """
    table = answers.table
    columns, count = table.columns, table.columns.height
    names: dict[str, list[str | None]] = {}
    stimuli: dict[str, str] = {}
    for column in ("experiment", "condition"):
        values = sorted(columns[column].unique().to_list(), key=lambda text: natural_key(text or ""))
        names[column] = values
        codes = columns[column].replace_strict(
            {value: code for code, value in enumerate(values)}, return_dtype=pl.Int32
        )
        stimuli[column] = pack(codes.to_numpy().astype(np.int16))
    stimuli["level"] = pack(columns["level"].fill_null(-1).to_numpy().astype(np.int32))
    stimuli["truth"] = pack(table.answers.truth.astype(np.int16))
    stimuli["series"], stimuli["source"] = map(pack, _series(answers))
    stimuli["pictured"] = pack(np.array([column in pictures for column in range(count)], dtype=np.uint8))
    writer.write(f"{index}/stimuli", stimuli)
    observers = answers.observers
    everything = np.arange(count)
    likely: dict[int, NDArray[np.int16]] = {}  # the most probable labels, by observer
    given: dict[int, list[list[float]]] = {}  # how many people gave each label, by pool: code, count, code, count ...
    for number in range(len(table.observers)):
        shard: dict[str, str | None] = {"response": pack(table.answers.response[number].astype(np.int16))}
        own = None
        if answers.outputs.has_probabilities(number):
            own = answers.outputs.distributions(number, everything)
            known = np.asarray(~np.isnan(answers.outputs.class_probabilities(number, everything)).any(axis=1))
            own = np.where(known[:, None], own, np.nan)
            shard["confidence"] = pack(own.max(axis=1).astype(np.float32))
        abstention = answers.outputs.abstentions(number, everything)
        if not np.isnan(abstention).all():
            shard["abstention"] = pack(abstention.astype(np.float32))
        observers[number]["probabilities"] = own is not None
        observers[number]["abstains"] = "abstention" in shard
        writer.write(f"{index}/answers/{number}", shard)
        if own is not None:
            likely[number] = _largest(own)
    for number, pool in enumerate(answers.pools, start=len(table.observers)):
        shard = {"response": pack(pool.commonest.astype(np.int16))}
        total = pool.shares.sum(axis=1)
        agreement = np.divide(pool.shares.max(axis=1), total, out=np.full(count, np.nan), where=total > 0)
        shard["confidence"] = pack(agreement.astype(np.float32))
        writer.write(f"{index}/answers/{number}", shard)
        given[number] = [[value for code in np.flatnonzero(row)[np.argsort(-row[row > 0], kind="stable")].tolist()
                     for value in (code, float(row[code]))] for row in pool.shares]  # fmt: skip
    responses = np.vstack([table.answers.response, *(pool.commonest[None] for pool in answers.pools)]).astype(np.int16)
    facts = columns.select("image", "stimulus").to_dict(as_series=False)
    reasons = _reasons(answers)
    for group, start in enumerate(range(0, count, GROUP_SIZE)):
        part = slice(start, start + GROUP_SIZE)
        writer.write(
            f"{index}/group/{group}",
            {
                "image": facts["image"][part],
                "stimulus": facts["stimulus"][part],
                "pictures": [pictures.get(column, ()) for column in range(count)[part]],
                "responses": pack(responses[:, part]),
                "likely": {number: pack(own[part]) for number, own in likely.items()},
                "given": {number: own[part] for number, own in given.items()},
                "reasons": {number: own[part] for number, own in reasons.items()},
            },
        )
    return {
        "title": answers.title,
        "labels": list(table.labels),
        "observers": observers,
        "stimuli": count,
        "groupSize": GROUP_SIZE,
        "pictures": len(pictures),
        "experiments": names["experiment"],
        "conditions": names["condition"],
        "notices": list(table.notices),
        "gold": [pool.name for pool in answers.pools if pool.name in (GOLD, SIMULATED_GOLD)],
    }


def _reasons(answers: AnswerSet) -> dict[int, list[str | None]]:
    """Return the reasons that observers gave with their answers, by observer, one per column; most give none."""
    given = answers.trials.frame["extra"].str.json_path_match("$.reason")
    if given.null_count() == len(given):
        return {}
    texts = np.array([*given.to_list(), None], dtype=object)  # the last is that of row -1, where there is no trial
    found = {number: texts[rows].tolist() for number, rows in enumerate(answers.table.rows)}
    return {number: own for number, own in found.items() if any(text is not None for text in own)}


def _largest(distributions: FloatArray) -> NDArray[np.int16]:
    """Return the most probable labels of each row: (rows, labels, 2), code and probability in units of `_UNIT`."""
    known = np.nan_to_num(distributions)
    order = np.argsort(-known, axis=1, kind="stable")[:, :_MOST_LABELS]
    shares = np.take_along_axis(known, order, axis=1)
    return np.stack([order, np.where(shares >= _SMALLEST, np.rint(shares / _UNIT), 0)], axis=2).astype(np.int16)


def _series(answers: AnswerSet) -> tuple[IntArray, IntArray]:
    """Return the series and the source of each stimulus, as numbers.

    The source is the parent in the manifest, else the name of the image. A series has the versions of one source, at
    the levels of a condition, or in several conditions; it is -1 for a stimulus without others.
    """
    columns = answers.table.columns.select("experiment", "condition", "level", "image", "stimulus")
    if answers.manifest is not None:
        parents = answers.manifest["parent"]
        columns = columns.with_columns(
            parent=parents.gather(answers.manifest_row.fill_null(0)).set(answers.manifest_row.is_null(), None)
        )
        source = pl.coalesce("parent", "image", "stimulus")
    else:
        source = pl.coalesce("image", "stimulus")
    columns = columns.with_columns(source=source)
    levels = pl.col("level").n_unique().over("experiment", "condition", "source") > 1
    columns = columns.with_columns(within=pl.when(levels).then(pl.col("condition").fill_null("")))
    key = ("experiment", "source", "within")
    series = pl.when(pl.len().over(key) > 1).then(pl.struct(key).rank("dense").cast(pl.Int32)).otherwise(-1)
    numbers = columns.select(series=series, source=pl.struct("experiment", "source").rank("dense").cast(pl.Int32))
    return tuple(np.asarray(column.to_numpy(), dtype=np.int32) for column in numbers)  # type: ignore[return-value]
