"""`timm:NAME`: any architecture of timm, preprocessed as timm says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosight.errors import InvalidInput, UnknownName, did_you_mean
from cosight.models.model_spec import ModelSpec, changed, checkpoint_of, class_names_of, head_size, size_of
from cosight.models.preprocessing import Preprocessing
from cosight.models.torch_models import TorchModel, load_weights, read_weights, wrap_module

if TYPE_CHECKING:
    from torch import nn

__all__ = ["check_timm", "load_timm", "timm_preprocessing"]


def load_timm(spec: ModelSpec) -> TorchModel:
    """`timm:NAME` with the hub's weights, or with those of `checkpoint`."""
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    import timm

    _check_timm_name(timm, spec.name)
    path = checkpoint_of(spec)
    module: Any = _timm_from_hub(timm, spec) if path is None else _timm_from_file(timm, spec, path)
    if not module.num_classes:
        raise InvalidInput(f"a classifier is needed, timm:{spec.name} has no classes; choose a model with a head")
    names = class_names_of(spec) or (_imagenet_names(module) if path is None else None)
    own = changed(spec, timm_preprocessing(module))
    return wrap_module(module, name=spec.label, preprocessing=own, outputs="logits", class_names=names)


def check_timm(spec: ModelSpec) -> None:
    """Refuse a name that timm does not know; the nearest ones are told."""
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    import timm

    _check_timm_name(timm, spec.name)


def timm_preprocessing(module: nn.Module) -> Preprocessing:
    """What timm says becomes of a photo before this module of its making."""
    from timm.data.config import resolve_model_data_config

    facts = resolve_model_data_config(module)
    return Preprocessing(
        size=tuple(facts["input_size"][1:]),
        mean=tuple(facts["mean"]),
        std=tuple(facts["std"]),
        interpolation=facts["interpolation"],
        crop=facts["crop_pct"],
        crop_mode=facts["crop_mode"],
    )


def _imagenet_names(module: Any) -> tuple[str, ...] | None:
    """WordNet ids of the classes, for weights that timm knows to be ImageNet's or a part or parent of it."""
    from timm.data.imagenet_info import ImageNetInfo, infer_imagenet_subset

    subset = infer_imagenet_subset(module)
    names = tuple(ImageNetInfo(subset).label_names()) if subset else ()
    return names if len(names) == module.num_classes else None


def _check_timm_name(timm: Any, name: str) -> None:
    every = {*timm.list_models(), *timm.list_pretrained()}
    if name not in every:
        guess = did_you_mean(name, sorted(every), otherwise="timm.list_models() shows all")
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
    outputs = head_size(weights, head[0] if isinstance(head, tuple) else head)
    module: nn.Module = timm.create_model(spec.name, num_classes=outputs, **_timm_size(timm, spec))
    load_weights(weights, module, model=f"timm:{spec.name}", path=path)
    return module


def _timm_size(timm: Any, spec: ModelSpec) -> dict[str, Any]:
    """Architectures whose weights depend on the input size are told it when they are built."""
    size = size_of(spec)
    fixed = timm.models.get_pretrained_cfg_value(spec.name, "fixed_input_size")
    return {"img_size": size} if size and fixed else {}
