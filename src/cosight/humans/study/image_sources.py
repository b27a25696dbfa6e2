"""What a study's folders hold for each role, and whether that is enough. No image is decoded here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosight.errors import InvalidInput
from cosight.stimuli.sets import read_set
from cosight.stimuli.tasks import Task, read_tasks
from cosight.trials.manifest import DISTRACTORS
from cosight.trials.spaces import ABSTAIN

if TYPE_CHECKING:
    from cosight.humans.study.design import Study

__all__ = ["ImageSources", "Row", "check_sources", "is_clear", "shown_digest", "sources_of"]

Row = Mapping[str, Any]
"""A row of a manifest, and `path`, where its image is."""

_TASK_KINDS = ("2afc", "cluster")
_GOLD = {"group": "must-act", "kind": "clean"}  # unaltered images, which everybody should see right
_STOP_RULE = ("answers", "width", "share", "idle")  # may change while a study runs


@dataclass(frozen=True, slots=True)
class ImageSources:
    """Rows by role; of forced choices, the tasks and the rows they are about."""

    test: tuple[Row, ...]
    distractor: tuple[Row, ...] = ()
    gold: tuple[Row, ...] = ()
    warmup: tuple[tuple[Row, ...], ...] = ()
    tasks: tuple[Task, ...] = ()

    @property
    def rows(self) -> list[Row]:
        """All of them."""
        return [*self.test, *self.distractor, *self.gold, *(row for rows in self.warmup for row in rows)]


def sources_of(study: Study) -> ImageSources:
    """What the folders hold."""
    every = _rows(study.set, study)
    shown = tuple(row for row in every if _is_shown(row, study.show))
    _check_show(study, every)
    if study.type in _TASK_KINDS:
        return _of_tasks(study, every, shown)
    asked = {row["file"] for row in shown}
    clear = [row for row in every if all(row.get(column) == value for column, value in _GOLD.items())]
    gold = [row for row in clear if row["file"] not in asked and row["truth"]]
    return ImageSources(
        test=shown,
        distractor=_distractor_rows(study),
        gold=tuple(gold) if study.design.gold else (),
        warmup=tuple(_rows(study.root / block.set, study) for block in study.warmup),
    )


def _rows(folder: Path, study: Study) -> tuple[Row, ...]:
    stimuli = read_set(folder)
    rows = [{**row, "path": stimuli.path(row["file"])} for row in stimuli.frame.iter_rows(named=True)]
    words = study.space.words() if study.space else {}
    own = [row for row in rows if stimuli.facts or not row["file"].startswith(f"{DISTRACTORS}/")]
    return tuple({**row, "truth": words.get(row["truth"], row["truth"])} for row in own)


def _is_shown(row: Row, show: Mapping[str, tuple[str, ...]]) -> bool:
    return all(str(row.get(column)) in values for column, values in show.items())


def _check_show(study: Study, rows: Sequence[Row]) -> None:
    for column, values in study.show.items():
        if column not in rows[0] or column == "path":
            raise InvalidInput(f"[show] names columns of the set, got {column!r}; see `cosight stimuli verify`")
        there = {str(row[column]) for row in rows}
        for value in values:
            if value not in there:
                some = ", ".join(sorted(there)[:8])
                raise InvalidInput(f"no stimulus of {study.set} has {column} {value!r}; there are {some}")


def _distractor_rows(study: Study) -> tuple[Row, ...]:
    if not study.design.distractors:
        return ()
    folder = study.distractors or study.set / DISTRACTORS
    if not folder.is_dir():
        raise InvalidInput(
            f"distractors are a set of their own, {folder} is not there; build it, name it under [sets], or ask for 0"
        )
    return _rows(folder, study)


def is_clear(row: Row) -> bool:
    """Whether whoever does not refuse this distractor has not looked: so it is unless its manifest says otherwise."""
    return bool(json.loads(row["parameters"] or "{}").get("clear", True))


def _of_tasks(study: Study, every: Sequence[Row], shown: Sequence[Row]) -> ImageSources:
    """The tasks whose queries are all shown."""
    asked = {row["stimulus"] for row in shown}
    mine = [task for task in read_tasks(study.set) if task.kind == study.type]
    if not mine:
        raise InvalidInput(
            f"{study.set} has no {study.type} tasks; "
            f"make them with `cosight stimuli tasks {study.set} --type {study.type}`"
        )
    tasks = [task for task in mine if set(task.queries) <= asked]
    used = {stimulus for task in tasks for stimulus in (*task.queries, *task.options)}
    rows = {row["stimulus"]: row for row in reversed(every) if row["stimulus"] in used}
    return ImageSources(test=tuple(reversed(rows.values())), tasks=tuple(tasks))


def check_sources(study: Study, sources: ImageSources) -> None:
    """Refuse a design that asks for more than there is."""
    design, what = study.design, "tasks" if study.type in _TASK_KINDS else "images"
    there = len(sources.tasks) if study.type in _TASK_KINDS else len(sources.test)
    _enough(design.images, there, f"{what} to ask about in {study.set}", "images")
    _enough(design.distractors, len(sources.distractor), "distractors there are", "distractors")
    if design.distractors and not any(is_clear(row) for row in sources.distractor):
        raise InvalidInput(
            "some distractors must be clear, or they check nobody: the manifest says of all that they are not; mark "
            'those that everybody must refuse, {"clear": true} in `parameters`'
        )
    _enough(design.checks, len(sources.tasks), "tasks that a check can be made of", "checks")
    words = "unaltered images (group must-act, kind clean) with a known truth that are not asked about"
    _enough(design.gold, len(sources.gold), words, "gold")
    for block, rows in zip(study.warmup, sources.warmup, strict=True):
        _enough(block.images, len(rows), f"images in {block.set}", "images in [[warmup]]")
    _check_conditions(study, sources.test)
    _check_truths(study, sources.rows)
    _check_files(sources.rows)


def _enough(asked: int, there: int, what: str, setting: str) -> None:
    if asked > there:
        raise InvalidInput(f"{setting} must be at most {there}, the {what}, got {asked}; lower it or add some")


def _check_conditions(study: Study, rows: Sequence[Row]) -> None:
    wanted = study.design.conditions
    there = {row["condition"] for row in rows}
    if wanted and (None in there or len(there) < wanted):
        raise InvalidInput(f"conditions must be at most {len(there - {None})}, which every image has, got {wanted}")


def _check_truths(study: Study, rows: Sequence[Row]) -> None:
    if study.space is None:
        return
    allowed = {*study.space.answers, ABSTAIN, None}
    for row in rows:
        if row["truth"] not in allowed:
            raise InvalidInput(
                f"true classes must be answers of {study.space.name} ({study.space.in_words}), got {row['truth']!r} "
                f"of {row['path']}; name other labels or rename it"
            )


def _check_files(rows: Sequence[Row]) -> None:
    gone = [row["path"] for row in rows if not row["path"].is_file()]
    if gone:
        raise InvalidInput(f"every image must be there, {gone[0]} is not ({len(gone)} in all); put it back")


def shown_digest(study: Study, sources: ImageSources) -> str:
    """sha256 of what decides what is shown: the design but for its stop rule, and the sets' stimuli and files."""
    design = {name: value for name, value in asdict(study.design).items() if name not in _STOP_RULE}
    facts = {
        "study": [study.name, study.type, study.seed, study.space.answers if study.space else None, study.reasons],
        "design": design,
        "timing": asdict(study.timing) if study.timing else None,
        "warmup": [block.images for block in study.warmup],
        "rows": [[row["stimulus"] or _content(row["path"]), row["file"], row["truth"]] for row in sources.rows],
        "tasks": [asdict(task) for task in sources.tasks],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=dict).encode()).hexdigest()


def _content(file: Path) -> str:
    """What stands for an image that no manifest names: its name alone would not tell that another took its place."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
