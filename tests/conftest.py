"""Fixtures for every room."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder of public data sets (COSIGHT_MIRROR, else ../shared/data beside the repository), or skip."""
    folder = _ROOT / os.environ.get("COSIGHT_MIRROR", "../shared/data")
    if not folder.is_dir():
        pytest.skip(f"no mirror of the public data at {folder}; set COSIGHT_MIRROR")
    return folder
