"""A user's own model: a torch module, a function of arrays, or an object that already is a model.

`python:package.module:function` names a function without arguments that returns one of these; `package.module:thing`
may also be the module or the model itself.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from cosight.devices import Precision, check_device_name
from cosight.errors import InvalidInput, UnknownName, did_you_mean, first_line
from cosight.models.ensembles import Ensemble
from cosight.models.model import (
    Model,
    ModelOutputs,
    NoFeatures,
    Outputs,
    as_logits,
    behaviour_digest,
    check_batch,
    check_class_names,
    check_outputs,
    explain_errors,
    place,
    probe_images,
)
from cosight.models.model_spec import (
    INPUT_KEYS,
    ModelSpec,
    check_display_name,
    class_names_of,
    outputs_of,
    preprocessing_of,
    size_of,
)
from cosight.models.onnx_models import OnnxModel
from cosight.models.preprocessing import Preprocessing, normalise, preprocess
from cosight.models.torch_models import TorchModel, wrap_module
from cosight.stimuli.images import Bytes, Floats

if TYPE_CHECKING:
    from torch import nn

__all__ = ["PYTHON_KEYS", "ArrayModel", "as_model", "check_python", "load_python"]

PYTHON_KEYS = (*INPUT_KEYS, "layer", "classes", "outputs", "name")


@dataclass(frozen=True, slots=True, eq=False)
class ArrayModel:
    """A function of arrays: normalised images (N, 3, height, width) -> logits, (logits, features), or `ModelOutputs`.

    Make it with `as_model`. `weights_digest` is a digest of its answers to fixed images.
    """

    name: str
    function: Callable[[Floats], Any]
    preprocessing: Preprocessing
    classes: int
    weights_digest: str
    class_names: tuple[str, ...] | None = None
    outputs: Outputs = "logits"
    keeps_features: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """What changes the answers besides weights and preprocessing, for run records."""
        return {"outputs": self.outputs, "features": self.keeps_features}

    def prepare(self, image: Bytes) -> Floats:
        """Return the model's input for a photo: float32 (3, height, width) in [0, 1]."""
        return preprocess(image, self.preprocessing)

    def answer(self, batch: Floats) -> ModelOutputs:
        """Compute logits, and features if requested, of prepared photos (N, 3, height, width)."""
        check_batch(batch, name=self.name, size=self.preprocessing.size)
        values, features = _call(self.function, batch, self.preprocessing, self.name)
        if values.shape != (len(batch), self.classes):
            raise InvalidInput(
                f"{self.name} must return an array of ({len(batch)}, {self.classes}), it returned {values.shape}"
            )
        return ModelOutputs(as_logits(values, self.outputs), features if self.keeps_features else None)

    def with_features(self, layer: str | None = None) -> ArrayModel:
        """Return the same model with the features that the function returns."""
        _, features = _call(self.function, probe_images(self.preprocessing.size), self.preprocessing, self.name)
        if layer is not None or features is None:
            got = f"got layer={layer}" if layer else "this one returns logits alone"
            reason = f"features of {self.name} are the second value its function returns, {got}"
            raise (InvalidInput if layer else NoFeatures)(reason)
        return replace(self, keeps_features=True)


def _call(
    function: Callable[[Floats], Any], batch: Floats, preprocessing: Preprocessing, name: str
) -> tuple[Any, Floats | None]:
    """Return the function's outputs for a batch as an array, and its features if it returns them."""
    values = function(normalise(batch, preprocessing))
    if isinstance(values, ModelOutputs):
        return values.logits, values.features
    outputs, features = values if isinstance(values, tuple) and len(values) == 2 else (values, None)
    if features is None:
        return _to_array(outputs, name), None
    table = _to_array(features, name)
    if table.ndim < 2 or len(table) != len(batch):
        raise InvalidInput(f"features need one row per image, {name} returns {table.shape} for {len(batch)} images")
    return _to_array(outputs, name), table.reshape(len(batch), -1)


