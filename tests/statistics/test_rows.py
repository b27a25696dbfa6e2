from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.errors import InvalidInput, UnknownName
from cosight.extras import MissingExtra
from cosight.statistics.rows import Row, Scores, group_text, number, parse_group, read_rows, settings_of

COLUMNS = [
    "observer", "against", "measure", "statistic", "group", "value", "low", "high", "n", "clusters", "p", "p_adjusted",
    "seed", "flags", "note",
]  # fmt: skip
FULL = Row(
    observer="model:a", against="people", measure="error_consistency", statistic="difference",
    group=(("experiment", "x"), ("condition", "*")), value=0.25, low=0.125, high=0.5, n=160, clusters=40, p=0.01,
    p_adjusted=0.02, seed=3, flags=("p_at_resolution", "simulated"), note="p <= .01",
)  # fmt: skip
BARE = Row(observer="human:ü", measure="accuracy", value=None, n=0, note='undefined; "why", and\nhow')


def test_a_row_is_a_value_of_all_trials_unless_it_says_otherwise():
    assert (BARE.against, BARE.statistic, BARE.group, BARE.low, BARE.high) == (None, "value", (), None, None)
    assert (BARE.clusters, BARE.p, BARE.p_adjusted, BARE.seed, BARE.flags) == (None, None, None, None, ())


def test_json_is_a_list_of_rows_with_null_and_never_nan():
    rows = json.loads(Scores((FULL, BARE), {}).to_json(), parse_constant=pytest.fail)
    assert list(rows[0]) == COLUMNS
    assert rows[0] == {
        "observer": "model:a", "against": "people", "measure": "error_consistency", "statistic": "difference",
        "group": "experiment=x;condition=*", "value": 0.25, "low": 0.125, "high": 0.5, "n": 160, "clusters": 40,
        "p": 0.01, "p_adjusted": 0.02, "seed": 3, "flags": ["p_at_resolution", "simulated"], "note": "p <= .01",
    }  # fmt: skip
    assert rows[1]["value"] is rows[1]["against"] is rows[1]["seed"] is rows[1]["p"] is rows[1]["clusters"] is None
    assert (rows[1]["observer"], rows[1]["flags"], rows[1]["group"]) == ("human:ü", [], "")
    assert json.loads(Scores((), {}).to_json()) == []


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_number_json_cannot_hold_is_refused_not_written(bad):
    with pytest.raises(ValueError, match="JSON"):
        Scores((Row(observer="a", measure="m", value=bad, n=1),), {}).to_json()


def test_csv_has_a_header_empty_cells_for_nothing_and_quotes_where_needed():
    text = Scores((FULL, BARE), {}).to_csv()
    header, full, bare = csv.reader(io.StringIO(text))
    assert header == COLUMNS
    assert full == [
        "model:a", "people", "error_consistency", "difference", "experiment=x;condition=*", "0.25", "0.125", "0.5",
        "160", "40", "0.01", "0.02", "3", "p_at_resolution;simulated", "p <= .01",
    ]  # fmt: skip
    assert bare == ["human:ü", "", "accuracy", "value", "", "", "", "", "0", "", "", "", "", "", BARE.note]
    assert "\r" not in text


ODD = ((("condition", "a;b=c;"), ("experiment", 'ü, "x"')), (("condition", ""),), (("condition", ";"),), ())


@pytest.mark.parametrize("group", [*ODD, (("condition", "a%3Bb"),)])
def test_rows_come_back_from_json_as_they_were(group):
    rows = [replace(FULL, group=group), BARE]
    assert read_rows(Scores(tuple(rows), {}).to_json()) == rows


words = st.text(max_size=6)
names = st.text(st.characters(exclude_characters=";="), min_size=1, max_size=6)


@given(st.lists(st.tuples(names, words), max_size=3).map(tuple))
def test_a_group_comes_back_from_its_text(group):
    assert parse_group(group_text(group)) == group


