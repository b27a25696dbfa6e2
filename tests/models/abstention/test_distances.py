import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from cosight.errors import InvalidInput
from cosight.models.abstention import ClassMahalanobis, Mahalanobis, NearestNeighbours
from cosight.models.abstention import distances as module
from cosight.models.abstention.distances import class_means

SEEDS = st.integers(0, 2**32 - 1)


def md(features, labels, queries, **settings):
    return Mahalanobis(**settings).fit(features, None, labels).strangeness(queries, None)


def test_scipys_distance_with_scikit_learns_shared_covariance(clouds):
    lda = LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True).fit(clouds.features, clouds.labels)
    every = cdist(clouds.queries, lda.means_, "mahalanobis", VI=np.linalg.inv(lda.covariance_))
    ours = md(clouds.features, clouds.labels, clouds.queries, ridge=0)
    assert ours == pytest.approx(every.min(axis=1), rel=1e-10)


def test_pytorch_oods_scores_which_are_half_the_square_without_the_number_of_rows(clouds, pytorch_ood):
    import torch
    from pytorch_ood.detector import Mahalanobis as Theirs

    features, queries = (torch.tensor(x, dtype=torch.float32) for x in (clouds.features, clouds.queries))
    theirs = Theirs(None).fit_features(features, torch.tensor(clouds.labels)).predict_features(queries)
    distances = np.sqrt(2 * theirs.numpy() * len(features))
    assert md(clouds.features, clouds.labels, clouds.queries) == pytest.approx(distances, rel=1e-3)


@settings(max_examples=30)
@given(SEEDS)
def test_any_invertible_map_of_the_features_leaves_it_as_it_is(clouds_of, seed):
    made, rng = clouds_of(seed=3), np.random.default_rng(seed)
    turn = ortho_group.rvs(6, random_state=rng) * rng.uniform(0.01, 100, 6) @ ortho_group.rvs(6, random_state=rng)
    shift = rng.normal(size=6) * 10
    before = md(made.features, made.labels, made.queries, ridge=0)
    after = md(made.features @ turn + shift, made.labels, made.queries @ turn + shift, ridge=0)
    assert after == pytest.approx(before, rel=1e-6)


@settings(max_examples=30)
@given(SEEDS, st.floats(1e-3, 1e3))
def test_with_a_ridge_rotation_and_common_scale_leave_it_as_it_is(clouds_of, seed, scale):
    made = clouds_of(seed=4)
    turn = ortho_group.rvs(6, random_state=np.random.default_rng(seed)) * scale
    before = md(made.features, made.labels, made.queries, ridge=0.1)
    assert md(made.features @ turn, made.labels, made.queries @ turn, ridge=0.1) == pytest.approx(before, rel=1e-8)


@settings(max_examples=30)
@given(SEEDS)
def test_the_order_of_training_images_does_not_matter(clouds_of, seed):
    made = clouds_of(seed=5)
    order = np.random.default_rng(seed).permutation(len(made.features))
    again = md(made.features[order], made.labels[order], made.queries)
    assert again == pytest.approx(md(made.features, made.labels, made.queries), rel=1e-9)


def test_class_means_have_distance_zero_and_the_ridge_is_a_share_of_the_mean_variance(clouds):
    means = class_means(clouds.features, clouds.labels)
    assert md(clouds.features, clouds.labels, means) == pytest.approx(np.zeros(3), abs=1e-9)
    flat = np.array([[-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]])  # variances 1 and 0, mean 1/2
    found = md(flat, [0, 0, 0, 0], [[1.0, 0.0], [0.0, 1.0]], ridge=0.02)
    assert found == pytest.approx([1 / np.sqrt(1.01), 1 / np.sqrt(0.01)])


