"""People, images and raters: variance components, the designs that reach a width, published plans."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from statsmodels.stats.anova import anova_lm

from cosight.errors import InvalidInput
from cosight.measures.study_size import (
    VarianceParts,
    error_bound,
    minimum_raters,
    people_and_images_for_width,
    variance_parts,
)

nan = math.nan
law = settings(deadline=None, max_examples=60)
tables = arrays(
    np.float64, array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=6), elements=st.integers(-9, 9)
).filter(lambda table: np.ptp(table) > 0)


@law
@given(tables)
def test_parts_are_those_of_the_analysis_of_variance(table):
    people, items = table.shape
    found = variance_parts(table)
    rows, columns = table.mean(axis=1), table.mean(axis=0)
    ms_people = items * ((rows - table.mean()) ** 2).sum() / (people - 1)
    ms_items = people * ((columns - table.mean()) ** 2).sum() / (items - 1)
    total = ((table - table.mean()) ** 2).sum()
    rest = (total - ms_people * (people - 1) - ms_items * (items - 1)) / ((people - 1) * (items - 1))
    assert found.rest == pytest.approx(rest, abs=1e-9)
    assert found.people == pytest.approx((ms_people - rest) / items, abs=1e-9)
    assert found.stimuli == pytest.approx((ms_items - rest) / people, abs=1e-9)
    assert found.value == pytest.approx(table.mean())
    turned = variance_parts(table.T)
    assert (turned.people, turned.stimuli) == pytest.approx((found.stimuli, found.people), abs=1e-9)


def test_parts_agree_with_statsmodels():
    import pandas as pd
    from statsmodels.formula.api import ols

    table = np.random.default_rng(0).random((5, 7))
    person, item = np.indices(table.shape)
    frame = pd.DataFrame({"y": table.ravel(), "p": person.ravel(), "i": item.ravel()})
    squares = anova_lm(ols("y ~ C(p) + C(i)", frame).fit())["mean_sq"]
    found = variance_parts(table)
    assert found.rest == pytest.approx(squares["Residual"])
    assert found.people == pytest.approx((squares["C(p)"] - squares["Residual"]) / 7)
    assert found.stimuli == pytest.approx((squares["C(i)"] - squares["Residual"]) / 5)


def test_parts_are_unbiased_and_negative_ones_are_kept_and_named():
    rng = np.random.default_rng(0)
    found = [
        variance_parts(rng.normal(0, 0.3, (8, 1)) + rng.normal(0, 0.5, 20) + rng.normal(0, 1, (8, 20)))
        for _ in range(400)
    ]
    assert np.mean([parts.people for parts in found]) == pytest.approx(0.09, abs=0.02)
    assert np.mean([parts.stimuli for parts in found]) == pytest.approx(0.25, abs=0.03)
    assert np.mean([parts.rest for parts in found]) == pytest.approx(1, abs=0.02)
    below = variance_parts([[1, 0], [0, 1]])  # nothing but crossing
    assert below.people < 0
    assert below.negative == ("people", "stimuli")
    assert variance_parts([[0.1, 0.7, 0.3]] * 3).negative == ()  # no difference of people, but for rounding


def test_pairs_by_brute_force():
    parts = VarianceParts(0.5, 0.01, 0.02, 0.2)
    found = people_and_images_for_width(parts, width=0.12)
    p, i = np.meshgrid(np.arange(2, 201), np.arange(1, 2000), indexing="ij")
    width = 2 * 1.959964 * np.sqrt(0.01 / p + 0.02 / i + 0.2 / (p * i))
    enough = width <= 0.12
    reach = enough.any(axis=1)
    assert found.people.tolist() == p[reach, 0].tolist()
    assert found.images.tolist() == (1 + enough[reach].argmax(axis=1)).tolist()
    assert found.value == (p * i)[enough].min()
    assert (found.width <= 0.12 + 1e-12).all()


def test_simulated_crossed_studies_vary_as_planned():
    plan = people_and_images_for_width(VarianceParts(0, 0.04, 0.02, 0.3), width=0.3)
    p, i = plan.people[plan.cheapest], plan.images[plan.cheapest]
    rng = np.random.default_rng(0)
    widths, means = [], []
    for _ in range(300):
        table = rng.normal(0, 0.2, (p, 1)) + rng.normal(0, 0.02**0.5, i) + rng.normal(0, 0.3**0.5, (p, i))
        parts = variance_parts(table)
        variance = parts.people / p + parts.stimuli / i + parts.rest / (p * i)
        widths.append(2 * 1.96 * math.sqrt(variance))
        means.append(table.mean())
    assert np.mean(widths) == pytest.approx(0.3, rel=0.1)
    assert 2 * 1.96 * np.std(means) == pytest.approx(0.3, rel=0.13)  # 3 standard errors of a standard deviation


def test_limits_of_people_and_images():
    parts = VarianceParts(0.5, 0.01, 0.02, 0.2)
    found = people_and_images_for_width(parts, width=0.12, people=[50, 20, 50], most_images=100)
    assert found.people.tolist() == [20, 50]
    with pytest.raises(InvalidInput, match=r"0\.1753 or more for 5 people and any number of images, got 0\.12"):
        people_and_images_for_width(parts, width=0.12, people=range(2, 6))
    with pytest.raises(InvalidInput, match="50 people and 3 images"):
        people_and_images_for_width(parts, width=0.12, people=[50], most_images=3)
    only_people = people_and_images_for_width(VarianceParts(0.5, 0.01, 0, 0), width=0.2)
    assert only_people.images.tolist() == [1] * len(only_people.images)


def test_a_negative_part_is_not_passed_over():
    parts = VarianceParts(0.5, -0.01, 0.02, 0.2)
    with pytest.raises(InvalidInput, match=r"got -0\.01 for people; .* negative='zero'"):
        people_and_images_for_width(parts, width=0.2)
    as_none = people_and_images_for_width(parts, width=0.2, negative="zero")
    none = people_and_images_for_width(VarianceParts(0.5, 0, 0.02, 0.2), width=0.2)
    assert as_none.images.tolist() == none.images.tolist()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: variance_parts([[1, 2]]), "at least two people and two items, got 1 and 2"),
        (lambda: variance_parts([[1, nan], [2, 3]]), "finite"),
        (lambda: people_and_images_for_width(VarianceParts(0, 0, 0, 0), width=0.1), "no variance"),
        (lambda: people_and_images_for_width(VarianceParts(0, nan, 0, 1), width=0.1), "finite"),
        (lambda: people_and_images_for_width(VarianceParts(0, 1, 1, 1), width=0.1, people=[0]), "1 or more"),
        (lambda: people_and_images_for_width(VarianceParts(0, 1, 1, 1), width=0.1, negative="no"), "got 'no'"),
    ],
)
def test_refused(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()


few = settings(max_examples=50, deadline=None)


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
