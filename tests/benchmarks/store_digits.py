"""Store scikit-learn's digits as the package keeps them: `python tests/benchmarks/store_digits.py OUT`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits


def store(path: Path) -> None:
    digits = load_digits()
    np.savez_compressed(path, images=digits.images.astype(np.uint8), labels=digits.target.astype(np.uint8))


if __name__ == "__main__":
    store(Path(sys.argv[1]))
