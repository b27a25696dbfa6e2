"""Other classes for a model: a linear probe, multinomial logistic regression on its features.

Features are standardised by the mean and standard deviation of the training images, a dimension at a time. The probe
minimises the sum of the cross-entropies + penalty / 2 times the sum of the squared weights; intercepts are free. It is
what scikit-learn's `LogisticRegression(C=1 / penalty)` finds after its `StandardScaler`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from cosight.arrays import FloatArray, IntArray, finite, same_length
from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.models.model import Model, ModelOutputs, ModelPreparation, probe_images
from cosight.stimuli.images import Bytes, Floats

__all__ = ["Probe", "ProbeModel", "attach_probe", "fit_probe", "read_probe", "write_probe"]

_Flat = np.ndarray[tuple[int], np.dtype[np.float64]]
_ARRAYS = ("mean", "scale", "weights", "bias")
_STEPS = 10_000  # of L-BFGS; features of real networks need some hundreds
# The slope at the end, as a share of the least curvature there can be, bounds how far a weight is from the minimum.
# Rounding ends the search before the aim where there are very many images or hardly any penalty.
_AIM = 1e-5
_ENOUGH = 1e-3
_SHOWN = 5  # classes named in a message


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """A linear layer on features of D dimensions; all its numbers are float64."""

    classes: tuple[str, ...]
    mean: FloatArray  # (D,) subtracted from the features
    scale: FloatArray  # (D,) which they are then divided by
    weights: FloatArray  # (classes, D)
    bias: FloatArray  # (classes,)

    def __post_init__(self) -> None:
        _check_classes(self.classes)
        for name in _ARRAYS:
            axes = 2 if name == "weights" else 1
            object.__setattr__(self, name, finite(getattr(self, name), name=f"{name} of a probe", ndim=axes))
        shapes = self.mean.shape, self.scale.shape, self.bias.shape
        if shapes != (self.weights.shape[1:], self.weights.shape[1:], (len(self.classes),)) or not self._is_whole():
            raise InvalidInput(
                f"a probe has weights ({len(self.classes)}, D), mean and positive scale (D,) and bias "
                f"({len(self.classes)},), got weights {self.weights.shape}, mean {self.mean.shape}, "
                f"scale {self.scale.shape}, bias {self.bias.shape}"
            )

    def _is_whole(self) -> bool:
        return len(self.weights) == len(self.classes) and bool((self.scale > 0).all())

    @property
    def dimensions(self) -> int:
        """How many numbers it takes of an image."""
        return int(self.weights.shape[1])

    @property
    def digest(self) -> str:
        """Sha256 of its classes and numbers."""
        found = hashlib.sha256(json.dumps(self.classes).encode())
        for name in _ARRAYS:
            found.update(np.ascontiguousarray(getattr(self, name), dtype="<f8").tobytes())
        return found.hexdigest()

    def logits(self, features: ArrayLike) -> Floats:
        """Features (N, D) -> logits (N, classes); a row's do not depend on the rows beside it, to the last bit."""
        given = finite(features, name="features", ndim=2)
        if given.shape[1] != self.dimensions:
            raise InvalidInput(
                f"this probe takes features of {self.dimensions} dimensions, got {given.shape[1]}; "
                "take them where it was fitted"
            )
        standard = (given - self.mean) / self.scale
        return _linear(standard, self.weights, self.bias).astype(np.float32)


def _linear(standard: FloatArray, weights: FloatArray, bias: FloatArray) -> FloatArray:
    """Logits (N, classes). Not a matrix product: its last bits depend on N, those of two vectors' product do not."""
    products: FloatArray = np.vecdot(standard[:, None, :], weights[None])
    return products + bias


def fit_probe(features: ArrayLike, labels: ArrayLike, *, classes: tuple[str, ...], penalty: float = 1.0) -> Probe:
    """The probe that tells `classes` apart by features (N, D) of images whose classes are labels (N,), counted from 0.

    The same input gives the same probe. A dimension that is the same for all images gets weight 0. Two classes are told
    apart by one vector, w on one and -w on the other, whose doubled length is penalised, as scikit-learn does.

    >>> two = fit_probe([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1], classes=("low", "high"))
    >>> two.logits([[2.0], [3.0]]).argmax(axis=1)
    array([0, 1])
    """
    if not 0 < penalty < np.inf:
        raise InvalidInput(f"penalty must be a positive number, got {penalty}; 1 is the usual one")
    table = finite(features, name="features", ndim=2)
    truth = _checked_labels(labels, classes)
    same_length(features=table, labels=truth)
    constant = np.ptp(table, axis=0) == 0
    mean = table.mean(axis=0)
    scale = np.where(constant, 1.0, table.std(axis=0))
    standard = table - mean
    standard /= scale
    standard[:, constant] = 0  # the mean may be off by a last bit; a weight on zeros stays 0
    weights, bias = _minimised(standard, truth, len(classes), penalty)
    return Probe(classes, mean, scale, weights, bias)


def _checked_labels(labels: ArrayLike, classes: tuple[str, ...]) -> IntArray:
    _check_classes(classes)
    truth = np.asarray(labels)
    whole = truth.ndim == 1 and np.issubdtype(truth.dtype, np.integer)
    if not whole or (truth.size and not 0 <= truth.min() <= truth.max() < len(classes)):
        got = f"{truth.min()} to {truth.max()}" if whole else f"{truth.dtype} of shape {truth.shape}"
        raise InvalidInput(f"labels must be numbers of classes, 0 to {len(classes) - 1}, one an image, got {got}")
    lacking = [name for index, name in enumerate(classes) if index not in set(truth.tolist())]
    if lacking:
        more = ", ..." if len(lacking) > _SHOWN else ""
        raise InvalidInput(
            f"every class of a probe needs training images, got none of {', '.join(lacking[:_SHOWN])}{more}; "
            "add some or leave the class out"
        )
    return truth.astype(np.int64)


