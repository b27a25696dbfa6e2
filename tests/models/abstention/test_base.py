import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import MinMaxScaler

from cosight.errors import InvalidInput, UnknownName
from cosight.models.abstention import MinMax, as_released

VALUES = arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e9, 1e9))


@given(VALUES, VALUES)
def test_abstention_is_in_the_unit_range_and_rises_with_strangeness(calibration, test):
    found = MinMax.fit(calibration).abstention(np.sort(test))
    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found) >= 0).all()


def test_scikit_learns_scaler():
    rng = np.random.default_rng(0)
    calibration, test = rng.normal(size=50), rng.normal(size=200) * 2
    theirs = MinMaxScaler(clip=True).fit(calibration[:, None]).transform(test[:, None])[:, 0]
    assert MinMax.fit(calibration).abstention(test) == pytest.approx(theirs, abs=1e-12)


def test_calibration_images_reach_both_ends_and_others_do_not_move_them():
    fitted = MinMax.fit([3.0, 1.0, 2.0])
    assert fitted == MinMax(1.0, 3.0)
    assert fitted.abstention([1.0, 3.0, -np.pi, 50.0, 2.0]).tolist() == [0, 1, 0, 1, 0.5]


def test_equally_strange_calibration_images_answer_and_whatever_is_stranger_abstains():
    assert MinMax.fit([2.0, 2.0]).abstention([1.9, 2.0, np.nextafter(2, 3)]).tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("values", "message"),
    [([], "at least one image, got none"), ([1.0, np.nan], "finite, got nan"), ([[1.0]], "1 axes")],
)
def test_calibration_it_refuses(values, message):
    with pytest.raises(InvalidInput, match=message):
        MinMax.fit(values)


def test_ends_and_strangeness_it_refuses():
    for low, high in ((1, 0), (0, np.inf), (np.nan, 1)):
        with pytest.raises(InvalidInput, match="low must be at most high"):
            MinMax(low, high)
    with pytest.raises(InvalidInput, match="strangeness must be finite"):
        MinMax(0, 1).abstention([np.inf])


@pytest.mark.parametrize("name", ["sp", "asp", "mc-dropout", "deep-ensemble", "ensemble"])
def test_as_released_the_surest_image_abstains(name):
    entropies = np.array([0.1, 2.3, 1.2])
    assert as_released(entropies, name=name) == pytest.approx([1, 0, 0.5])  # 1 - (h - min h) / (max h - min h)


@pytest.mark.parametrize("name", ["md", "knn"])
def test_as_released_distances_are_squared_and_not_upside_down(name):
    assert as_released([1.0, 2.0, 3.0], name=name) == pytest.approx([0, 3 / 8, 1])


def test_as_released_refuses_what_the_release_lacks_and_what_it_divides_by_zero():
    for name in ("openmax", "tapudd"):
        with pytest.raises(InvalidInput, match=f"available for sp, .*, got {name}"):
            as_released([0.0, 1.0], name=name)
    with pytest.raises(InvalidInput, match="divides by the range"):
        as_released([1.0, 1.0], name="sp")
    with pytest.raises(UnknownName, match="did you mean knn"):
        as_released([1.0, 2.0], name="kn")
