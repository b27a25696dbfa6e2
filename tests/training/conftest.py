"""A small set of handwritten digits (scikit-learn's, 8 x 8, enlarged to 32 x 32) as class folders."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits


@pytest.fixture(scope="session")
def write_digits():
    """Writes images of the first classes as FOLDER/dCLASS/NUMBER.png."""
    digits = load_digits()

    def write(folder, *, classes=3, each=12):
        for label in range(classes):
            (folder / f"d{label}").mkdir(parents=True)
            for number in np.flatnonzero(digits.target == label)[:each]:
                grey = Image.fromarray((digits.images[number] * (255 / 16)).astype(np.uint8))
                large = grey.resize((32, 32), Image.Resampling.BILINEAR).convert("RGB")
                large.save(folder / f"d{label}" / f"{number:04}.png")
        return folder

    return write


@pytest.fixture(scope="session")
def digits(write_digits, tmp_path_factory):
    """36 images of three classes."""
    return write_digits(tmp_path_factory.mktemp("data") / "digits")


@pytest.fixture
def settings(digits):
    """A recipe that trains in about a second."""
    return {
        **{"data": str(digits), "architecture": "mixer-small", "seeds": (45,), "epochs": 3, "batch": 8, "rate": 2e-3},
        **{"validation": 0.25, "padding": 2, "flip": False},
    }


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return str(server.getsockname()[1])


@dataclass
class Forks:
    """Children that train, one job at a time: `start` gives their pids, `wait` their exit codes."""

    server: subprocess.Popen

    def start(self, recipe, out, *, dies_in=0, copies=1, **variables):
        facts = {**recipe.facts, "seeds": recipe.seeds}
        if copies > 1:  # as torchrun starts them
            variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": str(copies)}
        job = {"recipe": facts, "out": str(out), "dies_in": dies_in, "copies": copies, "variables": variables}
        self.server.stdin.write(json.dumps(job) + "\n")
        self.server.stdin.flush()
        return json.loads(self.server.stdout.readline())

    def wait(self):
        return json.loads(self.server.stdout.readline())


@pytest.fixture(scope="session")
def forks():
    script = Path(__file__).with_name("forks.py")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, script], **pipes) as server:
        yield Forks(server)
        server.stdin.close()
