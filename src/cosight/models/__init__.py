"""Models: any classifier in one line, as something that turns photos into logits.

* model           what a model is: prepare, answer, and the facts that go with them
* grammar         how it is named: `source:name[,key=value...]`
* sources         where it comes from, by name
* preprocessing   what becomes of a photo before the model sees it
* features        the penultimate layer, or any by its path
* torch_models    models in torch, with gradients, and their weights; timm_models, torchvision_models, architectures
                  (those of VisAlign, large and small) and small (the CIFAR ResNets) make them
* onnx_models     models in onnxruntime
* openclip_models zero-shot models, among classes given in words
* own             a user's module, function or model
* ensembles       several as one
* probes          other classes for a model: a linear layer on its features
* abstention      how strange an image is to a model, and how ready it should be to refuse
* recorded        answers computed elsewhere, looked up
* lists           named lists of models

Importing this imports neither torch nor onnxruntime; loading a model does.
"""

from cosight.models.ensembles import Ensemble, ensemble
from cosight.models.grammar import ModelSpec, ensemble_of, parse
from cosight.models.lists import ModelList, model_lists
from cosight.models.loading import ModelSource, load_model, load_torch, sources
from cosight.models.model import Model, ModelOutputs, ModelPreparation, Outputs
from cosight.models.onnx_models import OnnxModel
from cosight.models.openclip_models import zero_shot
from cosight.models.own import ArrayModel, as_model
from cosight.models.preprocessing import Preprocessing, prepared, preprocessed
from cosight.models.probes import Probe, ProbedModel, fit_probe, probed, read_probe, write_probe
from cosight.models.recorded import Recorded, load_recorded
from cosight.models.torch_models import TorchModel, put_weights, read_weights, weights_digest, wrapped

__all__ = [
    "ArrayModel",
    "Ensemble",
    "Model",
    "ModelList",
    "ModelOutputs",
    "ModelPreparation",
    "ModelSource",
    "ModelSpec",
    "OnnxModel",
    "Outputs",
    "Preprocessing",
    "Probe",
    "ProbedModel",
    "Recorded",
    "TorchModel",
    "as_model",
    "ensemble",
    "ensemble_of",
    "fit_probe",
    "load_model",
    "load_recorded",
    "load_torch",
    "model_lists",
    "parse",
    "prepared",
    "preprocessed",
    "probed",
    "put_weights",
    "read_probe",
    "read_weights",
    "sources",
    "weights_digest",
    "wrapped",
    "write_probe",
    "zero_shot",
]
