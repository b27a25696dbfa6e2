"""Import torchvision where its compiled operators cannot be loaded.

A CPU-only torch with a torchvision built for CUDA has no `torchvision::nms`, and importing torchvision fails. Here the
operators that Mask R-CNN calls are defined in plain torch: for inference on the CPU, and slower than compiled ones.
"""

from __future__ import annotations

import sys
from math import ceil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["import_torchvision", "nms", "roi_align"]

_NMS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_ROI_ALIGN = (
    "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, "
    "bool aligned) -> Tensor"
)
_libraries: list[Any] = []  # an operator exists as long as the library object that defined it


def import_torchvision() -> None:
    """Import torchvision; define its missing operators first if it needs them. Call it before `import timm`."""
    try:
        import torchvision  # type: ignore[import-untyped]
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        from torch.library import Library

        library = Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for name, signature in (("nms", _NMS), ("qnms", _NMS), ("roi_align", _ROI_ALIGN)):
            library.define(name + signature)  # type: ignore[no-untyped-call]
        for name, operator in (("nms", nms), ("roi_align", roi_align)):
            library.impl(name, operator, "CPU")  # type: ignore[no-untyped-call]
        _libraries.append(library)
        import torchvision  # noqa: F401
        from torchvision.ops import boxes  # type: ignore[import-untyped]

        # torchvision asks for all compiled operators before it calls one. `ops.roi_align` is the function, not the
        # module; without compiled operators it would compile one, which takes minutes.
        regions: Any = sys.modules["torchvision.ops.roi_align"]
        boxes._assert_has_ops = regions._assert_has_ops = lambda: None
        regions._has_ops = lambda: True


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Select boxes by non-maximum suppression: the best one, then the best of those that overlap none selected.

    Args:
        dets: Boxes (x1, y1, x2, y2), one per row.
        scores: Score of each box.
        iou_threshold: Two boxes overlap if their intersection over union is greater.

    Returns:
        Indices of the selected boxes, best first.

    >>> import torch
    >>> boxes = torch.tensor([[0.0, 0, 10, 10], [1, 0, 10, 10], [20, 0, 30, 10]])
    >>> nms(boxes, torch.tensor([0.6, 0.9, 0.3]), 0.5)
    tensor([1, 2])
    """
    import torch

    order = scores.argsort(descending=True, stable=True)
    boxes = dets[order]
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    selected = []
    left = torch.arange(len(boxes))
    while len(left):
        best, left = int(left[0]), left[1:]
        selected.append(best)
        low = torch.maximum(boxes[best, :2], boxes[left, :2])
        high = torch.minimum(boxes[best, 2:], boxes[left, 2:])
        shared = (high - low).clamp(min=0).prod(1)
        left = left[~(shared / (areas[best] + areas[left] - shared) > iou_threshold)]  # undefined: no overlap
    return order[torch.tensor(selected, dtype=torch.int64)]


def roi_align(
    input: Tensor,  # noqa: A002  # named as in torchvision
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Average feature maps over the cells of a grid in each region (He et al. 2017, Mask R-CNN).

    A cell is the mean of bilinearly interpolated points, which are spread evenly over it. Points more than one pixel
    outside the map count as 0.

    Args:
        input: Feature maps, (images, channels, height, width).
        rois: Regions (image, x1, y1, x2, y2), one per row.
        spatial_scale: Pixels of the map per unit of the regions.
        pooled_height: Rows of the grid.
        pooled_width: Columns of the grid.
        sampling_ratio: Points per cell in each direction; 0 or less: one per pixel of the map, rounded up.
        aligned: Whether pixel centres are at half-integer coordinates. If not, a region is at least one pixel wide and
            high.

    Returns:
        The averages, (regions, channels, pooled_height, pooled_width).

    >>> import torch
    >>> ramp = torch.arange(8.0).expand(1, 1, 8, 8)
    >>> roi_align(ramp, torch.tensor([[0.0, 1, 1, 5, 5]]), 1.0, 1, 2, 2, False)  # cells from 1 to 3, and from 3 to 5
    tensor([[[[2., 4.]]]])
    """
    import torch
    from torch.nn.functional import grid_sample

    channels, height, width = input.shape[1:]
    averages = input.new_zeros(len(rois), channels, pooled_height, pooled_width)

    def spread(start: float, length: float, cells: int, side: int) -> tuple[Tensor, Tensor]:
        """Return the points along one axis, scaled to [-1, 1] over the map, and which of them count."""
        points = cells * (sampling_ratio if sampling_ratio > 0 else max(0, ceil(length / cells)))
        at = start + length * (torch.arange(points, dtype=input.dtype) + 0.5) / max(points, 1)
        return 2 * at / max(side - 1, 1) - 1, (at >= -1) & (at <= side)

    offset = 0.5 if aligned else 0.0
    for index, (image, *corners) in enumerate(rois.tolist()):
        left, top, right, bottom = (corner * spatial_scale - offset for corner in corners)
        least = 0.0 if aligned else 1.0
        x, x_counts = spread(left, max(right - left, least), pooled_width, width)
        y, y_counts = spread(top, max(bottom - top, least), pooled_height, height)
        if not len(x) or not len(y):  # an empty region
            continue
        grid = torch.stack([x.expand(len(y), -1), y[:, None].expand(-1, len(x))], dim=-1)[None]
        maps = input[int(image)][None]
        values = grid_sample(maps, grid, padding_mode="border", align_corners=True)[0] * (y_counts[:, None] & x_counts)
        cells = values.reshape(channels, pooled_height, len(y) // pooled_height, pooled_width, len(x) // pooled_width)
        averages[index] = cells.mean(dim=(2, 4))
    return averages