def test_with_fewer_images_than_dimensions_leaving_their_span_is_very_strange(clouds_of):
    made = clouds_of(rows=12, dimensions=30)
    within = made.features - class_means(made.features, made.labels)[made.labels]
    out = np.linalg.svd(within)[2][-1]  # no training image varies along this
    inside, outside = md(made.features, made.labels, [made.features[0], made.features[0] + out])
    assert outside > 100 * inside
    with pytest.raises(InvalidInput, match="invertible covariance of 30 dimensions, got a singular one; raise ridge"):
        md(made.features, made.labels, made.queries, ridge=0)


def test_one_class_is_enough_and_no_query_gives_nothing(clouds):
    one = Mahalanobis().fit(clouds.features, None, np.zeros(len(clouds.features), np.uint64))
    assert one.strangeness(clouds.queries, None).shape == (40,)
    assert one.strangeness(clouds.queries[:0], None).shape == (0,)


def md_class(features, labels, queries, **settings):
    return ClassMahalanobis(**settings).fit(features, None, labels).strangeness(queries, None)


def test_a_covariance_for_each_class(clouds):
    stretched = clouds.features * (1 + clouds.labels)[:, None]  # classes of different spread
    every = []
    for index in range(3):
        own = stretched[clouds.labels == index]
        inverse = np.linalg.inv(np.cov(own.T, bias=True))
        every.append(cdist(clouds.queries, own.mean(axis=0)[None], "mahalanobis", VI=inverse)[:, 0])
    ours = md_class(stretched, clouds.labels, clouds.queries, ridge=0, shrinkage=0)
    assert ours == pytest.approx(np.min(every, axis=0), rel=1e-9)
    assert ours != pytest.approx(md(stretched, clouds.labels, clouds.queries, ridge=0), rel=0.1)


def test_a_class_covariance_is_shrunk_to_the_shared_one_by_images_and_dimensions(clouds_of):
    made = clouds_of(rows=12, dimensions=30)  # four images per class
    shared = md(made.features, made.labels, made.queries)
    assert md_class(made.features, made.labels, made.queries, shrinkage=1) == pytest.approx(shared, rel=1e-6)
    default = md_class(made.features, made.labels, made.queries)
    assert default == pytest.approx(md_class(made.features, made.labels, made.queries, shrinkage=30 / 34))
    with pytest.raises(InvalidInput, match="md-class needs an invertible covariance of 30 dimensions"):
        md_class(made.features, made.labels, made.queries, ridge=0, shrinkage=0)
    with pytest.raises(InvalidInput, match="shrinkage must be from 0 to 1"):
        ClassMahalanobis(shrinkage=1.5)


def _with(array, value):
    changed = np.array(array)
    changed[0] = value
    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: (_with(c.features, np.nan), None, c.labels), "features must be finite, got nan"),
        (lambda c: (np.ones_like(c.features), None, c.labels), "md needs training features that vary"),
        (lambda c: (c.features[[0]].repeat(240, axis=0), None, c.labels), "md needs training features that vary"),
        (
            lambda c: (c.features[2:], None, _with(c.labels[2:] % 2, 2)),
            "at least 2 training images per class, got 1 of class 2",
        ),
        (lambda c: (c.features, np.zeros((240, 4)), c.labels), "per class, got 0 of class 3"),
        (lambda c: (c.features, None, c.labels + 0.5), "240 integer labels, got float64"),
        (lambda c: (c.features, None, c.labels[1:]), r"240 integer labels.* \(239,\)"),
        (lambda c: (c.features, None, c.labels - 1), "0 to 1, got -1 to 1"),
        (lambda c: (c.features, np.zeros((240, 2)), c.labels), "0 to 1, got 0 to 2"),
        (lambda c: (c.features, None, np.full(240, np.nan)), "240 integer labels, got float64"),
        (lambda c: (c.features, None, c.labels.astype(str)), "240 integer labels, got <U"),
        (lambda c: (c.features, None, None), "md needs the labels"),
        (lambda c: (None, None, c.labels), "md needs features, got none"),
        (lambda c: (c.features[:, :0], None, c.labels), "at least one dimension"),
        (lambda c: (c.features[:0], None, c.labels[:0]), "got none"),
    ],
)
def test_training_images_md_refuses(clouds, change, message):
    with pytest.raises(InvalidInput, match=message):
        Mahalanobis().fit(*change(clouds))


