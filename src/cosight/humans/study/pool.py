"""The pool: every item that a study can show, with what it shows and what is known of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosight.errors import InvalidInput
from cosight.humans.study.image_sources import ImageSources, Row, is_clear, sources_of
from cosight.stimuli.images import digest, read_image
from cosight.stimuli.tasks import Task
from cosight.trials.spaces import ABSTAIN
from cosight.trials.table import Role

if TYPE_CHECKING:  # which needs this module
    from cosight.humans.study.design import Study

__all__ = ["Item", "PictureSlot", "Pool", "pool_of", "shown_slots"]


@dataclass(frozen=True, slots=True)
class PictureSlot:
    """One picture and the place it takes: image; query, left, right; column-1 .., row-1 .."""

    name: str
    stimulus: str  # digest
    file: Path


@dataclass(frozen=True, slots=True)
class Item:
    """What one trial asks about.

    `item` is the stimulus' digest, or a task's id. `expected` is what a check demands: a class, `abstain` or an
    option's stimulus; of a clustering panel each row's own, told by its answer. `clear` distractors must always be
    refused. `facts` holds image, experiment, condition, level, truth, original, group and source (what the picture was
    made from); of a clustering panel also targets, by row, and of a warm-up image its block.
    """

    item: str
    role: Role
    slots: tuple[PictureSlot, ...]
    expected: str | None = None
    clear: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pool:
    """Every item, by its name, in the order of the set."""

    items: Mapping[str, Item]

    def by_role(self, role: Role) -> tuple[Item, ...]:
        """The items of one role, in order."""
        return tuple(item for item in self.items.values() if item.role == role)


def pool_of(study: Study) -> Pool:
    """Everything `study` can show. Images of sets without a manifest are read once, for their digests."""
    sources = sources_of(study)
    return _pooled(_of_tasks(sources) if sources.tasks else _of_images(sources))


def _pooled(items: Iterable[Item]) -> Pool:
    """Items by name; an image that is in a set twice is one item, in two roles it is a mistake."""
    found: dict[str, Item] = {}
    for item in items:
        there = found.setdefault(item.item, item)
        if there.role != item.role:
            raise InvalidInput(
                f"an image has one role in a study, {item.slots[0].file} is {there.role} and {item.role}; "
                "take it out of one of the sets"
            )
    return Pool(found)


def _of_images(sources: ImageSources) -> Iterator[Item]:
    names = _digests(sources.rows)
    for row in sources.test:
        yield _of_row(row, "test", names)
    for row in sources.distractor:
        clear = is_clear(row)
        yield _of_row(row, "distractor", names, expected=ABSTAIN if clear else None, clear=clear)
    for row in sources.gold:
        yield _of_row(row, "gold", names, expected=row["truth"])
    for block, rows in enumerate(sources.warmup):
        for row in rows:
            yield _of_row(row, "warmup", names, block=block)


def _digests(rows: Sequence[Row]) -> dict[Path, str]:
    """Each image's digest: the manifest's, or of its pixels."""
    unread = [row["path"] for row in rows if row["stimulus"] is None]
    with ThreadPoolExecutor(os.cpu_count()) as workers:  # decoding and hashing leave the interpreter free
        read = dict(zip(unread, workers.map(lambda path: digest(read_image(path)), unread), strict=True))
    return {row["path"]: row["stimulus"] or read[row["path"]] for row in rows}


def _of_row(
    row: Row,
    role: Role,
    names: Mapping[Path, str],
    *,
    expected: str | None = None,
    clear: bool = False,
    **facts: Any,
) -> Item:
    name = names[row["path"]]
    return Item(name, role, (PictureSlot("image", name, row["path"]),), expected, clear, {**_facts(row), **facts})


def _facts(row: Row) -> dict[str, Any]:
    """What is told of an image; without a parent, images of one class and name are taken to be of one source."""
    own = {name: row[name] for name in ("image", "experiment", "condition", "level", "truth", "original", "group")}
    return {**own, "source": row["parent"] or f"{row['truth']}/{row['image']}"}


def _of_tasks(sources: ImageSources) -> Iterator[Item]:
    rows = {row["stimulus"]: row for row in sources.test}
    for task in sources.tasks:
        yield _of_task(task, rows)
    for task in sources.tasks:
        yield _check_of(task, rows)


def _of_task(task: Task, rows: Mapping[str, Row]) -> Item:
    """A task; facts are those that all its queries share, but the truth of forced choices is a stimulus."""
    told = [_facts(rows[query]) for query in task.queries]
    shared = {name: value for name, value in told[0].items() if all(other[name] == value for other in told)}
    if task.kind == "2afc":
        slots = _slots(rows, query=task.queries[0], left=task.options[0], right=task.options[1])
        return Item(task.task, "test", slots, facts={**shared, "truth": task.targets[0], "source": task.task})
    numbered = {f"column-{n}": option for n, option in enumerate(task.options, start=1)}
    numbered |= {f"row-{n}": query for n, query in enumerate(task.queries, start=1)}
    facts = {**shared, "truth": None, "targets": task.targets, "source": task.task}
    return Item(task.task, "test", _slots(rows, **numbered), facts=facts)


def _check_of(task: Task, rows: Mapping[str, Row]) -> Item:
    """The same task with every query equal to its target: an attention check (Nanda et al. 2021, A.1)."""
    whole = _of_task(replace(task, task=f"{task.task}-check", queries=task.targets), rows)
    expected = task.targets[0] if task.kind == "2afc" else None
    return replace(whole, role="check", expected=expected, facts={**whole.facts, "source": task.task})


def _slots(rows: Mapping[str, Row], **places: str) -> tuple[PictureSlot, ...]:
    return tuple(PictureSlot(place, stimulus, rows[stimulus]["path"]) for place, stimulus in places.items())


def shown_slots(item: Item, order: tuple[int, ...]) -> tuple[PictureSlot, ...]:
    """The slots as one participant sees them: place k shows the picture of slot `order[k]`.

    >>> left, right = PictureSlot("left", "a", Path("a.png")), PictureSlot("right", "b", Path("b.png"))
    >>> [(slot.name, slot.stimulus) for slot in shown_slots(Item("t", "test", (left, right)), (1, 0))]
    [('left', 'b'), ('right', 'a')]
    """
    return tuple(replace(item.slots[there], name=here.name) for here, there in zip(item.slots, order, strict=True))
