"""Reload, back, double clicks, two tabs, a dead network, a dead server: nothing is lost and nothing doubled."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from tests.browser.looking import looks_well, readable
from tests.browser.visits import READY, kept, missing, serving, stored
from tests.humans.conftest import CLASSES, make_study

LOST = "The connection is lost"
IMAGES = 4
DEAD = ("ERR_INTERNET_DISCONNECTED", "ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "ERR_NETWORK_CHANGED", "ERR_SOCKET")

# The second half of a slow double click: a tenth of a second after the next trial was painted.
ECHO = """(label) => {
  const before = document.querySelector(".trial");
  const observer = new MutationObserver(() => {
    const now = document.querySelector(".trial");
    if (now === null || now === before) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => {
      now.querySelector(`button[data-response=${label}]`).click();
      document.dispatchEvent(new KeyboardEvent("keydown", { key: "1" }));
    }, 100));
  });
  observer.observe(document, { subtree: true, childList: true });
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if missing():
        pytest.skip(missing())
    folder = make_study(
        tmp_path_factory.mktemp("study"), "classify", images=IMAGES, answers=9, distractors=0, repeats=0
    )
    with serving(folder) as [server]:
        yield server


def answer(person, *labels):
    """Answer so many trials; what was given to which image."""
    given = []
    for label in labels:
        person.sees(READY)
        given.append((label, person.shown()))
        person.answer(label)
    return given


def assert_stored(person, given):
    """Exactly what was given, once, in its order."""
    assert kept("classify", person.rows()) == [stored("classify", *one) for one in given]


def ends_with(person, given, *labels):
    given = given + answer(person, *labels)
    person.sees("#code")
    assert len(given) == IMAGES
    assert_stored(person, given)


def at(person, number):
    person.sees(READY)
    assert person.number() == f"{number} of {IMAGES}"


def test_reload_and_back_go_on_at_the_first_unanswered_trial(people, server):
    person = people.come(server).open().to_trials()
    given = answer(person, "tiger")
    person.page.reload()
    at(person, 2)
    given += answer(person, "zebra")
    at(person, 3)
    person.page.go_back()
    person.page.go_forward()
    at(person, 3)
    ends_with(person, given, "bear", "abstain")
    code = person.code()
    person.page.reload()  # the end stays the end
    person.sees("#code")
    assert person.code() == code


@pytest.mark.slow
def test_double_clicks_and_double_keys_answer_once(people, server):
    person = people.come(server).open()
    person.use("I agree")
    begin = person.sees('button:has-text("Begin")').bounding_box()
    person.page.mouse.dblclick(begin["x"] + 20, begin["y"] + 10)
    person.sees(READY)
    given = []
    for number, label in enumerate(CLASSES, start=1):  # the buttons of the next trial are in the same places
        at(person, number)
        given.append((label, person.shown()))
        twice(person, label, by_key=number % 2 == 0)
    person.sees("#code")
    assert_stored(person, given)


def twice(person, label, *, by_key):
    """Quickly, and once more when the next trial has just been painted."""
    person.page.evaluate(ECHO, label)
    if by_key:
        for _ in range(2):
            person.page.keyboard.press(str(CLASSES.index(label) + 1))
    else:
        box = person.page.locator(f"button[data-response={label}]").bounding_box()
        person.page.mouse.dblclick(box["x"] + 20, box["y"] + 10)


@pytest.mark.slow
def test_of_two_tabs_one_goes_on(people, server):
    person = people.come(server).open().to_trials()
    given = answer(person, "tiger")
    first, second = person.page, person.context.new_page()
    person.page = second
    person.open()
    at(person, 2)
    first.wait_for_selector("text=open in another tab")
    assert not first.query_selector(READY)
    looks_well(replace(person, page=first))
    first.keyboard.press("1")  # keys do nothing there
    given += answer(person, "zebra")
    first.bring_to_front()
    first.click("text=Go on here instead")
    second.wait_for_selector("text=open in another tab")
    person.page = first
    at(person, 3)
    ends_with(person, given, "bear", "camel")


@pytest.mark.slow
def test_without_a_network_answers_are_kept_and_sent_later(people, server):
    person = people.come(server, expected=DEAD).open().to_trials()
    given = answer(person, "tiger")
    person.sees(READY)
    person.context.set_offline(True)
    given += answer(person, "zebra", "bear")
    person.sees(f"#notice:has-text('{LOST}')")
    at(person, 4)
    readable(person)
    assert_stored(person, given[:1])
    person.context.set_offline(False)
    person.page.wait_for_selector("#notice", state="hidden")
    assert_stored(person, given)
    ends_with(person, given, "abstain")


@pytest.mark.slow
def test_answers_that_waited_when_the_page_was_closed_are_sent_at_the_next_visit(people, server):
    person = people.come(server, expected=DEAD).open().to_trials()
    person.context.set_offline(True)
    given = answer(person, "camel", "camel")
    person.sees(f"#notice:has-text('{LOST}')")
    person.page.close()
    person.context.set_offline(False)
    person.page = person.context.new_page()
    person.open()
    at(person, 3)
    ends_with(person, given, "tiger", "bear")


@pytest.mark.slow
def test_a_server_that_dies_and_comes_back(people, server):
    person = people.come(server, expected=DEAD).open().to_trials()
    given = answer(person, "tiger")
    person.sees(READY)
    server.end(signal.SIGKILL)
    given += answer(person, "bear", "zebra")
    person.sees(f"#notice:has-text('{LOST}')")
    server.launch().wait()
    person.page.wait_for_selector("#notice", state="hidden")
    ends_with(person, given, "zebra")


@pytest.mark.slow
def test_trials_that_went_to_somebody_else_are_replaced(people, server):
    """Two hours pass for one who looks at the first image (410); then the page shows others, as if nothing were."""
    person = people.come(server, expected=["410"]).open().to_trials()
    number = int(person.name()[1:])
    server.database("UPDATE cosight_participants SET seen = seen - 7200 WHERE number = ?", number)
    people.come(server).open().to_trials()
    with person.page.expect_response("**/api/trials"):
        person.give("tiger")
    at(person, 1)
    given = answer(person, *CLASSES)
    person.sees("#code")
    rows = person.rows()
    assert [(row["stimulus"], row["response"]) for row in rows] == [(shown[0], label) for label, shown in given]
    assert min(row["trial"] for row in rows) == IMAGES + 1  # the first four were taken back
