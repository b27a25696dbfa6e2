"""The line about timed trials in `perf/` is measured, and counts what it says."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.browser.visits import missing


@pytest.fixture
def exposing():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2])  # scripts beside the package, not part of it
        yield import_module("perf.exposing")


@pytest.mark.parametrize(
    ("exposure", "late", "share"),
    [(0.5, False, 1), (0.53, False, 1), (0.54, False, 0), (0.46, False, 0), (0.5, True, 0)],  # frames of 1/60 s
)
def test_two_frames_are_on_time(exposing, exposure, late, share):
    row = {"asked": 0.5, "exposure": exposure, "frame": 1 / 60, "late": late}
    assert exposing.fraction_on_time([row]) == share
    assert exposing.fraction_on_time([row, {**row, "exposure": 0.5, "late": False}]) == (share + 1) / 2


@pytest.mark.slow
def test_the_line_is_measured(exposing):
    if missing():
        pytest.skip(missing())
    [line] = exposing.lines(exposing.Size(2, 0.1))
    assert line.ours in (0, 50, 100)
    assert (line.theirs, line.limit, line.unit) == (95, None, "%")


def test_there_is_no_line_without_a_browser(exposing, monkeypatch):
    monkeypatch.setattr(exposing, "missing", lambda: "no browser")
    assert list(exposing.lines(exposing.FULL)) == []
