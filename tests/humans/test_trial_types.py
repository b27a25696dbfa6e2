"""Every trial type: what it takes for an answer, what rows it makes, how it is simulated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.errors import InvalidInput
from cosight.humans.study.design import Design
from cosight.humans.study.pool import Item, PictureSlot, arrange_slots
from cosight.humans.study.trial_types import ParsedAnswer, Respondent, TrialContext, group_addresses, trial_types
from cosight.trials.spaces import label_space

SPACE, REASONS = label_space("cat,dog,abstain"), ("blurred", "two objects")
HERE = Path()


def slots(*places):
    return tuple(PictureSlot(place, stimulus, HERE) for place, stimulus in places)


IMAGE = Item("i", "test", slots(("image", "i")), facts={"truth": "dog"})
PAIR = Item(
    "t",
    "test",
    slots(("query", "q"), ("left", "target"), ("right", "seed")),
    facts={"truth": "target", "made_with": ({"model": "m", "start": "noise"},)},
)
PANEL = Item(
    "p",
    "test",
    slots(("column-1", "A"), ("column-2", "B"), ("column-3", "C"), ("row-1", "a"), ("row-2", "b"), ("row-3", "c")),
    facts={"truth": None, "targets": ("A", "B", "C"), "made_with": tuple({"start": start} for start in "abc")},
)
ASKED = {
    "classify": TrialContext(IMAGE, (0,), SPACE),
    "timed": TrialContext(IMAGE, (0,), SPACE),
    "2afc": TrialContext(PAIR, (0, 2, 1)),
    "cluster": TrialContext(PANEL, (2, 0, 1, 5, 3, 4)),
    "curate": TrialContext(IMAGE, (0,), reasons=REASONS),
}
ANSWERS = {
    "classify": ["cat", "dog", "abstain"],
    "timed": ["cat", "abstain", None],
    "2afc": ["left", "right"],
    "cluster": [[0, 0, 0], [0, 1, 2]],
    "curate": [{"keep": True}, {"keep": False, "reason": "blurred"}],
}
NO_ANSWERS = [
    *("", "Cat", "none", "up", 0, 1.5, True, [], {}, [0, 1], [0, 1, 3], [0, 1, -1], [0, 1, True], [0, 1, "2"], [[]]),
    *({"keep": 1}, {"keep": False}, {"keep": True, "reason": "blurred"}, {"keep": False, "reason": "ugly"}),
    *({"keep": False, "reason": []}, {"keep": False, "reason": "blurred", "more": 1}, "x" * 5000, ["left"]),
]
DISTANCE = {("q", "seed"): 1.0, ("q", "target"): 2.0}
CLOSE = Respondent(
    distance=lambda a, b: DISTANCE.get((a.stimulus, b.stimulus), float(a.stimulus.upper() != b.stimulus))
)
SURE = Respondent(probabilities=lambda item: [0.0, 1.0, 0.0])


def test_there_are_cases_for_every_type():
    assert list(trial_types) == list(ASKED) == list(ANSWERS)


@pytest.mark.parametrize("name", sorted(trial_types))
def test_every_type_takes_its_answers_and_no_others(name):
    kind, asked = trial_types[name], ASKED[name]
    for answer in ANSWERS[name]:
        rows = kind.parse(asked, answer)
        assert all(isinstance(row, ParsedAnswer) for row in rows)
        assert len(rows) == (3 if name == "cluster" else 1)
        made_with = {key for facts in ASKED[name].item.facts.get("made_with", ()) for key in facts}
        assert {key for row in rows for key in row.extra} <= set(kind.records) | made_with
    for answer in [*NO_ANSWERS, *([] if name == "timed" else [None])]:
        with pytest.raises(InvalidInput, match="an answer must be") as refused:
            kind.parse(asked, answer)
        assert len(str(refused.value)) < 300  # a line, whatever was sent


@pytest.mark.parametrize("name", sorted(trial_types))
def test_every_type_says_what_it_shows_and_records(name):
    kind = trial_types[name]
    assert {"response", "rt", "input"} <= set(kind.records)
    assert {slot.name.partition("-")[0] for slot in ASKED[name].item.slots} == set(kind.slots)
    assert kind.summary[0].islower()
    known = {"labels", "timing", "warmup", "calibration", "curate"} | set(Design.__dataclass_fields__)
    assert kind.options <= known


@pytest.mark.parametrize("name", sorted(trial_types))
def test_every_type_simulates_answers_that_it_takes(name):
    kind, asked = trial_types[name], ASKED[name]
    who = CLOSE if "query" in kind.records else SURE
    answer = kind.simulate(asked, who, np.random.default_rng(0))
    assert kind.parse(asked, answer)
    with pytest.raises(InvalidInput, match="a simulated participant of this study needs"):
        kind.simulate(asked, Respondent(), np.random.default_rng(0))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda part: st.lists(part)))
def test_whatever_is_sent_is_an_answer_or_refused(sent):
    for name, kind in trial_types.items():
        try:
            kind.parse(ASKED[name], sent)
        except InvalidInput:
            continue
        assert sent in ANSWERS[name] or name == "cluster"


def test_a_side_stands_for_the_option_that_was_shown_there():
    (row,) = trial_types["2afc"].parse(ASKED["2afc"], "left")  # shown the other way round
    made_with = {"model": "m", "start": "noise"}
    assert row == ParsedAnswer("t", "seed", "target", extra={"options": ["seed", "target"], "query": "q", **made_with})


def test_a_column_stands_for_the_option_that_was_shown_there():
    """Columns were shown as C A B, rows as c a b."""
    rows = trial_types["cluster"].parse(ASKED["cluster"], [0, 0, 2])
    assert [(row.stimulus, row.response, row.truth) for row in rows] == [
        ("p/c", "C", "C"),
        ("p/a", "C", "A"),
        ("p/b", "B", "B"),
    ]
    assert rows[0].extra == {"options": ["C", "A", "B"], "panel": "p", "query": "c", "start": "c"}


def test_rows_of_a_check_expect_their_target():
    check = Item("p", "check", PANEL.slots, facts=PANEL.facts)
    rows = trial_types["cluster"].parse(TrialContext(check, (0, 1, 2, 3, 4, 5)), [1, 1, 1])
    assert [row.expected for row in rows] == ["A", "B", "C"]
    pair = Item("t", "check", PAIR.slots, expected="target", facts=PAIR.facts)
    assert trial_types["2afc"].parse(TrialContext(pair, (0, 1, 2)), "left")[0].expected == "target"


def test_verdicts():
    parse, asked = trial_types["curate"].parse, ASKED["curate"]
    assert parse(asked, {"keep": True})[0] == ParsedAnswer("i", "keep", "dog")
    rejected = ParsedAnswer("i", "reject", "dog", extra={"reason": "blurred"})
    assert parse(asked, {"keep": False, "reason": "blurred"})[0] == rejected


def test_distances_choose_the_closest_as_shown_and_draw_between_equals():
    rng = np.random.default_rng(0)
    assert trial_types["2afc"].simulate(ASKED["2afc"], CLOSE, rng) == "left"  # the seed is closer, and on the left
    assert trial_types["cluster"].simulate(ASKED["cluster"], CLOSE, rng) == [0, 1, 2]
    equal = Respondent(distance=lambda a, b: 0.0)
    assert {trial_types["2afc"].simulate(ASKED["2afc"], equal, rng) for _ in range(30)} == {"left", "right"}


def test_chances_are_those_of_the_respondent():
    rng, chances = np.random.default_rng(1), [0.2, 0.5, 0.3]
    who = Respondent(probabilities=lambda item: chances)
    drawn = [trial_types["classify"].simulate(ASKED["classify"], who, rng) for _ in range(4000)]
    shares = [drawn.count(name) / 4000 for name in SPACE.answers]
    assert np.allclose(shares, chances, atol=4 * 0.5 / 4000**0.5)  # four standard deviations of a share
    verdicts = [trial_types["curate"].simulate(ASKED["curate"], who, rng) for _ in range(100)]
    assert {str(verdict) for verdict in verdicts} == {
        "{'keep': True}",
        "{'keep': False, 'reason': 'blurred'}",
        "{'keep': False, 'reason': 'two objects'}",
    }


@pytest.mark.parametrize("chances", [[0.5, 0.5], [1.0, 1.0, 1.0], [-1.0, 1.0, 1.0]])
def test_chances_that_are_none_are_refused(chances):
    who = Respondent(probabilities=lambda item: chances)
    with pytest.raises(InvalidInput, match="probabilities"):
        trial_types["classify"].simulate(ASKED["classify"], who, np.random.default_rng(0))


def test_images_as_the_page_gets_them():
    seen = arrange_slots(PANEL, (2, 0, 1, 5, 3, 4))
    assert group_addresses(seen, [slot.stimulus for slot in seen]) == {
        "columns": ["C", "A", "B"],
        "rows": ["c", "a", "b"],
    }
    pair = arrange_slots(PAIR, (0, 2, 1))
    assert group_addresses(pair, "123") == {"query": "1", "left": "2", "right": "3"}
    assert [slot.stimulus for slot in pair] == ["q", "seed", "target"]


def test_classes_need_a_label_space():
    with pytest.raises(InvalidInput, match="label space"):
        trial_types["classify"].parse(TrialContext(IMAGE, (0,)), "cat")
