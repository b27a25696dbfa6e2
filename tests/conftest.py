"""Fixtures for every room."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

_ROOT = Path(__file__).parents[1]

# No deadline: a busy machine is no bug. In CI the same examples every time, so that a failure there is the change's.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder of public data sets (COSIGHT_MIRROR, else ../shared/data beside the repository), or skip."""
    folder = _ROOT / os.environ.get("COSIGHT_MIRROR", "../shared/data")
    if not folder.is_dir():
        pytest.skip(f"no mirror of the public data at {folder}; set COSIGHT_MIRROR")
    return folder


@pytest.fixture(scope="module")
def one_torch_thread():
    """Small networks wait for threads longer than they compute, and the tests share the machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture
def cosight(capsys, monkeypatch):
    """The command line in this process: `cosight("compare", path)` gives its exit code and what it printed."""
    from cosight.cli.app import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["cosight", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Ended(int(ended.value.code or 0), printed.out, printed.err)

    return run
