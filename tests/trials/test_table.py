from __future__ import annotations

import polars as pl
import pytest

from cosight.errors import InvalidInput, UnknownName
from cosight.trials.formats import write
from cosight.trials.spaces import label_space
from cosight.trials.table import (
    KINDS,
    OBSERVERS,
    SCHEMA,
    concat,
    dropped_columns,
    make_trials,
    observer_table,
    select_roles,
)

PETS = label_space("cat,dog")
GOOD = {"observer": "human:s01", "kind": "human", "image": "a.png", "response": "cat"}


def frame(*rows: dict, **kinds: pl.DataType) -> pl.DataFrame:
    return pl.DataFrame([{**GOOD, **row} for row in rows], schema_overrides=kinds, infer_schema_length=None)


def test_missing_columns_are_null_and_foreign_ones_left_out():
    trials = make_trials(frame({"colour": "red"}))
    assert trials.frame.schema == pl.Schema(SCHEMA)
    assert len(trials) == 1
    assert trials.frame.row(0, named=True) == {**dict.fromkeys(SCHEMA), "role": "test", **GOOD}
    assert (trials.space, trials.sources, trials.notices) == (None, (), ())


@pytest.mark.parametrize("missing", ["observer", "kind", "response"])
def test_columns_every_table_has(missing):
    with pytest.raises(InvalidInput, match=rf"x\.csv: .*must have the column '{missing}'"):
        make_trials(frame({}).drop(missing), source="x.csv")


def test_an_image_or_a_stimulus():
    make_trials(frame({"stimulus": "0f"}).drop("image"))
    with pytest.raises(InvalidInput, match=r"x\.csv: .*'image' or 'stimulus', got neither"):
        make_trials(frame({}).drop("image"), source="x.csv")


def test_a_column_of_another_type_is_named():
    with pytest.raises(InvalidInput, match=r"x\.csv: column 'level' must hold Int64, got String"):
        make_trials(frame({"level": "high"}), source="x.csv")


BROKEN = [
    ({"observer": None}, "observer", "every trial has an observer", "None"),
    ({"observer": ""}, "observer", "every trial has an observer", "''"),
    ({"kind": "robot"}, "kind", "kind is one of human, model", "'robot'"),
    ({"kind": None}, "kind", "kind is one of human, model", "None"),
    ({"image": None}, "image", "a trial names its image or its stimulus", "None"),
    ({"abstention": 1.5}, "abstention", r"abstention lies in \[0, 1\]", "1.5"),
    ({"abstention": -0.1}, "abstention", r"abstention lies in \[0, 1\]", "-0.1"),
    ({"abstention": float("nan")}, "abstention", r"abstention lies in \[0, 1\]", "nan"),
    ({"rt": float("nan")}, "rt", "rt is a number of seconds, 0 or more, or missing", "nan"),
    ({"rt": -0.5}, "rt", "rt is a number of seconds, 0 or more, or missing", "-0.5"),
    ({"rt": float("inf")}, "rt", "rt is a number of seconds, 0 or more, or missing", "inf"),
    ({"probabilities": [1.5, -0.5]}, "probabilities", "probabilities are numbers of 0 or more", r"\[1.5, -0.5\]"),
    ({"probabilities": [float("nan"), 1.0]}, "probabilities", "probabilities are numbers", r"\[nan, 1.0\]"),
    ({"probabilities": [None, 1.0]}, "probabilities", "probabilities are numbers", r"\[None, 1.0\]"),
    ({"probabilities": [0.5, 0.25]}, "probabilities", "probabilities sum to one", "0.75 in all"),
    ({"probabilities": []}, "probabilities", "probabilities sum to one", "0 in all"),
    (
        {"probabilities": [0.5, 0.25, 0.25]},
        "probabilities",
        "there are 2 probabilities per trial",
        r"\[0.5, 0.25, 0.25\]",
    ),
    ({"truth": "horse"}, "truth", "truth is a class of given", "'horse'"),
    ({"response": "horse"}, "response", "a response is a class of given", "'horse'"),
]


