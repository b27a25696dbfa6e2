"""`cosight study new`, `serve` and `status`: what can go wrong, in one line; and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cosight.cli.study.lifecycle import new, serve, status
from cosight.errors import InvalidInput
from cosight.humans.study.design import read_study
from cosight.humans.web import server

from .conftest import LABELS, STATIC, make_stimuli, make_study, open_study

app = typer.Typer()
app.command("new")(new)
app.command("serve")(serve)
app.command("status")(status)


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture
def built(monkeypatch):
    """As if the page were built."""
    monkeypatch.setattr(server, "static_files", lambda: STATIC)


def refused(folder, **options):
    with pytest.raises(InvalidInput) as error:
        server.serve(folder, announce=lambda addresses: pytest.fail("it was served"), **options)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.usefixtures("built")
def test_a_port_in_use(tmp_path):
    folder = make_study(tmp_path, "classify")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in refused(folder, port=port)
    assert "cannot listen on no.such.host.invalid" in refused(folder, host="no.such.host.invalid")


@pytest.mark.usefixtures("built")
def test_several_processes_on_sqlite(tmp_path):
    assert "several processes need PostgreSQL, got processes = 2" in refused(
        make_study(tmp_path, "classify"), processes=2
    )


def test_a_page_that_is_not_built(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "__file__", str(tmp_path / "server.py"))
    assert "the participants' page is not built; run `npm ci" in refused(make_study(tmp_path, "classify"))


@pytest.mark.usefixtures("built")
def test_images_that_are_gone(tmp_path):
    folder = make_study(tmp_path, "classify")
    for file in (tmp_path / "set" / "images").iterdir():
        file.unlink()
    assert "12 images do not exist, the first is" in refused(folder)


@pytest.mark.usefixtures("built")
def test_no_study_at_all(tmp_path):
    assert "study.toml does not exist" in refused(tmp_path)


def test_addresses_say_where(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        found = server._make_addresses(listening, "127.0.0.1", "abc")
        assert found.participants == f"http://127.0.0.1:{port}/"
        assert found.experimenter == f"http://127.0.0.1:{port}/admin#token=abc"
        assert server._make_addresses(listening, "::1", "abc").participants == f"http://[::1]:{port}/"


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_every_address_is_told_as_one_that_others_can_open(host):
    """The address is this machine's, so that whoever opens it reaches the listener."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with listening:
        found = server._make_addresses(listening, host, "abc").participants
        name, port = found.removeprefix("http://").rstrip("/").rsplit(":", 1)
        assert name.strip("[]") not in ("0.0.0.0", "::", "")
        with socket.create_connection((name.strip("[]"), int(port)), timeout=10):
            listening.accept()[0].close()


def test_reading_a_study_does_not_replace_the_design_that_is_served(tmp_path):
    folder = make_study(tmp_path, "classify")
    with open_study(folder) as here:
        headers = here.begin()
        trials = here.trials(headers)
        make_study(tmp_path, "classify", distractors=1)  # edited while it is served
        assert run("status", folder).exit_code == 0
        assert here.trials(headers) == trials
        assert here.answer(headers, trials[0]).json()["stored"]


def test_status_counts(tmp_path):
    folder = make_study(tmp_path, "classify")
    empty = run("status", folder)
    assert (empty.exit_code, empty.output.splitlines()[0]) == (0, "small: open, 0 of 36 answers by people")
    with open_study(folder) as here:
        here.take_part()
        here.begin()
    told = json.loads(run("status", folder, "--json").output)
    assert told["participants"] == {"started": 2, "active": 1, "finished": 1, "released": 0}
    assert (told["given"], told["wanted"], told["simulated"]) == (4, 36, False)
    lines = run("status", folder).output.splitlines()
    assert lines[1] == "2 started, 1 active, 1 finished, 0 left"
    assert lines[2] == "12 images with 0 to 1 answers, 3 wanted"


def test_the_database_may_be_named_outside_the_command_line(tmp_path, monkeypatch):
    """Other users of the machine can read command lines, and a URL may have a password."""
    folder = make_study(tmp_path, "classify")
    with open_study(folder, f"sqlite:///{tmp_path / 'elsewhere.sqlite'}") as here:
        here.take_part()
    assert "0 of 36 answers" in run("status", folder).output
    monkeypatch.setenv("COSIGHT_DB", f"sqlite:///{tmp_path / 'elsewhere.sqlite'}")
    assert "4 of 36 answers" in run("status", folder).output


def test_a_backup_of_a_study_that_is_served(tmp_path):
    """SQLite's own backup has every acknowledged answer, and the server continues."""
    folder = make_study(tmp_path, "classify")
    with open_study(folder) as here:
        here.take_part()
        files = folder / "answers.sqlite", tmp_path / "backup.sqlite"
        with closing(sqlite3.connect(files[0])) as source, closing(sqlite3.connect(files[1])) as target:
            source.backup(target)
        here.take_part()
    assert "4 of 36 answers" in run("status", folder, "--db", f"sqlite:///{tmp_path / 'backup.sqlite'}").output
    assert "8 of 36 answers" in run("status", folder).output


def test_status_says_when_all_are_simulated(tmp_path):
    folder = make_study(tmp_path, "classify")
    with open_study(folder) as here:
        here.take_part(simulated="panel")
        assert here.client.get("/api/admin/state", headers={"Authorization": "Bearer the-experimenter"}).json()[
            "simulated"
        ]
    assert "4 of 36 answers by simulated people" in run("status", folder).output


def test_new_writes_a_study_that_can_be_served(tmp_path):
    make_stimuli(tmp_path / "set")
    done = run("new", tmp_path / "mine", "--type", "classify", "--set", tmp_path / "set", "--labels", LABELS)
    assert done.exit_code == 0, done.output
    assert "next: cosight study serve" in done.output
    assert read_study(tmp_path / "mine").type == "classify"
    numbers = ("--images", 6, "--answers", 3)
    done = run("new", tmp_path / "two", "--type", "classify", "--set", tmp_path / "set", *numbers)
    assert done.output.splitlines()[:2] == [
        "buttons: tiger zebra camel bear (the set's classes, 4 of visalign-11; --labels visalign-11 shows all. "
        "Evaluate models with --labels tiger,zebra,camel,bear to compare them)",
        "design: 6 of 12 images per participant, 3 answers per image; complete after 6 participants or more; "
        "--pool 6 shows everybody the same images",
    ]


def test_ctrl_c_is_the_end_without_a_trace(tmp_path):
    """The command as a process: it prints both addresses, serves, and ends quietly; the token stays in its file."""
    folder = make_study(tmp_path, "classify")
    code = (
        "import typer; from cosight.humans.web import server; from cosight.cli.study.lifecycle import serve;"
        f"server.static_files = lambda: {STATIC!r};"
        "app = typer.Typer(); app.command()(serve); app(standalone_mode=False)"
    )
    command = [sys.executable, "-c", code, str(folder), "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    participants = process.stdout.readline().split()[1]
    experimenter = process.stdout.readline().split()[1]
    port = int(participants.rstrip("/").rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert "Traceback" not in err
    assert process.returncode in (0, 130, -signal.SIGINT)
    assert experimenter.endswith((Path(folder) / "admin-token").read_text().strip())
    assert not list(folder.glob("*-wal"))  # the database was closed
