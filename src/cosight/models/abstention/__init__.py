"""Abstention functions: how strange an image is to a model, and how likely the model should refuse to answer.

* base       protocols, registry entries, input checks, and `MinMax`, from strangeness to abstention in [0, 1]
* registry   the eight functions of VisAlign and a variant; `abstention` looks up a name
* entropy    SP, Deep Ensemble, ASP and MC-Dropout: the entropy of the softmax
* distances  MD and KNN: the distance to the nearest class or the K-th nearest training image
* tapudd     TAPUDD: the distance to the nearest cluster
* openmax    OpenMax: the probability of an unknown class
* ood        `ood:NAME`, any detector of pytorch-ood on features or logits

Functions that need the model itself have `logits(model, batch)`, which returns the logits that `strangeness` takes.
Importing this package imports no torch.
"""

from cosight.models.abstention.base import Abstention, AbstentionFunction, FittedAbstention, MinMax, as_released
from cosight.models.abstention.distances import (
    ClassMahalanobis,
    FittedClassMahalanobis,
    FittedMahalanobis,
    FittedNeighbours,
    Mahalanobis,
    NearestNeighbours,
)
from cosight.models.abstention.entropy import (
    AdjustedSoftmax,
    DeepEnsemble,
    McDropout,
    SoftmaxProbability,
    asp_strangeness,
    dropout_logits,
    member_entropy,
    member_prediction,
)
from cosight.models.abstention.ood import OodDetector, detector_names, ood_abstention
from cosight.models.abstention.openmax import FittedOpenMax, OpenMax
from cosight.models.abstention.registry import abstention, abstentions
from cosight.models.abstention.tapudd import FittedTapudd, Tapudd

__all__ = [
    "Abstention",
    "AbstentionFunction",
    "AdjustedSoftmax",
    "ClassMahalanobis",
    "DeepEnsemble",
    "FittedAbstention",
    "FittedClassMahalanobis",
    "FittedMahalanobis",
    "FittedNeighbours",
    "FittedOpenMax",
    "FittedTapudd",
    "Mahalanobis",
    "McDropout",
    "MinMax",
    "NearestNeighbours",
    "OodDetector",
    "OpenMax",
    "SoftmaxProbability",
    "Tapudd",
    "abstention",
    "abstentions",
    "as_released",
    "asp_strangeness",
    "detector_names",
    "dropout_logits",
    "member_entropy",
    "member_prediction",
    "ood_abstention",
]
