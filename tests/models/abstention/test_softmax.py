import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax as scipy_softmax
from scipy.stats import entropy as scipy_entropy

from cosight.errors import InvalidInput
from cosight.models.abstention import DeepEnsemble, SoftmaxProbability, member_entropy, member_prediction

LOGITS = arrays(np.float64, (4, 3), elements=st.floats(-50, 50))
MEMBERS = arrays(np.float64, (3, 4, 5), elements=st.floats(-50, 50))


def sp(logits):
    return SoftmaxProbability().fit(None, None, None).strangeness(None, logits)


@given(LOGITS)
def test_sp_is_scipys_entropy_of_scipys_softmax(logits):
    assert sp(logits) == pytest.approx(scipy_entropy(scipy_softmax(logits, axis=1), axis=1), abs=1e-12)


@given(LOGITS, st.floats(-1e3, 1e3))
def test_sp_does_not_see_what_all_logits_share(logits, shift):
    assert sp(logits + shift) == pytest.approx(sp(logits), abs=1e-9)


def test_sp_runs_from_nothing_to_log_classes_without_overflow():
    assert sp([[1e4, 0.0, -1e4], [7.0, 7.0, 7.0]]) == pytest.approx([0, np.log(3)], abs=1e-15)


@given(MEMBERS)
def test_members_are_averaged_after_the_entropy_and_predictions_after_the_softmax(logits):
    each = scipy_softmax(logits, axis=2)
    assert DeepEnsemble().strangeness(None, logits) == pytest.approx(scipy_entropy(each, axis=2).mean(0), abs=1e-12)
    assert member_prediction(logits) == pytest.approx(each.mean(0), abs=1e-12)
    assert member_prediction(logits).sum(axis=1) == pytest.approx(1)


def test_members_that_are_sure_of_different_classes_are_not_strange():
    apart = [[[40.0, 0.0]], [[0.0, 40.0]]]
    assert member_entropy(apart, who="x") == pytest.approx([0], abs=1e-12)
    assert member_prediction(apart) == pytest.approx(np.array([[0.5, 0.5]]))


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (None, "sp needs logits, got none"),
        ([[1.0], [2.0]], r"two classes or more, got shape \(2, 1\)"),
        ([[np.nan, 0.0]], "logits must be finite, got nan"),
        ([1.0, 2.0], r"2 axes, got shape \(2,\)"),
    ],
)
def test_sp_refuses(logits, message):
    with pytest.raises(InvalidInput, match=message):
        sp(logits)


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (None, "logits of each member, got none"),
        (np.zeros((0, 2, 3)), "one member or more"),
        (np.zeros((1, 2, 3)), "two members or more, got 1; use sp"),
        (np.zeros((2, 3)), "3 axes"),
    ],
)
def test_an_ensemble_refuses(logits, message):
    with pytest.raises(InvalidInput, match=message):
        DeepEnsemble().strangeness(None, logits)
