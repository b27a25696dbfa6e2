"""Sources of models by name, named lists of models, and `load_model`.

* `timm:resnet50.a1_in1k`                  weights from the hub, downloaded by timm
* `timm:resnet50,checkpoint=FILE`          weights from a file: safetensors, or as torch.load(weights_only=True) reads
* `torchvision:resnet18[.IMAGENET1K_V1]`   torchvision's weights, or from a file in the same way
* `cosight:resnet20,checkpoint=FILE`       an architecture of this package
* `onnx:FILE`                              onnxruntime; `preprocessing.json` in the same folder, or options
* `python:package.module:function`         a user's nn.Module, model or function of arrays
* `openclip:ViT-B-32/TAG,classes=cifar-10` zero-shot among these classes, weights from the hub or a file; its option
                                           `templates`: openai (80 prompts, the default), simple (7) or a file
* `ensemble:A+B+[C,size=64]`               the mean of their probabilities
* `trials:FILE[,observer=NAME]`            answers computed elsewhere: see `recorded_answers`
* `vlm:gpt-4o[,reason=yes...]`             a vision-language model behind an OpenAI-compatible endpoint: see `vlm`

Options: `checkpoint`; `mean` and `std` (one number, or one per channel), `size` (side, or height/width),
`interpolation` and `crop` (fraction of the resized photo's side that is kept) instead of the model's own; `layer` (for
features); `classes` (a label space, or a file of class names: a JSON list, or one per line); `outputs` (logits or
probabilities, for onnx and python); `name` (the observer's name). Another package adds a source through the entry point
group `cosight.sources`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NoReturn

from cosight.devices import Precision, check_device_name, check_placement
from cosight.errors import InvalidInput
from cosight.extras import require_for
from cosight.models.architectures import load_cosight
from cosight.models.ensembles import Ensemble, ensemble
from cosight.models.model import Model, check_file, place
from cosight.models.model_spec import KEYS, ModelSpec, checkpoint_of, parse
from cosight.models.onnx_models import ONNX_KEYS, check_onnx, check_onnx_placement, load_onnx, onnx_files
from cosight.models.openclip_models import OPENCLIP_KEYS, load_openclip, zero_shot
from cosight.models.python_models import PYTHON_KEYS, as_model, check_python, load_python
from cosight.models.recorded_answers import RECORDED_KEYS, check_recorded
from cosight.models.timm_models import check_timm, load_timm
from cosight.models.torch_models import TorchModel
from cosight.models.torchvision_models import check_torchvision, load_torchvision
from cosight.models.vlm.endpoint import check_endpoint
from cosight.models.vlm.settings import VLM_KEYS, read_settings
from cosight.registry import Registry
from cosight.trials.spaces import LabelSpace

__all__ = [
    "KEYS",
    "ModelList",
    "ModelSource",
    "check_model_name",
    "check_model_spec",
    "load_features",
    "load_model",
    "load_torch",
    "model_lists",
    "sources",
    "spec_files",
]


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Registry entry of a source of models.

    Args:
        name: Name before the colon.
        load: Loads the model of a spec.
        keys: Options that it takes.
        summary: One sentence.
        check: Raises what can be known to be wrong at once, such as a missing file.
        check_name: Raises if there is no model of this name; it may import the library that knows.
        check_placement: Raises if models cannot run on this device in this precision.
        files: Returns the files that decide the answers; None if only loading the model tells.
        among: Loads a model that chooses among the classes of any label space.
    """

    name: str
    load: Callable[[ModelSpec], Model]
    keys: tuple[str, ...]
    summary: str
    check: Callable[[ModelSpec], object] | None = None
    check_name: Callable[[ModelSpec], None] | None = None
    check_placement: Callable[[str, Precision], None] | None = None
    files: Callable[[ModelSpec], Sequence[Path]] | None = None
    among: Callable[[ModelSpec, LabelSpace], Model] | None = None


sources: Registry[ModelSource] = Registry("source", listed=False)


def check_model_spec(line: str) -> None:
    """Raise if a line cannot name a model, as far as is known at once: form, source, options and files."""
    spec = parse(line)
    source = sources[spec.source]
    spec.allow(source.keys)
    require_for(f"{spec.source}:")
    path = checkpoint_of(spec)
    if path is not None:
        check_file(path, "a checkpoint")
    if source.check is not None:
        source.check(spec)
    for member in spec.members:
        check_model_spec(str(member))


