"""k-winners-take-all: exactly k units are kept, the largest ones."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cosight.errors import InvalidInput
from cosight.models.architectures import build
from cosight.models.k_wta import KWta, k_winners, use_k_wta


@given(st.integers(0, 2**32 - 1), st.integers(1, 24), st.booleans())
@settings(max_examples=60, deadline=None)
def test_exactly_the_k_largest_are_kept(seed, k, with_ties):
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 4, (3, 2, 3, 4)) if with_ties else rng.permutation(72).reshape(3, 2, 3, 4) + 1
    units = torch.from_numpy(values.astype(np.float64)) * torch.from_numpy(rng.choice([-1.0, 1.0], values.shape))
    kept = k_winners(units, k)
    for before, after in zip(units.flatten(1), kept.flatten(1), strict=True):
        won = after != 0  # no unit is 0 beforehand
        assert won.sum() == k
        torch.testing.assert_close(after[won], before[won])
        assert k == 24 or before[won].min() >= before[~won].max()
        order = np.lexsort((np.arange(24), -before.numpy()))  # by value, then by index
        assert set(np.flatnonzero(won)) == set(order[:k])


def test_gradients_pass_through_winners_only():
    units = torch.tensor([[1.0, 5.0, 3.0]], requires_grad=True)
    k_winners(units, 2).sum().backward()
    assert units.grad.tolist() == [[0.0, 1.0, 1.0]]


@pytest.mark.parametrize("k", [0, 4])
def test_k_beyond_the_width_is_refused(k):
    with pytest.raises(InvalidInput, match=f"k must be 1 to the width of the layer, 3, got {k}"):
        k_winners(torch.zeros(2, 3), k)


def test_fractions_round_up():
    assert KWta(0.1)(torch.arange(1.0, 12)[None]).count_nonzero() == 2
    assert KWta(1.0)(torch.arange(1.0, 12)[None]).count_nonzero() == 11
    assert KWta(0.3)(torch.arange(1.0, 11)[None]).count_nonzero() == 3


def test_all_activations_are_replaced():
    network = build("resnet20", classes=3, k_wta=0.2)
    assert sum(isinstance(part, KWta) for part in network.modules()) == 19
    assert not any(isinstance(part, nn.ReLU) for part in network.modules())
    with pytest.raises(InvalidInput, match="Linear has none"):
        use_k_wta(nn.Linear(2, 2), 0.5)
    with pytest.raises(InvalidInput, match=r"above 0 and up to 1, got 1\.5"):
        use_k_wta(nn.ReLU(), 1.5)
