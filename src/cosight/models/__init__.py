"""Models: any classifier in one line, as something that turns photos into logits.

* model           what a model is: prepare, answer, and the facts that go with them
* model_spec      how it is named: `source:name[,key=value...]`
* loading         sources of models by name, and named lists of models
* preprocessing   what becomes of a photo before the model sees it
* features        the penultimate layer, or any by its path
* torch_models    models in torch, with gradients, and their weights; timm_models, torchvision_models, architectures
                  (those of VisAlign, large and small) and cifar_resnet make them
* onnx_models     models in onnxruntime
* openclip_models zero-shot models, among classes given in words
* python_models   a user's module, function or model
* ensembles       several as one
* probes          other classes for a model: a linear layer on its features
* abstention      how strange an image is to a model, and how ready it should be to refuse
* recorded_answers  answers computed elsewhere, looked up

Importing this imports neither torch nor onnxruntime; loading a model does.
"""

from cosight.models.ensembles import Ensemble, ensemble
from cosight.models.loading import ModelList, ModelSource, load_model, load_torch, model_lists, sources
from cosight.models.model import Model, ModelOutputs, ModelPreparation, Outputs
from cosight.models.model_spec import ModelSpec, ensemble_of, parse
from cosight.models.onnx_models import OnnxModel
from cosight.models.openclip_models import zero_shot
from cosight.models.preprocessing import Preprocessing, preprocess, resize_and_crop
from cosight.models.probes import Probe, ProbeModel, attach_probe, fit_probe, read_probe, write_probe
from cosight.models.python_models import ArrayModel, as_model
from cosight.models.recorded_answers import RecordedAnswers, load_recorded
from cosight.models.torch_models import TorchModel, load_weights, read_weights, weights_digest, wrap_module

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
    "ProbeModel",
    "RecordedAnswers",
    "TorchModel",
    "as_model",
    "attach_probe",
    "ensemble",
    "ensemble_of",
    "fit_probe",
    "load_model",
    "load_recorded",
    "load_torch",
    "load_weights",
    "model_lists",
    "parse",
    "preprocess",
    "read_probe",
    "read_weights",
    "resize_and_crop",
    "sources",
    "weights_digest",
    "wrap_module",
    "write_probe",
    "zero_shot",
]
