"""People in a real browser before a real server: what the tests of the page, its screenshots and its timing share."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from shutil import which
from typing import Any

PAGE = Path(__file__).parents[2] / "src" / "cosight" / "humans" / "web" / "static" / "index.html"
KEYS = "1234567890abcdefghijklmnopqrstuvwxyz"  # of the labels, in their order
READY = "[data-state=ready]"
_QUIET = ("quic", "background-networking", "component-update", "sync", "gpu")  # and nothing asked of anybody else
_FLAGS = ["--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in _QUIET)]
_LONGEST = 15_000  # ms that anything on the page may take
_DIGESTS = """async (images) => Promise.all(images.map(async (image) =>
    Array.from(new Uint8Array(await (await fetch(image.src)).arrayBuffer()))))"""


def missing() -> str | None:
    """Why there can be no browser tests here; None where there can."""
    if chromium() is None:
        return "there is no chromium on this machine"
    return None if PAGE.exists() else "the page is not built; `make page` builds it"


def chromium() -> str | None:
    return which("chromium") or which("chromium-browser") or which("google-chrome")


@contextmanager
def browsing() -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Server:
    """`cosight study serve` as a process of its own, that can die and come back at the same address."""

    folder: Path
    port: int = 0
    token: str = ""
    process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def launch(self) -> Server:
        command = [sys.executable, "-m", "cosight", "study", "serve", str(self.folder), "--port", str(self.port)]
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        return self

    def wait(self) -> Server:
        """Until it takes requests; an error of the study's is told here."""
        told = [self.process.stdout.readline().split() for _ in range(2)]
        assert all(told), (self.folder / "log").read_text()
        self.port = int(told[0][1].rstrip("/").rpartition(":")[2])
        self.token = told[1][1].rpartition("=")[2]
        return self

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, how)
            self.process.wait(20)
        self.process.stdout.close()

    def database(self, statement: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(self.folder / "answers.sqlite", isolation_level=None)) as connection:
            return connection.execute(statement, values).fetchall()

    def rows(self) -> list[dict[str, Any]]:
        """The trial table, `extra` in its rows."""
        from cosight.humans.database.store import Store
        from cosight.humans.database.study_trials import study_trials
        from cosight.humans.study.design import read_study
        from cosight.humans.study.pool import load_pool

        study = read_study(self.folder)
        store = Store.open(study)
        trials = study_trials(study, load_pool(study), store)
        store.close()
        return [{**row, **json.loads(row["extra"])} for row in trials.frame.iter_rows(named=True)]


@contextmanager
def serving(*folders: Path) -> Iterator[list[Server]]:
    """A server for each study; they start side by side."""
    servers = [Server(folder).launch() for folder in folders]
    with ExitStack() as stack:
        for server in servers:
            stack.callback(server.end)
        yield [server.wait() for server in servers]


@dataclass
class Watch:
    """What no page should do: complain on the console, break, or ask anybody but its server."""

    addresses: tuple[str, ...]
    complaints: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def over(self, context: Any) -> Watch:
        context.on("console", lambda said: said.type == "error" and self.complaints.append(said.text))
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("request", lambda asked: self._look(asked.url))
        return self

    def _look(self, url: str) -> None:
        if not url.startswith((*self.addresses, "data:", "blob:")):
            self.strangers.append(url)

    def unexpected(self, expected: Sequence[str] = ()) -> list[str]:
        return self.strangers + [text for text in self.complaints if not any(part in text for part in expected)]


