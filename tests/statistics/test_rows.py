from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pytest

from cosight.statistics.rows import Row, Scores, group_text, number, settings_of

FULL = Row("model:a", "people", "error_consistency", "experiment=x;condition=*", 0.25, 0.125, 0.5, 160, "", 3)
BARE = Row("human:ü", None, "accuracy", "", None, None, None, 0, 'undefined; "why", and\nhow')


def test_json_is_a_list_of_rows_with_null_and_never_nan():
    rows = json.loads(Scores((FULL, BARE), {}).to_json(), parse_constant=pytest.fail)
    assert list(rows[0]) == ["observer", "against", "measure", "group", "value", "low", "high", "n", "note", "seed"]
    assert rows[0] == {
        "observer": "model:a", "against": "people", "measure": "error_consistency", "group": "experiment=x;condition=*",
        "value": 0.25, "low": 0.125, "high": 0.5, "n": 160, "note": "", "seed": 3,
    }  # fmt: skip
    assert rows[1]["value"] is rows[1]["against"] is rows[1]["seed"] is None
    assert rows[1]["observer"] == "human:ü"
    assert json.loads(Scores((), {}).to_json()) == []


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_number_json_cannot_hold_is_refused_not_written(bad):
    with pytest.raises(ValueError, match="JSON"):
        Scores((Row("a", None, "m", "", bad, None, None, 1),), {}).to_json()


def test_csv_has_a_header_empty_cells_for_nothing_and_quotes_where_needed():
    text = Scores((FULL, BARE), {}).to_csv()
    header, full, bare = csv.reader(io.StringIO(text))
    assert header == ["observer", "against", "measure", "group", "value", "low", "high", "n", "note", "seed"]
    assert full == [
        "model:a",
        "people",
        "error_consistency",
        "experiment=x;condition=*",
        "0.25",
        "0.125",
        "0.5",
        "160",
        "",
        "3",
    ]
    assert bare == ["human:ü", "", "accuracy", "", "", "", "", "0", BARE.note, ""]
    assert "\r" not in text


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


def test_settings_name_the_options_and_the_versions():
    found = settings_of(seed=1, by=["condition"])
    assert (found["seed"], found["by"]) == (1, ["condition"])
    assert set(found["versions"]) == {"python", "cosight", "numpy", "polars", "scipy"}
    assert found["versions"]["numpy"] == np.__version__
    json.dumps(found)
