from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.errors import InvalidInput
from cosight.measures import NO_ANSWER, NOT_SHOWN
from cosight.trials import LabelSpace, align, concat, make_trials, read, stimulus_groups
from cosight.trials.join import (
    CUE_CONFLICT,
    canonical_condition,
    canonical_experiment,
    manifest_rows,
    match_manifest,
    natural_key,
    people_first_key,
    texture_codes,
    with_manifest,
)
from cosight.trials.manifest import manifest_frame
from cosight.trials.table import SCHEMA

PETS = LabelSpace("pets", ("cat", "dog", "fox"))
REFUSING = LabelSpace("pets", ("cat", "dog", "fox"), abstain=True)


def trial(observer="human:1", response="cat", **more):
    """One trial; the kind is what the name says."""
    plain = {
        "observer": observer,
        "kind": observer.split(":")[0],
        "image": "1.png",
        "truth": "cat",
        "response": response,
    }
    return {**plain, **more}


def table_of(*rows, space=PETS, gamma=0.5, roles=("test", "repeat")):
    schema = {name: kind for name, kind in SCHEMA.items() if any(name in row for row in rows)}
    return align(make_trials(pl.DataFrame(rows, schema=schema), space=space), gamma=gamma, roles=roles)


def said(table):
    """Observer -> its answers, one a column; "-" not shown, None no answer."""
    words = {NO_ANSWER: None, NOT_SHOWN: "-", **dict(enumerate(table.labels))}
    return {
        name: [words[c] for c in row]
        for name, row in zip(table.observers, table.answers.response.tolist(), strict=True)
    }


# ------------------------------------------------------------------------------------------------------------- names


def test_trials_join_on_experiment_condition_and_image():
    place = {"experiment": "e", "condition": "c"}
    table = table_of(trial(**place), trial("human:2", "dog", **place), trial("model:m", None, **place))
    assert said(table) == {"human:1": ["cat"], "human:2": ["dog"], "model:m": [None]}
    assert table.columns.select("experiment", "condition", "image", "truth").rows() == [("e", "c", "1.png", "cat")]
    assert table.kinds == ("human", "human", "model")


@pytest.mark.parametrize("apart", ["experiment", "condition", "image"])
def test_never_on_the_name_alone(apart):
    place = {"experiment": "e", "condition": "c", "image": "1.png"}
    table = table_of(trial(**place), trial("human:2", "dog", **{**place, apart: "other"}))
    assert table.answers.stimuli == 2
    assert not (table.answers.shown[0] & table.answers.shown[1]).any()
    assert "2 of 2 stimuli were seen by one observer only" in table.notices


@pytest.mark.parametrize(
    ("one", "two", "name"),
    [
        ("edge", "edges", "edge"),
        ("silhouette", "silhouettes", "silhouette"),
        ("silhouettes", "filled-silhouettes", "silhouette"),
        ("cue-conflict", "texture-shape_cue-conflict", "cue-conflict"),
        ("texture-shape_edges", "edge", "edge"),
        ("texture-shape_silhouettes", "filled-silhouettes", "silhouette"),
    ],
)
def test_experiments_have_aliases(one, two, name):
    table = table_of(trial(experiment=one), trial("human:2", "dog", experiment=two))
    assert table.answers.stimuli == 1
    assert table.columns["experiment"].to_list() == [name]


def test_other_people_of_the_same_names_keep_their_experiment():
    table = table_of(trial(experiment="contrast"), trial("human:2", experiment="noise-generalisation_contrast-png"))
    assert table.answers.stimuli == 2


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("0.90", "0.9", True), ("3", "3.0", True), ("true", "True", True), ("FALSE", "false", True),
        ("1e2", "100", True), ("-5", "-5.0", True), ("c05", "c5", False), ("3", "30", False),
        ("1-10-10", "1-10-10.0", False), ("bw", "BW", False), ("inf", "inf", True),
    ],
)  # fmt: skip
def test_conditions_are_compared_as_numbers_where_they_are_numbers(one, two, same):
    spelled = pl.DataFrame({"c": [one, two]}).select(canonical_condition(pl.col("c")))["c"].to_list()
    assert (spelled[0] == spelled[1]) == same
    table = table_of(trial(condition=one), trial("human:2", condition=two))
    assert table.answers.stimuli == (1 if same else 2)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("90071992547409921", "90071992547409922"),  # one float64
        ("0.12345678901234567", "0.12345678901234568"),
        ("1e400", "1e500"),  # infinite
        ("1e-400", "0"),
    ],
)
def test_numbers_that_one_float_stands_for_are_different_conditions(one, two):
    assert table_of(trial(condition=one), trial("human:2", condition=two)).answers.stimuli == 2


