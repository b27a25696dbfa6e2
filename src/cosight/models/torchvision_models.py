"""`torchvision:NAME[.WEIGHTS]`: torchvision's classifiers, preprocessed as its weights' own transforms do."""

from __future__ import annotations

from math import nextafter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosight.errors import InvalidInput, UnknownName, did_you_mean
from cosight.models.model_spec import ModelSpec, changed, checkpoint_of, class_names_of
from cosight.models.preprocessing import Preprocessing
from cosight.models.torch_models import TorchModel, load_weights, read_weights, wrap_module
from cosight.trials import label_spaces

if TYPE_CHECKING:
    from torch import nn

__all__ = ["check_torchvision", "load_torchvision"]

# The weights of these two were brought over from TensorFlow: their networks normalise again, and fetching the weights
# says so; their first weights are drawn slowly unless told not to.
_OTHER_INPUT = ("googlenet", "inception_v3")


def load_torchvision(spec: ModelSpec) -> TorchModel:
    """`torchvision:resnet18` with torchvision's best weights, `.IMAGENET1K_V1` with those, or with `checkpoint`."""
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    from torchvision import models  # type: ignore[import-untyped]

    check_torchvision(spec)
    name, _, tag = spec.name.partition(".")
    weights = _weights(models, name, tag)
    path = checkpoint_of(spec)
    module = _fetched(models, spec, name, weights) if path is None else _from_file(models, name, path)
    own = changed(spec, _preprocessing(weights.transforms()))
    names = class_names_of(spec) or (_class_names(weights) if path is None else None)
    return wrap_module(module, name=spec.label, preprocessing=own, outputs="logits", class_names=names)


def check_torchvision(spec: ModelSpec) -> None:
    """Refuse a name or weights that torchvision does not know; the nearest names are told."""
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    from torchvision import models

    name, _, tag = spec.name.partition(".")
    every = models.list_models(module=models)
    if name not in every:
        guess = did_you_mean(name, every, otherwise="torchvision.models.list_models() shows all")
        raise UnknownName(f"no torchvision classifier is called {name!r}; {guess}")
    _weights(models, name, tag)


def _weights(models: Any, name: str, tag: str) -> Any:
    choices = models.get_model_weights(name)
    if not tag:
        return choices.DEFAULT
    if tag not in choices.__members__:
        raise UnknownName(f"{name} of torchvision has no weights {tag!r}; there are {', '.join(choices.__members__)}")
    return choices[tag]


def _class_names(weights: Any) -> tuple[str, ...]:
    """WordNet ids for ImageNet-1k, whose categories are its titles in the usual order; else the categories."""
    if weights.name.startswith("IMAGENET1K"):
        return label_spaces["imagenet-1k"].classes
    return tuple(weights.meta["categories"])


def _fetched(models: Any, spec: ModelSpec, name: str, weights: Any) -> nn.Module:
    try:
        return models.get_model(name, weights=weights)  # type: ignore[no-any-return]
    except Exception as error:  # urllib and the file system below raise anything
        why = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
        raise InvalidInput(f"the weights of {spec} must be fetched, got: {why}; or add checkpoint=FILE") from error


def _from_file(models: Any, name: str, path: Path) -> nn.Module:
    import torch

    weights = read_weights(path)
    options = {"init_weights": False, "transform_input": True} if name in _OTHER_INPUT else {}
    with torch.device("meta"):  # names and shapes, no numbers
        last = list(models.get_model(name, weights=None, **options).state_dict())[-1]
    classes = {"num_classes": int(weights[last].shape[0])} if last in weights and weights[last].ndim else {}
    module: nn.Module = models.get_model(name, weights=None, **options, **classes)
    load_weights(weights, module, model=f"torchvision:{name}", path=path)
    return module


def _preprocessing(transforms: Any) -> Preprocessing:
    side, before = transforms.crop_size[0], transforms.resize_size[0]
    share = side / before
    if int(side / share) != before:  # the share is to lead back to the same whole number
        share = nextafter(share, 0)
    return Preprocessing(
        size=(side, side),
        mean=tuple(transforms.mean),
        std=tuple(transforms.std),
        interpolation=transforms.interpolation.value,
        crop=share,
    )
