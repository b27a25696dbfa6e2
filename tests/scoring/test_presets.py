from __future__ import annotations

import numpy as np
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


# The conventions of the released numbers of Xu et al. 2024.


def said(observer, kind, responses, truths):
    facts = {"observer": observer, "kind": kind, "experiment": "one"}
    return [
        {**facts, "image": f"{i}.png", "truth": truth, "response": answer}
        for i, (answer, truth) in enumerate(zip(responses, truths, strict=True))
    ]


TRUTHS = "aabb"
SMALL = [
    *said("human:1", "human", "bbbb", TRUTHS),
    *said("human:2", "human", "bbbb", TRUTHS),
    *said("human:3", "human", "cbba", TRUTHS),
]


def test_error_alignment_paper_takes_undefined_agreement_as_one_and_the_pooled_midpoint():
    found = cosight.compare(trials(SMALL), preset="error-alignment-paper", resamples=20)
    ma = row_of(found, "human:1", "human:2", "misclassification_agreement", "experiment=one")
    assert ma.value == 1  # two joint errors, both answer b: kappa is 0 / 0
    assert ma.note.startswith("undefined (no joint errors, or all with the same answer), taken as 1")
    # errors: 2 of 2 in one of the two wrong cells; with .5 added p = (5/6, 1/6), pooled m = (.9, .1)
    distance = 5 / 6 * np.log(5 / 6 / 0.9) + 1 / 6 * np.log(1 / 6 / 0.1)
    cles = row_of(found, "human:1", "human:2", "class_level_error_similarity_pooled", "experiment=one")
    assert cles.value == pytest.approx(1 / (1 + distance))
    plain = cosight.compare(trials(SMALL), measure=["ma"], resamples=20)
    assert row_of(plain, "human:1", "human:2", "misclassification_agreement").value is None


def test_undefined_agreement_counts_as_one_in_means_and_resamples():
    found = cosight.compare(trials(SMALL), preset="error-alignment-paper", resamples=20)
    # 1 and 3, 2 and 3 jointly err twice, with answers b b and c b: observed 1/2, by chance 1/2, kappa 0
    mean = row_of(found, "people", "people", "misclassification_agreement", "experiment=one")
    assert mean.value == pytest.approx(1 / 3)
    assert "undefined left out" not in mean.note


def test_pairs_without_a_common_stimulus_stay_undefined():
    apart = [*said("human:1", "human", "bb", "aa"), *said("human:2", "human", "bb", "aa")]
    apart += [{**row, "observer": "human:3", "image": f"other-{row['image']}"} for row in apart[:2]]
    found = cosight.compare(trials(apart), preset="error-alignment-paper", resamples=20)
    values = [
        row_of(found, f"human:{one}", f"human:{two}", "misclassification_agreement", "experiment=one").value
        for one, two in ((1, 2), (1, 3), (2, 3))
    ]
    assert values == [1, None, None]


def test_error_alignment_paper_draws_missing_answers_unless_told_otherwise():
    rows = answered(observers(people=3), missing=0.2)
    blanks = sum(row["response"] is None for row in rows)
    drawn = cosight.compare(trials(rows), preset="error-alignment-paper", resamples=5)
    assert f"{blanks} missing answers were drawn at random" in drawn.notices
    assert drawn.settings["missing"] == "random"
    kept_out = cosight.compare(trials(rows), preset="error-alignment-paper", missing="leave-out", resamples=5)
    assert kept_out.settings["missing"] == "leave-out"
    assert cosight.compare(trials(rows), preset="model-vs-human", resamples=5).settings["missing"] == "leave-out"


def test_error_alignment_paper_needs_all_classes():
    with pytest.raises(InvalidInput, match="counts every class of the label space, got trials without one"):
        cosight.compare(trials(SMALL, space=None), preset="error-alignment-paper", resamples=5)
