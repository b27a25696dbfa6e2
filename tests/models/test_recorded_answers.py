"""Answers computed elsewhere: the same join as comparing the files, real people and networks, what is refused."""

from __future__ import annotations

import csv
import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.errors import InvalidInput, UnknownName
from cosight.measures.answers import NOT_SHOWN
from cosight.models import RecordedAnswers, load_recorded, parse
from cosight.stimuli.sets import read_set
from cosight.trials import SCHEMA, align, concat, label_spaces, make_trials, write

ANSWER = {
    "response": pl.String(),
    "probabilities": pl.List(pl.Float32()),
    "abstention": pl.Float64(),
    "rt": pl.Float64(),
    "session": pl.String(),
    "trial": pl.Int64(),
    "extra": pl.String(),
    "found": pl.Boolean(),
}


def trial(image="a.png", **changed):
    facts = {"observer": "model:x", "kind": "model", "experiment": "edge", "condition": "0", "response": "cat"}
    return {**facts, "truth": "cat", "image": image, "stimulus": None, **changed}


def shown(*rows):
    columns = ("stimulus", "image", "experiment", "condition", "level", "truth")
    plain = [{"experiment": "edge", "condition": "0", "image": "a.png", "truth": "cat", **row} for row in rows]
    return pl.DataFrame(plain, schema={name: SCHEMA[name] for name in columns})


@pytest.fixture
def recorded(tmp_path):
    """The observers of a trial file with these rows."""

    def load(*rows, options="", name="mine.parquet", space=None):
        write(
            make_trials(pl.DataFrame(rows, schema_overrides=types_of(rows)), space=space), tmp_path / name, force=True
        )
        return load_recorded(parse(f"trials:{tmp_path}/{name}{options}"))

    return load


def types_of(rows):
    return {name: SCHEMA[name] for name in rows[0]}


# --- what comes back


def test_answers_are_the_trials_in_the_order_of_the_stimuli(recorded):
    shares = [0.25, 0.75]
    (one,) = recorded(
        trial("a.png", probabilities=shares, abstention=0.5, rt=1.5, session="2", trial=7, extra='{"note": 1}'),
        trial("b.png", response=None, truth="dog", probabilities=None, abstention=None, rt=None, session=None),
    )
    answers = one.answers(shown({"image": "b.png", "truth": "dog"}, {"image": "c.png"}, {"image": "a.png"}))
    assert dict(answers.schema) == ANSWER
    assert answers["found"].to_list() == [True, False, True]
    assert answers.row(2) == ("cat", shares, 0.5, 1.5, "2", 7, '{"note": 1}', True)
    assert answers.row(0)[:-1] == answers.row(1)[:-1] == (None,) * 7  # no answer given, no trial
    assert (one.name, one.kind, one.space) == ("model:x", "model", None)


def test_one_for_each_observer_or_the_one_named(recorded):
    people = [
        trial(observer=f"human:s{number}", kind="human", response=word) for number, word in enumerate(["cat", "dog"])
    ]
    space = label_spaces["cifar-10"]
    every = recorded(trial(observer="model:x"), *people, space=space)
    assert [(one.name, one.kind, one.space) for one in every] == [
        ("model:x", "model", space),
        ("human:s0", "human", space),
        ("human:s1", "human", space),
    ]
    (second,) = recorded(trial(), *people, options=",observer=human:s1", space=space)
    assert second.answers(shown({}))["response"].to_list() == ["dog"]
    assert second.digest == every[2].digest


def test_only_first_showings_of_test_stimuli_are_looked_up(recorded):
    (one,) = recorded(
        trial("a.png", role="test", repetition=0),
        trial("a.png", role="repeat", repetition=1, response="dog"),
        trial("b.png", role="distractor", repetition=0),
    )
    answers = one.answers(shown({}, {"image": "b.png"}))
    assert (answers["response"].to_list(), answers["found"].to_list()) == (["cat", None], [True, False])
    assert one.left_out == 2


def test_a_file_in_ones_home_folder(recorded, tmp_path, monkeypatch):
    (one,) = recorded(trial())
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_recorded(parse("trials:~/mine.parquet"))[0].digest == one.digest


def test_nothing_shown_is_nothing_answered(recorded):
    (one,) = recorded(trial())
    assert dict(one.answers(shown()).schema) == ANSWER
    assert one.answers(shown()).height == 0


def test_the_digest_is_of_the_trials_not_of_the_file(recorded):
    rows = [trial("a.png", rt=1.0, extra='{"file": "here.csv"}'), trial("b.png", rt=2.0, extra=None)]
    (one,) = recorded(*rows)
    moved = [{**row, "extra": '{"file": "there.csv"}'} for row in reversed(rows)]
    assert recorded(*moved, name="other.parquet")[0].digest == one.digest
    for change in ({"response": "dog"}, {"rt": 1.5}, {"image": "c.png"}, {"condition": "1"}, {"stimulus": "d"}):
        assert recorded({**rows[0], **change}, rows[1])[0].digest != one.digest


