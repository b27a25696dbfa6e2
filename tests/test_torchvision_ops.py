"""The operators of torchvision in plain torch, against their definitions."""

from math import ceil, floor

import numpy as np
import pytest

from cosight.torchvision_ops import import_torchvision, nms, roi_align

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def overlap(a, b):
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return width * height / (sum(areas) - width * height)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7, 1.0])
def test_selected_boxes_are_the_best_that_do_not_overlap(threshold):
    import torch

    rng = np.random.default_rng(3)
    corners = rng.uniform(0, 50, (60, 2))
    boxes = np.hstack([corners, corners + rng.uniform(5, 30, (60, 2))]).astype(np.float32)
    scores = rng.permutation(60).astype(np.float32)
    selected = []
    for index in np.argsort(-scores):
        if all(overlap(boxes[index], boxes[other]) <= threshold for other in selected):
            selected.append(int(index))
    assert nms(torch.from_numpy(boxes), torch.from_numpy(scores), threshold).tolist() == selected


def test_equal_scores_keep_their_order_and_empty_boxes_overlap_nothing():
    import torch

    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 4], [2, 2, 2, 2], [2, 2, 2, 2]])
    assert nms(boxes, torch.ones(4), 0.5).tolist() == [0, 2, 3]
    assert nms(torch.zeros(0, 4), torch.zeros(0), 0.5).tolist() == []


def test_a_region_by_hand():
    """Of [[0, 1], [2, 3]]: four points at .5 and 1.5, beyond the last centre, have 1.5, 2, 2.5 and 3; mean 2.25.

    With aligned pixels the points are the centres; their mean is 1.5.
    """
    import torch

    maps, region = torch.tensor([[[[0.0, 1], [2, 3]]]]), torch.tensor([[0.0, 0, 0, 2, 2]])
    assert roi_align(maps, region, 1.0, 1, 1, 2, False).item() == pytest.approx(2.25)
    assert roi_align(maps, region, 1.0, 1, 1, 2, True).item() == pytest.approx(1.5)
    assert roi_align(maps, region * 4, 0.25, 1, 1, 2, False).item() == pytest.approx(2.25)
    assert roi_align(maps, region, 1.0, 2, 2, 1, True).flatten().tolist() == pytest.approx([0, 1, 2, 3])


def interpolate(values, y, x):
    """Interpolate a map at a point; up to a pixel outside it has the value of its edge, further out 0."""
    height, width = values.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = floor(y), floor(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    above = values[top, left] * (left + 1 - x) + values[top, right] * (x - left)
    below = values[bottom, left] * (left + 1 - x) + values[bottom, right] * (x - left)
    return above * (top + 1 - y) + below * (y - top)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("points", [0, 1, 2])
def test_regions_are_means_of_interpolated_points(points, aligned):
    import torch

    rng = np.random.default_rng(5)
    maps = rng.normal(size=(2, 3, 9, 12))
    regions = [(0, 1, 2, 20, 11), (1, -9, -8, 15, 40), (1, 6, 3, 6.4, 3.2), (0, 22, 0, 60, 60), (1, 5, 5, 5, 5)]
    scale, rows, columns = 0.5, 2, 3
    tensors = torch.from_numpy(maps), torch.tensor(regions, dtype=torch.float64)
    found = roi_align(*tensors, scale, rows, columns, points, aligned)
    for region, cells in zip(regions, found.numpy(), strict=True):
        left, top, right, bottom = (value * scale - 0.5 * aligned for value in region[1:])
        width, height = (max(side, 0 if aligned else 1) for side in (right - left, bottom - top))
        across, down = points or ceil(width / columns), points or ceil(height / rows)
        for channel, row, column in np.ndindex(cells.shape):
            values = [
                interpolate(
                    maps[region[0], channel],
                    top + height / rows * (row + (i + 0.5) / down),
                    left + width / columns * (column + (j + 0.5) / across),
                )
                for i in range(down)
                for j in range(across)
            ]
            assert cells[channel, row, column] == pytest.approx(np.mean(values) if values else 0, abs=1e-9)


def test_torchvision_calls_them_where_compiled_ones_are_missing():
    import torch

    import_torchvision()
    from torchvision import ops

    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 0, 10, 10], [20, 0, 30, 10]])
    assert ops.nms(boxes, torch.tensor([0.6, 0.9, 0.3]), 0.5).tolist() == [1, 2]
    ramp = torch.arange(8.0).expand(1, 1, 8, 8)
    found = ops.roi_align(ramp, [torch.tensor([[1.0, 1, 5, 5]])], (1, 2), sampling_ratio=2)
    assert found.flatten().tolist() == pytest.approx([2, 4])
