"""ASP: the entropy of a hot softmax after a small step of the image that makes its class likelier."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from numpy.typing import ArrayLike

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.measures.distance import entropy
from cosight.models.abstention.inputs import checked_logits
from cosight.models.abstention.softmax import softmax
from cosight.models.model import check_batch
from cosight.models.torch_models import TorchModel
from cosight.stimuli.images import Floats

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["AdjustedSoftmax", "Direction", "asp_strangeness"]

_NAME = "asp"
Direction = Literal["raise", "lower"]


@dataclass(frozen=True, slots=True)
class AdjustedSoftmax:
    """ASP: the entropy of softmax(logits / temperature) of x - step * sign(gradient), in nats.

    The gradient is that of the cross-entropy of the predicted class at the temperature, so the step makes that class
    likelier, as ODIN does (Liang et al. 2018) and VisAlign's code; `direction` "lower" makes it less likely, as the
    words of Lee et al. 2023 have it. `step` is in units of pixels in [0, 1]: in the model's normalised space it is
    divided by the standard deviation of each channel. The step may leave [0, 1]. Everything is float64, for at
    temperature 1000 entropies differ by some millionths.
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
        """Logits (n, classes) of a batch, prepared as the model does it, after the step."""
        import torch

        check_batch(batch, name=model.name, size=model.size)
        precise = _in_float64(model)
        images = torch.tensor(batch, dtype=torch.float64)
        with torch.no_grad():
            found: FloatArray = precise(self._stepped(precise, images)).cpu().numpy()
        return found

    def _stepped(self, model: TorchModel, images: Tensor) -> Tensor:
        import torch

        with torch.enable_grad():
            start = images.detach().requires_grad_()
            logits = model(start) / self.temperature
            loss = torch.nn.functional.cross_entropy(logits, logits.argmax(dim=1), reduction="sum")
            (gradient,) = torch.autograd.grad(loss, start)
        return images - (self.step if self.direction == "raise" else -self.step) * gradient.sign()

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> AdjustedSoftmax:
        """Itself: it learns nothing from training images."""
        return self

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Entropy (n,) at the temperature of logits (n, classes) that `logits` gave."""
        return entropy(softmax(checked_logits(logits, who=_NAME) / self.temperature))


_USUAL = AdjustedSoftmax()


def asp_strangeness(model: TorchModel, batch: Floats, *, settings: AdjustedSoftmax = _USUAL) -> FloatArray:
    """Strangeness (n,) of a batch (n, 3, height, width), prepared as the model does it."""
    return settings.strangeness(None, settings.logits(model, batch))


def _in_float64(model: TorchModel) -> TorchModel:
    """A copy; the model itself stays as it is."""
    return replace(model, module=copy.deepcopy(model.module).double(), precision="float32", tap=None)
