"""Damaged studies: their TOML files, and databases with answers."""

import shutil
import sqlite3

import pytest

from tests.fuzz.mutations import ODD_TEXT, ODD_VALUES, damage_bytes, damage_lines
from tests.humans.conftest import make_study, open_study

DATABASE = "answers.sqlite"
KINDS = ("classify", "timed", "2afc", "curate")


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """A study of each kind that two people and a simulated one took part in."""
    home = tmp_path_factory.mktemp("studies")
    for kind in KINDS:
        with open_study(make_study(home / kind, kind, people="demographics = ['age']")) as here:
            for simulated in (None, None, "panel"):
                headers, _ = here.take_part(simulated=simulated)
                here.client.post("/api/session/demographics", json={"age": "41"}, headers=headers)
    return home


@pytest.fixture
def commands(studies, tmp_path):
    """`commands(rng, study)`: a command that reads the study."""
    export = ("export", tmp_path / "out.parquet", "--force", "--participants", "--all")

    def choose(rng, study):
        name, *arguments = (("status",), ("quality",), ("status", "--json"), export)[int(rng.integers(4))]
        return "study", name, study, *arguments

    return choose


def test_study_files(cases, fuzz, studies, commands):
    def prepare(rng):
        study = studies / KINDS[int(rng.integers(len(KINDS)))] / "study"
        target = study.with_name("damaged")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(study, target)
        file = target / ("study.toml" if rng.random() < 0.8 else "texts.toml")
        damage = damage_lines if rng.random() < 0.7 else damage_bytes
        file.write_bytes(damage(file.read_bytes(), rng))
        return commands(rng, target)

    fuzz(cases, prepare)


def test_study_databases(cases, fuzz, studies, commands):
    def prepare(rng):
        study = studies / KINDS[int(rng.integers(len(KINDS)))] / "study"
        target = study.with_name("damaged")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(study, target)
        database = target / DATABASE
        if rng.random() < 0.4:
            database.write_bytes(damage_bytes(database.read_bytes(), rng))
        else:
            with sqlite3.connect(database) as connection:
                _change_tables(connection, rng)
            connection.close()
        return commands(rng, target)

    fuzz(cases, prepare)


def _change_tables(connection, rng):
    """Replace some cells by odd values, or drop a table or a row."""
    tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
    for _ in range(int(rng.integers(1, 4))):
        table = tables[int(rng.integers(len(tables)))]
        columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
        if not columns:  # dropped before
            continue
        column, choice = columns[int(rng.integers(len(columns)))], rng.random()
        row = f"rowid = (select rowid from {table} order by rowid limit 1 offset {int(rng.integers(20))})"
        if choice < 0.05:
            connection.execute(f"drop table {table}")
        elif choice < 0.15:
            connection.execute(f"delete from {table} where {row}")
        else:
            values = [value for value in (*ODD_VALUES, *ODD_TEXT, b"\xff\x00") if not isinstance(value, list | dict)]
            value = values[int(rng.integers(len(values)))]
            if isinstance(value, int) and abs(value) >= 2**63:  # SQLite has no such numbers
                value = float(value)
            connection.execute(f"update or ignore {table} set {column} = ? where {row}", (value,))
