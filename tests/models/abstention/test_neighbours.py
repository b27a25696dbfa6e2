import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from cosight.errors import InvalidInput
from cosight.models.abstention import NearestNeighbours
from cosight.models.abstention import neighbours as module


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
    monkeypatch.setattr(module, "_CELLS", 7 * 240)  # seven queries at a time
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
def test_it_refuses(features, k, message):
    with pytest.raises(InvalidInput, match=message):
        knn(features, features, k)


def test_faiss_flat_index(clouds):
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlatL2(6)
    index.add(normalize(clouds.features).astype(np.float32))
    squared, _ = index.search(normalize(clouds.queries).astype(np.float32), 50)
    assert knn(clouds.features, clouds.queries) == pytest.approx(np.sqrt(squared[:, -1]), abs=1e-6)
