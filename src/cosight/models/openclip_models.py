"""`openclip:ARCHITECTURE/TAG`: zero-shot models of open_clip, which choose among classes given in words.

A class is put into every prompt template; the mean of the prompts' unit vectors, made a unit vector again, stands for
it (Radford et al. 2021, section 3.1.4). A photo's logits are its own unit vector times those of the classes, times the
learnt scale. Models trained with a sigmoid (SigLIP) have learnt a bias too. Among given classes they are scored by the
softmax like the others, as open_clip's own evaluation ranks them; the bias is the same for every class, so no
probability depends on it, and it is left out.
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
from cosight.models.model_spec import KEYS, ModelSpec, changed, checkpoint_of, class_names_of, parse
from cosight.models.preprocessing import Preprocessing
from cosight.models.torch_models import TorchModel, load_weights, read_weights, weights_digest, wrap_module
from cosight.trials.spaces import LabelSpace, label_spaces

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["OPENCLIP_KEYS", "load_openclip", "openclip_preprocessing", "zero_shot"]

# no `size`: an image tower is made for one, which is in the architecture's name where there are several
OPENCLIP_KEYS = (*(key for key in KEYS if key != "size"), "templates")

_CROP_MODES = {"shortest": "center", "squash": "squash"}  # open_clip's names for ours; it pads photos in others
_INPUT_FACTS = ("mean", "std", "interpolation", "resize_mode")  # what a tag says about photos
_texts: dict[str, Tensor] = {}  # unit vectors (dimensions, classes) by digest: prompts take longer than photos


@dataclass(frozen=True, slots=True)
class _Weights:
    """Which weights are asked for, and what open_clip knows of them."""

    architecture: str
    tag: str | None  # where one is named
    path: Path | None  # where they come from a file
    facts: Mapping[str, Any]  # what becomes of photos, where that is known
    quick_gelu: bool  # trained with QuickGELU, whatever the architecture has: open_clip itself would only warn

    @property
    def line(self) -> str:
        return f"openclip:{self.architecture}" + (f"/{self.tag}" if self.tag else "")


def load_openclip(spec: ModelSpec) -> TorchModel:
    """`openclip:ARCHITECTURE/TAG` with the hub's weights or those of `checkpoint`, choosing among `classes`."""
    return _classifier(spec, _space_of(spec))


def zero_shot(model: str | ModelSpec, space: LabelSpace) -> TorchModel:
    """The openclip model of this name, choosing among the classes of any label space; `model` itself names none."""
    spec = parse(model) if isinstance(model, str) else model
    if spec.source != "openclip" or spec.get("classes") is not None:
        raise InvalidInput(f"with a label space, a model must be openclip:NAME without classes=, got {spec}")
    spec.allow(OPENCLIP_KEYS)
    return _classifier(spec, space)


def openclip_preprocessing(facts: Mapping[str, Any]) -> Preprocessing:
    """What open_clip says (`model.visual.preprocess_cfg`) becomes of a photo; pixels are those of its transform."""
    size = facts["size"]
    return Preprocessing(
        size=(size, size) if isinstance(size, int) else tuple(size),
        mean=tuple(facts["mean"]),
        std=tuple(facts["std"]),
        interpolation=facts["interpolation"],
        crop_mode=_CROP_MODES.get(facts["resize_mode"], facts["resize_mode"]),
    )


def _classifier(spec: ModelSpec, space: LabelSpace) -> TorchModel:
    open_clip = _open_clip()
    weights, templates = _weights(open_clip, spec), _templates(open_clip, spec)
    clip = _clip(open_clip, weights)
    own = changed(spec, openclip_preprocessing({**clip.visual.preprocess_cfg, **weights.facts}))
    words = _words(open_clip, space)
    digest = _digest(open_clip, weights, clip, [words, templates])
    text = _text(open_clip, weights, clip, words, templates, digest)
    module = _module(clip, text)
    model = wrap_module(module, name=spec.label, preprocessing=own, outputs="logits", class_names=space.classes)
    return replace(model, weights_digest=digest)


