"""Abstention functions: how strange is an image to a model, and how ready should it be to refuse?

* facts         what every function declares; entries: the registry `abstentions`
* softmax       SP and Deep Ensemble: the entropy of the softmax
* odin          ASP: the same after a small step of the image
* dropout       MC-Dropout: the same of the networks that dropout makes
* mahalanobis   MD: the distance to the nearest class
* neighbours    KNN: the distance to the K-th nearest training image
* tapudd        TAPUDD: the distance to the nearest cluster, of `mixtures`
* openmax       OpenMax: the probability of an unknown class
* ood           any detector of pytorch-ood on features or logits, `ood:NAME`
* calibration   from strangeness to abstention in [0, 1]

A function is settings; `fit(features, logits, labels)` of the training images gives what has
`strangeness(features, logits)`, higher = stranger. Those that need the model have `logits(model, batch)`, which gives
the logits that `strangeness` takes. Importing this imports no torch.
"""

from cosight.models.abstention.calibration import MinMax, as_released
from cosight.models.abstention.dropout import McDropout, dropout_logits
from cosight.models.abstention.entries import abstentions
from cosight.models.abstention.facts import Abstention, AbstentionFunction, FittedAbstention
from cosight.models.abstention.mahalanobis import FittedMahalanobis, Mahalanobis
from cosight.models.abstention.neighbours import FittedNeighbours, NearestNeighbours
from cosight.models.abstention.odin import AdjustedSoftmax, asp_strangeness
from cosight.models.abstention.ood import PREFIX, OodDetector, detector_names, ood_abstention
from cosight.models.abstention.openmax import FittedOpenMax, OpenMax
from cosight.models.abstention.softmax import DeepEnsemble, SoftmaxProbability, member_entropy, member_prediction
from cosight.models.abstention.tapudd import FittedTapudd, Tapudd

__all__ = [
    "Abstention",
    "AbstentionFunction",
    "AdjustedSoftmax",
    "DeepEnsemble",
    "FittedAbstention",
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


def abstention(name: str) -> Abstention:
    """The facts about the function of this name: one of `abstentions`, or `ood:NAME`.

    >>> abstention("knn").settings
    {'neighbours': 50}
    """
    return ood_abstention(name) if name.startswith(PREFIX) else abstentions[name]
