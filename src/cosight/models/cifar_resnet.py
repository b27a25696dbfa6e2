"""Small architectures of our own: the CIFAR ResNets of He et al. 2016, section 4.2.

A 3 x 3 convolution, three stages of blocks with 16, 32 and 64 channels, the mean over places, a linear layer. Shortcuts
have no weights ("option A"): where the stage changes, every second pixel, with zeros for the new channels, half of them
before and half after.
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from torch.nn import functional

__all__ = ["BLOCKS", "CifarResNet", "ResidualBlock"]

BLOCKS = {"resnet20": 3, "resnet32": 5, "resnet44": 7}  # blocks a stage: 6n + 2 layers
_WIDTHS = (16, 32, 64)


def _conv(before: int, after: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1, bias=False)


class ResidualBlock(nn.Module):
    """Two convolutions and the way past them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv(before, after, stride), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = _conv(after, after, 1), nn.BatchNorm2d(after)
        self.stride, self.added = stride, after - before

    def forward(self, x: Tensor) -> Tensor:
        """(N, before, H, W) -> (N, after, H / stride, W / stride)."""
        inner = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(inner + self._past(x))

    def _past(self, x: Tensor) -> Tensor:
        if self.stride == 1 and not self.added:
            return x
        half = self.added // 2
        return functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, self.added - half))


class CifarResNet(nn.Module):
    """A ResNet for images of 32 x 32 pixels; `features` is the penultimate layer."""

    def __init__(self, blocks: int, classes: int = 10) -> None:
        super().__init__()
        first, second, third = _WIDTHS
        self.conv1, self.bn1 = _conv(3, first, 1), nn.BatchNorm2d(first)
        self.layer1 = _stage(first, first, blocks, stride=1)
        self.layer2 = _stage(first, second, blocks, stride=2)
        self.layer3 = _stage(second, third, blocks, stride=2)
        self.linear = nn.Linear(third, classes)

    def features(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, 64)."""
        stem = functional.relu(self.bn1(self.conv1(x)))
        return cast(Tensor, self.layer3(self.layer2(self.layer1(stem)))).mean(dim=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W), normalised -> logits (N, classes)."""
        return cast(Tensor, self.linear(self.features(x)))


def _stage(before: int, after: int, blocks: int, *, stride: int) -> nn.Sequential:
    return nn.Sequential(
        ResidualBlock(before, after, stride), *(ResidualBlock(after, after, 1) for _ in range(blocks - 1))
    )
