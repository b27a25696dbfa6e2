"""Who sees what, in which order: a pure function of the design, the pool, the participant's number and the loads.

Test images are drawn least loaded first and handed out only while they need answers, so that each ends with exactly as
many as are wanted, whoever leaves in between. Among equals the draw is random, but prefers pictures whose source the
participant has not met; in timed studies it also keeps conditions, levels and classes even within each block.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cosight.humans.study.design import Study
from cosight.humans.study.pool import Item, Pool
from cosight.humans.study.spreading import Tally, balanced_draw, shares, spread_among, with_repeats
from cosight.trials.table import Role

__all__ = ["Assigned", "assign", "forms_of", "overlap_of"]

_SOURCE = ("source",)
_EVEN = ("condition", "level", "truth", "source")
_PARTICIPANT, _FORMS, _OVERLAP = 1, 2, 3  # what a seed is for: draws for different ends are independent


@dataclass(frozen=True, slots=True)
class Assigned:
    """One showing to one participant.

    `order` says which slot's picture takes each place (`pool.shown_slots`). A second showing has the role "repeat" and
    `repeat_of`, the position (from 0) of the first. `block` counts from 0, warm-up first.
    """

    item: str
    role: str
    block: int
    order: tuple[int, ...]
    repeat_of: int | None = None
    form: int | None = None  # of test images, where there are forms


@dataclass(frozen=True, slots=True)
class _Draw:
    """One participant's draw: everything that decides it."""

    study: Study
    pool: Pool
    loads: Mapping[str, int]
    seen: frozenset[str]
    rng: np.random.Generator
    tally: Tally

    def some(self, items: Sequence[Item], count: int, factors: Sequence[str]) -> list[Item]:
        """Up to `count` of the items."""
        return balanced_draw(items, count, loads=self.loads, factors=factors, tally=self.tally, rng=self.rng)

    def unseen(self, role: Role) -> list[Item]:
        """Items of a role that the participant has not answered."""
        return [item for item in self.pool.by_role(role) if item.item not in self.seen]

    def left(self, role: Role, count: int) -> int:
        """How many of `count` are still to be shown to them."""
        return max(0, count - sum(self.pool.items[name].role == role for name in self.seen))


def assign(
    study: Study, pool: Pool, *, number: int, loads: Mapping[str, int], seen: Collection[str] = ()
) -> tuple[Assigned, ...]:
    """What participant `number` is shown next; () when every image has its answers.

    `loads` are the answers given and reserved for each test item (absent = 0). Who comes back after a long absence is
    assigned what they have not done: `seen` are the items they answered, which count and which they never see again.
    """
    rng = np.random.default_rng([_PARTICIPANT, study.seed, number, len(seen)])
    draw = _Draw(study, pool, loads, frozenset(seen), rng, Tally())
    form, blocks = _form_blocks(draw) if study.design.forms else (None, _drawn_blocks(draw))
    if not blocks:
        return ()
    extras = _extras(draw)
    filled = [spread_among(tests, extras[place :: len(blocks)], rng) for place, tests in enumerate(blocks)]
    return tuple(_showings(draw, [*_warmup(draw), *filled], form))


