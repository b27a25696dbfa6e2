"""The experimenter's page: its token, what it shows, pause and export."""

from __future__ import annotations

import pytest

from cosight.trials import read
from tests.browser.looking import looks_well, readable
from tests.browser.visits import missing, serving
from tests.humans.conftest import CLASSES, make_study

DESIGN = {"images": 2, "answers": 4, "distractors": 0, "repeats": 0}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if missing():
        pytest.skip(missing())
    with serving(make_study(tmp_path_factory.mktemp("study"), "classify", **DESIGN)) as [server]:
        yield server


@pytest.mark.slow
def test_the_token_opens_the_page_and_stays_out_of_the_address(people, server):
    guest = people.come(server, expected=["status of 401"]).open("admin")
    guest.sees("input")
    looks_well(guest)
    guest.page.fill("input", "guessed")
    guest.page.keyboard.press("Enter")
    guest.sees("text=this is not the experimenter's token")
    assert "Export" not in guest.text()
    guest.page.fill("input", server.token)
    guest.use("Open")
    guest.sees("text=0 of 48")
    linked = people.come(server).open(f"admin#token={server.token}")
    linked.sees("text=0 of 48")
    assert server.token not in linked.page.url
    linked.page.reload()  # this tab may stay
    linked.sees("text=0 of 48")


def finished(count, who):
    return f"dt:text-is('{who} finished') + dd:text-is('{count}')"


@pytest.mark.slow
def test_simulated_people_are_called_simulated(people, server):
    people.come(server).open("?simulated=panel").to_trials().finish(CLASSES)
    experimenter = people.come(server).open(f"admin#token={server.token}")
    experimenter.sees(finished(1, "simulated participants"))
    experimenter.sees("td:text-is('simulated people')")


def in_full(experimenter):
    """Also at 200 %; no word of a heading is cut into syllables."""
    experimenter.page.reload()
    experimenter.sees("text=fleiss_kappa")
    readable(experimenter)
    cut = "(all) => all.filter((one) => one.clientHeight > 60).map((one) => one.textContent)"
    assert experimenter.page.eval_on_selector_all("th", cut) == []


@pytest.mark.slow
def test_progress_pause_resume_and_export(people, server, tmp_path):
    paused = ["status of 423"]
    experimenter = people.come(server).open(f"admin#token={server.token}")
    visitor = people.come(server).open().to_trials()
    given = visitor.finish(CLASSES)
    experimenter.sees(finished(1, "participants"))  # without a reload
    experimenter.sees("text=2 of 48")
    begun = people.come(server).open().to_trials()
    experimenter.use("Pause")
    experimenter.sees("text=small (classify): paused")
    newcomer = people.come(server, expected=paused).open()
    newcomer.sees("text=it is paused or has all the answers it needs")
    begun.finish(CLASSES)  # who has begun may finish
    in_full(experimenter)
    experimenter.use("Resume")
    experimenter.page.wait_for_selector("text=paused", state="hidden")
    newcomer.page.reload()
    newcomer.to_trials()
    trials = export(experimenter, tmp_path)
    assert set(trials.frame["kind"]) == {"human", "simulated"}
    people_only = trials.frame.filter(trials.frame["kind"] == "human")
    assert len(people_only) == 4
    check_answers(people_only, visitor, given)


def export(experimenter, folder):
    with experimenter.page.expect_download() as download:
        experimenter.use("Export trials")
    assert download.value.suggested_filename == "small.parquet"
    download.value.save_as(folder / "small.parquet")
    return read(folder / "small.parquet")


def check_answers(frame, visitor, given):
    first = frame.filter(frame["session"] == visitor.name())
    assert [*first.select("response", "stimulus").iter_rows()] == [(label, shown[0]) for label, shown in given]


def test_pause_and_export(people, server, tmp_path):
    visitor = people.come(server).open().to_trials()
    given = visitor.finish(CLASSES)
    experimenter = people.come(server).open(f"admin#token={server.token}")
    experimenter.use("Pause")
    experimenter.sees("text=small (classify): paused")
    experimenter.use("Resume")
    experimenter.page.wait_for_selector("text=paused", state="hidden")
    check_answers(export(experimenter, tmp_path).frame, visitor, given)


@pytest.mark.slow
def test_a_server_that_is_gone_is_told(people, server):
    experimenter = people.come(server, expected=["ERR_CONNECTION"]).open(f"admin#token={server.token}")
    experimenter.sees("text=of 48")
    server.end()
    experimenter.sees("#notice:has-text('The server does not answer')")
