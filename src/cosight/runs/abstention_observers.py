"""Observers that can abstain, from what a run stores: `MODEL#knn` answers as the model does, with an abstention.

An abstention function learns from the set's training images (`split` train), its strangeness score is scaled on the
calibration split, and both are applied to the images that are trials. Functions that need the model itself score images
while the model answers; all others use the stored logits and features, so the model is not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.arrays import FloatArray
from cosight.errors import CosightError, InvalidInput
from cosight.models.abstention import Abstention, MinMax, abstention
from cosight.models.model import Model, ModelOutputs, probe_images
from cosight.models.torch_models import TorchModel
from cosight.stimuli.images import Floats
from cosight.trials.mapping import LabelMap
from cosight.trials.parquet import write_table
from cosight.trials.table import make_trials

if TYPE_CHECKING:
    from cosight.runs.folder import RunFolder
    from cosight.runs.observers import ModelObserver
    from cosight.runs.run_plan import RunPlan

__all__ = ["AbstentionObserver", "StrangenessFunction", "derive_abstention_observers", "strangeness_functions"]

StrangenessFunction = Callable[[Floats, ModelOutputs], NDArray[Any]]  # a batch and its outputs -> one score per image
_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True)
class AbstentionObserver:
    """A model with an abstention function, or the reason why the model does not support the function."""

    function: str
    observer: str | None
    identity: Mapping[str, Any]
    scale: tuple[float, float] | None = None  # strangeness of abstention 0 and 1
    reason: str | None = None


def strangeness_functions(model: Model, names: Sequence[str]) -> tuple[dict[str, StrangenessFunction], dict[str, str]]:
    """Return the abstention functions that score images while this model answers, and why it does not support others.

    Args:
        model: The model. Each function is tried on two images.
        names: Abstention functions of the run; those that need no model are in neither result.
    """
    functions: dict[str, StrangenessFunction] = {}
    unsupported: dict[str, str] = {}
    for name in names:
        entry = abstention(name)
        if "members" in entry.needs:
            functions[name] = _score_members(entry)
        elif "model" in entry.needs:
            functions[name] = _score_with_model(entry, model)
        else:
            continue
        try:
            images = probe_images(model.preprocessing.size)
            functions[name](images, model.answer(images))
        except CosightError as error:
            del functions[name]
            unsupported[name] = str(error)
    return functions, unsupported


def _score_members(entry: Abstention) -> StrangenessFunction:
    def score(batch: Floats, outputs: ModelOutputs) -> FloatArray:
        if outputs.members is None:
            raise InvalidInput(f"{entry.name} needs an ensemble; name one with ensemble:A+B")
        return entry.function.fit(None, None, None).strangeness(None, outputs.members)

    return score


def _score_with_model(entry: Abstention, model: Model) -> StrangenessFunction:
    def score(batch: Floats, outputs: ModelOutputs) -> FloatArray:
        if not isinstance(model, TorchModel):
            raise InvalidInput(f"{entry.name} needs a model in torch, got {model.name}")
        logits = entry.function.logits(model, batch)  # type: ignore[attr-defined]
        return entry.function.fit(None, None, None).strangeness(None, logits)

    return score


@dataclass(frozen=True, slots=True, eq=False)
class _StoredOutputs:
    """What a run stores of a model, by split."""

    arrays: Mapping[str, NDArray[Any]]
    logits: FloatArray  # (rows, classes of the run)
    rows: Mapping[str, NDArray[np.int64]]  # train, calibration, test
    labels: NDArray[np.int64]  # of the training rows
    skipped: list[int]  # rows that could not be shown

    def part(self, name: str, split: str) -> NDArray[Any] | None:
        """Return the rows of an array in a split; None where there is no such array."""
        array = self.logits if name == "logits" else self.arrays.get(name)
        return None if array is None else array[self.rows[split]]


def derive_abstention_observers(folder: RunFolder, plan: RunPlan, model: ModelObserver) -> Iterator[AbstentionObserver]:
    """Write the trials of every abstention function that the model supports; existing trials are left as they are.

    If all functions are requested, one that cannot be fitted to the set is left out: `knn` to few training images.
    """
    stored = _read_outputs(folder, plan, model)
    for name in plan.abstain:
        entry = abstention(name)
        settings = {"abstention": entry.name, "settings of abstention": entry.settings}
        identity = {**model.identity, **settings, "skipped": stored.skipped}  # a missing image may change every score
        reason = model.unsupported.get(entry.name)
        if reason is None and "features" in entry.needs and "features" not in stored.arrays:
            reason = f"{entry.name} needs features, which this model does not give"
        if reason is not None:
            yield AbstentionObserver(entry.name, None, identity, reason=reason)
            continue
        try:
            scores = _strangeness_scores(entry, stored)
            scale = MinMax.fit(scores["calibration"])
        except InvalidInput as error:
            if not plan.abstain_all:
                raise
            yield AbstentionObserver(entry.name, None, identity, reason=str(error))
            continue
        observer = f"{model.name}#{entry.name}"
        abstentions = dict(zip(stored.rows["test"].tolist(), scale.abstention(scores["test"]).tolist(), strict=True))
        _write_trials(folder, plan, model.name, observer, identity, abstentions)
        yield AbstentionObserver(entry.name, observer, identity, (scale.low, scale.high))


def _read_outputs(folder: RunFolder, plan: RunPlan, model: ModelObserver) -> _StoredOutputs:
    arrays = folder.features(model.name)
    frame = plan.stimuli.frame
    was_shown = np.isfinite(arrays["logits"]).all(axis=1)
    codes = {name: code for code, name in enumerate(plan.space.classes)}
    labels = np.array([codes.get(truth, -1) for truth in frame["truth"]])
    splits = np.array([split if split in ("train", "calibration") else "test" for split in frame["split"]])
    rows = {name: np.flatnonzero(was_shown & (splits == name)) for name in ("train", "calibration", "test")}
    rows["train"] = rows["train"][labels[rows["train"]] >= 0]
    return _StoredOutputs(
        arrays,
        _class_logits(arrays["logits"], model.mapping),
        rows,
        labels[rows["train"]],
        np.flatnonzero(~was_shown).tolist(),
    )


def _class_logits(logits: NDArray[Any], mapping: LabelMap) -> FloatArray:
    """Return logits of the run's classes: the model's own where each has one output, else logs of probabilities."""
    if all(len(group) == 1 for group in mapping.groups):
        return logits[:, [group[0] for group in mapping.groups]].astype(np.float64)
    probabilities = mapping.apply(ModelOutputs(np.nan_to_num(logits)).probabilities)
    return np.asarray(np.log(np.maximum(probabilities, _TINY)))


def _strangeness_scores(entry: Abstention, stored: _StoredOutputs) -> dict[str, FloatArray]:
    """Return strangeness scores of the calibration split and of the trials."""
    if entry.needs[0] in ("model", "members"):
        scores = stored.arrays[f"strangeness.{entry.name}"]
        return {split: scores[stored.rows[split]] for split in ("calibration", "test")}
    fitted = entry.function.fit(stored.part("features", "train"), stored.part("logits", "train"), stored.labels)
    return {
        split: fitted.strangeness(stored.part("features", split), stored.part("logits", split))
        for split in ("calibration", "test")
    }


def _write_trials(
    folder: RunFolder,
    plan: RunPlan,
    model: str,
    observer: str,
    identity: Mapping[str, Any],
    abstentions: Mapping[int, float],
) -> None:
    """Write the model's trials with an abstention (row -> abstention), shard by shard."""
    for shard in plan.shards:
        key = plan.key(identity, shard)
        written, base = folder.read_job(observer, shard.index), folder.read_job(model, shard.index)
        if base is None or (written is not None and written.key == key):
            continue
        values = [abstentions[row] for row in shard.rows if row in abstentions]
        frame = pl.read_parquet(folder.trial_file(model, shard.index), glob=False).with_columns(
            observer=pl.lit(observer), abstention=pl.Series(values, dtype=pl.Float64)
        )
        job = {"job": key, "images": base.images, "skipped": base.skipped}
        trials = make_trials(frame, source=observer, space=plan.space, sources=[job])
        write_table(trials, folder.trial_file(observer, shard.index), durable=True)
