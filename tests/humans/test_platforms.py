"""What the platforms receive: a code for each outcome, and MTurk's own form; nobody else may show or get anything."""

from __future__ import annotations

import pytest

from cosight.humans.database.progress import read_roster

PROLIFIC = "https://app.prolific.com/submissions/complete?cc="
CODES = """platform = 'prolific'
completion_code = 'C0MPLETE'
screened_out_code = 'SCR33NED'
no_consent_code = 'N0C0NSENT'
screening = ['vision', 'colour']
"""


def answer(here, headers, question, eligible):
    body = {"question": question, "eligible": eligible}
    return here.client.post("/api/session/screening", json=body, headers=headers)


def arrive(here, person, **more):
    return here.begin(platform={"PROLIFIC_PID": person, "STUDY_ID": "s1", "SESSION_ID": "v1"}, **more)


@pytest.fixture
def prolific(serve_study):
    return serve_study(people=CODES)


def test_each_outcome_has_its_code(prolific):
    here = prolific
    headers = arrive(here, "one")
    session = here.client.get("/api/session", headers=headers).json()["session"]
    assert (session["screening"], session["screened_out"]) == (["vision", "colour"], None)
    assert here.client.get("/api/trials", headers=headers).status_code == 409
    assert answer(here, headers, "vision", True).json() == {"screening": ["colour"], "screened_out": None}
    assert here.client.get("/api/trials", headers=headers).status_code == 409
    assert answer(here, headers, "colour", True).json() == {"screening": [], "screened_out": None}
    for trial in here.trials(headers):
        here.answer(headers, trial)
    ended = here.client.post("/api/finish", headers=headers).json()
    assert ended == {"code": "C0MPLETE", "url": f"{PROLIFIC}C0MPLETE"}

    headers = arrive(here, "two")
    out = {"code": "SCR33NED", "url": f"{PROLIFIC}SCR33NED"}
    assert answer(here, headers, "colour", False).json() == {"screening": ["vision"], "screened_out": out}
    assert answer(here, headers, "colour", True).json()["screened_out"] == out  # the first answer stays
    assert answer(here, headers, "vision", True).json()["screened_out"] == out
    assert here.client.get("/api/session", headers=headers).json()["session"]["screened_out"] == out
    assert here.client.get("/api/trials", headers=headers).status_code == 409
    assert here.client.post("/api/finish", headers=headers).status_code == 409

    headers = arrive(here, "three", consent=False)
    declined = here.client.post("/api/session/decline", json={}, headers=headers).json()
    assert declined == {"code": "N0C0NSENT", "url": f"{PROLIFIC}N0C0NSENT"}
    roster = read_roster(here.study, here.pool, here.store)
    assert roster.select("platform_id", "finished", "screened_out").rows() == [
        ("one", True, False),
        ("two", False, True),
        ("three", False, False),
    ]


def test_no_outcome_is_sent_before_its_time(prolific):
    """Whoever has only opened the link could claim to have been screened out, and be paid for it."""
    here = prolific
    headers = arrive(here, "one")
    received = here.client.get("/api/study").text + here.client.get("/api/session", headers=headers).text
    received += answer(here, headers, "vision", True).text + here.client.get("/").text
    assert not [code for code in here.study.participants.codes if code in received]


def test_simulated_participants_get_no_code_of_the_platform(prolific):
    headers = prolific.begin(simulated="panel")
    out = answer(prolific, headers, "vision", False).json()["screened_out"]
    assert out == {"code": "", "url": ""}
    declined = prolific.client.post("/api/session/decline", json={}, headers=headers).json()
    assert declined == {"code": "", "url": ""}


@pytest.mark.parametrize(
    "body",
    [{}, {"question": "vision"}, {"question": "height", "eligible": True}, {"question": "vision", "eligible": "yes"},
     {"question": ["vision"], "eligible": True}, {"question": None, "eligible": True}],
)  # fmt: skip
def test_answers_that_are_none(prolific, body):
    refused = prolific.client.post("/api/session/screening", json=body, headers=arrive(prolific, "one"))
    assert refused.status_code == 400
    assert "question is one of those asked (vision, colour)" in refused.json()["error"]


def test_questions_come_after_consent(prolific):
    assert answer(prolific, arrive(prolific, "one", consent=False), "vision", True).status_code == 409


def test_somebody_who_is_screened_out_makes_room(serve_study):
    here = serve_study(answers=1, people="participants = 1\nscreening = ['vision']")
    headers = here.begin()
    assert here.client.post("/api/sessions", json={"platform": {}}).status_code == 423
    assert answer(here, headers, "vision", False).json()["screened_out"] == {"code": "", "url": ""}
    assert here.client.post("/api/sessions", json={"platform": {}}).status_code == 201


MTURK = {"workerId": "W1", "assignmentId": "A1", "hitId": "H1"}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("https://www.mturk.com", 201),
        ("https://www.mturk.com/", 201),
        ("https://workersandbox.mturk.com", 201),
        ("https://www.mturk.com.evil.example", 403),
        ("http://www.mturk.com", 403),
        ("https://evil.example/www.mturk.com", 403),
        ("https://www.mturk.com@evil.example", 403),
        ("javascript:alert", 403),
        ("//evil.example", 403),
    ],
)
def test_results_go_to_mturk_only(serve_study, host, status):
    here = serve_study(people="platform = 'mturk'")
    received = here.client.post("/api/sessions", json={"platform": {**MTURK, "turkSubmitTo": host}})
    assert received.status_code == status
    if status == 403:
        assert received.json()["error"].startswith("results are not sent to ")


def test_a_browser_lets_nobody_else_show_the_study_or_get_its_form(serve_study):
    policy = serve_study(people="platform = 'mturk'").client.get("/").headers["content-security-policy"]
    hosts = "https://*.mturk.com https://www.mturk.com https://workersandbox.mturk.com"
    assert f"form-action {hosts}; frame-ancestors {hosts}" in policy


def test_other_studies_have_no_form_at_all(prolific):
    policy = prolific.client.get("/").headers["content-security-policy"]
    assert "form-action 'none'; frame-ancestors 'none'" in policy
    session = prolific.client.get("/api/session", headers=arrive(prolific, "one")).json()
    assert session["study"]["mturk_hosts"] == []


def test_a_preview_is_no_participant(serve_study):
    here = serve_study(people="platform = 'mturk'")
    platform = {"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE", "hitId": "H1"}
    refused = here.client.post("/api/sessions", json={"platform": platform})
    assert (refused.status_code, refused.json()["error"]) == (403, "this is a preview; accept the task on MTurk first")
    assert here.client.post("/api/sessions", json={"platform": MTURK}).status_code == 201
    assert here.client.post("/api/sessions", json={"platform": {**MTURK, "assignmentId": "A2"}}).status_code == 409