@pytest.mark.parametrize("column", ["image", "experiment", "condition"])
def test_composed_and_decomposed_letters_are_the_same_name(column):
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    rows = [trial(**{column: composed}), trial("human:2", **{column: decomposed})]
    assert table_of(*rows).answers.stimuli == 1
    trials = make_trials(pl.DataFrame(rows[1:]), space=PETS)
    filled = with_manifest(trials, manifest_frame([{**rows[0], "stimulus": "d"}])).frame
    assert filled.select("stimulus", column).row(0) == ("d", decomposed)  # joined, in its own spelling


def test_a_condition_has_one_spelling_whatever_comes_first():
    rows = [trial(image="a", condition="0.90"), trial("model:m", image="b", condition="0.9")]
    for order in (rows, rows[::-1]):
        assert table_of(*order).columns["condition"].to_list() == ["0.9", "0.9"]


def test_experiments_without_a_name_are_one():
    names = pl.DataFrame({"e": [None, "", "edges"]}).select(canonical_experiment(pl.col("e")))["e"].to_list()
    assert names == ["", "", "edge"]


def test_no_condition_matches_the_only_one_of_its_experiment():
    rows = [
        trial(experiment="edge", condition="0"),
        trial("model:m", experiment="edges"),  # the CNN files say NaN where people say 0
        trial(experiment="contrast", condition="c5"),
    ]
    table = table_of(*rows)
    assert table.answers.stimuli == 2
    assert said(table)["model:m"] == ["-", "cat"]
    assert table.columns["condition"].to_list() == ["c5", "0"]


@pytest.mark.parametrize("condition", ["nan", "NaN", None])
def test_a_condition_that_is_not_a_number_is_missing(condition):
    table = table_of(trial(condition="0"), trial("model:m", condition=condition))
    assert table.answers.stimuli == 1


def test_no_condition_among_several_joins_only_its_like_and_is_reported():
    rows = [trial(condition="c5"), trial(condition="c10"), trial("model:m"), trial("model:n")]
    table = table_of(*rows)
    assert table.answers.stimuli == 3
    assert (table.answers.shown[1] == table.answers.shown[2]).all()
    assert "2 trials have no condition in an experiment with several: they join only each other" in table.notices


# ----------------------------------------------------------------------------------------------------------- digests


def test_trials_join_on_the_digest_whatever_their_names():
    rows = [
        trial(stimulus="d1", image="a.png", experiment="study"),
        trial("model:m", stimulus="d1", image="b.png", experiment="set", condition="3"),
        trial("model:n", stimulus="d1", image=None),
    ]
    table = table_of(*rows)
    assert table.answers.stimuli == 1
    assert table.columns.row(0, named=True)["image"] == "a.png"


def test_a_trial_known_by_name_adopts_the_digest_others_have_for_it():
    rows = [
        trial(image="a.png", experiment="e"),  # a person, by name
        trial("model:m", stimulus="d1", image="a.png", experiment="e"),
        trial("model:n", stimulus="d1", image="z.png", experiment="e"),  # the same picture under another name
        trial("model:m", "dog", stimulus="d2", image="a.png", experiment="f"),
    ]
    table = table_of(*rows)
    assert table.columns["key"].to_list() == ["d1", "d2"]
    assert said(table) == {"human:1": ["cat", "-"], "model:m": ["cat", "dog"], "model:n": ["cat", "-"]}


def test_a_name_that_stands_for_several_pictures_is_an_error_only_where_it_is_needed():
    known = [trial("model:m", stimulus="d1", experiment="e"), trial("model:n", stimulus="d2", experiment="e")]
    assert table_of(*known).answers.stimuli == 2
    with pytest.raises(InvalidInput, match=r"one picture to be joined on, got several digests for e /  / 1\.png"):
        table_of(*known, trial(experiment="e"))


