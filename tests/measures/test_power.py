"""Planning: statsmodels' standard errors, brute force, and simulated studies of the planned size."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.power import NormalIndPower
from statsmodels.stats.proportion import proportion_confint

from cosight.errors import InvalidInput
from cosight.measures.answers import NO_ANSWER, NOT_SHOWN, Answers
from cosight.measures.consistency import error_consistency, error_consistency_resampled, reachable_kappa
from cosight.measures.differences import paired_difference
from cosight.measures.draws import compress, draw_stimuli
from cosight.measures.gold_distributions import gold_distribution
from cosight.measures.misclassification import misclassification_agreement
from cosight.measures.power import (
    Influence,
    JointProbabilities,
    accuracy_difference_sd,
    consistency_difference_sd,
    joint_probabilities,
    kappa_influence,
    kappa_standard_error,
    misclassification_difference_sd,
    misclassification_influence,
    trials_for_accuracy,
    trials_for_consistency,
    trials_for_mean,
    trials_for_misclassification,
    trials_to_tell_apart,
)
from cosight.measures.uncertainty import mean_with_interval, pair_estimate

nan = math.nan
law = settings(deadline=None, max_examples=60)
inner = st.floats(0.05, 0.95)
counts = st.integers(2, 5).flatmap(lambda k: arrays(np.int64, (k, k), elements=st.integers(0, 9)))
two_rows = st.integers(1, 40).flatmap(lambda n: arrays(np.bool_, (2, n)))


def kappa_in_reach(a, b, share):
    """The kappa a `share` of the way through the reachable range."""
    reach = reachable_kappa(a, b)
    return reach.lowest + share * (reach.highest - reach.lowest)


def even_table(agreement, classes):
    """Shares of two observers who use all classes evenly and agree as much as asked."""
    observed = 1 / classes + agreement * (1 - 1 / classes)
    table = np.full((classes, classes), (1 - observed) / (classes * (classes - 1)))
    np.fill_diagonal(table, observed / classes)
    return table


# --- standard errors ------------------------------------------------------------------------------------------------


@law
@given(counts)
def test_standard_error_is_that_of_statsmodels(table):
    n = table.sum()
    assume(n > 0 and table.sum(axis=0) @ table.sum(axis=1) < n**2)
    with np.errstate(all="ignore"):  # of its test of kappa = 0, which is not asked
        expected = max(cohens_kappa(table).var_kappa, 0)  # it falls short of 0 by rounding
    assert kappa_standard_error(table / n, n=n) ** 2 == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("table", "error", "digits"),
    [
        ([[1395, 118], [261, 158]], 0.0262913719660408, 1e-12),  # Stata's kapci, statalist 2009-12, message 320
        ([[0, 4, 1], [0, 8, 0], [0, 1, 5]], 0.1380, 5e-5),  # SAS' printout, from statsmodels' test_inter_rater.py
        ([[31, 12], [4, 58]], 0.07344761, 5e-9),  # R's statpsych 1.7.0, example of ci.kappa
    ],
)
def test_standard_error_reference_values(table, error, digits):
    n = np.sum(table)
    assert kappa_standard_error(np.array(table) / n, n=n) == pytest.approx(error, abs=digits)


def test_standard_error_where_kappa_is_certain_or_undefined():
    assert kappa_standard_error([[0.5, 0], [0, 0.5]], n=10) == 0
    assert math.isnan(kappa_standard_error([[1, 0], [0, 0]], n=10))


@law
@given(two_rows)
def test_influence_gives_the_standard_error_of_the_table(rows):
    a, b = rows
    found = kappa_influence(a, b)
    table = np.histogram2d(a, b, bins=2, range=[[0, 1], [0, 1]])[0]
    assert found.value == pytest.approx(error_consistency(a, b).value, abs=1e-12, nan_ok=True)
    error = kappa_standard_error(table / len(a), n=len(a))
    assert found.standard_error == pytest.approx(error, abs=1e-9, nan_ok=True)
    assert np.isnan(found.items).all() == math.isnan(found.value)
    assert math.isnan(found.value) or found.items.mean() == pytest.approx(0, abs=1e-9)
    assert np.allclose(found.items, kappa_influence(b, a).items, equal_nan=True)


def test_influence_is_what_leaving_a_trial_out_does():
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 2000)) < 0.7
    whole, found = error_consistency(a, b).value, kappa_influence(a, b)
    for t in range(20):
        left = error_consistency(np.delete(a, t), np.delete(b, t)).value
        assert (whole - left) * 1999 == pytest.approx(found.items[t], abs=0.01)  # the jackknife's pseudo-value


def test_influence_without_trials_is_undefined():
    found = kappa_influence([], [])
    assert math.isnan(found.value)
    assert math.isnan(found.standard_error)
    assert len(found.items) == 0


def wrong_answers(n, classes, joint, observed, rng):
    """Two observers, jointly wrong on a share `joint` of n trials, there alike with probability `observed`."""
    truth = rng.integers(0, classes, n)
    a = (truth + rng.integers(1, classes, n)) % classes
    step = rng.integers(1, classes - 1, n)  # to another wrong class, past the truth
    gap = (truth - a) % classes
    b = np.where(rng.random(n) < observed, a, (a + step + (step >= gap)) % classes)
    response = np.where(rng.random(n) < joint, np.stack([a, b]), truth)
    return Answers(response.astype(np.int16), truth.astype(np.int16), classes)


def test_misclassification_influence():
    answers = wrong_answers(3000, 5, 0.3, 0.5, np.random.default_rng(0))
    found = misclassification_influence(answers)
    a, b = answers.response
    assert found.value == pytest.approx(misclassification_agreement(a, b, answers.truth).value, abs=1e-12)
    joint = answers.wrong.all(axis=0)
    assert (found.items[~joint] == 0).all()
    table = np.histogram2d(a[joint], b[joint], bins=5, range=[[0, 5], [0, 5]])[0]
    assert found.standard_error == pytest.approx(cohens_kappa(table).std_kappa, rel=1e-9)
    estimate = pair_estimate("ma", answers, resamples=2000, rng=np.random.default_rng(1))
    assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * found.standard_error, rel=0.1)


def test_misclassification_influence_leaves_out_what_was_not_shown_or_answered():
    response = np.array([[1, 2, 2, 1, 0], [1, 1, 2, NO_ANSWER, NOT_SHOWN]], dtype=np.int16)
    found = misclassification_influence(Answers(response, np.zeros(5, np.int16), 3))
    assert found.items.shape == (4,)  # the last was not met by both
    assert found.items[3] == 0  # not answered, so not an error in kind
    assert found.value == pytest.approx(misclassification_agreement([1, 2, 2], [1, 1, 2], [0, 0, 0]).value)


def test_misclassification_influence_undefined_without_joint_errors():
    found = misclassification_influence(Answers(np.array([[0, 1], [0, 0]], np.int16), np.zeros(2, np.int16), 2))
    assert math.isnan(found.value)
    assert np.isnan(found.items).all()
    assert math.isnan(found.standard_error)


# --- joint shares ---------------------------------------------------------------------------------------------------


@law
@given(inner, inner, st.floats(0, 1))
def test_joint_shares_have_the_accuracies_and_the_kappa(a, b, share):
    kappa = kappa_in_reach(a, b, share)
    found = joint_probabilities(a, b, kappa)
    assert found.table.sum() == pytest.approx(1, abs=1e-9)
    assert (found.table >= 0).all()
    assert found.both + found.only_a == pytest.approx(a, abs=1e-9)
    assert found.both + found.only_b == pytest.approx(b, abs=1e-9)
    assert cohens_kappa(found.table * 1e6).kappa == pytest.approx(kappa, abs=1e-9)
    turned = joint_probabilities(b, a, kappa)
    assert turned.table == pytest.approx(found.table.T)


def test_a_kappa_out_of_reach_names_the_range():
    with pytest.raises(InvalidInput, match=r"must be -0\.\d+ to 0\.5455, got 0\.6"):  # Klein et al. 2025: .545454
        joint_probabilities(0.8, 0.6, 0.6)
    with pytest.raises(InvalidInput, match="nan to nan"):
        joint_probabilities(1, 1, 1)
    with pytest.raises(InvalidInput, match="0 to 1, got 80"):
        joint_probabilities(80, 0.6, 0.3)


# --- trials for a width ---------------------------------------------------------------------------------------------


def test_accuracy_by_brute_force():
    n = np.arange(1, 3000)
    for p in (0, 0.03, 0.5, 0.7, 1):
        low, high = proportion_confint(p * n, n, method="wilson")
        found = trials_for_accuracy(p, width=0.08)
        assert found.trials == n[np.argmax(high - low <= 0.08)] == found.used == found.value
        assert found.width == pytest.approx((high - low)[found.trials - 1])


@law
@given(inner, inner, st.floats(0.1, 0.9), st.floats(0.05, 0.8))
def test_the_plan_reaches_the_width_and_less_width_needs_more(a, b, share, width):
    for plan in (
        trials_for_consistency(a, b, kappa_in_reach(a, b, share), width=width),
        trials_for_mean(a, width=width),
        trials_for_accuracy(a, width=width),
    ):
        assert plan.width <= width
    more, fewer = trials_for_mean(a, width=width / 2), trials_for_mean(a, width=width)
    assert more.trials >= fewer.trials
    assert trials_for_mean(a, width=fewer.width).trials == fewer.trials
    assert fewer.trials == 2 or trials_for_mean(a, width=fewer.width * (1 - 1e-9)).trials == fewer.trials + 1


def test_mean_agrees_with_students_interval():
    n = np.arange(2, 1000)
    widths = 2 * stats.t.ppf(0.995, n - 1) * 0.3 / np.sqrt(n)
    assert trials_for_mean(0.3, width=0.2, confidence=0.99).trials == n[np.argmax(widths <= 0.2)]


@pytest.mark.parametrize(("agreement", "classes"), [(0.2, 16), (-0.05, 16), (0.7, 3), (0, 2)])
def test_even_margins_are_a_case_of_the_general_standard_error(agreement, classes):
    plan = trials_for_misclassification(agreement, classes=classes, joint=0.25, width=0.3)
    assert plan.standard_error == pytest.approx(kappa_standard_error(even_table(agreement, classes), n=plan.used))
    assert plan.trials == 4 * plan.used


def simulated_width(asked, study, studies):
    widths = [found.high - found.low for found in (study(np.random.default_rng(seed)) for seed in range(studies))]
    return np.mean(widths) / asked


def test_simulated_accuracy_intervals_are_as_wide_as_planned():
    n = trials_for_accuracy(0.85, width=0.12).trials

    def study(rng):
        right = rng.random(n) < 0.85
        return mean_with_interval(right, resamples=300, rng=rng)

    assert simulated_width(0.12, study, 150) == pytest.approx(1, abs=0.1)
    hits = np.random.default_rng(0).binomial(n, 0.85, 500)
    gold = gold_distribution(np.stack([hits, n - hits], axis=1))
    assert np.mean(gold.high[:, 0] - gold.low[:, 0]) == pytest.approx(0.12, rel=0.03)


@pytest.mark.parametrize(
    ("a", "b", "kappa", "width"), [(0.8, 0.7, 0.4, 0.2), (0.95, 0.9, 0.2, 0.3), (0.5, 0.6, -0.1, 0.3)]
)
def test_simulated_consistency_intervals_are_as_wide_as_planned(a, b, kappa, width):
    n, cells = trials_for_consistency(a, b, kappa, width=width).trials, joint_probabilities(a, b, kappa).table.ravel()

    def study(rng):
        cell = rng.choice(4, size=n, p=cells / cells.sum())
        return pair_estimate("ec", Answers.of_correctness(cell // 2, cell % 2), resamples=400, rng=rng)

    assert simulated_width(width, study, 200) == pytest.approx(1, abs=0.1)


def test_simulated_misclassification_intervals_are_as_wide_as_planned():
    plan = trials_for_misclassification(0.25, classes=8, joint=0.2, width=0.25)
    observed = 1 / 8 + 0.25 * 7 / 8

    def study(rng):
        answers = wrong_answers(plan.trials, 8, 0.2, observed, rng)
        return pair_estimate("ma", answers, resamples=300, rng=rng)

    assert simulated_width(0.25, study, 120) == pytest.approx(1, abs=0.1)
    values = [study(np.random.default_rng(seed)).value for seed in range(40)]
    assert np.mean(values) == pytest.approx(0.25, abs=0.04)  # the simulation is of what was planned


def test_simulated_means_are_as_wide_as_planned():
    n = trials_for_mean(math.sqrt(1 / 18), width=0.2).trials  # the standard deviation of a triangular (0, 0, 1)

    def study(rng):
        return mean_with_interval(rng.triangular(0, 0, 1, n), resamples=300, rng=rng)

    assert n < 30  # few enough for t and normal to differ
    assert simulated_width(0.2, study, 200) == pytest.approx(1, abs=0.1)


# --- telling two models apart ---------------------------------------------------------------------------------------


def test_tell_apart_agrees_with_statsmodels():
    for difference, power, alpha in ((0.05, 0.8, 0.05), (-0.2, 0.95, 0.01), (0.02, 0.5, 0.1)):
        found = trials_to_tell_apart(difference, sd=0.5, power=power, alpha=alpha)
        n = NormalIndPower(ddof=0).solve_power(
            abs(difference) / 0.5, power=power, alpha=alpha, ratio=0, alternative="two-sided"
        )
        assert found.trials == pytest.approx(n, rel=2e-3, abs=1)  # statsmodels counts the wrong tail
        assert power <= found.power < power + 0.02


@law
@given(st.floats(0.01, 0.5), st.floats(0.1, 2), st.floats(0.3, 0.99))
def test_tell_apart_is_the_fewest(difference, sd, power):
    found = trials_to_tell_apart(difference, sd=sd, power=power)
    assert found.power >= power - 1e-9
    assert found.trials == trials_to_tell_apart(-difference, sd=sd, power=power).trials
    assert found.standard_error == pytest.approx(sd / math.sqrt(found.trials))
    one_less = math.sqrt(found.trials - 1) * difference / sd - 1.959964
    assert found.trials == 1 or stats.norm.cdf(one_less) < power + 1e-6


def test_accuracy_difference_sd():
    rng = np.random.default_rng(0)
    shares = joint_probabilities(0.8, 0.7, 0.3)
    cell = rng.choice(4, size=400_000, p=shares.table.ravel())
    assert accuracy_difference_sd(shares) == pytest.approx(np.std(cell // 2 - cell % 2), abs=0.003)
    alone = accuracy_difference_sd(joint_probabilities(0.8, 0.7, 0))
    assert alone == pytest.approx(math.sqrt(0.8 * 0.2 + 0.7 * 0.3))  # independent: variances add


def three_observers(first: JointProbabilities, second: JointProbabilities):
    """The 8 patterns (person, model, model) and their probabilities, the models independent given the person."""
    patterns = np.array(np.meshgrid([0, 1], [0, 1], [0, 1], indexing="ij")).reshape(3, 8)
    h, x, y = patterns
    person = first.table.sum(axis=1)
    return patterns, first.table[h, x] * second.table[h, y] / person[h]


def test_consistency_difference_sd_is_that_of_simulated_studies():
    first, second = joint_probabilities(0.8, 0.7, 0.4), joint_probabilities(0.8, 0.75, 0.3)
    patterns, probability = three_observers(first, second)
    n, studies = 1000, 3000
    drawn = np.random.default_rng(0).multinomial(n, probability, size=studies).astype(np.float32)
    answers = Answers.of_correctness(*patterns)
    values = error_consistency_resampled(answers, drawn, np.array([[0, 1], [0, 2]]))
    sd = np.std(values[0] - values[1]) * math.sqrt(n)
    assert consistency_difference_sd(first, second) == pytest.approx(sd, rel=0.04)  # 3 of its standard errors


def test_simulated_power_of_error_consistency():
    first, second = joint_probabilities(0.75, 0.7, 0.5), joint_probabilities(0.75, 0.7, 0.3)
    patterns, probability = three_observers(first, second)
    plan = trials_to_tell_apart(0.2, sd=consistency_difference_sd(first, second))
    base, pairs, found = Answers.of_correctness(*patterns), np.array([[0, 1], [0, 2]]), []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        answers = base.at(rng.choice(8, size=plan.trials, p=probability))
        small = compress(answers)
        weights = draw_stimuli(small.counts, 400, rng)
        samples = error_consistency_resampled(small.answers, weights, pairs)
        a, b = (error_consistency(answers.correct[0], answers.correct[i]).value for i in (1, 2))
        found.append(paired_difference(a, b, *samples).p < 0.05)
    assert np.mean(found) == pytest.approx(0.8, abs=3 * math.sqrt(0.16 / 300))


def test_simulated_power_of_accuracy_from_a_pilots_influences():
    rng = np.random.default_rng(0)
    cells = joint_probabilities(0.8, 0.7, 0.3).table.ravel()
    pilot = rng.choice(4, size=4000, p=cells)
    plan = trials_to_tell_apart(0.1, sd=float(np.std(pilot // 2 - pilot % 2)))
    studies = rng.choice(4, size=(2000, plan.trials), p=cells)
    items = studies // 2 - studies % 2
    z = items.mean(axis=1) / (items.std(axis=1, ddof=1) / math.sqrt(plan.trials))
    assert np.mean(np.abs(z) > 1.96) == pytest.approx(0.8, abs=0.03)


def test_misclassification_difference_sd_is_that_of_simulated_studies():
    rng, n, classes, joint, observed = np.random.default_rng(0), 1000, 4, 0.5, (0.6, 0.4)
    found = []
    for _ in range(400):
        truth = np.zeros(n, dtype=np.int64)  # one true class leaves three wrong ones, used evenly
        person = rng.integers(1, classes, n)
        wrong = rng.random(n) < joint
        values = []
        for share in observed:
            other = 1 + (person - 1 + rng.integers(1, classes - 1, n)) % (classes - 1)
            model = np.where(rng.random(n) < share, person, other)
            values.append(misclassification_agreement(person, np.where(wrong, model, truth), truth).value)
        found.append(values[0] - values[1])
    kappas = [(share - 1 / 3) / (2 / 3) for share in observed]
    sd = misclassification_difference_sd(*kappas, classes=3, joint=joint)
    assert sd == pytest.approx(np.std(found) * math.sqrt(n), rel=0.11)  # 3 of its standard errors


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: trials_for_accuracy(80, width=0.1), "accuracy must be 0 to 1, got 80; divide"),
        (lambda: trials_for_accuracy(nan, width=0.1), "got nan"),
        (lambda: trials_for_accuracy(0.8, width=0), "width must be above 0 and at most 1, the range, got 0"),
        (lambda: trials_for_accuracy(0.8, width=1.1), "at most 1"),
        (lambda: trials_for_accuracy(0.8, width=0.1, confidence=95), "confidence must lie between 0 and 1, got 95"),
        (lambda: trials_for_accuracy(0.8, width=1e-12), "widen it"),
        (lambda: trials_for_consistency(0.8, 0.8, 0.3, width=2.5), "at most 2"),
        (lambda: trials_for_consistency(0.8, 0.8, 1, width=0.1), "standard deviation of a trial must be above 0"),
        (lambda: trials_for_consistency(1, 0.8, 0, width=0.1), "perfect observer"),
        (lambda: trials_for_mean(0, width=0.1), "above 0, got 0"),
        (lambda: trials_for_mean(0.1, width=nan), "width must be above 0, got nan"),
        (lambda: trials_for_misclassification(0.2, classes=1, joint=0.1, width=0.1), "2 or more, got 1"),
        (lambda: trials_for_misclassification(0.2, classes=2.5, joint=0.1, width=0.1), "got 2.5"),
        (lambda: trials_for_misclassification(-0.5, classes=5, joint=0.1, width=0.1), r"-0\.2500 to 1, got -0\.5"),
        (lambda: trials_for_misclassification(0.2, classes=5, joint=0, width=0.1), "jointly wrong"),
        (lambda: trials_to_tell_apart(0, sd=1), "must not be 0"),
        (lambda: trials_to_tell_apart(0.1, sd=-1), "above 0, got -1"),
        (lambda: trials_to_tell_apart(0.1, sd=1, power=80), "power must lie between 0 and 1, got 80"),
        (lambda: trials_to_tell_apart(0.1, sd=1, power=0.02), "alpha / 2"),
        (lambda: trials_to_tell_apart(1e-12, sd=1), "a plan must stay within"),
        (lambda: kappa_standard_error([[0.5, 0.5]], n=3), "square"),
        (lambda: kappa_standard_error([[0.5, 0.1], [0, 0]], n=3), "sum to one"),
        (lambda: kappa_standard_error([[0.5, 0], [0, 0.5]], n=0), "n must be positive"),
        (
            lambda: consistency_difference_sd(joint_probabilities(0.8, 0.7, 0), joint_probabilities(0.7, 0.7, 0)),
            "person first",
        ),
        (lambda: kappa_influence([1, 0], [1]), "one length"),
        (lambda: misclassification_influence(Answers.of_correctness([1], [0], [1])), "two observers, got 3"),
    ],
)
def test_refused(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()


def test_influence_of_given_items():
    assert Influence(0.5, np.array([1.0, -1.0])).standard_error == pytest.approx(math.sqrt(0.5))
