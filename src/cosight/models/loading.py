"""Where models come from, by name.

* `timm:resnet50.a1_in1k`                 weights from the hub, fetched by timm itself
* `timm:resnet50,checkpoint=FILE`         weights from a file: safetensors, or what torch.load(weights_only=True) reads
* `torchvision:resnet18[.IMAGENET1K_V1]`  the same two ways
* `cosight:resnet20,checkpoint=FILE`      one of our small architectures
* `onnx:FILE`                             onnxruntime; `preprocessing.json` beside it, or options
* `python:package.module:function`        one's own: gives an nn.Module, a model or a function of arrays
* `openclip:ViT-B-32/TAG,classes=cifar-10` zero-shot among these classes, weights from the hub or a file; its option
                                          `templates`: openai (80 prompts, the default), simple (7) or a file of them
* `ensemble:A+B+[C,size=64]`              the mean of their probabilities
* `trials:FILE[,observer=NAME]`           answers computed elsewhere: not shown images, see `recorded`

Options: `checkpoint`; `mean` and `std` (one number, or one a channel), `size` (side, or height/width), `interpolation`
and `crop` (the share of the shrunk photo's side that is kept) in place of the model's own; `layer` (features from
there); `classes` (a label space, or a file of class names: a JSON list, or one a line); `outputs` (logits or
probabilities, for onnx and python); `precision` (bf16 where the hardware has it; else float32; for models in torch). A
package outside cosight adds a source through the entry point group `cosight.sources`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import NoReturn

from cosight.errors import InvalidInput, UnknownName
from cosight.models.ensembles import Ensemble, ensemble
from cosight.models.model import Model
from cosight.models.model_spec import (
    KEYS,
    ModelSpec,
    changed,
    checkpoint_of,
    class_names_of,
    head_size,
    parse,
    precision_of,
)
from cosight.models.onnx_models import ONNX_KEYS, check_onnx, load_onnx, onnx_files
from cosight.models.openclip_models import OPENCLIP_KEYS, load_openclip, zero_shot
from cosight.models.preprocessing import Preprocessing
from cosight.models.python_models import PYTHON_KEYS, as_model, load_python
from cosight.models.recorded_answers import RECORDED_KEYS, check_recorded
from cosight.models.timm_models import check_timm, load_timm
from cosight.models.torch_models import Precision, TorchModel, load_weights, read_weights, wrap_module
from cosight.models.torchvision_models import check_torchvision, load_torchvision
from cosight.registry import Registry
from cosight.trials.spaces import LabelSpace

__all__ = [
    "KEYS",
    "ModelList",
    "ModelSource",
    "check_model_spec",
    "load_model",
    "load_torch",
    "model_lists",
    "sources",
    "spec_files",
]

_FILE_OPTIONS = ("checkpoint", "classes", "templates")  # options that may name files
_CIFAR = Preprocessing(size=(32, 32), interpolation="bilinear")


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where models come from: `load(spec)` gives one, `keys` are the options it takes."""

    name: str
    load: Callable[[ModelSpec], Model]
    keys: tuple[str, ...]
    summary: str
    check: Callable[[ModelSpec], None] | None = None  # what can be refused without loading anything
    files: Callable[[ModelSpec], Sequence[Path]] | None = None  # all that a line's answers follow from, if files tell
    among: Callable[[ModelSpec, LabelSpace], Model] | None = None  # where the model can choose among any classes


sources: Registry[ModelSource] = Registry("source", listed=False)


def check_model_spec(line: str) -> None:
    """Refuse a line that cannot stand for a model, as far as that can be told without loading it."""
    spec = parse(line)
    source = sources[spec.source]
    spec.allow(source.keys)
    path = checkpoint_of(spec)
    if path is not None and not path.is_file():
        raise InvalidInput(f"a checkpoint must be a file, got {path}, which is not there; check the path")
    if source.check is not None:
        source.check(spec)
    for member in spec.members:
        check_model_spec(str(member))


def spec_files(spec: ModelSpec) -> list[Path] | None:
    """The files that decide what a line stands for, besides the line itself; None where only loading it tells."""
    if spec.members:
        parts = [spec_files(member) for member in spec.members]
        return None if None in parts else [path for part in parts for path in part or ()]
    source_files = sources[spec.source].files
    return None if source_files is None else list(source_files(spec))


def _option_files(spec: ModelSpec) -> list[Path]:
    named = [Path(text).expanduser() for key in _FILE_OPTIONS if (text := spec.get(key)) is not None]
    return [path for path in named if path.is_file()]


def _onnx_and_option_files(spec: ModelSpec) -> list[Path]:
    return [*onnx_files(spec), *_option_files(spec)]


def load_model(
    model: str | ModelSpec, *, device: str = "cpu", features: bool = False, space: LabelSpace | None = None
) -> Model:
    """The model of this name from any source, ready to answer; with `features` (or `layer=`) its answers have them.

    A zero-shot model whose line names no classes chooses among those of `space`.
    """
    spec = parse(model) if isinstance(model, str) else model
    source = sources[spec.source]
    spec.allow(source.keys)
    try:
        free = source.among is not None and space is not None and spec.get("classes") is None
        loaded = source.among(spec, space) if free else source.load(spec)  # type: ignore[misc,arg-type]
    except ImportError as error:
        raise InvalidInput(f"{spec.source} models need {error.name}; pip install 'cosight[models]'") from error
    placed = loaded if device == "cpu" else _moved(loaded, device)
    precision = precision_of(spec)
    precise = placed if precision is None else _at_precision(placed, precision)
    return as_model(precise, name=spec.label, features=features, layer=spec.get("layer"))


