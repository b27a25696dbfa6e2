"""A user's own: a torch module, a function of arrays, or anything that already is a model.

`python:package.module:function` is called without arguments and gives one of these; `package.module:thing` may also be
the module or the model itself.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from cosight.errors import InvalidInput, UnknownName, did_you_mean
from cosight.models.ensembles import Ensemble
from cosight.models.model import (
    Model,
    ModelOutputs,
    Outputs,
    as_logits,
    check_batch,
    check_class_names,
    check_outputs,
    fingerprint,
    probe_images,
    trying,
)
from cosight.models.model_spec import INPUT_KEYS, ModelSpec, changed, class_names_of, outputs_of, size_of
from cosight.models.onnx_models import OnnxModel
from cosight.models.preprocessing import Preprocessing, preprocess
from cosight.models.torch_models import TorchModel, wrap_module
from cosight.stimuli.images import Bytes, Floats

if TYPE_CHECKING:
    from torch import nn

__all__ = ["PYTHON_KEYS", "ArrayModel", "as_model", "load_python"]

PYTHON_KEYS = (*INPUT_KEYS, "layer", "classes", "outputs", "precision")


@dataclass(frozen=True, slots=True, eq=False)
class ArrayModel:
    """A function of arrays: normalised images (N, 3, height, width) -> logits, (logits, features), or `ModelOutputs`.

    Its weights cannot be seen: `weights_digest` is a digest of its answers to fixed images.
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
        """What changes its answers besides weights and preprocessing, for the record."""
        return {"outputs": self.outputs, "features": self.keeps_features}

    def prepare(self, image: Bytes) -> Floats:
        """What it would see of this photo: float32 (3, height, width) in [0, 1]."""
        return preprocess(image, self.preprocessing)

    def answer(self, batch: Floats) -> ModelOutputs:
        """Prepared photos (N, 3, height, width) -> logits, and features where they are asked for."""
        check_batch(batch, name=self.name, size=self.preprocessing.size)
        values, features = _called(self.function, batch, self.preprocessing, self.name)
        if values.shape != (len(batch), self.classes):
            raise InvalidInput(f"{self.name} must give ({len(batch)}, {self.classes}) answers, it gave {values.shape}")
        return ModelOutputs(as_logits(values, self.outputs), features if self.keeps_features else None)

    def with_features(self, layer: str | None = None) -> ArrayModel:
        """The same model, whose answers have the features that the function gives."""
        given = _called(self.function, probe_images(self.preprocessing.size), self.preprocessing, self.name)[1]
        if layer is not None or given is None:
            got = f"got layer={layer}" if layer else "this one gives logits alone"
            raise InvalidInput(f"features of {self.name} are the second thing its function returns, {got}")
        return replace(self, keeps_features=True)


def as_model(
    thing: object,
    *,
    name: str,
    preprocessing: Preprocessing | None = None,
    outputs: Outputs | None = None,
    class_names: tuple[str, ...] | None = None,
    features: bool = False,
    layer: str | None = None,
) -> Model:
    """An nn.Module, a function of arrays or a model, as a model that `cosight` can ask.

    `preprocessing` is what becomes of photos and is needed, but for modules of timm, which know it, and for models.
    Function and module are handed normalised pixels: with `mean=(0, 0, 0), std=(1, 1, 1)`, as they are, in [0, 1].
    """
    model = _adopted(thing, name, preprocessing, outputs, class_names)
    return _featured(model, layer) if features or layer else model


def _adopted(
    thing: object,
    name: str,
    preprocessing: Preprocessing | None,
    outputs: Outputs | None,
    class_names: tuple[str, ...] | None,
) -> Model:
    if _is_model(thing):
        if preprocessing or outputs or class_names:
            raise InvalidInput(f"{name} is a model and has its own preprocessing, outputs and class names; give none")
        return thing
    if _is_module(thing):
        own = preprocessing or _known(thing, name)
        return _told_apart(wrap_module(thing, name=name, preprocessing=own, outputs=outputs, class_names=class_names))
    if not callable(thing) or isinstance(thing, type):
        kind = f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__
        raise InvalidInput(f"a model is an nn.Module, a function of arrays or has {_members()}, {name} is {kind}")
    if preprocessing is None:
        raise InvalidInput(f"what becomes of photos before {name} is not known; {_WAY_OUT}")
    return _array_model(thing, name, preprocessing, outputs, class_names)


def _told_apart(model: TorchModel) -> TorchModel:
    """What a module of one's own does with its weights is in its code: its answers to fixed images stand for that."""
    behaviour = fingerprint(lambda batch: model.answer(batch).logits, model.size, {"weights": model.weights_digest})
    return replace(model, weights_digest=behaviour)


_WAY_OUT = "give preprocessing (on a line: size, mean and std; mean=0,std=1 for pixels in [0, 1])"


def _members() -> str:
    return ", ".join(member for member in dir(Model) if not member.startswith("_"))


def _is_model(thing: object) -> TypeGuard[Model]:
    return isinstance(thing, Model) and not isinstance(thing, type)  # a class may have the members too


def _is_module(thing: object) -> TypeGuard[nn.Module]:
    torch = sys.modules.get("torch")  # without torch there are no modules
    return torch is not None and isinstance(thing, torch.nn.Module)


def _known(module: nn.Module, name: str) -> Preprocessing:
    if not hasattr(module, "pretrained_cfg"):
        raise InvalidInput(f"what becomes of photos before {name} is not known; {_WAY_OUT}")
    from cosight.models.timm_models import timm_preprocessing

    return timm_preprocessing(module)


