"""From the link to the completion code, by mouse and by keyboard alone, in a study of every type.

By mouse at 200 %, and every page on the way is looked at: `looks_well`.
"""

from __future__ import annotations

import re

import pytest

from cosight.humans.web.sessions import _assign_keys
from tests.browser.looking import PHONE, ZOOMED, all_in_sight, fits_a_phone, looks_well
from tests.browser.visits import READY, kept, missing, responses, serving, stored
from tests.humans.conftest import CLASSES, make_study, write_set

KINDS = ("classify", "timed", "2afc", "cluster", "curate")
QUICK = {("classify", "mouse"), ("2afc", "key"), ("cluster", "mouse")}  # test_timed.py has a visit of its own
REASONS = ("wrong class", "bad quality")
ANSWERS = {"timed": ("cat", "dog", "tools", "bird"), "classify": ("abstain", *CLASSES)}
PATIENT = "[timing]\nfixation = 0.1\nexposure = 0.2\nresponse = 60\nprompt = 60\n"  # test_timed.py is not
EXAMPLES = "[[examples]]\nimage = 'example.png'\nanswer = 'bear'\n"
DESIGN = {
    "classify": {"images": 2, "distractors": 1, "repeats": 1, "more": EXAMPLES},
    "timed": {"images": 2, "blocks": 2, "more": PATIENT},
    "2afc": {"images": 2, "checks": 1, "answers": 3},
    "cluster": {"images": 1, "checks": 1, "answers": 3},
    "curate": {"images": 3},
}
# How each kind of button looks that stands for an answer; what tells the icons and the last answer apart is left out.
LOOKS = """() => [...new Set([...document.querySelectorAll(".trial button:not(.primary)")].map((one) => {
  const { boxShadow, outlineStyle, backgroundColor, borderColor, borderStyle, color } = getComputedStyle(one);
  return [boxShadow, outlineStyle, backgroundColor, borderColor, borderStyle, color].join(" | ");
}))]"""
TRIALS = {"classify": 4, "timed": 4, "2afc": 3, "cluster": 2, "curate": 3}  # two of the timed ones are the warm-up


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    if missing():
        pytest.skip(missing())
    home = tmp_path_factory.mktemp("types")
    with serving(*(write_study(home / kind, kind) for kind in KINDS)) as servers:
        yield dict(zip(KINDS, servers, strict=True))


def write_study(home, kind):
    if kind == "timed":  # with all 16 classes of LAION-C and their icons
        write_set(home / "set", 4, truth="cat", original="cat")
        write_set(home / "set" / "warm", 2, first=600, truth="cat")
    people = "demographics = ['age', 'gender']\n" + ("calibration = true\n" if kind == "timed" else "")
    folder = make_study(home, kind, people=people, **DESIGN[kind])
    if kind == "classify":
        (folder / "example.png").write_bytes((home / "set" / "images" / "secret-name-003.png").read_bytes())
    if kind == "timed":
        text = (folder / "study.toml").read_text()
        (folder / "study.toml").write_text(re.sub("labels = .*", "labels = 'laion-c-16'", text))
    return folder


def fill_in(person, **words):
    for name, word in words.items():
        if person.by == "mouse":
            person.page.click(f"input[name={name}]")
        else:
            person.focus(person.sees(f"input[name={name}]"))
        person.page.keyboard.type(word)
    person.use("Next")


def calibrate(person):
    if person.by == "mouse":
        box = person.page.locator("input[type=range]").bounding_box()
        person.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    else:
        for _ in range(3):
            person.page.keyboard.press("ArrowRight")
    person.use("as wide as my card")


def begin(person, kind, look):
    """Through the pages before the first trial."""
    person.sees('button:has-text("I agree")')
    look()
    person.use("I agree")
    person.sees("input[name=age]")
    look()
    fill_in(person, age="33", gender="<b>none</b>")
    if kind == "timed":
        person.sees("input[type=range]")
        look()
        calibrate(person)
    for button in ["Begin", *(["#jspsych-fullscreen-btn"] if kind == "timed" else [])]:
        person.sees(button if button[0] == "#" else f'button:has-text("{button}")')
        look()
        person.use(button)


