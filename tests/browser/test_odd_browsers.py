"""Phones, browsers that keep nothing, and pages that are written from right to left."""

from __future__ import annotations

import re

import pytest

from tests.browser.visits import READY, missing, serving
from tests.humans.conftest import CLASSES, make_study

PHONE = {"viewport": {"width": 360, "height": 640}, "has_touch": True, "is_mobile": True}
COOKIES_OFF = """Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("denied", "SecurityError"); },
});"""
FULL = "() => void (Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); })"
IMAGES = 2


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if missing():
        pytest.skip(missing())
    home = tmp_path_factory.mktemp("odd")
    with serving(make_study(home, "classify", images=IMAGES, answers=9, distractors=0, repeats=0)) as [server]:
        yield server


@pytest.fixture
def arabic(tmp_path):
    if missing():
        pytest.skip(missing())
    folder = make_study(tmp_path, "2afc", images=1, checks=0)
    texts = (folder / "texts.toml").read_text()
    (folder / "texts.toml").write_text(re.sub(r'^language = ".*"', 'language = "ar"', texts, flags=re.MULTILINE))
    with serving(folder) as [server]:
        yield server


@pytest.mark.slow
def test_by_touch_on_a_phone(people, server):
    person = people.come(server, **PHONE).open().to_trials()
    image = person.sees(".figure img").bounding_box()
    first = person.sees("button.choice").bounding_box()
    assert 0 < first["y"] - image["y"] - image["height"] < 40  # the image of 40 x 32 pixels, and no gap below it
    assert image["width"] / image["height"] == pytest.approx(40 / 32, rel=0.01)
    for label in CLASSES[:IMAGES]:
        trial = person.sees(READY)
        person.page.tap(f"button[data-response={label}]")
        trial.wait_for_element_state("hidden")
    person.sees("#code")
    assert [(row["response"], row["input"]) for row in person.rows()] == [(label, "touch") for label in CLASSES[:2]]


@pytest.mark.slow
def test_with_cookies_off(people, server):
    before = len(server.rows())
    person = people.come(server)
    person.context.add_init_script(COOKIES_OFF)
    person.open().to_trials().finish(CLASSES)
    assert person.code()
    assert len(server.rows()) == before + IMAGES


@pytest.mark.slow
def test_with_a_full_local_storage(people, server):
    person = people.come(server).open().to_trials()
    person.page.evaluate(FULL)
    given = person.finish(CLASSES)
    assert [row["response"] for row in person.rows()] == [label for label, _ in given]


@pytest.mark.slow
def test_left_is_left_where_text_runs_from_the_right(people, arabic):
    person = people.come(arabic).open().to_trials()
    assert person.page.evaluate("document.dir") == "rtl"
    left, right = (person.sees(f"button[data-response={side}]").bounding_box() for side in ("left", "right"))
    assert left["x"] + left["width"] < right["x"]
