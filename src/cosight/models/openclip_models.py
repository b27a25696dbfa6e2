"""`openclip:ARCHITECTURE/TAG`: zero-shot models of open_clip, which choose among classes given as text.

Each class is inserted into every prompt template; the normalised mean of the prompts' unit vectors represents the class
(Radford et al. 2021, section 3.1.4). Logits are the products of a photo's unit vector and those of the classes, times
the learnt scale. Models trained with a sigmoid (SigLIP) have a learnt bias too. Among given classes they are scored by
the softmax like the others, as in open_clip's own evaluation; the bias is the same for every class and does not change
a probability, so it is left out.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosight.errors import InvalidInput, UnknownName, did_you_mean
from cosight.models.model_spec import KEYS, ModelSpec, checkpoint_of, class_names_of, parse, preprocessing_of
from cosight.models.preprocessing import Preprocessing
from cosight.models.torch_models import (
    TorchModel,
    explain_download_errors,
    hub_url,
    load_weights,
    read_weights,
    weights_digest,
    wrap_module,
)
from cosight.trials.spaces import LabelSpace, label_spaces

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["OPENCLIP_KEYS", "load_openclip", "openclip_preprocessing", "zero_shot"]

# without `size`: an image tower has one, which is part of the architecture's name
OPENCLIP_KEYS = (*(key for key in KEYS if key != "size"), "templates")

_CROP_MODES = {"shortest": "center", "squash": "squash"}  # open_clip's names for ours; its other modes pad photos
_INPUT_FACTS = ("mean", "std", "interpolation", "resize_mode")  # what a tag's configuration says about photos
_class_vectors: dict[str, Tensor] = {}  # (dimensions, classes) by digest, kept because prompts take long to encode


@dataclass(frozen=True, slots=True)
class _Weights:
    """The requested weights, and what open_clip knows about them."""

    architecture: str
    tag: str | None
    path: Path | None  # of a checkpoint
    facts: Mapping[str, Any]  # how photos are prepared, if known
    quick_gelu: bool  # trained with QuickGELU, whatever the architecture says; open_clip itself only warns

    @property
    def line(self) -> str:
        return f"openclip:{self.architecture}" + (f"/{self.tag}" if self.tag else "")


def load_openclip(spec: ModelSpec) -> TorchModel:
    """Load `openclip:ARCHITECTURE/TAG` with weights from the hub or from `checkpoint`, choosing among `classes`."""
    text, names = spec.get("classes"), class_names_of(spec)
    if text is None or names is None:
        raise InvalidInput(
            f"{spec} needs the classes to choose among; add classes=SPACE (`cosight list label-spaces` lists them) "
            "or classes=FILE"
        )
    path = Path(text).expanduser()
    return _classifier(spec, LabelSpace(path.name, names) if path.is_file() else label_spaces[text])


def zero_shot(model: str | ModelSpec, space: LabelSpace) -> TorchModel:
    """Load an openclip model that chooses among the classes of a label space.

    Args:
        model: `openclip:NAME` without the option `classes`.
        space: Label space.

    Returns:
        The model; its outputs are the classes of the space.

    Raises:
        InvalidInput: The model is not of openclip, has `classes`, or its weights cannot be loaded.

    >>> model = zero_shot("openclip:ViT-B-32/laion2b_s34b_b79k", label_space("cat,dog"))  # doctest: +SKIP
    >>> model.class_names  # doctest: +SKIP
    ('cat', 'dog')
    """
    spec = parse(model) if isinstance(model, str) else model
    if spec.source != "openclip" or spec.get("classes") is not None:
        raise InvalidInput(f"with a label space, a model must be openclip:NAME without classes=, got {spec}")
    spec.allow(OPENCLIP_KEYS)
    return _classifier(spec, space)


def openclip_preprocessing(facts: Mapping[str, Any]) -> Preprocessing:
    """Return the preprocessing of open_clip's `model.visual.preprocess_cfg`; the pixels are those of its transform."""
    size = facts["size"]
    return Preprocessing(
        size=(size, size) if isinstance(size, int) else tuple(size),
        mean=tuple(facts["mean"]),
        std=tuple(facts["std"]),
        interpolation=facts["interpolation"],
        crop_mode=_CROP_MODES.get(facts["resize_mode"], facts["resize_mode"]),
    )


