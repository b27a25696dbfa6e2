"""The scripts and notebooks of examples/ run. In notebooks, only the code: `make docs` executes them with Jupyter."""

import json
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
LONG = ("own_network", "simulated_study")  # they build a set; the tutorials show the same


def marked(paths):
    for path in paths:
        yield pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem in LONG else ())


def test_there_are_enough_of_them():
    assert len(list(EXAMPLES.glob("*.py"))) >= 6
    assert len(list(EXAMPLES.glob("*.ipynb"))) >= 2


@pytest.fixture
def folder(tmp_path, monkeypatch, forget_measures):
    """An empty folder to run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("script", list(marked(sorted(EXAMPLES.glob("*.py")))))
def test_script_runs(script, folder, capsys):
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("notebook", list(marked(sorted(EXAMPLES.glob("*.ipynb")))))
def test_notebook_runs(notebook, folder, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    namespace = {}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs"), "clear the outputs: the site shows its own"
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), notebook.name, "exec"), namespace)
