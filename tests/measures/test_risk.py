"""The risk-coverage curve: its area by brute force, scikit-learn's curve, laws and edges."""

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_curve

from cosight.errors import InvalidInput
from cosight.measures.abstention import risk_coverage
from cosight.measures.declarations import measures

NAN = math.nan
law = settings(deadline=None)


def aurc_by_hand(abstention, correct):
    """Accept stimuli one threshold at a time; each accepted stimulus adds the risk at its own threshold."""
    total = 0.0
    for own in abstention:
        accepted = [right for a, right in zip(abstention, correct, strict=True) if a <= own]
        total += 1 - sum(accepted) / len(accepted)
    return total / len(abstention)


answers = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30)


@law
@given(rows=answers)
def test_area_against_brute_force(rows):
    abstention, correct = zip(*rows, strict=True)
    curve = risk_coverage(abstention, correct)
    assert curve.value == pytest.approx(aurc_by_hand(abstention, correct), abs=1e-12)
    assert 0 <= curve.value <= 1
    assert curve.coverage[-1] == 1
    assert curve.risk[-1] == pytest.approx(1 - np.mean(correct))
    assert curve.threshold.tolist() == sorted(set(abstention))


@law
@given(rows=answers)
def test_curve_against_scikit_learn(rows):
    # with "correct" as the positive class, precision among the accepted is 1 - risk
    abstention, correct = map(np.array, zip(*[*rows, (2, True)], strict=True))  # sklearn warns without a positive
    precision, _, thresholds = precision_recall_curve(correct, -abstention)
    curve = risk_coverage(abstention, correct)
    np.testing.assert_allclose(curve.risk, 1 - precision[:-1][::-1], atol=1e-12)
    np.testing.assert_array_equal(curve.threshold, -thresholds[::-1])
    np.testing.assert_allclose(curve.coverage, [(abstention <= t).mean() for t in curve.threshold])


@law
@given(rows=answers, data=st.data())
def test_only_the_order_of_abstention_matters(rows, data):
    abstention, correct = map(np.array, zip(*rows, strict=True))
    order = data.draw(st.permutations(range(len(rows))))
    plain, bent = risk_coverage(abstention, correct), risk_coverage(np.exp(abstention)[order] - 9, correct[order])
    np.testing.assert_array_equal(plain.risk, bent.risk)
    assert plain.value == pytest.approx(bent.value)


@pytest.mark.parametrize(
    ("abstention", "correct", "area"),
    [
        ([0.1, 0.2, 0.3, 0.4], [1, 1, 1, 1], 0),  # a perfect observer
        ([0.1, 0.2, 0.3, 0.4], [0, 0, 0, 0], 1),  # always wrong
        ([0.5] * 4, [1, 0, 0, 0], 0.75),  # nothing to order by: one point, the error rate
        ([0.1, 0.2], [1, 0], 0.25),  # errors last: (0 + 1/2) / 2
        ([0.1, 0.2], [0, 1], 0.75),  # errors first: (1 + 1/2) / 2
        ([], [], NAN),
    ],
)
def test_reference_areas(abstention, correct, area):
    assert risk_coverage(abstention, correct).value == pytest.approx(area, nan_ok=True)


def test_without_items_the_curve_is_empty():
    curve = risk_coverage([], [])
    assert curve.coverage.shape == curve.risk.shape == curve.threshold.shape == (0,)


@pytest.mark.parametrize(
    ("abstention", "correct", "message"),
    [
        ([0.1], [1, 0], "one length, got abstention 1, correct 2"),
        ([NAN], [1], "abstention must be finite"),
        ([0.1], [2], "correct must be true/false"),
        ([[0.1]], [1], "abstention must have 1 axes"),
    ],
)
def test_risk_coverage_refuses_bad_input(abstention, correct, message):
    with pytest.raises(InvalidInput, match=message):
        risk_coverage(abstention, correct)


def test_declared_and_frozen():
    assert measures["aurc"].function is risk_coverage
    assert measures["aurc"].symmetric is None
    with pytest.raises(FrozenInstanceError):
        risk_coverage([0.1], [1]).value = 1.0
