"""From what the user names to a plan: which stimuli, in which label space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import polars as pl

from cosight.benchmarks import AlteredPhotos, Benchmark, benchmarks
from cosight.errors import InvalidInput
from cosight.files import MISSING_FILE
from cosight.models.abstention import abstention
from cosight.runs.abstaining import check_abstain
from cosight.runs.execution import OnError
from cosight.runs.run_plan import LEARNT_FROM, RunPlan
from cosight.runs.stimulus_sources import StimulusSource, digests, generated_stimuli, stored_stimuli
from cosight.stimuli.alterations import Alteration, Alterations, all_alterations, with_resource
from cosight.stimuli.images import FileFormat, preparation
from cosight.stimuli.resources import tiles_for_set
from cosight.stimuli.sets import StimulusSet, check_splits, read_set, sample
from cosight.trials.mapping import How
from cosight.trials.spaces import LabelSpace, guess_label_space, label_space, label_spaces

__all__ = ["Planned", "plan_for", "training_plan"]


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, what else must be the same to resume it, and what the user should know."""

    plan: RunPlan
    settings: dict[str, Any]
    notices: tuple[str, ...] = ()


def plan_for(
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
    abstain: Sequence[str] = (),
    on_error: OnError = "stop",
) -> Planned:
    """What `evaluate` is asked to do."""
    if limit is not None and limit < 1:
        raise InvalidInput(f"--limit must be 1 or more, got {limit}")
    for option, value, words in (("--how", how, get_args(How)), ("--format", format, get_args(FileFormat))):
        if value not in words:
            raise InvalidInput(f"{option} must be {' or '.join(words)}, got {value!r}")
    benchmark = _benchmark(on, source)
    lost: list[str] = []
    if benchmark is None or benchmark.altered is None:
        if tiles is not None:
            raise InvalidInput(f"--tiles are for benchmarks that are made on the way, got the set {on}")
        space, known = _named(_to_be_shown(read_set(on), abstain), labels)
        shown: StimulusSource = stored_stimuli(_limited(known, limit, seed))
        _check_truths(shown)
    else:
        space, known = _named(read_set(str(source)), labels or benchmark.labels)
        known = _limited(known, limit, seed)
        on_skip = lost.append if on_error == "skip" else None
        chosen = _alterations(benchmark.altered, out, Path(str(source)), tiles, on_skip)
        recipe = Alterations(known, tuple(chosen), benchmark.experiment, seed, preparation(benchmark.altered.prepare))
        shown = generated_stimuli(recipe, format=format)
    notices = []
    if benchmark is None and not (labels or _own_labels(known)):
        notices = [f"answers are in {space.name}, as the set's classes tell (--labels names another)"]
    functions = check_abstain(abstain, shown.frame)
    wanted = features or any("features" in abstention(name).needs for name in functions)
    return Planned(
        RunPlan(shown, space, how, batch, wanted, functions),
        {"limit": limit, "seed": None if limit is None else seed},
        (*notices, *(f"not a tile: {why}" for why in lost)),
    )


def _check_truths(shown: StimulusSource) -> None:
    """The same picture under two truths makes a run that nobody can score: told before the first image is shown."""
    seen: dict[str, tuple[str, str]] = {}
    for file, truth, stamp in zip(shown.frame["file"], shown.frame["truth"], shown.stamps, strict=True):
        if stamp == MISSING_FILE:  # no picture; that is told when it is its turn
            continue
        other, its = seen.setdefault(stamp, (file, truth))
        if its != truth:
            raise InvalidInput(f"a picture has one truth, got {its} for {other} and {truth} for {file}; remove one")


def _to_be_shown(found: StimulusSet, abstain: Sequence[str]) -> StimulusSet:
    """Without abstention functions, the training and calibration images of a set are of no use here.

    With them, what is learnt from or scaled on must not be what is judged.
    """
    if abstain:
        check_splits(found)
        return found
    test = found.frame.filter(~pl.col("split").is_in(LEARNT_FROM).fill_null(False))
    return found if not test.height else replace(found, frame=test)