def _words(open_clip: Any, space: LabelSpace) -> list[str]:
    """What the prompts call the classes; of ImageNet's titles two stand for two classes each: open_clip's own names."""
    if space.classes == label_spaces["imagenet-1k"].classes:
        return list(open_clip.IMAGENET_CLASSNAMES)
    return [word.replace("_", " ") for word in space.titles or space.classes]


def _open_clip() -> Any:
    try:
        from cosight.torchvision_ops import import_torchvision

        import_torchvision()
        import open_clip  # type: ignore[import-untyped]
    except ImportError as error:
        raise InvalidInput(f"openclip models need {error.name}; pip install 'cosight[clip]'") from error
    return open_clip


def _space_of(spec: ModelSpec) -> LabelSpace:
    """The label space of the option `classes`: a registered one, or made of a file's names."""
    text, names = spec.get("classes"), class_names_of(spec)
    if text is None or names is None:
        raise InvalidInput(
            f"which classes should {spec} choose among? add classes=SPACE (`cosight list label-spaces` shows them) "
            "or classes=FILE"
        )
    path = Path(text).expanduser()
    return LabelSpace(path.name, names) if path.is_file() else label_spaces[text]


def _weights(open_clip: Any, spec: ModelSpec) -> _Weights:
    architecture, _, tag = spec.name.partition("/")
    every = open_clip.list_models()
    if architecture not in every:
        guess = did_you_mean(architecture, every, otherwise="open_clip.list_models() shows all")
        raise UnknownName(f"no openclip architecture is called {architecture!r}; {guess}")
    tags, path = open_clip.list_pretrained_tags_by_model(architecture), checkpoint_of(spec)
    if not tag and path is None:
        ways = f"name one of {', '.join(tags)} after a slash, or add" if tags else "add"
        raise InvalidInput(f"openclip:{architecture} must say which weights, got none; {ways} checkpoint=FILE")
    full = _full_tag(tag, tags, architecture) if tag else None
    facts = _input_facts(open_clip, architecture, [full] if full else tags)
    quick = bool(full and open_clip.get_pretrained_cfg(architecture, full).get("quick_gelu"))
    return _Weights(architecture, full, path, facts, quick)


