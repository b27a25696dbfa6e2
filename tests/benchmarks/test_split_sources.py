"""Sources are divided among splits and slots by their names and the seed alone."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.benchmarks.building.split_sources import deal_candidates, divide_sources, interleave, shuffle
from cosight.errors import InvalidInput

sizes = st.lists(st.integers(6, 20), min_size=1, max_size=4)


def pool_of(counts):
    return {f"c{k}": [f"{k}-{n}" for n in range(count)] for k, count in enumerate(counts)}


@given(sizes, st.integers(0, 5), st.integers(0, 3))
def test_splits_share_nothing_and_lose_nothing(counts, train, seed):
    pool = pool_of(counts)
    parts = {
        split: {f for files in part.values() for f in files}
        for split, part in divide_sources(pool, train=train, seed=seed).items()
    }
    assert set().union(*parts.values()) == {f for files in pool.values() for f in files}
    assert not any(a & b for a, b in combinations(parts.values(), 2))
    assert len(parts["train"]) == train
    rest = [len(parts[split]) for split in ("calibration", "test", "closed")]
    assert max(rest) - min(rest) <= len(counts)


def test_many_folders_of_one_photo_reach_every_split():
    parts = divide_sources({str(n): [f"{n}/0.png"] for n in range(9)}, train=0, seed=0)
    assert [sum(len(files) for files in parts[s].values()) for s in ("calibration", "test", "closed")] == [3, 3, 3]


def test_order_follows_from_names_purpose_and_seed():
    names = [str(n) for n in range(30)]
    assert shuffle(names, salt="a", seed=1) == shuffle(reversed(names), salt="a", seed=1)
    assert shuffle(names, salt="a", seed=1) != shuffle(names, salt="b", seed=1)
    assert shuffle(names, salt="a", seed=1) != shuffle(names, salt="a", seed=2)


def test_classes_take_turns():
    assert [label for label, _ in interleave(pool_of([3, 1, 2]), salt="", seed=0)] == [
        "c0",
        "c1",
        "c2",
        "c0",
        "c2",
        "c0",
    ]


@given(sizes, st.integers(1, 6))
def test_every_source_is_dealt_once(counts, slots):
    pool = pool_of(counts)
    rows = list(deal_candidates(pool, slots, salt="", seed=0, purpose="it"))
    assert len(rows) == slots
    assert sorted(file for row in rows for _, file in row) == sorted(f for files in pool.values() for f in files)


def test_more_than_there_is_is_refused():
    with pytest.raises(InvalidInput, match="category 1 of test needs 9 sources, got 4"):
        deal_candidates(pool_of([2, 2]), 9, salt="", seed=0, purpose="category 1 of test")
    with pytest.raises(InvalidInput, match="7 training images need 4 of each class, got 3 of c0"):
        divide_sources(pool_of([3, 3]), train=7, seed=0)
