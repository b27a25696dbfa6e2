from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.errors import InvalidInput
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
