"""Compiled functions where numba can cache nothing: a read-only installation and no home, as in some containers."""

import importlib.util

import pytest
from numba import njit

_MODULE = """
from cosight.stimuli.compiled import compiled


@compiled(error_model="numpy")
def half(number):
    return number / 2
"""


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A module beside which no folder can be made, by root neither, and a cache folder that cannot be made."""
    (tmp_path / "__pycache__").write_text("")
    (tmp_path / "mine.py").write_text(_MODULE)
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    spec = importlib.util.spec_from_file_location("mine", tmp_path / "mine.py")
    return spec, importlib.util.module_from_spec(spec)


def test_functions_are_compiled_without_a_cache(nowhere):
    spec, module = nowhere
    spec.loader.exec_module(module)
    assert module.half(3) == 1.5
    assert module.half.signatures  # compiled it is
    with pytest.raises(RuntimeError, match="cannot cache"):  # as every corruption would have ended
        njit(cache=True)(module.half.py_func)