@pytest.mark.parametrize("lacking", [{"p_adjusted"}, {"statistic", "flags"}, set()])
def test_rows_of_another_version_are_refused(lacking):
    record = {name: value for name, value in FULL.record().items() if name not in lacking}
    record |= {} if lacking else {"alpha": 1}
    with pytest.raises(InvalidInput, match=r"another version of cosight wrote them|not known"):
        read_rows(json.dumps([record]))


def test_the_value_of_a_name_of_the_group():
    assert (FULL.in_group("condition"), FULL.in_group("gamma")) == ("*", None)


@pytest.mark.parametrize(
    ("value", "held"), [(0.5, 0.5), (np.float64(-1), -1.0), (math.nan, None), (math.inf, None), (-math.inf, None)]
)
def test_a_row_holds_finite_numbers_or_none(value, held):
    assert number(value) == held
    assert held is None or type(number(value)) is float


@pytest.mark.parametrize(
    ("group", "text"),
    [
        ((), ""),
        ((("condition", "0.9"),), "condition=0.9"),
        ((("experiment", "contrast"), ("condition", "*")), "experiment=contrast;condition=*"),
        ((("condition", ""),), "condition="),
    ],
)
def test_group_text(group, text):
    assert group_text(group) == text
    assert parse_group(text) == group


def test_settings_name_the_options_and_the_versions():
    found = settings_of(seed=1, by=["condition"])
    assert (found["seed"], found["by"]) == (1, ["condition"])
    assert set(found["versions"]) == {"python", "cosight", "numpy", "polars", "scipy"}
    assert found["versions"]["numpy"] == np.__version__
    json.dumps(found)


@pytest.mark.parametrize("text", ["not json", "[1]", '{"a": 1}'])
def test_what_is_no_list_of_rows_is_refused(text):
    with pytest.raises(InvalidInput, match="score rows are"):
        read_rows(text)


# ------------------------------------------------------------------------------------------- tables, best, differences


def value_row(observer, value, **changes):
    row = Row(observer=observer, measure="error_consistency", against="people", value=value, low=0.0, high=0.5, n=160)
    return replace(row, **changes)


@pytest.fixture
def compared():
    """Two models and two people against people, one pair, the models' difference, and a rank."""
    difference = value_row("model:a", 0.1, against="model:b", statistic="difference", low=0.05, high=0.2, p=0.01)
    rows = [
        *(value_row(name, value) for name, value in (("people", 0.4), ("models", 0.15), ("human:1", 0.5))),
        *(value_row(name, value) for name, value in (("model:a", 0.2), ("model:b", 0.1))),
        value_row("model:b", 0.9, against="model:a"),
        *(replace(value_row(name, 0.8), measure="accuracy", against=None) for name in ("human:1", "model:a")),
        difference,
        value_row("model:a", 1.0, statistic="rank"),
    ]
    kinds = {"human:1": "human", "model:a": "model", "model:b": "model"}
    return Scores(tuple(rows), {"confidence": 0.9, "resamples": 20}, kinds=kinds)


def test_scores_print_as_a_table_of_the_main_values(compared):
    assert str(compared).splitlines() == repr(compared).splitlines() == [
        "observer  ec                    accuracy",
        "people    0.400 [0.000, 0.500]",
        "models    0.150 [0.000, 0.500]",
        "human:1   0.500 [0.000, 0.500]  0.800 [0.000, 0.500]",
        "model:a   0.200 [0.000, 0.500]  0.800 [0.000, 0.500]",
        "model:b   0.100 [0.000, 0.500]",
        "10 rows, all in .to_polars(); 90% intervals of 20 resamples",
    ]  # fmt: skip
    assert str(Scores((), {})) == "0 rows, all in .to_polars()"


@pytest.mark.parametrize("measures", [1, 2, 4, 12])
@pytest.mark.parametrize("length", [5, 30, 200])
def test_a_printed_table_fits_a_terminal(measures, length):
    names = ["accuracy", "error_consistency", "misclassification_agreement", "class_level_error_similarity"]
    names += [f"a_measure_with_a_long_name_{index}" for index in range(8)]
    rows = [
        value_row(f"model:{'x' * length}{index}", -12.5, measure=name, low=-99.0)
        for index in range(30)
        for name in names[:measures]
    ]
    lines = str(Scores(tuple(rows), {})).splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    assert "-12.5" in lines[1]


