"""Who sees which images, in which order: a function of the design, the pool, the participant's number and the loads.

Test images are drawn least loaded first, and only while they need answers, so that each ends with exactly as many as
are wanted, whoever leaves in between. Among equals the draw is random, but prefers pictures whose source the
participant has not seen; in timed studies it also balances conditions, levels and classes within each block.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from cosight.humans.study.design import Study
from cosight.humans.study.pool import Item, Pool
from cosight.trials.table import Role

__all__ = [
    "PlannedShowing",
    "Tally",
    "assign",
    "choose_overlap",
    "draw_balanced",
    "find_forms",
    "insert_repeats",
    "interleave",
    "make_forms",
    "split_evenly",
]

T = TypeVar("T")
_SOURCE = ("source",)
_BALANCED = ("condition", "level", "truth", "source")
_PARTICIPANT, _FORMS, _OVERLAP = 1, 2, 3  # what a seed is for: draws for different purposes are independent
_TRIES = 50  # of an order in which no image follows itself; more than a few are needed only where none exists
_NEVER_DRAWN = (0, 0, 0)
_CACHED = 4  # pools whose forms and overlap are kept: a server has one


@dataclass(frozen=True, slots=True)
class PlannedShowing:
    """One showing to one participant.

    `order` gives the slot whose picture each position shows (`pool.arrange_slots`). A second showing has the role
    "repeat" and `repeat_of`, the position (from 0) of the first. `block` counts from 0, warm-up first.
    """

    item: str
    role: str
    block: int
    order: tuple[int, ...]
    repeat_of: int | None = None
    form: int | None = None  # of test images, where there are forms


class Tally:
    """Counts of what a participant was assigned, in the current block and in all."""

    def __init__(self) -> None:
        self.block: Counter[Hashable] = Counter()
        self.total: Counter[Hashable] = Counter()

    def add(self, item: Item, factors: Sequence[str]) -> None:
        """Count an item's value of every factor, and the combinations of values."""
        path: tuple[Any, ...] = ()
        for factor in factors:
            path = (*path, item.facts.get(factor))
            self.block[factor, path[-1]] += 1
            self.total[factor, path[-1]] += 1
            self.total[path] += 1

    def counts(self, factor: str, path: tuple[Any, ...]) -> tuple[int, int, int]:
        """Return how often the last value of `path` was drawn in the block and in all, and the combination in all."""
        value = (factor, path[-1])
        return self.block[value], self.total[value], self.total[path]

    def next_block(self) -> None:
        """Start the counts of another block."""
        self.block.clear()


def draw_balanced(
    items: Sequence[Item],
    count: int,
    *,
    loads: Mapping[str, int],
    factors: Sequence[str],
    tally: Tally,
    rng: np.random.Generator,
) -> list[Item]:
    """Draw up to `count` items: the least loaded first, then those that balance the first factor, then the next.

    Ties are broken at random.
    """
    tiers: dict[int, list[Item]] = defaultdict(list)
    for index in rng.permutation(len(items)):
        tiers[loads.get(items[index].item, 0)].append(items[index])
    drawn: list[Item] = []
    for load in sorted(tiers):
        tree = _group_by_factors(tiers[load], factors)
        while tree and len(drawn) < count:
            drawn.append(_pop_least_drawn(tree, factors, (), tally))
            tally.add(drawn[-1], factors)
    return drawn


def _group_by_factors(items: Sequence[Item], factors: Sequence[str]) -> Any:
    """Return the items in nested dictionaries, one level per factor."""
    if not factors:
        return list(items)
    groups: dict[Any, list[Item]] = defaultdict(list)
    for item in items:
        groups[item.facts.get(factors[0])].append(item)
    return {value: _group_by_factors(group, factors[1:]) for value, group in groups.items()}


def _pop_least_drawn(node: Any, factors: Sequence[str], path: tuple[Any, ...], tally: Tally) -> Item:
    """Remove an item from the tree along the values drawn least; of equals the first, as their order is random."""
    if not factors:
        item: Item = node.pop()
        return item
    least_drawn, lowest = None, None
    for value in node:
        counts = tally.counts(factors[0], (*path, value))
        if lowest is None or counts < lowest:
            least_drawn, lowest = value, counts
        if counts == _NEVER_DRAWN:  # none is lower, and a large set has thousands of these
            break
    item = _pop_least_drawn(node[least_drawn], factors[1:], (*path, least_drawn), tally)
    if not node[least_drawn]:
        del node[least_drawn]
    return item