def load_torch(model: str | ModelSpec, *, device: str = "cpu") -> TorchModel:
    """The model of this name, where gradients through it are needed: one in torch."""
    loaded = load_model(model, device=device)
    if not isinstance(loaded, TorchModel):
        raise InvalidInput(
            f"gradients need a model in torch, got {loaded.name}; take it from timm, say, by checkpoint="
        )
    return loaded


def _moved(model: Model, device: str) -> Model:
    if not isinstance(model, TorchModel):
        raise InvalidInput(f"only models in torch run on {device}, got {model.name}; leave the device out")
    return model.on(device)


def _at_precision(model: Model, precision: Precision) -> Model:
    if not isinstance(model, TorchModel):
        raise InvalidInput(f"precision is of models in torch, got {precision} for {model.name}; leave it out")
    return replace(model, precision=precision)


def _load_cosight(spec: ModelSpec) -> TorchModel:
    from cosight.models.architectures import TIMM, architectures, load_trained
    from cosight.models.cifar_resnet import BLOCKS, CifarResNet

    if spec.name in architectures or spec.name.startswith(TIMM):
        return load_trained(spec)
    if spec.name not in BLOCKS:
        there = ", ".join((*BLOCKS, *architectures))
        raise UnknownName(f"no cosight model is called {spec.name!r}; there are {there}, or timm:NAME as trained here")
    path = checkpoint_of(spec)
    if path is None:
        raise InvalidInput(f"cosight:{spec.name} has no weights of its own, got no checkpoint; add checkpoint=FILE")
    weights = read_weights(path)
    module = CifarResNet(BLOCKS[spec.name], head_size(weights, "linear") or 10)
    load_weights(weights, module, model=f"cosight:{spec.name}", path=path)
    own = changed(spec, _CIFAR)
    names = class_names_of(spec)
    return wrap_module(module, name=spec.label, preprocessing=own, outputs="logits", class_names=names)


def _load_ensemble(spec: ModelSpec, space: LabelSpace | None = None) -> Ensemble:
    if len(spec.members) < 2:  # before the one is loaded
        raise InvalidInput(f"an ensemble has two members or more, got 1 in {spec}; join them with +")
    return ensemble([load_model(member, space=space) for member in spec.members], name=spec.label)


def _refuse_recorded(spec: ModelSpec) -> NoReturn:
    raise InvalidInput(
        f"a model must be shown images, recorded answers see none, got {spec}; give them to `cosight evaluate`"
    )


for _source in (
    ModelSource(
        "timm",
        load_timm,
        KEYS,
        "Any architecture of timm, with its own weights or a checkpoint.",
        check=check_timm,
        files=_option_files,
    ),
    ModelSource(
        "torchvision",
        load_torchvision,
        KEYS,
        "torchvision's classifiers, with its weights or a checkpoint.",
        check=check_torchvision,
        files=_option_files,
    ),
    ModelSource(
        "cosight", _load_cosight, KEYS, "Architectures of our own, trained here or elsewhere.", files=_option_files
    ),
    ModelSource(
        "onnx",
        load_onnx,
        ONNX_KEYS,
        "Any classifier exported to ONNX, run by onnxruntime.",
        check=check_onnx,
        files=_onnx_and_option_files,
    ),
    ModelSource("python", load_python, PYTHON_KEYS, "One's own module, model or function of arrays."),
    ModelSource(
        "openclip",
        load_openclip,
        OPENCLIP_KEYS,
        "open_clip's zero-shot models, among classes given in words.",
        files=_option_files,
        among=zero_shot,
    ),
    ModelSource(
        "ensemble", _load_ensemble, (), "The mean of the probabilities of models joined by +.", among=_load_ensemble
    ),
    ModelSource(
        "trials",
        _refuse_recorded,
        RECORDED_KEYS,
        "Answers computed elsewhere, in a trial file or folder.",
        check=check_recorded,
    ),
):
    sources.add(_source.name, _source)


@dataclass(frozen=True, slots=True)
class ModelList:
    """Models by their lines (`timm:resnet50.a1_in1k`), each once, in the order of their `source`.

    >>> model_lists["laion-c-paper-main"].models[12]
    'timm:resnet50.a1_in1k'
    """

    name: str
    models: tuple[str, ...]
    source: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", tuple(self.models))  # a list, where it comes from a file
        specs = [parse(line) for line in self.models]
        if len(set(specs)) < len(specs) or not specs:
            twice = next((str(spec) for spec in specs if specs.count(spec) > 1), "none")
            raise InvalidInput(f"a list of models must name one or more, each once, got {twice} in {self.name}")


model_lists: Registry[ModelList] = Registry("model-list")

for _file in sorted(files(__package__).joinpath("model_lists").iterdir(), key=lambda file: file.name):
    _name = _file.name.removesuffix(".json")
    model_lists.add(_name, ModelList(name=_name, **json.loads(_file.read_text(encoding="utf-8"))))