def _array_model(
    function: Callable[[Floats], Any],
    name: str,
    preprocessing: Preprocessing,
    outputs: Outputs | None,
    class_names: tuple[str, ...] | None,
) -> ArrayModel:
    def asked(batch: Floats) -> Any:
        return _called(function, batch, preprocessing, name)[0]

    probe = probe_images(preprocessing.size)
    with trying(name, preprocessing.size):
        values = asked(probe)
    sort = check_outputs(values, outputs, name=name, images=len(probe))
    names = check_class_names(class_names, values.shape[1], name=name)
    digest = fingerprint(asked, preprocessing.size, preprocessing.facts)
    return ArrayModel(name, function, preprocessing, values.shape[1], digest, names, sort)


def _called(
    function: Callable[[Floats], Any], batch: Floats, preprocessing: Preprocessing, name: str
) -> tuple[Any, Floats | None]:
    """What the function gives for a batch: answers as an array, and features where it gives them."""
    mean, std = (
        np.array(values, dtype=np.float32).reshape(1, -1, 1, 1) for values in (preprocessing.mean, preprocessing.std)
    )
    given = function((batch - mean) / std)
    if isinstance(given, ModelOutputs):
        return given.logits, given.features
    logits, features = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if features is None:
        return _numbers(logits, name), None
    table = _numbers(features, name)
    if table.ndim < 2 or len(table) != len(batch):
        raise InvalidInput(f"features have one row an image, {name} gives {table.shape} for {len(batch)} images")
    return _numbers(logits, name), table.reshape(len(batch), -1)


def _numbers(values: Any, name: str) -> Floats:
    detached = values.detach().cpu() if hasattr(values, "detach") else values
    try:
        return np.asarray(detached, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must give an array of numbers, it gave {type(values).__name__}") from error


def _featured(model: Any, layer: str | None) -> Model:
    """The model with features in its answers, or one line saying why not."""
    if hasattr(model, "with_features"):
        return model.with_features(layer)  # type: ignore[no-any-return]
    probe = probe_images(model.preprocessing.size)
    if layer is not None or model.answer(probe).features is None:
        raise InvalidInput(f"{model.name} gives no features; have its `answer` give them, or a method `with_features`")
    return model  # type: ignore[no-any-return]


def load_python(spec: ModelSpec) -> Model:
    """`python:package.module:function`, with the current folder among those that are looked through."""
    thing = _found(spec)
    if not _is_module(thing) and not _is_model(thing):
        thing = _made(spec, thing)
    if _is_model(thing):
        if {key for key, _ in spec.options} - {"layer", "precision"}:
            raise InvalidInput(f"{spec} gives a model, which has its own preprocessing; leave the options out")
        return _renamed(thing, spec.label)
    return _adopted(thing, spec.label, _spec_preprocessing(spec, thing), outputs_of(spec), class_names_of(spec))


def _renamed(model: Model, name: str) -> Model:
    """A user's model under the name it was asked for."""
    ours = isinstance(model, TorchModel | ArrayModel | OnnxModel | Ensemble)
    return replace(model, name=name) if ours else _Named(model, name)  # type: ignore[type-var]


class _Named:
    """A model of a class we do not know, under another name."""

    def __init__(self, model: Model, name: str) -> None:
        self._model, self.name = model, name

    def __getattr__(self, member: str) -> Any:
        return getattr(self._model, member)

    def with_features(self, layer: str | None = None) -> _Named:
        return _Named(_featured(self._model, layer), self.name)


def _found(spec: ModelSpec) -> Any:
    path, colon, attribute = spec.name.partition(":")
    if not colon or not attribute.isidentifier():
        raise InvalidInput(f"a model of one's own is python:package.module:function, got {spec}")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # last, so that it hides nothing
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        why = "is not there" if error.name and path.startswith(error.name) else f"needs {error.name}"
        raise InvalidInput(
            f"{spec}: the module {path} {why}; look at its name, the folder you are in, PYTHONPATH"
        ) from error
    except Exception as error:  # the user's code
        raise InvalidInput(f"{spec}: importing {path} raised {_told(error)}") from error
    if not hasattr(module, attribute):
        public = [name for name in vars(module) if not name.startswith("_")]
        guess = did_you_mean(attribute, public, otherwise="check its name")
        raise UnknownName(f"the module {path} has no {attribute!r}; {guess}")
    return getattr(module, attribute)


def _made(spec: ModelSpec, function: Any) -> Any:
    if not callable(function):
        raise InvalidInput(f"{spec} must be a function that gives a model, it is {type(function).__name__}")
    try:
        return function()
    except Exception as error:  # the user's code
        raise InvalidInput(f"{spec} is called without arguments and raised {_told(error)}") from error


def _told(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0][:120]
    return f"{type(error).__name__}: {first}"


def _spec_preprocessing(spec: ModelSpec, thing: object) -> Preprocessing | None:
    """What the options say, over what a module of timm knows; None where nothing is said."""
    if hasattr(thing, "pretrained_cfg") and _is_module(thing):
        return changed(spec, _known(thing, spec.label))
    size = size_of(spec)
    if not callable(thing):
        return None
    if size is None or spec.get("mean") is None or spec.get("std") is None:
        raise InvalidInput(f"what becomes of photos before {spec.label} is not known; {_WAY_OUT}")
    return changed(spec, Preprocessing(size))
