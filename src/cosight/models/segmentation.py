"""Masks of objects from segmentation and salient-object models.

* `torchvision:deeplabv3_resnet50[.WEIGHTS][,checkpoint=FILE]`   any of torchvision's semantic segmentation models
* `torchvision:maskrcnn_resnet50_fpn[,checkpoint=FILE]`          torchvision's Mask R-CNN
* `onnx:FILE[,mean=...,std=...,size=...,output=NAME]`            any salient-object model, such as U2-Net: one map of
                                                                 the object, or one per class, background first

Options are those of classifiers. A model whose categories have names is asked for the object by its names; where it has
none of them, everything but the background counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from cosight.errors import InvalidInput, UnknownName, did_you_mean
from cosight.models.model_spec import ModelSpec, checkpoint_of, class_names_of, parse, size_of
from cosight.models.onnx_models import (
    ONNX_KEYS,
    check_onnx,
    input_size,
    onnx_digest,
    onnx_preprocessing,
    open_session,
    read_facts,
    run_session,
)
from cosight.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing, normalise, preprocess
from cosight.models.torch_models import explain_download_errors, load_weights, read_weights, weights_digest
from cosight.stimuli.composition.masks import Mask, largest_piece
from cosight.stimuli.images import Bytes, Floats, to_rgb

__all__ = ["SegmentationModel", "load_segmentation", "object_of_instances", "object_of_maps"]

_TORCHVISION_KEYS = ("checkpoint", "size", "classes")
_SHORT_SIDE = 520  # of photos for torchvision's semantic segmentation, as its weights were trained
_LONGEST = 1333 / 800  # long side of photos for Mask R-CNN, in short sides, as its weights were trained
_CERTAIN = 0.5  # score of an instance, probability of a pixel


class SegmentationModel(Protocol):
    """A model that finds the object of a photo."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def weights_digest(self) -> str: ...  # noqa: D102

    def find(self, image: Bytes, words: Collection[str]) -> Mask | None:
        """Return the mask of the object that these words name, of the photo's size; None if there is none."""
        ...


def load_segmentation(model: str | ModelSpec) -> SegmentationModel:
    """Load a segmentation or salient-object model.

    Args:
        model: Name of the model, `source:name[,key=value...]`.

    Returns:
        The model.

    Raises:
        InvalidInput: An option is wrong, weights cannot be loaded, or a package is missing.
        UnknownName: There is no such model; the message suggests the nearest ones.
    """
    spec = parse(model) if isinstance(model, str) else model
    loaders: dict[str, Callable[[ModelSpec], SegmentationModel]] = {
        "torchvision": _load_torchvision,
        "onnx": _load_onnx,
    }
    if spec.source not in loaders:
        raise InvalidInput(
            f"masks come from {' or '.join(loaders)} models, got {spec}; for example torchvision:deeplabv3_resnet50"
        )
    try:
        return loaders[spec.source](spec)
    except ImportError as error:
        raise InvalidInput(f"masks of {spec} need {error.name}; pip install 'cosight[models]'") from error


def object_of_maps(maps: NDArray[Any], categories: Sequence[str], words: Collection[str]) -> Mask:
    """Return where the object is, from the maps of a network.

    Args:
        maps: One map of the object, (height, width) or (1, height, width), as probabilities or logits; or one per
            category with the background first, (categories, height, width).
        categories: Names of the categories, if known.
        words: Names of the object.

    Returns:
        The mask, of the maps' size.

    >>> object_of_maps(np.array([[[3.0, -3.0]]]), (), ())
    array([[ True, False]])
    """
    values = np.asarray(maps, np.float64).reshape(-1, *maps.shape[-2:])
    if len(values) == 1:
        logits = values.min() < 0 or values.max() > 1
        return np.asarray(values[0] > (0 if logits else _CERTAIN))
    named = [index for index in _named(categories, words) if index]
    best = values.argmax(axis=0)
    return np.asarray(np.isin(best, named) if named else best != 0)


def object_of_instances(
    masks: NDArray[Any],
    labels: Sequence[int],
    scores: Sequence[float],
    categories: Sequence[str],
    words: Collection[str],
) -> Mask | None:
    """Return the largest instance, from the outputs of Mask R-CNN: those that the words name, else all of them.

    Args:
        masks: Probabilities, (instances, 1, height, width).
        labels: Category of each instance.
        scores: Confidence of each instance; less than .5 does not count.
        categories: Names of the categories.
        words: Names of the object.

    Returns:
        The mask, or None without an instance.
    """
    certain = [index for index, score in enumerate(scores) if score >= _CERTAIN]
    wanted = set(_named(categories, words))
    chosen = [index for index in certain if labels[index] in wanted] if wanted else certain
    found = [np.asarray(masks[index]).reshape(masks.shape[-2:]) > _CERTAIN for index in chosen]
    return max(found, key=lambda mask: mask.sum()) if found else None


def _named(categories: Sequence[str], words: Collection[str]) -> list[int]:
    """Return the indices of the categories that one of the words names."""
    known = {word.lower().replace("_", " ") for word in words}
    return [index for index, name in enumerate(categories) if name.lower().replace("_", " ") in known]


def _fit(mask: Mask, shape: tuple[int, ...]) -> Mask | None:
    """Return the largest piece of a mask, resized to a photo; None if nothing is left."""
    height, width = shape[:2]
    resized = cv2.resize(mask.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR) > _CERTAIN
    piece = largest_piece(np.asarray(resized))
    return piece if piece.any() else None


