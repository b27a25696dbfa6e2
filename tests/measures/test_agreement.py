"""Agreement among people: published values, outside references, laws and edges."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_fleiss

from cosight.errors import InvalidInput
from cosight.measures.agreement import (
    cronbach_alpha,
    cronbach_alpha_from_variances,
    cronbach_alpha_resampled,
    fleiss_kappa,
    fleiss_kappa_resampled,
    intra_annotator_kappa,
    krippendorff_alpha,
    krippendorff_alpha_resampled,
)
from cosight.measures.declarations import measures

nan = np.nan
few = settings(max_examples=50, deadline=None)
LEVELS = ("nominal", "ordinal", "interval", "ratio")


def _tables(values, *, low=1, high=6):
    shape = array_shapes(min_dims=2, max_dims=2, min_side=low, max_side=high)
    return shape.flatmap(lambda s: arrays(np.float64, s, elements=values))


counts_tables = _tables(st.integers(0, 5))
rating_tables = _tables(st.sampled_from([0.0, 1.0, 2.0, 5.0, nan]))

# --- Fleiss ---------------------------------------------------------------------------------------------------------

# Fourteen people, ten items, five classes: the worked table of the encyclopaedias (Wikipedia, "Fleiss' kappa"), .210.
WORKED = [
    [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
]  # fmt: skip
# Fleiss (1971), table 1: diagnoses of 30 patients by 6 psychiatrists each, .430 (R irr: 0.4302445).
DIAGNOSES = (
    "444444 222555 233335 555555 222444 113333 333355 113334 114444 555555 144444 124444 222333 144444 224445 "
    "333335 111455 111112 224444 133555 555555 244444 224555 114444 144445 222224 111155 224444 133333 555555"
)
# 25 subjects, 2 to 5 raters each, how many said positive; from Fleiss, Levin & Paik (2003), p. 612, where Stata's
# `kappa` has it from (`webuse p612`): .5415.
RATERS = [2, 2, 3, 4, 3, 4, 3, 5, 2, 4, 5, 3, 4, 4, 2, 2, 3, 2, 4, 5, 3, 4, 3, 3, 2]
POSITIVE = [2, 0, 2, 3, 3, 1, 0, 0, 0, 4, 5, 3, 4, 3, 0, 2, 1, 1, 1, 4, 2, 0, 0, 3, 2]


def test_fleiss_published_values():
    worked = fleiss_kappa(WORKED)
    assert worked.value == pytest.approx(0.20993, abs=5e-6)
    assert (round(worked.observed, 3), round(worked.expected, 3)) == (0.378, 0.213)
    np.testing.assert_allclose(worked.items[:2], [1, 0.253], atol=5e-4)  # the table's own column P_i
    diagnoses, _ = aggregate_raters(np.array([[int(c) for c in row] for row in DIAGNOSES.split()]))
    assert fleiss_kappa(diagnoses).value == pytest.approx(0.4302445, abs=5e-8)


def test_fleiss_published_value_with_unequal_raters():
    counts = np.stack([POSITIVE, np.subtract(RATERS, POSITIVE)], axis=1)
    assert fleiss_kappa(counts).value == pytest.approx(0.5415, abs=5e-5)


@few
@given(st.integers(2, 7), st.integers(1, 8), st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_fleiss_with_equal_raters_agrees_with_statsmodels(people, items, classes, seed):
    counts = np.random.default_rng(seed).multinomial(people, np.full(classes, 1 / classes), size=items)
    assume((counts.sum(axis=0) > 0).sum() > 1)
    assert fleiss_kappa(counts).value == pytest.approx(statsmodels_fleiss(counts), abs=1e-12)


@few
@given(counts_tables)
def test_fleiss_is_the_class_kappas_weighted_by_p_q(counts):
    # Fleiss, Levin & Paik (2003), section 18.3: each class against the rest, then the mean with weights p q.
    kept = counts[counts.sum(axis=1) >= 2]
    n = kept.sum(axis=1)
    assume(len(kept) and (kept.sum(axis=0) > 0).sum() > 1)
    p = kept.sum(axis=0) / n.sum()
    within = (kept * (n[:, None] - kept) / n[:, None]).sum(axis=0)
    top = sum(w / (len(n) * (n.mean() - 1)) for w in within)
    assert fleiss_kappa(counts).value == pytest.approx(1 - top / (p * (1 - p)).sum(), abs=1e-12)


@few
@given(counts_tables)
def test_fleiss_item_agreement_is_the_share_of_agreeing_pairs(counts):
    for row, agreement in zip(counts, fleiss_kappa(counts).items, strict=True):
        answers = np.repeat(np.arange(len(row)), row.astype(int))
        pairs = [a == b for a, b in combinations(answers, 2)]
        assert agreement == pytest.approx(np.mean(pairs) if pairs else nan, nan_ok=True)


@few
@given(counts_tables, st.randoms(use_true_random=False))
def test_fleiss_laws(counts, random):
    result = fleiss_kappa(counts)
    rows, columns = (random.sample(range(k), k) for k in counts.shape)
    assert fleiss_kappa(counts[rows][:, columns]).value == pytest.approx(result.value, abs=1e-12, nan_ok=True)
    assert np.isnan(result.value) or -1 - 1e-12 <= result.value <= 1
    assert result.n + result.left_out == len(counts)
    lonely = np.eye(counts.shape[1])[:1]  # one more item, answered once
    more = fleiss_kappa(np.concatenate([counts, lonely]))
    assert more.value == pytest.approx(result.value, abs=1e-12, nan_ok=True)
    assert (more.n, more.left_out) == (result.n, result.left_out + 1)


def test_fleiss_reaches_both_ends():
    assert fleiss_kappa([[3, 0], [0, 5]]).value == 1
    assert fleiss_kappa([[1, 1], [1, 1]]).value == -1


def test_fleiss_undefined():
    one_class = fleiss_kappa([[3, 0], [4, 0]])
    assert np.isnan(one_class.value)
    assert (one_class.observed, one_class.expected) == (1, 1)
    for counts in ([[1, 0], [0, 1], [0, 0]], np.zeros((0, 2))):
        empty = fleiss_kappa(counts)
        assert np.isnan([empty.value, empty.observed, empty.expected]).all()
        assert (empty.n, empty.left_out) == (0, len(counts))


# --- within one person ----------------------------------------------------------------------------------------------


def test_intra_kappa_by_hand():
    # Pairs: s1 a (cat cat), s1 b (dog cat), s2 a (dog dog dog); s2 b was answered once. p = (3/7, 4/7).
    rater = ["s1", "s2", "s1", "s1", "s1", "s2", "s2", "s2"]
    item = ["a", "a", "b", "a", "b", "a", "a", "b"]
    response = ["cat", "dog", "dog", "cat", "cat", "dog", "dog", "cat"]
    result = intra_annotator_kappa(rater, item, response)
    observed, expected = (1 * 1 + 1 * 0 + 2 * 1) / 4, (9 + 16) / 49
    assert result.value == pytest.approx((observed - expected) / (1 - expected), abs=1e-12)
    assert result.items.tolist() == [1, 0, 1]
    assert result.rater.tolist() == ["s1", "s1", "s2"]
    assert result.item.tolist() == ["a", "b", "a"]
    assert (result.n, result.left_out) == (3, 1)


@few
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)), max_size=30), st.randoms())
def test_intra_kappa_does_not_know_order_or_names(trials, random):
    rater, item, response = (list(x) for x in zip(*trials, strict=True)) if trials else ([], [], [])
    plain = intra_annotator_kappa(rater, item, response)
    random.shuffle(trials)
    named = [(f"s{r}", f"{i}.png", ["cat", "dog", "cow"][c]) for r, i, c in trials]
    other = intra_annotator_kappa(*(zip(*named, strict=True) if named else ([], [], [])))
    assert other.value == pytest.approx(plain.value, abs=1e-12, nan_ok=True)
    assert (other.n, other.left_out) == (plain.n, plain.left_out)
    assert plain.n + plain.left_out == len({(r, i) for r, i, _ in trials})


@pytest.mark.parametrize("missing", [[None, ""], ["na", None]])
def test_intra_kappa_drops_missing_answers(missing):
    rater, item = ["s"] * 7, ["a", "a", "b", "b", "c", "c", "d"]
    result = intra_annotator_kappa(rater, item, ["x", "x", "y", "y", "x", *missing])
    assert (result.value, result.n, result.left_out) == (1, 2, 1)
    coded = intra_annotator_kappa(rater, item, [0, 0, 1, 1, 0, -1, -2])
    floats = intra_annotator_kappa(rater, item, [0, 0, 1, 1, 0, nan, nan])
    assert (coded.n, coded.left_out) == (floats.n, floats.left_out) == (2, 1)


def test_intra_kappa_undefined_and_refused():
    assert np.isnan(intra_annotator_kappa(["s", "s"], ["a", "b"], [0, 1]).value)
    assert np.isnan(intra_annotator_kappa(["s", "s"], ["a", "a"], [0, 0]).value)
    with pytest.raises(InvalidInput, match="needs a rater and an item"):
        intra_annotator_kappa(["s", None], ["a", "a"], [0, 0])
    with pytest.raises(InvalidInput, match="one length"):
        intra_annotator_kappa(["s"], ["a", "a"], [0, 0])


# --- Krippendorff ---------------------------------------------------------------------------------------------------

# Krippendorff (2011), section C: 4 observers, 12 units; and R irr::kripp.alpha.
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, nan, nan, nan],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, nan, nan],
    [nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 3],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, nan],
]
# Wikipedia, "Krippendorff's alpha": 3 coders, 15 units; nominal .691, interval .811.
CODERS = [
    [nan, nan, nan, nan, nan, 3, 4, 1, 2, 1, 1, 3, 3, nan, 3],
    [1, nan, 2, 1, 3, 3, 4, 3, nan, nan, nan, nan, nan, nan, nan],
    [nan, nan, 2, 1, 3, 4, 4, nan, 2, 1, 1, 3, 3, nan, 4],
]
# Gwet (2014), 5 observers, 15 units (irrCAC's raw_5observers): nominal .481.
GWET = [
    [1, 1, 2, nan, 0, 0, 1, 1, 2, 2, nan, 0, 1, 3, 1],
    [1, 1, 3, 0, 0, 0, 0, nan, 2, 1, 1, 0, 2, 3, 1],
    [2, 0, 3, 0, 0, 0, 2, 2, 2, 1, 0, 0, 2, 2, 1],
    [nan, 1, 3, nan, nan, nan, nan, 0, nan, 1, 0, 0, 2, 2, nan],
    [2, nan, nan, 0, 0, 0, 1, nan, 2, nan, nan, nan, nan, 3, 1],
]
TWO_BINARY = [[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]]  # Krippendorff (2011), section A
TWO_NOMINAL = [[ord(c) for c in "aabbdcccedda"], [ord(c) for c in "babbbcccEddd".lower()]]  # ... section B


@pytest.mark.parametrize(
    ("ratings", "level", "alpha"),
    [
        (OBSERVERS, "nominal", 0.743),
        (OBSERVERS, "ordinal", 0.815),
        (OBSERVERS, "interval", 0.849),
        (OBSERVERS, "ratio", 0.797),
        (TWO_BINARY, "nominal", 0.095),
        (TWO_NOMINAL, "nominal", 0.692),
        (CODERS, "nominal", 0.691),
        (CODERS, "interval", 0.811),
        (GWET, "nominal", 0.481),
    ],
)
def test_krippendorff_published_values(ratings, level, alpha):
    assert krippendorff_alpha(ratings, level=level).value == pytest.approx(alpha, abs=5.1e-4)


def _alpha_by_coincidences(ratings, level):
    """The 2011 paper step by step, in loops: coincidence matrix, then cell by cell."""
    values = sorted({v for v in ratings.ravel() if not np.isnan(v)})
    o = np.zeros((len(values), len(values)))
    for unit in ratings.T:
        given_values = [values.index(v) for v in unit if not np.isnan(v)]
        for i, a in enumerate(given_values):
            for j, b in enumerate(given_values):
                if i != j:
                    o[a, b] += 1 / (len(given_values) - 1)
    n_c = o.sum(axis=1)
    n = n_c.sum()

    def delta(a, b):
        if level == "ordinal":
            return (n_c[a : b + 1].sum() - (n_c[a] + n_c[b]) / 2) ** 2
        if level == "ratio":
            return ((values[a] - values[b]) / (values[a] + values[b])) ** 2
        return 1.0 if level == "nominal" else (values[a] - values[b]) ** 2

    cells = list(combinations(range(len(values)), 2))
    expected = sum(n_c[a] * n_c[b] * delta(a, b) for a, b in cells)
    observed = sum(o[a, b] * delta(a, b) for a, b in cells)
    return 1 - (n - 1) * observed / expected if expected > 0 else nan


@few
@given(rating_tables, st.sampled_from(LEVELS))
def test_krippendorff_agrees_with_the_coincidence_matrix(ratings, level):
    alpha = _alpha_by_coincidences(ratings, level)
    assert krippendorff_alpha(ratings, level=level).value == pytest.approx(alpha, abs=1e-10, nan_ok=True)


@few
@given(rating_tables, st.sampled_from(LEVELS), st.randoms(use_true_random=False))
def test_krippendorff_laws(ratings, level, random):
    result = krippendorff_alpha(ratings, level=level)
    raters, items = (random.sample(range(k), k) for k in ratings.shape)
    other = krippendorff_alpha(ratings[raters][:, items], level=level)
    assert other.value == pytest.approx(result.value, abs=1e-12, nan_ok=True)
    np.testing.assert_allclose(other.items, result.items[items], atol=1e-9)
    assert np.isnan(result.value) or -1 <= result.value <= 1 + 1e-12
    assert result.n == ((~np.isnan(ratings)).sum(axis=0) >= 2).sum()
    assert result.n + result.left_out == ratings.shape[1]
    assert np.isnan(result.items).sum() == result.left_out


@few
@given(rating_tables)
def test_krippendorff_levels_ignore_what_they_should(ratings):
    for level, change in (
        ("nominal", lambda x: np.where(x == 0, 9, x)),  # another name
        ("ordinal", lambda x: x**3 + 7),  # any rising function
        ("interval", lambda x: 5 - 3 * x),  # another scale
        ("ratio", lambda x: 4 * x),  # another unit
    ):
        plain, changed = (krippendorff_alpha(x, level=level).value for x in (ratings, change(ratings)))
        assert changed == pytest.approx(plain, abs=1e-10, nan_ok=True)


@few
@given(_tables(st.integers(0, 3), low=2))
def test_complete_nominal_alpha_is_fleiss_kappa_with_its_small_sample_term(ratings):
    # alpha = 1 - (1 - kappa) (n - 1) / n with n answers in all, from the two definitions.
    counts = np.stack([(ratings == c).sum(axis=0) for c in range(4)], axis=1)
    kappa, n = fleiss_kappa(counts).value, ratings.size
    assert krippendorff_alpha(ratings).value == pytest.approx(1 - (1 - kappa) * (n - 1) / n, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("level", LEVELS)
def test_krippendorff_perfect_and_undefined(level):
    assert krippendorff_alpha([[0.1, 2, 3.7], [0.1, 2, 3.7]], level=level).value == 1
    same = krippendorff_alpha([[2, 2], [2, 2]], level=level)
    assert np.isnan(same.value)
    assert (same.observed, same.expected) == (0, 0)
    # The second item's lone 5 is no second value: it can agree with nothing.
    assert np.isnan(krippendorff_alpha([[2, 5], [2, nan]], level=level).value)
    for ratings in ([[nan, 1], [2, nan]], np.full((2, 3), nan), np.zeros((0, 3)), np.zeros((2, 0))):
        empty = krippendorff_alpha(ratings, level=level)
        assert np.isnan([empty.value, empty.observed, empty.expected]).all()
        assert empty.n == 0


def test_interval_alpha_survives_a_far_origin():
    ratings = np.array([[1, 2, 3, 4], [1, 3, 3, 5.0]])
    near, far = (krippendorff_alpha(ratings + shift, level="interval").value for shift in (0, 1e9))
    assert far == pytest.approx(near, abs=1e-12)


def test_krippendorff_refuses():
    with pytest.raises(InvalidInput, match="level must be one of nominal, ordinal, interval, ratio, got 'cardinal'"):
        krippendorff_alpha([[1, 2]], level="cardinal")
    with pytest.raises(InvalidInput, match="must not be negative, got -1"):
        krippendorff_alpha([[-1, 2], [1, 2]], level="ratio")
    with pytest.raises(InvalidInput, match=r"\(raters, items\), got shape \(2,\)"):
        krippendorff_alpha([1, 2])
    with pytest.raises(InvalidInput, match="ratings must be finite, got inf"):
        krippendorff_alpha([[np.inf, 2], [1, 2]])


# --- many resamples at once -----------------------------------------------------------------------------------------


def _draws(rows, seed):
    rng = np.random.default_rng(seed)
    return rng.multinomial(rows, np.full(rows, 1 / rows), size=4)


@few
@given(counts_tables, st.integers(0, 2**32 - 1))
def test_fleiss_resampled_is_fleiss_of_the_repeated_items(counts, seed):
    draws = _draws(len(counts), seed)
    one_by_one = [fleiss_kappa(np.repeat(counts, w, axis=0)).value for w in draws]
    np.testing.assert_allclose(fleiss_kappa_resampled(counts, draws), one_by_one, atol=1e-12)


@few
@given(rating_tables, st.integers(0, 2**32 - 1), st.sampled_from(LEVELS))
def test_krippendorff_resampled_is_alpha_of_the_repeated_items(ratings, seed, level):
    draws = _draws(ratings.shape[1], seed)
    one_by_one = [krippendorff_alpha(np.repeat(ratings, w, axis=1), level=level).value for w in draws]
    np.testing.assert_allclose(krippendorff_alpha_resampled(ratings, draws, level=level), one_by_one, atol=1e-10)


RESAMPLED = [
    (fleiss_kappa_resampled, [[2, 0], [1, 1], [0, 2]]),
    (krippendorff_alpha_resampled, [[1, 2, 3], [1, 2, 2]]),
]


@pytest.mark.parametrize(("function", "table"), RESAMPLED)
def test_resampling_edges(function, table):
    assert np.isnan(function(table, np.zeros((2, 3)))).all()
    assert function(table, np.zeros((0, 3))).shape == (0,)
    for weights in ([[1, 1]], [[1, 1, -1]], [[1, 1, nan]], [1, 1, 1]):
        with pytest.raises(InvalidInput, match="weights must"):
            function(table, weights)


# --- declared facts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fleiss_kappa", "intra_annotator_kappa", "krippendorff_alpha"])
def test_declared(name):
    facts = measures[name]
    assert facts.function.__name__ == name
    assert (facts.symmetric, facts.direction, facts.high) == (None, "higher", 1)
    assert all(measures[alias] is facts for alias in facts.aliases)


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


@few
@given(score_tables, st.integers(0, 2**32 - 1))
def test_cronbach_resampled_is_alpha_of_the_repeated_people(scores, seed):
    draws = _draws(len(scores), seed)
    one_by_one = [cronbach_alpha(np.repeat(scores, w, axis=0)).value for w in draws]
    np.testing.assert_allclose(cronbach_alpha_resampled(scores, draws), one_by_one, rtol=1e-9, atol=1e-9)


def test_cronbach_resampling_edges():
    scores = [[1, 0], [1, 1], [0, 0]]
    assert np.isnan(cronbach_alpha_resampled(scores, np.zeros((2, 3)))).all()
    assert cronbach_alpha_resampled(scores, np.zeros((0, 3))).shape == (0,)
    for weights in ([[1, 1]], [[1, 1, -1]], [[1, 1, nan]], [1, 1, 1]):
        with pytest.raises(InvalidInput, match="weights must"):
            cronbach_alpha_resampled(scores, weights)


def test_cronbach_declared():
    facts = measures["cronbach"]
    assert facts.function is cronbach_alpha
    assert (facts.symmetric, facts.direction, facts.high, facts.needs) == (None, "higher", 1, ("scores",))
