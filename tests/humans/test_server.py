"""The server, from the link to the completion code, and the experimenter's side."""

from __future__ import annotations

import json
import stat
from collections import Counter
from dataclasses import replace

import pytest

from cosight.humans.database.progress import image_names
from cosight.humans.database.study_trials import study_trials
from cosight.humans.study.pool import Pool
from cosight.humans.web.admin import admin_token
from cosight.stimuli.images import decode, digest
from cosight.trials import read

from .conftest import ADMIN, CLASSES

KINDS = ("classify", "timed", "2afc", "cluster", "curate")
EXPERIMENTER = {"Authorization": f"Bearer {ADMIN}"}


def recorded(here):
    return study_trials(here.study, here.pool, here.store)


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_from_the_link_to_the_code(serve_study, kind):
    here = serve_study(kind)
    headers, ended = here.take_part()
    session = here.client.get("/api/session", headers=headers).json()["session"]
    assert ended.status_code == 200
    assert ended.json() == {"code": session["completion"]["code"], "url": ""}
    assert (session["done"], session["answered"]) == (True, session["total"])
    assert here.trials(headers) == []
    rows = recorded(here).frame
    assert rows["trial"].n_unique() == session["total"]
    assert all(json.loads(text)["finished"] for text in rows["extra"])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_shown_is_what_the_trial_table_says(serve_study, kind):
    """The bytes at each address have the pixels of the stimulus that the row names."""
    here = serve_study(kind)
    headers = here.begin()
    trials = here.trials(headers)
    shown = {}
    for trial in trials:
        images = {name: urls if isinstance(urls, list) else [urls] for name, urls in trial["images"].items()}
        shown[trial["number"]] = {
            name: [digest(decode(here.client.get(url).content)) for url in urls] for name, urls in images.items()
        }
        here.answer(headers, trial)
    for row in recorded(here).frame.iter_rows(named=True):
        seen, extra = shown[row["trial"]], json.loads(row["extra"])
        if kind == "2afc":
            assert extra["options"] == [*seen["left"], *seen["right"]]
            assert [extra["query"]] == seen["query"]
            assert [row["response"]] == seen["left"]
        elif kind == "cluster":
            assert extra["options"] == seen["columns"]
            assert extra["query"] in seen["rows"]
            assert row["response"] == seen["columns"][0]
        else:
            assert seen["image"] == [row["stimulus"]]


def test_forced_choices_know_their_target(serve_study):
    here = serve_study("2afc")
    headers = here.begin()
    for trial in here.trials(headers):
        here.answer(headers, trial, "right")
    rows = recorded(here).frame
    for row in rows.iter_rows(named=True):
        extra = json.loads(row["extra"])
        assert row["truth"] in extra["options"]
        if row["role"] == "check":
            assert extra["expected"] == extra["query"] == row["truth"]
    assert set(rows["role"]) == {"test", "check"}


def test_the_study_as_the_page_is_told_it(serve_study):
    here = serve_study("classify", people="demographics = ['age']")
    study = here.client.get("/api/session", headers=here.begin()).json()["study"]
    assert [label["name"] for label in study["labels"]] == [*CLASSES, "abstain"]
    assert [label["key"] for label in study["labels"]] == ["1", "2", "3", "4", "space"]
    assert [label["icon"] for label in study["labels"]] == ["/static/icons/tiger.svg", None, None, None, None]
    assert (study["name"], study["type"], study["timing"], study["demographics"]) == (
        "small",
        "classify",
        None,
        ["age"],
    )
    assert study["texts"]["question_classify"]
    timing = serve_study("timed", folder=None, name="other").client
    assert timing.get("/api/session").status_code == 401


def test_keys_are_unique_and_run_out_honestly(serve_study):
    from cosight.humans.web.sessions import _KEYS

    assert len(set(_KEYS)) == len(_KEYS) == 36


def test_examples_have_addresses_without_their_names(serve_study, tmp_path):
    from .conftest import draw_image, make_study

    folder = make_study(tmp_path, "classify", more="[[examples]]\nimage = 'zebra-in-grass.png'\nanswer = 'zebra'\n")
    from PIL import Image as Pillow

    Pillow.fromarray(draw_image(77)).save(folder / "zebra-in-grass.png")
    here = serve_study(folder=folder)
    [example] = here.client.get("/api/session", headers=here.begin()).json()["study"]["examples"]
    assert example["answer"] == "zebra"
    assert "zebra" not in example["image"]
    assert digest(decode(here.client.get(example["image"]).content)) == digest(draw_image(77))