# --- which trial is about which stimulus


@pytest.mark.parametrize(
    ("known", "asked", "found"),
    [
        ({"stimulus": "d"}, {"stimulus": "d", "image": "other.png", "experiment": "x", "condition": "9"}, True),
        ({"stimulus": "d"}, {"stimulus": "e"}, False),  # two pictures of one name
        ({"stimulus": "d"}, {}, True),
        ({}, {"stimulus": "d"}, True),
        ({}, {"experiment": "edges"}, True),  # another word for it
        ({"experiment": "silhouettes"}, {"experiment": "filled-silhouettes"}, True),
        ({}, {"experiment": "silhouette"}, False),  # never the name alone
        ({"condition": "0.90"}, {"condition": "0.9"}, True),
        ({"condition": "1"}, {"condition": "2"}, False),
        ({"condition": None}, {"condition": "0"}, True),
        ({"condition": "0"}, {"condition": None}, True),
        ({"condition": None}, {"condition": None}, True),
        ({"experiment": None, "condition": None}, {"experiment": None, "condition": None}, True),
        ({"experiment": None}, {}, False),
        ({"image": None, "stimulus": "d"}, {"image": None, "stimulus": "e"}, False),
    ],
)
def test_join_on_the_digest_else_on_experiment_condition_and_image(recorded, known, asked, found):
    assert recorded(trial(**known))[0].answers(shown(asked))["found"].to_list() == [found]


def test_a_missing_condition_is_the_only_one_of_its_experiment(recorded):
    (one,) = recorded(trial("a.png", condition=None))
    assert one.answers(shown({}, {"image": "b.png"}))["found"].to_list() == [True, False]
    several = shown({}, {"image": "b.png", "condition": "1"})
    assert one.answers(several)["found"].to_list() == [True, False]  # the set has this image in one condition only
    assert not one.answers(shown({}, {"condition": "1"}))["found"].any()
    elsewhere = {"image": "b.png", "condition": "1", "experiment": "colour"}
    assert one.answers(shown({}, elsewhere))["found"].to_list() == [True, False]


def test_a_picture_met_in_two_places_is_answered_in_each(recorded):
    (one,) = recorded(
        trial(stimulus="d", condition="0", response="cat"),
        trial(stimulus="d", condition="1", response="dog"),
        trial("b.png", stimulus="d", condition="1", response="owl"),  # the same pixels twice in the set
    )
    rows = [
        {"stimulus": "d", "condition": "1"},
        {"stimulus": "d"},
        {"stimulus": "d", "condition": "1", "image": "b.png"},
    ]
    assert one.answers(shown(*rows))["response"].to_list() == ["dog", "cat", "owl"]
    (renamed,) = recorded(*(trial("z.png", stimulus="d", condition=c, response=c) for c in ("0", "1")))
    assert renamed.answers(shown(*rows))["response"].to_list() == ["1", "0", "1"]
    (lone,) = recorded(trial(stimulus="d"))
    assert lone.answers(shown(*rows))["found"].all()


PICTURES = [
    {
        "stimulus": f"{experiment}{condition}{number}",
        "experiment": experiment,
        "condition": condition,
        "image": f"{number}.png",
    }
    for experiment, conditions in {"edge": ("0",), "contrast": ("0.5", "1"), "colour": ("cr",)}.items()
    for condition in conditions
    for number in range(2)
]
SPELLINGS = {
    "edge": ["edge", "edges"],
    "0.5": ["0.5", "0.50", ".5"],
    "1": ["1", "1.0"],
    "0": ["0", None],
    "cr": ["cr", None],
}


@st.composite
def described(draw):
    """Some of the pictures, with or without digest, each word spelled one way or another."""
    rows = draw(st.lists(st.sampled_from(PICTURES), unique_by=lambda row: row["stimulus"], min_size=1))
    return [
        {
            "stimulus": draw(st.sampled_from([row["stimulus"], None])),
            "image": row["image"],
            **{key: draw(st.sampled_from(SPELLINGS.get(row[key], [row[key]]))) for key in ("experiment", "condition")},
        }
        for row in rows
    ]


