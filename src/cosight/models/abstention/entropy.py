"""Abstention functions that use the entropy of the softmax, in nats.

* SP             one network
* Deep Ensemble  mean over several networks
* ASP            one network at a high temperature, after a small step of the image (ODIN)
* MC-Dropout     mean over several passes with dropout

None of them learns from training images. torch is imported on use.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.measures.distance import entropy
from cosight.models.abstention.base import check_logits, check_members
from cosight.models.model import check_batch
from cosight.models.torch_models import TorchModel
from cosight.stimuli.images import Floats

__all__ = [
    "AdjustedSoftmax",
    "DeepEnsemble",
    "Direction",
    "McDropout",
    "SoftmaxProbability",
    "asp_strangeness",
    "dropout_logits",
    "member_entropy",
    "member_prediction",
    "softmax",
]

Direction = Literal["raise", "lower"]


def softmax(logits: FloatArray) -> FloatArray:
    """Compute the softmax over the last axis; the input is not checked.

    >>> softmax(np.array([0.0, 0.0]))
    array([0.5, 0.5])
    """
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities: FloatArray = powers / powers.sum(axis=-1, keepdims=True)
    return probabilities


def member_entropy(logits: ArrayLike | None, *, who: str) -> FloatArray:
    """Compute the mean over members of the entropy of each member's softmax.

    It measures how uncertain the members are, not whether they agree: members certain of different classes give 0.

    Args:
        logits: Logits (members, n, classes).
        who: Name of the caller, for error messages.

    Returns:
        Mean entropy (n,) in nats.

    Raises:
        InvalidInput: The logits are missing, not finite or of another shape.

    >>> member_entropy([[[0.0, 0.0]], [[50.0, 0.0]]], who="example").round(6)
    array([0.346574])
    """
    mean: FloatArray = entropy(softmax(check_members(logits, who=who))).mean(axis=0)
    return mean


def member_prediction(logits: ArrayLike) -> FloatArray:
    """Compute the joint prediction of several members, the mean of their softmaxes.

    Args:
        logits: Logits (members, n, classes).

    Returns:
        Probabilities (n, classes).

    Raises:
        InvalidInput: The logits are not finite or of another shape.

    >>> member_prediction([[[50.0, 0.0]], [[0.0, 50.0]]])
    array([[0.5, 0.5]])
    """
    mean: FloatArray = softmax(check_members(logits, who="a prediction of members")).mean(axis=0)
    return mean


@dataclass(frozen=True, slots=True)
class SoftmaxProbability:
    """SP: the entropy of the softmax over the classes. Source: Lee et al. 2023, section 5.1.

    >>> SoftmaxProbability().strangeness(None, [[0.0, 0.0], [9.0, -9.0]]).round(6)
    array([0.693147, 0.      ])
    """

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> SoftmaxProbability:
        """Return itself."""
        return self

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Compute the entropy (n,) of the softmax of logits (n, classes)."""
        return entropy(softmax(check_logits(logits, who="sp")))


@dataclass(frozen=True, slots=True)
class DeepEnsemble:
    """Deep Ensemble: the mean entropy of networks trained from different seeds.

    Source: Lakshminarayanan et al. 2017; Lee et al. 2023, section 5.1 (five members).
    """

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> DeepEnsemble:
        """Return itself."""
        return self

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Compute the mean entropy (n,) of logits (members, n, classes)."""
        mean = member_entropy(logits, who="deep-ensemble")
        if (members := len(np.asarray(logits))) < 2:
            raise InvalidInput(f"deep-ensemble needs at least two members, got {members}; use sp for one")
        return mean


@dataclass(frozen=True, slots=True)
class AdjustedSoftmax:
    """ASP: the entropy of softmax(logits / temperature) of x - step * sign(gradient).

    The gradient is that of the cross-entropy of the predicted class at the temperature, so the step makes that class
    more likely, as in ODIN (Liang et al. 2018) and in VisAlign's code; `direction` "lower" makes it less likely, as
    the text of Lee et al. 2023 describes it. The image may leave [0, 1]. Everything is float64, because entropies at
    temperature 1000 differ by a few millionths.

    Args:
        temperature: Divisor of the logits.
        step: Step size in units of pixels in [0, 1].
        direction: Whether the step raises or lowers the probability of the predicted class.

    Raises:
        InvalidInput: A setting is out of range.

    >>> AdjustedSoftmax(temperature=2).strangeness(None, [[0.0, 0.0]]).round(6)
    array([0.693147])
    """

    temperature: float = 1000.0
    step: float = 0.0014
    direction: Direction = "raise"

    def __post_init__(self) -> None:
        if not self.temperature > 0 or not self.step >= 0:
            raise InvalidInput(
                f"temperature must be positive and step not negative, got {self.temperature} and {self.step}"
            )
        if self.direction not in get_args(Direction):
            raise InvalidInput(f"direction must be {' or '.join(get_args(Direction))}, got {self.direction!r}")

    def logits(self, model: TorchModel, batch: Floats) -> FloatArray:
        """Compute logits (n, classes) after the step, of a batch that the model prepared."""
        import torch

        check_batch(batch, name=model.name, size=model.size)
        module = copy.deepcopy(model.module)  # the model itself does not change
        module = (module.cpu() if model.device.startswith("mps") else module).double()  # MPS has no float64
        precise = replace(model, module=module, precision="float32", tap=None)
        with torch.enable_grad():
            images = torch.tensor(batch, dtype=torch.float64).requires_grad_()
            scaled = precise(images) / self.temperature
            loss = torch.nn.functional.cross_entropy(scaled, scaled.argmax(dim=1), reduction="sum")
            (gradient,) = torch.autograd.grad(loss, images)
        with torch.no_grad():
            step = self.step if self.direction == "raise" else -self.step
            logits: FloatArray = precise(images - step * gradient.sign()).cpu().numpy()
        return logits

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> AdjustedSoftmax:
        """Return itself."""
        return self

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Compute the entropy (n,) at the temperature of logits (n, classes) returned by `logits`."""
        return entropy(softmax(check_logits(logits, who="asp") / self.temperature))


