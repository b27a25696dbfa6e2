"""Tasks: forced choices between stimuli of a set, stored beside its manifest in `tasks.parquet`.

* 2afc       one query and two options: the target it was made to resemble, and the seed it was made from
* cluster    a panel: several queries and the targets to match them with

A query is an image whose representation was made equal to its target's (Nanda et al. 2021, section 2.2). Such sets name
the target of a stimulus in `parent` and its seed in `parameters` (`seed_stimulus`). In a set of controversial stimuli
the query is the target, and the options are what two models were made to disagree about; the right option is that of
the first model. For other images, a CSV file lists the tasks.

`parameters` of a task has what its queries were made with: `model`, `start` (the kind of seed), `targets` (photos or
noise) and `distance` (reached by the inversion), as lists for the queries of a panel; `panels` (random, or near JUDGE);
and `contest`, the two models.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput, UnknownName, did_you_mean
from cosight.files import atomic_write
from cosight.stimuli.sets import StimulusSet, read_set, with_digests
from cosight.trials.choices import RANDOM_PANELS
from cosight.trials.manifest import MANIFEST, write_manifest

__all__ = [
    "CONTEST",
    "CONTROVERSIAL",
    "PANELS_OF",
    "TASKS",
    "Neighbours",
    "Task",
    "TaskKind",
    "TaskSummary",
    "clustering_tasks",
    "make_tasks",
    "read_tasks",
    "tasks_from_csv",
    "two_alternative_tasks",
    "write_tasks",
]

TASKS = "tasks.parquet"
PANELS_OF = 3  # targets per panel in Nanda et al. 2021
TaskKind = Literal["2afc", "cluster"]
CONTEST = "contest"  # the experiment of sets of controversial stimuli
CONTROVERSIAL = "controversial"  # the kind of stimuli that two models disagree about
_QUERY_FACTS = ("model", "training", "start", "targets", "distance")  # of `parameters` in the manifest
_CSV_COLUMNS: dict[str, tuple[str, ...]] = {"2afc": ("query", "target", "seed"), "cluster": ("query", "target")}
_REMEDY = f"write these digests into {MANIFEST}, or list the tasks in a CSV file: --from FILE with the columns"
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
class Neighbours:
    """Panels of similar targets: `distances` returns the distance of every two of some stimuli, (N, N)."""

    name: str  # of the judge or model that compares them
    distances: Callable[[Sequence[str]], FloatArray]


@dataclass(frozen=True, slots=True)
class Task:
    """Queries to match with options.

    Attributes:
        task: Name of the task.
        kind: 2afc or cluster.
        queries: Digests of the queries.
        options: Digests of the options.
        targets: The right option of each query.
        parameters: Further facts.
    """

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
            raise InvalidInput(f"a task has queries and two or more different options, {self.task} does not")
        if len(self.targets) != len(self.queries) or not set(self.targets) <= set(self.options):
            raise InvalidInput(f"the target of each query must be one of the options, {self.task} has others")

    def query_facts(self, index: int) -> dict[str, Any]:
        """Return what `parameters` says about one query, which people's and judges' answers are stored with."""
        return {name: value[index] if isinstance(value, list) else value for name, value in self.parameters.items()}


def read_tasks(root: Path) -> tuple[Task, ...]:
    """Read the tasks of a stimulus set.

    Args:
        root: The set.

    Returns:
        The tasks, in order.

    Raises:
        InvalidInput: If the set has no tasks, they cannot be read, or one names a stimulus that is not in the set.

    >>> from cosight.stimuli import encode
    >>> Path("faces").mkdir()
    >>> for grey, name in enumerate(("query", "target", "seed")):
    ...     _ = Path("faces", f"{name}.png").write_bytes(encode(np.full((32, 32), grey, np.uint8), "png"))
    >>> _ = Path("tasks.csv").write_text("query,target,seed\\nquery.png,target.png,seed.png\\n")
    >>> _ = make_tasks(Path("faces"), "2afc", table=Path("tasks.csv"))
    >>> task = read_tasks(Path("faces"))[0]
    >>> task.kind, task.targets == task.options[:1]
    ('2afc', True)
    """
    path = root / TASKS
    if not path.is_file():
        raise InvalidInput(
            f"{root} has no {TASKS}; make it with `cosight stimuli tasks {root} --type 2afc` (or cluster)"
        )
    try:
        tasks = tuple(
            Task(
                row["task"],
                row["kind"],
                **{name: tuple(row[name]) for name in ("queries", "options", "targets")},
                parameters=json.loads(row["parameters"] or "{}"),
            )
            for row in pl.read_parquet(path, glob=False).select(list(_SCHEMA)).iter_rows(named=True)
        )
    except (pl.exceptions.PolarsError, json.JSONDecodeError, TypeError) as error:
        raise InvalidInput(f"cannot read the task table {path}: {error}; write it again") from error
    _check_tasks(tasks, read_set(root))
    return tasks


def write_tasks(root: Path, tasks: Sequence[Task]) -> None:
    """Write the tasks of the set at `root`, atomically.

    Raises:
        InvalidInput: If a task names a stimulus that is not in the set, or two tasks have one name.
    """
    _check_tasks(tasks, read_set(root))
    rows = [
        {
            **{name: getattr(task, name) for name in ("task", "kind")},
            **{name: list(getattr(task, name)) for name in ("queries", "options", "targets")},
            "parameters": json.dumps(dict(task.parameters), sort_keys=True, ensure_ascii=False),
        }
        for task in tasks
    ]
    with atomic_write(root / TASKS, durable=True) as draft:
        pl.DataFrame(rows, schema=_SCHEMA).write_parquet(draft, compression="zstd")


def _check_tasks(tasks: Iterable[Task], stimuli: StimulusSet) -> None:
    known, names = set(stimuli.frame["stimulus"]), set[str]()
    for task in tasks:
        unknown = {*task.queries, *task.options} - known
        if unknown:
            raise InvalidInput(f"tasks are about stimuli of {stimuli.root}, {task.task} names {min(unknown)}")
        if task.task in names:
            raise InvalidInput(f"tasks have different names, got {task.task} twice")
        names.add(task.task)


def two_alternative_tasks(stimuli: StimulusSet) -> tuple[Task, ...]:
    """Return one task per stimulus with target (`parent`) and seed (`seed_stimulus` in `parameters`) in the set.

    In a set of controversial stimuli, the tasks are one per target, pair of models and start.
    """
    known = set(stimuli.frame["stimulus"].drop_nulls())
    tasks, targets, seeds = [], 0, 0
    contests: dict[tuple[str, int], dict[tuple[str, str], str]] = {}  # target, start -> models -> result
    for row in stimuli.frame.iter_rows(named=True):
        parameters = json.loads(row["parameters"] or "{}")
        seed = parameters.get("seed_stimulus")
        targets += row["parent"] in known
        seeds += seed in known
        if row["parent"] in known and seed in known:
            facts = {name: parameters[name] for name in _QUERY_FACTS if name in parameters}
            tasks.append(_make_task("2afc", (row["stimulus"],), (row["parent"], seed), (row["parent"],), facts))
        elif row["parent"] in known and row["kind"] == CONTROVERSIAL:
            models = (parameters["similar"], parameters["distinct"])
            contests.setdefault((row["parent"], parameters["start"]), {})[models] = row["stimulus"]
    for (target, start), results in contests.items():
        for (first, second), result in results.items():
            if first < second and (other := results.get((second, first))) is not None:
                facts = {"contest": f"{first} / {second}", "start": start}
                tasks.append(_make_task("2afc", (target,), (result, other), (result,), facts))
    if not tasks and (stimuli.frame["experiment"] == CONTEST).any():
        raise InvalidInput(
            f"no target of {stimuli.root} has controversial stimuli of two models in both directions, so nobody can "
            "take sides; use more --steps or --starts"
        )
    if not tasks:
        raise InvalidInput(
            f"2afc needs stimuli whose target and seed are in the set, {stimuli.root} has none: {targets} of "
            f"{len(stimuli)} have their target (`parent`) in it, {seeds} their seed (`seed_stimulus` in `parameters`); "
            f"{_REMEDY} query,target,seed"
        )
    return tuple(tasks)


def clustering_tasks(
    stimuli: StimulusSet, *, panels_of: int = PANELS_OF, seed: int = 0, near: Neighbours | None = None
) -> tuple[Task, ...]:
    """Return panels of `panels_of` targets drawn by `seed`, each with every stimulus made to resemble one of them.

    With `near`, a panel is a drawn target and its nearest neighbours among those left. Every model has panels of its
    own queries; those of one seed have the same targets. Targets that do not fill a panel are not used: 100 targets
    make 33 panels of three (Nanda et al. 2021).
    """
    known = set(stimuli.frame["stimulus"].drop_nulls())
    groups: dict[tuple[str, ...], dict[str, list[str]]] = {}  # by model and kind of targets
    facts: dict[str, Mapping[str, Any]] = {}
    for row in stimuli.frame.iter_rows(named=True):
        if row["parent"] in known and row["kind"] != CONTROVERSIAL:
            facts[row["stimulus"]] = parameters = json.loads(row["parameters"] or "{}")
            group = tuple(str(parameters.get(name)) for name in ("model", "weights", "targets"))
            groups.setdefault(group, {}).setdefault(row["parent"], []).append(row["stimulus"])
    most = max((len(queries) for queries in groups.values()), default=0)
    missing = f"{stimuli.root} has {most} (stimuli that others name as `parent`); {_REMEDY} query,target"
    tasks = []
    for queries in groups.values() or [{}]:
        for task in _draw_panels(queries, panels_of, seed, missing, near):
            own = {
                name: [facts[query].get(name) for query in task.queries]
                for name in _QUERY_FACTS
                if name in facts[task.queries[0]]
            }
            tasks.append(replace(task, parameters={**task.parameters, **own}))
    return tuple(tasks)


def tasks_from_csv(
    stimuli: StimulusSet, file: Path, kind: TaskKind, *, panels_of: int = PANELS_OF, seed: int = 0
) -> tuple[Task, ...]:
    """Read tasks about the images of a set from a CSV file; other columns are ignored.

    Args:
        stimuli: The set, with digests.
        file: A CSV file with the columns `query`, `target` and `seed` (2afc), or `query` and `target` (cluster). A cell
            is a digest, a path inside the set, or a file name that one image of the set has.
        kind: `2afc` makes one task per row, `cluster` panels of targets with all of their queries.
        panels_of: Targets per panel.
        seed: Seed that draws which targets share a panel.

    Returns:
        The tasks, in the order of the file (2afc) or of the draw (cluster).

    Raises:
        InvalidInput: If the file breaks a rule; the message names the row.
        UnknownName: If a cell names no image of the set.
    """
    rows = _read_csv(stimuli, file, kind)
    if kind == "2afc":
        numbers: dict[tuple[str, ...], int] = {}
        tasks = []
        for number, (query, target, other) in enumerate(rows, start=1):
            if target == other:
                raise InvalidInput(f"{file}, row {number}: target and seed are the same image; name two different ones")
            if (before := numbers.setdefault((query, target, other), number)) < number:
                raise InvalidInput(f"{file}, row {number}: repeats row {before}; remove it")
            tasks.append(_make_task("2afc", (query,), (target, other), (target,), {}))
        return tuple(tasks)
    first_rows: dict[str, tuple[int, str]] = {}
    queries: dict[str, list[str]] = {}
    for number, (query, target) in enumerate(rows, start=1):
        before, first_target = first_rows.setdefault(query, (number, target))
        if first_target != target:
            raise InvalidInput(f"{file}, row {number}: the query of row {before} has another target; keep one of them")
        if before < number:
            raise InvalidInput(f"{file}, row {number}: repeats row {before}; remove it")
        queries.setdefault(target, []).append(query)
    return _draw_panels(queries, panels_of, seed, f"{file} has {len(queries)}; add targets or make smaller panels")


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """What `make_tasks` wrote.

    Attributes:
        tasks: The new tasks.
        kept: Number of tasks of the other type that were in the file already.
        unused: Number of stimuli that are in none of the new tasks.
        indexed: Number of images in a new manifest; 0 if the set had one.
    """

    tasks: tuple[Task, ...]
    kept: int
    unused: int
    indexed: int


def make_tasks(
    root: Path,
    kind: TaskKind,
    *,
    panels_of: int = PANELS_OF,
    seed: int = 0,
    near: Neighbours | None = None,
    table: Path | None = None,
    force: bool = False,
) -> TaskSummary:
    """Make tasks of one type and write them into `tasks.parquet` beside the manifest of the set at `root`.

    One file has both types, and panels of random and of near targets: the others are kept.

    Args:
        root: A stimulus set. With `table` also a folder of images, which gets a manifest.
        kind: `2afc` or `cluster`.
        panels_of: Targets per panel (cluster).
        seed: Seed that draws which targets share a panel (cluster).
        near: Make panels of near neighbours (cluster, without `table`).
        table: CSV file that lists the tasks (`tasks_from_csv`); without it they follow from the manifest.
        force: Replace tasks of this type, and a file that cannot be read.

    Returns:
        The tasks and what else was done.

    Raises:
        InvalidInput: If the set has tasks of this type, or lacks what they need. Nothing is written then.

    >>> from cosight.stimuli import encode
    >>> Path("pictures").mkdir()
    >>> for grey, name in enumerate(("like-a", "like-b", "a", "b")):
    ...     _ = Path("pictures", f"{name}.png").write_bytes(encode(np.full((32, 32), grey, np.uint8), "png"))
    >>> _ = Path("matches.csv").write_text("query,target\\nlike-a.png,a.png\\nlike-b.png,b.png\\n")
    >>> made = make_tasks(Path("pictures"), "cluster", panels_of=2, table=Path("matches.csv"))
    >>> len(made.tasks), len(made.tasks[0].queries), made.indexed
    (1, 2, 4)
    """
    if kind not in _CSV_COLUMNS:
        raise InvalidInput(f"the type of a task is {' or '.join(_CSV_COLUMNS)}, got {kind!r}")
    stimuli = read_set(root)
    has_manifest = not stimuli.frame["stimulus"].has_nulls()
    if near is not None and (kind != "cluster" or table is not None):
        raise InvalidInput("panels of near neighbours are for cluster tasks that follow from the manifest")
    if table is None:
        _check_model_names(stimuli)
    others = _read_other_tasks(root, kind, _panels(near), force=force)
    if table is not None:
        stimuli = with_digests(stimuli)
        tasks = tasks_from_csv(stimuli, table, kind, panels_of=panels_of, seed=seed)
    elif kind == "2afc":
        tasks = two_alternative_tasks(stimuli)
    else:
        tasks = clustering_tasks(stimuli, panels_of=panels_of, seed=seed, near=near)
    if not has_manifest:
        write_manifest(root, stimuli.frame, {})
    write_tasks(root, [*others, *tasks])
    used = {stimulus for task in tasks for stimulus in (*task.queries, *task.options)}
    unused = int((~stimuli.frame["stimulus"].is_in(list(used))).sum())
    return TaskSummary(tasks, len(others), unused, 0 if has_manifest else len(stimuli))


def _check_model_names(stimuli: StimulusSet) -> None:
    """Raise if two models share a name, by which answers are grouped: the second may have been added to the set."""
    weights: dict[str, str] = {}
    for text in stimuli.frame["parameters"].drop_nulls():
        facts = json.loads(text)
        for model, digest in (("model", "weights"), ("similar", "similar_weights"), ("distinct", "distinct_weights")):
            if model in facts and weights.setdefault(facts[model], facts.get(digest, "")) != facts.get(digest, ""):
                raise InvalidInput(
                    f"models must have different names, {stimuli.root} has two called {facts[model]}; make the set "
                    "again with name=NAME for one of them"
                )


def _panels(near: Neighbours | None) -> str:
    return RANDOM_PANELS if near is None else f"near {near.name}"


def _read_other_tasks(root: Path, kind: TaskKind, panels: str, *, force: bool) -> tuple[Task, ...]:
    """Return the tasks of other types and panels; raise if there are tasks of these and `force` is false."""
    path = root / TASKS
    if not path.exists():
        return ()
    try:
        stored = read_tasks(root)
    except InvalidInput as error:
        if force:
            return ()
        raise InvalidInput(f"{error}; --force replaces it") from error

    def is_other(task: Task) -> bool:
        return task.kind != kind or (kind == "cluster" and task.parameters.get("panels", RANDOM_PANELS) != panels)

    others = [task for task in stored if is_other(task)]
    same = len(stored) - len(others)
    if same and not force:
        raise InvalidInput(f"{path} has {same} {kind} tasks already and is not overwritten; --force replaces them")
    return tuple(others)


def _draw_panels(
    queries: Mapping[str, Sequence[str]],
    panels_of: int,
    seed: int,
    missing: str,
    near: Neighbours | None = None,
) -> tuple[Task, ...]:
    """Draw panels of targets, each with all of their queries; `missing` ends the message if there are too few."""
    if panels_of < 2:
        raise InvalidInput(f"a panel has two targets or more, got {panels_of}")
    targets = [list(queries)[index] for index in np.random.default_rng(seed).permutation(len(queries))]
    if len(targets) < panels_of:
        raise InvalidInput(f"a panel of {panels_of} needs {panels_of} targets, {missing}")
    if near is not None:
        targets = _by_neighbours(targets, panels_of, near.distances(targets))
    panels = [targets[first : first + panels_of] for first in range(0, len(targets) - panels_of + 1, panels_of)]
    tasks = []
    for panel in panels:
        pairs = [(query, target) for target in panel for query in queries[target]]
        matched = tuple(query for query, _ in pairs), tuple(panel), tuple(target for _, target in pairs)
        tasks.append(_make_task("cluster", *matched, {"panels": _panels(near)}))
    return tuple(tasks)


def _by_neighbours(targets: Sequence[str], panels_of: int, distances: FloatArray) -> list[str]:
    """Return the targets panel by panel: the first that is left and those nearest to it; incomplete ones last."""
    left, ordered = list(range(len(targets))), list[int]()
    while len(left) >= panels_of:
        first, *others = left
        nearest = sorted(others, key=lambda index: distances[first, index])[: panels_of - 1]
        ordered += [first, *nearest]
        left = [index for index in others if index not in nearest]
    return [targets[index] for index in (*ordered, *left)]


def _make_task(
    kind: TaskKind,
    queries: tuple[str, ...],
    options: tuple[str, ...],
    targets: tuple[str, ...],
    parameters: Mapping[str, Any],
) -> Task:
    """Return a task named after its stimuli, so that the same task has the same name in every set."""
    near = [panels] if (panels := parameters.get("panels", RANDOM_PANELS)) != RANDOM_PANELS else []
    stimuli = "/".join((kind, *queries, *options, *near))
    name = f"{kind}-{hashlib.sha256(stimuli.encode()).hexdigest()[:16]}"
    return Task(name, kind, queries, options, targets, parameters)


def _read_csv(stimuli: StimulusSet, file: Path, kind: TaskKind) -> list[tuple[str, ...]]:
    """Return the digests in each row of a CSV file."""
    columns, find = _CSV_COLUMNS[kind], _image_lookup(stimuli)
    needed = f"{kind} needs the columns {','.join(columns)}"
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines)
            header, rows = list(reader.fieldnames or ()), list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"cannot read {file} as CSV: {error}; {needed}") from error
    missing = [name for name in columns if name not in header]
    if missing:
        raise InvalidInput(f"{needed}, {file} has {','.join(header) or 'none'}; add {','.join(missing)}")
    if not rows:
        raise InvalidInput(f"{file} has a header only; add one row per query")
    return [
        tuple(find((row[name] or "").strip(), f"{file}, row {number}, column {name}") for name in columns)
        for number, row in enumerate(rows, start=1)
    ]


def _image_lookup(stimuli: StimulusSet) -> Callable[[str, str], str]:
    """Return a function from the text and the position of a cell to the digest of the image it names."""
    # text -> {digest: file}: by digest, by path, by file name, by image name; the first with a match decides
    indexes: list[dict[str, dict[str, str]]] = [{}, {}, {}, {}]
    for stimulus, path, image in stimuli.frame.select("stimulus", "file", "image").iter_rows():
        names = ((stimulus,), (path, path.removeprefix("images/")), (PurePosixPath(path).name,), (image,))
        for index, texts in zip(indexes, names, strict=True):
            for text in filter(None, texts):
                index.setdefault(text, {}).setdefault(stimulus, path)

    def find(text: str, where: str) -> str:
        if not text:
            raise InvalidInput(f"{where}: the cell is empty; name an image of {stimuli.root}")
        for index in indexes:
            matches = index.get(text, {})
            if len(matches) == 1:
                return next(iter(matches))
            if matches:
                raise InvalidInput(
                    f"{where}: {text!r} is the name of {len(matches)} images "
                    f"({', '.join(list(matches.values())[:3])}); give the path inside {stimuli.root}"
                )
        otherwise = "give a path inside the set, a file name or a digest"
        guess = did_you_mean(text, [*indexes[1], *indexes[2]], most=1, otherwise=otherwise)
        raise UnknownName(f"{where}: {stimuli.root} has no image called {text!r}; {guess}")

    return find
