"""Do differences and ranks of models hold in simulated studies? At length: `perf/interval_coverage.py differences`."""

import pytest
from scipy.stats import binom

from tests.scoring.simulated import ALIKE, UNEQUAL, UNLIKE, contrasts


def test_models_with_the_same_confusions_do_not_differ_in_cles_whatever_their_accuracies():
    """Compared as they are, two models with accuracies .73 and .31 differed in half of such studies."""
    studies = 16
    found = contrasts(UNEQUAL, ["cles"], people=10, stimuli=320, studies=studies, resamples=100, cles_truth=0.0)["cles"]
    assert found.positive * studies <= binom.ppf(0.999, studies, 0.05)
    assert found.certain * studies <= binom.ppf(0.999, studies, 0.05)
    assert found.share * studies >= binom.ppf(0.001, studies, 0.92)


@pytest.mark.slow
def test_models_with_the_same_confusions_in_studies_of_the_usual_size():
    found = contrasts(UNEQUAL, ["cles"], people=10, stimuli=1280, studies=200, cles_truth=0.0)["cles"]
    assert found.positive <= binom.ppf(0.999, 200, 0.05) / 200
    assert found.certain <= binom.ppf(0.999, 200, 0.05) / 200


@pytest.mark.slow
@pytest.mark.parametrize("models", [ALIKE, UNLIKE], ids=["alike", "unlike"])
def test_differences_hold_the_truth_and_are_not_much_too_wide(models):
    found = contrasts(models, ["ec", "ma", "cles"], people=10, stimuli=300, studies=200)
    for measure, contrast in found.items():
        assert contrast.share >= binom.ppf(0.001, 200, 0.92) / 200, measure
    assert found["ec"].wideness <= 1.25  # the spread of 200 values is known to 5 %
    assert found["ec"].rank >= binom.ppf(0.001, 200, 0.95) / 200
