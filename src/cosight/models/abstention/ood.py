"""`ood:NAME`: detectors of pytorch-ood that work on stored features or logits (extra `ood`).

Detectors that also need the network's last layer get it from the training images: if logits are linear in the
features, least squares recovers it.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray, finite, same_length
from cosight.errors import InvalidInput, UnknownName, did_you_mean
from cosight.models.abstention.base import Abstention, check_features, check_labels, check_logits

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["PREFIX", "FittedDetector", "OodDetector", "detector_names", "ood_abstention"]

PREFIX = "ood:"
_LAST_LAYER = ("head", "w", "b")
_KNOWN_ARGUMENTS = ("encoder", "model", *_LAST_LAYER, "d", "p")  # that stored outputs or defaults of ours provide
_DICE_SPARSITY = 0.9  # Sun & Li 2022, DICE, for CIFAR
_LINEAR = 1e-3  # largest error of a linear layer as a fraction of the range of the logits; float32 gives about 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class FittedDetector:
    """A fitted detector of pytorch-ood; `dimensions` is that of the features or logits it takes."""

    name: str
    detector: Any
    dimensions: int

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Compute the detector's outlier scores (n,)."""
        import torch

        who = PREFIX + self.name
        with torch.no_grad():
            if _takes_logits(type(self.detector)):
                table = check_logits(logits, who=who, classes=self.dimensions)
                scores = self.detector.predict_logits(_tensor(table))
            else:
                table = check_features(features, who=who, dimensions=self.dimensions)
                scores = self.detector.predict_features(_tensor(table))
        return finite(scores.detach().cpu().numpy(), name=f"scores of {who}", ndim=1)


@dataclass(frozen=True, slots=True)
class OodDetector:
    """A detector of pytorch-ood with its default settings.

    Args:
        name: Name of the class in `pytorch_ood.detector`.
    """

    name: str

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> FittedDetector:
        """Fit to features (N, D), logits (N, classes) and labels (N,)."""
        import torch

        detector_class, who = _detector(self.name), PREFIX + self.name
        outputs = check_logits(logits, who=who)
        truth = check_labels(labels, rows=len(outputs), classes=outputs.shape[1], who=who, least=1)
        if _takes_logits(detector_class):
            detector = detector_class(model=None).fit_logits(_tensor(outputs), torch.from_numpy(truth))
            return FittedDetector(self.name, detector, outputs.shape[1])
        table = check_features(features, who=who)
        same_length(features=table, logits=outputs)
        required = _required_arguments(detector_class)
        arguments: dict[str, Any] = {name: None for name in required if name == "encoder"}
        if "p" in required:  # the sparsity of DICE
            arguments["p"] = _DICE_SPARSITY
        if "d" in required:  # the principal dimensions of ViM
            arguments["d"] = _vim_dimensions(table.shape[1])
        if set(required) & set(_LAST_LAYER):
            layer = _last_layer(table, outputs, who)
            parts: dict[str, Any] = {"head": layer, "w": layer.weight.detach(), "b": layer.bias.detach()}
            arguments.update({name: parts[name] for name in required if name in parts})
        detector = detector_class(**arguments).fit_features(_tensor(table), torch.from_numpy(truth))
        return FittedDetector(self.name, detector, table.shape[1])


def ood_abstention(name: str) -> Abstention:
    """Return the registry entry of a detector of pytorch-ood.

    Args:
        name: `ood:NAME`, with NAME as in `detector_names()`.

    Returns:
        The entry.

    Raises:
        UnknownName: There is no such detector; the message suggests the nearest ones.
        InvalidInput: pytorch-ood is not installed.

    >>> ood_abstention("ood:ViM").needs
    ('features', 'logits', 'labels')
    """
    detector_class = _detector(name.removeprefix(PREFIX))
    paper = detector_class.info.paper if detector_class.info else None
    return Abstention(
        name=PREFIX + detector_class.__name__,
        summary=f"{detector_class.__name__} of pytorch-ood.",
        function=OodDetector(detector_class.__name__),
        needs=("logits", "labels") if _takes_logits(detector_class) else ("features", "logits", "labels"),
        citation=f"{paper.title}, {paper.venue} {paper.year}" if paper else "pytorch-ood",
    )


def detector_names() -> tuple[str, ...]:
    """Return the names of the detectors of pytorch-ood that need only stored features, logits and labels.

    Returns:
        The names, sorted.

    >>> "ViM" in detector_names()
    True
    """
    return tuple(_detectors())


def _detector(name: str) -> Any:
    detectors = _detectors()
    if name not in detectors:
        hint = did_you_mean(PREFIX + name, [PREFIX + key for key in detectors])
        raise UnknownName(f"no detector on features or logits is called {name!r} in pytorch-ood; {hint}")
    return detectors[name]


def _detectors() -> dict[str, Any]:
    """Return the usable detector classes by name, sorted."""
    package, bases = _package()
    classes = {name: value for name, value in vars(package).items() if inspect.isclass(value)}
    return {
        name: classes[name]
        for name in sorted(classes)
        if issubclass(classes[name], bases) and set(_required_arguments(classes[name])) <= set(_KNOWN_ARGUMENTS)
    }


def _required_arguments(detector_class: Any) -> list[str]:
    return [
        parameter.name
        for parameter in inspect.signature(detector_class).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]


def _package() -> tuple[Any, tuple[type, ...]]:
    """Return the module of detectors, and the base classes of those on logits and on features."""
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    try:
        package, api = import_module("pytorch_ood.detector"), import_module("pytorch_ood.api")
    except ImportError as error:
        raise InvalidInput("ood: needs the package pytorch-ood; pip install 'cosight[ood]'") from error
    return package, (api.LogitsDetector, api.FeaturesDetector)


def _takes_logits(detector_class: Any) -> bool:
    return issubclass(detector_class, _package()[1][0])


def _vim_dimensions(dimensions: int) -> int:
    if dimensions >= 2048:
        return 1000  # Wang et al. 2022, ViM, as is 512
    return 512 if dimensions >= 768 else dimensions // 2  # half for small networks, as pytorch-ood does


def _last_layer(table: FloatArray, outputs: FloatArray, who: str) -> nn.Linear:
    """Recover the linear layer from features to logits by least squares."""
    import torch

    rows, dimensions = table.shape
    if rows <= dimensions:
        raise InvalidInput(
            f"{who} needs the last layer, which takes more training images than dimensions to recover, "
            f"got {rows} for {dimensions}"
        )
    extended = np.column_stack([table, np.ones(rows)])
    solution = np.linalg.lstsq(extended, outputs)[0].astype(np.float64, copy=False)
    largest = np.abs(extended @ solution - outputs).max()
    error = float(largest / max(np.ptp(outputs), np.finfo(np.float64).tiny))
    if error > _LINEAR:
        raise InvalidInput(
            f"{who} needs logits that are linear in the features, the largest error is {error:.2g} of their range; "
            "take the features of the penultimate layer"
        )
    layer = torch.nn.Linear(dimensions, outputs.shape[1]).requires_grad_(False)
    layer.weight.copy_(_tensor(solution[:-1].T))
    layer.bias.copy_(_tensor(solution[-1]))
    return layer


def _tensor(values: FloatArray) -> Tensor:
    import torch

    return torch.tensor(values, dtype=torch.float32)
