"""Gold label distributions against statsmodels, their laws, and every edge."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.stats import entropy
from statsmodels.stats.proportion import multinomial_proportions_confint, proportion_confint

from cosight.arrays import answer_counts
from cosight.errors import InvalidInput
from cosight.measures.gold_distributions import gold_distribution, label_counts, majority

nan = np.nan
few = settings(max_examples=50, deadline=None)
tables = arrays(
    np.int64,
    array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
    elements=st.integers(min_value=0, max_value=40),
)


# --- counting -------------------------------------------------------------------------------------------------------


def test_long_form_answers_are_counted_and_missing_ones_apart():
    result = label_counts([0, 0, 2, 2, 2], [1, 1, 0, -1, 2], 3)
    assert result.counts.tolist() == [[0, 2, 0], [0, 0, 0], [1, 0, 1]]
    assert result.missing.tolist() == [0, 0, 1]


def test_items_keeps_rows_for_stimuli_nobody_answered():
    assert label_counts([0], [0], 2, items=3).counts.tolist() == [[1, 0], [0, 0], [0, 0]]
    assert label_counts([], [], 2, items=2).missing.tolist() == [0, 0]
    assert label_counts([], [], 2).counts.shape == (0, 2)


@few
@given(tables, st.randoms(use_true_random=False))
def test_counting_undoes_listing_in_any_order(table, random):
    trials = [(i, c) for (i, c), times in np.ndenumerate(table) for _ in range(times)]
    random.shuffle(trials)
    items, answers = zip(*trials, strict=True) if trials else ((), ())
    assert np.array_equal(label_counts(items, answers, table.shape[1], items=len(table)).counts, table)


@pytest.mark.parametrize(
    ("item", "response", "items", "message"),
    [
        ([0], [2], None, "response codes must run from -1 to 1, got 2"),
        ([0], [-2], None, "response codes must run from -1 to 1, got -2"),
        ([-1], [0], None, "item codes must run from 0"),
        ([3], [0], 3, "item codes must run from 0 to 2, got 3"),
        ([0, 1], [0], None, "one length"),
        ([0], [0.5], None, "whole codes, got 0.5"),
        ([0], [nan], None, "must be finite"),
        ([[0]], [0], None, "must have 1 axes"),
    ],
)
def test_bad_codes_raise(item, response, items, message):
    with pytest.raises(InvalidInput, match=message):
        label_counts(item, response, 2, items=items)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[0.5, 0.5]], "whole numbers of people, got 0.5"),
        ([[-1, 2]], "whole numbers of people, got -1"),
        ([[nan, 2]], "must be finite"),
        ([1, 2], "must have 2 axes"),
        (np.zeros((3, 0)), "class axis"),
    ],
)
def test_bad_counts_raise_everywhere(counts, message):
    for function in (answer_counts, gold_distribution, majority):
        with pytest.raises(InvalidInput, match=message):
            function(counts)


# --- distributions --------------------------------------------------------------------------------------------------


@few
@given(tables, st.sampled_from(["wilson", "jeffreys"]), st.sampled_from([0.5, 0.9, 0.95]))
def test_intervals_per_class_agree_with_statsmodels(table, method, confidence):
    gold = gold_distribution(table, confidence=confidence, method=method)
    for i in np.flatnonzero(table.sum(axis=1)):
        low, high = proportion_confint(table[i], table[i].sum(), alpha=1 - confidence, method=method)
        np.testing.assert_allclose(gold.low[i], low, atol=1e-12)
        np.testing.assert_allclose(gold.high[i], high, atol=1e-12)


@few
@given(tables, st.sampled_from([0.5, 0.95]))
def test_goodman_agrees_with_statsmodels(table, confidence):
    gold = gold_distribution(table, confidence=confidence, method="goodman")
    for i in np.flatnonzero(table.sum(axis=1)):
        both = multinomial_proportions_confint(table[i], alpha=1 - confidence, method="goodman")
        np.testing.assert_allclose(np.stack([gold.low[i], gold.high[i]], axis=1), both, atol=1e-9)


@pytest.mark.parametrize(
    ("chosen", "people", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611), (1, 29, 0.0061, 0.1718)],
)  # Newcombe (1998), Statistics in Medicine 17, table I, method 3
def test_wilson_published_values(chosen, people, low, high):
    gold = gold_distribution([[chosen, people - chosen]], method="wilson")
    assert (round(gold.low[0, 0], 4), round(gold.high[0, 0], 4)) == (low, high)


@pytest.mark.parametrize(
    ("chosen", "people", "low", "high"),
    [(81, 263, 0.2544, 0.3658), (15, 148, 0.0601, 0.1581), (0, 20, 0, 0.1391), (1, 29, 0.0017, 0.1585)],
)  # half of pmf(chosen) and the tail beyond it make .025: solved with scipy.stats.binom and scipy.optimize.brentq
def test_mid_p_values_solved_with_scipy(chosen, people, low, high):
    gold = gold_distribution([[chosen, people - chosen]])
    assert (round(gold.low[0, 0], 4), round(gold.high[0, 0], 4)) == (low, high)


@few
@given(tables, st.sampled_from(["mid-p", "wilson", "goodman", "jeffreys"]))
def test_laws_of_every_distribution(table, method):
    gold = gold_distribution(table, method=method)
    some = table.sum(axis=1) > 0
    np.testing.assert_allclose(gold.probabilities[some].sum(axis=1), 1)
    assert (gold.low[some] >= 0).all()
    assert (gold.high[some] <= 1).all()
    assert (gold.low[some] <= gold.high[some]).all()
    np.testing.assert_allclose(gold.entropy[some], [entropy(row) for row in table[some]], atol=1e-12)
    assert np.isnan(gold.probabilities[~some]).all()
    assert np.isnan(gold.low[~some]).all()
    assert np.isnan(gold.high[~some]).all()
    assert np.isnan(gold.entropy[~some]).all()
    assert np.array_equal(gold.n, table.sum(axis=1))


@few
@given(tables, st.randoms(use_true_random=False))
def test_class_names_do_not_matter(table, random):
    order = list(range(table.shape[1]))
    random.shuffle(order)
    for method in ("mid-p", "wilson", "goodman", "jeffreys"):
        gold, renamed = gold_distribution(table, method=method), gold_distribution(table[:, order], method=method)
        np.testing.assert_array_equal(gold.high[:, order], renamed.high)
        np.testing.assert_array_equal(gold.probabilities[:, order], renamed.probabilities)


def test_wilson_ends_are_exact_and_goodman_is_wider():
    for confidence in np.arange(1, 100) / 100:  # at some levels and numbers of people subtraction misses 0 or 1
        unanimous = gold_distribution([[0, n] for n in range(1, 50)], confidence=confidence, method="wilson")
        assert (unanimous.low[:, 0] == 0).all()
        assert (unanimous.high[:, 1] == 1).all()
        assert (unanimous.entropy == 0).all()
    single, joint = (gold_distribution([[10, 20, 30]], method=method) for method in ("wilson", "goodman"))
    assert (joint.low < single.low).all()
    assert (joint.high > single.high).all()


def test_the_result_says_how_it_was_made():
    gold = gold_distribution([[1, 1]], confidence=0.9, method="jeffreys")
    assert (gold.confidence, gold.method) == (0.9, "jeffreys")
    assert gold_distribution([[1, 1]]).method == "mid-p"
    assert gold_distribution(np.zeros((0, 3))).probabilities.shape == (0, 3)


@pytest.mark.parametrize("confidence", [0, 1, 95, nan])
def test_a_level_is_a_probability(confidence):
    with pytest.raises(InvalidInput, match="confidence must lie between 0 and 1"):
        gold_distribution([[1, 1]], confidence=confidence)


def test_an_unknown_method_names_the_known_ones():
    with pytest.raises(InvalidInput, match="mid-p, wilson, goodman, jeffreys, got 'wald'"):
        gold_distribution([[1, 1]], method="wald")


# --- majority -------------------------------------------------------------------------------------------------------


def test_majority_ties_take_the_lowest_class_and_say_so():
    result = majority([[1, 3, 0], [2, 0, 2], [0, 0, 0], [0, 1, 1], [5, 0, 0]])
    assert result.codes.tolist() == [1, 0, -1, 1, 0]
    assert result.tied.tolist() == [False, True, False, True, False]


@few
@given(tables)
def test_the_majority_has_the_most_answers(table):
    result = majority(table)
    for row, code, tied in zip(table, result.codes, result.tied, strict=True):
        if row.sum() == 0:
            assert (code, tied) == (-1, False)
        else:
            assert row[code] == row.max()
            assert not (row[:code] == row.max()).any()
            assert tied == (np.count_nonzero(row == row.max()) > 1)