def check_model_name(line: str, *, device: str = "auto", precision: Precision = "float32") -> None:
    """Raise if a source has no model of this name, or not on this device. The libraries that know are imported."""
    spec = parse(line)
    source = sources[spec.source]
    if source.check_placement is not None:
        source.check_placement(device, precision)
    if source.check_name is not None:
        source.check_name(spec)
    for member in spec.members:
        check_model_name(str(member), device=device, precision=precision)


def spec_files(spec: ModelSpec) -> list[Path] | None:
    """Return the files that, with the spec itself, decide a model's answers; None if only loading it tells."""
    if spec.members:
        parts = [spec_files(member) for member in spec.members]
        return None if None in parts else [path for part in parts for path in part or ()]
    source_files = sources[spec.source].files
    return None if source_files is None else list(source_files(spec))


def load_model(
    model: str | ModelSpec,
    *,
    device: str = "auto",
    precision: Precision = "float32",
    features: bool = False,
    space: LabelSpace | None = None,
) -> Model:
    """Load a model from any source.

    Args:
        model: Name of the model, `source:name[,key=value...]`.
        device: Where the model runs: cpu, cuda, cuda:N, mps, or auto (a GPU if there is one).
        precision: float32, bfloat16 or float16, for models in torch.
        features: Whether answers have features; the option `layer` has the same effect.
        space: Label space of a zero-shot model whose name has no `classes`.

    Returns:
        The model.

    Raises:
        InvalidInput: An option is wrong, weights cannot be loaded, the device is not available, or a package is
            missing.
        UnknownName: There is no such source or model; the message suggests the nearest ones.

    >>> from safetensors.torch import save_file
    >>> from cosight.models.cifar_resnet import CifarResNet
    >>> save_file(CifarResNet(3).state_dict(), "resnet20.safetensors")  # untrained
    >>> load_model("cosight:resnet20,checkpoint=resnet20.safetensors").classes
    10
    """
    spec = parse(model) if isinstance(model, str) else model
    source = sources[spec.source]
    spec.allow(source.keys)
    check_device_name(device)
    try:
        if source.among is not None and space is not None and spec.get("classes") is None:
            loaded = source.among(spec, space)
        else:
            loaded = source.load(spec)
    except ImportError as error:
        raise InvalidInput(f"{spec.source} models need {error.name}; pip install 'cosight[models]'") from error
    return place(as_model(loaded, features=features, layer=spec.get("layer")), device, precision)


def load_torch(model: str | ModelSpec, *, device: str = "auto", precision: Precision = "float32") -> TorchModel:
    """Load a model in torch, for gradients.

    Args:
        model: Name of the model.
        device: As for `load_model`.
        precision: As for `load_model`.

    Returns:
        The model.

    Raises:
        InvalidInput: As `load_model`, and if the model is not in torch.

    >>> from safetensors.torch import save_file
    >>> from cosight.models.cifar_resnet import CifarResNet
    >>> save_file(CifarResNet(3).state_dict(), "untrained.safetensors")  # untrained
    >>> load_torch("cosight:resnet20,checkpoint=untrained.safetensors").size
    (32, 32)
    """
    loaded = load_model(model, device=device, precision=precision)
    if not isinstance(loaded, TorchModel):
        raise InvalidInput(f"gradients need a model in torch, got {loaded.name}; use its checkpoint with timm, say")
    return loaded


@cache
def load_features(model: str, *, device: str = "auto", precision: Precision = "float32") -> TorchModel:
    """Load a model in torch with features, for gradients of its representations; loaded once per process.

    Args:
        model: Name of the model; its option `layer` chooses the features (default: the penultimate layer).
        device: As for `load_model`.
        precision: As for `load_model`.

    Returns:
        The model.

    Raises:
        InvalidInput: As `load_torch`, and if the penultimate layer cannot be found.
        UnknownName: There is no such layer; the message suggests the nearest ones.
    """
    loaded = load_torch(model, device=device, precision=precision)
    return loaded if loaded.tap is not None else loaded.with_features()


