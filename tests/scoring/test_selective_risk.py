"""Refusals, timeouts and low confidence on one axis: coverage and selective risk of people and classifiers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight import score
from cosight.errors import InvalidInput
from cosight.measures import coverage, risk_coverage, selective_risk, selective_risks
from cosight.trials import label_space, make_trials

CLASSES = ("cat", "dog", "fox")


def trials_of(answers, *, truth, abstain=True):
    """Trials of observers: name -> list of a label, None (no answer in time) or class probabilities."""
    rows = []
    for observer, given_answers in answers.items():
        for index, answer in enumerate(given_answers):
            row = {"observer": observer, "kind": "human" if observer.startswith("human:") else "model"}
            row |= {"experiment": "e", "image": f"{index}.png", "truth": truth[index], "abstention": None}
            if isinstance(answer, (list, tuple)):
                row |= {"response": CLASSES[int(np.argmax(answer))], "probabilities": list(answer)}
            else:
                row |= {"response": answer, "probabilities": None}
            rows.append(row)
    labels = ",".join((*CLASSES, "abstain") if abstain else CLASSES)
    return make_trials(pl.DataFrame(rows, infer_schema_length=None), source="test", space=label_space(labels))


def rows_of(scores, observer, measure, at=None):
    return [
        row
        for row in scores.rows
        if (row.observer, row.measure) == (observer, measure) and (at is None or row.in_group("coverage") == at)
    ]


def test_people_have_a_point_and_classifiers_a_curve():
    """By hand: two people of eight images, one refusal and one timeout; a network that is sure when it is right."""
    truth = ["cat", "dog"] * 4
    sure = [(0.9, 0.05, 0.05), (0.05, 0.9, 0.05)] * 3 + [(0.3, 0.4, 0.3), (0.5, 0.3, 0.2)]  # the last two are wrong
    answers = {
        "human:a": ["cat", "dog", "cat", "dog", "abstain", "cat", "cat", "dog"],  # one refusal, one error
        "human:b": ["cat", "dog", "cat", "dog", "cat", None, "dog", "cat"],  # one timeout, two errors
        "net": sure,
    }
    scores = score(
        trials_of(answers, truth=truth), measure=["coverage", "selective_risk"], resamples=200, cluster_by="none"
    )
    (a,), (b,) = rows_of(scores, "human:a", "coverage"), rows_of(scores, "human:b", "coverage")
    assert (a.value, b.value) == (7 / 8, 7 / 8)
    assert rows_of(scores, "human:a", "selective_risk", "own")[0].value == pytest.approx(1 / 7)
    assert rows_of(scores, "human:b", "selective_risk", "own")[0].value == pytest.approx(2 / 7)
    (people,) = rows_of(scores, "people", "selective_risk", "own")
    assert people.value == pytest.approx(3 / 14)
    assert people.low < people.value < people.high
    assert rows_of(scores, "human:a", "selective_risk", "0.5") == []  # people have no confidence
    assert rows_of(scores, "net", "coverage")[0].value == 1
    assert rows_of(scores, "net", "selective_risk", "own")[0].value == pytest.approx(1 / 4)
    assert rows_of(scores, "net", "selective_risk", "0.7")[0].value == 0
    (same,) = rows_of(scores, "net", "selective_risk", "people")
    assert same.value == pytest.approx(1 / 7)  # 7 of 8: the six it is sure of and one error
    assert "coverage 0.875" in same.note


def test_at_the_coverage_of_people_the_images_that_they_saw_count():
    """People saw the first four of eight images, the difficult ones: the network is wrong on two of these alone."""
    wrong, right = (0.1, 0.8, 0.1), (0.8, 0.1, 0.1)
    answers = {"human:a": ["cat", "cat", "cat", "dog"], "net": [wrong, wrong, right, right, *[right] * 4]}
    scores = score(trials_of(answers, truth=["cat"] * 8), measure="selective_risk", resamples=50)
    assert rows_of(scores, "human:a", "selective_risk", "own")[0].value == 1 / 4
    (same,) = rows_of(scores, "net", "selective_risk", "people")
    assert (same.value, same.n) == (2 / 4, 4)
    assert rows_of(scores, "net", "selective_risk", "1")[0].value == 2 / 8


def test_a_hard_refusal_of_a_model_is_never_accepted():
    """Three refusals of eight images: at a coverage of .7 its risk is undefined."""
    truth = ["cat", "dog"] * 4
    answers = {
        "net": [(0.9, 0.05, 0.05), (0.2, 0.7, 0.1), (0.1, 0.8, 0.1), (0.1, 0.6, 0.3), "abstain", None, None, (1, 0, 0)]
    }
    scores = score(trials_of(answers, truth=truth), measure="selective_risk", resamples=50)
    assert rows_of(scores, "net", "selective_risk", "0.6")[0].value is not None
    (undefined,) = rows_of(scores, "net", "selective_risk", "0.7")
    assert undefined.value is None
    assert "undefined" in undefined.flags
    assert rows_of(scores, "net", "selective_risk", "own")[0].value == pytest.approx(2 / 5)


def test_intervals_cover():
    """A person who refuses 20 % and errs on 30 % of the rest, 300 images, 60 studies of 200 resamples."""
    rng = np.random.default_rng(3)
    hits = np.zeros(2)
    for _ in range(60):
        truth = ["cat"] * 300
        draws = rng.random((300, 2))
        answers = ["abstain" if r < 0.2 else "dog" if e < 0.3 else "cat" for r, e in draws]
        scores = score(trials_of({"human:a": answers}, truth=truth), measure="coverage,selective_risk", resamples=200)
        (c,), (r,) = rows_of(scores, "human:a", "coverage"), rows_of(scores, "human:a", "selective_risk", "own")
        hits += (c.low <= 0.8 <= c.high, r.low <= 0.3 <= r.high)
    assert (hits / 60 > 0.86).all()


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.5, 0.9]), st.booleans()), min_size=1, max_size=30))
def test_the_points_lie_on_the_risk_coverage_curve(trials):
    abstention, correct = map(list, zip(*trials, strict=True))
    curve = risk_coverage(abstention, correct)
    for at, risk, threshold in zip(curve.coverage, curve.risk, curve.threshold, strict=True):
        assert selective_risk(abstention, correct, at_coverage=at).value == pytest.approx(risk)
        assert selective_risk(abstention, correct, gamma=threshold).value == pytest.approx(risk)
        assert coverage(abstention, gamma=threshold).value == pytest.approx(at)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.3, 0.9, np.inf]), st.booleans(), st.integers(0, 3)), min_size=1),
    st.floats(0.05, 1),
)
def test_a_weight_counts_as_copies(trials, at):
    abstention, wrong, weights = (np.array(part) for part in zip(*trials, strict=True))
    one = selective_risks(abstention.astype(float), wrong, weights[None].astype(np.float32), at)[0]
    copies = np.repeat(abstention, weights), ~np.repeat(wrong, weights)
    expected = selective_risk(*copies, at_coverage=at).value if weights.sum() else np.nan
    assert one == pytest.approx(expected, nan_ok=True)


def test_ties_are_shared_and_wrong_arguments_refused():
    assert selective_risk([0, 0, 0, 0], [1, 0, 0, 0], at_coverage=0.5).value == 0.75  # the expected risk
    assert np.isnan(selective_risk([np.inf, 0.0], [1, 1], at_coverage=1).value)
    with pytest.raises(InvalidInput, match=r"at_coverage must be above 0 and at most 1, got 1\.5"):
        selective_risk([0], [1], at_coverage=1.5)
    with pytest.raises(InvalidInput, match="nan is none; leave such stimuli out"):
        selective_risk([np.nan], [1])
