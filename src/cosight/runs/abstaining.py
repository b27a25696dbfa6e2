"""Observers that can refuse, from what a run keeps: `MODEL#knn` answers as the model does, with an abstention.

An abstention function learns from the set's training images (`split` train), its strangeness is scaled on the
calibration split, and both are applied to the images that are trials. Functions that need the model itself are watched
while it answers; all others follow from the stored logits and features, so the model is not run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.arrays import FloatArray
from cosight.errors import CosightError, InvalidInput
from cosight.models.abstention import Abstention, MinMax, abstention
from cosight.models.model import Model, ModelOutputs, probe_images
from cosight.models.torch_models import TorchModel
from cosight.runs.folder import RunFolder
from cosight.runs.observers import ModelObserver, Watch
from cosight.runs.run_plan import RunPlan
from cosight.stimuli.images import Floats
from cosight.trials.mapping import LabelMap
from cosight.trials.parquet import write_table
from cosight.trials.table import make_trials

__all__ = ["Derived", "check_abstain", "derived", "watches"]

_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True)
class Derived:
    """A function applied to a model: the observer, or the reason why it does not go with this model."""

    function: str
    observer: str | None
    identity: Mapping[str, Any]
    scale: tuple[float, float] | None = None  # strangeness that is abstention 0, and 1
    reason: str | None = None


def check_abstain(names: Sequence[str], stimuli: pl.DataFrame) -> tuple[str, ...]:
    """The functions by their own names; refused where a set lacks the splits that they need."""
    splits = set(stimuli["split"])
    entries = [abstention(name) for name in names]
    for entry in entries:
        if {"features", "labels"} & set(entry.needs):
            _need_split(splits, "train", f"{entry.name} learns from training images")
        _need_split(splits, "calibration", "abstention is scaled on images of its own")
    return tuple(dict.fromkeys(entry.name for entry in entries))


def _need_split(splits: set[str], split: str, why: str) -> None:
    if split not in splits:
        raise InvalidInput(f"{why}, the set has no split {split!r}; `cosight build` makes sets with splits")


def watches(model: Model, names: Sequence[str]) -> tuple[dict[str, Watch], dict[str, str]]:
    """What is to be watched while this model answers, and why other functions do not go with it."""
    found: dict[str, Watch] = {}
    reasons: dict[str, str] = {}
    for name in names:
        entry = abstention(name)
        if "members" in entry.needs:
            found[name] = _members_watch(entry)
        elif "model" in entry.needs:
            found[name] = _model_watch(entry, model)
        else:
            continue
        try:
            probe = probe_images(model.preprocessing.size)
            found[name](probe, model.answer(probe))
        except CosightError as error:
            del found[name]
            reasons[name] = str(error)
    return found, reasons


def _members_watch(entry: Abstention) -> Watch:
    def watch(batch: Floats, given: ModelOutputs) -> FloatArray:
        if given.members is None:
            raise InvalidInput(f"{entry.name} needs an ensemble; name one with ensemble:A+B")
        return entry.function.fit(None, None, None).strangeness(None, given.members)

    return watch


def _model_watch(entry: Abstention, model: Model) -> Watch:
    def watch(batch: Floats, given: ModelOutputs) -> FloatArray:
        if not isinstance(model, TorchModel):
            raise InvalidInput(f"{entry.name} needs a model in torch, got {model.name}")
        logits = entry.function.logits(model, batch)  # type: ignore[attr-defined]
        return entry.function.fit(None, None, None).strangeness(None, logits)

    return watch


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """What a run keeps of a model, by split."""

    arrays: Mapping[str, NDArray[Any]]
    logits: FloatArray  # (rows, classes of the run)
    rows: Mapping[str, NDArray[np.int64]]  # train, calibration, test
    labels: NDArray[np.int64]  # of the training rows
    skipped: list[int]  # rows that could not be shown

    def part(self, name: str, split: str) -> NDArray[Any] | None:
        """An array's rows of a split; None where there is no such array."""
        whole = self.logits if name == "logits" else self.arrays.get(name)
        return None if whole is None else whole[self.rows[split]]


