"""Observers of known behaviour: every measure orders them as theory says, and the guide shows what the code prints."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from cosight.errors import InvalidInput
from cosight.measures import pair_forms, reachable_kappa, simulated_pairs

ROOT = Path(__file__).parents[2]
EC, MA, CLES = "error_consistency", "misclassification_agreement", "class_level_error_similarity"


@pytest.fixture(scope="module", params=[0, 1, 2])
def values(request):
    """The value of each measure and pair, of three seeds."""
    pairs = simulated_pairs(trials=4000, seed=request.param)
    return {
        name: {key: pair_forms[name].matrix(pair.answers)[0, 1] for key, pair in pairs.items()}
        for name in (EC, MA, CLES)
    }


def test_behaviours_are_ordered_by_error_consistency(values):
    ec = values[EC]
    assert ec["same errors"] == ec["same images, other errors"] == 1  # blind to what the answers are
    assert 1 > ec["degraded copy"] > 0.6
    for name in ("same classes, other images", "independent errors", "independent, no structure"):
        assert abs(ec[name]) < 0.06
    assert ec["half shared"] == pytest.approx(0.45, abs=0.06)
    assert ec["half shared, high accuracy"] == pytest.approx(0.48, abs=0.15)


def test_behaviours_are_ordered_by_misclassification_agreement(values):
    ma = values[MA]
    assert ma["same errors"] == 1
    assert 1 > ma["degraded copy"] > ma["same classes, other images"] > 0.4  # the class alone makes them agree
    for name in ("same images, other errors", "independent errors", "independent, no structure"):
        assert abs(ma[name]) < 0.1


def test_behaviours_are_ordered_by_class_level_error_similarity(values):
    cles = values[CLES]
    assert cles["same errors"] == pytest.approx(1, abs=1e-12)
    assert cles["same classes, other images"] > 0.97  # blind to the images
    assert cles["independent, no structure"] > 0.97  # alike only in having no structure
    assert cles["degraded copy"] > cles["same images, other errors"] + 0.1
    assert cles["same images, other errors"] == pytest.approx(cles["independent errors"], abs=0.03)
    assert cles["independent errors"] < cles["other classes, high accuracy"] - 0.05  # few errors: the prior
    assert cles["other classes but one, imbalanced"] > 0.97  # one class decides


def test_a_degraded_copy_is_as_consistent_as_its_accuracy_allows():
    answers = simulated_pairs()["degraded copy"].answers
    value = pair_forms[EC].matrix(answers)[0, 1]
    highest = reachable_kappa(*answers.correct.mean(axis=1)).highest
    assert highest - 0.1 < value <= highest


def test_intervals_widen_where_a_measure_is_unreliable():
    """The same overlap of errors, at three accuracies: the rarer outcome decides how sure EC is."""
    pairs = simulated_pairs()
    pair, weights = np.array([[0, 1]]), np.random.default_rng(0).multinomial(2000, np.full(2000, 1 / 2000), 300)

    def spread(name):
        return pair_forms[EC].resampled(pairs[name].answers, weights.astype(np.float32), pair).std()

    assert spread("half shared, high accuracy") > 2 * spread("half shared")
    assert spread("half shared, low accuracy") > 1.5 * spread("half shared")


def test_the_same_seed_gives_the_same_pairs_and_bad_numbers_are_refused():
    one, two = (simulated_pairs(trials=50, seed=4)["degraded copy"].answers.response for _ in range(2))
    np.testing.assert_array_equal(one, two)
    with pytest.raises(InvalidInput, match="classes must be a whole number"):
        simulated_pairs(classes=5)
    assert all(pair.behaviour and pair.name == name for name, pair in simulated_pairs(trials=10).items())


def test_the_guide_shows_what_the_script_prints():
    spec = importlib.util.spec_from_file_location("choosing_a_measure", ROOT / "docs" / "choosing_a_measure.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = (ROOT / "docs" / "explanation" / "choosing-a-measure.md").read_text(encoding="utf-8")
    assert "\n".join(script.table()) in page, "run python docs/choosing_a_measure.py"
