"""The registry of abstention functions: the eight of VisAlign, in the order of its tables, variants, and `ood:NAME`."""

from __future__ import annotations

from cosight.models.abstention.base import Abstention, abstentions
from cosight.models.abstention.distances import ClassMahalanobis, Mahalanobis, NearestNeighbours
from cosight.models.abstention.entropy import AdjustedSoftmax, DeepEnsemble, McDropout, SoftmaxProbability
from cosight.models.abstention.ood import PREFIX, ood_abstention
from cosight.models.abstention.openmax import OpenMax
from cosight.models.abstention.tapudd import Tapudd

__all__ = ["abstention", "abstentions"]


def abstention(name: str) -> Abstention:
    """Return the registry entry of an abstention function.

    Args:
        name: Name or alias of one of `abstentions`, or `ood:NAME` for a detector of pytorch-ood.

    Returns:
        The entry, whose `function` has the default settings.

    Raises:
        UnknownName: There is no function of this name; the message suggests the nearest ones.

    >>> abstention("knn").settings
    {'neighbours': 50}
    """
    return ood_abstention(name) if name.startswith(PREFIX) else abstentions[name]


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
        summary="Adjusted softmax probability: entropy of a high-temperature softmax after a step to the predicted "
        "class.",
        function=AdjustedSoftmax(),
        needs=("model",),
        citation="Liang et al. 2018, Enhancing the reliability of out-of-distribution image detection in neural "
        "networks",
        released="entropy",
        aliases=("odin",),
    ),
    Abstention(
        "md",
        summary="Mahalanobis distance to the nearest class, with one covariance for all classes.",
        function=Mahalanobis(),
        needs=("features", "labels"),
        citation="Lee et al. 2018, A simple unified framework for detecting out-of-distribution samples and "
        "adversarial attacks",
        released="squared distance",
        aliases=("mahalanobis",),
    ),
    Abstention(
        "knn",
        summary="Distance to the K-th nearest training image, with features scaled to unit length.",
        function=NearestNeighbours(),
        needs=("features",),
        citation="Sun et al. 2022, Out-of-distribution detection with deep nearest neighbors",
        released="squared distance",
    ),
    Abstention(
        "tapudd",
        summary="Distance to the nearest cluster of a Gaussian mixture, mean over 1 to 10 clusters and 20 starts.",
        function=Tapudd(),
        needs=("features",),
        citation="Dua et al. 2023, Task agnostic and post-hoc unseen distribution detection",
    ),
    Abstention(
        "openmax",
        summary="Probability of an unknown class, by the distance of the logits to each class's mean logits.",
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
    Abstention(
        "md-class",
        summary="Mahalanobis distance to the nearest class, with a covariance for each class.",
        function=ClassMahalanobis(),
        needs=("features", "labels"),
        citation="Lee et al. 2023, VisAlign, section 5.1",
        released="squared distance",
        aliases=("mahalanobis-class",),
    ),
)

for _entry in _ENTRIES:
    abstentions.add(_entry.name, _entry, aliases=_entry.aliases)