def split_evenly(total: int, parts: int) -> list[int]:
    """Split a number into integers that differ by at most one.

    >>> split_evenly(25, 3)
    [9, 8, 8]
    """
    return [total // parts + (index < total % parts) for index in range(parts)]


def interleave(items: Sequence[T], extras: Sequence[T], rng: np.random.Generator) -> list[T]:
    """Shuffle both into one list, with one extra somewhere in each of as many equal stretches.

    >>> interleave("aaaaaa", "xx", np.random.default_rng(0)).index("x") < 4
    True
    """
    total = len(items) + len(extras)
    edges = [index * total // max(1, len(extras)) for index in range(len(extras) + 1)]
    positions = {int(rng.integers(low, high)) for low, high in pairwise(edges)}
    next_extras = iter([extras[index] for index in rng.permutation(len(extras))])
    next_items = iter([items[index] for index in rng.permutation(len(items))])
    return [next(next_extras) if position in positions else next(next_items) for position in range(total)]


def insert_repeats(length: int, candidates: Sequence[int], count: int, rng: np.random.Generator) -> list[int]:
    """Return the positions 0 .. `length` - 1, with `count` of the candidates a second time in the second half.

    Repeated positions are from the first half if it has enough. No position follows itself where that is possible.
    """
    early = sorted(candidates)[: max(count, (len(candidates) + 1) // 2)]
    sequence: list[int] = []
    for _ in range(_TRIES):
        sequence = list(range(length))
        for repeated in sorted(rng.choice(early, count, replace=False).tolist()) if count else ():
            low = min(max(length // 2, sequence.index(repeated) + 2), len(sequence))
            sequence.insert(int(rng.integers(low, len(sequence) + 1)), repeated)
        if all(one != following for one, following in pairwise(sequence)):
            break
    return sequence


def make_forms(study: Study, pool: Pool) -> tuple[tuple[str, ...], ...]:
    """Return the fixed forms of a study with `forms`: its test items, split evenly into as few as `images` allows."""
    return _make_forms(pool, study.design.images, study.seed)


@lru_cache(maxsize=_CACHED)
def _make_forms(pool: Pool, images: int, seed: int) -> tuple[tuple[str, ...], ...]:
    tests = [item.item for item in pool.by_role("test")]
    order = np.random.default_rng([_FORMS, seed]).permutation(len(tests))
    forms = np.array_split(order, -(-len(tests) // images))
    return tuple(tuple(tests[index] for index in form) for form in forms)


def find_forms(study: Study, pool: Pool, names: Collection[str]) -> list[int]:
    """Return the numbers of the forms that have these test items, in order."""
    numbers = _form_numbers(pool, study.design.images, study.seed)
    return sorted({numbers[name] for name in names if name in numbers})


@lru_cache(maxsize=_CACHED)
def _form_numbers(pool: Pool, images: int, seed: int) -> dict[str, int]:
    return {name: index for index, form in enumerate(_make_forms(pool, images, seed)) for name in form}


def choose_overlap(study: Study, pool: Pool) -> frozenset[str]:
    """Return the test items that everybody sees, however many answers they have; with `conditions`, per condition."""
    return _choose_overlap(pool, study.design.overlap, study.design.conditions, study.seed)


@lru_cache(maxsize=_CACHED)
def _choose_overlap(pool: Pool, overlap: int, conditions: int, seed: int) -> frozenset[str]:
    if not overlap:
        return frozenset()
    groups = _by_condition(pool.by_role("test")).values() if conditions else [pool.by_role("test")]
    rng = np.random.default_rng([_OVERLAP, seed])
    count = overlap // max(1, conditions)
    drawn = [draw_balanced(group, count, loads={}, factors=_BALANCED, tally=Tally(), rng=rng) for group in groups]
    return frozenset(item.item for group in drawn for item in group)


def _by_condition(items: Sequence[Item]) -> dict[str, list[Item]]:
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.facts["condition"], []).append(item)
    return groups


def assign(
    study: Study,
    pool: Pool,
    *,
    number: int,
    loads: Mapping[str, int],
    seen: Collection[str] = (),
    candidates: Collection[str] | None = None,
) -> tuple[PlannedShowing, ...]:
    """Choose the showings of a participant.

    Args:
        study: The study.
        pool: Its items.
        number: The participant's number, part of the seed.
        loads: Answers given to and reserved for each test item (absent: 0).
        seen: Items that a participant who returns after a long absence has answered. They count towards the design's
            numbers and are not shown again.
        candidates: Test items to draw from (default: all of the pool).

    Returns:
        The showings in order; () when every image has its answers.
    """
    rng = np.random.default_rng([_PARTICIPANT, study.seed, number, len(seen)])
    tests = pool.by_role("test") if candidates is None else tuple(pool.items[name] for name in candidates)
    return _Draw(study, pool, tests, loads, frozenset(seen), rng).run()


@dataclass(frozen=True, slots=True)
class _Draw:
    """The draw of one participant, with everything that decides it."""

    study: Study
    pool: Pool
    tests: Sequence[Item]
    loads: Mapping[str, int]
    seen: frozenset[str]
    rng: np.random.Generator
    tally: Tally = field(default_factory=Tally)

    def run(self) -> tuple[PlannedShowing, ...]:
        form, blocks = self.form_blocks() if self.study.design.forms else (None, self.drawn_blocks())
        if not blocks:
            return ()
        extras = self.extras()
        blocks = [interleave(tests, extras[index :: len(blocks)], self.rng) for index, tests in enumerate(blocks)]
        return tuple(self.showings([*self.warmup_blocks(), *blocks], form))

    def draw(self, items: Sequence[Item], count: int, factors: Sequence[str] = _SOURCE) -> list[Item]:
        """Draw up to `count` of the items."""
        return draw_balanced(items, count, loads=self.loads, factors=factors, tally=self.tally, rng=self.rng)

    def unseen(self, role: Role) -> list[Item]:
        """Return the items of a role that the participant has not answered."""
        return [item for item in self.pool.by_role(role) if item.item not in self.seen]

    def remaining(self, role: Role, count: int) -> int:
        """Return how many of the `count` items that the design asks for are still to be shown."""
        return max(0, count - sum(self.pool.items[name].role == role for name in self.seen))

    def needs_answer(self, name: str) -> bool:
        return name not in self.seen and self.loads.get(name, 0) < self.study.answers

    def form_blocks(self) -> tuple[int | None, list[list[Item]]]:
        """Return the least loaded form, without items that need no answer; a participant never sees a second form."""
        forms, started = make_forms(self.study, self.pool), find_forms(self.study, self.pool, self.seen)
        open_forms = started or find_forms(self.study, self.pool, [item.item for item in self.tests])
        needed = {index: [name for name in forms[index] if self.needs_answer(name)] for index in open_forms}
        needed = {index: names for index, names in needed.items() if names}
        if not needed:
            return None, []
        load = {index: min(self.loads.get(name, 0) for name in names) for index, names in needed.items()}
        ties = [index for index in needed if load[index] == min(load.values())]
        form = ties[int(self.rng.integers(len(ties)))]
        items = [self.pool.items[name] for name in self.rng.permutation(needed[form]).tolist()]
        ends = np.cumsum([0, *split_evenly(len(items), self.study.design.blocks)])
        blocks = [items[low:high] for low, high in pairwise(ends)]
        return form, [block for block in blocks if block]

    def drawn_blocks(self) -> list[list[Item]]:
        """Return the test images of each block."""
        design, overlap = self.study.design, choose_overlap(self.study, self.pool)
        tests = [item for item in self.tests if item.item not in self.seen]
        # also images of the overlap: somebody who left may owe them an answer
        needed = [item for item in tests if self.needs_answer(item.item)]
        if not needed:
            return []
        fixed = [item for item in tests if item.item in overlap]
        sizes = split_evenly(self.remaining("test", design.images), design.blocks)
        if not design.conditions:
            return self.group_blocks(needed, fixed, sizes)
        groups, fixed_groups = _by_condition(needed), _by_condition(fixed)
        length, blocks = design.blocks // design.conditions, []
        for index, condition in enumerate(self.conditions(groups)):
            group_sizes = sizes[index * length : (index + 1) * length]
            blocks += self.group_blocks(groups[condition], fixed_groups.get(condition, []), group_sizes)
        return blocks

    def conditions(self, groups: Mapping[str, Sequence[Item]]) -> list[str]:
        """Return this participant's conditions in random order: those they have seen, then the least loaded."""
        known = {self.pool.items[name].facts.get("condition") for name in self.seen}
        tests = _by_condition(self.tests)
        load = {c: np.mean([self.loads.get(item.item, 0) for item in tests[c]]) for c in groups}
        shuffled = [list(groups)[index] for index in self.rng.permutation(len(groups))]
        chosen = sorted(shuffled, key=lambda c: (c not in known, load[c]))[: self.study.design.conditions]
        return [chosen[index] for index in self.rng.permutation(len(chosen))]

    def group_blocks(self, needed: Sequence[Item], fixed: Sequence[Item], sizes: Sequence[int]) -> list[list[Item]]:
        """Return blocks of these sizes: the fixed images dealt out, then needed ones; the last may be short."""
        factors = _BALANCED if "conditions" in self.study.kind.options else _SOURCE
        dealt = [fixed[index] for index in self.rng.permutation(len(fixed))]
        fixed_names = {item.item for item in fixed}
        blocks, rest = [], [item for item in needed if item.item not in fixed_names]
        for index, size in enumerate(sizes):
            self.tally.next_block()
            block = dealt[index :: len(sizes)][:size]
            for item in block:
                self.tally.add(item, factors)
            block += self.draw(rest, size - len(block), factors)
            drawn = {item.item for item in block}
            rest = [item for item in rest if item.item not in drawn]
            blocks.append(block)
        return [block for block in blocks if block]

    def extras(self) -> list[Item]:
        """Return distractors, gold images and checks, shuffled; checks of tasks that are not asked come first.

        Clear distractors are drawn in proportion, but at least one: without it the participant cannot be checked.
        """
        design = self.study.design
        self.tally.next_block()
        count, distractors = self.remaining("distractor", design.distractors), self.unseen("distractor")
        clear = [item for item in distractors if item.clear]
        clear_count = 0
        if count and distractors:
            clear_count = min(len(clear), max(1, round(count * len(clear) / len(distractors))))
        extras = self.draw(clear, clear_count)
        extras += self.draw([item for item in distractors if not item.clear], count - clear_count)
        extras += self.draw(self.unseen("gold"), self.remaining("gold", design.gold))
        extras += self.draw(self.unseen("check"), self.remaining("check", design.checks))
        return [extras[index] for index in self.rng.permutation(len(extras))]

    def warmup_blocks(self) -> list[list[Item]]:
        """Return the warm-up blocks of a new participant."""
        blocks: list[list[Item]] = []
        if self.seen:
            return blocks
        for index, block in enumerate(self.study.warmup):
            self.tally.next_block()
            items = [item for item in self.pool.by_role("warmup") if item.facts["block"] == index]
            blocks.append(interleave(self.draw(items, block.images, _BALANCED), [], self.rng))
        return blocks

    def showings(self, blocks: Sequence[Sequence[Item]], form: int | None) -> Iterator[PlannedShowing]:
        """Yield the blocks in order, with repeats for new participants; others have had the warm-up and repeats."""
        first = len(self.study.warmup) if self.seen else 0
        listed = [(item, block) for block, items in enumerate(blocks, start=first) for item in items]
        tests = [index for index, (item, _) in enumerate(listed) if item.role == "test"]
        count = 0 if self.seen else min(self.study.design.repeats, len(tests))
        first_positions: dict[int, int] = {}
        block = 0
        for position, index in enumerate(insert_repeats(len(listed), tests, count, self.rng)):
            item, own_block = listed[index]
            repeat_of = first_positions.get(index)
            block = own_block if repeat_of is None else block  # a repeat is in the block that it was inserted into
            first_positions.setdefault(index, position)
            role = item.role if repeat_of is None else "repeat"
            order = _shuffle_slots(item, self.rng)
            yield PlannedShowing(item.item, role, block, order, repeat_of, form if item.role == "test" else None)


def _shuffle_slots(item: Item, rng: np.random.Generator) -> tuple[int, ...]:
    """Return a random order of the options, the columns and the rows, each among themselves."""
    groups: dict[str, list[int]] = {}
    for index, slot in enumerate(item.slots):
        group = "option" if slot.name in ("left", "right") else slot.name.partition("-")[0]
        groups.setdefault(group, []).append(index)
    return tuple(int(index) for group in groups.values() for index in rng.permutation(group))
