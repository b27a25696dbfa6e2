"""Linear probes: multinomial logistic regression on a model's features, to give it other classes.

Each dimension of the features is standardised by the mean and standard deviation of the training images. The probe
minimises the sum of the cross-entropies + penalty / 2 times the sum of the squared weights; intercepts are not
penalised. The result is that of scikit-learn's `LogisticRegression(C=1 / penalty)` after its `StandardScaler`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import logsumexp

from cosight.arrays import FloatArray, IntArray, finite, same_length
from cosight.errors import InvalidInput
from cosight.files import atomic_write
from cosight.models.model import Model, ModelOutputs, ModelPreparation, check_file, probe_images
from cosight.stimuli.images import Bytes, Floats

__all__ = ["Probe", "ProbeModel", "attach_probe", "fit_probe", "read_probe", "write_probe"]

_Flat = np.ndarray[tuple[int], np.dtype[np.float64]]
_ARRAYS = ("mean", "scale", "weights", "bias")
_STEPS = 10_000  # of L-BFGS; features of real networks need several hundred
# The final gradient, divided by the least possible curvature, bounds how far a weight is from the minimum. With very
# many images or hardly any penalty, rounding ends the search before it reaches _TARGET_ERROR.
_TARGET_ERROR = 1e-5
_LARGEST_ERROR = 1e-3
_MOST_CLASSES = 5  # named in a message


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """A linear layer on features of D dimensions, in float64.

    Args:
        classes: Names of the classes, at least two.
        mean: (D,), subtracted from the features.
        scale: (D,), divisor of the features after that.
        weights: (classes, D).
        bias: (classes,).

    Raises:
        InvalidInput: Shapes do not agree, or a number is not finite.

    >>> Probe(("low", "high"), [2.0], [1.0], [[-1.0], [1.0]], [0.0, 0.0]).logits([[3.0]])
    array([[-1.,  1.]], dtype=float32)
    """

    classes: tuple[str, ...]
    mean: FloatArray
    scale: FloatArray
    weights: FloatArray
    bias: FloatArray

    def __post_init__(self) -> None:
        _check_classes(self.classes)
        for name in _ARRAYS:
            axes = 2 if name == "weights" else 1
            object.__setattr__(self, name, finite(getattr(self, name), name=f"{name} of a probe", ndim=axes))
        classes, dimensions = len(self.classes), self.weights.shape[1]
        shapes = [getattr(self, name).shape for name in _ARRAYS]
        expected = [(dimensions,), (dimensions,), (classes, dimensions), (classes,)]
        if shapes != expected or not (self.scale > 0).all():
            raise InvalidInput(
                f"a probe has weights ({classes}, D), mean and positive scale (D,) and bias ({classes},), got weights "
                f"{self.weights.shape}, mean {self.mean.shape}, scale {self.scale.shape}, bias {self.bias.shape}"
            )

    @property
    def dimensions(self) -> int:
        """Number of features per image."""
        return int(self.weights.shape[1])

    @property
    def digest(self) -> str:
        """SHA-256 of its classes and numbers."""
        digest = hashlib.sha256(json.dumps(self.classes).encode())
        for name in _ARRAYS:
            digest.update(np.ascontiguousarray(getattr(self, name), dtype="<f8").tobytes())
        return digest.hexdigest()

    def logits(self, features: ArrayLike) -> Floats:
        """Compute logits (N, classes) of features (N, D); no bit of a row depends on the other rows."""
        table = finite(features, name="features", ndim=2)
        if table.shape[1] != self.dimensions:
            raise InvalidInput(
                f"this probe takes features of {self.dimensions} dimensions, got {table.shape[1]}; "
                "use the layer that it was fitted to"
            )
        standardised = (table - self.mean) / self.scale
        # not a matrix product: its last bits depend on N, those of the product of two vectors do not
        products: FloatArray = np.vecdot(standardised[:, None, :], self.weights[None])
        return (products + self.bias).astype(np.float32)


def fit_probe(features: ArrayLike, labels: ArrayLike, *, classes: tuple[str, ...], penalty: float = 1.0) -> Probe:
    """Fit a probe; the same input gives the same probe.

    A dimension without variance gets weight 0. Two classes are separated by one vector, w for one and -w for the
    other, whose doubled length is penalised, as in scikit-learn.

    Args:
        features: Features (N, D) of training images.
        labels: Their classes (N,), counted from 0.
        classes: Names of the classes; each needs at least one image.
        penalty: Weight of the squared weights; 1 / C of scikit-learn.

    Returns:
        The probe.

    Raises:
        InvalidInput: The input is not a training set, or the search does not converge.

    >>> two = fit_probe([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1], classes=("low", "high"))
    >>> two.logits([[2.0], [3.0]]).argmax(axis=1)
    array([0, 1])
    """
    if not 0 < penalty < np.inf:
        raise InvalidInput(f"penalty must be a positive number, got {penalty}; 1 is the default")
    table = finite(features, name="features", ndim=2)
    truth = _check_labels(labels, classes)
    same_length(features=table, labels=truth)
    constant = np.ptp(table, axis=0) == 0
    mean = table.mean(axis=0)
    scale = np.where(constant, 1.0, table.std(axis=0))
    standardised = table - mean
    standardised /= scale
    standardised[:, constant] = 0  # the mean may be off by the last bit; the weight of zeros stays 0
    weights, bias = _minimise(standardised, truth, len(classes), penalty)
    return Probe(classes, mean, scale, weights, bias)


def _check_classes(classes: tuple[str, ...]) -> None:
    if len(classes) < 2 or len(set(classes)) < len(classes):
        raise InvalidInput(f"a probe needs two or more distinct classes, got {', '.join(classes) or 'none'}")


def _check_labels(labels: ArrayLike, classes: tuple[str, ...]) -> IntArray:
    _check_classes(classes)
    truth = np.asarray(labels)
    is_integer = truth.ndim == 1 and np.issubdtype(truth.dtype, np.integer)
    if not is_integer or (truth.size and not 0 <= truth.min() <= truth.max() < len(classes)):
        got = f"{truth.min()} to {truth.max()}" if is_integer else f"{truth.dtype} of shape {truth.shape}"
        raise InvalidInput(f"labels must be class numbers, 0 to {len(classes) - 1}, one per image, got {got}")
    missing = [name for index, name in enumerate(classes) if index not in set(truth.tolist())]
    if missing:
        more = ", ..." if len(missing) > _MOST_CLASSES else ""
        raise InvalidInput(
            f"every class of a probe needs training images, got none of {', '.join(missing[:_MOST_CLASSES])}{more}; "
            "add some or leave the class out"
        )
    return truth.astype(np.int64)


def _minimise(standardised: FloatArray, truth: IntArray, classes: int, penalty: float) -> tuple[FloatArray, FloatArray]:
    """Return weights (classes, D) and intercepts at the minimum of the mean loss."""
    count, dimensions = standardised.shape
    rows = np.arange(count)
    # two classes: |w|^2 of the one vector w = w1 - w0 is twice |w0|^2 + |w1|^2
    strength = penalty * (2 if classes == 2 else 1) / count

    def loss(flat: _Flat) -> tuple[float, FloatArray]:
        """Return mean cross-entropy + strength / 2 |weights|^2, and its gradient by bias and weights, concatenated."""
        bias, weights = flat[:classes], flat[classes:].reshape(classes, dimensions)
        log_probabilities = standardised @ weights.T + bias
        log_probabilities -= logsumexp(log_probabilities, axis=1, keepdims=True)
        value = -log_probabilities[rows, truth].mean() + strength / 2 * np.vdot(weights, weights)
        errors = np.exp(log_probabilities)  # (N, classes): probability minus truth
        errors[rows, truth] -= 1
        errors /= count
        gradient = errors.T @ standardised + strength * weights
        return float(value), np.concatenate([errors.sum(axis=0), gradient.ravel()])

    least_curvature = min(strength, 1 / count)  # an intercept is determined by the images of its class alone
    tolerance = _TARGET_ERROR * least_curvature
    result: Any = minimize(
        loss,
        np.zeros(classes * (dimensions + 1)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _STEPS, "maxfun": 2 * _STEPS, "gtol": tolerance, "ftol": 0},
    )
    error = float(np.abs(result.jac).max()) / least_curvature
    if not error <= _LARGEST_ERROR:
        raise InvalidInput(
            f"a probe must come within {_LARGEST_ERROR:g} of its best weights, got {error:.2g} after {result.nit:,} "
            f"steps; raise the penalty, which is {penalty:g}"
        )
    return result.x[classes:].reshape(classes, dimensions), result.x[:classes]


def write_probe(probe: Probe, path: Path) -> None:
    """Write a probe as safetensors, with its classes in the metadata.

    Args:
        probe: The probe.
        path: File to write, atomically.

    >>> write_probe(Probe(("low", "high"), [2.0], [1.0], [[-1.0], [1.0]], [0.0, 0.0]), Path("probe.safetensors"))
    """
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(getattr(probe, name)) for name in _ARRAYS}
    with atomic_write(path, durable=True) as draft:
        draft.write_bytes(save(arrays, metadata={"classes": json.dumps(probe.classes)}))


def read_probe(path: Path) -> Probe:
    """Read a probe that `write_probe` wrote.

    Args:
        path: The file.

    Returns:
        The probe.

    Raises:
        InvalidInput: The file does not exist or is not a probe.

    >>> write_probe(Probe(("low", "high"), [2.0], [1.0], [[-1.0], [1.0]], [0.0, 0.0]), Path("brightness.safetensors"))
    >>> read_probe(Path("brightness.safetensors")).classes
    ('low', 'high')
    """
    from safetensors import SafetensorError, safe_open

    check_file(path, "a probe")
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no dict
            classes = json.loads((file.metadata() or {})["classes"])
        if not all(isinstance(name, str) for name in classes):
            raise InvalidInput(f"classes must be text, got {classes}")
        return Probe(tuple(classes), **{name: arrays[name] for name in _ARRAYS})
    except (SafetensorError, LookupError, TypeError, ValueError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error).strip()[:160]
        raise InvalidInput(f"{path} is not a probe that write_probe wrote: {reason}; fit it again") from error


@dataclass(frozen=True, slots=True, eq=False)
class ProbeModel:
    """A model with the classes of a probe: the model's features, the probe's logits. Make it with `attach_probe`."""

    name: str
    model: Model
    probe: Probe
    weights_digest: str

    @property
    def classes(self) -> int:
        """Number of classes of the probe."""
        return len(self.probe.classes)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The probe's classes."""
        return self.probe.classes

    @property
    def preprocessing(self) -> ModelPreparation:
        """How the model prepares photos."""
        return self.model.preprocessing

    @property
    def settings(self) -> dict[str, Any]:
        """What changes the answers besides weights and preprocessing: the model's settings."""
        return dict(getattr(self.model, "settings", {}))

    def prepare(self, image: Bytes) -> Floats:
        """Return the model's input for a photo: float32 (3, height, width) in [0, 1]."""
        return self.model.prepare(image)

    def answer(self, batch: Floats) -> ModelOutputs:
        """Compute the probe's logits and the model's features of prepared photos (N, 3, height, width)."""
        features = _features(self.model, batch)
        return ModelOutputs(self.probe.logits(features), features)


