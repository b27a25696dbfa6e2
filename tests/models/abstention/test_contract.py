"""One test over every abstention function: new entries are tested for free."""

import json
from dataclasses import FrozenInstanceError, fields
from functools import cache

import numpy as np
import pytest

from cosight.benchmarks.visalign.results_table import FUNCTIONS
from cosight.errors import UnknownName
from cosight.models.abstention import MinMax, abstention, abstentions

NAMES = ["sp", "asp", "md", "knn", "tapudd", "openmax", "mc-dropout", "deep-ensemble"]


def given(entry, clouds, model, batch):
    """Features and logits of the images to be judged, as the function's needs have it."""
    if "model" in entry.needs:
        return None, entry.function.logits(model, batch)
    if "members" in entry.needs:
        return None, np.stack([clouds.query_logits, clouds.query_logits * 0.5])
    features = clouds.queries if "features" in entry.needs else None
    return features, clouds.query_logits if "logits" in entry.needs else None


def training(entry, clouds):
    parts = {"features": clouds.features, "logits": clouds.logits, "labels": clouds.labels}
    return [part if need in entry.needs else None for need, part in parts.items()]


@pytest.fixture(scope="module")
def fitted_to(clouds_of):
    """Each function, fitted once."""
    return cache(lambda name: abstentions[name].function.fit(*training(abstentions[name], clouds_of())))


@pytest.mark.parametrize("name", list(abstentions))
def test_every_function_keeps_the_contract(name, clouds, dropping, batch, fitted_to):
    entry = abstentions[name]
    taught = training(entry, clouds)
    before = [None if part is None else part.copy() for part in taught]
    features, logits = given(entry, clouds, dropping, batch)
    fitted = entry.function.fit(*taught)
    found = fitted.strangeness(features, logits)
    assert found.shape == (5 if "model" in entry.needs else 40,)
    assert found.dtype == np.float64
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert np.ptp(found) > 0
    again = fitted_to(name).strangeness(*given(entry, clouds, dropping, batch))
    assert (again == found).all()
    assert all(a is b is None or (a == b).all() for a, b in zip(taught, before, strict=True))
    share = MinMax.fit(found).abstention(found)
    assert (share.min(), share.max()) == (0, 1)


@pytest.mark.parametrize("name", list(abstentions))
def test_a_fitted_function_is_frozen_and_leaves_what_it_judges(name, clouds, dropping, batch, fitted_to):
    entry, fitted = abstentions[name], fitted_to(name)
    for value in (entry.function, fitted):
        for field in fields(value):
            with pytest.raises(FrozenInstanceError):
                setattr(value, field.name, 0)
    asked = given(entry, clouds, dropping, batch)
    kept = [None if part is None else part.copy() for part in asked]
    first = fitted.strangeness(*asked)
    assert all(a is b is None or (a == b).all() for a, b in zip(asked, kept, strict=True))
    assert (fitted.strangeness(*asked) == first).all()


@pytest.mark.parametrize("name", list(abstentions))
def test_every_entry_declares_its_facts(name):
    entry = abstentions[name]
    assert entry.name == name
    assert entry.summary.endswith(".")
    assert any(mark.isdigit() for mark in entry.citation)
    assert entry.needs
    assert json.loads(json.dumps(entry.settings)) == entry.settings
    for alias in entry.aliases:
        assert abstention(alias) is entry


def test_the_eight_are_there_with_the_papers_settings():
    assert tuple(NAMES) == FUNCTIONS
    assert list(abstentions)[:8] == NAMES
    assert abstention("knn").settings == {"neighbours": 50}
    assert abstention("asp").settings == {"temperature": 1000, "step": 0.0014, "direction": "raise"}
    assert abstention("tapudd").settings == {"most_clusters": 10, "starts": 20, "ridge": 1e-6, "seed": 42}
    assert abstention("openmax").settings == {"tail": 20, "alpha": None}
    with pytest.raises(UnknownName, match="did you mean"):
        abstention("tapud")


@pytest.mark.parametrize("name", ["md", "md-class", "knn", "tapudd", "openmax", "sp"])
def test_no_images_to_judge_give_no_numbers(name, clouds, fitted_to):
    assert fitted_to(name).strangeness(clouds.queries[:0], clouds.query_logits[:0]).shape == (0,)


@pytest.mark.parametrize("name", ["md", "md-class", "knn", "tapudd", "openmax"])
def test_what_is_far_from_training_is_stranger(name, clouds, fitted_to):
    seen = fitted_to(name).strangeness(clouds.features, clouds.logits)
    assert np.median(fitted_to(name).strangeness(clouds.queries, clouds.query_logits)) > np.median(seen)
