"""Progress of long calls: in notebooks and terminals, never in scripts unless asked for."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr
from types import SimpleNamespace

import pytest

from cosight import compare, score
from cosight.progress import report_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


@pytest.fixture
def notebook(monkeypatch):
    """IPython as it looks from inside a notebook's kernel: its shell has this class, and standard error is a stream."""
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return io.StringIO()


def test_a_function_is_used_as_it_is():
    calls = []
    with report_progress(lambda *call: calls.append(call)) as report:
        report(1, 2, "part")
    assert calls == [(1, 2, "part")]


@pytest.mark.parametrize("progress", [None, False])
def test_a_script_in_a_terminal_shows_nothing_by_itself(progress, terminal):
    with redirect_stderr(terminal), report_progress(progress) as report:
        assert report is None
    assert terminal.getvalue() == ""


def test_a_script_shows_a_bar_where_it_asks_for_one(terminal):
    with redirect_stderr(terminal), report_progress(True) as report:
        report(1, 2, "cue-conflict")
    assert "cue-conflict" in terminal.getvalue()


def test_true_shows_nothing_where_nobody_sees_it():
    with redirect_stderr(io.StringIO()), report_progress(True) as report:
        assert report is None


def test_the_prompt_of_python_shows_a_bar(terminal, monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    with redirect_stderr(terminal):
        compare("sample:edges", measure="accuracy", resamples=2)
    assert "1/1" in terminal.getvalue()


def test_a_notebook_shows_a_line_and_clears_it(notebook):
    with redirect_stderr(notebook):
        score("sample:edges", measure="accuracy", by="experiment", resamples=2)
    frames = notebook.getvalue().split("\r")
    assert frames[1].startswith("[                    ] 0/1 experiment=")
    assert frames[2].startswith("[====================] 1/1")
    assert frames[-2:] == [" " * 79, ""]


def test_a_notebook_shows_nothing_where_that_is_said(notebook):
    with redirect_stderr(notebook):
        score("sample:edges", measure="accuracy", resamples=2, progress=False)
    assert notebook.getvalue() == ""