def test_a_picture_met_in_two_experiments_is_kept_apart_there():
    rows = [
        trial("model:m", "cat", stimulus="d1", experiment="eidolonI", condition="1-10-10"),
        trial("model:m", "dog", stimulus="d1", experiment="eidolonII", condition="1-3-10"),
        trial("human:1", "fox", experiment="eidolonI", condition="1-10-10"),
        trial("human:2", "cat", experiment="eidolonII", condition="1-3-10"),
    ]
    table = table_of(*rows)
    assert table.columns["experiment"].to_list() == ["eidolonI", "eidolonII"]
    assert said(table) == {"human:1": ["fox", "-"], "human:2": ["-", "cat"], "model:m": ["cat", "dog"]}


# ----------------------------------------------------------------------------------------------------- presentations


def test_presentations_are_numbered_by_session_and_trial_and_join_by_number():
    rows = [
        trial(response="fox", session="10", trial=1),
        trial(response="cat", session="2", trial=7),  # sessions are numbers: 2 before 10
        trial(response="dog", session="2", trial=9),
        trial("human:2", "dog", session="1", trial=5),
        trial("human:2", "cat", session="1", trial=3),
    ]
    table = table_of(*rows)
    assert said(table) == {"human:1": ["cat", "dog", "fox"], "human:2": ["cat", "dog", "-"]}
    assert table.columns["presentation"].to_list() == [0, 1, 2]
    assert table.columns["key"].n_unique() == 1
    assert [[rows[i]["response"] if i >= 0 else "-" for i in row] for row in table.rows.tolist()] == list(
        said(table).values()
    )


def test_a_model_that_answered_once_answers_for_every_presentation():
    rows = [trial(trial=1), trial(response="dog", trial=2), trial("human:2", trial=4), trial("model:m", "fox", trial=8)]
    found = said(table_of(*rows))
    assert found == {"human:1": ["cat", "dog"], "human:2": ["cat", "-"], "model:m": ["fox", "fox"]}


def test_a_simulated_person_answers_for_itself_alone():
    rows = [trial(trial=1), trial(response="dog", trial=2), trial("simulated:s", "fox", trial=1)]
    assert said(table_of(*rows))["simulated:s"] == ["fox", "-"]


def test_a_model_that_answered_twice_answers_twice():
    rows = [trial(trial=i) for i in range(3)] + [trial("model:m", "dog", trial=1), trial("model:m", "fox", trial=2)]
    assert said(table_of(*rows))["model:m"] == ["dog", "fox", "-"]


def test_sessions_and_experiments_of_one_image_name():
    rows = [trial(experiment=e, session=s, trial=1) for e in "ab" for s in "12"]
    table = table_of(*rows)
    assert table.columns.select("experiment", "presentation").rows() == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_one_picture_at_several_levels_counts_at_each():
    """A grey photo whose saturation is changed has the same pixels at every level."""
    digest = "ab" * 32
    rows = [trial(who, stimulus=digest, level=n) for who in ("model:m", "model:n") for n in (1, 2)]
    table = table_of(*rows)
    assert table.columns["level"].to_list() == [1, 2]
    assert not any("twice" in notice for notice in table.notices)


# -------------------------------------------------------------------------------------------------------- duplicates


def test_identical_trials_are_dropped_and_reported():
    once = [trial(session="1", trial=1), trial(image="2.png", session="1", trial=2)]
    table = table_of(*once, *once, once[0])
    assert table.answers.stimuli == 2
    assert "3 trials occur twice in the files and were counted once" in table.notices
    assert not table_of(*once).notices[:-1]  # the last is about classes never shown


@pytest.mark.parametrize(
    "other",
    [{"response": "dog"}, {"response": None}, {"abstention": 0.7}, {"probabilities": [0.25, 0.5, 0.25]}],
)
def test_conflicting_answers_to_one_trial_are_an_error(other):
    one = trial("model:m", session="1", trial=3, abstention=0.5, probabilities=[0.5, 0.25, 0.25])
    words = r"one trial has one answer, got 2 for model:m, session 1, trial 3, stimulus  /  / 1\.png; remove one"
    with pytest.raises(InvalidInput, match=words):
        table_of(one, {**one, **other})


def test_probabilities_that_are_alike_are_no_conflict():
    one = trial("model:m", probabilities=[0.5, 0.25, 0.25])
    assert table_of(one, dict(one)).answers.stimuli == 1