def _classifier(spec: ModelSpec, space: LabelSpace) -> TorchModel:
    try:
        from cosight.torchvision_ops import import_torchvision

        import_torchvision()
        import open_clip  # type: ignore[import-untyped]
    except ImportError as error:
        raise InvalidInput(f"openclip models need {error.name}; pip install 'cosight[clip]'") from error
    weights, templates = _find_weights(open_clip, spec), _templates(open_clip, spec)
    clip = _load_towers(open_clip, weights)
    default = openclip_preprocessing({**clip.visual.preprocess_cfg, **weights.facts})
    preprocessing = preprocessing_of(spec, default)
    if space.classes == label_spaces["imagenet-1k"].classes:
        words = list(open_clip.IMAGENET_CLASSNAMES)  # ImageNet's own titles have two names twice
    else:
        words = [word.replace("_", " ") for word in space.titles or space.classes]
    # a digest of what determines the text vectors, not of the vectors: their last bits depend on the machine
    facts = [open_clip.get_model_config(weights.architecture), weights.quick_gelu, [words, templates]]
    text = f"{weights_digest(clip)}\n{json.dumps(facts, sort_keys=True)}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    if digest not in _class_vectors:
        with _quiet_download(f"the tokenizer of {weights.line}", "connect once, it is then cached"):
            tokenizer = open_clip.get_tokenizer(weights.architecture)
        # one class at a time: memory is bounded, and a class has the same vector whichever other classes there are
        _class_vectors[digest] = open_clip.build_zero_shot_classifier(
            clip, tokenizer, words, templates, num_classes_per_batch=1
        )
    model = wrap_module(
        _zero_shot_module(clip, _class_vectors[digest]),
        name=spec.label,
        preprocessing=preprocessing,
        outputs="logits",
        class_names=space.classes,
    )
    return replace(model, weights_digest=digest)


def _find_weights(open_clip: Any, spec: ModelSpec) -> _Weights:
    architecture, _, tag_start = spec.name.partition("/")
    architectures = open_clip.list_models()
    if architecture not in architectures:
        hint = did_you_mean(architecture, architectures, otherwise="open_clip.list_models() lists all")
        raise UnknownName(f"no openclip architecture is called {architecture!r}; {hint}")
    tags, path = open_clip.list_pretrained_tags_by_model(architecture), checkpoint_of(spec)
    if not tag_start and path is None:
        hint = f"name one of {', '.join(tags)} after a slash, or add" if tags else "add"
        raise InvalidInput(f"openclip:{architecture} does not say which weights; {hint} checkpoint=FILE")
    tag = _complete_tag(tag_start, tags, architecture) if tag_start else None
    configs = [open_clip.get_pretrained_cfg(architecture, name) for name in ([tag] if tag else tags)]
    facts = [{key: config[key] for key in _INPUT_FACTS} for config in configs]
    if any(other != facts[0] for other in facts):
        raise InvalidInput(
            f"weights of openclip:{architecture} differ in their preprocessing, and no tag is given; add the tag whose "
            f"preprocessing applies: openclip:{architecture}/TAG,checkpoint=FILE, with one of {', '.join(tags)}"
        )
    quick_gelu = bool(tag and configs[0].get("quick_gelu"))
    return _Weights(architecture, tag, path, facts[0] if facts else {}, quick_gelu)


