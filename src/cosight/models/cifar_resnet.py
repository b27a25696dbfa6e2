"""The CIFAR ResNets of He et al. 2016, section 4.2. Importing this module imports torch.

A 3 x 3 convolution, three stages of blocks with 16, 32 and 64 channels, global average pooling, a linear layer.
Shortcuts have no weights ("option A"): between stages they take every second pixel and pad the new channels with zeros,
half of them before and half after.
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from torch.nn import functional

__all__ = ["CifarResNet", "PooledClassifier", "ResidualBlock"]

_WIDTHS = (16, 32, 64)


def _convolution(inputs: int, outputs: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1, bias=False)


class ResidualBlock(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _convolution(inputs, outputs, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = _convolution(outputs, outputs, 1), nn.BatchNorm2d(outputs)
        self.stride, self.added = stride, outputs - inputs
        self.act1, self.act2 = nn.ReLU(), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inputs, H, W) to (N, outputs, H / stride, W / stride)."""
        residual = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        shortcut = x
        if self.stride > 1 or self.added:
            half = self.added // 2
            shortcut = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, self.added - half))
        return cast(Tensor, self.act2(residual + shortcut))


class PooledClassifier(nn.Module):
    """Feature maps (`forward_features` of a subclass), their mean over all places, dropout, and a linear layer."""

    drop: nn.Dropout
    linear: nn.Linear

    def forward_features(self, x: Tensor) -> Tensor:
        """Map (N, 3, H, W) to the last feature maps (N, width, h, w)."""
        raise NotImplementedError

    def forward_head(self, x: Tensor, *, pre_logits: bool = False) -> Tensor:
        """Map feature maps to logits (N, classes), or with `pre_logits` to features (N, width)."""
        features = x.mean(dim=(2, 3))
        return features if pre_logits else cast(Tensor, self.linear(self.drop(features)))

    def get_classifier(self) -> nn.Linear:
        """Return the last layer."""
        return self.linear

    def features(self, x: Tensor) -> Tensor:
        """Map (N, 3, H, W) to features (N, width), the penultimate layer."""
        return self.forward_head(self.forward_features(x), pre_logits=True)

    def forward(self, x: Tensor) -> Tensor:
        """Map normalised images (N, 3, H, W) to logits (N, classes)."""
        return self.forward_head(self.forward_features(x))


class CifarResNet(PooledClassifier):
    """A ResNet for images of 32 x 32 pixels, of 6 `blocks` + 2 layers."""

    def __init__(self, blocks: int, classes: int = 10, dropout: float = 0.0) -> None:
        super().__init__()
        first, second, third = _WIDTHS
        self.conv1, self.bn1, self.act1 = _convolution(3, first, 1), nn.BatchNorm2d(first), nn.ReLU()
        self.layer1 = _stage(first, first, blocks, stride=1)
        self.layer2 = _stage(first, second, blocks, stride=2)
        self.layer3 = _stage(second, third, blocks, stride=2)
        self.drop, self.linear = nn.Dropout(dropout), nn.Linear(third, classes)

    def forward_features(self, x: Tensor) -> Tensor:
        """Map (N, 3, H, W) to the last feature maps (N, 64, H / 4, W / 4)."""
        stem = self.act1(self.bn1(self.conv1(x)))
        return cast(Tensor, self.layer3(self.layer2(self.layer1(stem))))


def _stage(inputs: int, outputs: int, blocks: int, *, stride: int) -> nn.Sequential:
    later = (ResidualBlock(outputs, outputs, 1) for _ in range(blocks - 1))
    return nn.Sequential(ResidualBlock(inputs, outputs, stride), *later)
