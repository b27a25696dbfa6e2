from functools import partial
from itertools import combinations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.mixture import GaussianMixture

from cosight.errors import InvalidInput
from cosight.models.abstention import Mahalanobis, MinMax, Tapudd
from cosight.models.abstention.tapudd import LostCluster, fit_mixture, nearest_starts


def overlapping(seed=0, rows=400, dimensions=4):
    rng = np.random.default_rng(seed)
    means = 1.5 * rng.normal(size=(3, dimensions))
    return means[np.arange(rows) % 3] + rng.normal(size=(rows, dimensions)) * rng.uniform(0.3, 2, dimensions)


class FromStart(GaussianMixture):
    """scikit-learn's, from responsibilities given to it."""

    def __init__(self, start):
        super().__init__(start.shape[1], reg_covar=1e-6)
        self.start = start

    def _initialize_parameters(self, X, random_state, xp=None):
        self._initialize(X, self.start)


@pytest.mark.parametrize("clusters", [1, 2, 3, 5])
def test_from_the_same_start_it_is_scikit_learns(clusters):
    rows = overlapping()
    start = nearest_starts(rows, clusters, np.random.default_rng(42), who="x")
    ours, theirs = fit_mixture(rows, start, ridge=1e-6, who="x"), FromStart(start).fit(rows)
    assert (ours.steps, ours.converged) == (theirs.n_iter_, theirs.converged_)
    assert ours.weights == pytest.approx(theirs.weights_, abs=1e-9)
    assert ours.means == pytest.approx(theirs.means_, abs=1e-8)
    squared = [
        cdist(rows, mean[None], "mahalanobis", VI=precision)[:, 0] ** 2
        for mean, precision in zip(theirs.means_, theirs.precisions_, strict=True)
    ]
    assert ours.squared_distances(rows) == pytest.approx(np.array(squared).T, rel=1e-6)
    density = theirs._estimate_log_prob(rows) + theirs._estimate_log_weights()
    assert ours.log_densities(rows) == pytest.approx(density, abs=1e-6)


def test_what_does_not_stop_by_itself_says_so(monkeypatch):
    monkeypatch.setattr("cosight.models.abstention.tapudd._STEPS", 2)
    rows = overlapping()
    start = nearest_starts(rows, 3, np.random.default_rng(0), who="x")
    cut = fit_mixture(rows, start, ridge=1e-6, who="x")
    assert (cut.steps, cut.converged) == (2, False)


def test_a_cluster_without_rows_is_kept_and_far_away():
    rows = overlapping(rows=60)
    start = np.column_stack([np.ones(60), np.zeros(60)])
    fitted = fit_mixture(rows, start, ridge=1e-6, who="x")
    assert np.isfinite(fitted.squared_distances(rows)).all()
    assert fitted.weights == pytest.approx([1, 0], abs=1e-9)


def test_strangeness_is_the_mean_over_cluster_numbers_and_starts_of_the_distance_to_the_nearest():
    rows, queries = overlapping(1), overlapping(2, rows=30) * 1.5
    rows = rows[np.lexsort(rows.T[::-1])]
    scale = np.sqrt(rows.var(axis=0).mean())
    scaled, asked = ((x - rows.mean(axis=0)) / scale for x in (rows, queries))
    each = []
    for clusters in range(1, 5):
        for start in range(2):
            shares = nearest_starts(scaled, clusters, np.random.default_rng((42, start, clusters)), who="x")
            theirs = FromStart(shares).fit(scaled)
            pairs = zip(theirs.means_, theirs.precisions_, strict=True)
            each.append(np.min([cdist(asked, m[None], "mahalanobis", VI=p)[:, 0] for m, p in pairs], axis=0))
    ours = Tapudd(most_clusters=4, starts=2).fit(rows, None, None).strangeness(queries, None)
    assert ours == pytest.approx(np.mean(each, axis=0), rel=1e-6)


def digit_features():
    """Pixels of handwritten digits in 24 dimensions: 0 to 6 to train on; all ten, to calibrate on and to judge."""
    digits = load_digits()
    features = digits.data @ np.random.default_rng(0).normal(size=(64, 24))
    train, others = features[:600][digits.target[:600] < 7], features[600:]
    return train, others[:270], others[270:540]


