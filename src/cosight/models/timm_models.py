"""`timm:NAME`: any architecture of timm, with timm's preprocessing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cosight.errors import InvalidInput, UnknownName, did_you_mean
from cosight.models.model_spec import ModelSpec, checkpoint_of, class_names_of, head_size, preprocessing_of, size_of
from cosight.models.preprocessing import Preprocessing
from cosight.models.torch_models import (
    TorchModel,
    explain_download_errors,
    hub_url,
    load_weights,
    read_weights,
    wrap_module,
)

if TYPE_CHECKING:
    from torch import nn

__all__ = ["check_timm", "load_timm", "timm_preprocessing"]


def load_timm(spec: ModelSpec) -> TorchModel:
    """Load `timm:NAME` with weights from the hub, or from the file of `checkpoint`."""
    check_timm(spec)
    import timm

    path, size = checkpoint_of(spec), size_of(spec)
    # Architectures whose weights depend on the input size need it when they are built.
    fixed_size = timm.models.get_pretrained_cfg_value(spec.name, "fixed_input_size")
    options: dict[str, Any] = {"img_size": size} if size and fixed_size else {}
    module: Any
    if path is None:
        if not timm.models.is_model_pretrained(spec.name):
            raise InvalidInput(f"timm has no weights for {spec.name}; add checkpoint=FILE")
        repository = timm.models.get_pretrained_cfg_value(spec.name, "hf_hub_id")
        url = hub_url(repository.partition("@")[0]) if repository else None
        with explain_download_errors(f"the weights of timm:{spec.name}", url=url):
            module = timm.create_model(spec.name, pretrained=True, **options)
    else:
        weights = read_weights(path)
        head = timm.models.get_pretrained_cfg_value(spec.name, "classifier")
        classes = head_size(weights, head[0] if isinstance(head, tuple) else head)
        module = timm.create_model(spec.name, num_classes=classes, **options)
        load_weights(weights, module, model=f"timm:{spec.name}", path=path)
    if not module.num_classes:
        raise InvalidInput(f"a classifier is needed, timm:{spec.name} has no classes; choose a model with a head")
    return wrap_module(
        module,
        name=spec.label,
        preprocessing=preprocessing_of(spec, timm_preprocessing(module)),
        outputs="logits",
        class_names=class_names_of(spec) or (_imagenet_names(module) if path is None else None),
    )


def check_timm(spec: ModelSpec) -> None:
    """Raise if timm has no model of this name; the message suggests the nearest ones."""
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    import timm

    names = {*timm.list_models(), *timm.list_pretrained()}
    if spec.name not in names:
        hint = did_you_mean(spec.name, sorted(names), otherwise="timm.list_models() lists all")
        raise UnknownName(f"no timm model is called {spec.name!r}; {hint}")


def timm_preprocessing(module: nn.Module) -> Preprocessing:
    """Return the preprocessing that timm's configuration of a module describes."""
    from timm.data.config import resolve_model_data_config

    config = resolve_model_data_config(module)
    return Preprocessing(
        size=tuple(config["input_size"][1:]),
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        interpolation=config["interpolation"],
        crop=config["crop_pct"],
        crop_mode=config["crop_mode"],
    )


def _imagenet_names(module: Any) -> tuple[str, ...] | None:
    """Return WordNet ids of the classes, if timm knows that the weights are of ImageNet, a subset or a superset."""
    from timm.data.imagenet_info import ImageNetInfo, infer_imagenet_subset

    subset = infer_imagenet_subset(module)
    names = tuple(ImageNetInfo(subset).label_names()) if subset else ()
    return names if len(names) == module.num_classes else None
