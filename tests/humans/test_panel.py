"""The simulated panel: laws of the model, and that its answers are its own."""

from dataclasses import replace
from math import exp
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.errors import InvalidInput
from cosight.humans.simulated.panel import CONFUSIONS, MIDPOINTS, Panel, simulated_trials
from cosight.stimuli.corruptions import corruptions
from cosight.stimuli.sets import StimulusSet
from cosight.trials.manifest import manifest_frame

kinds, digits = st.sampled_from(sorted(MIDPOINTS)), st.sampled_from("0123456789")
PANEL = Panel()


@given(kinds, st.integers(1, 10), digits, st.floats(-3, 3))
def test_distributions_sum_to_one(kind, severity, digit, ease):
    shares = PANEL.distribution(kind, severity, digit, ease)
    assert shares.shape == (11,)
    assert (shares > 0).all()
    assert shares.sum() == pytest.approx(1)


@given(kinds, st.integers(1, 9), digits)
def test_the_digit_is_named_less_as_severity_grows_and_refused_more(kind, severity, digit):
    milder, harder = (PANEL.distribution(kind, step, digit) for step in (severity, severity + 1))
    assert harder[int(digit)] < milder[int(digit)]
    assert harder[10] > milder[10]


def test_at_the_midpoint_half_see_the_digit():
    # by hand: seen 1/2, lapse .02 over 11 answers; of the rest .7 refuse and .3 guess by 1, 1/2, 1/3
    shares = replace(PANEL, midpoints={"fog": 5.0}).distribution("fog", 5, "0")
    lapse = 0.02 / 11
    assert shares[0] == pytest.approx(0.98 * 0.5 + lapse)
    assert shares[10] == pytest.approx(0.98 * 0.5 * 0.7 + lapse)
    assert shares[6] == pytest.approx(0.98 * 0.5 * 0.3 * 6 / 11 + lapse)
    assert shares[1] == pytest.approx(lapse)


def test_the_slope_is_in_logits_a_step():
    seen = replace(PANEL, lapse=0.0, midpoints={"fog": 5.0}).distribution("fog", 7, "0")[0]
    assert seen == pytest.approx(1 / (1 + exp(2 * PANEL.slope)))


def test_tables_are_about_what_there_is():
    assert set(MIDPOINTS) <= set(corruptions)
    assert len(MIDPOINTS) == 16  # fifteen corruptions and cropping
    assert all(digit not in others and len(set(others)) == len(others) for digit, others in CONFUSIONS.items())


def test_counts_follow_the_distribution():
    # without spreads the counts are binomial: within 5 standard errors of their mean over many images
    plain = replace(PANEL, person_sd=0.0, image_sd=0.0)
    p = plain.distribution("fog", 6, "2")[2]
    named = np.array([plain.counts(f"image-{n}", "fog", 6, "2")[2] for n in range(200)])
    assert abs(named.mean() - 134 * p) < 5 * np.sqrt(134 * p * (1 - p) / 200)


@given(kinds, st.integers(1, 10), digits, st.integers(0, 3))
def test_counts_are_of_the_whole_panel_and_of_the_seed(kind, severity, digit, seed):
    panel = replace(PANEL, seed=seed)
    counts = panel.counts("image", kind, severity, digit)
    assert sum(counts) == 134
    assert counts == panel.counts("image", kind, severity, digit)


def test_seeds_and_images_draw_other_answers():
    drawn = {tuple(replace(PANEL, seed=s).answers(image, "fog", 6, "2")) for s in (0, 1) for image in ("a", "b")}
    assert len(drawn) == 4


def test_a_smaller_panel_is_the_first_part_of_a_larger_one():
    small, large = (replace(PANEL, people=n).answers("image", "fog", 6, "2") for n in (20, 134))
    assert (large[:20] == small).all()


def test_good_eyes_help():
    panel = replace(PANEL, person_sd=3.0, people=400)
    right = np.mean([panel.answers(f"i{n}", "fog", 6, "2") == 2 for n in range(40)], axis=0)
    assert np.corrcoef(panel.acuities(), right)[0, 1] > 0.8


def test_trials_are_simulated_and_the_panels_own():
    rows = [
        {"stimulus": "u", "image": "u", "category": 8, "group": "uncertain", "kind": "fog", "level": 6, "truth": "2"},
        {"stimulus": "m", "image": "m", "category": 6, "group": "must-abstain", "kind": "letter", "truth": "abstain"},
        {"stimulus": "t", "image": "t", "kind": "clean", "truth": "5"},
    ]
    trials = simulated_trials(StimulusSet(Path("set"), manifest_frame(rows)), PANEL, persons=134).frame
    assert set(trials["kind"]) == {"simulated"}
    assert trials["observer"][0] == "simulated:person-01"
    assert set(trials["stimulus"]) == {"u", "m"}  # what is trained on is nobody's trial
    said = trials.filter(trials["stimulus"] == "u")["response"].to_list()
    assert [said.count(answer) for answer in PANEL.space.answers] == PANEL.counts("u", "fog", 6, "2")
    refused = trials.filter(trials["stimulus"] == "m")["response"].to_list().count("abstain")
    assert 120 < refused <= 134


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PANEL.distribution("spatter", 1, "0"), "got 'spatter'"),
        (lambda: PANEL.distribution("fog", 0, "0"), "severity must be 1 to 10, got 0"),
        (lambda: PANEL.distribution("fog", 1, "x"), "got 'x'"),
        (lambda: Panel(lapse=1.5), "lapse must lie in"),
        (lambda: Panel(people=0), "people must be 1 or more, slope above 0"),
        (lambda: simulated_trials(StimulusSet(Path("set"), manifest_frame([])), PANEL, persons=500), "134, got 500"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
