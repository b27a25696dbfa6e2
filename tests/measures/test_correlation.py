import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from cosight.errors import InvalidInput
from cosight.measures.correlation import (
    _mean_ranks,
    domain_correlations,
    kendall_correlation,
    kendall_correlation_resampled,
    pearson_correlation,
    rank_correlation,
    rank_correlation_resampled,
    rank_correlation_weighted,
    z_scores,
)

nan = math.nan
coarse = st.one_of(st.integers(-3, 3).map(float), st.just(nan))  # ties and holes
pairs = st.integers(0, 12).flatmap(lambda n: arrays(np.float64, (2, n), elements=coarse))
numbers = st.floats(-1e3, 1e3).map(lambda v: round(v, 3))
full = st.integers(4, 12).flatmap(lambda n: arrays(np.float64, (2, n), elements=numbers))

ANSCOMBE_X = [10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5]
ANSCOMBE_Y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68]


@pytest.mark.parametrize(
    ("x", "y", "value", "n"),
    [
        # Wikipedia, Spearman's rank correlation coefficient: IQ and hours of television, -29/165
        ([106, 100, 86, 101, 99, 103, 97, 113, 112, 110], [7, 27, 2, 50, 28, 29, 20, 12, 6, 17], -29 / 165, 10),
        ([1, 2, 2, 3], [1, 2, 3, 4], 3 / math.sqrt(10), 4),  # by hand: ranks 1 2.5 2.5 4 and 1 2 3 4, 4.5/sqrt(4.5*5)
        ([1, 2, 3, nan], [3, 2, 1, 0], -1, 3),
        ([1, 2, nan, 4], [1, nan, 3, 4], nan, 2),  # too few are left
        ([1, 2], [1, 2], nan, 2),
        ([1, 1, 1], [1, 2, 3], nan, 3),
        ([1, 1, 1, 2], [1, 2, 3, nan], nan, 3),  # constant once the holes are out
        ([], [], nan, 0),
    ],
)
def test_rank_correlation(x, y, value, n):
    result = rank_correlation(x, y)
    assert result.value == pytest.approx(value, abs=1e-14, nan_ok=True)
    assert (result.n, result.left_out) == (n, len(x) - n)


def _scipy_spearman(x, y):
    keep = ~(np.isnan(x) | np.isnan(y))
    x, y = x[keep], y[keep]
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return nan
    return stats.spearmanr(x, y).statistic


@given(st.integers(1, 12).flatmap(lambda n: arrays(np.float64, (3, n), elements=st.integers(-3, 3))))
@settings(deadline=None)
def test_ranks_are_scipys(rows):
    np.testing.assert_array_equal(_mean_ranks(rows), stats.rankdata(rows, axis=1))


def test_ranks_of_infinities_and_of_nothing():
    rows = np.array([[np.inf, 1.0, np.inf, -np.inf]])
    assert _mean_ranks(rows).tolist() == [[3.5, 2, 3.5, 1]]
    assert _mean_ranks(np.empty((2, 0))).shape == (2, 0)
    assert _mean_ranks(np.empty((0, 3))).shape == (0, 3)


@given(pairs)
@settings(deadline=None)
def test_rank_correlation_is_scipys(xy):
    value = rank_correlation(*xy).value
    assert value == pytest.approx(_scipy_spearman(*xy), abs=1e-12, nan_ok=True)
    assert math.isnan(value) or -1 <= value <= 1


@given(pairs)
@settings(deadline=None)
def test_rank_correlation_laws(xy):
    x, y = xy
    value = rank_correlation(x, y).value
    assert rank_correlation(y, x).value == pytest.approx(value, nan_ok=True)
    assert rank_correlation(-x, y).value == pytest.approx(-value, nan_ok=True)
    assert rank_correlation(np.exp(x), y).value == pytest.approx(value, nan_ok=True)  # any increasing function
    assert rank_correlation(x[::-1], y[::-1]).value == pytest.approx(value, nan_ok=True)
    own = rank_correlation(x, x).value
    assert math.isnan(own) or own == 1.0


def test_resampled_is_row_by_row():
    rng = np.random.default_rng(5)
    x = rng.integers(6, size=(200, 9)).astype(float)
    y = rng.integers(6, size=(200, 9)).astype(float)
    x[rng.random(x.shape) < 0.3] = nan
    y[rng.random(y.shape) < 0.2] = nan
    x[0] = nan
    got = rank_correlation_resampled(x, y)
    want = [_scipy_spearman(a, b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(got, want, atol=1e-12)
    assert np.isnan(got[0])
    assert np.isfinite(got).sum() > 100


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (3, 2)])
def test_resampled_without_data_is_nan(shape):
    assert np.isnan(rank_correlation_resampled(np.ones(shape), np.ones(shape))).tolist() == [True] * shape[0]


