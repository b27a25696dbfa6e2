"""The configuration and the commands of the hosting guide, run as printed, except those of Docker and Caddy."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from cosight.cli.app import app

from .conftest import make_study

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "hosting.md").read_text()
NAME = "study.example.org"


def block(beginning):
    """The block of the page that begins with these words."""
    (found,) = [text for text in re.findall(r"```\w+\n(.*?)```", PAGE, re.DOTALL) if text.startswith(beginning)]
    return found


def need(*programs):
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@contextmanager
def nginx(home, upstream):
    """The documented server with a certificate of our own, on a loopback port."""
    port, certificate, key = free_port(), home / "fullchain.pem", home / "privkey.pem"
    subject = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    server = block("server {").replace("listen 443", f"listen 127.0.0.1:{port}")
    server = server.replace("127.0.0.1:8000", f"127.0.0.1:{upstream}")
    server = server.replace(f"/etc/letsencrypt/live/{NAME}", str(home)).replace("/var/log/nginx", str(home))
    (home / "nginx.conf").write_text(
        f"pid {home}/nginx.pid;\nerror_log {home}/error.log;\nevents {{}}\nhttp {{\n"
        f"client_body_temp_path {home}/body;\nproxy_temp_path {home}/proxy;\n{server}}}\n"
    )
    process = subprocess.Popen(["nginx", "-e", home / "error.log", "-c", home / "nginx.conf", "-g", "daemon off;"])
    until = time.monotonic() + 20
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    try:
        yield port, certificate
    finally:
        os.kill(process.pid, signal.SIGQUIT)
        process.wait(20)


@pytest.mark.slow
def test_nginx_with_tls(crowds, tmp_path):
    need("nginx", "openssl")
    folder = crowds.write_study(tmp_path, participants=3, images=2)
    with crowds.serve_study(folder) as server, nginx(tmp_path, server.port) as (port, certificate):
        context = ssl.create_default_context(cafile=certificate)
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=context, trust_env=False) as client:

            def call(method, path, **more):
                extensions = {"sni_hostname": NAME}  # the certificate is for this name
                return client.request(method, path, headers=headers, extensions=extensions, **more)

            headers = {"Host": NAME}
            token = call("POST", "/api/sessions", json={"platform": {}}).json()["token"]
            headers["Authorization"] = f"Bearer {token}"
            assert call("POST", "/api/session/consent", json={"agreed": True}).status_code == 200
            trials = call("GET", "/api/trials").json()["trials"]
            for trial in trials:
                image = call("GET", trial["images"]["image"])
                assert (image.status_code, image.headers["content-type"]) == (200, "image/png")
                answer = {"trial": trial["trial"], "response": "tiger", "rt": 0.5, "shown": None, "input": "key"}
                assert call("POST", "/api/answers", json=answer).json()["stored"]
            assert call("POST", "/api/finish").json()["code"]
            page = call("GET", "/")
            assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
            assert call("POST", "/api/answers", json={"pad": "x" * 70_000}).status_code == 413  # of nginx
            assert call("GET", "/api/admin/state").status_code == 401
            admin = (folder / "admin-token").read_text().strip()
            headers["Authorization"] = f"Bearer {admin}"
            assert call("GET", "/api/admin/state").json()["participants"]["finished"] == 1
    logged = (tmp_path / "error.log").read_text() + (tmp_path / "study.log").read_text()
    assert "client" not in logged  # it would have an address


@pytest.mark.slow
def test_the_unit_of_systemd(tmp_path):
    need("systemd-analyze")
    unit = block("[Service]").replace("/home/study/venv/bin/cosight", "/bin/true").replace("User=study", "User=root")
    (tmp_path / "survey.service").write_text(unit)
    checked = subprocess.run(["systemd-analyze", "verify", tmp_path / "survey.service"], capture_output=True, text=True)
    assert "survey.service" not in checked.stderr, checked.stderr


def commands():
    sqlite, postgres = block("sqlite3 ").splitlines()
    return sqlite, postgres


@pytest.mark.slow
def test_a_backup_of_sqlite_while_answers_come(crowds, tmp_path):
    need("sqlite3")
    folder = crowds.write_study(tmp_path, participants=3, images=2, name="survey")
    with crowds.serve_study(folder) as server, httpx.Client(base_url=f"http://127.0.0.1:{server.port}") as client:
        headers = {"Authorization": f"Bearer {client.post('/api/sessions', json={'platform': {}}).json()['token']}"}
        client.post("/api/session/consent", json={"agreed": True}, headers=headers)
        for trial in client.get("/api/trials", headers=headers).json()["trials"]:
            answer = {"trial": trial["trial"], "response": "tiger", "rt": 0.5, "shown": None, "input": "key"}
            assert client.post("/api/answers", json=answer, headers=headers).json()["stored"]
        subprocess.run(commands()[0], shell=True, check=True, cwd=tmp_path)
    copy = f"sqlite:///{tmp_path / 'backup.sqlite'}"
    shown = CliRunner().invoke(app, ["study", "status", str(folder), "--db", copy, "--json"])
    assert shown.exit_code == 0, shown.output
    assert '"given": 2' in shown.output or '"answers": 2' in shown.output


@pytest.mark.slow
def test_a_backup_of_postgresql(postgres, tmp_path):
    need("pg_dump", "pg_restore")
    from .conftest import open_study

    with open_study(make_study(tmp_path, "classify", name="dumped"), postgres) as here:
        here.take_part()
        subprocess.run(commands()[1], shell=True, check=True, cwd=tmp_path, env={**os.environ, "COSIGHT_DB": postgres})
    listed = subprocess.run(["pg_restore", "--list", tmp_path / "backup.dump"], capture_output=True, text=True)
    for table in ("studies", "participants", "showings", "screening"):
        assert f"TABLE DATA public cosight_{table}" in listed.stdout