def _full_tag(tag: str, tags: Sequence[str], architecture: str) -> str:
    """The tag itself, or the only one that begins so."""
    found = [tag] if tag in tags else [full for full in tags if full.startswith(tag)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownName(f"{tag!r} begins several tags of openclip:{architecture}: {', '.join(found)}; name one")
    raise UnknownName(f"openclip:{architecture} has no weights {tag!r}; {did_you_mean(tag, tags)}")


def _input_facts(open_clip: Any, architecture: str, tags: Sequence[str]) -> dict[str, Any]:
    """What becomes of photos, as these tags say it; nothing where open_clip knows no weights."""
    said = [open_clip.get_pretrained_cfg(architecture, tag) for tag in tags]
    facts = [{key: facts[key] for key in _INPUT_FACTS} for facts in said]
    if any(other != facts[0] for other in facts):
        raise InvalidInput(
            f"weights of openclip:{architecture} differ in what becomes of photos, and no tag was named; say whose "
            f"these are like: openclip:{architecture}/TAG,checkpoint=FILE, with one of {', '.join(tags)}"
        )
    return facts[0] if facts else {}


def _clip(open_clip: Any, weights: _Weights) -> Any:
    """Both towers, with their weights."""
    given = read_weights(weights.path) if weights.path else None  # first: towers are slow to build
    tag = None if weights.path else weights.tag
    way_out = "or add checkpoint=FILE" if tag else "connect once, so that it is kept"
    with _fetching(f"the {'weights' if tag else 'configuration'} of {weights.line}", way_out):
        clip = open_clip.create_model(
            weights.architecture, pretrained=tag, force_quick_gelu=weights.quick_gelu, pretrained_text=False
        )
    if given and weights.path:
        load_weights(given, clip, model=weights.line, path=weights.path)
    return clip.eval()


@contextmanager
def _fetching(what: str, way_out: str) -> Iterator[None]:
    """While open_clip makes something, from the hub perhaps: what it raises, and what it logs, becomes one line."""

    def from_elsewhere(record: logging.LogRecord) -> bool:
        return Path(record.pathname).parent.name != "open_clip"

    root = logging.getLogger()  # to which open_clip says that weights are random, before it is given them
    root.addFilter(from_elsewhere)
    try:
        yield
    except Exception as error:  # the hub's client and what is below it raise anything
        why = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
        raise InvalidInput(f"{what} must be fetched, got: {why}; {way_out}") from error
    finally:
        root.removeFilter(from_elsewhere)


def _digest(open_clip: Any, weights: _Weights, clip: nn.Module, prompts: list[Any]) -> str:
    """Of what the answers come from, not of the text's vectors: their last bits depend on the machine."""
    facts = [open_clip.get_model_config(weights.architecture), weights.quick_gelu, prompts]
    told = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(f"{weights_digest(clip)}\n{told}".encode()).hexdigest()


def _text(
    open_clip: Any, weights: _Weights, clip: Any, words: Sequence[str], templates: Sequence[str], digest: str
) -> Tensor:
    """Unit vectors (dimensions, classes) of the classes, kept while the process lives."""
    if digest not in _texts:
        with _fetching(f"the tokenizer of {weights.line}", "connect once, so that it is kept"):
            tokenizer = open_clip.get_tokenizer(weights.architecture)
        # one class at a time: memory is bounded, and a class has the same vector whichever classes stand beside it
        _texts[digest] = open_clip.build_zero_shot_classifier(
            clip, tokenizer, words, templates, num_classes_per_batch=1
        )
    return _texts[digest]


def _module(clip: Any, text: Tensor) -> nn.Module:
    """The image tower, then the classes as a linear layer, whose input are the features."""
    import torch

    class ZeroShot(torch.nn.Module):
        def __init__(self, visual: nn.Module, weights: Tensor) -> None:  # the text tower is not kept
            super().__init__()
            self.visual = visual
            self.head = torch.nn.Linear(weights.shape[1], weights.shape[0], bias=False)
            self.head.weight = torch.nn.Parameter(weights)

        def forward(self, pixels: Tensor) -> Tensor:
            given = self.visual(pixels)
            image = given[0] if isinstance(given, tuple) else given  # CoCa's tower gives its tokens as well
            logits: Tensor = self.head(torch.nn.functional.normalize(image, dim=-1))
            return logits

    return ZeroShot(clip.visual, (clip.logit_scale.exp() * text.T).detach())


def _templates(open_clip: Any, spec: ModelSpec) -> tuple[str, ...]:
    """Prompts with {} for the class: those that come with open_clip, or a file's lines."""
    shipped = {"openai": open_clip.OPENAI_IMAGENET_TEMPLATES, "simple": open_clip.SIMPLE_IMAGENET_TEMPLATES}
    name = dict(spec.options).get("templates", "openai")
    if name in shipped:
        return tuple(template("{}") for template in shipped[name])
    path = Path(name).expanduser()
    if not path.is_file():
        raise InvalidInput(f"templates must be {', '.join(shipped)} or a file, got {path}, which is not there")
    return _read_templates(path)


def _read_templates(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except ValueError as error:
        raise InvalidInput(f"templates must be lines of UTF-8 text, {path} is not: {error}") from error
    for number, line in enumerate(lines or [""], start=1):
        before, mark, after = line.partition("{}")
        if not mark or any(brace in before + after for brace in "{}"):
            raise InvalidInput(
                f"a template has {{}} once, where the class goes, and no other brace, line {number} of {path} is "
                f"{line!r}; write it like: a photo of a {{}}."
            )
    return tuple(lines)