@pytest.mark.parametrize(
    ("kind", "by"),
    [
        pytest.param(kind, by, marks=[] if (kind, by) in QUICK else pytest.mark.slow)
        for kind in KINDS
        for by in ("mouse", "key")
    ],
)
def test_from_the_link_to_the_code(people, served, kind, by):
    person = people.come(served[kind], by=by, **({"viewport": ZOOMED} if by == "mouse" else {})).open()

    def look():
        if by == "mouse":
            looks_well(person)

    begin(person, kind, look)
    person.sees(READY)
    look()
    if kind == "timed" and by == "mouse":
        all_in_sight(person)
    given = person.finish(responses(kind, ANSWERS.get(kind, ()), REASONS, rows=3), in_break=look)
    assert re.fullmatch("[0-9A-F]{8}", person.code())
    look()
    person.use("Copy the code")
    person.sees("text=Copied")
    rows = person.rows()
    assert len(given) == TRIALS[kind]
    assert kept(kind, rows) == [sorted(stored(kind, *one), key=str) for one in given]
    assert {(row["input"], row["finished"], row["kind"]) for row in rows} == {(by, True, "human")}
    assert all(0.0 < row["rt"] < 60 for row in rows)


def test_who_declines_is_thanked_and_is_shown_nothing(people, served):
    person = people.come(served["curate"], by="key").open()
    with person.page.expect_response("**/api/session/decline"):
        person.use("I do not take part")
    person.sees("text=no answers were stored")
    assert [row for row in served["curate"].rows() if not row["finished"]] == []
    who = int(person.name()[1:])
    [[left]] = served["curate"].database("SELECT released FROM cosight_participants WHERE number = ?", who)
    assert left is not None  # no longer active


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "classify" else pytest.mark.slow) for kind in KINDS]
)
def test_no_button_looks_chosen_before_the_participant_does_anything(people, served, kind):
    """Neither at the first trial nor at the next, whose button lies below the pointer that gave the last answer."""
    person = people.come(served[kind]).open("?simulated=panel")
    for words in ("I agree", "Next", *(["as wide as my card"] if kind == "timed" else []), "Begin"):
        person.use(words)
    if kind == "timed":
        person.use("#jspsych-fullscreen-btn")
    answers = responses(kind, ANSWERS.get(kind, ()), REASONS, rows=3)
    for _ in range(2):
        person.sees(READY)
        person.page.wait_for_timeout(300)  # the browser looks again at what lies below the pointer
        looks = person.page.evaluate(LOOKS)
        assert len(looks) == 1, looks
        assert person.page.evaluate("document.activeElement.closest('button')") is None
        person.answer(next(answers))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "answers"), [("2afc", 2), ("curate", 3)])
def test_images_and_answers_fit_a_phone(people, served, kind, answers):
    person = people.come(served[kind], **PHONE).open("?simulated=panel")
    for words in ("I agree", "Next", "Begin"):
        person.use(words)
    person.sees(READY)
    fits_a_phone(person, answers)


def test_leaving_the_full_screen_is_flagged(people, served):
    person = people.come(served["timed"]).open("?simulated=panel")
    for words in ("I agree", "Next", "as wide as my card", "Begin", "#jspsych-fullscreen-btn"):
        person.use(words)
    person.answer("cat")
    person.sees(READY)
    person.page.evaluate("document.exitFullscreen()")
    person.page.wait_for_function("document.fullscreenElement === null")
    person.answer("dog")
    person.finish(responses("timed", ANSWERS["timed"], (), rows=0))
    assert [row["windowed"] for row in person.rows()] == [False, True, True, True]


@pytest.mark.slow
def test_a_choice_among_columns_can_be_changed_until_it_is_given(people, served):
    person = people.come(served["cluster"]).open("?simulated=panel")
    for words in ("I agree", "Next", "Begin"):
        person.use(words)
    person.sees(".cluster[data-state=ready]")
    person.page.click("button.primary", force=True)  # nothing is chosen yet: it does nothing
    person.page.keyboard.press("Enter")
    for column in (0, 2):
        person.page.click(f".row >> nth=1 >> button >> nth={column}")
    shown = person.shown()
    person.page.keyboard.press("1")  # the first row
    person.page.keyboard.press("ArrowUp")
    person.page.keyboard.press("ArrowDown")
    person.page.click(".row >> nth=2 >> button >> nth=1")
    person.page.click("button.primary")
    person.finish(responses("cluster", (), (), rows=3))
    first = [row for row in person.rows() if row["trial"] == 1]
    assert {row["kind"] for row in first} == {"simulated"}
    assert kept("cluster", first) == [stored("cluster", [0, 2, 1], shown)]


def test_digits_are_their_own_keys():
    """Whoever sees a 7 presses 7; names take the other keys in their order, as long as there are any."""
    assert _assign_keys("0123456789") == {key: key for key in "0123456789"}
    assert _assign_keys(["cat", "1"]) == {"1": "1", "cat": "2"}
    assert len(_assign_keys([f"class-{number}" for number in range(100)])) == 36