@dataclass(frozen=True, slots=True, eq=False)
class _OnnxSegmentation:
    name: str
    weights_digest: str
    session: Any
    preprocessing: Preprocessing
    output: str
    categories: tuple[str, ...]

    def find(self, image: Bytes, words: Collection[str]) -> Mask | None:
        batch = preprocess(image, self.preprocessing)[None]
        maps = run_session(self.session, [self.output], batch, self.preprocessing)[0]
        if maps.ndim not in (3, 4):
            raise InvalidInput(
                f"{self.name} must return maps (N, 1 or classes, height, width), its output {self.output} has shape "
                f"{maps.shape}; add output=NAME"
            )
        return _fit(object_of_maps(maps[0], self.categories, words), image.shape)


def _load_onnx(spec: ModelSpec) -> _OnnxSegmentation:
    spec.allow(ONNX_KEYS)
    check_onnx(spec)
    path = Path(spec.name).expanduser()
    session = open_session(path, spec)
    names = [str(item.name) for item in session.get_outputs()]
    output = spec.get("output") or names[0]  # U2-Net's fused map comes before its side maps
    if output not in names:
        raise UnknownName(f"{spec.label} has no output {output!r}; there are {', '.join(names)}")
    settings = onnx_preprocessing(spec, read_facts(path), input_size(session, path), path)
    whole = replace(settings, crop=1.0, crop_mode="squash")  # the map is about the whole photo
    return _OnnxSegmentation(spec.label, onnx_digest(path), session, whole, output, class_names_of(spec) or ())


@dataclass(frozen=True, slots=True, eq=False)
class _TorchSegmentation:
    name: str
    weights_digest: str
    module: Any
    short_side: int | None  # of the resized photo; None: the network resizes photos itself and finds instances
    categories: tuple[str, ...]

    def find(self, image: Bytes, words: Collection[str]) -> Mask | None:
        import torch

        pixels = to_rgb(image)
        if self.short_side is not None:
            scale = self.short_side / min(pixels.shape[:2])
            size = tuple(max(1, round(side * scale)) for side in pixels.shape[1::-1])
            method = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
            pixels = np.asarray(cv2.resize(pixels, size, interpolation=method), np.uint8)
        values: Floats = np.ascontiguousarray(pixels.transpose(2, 0, 1)).astype(np.float32) / np.float32(255)
        with torch.inference_mode():
            if self.short_side is not None:
                batch = normalise(values[None], Preprocessing(values.shape[1:], IMAGENET_MEAN, IMAGENET_STD))
                maps = self.module(torch.from_numpy(batch))["out"][0].numpy()
                return _fit(object_of_maps(maps, self.categories, words), image.shape)
            found = self.module([torch.from_numpy(values)])[0]
        masks, labels, scores = (found[name].numpy() for name in ("masks", "labels", "scores"))
        mask = object_of_instances(masks, labels, scores, self.categories, words)
        return None if mask is None else _fit(mask, image.shape)


def _load_torchvision(spec: ModelSpec) -> _TorchSegmentation:
    spec.allow(_TORCHVISION_KEYS)
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    from torchvision import models  # type: ignore[import-untyped]

    name, _, tag = spec.name.partition(".")
    semantic = models.list_models(module=models.segmentation)
    instances = [other for other in models.list_models(module=models.detection) if other.startswith("maskrcnn")]
    if name not in (*semantic, *instances):
        hint = did_you_mean(name, [*semantic, *instances], otherwise=f"there are {', '.join([*semantic, *instances])}")
        raise UnknownName(f"no torchvision segmentation model is called {name!r}; {hint}")
    known = models.get_model_weights(name)
    if tag and tag not in known.__members__:
        raise UnknownName(f"{name} of torchvision has no weights {tag!r}; there are {', '.join(known.__members__)}")
    weights = known[tag] if tag else known.DEFAULT
    categories = tuple(weights.meta["categories"])
    sides = size_of(spec)
    options: dict[str, Any] = {}
    if name in instances and sides:  # the network resizes photos itself
        options = {"min_size": sides[0], "max_size": round(sides[0] * _LONGEST)}
    path = checkpoint_of(spec)
    if path is None:
        with explain_download_errors(f"the weights of {spec}"):
            module = models.get_model(name, weights=weights, **options)
    else:
        state = read_weights(path)
        if name in semantic:
            options["aux_loss"] = any(key.startswith("aux_classifier.") for key in state)
        head = "roi_heads.box_predictor.cls_score.bias" if name in instances else _last_bias(state)
        if head in state:
            options["num_classes"] = int(state[head].shape[0])
        module = models.get_model(name, weights=None, weights_backbone=None, **options)
        load_weights(state, module, model=f"torchvision:{name}", path=path)
        categories = categories if options.get("num_classes") == len(categories) else ()
    short_side = None if name in instances else (sides or (_SHORT_SIDE,))[0]
    module = module.eval()
    return _TorchSegmentation(
        spec.label, weights_digest(module), module, short_side, class_names_of(spec) or categories
    )


def _last_bias(state: dict[str, Any]) -> str | None:
    """Return the name of the last bias of the main classifier of a semantic segmentation network."""
    return next(
        (key for key in reversed(state) if key.endswith(".bias") and not key.startswith("aux_classifier.")), None
    )
