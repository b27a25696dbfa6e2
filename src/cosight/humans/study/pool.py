"""The pool: every item that a study can show, read from the stimulus sets that its design names.

`read_sources` lists the manifest rows of each role, `check_sources` compares them with the design, `compute_digest`
identifies what is shown. None of them decodes an image. `load_pool` makes the items.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from cosight.errors import InvalidInput
from cosight.files import file_stamp
from cosight.processes import core_count
from cosight.stimuli.images import digest, read_image
from cosight.stimuli.sets import read_set
from cosight.stimuli.tasks import Task, read_tasks
from cosight.trials.manifest import DISTRACTORS
from cosight.trials.spaces import ABSTAIN
from cosight.trials.table import Role

if TYPE_CHECKING:  # which needs this module
    from cosight.humans.study.design import Study

__all__ = [
    "ImageSources",
    "Item",
    "PictureSlot",
    "Pool",
    "Row",
    "arrange_slots",
    "check_sources",
    "compute_digest",
    "load_pool",
    "read_sources",
]

Row = Mapping[str, Any]
"""A row of a manifest, and `path`, the path of its image."""

_TASK_TYPES = ("2afc", "cluster")
_GOLD = {"group": "must-act", "kind": "clean"}  # unaltered images, which everybody should see right
_STOP_RULE = ("answers", "width", "share", "idle")  # may change while a study runs
_POOL = 4  # what the seed is for; `assignment` has 1 to 3
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ImageSources:
    """Manifest rows by role. In forced-choice studies `test` are the rows that the tasks refer to."""

    test: tuple[Row, ...]
    distractor: tuple[Row, ...] = ()
    gold: tuple[Row, ...] = ()
    warmup: tuple[tuple[Row, ...], ...] = ()
    tasks: tuple[Task, ...] = ()

    @property
    def rows(self) -> list[Row]:
        """Return the rows of all roles."""
        return [*self.test, *self.distractor, *self.gold, *(row for rows in self.warmup for row in rows)]


def read_sources(study: Study) -> ImageSources:
    """Read the manifests of the study's sets. Raises InvalidInput where a set lacks what the design names."""
    rows = _read_rows(study.set, study)
    test = tuple(row for row in rows if all(str(row.get(column)) in values for column, values in study.show.items()))
    for column, values in study.show.items():
        if column not in rows[0] or column == "path":
            raise InvalidInput(f"[show] names columns of the set, got {column!r}; see `cosight stimuli verify`")
        available = {str(row[column]) for row in rows}
        for value in values:
            if value not in available:
                some = ", ".join(sorted(available)[:8])
                raise InvalidInput(f"no stimulus of {study.set} has {column} {value!r}; there are {some}")
    if study.type in _TASK_TYPES:
        return _read_task_sources(study, rows, test)
    test = _draw_pool(study, test, lambda row: row["truth"])
    test_files = {row["file"] for row in test}
    clean = [row for row in rows if all(row.get(column) == value for column, value in _GOLD.items())]
    gold = [row for row in clean if row["file"] not in test_files and row["truth"]]
    distractors: tuple[Row, ...] = ()
    if study.design.distractors:
        folder = study.distractors or study.set / DISTRACTORS
        if not folder.is_dir():
            raise InvalidInput(
                f"distractors are a set of their own, but {folder} does not exist; build it, name another folder in "
                "[sets], or set distractors = 0"
            )
        distractors = _read_rows(folder, study)
    return ImageSources(
        test=test,
        distractor=distractors,
        gold=tuple(gold) if study.design.gold else (),
        warmup=tuple(_read_rows(study.root / block.set, study) for block in study.warmup),
    )


def _draw_pool(study: Study, candidates: Sequence[T], group: Callable[[T], Any]) -> tuple[T, ...]:
    """Return the design's number of candidates, as evenly over their groups as possible, in the order of the set."""
    count = study.design.pool or len(candidates)
    if count > len(candidates):
        raise InvalidInput(f"pool must be at most {len(candidates)}, the number that {study.set} has, got {count}")
    drawn: Counter[Any] = Counter()
    order: list[tuple[int, int, int]] = []
    for index in np.random.default_rng([_POOL, study.seed]).permutation(len(candidates)).tolist():
        order.append((drawn[group(candidates[index])], len(order), index))  # one of each group, then a second one ...
        drawn[group(candidates[index])] += 1
    return tuple(candidates[index] for index in sorted(index for _, _, index in sorted(order)[:count]))


def _read_rows(folder: Path, study: Study) -> tuple[Row, ...]:
    """Return the rows of a set, with the true classes as the study's label space names them."""
    stimuli = read_set(folder)
    names = study.space.words() if study.space else {}
    return tuple(
        {**row, "truth": names.get(row["truth"], row["truth"]), "path": stimuli.path(row["file"])}
        for row in stimuli.frame.iter_rows(named=True)
        if stimuli.facts or not row["file"].startswith(f"{DISTRACTORS}/")
    )