@given(described(), described())
def test_the_join_is_that_of_comparing(tmp_path_factory, known, asked):
    """What `align` finds in common between the recorded observer and one who answered every stimulus shown."""
    mine = make_trials(pl.DataFrame([trial(**row) for row in known], schema_overrides=types_of([trial(**known[0])])))
    seen = [trial(observer="model:y", trial=number, **row) for number, row in enumerate(asked)]
    path = tmp_path_factory.mktemp("trials") / "mine.parquet"
    write(mine, path)
    (one,) = load_recorded(parse(f"trials:{path}"))
    table = align(concat([mine, make_trials(pl.DataFrame(seen, schema_overrides=types_of(seen)))]))
    x, y = (table.observers.index(name) for name in ("model:x", "model:y"))
    common = table.rows[y, table.answers.response[x] != NOT_SHOWN]
    expected = {int(row) - len(known) for row in common if row >= 0}
    found = one.answers(shown(*asked))["found"].to_list()
    assert {row for row, has in enumerate(found) if has} == expected


# --- real people and networks


@pytest.mark.parametrize(
    ("experiment", "common"),
    [("cue-conflict", 320), ("edges", 160), ("silhouettes", 160)],  # images of each at hand, README of the data
)
def test_everyone_in_a_sample_answers_each_image_at_hand(mirror, experiment, common):
    manifest = read_set(mirror / "texture-vs-shape").frame
    everyone = load_recorded(parse(f"trials:sample:{experiment}"))
    assert [one.kind for one in everyone].count("human") == 10
    assert len(everyone) == 35
    assert {one.space.name for one in everyone} == {"model-vs-human-16"}
    for one in everyone:
        assert one.answers(manifest)["found"].sum() == common


def test_a_persons_answers_are_those_in_their_csv(mirror):
    manifest = read_set(mirror / "texture-vs-shape/edges").frame
    file = mirror / "model-vs-human/edge/edge_subject-01_session_1.csv"
    with file.open() as lines:
        said = {row["imagename"].rpartition("_")[2]: row["object_response"] for row in csv.DictReader(lines)}
    (person,) = load_recorded(parse(f"trials:{mirror}/model-vs-human/edge,observer=human:subject-01"))
    answers = person.answers(manifest)
    assert answers["response"].fill_null("na").to_list() == [said[image] for image in manifest["image"]]
    assert json.loads(answers["extra"][0])["imagename"].endswith(manifest["image"][0])


# --- what is refused


@pytest.mark.parametrize(
    ("rows", "asked", "message"),
    [
        (
            [{}, {"session": "2"}],
            [{}],
            r"one trial per stimulus, got 2 of model:x for edge / 0 / a\.png; use one sess",
        ),
        ([{"stimulus": "d"}, {}], [{"stimulus": "d"}], "one trial per stimulus, got 2"),
        ([{"stimulus": "d"}, {"stimulus": "e"}], [{}], "one trial per stimulus, got 2"),
        (
            [{"stimulus": "d", "image": None}] * 2,
            [{"stimulus": "d", "image": None}],
            "got 2 of model:x for edge / 0 / d;",
        ),
        (
            [{}],
            [{"stimulus": "d"}, {"stimulus": "e"}],
            r"one picture to be joined on, got 2 in the set for edge / 0 / a",
        ),
        ([{}], [{"level": 1}, {"level": 2}], "one picture to be joined on, got 2"),
        (
            [{"truth": "dog"}],
            [{}],
            "one truth, got cat in the set and dog in the trials of model:x for edge / 0 / a.png",
        ),
    ],
)
def test_trials_that_cannot_be_looked_up(recorded, rows, asked, message):
    everything = {name: None for row in rows for name in row}
    (one,) = recorded(*(trial(**{**everything, **trial(**row)}) for row in rows))
    with pytest.raises(InvalidInput, match=message) as caught:
        one.answers(shown(*asked))
    assert "\n" not in str(caught.value)
    assert not one.answers(shown({"image": "z.png", "stimulus": "z"}))["found"].any()  # others are no matter


def test_files_observers_and_stimuli_that_are_wrong(recorded, tmp_path):
    with pytest.raises(UnknownName, match=r"called 'model:y'; did you mean model:x\?"):
        recorded(trial(), options=",observer=model:y")
    with pytest.raises(UnknownName, match="called 'zzz'; there are model:x"):
        recorded(trial(), options=",observer=zzz")
    with pytest.raises(InvalidInput, match="got observr; did you mean observer"):
        recorded(trial(), options=",observr=model:x")
    with pytest.raises(InvalidInput, match="must be of one kind, got judge and model for model:x"):
        recorded(trial(), trial("b.png", kind="judge"))
    with pytest.raises(InvalidInput, match="a file or folder that exists, got"):
        load_recorded(parse(f"trials:{tmp_path}/none.parquet"))
    with pytest.raises(InvalidInput, match="got none called condition, truth"):
        recorded(trial())[0].answers(shown({}).drop("condition", "truth"))


def test_it_says_who_it_is_without_its_trials(recorded):
    (one,) = recorded(trial())
    assert isinstance(one, RecordedAnswers)
    assert "shape" not in repr(one)
    assert "name='model:x', kind='model'" in repr(one)