def _complete_tag(start: str, tags: Sequence[str], architecture: str) -> str:
    """Return the tag itself, or the only one that starts so."""
    matches = [start] if start in tags else [tag for tag in tags if tag.startswith(start)]
    if len(matches) > 1:
        raise UnknownName(
            f"several tags of openclip:{architecture} start with {start!r}: {', '.join(matches)}; name one"
        )
    if not matches:
        raise UnknownName(f"openclip:{architecture} has no weights {start!r}; {did_you_mean(start, tags)}")
    return matches[0]


def _load_towers(open_clip: Any, weights: _Weights) -> Any:
    """Load the image and the text tower."""
    state = read_weights(weights.path) if weights.path else None  # first, because towers are slow to build
    tag = None if weights.path else weights.tag
    what = f"the {'weights' if tag else 'configuration'} of {weights.line}"
    hint = "connect, or add checkpoint=FILE" if tag else "connect once, it is then cached"
    config = open_clip.get_pretrained_cfg(weights.architecture, tag) if tag else {}
    repository = "/".join(config.get("hf_hub", "").split("/")[:2])
    with _quiet_download(what, hint, url=hub_url(repository) if repository else None):
        clip = open_clip.create_model(
            weights.architecture, pretrained=tag, force_quick_gelu=weights.quick_gelu, pretrained_text=False
        )
    if state and weights.path:
        load_weights(state, clip, model=weights.line, path=weights.path)
    return clip.eval()


@contextmanager
def _quiet_download(what: str, hint: str, url: str | None = None) -> Iterator[None]:
    """Report errors in one line, and suppress what open_clip logs: that weights are random, before it has them."""

    def is_of_others(record: logging.LogRecord) -> bool:
        return Path(record.pathname).parent.name != "open_clip"

    root = logging.getLogger()  # where open_clip logs
    root.addFilter(is_of_others)
    try:
        with explain_download_errors(what, hint, url=url):
            yield
    finally:
        root.removeFilter(is_of_others)


def _zero_shot_module(clip: Any, class_vectors: Tensor) -> nn.Module:
    """Return the image tower followed by the classes as a linear layer, whose inputs are the features."""
    import torch

    class ZeroShot(torch.nn.Module):
        def __init__(self, visual: nn.Module, weights: Tensor) -> None:  # without the text tower
            super().__init__()
            self.visual = visual
            self.head = torch.nn.Linear(weights.shape[1], weights.shape[0], bias=False)
            self.head.weight = torch.nn.Parameter(weights)

        def forward(self, pixels: Tensor) -> Tensor:
            outputs = self.visual(pixels)
            image = outputs[0] if isinstance(outputs, tuple) else outputs  # CoCa's tower returns its tokens as well
            logits: Tensor = self.head(torch.nn.functional.normalize(image, dim=-1))
            return logits

    return ZeroShot(clip.visual, (clip.logit_scale.exp() * class_vectors.T).detach())


def _templates(open_clip: Any, spec: ModelSpec) -> tuple[str, ...]:
    """Return prompts with {} for the class: those of open_clip, or the lines of a file."""
    shipped = {"openai": open_clip.OPENAI_IMAGENET_TEMPLATES, "simple": open_clip.SIMPLE_IMAGENET_TEMPLATES}
    name = dict(spec.options).get("templates", "openai")
    if name in shipped:
        return tuple(template("{}") for template in shipped[name])
    path = Path(name).expanduser()
    if not path.is_file():
        raise InvalidInput(f"templates must be {', '.join(shipped)} or a file, {path} does not exist; check the path")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except ValueError as error:
        raise InvalidInput(f"templates must be lines of UTF-8 text, {path} is not: {error}") from error
    for number, line in enumerate(lines or [""], start=1):
        before, braces, after = line.partition("{}")
        if not braces or any(brace in before + after for brace in "{}"):
            raise InvalidInput(
                f"a template must have {{}} once, in place of the class, and no other brace; line {number} of {path} "
                f"is {line!r}; write it like: a photo of a {{}}."
            )
    return tuple(lines)
