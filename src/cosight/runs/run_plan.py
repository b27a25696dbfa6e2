"""The plan of a run: which stimuli, in which label space, in which shards, and the key of each shard.

`plan_run` makes the plan of `evaluate`, `plan_probe_training` that of a linear probe's training images.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import polars as pl

from cosight.arrays import whole_number
from cosight.benchmarks import Benchmark, benchmarks
from cosight.benchmarks.altering import check_alteration_options, check_every_class, photo_alterations
from cosight.benchmarks.building.source_photos import read_photos
from cosight.devices import Precision
from cosight.errors import InvalidInput, did_you_mean
from cosight.files import MISSING_FILE, nearest_path
from cosight.models.abstention import Abstention, abstention, abstentions
from cosight.runs.folder import SCHEMA
from cosight.runs.stimulus_sources import StimulusSource, digests, generated_stimuli, stored_stimuli
from cosight.stimuli.distortions import Geometry
from cosight.stimuli.images import FileFormat
from cosight.stimuli.sets import StimulusSet, check_splits, read_set, sample, sample_per_class, with_classes
from cosight.trials.manifest import manifest_space, order_gold
from cosight.trials.mapping import How
from cosight.trials.spaces import LabelSpace, guess_label_space, label_space, label_spaces

if TYPE_CHECKING:
    from cosight.runs.execution import OnError

__all__ = ["RunPlan", "Shard", "check_request", "digest_of", "plan_probe_training", "plan_run"]

_SHARDS = 64  # per run; an interrupted run repeats at most one of them per observer
_SMALLEST, _LARGEST = 64, 2048  # images per shard: few files for small sets, little memory for large ones
_TRAINING_SPLITS = ("train", "calibration")  # abstention functions learn from these; they are not trials


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows of the stimuli that are answered and written together."""

    index: int
    rows: range


