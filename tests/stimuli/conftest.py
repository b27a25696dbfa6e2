"""Photos for the tests of stimuli: two that scikit-learn ships."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from sklearn.datasets import load_sample_images


def _square(photo: np.ndarray, size: int) -> np.ndarray:
    side = min(photo.shape[:2])
    top, left = (photo.shape[0] - side) // 2, (photo.shape[1] - side) // 2
    return cv2.resize(photo[top : top + side, left : left + side], (size, size), interpolation=cv2.INTER_AREA)


@pytest.fixture(scope="session")
def photos() -> list[np.ndarray]:
    """A temple and a flower, 427 x 640 RGB."""
    return list(load_sample_images().images)


@pytest.fixture(scope="session")
def squares(photos) -> list[np.ndarray]:
    """The same, cut and shrunk to 224 x 224."""
    return [_square(photo, 224) for photo in photos]