def _read_task_sources(study: Study, rows: Sequence[Row], test: Sequence[Row]) -> ImageSources:
    """Return the tasks whose queries are all among the `test` rows, and the rows that they refer to."""
    test_stimuli = {row["stimulus"] for row in test}
    tasks = [task for task in read_tasks(study.set) if task.kind == study.type]
    if not tasks:
        raise InvalidInput(
            f"{study.set} has no {study.type} tasks; "
            f"make them with `cosight stimuli tasks {study.set} --type {study.type}`"
        )
    tasks = list(_draw_pool(study, [task for task in tasks if set(task.queries) <= test_stimuli], lambda task: None))
    used = {stimulus for task in tasks for stimulus in (*task.queries, *task.options)}
    first_rows = {row["stimulus"]: row for row in reversed(rows) if row["stimulus"] in used}
    return ImageSources(test=tuple(reversed(first_rows.values())), tasks=tuple(tasks))


def _is_clear(row: Row) -> bool:
    """Whether everybody who looks refuses this distractor: true unless its manifest says otherwise."""
    return bool(json.loads(row["parameters"] or "{}").get("clear", True))


def check_sources(study: Study, sources: ImageSources) -> None:
    """Raise InvalidInput for a design that needs more images than the sets have, or classes that nobody can answer."""
    design = study.design
    with_tasks = study.type in _TASK_TYPES
    questions, items = (sources.tasks, "tasks") if with_tasks else (sources.test, "images")
    limits = [
        ("images", design.images, len(questions), f"number of {items} in {study.set} that can be shown"),
        ("distractors", design.distractors, len(sources.distractor), "number of distractors"),
        ("checks", design.checks, len(sources.tasks), "number of tasks that a check can be made of"),
        (
            "gold",
            design.gold,
            len(sources.gold),
            "number of unaltered images (group must-act, kind clean) with a known truth that are not test images",
        ),
    ]
    for block, rows in zip(study.warmup, sources.warmup, strict=True):
        limits.append(("images in [[warmup]]", block.images, len(rows), f"number of images in {block.set}"))
    for setting, wanted, available, meaning in limits:
        if wanted > available:
            raise InvalidInput(
                f"{setting} must be at most {available}, the {meaning}, got {wanted}; lower it or add some"
            )
    if design.distractors and not any(_is_clear(row) for row in sources.distractor):
        raise InvalidInput(
            'at least one distractor must be clear, but the manifest has {"clear": false} for all of them; mark those '
            'that everybody must refuse with {"clear": true} in `parameters`'
        )
    conditions = {row["condition"] for row in sources.test}
    if design.conditions and (None in conditions or len(conditions) < design.conditions):
        raise InvalidInput(
            f"conditions must be at most {len(conditions - {None})}, and every image must have one, "
            f"got {design.conditions}"
        )
    if study.space is not None:
        allowed = {*study.space.answers, ABSTAIN, None}
        for row in sources.rows:
            if row["truth"] not in allowed:
                raise InvalidInput(
                    f"true classes must be answers of {study.space.name} ({study.space.in_words}), got "
                    f"{row['truth']!r} of {row['path']}; choose other labels or rename the class"
                )
    missing = [row["path"] for row in sources.rows if not row["path"].is_file()]
    if missing:
        raise InvalidInput(f"{len(missing)} images do not exist, the first is {missing[0]}; put them back")


def compute_digest(study: Study, sources: ImageSources) -> str:
    """Compute the sha256 of what decides what is shown: the design without its stop rule, and the sets' stimuli."""
    facts = {
        "study": [study.name, study.type, study.seed, study.space.answers if study.space else None, study.reasons],
        # without the pool: the rows tell what it is
        "design": {name: value for name, value in asdict(study.design).items() if name not in (*_STOP_RULE, "pool")},
        "timing": asdict(study.timing) if study.timing else None,
        "warmup": [block.images for block in study.warmup],
        "rows": [
            # without a manifest the name alone would not show that the image was replaced
            [row["stimulus"] or file_stamp(row["path"]), row["file"], row["truth"]]
            for row in sources.rows
        ],
        "tasks": [asdict(task) for task in sources.tasks],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=dict).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class PictureSlot:
    """One picture and its position in a trial: image; query, left, right; column-1 .., row-1 .."""

    name: str
    stimulus: str  # digest
    file: Path


@dataclass(frozen=True, slots=True)
class Item:
    """What one trial asks about.

    `item` is the stimulus' digest, or a task's id. `expected` is the answer that a check demands: a class, `abstain` or
    an option's stimulus; rows of a clustering panel have their own. `clear` distractors must always be refused. `facts`
    holds image, experiment, condition, level, truth, original, group and source (what the picture was made from); of a
    clustering panel also targets, by row; of a task `made_with`, what is known about its queries, by row; and of a
    warm-up image its block.
    """

    item: str
    role: Role
    slots: tuple[PictureSlot, ...]
    expected: str | None = None
    clear: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