def test_consent_comes_first(serve_study):
    here = serve_study()
    headers = here.begin(consent=False)
    early = here.client.get("/api/trials", headers=headers)
    assert (early.status_code, early.json()) == (409, {"error": "trials come after consent"})
    refused = here.client.post("/api/session/consent", json={"agreed": False}, headers=headers)
    assert refused.status_code == 400
    assert here.client.post("/api/session/consent", json={"agreed": True}, headers=headers).json() == {}
    assert here.trials(headers)


def test_a_study_may_do_without_consent(serve_study):
    here = serve_study(people="consent = false")
    assert here.trials(here.begin(consent=False))


def test_what_people_tell_of_themselves(serve_study):
    here = serve_study("timed", people="demographics = ['age', 'gender']\ncalibration = true")
    headers = here.begin()
    told = here.client.get("/api/session", headers=headers).json()["session"]
    assert (told["demographics"], told["calibrated"]) == (False, False)
    post = lambda name, body: here.client.post(f"/api/session/{name}", json=body, headers=headers).status_code  # noqa: E731
    assert post("demographics", {"age": "35", "gender": None}) == 200
    assert post("calibration", {"pixels_per_cm": 37.8}) == 200
    told = here.client.get("/api/session", headers=headers).json()["session"]
    assert (told["demographics"], told["calibrated"], told["pixels_per_cm"]) == (True, True, 37.8)
    for name, body in (
        ("demographics", {"income": "1"}),
        ("demographics", {"age": 35}),
        ("demographics", {"age": "9" * 501}),
        ("demographics", {"age": ["35"]}),
        ("calibration", {}),
        ("calibration", {"pixels_per_cm": True}),
        ("calibration", {"pixels_per_cm": 0}),
        ("calibration", {"pixels_per_cm": 10**400}),
    ):
        assert post(name, body) == 400, body


def test_reload_goes_on_at_the_first_unanswered(serve_study):
    here = serve_study()
    headers = here.begin()
    trials = here.trials(headers)
    for trial in trials[:3]:
        here.answer(headers, trial)
    page = here.client.get("/api/trials", headers=headers).json()
    assert page["trials"] == trials[3:]
    assert (page["answered"], page["total"]) == (3, len(trials))
    assert [trial["number"] for trial in trials] == list(range(1, len(trials) + 1))


def test_sent_twice_is_stored_once(serve_study):
    here = serve_study()
    headers = here.begin()
    trial = here.trials(headers)[0]
    assert here.answer(headers, trial, "zebra").json() == {"stored": True, "block": None}
    assert here.answer(headers, trial, "camel").json() == {"stored": False, "block": None}
    assert recorded(here).frame["response"].to_list() == ["zebra"]


def test_blocks_with_breaks_and_bonus(serve_study):
    """Two blocks after a warm-up: the first all right, the second all wrong."""
    here = serve_study("timed")
    headers = here.begin()
    page = here.client.get("/api/trials", headers=headers).json()
    trials = page["trials"]
    assert page["blocks"] == 3
    assert [trial["block"] for trial in trials] == [1, 1, 2, 2, 3, 3]
    assert [trial["break"] for trial in trials] == [False, False, True, False, True, False]
    truths = {digest(decode(here.client.get(trial["images"]["image"]).content)): trial["trial"] for trial in trials}
    truth = {truths[name]: item.facts["truth"] for name, item in here.pool.items.items() if name in truths}
    ends = []
    for trial in trials:
        right = trial["block"] == 2
        sent = here.answer(headers, trial, truth[trial["trial"]] if right else "abstain")
        ends.append(sent.json()["block"])
    assert ends == [None, None, None, {"number": 2, "bonus": True}, None, {"number": 3, "bonus": False}]
    again = here.answer(headers, trials[3], "abstain").json()
    assert again == {"stored": False, "block": {"number": 2, "bonus": True}}  # lost on the way, asked for again


def test_missed_in_time_is_an_answer(serve_study):
    here = serve_study("timed")
    headers = here.begin()
    trial = here.trials(headers)[0]
    body = {"trial": trial["trial"], "response": None, "rt": None, "shown": {"late": True, "onset": 1.0}, "input": None}
    assert here.client.post("/api/answers", json=body, headers=headers).json()["stored"]
    [row] = recorded(here).frame.iter_rows(named=True)
    assert row["response"] is None
    assert json.loads(row["extra"])["late"] is True


