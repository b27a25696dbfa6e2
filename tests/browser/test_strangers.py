"""Who comes from a platform, who comes too late, and words that look like markup."""

from __future__ import annotations

import json
import re

import pytest

from tests.browser.visits import READY, missing, serving
from tests.humans.conftest import CLASSES, make_study

MARKUP = "<b>bold</b><img src=x onerror=document.title='owned'><script>document.title='owned'</script>"
ODD = "<b>odd</b>"  # a class
ONE = {"images": 1, "answers": 2, "more": "[show]\nimage = 'secret-name-000.png'\n"}
REFUSED = ("status of 400", "status of 403", "status of 409", "status of 423")


@pytest.fixture(scope="module")
def prolific(tmp_path_factory):
    if missing():
        pytest.skip(missing())
    code = "completion_code = 'C1A2B3'\ncompletion_url = 'https://platform.invalid/done?cc=C1A2B3'\n"
    plain = {**ONE, "distractors": 0, "repeats": 0}
    home = tmp_path_factory.mktemp("prolific")
    folder = make_study(home, "classify", people=f"platform = 'prolific'\n{code}", **plain)
    (folder / "study.toml").write_text((folder / "study.toml").read_text().replace("tiger,", f"tiger,{ODD},"))
    with serving(folder) as [server]:
        yield server


@pytest.fixture(scope="module")
def mturk(tmp_path_factory):
    if missing():
        pytest.skip(missing())
    home = tmp_path_factory.mktemp("mturk")
    folder = make_study(home, "curate", people="platform = 'mturk'\ndemographics = ['age']", **ONE)
    with_markup(folder)
    with serving(folder) as [server]:
        yield server


def with_markup(folder):
    """Markup in every sentence that the page shows, and in the reasons."""
    texts = re.sub(
        r'^((?!language)\w+ = "(?:""\n)?)(?!")', rf"\1{MARKUP} ", (folder / "texts.toml").read_text(), flags=re.M
    )
    (folder / "texts.toml").write_text(texts)
    design = (folder / "study.toml").read_text().replace("'wrong class'", json.dumps(MARKUP))
    (folder / "study.toml").write_text(design)


def as_text(person):
    """The markup is there to be read, and did nothing."""
    assert MARKUP in person.text()
    assert person.page.query_selector("#stage b, #stage script, #stage img[src=x]") is None
    assert "owned" not in person.page.title()


@pytest.mark.slow
def test_prolific_from_the_link_to_its_own_code(people, prolific):
    server = prolific
    person = people.come(server).open("?PROLIFIC_PID=abc123&STUDY_ID=s1&SESSION_ID=v1&other=thing").to_trials()
    person.page.reload()  # the same link again is the same person
    person.finish(CLASSES)
    assert person.code() == "C1A2B3"
    assert person.page.get_attribute("a.primary", "href") == "https://platform.invalid/done?cc=C1A2B3"
    assert "Another person" not in person.text()
    [[who, link]] = server.database("SELECT platform_id, platform FROM cosight_participants")
    assert who == "abc123"
    assert json.loads(link) == {"PROLIFIC_PID": "abc123", "STUDY_ID": "s1", "SESSION_ID": "v1"}
    elsewhere = people.come(server, expected=REFUSED).open("?PROLIFIC_PID=abc123")
    elsewhere.sees("text=You have taken part in this study already")
    unnamed = people.come(server, expected=REFUSED).open()
    unnamed.sees("text=PROLIFIC_PID is missing")
    other = people.come(server).open("?PROLIFIC_PID=def456").to_trials()
    assert ODD in other.text()
    other.finish([ODD])
    late = people.come(server, expected=REFUSED).open("?PROLIFIC_PID=ghi789")
    late.sees("text=Thank you for your interest")
    assert [row["response"] for row in server.rows()] == ["tiger", ODD]


@pytest.mark.slow
def test_mturk_and_markup(people, mturk):
    server = mturk
    person = people.come(server, expected=REFUSED)
    person.open("?workerId=W1&assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&hitId=H1")
    person.sees("text=this is a preview")
    person.open("?workerId=W1&assignmentId=A1&hitId=H1&turkSubmitTo=https%3A%2F%2Fworkersandbox.mturk.com")
    person.sees("button.primary")
    as_text(person)  # consent
    person.page.click("button.primary")
    person.page.fill("input[name=age]", MARKUP[:90])
    as_text(person)
    person.page.click("button.primary")
    person.page.click(".page:has-text('Keep it if it does') button.primary")
    person.sees(READY)
    as_text(person)
    person.answer(json.dumps({"keep": False, "reason": MARKUP}, separators=(",", ":")))
    person.sees("#submit")
    as_text(person)
    [[link, told]] = server.database("SELECT platform, demographics FROM cosight_participants")
    assert json.loads(link)["turkSubmitTo"] == "https://workersandbox.mturk.com"
    assert json.loads(told) == {"age": MARKUP[:90]}
    assert [row["reason"] for row in server.rows()] == [MARKUP]


@pytest.mark.slow
def test_markup_in_a_platforms_parameters(people, mturk):
    person = people.come(mturk, expected=REFUSED)
    person.open("?workerId=%3Cb%3Ebold%3C%2Fb%3E%3Cimg%20src%3Dx%20onerror%3Ddocument.title%3D%27owned%27%3E")
    person.sees(".small")
    as_text(person)
    assert "a platform's parameters are plain words" in person.text()
