"""What a network knows of an image before it names it: the penultimate layer, or any layer by its path.

* a timm model, or one with its two methods: `forward_head(forward_features(x), pre_logits=True)`
* any other: the input of the nn.Linear that gives the logits
* `layer=PATH`: the output of that module, flattened

A way is tried on two images when it is chosen, so that what cannot work fails at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from cosight.errors import InvalidInput, UnknownName, did_you_mean

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["Tap", "named_layer", "penultimate"]

_NAMED = 4  # layers named in a message


@dataclass(frozen=True, slots=True, eq=False)
class Tap:
    """Where features are taken: the output of the module at `path`, its input, or timm's own way (no path)."""

    side: Literal["output", "input", "timm"]
    path: str = ""
    _lock: Any = field(default_factory=Lock, repr=False)

    def __call__(self, module: nn.Module, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised images -> what the module gives, and features (N, dimensions)."""
        if self.side == "timm":
            return _timm_way(module, pixels)
        with self._lock, _watched(module, {self.path: module.get_submodule(self.path)}) as calls:
            given = module(pixels)
        value = calls[-1].given if self.side == "output" else calls[-1].got
        return given, value.flatten(1)

    @property
    def facts(self) -> dict[str, Any]:
        """Where, for the record."""
        return {"side": self.side, "layer": self.path or None}


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    path: str
    got: Any
    given: Any


@contextmanager
def _watched(module: nn.Module, parts: dict[str, nn.Module]) -> Iterator[list[_Call]]:
    """Every call of these parts while the module runs, in order."""
    calls: list[_Call] = []

    def watch(path: str) -> Any:
        return lambda _, got, given: calls.append(_Call(path, got[0] if got else None, given))

    handles = [part.register_forward_hook(watch(path)) for path, part in parts.items()]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def named_layer(module: nn.Module, path: str, pixels: Tensor, *, name: str) -> Tap:
    """The output of the module at `path`, tried on `pixels`."""
    parts = dict(module.named_modules())
    if not path or path not in parts:
        names = [part for part in parts if part]
        guess = did_you_mean(path, names, otherwise=f"its last are {', '.join(names[-_NAMED:])}")
        raise UnknownName(f"{name} has no layer {path!r}; {guess}")
    with _watched(module, {path: parts[path]}) as calls:
        module(pixels)
    if not calls:
        raise InvalidInput(f"layer={path} of {name} is not run for its answers; name another layer")
    if not _is_tensor(calls[-1].given) or calls[-1].given.shape[:1] != pixels.shape[:1]:
        got = tuple(calls[-1].given.shape) if _is_tensor(calls[-1].given) else type(calls[-1].given).__name__
        raise InvalidInput(f"a layer must give one tensor with a row an image, layer={path} of {name} gives {got}")
    return Tap("output", path)


def penultimate(module: nn.Module, pixels: Tensor, *, name: str) -> Tap:
    """The way to the layer before the classes, tried on `pixels`."""
    return Tap("timm") if _timm_way_works(module, pixels) else _linear_tap(module, pixels, name)


def _timm_way(module: Any, pixels: Tensor) -> tuple[Tensor, Tensor]:
    body = module.forward_features(pixels)
    features = module.forward_head(body, pre_logits=True)
    return module.forward_head(body), features.flatten(1)


def _timm_way_works(module: Any, pixels: Tensor) -> bool:
    """Whether the two methods are there and lead to the module's own logits."""
    import torch

    if not hasattr(module, "forward_features") or not hasattr(module, "forward_head"):
        return False
    if "pre_logits" not in inspect.signature(module.forward_head).parameters:
        return False
    logits, features = _timm_way(module, pixels)
    same = torch.allclose(logits, module(pixels), rtol=1e-4, atol=1e-4)
    return same and len(features) == len(pixels)


def _linear_tap(module: nn.Module, pixels: Tensor, name: str) -> Tap:
    import torch

    parts: dict[str, nn.Module] = {
        path: part for path, part in module.named_modules() if isinstance(part, torch.nn.Linear)
    }
    with _watched(module, parts) as calls:
        logits = module(pixels)
    found = [call for call in calls if call.given.shape == logits.shape]
    exact = {call.path for call in found if torch.equal(call.given, logits)}
    paths = exact or {call.path for call in found}
    if len(paths) == 1:
        return Tap("input", paths.pop())
    heads = f"there are {', '.join(sorted(paths))}" if paths else "there is none"
    last = [path for path, _ in module.named_modules() if path][-_NAMED:]
    raise InvalidInput(
        f"features are the input of the one nn.Linear that gives the logits, in {name} {heads}; "
        f"name a layer with layer=PATH{', for example ' + ' or '.join(last) if last else ''}"
    )


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)
