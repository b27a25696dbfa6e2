"""Models: any classifier by name, as an object that turns photos into logits.

* model             the interface of a model: prepare, answer, and its facts
* model_spec        the name of a model, `source:name[,key=value...]`, and its options
* loading           sources of models by name, named lists of models, `load_model`
* preprocessing     how photos are resized, cropped and normalised
* torch_models      models in torch: gradients, features, weights
* timm_models, torchvision_models, openclip_models, onnx_models, python_models   one module per source
* architectures     the `cosight:` models, and architectures to train
* cifar_resnet, cifar_forms, k_wta   networks for images of 32 x 32, and k-winners-take-all
* ensembles         several models as one
* probes            other classes for a model: a linear layer on its features
* recorded_answers  answers computed elsewhere
* judges            which images look alike: LPIPS, DreamSim, a model's features
* abstention        how strange an image is to a model, and how likely the model should refuse to answer

Importing this package imports neither torch nor onnxruntime; loading a model does.
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
