"""The same on PostgreSQL: a real server, several processes, several studies in one database."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from cosight.errors import InvalidInput
from cosight.humans.database.store import RequestError, Store
from cosight.humans.database.study_trials import study_trials
from cosight.humans.study.design import read_study

from .conftest import make_study, open_study
from .test_killed import take_part_through_kills
from .test_load import check_all_kept
from .test_store import StudyStore

pytestmark = pytest.mark.usefixtures("postgres")


@pytest.mark.parametrize(
    "kind",
    ["classify", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("timed", "2afc", "cluster", "curate"))],
)
def test_a_session_of_every_type(postgres, tmp_path, kind):
    with open_study(make_study(tmp_path, kind, name=f"session-{kind}"), postgres) as here:
        _, ended = here.take_part()
        assert ended.status_code == 200
        assert len(study_trials(here.study, here.pool, here.store))


def test_studies_in_one_database_do_not_meet(postgres, tmp_path):
    with (
        open_study(make_study(tmp_path / "a", "classify", name="first"), postgres) as one,
        open_study(make_study(tmp_path / "b", "classify", name="second"), postgres) as other,
    ):
        headers, _ = one.take_part()
        assert other.client.get("/api/session", headers=headers).status_code == 401
        assert len(study_trials(other.study, other.pool, other.store)) == 0
        trial = one.trials(one.begin())[0]
        assert other.client.get(trial["images"]["image"]).status_code == 404
        assert other.answer(other.begin(), trial).status_code == 404


def test_hostile_text_is_refused_or_kept(postgres, tmp_path):
    """PostgreSQL takes no NUL in a text, and no lone surrogate."""
    with open_study(
        make_study(tmp_path, "classify", name="hostile", people="demographics = ['age']"), postgres
    ) as here:
        headers = here.begin()
        for text in ("\x00", "'; DROP TABLE cosight_showings; --", "\U0001f98a"):
            told = here.client.post("/api/session/demographics", json={"age": text}, headers=headers)
            assert told.status_code == 200
        raw = {**headers, "Content-Type": "application/json"}
        for trial, status in (("\\u0000", 404), ("\\ud800", 400), ("x" * 22 + "\\u0000", 404)):
            body = f'{{"trial": "{trial}", "response": "tiger"}}'
            assert here.client.post("/api/answers", content=body, headers=raw).status_code == status
        assert here.client.get("/images/%00").status_code == 404
        assert here.client.get("/images/" + "A" * 22 + "0%00").status_code == 404


def test_two_stores_draw_at_the_same_time_and_share_out_the_images(postgres, tmp_path):
    """Two processes would: each has a writer of its own, the lock is the database's."""
    stores = [
        StudyStore(tmp_path, url=postgres, name="together", images=4, answers=6, distractors=0, repeats=0) for _ in "ab"
    ]

    def come(store):
        for _ in range(9):
            store.draw(store.begin())

    threads = [threading.Thread(target=come, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(stores[0].loads().values()) == {6}
    with pytest.raises(RequestError, match="all images are reserved"):
        stores[1].begin()
    for store in stores:
        store.store.close()


def test_one_answer_sent_to_two_processes_is_kept_once(postgres, tmp_path):
    one, other = (StudyStore(tmp_path, url=postgres, name="twice", answers=90) for _ in "ab")
    number = one.begin()
    trials = [showing.trial for showing in one.draw(number)]
    sent = [(store, trial) for trial in trials for store in (one, other)]
    sent += [(store, trial) for trial in reversed(trials) for store in (other, one)]  # in the opposite order too
    futures = [(trial, store.send(number, trial)) for store, trial in sent]
    stored_by = [trial for trial, future in futures if future.result(20).stored]
    assert sorted(stored_by) == sorted(trials)
    for store in (one, other):
        store.store.close()


def test_an_answer_and_its_release_never_both_happen(postgres, tmp_path):
    """One process answers while another takes back what is idle: every showing is one or the other."""
    import sqlalchemy as sa

    from cosight.humans.database.assign_trials import release_idle
    from cosight.humans.database.schema import showings

    one, other = (StudyStore(tmp_path, url=postgres, name="race", images=4, answers=50, idle=1) for _ in "ab")
    people = [one.begin() for _ in range(10)]
    handed = [(number, showing.trial) for number in people for showing in one.draw(number)]
    other.clock.now += 120

    def take_back():
        for _ in range(5):
            other.change(release_idle)

    thread = threading.Thread(target=take_back)
    futures = [one.send(*pair) for pair in handed[:10]]
    thread.start()
    futures += [one.send(*pair) for pair in handed[10:]]
    thread.join()
    kept = sum(future.exception(20) is None for future in futures)
    query = sa.select(showings.c.received, showings.c.released).where(showings.c.study == "race")
    rows = one.store.read(lambda c: c.execute(query).all())
    assert all((row.received is None) != (row.released is None) for row in rows)
    assert sum(row.received is not None for row in rows) == kept
    for store in (one, other):
        store.store.close()


@pytest.mark.parametrize(("participants", "seconds"), [(21, 0.1), pytest.param(300, 1.0, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_crowd_on_two_processes(postgres, crowds, tmp_path, participants, seconds):
    size = crowds.Size(participants=participants, answers=3, seconds=seconds)
    folder = crowds.write_study(
        tmp_path, participants=size.participants, images=size.answers, name=f"crowd-pg-{participants}"
    )
    with crowds.serve_study(folder, url=postgres, processes=2) as server:
        crowd = asyncio.run(crowds.run_crowd(server.port, size))
    check_all_kept(folder, crowd, participants=participants, images=3, url=postgres)


@pytest.mark.parametrize(
    ("people", "answers", "seconds", "kills"),
    [(12, 6, 0.05, 1), pytest.param(1002, 10, 1.0, 5, marks=pytest.mark.slow)],
)
def test_acknowledged_is_stored(postgres, crowds, tmp_path, people, answers, seconds, kills):
    size = crowds.Size(participants=people, answers=answers, seconds=seconds)
    folder = crowds.write_study(tmp_path, participants=people, images=answers, name=f"killed-{people}")
    crowd = asyncio.run(take_part_through_kills(crowds, folder, size, kills=kills, url=postgres))
    check_all_kept(folder, crowd, participants=people, images=answers, url=postgres)


def workers_of(pid):
    """The server processes that process `pid` has started."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,stat=,command="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 3) for line in listed.stdout.splitlines()]
    return [int(row[0]) for row in rows if int(row[1]) == pid and "spawn_main" in row[3] and row[2][0] != "Z"]


def test_a_killed_process_loses_nobody_and_none_outlives_the_first(postgres, crowds, tmp_path):
    size = crowds.Size(participants=12, answers=6, seconds=0.2)
    folder = crowds.write_study(tmp_path, participants=12, images=6, name="worker-pg")
    with crowds.serve_study(folder, url=postgres, processes=2) as server:
        until = time.monotonic() + 30
        while len(workers := workers_of(server.process.pid)) < 2 and time.monotonic() < until:
            time.sleep(0.1)

        def kill(crowd):
            if len(crowd.acknowledged) == 20:
                os.kill(workers[0], signal.SIGKILL)

        crowd = asyncio.run(crowds.run_crowd(server.port, size, on_answer=kill))
        check_all_kept(folder, crowd, participants=12, images=6, url=postgres)
        workers = workers_of(server.process.pid)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait(20)
        until = time.monotonic() + 30
        while (left := [pid for pid in workers if is_running(pid)]) and time.monotonic() < until:
            time.sleep(0.1)
        assert workers
        assert left == []


def is_running(pid):
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(listed.stdout.strip()) and not listed.stdout.startswith("Z")


@pytest.fixture(scope="module")
def guarded(postgres):
    """The URL of the same server for a user who needs a password, which the URL does not have."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("create role guarded login superuser password 'my-secret:word'")
        (file,) = connection.execute("show hba_file").fetchone()
        rules = Path(file).read_text()
        Path(file).write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{rules}")
        connection.execute("select pg_reload_conf()")
    url = postgres.replace("//cosight@", "//guarded@")
    until = time.monotonic() + 10
    while time.monotonic() < until:  # until the server has read its rules again
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            break
        time.sleep(0.05)
    return url


@pytest.mark.parametrize("variable", ["PGPASSWORD", "PGPASSFILE"])
def test_the_password_comes_from_where_psql_looks_for_it(guarded, tmp_path, monkeypatch, variable):
    file = tmp_path / "passwords"
    file.touch(0o600)
    file.write_text("127.0.0.1:*:*:guarded:my-secret\\:word\n")
    folder = make_study(tmp_path, "classify", name=f"guarded-{variable.lower()}")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    with pytest.raises(InvalidInput, match="no password supplied"):
        Store.open(read_study(folder), guarded)
    monkeypatch.setenv(variable, "my-secret:word" if variable == "PGPASSWORD" else str(file))
    Store.open(read_study(folder), guarded).close()


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ("guarded:my-wrong%3Asecret", "password authentication failed"),
        ("guarded:my@wrong-secret", "several @; write those of the password as %40"),
        ("guarded:my@wrong/secret", "several @; write those of the password as %40"),
    ],
)
def test_no_message_has_a_password(guarded, tmp_path, cosight, user, reason):
    folder = make_study(tmp_path, "classify")
    done = cosight("study", "status", folder, "--db", guarded.replace("//guarded@", f"//{user}@"))
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert reason in done.err
    assert not re.search("secret|wrong", done.err.replace(str(tmp_path), ""))
