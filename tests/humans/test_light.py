"""A study needs nothing but what `pip install cosight` brings."""

import subprocess
import sys
from pathlib import Path

import pytest

import cosight.humans

from .conftest import make_study

# what the extras bring: absent for this process
WITHOUT = """
import sys
for name in ("cv2", "numba", "torch", "torchvision", "timm", "matplotlib", "playwright", "psycopg", "sklearn"):
    sys.modules[name] = None
from cosight.cli.app import main
for line in sys.argv[1:]:
    sys.argv = ["cosight", *line.split()]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            sys.exit(line)
"""


def test_a_study_goes_from_its_design_to_gold_labels_without_the_extras(tmp_path):
    if not (Path(cosight.humans.__file__).parent / "web" / "static" / "index.html").is_file():
        pytest.skip("the page is not built; run `make page`")
    make_study(tmp_path, "classify", distractors=0)
    lines = (
        "study new other --type curate --set set",
        "study simulate study --participants 2",
        "study status study",
        "study quality study",
        "study export study answers.parquet --gold --participants",
        "score answers.parquet --resamples 20",
    )
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *lines], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "answers-participants.csv").read_text().count("/p000") == 2