@dataclass
class Person:
    """Somebody who takes part, with a browser profile of their own, by `mouse` or by `key` alone."""

    server: Server
    context: Any
    page: Any
    by: str = "mouse"

    def open(self, query: str = "") -> Person:
        self.page.goto(self.server.address + query)
        return self

    def sees(self, selector: str) -> Any:
        return self.page.wait_for_selector(selector)

    def text(self) -> str:
        return self.page.inner_text("#stage")

    def use(self, button: str) -> None:
        """Press a button, named by its words or a selector: click it, or go there with the Tab key and press Enter."""
        wanted = self.sees(button if button[0] in ".#" else f'button:has-text("{button}")')
        if self.by == "mouse":
            return wanted.click()
        self.focus(wanted)
        return self.page.keyboard.press("Enter")

    def focus(self, wanted: Any, *, steps: int = 40) -> None:
        """Go to an element with the Tab key."""
        for _ in range(steps):
            if wanted.evaluate("(element) => element === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError("the Tab key never came there")

    def to_trials(self) -> Person:
        """Through consent and instructions to the first trial."""
        self.use("I agree")
        self.use("Begin")
        self.sees(READY)
        return self

    def number(self) -> str:
        """Which trial is shown, as the page says: "2 of 4"."""
        return self.page.inner_text(".progress span")

    def shown(self) -> list[str]:
        """The digests of the images on the page, in their order."""
        from cosight.stimuli.images import decode, digest

        found = self.page.eval_on_selector_all(".figure img", _DIGESTS)
        return [digest(decode(bytes(one))) for one in found]

    def answer(self, response: Any) -> None:
        """Answer the trial on the page, which is gone then."""
        trial = self.sees(READY)
        self.give(response)
        trial.wait_for_element_state("hidden")

    def give(self, response: Any) -> None:
        """What a person does to give `response`: a label, a side, keep or a reason, or the column of each row."""
        if isinstance(response, list):
            return self._give_columns(response)
        if self.by == "mouse":
            return self.page.click(f"button[data-response={json.dumps(response)}]")
        return self.page.keyboard.press(self._key(response))

    def _key(self, response: str) -> str:
        if response in ("left", "right"):
            return f"Arrow{response.title()}"
        shown = self.page.inner_text(f"button[data-response={json.dumps(response)}] kbd")
        return "Space" if shown == "space" else shown.lower()

    def _give_columns(self, columns: list[int]) -> None:
        for row, column in enumerate(columns):
            if self.by == "mouse":
                self.page.click(f".row >> nth={row} >> button >> nth={column}")
            else:
                self.page.keyboard.press(str(column + 1))
        if self.by == "mouse":
            self.page.click("button.primary")
        else:
            self.page.keyboard.press("Enter")

    def finish(
        self, responses: Iterable[Any], *, in_break: Callable[[], None] = lambda: None
    ) -> list[tuple[Any, list[str]]]:
        """Answer all that comes, rest in the breaks; what was given to which images, in order."""
        given = []
        responses = iter(responses)
        while True:
            self.sees(f"{READY}, #code, .page .primary")
            if self.page.query_selector("#code"):
                return given
            if not self.page.query_selector(READY):
                in_break()
                self.use(".page .primary")
                self.sees(".trial")
                continue
            given.append((next(responses), self.shown()))
            self.answer(given[-1][0])

    def name(self) -> str:
        """What the trial table calls this participant."""
        kept = "() => Object.entries(localStorage).find(([key]) => key.startsWith('cosight:'))[1]"
        token = json.loads(self.page.evaluate(kept))["token"]
        digest = hashlib.sha256(token.encode()).hexdigest()
        [[number]] = self.server.database("SELECT number FROM cosight_participants WHERE token = ?", digest)
        return f"p{number:04d}"

    def rows(self) -> list[dict[str, Any]]:
        """What is stored of this participant."""
        name = self.name()
        return [row for row in self.server.rows() if row["session"] == name]

    def code(self) -> str:
        return self.page.input_value("#code")


@dataclass
class People:
    """A browser to which people come; each has a profile of their own."""

    browser: Any
    arrived: list[tuple[Person, Watch, Sequence[str]]] = field(default_factory=list)

    def come(
        self,
        server: Server,
        *,
        by: str = "mouse",
        expected: Sequence[str] = (),
        platform: str | None = None,
        **options: Any,
    ) -> Person:
        """`expected`: parts of what this person's console may complain of; `platform`: whom else pages may ask."""
        context = self.browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        context.set_default_timeout(_LONGEST)
        watch = Watch((server.address, *([platform] if platform else []))).over(context)
        self.arrived.append((Person(server, context, context.new_page(), by), watch, expected))
        return self.arrived[-1][0]

    def leave(self) -> list[str]:
        """Everybody closes the browser; what any page did that none should."""
        for person, _, _ in self.arrived:
            person.context.close()
        return [text for _, watch, expected in self.arrived for text in watch.unexpected(expected)]


def stored(kind: str, response: Any, shown: Sequence[str]) -> list[tuple[str, str, str | None]]:
    """Of the rows that an answer should make: which image is asked about, the response, and the reason."""
    if kind == "cluster":
        return sorted((query, shown[column], None) for query, column in zip(shown[3:], response, strict=True))
    if kind == "2afc":
        return [(shown[0], shown[1 + (response == "right")], None)]
    if kind == "curate":
        given = json.loads(response)
        return [(shown[0], "keep" if given["keep"] else "reject", given.get("reason"))]
    return [(shown[0], response, None)]


def kept(kind: str, rows: Sequence[dict[str, Any]]) -> list[list[tuple[str, str, str | None]]]:
    """The same of the rows that there are, for each trial in order."""
    trials: dict[int, list[tuple[str, str, str | None]]] = {}
    for row in rows:
        asked = {"2afc": row.get("query"), "cluster": row["stimulus"].rpartition("/")[2]}.get(kind, row["stimulus"])
        trials.setdefault(row["trial"], []).append((asked, row["response"], row.get("reason")))
    assert list(trials) == list(range(1, len(trials) + 1))
    return [sorted(trial, key=str) for trial in trials.values()]


def responses(kind: str, labels: Sequence[str], reasons: Sequence[str], rows: int) -> Iterator[Any]:
    """Answers of every sort, one after the other, for ever."""
    sorts: dict[str, list[Any]] = {
        "2afc": ["left", "right", "right"],
        "cluster": [[(row + first) % 3 for row in range(rows)] for first in range(3)],
        "curate": [_compact({"keep": False, "reason": reason}) for reason in reasons] + [_compact({"keep": True})],
    }
    return cycle(sorts.get(kind, list(labels)))


def _compact(response: dict[str, Any]) -> str:
    """JSON as a browser writes it."""
    return json.dumps(response, separators=(",", ":"))
