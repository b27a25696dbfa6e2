"""What nobody may do: be refused in one line, logged without address or token, and told nothing."""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
import time

import pytest
import sqlalchemy as sa
import uvicorn

from cosight.errors import InvalidInput
from cosight.humans.database.schema import showings
from cosight.humans.web.admin import admin_token

from .conftest import ADMIN, CLASSES, make_study, open_study

KINDS = ("classify", "timed", "2afc", "cluster", "curate")
ROUTES = [
    ("GET", "/api/session"),
    ("POST", "/api/session/consent"),
    ("POST", "/api/session/demographics"),
    ("POST", "/api/session/calibration"),
    ("GET", "/api/trials"),
    ("POST", "/api/answers"),
    ("POST", "/api/finish"),
]
ADMIN_ROUTES = [
    ("GET", "/api/admin/state"),
    ("POST", "/api/admin/pause"),
    ("POST", "/api/admin/resume"),
    ("GET", "/api/admin/export"),
]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """One study for all that is refused and changes nothing."""
    with open_study(make_study(tmp_path_factory.mktemp("shared"), "classify", answers=1000)) as one:
        yield one


@pytest.fixture(scope="module", params=KINDS)
def each(request, tmp_path_factory):
    """The same for a study of each type."""
    with open_study(make_study(tmp_path_factory.mktemp(request.param), request.param, answers=1000)) as one:
        yield one


@pytest.mark.parametrize(("method", "path"), [*ROUTES, *ADMIN_ROUTES])
@pytest.mark.parametrize("value", [None, "", "Bearer", "Bearer ", "Basic abc", "Bearer guessed", "Bearer \xe9"])
def test_without_a_token_nothing(here, method, path, value):
    headers = {} if value is None else {"Authorization": value.encode("latin-1")}
    refused = here.client.request(method, path, headers=headers, **({"json": {}} if method == "POST" else {}))
    assert refused.status_code == 401
    assert set(refused.json()) == {"error"}


@pytest.mark.parametrize(("method", "path"), ADMIN_ROUTES)
def test_a_participants_token_opens_no_experimenters_door(here, method, path, caplog):
    headers = here.begin()
    with caplog.at_level(logging.WARNING, "cosight.study"):
        assert here.client.request(method, path, headers=headers).status_code == 401
    assert f"refused {method} {path}: 401" in caplog.text
    assert headers["Authorization"].split()[1] not in caplog.text
    admin = {"Authorization": f"Bearer {ADMIN}"}
    assert here.client.get("/api/session", headers=admin).status_code == 401
    assert not here.client.get("/api/admin/state", headers=admin).json()["paused"]


def test_anothers_trials_cannot_be_answered_or_seen(each):
    one, other = each.begin(), each.begin()
    trial = each.trials(one)[0]
    refused = each.answer(other, trial)
    made_up = each.answer(other, {**trial, "trial": "A" * 22})
    assert (refused.status_code, refused.json()) == (made_up.status_code, made_up.json())
    assert refused.status_code == 404
    assert trial["trial"] not in json.dumps(each.trials(other))
    assert each.answer(one, trial).json()["stored"]


def test_ids_cannot_be_guessed(serve_study):
    """Names are long, random and never the same, also for the same image shown twice."""
    here = serve_study(repeats=4)
    names = [trial["trial"] for _ in range(3) for trial in here.trials(here.begin())]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[\w-]{22}", name) for name in names)  # 16 random bytes in base 64
    addresses = [f"/images/{name}00" for name in names]
    assert all(here.client.get(address).status_code == 200 for address in addresses)


