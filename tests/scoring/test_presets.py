from __future__ import annotations

import polars as pl
import pytest

import cosight
from cosight.errors import InvalidInput, UnknownName
from cosight.scoring import presets
from cosight.statistics.rows import group_text
from tests.scoring.made import answered, observers, row_of, trials

PRESET = presets["model-vs-human"]


def kept(experiment, *conditions):
    names = pl.Series("condition", list(conditions), dtype=pl.String)
    frame = pl.DataFrame({"experiment": [experiment] * len(conditions), "condition": names})
    return frame.filter(PRESET.keeps())["condition"].to_list()


@pytest.mark.parametrize(  # conditions and their accuracies below .2: Geirhos et al. 2021
    ("experiment", "conditions", "scored"),
    [
        ("colour", ["bw", "cr"], ["bw"]),
        ("contrast", ["c01", "c03", "c05", "c10", "c15", "c30", "c50", "c100"], ["c05", "c10", "c15", "c30", "c50"]),
        ("high-pass", ["inf", "3.0", "1.5", "1.0", "0.7", "0.55", "0.45", "0.4"], ["3.0", "1.5", "1.0", "0.7"]),
        ("low-pass", ["0", "1", "3", "5", "7", "10", "15", "40"], ["1", "3", "5", "7", "10"]),
        ("phase-scrambling", ["0", "30", "60", "90", "120", "150", "180"], ["30", "60", "90", "120"]),
        ("power-equalisation", ["0", "pow"], ["pow"]),
        ("false-colour", ["True", "False"], ["False"]),
        ("false-colour", ["true", "false"], ["false"]),
        ("rotation", ["0", "90", "180", "270"], ["90", "180", "270"]),
        ("eidolonI", ["1-10-10", "2-10-10", "32-10-10", "64-10-10", "128-10-10"], ["2-10-10", "32-10-10"]),
        ("eidolonII", ["1-3-10", "16-3-10", "32-3-10", "64-3-10", "128-3-10"], ["16-3-10"]),
        ("eidolonIII", ["1-0-10", "8-0-10", "16-0-10", "32-0-10", "128-0-10"], ["8-0-10"]),
        ("uniform-noise", ["0.0", "0.03", "0.35", "0.6", "0.9"], ["0.03", "0.35"]),
        ("uniform-noise", ["0", "0.030", "0.60", "0.90"], ["0.030"]),  # other spellings of the same numbers
        ("cue-conflict", ["0"], ["0"]),
        ("stylized", [None], [None]),
    ],
)
def test_what_the_published_benchmark_leaves_out(experiment, conditions, scored):
    assert kept(experiment, *conditions) == scored


def test_a_preset_brings_grouping_measures_and_exclusions():
    rows = answered(observers(people=3), conditions={"contrast": ("c05", "c100"), "edge": ("0",)})
    found = cosight.compare(trials(rows), preset="model-vs-human", resamples=10)
    assert {group_text(r.group) for r in found.rows} == {
        "experiment=contrast;condition=c05", "experiment=contrast;condition=*", "experiment=edge;condition=0",
        "experiment=edge;condition=*", "experiment=*;condition=*",
    }  # fmt: skip
    assert "preset model-vs-human: 14 of 42 stimuli left out" in found.notices
    assert found.settings["preset"] == "model-vs-human"
    assert found.settings["by"] == ["experiment", "condition"]
    single = {r.measure for r in found.rows if r.observer == "human:0"}
    assert single == {"accuracy", "observed_consistency", "error_consistency"}  # no cue-conflict trials: no shape bias


def test_what_is_asked_for_goes_before_the_preset():
    rows = answered(observers(people=3), conditions={"contrast": ("c05", "c10", "c100")})
    found = cosight.compare(trials(rows), preset="model-vs-human", measure=["ec"], by=[], resamples=10)
    without = [r for r in rows if r["condition"] != "c100"]
    plain = cosight.compare(trials(without), measure=["ec"], resamples=10)
    assert found.rows == plain.rows  # pooled over what the preset scores
    assert row_of(found, "people", "people", "error_consistency").n == 28


def test_trials_of_which_the_preset_scores_none():
    rows = answered(observers(people=2), conditions={"rotation": ("0",)})
    with pytest.raises(InvalidInput, match="leaves out every condition"):
        cosight.compare(trials(rows), preset="model-vs-human", resamples=5)


def test_an_unknown_preset_is_told_the_nearest():
    with pytest.raises(UnknownName, match="did you mean model-vs-human"):
        cosight.compare(trials(answered(observers(people=2))), preset="model-vs-humans")
