"""Do 95 % intervals hold the truth in about 95 % of simulated studies?

The band asked for is .92 to .98. Slow tests run enough studies to see it; the ordinary ones run 100, in which an
interval with a true coverage of .92 holds the truth fewer than 81 times with probability 1e-4. Since 100 of 100 are no
surprise at .98, too wide an interval is seen by its width, beside the spread of the values themselves.
"""

import numpy as np
import pytest
from scipy.stats import binom, multivariate_normal, norm

from cosight.measures.answers import Answers
from cosight.measures.declarations import pair_forms
from tests.measures.simulated import (
    LURES,
    SHARES,
    Case,
    Population,
    answer,
    cles_case,
    clustered_share_case,
    coverage,
    crossed_case,
    ec_case,
    hellinger_case,
    ma_case,
    observers,
    pairs_of,
    population_mean,
    share_coverage,
    true_agreement,
    true_consistency,
)

LOW, HIGH = 0.92, 0.98
PAIR_STUDIES, CROSSED_STUDIES = 1000, 400

# Where some two joint (or equal) errors are expected, one study in seven has none: an interval that holds the truth
# there holds it nearly always, one that does not in some 85 %. Nothing lies between; ours holds it.
ALMOST_ALWAYS = 0.995


@pytest.mark.parametrize(
    "case",
    [
        ec_case((0.8, 0.7), 0.5, 200),
        ma_case((0.8, 0.7), 0.3, 300),  # 35 joint errors
        hellinger_case("few far off", 200),
        pytest.param(cles_case((0.8, 0.7), 0.6, 200, studies=300), marks=pytest.mark.slow),
        crossed_case("ec", 0.75, 10, 480),
        crossed_case("ma", 0.6, 10, 480, cluster=8),
        pytest.param(hellinger_case("a tenth off", 200), marks=pytest.mark.slow),
        pytest.param(crossed_case("ec", 0.75, 20, 200), marks=pytest.mark.slow),
        pytest.param(crossed_case("ma", 0.6, 20, 200, with_model=True), marks=pytest.mark.slow),
        pytest.param(crossed_case("ma", 0.6, 20, 1800, with_model=True, cluster=30), marks=pytest.mark.slow),
    ],
    ids=lambda case: case.name,
)
def test_intervals_hold_the_truth(case):
    found = coverage(case, studies=100)
    assert found.share * 100 >= binom.ppf(1e-4, 100, LOW)
    assert 0.8 <= found.wideness <= 1.5  # the spread of 100 values is known to 7 %; people drawn again add some 20 %


@pytest.mark.parametrize("n", [10, 15, 20, 30, 50, 100, 200, 500, 1000])
def test_intervals_of_shares_hold_the_truth_from_one_percent_to_ninety_nine(n):
    found = share_coverage(n)
    assert LOW <= found.mean() <= HIGH
    assert found.min() >= 0.9
    conservative = SHARES[found > HIGH]
    assert (np.minimum(conservative, 1 - conservative) * n < 4.5).all()  # where few of one kind are expected


@pytest.mark.parametrize(
    "case",
    [
        clustered_share_case(0.7, 40, 8),
        clustered_share_case(0.97, 40, 30),
        pytest.param(clustered_share_case(0.97, 40, 8), marks=pytest.mark.slow),
        pytest.param(clustered_share_case(0.5, 20, 30), marks=pytest.mark.slow),
    ],
    ids=lambda case: case.name,
)
def test_intervals_of_shares_hold_the_truth_where_trials_come_in_clusters(case):
    assert coverage(case, studies=100).share * 100 >= binom.ppf(1e-4, 100, LOW)


@pytest.mark.slow
@pytest.mark.parametrize("stimuli", [200, 1000])
@pytest.mark.parametrize("shared", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("accuracy", [(0.8, 0.7), (0.9, 0.6), (0.55, 0.5)])
def test_error_consistency(accuracy, shared, stimuli):
    _assert_covered(ec_case(accuracy, shared, stimuli), PAIR_STUDIES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shared", "stimuli", "high"), [(0.2, 200, ALMOST_ALWAYS), (0.2, 1000, HIGH), (0.5, 200, HIGH), (0.8, 1000, HIGH)]
)
def test_error_consistency_of_observers_who_hardly_err(shared, stimuli, high):
    _assert_covered(ec_case((0.95, 0.9), shared, stimuli), PAIR_STUDIES, high)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [0.3, 0.6, 0.9])
@pytest.mark.parametrize(
    ("accuracy", "stimuli"), [((0.8, 0.7), 300), ((0.5, 0.4), 200), ((0.8, 0.7), 1000)]
)  # 35, 76 and 115 joint errors
def test_misclassification_agreement(accuracy, stimuli, follow):
    _assert_covered(ma_case(accuracy, follow, stimuli), PAIR_STUDIES)