def attach_probe(model: Model, probe: Probe, *, name: str) -> ProbeModel:
    """Replace the classes of a model by those of a probe.

    Args:
        model: Model loaded with features.
        probe: Probe fitted to these features.
        name: Observer name.

    Returns:
        The model with the probe's classes, tried on two images.

    Raises:
        InvalidInput: The model has no features, or they have another number of dimensions.

    >>> from cosight.models import Preprocessing, as_model
    >>> def colours_and_brightness(images):  # logits and features
    ...     return images.mean(axis=(2, 3)), images.mean(axis=(1, 2, 3))[:, None]
    >>> pixels = Preprocessing((8, 8), mean=(0, 0, 0), std=(1, 1, 1))
    >>> model = as_model(colours_and_brightness, name="mine:colours", preprocessing=pixels, features=True)
    >>> probe = fit_probe([[0.1], [0.2], [0.8], [0.9]], [0, 0, 1, 1], classes=("dark", "light"))
    >>> attach_probe(model, probe, name="mine:brightness").class_names
    ('dark', 'light')
    """
    probe.logits(_features(model, probe_images(model.preprocessing.size)))  # raises if the dimensions differ
    digest = hashlib.sha256(f"{model.weights_digest}\n{probe.digest}".encode()).hexdigest()
    return ProbeModel(name, model, probe, digest)


def _features(model: Model, batch: Floats) -> Floats:
    features = model.answer(batch).features
    if features is None:
        raise InvalidInput(f"a probe needs features, {model.name} returns none; load it with features=True")
    return features