@pytest.mark.parametrize(("row", "column", "rule", "got"), BROKEN)
def test_a_broken_rule_is_told_with_file_row_column_and_value(row, column, rule, got):
    kinds = {name: SCHEMA[name] for name in row}
    with pytest.raises(InvalidInput, match=rf"^x\.csv, row 2, column {column}: {rule}.*, got {got}"):
        make_trials(frame({}, row, row, **kinds), source="x.csv", space=PETS)


def test_locate_says_where_a_row_of_several_files_stands():
    with pytest.raises(InvalidInput, match=r"^file B, line 7, column kind"):
        make_trials(frame({}, {"kind": "robot"}), locate=lambda row: f"file B, line {row + 6}")


@pytest.mark.parametrize(
    "row",
    [
        {"response": None},
        {"response": "abstain", "abstention": 1.0},  # a refusal needs no `abstain` among the answers
        {"truth": "abstain"},
        {"probabilities": [0.3337, 0.6667]},  # rounded tables are off by less than 1e-3
        {"abstention": 0.0, "rt": 0.0},
        *({"kind": kind, "observer": f"{kind}:a"} for kind in KINDS),
    ],
)
def test_what_the_rules_allow(row):
    assert len(make_trials(frame(row), space=PETS)) == 1


def test_without_a_space_answers_are_free():
    assert len(make_trials(frame({"response": "left", "probabilities": [0.2, 0.3, 0.5]}))) == 1


def test_with_space_checks_again():
    trials = make_trials(frame({"response": "horse"}))
    assert trials.with_space(label_space("cat,horse")).space.classes == ("cat", "horse")
    with pytest.raises(InvalidInput, match="row 1, column response"):
        trials.with_space(PETS)


def test_observers_in_order_with_what_is_known():
    table = make_trials(
        frame({"observer": "model:b", "kind": "model"}, {}, {"observer": "model:b", "kind": "model"})
    ).frame
    known = pl.DataFrame({"observer": ["model:b", "model:gone"], "seed": [45, 46], "family": ["cnn", "cnn"]})
    rows = observer_table(table, known)
    assert rows.schema == pl.Schema(OBSERVERS)
    assert rows["observer"].to_list() == ["model:b", "human:s01"]
    assert rows["seed"].to_list() == [45, None]
    assert rows["kind"].to_list() == ["model", "human"]


def test_concat_keeps_order_observers_sources_and_notices():
    one = make_trials(frame({}), space=PETS, sources=[{"file": "a"}], notices=["one"])
    two = make_trials(frame({"observer": "model:m", "kind": "model"}), sources=[{"file": "b"}], notices=["two"])
    both = concat([one, two])
    assert both.frame["observer"].to_list() == both.observers["observer"].to_list() == ["human:s01", "model:m"]
    assert both.space is PETS
    assert [s["file"] for s in both.sources] == ["a", "b"]
    assert both.notices == ("one", "two")


def test_concat_wants_one_label_space_and_a_table():
    with pytest.raises(InvalidInput, match="one label space, got given and cifar-10"):
        concat([make_trials(frame({}), space=PETS), make_trials(frame({}), space=label_space("cifar-10"))])
    with pytest.raises(InvalidInput, match="at least one table"):
        concat([])


def test_concat_checks_a_table_of_unknown_space_against_the_known_one():
    with pytest.raises(InvalidInput, match="row 1, column response: a response is a class of given"):
        concat([make_trials(frame({}), space=PETS), make_trials(frame({"response": "horse"}))])


# --------------------------------------------------------------------------------------------------------------- roles


def roles_of(*rows):
    return make_trials(frame(*rows)).frame.select("role", "repetition", "block").rows()


def test_older_files_have_their_role_in_extra():
    assert roles_of({"extra": '{"role": "distractor", "block": 2}'}) == [("distractor", None, 2)]
    assert roles_of({"extra": '{"role": "repeat", "repeat_of": 1}'}) == [("repeat", 1, None)]
    assert roles_of({"extra": '{"role": "participant", "block": 1}'}) == [("test", None, None)]  # somebody else's word
    assert roles_of({"extra": None}) == [("test", None, None)]
    assert roles_of({"extra": '{"role": "gold"}', "role": "check"}) == [("check", None, None)]  # the column decides


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"role": "practice"}, "column role: role is one of test, repeat, .*, got 'practice'"),
        ({"repetition": -1}, "column repetition: repetition is 0 or more, got -1"),
    ],
)
def test_roles_and_repetitions_are_checked(facts, message):
    with pytest.raises(InvalidInput, match=message):
        make_trials(frame(facts))


