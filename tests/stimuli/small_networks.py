"""Networks of a few hundred weights with features and gradients, and photos for them."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image as Pillow

from cosight.models import Preprocessing, wrap_module

SIDE = 32


def network(seed: int, *, name: str | None = None, side: int = SIDE):
    """A classifier whose penultimate features are 24 smooth functions of the picture, with fixed random weights."""
    generator = torch.Generator().manual_seed(seed)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, stride=4),
        torch.nn.Softplus(),
        torch.nn.AdaptiveAvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(32, 24),
        torch.nn.Softplus(),
        torch.nn.Linear(24, 4),
    )
    with torch.no_grad():
        for weights in module.parameters():
            weights.copy_(torch.randn(weights.shape, generator=generator) * 0.5)
    preprocessing = Preprocessing(size=(side, side), mean=(0.5,) * 3, std=(0.5,) * 3)
    return wrap_module(module, name=name or f"net{seed}", preprocessing=preprocessing).with_features()


NETWORKS = {"a": 1, "b": 2, "twin": 1}


def load(reference: str):
    """Load a network by a letter; `twin` has the weights of `a`."""
    return network(NETWORKS[reference], name=reference)


def write_photos(folder, count, *, side=SIDE):
    """Smooth coloured pictures."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(5)
    for number in range(count):
        coarse = Pillow.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
        coarse.resize((side, side), Pillow.Resampling.BICUBIC).save(folder / f"{number}.png")
    return folder
