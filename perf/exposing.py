"""How many timed trials are on the screen for the requested time, in a browser on this machine.

A trial counts when its image was visible within two frames of the requested time and neither end was painted late, by
the page's own record. It depends on what else the machine does, so the goal is for an idle one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perf.lines import Line
from tests.browser.visits import People, browsing, missing, serving
from tests.humans.conftest import make_stimuli, make_study

__all__ = ["FULL", "GOAL", "Size", "fraction_on_time", "lines"]

GOAL = 0.95  # of the trials, on an idle machine


@dataclass(frozen=True, slots=True)
class Size:
    """The amount of work."""

    trials: int
    exposure: float  # s


FULL = Size(40, 0.5)


def lines(size: Size) -> Iterator[Line]:
    """Measure the fraction of trials on time; yield no line without a browser or a built page."""
    if missing():
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = _run_trials(Path(folder), size)
    what = f"timed trials within two frames of the asked exposure, {size.trials} of {size.exposure:g} s"
    on_time = 100 * fraction_on_time(rows)
    yield Line(what, "the goal on a quiet machine", on_time, 100 * GOAL, None, faster=False, unit="%")


def fraction_on_time(rows: Sequence[dict[str, Any]]) -> float:
    """Return the fraction of trials that were shown for the requested time, as far as the page could measure."""
    on_time = [not row["late"] and abs(row["exposure"] - row["asked"]) <= 2 * row["frame"] for row in rows]
    return sum(on_time) / len(on_time)


def _run_trials(folder: Path, size: Size) -> list[dict[str, Any]]:
    """Answer all trials of a timed study with the same key; return the stored rows."""
    make_stimuli(folder / "set", images=max(12, size.trials))
    timing = f"[timing]\nfixation = 0.2\nexposure = {size.exposure}\nresponse = 10.0\nprompt = 0.0\n"
    study = make_study(folder, "timed", more=timing, images=size.trials, blocks=1, answers=1)
    with serving(study) as [server], browsing() as browser:
        people = People(browser)
        person = people.come(server, by="key").open()
        for words in ("I agree", "Begin", "#jspsych-fullscreen-btn"):
            person.use(words)
        while person.page.query_selector("#code") is None:
            element = person.sees(".timed[data-state=ready], .page .primary")
            person.page.keyboard.press("1" if element.get_attribute("data-state") else "Enter")
            element.wait_for_element_state("hidden")
            person.sees(".timed, .page .primary")
        rows = [row for row in server.rows() if row["role"] == "test"]
        people.leave()
    if len(rows) != size.trials:
        raise RuntimeError(f"{size.trials} trials were shown, {len(rows)} are stored")
    return rows
