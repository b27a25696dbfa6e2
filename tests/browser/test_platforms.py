"""Prolific and MTurk as a participant's browser meets them: a local server speaks their protocols.

Prolific fills the ids into the study's link, and learns the outcome from the code in `/submissions/complete?cc=`.
MTurk shows the study in a frame of its own page, and takes a form at `/mturk/externalSubmit` that has the id of the
assignment and at least one more field.
"""

from __future__ import annotations

import html
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.browser.visits import Person, missing, serving
from tests.humans.conftest import CLASSES, make_study

OUTCOMES = {"C0MPLETE": "awaiting review", "SCR33NED": "screened out", "N0C0NSENT": "returned"}
ONE = {"images": 1, "answers": 9, "distractors": 0, "repeats": 0}
REFUSED = ("status of 403",)


@dataclass
class Platform:
    """What the platform knows: the outcome of each Prolific submission, and the forms that MTurk took."""

    address: str = ""
    study: str = ""
    outcomes: list[str] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    assignments: set[str] = field(default_factory=set)

    def task(self, **parameters: str) -> str:
        """The page on which a worker sees the task."""
        return f"{self.address}task?{urlencode({**parameters, 'turkSubmitTo': self.address.rstrip('/')})}"


@contextmanager
def a_platform():
    known = Platform()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            if url.path == "/start":
                ids = {"PROLIFIC_PID": query["person"], "STUDY_ID": "s1", "SESSION_ID": "v1"}
                self.reply(302, "", {"Location": f"{known.study}?{urlencode(ids)}"})
            elif url.path == "/submissions/complete" and query.get("cc") in OUTCOMES:
                known.outcomes.append(OUTCOMES[query["cc"]])
                self.reply(200, f"<p id=outcome>{OUTCOMES[query['cc']]}</p>")
            elif url.path == "/task":
                src = html.escape(f"{known.study}?{url.query}")
                self.reply(200, f'<iframe src="{src}" width=1000 height=700></iframe>')
            else:
                self.reply(404, "<p>unknown</p>")

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            typed = self.headers["Content-Type"] == "application/x-www-form-urlencoded"
            accepted = form.get("assignmentId") in known.assignments and len(form) > 1
            if self.path == "/mturk/externalSubmit" and typed and accepted:
                known.assignments.discard(form["assignmentId"])  # an assignment is submitted once
                known.forms.append(form)
                self.reply(200, "<p id=outcome>submitted</p>")
            else:
                self.reply(400, "<p>There was a problem submitting your results for this HIT.</p>")

        def reply(self, status, content, headers=None):
            data = f"<!doctype html><link rel=icon href=data:,>{content}".encode()
            self.send_response(status)
            more = {"Content-Type": "text/html", "Content-Length": str(len(data)), **(headers or {})}
            for name, value in more.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        known.address = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield known
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def platform():
    if missing():
        pytest.skip(missing())
    with a_platform() as known:
        yield known


@pytest.mark.slow
def test_prolific_learns_each_outcome(people, platform, tmp_path):
    codes = dict(zip(("completion_code", "screened_out_code", "no_consent_code"), OUTCOMES, strict=True))
    settings = "".join(f"{name} = '{code}'\n" for name, code in codes.items())
    settings += f"completion_url = '{platform.address}submissions/complete?cc={{code}}'\nscreening = ['vision']\n"
    folder = make_study(tmp_path, "classify", people=f"platform = 'prolific'\n{settings}", **ONE)
    with serving(folder) as [server]:
        platform.study = server.address

        def arrive(name):
            person = people.come(server, platform=platform.address)
            person.page.goto(f"{platform.address}start?person={name}")
            person.sees("text=Before you begin")
            return person

        def return_to_platform(person):
            person.page.click("a.primary")
            return person.sees("#outcome").inner_text()

        one = arrive("one")
        one.use("I agree")
        one.sees("text=Is your eyesight normal")
        one.use("Yes")
        one.use("Begin")
        one.finish(CLASSES)
        assert one.code() == "C0MPLETE"
        assert return_to_platform(one) == "awaiting review"

        two = arrive("two")
        two.use("I agree")
        two.page.click("button:text-is('No')")
        two.sees("text=You cannot take part")
        two.page.reload()  # an answer cannot be changed
        two.sees("text=You cannot take part")
        assert return_to_platform(two) == "screened out"

        three = arrive("three")
        three.use("I do not take part")
        three.sees("text=You do not take part")
        assert return_to_platform(three) == "returned"
        assert platform.outcomes == list(OUTCOMES.values())
        stored = server.database("SELECT platform_id, finished IS NOT NULL FROM cosight_participants ORDER BY number")
        assert stored == [("one", 1), ("two", 0), ("three", 0)]
        assert server.database("SELECT number, question, eligible FROM cosight_screening") == [
            (1, "vision", 1),
            (2, "vision", 0),
        ]


