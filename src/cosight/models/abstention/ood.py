"""`ood:NAME`: the detectors of pytorch-ood that work on stored features or logits (extra `ood`).

Detectors that also want the network's last layer get it from the training images: where logits are linear in the
features, least squares finds it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, finite, same_length
from cosight.errors import InvalidInput, UnknownName, did_you_mean
from cosight.models.abstention.facts import Abstention, Need
from cosight.models.abstention.inputs import checked_features, checked_labels, checked_logits

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["PREFIX", "FittedDetector", "OodDetector", "detector_names", "ood_abstention"]

PREFIX = "ood:"
_LAST_LAYER = ("head", "w", "b")
_GIVEN = ("encoder", "model", *_LAST_LAYER)  # arguments that stored features and logits stand for
_SET = ("d", "p")  # arguments without a default in pytorch-ood, see _setting
_DICE_SPARSITY = 0.9  # Sun & Li 2022, DICE, for CIFAR
_LINEAR = 1e-3  # how much of the logits' spread a linear layer may miss: float32 misses about 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class FittedDetector:
    """A detector of pytorch-ood that knows the training images; `dimensions` of the features or logits it takes."""

    name: str
    detector: Any
    dimensions: int

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Its outlier scores (n,)."""
        import torch

        who = PREFIX + self.name
        with torch.no_grad():
            if _takes_logits(type(self.detector)):
                given = checked_logits(logits, who=who, classes=self.dimensions)
                scores = self.detector.predict_logits(_tensor(given))
            else:
                given = checked_features(features, who=who, dimensions=self.dimensions)
                scores = self.detector.predict_features(_tensor(given))
        return finite(scores.detach().cpu().numpy(), name=f"what {who} gives", ndim=1)


@dataclass(frozen=True, slots=True)
class OodDetector:
    """A detector of pytorch-ood by its name there, with its own defaults."""

    name: str

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> FittedDetector:
        """Learn from features (N, D), logits (N, classes) and labels (N,)."""
        import torch

        kind, who = _detector(self.name), PREFIX + self.name
        outputs = checked_logits(logits, who=who)
        truth = checked_labels(labels, rows=len(outputs), classes=outputs.shape[1], who=who, least=1)
        if _takes_logits(kind):
            detector = kind(model=None).fit_logits(_tensor(outputs), torch.from_numpy(truth))
            return FittedDetector(self.name, detector, outputs.shape[1])
        table = checked_features(features, who=who)
        same_length(features=table, logits=outputs)
        detector = kind(**_arguments(kind, table, outputs, who))
        return FittedDetector(self.name, detector.fit_features(_tensor(table), torch.from_numpy(truth)), table.shape[1])


def ood_abstention(name: str) -> Abstention:
    """The facts about pytorch-ood's detector NAME, given `ood:NAME`."""
    kind = _detector(name.removeprefix(PREFIX))
    paper = kind.info.paper if kind.info else None
    citation = f"{paper.title}, {paper.venue} {paper.year}" if paper else "pytorch-ood"
    function = OodDetector(kind.__name__)
    return Abstention(PREFIX + kind.__name__, f"{kind.__name__} of pytorch-ood.", function, _needs(kind), citation)


def _needs(kind: Any) -> tuple[Need, ...]:
    return ("logits", "labels") if _takes_logits(kind) else ("features", "logits", "labels")


def detector_names() -> tuple[str, ...]:
    """The detectors of pytorch-ood that stored features, logits and labels suffice for."""
    return tuple(_detectors())


def _detector(name: str) -> Any:
    found = _detectors()
    if name not in found:
        guess = did_you_mean(PREFIX + name, [PREFIX + key for key in found])
        raise UnknownName(f"no detector on features or logits is called {name!r} in pytorch-ood; {guess}")
    return found[name]


def _detectors() -> Mapping[str, Any]:
    package, bases = _package()
    kinds = {name: kind for name, kind in vars(package).items() if inspect.isclass(kind) and issubclass(kind, bases)}
    return {name: kinds[name] for name in sorted(kinds) if _suffice(kinds[name])}


def _suffice(kind: Any) -> bool:
    return all(name in (*_GIVEN, *_SET) for name in _required(kind))


def _required(kind: Any) -> list[str]:
    parameters = inspect.signature(kind).parameters.values()
    return [
        each.name
        for each in parameters
        if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]


def _package() -> tuple[Any, tuple[type, ...]]:
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    try:
        package, api = import_module("pytorch_ood.detector"), import_module("pytorch_ood.api")
    except ImportError as error:
        raise InvalidInput(
            "ood: needs the package pytorch-ood, which is missing; pip install 'cosight[ood]'"
        ) from error
    return package, (api.LogitsDetector, api.FeaturesDetector)


def _takes_logits(kind: Any) -> bool:
    return issubclass(kind, _package()[1][0])


def _arguments(kind: Any, table: FloatArray, outputs: FloatArray, who: str) -> dict[str, Any]:
    """What the detector is made with: no encoder, our settings, and the last layer where it asks for that."""
    asked = _required(kind)
    given: dict[str, Any] = {name: _setting(name, table.shape[1]) for name in asked if name in _SET}
    given.update(dict.fromkeys(set(asked) & {"encoder"}))
    if set(asked) & set(_LAST_LAYER):
        layer = _last_layer(table, outputs, who)
        parts: dict[str, Any] = {"head": layer, "w": layer.weight.detach(), "b": layer.bias.detach()}
        given.update({name: parts[name] for name in asked if name in parts})
    return given


def _setting(name: str, dimensions: int) -> float:
    """`d`: the principal dimensions of ViM; `p`: the sparsity of DICE."""
    if name == "p":
        return _DICE_SPARSITY
    if dimensions >= 2048:
        return 1000  # Wang et al. 2022, ViM, as is 512
    return 512 if dimensions >= 768 else dimensions // 2  # half for small networks, as pytorch-ood does


def _last_layer(table: FloatArray, outputs: FloatArray, who: str) -> nn.Linear:
    """The linear layer from features to logits."""
    import torch

    rows, dimensions = table.shape
    if rows <= dimensions:
        raise InvalidInput(
            f"{who} needs the last layer, which more training images than dimensions show, got {rows} for {dimensions}"
        )
    extended = np.column_stack([table, np.ones(rows)])
    solution = np.linalg.lstsq(extended, outputs)[0].astype(np.float64, copy=False)
    missed = float(np.abs(extended @ solution - outputs).max() / max(np.ptp(outputs), np.finfo(np.float64).tiny))
    if missed > _LINEAR:
        raise InvalidInput(
            f"{who} needs logits that are linear in the features, these miss by {missed:.2g} of their range; "
            "take the features of the penultimate layer"
        )
    layer = torch.nn.Linear(dimensions, outputs.shape[1]).requires_grad_(False)
    layer.weight.copy_(_tensor(solution[:-1].T))
    layer.bias.copy_(_tensor(solution[-1]))
    return layer


def _tensor(values: FloatArray) -> Tensor:
    import torch

    return torch.tensor(values, dtype=torch.float32)