def test_a_stimulus_has_one_truth():
    with pytest.raises(InvalidInput, match=r"a stimulus has one truth, got cat and dog for e /  / 1\.png"):
        table_of(trial(experiment="e"), trial("human:2", truth="dog", experiment="e"))


def test_one_picture_in_two_classes_is_named_counted_and_left_out():
    """Two photos of one colour become the same mosaic: whoever sees it cannot be right about both."""
    digest = "ab" * 32
    twins = [trial(stimulus=digest), trial(stimulus=digest, image="2.png", truth="dog")]
    table = table_of(*twins, trial("human:2", stimulus=digest), trial(stimulus="cd" * 32, image="3.png"))
    assert said(table) == {"human:1": ["cat"]}
    assert table.columns["image"].to_list() == ["3.png"]
    left_out = "pictures that are shown under several names with different truths are left out: 1"
    assert f"{left_out} (1.png (cat) = 2.png (dog))" in table.notices
    with pytest.raises(InvalidInput, match=r"a stimulus has one truth, got cat and dog for abab"):
        table_of(trial(stimulus=digest), trial("human:2", stimulus=digest, image="2.png", truth="dog"))


def test_a_truth_that_one_knows_holds_for_all():
    table = table_of(trial(truth="dog"), trial("model:m", "dog", truth=None))
    assert table.columns["truth"].to_list() == ["dog"]
    assert table.answers.correct.tolist() == [[False], [True]]


def test_an_observer_is_of_one_kind():
    with pytest.raises(InvalidInput, match="an observer is of one kind, got two for x"):
        table_of(trial("x", kind="human"), trial("x", kind="model", image="2.png"))


# ------------------------------------------------------------------------------------------------- classes, abstention


def test_classes_never_shown_are_reported():
    table = table_of(trial(), trial("human:2", "fox"))
    assert "2 of 3 classes are the truth of no stimulus (dog, fox...)" in table.notices
    full = table_of(*(trial(image=c, truth=c) for c in PETS.classes), space=REFUSING)
    assert full.notices == ()  # `abstain` need not be shown


def test_without_a_space_the_classes_are_the_truths():
    table = table_of(trial(), trial(image="2.png", truth="ant", response="ant"), space=None)
    assert table.labels == ("ant", "cat")
    with pytest.raises(
        InvalidInput, match=r"got 'fox' \(human:1, 1\.png\) which is the truth of none; name all classes"
    ):
        table_of(trial(response="fox"), space=None)
    with pytest.raises(InvalidInput, match="no trial has a truth; name the classes"):
        table_of(trial(truth=None), space=None)


def test_without_a_space_abstain_is_the_last_class_where_some_truth_is_abstain():
    rows = [trial("model:m", abstention=0.6), trial("model:m", "cat", image="2.png", truth="abstain", abstention=0.4)]
    table = table_of(*rows, space=None)
    assert table.labels == ("cat", "abstain")
    assert said(table) == {"model:m": ["abstain", "cat"]}


@pytest.mark.parametrize(("abstention", "gamma", "answer"), [
    (0.5, 0.5, "cat"), (0.500001, 0.5, "abstain"), (0.0, 0.0, "cat"), (1.0, 1.0, "cat"), (None, 0.0, "cat"),
])  # fmt: skip
def test_refusing_takes_more_than_gamma(abstention, gamma, answer):
    table = table_of(trial("model:m", abstention=abstention), space=REFUSING, gamma=gamma)
    assert said(table) == {"model:m": [answer]}


def test_refusals_where_the_space_has_no_abstain():
    rows = [trial("model:m", "abstain", abstention=1.0), trial("model:n", abstention=1.0)]
    assert said(table_of(*rows)) == {"model:m": [None], "model:n": ["cat"]}
    assert said(table_of(*rows, space=REFUSING)) == {"model:m": ["abstain"], "model:n": ["abstain"]}


@pytest.mark.parametrize("gamma", [-0.1, 1.1, float("nan")])
def test_gamma_lies_between_0_and_1(gamma):
    with pytest.raises(InvalidInput, match="--gamma must be 0 to 1, got"):
        table_of(trial(), gamma=gamma)


# ------------------------------------------------------------------------------------------------- order, cells, laws


