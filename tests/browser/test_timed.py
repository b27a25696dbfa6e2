"""Timed trials: what is stored of the exposure is what was on the screen, and every late paint is flagged."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from tests.browser.visits import People, missing, serving
from tests.humans.conftest import CLASSES, make_stimuli, make_study

ASKED = 0.25  # s; LAION-C's 2.5 would only make the test longer
TIMING = f"[timing]\nfixation = 0.1\nexposure = {ASKED}\nresponse = 3.0\nprompt = 2.5\n"
WARMUP, BLOCK, BLOCKS = 2, 4, 3
MISSED, WRONG = 7, 8  # trials (from 1), of the second block
LATE = {
    12: ("exposure", 0, 150),
    13: ("exposure", 3, 400),
    14: ("ready", 0, 150),
}  # trial -> state, painted frames after it, and for how many ms the page is busy then
HIDDEN = 9  # during the exposure the page is out of sight for a moment
TRIALS = WARMUP + BLOCK * BLOCKS

# a second clock, that knows nothing of animation frames
CLOCK = """
window.changes = [];
new MutationObserver((all) => all.forEach(({ target }) => {
  const what = target.matches(".timed") ? target.dataset.state : target.matches(".prompt.now") ? "prompt" : null;
  if (what !== null) window.changes.push([what, performance.now() / 1000]);
})).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-state", "class"] });
"""
BUSY = """([state, frames, milliseconds]) => {
  const block = () => { const end = performance.now() + milliseconds; while (performance.now() < end); };
  const wait = (left) => left ? requestAnimationFrame(() => wait(left - 1)) : block();
  const observer = new MutationObserver(() => {
    if (!document.querySelector(`.timed[data-state=${state}]`)) return;
    observer.disconnect();
    wait(frames);
  });
  observer.observe(document, { subtree: true, attributes: true, attributeFilter: ["data-state"] });
}"""
HIDE = """() => {
  const turn = (hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  };
  const observer = new MutationObserver(() => {
    if (!document.querySelector(".timed[data-state=exposure]")) return;
    observer.disconnect();
    turn(true);
    turn(false);
  });
  observer.observe(document, { subtree: true, attributes: true, attributeFilter: ["data-state"] });
}"""
SEEN = """() => ({
  full: document.fullscreenElement !== null,
  grids: document.querySelectorAll(".grid").length,
  labels: [...document.querySelectorAll(".grid button")].map((one) => one.dataset.response),
  background: getComputedStyle(document.querySelector(".timed")).backgroundColor,
  width: document.querySelector(".exposure img").getBoundingClientRect().width,
  image: document.querySelector(".exposure img").src,
})"""


@dataclass
class Sat:
    """What was seen of a whole visit."""

    rows: list = field(default_factory=list)
    given: list = field(default_factory=list)
    breaks: list = field(default_factory=list)
    seen: list = field(default_factory=list)  # of each trial
    changes: list = field(default_factory=list)
    end: str = ""


@pytest.fixture(scope="module")
def sat(browser, tmp_path_factory):
    if missing():
        pytest.skip(missing())
    home = tmp_path_factory.mktemp("timed")
    make_stimuli(home / "set", images=BLOCK * BLOCKS)
    folder = make_study(
        home, "timed", people="calibration = true", more=TIMING, images=BLOCK * BLOCKS, blocks=BLOCKS, answers=1
    )
    people = People(browser)
    with serving(folder) as [server]:
        person = people.come(server)
        person.context.add_init_script(CLOCK)
        yield visit(person.open(), truths(home / "set"))
    assert people.leave() == []


def truths(folder):
    import polars as pl

    frames = [pl.read_parquet(place / "stimuli.parquet") for place in (folder, folder / "warm")]
    return {row["stimulus"]: row["truth"] for frame in frames for row in frame.iter_rows(named=True)}


def visit(person, truth):
    found = Sat()
    for words in ("I agree", "as wide as my card", "Begin", "#jspsych-fullscreen-btn"):
        person.use(words)
    for trial in range(1, TRIALS + 1):
        if trial > WARMUP and (trial - WARMUP) % BLOCK == 1:
            rest(person, found)
        sit(person, found, trial, truth)
    person.sees("#code")
    found.end, found.rows = person.text(), person.rows()
    found.changes = person.page.evaluate("() => window.changes")
    return found


def rest(person, found):
    """A break; the line about the bonus comes when the server has told."""
    person.sees('button:has-text("Go on")')
    if found.breaks:  # there is none for the warm-up
        person.sees("text=bonus")
    found.breaks.append(person.text())
    person.use("Go on")


def sit(person, found, trial, truth):
    grid = person.sees(".timed[data-state=ready]")
    right = truth[person.shown()[0]]
    found.seen.append(person.page.evaluate(SEEN))
    if trial + 1 in LATE:
        person.page.evaluate(BUSY, LATE[trial + 1])
    if trial + 1 == HIDDEN:
        person.page.evaluate(HIDE)
    if trial == MISSED:
        person.sees(".prompt.now")
        found.given.append(None)
    else:
        found.given.append(next(name for name in CLASSES if (name == right) is not (trial == WRONG)))
        person.give(found.given[-1])
    grid.wait_for_element_state("hidden")


@pytest.mark.slow
def test_every_answer_and_every_missed_one_is_stored(sat):
    assert [row["response"] for row in sat.rows] == sat.given
    assert sat.given.count(None) == 1
    assert [row["rt"] is None for row in sat.rows] == [given is None for given in sat.given]
    assert [row["role"] for row in sat.rows] == ["warmup"] * WARMUP + ["test"] * BLOCK * BLOCKS


def after(sat, state):
    """Seconds from each change to `state` to the next change, by the second clock; and what that was."""
    pairs = zip(sat.changes, sat.changes[1:], strict=False)
    return [(then - since, what) for (found, since), (what, then) in pairs if found == state]


def test_the_exposure_is_that_of_a_second_clock(sat):
    """Each end can differ by the time between a frame's stamp and its callback; trials without a flag, three frames."""
    second = [seconds for seconds, _ in after(sat, "exposure")]
    assert len(second) == TRIALS
    for row, other in zip(sat.rows, second, strict=True):
        assert row["asked"] == ASKED
        assert row["exposure"] == pytest.approx(row["offset"] - row["onset"], abs=2e-6)
        assert 1 / 250 < row["frame"] < 1 / 20
        if not row["late"]:
            assert row["exposure"] == pytest.approx(other, abs=3 * row["frame"])