def test_the_abandoned_come_back(serve_study):
    here = serve_study(images=4, answers=1, distractors=0, repeats=0)
    headers = here.begin()
    trials = here.trials(headers)
    here.answer(headers, trials[0])
    here.clock.now += 61 * 60
    other = here.begin()
    assert here.trials(other)
    assert here.answer(headers, trials[1]).status_code == 410
    new = here.trials(headers)
    assert new
    assert here.answer(headers, new[0]).json()["stored"]


def test_the_sentences_are_there_before_a_session_and_when_there_will_be_none(serve_study):
    here = serve_study(images=4, answers=1, distractors=0, repeats=0)
    about = here.client.get("/api/study").json()
    assert about == {"name": here.study.name, "texts": dict(here.study.texts)}
    assert about["texts"]["language"] == "en"


def test_a_page_that_heard_no_answer_begins_again_and_is_one_participant(serve_study):
    here = serve_study(people="platform = 'prolific'\ncompletion_code = 'C1A2B3'")
    body = {"platform": {"PROLIFIC_PID": "5f3e"}, "simulated": None, "token": "a-b_" * 8}
    assert [here.client.post("/api/sessions", json=body).json() for _ in range(3)] == [{"token": "a-b_" * 8}] * 3
    assert here.client.post("/api/sessions", json={**body, "token": "c-d_" * 8}).status_code == 409
    assert here.client.get("/api/session", headers={"Authorization": f"Bearer {body['token']}"}).status_code == 200


@pytest.mark.parametrize("token", ["", "short", "a" * 33, "ä" * 32, 7, ["a" * 32]])
def test_a_token_that_can_be_guessed_is_refused(serve_study, token):
    body = {"platform": {}, "simulated": None, "token": token}
    assert serve_study().client.post("/api/sessions", json=body).status_code == 400


def test_classes_that_are_keys_are_their_own():
    """In a study of digits, key 1 answers one."""
    from cosight.humans.web.sessions import _assign_keys

    assert _assign_keys(tuple("0123456789")) == {digit: digit for digit in "0123456789"}
    assert _assign_keys(("tiger", "zebra")) == {"tiger": "1", "zebra": "2"}


def test_curators_are_told_what_an_image_is_meant_to_show(serve_study):
    here = serve_study("curate", more="")
    trials = here.trials(here.begin())
    assert {trial["title"] for trial in trials} <= {item.facts["truth"] for item in here.pool.items.values()}


def test_who_finds_all_images_reserved_is_told_to_wait_and_then_admitted(serve_study):
    here = serve_study(images=4, answers=1, distractors=0, repeats=0)
    early = here.begin()  # before the images are reserved
    everybody = [here.begin() for _ in range(3)]
    for headers in everybody:
        assert len(here.trials(headers)) == 4
    body = {"platform": {}, "simulated": None}
    for refused in (
        here.client.post("/api/sessions", json=body),
        here.client.get("/api/trials", headers=early),
    ):
        assert (refused.status_code, refused.headers["Retry-After"]) == (423, "3")
        assert refused.json() == {"error": "all images are reserved for other participants"}
    for trial in here.trials(everybody[0]):
        here.answer(everybody[0], trial)
    here.clock.now += 6 * 60  # the others have left, and `idle` is five minutes
    assert here.client.post("/api/sessions", json=body).status_code == 201
    assert len(here.trials(early)) == 4


def test_a_place_that_may_become_free_is_worth_waiting_for(serve_study):
    here = serve_study(images=4, answers=1, people="participants = 1")
    body = {"platform": {}, "simulated": None}
    headers = here.begin()
    refused = here.client.post("/api/sessions", json=body)
    assert (refused.status_code, refused.headers["Retry-After"]) == (423, "3")
    for trial in here.trials(headers):
        here.answer(headers, trial)
    here.client.post("/api/finish", headers=headers)
    full = here.client.post("/api/sessions", json=body)
    assert (full.status_code, full.json()["error"]) == (423, "the study has all the participants it needs")
    assert "Retry-After" not in full.headers


def test_who_declines_is_not_active(serve_study):
    here = serve_study(people="participants = 3")
    headers = here.begin(consent=False)

    def counts():
        return here.client.get("/api/admin/state", headers=EXPERIMENTER).json()["participants"]

    assert counts() == {"started": 1, "active": 1, "finished": 0, "released": 0}
    assert here.client.post("/api/session/decline", headers=headers).json() == {"code": "", "url": ""}
    assert counts() == {"started": 1, "active": 0, "finished": 0, "released": 1}
    for _ in range(3):  # they take no place of the three
        here.begin()
    here.client.post("/api/session/consent", json={"agreed": True}, headers=headers)  # thought better of it
    assert counts() == {"started": 4, "active": 4, "finished": 0, "released": 0}