@pytest.mark.parametrize(
    "name",
    [
        "0" * 24, "A" * 22 + "00", "00", "x", "{trial}", "{trial}99", "{trial}{{after}}", "{trial}0", "{trial}-1",
        "{trial}\N{ARABIC-INDIC DIGIT ONE}1", "{item}", "{file}", "p0001", "1", "%00", "{trial}00%00", "*", "%25",
        "_" * 5000,
    ],
)  # fmt: skip
def test_addresses_that_were_never_made_show_nothing(each, name):
    trial = each.trials(each.begin())[0]
    item = next(iter(each.pool.items.values()))
    made_up = name.format(trial=trial["trial"], item=item.item, file=item.slots[0].file.name)
    made_up = made_up.replace("{after}", f"{len(item.slots):02d}")
    refused = each.client.get(f"/images/{made_up}")
    assert refused.status_code == 404
    assert refused.json()["error"] in ("there is no such image", "there is nothing each")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_tells_the_truth_the_condition_or_a_check(serve_study, kind):
    """All that a participant is ever sent, from beginning to end: only labels name classes, and trials look alike."""
    here = serve_study(kind, more="")
    sent = []
    here.client.event_hooks = {"response": [lambda response: sent.append((response, response.read()))]}
    headers, _ = here.take_part()
    del sent[:]
    headers = here.begin()
    trials = here.trials(headers)
    for trial in trials:
        here.answer(headers, trial)
    for trial in trials:
        for urls in trial["images"].values():
            for url in urls if isinstance(urls, list) else [urls]:
                here.client.get(url)
    here.client.post("/api/finish", headers=headers)
    told = here.client.get("/api/session", headers=headers).json()
    assert told["study"].pop("texts")
    assert [label["name"] for label in told["study"].pop("labels")] == list(
        here.study.space.answers if here.study.space else ()
    )
    assert not re.search("secret-name|role|truth|condition|distractor|gold|check", json.dumps(told))
    del sent[-1]
    words = ["secret-name", "distractor", "gold", "warmup", "repeat", "expected", "condition", "truth", "dark"]
    words += [name for item in here.pool.items for name in (item,)] + ["panel-0", "task-", "role", "check"]
    if kind != "curate":  # curators are told what an image is meant to show
        words += list(CLASSES)
    assert len(sent) > len(trials)
    for response, body in sent:
        told = " ".join(f"{key}: {value}" for key, value in response.headers.items())
        if not response.headers["content-type"].startswith("image/"):
            told += body.decode()
        assert not [word for word in words if word in told], (response.request.url, told[:300])
    shapes = {json.dumps(_shape(trial)) for trial in trials if not trial["break"]}
    assert len(shapes) == 1
    answers = {len(body) for response, body in sent if response.request.url.path == "/api/answers"}
    assert len(answers) == 1 or kind == "timed"  # there the last answer of a block tells the bonus


def first_address(trial):
    """The address of a picture of a trial."""
    address = next(iter(trial["images"].values()))
    return address[0] if isinstance(address, list) else address


def _shape(value):
    """The same structure with the length of each text in its place."""
    if isinstance(value, dict):
        return {key: _shape(inner) for key, inner in value.items() if key not in ("number", "title")}
    if isinstance(value, list):
        return [_shape(inner) for inner in value]
    return len(value) if isinstance(value, str) else type(value).__name__


def test_the_same_answer_to_a_check_and_to_a_test_looks_alike(each):
    """Headers too: names and sizes of everything that comes back."""
    headers = each.begin()
    seen = set()
    for trial in each.trials(headers):
        response = each.answer(headers, trial)
        if response.json()["block"] is None:  # the last answer of a timed block tells the bonus
            seen.add(json.dumps(sorted((key, value) for key, value in response.headers.items() if key != "date")))
    assert len(seen) == 1


def test_images_tell_nothing_of_their_files(each):
    trial = each.trials(each.begin())[0]
    image = each.client.get(first_address(trial))
    assert image.headers["cache-control"].startswith("private")
    assert not {"etag", "last-modified", "content-disposition", "server"} & image.headers.keys()
    assert image.headers["content-type"] == "image/png"


