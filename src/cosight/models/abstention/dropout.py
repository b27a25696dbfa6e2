"""MC-Dropout: how unsure are the networks that dropout makes of one?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from cosight.arrays import FloatArray
from cosight.errors import InvalidInput
from cosight.models.abstention.softmax import member_entropy
from cosight.models.model import check_batch
from cosight.models.torch_models import TorchModel
from cosight.stimuli.images import Floats

if TYPE_CHECKING:
    from torch import nn

__all__ = ["McDropout", "dropout_logits"]

_NAME = "mc-dropout"


@dataclass(frozen=True, slots=True)
class McDropout:
    """MC-Dropout: the mean over passes of the entropy of the softmax, with dropout switched on.

    Source: Gal & Ghahramani 2016; five passes as in the code of Lee et al. 2023.
    """

    passes: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        _check_passes(self.passes)

    def logits(self, model: TorchModel, batch: Floats) -> Floats:
        """Logits (passes, n, classes) of a batch, prepared as the model does it."""
        return dropout_logits(model, batch, passes=self.passes, seed=self.seed)

    def fit(self, features: ArrayLike | None, logits: ArrayLike | None, labels: ArrayLike | None) -> McDropout:
        """Itself: it learns nothing from training images."""
        return self

    def strangeness(self, features: ArrayLike | None, logits: ArrayLike | None) -> FloatArray:
        """Mean entropy (n,) of logits (passes, n, classes) that `logits` gave."""
        return member_entropy(logits, who=_NAME)


def dropout_logits(model: TorchModel, batch: Floats, *, passes: int, seed: int) -> Floats:
    """Logits (passes, n, classes) of a batch (n, 3, height, width), a different network of dropout for each pass.

    Only modules of torch's dropout family with p > 0 are switched on: batch norm, stochastic depth, and dropout that
    a module calls as a function (as nn.MultiheadAttention does) stay as they are. What is dropped for an image is
    drawn by `seed` and its pixels: its answers do not depend on the images beside it. The module and torch's random
    state are left as they were.
    """
    import torch

    _check_passes(passes)
    check_batch(batch, name=model.name, size=model.size)
    found = np.empty((passes, len(batch), model.classes), dtype=np.float32)
    with _switched_on(model), torch.random.fork_rng(), torch.inference_mode():
        for index, image in enumerate(batch):
            torch.manual_seed(_seed_of(image, seed))
            copies = torch.tensor(image).expand(passes, *image.shape)
            found[:, index] = model(copies).float().cpu().numpy()
    return found


def _check_passes(passes: int) -> None:
    if passes < 1:
        raise InvalidInput(f"passes must be 1 or more, got {passes}; 5 is the usual number")


def _seed_of(image: Floats, seed: int) -> int:
    digest = hashlib.sha256(f"{seed}\n".encode() + np.ascontiguousarray(image).tobytes())
    return int.from_bytes(digest.digest()[:8], "little", signed=True)


@contextmanager
def _switched_on(model: TorchModel) -> Iterator[None]:
    """Dropout in training mode, and back as it was."""
    parts = _dropouts(model.module)
    if not parts:
        raise InvalidInput(
            f"{_NAME} needs dropout modules with p > 0, {model.name} has none; train it with dropout or choose another"
        )
    before = [part.training for part in parts]
    try:
        for part in parts:
            part.train()
        yield
    finally:
        for part, training in zip(parts, before, strict=True):
            part.train(training)


def _dropouts(module: nn.Module) -> list[nn.Module]:
    from torch.nn.modules.dropout import _DropoutNd

    return [part for part in module.modules() if isinstance(part, _DropoutNd) and part.p > 0]
