"""`torchvision:NAME[.WEIGHTS]`: torchvision's classifiers, with the preprocessing of their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cosight.errors import UnknownName, did_you_mean
from cosight.models.model_spec import ModelSpec, checkpoint_of, class_names_of, preprocessing_of
from cosight.models.preprocessing import Preprocessing, crop_fraction
from cosight.models.torch_models import TorchModel, explain_download_errors, load_weights, read_weights, wrap_module
from cosight.trials import label_spaces

if TYPE_CHECKING:
    from torch import nn

__all__ = ["check_torchvision", "load_torchvision", "torchvision_preprocessing"]

# The weights of these two were ported from TensorFlow: their networks normalise again, and loading weights enables it.
# Their initial weights are slow to draw.
_PORTED = ("googlenet", "inception_v3")


def load_torchvision(spec: ModelSpec) -> TorchModel:
    """Load `torchvision:resnet18[.WEIGHTS]` with torchvision's best weights, those named, or those of `checkpoint`."""
    check_torchvision(spec)
    import torch
    from torchvision import models  # type: ignore[import-untyped]

    name, _, tag = spec.name.partition(".")
    weights = _select_weights(models, name, tag)
    path = checkpoint_of(spec)
    module: nn.Module
    names: tuple[str, ...] | None = None
    if path is None:
        with explain_download_errors(f"the weights of {spec}"):
            module = models.get_model(name, weights=weights)
        # ImageNet-1k's categories are titles in the usual order
        is_imagenet = weights.name.startswith("IMAGENET1K")
        names = label_spaces["imagenet-1k"].classes if is_imagenet else tuple(weights.meta["categories"])
    else:
        state = read_weights(path)
        options: dict[str, Any] = {"init_weights": False, "transform_input": True} if name in _PORTED else {}
        with torch.device("meta"):  # names and shapes without values
            last = list(models.get_model(name, weights=None, **options).state_dict())[-1]
        if last in state and state[last].ndim:
            options["num_classes"] = int(state[last].shape[0])
        module = models.get_model(name, weights=None, **options)
        load_weights(state, module, model=f"torchvision:{name}", path=path)
    return wrap_module(
        module,
        name=spec.label,
        preprocessing=preprocessing_of(spec, torchvision_preprocessing(weights.transforms())),
        outputs="logits",
        class_names=class_names_of(spec) or names,
    )


def check_torchvision(spec: ModelSpec) -> None:
    """Raise if torchvision has no such model or weights; the message suggests the nearest names."""
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    from torchvision import models

    name, _, tag = spec.name.partition(".")
    names = models.list_models(module=models)
    if name not in names:
        hint = did_you_mean(name, names, otherwise="torchvision.models.list_models() lists all")
        raise UnknownName(f"no torchvision classifier is called {name!r}; {hint}")
    _select_weights(models, name, tag)


def torchvision_preprocessing(transforms: Any) -> Preprocessing:
    """Return the preprocessing of torchvision's transforms for a set of weights."""
    side = transforms.crop_size[0]
    return Preprocessing(
        size=(side, side),
        mean=tuple(transforms.mean),
        std=tuple(transforms.std),
        interpolation=transforms.interpolation.value,
        crop=crop_fraction(side, transforms.resize_size[0]),
    )


def _select_weights(models: Any, name: str, tag: str) -> Any:
    weights = models.get_model_weights(name)
    if not tag:
        return weights.DEFAULT
    if tag not in weights.__members__:
        raise UnknownName(f"{name} of torchvision has no weights {tag!r}; there are {', '.join(weights.__members__)}")
    return weights[tag]
