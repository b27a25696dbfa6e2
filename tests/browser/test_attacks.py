"""Timed, 2AFC and clustering pages under the hands of somebody impatient or malicious, as classify in other files."""

from __future__ import annotations

import pytest

from tests.browser.test_strangers import as_text, with_markup
from tests.browser.visits import READY, kept, missing, responses, serving, stored
from tests.humans.conftest import CLASSES, make_study

KINDS = ("timed", "2afc", "cluster")
PATIENT = "[timing]\nfixation = 0.05\nexposure = 0.1\nresponse = 60\nprompt = 60\n"
DESIGN = {
    "timed": {"images": 3, "answers": 9, "more": PATIENT},
    "2afc": {"images": 3, "answers": 9, "checks": 1},
    "cluster": {"images": 1, "answers": 9, "checks": 1},
}
KEYS = {"timed": "1234 ", "2afc": ("ArrowLeft", "ArrowRight", "Enter"), "cluster": ("1", "2", "3", "Enter", "Tab")}
# every button of the trial, again and again, in one turn of the event loop and in the next ones
HAMMER = """async () => {
  for (let round = 0; round < 4; round += 1) {
    for (const one of document.querySelectorAll(".trial button")) { one.click(); one.click(); }
    await new Promise((resolve) => setTimeout(resolve, round === 0 ? 0 : 5));
  }
}"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    if missing():
        pytest.skip(missing())
    home = tmp_path_factory.mktemp("attacked")
    folders = [make_study(home / kind, kind, **DESIGN[kind]) for kind in KINDS]
    for folder in folders:
        with_markup(folder)
    with serving(*folders) as servers:
        yield dict(zip(KINDS, servers, strict=True))


def begin(person, kind):
    """To the first trial; every sentence on the way has markup in it, which stays text."""
    person.open()
    for _ in range(2):
        person.sees("main.page button.primary")
        as_text(person)
        person.page.click("main.page button.primary")
    if kind == "timed":
        person.page.click("#jspsych-fullscreen-btn")
    person.sees(READY)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_markup_stays_text_and_a_reload_continues(people, served, kind):
    person = people.come(served[kind])
    begin(person, kind)
    sent = responses(kind, CLASSES, (), rows=3)
    given = []
    for reload in (True, False):
        given.append((next(sent), person.shown()))
        person.answer(given[-1][0])
        if reload:
            person.sees(f"{READY}, .page .primary")
            person.page.reload()
            if kind == "timed":
                person.page.click("#jspsych-fullscreen-btn")
            person.sees(f"{READY}, #code")
    given += person.finish(sent)
    assert kept(kind, person.rows()) == [sorted(stored(kind, *one), key=str) for one in given]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_hammering_answers_each_trial_once(people, served, kind):
    """All keys and buttons at once: one well-formed answer per trial, in order, and a code at the end."""
    server = served[kind]
    person = people.come(server)
    begin(person, kind)
    while not person.page.query_selector("#code"):
        person.sees(f"{READY}, #code, .page .primary")
        if rest := person.page.query_selector(".page button.primary"):
            if person.page.query_selector("#code") is None:
                rest.click()
            continue
        for key in KEYS[kind]:
            person.page.keyboard.press(key)
        person.page.evaluate(HAMMER)
    rows = person.rows()
    trials = [row["trial"] for row in rows]
    per_trial = 3 if kind == "cluster" else 1
    total = {"timed": 5, "2afc": 4, "cluster": 2}[kind]
    assert trials == [number for number in range(1, total + 1) for _ in range(per_trial)]
    assert all(row["response"] is not None and row["rt"] is not None for row in rows)