@pytest.mark.slow
def test_mturk_takes_the_form_of_a_study_in_its_frame(people, platform, tmp_path):
    host = platform.address.rstrip("/")
    folder = make_study(tmp_path, "classify", people=f"platform = 'mturk'\nmturk_hosts = ['{host}']\n", **ONE)
    with serving(folder) as [server]:
        platform.study = server.address
        worker = people.come(server, platform=platform.address, expected=REFUSED)
        frame = shown(worker, platform.task(assignmentId="ASSIGNMENT_ID_NOT_AVAILABLE", hitId="H1"))
        frame.sees("text=this is a preview; accept the task on MTurk first")
        platform.assignments.add("A1")
        frame = shown(worker, platform.task(assignmentId="A1", hitId="H1", workerId="W1"))
        frame.to_trials().finish_in_frame(CLASSES[0])
        [[code, stored]] = server.database("SELECT code, platform FROM cosight_participants")
        assert json.loads(stored)["assignmentId"] == "A1"
        assert frame.page.query_selector("#code") is None
        frame.page.click("#submit button")
        assert frame.sees("#outcome").inner_text() == "submitted"
        assert platform.forms == [{"assignmentId": "A1", "hitId": "H1", "workerId": "W1", "code": code}]

        platform.assignments.add("A2")  # returned the task and accepted it again: the results have the new id
        frame = shown(worker, platform.task(assignmentId="A2", hitId="H1", workerId="W1"))
        frame.page.click("#submit button")
        assert frame.sees("#outcome").inner_text() == "submitted"
        assert platform.forms[1]["assignmentId"] == "A2"


class Framed(Person):
    """Somebody who takes part inside a frame of another page."""

    def finish_in_frame(self, response):
        self.answer(response)
        self.sees("#submit")


def shown(worker, address):
    """The study in the frame of MTurk's page."""
    worker.page.goto(address)
    frame = worker.page.wait_for_selector("iframe").content_frame()
    return Framed(worker.server, worker.context, frame)


@pytest.mark.slow
def test_nobody_else_shows_the_study_or_gets_its_form(people, platform, tmp_path):
    folder = make_study(tmp_path, "classify", people="platform = 'mturk'\n", **ONE)
    with serving(folder) as [server]:
        platform.study = server.address
        policy = ("Framing", "frame-ancestors", "form-action")
        worker = people.come(server, platform=platform.address, expected=(*REFUSED, *policy))
        worker.page.goto(platform.task(assignmentId="A1", hitId="H1", workerId="W1"))
        worker.page.wait_for_timeout(500)
        assert not any(frame.query_selector("#stage") for frame in worker.page.frames)
        # opened as a page of its own, with another address for the results in its link
        worker.page.goto(f"{server.address}?{urlsplit(worker.page.url).query}")
        worker.sees("text=results are not sent to http://127.0.0.1")
        # and a form that somebody slipped in is not sent
        worker.page.evaluate(
            """(action) => { const form = document.createElement("form");
               Object.assign(form, { method: "post", action }); document.body.append(form); form.submit(); }""",
            f"{platform.address}mturk/externalSubmit",
        )
        worker.page.wait_for_timeout(300)
        assert worker.page.url.startswith(server.address)
        assert platform.forms == []