def test_people_then_simulated_then_models_each_in_natural_order():
    names = ["model:m10", "model:m9", "simulated:s", "human:10", "human:9", "vlm:v"]
    table = table_of(*(trial(name) for name in names))
    assert table.observers == ("human:9", "human:10", "simulated:s", "model:m9", "model:m10", "vlm:v")
    assert table.people.tolist() == [True] * 3 + [False] * 3
    assert table.simulated.tolist() == [False, False, True, False, False, False]
    assert sorted([("model", "a"), ("judge", "b"), ("human", "c")], key=people_first_key)[0] == ("human", "c")


@pytest.mark.parametrize(
    "ordered",
    [
        ["c5", "c10", "c50", "c100"],
        [".9", "1", "1.5", "10"],
        ["0.9", "1"],
        ["", "1", "a"],
        ["1-3-10", "2-3-10", "16-3-10"],
        ["²", "²a"],
    ],
)
def test_natural_order(ordered):
    shuffled = list(reversed(ordered))
    assert sorted(shuffled, key=natural_key) == ordered


@given(st.lists(st.text(max_size=8), max_size=6))
def test_any_text_can_be_ordered(words):
    keys = sorted(natural_key(word) for word in words)
    assert all(a <= b for a, b in pairwise(keys))


def test_cells_share_a_group_and_cover_everything():
    rows = [trial(condition=c, image=i, level=10 if c == "c10" else None) for c in ("c10", "c5", None) for i in "ab"]
    table = table_of(*rows)
    parts = stimulus_groups(table, ["condition"])
    assert [part.group for part in parts] == [(("condition", ""),), (("condition", "c5"),), (("condition", "c10"),)]
    assert sorted(np.concatenate([part.columns for part in parts])) == list(range(6))
    assert [part.group for part in stimulus_groups(table, ["level", "truth"])] == [
        (("level", ""), ("truth", "cat")),
        (("level", "10"), ("truth", "cat")),
    ]
    (everything,) = stimulus_groups(table, [])
    assert (everything.group, len(everything.columns)) == ((), 6)
    with pytest.raises(InvalidInput, match="grouped by experiment, condition, level, truth, got 'session'"):
        stimulus_groups(table, ["session"])


ROWS = [
    trial(f"{kind}:{o}", r, experiment="e", condition=c, image=i, session=s, trial=t, stimulus=d)
    for kind, o, r, c, i, s, t, d in [
        ("human", 1, "cat", "0.5", "a", "1", 1, None), ("human", 1, "dog", "0.50", "a", "1", 2, None),
        ("human", 2, "fox", "0.5", "a", "2", 1, None), ("human", 2, None, "1", "a", "2", 2, None),
        ("model", 1, "dog", "1.0", "a", None, None, "d1"), ("model", 1, "cat", ".5", "a", None, None, "d2"),
        ("model", 2, "fox", "1", "b", None, None, None), ("model", 2, "fox", "1", "b", None, None, None),
    ]
]  # fmt: skip


@given(st.permutations(ROWS), st.integers(0, len(ROWS)))
def test_the_order_of_rows_and_files_changes_nothing(rows, cut):
    schema = {name: SCHEMA[name] for name in ROWS[0]}
    parts = [make_trials(pl.DataFrame(part, schema=schema), space=PETS) for part in (rows[:cut], rows[cut:]) if part]
    before, after = table_of(*ROWS), align(concat(parts), roles=("test", "repeat"))
    assert after.columns.equals(before.columns)
    assert (after.answers.response == before.answers.response).all()
    assert (after.observers, after.labels, after.notices) == (before.observers, before.labels, before.notices)


# ----------------------------------------------------------------------------------------------- roles, choices, sets


def test_only_first_showings_of_test_stimuli_join_unless_asked_for():
    rows = [
        trial(role="test", repetition=0, trial=1),
        trial(response="dog", role="repeat", repetition=1, trial=2),
        trial(image="2.png", role="distractor", trial=3),
        trial("model:m", "fox"),
    ]
    table = table_of(*rows, roles=("test",))
    assert said(table) == {"human:1": ["cat"], "model:m": ["fox"]}
    assert "2 of 4 trials are left out by their role (1 distractor, 1 repeat); --role includes them" in table.notices
    assert table.rows.tolist() == [[0], [3]]  # rows of the whole table of trials
    assert said(table_of(*rows)) == {"human:1": ["cat", "dog"], "model:m": ["fox", "fox"]}
    assert said(table_of(*rows, roles=("distractor",))) == {"human:1": ["cat"]}


