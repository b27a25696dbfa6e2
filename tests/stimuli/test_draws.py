"""Random fields drawn from half words: do they have the distributions they are said to have?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cosight.stimuli.corruptions.draws import _knots, normals, uniforms


@pytest.fixture(scope="module")
def drawn():
    return normals(np.random.default_rng(0), (1000, 2000)).astype(float).ravel()


def test_normals_have_the_moments_of_the_normal_distribution(drawn):
    error = 1 / np.sqrt(drawn.size)
    assert drawn.mean() == pytest.approx(0, abs=4 * error)
    assert drawn.var() == pytest.approx(1, abs=4 * np.sqrt(2) * error)
    assert stats.skew(drawn) == pytest.approx(0, abs=4 * np.sqrt(6) * error)
    assert stats.kurtosis(drawn) == pytest.approx(0, abs=4 * np.sqrt(24) * error)


def test_normals_follow_the_normal_distribution(drawn):
    assert stats.kstest(drawn, "norm").pvalue > 0.01


@pytest.mark.parametrize("beyond", [1, 2, 3, 3.45, 3.6, 4, 4.5])
def test_tails_hold_as_much_as_they_should(drawn, beyond):
    """Both tails; the finer table begins at 3.49."""
    expected = stats.norm.sf(beyond) * drawn.size
    for side in (drawn, -drawn):
        assert np.count_nonzero(side > beyond) == pytest.approx(expected, abs=4 * np.sqrt(expected))


def test_the_inverse_is_near_everywhere():
    """Between two knots the distribution is off by less than 1 in 10,000."""
    knots, tail = _knots()
    inner = np.diff(knots[1:-1].astype(float))
    middle = knots[1:-2] + inner / 2
    off = stats.norm.cdf(middle) - (np.arange(1, len(inner) + 1) + 0.5) / 4096
    assert np.abs(off).max() < 1e-4
    assert tail[0] == pytest.approx(stats.norm.ppf(2.0**-25), rel=1e-6)
    assert (np.diff(tail) > 0).all()
    assert tail[-1] == knots[1]


def test_neighbours_are_independent(drawn):
    for lag in (1, 2, 3, 2000):
        assert np.corrcoef(drawn[:-lag], drawn[lag:])[0, 1] == pytest.approx(0, abs=4 / np.sqrt(drawn.size))


@pytest.mark.parametrize("low", [0, -1])
def test_uniforms_fill_their_range(low):
    values = uniforms(np.random.default_rng(1), (501, 999), low=low)
    assert values.dtype == np.float32
    assert low <= values.min() < low + 1e-4
    assert 1 - 1e-4 < values.max() <= 1
    assert stats.kstest((values.ravel().astype(float) - low) / (1 - low), "uniform").pvalue > 0.01


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937, np.random.Philox])
def test_any_generator_serves_and_decides_every_value(bits):
    first, again, other = (normals(np.random.Generator(bits(seed)), (7, 9)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert np.abs(first).max() > 1  # no half of a word is empty