def training_plan(path: str | Path, plan: RunPlan) -> RunPlan:
    """The images that a probe is trained on, named in the run's label space; none of them may be shown in the run."""
    _, known = _named(read_set(path), plan.space)
    training = RunPlan(stored_stimuli(known), plan.space, plan.how, plan.batch)
    both = set(digests(training.shown)) & _pictures(plan.shown)
    if both:
        raise InvalidInput(
            f"a probe must not be trained on images that are shown, {len(both)} of {path} are; give other images"
        )
    return training


def _pictures(shown: StimulusSource) -> set[str]:
    """Digests of everything that is shown, and of the photos it is made of; those alone where it is made on the way."""
    parents, known = (set(shown.frame[column].drop_nulls()) for column in ("parent", "stimulus"))
    made_now = bool(parents) and not known
    return parents | (set() if made_now else {name for name in digests(shown) if name})


def _benchmark(on: str | Path, source: str | Path | None) -> Benchmark | None:
    """The benchmark of this name; None where a set is meant."""
    if Path(on).is_dir() and source is None:
        return None
    if str(on) not in benchmarks:
        if source is not None:
            return benchmarks[str(on)]  # which says the nearest names
        names = ", ".join(benchmarks)
        raise InvalidInput(f"--on must be a stimulus set, a folder of images, or a benchmark ({names}), got {on}")
    benchmark = benchmarks[str(on)]
    if benchmark.altered is None:
        raise InvalidInput(
            f"{on} is a stimulus set to build first, got only its name; run `{benchmark.usage}`, then give --on OUT"
        )
    if source is None:
        raise InvalidInput(f"{on} is made of photos on the way, got none; name their folder with --source")
    return benchmark


def _alterations(
    altered: AlteredPhotos, out: Path, source: Path, tiles: str | Path | None, on_skip: Callable[[str], None] | None
) -> Sequence[Alteration]:
    chosen = all_alterations(altered.verb, **altered.options)
    given = None if tiles is None else Path(tiles)
    # one process: more would start the caller's script anew in each
    return with_resource(chosen, "tiles", lambda: tiles_for_set(out, source, given=given, workers=1, on_skip=on_skip))


def _limited(found: StimulusSet, limit: int | None, seed: int) -> StimulusSet:
    return found if limit is None else sample(found, limit, seed=seed)


def _named(found: StimulusSet, labels: str | LabelSpace | None) -> tuple[LabelSpace, StimulusSet]:
    """The label space, and the set with its true classes spelled as there.

    Without `labels` it is the one that the set's manifest names, else the one that its classes tell.
    """
    truths = found.frame["truth"].drop_nulls().unique().sort().to_list()
    labels = labels or _own_labels(found)
    space = label_space(labels) if isinstance(labels, str) else labels or guess_label_space(frozenset(truths))
    if space is None:
        told = f"classes {', '.join(truths[:4])}{', ...' if len(truths) > 4 else ''}" if truths else "no classes"
        raise InvalidInput(
            f"which label space answers are about is not known: {found.root} has {told}; name it with --labels"
            f"{_would_do(truths)} (`cosight list label-spaces`, or comma-separated class names)"
        )
    spelled = pl.col("truth").replace_strict(space.recognise(truths), default=None, return_dtype=pl.String)
    return space, replace(found, frame=found.frame.with_columns(spelled))


def _own_labels(stimuli: StimulusSet) -> str | None:
    """The label space that the set's manifest names."""
    labels: str | None = stimuli.facts.get("settings", {}).get("labels")
    return labels


def _would_do(truths: Sequence[str]) -> str:
    """Spaces in which all of these are classes, or numbers of classes."""
    fitting = []
    for space in label_spaces.values():
        with suppress(InvalidInput):
            space.recognise(truths)
            fitting.append(space.name)
    return f": {' or '.join(fitting)} would do" if truths and fitting else ""
