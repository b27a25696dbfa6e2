"""Fixtures for abstention: training images in three clouds, and small torch models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest


@dataclass(frozen=True)
class Clouds:
    features: np.ndarray
    logits: np.ndarray
    labels: np.ndarray
    queries: np.ndarray
    query_logits: np.ndarray


def make_clouds(rows=240, dimensions=6, classes=3, queries=40, seed=0):
    """Features around class means, stretched and turned; logits linear in them."""
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    means = 4 * rng.normal(size=(classes, dimensions))
    shape = rng.normal(size=(dimensions, dimensions)) / 2 + np.eye(dimensions)
    features = means[labels] + rng.normal(size=(rows, dimensions)) @ shape
    near = means[rng.integers(0, classes, queries)]
    strange = near + 2 * rng.normal(size=(queries, dimensions)) @ shape
    weights = means.T / np.linalg.norm(means, axis=1)
    bias = -np.linalg.norm(means, axis=1) / 2
    return Clouds(features, features @ weights + bias, labels, strange, strange @ weights + bias)


@pytest.fixture
def clouds():
    return make_clouds()


@pytest.fixture(scope="session")
def clouds_of():
    return make_clouds


@pytest.fixture
def dropping(one_torch_thread):
    """A model of 8 x 8 images with batch norm, two kinds of dropout and three classes."""
    import torch

    from cosight.models.preprocessing import Preprocessing
    from cosight.models.torch_models import wrap_module

    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Dropout2d(0.2),
        torch.nn.Flatten(),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(288, 3),
    )
    way = Preprocessing((8, 8), mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.5))
    return wrap_module(module, name="python:tiny", preprocessing=way)


@pytest.fixture
def batch():
    return np.random.default_rng(1).random((5, 3, 8, 8), dtype=np.float32)


@pytest.fixture(scope="session")
def pytorch_ood():
    """The package, or skip; its import needs torchvision's, which needs ours."""
    pytest.importorskip("torch")
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    return pytest.importorskip("pytorch_ood")