def forms_of(study: Study, pool: Pool) -> tuple[tuple[str, ...], ...]:
    """The fixed forms of a study with `forms`: its test items, cut into as few as `images` allows, evenly."""
    tests = [item.item for item in pool.by_role("test")]
    order = np.random.default_rng([_FORMS, study.seed]).permutation(len(tests))
    cut = np.array_split(order, -(-len(tests) // study.design.images))
    return tuple(tuple(tests[place] for place in form) for form in cut)


def overlap_of(study: Study, pool: Pool) -> frozenset[str]:
    """The test items that everybody sees, however many answers they have; with `conditions`, whoever sees theirs."""
    design, tests = study.design, pool.by_role("test")
    if not design.overlap:
        return frozenset()
    groups = _by_condition(tests).values() if design.conditions else [tests]
    rng = np.random.default_rng([_OVERLAP, study.seed])
    each = design.overlap // max(1, design.conditions)
    drawn = [balanced_draw(own, each, loads={}, factors=_EVEN, tally=Tally(), rng=rng) for own in groups]
    return frozenset(item.item for own in drawn for item in own)


def _by_condition(items: Sequence[Item]) -> dict[str, list[Item]]:
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.facts["condition"], []).append(item)
    return groups


def _is_open(draw: _Draw, name: str) -> bool:
    return name not in draw.seen and draw.loads.get(name, 0) < draw.study.answers


def _form_blocks(draw: _Draw) -> tuple[int | None, list[list[Item]]]:
    """The least loaded form, as far as it needs answers; who has begun one gets no other."""
    forms = forms_of(draw.study, draw.pool)
    begun = [place for place, form in enumerate(forms) if draw.seen.intersection(form)]
    wanting = {place: [name for name in forms[place] if _is_open(draw, name)] for place in begun or range(len(forms))}
    asked = {place: names for place, names in wanting.items() if names}
    if not asked:
        return None, []
    load = {place: min(draw.loads.get(name, 0) for name in names) for place, names in asked.items()}
    ties = [place for place in asked if load[place] == min(load.values())]
    form = ties[int(draw.rng.integers(len(ties)))]
    shuffled = draw.rng.permutation(asked[form]).tolist()
    return form, _cut([draw.pool.items[name] for name in shuffled], draw.study.design.blocks)


def _cut(items: Sequence[Item], blocks: int) -> list[list[Item]]:
    """Items in blocks of even length; a block without any is none."""
    ends = np.cumsum([0, *shares(len(items), blocks)])
    cut = [list(items[low:high]) for low, high in pairwise(ends)]
    return [block for block in cut if block]


def _drawn_blocks(draw: _Draw) -> list[list[Item]]:
    """Test images of each block."""
    design, fixed = draw.study.design, overlap_of(draw.study, draw.pool)
    tests = draw.unseen("test")
    wanting = [item for item in tests if _is_open(draw, item.item)]  # everybody's too: who left may owe them answers
    if not wanting:
        return []
    sizes = shares(draw.left("test", design.images), design.blocks)
    if not design.conditions:
        return _group_blocks(draw, wanting, [item for item in tests if item.item in fixed], sizes)
    groups, everybodys = _by_condition(wanting), _by_condition([item for item in tests if item.item in fixed])
    length, blocks = design.blocks // design.conditions, []
    for place, condition in enumerate(_conditions(draw, groups)):
        own = sizes[place * length : (place + 1) * length]
        blocks += _group_blocks(draw, groups[condition], everybodys.get(condition, []), own)
    return blocks


def _conditions(draw: _Draw, groups: Mapping[str, Sequence[Item]]) -> list[str]:
    """The conditions of this participant in random order: those they have met, then the least loaded."""
    met = {draw.pool.items[name].facts.get("condition") for name in draw.seen}
    every = _by_condition(draw.pool.by_role("test"))
    load = {c: np.mean([draw.loads.get(item.item, 0) for item in every[c]]) for c in groups}
    shuffled = [list(groups)[place] for place in draw.rng.permutation(len(groups))]
    chosen = sorted(shuffled, key=lambda c: (c not in met, load[c]))[: draw.study.design.conditions]
    return [chosen[place] for place in draw.rng.permutation(len(chosen))]


def _group_blocks(
    draw: _Draw, wanting: Sequence[Item], fixed: Sequence[Item], sizes: Sequence[int]
) -> list[list[Item]]:
    """Blocks of these sizes: everybody's images shared out, then what wants answers; the last may be short."""
    factors = _EVEN if "conditions" in draw.study.kind.options else _SOURCE
    dealt = [fixed[place] for place in draw.rng.permutation(len(fixed))]
    names = {item.item for item in fixed}
    blocks, rest = [], [item for item in wanting if item.item not in names]
    for place, size in enumerate(sizes):
        draw.tally.next_block()
        block = dealt[place :: len(sizes)][:size]
        for item in block:
            draw.tally.add(item, factors)
        block += draw.some(rest, size - len(block), factors)
        taken = {item.item for item in block}
        rest = [item for item in rest if item.item not in taken]
        blocks.append(block)
    return [block for block in blocks if block]


def _extras(draw: _Draw) -> list[Item]:
    """Distractors, gold images and checks, shuffled; checks of tasks that are not asked come first."""
    design = draw.study.design
    draw.tally.next_block()
    found = _distractors(draw, draw.left("distractor", design.distractors))
    found += draw.some(draw.unseen("gold"), draw.left("gold", design.gold), _SOURCE)
    found += draw.some(draw.unseen("check"), draw.left("check", design.checks), _SOURCE)
    return [found[place] for place in draw.rng.permutation(len(found))]


def _distractors(draw: _Draw, count: int) -> list[Item]:
    """Clear ones in proportion, but at least one: without it nothing can be told of the participant."""
    there = draw.unseen("distractor")
    clear = [item for item in there if item.clear]
    most = min(len(clear), max(1, round(count * len(clear) / len(there)))) if count and there else 0
    found = draw.some(clear, most, _SOURCE)
    return found + draw.some([item for item in there if not item.clear], count - most, _SOURCE)


def _warmup(draw: _Draw) -> list[list[Item]]:
    """The warm-up blocks, for those who begin."""
    if draw.seen:
        return []
    blocks, there = [], draw.pool.by_role("warmup")
    for place, block in enumerate(draw.study.warmup):
        draw.tally.next_block()
        own = [item for item in there if item.facts["block"] == place]
        blocks.append(spread_among(draw.some(own, block.images, _EVEN), [], draw.rng))
    return blocks


def _showings(draw: _Draw, blocks: Sequence[Sequence[Item]], form: int | None) -> Iterator[Assigned]:
    """Blocks one after the other, with second showings for those who begin; who comes back has had the warm-up."""
    first = len(draw.study.warmup) if draw.seen else 0
    listed = [(item, block) for block, items in enumerate(blocks, start=first) for item in items]
    tests = [place for place, (item, _) in enumerate(listed) if item.role == "test"]
    count = 0 if draw.seen else min(draw.study.design.repeats, len(tests))
    firsts: dict[int, int] = {}
    block = 0
    for position, place in enumerate(with_repeats(len(listed), tests, count, draw.rng)):
        item, own = listed[place]
        again = firsts.get(place)
        block = own if again is None else block  # a second showing stays in the block it was put into
        firsts.setdefault(place, position)
        role = item.role if again is None else "repeat"
        yield Assigned(item.item, role, block, _order(item, draw.rng), again, form if item.role == "test" else None)


def _order(item: Item, rng: np.random.Generator) -> tuple[int, ...]:
    """A random order of the options, the columns and the rows, each among themselves."""
    groups: dict[str, list[int]] = {}
    for place, slot in enumerate(item.slots):
        group = "option" if slot.name in ("left", "right") else slot.name.partition("-")[0]
        groups.setdefault(group, []).append(place)
    return tuple(int(place) for own in groups.values() for place in rng.permutation(own))
