"""A study with a few colleagues: as the docs show it, when all images are taken, and on a phone."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.browser.looking import PHONE, fits_a_phone
from tests.browser.visits import Server, missing, serving
from tests.humans.conftest import make_study, write_set

DOCS = Path(__file__).parents[2] / "docs" / "tutorials" / "first-study.md"
REFUSED = ("status of 423",)
WAITING = "text=All images are with other participants at the moment"
MANY = "airplane,bear,bicycle,bird,boat,bottle,car,cat,chair,clock,dog,elephant,keyboard,knife,oven,truck,abstain"
TRIALS = 32  # of the docs' first study: twenty images, ten distractors, two of the images again


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A study of one image, which one person answers by one of seventeen buttons."""
    if missing():
        pytest.skip(missing())
    home = tmp_path_factory.mktemp("lab")
    write_set(home / "set", 1, truth="cat", original="cat")
    folder = make_study(home, "classify", images=1, answers=1, distractors=0, repeats=0)
    text = (folder / "study.toml").read_text()
    (folder / "study.toml").write_text(re.sub("labels = .*", f"labels = '{MANY}'", text))
    with serving(folder) as [server]:
        yield server


def leave(server, person):
    """Ten minutes pass without a sign of this person."""
    server.database("UPDATE cosight_participants SET seen = seen - 600 WHERE number = ?", int(person.name()[1:]))


def test_who_waits_is_admitted_as_soon_as_an_image_is_free(people, server):
    first = people.come(server).open().to_trials()
    second = people.come(server, expected=REFUSED).open()
    second.sees(WAITING)
    leave(server, first)
    second.to_trials()  # without a reload
    third = people.come(server, expected=REFUSED).open()
    third.sees(WAITING)
    second.answer("cat")
    second.sees("#code")
    third.sees("text=has all the answers it needs")
    assert [row["response"] for row in server.rows()] == ["cat"]


def test_seventeen_answers_on_a_phone(people, server):
    """Simulated, because people have given all answers."""
    fits_a_phone(people.come(server, **PHONE).open("?simulated=panel").to_trials(), 17)


def first_study():
    """The commands of the tutorial about this study: before it is served, and afterwards."""
    text = DOCS.read_text(encoding="utf-8")
    found = re.findall(r"^(?:\$ )?(cosight (?:build|study) .*)$", text, flags=re.MULTILINE)
    lines = [shlex.split(line)[1:] for line in found]
    [served] = [index for index, line in enumerate(lines) if line[1] == "serve"]
    return lines[:served], lines[served], lines[served + 1 :]


@pytest.mark.slow
def test_the_first_study_of_the_docs(people, tmp_path, monkeypatch):
    """The commands as they stand, as processes; three colleagues answer in a browser of their own."""

    def run(line):
        return subprocess.run([sys.executable, "-m", "cosight", *line], check=True, capture_output=True, text=True)

    monkeypatch.chdir(tmp_path)
    before, serve, after = first_study()
    for line in before:
        run(line)
    server = Server(Path(serve[2])).launch().wait()
    try:
        for _ in range(3):
            colleague = people.come(server).open().to_trials()
            for _ in range(TRIALS):
                colleague.answer("abstain")
            colleague.sees("#code")
        assert people.come(server, expected=REFUSED).open().sees("text=has all the answers it needs")
    finally:
        server.end()
    printed = [run([*line, *(["--all"] if line[1] == "export" else [])]).stdout for line in after]
    assert printed[0].startswith("survey: complete, 60 of 60 answers by people\n3 started, 0 active, 3 finished")
    assert pl.read_csv("spreadsheet.csv").height == 3 * TRIALS