def test_decisions_hardly_depend_on_the_seed():
    train, calibration, test = digit_features()

    def most_flips(**settings):
        decisions = []
        for seed in range(3):
            fitted = Tapudd(seed=seed, **settings).fit(train, None, None)
            scale = MinMax.fit(fitted.strangeness(calibration, None))
            decisions.append(scale.abstention(fitted.strangeness(test, None)) > 0.5)
        return max(int((a != b).sum()) for a, b in combinations(decisions, 2))

    assert most_flips(starts=1) >= 15  # of 270
    assert most_flips() <= 6


def test_the_order_of_training_images_does_not_matter():
    rows, queries = overlapping(8), overlapping(9, rows=20)
    order = np.random.default_rng(0).permutation(len(rows))
    few = Tapudd(most_clusters=4, starts=3)
    first, again = (few.fit(given, None, None).strangeness(queries, None) for given in (rows, rows[order]))
    assert (first == again).all()


def test_many_dimensions_get_fewer_starts(monkeypatch):
    two_starts = 2 * (1 + 2 + 3) * 4**2  # clusters, dimensions squared
    monkeypatch.setattr("cosight.models.abstention.tapudd._MOST_NUMBERS", two_starts)
    fitted = Tapudd(most_clusters=3).fit(overlapping(rows=60), None, None)
    assert [len(starts) for starts in fitted.mixtures] == [1, 2, 2]


def test_starts_that_lose_a_cluster_are_left_out_and_refused_if_all_do(monkeypatch):
    rows, calls = overlapping(rows=60), []

    def lose(rows, clusters, rng, *, who, losing=(0, 2)):
        calls.append(clusters)
        if clusters == 2 and calls.count(2) - 1 in losing:
            raise LostCluster("tapudd found no 2 clusters")
        return nearest_starts(rows, clusters, rng, who=who)

    monkeypatch.setattr("cosight.models.abstention.tapudd.nearest_starts", lose)
    fitted = Tapudd(most_clusters=2, starts=3).fit(rows, None, None)
    assert [len(starts) for starts in fitted.mixtures] == [1, 1]
    calls.clear()
    monkeypatch.setattr("cosight.models.abstention.tapudd.nearest_starts", partial(lose, losing=range(3)))
    with pytest.raises(InvalidInput, match="found no 2 clusters"):
        Tapudd(most_clusters=2, starts=3).fit(rows, None, None)


def test_one_cluster_is_the_mahalanobis_distance_of_one_class():
    rows, queries = overlapping(3), overlapping(4, rows=20)
    one = Mahalanobis().fit(rows, None, np.zeros(len(rows), int)).strangeness(queries, None)
    assert Tapudd(most_clusters=1).fit(rows, None, None).strangeness(queries, None) == pytest.approx(one, rel=1e-9)


def test_scale_shift_and_labels_do_not_matter_and_the_seed_is_all_that_is_drawn():
    rows, queries = overlapping(5), overlapping(6, rows=20)
    few = Tapudd(most_clusters=4)
    first = few.fit(rows, None, None).strangeness(queries, None)
    again = few.fit(rows, None, np.arange(len(rows))).strangeness(queries, None)
    assert (first == again).all()
    moved = few.fit(rows * 8 - 3, None, None).strangeness(queries * 8 - 3, None)
    assert moved == pytest.approx(first, rel=1e-6)


def test_fewer_images_than_dimensions_rest_on_the_ridge():
    rows = overlapping(7, rows=30, dimensions=40)
    assert np.isfinite(Tapudd(most_clusters=3).fit(rows, None, None).strangeness(rows, None)).all()
    with pytest.raises(InvalidInput, match="tapudd needs an invertible covariance of 40 dimensions"):
        Tapudd(most_clusters=3, ridge=0).fit(rows, None, None)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((20, 3)), "training features that vary"),
        (np.eye(4)[np.arange(20) % 4], "at least 5 different training features, got 4; set fewer clusters"),
        (np.eye(9), "got 9 for 10; add images or set fewer clusters"),
        ([[np.inf, 0.0]], "features must be finite, got inf"),
        (None, "tapudd needs features"),
    ],
)
def test_it_refuses(features, message):
    with pytest.raises(InvalidInput, match=message):
        Tapudd().fit(features, None, None)


def test_settings_it_refuses():
    with pytest.raises(InvalidInput, match="most_clusters must be 1 or more, got 0"):
        Tapudd(most_clusters=0)
    with pytest.raises(InvalidInput, match="starts must be 1 or more, got 0"):
        Tapudd(starts=0)
    with pytest.raises(InvalidInput, match="ridge must be 0 or more"):
        Tapudd(ridge=float("nan"))
