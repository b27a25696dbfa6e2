"""A study with a few colleagues: who comes while all images are taken, and who takes part on a phone."""

from __future__ import annotations

import re

import pytest

from tests.browser.visits import READY, missing, serving
from tests.humans.conftest import make_study, write_set

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
REFUSED = ("status of 423",)
WAITING = "text=All images are with other participants at the moment"
ONE = {"images": 1, "more": "[show]\nimage = 'secret-name-000.png'\n"}  # one image, and nothing besides
MANY = "airplane,bear,bicycle,bird,boat,bottle,car,cat,chair,clock,dog,elephant,keyboard,knife,oven,truck,abstain"
ANSWERS = {"classify": 17, "2afc": 2, "curate": 3}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Studies for a phone by their type; `taken` has one image that one person answers."""
    if missing():
        pytest.skip(missing())
    home = tmp_path_factory.mktemp("lab")
    taken = make_study(home / "taken", "classify", answers=1, distractors=0, repeats=0, **ONE)
    write_set(home / "classify" / "set", 2, truth="cat", original="cat")
    folders = {
        kind: make_study(home / kind, kind, images=1, **{"classify": {"distractors": 0}}.get(kind, {}))
        for kind in ANSWERS
    }
    text = (folders["classify"] / "study.toml").read_text()
    (folders["classify"] / "study.toml").write_text(re.sub("labels = .*", f"labels = '{MANY}'", text))
    with serving(taken, *folders.values()) as servers:
        yield dict(zip(("taken", *folders), servers, strict=True))


def leave(server, person):
    """Ten minutes pass without a sign of this person."""
    server.database("UPDATE cosight_participants SET seen = seen - 600 WHERE number = ?", int(person.name()[1:]))


def test_who_waits_is_admitted_as_soon_as_an_image_is_free(people, served):
    server = served["taken"]
    first = people.come(server).open().to_trials()
    second = people.come(server, expected=REFUSED).open()
    second.sees(WAITING)
    leave(server, first)
    second.to_trials()  # without a reload
    third = people.come(server, expected=REFUSED).open()
    third.sees(WAITING)
    second.answer("tiger")
    second.sees("#code")
    third.sees("text=has all the answers it needs")
    assert [row["response"] for row in server.rows()] == ["tiger"]


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "classify" else pytest.mark.slow) for kind in ANSWERS]
)
def test_on_a_phone_image_and_answers_are_in_sight_together(people, served, kind):
    person = people.come(served[kind], **PHONE).open().to_trials()
    height = PHONE["viewport"]["height"]
    images = [one.bounding_box() for one in person.page.query_selector_all(".figure img")]
    buttons = [one.bounding_box() for one in person.page.query_selector_all("button[data-response]")]
    assert len(buttons) == ANSWERS[kind]
    assert all(box["y"] >= 0 and box["y"] + box["height"] <= height for box in [*images, *buttons])
    assert min(box["height"] for box in images) > 100
    assert min(box["height"] for box in buttons) >= 44  # a fingertip
    assert person.page.evaluate("document.documentElement.scrollHeight") <= height
    assert not person.page.evaluate(
        "[...document.querySelectorAll('.choices')].some((e) => e.scrollHeight > e.clientHeight)"
    )
    person.page.set_viewport_size({"width": 390, "height": 560})  # with the browser's bars and a short screen
    image = person.sees(".figure img").bounding_box()
    assert image["y"] + image["height"] <= 560
    assert person.sees(READY)
