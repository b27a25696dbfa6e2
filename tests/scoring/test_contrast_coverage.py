"""Do differences and ranks of models, and values on crossed pictures, hold in simulated studies?

At length: `perf/interval_coverage.py differences crossed`.
"""

import pytest
from scipy.stats import binom

from tests.measures.simulated import CueConflict, coverage
from tests.scoring.simulated import ALIKE, UNEQUAL, UNLIKE, contrasts, cue_conflict_case


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


@pytest.mark.parametrize(
    "studies", [20, pytest.param(200, marks=pytest.mark.slow)]
)  # the spread of 20 values is known to 16 %
def test_cles_holds_its_expected_value_where_shape_and_texture_pictures_are_crossed(studies):
    case = cue_conflict_case("cles", (0.6, 0.5), 0.3, CueConflict(4, 2, 2), studies=5 * studies)
    found = coverage(case, studies=studies)
    assert found.share * studies >= binom.ppf(1e-4, studies, 0.92)
    assert 0.7 <= found.wideness <= 1.6
