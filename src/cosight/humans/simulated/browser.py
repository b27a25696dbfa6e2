"""Simulated participants go through the real page, in a browser, by its buttons, until the completion code."""

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
from cosight.humans.simulated.respondents import SimulatedObserver
from cosight.humans.simulated.sight import Sight
from cosight.humans.simulated.simulate import Progress, Sat, person_rng
from cosight.humans.study.trial_types import Respondent

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ElementHandle, Page

__all__ = ["BROWSERS", "simulate_in_browser"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")  # as they are called on the path
_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_PATIENCE = 60_000.0  # ms until a page that does not go on counts as stuck
_HAND = 250  # ms from seeing to pressing: who is quicker than people can be is left out as not having looked
_NO_MORE = 423  # the study is paused, or has all that it needs
_TRIAL, _CODE = "main.trial", "#code"
_ONWARD = "main.page button.primary:not([disabled]), #jspsych-fullscreen-btn"  # consent, questions left empty, rests
# Where the pictures of a trial are on its page, by their place
_PICTURES: Mapping[str, Mapping[str, str]] = {
    "2afc": {"query": ":scope > .figure img", "left": "[data-response=left] img", "right": "[data-response=right] img"},
    "cluster": {"columns": ".column img", "rows": ".row img"},
}
_ONE_PICTURE = {"image": ".figure img"}


def simulate_in_browser(
    sight: Sight,
    url: str,
    observer: SimulatedObserver,
    *,
    participants: int,
    seed: int = 0,
    progress: Progress | None = None,
) -> Sat:
    """Have up to `participants`, one after the other, sit the study that is served at `url` in a browser."""
    finished = answers = 0
    with _browser() as browser:
        for place in range(participants):
            given = _sit(browser, sight, url, observer, person_rng(seed, place))
            if given is None:
                return Sat(finished, answers, full=True)
            finished, answers = finished + 1, answers + given
            if progress:
                progress(finished, participants, "simulated participants")
    return Sat(finished, answers, full=False)


@contextmanager
def _browser() -> Iterator[Browser]:
    """A browser of this machine, without a window and with nobody's data."""
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


def _sit(browser: Browser, sight: Sight, url: str, observer: SimulatedObserver, rng: np.random.Generator) -> int | None:
    """One participant from the link to the code: how many trials were answered, None where the study is full."""
    from playwright.sync_api import Error

    context = browser.new_context()  # nothing is remembered of the one before
    page = context.new_page()
    page.set_default_timeout(_PATIENCE)
    try:
        with page.expect_response("**/api/sessions") as begun:
            page.goto(f"{url}?{urlencode({'simulated': observer.name})}")
        if begun.value.status == _NO_MORE:
            return None
        return _Visitor(page, sight, observer.person(rng), rng).sit()
    except Error as error:
        reason = error.message.splitlines()[0]
        raise InvalidInput(f"the page at {url} does not go on ({reason}); see what it shows in a browser") from error
    finally:
        context.close()


@dataclass(slots=True)
class _Visitor:
    """One participant in front of the page."""

    page: Page
    sight: Sight
    who: Respondent
    rng: np.random.Generator

    def sit(self) -> int:
        """Go on, page by page, until there is a code."""
        answered = 0
        while True:
            shown = self.page.wait_for_selector(f"{_TRIAL}, {_CODE}, {_ONWARD}", state="attached")
            if shown is None or self.page.query_selector(_CODE):
                return answered
            if self.page.query_selector(_TRIAL):
                answered += self._answer(shown)
            else:
                self._leave(shown)

    def _leave(self, button: ElementHandle) -> None:
        button.click()
        button.wait_for_element_state("hidden")

    def _answer(self, trial: ElementHandle) -> int:
        """Look at the trial's pictures, and press what is seen in them once the page takes answers."""
        study = self.sight.study
        places = _PICTURES.get(study.type, _ONE_PICTURE)
        asked = self.sight.asked({place: self._seen(trial, place, at) for place, at in places.items()})
        response = study.kind.simulate(asked, self.who, self.rng)
        self.page.wait_for_selector(f"{_TRIAL}[data-state=ready]")
        self.page.wait_for_timeout(_HAND)
        if isinstance(response, list):
            self._match(trial, response)
        else:
            _press(trial, f"button[data-response={_as_data(response)}]")
        trial.wait_for_element_state("hidden")
        return 1

    def _seen(self, trial: ElementHandle, place: str, at: str) -> bytes | list[bytes]:
        found = [self._picture(image) for image in trial.query_selector_all(at)]
        return found if place.endswith("s") else found[0]

    def _picture(self, image: ElementHandle) -> bytes:
        """The bytes behind a picture on the page."""
        return self.page.context.request.get(image.evaluate("image => image.src")).body()

    def _match(self, trial: ElementHandle, columns: list[int]) -> None:
        for row, column in zip(trial.query_selector_all(".row"), columns, strict=True):
            row.query_selector_all("button")[column].click()
        _press(trial, "button.primary")


def _press(trial: ElementHandle, button: str) -> None:
    found = trial.query_selector(button)
    if found is None:
        raise InvalidInput(f"the page has no button for the answer: {button}")
    found.click()


def _as_data(response: Any) -> str:
    """How the page writes an answer on its button, as a string of CSS.

    >>> _as_data("tiger"), _as_data({"keep": True})
    ('"tiger"', '"{\\\\"keep\\\\":true}"')
    """
    text = response if isinstance(response, str) else json.dumps(response, separators=(",", ":"), ensure_ascii=False)
    return json.dumps(text, ensure_ascii=False)
