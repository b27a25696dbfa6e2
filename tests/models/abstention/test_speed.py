"""The benchmark of abstention functions still runs, and what it times agrees with the peers. No time is asserted."""

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="module")
def abstaining(pytorch_ood, one_torch_thread):
    pytest.importorskip("faiss")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])  # scripts beside the package, not part of it
        from perf import abstaining

        yield abstaining


@pytest.fixture(scope="module")
def data(abstaining):
    return abstaining.draw_data(abstaining.Size(2000, 16, 30, 1))


@pytest.mark.parametrize("what", ["KNN scoring", "MD scoring"])
def test_both_score_alike(abstaining, data, what):
    ours, theirs = (function(data)() for function in abstaining.functions(what))
    assert ours == pytest.approx(theirs, rel=1e-3)


def test_both_take_the_same_step(abstaining, data):
    ours, theirs = (function(data)() for function in abstaining.functions("a step of a mixture of 10"))
    assert ours.means == pytest.approx(theirs.means_, abs=1e-9)
    assert ours.weights == pytest.approx(theirs.weights_, abs=1e-12)
    factors = [factor @ factor.T for factor in theirs.precisions_cholesky_]
    precisions = np.array([white.inverse.T @ white.inverse for white in ours.whites])
    assert precisions == pytest.approx(np.array(factors), rel=1e-6, abs=1e-9)


def test_every_line_is_measured(abstaining, monkeypatch):
    monkeypatch.setattr(abstaining, "peak", lambda what, whose, path: 1.0 + path.stat().st_size)
    found = list(abstaining.lines(abstaining.Size(500, 8, 20, 1)))
    assert [line.limit for line in found] == [0.9, 5, 1, None, None, None]
    assert all(line.ratio > 0 for line in found)


@pytest.mark.slow
def test_memory_is_that_of_a_process_of_its_own(abstaining, tmp_path):
    abstaining.draw_data(abstaining.Size(20_000, 64, 30, 1)).save(tmp_path / "data.npz")
    used = abstaining.peak("MD scoring", 0, tmp_path / "data.npz")
    assert 5 < used < 200  # the table alone has 20,000 x 64 x 8 bytes, 10 MB
