"""k-winners-take-all (Xiao, Zhong and Zheng 2020): an activation that keeps a layer's k largest units.

Importing this module imports torch.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cosight.errors import InvalidInput

__all__ = ["KWta", "k_winners", "use_k_wta"]

_REPLACED = (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Hardswish)


def k_winners(units: Tensor, k: int) -> Tensor:
    """Keep the k largest of each image's units and set the others to 0.

    Exactly k units are kept. Of units that are equal, those with the lowest index win, so the result does not depend
    on the batch or the device.

    Args:
        units: Units (images, ...); all but the first dimension are one layer.
        k: Number of units to keep, 1 to the width of the layer.

    Returns:
        Units of the same shape; the gradient of those that are kept is 1, of the others 0.

    Raises:
        InvalidInput: If k is not between 1 and the width.

    >>> k_winners(torch.tensor([[3.0, -1.0, 2.0, 2.0]]), 2).tolist()
    [[3.0, 0.0, 2.0, 0.0]]
    """
    flat = units.flatten(1)
    if not 1 <= k <= flat.shape[1]:
        raise InvalidInput(f"k must be 1 to the width of the layer, {flat.shape[1]}, got {k}")
    winners = flat.detach().sort(dim=1, descending=True, stable=True).indices[:, :k]
    loses = torch.ones_like(flat, dtype=torch.bool).scatter_(1, winners, False)
    return flat.masked_fill(loses, 0.0).reshape(units.shape)


class KWta(nn.Module):
    """`k_winners` of a fraction of the layer's units, rounded up, so that at least one is kept."""

    def __init__(self, fraction: float) -> None:
        super().__init__()
        self.fraction = fraction

    def forward(self, x: Tensor) -> Tensor:
        """Keep the largest units of each image."""
        return k_winners(x, -int(-x[0].numel() * self.fraction // 1))

    def extra_repr(self) -> str:
        """Return the fraction, for `repr`."""
        return f"fraction={self.fraction:g}"


def use_k_wta(module: nn.Module, fraction: float) -> None:
    """Replace all activations of a network (ReLU, GELU, SiLU and their like) by k-winners-take-all.

    Args:
        module: The network; it is changed.
        fraction: Fraction of each layer's units that are kept, above 0 and up to 1.

    Raises:
        InvalidInput: If the fraction is out of range, or the network has no such activation.

    >>> network = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> use_k_wta(network, 0.5)
    >>> network[1]
    KWta(fraction=0.5)
    """
    if not 0 < fraction <= 1:
        raise InvalidInput(f"k_wta is the fraction of units that are kept, above 0 and up to 1, got {fraction:g}")
    found = [
        (part, name)
        for part in module.modules()
        for name, child in part.named_children()
        if isinstance(child, _REPLACED)
    ]
    if not found:
        raise InvalidInput(f"k_wta replaces activations such as ReLU, {type(module).__name__} has none as a module")
    for part, name in found:
        setattr(part, name, KWta(fraction))