MIXED = [
    {"image": "1", "role": "test", "repetition": 0},
    {"image": "1", "role": "repeat", "repetition": 1},
    {"image": "1", "role": "test", "repetition": 1},
    {"image": "2", "role": "distractor", "repetition": None},
    {"image": "3", "role": "warmup", "repetition": None},
]


def test_first_showings_of_test_stimuli_are_selected_and_the_rest_is_counted():
    trials = make_trials(frame(*MIXED))
    chosen = select_roles(trials)
    assert chosen.frame["role"].to_list() == ["test"]
    assert chosen.notices == (
        "4 of 5 trials are left out by their role (1 distractor, 1 repeat, 1 later showings, 1 warmup); "
        "--role includes them",
    )
    assert select_roles(trials, ["test", "repeat"]).frame.height == 3
    assert select_roles(trials, ["all"]).notices == ()
    assert select_roles(trials, ["distractor"]).frame["image"].to_list() == ["2"]


@pytest.mark.parametrize(
    ("roles", "error", "message"),
    [
        (
            ["gold"],
            InvalidInput,
            "no trial has the role gold, got test, repeat, distractor, warmup; choose with --role",
        ),
        (["tests"], UnknownName, r"no role is called 'tests'; did you mean test\?"),
        (["zzz"], UnknownName, "no role is called 'zzz'; there are test, repeat"),
        ([], InvalidInput, "name at least one role"),
    ],
)
def test_roles_that_select_nothing_are_refused(roles, error, message):
    with pytest.raises(error, match=message):
        select_roles(make_trials(frame(*MIXED)), roles)


def test_columns_that_hold_what_readers_assume_are_not_lost():
    kept = frozenset(SCHEMA) - {"role", "repetition", "block"}
    assert dropped_columns(make_trials(frame({"role": "test", "repetition": 0})), kept) == []
    full = make_trials(frame({"role": "gold", "repetition": 1, "block": 0}))
    assert dropped_columns(full, kept) == ["role", "repetition", "block"]


@pytest.mark.parametrize("together", [True, False])
def test_participants_of_two_studies_with_one_name_are_reported(cosight, tmp_path, together):
    """Names without the study's id, as older exports have them; those of one folder and of two files."""
    for wave in ("one", "two"):
        (tmp_path / wave).mkdir(exist_ok=True)
        rows = [
            {"observer": f"human:p000{number}", "image": f"{wave}-{image}.png", "truth": "dog", "response": answer}
            for number in (1, 2)
            for image, answer in enumerate(("cat", "dog", "dog", "cat"))
        ]
        write(make_trials(frame(*rows), space=PETS), tmp_path / wave / f"{wave}.parquet")
    sources = [tmp_path] if together else [tmp_path / "one" / "one.parquet", tmp_path / "two" / "two.parquet"]
    for command in (("trials", "show"), ("compare", "--resamples", 20), ("score", "--resamples", 20)):
        done = cosight(*command, *sources)
        assert done.code == 0
        assert "2 names of participants (human:p0001, human:p0002...) are in several files" in done.err
        assert "export those again: names then have the study's id" in done.err
    one = cosight("trials", "show", tmp_path / "one")
    assert "several files" not in one.err


def test_names_that_studies_do_not_give_are_not_reported():
    """Subjects of one experiment are in many files; so are participants with the id of their study."""
    for name in ("human:s01", "human:subject-01", "human:5f0c9d21/p0001", "model:p0001"):
        kind = name.partition(":")[0]
        tables = [make_trials(frame({"observer": name, "kind": kind, "image": image})) for image in ("a", "b")]
        assert concat(tables).notices == ()
