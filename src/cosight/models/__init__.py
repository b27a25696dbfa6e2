"""Models: any classifier in one line, as something that turns photos into logits.

* model           what a model is: prepare, answer, and the facts that go with them
* grammar         how it is named: `source:name[,key=value...]`
* sources         where it comes from, by name
* preprocessing   what becomes of a photo before the model sees it
* features        the penultimate layer, or any by its path
* torch_models    models in torch, with gradients, and their weights; timm_models, torchvision_models and small (the
                  CIFAR ResNets) make them
* onnx_models     models in onnxruntime
* own             a user's module, function or model
* ensembles       several as one

Importing this imports neither torch nor onnxruntime; loading a model does.
"""

from cosight.models.ensembles import Ensemble, ensemble
from cosight.models.grammar import ModelSpec, ensemble_of, parse
from cosight.models.model import Answers, Model, Outputs, Preparation
from cosight.models.onnx_models import OnnxModel
from cosight.models.own import ArrayModel, as_model
from cosight.models.preprocessing import Preprocessing, prepared, preprocessed
from cosight.models.sources import Source, load, load_model, sources
from cosight.models.torch_models import TorchModel, put_weights, read_weights, weights_digest, wrapped

__all__ = [
    "Answers",
    "ArrayModel",
    "Ensemble",
    "Model",
    "ModelSpec",
    "OnnxModel",
    "Outputs",
    "Preparation",
    "Preprocessing",
    "Source",
    "TorchModel",
    "as_model",
    "ensemble",
    "ensemble_of",
    "load",
    "load_model",
    "parse",
    "prepared",
    "preprocessed",
    "put_weights",
    "read_weights",
    "sources",
    "weights_digest",
    "wrapped",
]