def test_full_is_told_politely(serve_study):
    here = serve_study(images=4, answers=1, distractors=0, repeats=0)
    late = here.begin()  # comes before it is full, asks for trials after
    for _ in range(3):
        here.take_part()
    refused = here.client.post("/api/sessions", json={"platform": {}, "simulated": None})
    assert (refused.status_code, refused.json()) == (423, {"error": "the study has all the answers it needs"})
    assert here.client.get("/api/trials", headers=late).status_code == 423
    assert "Retry-After" not in refused.headers  # it is not worth waiting


@pytest.mark.parametrize(("platform", "key"), [("prolific", "PROLIFIC_PID"), ("mturk", "workerId")])
def test_platforms(serve_study, platform, key):
    code = "completion_code = 'C1A2B3'\ncompletion_url = 'https://example.org/done?cc=C1A2B3'"
    here = serve_study(people=f"platform = '{platform}'\n{code}")
    post = lambda parameters: here.client.post("/api/sessions", json={"platform": parameters, "simulated": None})  # noqa: E731
    assert post({}).status_code == 403
    assert post({key: "5f3e", "assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE"}).status_code == 403
    _, ended = here.take_part(platform={key: "5f3e", "STUDY_ID": "9"})
    assert ended.json() == {"code": "C1A2B3", "url": "https://example.org/done?cc=C1A2B3"}
    assert post({key: "5f3e"}).status_code == 409
    assert post({key: "other"}).status_code == 201
    assert post({key: "<script>"}).status_code == 400
    assert post({key: {"$ne": 1}}).status_code == 400
    assert "5f3e" not in str(recorded(here).frame.rows())
    other = here.begin(platform={key: "declines"}, consent=False)
    assert here.client.post("/api/session/decline", headers=other).json() == {"code": "", "url": ""}  # not the code


def test_codes_are_made_for_each_where_there_is_no_platform(serve_study):
    here = serve_study()
    assert here.take_part()[1].json()["code"] != here.take_part()[1].json()["code"]


def test_the_page_and_its_files(serve_study):
    here = serve_study()
    assert here.client.get("/").headers["content-type"] == "text/html; charset=utf-8"
    assert b"experimenter" in here.client.get("/admin").content
    assert here.client.get("/static/page.js").headers["content-type"].startswith("text/javascript")
    assert here.client.get("/static/icons/tiger.svg").headers["content-type"] == "image/svg+xml"
    assert here.client.get("/static/none.js").status_code == 404


def test_the_experimenter_sees_how_it_goes(serve_study):
    here = serve_study(images=4, answers=3, distractors=2, repeats=1)
    first = here.client.get("/api/admin/state", headers=EXPERIMENTER).json()
    assert first["answers"] == {"given": 0, "wanted": 36}
    assert (first["agreement"], first["flagged"]) == ([], [])
    here.take_part()
    headers = here.begin()
    here.answer(headers, here.trials(headers)[0], "abstain")
    state = here.client.get("/api/admin/state", headers=EXPERIMENTER).json()
    assert state["study"] == {"name": "small", "type": "classify"}
    assert state["participants"] == {"started": 2, "active": 1, "finished": 1, "released": 0}
    assert state["simulated"] is False
    listed = here.client.get("/api/admin/images", headers=EXPERIMENTER).json()
    images = listed["images"]
    assert (listed["first"], listed["total"]) == (0, 12)
    assert sum(image["answers"] + image["open"] for image in images) == 8
    assert {image["wanted"] for image in images} == {3}
    assert len({image["image"] for image in images}) == 12
    tally = Counter((image["answers"], image["open"]) for image in images)
    assert {(count["answers"], count["open"]): count["images"] for count in state["counts"]} == tally
    assert state["answers"] == {"given": sum(image["answers"] for image in images), "wanted": 36}
    later = here.client.get("/api/admin/images?first=10", headers=EXPERIMENTER).json()
    assert later["images"] == images[10:]
    assert here.client.get("/api/admin/images?first=-1", headers=EXPERIMENTER).status_code == 400


