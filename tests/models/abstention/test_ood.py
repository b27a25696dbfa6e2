import sys
from dataclasses import replace

import numpy as np
import pytest

from cosight.errors import InvalidInput, UnknownName
from cosight.models.abstention import Mahalanobis, OodDetector, OpenMax, SoftmaxProbability, abstention, detector_names

# of pytorch-ood 0.4.0
NAMES = [
    "DICE",
    "EnergyBased",
    "Entropy",
    "GEN",
    "GMM",
    "KLMatching",
    "KNN",
    "LTS",
    "Mahalanobis",
    "MaxLogit",
    "MaxSoftmax",
    "NCI",
    "NNGuide",
    "OpenMax",
    "PNML",
    "RMD",
    "SHE",
    "TemperatureScaling",
    "ViM",
    "fDBD",
]


@pytest.fixture(scope="module", autouse=True)
def _package(pytorch_ood, one_torch_thread):
    """Skip without it."""


def scored(name, made):
    fitted = abstention(f"ood:{name}").function.fit(made.features, made.logits, made.labels)
    return fitted.strangeness(made.queries, made.query_logits)


def test_every_detector_on_features_or_logits_is_there():
    assert set(NAMES) <= set(detector_names())
    assert not {"ODIN", "ReAct", "MCD", "MCM", "WeightedEBO"} & set(detector_names())  # they need more than is stored


@pytest.mark.parametrize("name", NAMES)
def test_every_detector_scores_stored_features_and_logits(clouds, name):
    if name == "LTS":  # takes features as a ReLU gives them
        low = min(clouds.features.min(), clouds.queries.min())
        clouds = replace(clouds, features=clouds.features - low, queries=clouds.queries - low)
    before = [np.copy(x) for x in (clouds.features, clouds.logits, clouds.labels, clouds.queries)]
    found = scored(name, clouds)
    assert (found.shape, found.dtype) == ((40,), np.float64)
    assert np.isfinite(found).all()
    assert np.ptp(found) > 0
    assert (found == scored(name, clouds)).all()
    after = (clouds.features, clouds.logits, clouds.labels, clouds.queries)
    assert all((x == y).all() for x, y in zip(before, after, strict=True))


def test_what_both_of_us_have_agrees(clouds):
    assert scored("Entropy", clouds) == pytest.approx(
        SoftmaxProbability().strangeness(None, clouds.query_logits), abs=1e-5
    )
    ours = Mahalanobis().fit(clouds.features, None, clouds.labels).strangeness(clouds.queries, None)
    assert np.sqrt(2 * 240 * scored("Mahalanobis", clouds)) == pytest.approx(ours, rel=1e-3)
    unknown = OpenMax(tail=25).fit(None, clouds.logits, clouds.labels).strangeness(None, clouds.query_logits)
    right = clouds.logits.argmax(axis=1) == clouds.labels
    assert right.all()
    assert scored("OpenMax", clouds) == pytest.approx(unknown, abs=1e-3)


def test_vim_with_the_last_layer_that_least_squares_finds(clouds, pytorch_ood):
    import torch
    from pytorch_ood.detector import ViM

    table = np.column_stack([clouds.features, np.ones(240)])
    solution = torch.tensor(np.linalg.lstsq(table, clouds.logits)[0], dtype=torch.float32)
    features, queries = (torch.tensor(x, dtype=torch.float32) for x in (clouds.features, clouds.queries))
    theirs = ViM(None, d=3, w=solution[:-1].T, b=solution[-1]).fit_features(features, torch.tensor(clouds.labels))
    assert scored("ViM", clouds) == pytest.approx(theirs.predict_features(queries).numpy(), rel=1e-4, abs=1e-4)


def test_facts_name_the_paper_and_what_is_needed():
    facts = abstention("ood:ViM")
    assert (facts.name, facts.needs, facts.settings) == ("ood:ViM", ("features", "logits", "labels"), {"name": "ViM"})
    assert "Virtual-logit Matching" in facts.citation
    assert abstention("ood:EnergyBased").needs == ("logits", "labels")


@pytest.mark.parametrize(
    ("name", "guess"), [("vim", "ood:ViM"), ("Mahalonobis", "ood:Mahalanobis"), ("ODIN", "ood:|there are")]
)
def test_an_unknown_detector_gets_the_nearest_names(name, guess):
    with pytest.raises(UnknownName, match=f"no detector on features or logits is called '{name}'.*({guess})"):
        abstention(f"ood:{name}")


def test_without_the_package_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch_ood.detector", None)
    with pytest.raises(InvalidInput, match=r"the package pytorch-ood; pip install 'cosight\[ood\]'"):
        abstention("ood:ViM")


def test_the_last_layer_must_be_there_to_be_found(clouds, clouds_of):
    with pytest.raises(InvalidInput, match="logits that are linear in the features, the largest error is"):
        OodDetector("ViM").fit(clouds.features, clouds.logits**2, clouds.labels)
    few = clouds_of(rows=6)
    with pytest.raises(InvalidInput, match="more training images than dimensions to recover, got 6 for 6"):
        OodDetector("ViM").fit(few.features, few.logits, few.labels)


def test_other_dimensions_are_refused(clouds):
    with pytest.raises(InvalidInput, match="one length, got features 239, logits 240"):
        OodDetector("KNN").fit(clouds.features[1:], clouds.logits, clouds.labels)
    with pytest.raises(InvalidInput, match="ood:KNN needs features with the 6 dimensions"):
        OodDetector("KNN").fit(clouds.features, clouds.logits, clouds.labels).strangeness(clouds.queries[:, 1:], None)
    with pytest.raises(InvalidInput, match="ood:MaxLogit needs logits of the 3 classes"):
        OodDetector("MaxLogit").fit(None, clouds.logits, clouds.labels).strangeness(None, np.zeros((2, 5)))