def _to_array(values: Any, name: str) -> Floats:
    detached = values.detach().cpu() if hasattr(values, "detach") else values
    try:
        return np.asarray(detached, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must return an array of numbers, it returned {type(values).__name__}") from error


def as_model(
    thing: object,
    *,
    name: str | None = None,
    preprocessing: object = None,
    outputs: Outputs | None = None,
    class_names: tuple[str, ...] | None = None,
    features: bool = False,
    layer: str | None = None,
    device: str = "auto",
    precision: Precision | None = None,
) -> Model:
    """Make a model of an nn.Module or a function of arrays.

    Args:
        thing: A module or function of normalised images (N, 3, height, width), or a model.
        name: Observer name (default: python: and the name of the class or function; a model keeps its own).
        preprocessing: How photos are prepared: `Preprocessing(size=224)`, torchvision's weights
            (`ResNet50_Weights.DEFAULT`), their transforms, or a `Compose` of Resize, CenterCrop, ToTensor and
            Normalize. A module of timm has it in its configuration, a model has its own; otherwise it is needed.
        outputs: Whether the outputs are logits or probabilities; needed if they look like probabilities.
        class_names: Names of the outputs.
        features: Whether answers have features.
        layer: Path of the submodule whose output is the features (default: the penultimate layer).
        device: Device of a module: auto, cpu, cuda, cuda:N or mps. The module is moved there. With auto a module on the
            CPU is moved to a GPU if there is one; one that is on a GPU, or already is a model, stays where it is.
        precision: float32, bfloat16 or float16, for modules (default: float32; a model keeps its own).

    Returns:
        A model whose `answer` returns logits.

    Raises:
        InvalidInput: `thing` cannot be a model, it does not return logits for two images, its preprocessing is not
            known, or the device is not available.

    >>> def mean_colour(images):
    ...     return images.mean(axis=(2, 3))
    >>> as_model(mean_colour, preprocessing=Preprocessing(size=8, mean=0, std=1)).name
    'python:mean_colour'
    """
    if name is not None:
        check_display_name(name)
    check_device_name(device)
    model = _adopt(thing, name, preprocessing, outputs, class_names)
    if features or layer:
        model = _with_features(model, layer)
    current = getattr(model, "device", "cpu")
    if device == "auto" and (_is_model(thing) or current != "cpu"):
        return model if precision is None else place(model, current, precision)
    return place(model, device, precision or "float32")


def _adopt(
    thing: object,
    name: str | None,
    preprocessing: object,
    outputs: Outputs | None,
    class_names: tuple[str, ...] | None,
) -> Model:
    if _is_model(thing):
        if preprocessing or outputs or class_names:
            raise InvalidInput(
                f"{name or thing.name} is a model with its own preprocessing, outputs and class names; leave these "
                "arguments out"
            )
        return thing if name in (None, thing.name) else _rename(thing, name)
    name = name or f"python:{getattr(thing, '__name__', type(thing).__name__)}"
    if not callable(thing) or isinstance(thing, type):
        kind = f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__
        members = ", ".join(member for member in dir(Model) if not member.startswith("_"))
        raise InvalidInput(f"a model is an nn.Module, a function of arrays or has {members}, {name} is {kind}")
    if preprocessing is None and hasattr(thing, "pretrained_cfg"):
        from cosight.models.timm_models import timm_preprocessing

        preprocessing = timm_preprocessing(thing)  # type: ignore[arg-type]
    elif preprocessing is None:
        raise InvalidInput(
            f"how photos are prepared for {name} is not known; say it, for example as_model(net, "
            "preprocessing=Preprocessing(size=224)), which normalises as for ImageNet (mean=0, std=1: pixels in [0, 1])"
        )
    elif not isinstance(preprocessing, Preprocessing):
        from cosight.models.torchvision_models import torchvision_preprocessing

        preprocessing = torchvision_preprocessing(preprocessing)
    if _is_module(thing):
        module = wrap_module(thing, name=name, preprocessing=preprocessing, outputs=outputs, class_names=class_names)
        # A user's code decides what the weights do, so the digest includes answers to fixed images.
        facts = {"weights": module.weights_digest}
        digest = behaviour_digest(lambda batch: module.answer(batch).logits, module.size, facts)
        return replace(module, weights_digest=digest)
    function, settings = thing, preprocessing

    def answer(batch: Floats) -> Any:
        return _call(function, batch, settings, name)[0]

    images = probe_images(settings.size)
    with explain_errors(name, settings.size):
        values = answer(images)
    outputs = check_outputs(values, outputs, name=name, images=len(images))
    names = check_class_names(class_names, values.shape[1], name=name)
    digest = behaviour_digest(answer, settings.size, settings.facts)
    return ArrayModel(name, function, settings, values.shape[1], digest, names, outputs)


def _rename(model: Model, name: str) -> Model:
    """Return a model with another name."""
    if isinstance(model, TorchModel | ArrayModel | OnnxModel | Ensemble):
        return replace(model, name=name)
    return _RenamedModel(model, name)


def _is_model(thing: object) -> TypeGuard[Model]:
    return isinstance(thing, Model) and not isinstance(thing, type)  # a class may have the members too


def _is_module(thing: object) -> TypeGuard[nn.Module]:
    torch = sys.modules.get("torch")  # without torch there are no modules
    return torch is not None and isinstance(thing, torch.nn.Module)


def _with_features(model: Any, layer: str | None) -> Model:
    """Return the model with features in its answers; raise if it has none."""
    if hasattr(model, "with_features"):
        return model.with_features(layer)  # type: ignore[no-any-return]
    if layer is not None or model.answer(probe_images(model.preprocessing.size)).features is None:
        raise (InvalidInput if layer else NoFeatures)(
            f"{model.name} has no features; return them from its `answer`, or add a method `with_features`"
        )
    return model  # type: ignore[no-any-return]


def check_python(spec: ModelSpec) -> None:
    """Raise if a module cannot be imported or has no such function."""
    _import_thing(spec)


def load_python(spec: ModelSpec) -> Model:
    """Load `python:package.module:function`; the current folder is searched last."""
    thing = _import_thing(spec)
    if not _is_module(thing) and not _is_model(thing):
        if not callable(thing):
            raise InvalidInput(f"{spec} must be a function that returns a model, it is {type(thing).__name__}")
        try:
            thing = thing()
        except Exception as error:  # the user's code
            raise InvalidInput(f"{spec} is called without arguments and raised {_describe(error)}") from error
    if _is_model(thing) and {key for key, _ in spec.options} - {"layer", "name"}:
        raise InvalidInput(f"{spec} returns a model, which has its own preprocessing; leave the options out")
    preprocessing: Preprocessing | None = None
    if hasattr(thing, "pretrained_cfg") and _is_module(thing):
        from cosight.models.timm_models import timm_preprocessing

        preprocessing = preprocessing_of(spec, timm_preprocessing(thing))
    elif callable(thing) and not _is_model(thing):
        size = size_of(spec)
        if size is None or spec.get("mean") is None or spec.get("std") is None:
            raise InvalidInput(
                f"how photos are prepared for {spec} is not known; add its size, mean and std, for example "
                "size=224,mean=0,std=1 for pixels in [0, 1], or let the function return as_model(net, "
                "preprocessing=Preprocessing(size=224))"
            )
        preprocessing = preprocessing_of(spec, Preprocessing(size))
    return _adopt(thing, spec.label, preprocessing, outputs_of(spec), class_names_of(spec))


class _RenamedModel:
    """A model of a class we do not know, with another name."""

    def __init__(self, model: Model, name: str) -> None:
        self._model, self.name = model, name

    def __getattr__(self, member: str) -> Any:
        return getattr(self._model, member)

    def with_features(self, layer: str | None = None) -> _RenamedModel:
        return _RenamedModel(_with_features(self._model, layer), self.name)


def _import_thing(spec: ModelSpec) -> Any:
    """Import the module of `package.module:thing` and return the attribute."""
    path, colon, attribute = spec.name.partition(":")
    if not colon or not attribute.isidentifier():
        raise InvalidInput(f"a Python model is named python:package.module:function, got {spec}")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # last, so that it hides no other module
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        reason = "does not exist" if error.name and path.startswith(error.name) else f"needs {error.name}"
        raise InvalidInput(
            f"{spec}: the module {path} {reason}; check its name, the current folder and PYTHONPATH"
        ) from error
    except Exception as error:  # the user's code
        raise InvalidInput(f"{spec}: importing {path} raised {_describe(error)}") from error
    if not hasattr(module, attribute):
        hint = did_you_mean(
            attribute, [name for name in vars(module) if not name.startswith("_")], otherwise="check it"
        )
        raise UnknownName(f"the module {path} has no {attribute!r}; {hint}")
    return getattr(module, attribute)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"