def test_a_notebook_gets_a_table_in_which_names_are_text(compared):
    assert "<td>model:a</td><td>0.200 [0.000, 0.500]</td>" in compared._repr_html_()
    assert "&lt;script&gt;" in Scores((value_row("<script>", 0.5),), {})._repr_html_()


def test_frames_have_every_row(compared):
    frame = compared.to_polars()
    assert frame.columns == COLUMNS
    assert frame["value"].to_list() == [row.value for row in compared.rows]
    assert Scores((), {}).to_polars().columns == COLUMNS
    assert Scores((BARE,), {}).to_polars()["value"].to_list() == [None]
    pandas = compared.to_pandas()
    assert list(pandas.columns) == COLUMNS
    assert pandas["observer"].tolist() == frame["observer"].to_list()


def test_without_pandas_the_message_says_what_to_do(compared, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"to_pandas needs pandas; pip install pandas, or use to_polars\(\)"):
        compared.to_pandas()


def test_the_best_is_the_best_model_against_people(compared):
    assert (compared.best("ec").observer, compared.best("ec").value) == ("model:a", 0.2)
    people = Scores(tuple(row for row in compared.rows if "model" not in row.observer), {}, kinds={"human:1": "human"})
    assert people.best("error_consistency").observer == "human:1"


def test_the_best_by_a_distance_is_the_nearest_and_means_over_groups_count():
    groups = [("x", 0.1), ("y", 0.9), ("*", 0.5)]
    near = [value_row("m:a", value, measure="hellinger", group=(("condition", name),)) for name, value in groups]
    far = [replace(row, observer="m:b", value=0.7) for row in near]
    assert Scores((*far, *near), {}).best().value == 0.5


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda s: s.best(), InvalidInput, "name one of the measures of these scores: error_consistency, accuracy"),
    (lambda s: s.best("error_consistancy"), UnknownName, "did you mean error_consistency"),
    (lambda s: s.best("hellinger"), InvalidInput, "no value of hellinger, only of error_consistency, accuracy"),
    (lambda s: s.difference("model:a", "model:c"), UnknownName, "no difference with 'model:c'; did you mean model:b"),
    (lambda s: s.difference("model:a", "model:a"), InvalidInput, "between two models, got 'model:a' and 'model:a'"),
    (lambda s: s.difference("model:a", "model:b", "accuracy"), InvalidInput, "no difference of accuracy"),
    (lambda s: replace(s, rows=s.rows[:3]).difference("a", "b"), InvalidInput, "these scores have no difference"),
])  # fmt: skip
def test_what_scores_do_not_have_is_said(compared, call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call(compared)


def test_the_best_is_the_first_in_rank():
    """Ranks are those at equal numbers of errors, which may differ from the order of the values."""
    rows = [
        value_row(f"m:{name}", value, measure="class_level_error_similarity")
        for name, value in (("a", 0.9), ("b", 0.8))
    ]
    ranks = [replace(row, statistic="rank", value=rank) for row, rank in zip(rows, (2.0, 1.0), strict=True)]
    assert Scores(tuple(rows), {}).best("cles").observer == "m:a"
    assert Scores((*rows, *ranks), {}).best("cles").observer == "m:b"


def test_a_measure_without_a_better_direction_has_no_best():
    with pytest.raises(InvalidInput, match="neither more nor less of response_entropy is better"):
        Scores((value_row("m:a", 2.0, measure="response_entropy", against=None),), {}).best()


def test_a_difference_is_turned_round(compared):
    there, back = compared.difference("model:a", "model:b"), compared.difference("model:b", "model:a", "ec")
    assert (there.value, there.low, there.high, there.p) == (0.1, 0.05, 0.2, 0.01)
    assert (back.observer, back.against, back.value, back.low, back.high) == ("model:b", "model:a", -0.1, -0.2, -0.05)