def test_showings_whose_number_is_not_recorded_are_numbered_and_the_first_is_kept():
    rows = [trial(response="dog", trial=2), trial(trial=1), trial("human:2", trial=1)]
    table = table_of(*rows, roles=("test",))
    assert said(table) == {"human:1": ["cat"], "human:2": ["cat"]}
    assert "1 later showings of a stimulus are left out; --role test,repeat includes them" in table.notices


def test_a_recorded_repetition_decides_the_order_of_showings():
    rows = [trial(response="dog", repetition=1, trial=1), trial(response="cat", repetition=0, trial=2)]
    assert said(table_of(*rows)) == {"human:1": ["cat", "dog"]}


@pytest.mark.parametrize("again", ["cat", "dog"])
def test_showings_are_told_apart_by_their_repetition_alone(again):
    rows = [trial(role="test", repetition=0), trial(response=again, role="repeat", repetition=1)]
    assert said(table_of(*rows)) == {"human:1": ["cat", again]}


def test_one_picture_under_two_names_is_two_stimuli():
    rows = [trial(stimulus="d", image=f"{name}.png", trial=i) for i, name in enumerate("ab")]
    assert said(table_of(*rows, roles=("test",))) == {"human:1": ["cat", "cat"]}


def test_options_that_one_observer_lists_hold_for_all():
    options = json.dumps({"options": ["seed", "target-7"]})
    person = trial(response="seed", stimulus="task", truth="target-7", extra=options)
    judge = trial("judge:lpips", "target-7", stimulus="task", truth="target-7", extra=None)
    table = table_of(person, judge, space=None)
    assert said(table) == {"human:1": ["other 1"], "judge:lpips": ["target"]}


def test_missing_answers_are_no_verdicts():
    table = table_of(trial(response=None), trial("human:2", None, image="2.png", truth="dog"), space=None)
    assert table.labels == ("cat", "dog")


def test_choices_join_as_target_or_other():
    def choice(who, chosen):
        options = json.dumps({"options": ["seed", "target-7"]})
        return trial(who, chosen, stimulus="task", truth="target-7", extra=options)

    table = table_of(choice("human:1", "target-7"), choice("human:2", "seed"), choice("human:3", None), space=None)
    assert table.labels == ("target", "other 1")
    assert said(table) == {"human:1": ["target"], "human:2": ["other 1"], "human:3": [None]}
    assert table.answers.correct.tolist() == [[True], [False], [False]]


def test_verdicts_join_without_a_truth():
    table = table_of(trial(response="keep"), trial("human:2", "reject"), space=None)
    assert table.labels == ("keep", "reject")
    assert not table.answers.shown.any()


def known(**row):
    return {"stimulus": "d1", "image": "1.png", "experiment": "e", "condition": "c1", "truth": "cat", "level": 3, **row}


@pytest.mark.parametrize(
    ("given", "rows", "found"),
    [
        ({"experiment": "e", "condition": "c1"}, [known()], ("d1", "cat", "c1", 3)),
        ({"experiment": "e"}, [known(), known(stimulus="d2", image="2.png", condition="c2")], ("d1", "cat", "c1", 3)),
        ({"experiment": "e"}, [known(), known(stimulus="d2", condition="c2")], (None, None, None, None)),
        ({"experiment": "e", "condition": "c9"}, [known()], (None, None, "c9", None)),
        ({}, [known()], (None, None, None, None)),
        ({"stimulus": "d1", "image": "other.png"}, [known()], ("d1", "cat", "c1", 3)),
        ({"stimulus": "d7", "experiment": "e", "condition": "c1"}, [known()], ("d7", None, "c1", None)),
        ({"experiment": "e", "truth": "dog"}, [known()], ("d1", "dog", "c1", 3)),  # what the trial says stays
    ],
)
def test_a_manifest_adds_what_trials_lack(given, rows, found):
    row = {**trial(truth=None), "stimulus": None, "experiment": None, "condition": None, "level": None, **given}
    trials = make_trials(pl.DataFrame([row], schema={name: SCHEMA[name] for name in row}), space=PETS)
    filled = with_manifest(trials, manifest_frame(rows)).frame
    assert filled.select("stimulus", "truth", "condition", "level").row(0) == found


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([known()], ("e", "c1", 3)),
        ([known(), known(condition="c2")], ("a-study", "c9", 5)),  # the set has the picture twice
        ([known(experiment=None)], ("a-study", "c9", 5)),
        ([known(stimulus="d2")], ("a-study", "c9", 5)),
    ],
)
def test_a_picture_of_the_manifest_is_in_its_experiment_whatever_a_study_is_called(rows, found):
    row = {**trial(), "stimulus": "d1", "experiment": "a-study", "condition": "c9", "level": 5}
    trials = make_trials(pl.DataFrame([row], schema={name: SCHEMA[name] for name in row}), space=PETS)
    assert with_manifest(trials, manifest_frame(rows)).frame.select("experiment", "condition", "level").row(0) == found


