"""Tasks: forced choices between stimuli of a set, kept beside its manifest in `tasks.parquet`.

* 2afc       one query and two options: the target it was made to resemble, and the seed it was made from
* cluster    several queries and the targets they are to be matched with: a panel

Nanda et al. 2021, 2.2: a query is an image whose representation was made equal to its target's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from cosight.errors import InvalidInput
from cosight.stimuli.sets import StimulusSet, read_set
from cosight.trials.files import new_file

__all__ = ["TASKS", "Task", "TaskKind", "clustering_tasks", "read_tasks", "two_alternative_tasks", "write_tasks"]

TASKS = "tasks.parquet"
TaskKind = Literal["2afc", "cluster"]
_STIMULI = pl.List(pl.String)
_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "task": pl.String,
    "kind": pl.String,
    "queries": _STIMULI,
    "options": _STIMULI,
    "targets": _STIMULI,
    "parameters": pl.String,
}


@dataclass(frozen=True, slots=True)
class Task:
    """Queries to be matched with options; `targets` has the aligned option of each query. All are digests."""

    task: str
    kind: TaskKind
    queries: tuple[str, ...]
    options: tuple[str, ...]
    targets: tuple[str, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in get_args(TaskKind):
            raise InvalidInput(f"a task is {' or '.join(get_args(TaskKind))}, {self.task} is {self.kind!r}")
        if self.kind == "2afc" and (len(self.queries), len(self.options)) != (1, 2):
            raise InvalidInput(
                f"2afc has one query and two options, {self.task} has {len(self.queries)} and {len(self.options)}"
            )
        if not self.queries or len(self.options) < 2 or len(set(self.options)) < len(self.options):
            raise InvalidInput(f"a task has queries and two or more different options, {self.task} has not")
        if len(self.targets) != len(self.queries) or not set(self.targets) <= set(self.options):
            raise InvalidInput(f"the target of each query is one of the options, {self.task} breaks this")


def read_tasks(root: Path) -> tuple[Task, ...]:
    """The tasks of the set at `root`, in order; refused where one names a stimulus that the set has not."""
    path = root / TASKS
    if not path.is_file():
        raise InvalidInput(f"forced choices need {TASKS} beside the manifest, {root} has none; write_tasks makes it")
    try:
        rows = pl.read_parquet(path, glob=False).select(list(_SCHEMA)).iter_rows(named=True)
        tasks = tuple(_task(row) for row in rows)
    except (pl.exceptions.PolarsError, json.JSONDecodeError, TypeError) as error:
        raise InvalidInput(f"{path} is not a table of tasks that can be read: {error}; write it again") from error
    _check(tasks, read_set(root))
    return tasks


def write_tasks(root: Path, tasks: Sequence[Task]) -> None:
    """Write the tasks of the set at `root`, whole or not at all."""
    _check(tasks, read_set(root))
    rows = [
        {
            **{name: getattr(task, name) for name in ("task", "kind")},
            **{name: list(getattr(task, name)) for name in ("queries", "options", "targets")},
            "parameters": json.dumps(dict(task.parameters), sort_keys=True, ensure_ascii=False),
        }
        for task in tasks
    ]
    with new_file(root / TASKS, durable=True) as draft:
        pl.DataFrame(rows, schema=_SCHEMA).write_parquet(draft, compression="zstd")


def _task(row: Mapping[str, Any]) -> Task:
    lists = {name: tuple(row[name]) for name in ("queries", "options", "targets")}
    return Task(row["task"], row["kind"], **lists, parameters=json.loads(row["parameters"] or "{}"))


def _check(tasks: Iterable[Task], stimuli: StimulusSet) -> None:
    known, names = set(stimuli.frame["stimulus"]), set[str]()
    for task in tasks:
        strange = {*task.queries, *task.options} - known
        if strange:
            raise InvalidInput(f"tasks are about stimuli of {stimuli.root}, {task.task} names {min(strange)}")
        if task.task in names:
            raise InvalidInput(f"tasks have different names, got {task.task} twice")
        names.add(task.task)


def two_alternative_tasks(stimuli: StimulusSet) -> tuple[Task, ...]:
    """One task a stimulus whose target (`parent`) and seed (`seed_stimulus` in its parameters) are in the set too."""
    known = set(stimuli.frame["stimulus"])
    tasks = []
    for row in stimuli.frame.iter_rows(named=True):
        seed = json.loads(row["parameters"] or "{}").get("seed_stimulus")
        if row["parent"] in known and seed in known:
            tasks.append(_named("2afc", (row["stimulus"],), (row["parent"], seed), (row["parent"],)))
    if not tasks:
        raise InvalidInput(f"2afc needs stimuli whose target and seed are in the set as well, {stimuli.root} has none")
    return tuple(tasks)


def clustering_tasks(stimuli: StimulusSet, *, panels_of: int = 3, seed: int = 0) -> tuple[Task, ...]:
    """Panels of `panels_of` targets drawn by `seed`, each with every stimulus made to resemble one of them.

    Targets that fill no panel are left over: 100 targets make 33 panels of three (Nanda et al. 2021).
    """
    if panels_of < 2:
        raise InvalidInput(f"a panel has two targets or more, got {panels_of}")
    known = set(stimuli.frame["stimulus"])
    results: dict[str, list[str]] = {}
    for stimulus, parent in stimuli.frame.select("stimulus", "parent").iter_rows():
        if parent in known:
            results.setdefault(parent, []).append(stimulus)
    targets = [list(results)[place] for place in np.random.default_rng(seed).permutation(len(results))]
    panels = [targets[first : first + panels_of] for first in range(0, len(targets) - panels_of + 1, panels_of)]
    if not panels:
        raise InvalidInput(f"clustering needs {panels_of} targets with results, {stimuli.root} has {len(targets)}")
    return tuple(_panel(panel, results) for panel in panels)


def _panel(targets: Sequence[str], results: Mapping[str, Sequence[str]]) -> Task:
    pairs = [(query, target) for target in targets for query in results[target]]
    return _named("cluster", tuple(q for q, _ in pairs), tuple(targets), tuple(t for _, t in pairs))


def _named(kind: TaskKind, queries: tuple[str, ...], options: tuple[str, ...], targets: tuple[str, ...]) -> Task:
    """A task called after what it is about, so that the same task has the same name in every set."""
    about = "/".join((kind, *queries, *options))
    return Task(f"{kind}-{hashlib.sha256(about.encode()).hexdigest()[:16]}", kind, queries, options, targets)
