"""A wheel and a source archive of a clean checkout contain the study page, and a study can be served from the wheel."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import urllib.request
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

ROOT = Path(__file__).parents[1]
BUILT = "cosight/humans/web/static/"
REPORT = "cosight/reports/site/static/"
WITHOUT_SOURCE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Copy what git tracks to a folder of its own and build both archives there."""
    checkout, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("dist")
    for name in run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines():
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, checkout)
    return out


@pytest.mark.slow
def test_both_archives_contain_the_study_page(archives):
    with zipfile.ZipFile(next(archives.glob("*.whl"))) as wheel:
        in_wheel = {name.partition(BUILT)[2] for name in wheel.namelist() if BUILT in name}
    with tarfile.open(next(archives.glob("*.tar.gz"))) as source:
        files = [member.name for member in source.getmembers() if member.isfile()]
    in_source = {name.partition(BUILT)[2] for name in files if BUILT in name}
    assert {"index.html", "page.js", "page.css", "admin.html", "licences.txt"} <= in_wheel
    assert in_wheel == in_source
    for names in (files, zipfile.ZipFile(next(archives.glob("*.whl"))).namelist()):
        pages = {name.partition(REPORT)[2] for name in names if REPORT in name}
        assert pages == {"index.html", "report.js", "report.css", "licences.txt"}
    assert not [name for name in files if "/web/src/" in name or "/tests/" in name]


@pytest.mark.slow
def test_a_study_is_served_from_the_wheel_in_a_path_with_a_space(archives, tmp_path):
    home = tmp_path / "an environment"
    venv.create(home, with_pip=True)
    run(home / "bin" / "python", "-m", "pip", "install", "--no-deps", next(archives.glob("*.whl")), env=WITHOUT_SOURCE)
    packages = next((home / "lib").glob("python*/site-packages"))
    # the dependencies of the test environment, without the package that is installed there in editable form
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "cosight" not in path.name.lower() and not (packages / path.name).exists():
            (packages / path.name).symlink_to(path)
    for index, label in enumerate(("cat", "dog") * 20):
        (tmp_path / "my photos" / label).mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(index).integers(0, 255, (32, 32, 3), dtype=np.uint8)
        Pillow.fromarray(pixels).save(tmp_path / "my photos" / label / f"{index}.png")
    cosight, study = home / "bin" / "cosight", tmp_path / "my study"
    run(cosight, "study", "new", study, "--type", "classify", "--set", tmp_path / "my photos", "--labels", "cat,dog",
        env=WITHOUT_SOURCE)  # fmt: skip
    command = [str(cosight), "study", "serve", str(study), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=WITHOUT_SOURCE
    ) as server:
        try:
            printed = ""
            while (address := re.search(r"http://127\.0\.0\.1:\d+", printed)) is None:
                line = server.stdout.readline()
                assert line, printed
                printed += line
            with urllib.request.urlopen(address[0], timeout=20) as page:
                assert b"page.js" in page.read()
        finally:
            server.terminate()
