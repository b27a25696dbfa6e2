"""How many timed trials are on the screen for the time that was asked for, in a browser on this machine.

A trial counts when its image was there within two frames of the asked time and neither end was painted late, by the
page's own record. It depends on what else the machine does, so the goal is for a quiet one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perf.lines import Line
from tests.browser.visits import People, Server, browsing, missing, serving
from tests.humans.conftest import make_stimuli, make_study

__all__ = ["FULL", "GOAL", "Size", "lines", "on_time"]

GOAL = 0.95  # of the trials, on a quiet machine


@dataclass(frozen=True, slots=True)
class Size:
    """How much work."""

    trials: int
    exposure: float  # s


FULL = Size(40, 0.5)


def lines(size: Size) -> Iterator[Line]:
    """The share of trials on time, beside its goal; none where there is no browser or no built page."""
    if missing():
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = _shown(_study(Path(folder), size), size)
    what = f"timed trials within two frames of the asked exposure, {size.trials} of {size.exposure:g} s"
    yield Line(what, "the goal on a quiet machine", 100 * on_time(rows), 100 * GOAL, None, faster=False, unit="%")


def on_time(rows: Sequence[dict[str, Any]]) -> float:
    """The share of trials that were shown for the asked time, as far as the page could see."""
    right = [not row["late"] and abs(row["exposure"] - row["asked"]) <= 2 * row["frame"] for row in rows]
    return sum(right) / len(right)


def _study(folder: Path, size: Size) -> Path:
    make_stimuli(folder / "set", images=max(12, size.trials))
    timing = f"[timing]\nfixation = 0.2\nexposure = {size.exposure}\nresponse = 10.0\nprompt = 0.0\n"
    return make_study(folder, "timed", more=timing, images=size.trials, blocks=1, answers=1)


def _shown(study: Path, size: Size) -> list[dict[str, Any]]:
    """What is stored after somebody has answered all trials by the same key."""
    with serving(study) as [server], browsing() as browser:
        people = People(browser)
        _sit(people, server)
        rows = [row for row in server.rows() if row["role"] == "test"]
        people.leave()
    if len(rows) != size.trials:
        raise RuntimeError(f"{size.trials} trials were shown, {len(rows)} are stored")
    return rows


def _sit(people: People, server: Server) -> None:
    person = people.come(server, by="key").open()
    for words in ("I agree", "Begin", "#jspsych-fullscreen-btn"):
        person.use(words)
    while person.page.query_selector("#code") is None:
        found = person.sees(".timed[data-state=ready], .page .primary")
        person.page.keyboard.press("1" if found.get_attribute("data-state") else "Enter")
        found.wait_for_element_state("hidden")
        person.sees(".timed, .page .primary")
