"""Simulated participants use the real page in a browser, by its buttons, until the completion code."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np

from cosight.errors import InvalidInput
from cosight.humans.simulated.respondents import SimulatedObserver, StudyPictures
from cosight.humans.simulated.simulate import STUDY_FULL, Progress, SimulationResult, participant_rng
from cosight.humans.study.trial_types import Respondent

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ElementHandle, Page

__all__ = ["BROWSERS", "simulate_in_browser"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")  # commands
_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_TIMEOUT = 60_000.0  # ms until a page counts as stuck
_REACTION = 250  # ms before pressing: participants who are faster than people can be are excluded
_TRIAL, _CODE = "main.trial", "#code"
_NEXT = "main.page button.primary:not([disabled]), #jspsych-fullscreen-btn"  # consent, skipped questions, breaks
# CSS selectors of a trial's pictures, by slot
_PICTURES: Mapping[str, Mapping[str, str]] = {
    "2afc": {"query": ":scope > .figure img", "left": "[data-response=left] img", "right": "[data-response=right] img"},
    "cluster": {"columns": ".column img", "rows": ".row img"},
}
_ONE_PICTURE = {"image": ".figure img"}


def simulate_in_browser(
    pictures: StudyPictures,
    url: str,
    observer: SimulatedObserver,
    *,
    participants: int,
    seed: int = 0,
    progress: Progress | None = None,
) -> SimulationResult:
    """Have up to `participants`, one after the other, take part in the study at `url` in a browser; see `simulate`."""
    finished = answers = 0
    with _launch_browser() as browser:
        for index in range(participants):
            answered = _take_part(browser, pictures, url, observer, participant_rng(seed, index))
            if answered is None:
                return SimulationResult(finished, answers, full=True)
            finished, answers = finished + 1, answers + answered
            if progress:
                progress(finished, participants, "simulated participants")
    return SimulationResult(finished, answers, full=False)


@contextmanager
def _launch_browser() -> Iterator[Browser]:
    """Yield a browser of this machine, without a window and with a fresh profile."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise InvalidInput("--browser needs Playwright; pip install 'cosight[browser]'") from error
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise InvalidInput(f"--browser needs a browser on the path ({', '.join(BROWSERS)}), got none; install Chromium")
    # a browser refuses to run as root inside its sandbox
    flags = [*_FLAGS, *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        try:
            yield browser
        finally:
            browser.close()


def _take_part(
    browser: Browser, pictures: StudyPictures, url: str, observer: SimulatedObserver, rng: np.random.Generator
) -> int | None:
    """Run one participant; return the number of answered trials, None where the study is full."""
    from playwright.sync_api import Error

    context = browser.new_context()  # nothing is remembered of the previous participant
    page = context.new_page()
    page.set_default_timeout(_TIMEOUT)
    try:
        with page.expect_response("**/api/sessions") as response:
            page.goto(f"{url}?{urlencode({'simulated': observer.name})}")
        if response.value.status == STUDY_FULL:
            return None
        return _PageSession(page, pictures, observer.person(rng), rng).run()
    except Error as error:
        reason = error.message.splitlines()[0]
        raise InvalidInput(f"the page at {url} is stuck ({reason}); open it in a browser to see why") from error
    finally:
        context.close()


@dataclass(slots=True)
class _PageSession:
    """One participant in front of the page."""

    page: Page
    pictures: StudyPictures
    respondent: Respondent
    rng: np.random.Generator

    def run(self) -> int:
        """Work through the pages until the completion code; return the number of answered trials."""
        answered = 0
        while True:
            element = self.page.wait_for_selector(f"{_TRIAL}, {_CODE}, {_NEXT}", state="attached")
            if element is None or self.page.query_selector(_CODE):
                return answered
            if self.page.query_selector(_TRIAL):
                self._answer(element)
                answered += 1
            else:
                element.click()
                element.wait_for_element_state("hidden")

    def _answer(self, trial: ElementHandle) -> None:
        """Look at the trial's pictures, and press the simulated answer once the page accepts answers."""
        study = self.pictures.study
        images: dict[str, bytes | list[bytes]] = {}
        for name, selector in _PICTURES.get(study.type, _ONE_PICTURE).items():
            elements = trial.query_selector_all(selector)
            addresses = [element.evaluate("image => image.src") for element in elements]
            contents = [self.page.context.request.get(address).body() for address in addresses]
            images[name] = contents if name.endswith("s") else contents[0]
        response = study.kind.simulate(self.pictures.recognise(images), self.respondent, self.rng)
        self.page.wait_for_selector(f"{_TRIAL}[data-state=ready]")
        self.page.wait_for_timeout(_REACTION)
        if isinstance(response, list):
            for row, column in zip(trial.query_selector_all(".row"), response, strict=True):
                row.query_selector_all("button")[column].click()
            selector = "button.primary"
        else:
            selector = f"button[data-response={_css_string(response)}]"
        button = trial.query_selector(selector)
        if button is None:
            raise InvalidInput(f"the page has no button for the answer: {selector}")
        button.click()
        trial.wait_for_element_state("hidden")


def _css_string(response: Any) -> str:
    """Return an answer as the page writes it on its button, as a CSS string.

    >>> _css_string("tiger"), _css_string({"keep": True})
    ('"tiger"', '"{\\\\"keep\\\\":true}"')
    """
    text = response if isinstance(response, str) else json.dumps(response, separators=(",", ":"), ensure_ascii=False)
    return json.dumps(text, ensure_ascii=False)
