"""Agreement pooled over pairs: without bias where pairs share hardly a trial, and with intervals that hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.measures import (
    NOT_SHOWN,
    Answers,
    error_consistency_matrix,
    pooled_error_consistency,
    pooled_misclassification_agreement,
)
from tests.measures.sparse import sparse_people, sparse_truth


def by_hand(answers, code):
    """Agreement on codes by explicit loops: pairs on one stimulus, and different people on different stimuli."""
    people, stimuli = answers.response.shape
    triples = [
        (i, j, s)
        for s in range(stimuli)
        for i in range(people)
        for j in range(people)
        if i != j and code(i, s) is not None and code(j, s) is not None
    ]
    observed = np.mean([code(i, s) == code(j, s) for i, j, s in triples])
    chance = [
        code(i, s) == code(k, t) for i, _, s in triples for k, _, t in triples if i != k and s != t
    ]  # one answer of each of two triples, which stand for both since triples are in both orders
    expected = np.mean(chance) if chance else np.nan
    return observed, expected, len(triples) // 2


@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_its_words_say(seed):
    rng = np.random.default_rng(seed)
    response = rng.integers(0, 3, (5, 7))
    response[rng.random((5, 7)) < 0.3] = NOT_SHOWN
    answers = Answers(response.astype(np.int16), rng.integers(0, 3, 7).astype(np.int16), 3)
    shown, wrong = answers.shown, answers.wrong

    def correctness(i, s):
        return bool(answers.correct[i, s]) if shown[i, s] else None

    def wrong_answer(i, s):
        return int(response[i, s]) if wrong[i, s] else None

    for pooled, code in ((pooled_error_consistency, correctness), (pooled_misclassification_agreement, wrong_answer)):
        observed, expected, n = by_hand(answers, code)
        found = pooled(answers)
        assert (found.observed, found.expected, found.n) == pytest.approx((observed, expected, n))
        assert found.value == pytest.approx((observed - expected) / (1 - expected))


@given(st.integers(0, 1000))
def test_order_of_people_and_stimuli_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    answers = sparse_people(rng, people=8, stimuli=12, each=6)
    rows, columns = rng.permutation(8), rng.permutation(12)
    other = Answers(answers.response[rows][:, columns], answers.truth[columns], answers.classes)
    for pooled in (pooled_error_consistency, pooled_misclassification_agreement):
        one, two = pooled(answers), pooled(other)
        assert two.value == pytest.approx(one.value, nan_ok=True)
        assert two.standard_error == pytest.approx(one.standard_error, abs=1e-7, nan_ok=True)


def test_complete_tables_give_the_mean_over_pairs():
    answers = sparse_people(np.random.default_rng(0), people=12, stimuli=3000, each=3000)
    mean = error_consistency_matrix(answers.correct)[np.triu_indices(12, 1)].mean()
    assert pooled_error_consistency(answers).value == pytest.approx(mean, abs=0.003)


def test_clusters_of_stimuli_widen_the_interval():
    """Each stimulus three times: the value hardly changes, the standard error of independent stimuli is too small."""
    answers = sparse_people(np.random.default_rng(0), people=10, stimuli=100, each=100)
    response, truth = np.tile(answers.response, (1, 3)), np.tile(answers.truth, 3)
    copies = Answers(response, truth, answers.classes)
    photo = np.tile(np.arange(100), 3)
    once, alone, clustered = (
        pooled_error_consistency(answers),
        pooled_error_consistency(copies),
        pooled_error_consistency(copies, clusters=[photo]),
    )
    assert clustered.value == alone.value == pytest.approx(once.value, abs=0.01)
    assert clustered.stimuli == once.stimuli == 100
    assert alone.standard_error < 0.8 * once.standard_error
    assert clustered.standard_error > 0.9 * once.standard_error


def test_where_there_is_nothing_to_pool():
    alone = Answers(np.array([[0, NOT_SHOWN], [NOT_SHOWN, 1]], dtype=np.int16), np.zeros(2, dtype=np.int16), 2)
    assert np.isnan(pooled_error_consistency(alone).value)
    assert pooled_error_consistency(alone).n == 0
    right = Answers.of_correctness([1, 1, 1], [1, 1, 1], [1, 1, 1])
    assert np.isnan(pooled_error_consistency(right).value)  # always right
    assert np.isnan(pooled_misclassification_agreement(right).value)  # no errors
    assert np.isnan(pooled_error_consistency(right).interval()).all()


# ---- bias and coverage; perf/pooled_pairs.py has the larger table of docs/explanation/uncertainty.md

_DESIGN = {"people": 100, "stimuli": 1000, "each": 35}  # 1.2 common trials per pair


@pytest.fixture(scope="module")
def studies():
    return [sparse_people(np.random.default_rng([7, number]), **_DESIGN) for number in range(120)]


@pytest.mark.parametrize("pooled", [pooled_error_consistency, pooled_misclassification_agreement])
def test_no_bias_and_honest_intervals(pooled, studies):
    truth = sparse_truth()[pooled is pooled_misclassification_agreement]
    estimates = [pooled(answers) for answers in studies]
    values = np.array([estimate.value for estimate in estimates])
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - truth) < 3 * error + 0.002
    covered = [low <= truth <= high for low, high in (estimate.interval() for estimate in estimates)]
    assert 0.89 <= np.mean(covered) <= 0.995  # 95 % of 120 within three standard errors
    assert np.mean([estimate.standard_error for estimate in estimates]) == pytest.approx(values.std(ddof=1), rel=0.25)


def test_the_mean_over_pairs_is_biased_there(studies):
    means = []
    for answers in studies[:5]:
        pairs = error_consistency_matrix(answers.correct, answers.shown)[np.triu_indices(_DESIGN["people"], 1)]
        means.append(np.nanmean(pairs))
    assert np.mean(means) < 0.5 * sparse_truth()[0]