def arrange_slots(item: Item, order: tuple[int, ...]) -> tuple[PictureSlot, ...]:
    """Return the slots as one participant sees them: position k shows the picture of slot `order[k]`.

    >>> left, right = PictureSlot("left", "a", Path("a.png")), PictureSlot("right", "b", Path("b.png"))
    >>> [(slot.name, slot.stimulus) for slot in arrange_slots(Item("t", "test", (left, right)), (1, 0))]
    [('left', 'b'), ('right', 'a')]
    """
    return tuple(replace(item.slots[index], name=slot.name) for slot, index in zip(item.slots, order, strict=True))


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: what depends on a large pool is cached
class Pool:
    """Every item, by its name, in the order of the set; `conditions` are those of the test items."""

    items: Mapping[str, Item]
    conditions: tuple[str | None, ...] = field(init=False, repr=False)
    _roles: Mapping[Role, tuple[Item, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Sort the items by role, once: a participant's draw must not take longer in a larger set."""
        roles: dict[Role, list[Item]] = {}
        for item in self.items.values():
            roles.setdefault(item.role, []).append(item)
        object.__setattr__(self, "_roles", {role: tuple(items) for role, items in roles.items()})
        conditions = dict.fromkeys(item.facts.get("condition") for item in self.by_role("test"))
        object.__setattr__(self, "conditions", tuple(conditions))

    def by_role(self, role: Role) -> tuple[Item, ...]:
        """Return the items of one role, in order."""
        return self._roles.get(role, ())


def load_pool(study: Study) -> Pool:
    """Return everything that `study` can show. Images of sets without a manifest are read once, for their digests.

    An image that is in a set twice is one item. Raises InvalidInput for an image with two roles.
    """
    sources = read_sources(study)
    items: dict[str, Item] = {}
    for item in _task_items(sources) if sources.tasks else _image_items(sources):
        first = items.setdefault(item.item, item)
        if first.role != item.role:
            raise InvalidInput(
                f"an image has one role in a study, but {item.slots[0].file} is {first.role} and {item.role}; "
                "remove it from one of the sets"
            )
    return Pool(items)


def _image_items(sources: ImageSources) -> Iterator[Item]:
    unread = [row["path"] for row in sources.rows if row["stimulus"] is None]
    with ThreadPoolExecutor(core_count()) as workers:  # decoding and hashing release the interpreter lock
        digests = dict(zip(unread, workers.map(lambda path: digest(read_image(path)), unread), strict=True))

    def make_item(row: Row, role: Role, *, expected: str | None = None, clear: bool = False, **facts: Any) -> Item:
        stimulus = row["stimulus"] or digests[row["path"]]
        slots = (PictureSlot("image", stimulus, row["path"]),)
        return Item(stimulus, role, slots, expected, clear, {**_row_facts(row), **facts})

    for row in sources.test:
        yield make_item(row, "test")
    for row in sources.distractor:
        clear = _is_clear(row)
        yield make_item(row, "distractor", expected=ABSTAIN if clear else None, clear=clear)
    for row in sources.gold:
        yield make_item(row, "gold", expected=row["truth"])
    for block, rows in enumerate(sources.warmup):
        for row in rows:
            yield make_item(row, "warmup", block=block)


def _row_facts(row: Row) -> dict[str, Any]:
    """Return the facts of an image; without a parent, images of one class and name are taken to be of one source."""
    facts = {name: row[name] for name in ("image", "experiment", "condition", "level", "truth", "original", "group")}
    shows = json.loads(row["parameters"] or "{}").get("shows")  # what a builder says about an image
    return {**facts, "source": row["parent"] or f"{row['truth']}/{row['image']}", "shows": shows}


def _task_items(sources: ImageSources) -> Iterator[Item]:
    """Yield the tasks, then their attention checks, whose queries equal their targets (Nanda et al. 2021, A.1)."""
    rows = {row["stimulus"]: row for row in sources.test}
    for task in sources.tasks:
        yield _task_item(task, rows)
    for task in sources.tasks:
        item = _task_item(replace(task, task=f"{task.task}-check", queries=task.targets, parameters={}), rows)
        expected = task.targets[0] if task.kind == "2afc" else None
        yield replace(item, role="check", expected=expected, facts={**item.facts, "source": task.task})


def _task_item(task: Task, rows: Mapping[str, Row]) -> Item:
    """Return a task as an item. Its facts are those that all queries share; the truth of a 2AFC task is a stimulus."""
    first, *others = (_row_facts(rows[query]) for query in task.queries)
    facts = {name: value for name, value in first.items() if all(other[name] == value for other in others)}
    if task.kind == "2afc":
        stimuli = {"query": task.queries[0], "left": task.options[0], "right": task.options[1]}
        facts |= {"truth": task.targets[0], "source": task.task}
    else:
        stimuli = {f"column-{n}": option for n, option in enumerate(task.options, start=1)}
        stimuli |= {f"row-{n}": query for n, query in enumerate(task.queries, start=1)}
        facts |= {"truth": None, "targets": task.targets, "source": task.task}
    facts["made_with"] = tuple(task.query_facts(index) for index in range(len(task.queries)))
    slots = tuple(PictureSlot(name, stimulus, rows[stimulus]["path"]) for name, stimulus in stimuli.items())
    return Item(task.task, "test", slots, facts=facts)
