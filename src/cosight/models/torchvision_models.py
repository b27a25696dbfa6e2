"""`torchvision:NAME[.WEIGHTS]`: torchvision's classifiers; the preprocessing of its weights and transforms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cosight.errors import InvalidInput, UnknownName, did_you_mean
from cosight.models.model_spec import ModelSpec, checkpoint_of, class_names_of, preprocessing_of
from cosight.models.preprocessing import Preprocessing, crop_fraction
from cosight.models.torch_models import TorchModel, explain_download_errors, load_weights, read_weights, wrap_module
from cosight.trials import label_spaces

if TYPE_CHECKING:
    from torch import nn

__all__ = ["check_torchvision", "load_torchvision", "torchvision_preprocessing"]

_EXAMPLE = "Preprocessing(size=224)"
# Steps of a Compose that change the type of an image and not what it shows. The functions are those of CLIP and
# open_clip; images are RGB here anyway.
_SCALING = ("ToTensor", "MaybeToTensor", "ConvertImageDtype", "ToDtype")  # bytes to [0, 1]
_NEUTRAL = (*_SCALING, "PILToTensor", "ToImage", "ToPureTensor", "RGB", "_convert_to_rgb", "_convert_image_to_rgb")

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
        stored = Path(torch.hub.get_dir(), "checkpoints", Path(urlsplit(weights.url).path).name)
        with explain_download_errors(f"the weights of {spec}", url=None if stored.is_file() else weights.url):
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
        preprocessing=preprocessing_of(spec, torchvision_preprocessing(weights)),
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


def torchvision_preprocessing(thing: Any) -> Preprocessing:
    """Return the preprocessing that torchvision's weights or transforms describe; the pixels are theirs.

    Args:
        thing: Weights (`ResNet50_Weights.DEFAULT`), their `transforms()`, or a `Compose` of Resize, CenterCrop, a
            conversion to a tensor, and Normalize.

    Returns:
        The preprocessing.

    Raises:
        InvalidInput: It is none of these, or has a step that `Preprocessing` does not describe.
    """
    transforms = getattr(thing, "transforms", None)
    if callable(transforms):  # weights
        thing = transforms()
        transforms = getattr(thing, "transforms", None)
    if hasattr(thing, "crop_size") and hasattr(thing, "resize_size"):  # what the weights of classifiers have
        side = thing.crop_size[0]
        return Preprocessing(
            side,
            mean=tuple(thing.mean),
            std=tuple(thing.std),
            interpolation=thing.interpolation.value,
            crop=crop_fraction(side, thing.resize_size[0]),
        )
    if isinstance(transforms, Sequence):
        return _compose_preprocessing(transforms)
    raise InvalidInput(
        f"preprocessing must be a Preprocessing, weights of a torchvision classifier or a Compose, got "
        f"{type(thing).__name__}; for example {_EXAMPLE}"
    )


def _compose_preprocessing(steps: Sequence[Any]) -> Preprocessing:
    """Return the preprocessing of a Compose; raise where it does something else."""
    names = [getattr(step, "__name__", type(step).__name__) for step in steps]
    text = f"Compose({', '.join(names)})"
    order = [name for name in names if name not in _NEUTRAL]
    if order not in (["Resize", *crop, *norm] for crop in ([], ["CenterCrop"]) for norm in ([], ["Normalize"])):
        raise InvalidInput(
            f"a Compose is read as Resize, CenterCrop, ToTensor and Normalize, each once, in this order, got {text}; "
            f"describe what it does, for example {_EXAMPLE}"
        )
    if not any(name in _SCALING and getattr(step, "scale", True) for name, step in zip(names, steps, strict=True)):
        raise InvalidInput(f"a Compose must turn bytes into numbers from 0 to 1, {text} does not; add ToTensor()")
    found = dict(zip(names, steps, strict=True))
    resize, interpolation = _sides(found["Resize"]), found["Resize"].interpolation
    crop = _sides(found["CenterCrop"]) if "CenterCrop" in found else resize
    is_square = len(set(crop)) == len(set(resize)) == 1
    one_side = len(resize) == 1  # of the short side; the aspect ratio stays
    if getattr(found["Resize"], "max_size", None) or (one_side and "CenterCrop" not in found):
        raise InvalidInput(
            f"images must have one size after preprocessing, {text} leaves that to the photo; add CenterCrop"
        )
    if not is_square and (one_side or crop != resize):
        raise InvalidInput(
            f"a Compose with rectangular images is read only as Resize((height, width)), got {text} with sides "
            f"{list(resize)} and {list(crop)}; describe what it does with a Preprocessing"
        )
    normalise = found.get("Normalize")
    return Preprocessing(
        (crop[0], crop[-1]),
        mean=tuple(map(float, normalise.mean)) if normalise else 0.0,
        std=tuple(map(float, normalise.std)) if normalise else 1.0,
        interpolation=getattr(interpolation, "value", str(interpolation)),
        crop=crop_fraction(crop[0], resize[0]),
        crop_mode="center" if one_side else "squash",
    )


def _sides(step: Any) -> tuple[int, ...]:
    return (step.size,) if isinstance(step.size, int) else tuple(step.size)


def _select_weights(models: Any, name: str, tag: str) -> Any:
    weights = models.get_model_weights(name)
    if not tag:
        return weights.DEFAULT
    if tag not in weights.__members__:
        raise UnknownName(f"{name} of torchvision has no weights {tag!r}; there are {', '.join(weights.__members__)}")
    return weights[tag]
