"""Laws of the assignment, whatever participants do."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosight.humans.study.assignment import assign, choose_overlap, insert_repeats, interleave, make_forms
from cosight.humans.study.design import Design, Study, Warmup
from cosight.humans.study.pool import Item, PictureSlot, Pool
from cosight.trials.spaces import label_space

HERE = Path()


def item(name, role="test", **facts):
    return Item(name, role, (PictureSlot("image", name, HERE / name),), facts={"source": name, **facts})


def pool_of_items(*items):
    return Pool({one.item: one for one in items})


def small_pool(tests, *, distractors=0, clear=0):
    others = [
        Item(f"d{i}", "distractor", (PictureSlot("image", f"d{i}", HERE),), "abstain" if i < clear else None, i < clear)
        for i in range(distractors)
    ]
    return pool_of_items(*(item(f"t{i}") for i in range(tests)), *others)


def study_with(kind="classify", *, seed=0, warmup=(), **design):
    return Study(
        HERE, "s", kind, HERE, Design(**design), label_space("a,b,abstain"), seed, warmup=tuple(warmup), digest="x"
    )


def asked_in(assigned):
    return [one.item for one in assigned if one.role == "test"]


@st.composite
def designs(draw):
    tests = draw(st.integers(1, 12))
    images = draw(st.integers(1, tests))
    repeats, forms = draw(st.integers(0, images)), draw(st.booleans())
    design = {"images": images, "answers": draw(st.integers(1, 5)), "repeats": repeats, "forms": forms}
    return tests, {**design, "blocks": draw(st.integers(1, images))}


@given(designs(), st.integers(0, 2**32))
@settings(max_examples=60)
def test_every_image_ends_with_exactly_its_answers_whoever_leaves_in_between(designed, luck):
    """Participants come, answer and leave in any order; what they leave undone returns to the pool."""
    count, design = designed
    study, pool, rng = study_with(**design), small_pool(count), np.random.default_rng(luck)
    given_answers, active, number = Counter(), {}, 0
    while True:
        loads = given_answers + Counter(name for _, left in active.values() for name in left)
        assert all(loads[name] <= study.answers for name in pool.items)
        begin = rng.random() < 0.4 or not active
        if begin:
            number += 1
            mine = asked_in(assign(study, pool, number=number, loads=loads))
            assert len(mine) == len(set(mine)) <= study.design.images  # nobody sees an image twice
            if mine:
                active[number] = (set(), mine)
            elif not active:
                break
            continue
        who = list(active)[rng.integers(len(active))]
        done, left = active[who]
        if rng.random() < 0.15 and number < 60:  # leaves
            del active[who]
            continue
        given_answers[left[0]] += 1
        done.add(left.pop(0))
        if not left:
            del active[who]
    assert set(given_answers.values()) == {study.answers}
    assert len(given_answers) == count


@given(designs(), st.integers(0, 100))
@settings(max_examples=60)
def test_loads_stay_within_one_while_nobody_leaves(designed, seed):
    count, design = designed
    study, pool = study_with(seed=seed, **{**design, "forms": False}), small_pool(count)
    loads = Counter(dict.fromkeys(pool.items, 0))
    number = 0
    while assigned := assign(study, pool, number=(number := number + 1), loads=loads):
        loads.update(asked_in(assigned))
        assert max(loads.values()) - min(loads.values()) <= 1
    assert set(loads.values()) == {study.answers}
    assert number - 1 == -(-count * study.answers // study.design.images)  # nobody is asked for nothing


def test_order_depends_on_seed_and_number_alone():
    pool = small_pool(40, distractors=10, clear=3)
    design = {"images": 20, "answers": 5, "distractors": 5, "repeats": 2}

    def shown(seed, number):
        return assign(study_with(seed=seed, **design), pool, number=number, loads={})

    assert shown(0, 1) == shown(0, 1)
    assert len({shown(seed, number) for seed in range(3) for number in range(1, 4)}) == 9


@pytest.mark.parametrize(("tests", "repeats"), [(4, 1), (10, 2), (10, 10), (2, 2), (3, 3)])
@pytest.mark.parametrize("number", range(20))
def test_second_showings_come_later_and_never_next_to_the_first(tests, repeats, number):
    study = study_with(images=tests, answers=1, repeats=repeats)
    assigned = assign(study, small_pool(tests), number=number, loads={})
    again = {place: one for place, one in enumerate(assigned) if one.role == "repeat"}
    assert len(again) == repeats
    for place, one in again.items():
        first = assigned[one.repeat_of]
        assert (first.item, first.role) == (one.item, "test")
        assert place - one.repeat_of >= 2
    assert len({one.item for one in again.values()}) == repeats


def test_an_image_alone_is_repeated_all_the_same():
    assigned = assign(study_with(images=1, answers=1, repeats=1), small_pool(1), number=1, loads={})
    assert [(one.role, one.repeat_of) for one in assigned] == [("test", None), ("repeat", 0)]


@given(st.integers(1, 30), st.integers(0, 30), st.integers(0, 99))
def test_extras_are_spread(base, extras, seed):
    both = interleave(["t"] * base, ["d"] * extras, np.random.default_rng(seed))
    assert Counter(both) == Counter({"t": base, "d": extras})
    stretch = (base + extras) / extras if extras else 0
    places = [place for place, role in enumerate(both) if role == "d"]
    assert all(later - earlier < 2 * stretch + 1 for earlier, later in pairwise(places))
    assert not places or (places[0] <= stretch and places[-1] >= base + extras - stretch - 1)


@given(st.integers(2, 30), st.data())
def test_with_repeats_keeps_every_position_in_order(length, data):
    count = data.draw(st.integers(0, length))
    sequence = insert_repeats(length, range(length), count, np.random.default_rng(data.draw(st.integers(0, 99))))
    firsts = list(dict.fromkeys(sequence))
    assert firsts == list(range(length))
    assert len(sequence) == length + count
    assert max(Counter(sequence).values()) <= 2


def test_distractors_are_drawn_for_each_and_one_of_them_is_always_clear():
    study = study_with(images=5, answers=50, distractors=4)
    pool = small_pool(20, distractors=40, clear=2)  # by chance 4 of 5 would meet no clear one
    drawn = [assign(study, pool, number=number, loads={}) for number in range(50)]
    shown = [[one.item for one in own if one.role == "distractor"] for own in drawn]
    assert all(len(set(own)) == 4 for own in shown)
    assert all(any(pool.items[name].clear for name in own) for own in shown)
    assert len({name for own in shown for name in own}) > 35


def test_clear_distractors_are_drawn_in_proportion():
    study, pool = study_with(images=5, answers=9, distractors=10), small_pool(9, distractors=40, clear=20)
    shown = [one.item for one in assign(study, pool, number=1, loads={}) if one.role == "distractor"]
    assert sum(pool.items[name].clear for name in shown) == 5


def test_forms_are_fixed_and_everybody_answers_one_whole():
    study, pool = study_with(images=4, answers=3, forms=True), small_pool(10)
    forms = make_forms(study, pool)
    assert sorted(map(len, forms)) == [3, 3, 4]
    assert sorted(name for form in forms for name in form) == sorted(pool.items)
    loads, counts, number = Counter(), Counter(), 0
    while assigned := assign(study, pool, number=(number := number + 1), loads=loads):
        (form,) = {one.form for one in assigned}
        assert sorted(asked_in(assigned)) == sorted(forms[form])
        loads.update(asked_in(assigned))
        counts[form] += 1
        assert max(counts.values()) - min(counts[place] for place in range(3)) <= 1
    assert set(counts.values()) == {3}


def test_who_comes_back_gets_the_rest_of_their_own_form():
    study, pool = study_with(images=4, answers=3, forms=True), small_pool(12)
    first = assign(study, pool, number=1, loads={})
    seen = asked_in(first)[:1]
    again = assign(study, pool, number=1, loads=Counter(seen), seen=seen)
    assert {one.item for one in again} == set(asked_in(first)[1:])
    assert {one.form for one in again} == {first[0].form}
    assert assign(study, pool, number=1, loads=Counter(asked_in(first)), seen=asked_in(first)) == ()


def test_who_comes_back_gets_what_is_left_and_nothing_twice():
    study, pool = study_with(images=6, answers=9, distractors=3, repeats=2), small_pool(30, distractors=9, clear=3)
    first = assign(study, pool, number=7, loads={})
    seen = [one.item for one in first[:5]]
    again = assign(study, pool, number=7, loads={}, seen=seen)
    roles = Counter(pool.items[name].role for name in set(seen)) + Counter(one.role for one in again)
    assert roles == {"test": 6, "distractor": 3}
    assert not {one.item for one in again} & set(seen)


def test_a_full_study_hands_out_nothing():
    study, pool = study_with(images=2, answers=2, distractors=1), small_pool(3, distractors=1)
    assert assign(study, pool, number=5, loads=dict.fromkeys(["t0", "t1", "t2"], 2)) == ()


LEVELS, CLASSES, CONDITIONS = range(1, 6), [f"c{i:02d}" for i in range(16)], [f"k{i}" for i in range(6)]


@pytest.fixture(scope="module")
def laion_like():
    """Six conditions, five levels, 16 classes, the same twelve pictures a class in all of them."""
    return pool_of_items(
        *(
            item(f"{k}-{v}-{c}-{i}", condition=k, level=v, truth=c, source=f"{c}/{i}")
            for k in CONDITIONS
            for v in LEVELS
            for c in CLASSES
            for i in range(12)
        )
    )


def test_the_blocks_of_laion_c(laion_like):
    """Li et al. 2025, A.2: two conditions a person, five blocks of 60 each, levels and classes balanced."""
    study = study_with("timed", images=600, answers=1, blocks=10, conditions=2)
    loads, conditions = Counter(), Counter()
    for number in range(1, 4):
        assigned = assign(study, laion_like, number=number, loads=loads)
        facts = [laion_like.items[one.item].facts for one in assigned]
        blocks = {b: [f for one, f in zip(assigned, facts, strict=True) if one.block == b] for b in range(10)}
        assert [next(iter({f["condition"] for f in own})) for own in blocks.values()].count(facts[0]["condition"]) == 5
        assert len(list(groupby(f["condition"] for f in facts))) == 2  # five blocks of one, then five of the other
        for own in blocks.values():
            assert set(Counter(f["level"] for f in own).values()) == {12}
            assert set(Counter(f["truth"] for f in own).values()) == {3, 4}
            assert max(Counter(f["source"] for f in own).values()) == 1  # no picture twice in a block
        loads.update(asked_in(assigned))
        conditions.update({f["condition"] for f in facts})
    assert max(loads.values()) == 1  # everybody sees fresh images
    assert set(conditions.values()) == {1}  # three people, six conditions


def test_level_and_class_are_not_confounded(laion_like):
    """Counts of level x class of one person differ from independence by chance only in the last rounds."""
    study = study_with("timed", images=480, answers=1, blocks=4, conditions=1)
    assigned = assign(study, laion_like, number=1, loads={})
    cells = Counter(tuple(laion_like.items[one.item].facts[name] for name in ("level", "truth")) for one in assigned)
    assert set(cells.values()) <= {5, 6, 7}
    assert len(cells) == 80


def test_sources_are_met_once_where_there_are_enough():
    pool = pool_of_items(*(item(f"{s}-{v}", source=s) for s in range(20) for v in range(5)))
    assigned = assign(study_with(images=20, answers=1), pool, number=1, loads={})
    assert len({pool.items[one.item].facts["source"] for one in assigned}) == 20


@pytest.mark.parametrize("conditions", [0, 2])
def test_overlapping_images_are_seen_by_everybody(laion_like, conditions):
    study = study_with("timed", images=24, answers=1, blocks=2, overlap=8, conditions=conditions)
    fixed, loads = choose_overlap(study, laion_like), Counter()
    assert len(fixed) == (8 if conditions == 0 else 4 * len(CONDITIONS))
    for number in range(1, 5):
        assigned = assign(study, laion_like, number=number, loads=loads)
        names = asked_in(assigned)
        mine = {laion_like.items[name].facts["condition"] for name in names}
        due = {name for name in fixed if not conditions or laion_like.items[name].facts["condition"] in mine}
        assert due <= set(names)
        assert len(due) == 8
        assert len(names) == 24
        loads.update(names)
    assert max(load for name, load in loads.items() if name not in fixed) == 1


def test_warm_up_comes_first_in_blocks_of_its_own():
    warm = [item(f"w{b}{i}", "warmup", block=b, truth=None) for b in range(2) for i in range(5)]
    pool = pool_of_items(*(item(f"t{i}") for i in range(6)), *warm)
    study = study_with("timed", warmup=[Warmup("a", 3), Warmup("b", 2)], images=6, answers=1, blocks=2)
    assigned = assign(study, pool, number=1, loads={})
    runs = [(key, len(list(own))) for key, own in groupby((one.block, one.role) for one in assigned)]
    assert runs == [((0, "warmup"), 3), ((1, "warmup"), 2), ((2, "test"), 3), ((3, "test"), 3)]
    assert {pool.items[one.item].facts["block"] for one in assigned[:3]} == {0}
    later = assign(study, pool, number=1, loads={}, seen=[one.item for one in assigned[:6]])
    assert {one.role for one in later} == {"test"}


def panel_item(name, role="test"):
    slots = [PictureSlot(f"column-{i}", f"{name}c{i}", HERE) for i in (1, 2, 3)]
    slots += [PictureSlot(f"row-{i}", f"{name}r{i}", HERE) for i in (1, 2, 3, 4)]
    return Item(name, role, tuple(slots), facts={"source": name.removesuffix("-check")})


def test_columns_and_rows_are_shuffled_among_themselves():
    pool = pool_of_items(*(panel_item(f"p{i}") for i in range(40)))
    orders = [one.order for one in assign(study_with("cluster", images=40, answers=1), pool, number=1, loads={})]
    assert all(sorted(order[:3]) == [0, 1, 2] and sorted(order[3:]) == [3, 4, 5, 6] for order in orders)
    assert len({order[:3] for order in orders}) == 6
    assert len({order[3:] for order in orders}) > 10


def test_sides_are_drawn_anew_for_every_showing():
    slots = tuple(PictureSlot(name, name, HERE) for name in ("query", "left", "right"))
    pool = pool_of_items(*(Item(f"t{i}", "test", slots, facts={"source": str(i)}) for i in range(200)))
    orders = Counter(one.order for one in assign(study_with("2afc", images=200, answers=1), pool, number=1, loads={}))
    assert set(orders) == {(0, 1, 2), (0, 2, 1)}
    assert 70 < orders[0, 1, 2] < 130  # binomial, 4 standard deviations


def test_checks_are_made_of_tasks_that_are_not_asked_where_there_are_some():
    tests = [panel_item(f"p{i}") for i in range(6)]
    pool = pool_of_items(*tests, *(panel_item(f"p{i}-check", "check") for i in range(6)))
    for number in range(10):
        assigned = assign(study_with("cluster", images=4, answers=1, checks=2), pool, number=number, loads={})
        checks = {one.item.removesuffix("-check") for one in assigned if one.role == "check"}
        assert len(checks) == 2
        assert not checks & set(asked_in(assigned))


def test_ties_are_drawn_at_random():
    """Every image is as likely as any other: within four standard deviations of a binomial."""
    study, pool = study_with(images=3, answers=1), small_pool(10)
    drawn = Counter(name for number in range(1000) for name in asked_in(assign(study, pool, number=number, loads={})))
    assert all(abs(count - 300) < 4 * (1000 * 0.3 * 0.7) ** 0.5 for count in drawn.values())
    assert len(drawn) == 10