def test_pearson_golden():
    result = pearson_correlation(ANSCOMBE_X, ANSCOMBE_Y)
    assert result.value == pytest.approx(0.81642, abs=5e-6)  # Anscombe 1973, first set
    assert (result.n, result.left_out) == (11, 0)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_pearson_interval_is_scipys(confidence):
    result = pearson_correlation(ANSCOMBE_X, ANSCOMBE_Y, confidence=confidence)
    interval = stats.pearsonr(ANSCOMBE_X, ANSCOMBE_Y).confidence_interval(confidence)
    assert (result.low, result.high) == pytest.approx((interval.low, interval.high), abs=1e-12)


@given(full)
@settings(deadline=None)
def test_pearson_is_numpys(xy):
    x, y = xy
    value = pearson_correlation(x, y).value
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert math.isnan(value)
    else:
        assert value == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
        assert -1 <= value <= 1


@given(full, st.sampled_from([1e-200, 1e-9, 3.0, 1e200]))
@settings(deadline=None)
def test_pearson_has_no_unit(xy, scale):
    x, y = xy
    expected = pearson_correlation(x, y)
    result = pearson_correlation(x * scale, y)
    assert result.value == pytest.approx(expected.value, abs=1e-9, nan_ok=True)
    assert result.low <= result.value <= result.high or math.isnan(result.value)


@pytest.mark.parametrize(
    ("x", "y", "value", "low"),
    [
        ([1, 2, 3, 4], [2, 4, 6, 8], 1, 1),  # no width at the end of the range
        ([1, 2, 3, 4], [8, 6, 4, 2], -1, -1),
        ([1, 2, 3], [1, 2, 4], 3 / math.sqrt(28 / 3), nan),  # 3 pairs: by hand, 3 / sqrt(2 * 14/3)
        ([1, 2, 3, nan], [1, 2, 4, 4], 3 / math.sqrt(28 / 3), nan),
        ([0.1, 0.1, 0.1, 0.1], [1, 2, 3, 4], nan, nan),
        ([0, 0, 0, 0], [1, 2, 3, 4], nan, nan),
        ([1, 2], [1, 2], nan, nan),
        ([], [], nan, nan),
    ],
)
def test_pearson_edges(x, y, value, low):
    result = pearson_correlation(x, y)
    assert result.value == pytest.approx(value, nan_ok=True)
    assert result.low == pytest.approx(low, nan_ok=True)
    assert math.isnan(result.low) == math.isnan(result.high)
    assert result.n + result.left_out == len(x)


def _domains():
    rng = np.random.default_rng(2)
    domain = np.array(["stylized"] * 20 + ["colour"] * 15 + ["tiny"] * 2)
    values = {name: rng.normal(size=37) for name in ("ec", "ma", "cles")}
    values["ma"][3] = nan
    values["cles"][20:35] = 0.5  # constant in one domain
    return domain, values


def test_domain_correlations_are_rank_correlations():
    domain, values = _domains()
    result = domain_correlations(domain, values)
    assert result.measures == ("ec", "ma", "cles")
    assert result.domains == ("stylized", "colour", "tiny")  # in the order they appear
    assert result.in_domain.shape == (3, 3, 3)
    for i, a in enumerate(result.measures):
        for j, b in enumerate(result.measures):
            each = [rank_correlation(values[a][domain == d], values[b][domain == d]).value for d in result.domains]
            np.testing.assert_allclose(result.in_domain[:, i, j], each)
            assert result.global_[i, j] == pytest.approx(rank_correlation(values[a], values[b]).value)
            assert result.average[i, j] == pytest.approx(np.nanmean(each))
            assert result.left_out[i, j] == np.isnan(each).sum()
    assert result.left_out.tolist() == [[1, 1, 2], [1, 1, 2], [2, 2, 2]]


def test_pooling_can_turn_the_sign():
    """What Xu et al. 2024 (3.3) find for EC and MA: alike within every domain, opposed over all of them."""
    within = np.tile(np.arange(10.0), 3)
    offset = np.repeat([0.0, 100.0, 200.0], 10)
    result = domain_correlations(np.repeat([1, 2, 3], 10), {"ec": within + offset, "ma": within - offset})
    assert result.domains == ("1", "2", "3")
    assert result.average[0, 1] == 1
    assert result.global_[0, 1] < -0.7


def test_average_of_nothing_is_nan():
    result = domain_correlations(["a", "b"], {"ec": [1, 2]})
    assert np.isnan(result.average).all()
    assert result.left_out.tolist() == [[2]]
    empty = domain_correlations([], {"ec": [], "ma": []})
    assert empty.in_domain.shape == (0, 2, 2)
    assert np.isnan(empty.average).all()