def test_the_experimenters_page_asks_for_little_however_large_the_set_is(serve_study, monkeypatch):
    here = serve_study(images=4, answers=3)
    first, *_ = here.pool.items.values()
    many = {f"{index:06d}": replace(first, item=f"{index:06d}") for index in range(3000)}
    context = here.client.app.state.context
    monkeypatch.setattr(context, "pool", Pool(many))
    monkeypatch.setattr(context, "image_names", image_names(Pool(many)))
    state = here.client.get("/api/admin/state", headers=EXPERIMENTER)
    assert state.json()["counts"] == [{"answers": 0, "open": 0, "images": 3000}]
    images = here.client.get("/api/admin/images?first=2950", headers=EXPERIMENTER)
    assert len(images.json()["images"]) == 50
    assert len(state.content) + len(images.content) < 20_000


def test_agreement_is_looked_at_now_and_then(serve_study):
    """Not for each request: a second look comes after some seconds."""
    here = serve_study(images=4, answers=3, distractors=2, repeats=1)
    here.take_part()  # says tiger to clear distractors
    headers = here.begin()
    for trial in here.trials(headers):
        here.answer(headers, trial, "abstain")
    monitor = here.client.app.state.monitor
    state = here.client.get("/api/admin/state", headers=EXPERIMENTER).json()
    assert [one["participant"] for one in state["flagged"]] == [f"human:{here.store.study_id}/p0001"]
    assert state["flagged"][0]["reasons"]
    assert {"measure", "value", "low", "high", "n", "note"} <= state["agreement"][0].keys()
    here.take_part()
    assert here.client.get("/api/admin/state", headers=EXPERIMENTER).json()["flagged"] == state["flagged"]
    monitor._last = None
    assert len(here.client.get("/api/admin/state", headers=EXPERIMENTER).json()["flagged"]) == 2


def test_pause_and_resume(serve_study):
    here = serve_study()
    assert here.client.post("/api/admin/pause", headers=EXPERIMENTER).json() == {}
    assert here.client.get("/api/admin/state", headers=EXPERIMENTER).json()["paused"]
    refused = here.client.post("/api/sessions", json={"platform": {}, "simulated": None})
    assert (refused.status_code, refused.json()["error"]) == (423, "the study is paused")
    assert here.client.post("/api/admin/resume", headers=EXPERIMENTER).json() == {}
    assert here.begin()


def test_the_export_is_the_trial_table(serve_study, tmp_path):
    here = serve_study(distractors=0)
    here.take_part()
    response = here.client.get("/api/admin/export", headers=EXPERIMENTER)
    assert response.headers["content-disposition"] == 'attachment; filename="small.parquet"'
    (tmp_path / "got.parquet").write_bytes(response.content)
    got = read(tmp_path / "got.parquet")
    assert got.frame.equals(recorded(here).frame)
    assert got.space == here.study.space


def test_there_is_nothing_to_export_without_answers_that_count(serve_study):
    here = serve_study(images=4, answers=3, distractors=2, repeats=1)
    empty = here.client.get("/api/admin/export", headers=EXPERIMENTER)
    assert (empty.status_code, empty.json()["error"]) == (409, "nobody has answered yet")
    here.take_part()  # says tiger to clear distractors
    refused = here.client.get("/api/admin/export", headers=EXPERIMENTER)
    assert refused.status_code == 409
    assert "every participant is excluded" in refused.json()["error"]


def test_the_experimenters_token_is_made_once_and_private(tmp_path):
    token = admin_token(tmp_path)
    assert admin_token(tmp_path) == token
    assert len(token) >= 32
    assert stat.S_IMODE((tmp_path / "admin-token").stat().st_mode) == 0o600


def test_a_crash_is_a_plain_500_and_the_next_request_is_served(serve_study, monkeypatch):
    here = serve_study()
    headers = here.begin()

    def broken(name):
        raise RuntimeError("secret-detail")

    monkeypatch.setattr(here.client.app.state.context, "load_image", broken)
    failed = here.client.get("/images/any")
    assert failed.status_code == 500
    assert "secret" not in failed.text
    assert failed.headers["x-content-type-options"] == "nosniff"
    assert here.trials(headers)


def test_a_missing_image_is_told_to_the_experimenter_alone(serve_study, caplog):
    here = serve_study()
    trial = here.trials(here.begin())[0]
    for item in here.pool.items.values():
        for slot in item.slots:
            slot.file.unlink(missing_ok=True)
    failed = here.client.get(trial["images"]["image"])
    assert failed.status_code == 500
    assert "secret-name" not in failed.text
    assert "secret-name" in caplog.text
