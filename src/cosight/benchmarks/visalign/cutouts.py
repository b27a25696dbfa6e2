"""Objects cut out of photos, and the reference classifier that must still recognise them.

A mask comes from a file beside the photo, from a segmentation model, or from GrabCut. Automatic masks are often wrong:
a tusk for an elephant, two bars for a bear, a frog with its stone. So a classifier must recognise the object alone, on
each of three plain grounds: a fragment that happens to look like the class on one of them does not on the others. It
must not recognise the class in the rest of the photo, because then the mask has only a part of the object. Of a hybrid
it must recognise each of the two parts as well, and not what was cut off: a part that is recognised because of its fur
looks like the part that was cut off. Of an ensemble, every model must.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cosight.errors import InvalidInput
from cosight.models import Model, load_model
from cosight.models.model import ModelOutputs
from cosight.models.model_spec import parse
from cosight.models.output_space import output_space
from cosight.models.segmentation import SegmentationModel, load_segmentation
from cosight.stimuli.composition.compositing import on_plain_ground
from cosight.stimuli.composition.hybrids import Half, MaskedPicture, half_of
from cosight.stimuli.composition.masks import Mask, check_mask, describe_mask, foreground_mask
from cosight.stimuli.images import Bytes, Image, digest
from cosight.trials.mapping import label_map
from cosight.trials.spaces import LabelSpace

__all__ = ["GRABCUT", "UNVERIFIED", "Cutout", "Cutter", "RejectedObject", "load_check"]

GRABCUT = "grabcut"
UNVERIFIED = "none"


class RejectedObject(InvalidInput):
    """An object that cannot be used.

    `reason` is the same text for every object rejected for this reason. `photo` is the name of the photo if its object
    cannot be used in any image, and None if only this image cannot be made.
    """

    def __init__(self, message: str, reason: str, photo: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.photo = photo


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceClassifier:
    """A classifier that verifies what pictures show."""

    model: Model
    groups: Mapping[str, NDArray[np.int64]]  # class of the label space -> the model's outputs

    def beliefs(self, photo: Bytes, mask: Mask, label: str) -> NDArray[np.floating[Any]]:
        """Return the probability of a class for an object alone: the least one over plain grounds, for each model."""
        return self._least([on_plain_ground(photo, mask, grey=grey) for grey in _GROUNDS], label)

    def belief_in_rest(self, photo: Bytes, mask: Mask, label: str) -> float:
        """Return the probability of a class for a photo without the box of its object: the greatest one over models."""
        x, y, width, height = cv2.boundingRect(mask.astype(np.uint8))
        pictures = [photo.copy() for _ in _GROUNDS]
        for picture, grey in zip(pictures, _GROUNDS, strict=True):
            picture[y : y + height, x : x + width] = grey  # a box: the outline of the object would tell what it is
        return float(self._least(pictures, label).max())

    def _least(self, pictures: Sequence[Bytes], label: str) -> NDArray[np.floating[Any]]:
        """Return the least probability of a class over pictures, for each model of an ensemble."""
        outputs = self.model.answer(np.stack([self.model.prepare(picture) for picture in pictures]))
        models = [outputs] if outputs.members is None else [ModelOutputs(logits) for logits in outputs.members]
        return np.array([model.probabilities[:, self.groups[label]].sum(axis=1).min() for model in models])


@cache
def load_check(name: str, space: LabelSpace) -> ReferenceClassifier:
    """Load the reference classifier of a label space, once per process.

    Raises:
        InvalidInput: The model cannot be loaded, or cannot name a class of the label space.
    """
    model = load_model(name, space=space)
    try:
        groups = label_map(output_space(model, space)[0], space).groups
    except InvalidInput as error:
        raise InvalidInput(f"--check {name}: {error}; or --check none") from error
    return ReferenceClassifier(model, {c: np.array(g) for c, g in zip(space.classes, groups, strict=True)})


@cache
def _load_masks(name: str) -> SegmentationModel:
    return load_segmentation(name)


@dataclass(frozen=True, slots=True, eq=False)
class Cutout:
    """A photo and the mask of its object, with what the reference classifier said."""

    photo: Bytes
    mask: Mask
    facts: Mapping[str, Any]
    doubtful: bool = False  # the mask is likely to be wrong


@dataclass(frozen=True, slots=True)
class Cutter:
    """Finds the objects of photos and verifies them.

    Attributes:
        space: The classes.
        masks: A segmentation model, or "grabcut". A mask beside a photo is used in any case.
        check: The reference classifier, or "none".
        doubtful: Whether to use GrabCut's masks that are likely to be wrong.
    """

    space: LabelSpace
    masks: str = GRABCUT
    check: str = UNVERIFIED
    doubtful: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """The models behind masks and verification by name and weights, wherever their files are."""
        settings: dict[str, Any] = {}
        if self.masks != GRABCUT:
            model = _load_masks(self.masks)
            settings["masks"] = {"name": model.name, "weights": model.weights_digest}
        settings["check"] = UNVERIFIED
        if self.check != UNVERIFIED:
            reference = load_check(self.check, self.space).model
            settings["check"] = {"name": reference.name, "weights": reference.weights_digest}
        return settings

    @property
    def verification(self) -> tuple[str, ...]:
        """What a datasheet says about masks and verification."""
        masks = "a mask beside its photo, or else GrabCut"
        if self.masks != GRABCUT:
            masks = f"a mask beside its photo, or else {_load_masks(self.masks).name}"
        if self.check == UNVERIFIED:
            return (
                f"Composites (categories 2 and 5) are **unverified**: each object was cut out with {masks}, and no "
                "classifier looked at it. Look at every image before people see it.",
            )
        name = load_check(self.check, self.space).model.name
        return (
            f"Each object of a composite (categories 2 and 5) was cut out with {masks}.",
            f"{name} had to recognise every object alone on three plain grounds (probability {_RECOGNISED:g} or more "
            f"on each), and so each of the two parts of a hybrid (probability {_PART_RECOGNISED:g} or more); of an "
            "ensemble, every model had to. No model was to recognise the class in the rest of a photo whose mask was "
            "found automatically, or in the part of an object that a hybrid does not show (probability below "
            f"{_IN_REST:g}). What failed was left out, so the set favours objects that this model knows: do not rank "
            "it among others on this set.",
        )

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages whose version may change a mask or a verdict."""
        specs = [parse(name) for name in (self.masks, self.check) if name not in (GRABCUT, UNVERIFIED)]
        sources = {part.source for spec in specs for part in (spec.members or (spec,))}
        used = {"torchvision": ("torch", "torchvision"), "onnx": ("onnxruntime",), "timm": ("torch", "timm")}
        return tuple(dict.fromkeys(package for source in sorted(sources) for package in used.get(source, ())))

    def cut(self, photo: Bytes, label: str, given_mask: Image | None = None) -> Cutout:
        """Find the object of a photo of class `label`, and verify it.

        Args:
            photo: The photo.
            label: Its class.
            given_mask: The mask beside the photo, if there is one. It must be recognised like any other.

        Raises:
            RejectedObject: There is no object, its mask is likely to be wrong, or the classifier does not recognise it,
                or recognises it in the rest of the photo too.
            InvalidInput: The given mask does not fit the photo.
        """
        given = None if given_mask is None else check_mask(given_mask, photo.shape)
        key = (self, label, digest(photo), None if given is None else np.packbits(given).tobytes())
        if key not in _results:
            if len(_results) >= _MOST_RESULTS:
                _results.clear()
            try:
                mask, doubtful = self._find(photo, label) if given is None else (given, False)
                facts = self._verify(photo, mask, label, whole=given is None)
                _results[key] = (np.packbits(mask), facts, doubtful)
            except RejectedObject as error:
                _results[key] = error
        result = _results[key]
        if isinstance(result, RejectedObject):
            raise result
        bits, facts, doubtful = result
        mask = np.unpackbits(bits, count=photo.shape[0] * photo.shape[1]).reshape(photo.shape[:2]).astype(bool)
        return Cutout(photo, mask, facts, doubtful)

    def _find(self, photo: Bytes, label: str) -> tuple[Mask, bool]:
        """Return the mask of the object, and whether it is likely to be wrong."""
        if self.masks == GRABCUT:
            try:
                found = foreground_mask(photo)
            except InvalidInput as error:
                raise RejectedObject(str(error), "no object found") from error
            if found.doubtful and not self.doubtful:
                raise RejectedObject(
                    f"the object does not stand out from its background (contrast {found.contrast:.2f}); "
                    "give a mask, choose another photo, or allow doubtful masks",
                    "doubtful mask",
                )
            return found.mask, found.doubtful
        words = {label, self.space.title(label), *(word for word, name in self.space.aliases if name == label)}
        mask = _load_masks(self.masks).find(photo, words)
        if mask is None:
            raise RejectedObject(f"{self.masks} finds no {label}; give a mask, or another photo", "no object found")
        if not describe_mask(photo, mask).plausible:
            raise RejectedObject(
                f"the object that {self.masks} finds fills too little or too much of the photo; give a mask, or "
                "another photo",
                "doubtful mask",
            )
        return mask, False

    def _verify(self, photo: Bytes, mask: Mask, label: str, *, whole: bool) -> dict[str, Any]:
        """Verify an object; `whole` also checks that nothing of it is left in the photo."""
        if self.check == UNVERIFIED:
            return {}
        reference = load_check(self.check, self.space)
        belief = float(reference.beliefs(photo, mask, label).min())
        if belief < _RECOGNISED:
            raise RejectedObject(
                f"{self.check} does not recognise {label} in the object alone (probability {belief:.2f})",
                "object not recognised",
            )
        if whole and (rest := reference.belief_in_rest(photo, mask, label)) >= _IN_REST:
            raise RejectedObject(
                f"{self.check} recognises {label} also without the object that was found (probability {rest:.2f}): "
                "the mask has a part of it, or there is another one",
                "object not whole",
            )
        return {"probability": round(belief, 3)}

    def verify_part(self, kept: MaskedPicture, cut_off: MaskedPicture, label: str) -> dict[str, Any]:
        """Verify that one part of an object of class `label` shows what it is, and that the rest does not.

        Classifiers recognise a body by its fur, plumage or scales, and people often do not. A part that is recognised
        while the rest is not has what the rest lacks; of an animal that is as a rule the head.

        Args:
            kept: The part that a hybrid shows.
            cut_off: The rest of the object.
            label: The class.

        Returns:
            The probabilities of the class, for the manifest; nothing without a check.

        Raises:
            RejectedObject: The classifier does not recognise the part, or recognises the rest too.
        """
        if self.check == UNVERIFIED:
            return {}
        reference = load_check(self.check, self.space)
        belief, rest = (
            float(summarise(reference.beliefs(part.pixels, part.mask, label))) if part.mask.any() else 0.0
            for part, summarise in ((kept, np.min), (cut_off, np.max))
        )
        if belief < _PART_RECOGNISED:
            raise RejectedObject(
                f"{self.check} does not recognise {label} in its part of the hybrid (probability {belief:.2f})",
                "part not recognised",
            )
        if rest >= _IN_REST:
            raise RejectedObject(
                f"{self.check} recognises {label} also in the part that is cut off (probability {rest:.2f})",
                "part cut off is recognised",
            )
        return {"probability": round(belief, 3), "cut_off": round(rest, 3)}

    def telling_half(self, cutout: Cutout, label: str, halves: tuple[Half, Half]) -> Half:
        """Return which of two opposite halves of an object shows what it is, as `verify_part` requires.

        Raises:
            RejectedObject: Neither does.
        """
        key = (self, label, digest(cutout.photo), np.packbits(cutout.mask).tobytes(), halves)
        if key not in _halves:
            if len(_halves) >= _MOST_RESULTS:
                _halves.clear()
            _halves[key] = None
            parts = [MaskedPicture(cutout.photo, half_of(cutout.mask, half)) for half in halves]
            for half, kept, rest in zip(halves, parts, parts[::-1], strict=True):
                with suppress(RejectedObject):
                    self.verify_part(kept, rest, label)
                    _halves[key] = half
        if (found := _halves[key]) is None:
            raise RejectedObject(
                f"{self.check} does not recognise {label} in just one of the halves {' and '.join(halves)}",
                "no half tells what it is",
            )
        return found


_GROUNDS = (128, 235, 20)  # grey, nearly white, nearly black
# Chosen on ImageNet photos (docs/guides/visalign.md has the counts): on 400 of 26 classes with GrabCut's masks,
_RECOGNISED = 0.7
_IN_REST = 0.5
_PART_RECOGNISED = 0.85  # and on 106 of 13 classes with masks of a trained network
_MOST_RESULTS = 1000  # objects that a process remembers
_results: dict[tuple[Any, ...], tuple[NDArray[np.uint8], dict[str, Any], bool] | RejectedObject] = {}
_halves: dict[tuple[Any, ...], Half | None] = {}