def _check_classes(classes: tuple[str, ...]) -> None:
    if len(classes) < 2 or len(set(classes)) < len(classes):
        raise InvalidInput(f"a probe tells two or more distinct classes apart, got {', '.join(classes) or 'none'}")


def _minimised(standard: FloatArray, truth: IntArray, classes: int, penalty: float) -> tuple[FloatArray, FloatArray]:
    """Weights (classes, D) and intercepts at the minimum of the mean loss."""
    rows, dimensions = standard.shape
    # two classes: |w|^2 of the one vector w = w1 - w0 is twice |w0|^2 + |w1|^2
    strength = penalty * (2 if classes == 2 else 1) / rows

    def loss(flat: _Flat) -> tuple[float, FloatArray]:
        return _loss(standard, truth, *_parted(flat, classes, dimensions), strength)

    start = np.zeros(classes * (dimensions + 1))
    flattest = min(strength, 1 / rows)  # an intercept is held by the images of its class alone
    found = _descended(loss, start, _AIM * flattest)
    error = float(np.abs(found.jac).max()) / flattest
    if not error <= _ENOUGH:
        raise InvalidInput(
            f"a probe must come within {_ENOUGH:g} of its best weights, got {error:.2g} after {found.nit:,} steps; "
            f"raise the penalty, which is {penalty:g}"
        )
    return _parted(found.x, classes, dimensions)


def _descended(loss: Callable[[_Flat], tuple[float, FloatArray]], start: _Flat, slope: float) -> Any:
    """Down to this slope, however little the last steps pay."""
    return minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _STEPS, "maxfun": 2 * _STEPS, "gtol": slope, "ftol": 0},
    )


def _parted(flat: FloatArray, classes: int, dimensions: int) -> tuple[FloatArray, FloatArray]:
    return flat[classes:].reshape(classes, dimensions), flat[:classes]


def _loss(
    standard: FloatArray, truth: IntArray, weights: FloatArray, bias: FloatArray, strength: float
) -> tuple[float, FloatArray]:
    """Mean cross-entropy + strength / 2 |weights|^2, and its gradient by bias and weights, laid end to end."""
    rows = np.arange(len(truth))
    logs = standard @ weights.T + bias
    logs -= logsumexp(logs, axis=1, keepdims=True)
    value = -logs[rows, truth].mean() + strength / 2 * np.vdot(weights, weights)
    misses = np.exp(logs)  # (N, classes): what is held likely, less the truth
    misses[rows, truth] -= 1
    misses /= len(truth)
    slope = misses.T @ standard + strength * weights
    return float(value), np.concatenate([misses.sum(axis=0), slope.ravel()])


def write_probe(probe: Probe, path: Path) -> None:
    """Write it as safetensors, the classes in the metadata."""
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(getattr(probe, name)) for name in _ARRAYS}
    with atomic_write(path, durable=True) as draft:
        draft.write_bytes(save(arrays, metadata={"classes": json.dumps(probe.classes)}))


def read_probe(path: Path) -> Probe:
    """Read what `write_probe` wrote."""
    from safetensors import SafetensorError

    if not path.is_file():
        raise InvalidInput(f"a probe must be a file, got {path}, which is not there; check the path")
    try:
        classes, arrays = _read(path)
        return Probe(classes, **{name: arrays[name] for name in _ARRAYS})
    except (SafetensorError, LookupError, TypeError, ValueError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error).strip()[:160]
        raise InvalidInput(f"{path} is not a probe that write_probe wrote: {why}; fit it again") from error


def _read(path: Path) -> tuple[tuple[str, ...], Mapping[str, NDArray[Any]]]:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no dict
        classes = json.loads((file.metadata() or {})["classes"])
    if not all(isinstance(name, str) for name in classes):
        raise InvalidInput(f"classes must be text, got {classes}")
    return tuple(classes), arrays


@dataclass(frozen=True, slots=True, eq=False)
class ProbeModel:
    """A model whose classes are a probe's: its features, the probe's logits."""

    name: str
    model: Model
    probe: Probe
    weights_digest: str

    @property
    def classes(self) -> int:
        """How many classes it answers with."""
        return len(self.probe.classes)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The probe's classes."""
        return self.probe.classes

    @property
    def preprocessing(self) -> ModelPreparation:
        """What becomes of a photo before the model sees it."""
        return self.model.preprocessing

    @property
    def settings(self) -> dict[str, Any]:
        """What changes its answers besides weights and preprocessing: the model's."""
        return dict(getattr(self.model, "settings", {}))

    def prepare(self, image: Bytes) -> Floats:
        """What the model would see of this photo: float32 (3, height, width) in [0, 1]."""
        return self.model.prepare(image)

    def answer(self, batch: Floats) -> ModelOutputs:
        """Prepared photos (N, 3, height, width) -> the probe's logits, and the model's features."""
        features = _features(self.model, batch)
        return ModelOutputs(self.probe.logits(features), features)


def attach_probe(model: Model, probe: Probe, *, name: str) -> ProbeModel:
    """The model with the probe's classes in place of its own; its answers must have features. Tried on two images."""
    features = _features(model, probe_images(model.preprocessing.size))
    probe.logits(features)  # as many dimensions as the probe takes?
    digest = hashlib.sha256(f"{model.weights_digest}\n{probe.digest}".encode()).hexdigest()
    return ProbeModel(name, model, probe, digest)


def _features(model: Model, batch: Floats) -> Floats:
    features = model.answer(batch).features
    if features is None:
        raise InvalidInput(f"a probe reads features, {model.name} gives none; load it with features=True")
    return features