@pytest.mark.slow
@pytest.mark.parametrize(("stimuli", "high"), [(300, ALMOST_ALWAYS), (1000, HIGH)])
def test_misclassification_agreement_of_unlike_observers(stimuli, high):
    _assert_covered(ma_case((0.8, 0.7), 0.0, stimuli), PAIR_STUDIES, high)


@pytest.mark.slow
@pytest.mark.parametrize("stimuli", [200, 1000])
@pytest.mark.parametrize("kind", ["even", "sure", "a tenth off", "few far off"])
def test_mean_hellinger(kind, stimuli):
    _assert_covered(hellinger_case(kind, stimuli), PAIR_STUDIES)


@pytest.mark.slow
@pytest.mark.parametrize("with_model", [False, True])
@pytest.mark.parametrize("people", [6, 10, 20, 40])
@pytest.mark.parametrize(
    ("measure", "accuracy", "stimuli"), [("ec", 0.75, 200), ("ec", 0.75, 1000), ("ma", 0.6, 200), ("ma", 0.75, 1000)]
)  # some 47 and 125 joint errors a pair
def test_crossed_over_people(measure, accuracy, stimuli, people, with_model):
    _assert_covered(crossed_case(measure, accuracy, people, stimuli, with_model=with_model), CROSSED_STUDIES)


def _assert_covered(case: Case, studies: int, high: float = HIGH) -> None:
    """Coverage is below or above the band only by chance: with probability .01 at an end of it."""
    found = coverage(case, studies=studies)
    assert binom.ppf(0.01, studies, LOW) <= found.share * studies <= binom.ppf(0.99, studies, high), found


@pytest.mark.slow
def test_class_level_error_similarity_holds_what_is_expected_at_this_size():
    for stimuli in (200, 1000):
        _assert_covered(cles_case((0.8, 0.7), 0.1, stimuli), CROSSED_STUDIES)


def test_coverage_counts_what_it_says():
    case = ec_case((0.8, 0.7), 0.5, 200)
    far = Case("an absurd truth", case.study, lambda: 5.0)
    missed = coverage(far, studies=5)
    assert (missed.share, missed.below, missed.above) == (0, 1, 0)
    assert missed.bias < -4
    assert coverage(case, studies=5) == coverage(case, studies=5)  # each study has its own seed


def test_true_consistency_is_that_of_two_correlated_normals():
    crowd = observers((0.8, 0.65), shared=0.6, follow=0.3)
    both = multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]]).cdf(norm.ppf([0.8, 0.65]))
    expected = 0.8 * 0.65 + 0.2 * 0.35
    kappa = (1 - 0.8 - 0.65 + 2 * both - expected) / (1 - expected)
    assert true_consistency(crowd)[0, 1] == pytest.approx(kappa, abs=1e-6)


def test_truths_are_those_of_a_large_study():
    crowd = Population(0.4).draw(4, np.random.default_rng(3))
    answers, pairs = answer(crowd, 400_000, np.random.default_rng(4)), tuple(pairs_of(4).T)
    for measure, truth in (
        ("error_consistency", true_consistency),
        ("misclassification_agreement", true_agreement),
    ):
        values = pair_forms[measure].matrix(answers)
        assert values[pairs] == pytest.approx(truth(crowd)[pairs], abs=0.006)  # some four standard errors


def test_people_are_who_they_are_said_to_be():
    crowd = Population(0.7).draw(2000, np.random.default_rng(0), evenly=True)
    assert np.median(crowd.accuracy) == pytest.approx(0.7, abs=0.01)
    assert crowd.shared.mean() == pytest.approx(0.5, abs=0.01)
    assert crowd.follow.mean() == pytest.approx(0.3, abs=0.01)
    table = answer(crowd.of(np.arange(5)), 50_000, np.random.default_rng(1))
    assert table.correct.mean(axis=1) == pytest.approx(crowd.accuracy[:5], abs=0.01)


def test_the_mean_of_the_population_does_not_hang_on_its_sample():
    few, many = (population_mean("ec", Population(0.7), people=people) for people in (1000, 2000))
    assert few == pytest.approx(many, abs=1e-3)


def test_errors_are_never_the_truth_and_follow_the_lures():
    table = answer(observers((0.0, 0.0), shared=0.5, follow=1.0), 100_000, np.random.default_rng(2))
    assert table.wrong.all()
    assert (table.response[0] == table.response[1]).all()
    counts = np.zeros_like(LURES)
    np.add.at(counts, (table.truth, table.response[0]), 1)
    assert counts / counts.sum(axis=1, keepdims=True) == pytest.approx(LURES, abs=0.03)
    assert isinstance(table, Answers)