def test_other_dimensions_and_a_ridge_below_zero_are_refused(clouds):
    fitted = Mahalanobis().fit(clouds.features, None, clouds.labels)
    with pytest.raises(InvalidInput, match=r"the 6 dimensions it was fitted to, got shape \(40, 5\)"):
        fitted.strangeness(clouds.queries[:, 1:], None)
    with pytest.raises(InvalidInput, match="ridge must be 0 or more"):
        Mahalanobis(ridge=-1)


def knn(features, queries, k=50):
    return NearestNeighbours(k).fit(features, None, None).strangeness(queries, None)


def reference(features, queries, k):
    index = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(normalize(features))
    return index.kneighbors(normalize(queries))[0][:, -1]


@pytest.mark.parametrize("k", [1, 7, 50, 239, 240])
def test_scikit_learns_brute_force(clouds, k):
    assert knn(clouds.features, clouds.queries, k) == pytest.approx(
        reference(clouds.features, clouds.queries, k), abs=1e-6
    )


@given(st.integers(0, 2**32 - 1), st.integers(16, 3000), st.integers(1, 60))
def test_only_the_likely_are_sorted_and_the_kth_is_found(seed, rows, k):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 50, (4, max(rows, k))).astype(np.float32)  # with many ties
    found = np.take_along_axis(table, module._kth_highest(table, k)[:, None], axis=1)
    assert (found[:, 0] == np.sort(table, axis=1)[:, -k]).all()


@given(st.integers(0, 2**32 - 1))
def test_length_and_order_of_the_features_do_not_matter(clouds_of, seed):
    made, rng = clouds_of(seed=1), np.random.default_rng(seed)
    order = rng.permutation(len(made.features))
    lengths, others = 10 ** rng.uniform(-6, 6, (240, 1)), 10 ** rng.uniform(-6, 6, (40, 1))
    again = knn((made.features * lengths)[order], made.queries * others)
    assert again == pytest.approx(knn(made.features, made.queries), abs=1e-6)


def test_memory_is_bounded_by_taking_queries_in_parts(clouds, monkeypatch):
    whole = knn(clouds.features, clouds.queries)
    monkeypatch.setattr(module, "_SIMILARITIES", 7 * 240)  # seven queries at a time
    assert knn(clouds.features, clouds.queries) == pytest.approx(whole, abs=1e-7)


def test_a_direction_met_k_times_is_not_strange_and_the_opposite_one_is_at_distance_two():
    features = np.array([[3.0, 4.0]] * 3)
    assert knn(features, [[6.0, 8.0], [-3.0, -4.0], [4.0, -3.0]], 3) == pytest.approx([0, 2, np.sqrt(2)], abs=1e-7)


@pytest.mark.parametrize(
    ("features", "k", "message"),
    [
        (np.ones((49, 3)), 50, "got 49 for 50; add images or set fewer"),
        (np.ones((3, 3)), 0, "neighbours must be 1 or more, got 0"),
        ([[1.0, 0.0], [0.0, 0.0]], 1, "row 1 is all zeros"),
        ([[1.0, np.nan]], 1, "features must be finite, got nan"),
        (None, 1, "knn needs features"),
    ],
)
def test_knn_refuses(features, k, message):
    with pytest.raises(InvalidInput, match=message):
        knn(features, features, k)


def test_faiss_flat_index(clouds):
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlatL2(6)
    index.add(normalize(clouds.features).astype(np.float32))
    squared, _ = index.search(normalize(clouds.queries).astype(np.float32), 50)
    assert knn(clouds.features, clouds.queries) == pytest.approx(np.sqrt(squared[:, -1]), abs=1e-6)