def test_every_late_paint_is_flagged(sat):
    for row in sat.rows:
        wrong = abs(row["exposure"] - ASKED) > 2 * row["frame"]
        planted = row["trial"] in (*LATE, HIDDEN)
        assert row["late"] or not (wrong or planted), row
    long = [row for row in sat.rows if row["exposure"] > ASKED + 0.08]
    assert 13 in {row["trial"] for row in long}  # busy when the image should have gone
    assert not all(row["late"] for row in sat.rows)


def test_every_trial_is_a_fresh_grid_on_the_full_screen(sat):
    width = 2 * 65 * math.tan(math.radians(2.5)) * 324 / 8.56  # 5 degrees at 65 cm; 324 px were as wide as a card
    for seen in sat.seen:
        assert seen["full"]
        assert seen["grids"] == 1
        assert seen["labels"] == [*CLASSES, "abstain"]
        assert seen["background"] == "rgb(116, 116, 116)"  # .454 of white
        assert seen["width"] == pytest.approx(width, abs=0.5)
    assert len({seen["image"] for seen in sat.seen}) == TRIALS


def test_the_prompt_comes_shortly_before_the_end(sat):
    prompts = [when for what, when in sat.changes if what == "prompt"]
    assert prompts
    for when in prompts:
        row = [row for row in sat.rows if row["offset"] < when][-1]  # its trial
        assert when - row["offset"] > 0.5 - row["frame"]  # 3 s to answer, the prompt 2.5 s before they end


def test_breaks_and_the_bonus(sat):
    assert [f"Part {number} of 4" in text for number, text in enumerate(sat.breaks, start=2)] == [True] * BLOCKS
    assert ["bonus" in text for text in sat.breaks] == [False, True, True]  # none for the warm-up
    assert "you earned the bonus" in sat.breaks[1]
    assert "No bonus" in sat.breaks[2]
    assert "you earned the bonus" in sat.end