def test_headers_of_everything(each):
    headers = each.begin()
    trial = each.trials(headers)[0]
    for path in (
        "/",
        "/admin",
        "/static/page.js",
        "/api/session",
        "/nowhere",
        first_address(trial),
        "/api/admin/state",
    ):
        got = each.client.get(path, headers=headers).headers
        policy = got["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert (got["x-content-type-options"], got["referrer-policy"]) == ("nosniff", "no-referrer")
        assert "cache-control" in got
    assert each.client.get("/api/session", headers=headers).headers["cache-control"] == "no-store"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(here, method):
    refused = here.client.request(method, "/api/answers")
    assert refused.status_code == 405
    assert set(refused.json()) == {"error"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"null", 400),
        (b"[]", 400),
        (b'"text"', 400),
        (b"\xff\xfe", 400),
        (b'{"trial": NaN}', 400),
        (b'{"trial": "AAAAAAAAAAAAAAAAAAAAAA", "response": "tiger", "rt": Infinity}', 400),
        (b'{"trial": "AAAAAAAAAAAAAAAAAAAAAA", "response": "tiger", "rt": -Infinity}', 400),
        (b'{"trial": "AAAAAAAAAAAAAAAAAAAAAA", "response": "tiger", "rt": 1e999}', 400),
        (b'{"trial": "AAAAAAAAAAAAAAAAAAAAAA", "response": "tiger", "rt": ' + b"9" * 5000 + b"}", 400),
        (b"[" * 60_000, 400),
        (b'{"a":' * 900 + b"1" + b"}" * 900, 400),
        (b'{"trial": ["x"], "response": "tiger"}', 400),
        (b'{"trial": "x\\u0000", "response": "tiger"}', 404),
        (b'{"trial": "\\ud800", "response": "tiger"}', 400),
        (b'{"trial": "x", "response": "tiger", "pad": "' + b"x" * 70_000 + b'"}', 413),
    ],
    ids=range(17),
)
def test_bodies_that_are_not_answers(each, body, status):
    headers = {**each.begin(), "Content-Type": "application/json"}
    refused = each.client.post("/api/answers", content=body, headers=headers)
    assert refused.status_code == status
    assert set(refused.json()) == {"error"}
    assert "\n" not in refused.json()["error"]
    assert each.trials(headers)  # the server is well


NO_ANSWER = [3, True, ["tiger"], {"keep": True}, "unicorn", "", "left", "Tiger", "<script>", "x" * 30_000, {"tiger": 1}]
NO_ANSWERS = {
    "classify": [None, *NO_ANSWER],
    "timed": NO_ANSWER,  # null: the time ran out
    "2afc": [None, 0, True, "tiger", "Left", "left ", "both", ["left"], {"left": True}, "<script>", "x" * 30_000],
    "cluster": [None, 0, "000", [], [0, 0], [0] * 4, [0, 0, 3], [0, 0, -1], [0, 0, 1.0], [0, 0, True], [0, 0, None],
                [0, 0, "0"], [[0], 0, 0], {"0": 0}, [0] * 20_000, [10**400, 0, 0]],
    "curate": [None, True, "keep", {}, {"keep": False}, {"keep": 1}, {"keep": True, "reason": "wrong class"},
               {"keep": False, "reason": "other"}, {"keep": False, "reason": ["wrong class"]},
               {"keep": False, "reason": {}}, {"keep": True, "more": 1}, [True]],
}  # fmt: skip


def test_responses_that_are_no_answer(each):
    headers = each.begin()
    trial = each.trials(headers)[0]
    for response in NO_ANSWERS[each.study.type]:
        body = {"trial": trial["trial"], "response": response, "rt": 1.0, "shown": None, "input": "key"}
        refused = each.client.post("/api/answers", json=body, headers=headers)
        assert refused.status_code == 400, response
        assert len(refused.text) < 400
    assert each.answer(headers, trial).json()["stored"]


NOT_MEASURED = [
    {"rt": -0.001}, {"rt": "1"}, {"rt": True}, {"rt": [1]}, {"rt": 1e7}, {"rt": None}, {"input": "mind"},
    {"input": 1}, {"input": ["key"]}, {"shown": []}, {"shown": "now"}, {"shown": {"onset": -1.0}},
    {"shown": {"onset": "0"}}, {"shown": {"exposure": True}}, {"shown": {"frame": {}}}, {"shown": {"offset": 1e300}},
    {"shown": {"late": 1}}, {"shown": {"windowed": "no"}}, {"shown": {"late": None}}, {"shown": {"truth": "tiger"}},
    {"shown": {"onset": 0.0, "<script>": 1.0}},
]  # fmt: skip