def test_a_measure_may_be_called_domain():
    assert domain_correlations(["a"] * 3, {"domain": [1, 2, 3]}).global_.tolist() == [[1.0]]


@given(full)
@settings(deadline=None)
def test_z_scores_are_scipys(xy):
    values = xy[0].copy()
    values[0] = nan
    got = z_scores(values)
    assert math.isnan(got[0])
    if np.ptp(values[1:]) > 0:
        np.testing.assert_allclose(got, stats.zscore(values, nan_policy="omit"), rtol=1e-6, atol=1e-6)
        assert np.nanmean(got) == pytest.approx(0, abs=1e-9)
        assert np.nanstd(z_scores(values, ddof=1), ddof=1) == pytest.approx(1)
    else:
        assert np.isnan(got).all()


@pytest.mark.parametrize("values", [[], [3.0], [nan, 3.0], [0.1] * 7, [0, 0]])
def test_z_scores_undefined(values):
    got = z_scores(values)
    assert got.shape == (len(values),)
    assert np.isnan(got).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rank_correlation([1, 2], [1]), "x 2, y 1"),
        (lambda: rank_correlation([[1]], [[1]]), "x must have 1 axes"),
        (lambda: rank_correlation([1, math.inf], [1, 2]), "x must not be infinite, got inf; use nan"),
        (lambda: rank_correlation_resampled([[1, 2]], [[1], [2]]), r"one shape, got \(1, 2\) and \(2, 1\)"),
        (lambda: pearson_correlation([1, 2], [1, -math.inf]), "y must not be infinite, got -inf"),
        (lambda: pearson_correlation([1], [1], confidence=95), "confidence must lie between 0 and 1, got 95"),
        (lambda: domain_correlations(["a"], {}), "at least one measure"),
        (lambda: domain_correlations(["a"], {"ec": [1, 2]}), r"domain 1, values\['ec'\] 2"),
        (lambda: domain_correlations(["a", ""], {"ec": [1, 2]}), "got '' in row 1"),
        (lambda: domain_correlations([nan, 1.0], {"ec": [1, 2]}), "got nan in row 0"),
        (lambda: domain_correlations(np.array(["a", None]), {"ec": [1, 2]}), "got None in row 1"),
        (lambda: z_scores([1, 2], ddof=2), "ddof must be 0 or 1, got 2"),
        (lambda: z_scores([[1]]), "values must have 1 axes"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@given(pairs)
def test_kendall_is_scipys(xy):
    x, y = xy
    found = kendall_correlation(x, y)
    keep = ~np.isnan(x + y)
    constant = [len(set(side[keep])) < 2 for side in (x, y)]
    expected = nan if keep.sum() < 3 or any(constant) else stats.kendalltau(x[keep], y[keep]).statistic
    assert found.value == pytest.approx(expected, nan_ok=True)
    assert (found.n, found.left_out) == (keep.sum(), len(x) - keep.sum())


def test_kendall_by_hand_and_row_by_row():
    # of 6 pairs 4 are in the same order, one is tied in x and one in y: 4 / sqrt(5 * 5)
    x, y = [1, 1, 2, 3], [1, 2, 2, 3]
    assert kendall_correlation(x, y).value == pytest.approx(4 / 5)
    assert kendall_correlation_resampled([x, [4, 3, 2, 1]], [y, y]) == pytest.approx([4 / 5, -5 / math.sqrt(6 * 5)])
    with pytest.raises(InvalidInput, match="one shape"):
        kendall_correlation_resampled([[1, 2]], [[1, 2, 3]])


# ---- weights


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_whole_weights_repeat_pairs(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 4, (2, 9)).astype(float)
    x[rng.random(9) < 0.1] = np.nan
    times = rng.integers(0, 4, (3, 9))
    found = rank_correlation_weighted(x, y, times)
    for row, value in zip(times, found, strict=True):
        if np.count_nonzero(row[~np.isnan(x)]) >= 3:
            expected = rank_correlation(np.repeat(x, row), np.repeat(y, row)).value
            assert value == pytest.approx(expected, nan_ok=True)
        else:
            assert np.isnan(value)


def test_weights_are_checked():
    with pytest.raises(InvalidInput, match="weights must be 0 or more, got -1"):
        rank_correlation_weighted([1, 2, 3], [1, 2, 3], [[1, -1, 1]])
    with pytest.raises(InvalidInput, match="weights 2"):
        rank_correlation_weighted([1, 2, 3], [1, 2, 3], [[1, 1]])
    assert np.isnan(rank_correlation_weighted([], [], np.ones((2, 0)))).all()
