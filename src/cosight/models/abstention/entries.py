"""The eight functions of VisAlign, with their facts, in the order of its tables."""

from __future__ import annotations

from cosight.models.abstention.dropout import McDropout
from cosight.models.abstention.facts import Abstention, abstentions
from cosight.models.abstention.mahalanobis import Mahalanobis
from cosight.models.abstention.neighbours import NearestNeighbours
from cosight.models.abstention.odin import AdjustedSoftmax
from cosight.models.abstention.openmax import OpenMax
from cosight.models.abstention.softmax import DeepEnsemble, SoftmaxProbability
from cosight.models.abstention.tapudd import Tapudd

__all__ = ["abstentions"]

_ENTRIES = (
    Abstention(
        "sp",
        summary="Softmax probability: entropy of the softmax over the classes.",
        function=SoftmaxProbability(),
        needs=("logits",),
        citation="Lee et al. 2023, VisAlign, section 5.1",
        released="entropy",
        aliases=("softmax",),
    ),
    Abstention(
        "asp",
        summary="Adjusted softmax probability: entropy of a hot softmax after a step towards the predicted class.",
        function=AdjustedSoftmax(),
        needs=("model",),
        citation="Liang et al. 2018, Enhancing the reliability of out-of-distribution image detection in neural "
        "networks",
        released="entropy",
        aliases=("odin",),
    ),
    Abstention(
        "md",
        summary="Mahalanobis distance to the nearest class, one covariance for all.",
        function=Mahalanobis(),
        needs=("features", "labels"),
        citation="Lee et al. 2018, A simple unified framework for detecting out-of-distribution samples and "
        "adversarial attacks",
        released="squared distance",
        aliases=("mahalanobis",),
    ),
    Abstention(
        "knn",
        summary="Distance to the K-th nearest training image, features scaled to length one.",
        function=NearestNeighbours(),
        needs=("features",),
        citation="Sun et al. 2022, Out-of-distribution detection with deep nearest neighbors",
        released="squared distance",
    ),
    Abstention(
        "tapudd",
        summary="Distance to the nearest cluster of a Gaussian mixture, mean over mixtures of 1 to 10 clusters.",
        function=Tapudd(),
        needs=("features",),
        citation="Dua et al. 2023, Task agnostic and post-hoc unseen distribution detection",
    ),
    Abstention(
        "openmax",
        summary="Probability of an unknown class, which takes from classes that look otherwise than the image.",
        function=OpenMax(),
        needs=("logits", "labels"),
        citation="Bendale & Boult 2016, Towards open set deep networks",
    ),
    Abstention(
        "mc-dropout",
        summary="Mean over passes with dropout switched on of the entropy of the softmax.",
        function=McDropout(),
        needs=("model",),
        citation="Gal & Ghahramani 2016, Dropout as a Bayesian approximation",
        released="entropy",
        aliases=("dropout",),
    ),
    Abstention(
        "deep-ensemble",
        summary="Mean over networks trained from different seeds of the entropy of the softmax.",
        function=DeepEnsemble(),
        needs=("members",),
        citation="Lakshminarayanan et al. 2017, Simple and scalable predictive uncertainty estimation using deep "
        "ensembles",
        released="entropy",
        aliases=("ensemble",),
    ),
)

for _entry in _ENTRIES:
    abstentions.add(_entry.name, _entry, aliases=_entry.aliases)
