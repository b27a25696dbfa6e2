"""Mean abstention: a mean, in [0, 1], of numbers in [0, 1]."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.errors import InvalidInput
from cosight.measures import mean_abstention


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.randoms())
def test_is_the_mean_whatever_the_order(values, random):
    shuffled = random.sample(values, len(values))
    assert mean_abstention(shuffled).value == pytest.approx(np.mean(values))
    assert 0 <= mean_abstention(values).value <= 1


def test_without_items_is_undefined():
    assert math.isnan(mean_abstention([]).value)


@pytest.mark.parametrize("bad", [-0.1, 1.5])
def test_refuses_what_is_no_abstention(bad):
    with pytest.raises(InvalidInput, match=r"abstention must be 0 to 1"):
        mean_abstention([0.5, bad])