def derived(folder: RunFolder, plan: RunPlan, who: ModelObserver) -> Iterator[Derived]:
    """Write the trials of every function that goes with this model; those that are there are found again."""
    kept = _kept(folder, plan, who)
    for name in plan.abstain:
        entry = abstention(name)
        settings = {"abstention": entry.name, "settings of abstention": entry.settings}
        identity = {**who.identity, **settings, "skipped": kept.skipped}  # an image less may change all abstentions
        reason = who.unfit.get(entry.name) or _lacks(entry, kept)
        if reason:
            yield Derived(entry.name, None, identity, reason=reason)
            continue
        strange = _strangeness(entry, kept)
        scale = MinMax.fit(strange["calibration"])
        observer = f"{who.name}#{entry.name}"
        refusing = dict(zip(kept.rows["test"].tolist(), scale.abstention(strange["test"]).tolist(), strict=True))
        _write(folder, plan, who, observer, identity, refusing)
        yield Derived(entry.name, observer, identity, (scale.low, scale.high))


def _lacks(entry: Abstention, kept: _Kept) -> str | None:
    if "features" in entry.needs and "features" not in kept.arrays:
        return f"{entry.name} needs features, which this model does not give"
    return None


def _kept(folder: RunFolder, plan: RunPlan, who: ModelObserver) -> _Kept:
    arrays = folder.features(who.name)
    frame = plan.shown.frame
    shown = np.isfinite(arrays["logits"]).all(axis=1)
    index = {name: place for place, name in enumerate(plan.space.classes)}
    labels = np.array([index.get(truth, -1) for truth in frame["truth"]])
    split = np.array([s if s in ("train", "calibration") else "test" for s in frame["split"]])
    rows = {name: np.flatnonzero(shown & (split == name)) for name in ("train", "calibration", "test")}
    rows["train"] = rows["train"][labels[rows["train"]] >= 0]
    return _Kept(
        arrays,
        _class_logits(arrays["logits"], who.mapping),
        rows,
        labels[rows["train"]],
        np.flatnonzero(~shown).tolist(),
    )


def _class_logits(logits: NDArray[Any], mapping: LabelMap) -> FloatArray:
    """Logits over the run's classes: the model's own where each has one output, else of what the mapping makes."""
    if all(len(group) == 1 for group in mapping.groups):
        return logits[:, [group[0] for group in mapping.groups]].astype(np.float64)
    raw = mapping.apply(ModelOutputs(np.nan_to_num(logits)).probabilities)
    return np.asarray(np.log(np.maximum(raw, _TINY)))


def _strangeness(entry: Abstention, kept: _Kept) -> dict[str, FloatArray]:
    """Of the calibration split and of the trials."""
    if entry.needs[0] in ("model", "members"):
        stored = kept.arrays[f"strangeness.{entry.name}"]
        return {split: stored[kept.rows[split]] for split in ("calibration", "test")}
    fitted = entry.function.fit(kept.part("features", "train"), kept.part("logits", "train"), kept.labels)
    return {
        split: fitted.strangeness(kept.part("features", split), kept.part("logits", split))
        for split in ("calibration", "test")
    }


def _write(
    folder: RunFolder,
    plan: RunPlan,
    who: ModelObserver,
    observer: str,
    identity: Mapping[str, Any],
    refusing: Mapping[int, float],
) -> None:
    """The model's trials with an abstention, shard by shard."""
    for shard in plan.shards:
        key = plan.key(identity, shard)
        there, base = folder.done(observer, shard.index), folder.done(who.name, shard.index)
        if base is None or (there is not None and there.key == key):
            continue
        rows = [row for row in shard.rows if row in refusing]
        frame = _table(folder, who.name, shard.index)
        told = frame.with_columns(
            observer=pl.lit(observer), abstention=pl.Series([refusing[row] for row in rows], dtype=pl.Float64)
        )
        job = {"job": key, "images": base.images, "skipped": base.skipped}
        trials = make_trials(told, source=observer, space=plan.space, sources=[job])
        write_table(trials, folder.trial_file(observer, shard.index), durable=True)


def _table(folder: RunFolder, observer: str, shard: int) -> pl.DataFrame:
    return pl.read_parquet(folder.trial_file(observer, shard), glob=False)