def test_times_and_devices_that_nobody_measured(each):
    headers = each.begin()
    trial = each.trials(headers)[0]
    for more in NOT_MEASURED:
        refused = each.answer(headers, trial, **more)
        assert (refused.status_code, set(refused.json())) == (400, {"error"}), more
        assert "\n" not in refused.json()["error"]
    assert each.answer(headers, trial).json()["stored"]


def test_an_answer_cannot_be_changed_or_given_for_a_trial_of_another_study(each, here):
    headers, other = each.begin(), here.begin()
    trial = each.trials(headers)[0]
    assert here.answer(other, {**here.trials(other)[0], "trial": trial["trial"]}).status_code == 404
    assert each.answer(headers, trial).json()["stored"]
    changed = {"2afc": "right", "cluster": [1, 1, 1], "curate": {"keep": False, "reason": "bad quality"}}
    again = each.answer(headers, trial, changed.get(each.study.type, "bear"))
    assert (again.status_code, again.json()["stored"]) == (200, False)
    row = each.store.read(
        lambda c: c.execute(sa.select(showings.c.response).where(showings.c.trial == trial["trial"])).scalar_one()
    )
    assert json.loads(row) == each.response(trial)


@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_only_json_is_read(here, content_type):
    headers = {**here.begin(), **({"Content-Type": content_type} if content_type else {})}
    assert here.client.post("/api/answers", content=b"{}", headers=headers).status_code == 415


def test_script_in_free_text_stays_text(serve_study, caplog):
    """It is stored as it was written, and no page or log line carries it as markup or as a new line."""
    import sqlalchemy as sa

    from cosight.humans.database.schema import participants

    here = serve_study(people="demographics = ['gender']")
    headers = here.begin()
    script = "<script>alert(1)</script>\n\u2028'; DROP TABLE cosight_participants; -- \x00 \U0001f98a"
    told = here.client.post("/api/session/demographics", json={"gender": script}, headers=headers)
    assert told.status_code == 200
    stored = here.store.read(lambda c: c.execute(sa.select(participants.c.demographics)).scalar_one())
    assert json.loads(stored) == {"gender": script}
    for path in ("/", "/admin", "/api/session"):
        assert "<script>alert" not in here.client.get(path, headers=headers).text
    refused = here.answer(headers, here.trials(headers)[0], "<script>\nforged line")
    assert refused.headers["content-type"] == "application/json"
    assert len(caplog.text.strip().splitlines()) == 1


def test_half_a_character_is_refused(serve_study):
    """JSON can spell one half of a pair; no table could hold it, and nobody else's answers could be read."""
    here = serve_study(people="demographics = ['gender']")
    headers = {**here.begin(), "Content-Type": "application/json"}
    told = here.client.post("/api/session/demographics", content=b'{"gender": "\\ud800"}', headers=headers)
    assert (told.status_code, told.json()) == (400, {"error": "the body is not JSON that can be read"})


def test_who_says_to_be_simulated_gets_no_code_of_the_platform(serve_study):
    url = "https://platform.example/complete?cc=C1A2B3"
    here = serve_study(people=f"platform = 'prolific'\ncompletion_code = 'C1A2B3'\ncompletion_url = '{url}'")
    headers, ended = here.take_part(simulated="panel")
    assert "C1A2B3" not in ended.text
    assert "C1A2B3" not in here.client.get("/api/session", headers=headers).text
    _, ended = here.take_part(platform={"PROLIFIC_PID": "5f3e"})
    assert ended.json() == {"code": "C1A2B3", "url": url}


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe"])
def test_a_token_that_nobody_can_show_is_told(tmp_path, content):
    (tmp_path / "admin-token").write_bytes(content)
    with pytest.raises(InvalidInput, match="must hold the experimenter's token, got none; remove it"):
        admin_token(tmp_path)