_DEFAULT_ASP = AdjustedSoftmax()


def asp_strangeness(model: TorchModel, batch: Floats, *, settings: AdjustedSoftmax = _DEFAULT_ASP) -> FloatArray:
    """Compute the ASP strangeness of a batch.

    Args:
        model: Model in torch.
        batch: Images (n, 3, height, width) as `model.prepare` returns them.
        settings: Temperature, step and direction.

    Returns:
        Strangeness (n,).

    Raises:
        InvalidInput: The batch is not one of prepared images.

    >>> from torch import nn
    >>> from cosight.models import Preprocessing, wrap_module
    >>> module = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 2))
    >>> model = wrap_module(module, name="mine:linear", preprocessing=Preprocessing((8, 8)))
    >>> asp_strangeness(model, np.zeros((4, 3, 8, 8), np.float32)).round(4)  # near log 2: the temperature is 1000
    array([0.6931, 0.6931, 0.6931, 0.6931])
    """
    return settings.strangeness(None, settings.logits(model, batch))


@dataclass(frozen=True, slots=True)
class McDropout:
    """MC-Dropout: the mean entropy over passes with dropout enabled.

    Source: Gal & Ghahramani 2016; five passes as in the code of Lee et al. 2023.

    Args:
        passes: Number of forward passes per image.
        seed: Seed of the dropout masks.

    Raises:
        InvalidInput: `passes` is less than 1.

    >>> McDropout().strangeness(None, [[[0.0, 0.0]]]).round(6)
    array([0.693147])
    """

    passes: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        _check_passes(self.passes)

    def logits(self, model: TorchModel, batch: Floats) -> Floats:
        """Compute logits (passes, n, classes) of a batch that the model prepared."""
        return dropout_logits(model, batch, passes=self.passes, seed=self.seed)

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> McDropout:
        """Return itself."""
        return self

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Compute the mean entropy (n,) of logits (passes, n, classes) returned by `logits`."""
        return member_entropy(logits, who="mc-dropout")


def dropout_logits(model: TorchModel, batch: Floats, *, passes: int, seed: int) -> Floats:
    """Compute logits of several passes with dropout enabled.

    Only modules of torch's dropout family with p > 0 are enabled. Batch norm, stochastic depth, and dropout called as a
    function (as in nn.MultiheadAttention) do not change. The dropout masks of an image depend on `seed` and its pixels,
    so its logits do not depend on the other images of the batch. The module's modes and torch's random state are
    restored.

    Args:
        model: Model in torch that has dropout modules.
        batch: Images (n, 3, height, width) as `model.prepare` returns them.
        passes: Number of passes per image.
        seed: Seed of the dropout masks.

    Returns:
        Logits (passes, n, classes).

    Raises:
        InvalidInput: The model has no dropout, `passes` is less than 1, or the batch is not one of prepared images.

    >>> from torch import nn
    >>> from cosight.models import Preprocessing, wrap_module
    >>> module = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(3 * 8 * 8, 2))
    >>> model = wrap_module(module, name="mine:dropout", preprocessing=Preprocessing((8, 8)))
    >>> dropout_logits(model, np.ones((4, 3, 8, 8), np.float32), passes=5, seed=0).shape
    (5, 4, 2)
    """
    import torch

    _check_passes(passes)
    check_batch(batch, name=model.name, size=model.size)
    logits = np.empty((passes, len(batch), model.classes), dtype=np.float32)
    with _dropout_enabled(model), torch.random.fork_rng(), torch.inference_mode():
        for index, image in enumerate(batch):
            digest = hashlib.sha256(f"{seed}\n".encode() + np.ascontiguousarray(image).tobytes()).digest()
            torch.manual_seed(int.from_bytes(digest[:8], "little", signed=True))
            copies = torch.tensor(image).expand(passes, *image.shape)
            logits[:, index] = model(copies).float().cpu().numpy()
    return logits


def _check_passes(passes: int) -> None:
    if passes < 1:
        raise InvalidInput(f"passes must be 1 or more, got {passes}; 5 is the default")


@contextmanager
def _dropout_enabled(model: TorchModel) -> Iterator[None]:
    """Put the dropout modules into training mode; restore their modes afterwards."""
    from torch.nn.modules.dropout import _DropoutNd

    dropouts = [part for part in model.module.modules() if isinstance(part, _DropoutNd) and part.p > 0]
    if not dropouts:
        raise InvalidInput(
            f"mc-dropout needs dropout modules with p > 0, {model.name} has none; train it with dropout or choose "
            "another abstention function"
        )
    modes = [part.training for part in dropouts]
    try:
        for part in dropouts:
            part.train()
        yield
    finally:
        for part, mode in zip(dropouts, modes, strict=True):
            part.train(mode)
