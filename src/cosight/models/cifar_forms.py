"""Forms of well-known networks for images of 32 x 32 pixels, as Nanda et al. 2021 train them on CIFAR-10.

The first layers, which reduce photos of 224 pixels, become one 3 x 3 convolution without stride; the rest is that of
timm, or for VGG-16 of its paper, with batch norm and one linear layer. Importing this module imports torch and timm.
"""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor, nn

from cosight.models.cifar_resnet import PooledClassifier
from cosight.torchvision_ops import import_torchvision

import_torchvision()

from timm.layers import ConvNormAct  # noqa: E402
from timm.models.densenet import DenseNet  # noqa: E402
from timm.models.inception_v3 import InceptionV3  # noqa: E402
from timm.models.resnet import BasicBlock, ResNet  # noqa: E402

__all__ = ["CifarVgg16", "densenet121", "inception_v3", "resnet18"]

_VGG16 = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # width and convolutions of each stage (configuration D)


def resnet18(classes: int, dropout: float) -> nn.Module:
    """Return a ResNet-18 whose first layer has 3 x 3 weights, stride 1 and no pooling."""
    network: Any = ResNet(BasicBlock, [2, 2, 2, 2], num_classes=classes, drop_rate=dropout)
    network.conv1 = nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False)
    network.maxpool = nn.Identity()
    return cast(nn.Module, network)


def densenet121(classes: int, dropout: float) -> nn.Module:
    """Return a DenseNet-121 whose first layer has 3 x 3 weights, stride 1 and no pooling."""
    network: Any = DenseNet(growth_rate=32, block_config=(6, 12, 24, 16), num_classes=classes, drop_rate=dropout)
    network.features.conv0 = nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False)
    network.features.pool0 = nn.Identity()
    return cast(nn.Module, network)


def inception_v3(classes: int, dropout: float) -> nn.Module:
    """Return an Inception v3 whose stem is one 3 x 3 convolution to 192 channels."""
    network: Any = InceptionV3(num_classes=classes, drop_rate=dropout, aux_logits=False)
    network.Conv2d_1a_3x3 = ConvNormAct(3, 192, kernel_size=3, padding=1, norm_kwargs={"eps": 0.001})
    for name in ("Conv2d_2a_3x3", "Conv2d_2b_3x3", "Pool1", "Conv2d_3b_1x1", "Conv2d_4a_3x3", "Pool2"):
        setattr(network, name, nn.Identity())
    return cast(nn.Module, network)


class CifarVgg16(PooledClassifier):
    """VGG-16 with batch norm: five stages of 3 x 3 convolutions, each halved by max pooling, and one linear layer."""

    def __init__(self, classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        for width, count in _VGG16:
            for _ in range(count):
                convolution = nn.Conv2d(inputs, width, kernel_size=3, padding=1)
                layers += [convolution, nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
                inputs = width
            layers.append(nn.MaxPool2d(2))
        self.stages = nn.Sequential(*layers)
        self.drop, self.linear = nn.Dropout(dropout), nn.Linear(inputs, classes)

    def forward_features(self, x: Tensor) -> Tensor:
        """Map (N, 3, H, W) to the last feature maps (N, 512, H / 32, W / 32)."""
        return cast(Tensor, self.stages(x))