def test_refusals_are_logged_without_path_or_token(here, caplog):
    with caplog.at_level(logging.WARNING, "cosight.study"):
        here.client.get("/made/up?secret=1", headers={"Authorization": "Bearer my-own-token"})
        here.client.get("/api/session", headers={"Authorization": "Bearer my-own-token"})
        here.client.get("/images/my-own-address")
    text = caplog.text
    assert "refused GET an unknown path: 404" in text
    assert "refused GET /api/session: 401" in text
    assert "refused GET /images/{name}: 404" in text
    assert not re.search(r"my-own|made|127\.0\.0\.1|testclient", text)


@pytest.fixture(scope="module")
def send(here):
    """The study on a real port: a function that sends raw bytes and gives back what comes."""
    listening = socket.create_server(("127.0.0.1", 0))
    options = {
        "access_log": False,
        "server_header": False,
        "lifespan": "off",
        "log_level": "warning",
        "log_config": None,
    }
    server = uvicorn.Server(uvicorn.Config(here.client.app, **options))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = listening.getsockname()[1]
    yield lambda data, hang_up=False: exchange(port, data, hang_up)
    server.should_exit = True
    thread.join(10)
    listening.close()


def exchange(port, data, hang_up):
    """All that comes back until the server hangs up; nothing where we hang up first."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        try:
            connection.sendall(data)
            while not hang_up and (part := connection.recv(65536)):
                got += part
        except ConnectionResetError:  # it hung up before it had read everything
            pass
    return got


def test_an_upload_that_breaks_off_is_one_line_in_the_log(here, send, caplog):
    headers = here.begin()
    head = f"POST /api/answers HTTP/1.1\r\nHost: x\r\nAuthorization: {headers['Authorization']}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    with caplog.at_level(logging.WARNING):
        send(head.encode() + b'{"trial":', hang_up=True)
        until = time.monotonic() + 10
        while "refused" not in caplog.text and time.monotonic() < until:
            time.sleep(0.01)
    assert "POST /api/answers: 400, the connection was closed before the body was complete" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/../../../../../../../../etc/passwd",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static/..%5cserver.py",
        "/static/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/static/....//....//etc/passwd",
        "/static//etc/passwd",
        "/static/%00/etc/passwd",
        "/static/page.js%00.txt",
        "/images/../../study.toml",
        "/images/..%2f..%2fadmin-token",
        "/images/%2fetc%2fpasswd",
        "/../../etc/passwd",
        "//etc/passwd",
        "/static/icons/../../__init__.py",
        "/api/admin/../admin/state",
    ],
)
def test_paths_lead_nowhere(send, path):
    got = send(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.split()[1] in (b"404", b"400", b"401")
    assert b"root:" not in got
    assert b"import" not in body
    assert b"server:" not in head.lower()


def test_too_much_is_refused_while_it_comes(here, send):
    """The head promises a gigabyte, chunks promise nothing: both are refused after some 64 kB, long before the end."""
    token = here.begin()["Authorization"]
    head = f"POST /api/answers HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\nContent-Type: application/json\r\n"
    promised = send(f"{head}Content-Length: 1000000000\r\n\r\n".encode() + b"x" * 70_000)
    assert promised.split()[1] == b"413"
    chunk = b"2000\r\n" + b"x" * 0x2000 + b"\r\n"
    endless = send(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk * 9)
    assert endless.split()[1] == b"413"
    assert here.trials({"Authorization": token})


@pytest.mark.parametrize(
    "data",
    [b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET\r\n\r\n", b"A" * 70_000 + b"\r\n\r\n"],
    ids=range(3),
)
def test_what_is_not_http_is_refused(here, send, data):
    assert send(data).split()[1] in (b"400", b"431", b"505")
    assert here.begin()


def test_the_experimenters_token_is_compared_in_constant_time(here, monkeypatch):
    import hmac

    compared = []
    real = hmac.compare_digest
    monkeypatch.setattr(
        "cosight.humans.web.admin.hmac.compare_digest", lambda a, b: compared.append((a, b)) or real(a, b)
    )
    assert here.client.get("/api/admin/state", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert compared == [(b"wrong", ADMIN.encode())]
