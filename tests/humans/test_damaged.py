"""Databases that are damaged, removed or replaced: one line, no traceback, and no answer that nobody would find."""

from __future__ import annotations

import logging
import shutil
import sqlite3

import pytest

from .conftest import make_study, open_study

COMMANDS = (("status",), ("quality",), ("export", "out.parquet"))
DATABASE = "answers.sqlite"


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """A study that two people took part in."""
    folder = make_study(tmp_path_factory.mktemp("answered"), "classify", people="demographics = ['age']")
    with open_study(folder) as here:
        for _ in range(2):
            here.take_part()
    return folder.parent


@pytest.fixture
def study(answered, tmp_path, monkeypatch):
    shutil.copytree(answered, tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home" / "study"


def run_all(cosight, study):
    """Every command that opens the database, the server too: what each printed as its one line."""
    from cosight.errors import InvalidInput
    from cosight.humans.web.server import serve

    lines = []
    for command, *arguments in COMMANDS:
        done = cosight("study", command, study, *arguments)
        assert (done.code, done.out) == (2, "")
        lines.append(done.err)
    with pytest.raises(InvalidInput) as refused:
        serve(study, port=0, announce=lambda addresses: pytest.fail("it was served"))
    lines.append(f"{refused.value}\n")
    assert all(line.count("\n") == 1 for line in lines), lines
    return lines


@pytest.fixture(autouse=True)
def _page_is_built(monkeypatch):
    from cosight.humans.web import server

    monkeypatch.setattr(server, "static_files", lambda: {"index.html": b""})


def test_a_schema_whose_text_is_damaged(cosight, study):
    file = study / DATABASE
    content = file.read_bytes()
    damaged = content.replace(b"cosight_showings", b"cosight_\xe8howings")  # SQLite's message quotes the name
    file.write_bytes(damaged.replace(b"CREATE TABLE cosight_\xe8", b"CREATE TABLE (osight_\xe8"))
    assert all("its schema is damaged" in line for line in run_all(cosight, study))


def test_a_file_that_is_no_database(cosight, study):
    (study / DATABASE).write_bytes(b"PK\x03\x04" * 3000)
    assert all("file is not a database" in line for line in run_all(cosight, study))


def test_a_file_that_is_cut_off(cosight, study):
    whole = (study / DATABASE).read_bytes()
    (study / DATABASE).write_bytes(whole[: len(whole) // 2])
    assert all("malformed" in line for line in run_all(cosight, study))


def test_pages_that_were_overwritten(cosight, study):
    """The rows on them would be missing without a word."""
    content = bytearray((study / DATABASE).read_bytes())
    at = content.rindex(b"tiger")
    content[at - at % 4096 : at - at % 4096 + 40] = bytes(40)
    (study / DATABASE).write_bytes(content)
    assert all(f"cannot use the database of {study}" in line for line in run_all(cosight, study))


@pytest.mark.parametrize(
    "change",
    [
        "update cosight_showings set response = '{' where position = 0",
        "update cosight_showings set arrangement = 'x' where position = 0",
        "update cosight_showings set item = 'elsewhere' where position = 0",
        "update cosight_showings set received = 1e300 where position = 0",
        "update cosight_showings set rt = 'soon' where position = 0",
        "update cosight_showings set role = 'other' where position = 0",
        "update cosight_showings set response = cast(x'ff' as text) where position = 0",
    ],
)
def test_rows_that_no_study_wrote(cosight, study, change):
    with sqlite3.connect(study / DATABASE) as connection:
        connection.execute(change)
    connection.close()
    for command, *arguments in COMMANDS[1:]:
        done = cosight("study", command, study, *arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err.count("\n") == 1
        assert f"the database of {study}" in done.err
    assert not list(study.parent.parent.glob("out*"))


def test_a_roster_that_no_study_wrote(cosight, study):
    with sqlite3.connect(study / DATABASE) as connection:
        connection.execute("update cosight_participants set demographics = '[1]'")
    connection.close()
    done = cosight("study", "export", study, "out.parquet", "--participants", "--all")
    assert (done.code, done.out) == (2, "")
    assert "a row that the study did not write" in done.err


@pytest.mark.parametrize("names", [("answers.sqlite",), ("answers.sqlite", "answers.sqlite-wal", "answers.sqlite-shm")])
@pytest.mark.parametrize("replaced", [False, True])
def test_an_answer_to_a_file_that_is_gone_is_not_acknowledged(tmp_path, caplog, names, replaced):
    folder = make_study(tmp_path, "classify")
    with open_study(folder) as here:
        headers = here.begin()
        first, second, *_ = here.trials(headers)
        assert here.answer(headers, first).json()["stored"]
        for name in names:
            (folder / name).rename(tmp_path / name)
            if replaced:
                shutil.copyfile(tmp_path / name, folder / name)
        with caplog.at_level(logging.WARNING, "cosight.study"):
            refused = here.answer(headers, second)
            other = here.client.post("/api/session/consent", json={"agreed": True}, headers=headers)
        assert (refused.status_code, other.status_code) == (503, 503)
        assert str(tmp_path) not in refused.text
        assert caplog.text.count("answers.sqlite was removed or replaced while the study is served") == 2
        assert "Traceback" not in caplog.text
        if not replaced:
            assert not (folder / "answers.sqlite").exists()  # nothing new where the old one was
        for name in names:  # the experimenter notices and puts it back: the page's next attempt succeeds
            (tmp_path / name).rename(folder / name)
        assert here.answer(headers, second).status_code == 200
        assert second["trial"] not in {trial["trial"] for trial in here.trials(headers)}
    with sqlite3.connect(folder / DATABASE) as connection:
        count = connection.execute("select count(*) from cosight_showings where received is not null").fetchone()
    connection.close()
    assert count == (2,)


def test_a_database_that_fails_while_serving_is_one_line_in_the_log(tmp_path, caplog):
    with open_study(make_study(tmp_path, "classify")) as here:
        headers = here.begin()
        trial = here.trials(headers)[0]
        with sqlite3.connect(here.study.root / DATABASE) as connection:
            connection.execute("alter table cosight_showings rename to elsewhere")
        connection.close()
        with caplog.at_level(logging.WARNING, "cosight.study"):
            answers = [here.answer(headers, trial), here.client.get("/api/trials", headers=headers)]
        assert [one.status_code for one in answers] == [503, 503]
        assert {one.json()["error"] for one in answers} == {"something went wrong on the server; try again"}
    assert caplog.text.count("503, the database failed: no such table: cosight_showings") == 2
    assert "Traceback" not in caplog.text