def test_copies_of_a_picture_are_paired_by_name_and_not_with_each_other():
    copies = manifest_frame([known(image=f"{number}.png") for number in range(30)])
    pairs = match_manifest(copies, copies)
    assert pairs.select("row", "trial_row").rows() == [(number, number) for number in range(30)]
    assert manifest_rows(copies, copies).to_list() == list(range(30))
    renamed = copies.with_columns(image=pl.lit("another.png"))
    assert match_manifest(copies, renamed).height == 30 * 30  # the digest alone cannot tell them apart
    assert manifest_rows(copies, renamed).null_count() == 30


# ---------------------------------------------------------------------------------------------- cues of an image

CUE_LABELS = ("bird", "car", "knife", "oven")


def textures(*images, experiment=CUE_CONFLICT):
    columns = pl.DataFrame(
        {"experiment": [experiment] * len(images), "image": pl.Series(list(images), dtype=pl.String)}
    )
    return texture_codes(columns, CUE_LABELS).tolist()


@pytest.mark.parametrize(
    ("image", "texture"),
    [
        ("knife3-bird12.png", 0),
        ("car10-oven1.jpg", 3),
        ("car1-car2.png", 1),  # no conflict, but a texture
        ("car1-tiger2.png", -1),  # not a class
        ("car1.png", -1),
        ("knife-bird.png", -1),
        ("n04111531_14126.png", -1),
        (None, -1),
    ],
)
def test_the_texture_is_in_the_name(image, texture):
    assert textures(image) == [texture]


def test_only_cue_conflict_images_have_a_texture():
    assert textures("knife3-bird12.png", experiment="stylized") == [-1]


def test_no_columns_no_codes():
    assert textures() == []


def test_published_names_all_tell_a_texture(mirror):
    table = align(read(mirror / "model-vs-human" / "cue-conflict"))
    found = texture_codes(table.columns, table.labels)
    assert len(found) == 1280
    assert (found >= 0).all()
    assert (found != table.answers.truth).sum() == 1200  # 80 of them show one class twice: Geirhos et al. 2019


class TestLevels:
    """LAION-C: a photo of one name in every distortion at five levels."""

    @staticmethod
    def shown(observer, level, response="cat", **more):
        return trial(observer, response, experiment="laion-c", condition="mosaic", level=level, **more)

    def test_a_name_at_several_levels_is_several_stimuli(self):
        model = [self.shown("model:1", level, "cat" if level < 3 else "dog") for level in range(1, 6)]
        table = table_of(*model, self.shown("human:1", 4, "dog"))
        assert table.columns["level"].to_list() == [1, 2, 3, 4, 5]
        person = table.answers.response[table.observers.index("human:1")]
        assert [int(code) for code in person] == [NOT_SHOWN, NOT_SHOWN, NOT_SHOWN, 1, NOT_SHOWN]

    def test_names_find_the_digests_of_their_level(self):
        model = [self.shown("model:1", level, stimulus=f"digest-{level}") for level in range(1, 6)]
        table = table_of(*model, self.shown("human:1", 2, "dog"))
        row = table.columns["stimulus"].to_list().index("digest-2")
        assert table.answers.response[table.observers.index("human:1"), row] == 1

    def test_a_name_at_one_level_joins_trials_without_levels(self):
        table = table_of(self.shown("model:1", 3), self.shown("human:1", None))
        assert table.columns.height == 1
