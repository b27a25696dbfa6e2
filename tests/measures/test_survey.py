"""Forms and sampling plans: published values, Hoyt's analysis of variance, laws and edges."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from cosight.errors import InvalidInput
from cosight.measures.agreement import cronbach_alpha, cronbach_alpha_from_variances, cronbach_alpha_resampled
from cosight.measures.declarations import measures
from cosight.measures.study_size import error_bound, minimum_raters

nan = np.nan
few = settings(max_examples=50, deadline=None)
score_tables = array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=6).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(0, 5))
)

# --- Cronbach -------------------------------------------------------------------------------------------------------


def test_cronbach_published_values():
    # Lee et al. (2023), appendix D.1.
    assert round(cronbach_alpha_from_variances(100, 127.134, 976.564).value, 2) == 0.88
    # Three questions, ten people: pingouin.cronbach_alpha gives 0.7734375.
    scores = [[1, 2, 2, 3, 2, 2, 3, 3, 2, 3], [1, 1, 1, 2, 3, 3, 2, 3, 3, 3], [1, 1, 2, 1, 2, 3, 3, 3, 2, 3]]
    assert cronbach_alpha(np.transpose(scores)).value == pytest.approx(0.7734375, abs=1e-12)


@few
@given(score_tables)
def test_cronbach_is_hoyts_analysis_of_variance(scores):
    # Hoyt (1941): 1 - MS(residual) / MS(people), which shares no step with the variances of the items.
    assume(np.ptp(scores.sum(axis=1)) > 0)
    people, items = scores.shape
    rows, columns, mean = scores.mean(axis=1, keepdims=True), scores.mean(axis=0), scores.mean()
    between = items * ((rows - mean) ** 2).sum() / (people - 1)
    residual = ((scores - rows - columns + mean) ** 2).sum() / ((people - 1) * (items - 1))
    assert cronbach_alpha(scores).value == pytest.approx(1 - residual / between, rel=1e-9, abs=1e-9)


@few
@given(score_tables, st.randoms(use_true_random=False))
def test_cronbach_laws(scores, random):
    result = cronbach_alpha(scores)
    people, items = (random.sample(range(k), k) for k in scores.shape)
    for other in (scores[people][:, items], 3 * scores + 100, scores + np.arange(scores.shape[1])):
        assert cronbach_alpha(other).value == pytest.approx(result.value, rel=1e-9, abs=1e-9, nan_ok=True)
    assert not result.value > 1 + 1e-12
    again = cronbach_alpha_from_variances(scores.shape[1], result.item_variance_sum, result.total_variance)
    assert again.value == pytest.approx(result.value, rel=1e-9, abs=1e-9, nan_ok=True)
    np.testing.assert_allclose(result.items, scores.var(axis=0, ddof=1))
    assert result.n == len(scores)


def test_cronbach_of_identical_items_is_one():
    assert cronbach_alpha([[1, 1, 1], [2, 2, 2], [4, 4, 4]]).value == pytest.approx(1)


@pytest.mark.parametrize(
    "scores",
    [
        [[1, 2, 3]],  # one person
        [[1], [2]],  # one item
        [[1, 0], [0, 1]],  # equal totals
        [[0.1, 0.7], [0.7, 0.1], [0.2, 0.6]],  # equal but for rounding
        [[1e8 + 0.1, -1e8], [0.1, 0]],  # equal but for the rounding of large scores
        np.zeros((0, 3)),
        np.zeros((3, 0)),
    ],
)
def test_cronbach_undefined(scores):
    assert np.isnan(cronbach_alpha(scores).value)


def test_cronbach_from_variances_undefined_and_refused():
    assert np.isnan(cronbach_alpha_from_variances(1, 1, 1).value)
    assert np.isnan(cronbach_alpha_from_variances(5, 1, 0).value)
    assert cronbach_alpha_from_variances(5, 1, 2).items is None
    for sums in ((-1, 1), (1, -1), (nan, 1)):
        with pytest.raises(InvalidInput, match="must not be negative"):
            cronbach_alpha_from_variances(5, *sums)


def test_cronbach_refuses_incomplete_forms():
    with pytest.raises(InvalidInput, match="alpha needs complete forms, got 1 missing"):
        cronbach_alpha([[1, nan], [0, 1]])
    with pytest.raises(InvalidInput, match="scores must have 2 axes"):
        cronbach_alpha([1, 2])


def _draws(rows, seed):
    rng = np.random.default_rng(seed)
    return rng.multinomial(rows, np.full(rows, 1 / rows), size=4)


@few
@given(score_tables, st.integers(0, 2**32 - 1))
def test_cronbach_resampled_is_alpha_of_the_repeated_people(scores, seed):
    draws = _draws(len(scores), seed)
    one_by_one = [cronbach_alpha(np.repeat(scores, w, axis=0)).value for w in draws]
    np.testing.assert_allclose(cronbach_alpha_resampled(scores, draws), one_by_one, rtol=1e-9, atol=1e-9)


def test_resampling_edges():
    scores = [[1, 0], [1, 1], [0, 0]]
    assert np.isnan(cronbach_alpha_resampled(scores, np.zeros((2, 3)))).all()
    assert cronbach_alpha_resampled(scores, np.zeros((0, 3))).shape == (0,)
    for weights in ([[1, 1]], [[1, 1, -1]], [[1, 1, nan]], [1, 1, 1]):
        with pytest.raises(InvalidInput, match="weights must"):
            cronbach_alpha_resampled(scores, weights)


def test_declared():
    facts = measures["cronbach"]
    assert facts.function is cronbach_alpha
    assert (facts.symmetric, facts.direction, facts.high, facts.needs) == (None, "higher", 1, ("scores",))


# --- how many people ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "value", "raters"), [(0.05, 132.23, 133), (0.10, 33.06, 34), (0.15, 14.69, 15)]
)  # Lee et al. (2023), appendix F.4 (which prints 33.05)
def test_minimum_raters_of_visalign(bound, value, raters):
    plan = minimum_raters(bound, p=1 / 11)
    assert (round(plan.value, 2), plan.raters) == (value, raters)


def test_visalign_asked_134_people():
    assert minimum_raters(0.05, p=1 / 11, plus_one=True).raters == 134
    assert error_bound(134, p=1 / 11) <= 0.05 < error_bound(133, p=1 / 11)
    assert round(100 * error_bound(134, p=0.5), 1) == 8.7


@few
@given(st.floats(0.01, 0.5), st.floats(0.01, 0.99), st.floats(0.5, 4))
def test_error_bound_undoes_minimum_raters(bound, p, z):
    plan = minimum_raters(bound, p=p, z=z, plus_one=True)
    assert error_bound(plan.value, p=p, z=z) == pytest.approx(bound, rel=1e-6)
    assert plan.value - 1e-8 <= plan.raters < plan.value + 1


def test_rounding_does_not_ask_for_one_person_more():
    assert [minimum_raters(1 / k, p=0.5).raters for k in range(2, 200)] == [k**2 for k in range(2, 200)]


@pytest.mark.parametrize("options", [{"p": 0}, {"p": 1}, {"p": nan}, {"p": 0.5, "z": 0}])
def test_plans_refuse_impossible_shares(options):
    with pytest.raises(InvalidInput, match="must"):
        minimum_raters(0.05, **options)
    with pytest.raises(InvalidInput, match="must"):
        error_bound(100, **options)


def test_plans_refuse_impossible_bounds():
    for bound in (0, 1, 5, nan):
        with pytest.raises(InvalidInput, match="error bound must lie between 0 and 1"):
            minimum_raters(bound, p=0.5)
    for n in (1, 0, nan):
        with pytest.raises(InvalidInput, match="two people or more"):
            error_bound(n, p=0.5)