@dataclass(frozen=True)
class RunPlan:
    """Stimuli, the label space of the answers, and everything else that determines the bytes of a run."""

    stimuli: StimulusSource
    space: LabelSpace
    how: How = "mean"
    batch: int = 32
    precision: Precision = "float32"
    features: bool = False  # whether features are stored
    abstain: tuple[str, ...] = ()  # abstention functions
    abstain_all: bool = False  # whether these are all that there are, and those that are impossible are left out
    limit: int | None = None  # of the number of images, and the seed that selects them
    limit_seed: int | None = None
    per_class: int | None = None  # limit of the number of images per class, selected by the same seed
    option_seed: int = 0  # of the order of options that vision-language models are shown
    notices: tuple[str, ...] = ()  # what the user should know about the plan

    def __post_init__(self) -> None:
        whole_number(self.batch, name="--batch", least=1)
        if not self.stimuli.frame.height:
            raise InvalidInput("a run needs at least one stimulus, got none")

    @cached_property
    def shards(self) -> tuple[Shard, ...]:
        """All rows in order, in shards of whole batches."""
        count = self.stimuli.frame.height
        at_least = min(max(-(-count // _SHARDS), _SMALLEST), _LARGEST)
        size = -(-at_least // self.batch) * self.batch
        starts = range(0, count, size)
        return tuple(Shard(index, range(start, min(start + size, count))) for index, start in enumerate(starts))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What must be equal to resume a run in one folder, as JSON."""
        stimuli = {"count": self.stimuli.frame.height, "digest": digest_of(self._row_digests), **self.stimuli.settings}
        return {
            "stimuli": stimuli,
            "labels": {"name": self.space.name, "answers": list(self.space.answers)},
            "how": self.how,
            "batch": self.batch,
            "precision": self.precision,
            "features": self.stores_arrays,
        }

    @property
    def stores_arrays(self) -> bool:
        """Whether logits are stored, and features where the model has them."""
        return self.features or bool(self.abstain)

    @cached_property
    def is_trial(self) -> tuple[bool, ...]:
        """Whether each row is a trial: all but those that abstention functions learn from."""
        return tuple(split not in _TRAINING_SPLITS for split in self.stimuli.frame["split"])

    def key(self, identity: Mapping[str, Any], shard: Shard) -> str:
        """Return the sha256 of everything that changes an observer's answers to a shard, or their rows."""
        return digest_of([SCHEMA, identity, self.space.answers, self.stores_arrays, self._shard_digests[shard.index]])

    @cached_property
    def _row_digests(self) -> tuple[str, ...]:
        """One digest per shard of its manifest rows, without the column that may be known only after reading."""
        frame = self.stimuli.frame
        texts = (frame[shard.rows.start : shard.rows.stop].drop("stimulus").write_ndjson() for shard in self.shards)
        return tuple(hashlib.sha256(text.encode()).hexdigest() for text in texts)

    @cached_property
    def _shard_digests(self) -> tuple[str, ...]:
        """One digest per shard of its manifest rows and of the files they are made from."""
        stamps = self.stimuli.stamps
        parts = zip(self.shards, self._row_digests, strict=True)
        return tuple(digest_of([rows, stamps[shard.rows.start : shard.rows.stop]]) for shard, rows in parts)


def digest_of(value: Any) -> str:
    """Return the sha256 of a value's JSON, whatever the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def check_request(
    on: str | Path,
    *,
    source: str | Path | None,
    labels: str | LabelSpace | None,
    how: How,
    precision: Precision,
    probe: str | Path | None,
    tiles: str | Path | None,
    format: FileFormat,  # noqa: A002 (the option's name)
    abstain: Sequence[str],
    geometry: Geometry | None = None,
) -> None:
    """Raise where an option of `evaluate` is wrong or a path does not exist; no image is read, no model loaded."""
    for option, value, choices in (
        ("--how", how, get_args(How)),
        ("--format", format, get_args(FileFormat)),
        ("--precision", precision, get_args(Precision)),
    ):
        if value not in choices:
            raise InvalidInput(f"{option} must be {' or '.join(choices)}, got {value!r}")
    benchmark = _find_benchmark(on, source)
    check_alteration_options(benchmark, tiles=tiles, geometry=geometry)
    for option, path in (("--source", source), ("--tiles", tiles), ("--probe", probe)):
        if path is not None and not Path(path).exists():
            raise InvalidInput(f"{option} must be a folder of images, {path} does not exist; check the path")
    if isinstance(labels, str):
        label_space(labels)
    _named_functions(abstain)


def plan_run(
    on: str | Path,
    out: Path,
    *,
    source: str | Path | None,
    labels: str | LabelSpace | None,
    how: How,
    features: bool,
    limit: int | None,
    seed: int,
    tiles: str | Path | None,
    format: FileFormat,  # noqa: A002 (the option's name)
    batch: int,
    geometry: Geometry | None = None,
    precision: Precision = "float32",
    abstain: Sequence[str] = (),
    on_error: OnError = "stop",
    per_class: int | None = None,
) -> RunPlan:
    """Return the plan of a run; the arguments are those of `evaluate`, after `check_request`."""
    notices: list[str] = []
    benchmark = _find_benchmark(on, source)

    def draw(images: StimulusSet) -> StimulusSet:
        images = images if per_class is None else sample_per_class(images, per_class, seed=seed)
        return images if limit is None else sample(images, limit, seed=seed)

    if benchmark is None or benchmark.altered is None:
        space, images = _label(_select_splits(read_set(on), abstain), labels, notices)
        if not (labels or manifest_space(images.facts)):
            notices.append(f"answers are in {space.name}, inferred from the set's classes (--labels names another)")
        own = manifest_space(images.facts)
        images = replace(images, frame=order_gold(images.frame, own, space))
        if own is None and (images.frame["gold"].count() or images.frame["gold_counts"].count()):
            notices.append(
                f"{on} does not name the classes of its gold labels, taken to be in the order {space.in_words}"
            )
        stimuli: StimulusSource = stored_stimuli(draw(images))
        _check_truths(stimuli)
    else:
        space, images = _label(read_photos(str(source)).stimuli, labels or benchmark.labels, notices)
        if benchmark.altered.every_class and space.name == benchmark.labels:
            check_every_class(images, space, least=per_class or 1)
        images = draw(images)

        def skip_tile(reason: str) -> None:
            notices.append(f"not a tile: {reason}")

        recipe, remarks = photo_alterations(
            benchmark,
            images,
            out,
            tile_images=Path(str(source)),
            tiles=None if tiles is None else Path(tiles),
            geometry=geometry,
            seed=seed,
            workers=1,  # with more processes, each would start the caller's script again
            on_skip=skip_tile if on_error == "skip" else None,
        )
        notices += remarks
        stimuli = generated_stimuli(recipe, format=format)
    functions = _check_abstain(abstain, stimuli.frame, notices)
    return RunPlan(
        stimuli,
        space,
        how,
        batch,
        precision,
        features or any("features" in abstention(name).needs for name in functions),
        functions,
        _is_all(abstain),
        limit,
        None if limit is None and per_class is None else seed,
        per_class,
        seed,
        tuple(notices),
    )


def plan_probe_training(path: str | Path, plan: RunPlan) -> RunPlan:
    """Return the plan of the images that a linear probe is trained on, in the run's label space.

    Raises InvalidInput when an image of the run, or a photo that one is made from, is among them.
    """
    _, images = _label(read_set(path), plan.space, [])
    training = RunPlan(stored_stimuli(images), plan.space, plan.how, plan.batch, plan.precision)
    parents, known = (set(plan.stimuli.frame[column].drop_nulls()) for column in ("parent", "stimulus"))
    generated = bool(parents) and not known  # then only the photos have digests before the run
    shown = parents if generated else parents | {digest for digest in digests(plan.stimuli) if digest}
    common = set(digests(training.stimuli)) & shown
    if common:
        raise InvalidInput(
            f"a probe must not be trained on images of the run, {len(common)} of {path} are; give other images"
        )
    return training


def _find_benchmark(on: str | Path, source: str | Path | None) -> Benchmark | None:
    """Return the benchmark that `on` names; None where it is a stimulus set or folder."""
    if Path(on).is_dir() and source is None:
        return None
    if str(on) not in benchmarks:
        if source is not None:
            return benchmarks[str(on)]  # raises UnknownName with the nearest names
        names = ", ".join(benchmarks)
        hint = did_you_mean(str(on), benchmarks, otherwise=nearest_path(on))
        raise InvalidInput(
            f"--on must be a stimulus set, a folder of images, or a benchmark ({names}), got {on}; {hint}"
        )
    benchmark = benchmarks[str(on)]
    if benchmark.comparison is not None:
        raise InvalidInput(
            f"{on} compares answers and has no images, got --on {on}; evaluate on a stimulus set, then run "
            f"`{benchmark.usage}`"
        )
    if benchmark.altered is None:
        raise InvalidInput(
            f"{on} is a stimulus set to build first, got only its name; run `{benchmark.usage}`, then give --on OUT"
        )
    if source is None:
        raise InvalidInput(f"{on} alters photos while models are evaluated, got none; give their folder with --source")
    return benchmark


def _select_splits(stimuli: StimulusSet, abstain: Sequence[str]) -> StimulusSet:
    """Return the images to show: without abstention functions, training and calibration images are left out."""
    if abstain:
        check_splits(stimuli)
        return stimuli
    test = stimuli.frame.filter(~pl.col("split").is_in(_TRAINING_SPLITS).fill_null(False))
    return stimuli if not test.height else replace(stimuli, frame=test)


def _check_truths(stimuli: StimulusSource) -> None:
    """Raise before the first image is shown when the same image has two truths: such a run could not be scored."""
    first_seen: dict[str, tuple[str, str]] = {}
    for file, truth, stamp in zip(stimuli.frame["file"], stimuli.frame["truth"], stimuli.stamps, strict=True):
        if stamp == MISSING_FILE:  # reported when the image is read
            continue
        other_file, other_truth = first_seen.setdefault(stamp, (file, truth))
        if other_truth != truth:
            raise InvalidInput(
                f"an image has one truth, got {other_truth} for {other_file} and {truth} for {file}; remove one"
            )


def _is_all(abstain: Sequence[str]) -> bool:
    return tuple(abstain) == ("all",)


def _named_functions(abstain: Sequence[str]) -> list[Abstention]:
    """Return the entries of abstention functions by name, or all of them."""
    return [abstention(name) for name in (abstentions if _is_all(abstain) else abstain)]


def _check_abstain(abstain: Sequence[str], stimuli: pl.DataFrame, notices: list[str]) -> tuple[str, ...]:
    """Return the registered names of abstention functions; raise where the set lacks the splits that they need.

    Of all functions, those that need a training split which the set does not have are left out, with a notice.
    """
    splits, possible = set(stimuli["split"]), []
    advice = "`cosight build` makes sets with splits"
    for entry in _named_functions(abstain):
        if {"features", "labels"} & set(entry.needs) and "train" not in splits:
            reason = f"{entry.name} learns from training images, the set has no split 'train'"
            if not _is_all(abstain):
                raise InvalidInput(f"{reason}; {advice}")
            notices.append(f"no {entry.name}: {reason}")
            continue
        if "calibration" not in splits:
            raise InvalidInput(
                f"abstention is scaled on images of its own, the set has no split 'calibration'; {advice}"
            )
        possible.append(entry.name)
    return tuple(dict.fromkeys(possible))


def _label(stimuli: StimulusSet, labels: str | LabelSpace | None, notices: list[str]) -> tuple[LabelSpace, StimulusSet]:
    """Return the label space, and the set with its truths spelled as in the label space.

    Images of a finer class that belongs to no class of the label space are left out, and a notice says how many.
    Without `labels` it is the label space that the set's manifest names, else the one that its classes fit.
    """
    truths = stimuli.frame["truth"].drop_nulls().unique().sort().to_list()
    named = label_space(labels) if isinstance(labels, str) else labels
    space = named or manifest_space(stimuli.facts) or guess_label_space(frozenset(truths))
    if space is None:
        classes = f"classes {', '.join(truths[:4])}{', ...' if len(truths) > 4 else ''}" if truths else "no classes"
        fitting = []
        for candidate in label_spaces.values() if truths else ():
            with suppress(InvalidInput):
                candidate.recognise(truths)
                fitting.append(candidate.name)
        suggestion = f": {' or '.join(fitting)} would fit" if fitting else ""
        raise InvalidInput(
            f"the label space of the answers is not known: {stimuli.root} has {classes}; give it with --labels"
            f"{suggestion} (`cosight list label-spaces`, or comma-separated class names)"
        )
    labelled, left_out = with_classes(stimuli, space)
    if left_out:
        notices.append(f"left out: {left_out} of {len(stimuli)} images, whose classes belong to none of {space.name}")
    return space, labelled
