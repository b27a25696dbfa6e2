"""Where models come from, by name.

* `timm:resnet50.a1_in1k`                 weights from the hub, fetched by timm itself
* `timm:resnet50,checkpoint=FILE`         weights from a file: safetensors, or what torch.load(weights_only=True) reads
* `cosight:resnet20,checkpoint=FILE`      one of our small architectures

Options: `checkpoint`; `mean` and `std` (one number, or one a channel), `size` (side, or height/width), `interpolation`
and `crop` (the share of the shrunk photo's side that is kept) in place of the model's own. A package outside cosight
adds a source through the entry point group `cosight.sources`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosight.errors import InvalidInput, UnknownName
from cosight.models.grammar import ModelSpec, parse
from cosight.models.preprocessing import Preprocessing
from cosight.models.torch_models import TorchModel, put_weights, read_weights, wrapped
from cosight.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["KEYS", "Source", "load", "sources"]

KEYS = ("checkpoint", "mean", "std", "size", "interpolation", "crop")
_CIFAR = Preprocessing(size=(32, 32), interpolation="bilinear")


@dataclass(frozen=True, slots=True)
class Source:
    """Where models come from: `load(spec)` gives one, `keys` are the options it takes."""

    name: str
    load: Callable[[ModelSpec], TorchModel]
    keys: tuple[str, ...]
    summary: str


sources: Registry[Source] = Registry("source", listed=False)


def load(model: str | ModelSpec, *, device: str = "cpu") -> TorchModel:
    """The model of this name, ready to answer."""
    spec = parse(model) if isinstance(model, str) else model
    source = sources[spec.source]
    spec.allow(source.keys)
    try:
        loaded = source.load(spec)
    except ImportError as error:
        raise InvalidInput(f"{spec.source} models need {error.name}; pip install 'cosight[models]'") from error
    return replace(loaded, module=loaded.module.to(device))


def _load_cosight(spec: ModelSpec) -> TorchModel:
    from cosight.models.small import BLOCKS, CifarResNet

    if spec.name not in BLOCKS:
        raise UnknownName(f"no cosight model is called {spec.name!r}; there are {', '.join(BLOCKS)}")
    path = _checkpoint(spec)
    if path is None:
        raise InvalidInput(f"cosight:{spec.name} has no weights of its own, got no checkpoint; add checkpoint=FILE")
    weights = read_weights(path)
    module = CifarResNet(BLOCKS[spec.name], _outputs(weights, "linear") or 10)
    put_weights(weights, module, model=f"cosight:{spec.name}", path=path)
    return wrapped(module, name=spec.label, preprocessing=_preprocessing(spec, _CIFAR))


def _load_timm(spec: ModelSpec) -> TorchModel:
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    import timm
    from timm.data.config import resolve_model_data_config

    _check_timm_name(timm, spec.name)
    path = _checkpoint(spec)
    module = _timm_from_hub(timm, spec) if path is None else _timm_from_file(timm, spec, path)
    facts = resolve_model_data_config(module)  # type: ignore[no-untyped-call]
    if not module.num_classes:
        raise InvalidInput(f"a classifier is needed, timm:{spec.name} has no classes; choose a model with a head")
    own = Preprocessing(
        size=facts["input_size"][1:],
        mean=tuple(facts["mean"]),
        std=tuple(facts["std"]),
        interpolation=facts["interpolation"],
        crop=facts["crop_pct"],
        crop_mode=facts["crop_mode"],
    )
    return wrapped(module, name=spec.label, preprocessing=_preprocessing(spec, own))


def _check_timm_name(timm: Any, name: str) -> None:
    every = {*timm.list_models(), *timm.list_pretrained()}
    if name not in every:
        near = get_close_matches(name, sorted(every), n=3)
        guess = f"did you mean {' or '.join(near)}?" if near else "timm.list_models() shows all"
        raise UnknownName(f"no timm model is called {name!r}; {guess}")


def _timm_from_hub(timm: Any, spec: ModelSpec) -> nn.Module:
    if not timm.models.is_model_pretrained(spec.name):
        raise InvalidInput(f"timm has no weights for {spec.name}, and none were given; add checkpoint=FILE")
    try:
        return timm.create_model(spec.name, pretrained=True, **_timm_size(timm, spec))  # type: ignore[no-any-return]
    except Exception as error:  # the hub's client and what is below it raise anything
        why = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
        raise InvalidInput(
            f"the weights of timm:{spec.name} must be fetched, got: {why}; or add checkpoint=FILE"
        ) from error


def _timm_from_file(timm: Any, spec: ModelSpec, path: Path) -> nn.Module:
    weights = read_weights(path)
    head = timm.models.get_pretrained_cfg_value(spec.name, "classifier")
    outputs = _outputs(weights, head[0] if isinstance(head, tuple) else head)
    module: nn.Module = timm.create_model(spec.name, num_classes=outputs, **_timm_size(timm, spec))
    put_weights(weights, module, model=f"timm:{spec.name}", path=path)
    return module


def _timm_size(timm: Any, spec: ModelSpec) -> dict[str, Any]:
    """Architectures whose weights depend on the input size are told it when they are built."""
    size = _size(spec)
    fixed = timm.models.get_pretrained_cfg_value(spec.name, "fixed_input_size")
    return {"img_size": size} if size and fixed else {}


def _checkpoint(spec: ModelSpec) -> Path | None:
    text = spec.get("checkpoint")
    return None if text is None else Path(text).expanduser()


def _outputs(weights: Mapping[str, Tensor], head: str | None) -> int | None:
    """How many classes the weights' last layer has, where they have it."""
    weight = weights.get(f"{head}.weight")
    return None if weight is None else int(weight.shape[0])


def _preprocessing(spec: ModelSpec, own: Preprocessing) -> Preprocessing:
    """The model's own preprocessing, but for what the options say."""
    crop = spec.numbers("crop")
    if crop is not None and len(crop) != 1:
        raise InvalidInput(f"crop must be one number, got {spec.get('crop')}")
    return replace(
        own,
        size=_size(spec) or own.size,
        mean=_per_channel(spec, "mean") or own.mean,
        std=_per_channel(spec, "std") or own.std,
        interpolation=dict(spec.options).get("interpolation", own.interpolation),
        crop=crop[0] if crop else own.crop,
    )


def _size(spec: ModelSpec) -> tuple[int, int] | None:
    given = spec.numbers("size")
    if given is None:
        return None
    if len(given) > 2 or any(side < 1 or side != int(side) for side in given):
        raise InvalidInput(f"size must be one or two whole numbers, a side or height/width, got {spec.get('size')}")
    return int(given[0]), int(given[-1])


def _per_channel(spec: ModelSpec, key: str) -> tuple[float, ...] | None:
    given = spec.numbers(key)
    if given is not None and len(given) not in (1, 3):
        raise InvalidInput(f"{key} must be one number or three, set apart by slashes, got {spec.get(key)}")
    return given * 3 if given is not None and len(given) == 1 else given


for _source in (
    Source("timm", _load_timm, KEYS, "Any architecture of timm, with its own weights or a checkpoint."),
    Source("cosight", _load_cosight, KEYS, "Small architectures of our own: the CIFAR ResNets."),
):
    sources.add(_source.name, _source)
