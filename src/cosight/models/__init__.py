"""Models: any classifier in one line, as a callable from images in [0, 1] to logits.

* grammar         how a model is named: `source:name[,key=value...]`
* sources         where it comes from: timm, our small architectures, other packages' sources
* torch_models    what it is: module, preprocessing, number of classes, digest of the weights
* preprocessing   what becomes of a photo before the model sees it
* small           the CIFAR ResNets

Importing this does not import torch; loading a model does.
"""

from cosight.models.grammar import ModelSpec, parse
from cosight.models.preprocessing import Preprocessing, preprocessed
from cosight.models.sources import Source, load, sources
from cosight.models.torch_models import TorchModel, put_weights, read_weights, weights_digest, wrapped

__all__ = [
    "ModelSpec",
    "Preprocessing",
    "Source",
    "TorchModel",
    "load",
    "parse",
    "preprocessed",
    "put_weights",
    "read_weights",
    "sources",
    "weights_digest",
    "wrapped",
]