def _option_files(spec: ModelSpec) -> list[Path]:
    values = [spec.get(key) for key in ("checkpoint", "classes", "templates")]
    paths = [Path(value).expanduser() for value in values if value is not None]
    return [path for path in paths if path.is_file()]  # the others name label spaces and templates


def _load_ensemble(spec: ModelSpec, space: LabelSpace | None = None) -> Ensemble:
    if len(spec.members) < 2:  # before the one is loaded
        raise InvalidInput(f"an ensemble needs at least two members, got 1 in {spec}; join them with +")
    return ensemble([load_model(member, device="cpu", space=space) for member in spec.members], name=spec.label)


def _refuse_recorded(spec: ModelSpec) -> NoReturn:
    raise InvalidInput(f"recorded answers cannot answer images, got {spec}; use them with `cosight evaluate`")


def _refuse_vlm(spec: ModelSpec) -> NoReturn:
    raise InvalidInput(f"a vision-language model has no logits or features, got {spec}; use it with `cosight evaluate`")


for _source in (
    ModelSource(
        "timm",
        load_timm,
        KEYS,
        "Any architecture of timm, with its own weights or a checkpoint.",
        check_name=check_timm,
        check_placement=check_placement,
        files=_option_files,
    ),
    ModelSource(
        "torchvision",
        load_torchvision,
        KEYS,
        "torchvision's classifiers, with its weights or a checkpoint.",
        check_name=check_torchvision,
        check_placement=check_placement,
        files=_option_files,
    ),
    ModelSource(
        "cosight",
        load_cosight,
        KEYS,
        "Architectures of this package, trained here or elsewhere.",
        check_placement=check_placement,
        files=_option_files,
    ),
    ModelSource(
        "onnx",
        load_onnx,
        ONNX_KEYS,
        "Any classifier exported to ONNX, run by onnxruntime.",
        check=check_onnx,
        check_placement=check_onnx_placement,
        files=lambda spec: [*onnx_files(spec), *_option_files(spec)],
    ),
    ModelSource(
        "python",
        load_python,
        PYTHON_KEYS,
        "A user's module, model or function of arrays.",
        check_name=check_python,
        check_placement=check_placement,
    ),
    ModelSource(
        "openclip",
        load_openclip,
        OPENCLIP_KEYS,
        "open_clip's zero-shot models, among classes given as text.",
        check_placement=check_placement,
        files=_option_files,
        among=zero_shot,
    ),
    ModelSource(
        "ensemble",
        _load_ensemble,
        ("name",),
        "The mean of the probabilities of models joined by +.",
        among=_load_ensemble,
    ),
    ModelSource(
        "trials",
        _refuse_recorded,
        RECORDED_KEYS,
        "Answers computed elsewhere, in a trial file or folder.",
        check=check_recorded,
    ),
    ModelSource(
        "vlm",
        _refuse_vlm,
        VLM_KEYS,
        "Vision-language models behind an OpenAI-compatible endpoint.",
        check=read_settings,
        check_name=check_endpoint,
    ),
):
    sources.add(_source.name, _source)


@dataclass(frozen=True, slots=True)
class ModelList:
    """A named list of models to evaluate together, such as those of a paper.

    Args:
        name: Name of the list.
        models: Names of the models (`timm:resnet50.a1_in1k`), each once, in the order of the source.
        source: Where the list comes from.

    Raises:
        InvalidInput: The list is empty, or a model is repeated.

    >>> model_lists["laion-c-paper-main"].models[12]
    'timm:resnet50.a1_in1k'
    """

    name: str
    models: tuple[str, ...]
    source: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", tuple(self.models))  # JSON has lists
        specs = [parse(line) for line in self.models]
        if len(set(specs)) < len(specs) or not specs:
            repeated = next((str(spec) for spec in specs if specs.count(spec) > 1), "none")
            raise InvalidInput(f"a list of models must name at least one, each once, got {repeated} in {self.name}")


model_lists: Registry[ModelList] = Registry("model-list")

for _file in sorted(files(__package__).joinpath("model_lists").iterdir(), key=lambda file: file.name):
    _name = _file.name.removesuffix(".json")
    model_lists.add(_name, ModelList(name=_name, **json.loads(_file.read_text(encoding="utf-8"))))
